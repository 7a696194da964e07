//! Idle server connections: which requests may reuse them, their counts, and how many to keep.
//!
//! The connections belong to the workers. Each worker keeps its connections in an [`IdlePool`] that no other
//! worker accesses, and hands one over at another worker's request. Workers share only the data here: the
//! counters of each server ([`IdlePools`], one writer each) and the rules based on them.

mod estimate;
mod key;
mod pool;

pub use estimate::{PurgePlan, Usage, purge_plan};
pub use key::{ConnectionKeys, ConnectionParts};
pub use pool::{
    Idle, IdleAdmission, IdlePool, NeverShared, PooledConnection, RemovedConnection, SharedConnection,
    SharedId,
};

use std::sync::Arc;

use weir_containers::LocalArc;
use weir_model::Reuse;
use weir_sync::LazyPerWorker;

use crate::settings::PoolSettings;
use crate::sync::{AtomicU32, Ordering};

/// Which connections a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseScope {
    /// Only connections that were reused before, so the server is known to support keep-alive.
    Safe,
    Any,
}

/// Which idle connections of other sessions a request may take with this `http-reuse` mode. A request is `risky` if a
/// broken connection would be visible to the client: it is the first of its session and cannot be retried by weir.
#[must_use]
pub fn reuse_scope(mode: Reuse, risky: bool) -> Option<ReuseScope> {
    match (mode, risky) {
        (Reuse::Never, _) | (Reuse::Safe, true) => None,
        (Reuse::Aggressive, true) => Some(ReuseScope::Safe),
        (Reuse::Safe | Reuse::Aggressive, false) | (Reuse::Always, _) => Some(ReuseScope::Any),
    }
}

/// Whether a connection with `requests` requests so far may serve one more (`max-reuse`). The first request
/// does not count as reuse.
#[must_use]
pub fn may_reuse(settings: &PoolSettings, requests: u32) -> bool {
    settings.maximum_reuse.is_none_or(|maximum| requests <= maximum)
}

/// Each worker's counts of used and idle connections to one server.
#[derive(Debug)]
pub struct IdlePools {
    workers: LazyPerWorker<UseCounters>,
    /// Open connections of a server with `strict-maxconn`, counted from before the connect until the close.
    open: AtomicU32,
}

impl IdlePools {
    /// Zero counts for `workers` workers, at least one.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self { workers: LazyPerWorker::new(workers), open: AtomicU32::new(0) }
    }

    /// Counts a connection as used, after the worker opened it or took it from a pool.
    pub fn begin_use(&self, worker: usize) {
        let counters = self.workers.of(worker);
        let used = counters.used.load(Ordering::Relaxed) + 1;
        counters.used.store(used, Ordering::Relaxed);
        raise(&counters.used_maximum, used);
        raise(&counters.estimate, used);
    }

    /// Counts a connection of the worker as no longer used.
    pub fn end_use(&self, worker: usize) {
        let counters = self.workers.of(worker);
        let used = counters.used.load(Ordering::Relaxed);
        debug_assert!(used > 0, "what ends has begun");
        counters.used.store(used.saturating_sub(1), Ordering::Relaxed);
    }

    /// Counts a used connection that is reserved for one client and waits for its next request.
    pub fn begin_private(&self, worker: usize) {
        let counters = self.workers.of(worker);
        counters.private.store(counters.private.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Ends the count of a connection that waited for its client.
    pub fn end_private(&self, worker: usize) {
        let counters = self.workers.of(worker);
        counters.private.store(counters.private.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    /// Sets the worker's idle connections: `unproven` never reused, `safe` reused.
    pub fn note(&self, worker: usize, unproven: usize, safe: usize) {
        if unproven + safe == 0 && self.workers.existing(worker).is_none() {
            return;
        }
        let counters = self.workers.of(worker);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        counters.unproven.store(count(unproven), Ordering::Relaxed);
        counters.safe.store(count(safe), Ordering::Relaxed);
    }

    /// The used and idle connections of a worker.
    #[must_use]
    pub fn usage(&self, worker: usize) -> Usage {
        self.workers.existing(worker).map(UseCounters::read).unwrap_or_default()
    }

    /// Whether a worker has a connection without a request, in its pool or reserved for one client.
    #[must_use]
    pub fn keeps_any(&self, worker: usize) -> bool {
        self.workers.existing(worker).is_some_and(|counters| {
            counters.read().idle() > 0 || counters.private.load(Ordering::Relaxed) > 0
        })
    }

    /// The used and idle connections of all workers.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.workers.iter().map(UseCounters::read).fold(Usage::default(), Usage::plus)
    }

    /// Idle connections of all workers.
    #[must_use]
    pub fn idle(&self) -> u32 {
        self.total().idle()
    }

    /// Idle connections of one worker.
    #[must_use]
    pub fn idle_of(&self, worker: usize) -> u32 {
        self.usage(worker).idle()
    }

    /// Connections in use.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.total().used
    }

    /// How many idle connections were reused at least once.
    #[must_use]
    pub fn safe(&self) -> u32 {
        self.total().safe
    }

    /// Connections that are reserved for one client and wait for its next request. They count as used.
    #[must_use]
    pub fn private(&self) -> u32 {
        self.workers.iter().map(|counters| counters.private.load(Ordering::Relaxed)).sum()
    }

    /// The most connections in use since the last purge, summed over the workers.
    #[must_use]
    pub fn used_maximum(&self) -> u32 {
        self.total().used_maximum
    }

    /// The estimated number of connections needed at once.
    #[must_use]
    pub fn needed(&self) -> u32 {
        self.total().estimate
    }

    /// Whether one more idle connection may be kept (`pool-max-conn`, `pool-purge-delay 0`).
    #[must_use]
    pub fn has_room(&self, settings: &PoolSettings) -> bool {
        settings.purge_delay_ms > 0 && settings.maximum.is_none_or(|maximum| self.idle() < maximum)
    }

    /// Whether a worker may need another connection besides its used and idle ones. If every client sends one request and
    /// first requests take no idle connection (`http-reuse safe`), each exchange leaves a connection that is never reused.
    #[must_use]
    pub fn needs_more(&self, worker: usize, settings: &PoolSettings) -> bool {
        let usage = self.usage(worker);
        usage.used.saturating_add(usage.idle()) < usage.estimate || usage.idle() < settings.low
    }

    /// The worker to take an idle connection from: the one with the most. `None` if there are too few to share
    /// (`pool-low-conn`, `tune.idle-pool.shared`).
    #[must_use]
    pub fn lender(&self, worker: usize, settings: &PoolSettings) -> Option<usize> {
        if !settings.shared || self.workers.workers() < 2 || self.idle() < settings.low.max(1) {
            return None;
        }
        let others = (0..self.workers.workers()).filter(|other| *other != worker);
        others.max_by_key(|other| self.idle_of(*other)).filter(|other| self.idle_of(*other) > 0)
    }

    /// How many idle connections a worker must close in this period: half of the surplus. Call it once per
    /// `pool-purge-delay`.
    #[must_use]
    pub fn purge(&self, worker: usize) -> u32 {
        let Some(counters) = self.workers.existing(worker) else { return 0 };
        let plan = purge_plan(counters.read());
        counters.estimate.store(plan.estimate, Ordering::Relaxed);
        counters.used_maximum.store(counters.used.load(Ordering::Relaxed), Ordering::Relaxed);
        plan.close
    }
}

/// Counts one open connection of a server with `strict-maxconn`, over all workers, until it is dropped.
#[derive(Debug)]
pub struct CountedConnection(Arc<IdlePools>);

impl CountedConnection {
    /// Counts one more connection. `None` if there are already `maximum` or more. 0 is unlimited.
    #[must_use]
    pub fn one_of(pools: &Arc<IdlePools>, maximum: u32) -> Option<CountedConnection> {
        let has_room = |open: u32| (maximum == 0 || open < maximum).then_some(open + 1);
        let is_counted = pools.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_ok();
        is_counted.then(|| CountedConnection(Arc::clone(pools)))
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts one connection as used until it is dropped.
#[derive(Debug)]
pub struct InUse {
    pools: LocalArc<IdlePools>,
    worker: usize,
}

impl InUse {
    /// Counts one connection of a worker as used.
    #[inline]
    #[must_use]
    pub fn of(pools: &LocalArc<IdlePools>, worker: usize) -> InUse {
        pools.begin_use(worker);
        InUse { pools: pools.clone(), worker }
    }
}

impl Drop for InUse {
    #[inline]
    fn drop(&mut self) {
        self.pools.end_use(self.worker);
    }
}

/// One worker's counters. Only that worker writes them, so plain loads and stores suffice.
#[derive(Debug, Default)]
struct UseCounters {
    unproven: AtomicU32,
    safe: AtomicU32,
    used: AtomicU32,
    used_maximum: AtomicU32,
    estimate: AtomicU32,
    private: AtomicU32,
}

impl UseCounters {
    fn read(&self) -> Usage {
        Usage {
            unproven: self.unproven.load(Ordering::Relaxed),
            safe: self.safe.load(Ordering::Relaxed),
            used: self.used.load(Ordering::Relaxed),
            used_maximum: self.used_maximum.load(Ordering::Relaxed),
            estimate: self.estimate.load(Ordering::Relaxed),
        }
    }
}

fn raise(maximum: &AtomicU32, value: u32) {
    if maximum.load(Ordering::Relaxed) < value {
        maximum.store(value, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn http_reuse_modes_limit_the_connections_of_a_request() {
        let expected = [
            (Reuse::Never, None, None),
            (Reuse::Safe, None, Some(ReuseScope::Any)),
            (Reuse::Aggressive, Some(ReuseScope::Safe), Some(ReuseScope::Any)),
            (Reuse::Always, Some(ReuseScope::Any), Some(ReuseScope::Any)),
        ];
        for (mode, first, later) in expected {
            assert_eq!((reuse_scope(mode, true), reuse_scope(mode, false)), (first, later), "{mode:?}");
        }
    }

    #[test]
    fn borrows_from_the_worker_with_the_most_idle_connections() {
        let pools = IdlePools::new(3);
        let settings = PoolSettings::default();
        assert_eq!(pools.lender(0, &settings), None);
        pools.note(0, 9, 0);
        pools.note(1, 1, 0);
        pools.note(2, 1, 2);
        assert_eq!([0, 1, 2].map(|worker| pools.lender(worker, &settings)), [Some(2), Some(0), Some(0)]);
        pools.note(1, 0, 0);
        pools.note(2, 0, 0);
        assert_eq!(pools.lender(0, &settings), None);
    }

    #[test]
    fn idle_connections_are_not_shared_below_pool_low_conn_or_if_disabled() {
        let pools = IdlePools::new(2);
        pools.note(1, 1, 0);
        assert_eq!(pools.lender(0, &PoolSettings { shared: false, ..Default::default() }), None);
        let low = PoolSettings { low: 2, ..Default::default() };
        assert_eq!(pools.lender(0, &low), None);
        pools.note(1, 1, 1);
        assert_eq!(pools.lender(0, &low), Some(1));
    }

    #[test]
    fn pool_max_conn_and_max_reuse_limit_idle_connections() {
        let pools = IdlePools::new(2);
        let small = PoolSettings { maximum: Some(1), ..Default::default() };
        assert!(pools.has_room(&small));
        pools.note(1, 0, 1);
        assert!(!pools.has_room(&small));
        assert!(pools.has_room(&PoolSettings::default()));
        assert!(!pools.has_room(&PoolSettings { purge_delay_ms: 0, ..Default::default() }));
        let limited = PoolSettings { maximum_reuse: Some(2), ..Default::default() };
        assert_eq!([1, 2, 3].map(|requests| may_reuse(&limited, requests)), [true, true, false]);
        assert!(!may_reuse(&PoolSettings { maximum_reuse: Some(0), ..Default::default() }, 1));
    }

    #[test]
    fn idle_connections_are_limited_by_the_peak_of_used_ones() {
        let pools = IdlePools::new(2);
        let settings = PoolSettings::default();
        assert!(!pools.needs_more(0, &settings));
        (0..3).for_each(|_| pools.begin_use(0));
        assert!(!pools.needs_more(0, &settings), "all three are in use");
        pools.end_use(0);
        assert!(pools.needs_more(0, &settings));
        pools.note(0, 1, 0);
        assert!(!pools.needs_more(0, &settings));
        pools.end_use(0);
        pools.note(0, 1, 1);
        assert!(!pools.needs_more(0, &settings));
        assert!(pools.needs_more(0, &PoolSettings { low: 3, ..Default::default() }));
        assert!(!pools.needs_more(1, &settings), "what another worker needs is not this one's");
    }

    /// `strict-maxconn`.
    #[test]
    fn strict_maxconn_limits_the_open_connections() {
        let pools = Arc::new(IdlePools::new(2));
        let mut open: Vec<_> = (0..3).map_while(|_| CountedConnection::one_of(&pools, 2)).collect();
        assert_eq!(open.len(), 2);
        assert!(CountedConnection::one_of(&pools, 1).is_none(), "it was lowered meanwhile");
        open.extend(CountedConnection::one_of(&pools, 0));
        assert_eq!(open.len(), 3, "0 is no bound");
        open.truncate(1);
        assert!(CountedConnection::one_of(&pools, 1).is_none());
        assert!(CountedConnection::one_of(&pools, 2).is_some());
    }

    #[test]
    fn a_purge_closes_half_of_the_excess_idle_connections() {
        let pools = IdlePools::new(1);
        (0..8).for_each(|_| pools.begin_use(0));
        (0..8).for_each(|_| pools.end_use(0));
        let mut kept = 8;
        let mut closed = Vec::new();
        for _ in 0..7 {
            pools.note(0, kept, 0);
            let close = pools.purge(0);
            kept -= close as usize;
            closed.push(close);
        }
        assert_eq!((kept, closed), (0, vec![0, 2, 2, 2, 1, 1, 0]));
        assert_eq!(pools.total(), Usage::default());
    }
}
