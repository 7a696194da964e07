//! One worker's idle connections to one server.
//!
//! There are two kinds. A connection of the first kind is lent whole: while a request has it, it is not here
//! ([`Idle`]). One of the second kind carries several streams at once: it stays with its multiplexer, and the pool
//! knows how many streams it has and may have ([`shared`]). Both count alike for `pool-max-conn`, `pool-low-conn`,
//! `pool-purge-delay` and `max-reuse`, and when another worker requests one:
//!
//! ```text
//!            lent whole               shared
//!   in use   outside of the pool      has streams: never purged, never given to another worker
//!   idle     in the pool              without streams
//! ```
//!
//! Connections that leave the pool are returned, so that the caller can close them gradually.

mod shared;

#[cfg(all(test, not(loom)))]
mod tests;

pub use shared::{SharedConnection, SharedId};

use std::sync::Arc;

use weir_containers::LocalArc;

use self::shared::SharedConnections;
use super::{IdlePools, ReuseScope};
use crate::server_key::ServerKey;
use crate::settings::PoolSettings;

/// The operations on a connection that the pool needs.
pub trait PooledConnection {
    /// Whether the server neither closed it nor sent unexpected data. The check may consume protocol messages that concern
    /// no request, such as TLS session tickets.
    fn is_fresh(&mut self) -> bool;

    /// Whether one more stream would get its share of a shared connection.
    fn takes_more(&self) -> bool {
        true
    }

    /// Whether another worker may have it.
    fn can_move(&self) -> bool {
        true
    }
}

/// The shared kind for callers without one: all connections are lent whole.
#[derive(Debug)]
pub enum NeverShared {}

impl PooledConnection for NeverShared {
    fn is_fresh(&mut self) -> bool {
        match *self {}
    }
}

/// An idle connection.
#[derive(Debug)]
pub struct Idle<C> {
    pub connection: C,
    /// How many requests it served.
    pub requests: u32,
    /// The parts in which it differs from others to this server ([`super::ConnectionKeys`]).
    pub key: u64,
}

impl<C: PooledConnection> Idle<C> {
    /// Whether the server is known to keep it open, because it was reused before.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.requests > 1
    }

    fn fits(&self, key: u64, scope: ReuseScope) -> bool {
        self.key == key && (scope == ReuseScope::Any || self.is_safe())
    }
}

/// A connection that left the pool, of either kind.
#[derive(Debug)]
pub enum RemovedConnection<C, S = NeverShared> {
    /// One that is lent whole.
    Whole(Idle<C>),
    /// A shared one without streams.
    Shared(Idle<S>),
}

/// The decision about one more idle connection.
#[derive(Debug)]
pub enum IdleAdmission<C, S = NeverShared> {
    Free,
    /// It replaces this one.
    InPlaceOf(RemovedConnection<C, S>),
    /// It is not worth keeping.
    Refused,
}

/// The connections to one server that this worker keeps.
#[derive(Debug)]
pub struct IdlePool<C, S = NeverShared> {
    /// The server of this pool, once there was a connection to keep.
    owner: Option<(ServerKey, LocalArc<IdlePools>)>,
    /// Connections that are lent whole, the youngest last.
    idle: Vec<Idle<C>>,
    /// How many of `idle` were reused before.
    safe: usize,
    /// Boxed, because most servers do not need it.
    shared: Option<Box<SharedConnections<S>>>,
    /// The time of the next purge, on the caller's clock.
    pub purge_at_ms: u64,
}

impl<C, S> Default for IdlePool<C, S> {
    fn default() -> Self {
        Self { owner: None, idle: Vec::new(), safe: 0, shared: None, purge_at_ms: 0 }
    }
}

impl<C: PooledConnection, S: PooledConnection> IdlePool<C, S> {
    /// Assigns the pool to a server. Connections of a former server at the same place are dropped. False when the
    /// pool already belongs to a later server.
    #[inline]
    pub fn claim(&mut self, key: ServerKey, pools: &Arc<IdlePools>) -> bool {
        self.belongs_to(key) || self.claim_anew(key, pools)
    }

    #[cold]
    fn claim_anew(&mut self, key: ServerKey, pools: &Arc<IdlePools>) -> bool {
        match &self.owner {
            Some((owner, _)) if *owner > key => false,
            _ => {
                self.idle.clear();
                self.safe = 0;
                self.shared = None;
                self.owner = Some((key, LocalArc::new(Arc::clone(pools))));
                true
            }
        }
    }

    /// Whether it is the pool of that server.
    #[inline]
    #[must_use]
    pub fn belongs_to(&self, key: ServerKey) -> bool {
        self.owner.as_ref().is_some_and(|(owner, _)| *owner == key)
    }

    /// The server, and the connection counts of all workers.
    #[must_use]
    pub fn owner(&self) -> Option<(ServerKey, &LocalArc<IdlePools>)> {
        self.owner.as_ref().map(|(owner, pools)| (*owner, pools))
    }

    /// The connection counts of all workers; `None` without a server.
    #[inline]
    #[must_use]
    pub fn server_pools(&self) -> Option<&LocalArc<IdlePools>> {
        self.owner.as_ref().map(|(_, pools)| pools)
    }

    /// Idle connections of both kinds.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.idle.len() + self.shared.as_ref().map_or(0, |shared| shared.idle())
    }

    /// Publishes the counts to the other workers.
    #[inline]
    pub fn publish_counts(&self, worker: usize) {
        let Some(pools) = self.server_pools() else { return };
        let (mut idle, mut safe) = (self.idle.len(), self.safe);
        if let Some(shared) = &self.shared {
            idle += shared.idle();
            safe += shared.safe();
        }
        pools.note(worker, idle - safe, safe);
    }

    /// Whether one more with this key is worth keeping (`pool-max-conn`, `pool-low-conn`, `pool-purge-delay 0`, the estimated
    /// need), and which one it replaces. The need is estimated for all keys together, so the first one of a key is kept beside
    /// the others while the pool is small.
    #[inline]
    pub fn admit(&mut self, worker: usize, key: u64, settings: &PoolSettings) -> IdleAdmission<C, S> {
        let Some(pools) = self.server_pools() else { return IdleAdmission::Refused };
        if !pools.has_room(settings) {
            IdleAdmission::Refused
        } else if pools.needs_more(worker, settings) || self.is_first_of(key) {
            IdleAdmission::Free
        } else {
            self.give_up_one().map_or(IdleAdmission::Refused, IdleAdmission::InPlaceOf)
        }
    }

    /// Whether there are others, but none with this key.
    fn is_first_of(&self, key: u64) -> bool {
        let has_others = (1..LOOK).contains(&self.idle.len());
        has_others && self.idle.iter().all(|idle| idle.key != key)
    }

    /// Keeps a connection that was admitted.
    #[inline]
    pub fn put(&mut self, idle: Idle<C>) {
        self.safe += usize::from(idle.is_safe());
        self.idle.push(idle);
    }

    /// The youngest that fits: its memory is in the cache, and its server is least likely to have closed it.
    pub fn take(&mut self, key: u64, scope: ReuseScope) -> Option<Idle<C>> {
        let mut at = self.idle.len();
        let last = at.saturating_sub(LOOK);
        while at > last {
            at -= 1;
            if !self.idle[at].fits(key, scope) {
                continue;
            }
            let mut candidate = self.remove(at);
            if candidate.connection.is_fresh() {
                return Some(candidate);
            }
        }
        None
    }

    /// The oldest that fits, for another worker: this worker's own requests use the youngest. A shared one is only handed over
    /// without streams.
    pub fn lend(&mut self, key: u64, scope: ReuseScope) -> Option<RemovedConnection<C, S>> {
        let fits = |idle: &mut Idle<C>| {
            idle.fits(key, scope) && idle.connection.can_move() && idle.connection.is_fresh()
        };
        match self.idle.iter_mut().take(LOOK).position(fits) {
            Some(at) => Some(RemovedConnection::Whole(self.remove(at))),
            None => self.shared.as_mut()?.lend(key, scope).map(RemovedConnection::Shared),
        }
    }

    /// The oldest idle connection.
    pub fn remove_oldest(&mut self) -> Option<RemovedConnection<C, S>> {
        if self.idle.is_empty() {
            return self.shared.as_mut()?.remove_oldest().map(RemovedConnection::Shared);
        }
        Some(RemovedConnection::Whole(self.remove(0)))
    }

    /// The oldest that its server closed or that was never reused, to make room for one that its session may use next.
    fn give_up_one(&mut self) -> Option<RemovedConnection<C, S>> {
        let goes = |idle: &mut Idle<C>| !idle.is_safe() || !idle.connection.is_fresh();
        match self.idle.iter_mut().take(LOOK).position(goes) {
            Some(at) => Some(RemovedConnection::Whole(self.remove(at))),
            None => self.shared.as_mut()?.give_up_one().map(RemovedConnection::Shared),
        }
    }

    /// Removes connections that servers closed, then the `surplus` oldest, those that are lent whole first. Closing one takes as
    /// long as a small request, so a caller with many closes them gradually.
    pub fn sweep(&mut self, surplus: usize, away: &mut Vec<RemovedConnection<C, S>>) {
        away.extend(
            self.idle.extract_if(.., |idle| !idle.connection.is_fresh()).map(RemovedConnection::Whole),
        );
        let whole = surplus.min(self.idle.len());
        away.extend(self.idle.drain(..whole).map(RemovedConnection::Whole));
        self.safe = self.idle.iter().filter(|idle| idle.is_safe()).count();
        if let Some(shared) = &mut self.shared {
            shared.sweep(surplus - whole, away);
        }
    }

    fn remove(&mut self, at: usize) -> Idle<C> {
        let idle = self.idle.remove(at);
        self.safe -= usize::from(idle.is_safe());
        idle
    }

    /// Adds a shared connection that was opened for a stream. It may have `limit` streams at once (at least one).
    pub fn open_shared(&mut self, worker: usize, connection: S, key: u64, limit: u32) -> Option<SharedId> {
        self.server_pools()?.begin_use(worker);
        Some(self.shared.get_or_insert_default().open(connection, key, limit))
    }

    /// Lends a stream of a shared connection that fits and has one free. The caller gives it back with [`IdlePool::end_stream`].
    pub fn begin_stream(
        &mut self,
        worker: usize,
        key: u64,
        scope: ReuseScope,
        settings: &PoolSettings,
    ) -> Option<SharedConnection<'_, S>> {
        let (_, pools) = self.owner.as_ref()?;
        let (begins, connection) = self.shared.as_mut()?.begin_stream(key, scope, settings)?;
        if begins {
            pools.begin_use(worker);
        }
        Some(connection)
    }

    /// A stream of a shared connection ended. With its last stream the connection becomes idle, or is removed.
    pub fn end_stream(
        &mut self,
        worker: usize,
        id: SharedId,
        settings: &PoolSettings,
    ) -> Option<RemovedConnection<C, S>> {
        self.owner.as_ref()?;
        if !self.shared.as_mut()?.end_stream(id)? {
            return None;
        }
        // A connection counts as used or as idle, never as both.
        self.server_pools()?.end_use(worker);
        let may_be_kept = self.shared.as_mut()?.may_be_kept(id, settings);
        let admission = match self.shared.as_mut()?.key(id) {
            Some(key) if may_be_kept => self.admit(worker, key, settings),
            _ => IdleAdmission::Refused,
        };
        let place_of = match admission {
            IdleAdmission::Free => None,
            IdleAdmission::InPlaceOf(removed) => Some(removed),
            IdleAdmission::Refused => return self.shared.as_mut()?.remove(id).map(RemovedConnection::Shared),
        };
        self.shared.as_mut()?.keep(id);
        place_of
    }

    /// Sets the server's limit of streams on a shared connection.
    pub fn limit_streams(&mut self, id: SharedId, limit: u32) {
        if let Some(shared) = &mut self.shared {
            shared.limit(id, limit);
        }
    }

    /// A shared connection takes no more streams (GOAWAY, a broken transport). It is returned now if it is without
    /// streams, else with its last one.
    pub fn retire(&mut self, id: SharedId) -> Option<RemovedConnection<C, S>> {
        self.shared.as_mut()?.retire(id).map(RemovedConnection::Shared)
    }
}

/// How many connections are looked at for one that fits: the search stays short on large pools.
const LOOK: usize = 32;
