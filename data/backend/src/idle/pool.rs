//! One worker's idle connections to one server.
//!
//! There are two kinds. A connection of the first kind is lent whole: it leaves the pool while a request uses it
//! ([`Idle`]). A connection of the second kind has several concurrent streams. It stays with its multiplexer, and the
//! pool knows its number and limit of streams ([`shared`]). Both kinds count for `pool-max-conn`, `pool-low-conn`,
//! `pool-purge-delay` and `max-reuse`, and can be handed to another worker:
//!
//! ```text
//!            lent whole               shared
//!   in use   outside of the pool      has streams: never purged, never given to another worker
//!   idle     in the pool              without streams
//! ```
//!
//! Methods return removed connections, so the caller can close them gradually.

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

/// The operations that the pool needs from a connection.
pub trait PooledConnection {
    /// Whether the server neither closed the connection nor sent unexpected data. The check may consume protocol messages
    /// that belong to no request, such as TLS session tickets.
    fn is_fresh(&mut self) -> bool;

    /// Whether a shared connection has capacity for one more stream.
    fn takes_more(&self) -> bool {
        true
    }

    /// Whether the connection may be handed to another worker.
    fn can_move(&self) -> bool {
        true
    }
}

/// The shared kind for callers without shared connections. All connections are lent whole.
#[derive(Debug)]
pub enum NeverShared {}

impl PooledConnection for NeverShared {
    fn is_fresh(&mut self) -> bool {
        match *self {}
    }
}

/// An idle connection to the server, with the facts that decide its reuse.
#[derive(Debug)]
pub struct Idle<C> {
    pub connection: C,
    /// Number of requests that the connection served.
    pub requests: u32,
    /// The key of the connection's request-dependent properties ([`super::ConnectionKeys`]).
    pub key: u64,
}

impl<C: PooledConnection> Idle<C> {
    /// Whether the connection was reused before, so the server is known to keep it open.
    #[must_use]
    pub fn is_safe(&self) -> bool {
        self.requests > 1
    }

    fn fits(&self, key: u64, scope: ReuseScope) -> bool {
        self.key == key && (scope == ReuseScope::Any || self.is_safe())
    }
}

/// A connection of either kind that was removed from the pool.
#[derive(Debug)]
pub enum RemovedConnection<C, S = NeverShared> {
    /// A connection that is lent whole.
    Whole(Idle<C>),
    /// A shared connection without streams.
    Shared(Idle<S>),
}

/// Whether to keep one more idle connection.
#[derive(Debug)]
pub enum IdleAdmission<C, S = NeverShared> {
    Free,
    /// Keep the connection. It replaces this one.
    InPlaceOf(RemovedConnection<C, S>),
    /// Close the connection.
    Refused,
}

/// This worker's idle and shared connections to one server.
#[derive(Debug)]
pub struct IdlePool<C, S = NeverShared> {
    /// The server of this pool. `None` before the first connection.
    owner: Option<(ServerKey, LocalArc<IdlePools>)>,
    /// Idle connections that are lent whole, the youngest last.
    idle: Vec<Idle<C>>,
    /// How many of `idle` were reused before.
    safe: usize,
    /// The shared connections. Boxed, because they are rare.
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
    /// Assigns the pool to a server. Drops connections of a previous server in the same slot. False if the pool already
    /// belongs to a later server.
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

    /// Whether this is the pool of the server.
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

    /// The connection counts of all workers. `None` if the pool has not been assigned to a server.
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

    /// Publishes the pool's counts to the other workers.
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

    /// Whether to keep one more connection with this key (`pool-max-conn`, `pool-low-conn`, `pool-purge-delay 0`, the estimated
    /// need), and which one it replaces. The estimate covers all keys together, so the first connection of a key is kept in
    /// addition while the pool is small.
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

    /// Whether the pool is small, not empty, and without a connection of this key.
    fn is_first_of(&self, key: u64) -> bool {
        let has_others = (1..LOOK).contains(&self.idle.len());
        has_others && self.idle.iter().all(|idle| idle.key != key)
    }

    /// Adds an admitted connection.
    #[inline]
    pub fn put(&mut self, idle: Idle<C>) {
        self.safe += usize::from(idle.is_safe());
        self.idle.push(idle);
    }

    /// Takes the youngest matching connection. Its memory is in the cache, and the server is least likely to have closed it.
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

    /// Removes the oldest matching connection for another worker, because this worker's requests use the youngest. A shared
    /// connection is only handed over without streams.
    pub fn lend(&mut self, key: u64, scope: ReuseScope) -> Option<RemovedConnection<C, S>> {
        let fits = |idle: &mut Idle<C>| {
            idle.fits(key, scope) && idle.connection.can_move() && idle.connection.is_fresh()
        };
        match self.idle.iter_mut().take(LOOK).position(fits) {
            Some(at) => Some(RemovedConnection::Whole(self.remove(at))),
            None => self.shared.as_mut()?.lend(key, scope).map(RemovedConnection::Shared),
        }
    }

    /// Removes the oldest idle connection.
    pub fn remove_oldest(&mut self) -> Option<RemovedConnection<C, S>> {
        if self.idle.is_empty() {
            return self.shared.as_mut()?.remove_oldest().map(RemovedConnection::Shared);
        }
        Some(RemovedConnection::Whole(self.remove(0)))
    }

    /// Removes the oldest connection that was closed by the server or never reused, to make room for a new one.
    fn give_up_one(&mut self) -> Option<RemovedConnection<C, S>> {
        let goes = |idle: &mut Idle<C>| !idle.is_safe() || !idle.connection.is_fresh();
        match self.idle.iter_mut().take(LOOK).position(goes) {
            Some(at) => Some(RemovedConnection::Whole(self.remove(at))),
            None => self.shared.as_mut()?.give_up_one().map(RemovedConnection::Shared),
        }
    }

    /// Removes connections closed by the server, then the `surplus` oldest, starting with those lent whole. A close takes as
    /// long as a small request, so a caller with many connections closes them gradually.
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

    /// Adds a shared connection that was opened for a stream. `limit` is its maximum of concurrent streams, at least one.
    pub fn open_shared(&mut self, worker: usize, connection: S, key: u64, limit: u32) -> Option<SharedId> {
        self.server_pools()?.begin_use(worker);
        Some(self.shared.get_or_insert_default().open(connection, key, limit))
    }

    /// Begins a stream on a matching shared connection with a free stream. The caller ends it with [`IdlePool::end_stream`].
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

    /// Ends a stream of a shared connection. After its last stream the connection becomes idle or is removed.
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
        // A connection never counts as both used and idle.
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

    /// Sets the server's limit of concurrent streams on a shared connection.
    pub fn limit_streams(&mut self, id: SharedId, limit: u32) {
        if let Some(shared) = &mut self.shared {
            shared.limit(id, limit);
        }
    }

    /// Stops new streams on a shared connection (GOAWAY, a broken transport). Returns the connection if it has zero streams.
    /// Otherwise the end of its last stream returns it.
    pub fn retire(&mut self, id: SharedId) -> Option<RemovedConnection<C, S>> {
        self.shared.as_mut()?.retire(id).map(RemovedConnection::Shared)
    }
}

/// Maximum number of connections examined in one search, so that searches in large pools stay short. Pools below it count
/// as small.
const LOOK: usize = 32;
