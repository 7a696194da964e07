//! Idle connections to servers. The worker that used a connection last keeps it, and lends it to a worker without one on request.
//!
//! Each worker keeps its idle connections in its own pools, last in first out. Pools need no lock, and the descriptors stay registered
//! with the worker. Other workers see only the number of connections ([`IdlePools`]). The pool ([`IdlePool`]) and the rules for these
//! counts are in `weir-backend`. An event on an idle descriptor, such as a close by the server, wakes the worker's keeper task.
//!
//! ```text
//!   waiter                                    lender
//!   await_answer ── "give me one" ─────────► takes its oldest off the pool
//!        │                                     │
//!        ▼                                     ▼
//!   answered in time: uses it  ◄── a descriptor, or none
//!   gone already: on to its worker's pool ◄──┘
//! ```
//!
//! A descriptor in transit belongs to the message that carries it, so any failure in transit closes it.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

pub use weir_backend::IdlePools;
use weir_backend::{
    CountedConnection, Idle, IdleAdmission, IdlePool, InUse, PoolSettings, PooledConnection,
    RemovedConnection, ReuseScope, Server, ServerKey, may_reuse, reuse_scope,
};
use weir_containers::LocalArc;
use weir_model::Reuse;
use weir_mux::StreamConnector;
use weir_net::{Companion, Connection, ConnectionFault, DescriptorRoom};
use weir_sched::{Class, Descriptor, TaskKey, Tick, Wakeup, WorkKind, wait, yield_now};

use super::carrier::Carrier;
use crate::clock;
use crate::instance::{Instance, LocalInstance, ProcessLimits, Proxy};
use crate::stream::Stream;
use crate::upstream::{OwnConnection, Upstream};

/// An HTTP/1 connection: one stream uses it at a time.
pub(super) struct Whole(Connection);

impl PooledConnection for Whole {
    fn is_fresh(&mut self) -> bool {
        self.0.is_fresh()
    }

    /// TLS sessions cannot move to another worker.
    fn can_move(&self) -> bool {
        self.0.is_plain()
    }
}

#[inline]
fn upstream_of(idle: Idle<Whole>, pools: &LocalArc<IdlePools>) -> Upstream {
    let connection = idle.connection.0;
    connection.descriptor().set_owner(weir_sched::current());
    Upstream {
        counted: (0, 0),
        connector: StreamConnector::own(connection),
        reused: true,
        requests: idle.requests,
        key: idle.key,
        private: false,
        in_use: Some(InUse::of(pools, weir_sched::worker_index())),
    }
}

/// Identifies the pool of a server. The server may have been removed.
#[derive(Clone, Copy)]
pub(super) struct PoolKey {
    /// The index of the server's proxy.
    proxy: usize,
    server: ServerKey,
}

impl PoolKey {
    /// The pool key of a server of the proxy at index `proxy`.
    pub(super) fn new(proxy: usize, server: &Server) -> PoolKey {
        PoolKey { proxy, server: server.key() }
    }

    /// The server's pool settings. `None` if it is down or removed. With a reference to the server, call [`bounds`] instead.
    pub(super) fn settings(self) -> Option<PoolSettings> {
        INSTANCE.with_borrow(|instance| {
            let proxy = instance.as_ref()?.proxies.get(self.proxy)?;
            proxy.backend.as_ref()?.look_at(self.server, bounds)?
        })
    }

    /// Closes one of this worker's idle connections to this server: a pooled one, else a private one. Returns false without either.
    fn give_up_one(self) -> bool {
        let is_own = |own: &OwnConnection| own.backend == self.proxy && own.server == Some(self.server);
        // A pooled connection is closed after the borrow ends.
        let pooled = with_pool(self, ServerPool::remove_oldest).flatten();
        pooled.is_some() || crate::worker::find_session(|session| session.drop_own_connection(is_own))
    }
}

/// The pool settings of a server. `None` if it is down.
fn bounds(server: &Server) -> Option<PoolSettings> {
    server.is_up().then(|| server.settings().pool)
}

/// Counts a connection to the leased server as in use. `None` without a server.
pub(super) fn begin_use(stream: &Stream) -> Option<InUse> {
    let pools = pools_of(stream)?;
    Some(InUse::of(&pools, weir_sched::worker_index()))
}

/// The connection counts of the leased server.
fn pools_of(stream: &Stream) -> Option<LocalArc<IdlePools>> {
    let server = stream.server.lease.as_ref()?.server();
    with_pool_of(stream.backend.index, server, |pool| pool.server_pools().cloned())?
}

/// One worker's idle connections to one server, HTTP/1 and HTTP/2.
pub(super) type ServerPool = IdlePool<Whole, Carrier>;
type DroppedConnection = RemovedConnection<Whole, Carrier>;

thread_local! {
    /// The instance that contains the servers.
    static INSTANCE: RefCell<ManuallyDrop<Option<LocalInstance>>> = const { RefCell::new(ManuallyDrop::new(None)) };
    /// The worker's pools, indexed by proxy, then by server.
    static IDLE_POOLS: RefCell<Vec<Vec<ServerPool>>> = const { RefCell::new(Vec::new()) };
    /// The proxy where the next search for a connection to close begins.
    static NEXT_TO_GIVE: Cell<usize> = const { Cell::new(0) };
    static KEEPER: Cell<TaskKey> = const { Cell::new(TaskKey::NONE) };
    /// The keeper task waits for the first idle connection and must be woken.
    static KEEPER_SLEEPS: Cell<bool> = const { Cell::new(true) };
    /// Tasks that wait for a connection from another worker, and the connections that arrived.
    static WAITERS: RefCell<Vec<MigrationWaiter>> = const { RefCell::new(Vec::new()) };
}

/// Calls `then` with the pool of a server of the proxy at this index, then publishes the pool's counts to the other workers. `None` if
/// the server was removed and another server has taken its index.
#[inline]
pub(super) fn with_pool_of<R>(
    proxy: usize,
    server: &Server,
    then: impl FnOnce(&mut ServerPool) -> R,
) -> Option<R> {
    IDLE_POOLS.with_borrow_mut(|idle_pools| {
        let (key, place) = (server.key(), server.key().index());
        if idle_pools.len() <= proxy {
            idle_pools.resize_with(proxy + 1, Vec::new);
        }
        let of_proxy = &mut idle_pools[proxy];
        if of_proxy.len() <= place {
            of_proxy.resize_with(place + 1, IdlePool::default);
        }
        let pool = &mut of_proxy[place];
        pool.claim(key, server.pools()).then(|| use_pool(pool, then))
    })
}

/// Like [`with_pool_of`], for a server that may have been removed. Also `None` if this worker has never had a connection to it.
#[inline]
pub(super) fn with_pool<R>(pool_key: PoolKey, then: impl FnOnce(&mut ServerPool) -> R) -> Option<R> {
    IDLE_POOLS.with_borrow_mut(|idle_pools| {
        let pool = idle_pools.get_mut(pool_key.proxy)?.get_mut(pool_key.server.index())?;
        pool.belongs_to(pool_key.server).then(|| use_pool(pool, then))
    })
}

#[inline]
fn use_pool<R>(pool: &mut ServerPool, then: impl FnOnce(&mut ServerPool) -> R) -> R {
    let result = then(pool);
    pool.publish_counts(weir_sched::worker_index());
    result
}

pub(super) fn leased_key(stream: &Stream) -> Option<ServerKey> {
    stream.server.lease.as_ref().map(|lease| lease.server().key())
}

/// The idle connections that this request may reuse. `None` if it may not reuse any.
pub(super) fn usable(stream: &Stream) -> Option<ReuseScope> {
    if stream.backend.is_spop() {
        return Some(ReuseScope::Any);
    }
    let risky = stream.session.requests.get() <= 1 && !stream.as_server_phase().outlives_idle_connection();
    reuse_scope(stream.backend.servers().settings().http_reuse, risky)
}

/// Takes an idle connection of this worker to the leased server.
pub(super) fn take(stream: &Stream, key: u64, scope: ReuseScope) -> Option<Upstream> {
    let server = stream.server.lease.as_ref()?.server();
    with_pool_of(stream.backend.index, server, |pool| {
        let taken = pool.take(key, scope)?;
        Some(upstream_of(taken, pool.server_pools()?))
    })?
}

/// A task that waits for a connection from another worker.
struct MigrationWaiter {
    task: TaskKey,
    answer: Option<Option<Migration>>,
}

/// A connection in transit from one worker to another.
struct Migration {
    descriptor: OwnedFd,
    companion: Option<Companion>,
    requests: u32,
    key: u64,
}

impl Migration {
    fn unpack(self) -> Option<Idle<Whole>> {
        let mut connection = Connection::privileged(Descriptor::register(self.descriptor).ok()?);
        if let Some(companion) = self.companion {
            connection.accompany(companion);
        }
        Some(Idle { connection: Whole(connection), requests: self.requests, key: self.key })
    }
}

/// An entry in the list of waiters, removed on drop. A task that ends while it waits leaves no entry behind.
struct WaiterRegistration(TaskKey);

impl WaiterRegistration {
    fn begin() -> WaiterRegistration {
        let task = weir_sched::current();
        WAITERS.with_borrow_mut(|waiters| waiters.push(MigrationWaiter { task, answer: None }));
        WaiterRegistration(task)
    }

    fn is_answered(&self) -> bool {
        WAITERS.with_borrow(|waiters| {
            waiters.iter().any(|waiter| waiter.task == self.0 && waiter.answer.is_some())
        })
    }

    fn leave(&self) -> Option<Migration> {
        WAITERS.with_borrow_mut(|waiters| {
            let at = waiters.iter().position(|waiter| waiter.task == self.0)?;
            waiters.swap_remove(at).answer?
        })
    }
}

impl Drop for WaiterRegistration {
    fn drop(&mut self) {
        // A connection that arrived is closed after the borrow ends.
        drop(self.leave());
    }
}

/// Requests an idle connection from the worker that has the most. TLS connections cannot move.
pub(super) async fn take_over(stream: &Stream, key: u64, scope: ReuseScope) -> Option<Upstream> {
    let server = stream.server.lease.as_ref()?.server();
    let pool_key = PoolKey::new(stream.backend.index, server);
    let own = weir_sched::worker_index();
    if stream.as_server_phase().server_tls().is_some() {
        return None;
    }
    let lender = server.pools().lender(own, &server.settings().pool)?;
    let waiting = WaiterRegistration::begin();
    let task = waiting.0;
    weir_sched::send_to(lender, move || {
        let migration = give_away(pool_key, key, scope);
        // If the requesting worker is gone or its queue is full, dropping the message closes the connection.
        let _ = weir_sched::send_to(own, move || arrive(pool_key, task, migration));
    })
    .ok()?;
    // If the lender is busy, opening a connection is faster.
    let deadline = clock::after(TAKEOVER);
    while !waiting.is_answered() && wait(deadline).await != Wakeup::Deadline {}
    let idle = waiting.leave()?.unpack()?;
    Some(upstream_of(idle, &pools_of(stream)?))
}

/// Takes an idle connection from this worker's pool for another worker.
fn give_away(pool_key: PoolKey, key: u64, scope: ReuseScope) -> Option<Migration> {
    let RemovedConnection::Whole(idle) = with_pool(pool_key, |pool| pool.lend(key, scope))?? else {
        return None;
    };
    let (descriptor, companion) = idle.connection.0.into_parts();
    Some(Migration { descriptor: descriptor.into_fd(), companion, requests: idle.requests, key: idle.key })
}

/// Handles the lender's reply: passes the connection to the waiter, or to the pool if the waiter is gone.
fn arrive(pool_key: PoolKey, task: TaskKey, migration: Option<Migration>) {
    let unwanted =
        WAITERS.with_borrow_mut(|waiters| match waiters.iter_mut().find(|waiter| waiter.task == task) {
            Some(waiter) => {
                waiter.answer = Some(migration);
                None
            }
            None => Some(migration),
        });
    match unwanted {
        None => weir_sched::wake(task),
        Some(migration) => {
            if let Some(idle) = migration.and_then(Migration::unpack)
                && let Some(settings) = pool_key.settings()
            {
                keep_idle(pool_key, &settings, idle);
            }
        }
    }
}

/// Puts a connection into this worker's pool, within the pool's limits.
fn keep_idle(pool_key: PoolKey, settings: &PoolSettings, idle: Idle<Whole>) {
    let worker = weir_sched::worker_index();
    // A replaced or refused connection is closed after the borrow ends.
    let offered_key = idle.key;
    let mut offered = Some(idle);
    let _given_up = with_pool(pool_key, |pool| {
        let given_up = match pool.admit(worker, offered_key, settings) {
            IdleAdmission::Refused => return None,
            IdleAdmission::Free => None,
            IdleAdmission::InPlaceOf(removed) => Some(removed),
        };
        if let Some(idle) = offered.take() {
            idle.connection.0.descriptor().set_owner(KEEPER.get());
            pool.put(idle);
        }
        given_up
    });
    if offered.is_none() {
        kept();
    }
}

/// Wakes the keeper task: the worker has an idle connection.
#[inline]
pub(super) fn kept() {
    if KEEPER_SLEEPS.replace(false) {
        weir_sched::wake(KEEPER.get());
    }
}

/// Returns a connection to the pool for other streams, if its properties and the limits allow it.
pub(crate) fn give(stream: &Stream, mut upstream: Upstream) {
    upstream.requests = upstream.requests.saturating_add(1);
    let Some(lease) = &stream.server.lease else {
        // Without a server (`option transparent`) only the same client may reuse the connection.
        return keep_own(stream, upstream);
    };
    if !may_reuse(&lease.server().settings().pool, upstream.requests) {
        return;
    }
    if upstream.connector.is_carried() {
        return give_shared(stream, upstream);
    }
    let shared = stream.backend.servers().settings().http_reuse != Reuse::Never;
    if upstream.private || !shared {
        return keep_own(stream, upstream);
    }
    let Upstream { connector, requests, key, in_use, .. } = upstream;
    let Some(connection) = connector.into_connection() else { return };
    if opened_beyond(stream.frontend.instance().limits.descriptors.low, connection.descriptor()) {
        return;
    }
    // A connection counts as used or as idle, never as both.
    drop(in_use);
    if let Some(settings) = bounds(lease.server()) {
        keep_idle(
            PoolKey::new(stream.backend.index, lease.server()),
            &settings,
            Idle { connection: Whole(connection), requests, key },
        );
    }
}

/// Takes an idle connection of this worker for a health check (`check-reuse-pool`). Returns it with its number of requests. `None` if
/// the traffic's connections may go to another address: then the check opens its own.
pub fn take_for_check(proxy: &Proxy, server: &Server, key: u64) -> Option<(Connection, u32)> {
    if server.destination_varies() {
        return None;
    }
    let idle = with_pool_of(proxy.index, server, |pool| pool.take(key, ReuseScope::Any))??;
    let connection = idle.connection.0;
    connection.descriptor().set_owner(weir_sched::current());
    Some((connection, idle.requests))
}

/// Returns the connection of a health check to the pool, if the limits allow it. `requests` is its number of requests so far.
pub fn keep_of_check(
    proxy: &Proxy,
    server: &Server,
    key: u64,
    (mut connection, requests): (Connection, u32),
) {
    if let Some(settings) = bounds(server).filter(|settings| may_reuse(settings, requests))
        && !server.destination_varies()
        && has_place(server, &mut connection)
    {
        with_pool_of(proxy.index, server, |_| ());
        keep_idle(
            PoolKey::new(proxy.index, server),
            &settings,
            Idle { connection: Whole(connection), requests, key },
        );
    }
}

/// Counts a check's new connection towards `strict-maxconn` of the server. Returns false if the limit is reached.
fn has_place(server: &Server, connection: &mut Connection) -> bool {
    if !server.settings().pool.strict || connection.is_accompanied() {
        return true;
    }
    let open = place_now(server);
    let has_place = open.is_some();
    if let Some(open) = open {
        connection.accompany(open);
    }
    has_place
}

/// Reserves one more connection to a server with `strict-maxconn`. `None` at the limit.
fn place_now(server: &Server) -> Option<Companion> {
    Some(Box::new(CountedConnection::one_of(server.pools(), server.maximum_connections())?))
}

/// The leased server, if it has `strict-maxconn`.
#[inline]
pub(super) fn strict_server(stream: &Stream) -> Option<(PoolKey, &Server)> {
    let server = stream.server.lease.as_ref()?.server();
    if !server.settings().pool.strict {
        return None;
    }
    Some((PoolKey::new(stream.backend.index, server), server))
}

/// Reserves one more connection to a server with `strict-maxconn`. At the limit, closes an idle connection first: one of this worker,
/// else of another.
///
/// # Errors
/// [`ConnectionFault::Shortage`] if all connections are in use.
pub(super) async fn place((pool_key, server): (PoolKey, &Server)) -> Result<Companion, ConnectionFault> {
    let own = weir_sched::worker_index();
    for _ in 0..ROUNDS {
        if let Some(place) = place_now(server) {
            return Ok(place);
        }
        if pool_key.give_up_one() {
            // A shared connection is closed by its own task.
            yield_now().await;
            continue;
        }
        let others = (0..weir_sched::worker_count()).filter(|worker| *worker != own);
        for other in others.filter(|other| server.pools().keeps_any(*other)) {
            // A worker with a full queue does not get the request.
            let _ = weir_sched::send_to(other, move || _ = pool_key.give_up_one());
        }
        weir_sched::sleep_until(clock::after(TAKEOVER)).await;
    }
    Err(ConnectionFault::Shortage)
}

/// Whether more than `mark` descriptors were in use when this one was opened.
fn opened_beyond(mark: u32, descriptor: impl AsFd) -> bool {
    u32::try_from(descriptor.as_fd().as_raw_fd()).is_ok_and(|number| number >= mark)
}

/// Called after opening a connection for lack of an idle one. Above the high descriptor mark, closes an idle connection in return.
pub(super) fn opened(stream: &Stream, descriptor: &Descriptor) {
    if opened_beyond(stream.frontend.instance().limits.descriptors.high, descriptor) {
        give_up_any(POOLS_AT_ONCE);
    }
}

/// Called without a free descriptor for a server connection. Closes an idle connection, or waits briefly for other workers to close
/// one.
pub(super) async fn make_room() {
    if let DescriptorRoom::Requested(wait) = request_room() {
        weir_sched::sleep_until(clock::after(wait)).await;
    }
}

/// Called after accepting a client. If descriptors are short, closes an idle connection in return, so that checks, logs and operators
/// still get descriptors.
pub(crate) fn accepted(limits: &ProcessLimits, socket: impl AsFd) {
    if opened_beyond(limits.descriptors.short, socket) {
        give_up_any(POOLS_AT_ONCE);
    }
}

/// Called without a free descriptor. Closes an idle connection of this worker, else requests that each other worker closes one.
pub fn request_room() -> DescriptorRoom {
    if give_up_one() {
        return DescriptorRoom::Made;
    }
    let own = weir_sched::worker_index();
    let others = (0..weir_sched::worker_count()).filter(|worker| *worker != own);
    // A worker with a full queue does not get the request.
    let requested = others.filter(|worker| weir_sched::send_to(*worker, || _ = give_up_one()).is_ok());
    if requested.count() > 0 { DescriptorRoom::Requested(TAKEOVER) } else { DescriptorRoom::Missing }
}

/// Called when memory is short. Closes the older half of this worker's idle connections to each server.
pub fn give_up_half() {
    let mut away = Vec::new();
    IDLE_POOLS.with_borrow_mut(|idle_pools| {
        for pool in idle_pools.iter_mut().flatten().filter(|pool| pool.idle() > 0) {
            pool.sweep(pool.idle().div_ceil(2), &mut away);
            pool.publish_counts(weir_sched::worker_index());
        }
    });
    close(away);
}

/// Closes an idle connection of this worker to free a descriptor: a pooled one, else a private one. Returns false without either.
pub(crate) fn give_up_one() -> bool {
    give_up_any(usize::MAX) || give_up_own()
}

/// Closes an idle private connection, of a different client each time. The client's next request then needs a new connection, and must
/// authenticate again if the server authenticates connections (NTLM). So `tune.pool-high-fd-ratio`, which is about pools, does not
/// close private connections. Only a lack of descriptors does.
fn give_up_own() -> bool {
    OwnConnection::are_kept()
        && crate::worker::find_session(|session| session.take_own_connection().is_some())
}

/// Closes the oldest idle connection of one of this worker's pools, a different proxy first each time. Returns false if the pools of
/// `places` servers were searched without success.
fn give_up_any(places: usize) -> bool {
    let given_up = IDLE_POOLS.with_borrow_mut(|idle_pools| {
        let count = idle_pools.len();
        let first = NEXT_TO_GIVE.get();
        let mut looked = 0;
        for proxy in (0..count).map(|step| (first + step) % count) {
            NEXT_TO_GIVE.set(proxy + 1);
            looked += idle_pools[proxy].len();
            if let Some(pool) = idle_pools[proxy].iter_mut().find(|pool| pool.idle() > 0) {
                let oldest = pool.remove_oldest();
                pool.publish_counts(weir_sched::worker_index());
                return oldest;
            }
            if looked >= places {
                return None;
            }
        }
        None
    });
    // The connection is closed here, after the borrow ends.
    given_up.is_some()
}

/// Keeps a private connection for its client, if the client connection persists.
fn keep_own(stream: &Stream, upstream: Upstream) {
    if stream.reusable.client {
        let (backend, server) = (stream.backend.index, leased_key(stream));
        let own = OwnConnection::new(backend, server, upstream, pools_of(stream));
        stream.session.keep_own_connection(own);
    }
}

/// Releases a stream's slot on a shared connection. A private connection is kept for its client's next request.
#[cold]
fn give_shared(stream: &Stream, mut upstream: Upstream) {
    upstream.connector.complete();
    if upstream.private
        && let Some(connector) = upstream.connector.another()
    {
        keep_own(stream, Upstream { connector, counted: (0, 0), ..upstream });
    }
}

/// Takes the connection kept for this client, if it fits the request. Closes it otherwise.
pub(super) fn take_own(stream: &Stream, key: u64) -> Option<Upstream> {
    let mut own = stream.session.take_own_connection()?;
    let fits = own.backend == stream.backend.index
        && own.server == leased_key(stream)
        && own.upstream.key == key
        && is_fresh(&mut own.upstream.connector);
    fits.then(|| Upstream { reused: true, ..own.upstream })
}

fn is_fresh(connector: &mut StreamConnector) -> bool {
    match connector.connection_mut() {
        Some(connection) => connection.is_fresh(),
        None => connector.another().is_some(),
    }
}

/// Closes this worker's idle connections to a server, because its address changed or it may not be used any more.
pub fn forget(proxy: &Proxy, server: ServerKey) {
    let Some(known) = proxy.backend.as_ref().and_then(|backend| backend.server(server)) else { return };
    let mut away = Vec::new();
    with_pool_of(proxy.index, &known, |pool| pool.sweep(usize::MAX, &mut away));
    close(away);
    for session in crate::worker::sessions() {
        session.drop_own_connection(|own| own.backend == proxy.index && own.server == Some(server));
    }
}

/// Closes this worker's idle connections to all servers of a proxy.
pub(crate) fn forget_all(proxy: &Proxy) {
    let mut away = Vec::new();
    IDLE_POOLS.with_borrow_mut(|idle_pools| {
        for pool in idle_pools.get_mut(proxy.index).into_iter().flatten() {
            pool.sweep(usize::MAX, &mut away);
            pool.publish_counts(weir_sched::worker_index());
        }
    });
    close(away);
}

/// Starts the worker's keeper task, which drops connections closed by servers and half of the surplus. A thread that was a worker
/// before starts with empty pools.
pub fn start_keeper(instance: LocalInstance) {
    drop(IDLE_POOLS.take());
    drop(WAITERS.take());
    KEEPER_SLEEPS.set(true);
    let before = INSTANCE.with_borrow_mut(|kept| kept.replace(Rc::clone(&instance)));
    drop(before);
    KEEPER.set(weir_sched::spawn(&KEEPER_KIND, Class::Bulk, keep(instance)));
}

async fn keep(instance: LocalInstance) {
    let mut next_purge = Tick::NEVER;
    loop {
        let woken = wait(next_purge).await;
        if woken == Wakeup::Event && !next_purge.is_never() {
            // Servers tend to close many connections at once. One sweep handles all of them.
            weir_sched::sleep_until(clock::after(GATHER)).await;
        }
        let purge = clock::passed(next_purge);
        let mut away = Vec::new();
        let kept = sweep(&instance, purge, &mut away);
        close(away);
        if kept == 0 && purge {
            KEEPER_SLEEPS.set(true);
            next_purge = Tick::NEVER;
        } else if purge || next_purge.is_never() {
            next_purge = clock::after(PURGE_STEP);
        }
    }
}

/// Closes connections. Many are closed in a separate task that yields: closing a thousand at once blocked a worker's requests for 70
/// ms. The keeper does not wait for that task, because it would miss wake-ups.
fn close(mut away: Vec<DroppedConnection>) {
    if away.len() <= CLOSED_IN_A_TURN {
        return;
    }
    weir_sched::spawn(&CLOSING, Class::Bulk, async move {
        while !away.is_empty() {
            away.drain(..CLOSED_IN_A_TURN.min(away.len()));
            yield_now().await;
        }
    });
}

/// Sweeps all pools and moves surplus connections to `away`. Returns the number of connections left.
fn sweep(instance: &Instance, purge: bool, away: &mut Vec<DroppedConnection>) -> usize {
    let now_ms = weir_sched::now().as_ms();
    let own = weir_sched::worker_index();
    IDLE_POOLS.with_borrow_mut(|idle_pools| {
        let mut kept = 0;
        for (proxy, of_proxy) in instance.proxies.iter().zip(idle_pools) {
            let Some(backend) = &proxy.backend else { continue };
            for pool in of_proxy {
                let Some((key, _)) = pool.owner() else { continue };
                let Some(server) = backend.server(key) else {
                    // The server was removed while its connection was in transit to this worker.
                    pool.sweep(usize::MAX, away);
                    pool.publish_counts(weir_sched::worker_index());
                    continue;
                };
                let mut surplus = 0;
                if !server.is_up() || instance.is_stopping() {
                    surplus = usize::MAX;
                } else if purge && now_ms >= pool.purge_at_ms {
                    pool.purge_at_ms = now_ms.saturating_add(server.settings().pool.purge_delay_ms);
                    surplus = pool.server_pools().map_or(0, |counters| counters.purge(own)) as usize;
                }
                if pool.idle() > 0 {
                    pool.sweep(surplus, away);
                    pool.publish_counts(own);
                    kept += pool.idle();
                }
            }
        }
        kept
    })
}

static KEEPER_KIND: WorkKind = WorkKind::new("idle connections");
static CLOSING: WorkKind = WorkKind::new("idle connections that close");

/// Maximum number of servers searched for an idle connection to close. Bounds the search with many servers.
const POOLS_AT_ONCE: usize = 1024;
/// Number of connections closed per scheduling round.
const CLOSED_IN_A_TURN: usize = 8;
/// Number of tries to reserve a connection, [`TAKEOVER`] apart.
const ROUNDS: usize = 25;
/// Maximum wait for a connection from another worker.
const TAKEOVER: Duration = Duration::from_millis(2);
/// Interval of the check for surplus connections.
const PURGE_STEP: Duration = Duration::from_secs(1);
/// Delay between the first close by a server and the sweep of the pools.
const GATHER: Duration = Duration::from_millis(50);
