//! Idle server connections: who may use one, where they lie, and how many are worth keeping.
//!
//! An [`IdlePool`] belongs to one server. Each worker has a shelf of its own, last in first out, so
//! that a request usually finds the connection that its worker used last. When the shelf has none,
//! a worker takes one from another's (D1: then the connection changes its owner). The connections
//! themselves are a type parameter: what their descriptors need is the caller's business, and so is
//! closing those that the pool refuses or hands out to be closed.

mod estimate;
mod key;

pub use estimate::{PurgePlan, Usage, purge_plan};
pub use key::{ConnectionKeys, ConnectionParts};

use std::sync::{Mutex, MutexGuard, TryLockError};

use weir_sync::CachePadded;

use crate::server::raise;
use crate::settings::{HttpReuse, PoolSettings};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Which connections a request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Only those that have been reused before, so that the server is known to keep them.
    Proven,
    /// Any.
    Any,
}

/// Which idle connections of others `http-reuse` lets a request take: the first of a session risks
/// an error that the client would not repeat, later ones do not.
#[must_use]
pub fn wanted(mode: HttpReuse, first_request: bool) -> Option<Wanted> {
    match (mode, first_request) {
        (HttpReuse::Never, _) | (HttpReuse::Safe, true) => None,
        (HttpReuse::Aggressive, true) => Some(Wanted::Proven),
        (HttpReuse::Safe | HttpReuse::Aggressive, false) | (HttpReuse::Always, _) => Some(Wanted::Any),
    }
}

/// Whether a connection that carried `requests` may carry one more (`max-reuse`; the first use is
/// none).
#[must_use]
pub fn may_reuse(settings: &PoolSettings, requests: u32) -> bool {
    settings.maximum_reuse.is_none_or(|maximum| requests <= maximum)
}

/// The idle connections of one server.
pub struct IdlePool<T> {
    shelves: Box<[CachePadded<Shelf<T>>]>,
    settings: PoolSettings,
}

/// A connection that was idle, and the worker whose shelf it lay on.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<T> {
    /// The connection.
    pub connection: T,
    /// Its owner so far.
    pub worker: usize,
}

/// Names an entry of a shelf, to take it out when its server closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdleToken(u64);

impl<T> IdlePool<T> {
    /// An empty pool for so many workers (at least one).
    #[must_use]
    pub fn new(settings: PoolSettings, workers: usize) -> Self {
        let shelves = (0..workers.max(1)).map(|_| CachePadded::new(Shelf::default())).collect();
        Self { shelves, settings }
    }

    /// What bounds it.
    #[must_use]
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// A worker opened a connection to use it.
    pub fn opened(&self, worker: usize) {
        self.shelf(worker).begin_use();
    }

    /// A worker closed a connection that it was using.
    pub fn closed(&self, worker: usize) {
        self.shelf(worker).end_use();
    }

    /// Takes an idle connection that was put with the same key. The worker uses it from now on.
    pub fn take(&self, worker: usize, key: u64, wanted: Wanted) -> Option<Taken<T>> {
        let own = self.shelf(worker);
        let connection =
            own.take(lock(&own.entries), key, wanted).map(|connection| Taken { connection, worker });
        let taken = connection.or_else(|| self.take_from_others(worker, key, wanted))?;
        own.begin_use();
        Some(taken)
    }

    /// Puts a connection that the worker used until now. `proven` says that it was reused before.
    ///
    /// # Errors
    /// Gives it back, to be closed, when the pool keeps no more.
    pub fn put(&self, worker: usize, key: u64, proven: bool, connection: T) -> Result<IdleToken, T> {
        let shelf = self.shelf(worker);
        shelf.end_use();
        if !self.has_room() {
            return Err(connection);
        }
        Ok(shelf.put(Entry { key, connection, token: IdleToken(0) }, proven))
    }

    /// Takes out one entry, if it is still there, without using it.
    pub fn remove(&self, worker: usize, token: IdleToken) -> Option<T> {
        let shelf = self.shelf(worker);
        let mut entries = lock(&shelf.entries);
        let Entries { unproven, proven } = &mut *entries;
        let removed = [unproven, proven].into_iter().find_map(|stack| {
            let position = stack.iter().rposition(|entry| entry.token == token)?;
            Some(stack.remove(position).connection)
        });
        shelf.note(&entries);
        removed
    }

    /// Takes out what the purge of this period closes: half of what is more than needed, the oldest first.
    ///
    /// To be called for each worker every `pool-purge-delay`.
    pub fn purge(&self, worker: usize) -> Vec<T> {
        let shelf = self.shelf(worker);
        let mut entries = lock(&shelf.entries);
        let plan = purge_plan(shelf.usage());
        shelf.estimate.store(plan.estimate, Ordering::Relaxed);
        shelf.used_maximum.store(shelf.used.load(Ordering::Relaxed), Ordering::Relaxed);
        let unproven = entries.unproven.len().min(plan.close as usize);
        let proven = entries.proven.len().min(plan.close as usize - unproven);
        let Entries { unproven: first, proven: second } = &mut *entries;
        let closed =
            first.drain(..unproven).chain(second.drain(..proven)).map(|entry| entry.connection).collect();
        shelf.note(&entries);
        closed
    }

    /// Takes out everything of a worker: the server's address changed, or it went into maintenance.
    pub fn clear(&self, worker: usize) -> Vec<T> {
        let shelf = self.shelf(worker);
        let mut entries = lock(&shelf.entries);
        let Entries { unproven, proven } = &mut *entries;
        let all = unproven.drain(..).chain(proven.drain(..)).map(|entry| entry.connection).collect();
        shelf.note(&entries);
        all
    }

    /// What a worker uses and keeps.
    #[must_use]
    pub fn usage(&self, worker: usize) -> Usage {
        self.shelf(worker).usage()
    }

    /// What all workers use and keep.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.shelves.iter().map(|shelf| shelf.usage()).fold(Usage::default(), Usage::plus)
    }

    /// How many workers have a shelf.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shelves.len()
    }

    fn has_room(&self) -> bool {
        if self.settings.purge_delay_ms == 0 {
            return false;
        }
        self.settings.maximum.is_none_or(|maximum| self.idle() < maximum)
    }

    fn idle(&self) -> u32 {
        self.shelves.iter().map(|shelf| shelf.idle()).fold(0, u32::saturating_add)
    }

    fn take_from_others(&self, worker: usize, key: u64, wanted: Wanted) -> Option<Taken<T>> {
        if !self.settings.shared || self.shelves.len() < 2 || self.idle() < self.settings.low.max(1) {
            return None;
        }
        let count = self.shelves.len();
        (1..count).map(|distance| (worker + distance) % count).find_map(|other| {
            let shelf = &self.shelves[other];
            if shelf.idle() == 0 {
                return None;
            }
            // Its owner is at it: rather the next one than waiting.
            let entries = match shelf.entries.try_lock() {
                Ok(entries) => entries,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some(Taken { connection: shelf.take(entries, key, wanted)?, worker: other })
        })
    }

    fn shelf(&self, worker: usize) -> &Shelf<T> {
        debug_assert!(worker < self.shelves.len(), "there is no worker {worker}");
        &self.shelves[worker.min(self.shelves.len() - 1)]
    }
}

/// One worker's idle connections. The figures have one writer at a time: `used` and its maximum the
/// worker, the numbers of entries whoever holds the lock.
struct Shelf<T> {
    entries: Mutex<Entries<T>>,
    unproven: AtomicU32,
    proven: AtomicU32,
    used: AtomicU32,
    used_maximum: AtomicU32,
    estimate: AtomicU32,
    tokens: AtomicU64,
}

struct Entries<T> {
    unproven: Vec<Entry<T>>,
    proven: Vec<Entry<T>>,
}

struct Entry<T> {
    key: u64,
    token: IdleToken,
    connection: T,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            entries: Mutex::new(Entries { unproven: Vec::new(), proven: Vec::new() }),
            unproven: AtomicU32::new(0),
            proven: AtomicU32::new(0),
            used: AtomicU32::new(0),
            used_maximum: AtomicU32::new(0),
            estimate: AtomicU32::new(0),
            tokens: AtomicU64::new(0),
        }
    }
}

impl<T> Shelf<T> {
    /// The latest fitting entry; unproven ones first, for who may take only proven ones needs those.
    fn take(&self, mut entries: MutexGuard<'_, Entries<T>>, key: u64, wanted: Wanted) -> Option<T> {
        let Entries { unproven, proven } = &mut *entries;
        let unproven = (wanted == Wanted::Any).then_some(unproven);
        let taken = unproven.into_iter().chain([proven]).find_map(|stack| {
            let position = stack.iter().rposition(|entry| entry.key == key)?;
            Some(stack.remove(position).connection)
        });
        self.note(&entries);
        taken
    }

    fn put(&self, mut entry: Entry<T>, proven: bool) -> IdleToken {
        let mut entries = lock(&self.entries);
        let token = IdleToken(self.tokens.load(Ordering::Relaxed) + 1);
        self.tokens.store(token.0, Ordering::Relaxed);
        entry.token = token;
        if proven {
            entries.proven.push(entry)
        } else {
            entries.unproven.push(entry)
        }
        self.note(&entries);
        token
    }

    fn begin_use(&self) {
        let used = self.used.load(Ordering::Relaxed) + 1;
        self.used.store(used, Ordering::Relaxed);
        raise(&self.used_maximum, used);
        raise(&self.estimate, used);
    }

    fn end_use(&self) {
        self.used.store(self.used.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }

    fn note(&self, entries: &Entries<T>) {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        self.unproven.store(count(entries.unproven.len()), Ordering::Relaxed);
        self.proven.store(count(entries.proven.len()), Ordering::Relaxed);
    }

    fn idle(&self) -> u32 {
        self.unproven.load(Ordering::Relaxed).saturating_add(self.proven.load(Ordering::Relaxed))
    }

    fn usage(&self) -> Usage {
        Usage {
            unproven: self.unproven.load(Ordering::Relaxed),
            proven: self.proven.load(Ordering::Relaxed),
            used: self.used.load(Ordering::Relaxed),
            used_maximum: self.used_maximum.load(Ordering::Relaxed),
            estimate: self.estimate.load(Ordering::Relaxed),
        }
    }
}

/// See [`crate::sync::lock`]; a shelf is never modelled in loom, it is a plain lock around two vectors.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pool(settings: PoolSettings, workers: usize) -> IdlePool<&'static str> {
        IdlePool::new(settings, workers)
    }

    #[test]
    fn modes_say_who_may_take_what() {
        let expected = [
            (HttpReuse::Never, None, None),
            (HttpReuse::Safe, None, Some(Wanted::Any)),
            (HttpReuse::Aggressive, Some(Wanted::Proven), Some(Wanted::Any)),
            (HttpReuse::Always, Some(Wanted::Any), Some(Wanted::Any)),
        ];
        for (mode, first, later) in expected {
            assert_eq!((wanted(mode, true), wanted(mode, false)), (first, later), "{mode:?}");
        }
    }

    #[test]
    fn the_last_one_put_comes_first_and_keys_are_kept_apart() {
        let pool = pool(PoolSettings::default(), 1);
        for (key, connection) in [(1, "a"), (2, "b"), (1, "c")] {
            pool.opened(0);
            pool.put(0, key, false, connection).unwrap();
        }
        let take = |key| pool.take(0, key, Wanted::Any).map(|taken| taken.connection);
        assert_eq!([take(1), take(1), take(1), take(2)], [Some("c"), Some("a"), None, Some("b")]);
    }

    #[test]
    fn proven_connections_are_the_last_resort_of_those_who_take_any() {
        let pool = pool(PoolSettings::default(), 1);
        pool.put(0, 0, true, "proven").unwrap();
        pool.put(0, 0, false, "fresh").unwrap();
        assert_eq!(pool.take(0, 0, Wanted::Any).unwrap().connection, "fresh");
        pool.put(0, 0, false, "fresh").unwrap();
        assert_eq!(pool.take(0, 0, Wanted::Proven).unwrap().connection, "proven");
        assert_eq!(pool.take(0, 0, Wanted::Proven), None);
    }

    #[test]
    fn an_empty_handed_worker_takes_anothers() {
        let pool = pool(PoolSettings::default(), 3);
        pool.put(2, 0, false, "c").unwrap();
        assert_eq!(pool.take(0, 0, Wanted::Any), Some(Taken { connection: "c", worker: 2 }));
        assert_eq!(pool.usage(0).used, 1);
        assert_eq!(pool.total().idle(), 0);
    }

    #[test]
    fn sharing_has_its_limits() {
        let apart = pool(PoolSettings { shared: false, ..Default::default() }, 2);
        apart.put(1, 0, false, "c").unwrap();
        assert_eq!(apart.take(0, 0, Wanted::Any), None);
        let low = pool(PoolSettings { low: 2, ..Default::default() }, 2);
        low.put(1, 0, false, "c").unwrap();
        assert_eq!(low.take(0, 0, Wanted::Any), None);
        low.put(1, 0, false, "d").unwrap();
        assert_eq!(low.take(0, 0, Wanted::Any).unwrap().connection, "d");
    }

    #[test]
    fn a_full_pool_gives_connections_back() {
        let small = pool(PoolSettings { maximum: Some(1), ..Default::default() }, 2);
        small.put(0, 0, false, "a").unwrap();
        assert_eq!(small.put(1, 0, false, "b"), Err("b"));
        let none = pool(PoolSettings { purge_delay_ms: 0, ..Default::default() }, 1);
        assert_eq!(none.put(0, 0, false, "a"), Err("a"));
        let limited = PoolSettings { maximum_reuse: Some(2), ..Default::default() };
        assert_eq!([1, 2, 3].map(|requests| may_reuse(&limited, requests)), [true, true, false]);
        assert!(!may_reuse(&PoolSettings { maximum_reuse: Some(0), ..Default::default() }, 1));
    }

    #[test]
    fn what_a_server_closed_is_taken_out_once() {
        let pool = pool(PoolSettings::default(), 1);
        let first = pool.put(0, 0, false, "a").unwrap();
        let second = pool.put(0, 0, true, "b").unwrap();
        assert_eq!(pool.remove(0, first), Some("a"));
        assert_eq!(pool.remove(0, first), None);
        assert_eq!(pool.remove(0, second), Some("b"));
        assert_eq!(pool.total().idle(), 0);
    }

    #[test]
    fn a_purge_closes_the_oldest_half_of_the_excess() {
        let pool: IdlePool<u32> = IdlePool::new(PoolSettings::default(), 1);
        (0..8).for_each(|_| pool.opened(0));
        (0..8).for_each(|connection| assert!(pool.put(0, 0, false, connection).is_ok()));
        assert_eq!(pool.purge(0), []);
        assert_eq!(pool.purge(0), [0, 1]);
        assert_eq!(pool.purge(0), [2, 3]);
        let mut rounds = 0;
        while pool.total().idle() > 0 {
            pool.purge(0);
            rounds += 1;
            assert!(rounds < 10);
        }
        pool.put(0, 0, false, 9).unwrap();
        assert_eq!(pool.clear(0), [9]);
    }
}
