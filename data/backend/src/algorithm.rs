//! The properties of a balancing algorithm that the rest of a backend depends on.
//!
//! Each algorithm declares its own, in its file (`balance/`). The defaults are those of an algorithm that knows neither keys,
//! turns nor loads. This module is below servers and their backend: they read the properties, and only `balance.rs` knows
//! the algorithms.

use crate::settings::BackendSettings;
use weir_model::HashMethod;

/// The declaration of an algorithm.
pub(crate) struct AlgorithmDecl {
    /// The words after `balance` that choose it.
    pub(crate) words: &'static [&'static str],
    /// Whether the server follows from a key of the request, so that load is not consulted.
    pub(crate) by_key: bool,
    /// Which requests take turns, so that workers can draw them ahead.
    pub(crate) turns: TurnUse,
    /// How it follows changes of weights, and servers that are added.
    pub(crate) weights: WeightUse,
    /// Whether it orders servers by load: then it learns of each change of one.
    pub(crate) orders_by_load: bool,
    /// Whether it depends on observed traffic.
    pub(crate) weighs_traffic: bool,
    /// Whether it compares the servers' numbers of requests, with the number of its argument, so that all workers must count
    /// them in one place.
    pub(crate) compares_load: fn(number: Option<u32>) -> bool,
}

/// Which requests take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnUse {
    Never,
    /// Those without a key.
    WithoutKey,
    Always,
}

/// How an algorithm follows changes of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightUse {
    Live,
    /// Only those between 0 and the configured weight.
    Fixed,
    /// As `Fixed` with `hash-type map-based`, else at once.
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
            compares_load: |_| false,
        }
    }

    /// Whether the servers' numbers of requests are compared, by the algorithm or by `hash-balance-factor`.
    pub(crate) fn compares_load_in(&self, settings: &BackendSettings) -> bool {
        (self.compares_load)(settings.algorithm.number()) || settings.hash_balance_factor > 0
    }

    /// Whether it ignores changes of weights other than between 0 and the configured weight.
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

    pub(crate) const fn compares_load(mut self, compares: fn(Option<u32>) -> bool) -> Self {
        self.compares_load = compares;
        self
    }
}
