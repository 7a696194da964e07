//! The properties of a balancing algorithm that the rest of a backend depends on.
//!
//! Each algorithm declares its properties in its file (`balance/`). The defaults describe an algorithm without keys, turns
//! and loads. Servers and backends depend on this module for the properties. Only `balance.rs` knows the algorithms.

use crate::settings::BackendSettings;
use weir_model::HashMethod;

/// The declaration of an algorithm.
pub(crate) struct AlgorithmDecl {
    /// The keywords after `balance` that select the algorithm.
    pub(crate) words: &'static [&'static str],
    /// Whether a key of the request determines the server, regardless of load.
    pub(crate) by_key: bool,
    /// Which requests take turns. Workers can draw these without the lock.
    pub(crate) turns: TurnUse,
    /// How the algorithm applies weight changes and added servers.
    pub(crate) weights: WeightUse,
    /// Whether the algorithm orders servers by load. It is then notified of each load change.
    pub(crate) orders_by_load: bool,
    /// Whether the algorithm depends on observed traffic.
    pub(crate) weighs_traffic: bool,
    /// Whether a request waits for the other servers while they are full, instead of using the server to avoid.
    pub(crate) waits_for_others: bool,
    /// Whether the algorithm, with this numeric argument, compares the servers' request counts. All workers must then use
    /// shared counts.
    pub(crate) compares_load: fn(number: Option<u32>) -> bool,
}

/// Which requests take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnUse {
    Never,
    /// Requests without a key.
    WithoutKey,
    Always,
}

/// How an algorithm applies weight changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightUse {
    Live,
    /// Only changes between 0 and the configured weight.
    Fixed,
    /// `Fixed` with `hash-type map-based`, otherwise `Live`.
    AsHashType,
}

impl AlgorithmDecl {
    pub(crate) const fn new(words: &'static [&'static str]) -> Self {
        Self {
            words,
            by_key: false,
            turns: TurnUse::Never,
            weights: WeightUse::Live,
            orders_by_load: false,
            weighs_traffic: false,
            waits_for_others: false,
            compares_load: |_| false,
        }
    }

    /// Whether the algorithm or `hash-balance-factor` compares the servers' request counts.
    pub(crate) fn compares_load_in(&self, settings: &BackendSettings) -> bool {
        (self.compares_load)(settings.algorithm.number()) || settings.hash_balance_factor > 0
    }

    /// Whether the algorithm ignores weight changes other than between 0 and the configured weight.
    pub(crate) fn has_fixed_weights(&self, settings: &BackendSettings) -> bool {
        match self.weights {
            WeightUse::Live => false,
            WeightUse::Fixed => true,
            WeightUse::AsHashType => settings.hash_type.method == HashMethod::MapBased,
        }
    }

    pub(crate) const fn by_key(mut self) -> Self {
        self.by_key = true;
        self
    }

    pub(crate) const fn turns(mut self, turns: TurnUse) -> Self {
        self.turns = turns;
        self
    }

    pub(crate) const fn weights(mut self, weights: WeightUse) -> Self {
        self.weights = weights;
        self
    }

    pub(crate) const fn orders_by_load(mut self) -> Self {
        self.orders_by_load = true;
        self
    }

    pub(crate) const fn weighs_traffic(mut self) -> Self {
        self.weighs_traffic = true;
        self
    }

    pub(crate) const fn waits_for_others(mut self) -> Self {
        self.waits_for_others = true;
        self
    }

    pub(crate) const fn compares_load(mut self, compares: fn(Option<u32>) -> bool) -> Self {
        self.compares_load = compares;
        self
    }
}
