//! One worker's connections to one server with several concurrent streams each.
//!
//! ```text
//!              open                    last stream ended, worth keeping
//!   ─────────────────────► in use ────────────────────────────────► idle
//!    streams 1..=limit      │  ▲      begin_stream                  │
//!                           │  └────────────────────────────────────┘
//!                           ▼ last stream ended: retired, used up, or not worth keeping
//!                          gone
//! ```
//!
//! They are few: a worker's concurrent streams divided by the streams per connection. So a linear search is enough.

use super::{Idle, PooledConnection, RemovedConnection};
use crate::idle::{ReuseScope, may_reuse};
use crate::settings::PoolSettings;

/// Identifies a shared connection in its pool. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedId(u64);

/// A shared connection with a stream that was just begun.
#[derive(Debug)]
pub struct SharedConnection<'p, S> {
    /// The identifier for [`super::IdlePool::end_stream`].
    pub id: SharedId,
    pub connection: &'p mut S,
    /// Number of streams so far, including this one.
    pub requests: u32,
}

#[derive(Debug)]
pub(super) struct SharedConnections<S> {
    all: Vec<SharedRecord<S>>,
    next: u64,
}

#[derive(Debug)]
struct SharedRecord<S> {
    id: SharedId,
    /// The connection. `requests` counts its streams so far.
    kept: Idle<S>,
    streams: u32,
    limit: u32,
    /// Whether the connection counts as idle. Without streams and not idle, it is about to be kept or removed.
    is_idle: bool,
    is_retired: bool,
}

impl<S: PooledConnection> SharedRecord<S> {
    fn takes_one_more(&self, key: u64, scope: ReuseScope, settings: &PoolSettings) -> bool {
        self.streams < self.limit
            && !self.is_retired
            && self.kept.fits(key, scope)
            && may_reuse(settings, self.kept.requests)
            && self.kept.connection.takes_more()
    }

    fn is_safe(&self) -> bool {
        self.is_idle && self.kept.is_safe()
    }
}

impl<S> Default for SharedConnections<S> {
    fn default() -> Self {
        Self { all: Vec::new(), next: 0 }
    }
}

impl<S: PooledConnection> SharedConnections<S> {
    pub(super) fn idle(&self) -> usize {
        self.all.iter().filter(|shared| shared.is_idle).count()
    }

    pub(super) fn safe(&self) -> usize {
        self.all.iter().filter(|shared| shared.is_safe()).count()
    }

    pub(super) fn open(&mut self, connection: S, key: u64, limit: u32) -> SharedId {
        let id = SharedId(self.next);
        self.next += 1;
        let kept = Idle { connection, requests: 1, key };
        let limit = limit.max(1);
        self.all.push(SharedRecord { id, kept, streams: 1, limit, is_idle: false, is_retired: false });
        id
    }

    /// Begins a stream on the busiest connection with a free stream, so that others become idle, or else on the youngest idle
    /// one. Also returns whether the connection was idle. A connection found closed takes no more streams.
    pub(super) fn begin_stream(
        &mut self,
        key: u64,
        scope: ReuseScope,
        settings: &PoolSettings,
    ) -> Option<(bool, SharedConnection<'_, S>)> {
        let at = loop {
            let fits = |shared: &(usize, &SharedRecord<S>)| shared.1.takes_one_more(key, scope, settings);
            let fitting = self.all.iter().enumerate().filter(fits);
            let (at, _) = fitting.max_by_key(|(_, shared)| shared.streams)?;
            if self.all[at].kept.connection.is_fresh() {
                break at;
            }
            // If the connection is idle, the next sweep removes it.
            self.all[at].is_retired = true;
        };
        let shared = &mut self.all[at];
        shared.streams += 1;
        shared.kept.requests = shared.kept.requests.saturating_add(1);
        let was_idle = std::mem::take(&mut shared.is_idle);
        let Idle { connection, requests, .. } = &mut shared.kept;
        Some((was_idle, SharedConnection { id: shared.id, connection, requests: *requests }))
    }

    /// Ends a stream. Returns whether it was the connection's last one, `None` if the connection is unknown.
    pub(super) fn end_stream(&mut self, id: SharedId) -> Option<bool> {
        let shared = self.get(id)?;
        debug_assert!(shared.streams > 0, "what ends has begun");
        shared.streams = shared.streams.saturating_sub(1);
        Some(shared.streams == 0)
    }

    /// Whether a connection without streams may serve another request.
    pub(super) fn may_be_kept(&mut self, id: SharedId, settings: &PoolSettings) -> bool {
        self.get(id).is_some_and(|shared| {
            !shared.is_retired
                && may_reuse(settings, shared.kept.requests)
                && shared.kept.connection.is_fresh()
        })
    }

    /// Counts the connection as idle from now on.
    pub(super) fn keep(&mut self, id: SharedId) {
        if let Some(shared) = self.get(id) {
            shared.is_idle = true;
        }
    }

    pub(super) fn limit(&mut self, id: SharedId, limit: u32) {
        if let Some(shared) = self.get(id) {
            shared.limit = limit;
        }
    }

    pub(super) fn retire(&mut self, id: SharedId) -> Option<Idle<S>> {
        let shared = self.get(id)?;
        shared.is_retired = true;
        if shared.streams == 0 { self.remove(id) } else { None }
    }

    pub(super) fn key(&mut self, id: SharedId) -> Option<u64> {
        self.get(id).map(|shared| shared.kept.key)
    }

    pub(super) fn lend(&mut self, key: u64, scope: ReuseScope) -> Option<Idle<S>> {
        let fits = |shared: &mut SharedRecord<S>| {
            !shared.is_retired
                && shared.kept.fits(key, scope)
                && shared.kept.connection.can_move()
                && shared.kept.connection.is_fresh()
        };
        self.remove_first_idle(fits)
    }

    pub(super) fn remove_oldest(&mut self) -> Option<Idle<S>> {
        self.remove_first_idle(|_| true)
    }

    pub(super) fn give_up_one(&mut self) -> Option<Idle<S>> {
        self.remove_first_idle(|shared| !shared.is_safe() || !shared.kept.connection.is_fresh())
    }

    pub(super) fn sweep<C>(&mut self, surplus: usize, away: &mut Vec<RemovedConnection<C, S>>) {
        let closed = self.all.extract_if(.., |shared| shared.is_idle && !shared.kept.connection.is_fresh());
        away.extend(closed.map(|shared| RemovedConnection::Shared(shared.kept)));
        let idle = self.all.extract_if(.., |shared| shared.is_idle).take(surplus);
        away.extend(idle.map(|shared| RemovedConnection::Shared(shared.kept)));
    }

    pub(super) fn remove(&mut self, id: SharedId) -> Option<Idle<S>> {
        let at = self.all.iter().position(|shared| shared.id == id)?;
        Some(self.all.remove(at).kept)
    }

    fn remove_first_idle(&mut self, goes: impl Fn(&mut SharedRecord<S>) -> bool) -> Option<Idle<S>> {
        let at = self.all.iter_mut().position(|shared| shared.is_idle && goes(shared))?;
        Some(self.all.remove(at).kept)
    }

    fn get(&mut self, id: SharedId) -> Option<&mut SharedRecord<S>> {
        self.all.iter_mut().find(|shared| shared.id == id)
    }
}
