//! State shared by a backend, its servers and the workers' views, readable without the lock.

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use weir_sync::CachePadded;

use crate::algorithm::AlgorithmDecl;
use crate::counters::BackendCounters;
use crate::persistence::DynamicCookies;
use crate::rotation::TurnCounter;
use crate::server_key::ServerKey;
use crate::settings::BackendSettings;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The shared state of a backend.
pub(crate) struct SharedBackend {
    pub(crate) settings: BackendSettings,
    /// The declaration of the backend's algorithm.
    pub(crate) algorithm: &'static AlgorithmDecl,
    pub(crate) counters: BackendCounters,
    /// The highest number of concurrent streams seen.
    pub(crate) sessions_maximum: AtomicU32,
    /// The version of the backend, as a [`BackendVersion`]. Written under the lock, and read for each request.
    pub(crate) version: CachePadded<AtomicU64>,
    /// The turns that workers draw.
    pub(crate) turns: TurnCounter,
    /// Whether the algorithm compares the load of all workers.
    pub(crate) compares_load: bool,
    /// Whether the algorithm orders servers by load. Read when a request ends.
    pub(crate) orders_by_load: bool,
    /// Requests in the backend's queue. Written under the lock.
    pub(crate) queued: AtomicU32,
    pub(crate) queued_maximum: AtomicU32,
    /// How many servers can take a new visitor. Written under the lock.
    pub(crate) usable: AtomicU32,
    /// Time of the next comparison of servers (`outlier-ejection`).
    pub(crate) compares_at_ms: AtomicU64,
    /// How dynamic cookies are made. Changed under the lock.
    pub(crate) dynamic_cookies: ArcSwap<DynamicCookies>,
}

impl SharedBackend {
    /// Whether only one server takes new visitors.
    pub(crate) fn has_one_usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed) == 1
    }

    /// `algorithm` is the declaration of the settings' algorithm.
    pub(crate) fn new(settings: BackendSettings, algorithm: &'static AlgorithmDecl) -> Self {
        Self {
            counters: BackendCounters::new(settings.workers),
            sessions_maximum: AtomicU32::new(0),
            version: CachePadded::new(AtomicU64::new(BackendVersion::default().to_number())),
            turns: TurnCounter::new(),
            compares_load: algorithm.compares_load_in(&settings),
            orders_by_load: algorithm.orders_by_load,
            queued: AtomicU32::new(0),
            queued_maximum: AtomicU32::new(0),
            usable: AtomicU32::new(0),
            compares_at_ms: AtomicU64::new(0),
            dynamic_cookies: ArcSwap::from_pointee(settings.dynamic_cookies.clone()),
            settings,
            algorithm,
        }
    }
}

/// A server's reference to its backend.
pub(crate) struct Home {
    pub(crate) owner: Weak<dyn ServerOwner>,
    pub(crate) shared: Arc<SharedBackend>,
}

/// Calls of a server on its backend.
pub(crate) trait ServerOwner: Send + Sync {
    /// Called when a slot of `key` is released while a request waits for it, or if the algorithm orders servers by load.
    fn released(&self, key: ServerKey);
}

#[cfg(test)]
impl Home {
    /// The reference of a server without a backend.
    pub(crate) fn nowhere() -> Self {
        struct Nobody;
        impl ServerOwner for Nobody {
            fn released(&self, _key: ServerKey) {}
        }
        static PLAIN: AlgorithmDecl = AlgorithmDecl::new(&["plain"]);
        let shared = SharedBackend::new(BackendSettings::default(), &PLAIN);
        Self { owner: Weak::<Nobody>::new(), shared: Arc::new(shared) }
    }
}

/// The number of a version of the backend, and whether workers may choose without the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackendVersion(u64);

impl BackendVersion {
    /// The next version.
    pub(crate) fn next(self, is_free: bool) -> Self {
        Self(((self.0 >> 1) + 1) << 1 | u64::from(is_free))
    }

    /// Whether no member has a limit and no order depends on the load of all workers.
    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0 & 1 != 0
    }

    pub(crate) const fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn to_number(self) -> u64 {
        self.0
    }
}
