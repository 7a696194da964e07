//! Idle connections to servers: kept by the worker that used them last, taken over by a worker that has none.
//!
//! A worker's idle connections are its own: no lock guards them. What others may know is how many there are
//! ([`IdlePools`]). A worker that finds none of its own asks the one that has most; the answer is a descriptor, which
//! it registers with its own poller. Dead ones are noticed because their descriptors' events wake the worker's keeper.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use weir_backend::{ServerKey, Usage};
use weir_config::model::Reuse;
use weir_net::Connection;
use weir_sched::{Class, Descriptor, Kind, TaskKey, Wakeup, wait};

use crate::clock;
use crate::exchange::{Exchange, Upstream};
use crate::site::{Proxy, Site};

/// What all workers may know about the connections to one server that are idle or may become so.
#[derive(Debug)]
pub struct IdlePools {
    /// What each worker keeps.
    kept: Box<[Kept]>,
    /// Connections in use now, of all workers.
    used: AtomicU32,
    /// The most of them since the last estimate.
    used_maximum: AtomicU32,
    /// Connections that wait for the next request of the only client that may use them.
    private: AtomicU32,
    /// How many connections are expected to be needed, and when to look again.
    estimate: AtomicU32,
    estimate_at_ms: AtomicU64,
}

/// How many idle connections a worker keeps.
#[derive(Debug, Default)]
struct Kept {
    all: AtomicU32,
    proven: AtomicU32,
}

impl IdlePools {
    /// Pools for so many workers.
    pub fn new(workers: usize) -> Self {
        IdlePools {
            kept: (0..workers.max(1)).map(|_| Kept::default()).collect(),
            used: AtomicU32::new(0),
            used_maximum: AtomicU32::new(0),
            private: AtomicU32::new(0),
            estimate: AtomicU32::new(0),
            estimate_at_ms: AtomicU64::new(0),
        }
    }

    /// How many idle connections there are.
    pub fn idle(&self) -> u32 {
        self.kept.iter().map(|kept| kept.all.load(Relaxed)).sum()
    }

    /// How many of them have been used again at least once.
    pub fn proven(&self) -> u32 {
        self.kept.iter().map(|kept| kept.proven.load(Relaxed)).sum()
    }

    /// How many idle connections one worker keeps.
    pub fn idle_of(&self, worker: usize) -> u32 {
        self.kept.get(worker).map_or(0, |kept| kept.all.load(Relaxed))
    }

    /// How many connections are in use.
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// The most that were in use at once since the last estimate.
    pub fn used_maximum(&self) -> u32 {
        self.used_maximum.load(Relaxed)
    }

    /// How many wait for the only client that may use them. They count as used.
    pub fn private(&self) -> u32 {
        self.private.load(Relaxed)
    }

    /// How many are expected to be needed at once.
    pub fn needed(&self) -> u32 {
        self.estimate.load(Relaxed).max(self.used_maximum())
    }

    /// A connection is in use from now on.
    fn use_one(&self) {
        let used = self.used.fetch_add(1, Relaxed) + 1;
        if self.used_maximum.load(Relaxed) < used {
            self.used_maximum.fetch_max(used, Relaxed);
        }
    }

    fn set(&self, worker: usize, shelf: &Shelf) {
        if let Some(kept) = self.kept.get(worker) {
            kept.all.store(u32::try_from(shelf.idle.len()).unwrap_or(u32::MAX), Relaxed);
            kept.proven.store(u32::try_from(shelf.proven).unwrap_or(u32::MAX), Relaxed);
        }
    }

    /// Estimates anew how many connections are needed, if no worker did in this period.
    fn estimate(&self, now_ms: u64, period_ms: u64) {
        let due_ms = self.estimate_at_ms.load(Relaxed);
        let next_ms = now_ms.saturating_add(period_ms);
        if now_ms < due_ms || self.estimate_at_ms.compare_exchange(due_ms, next_ms, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let usage = Usage {
            unproven: self.idle().saturating_sub(self.proven()),
            proven: self.proven(),
            used: self.used(),
            used_maximum: self.used_maximum(),
            estimate: self.estimate.load(Relaxed),
        };
        self.estimate.store(weir_backend::purge_plan(usage).estimate, Relaxed);
        self.used_maximum.store(self.used(), Relaxed);
    }

    /// The worker, other than `own`, that keeps most.
    fn richest(&self, own: usize) -> Option<usize> {
        let others = self
            .kept
            .iter()
            .enumerate()
            .filter(|(worker, kept)| *worker != own && kept.all.load(Relaxed) > 0);
        others.max_by_key(|(_, kept)| kept.all.load(Relaxed)).map(|(worker, _)| worker)
    }
}

/// One idle connection.
struct Idle {
    connection: Connection,
    requests: u32,
    hash: u64,
}

impl Idle {
    /// Whether the server neither closed it nor said anything unasked.
    fn is_fresh(&self) -> bool {
        !self.connection.descriptor().is_readable()
            && !self.connection.peer_closed()
            && !self.connection.is_broken()
    }

    /// Whether it has been used again at least once.
    fn is_proven(&self) -> bool {
        self.requests >= PROVEN
    }

    fn into_upstream(self) -> Upstream {
        self.connection.descriptor().set_owner(weir_sched::current());
        Upstream { connection: self.connection, reused: true, requests: self.requests, hash: self.hash }
    }
}

/// The idle connections to one server that this worker keeps.
#[derive(Default)]
struct Shelf {
    idle: Vec<Idle>,
    /// How many of them have been used again at least once.
    proven: usize,
    /// The fewest there were since the last purge: that many were not needed.
    unused: usize,
    purge_at_ms: u64,
}

impl Shelf {
    fn push(&mut self, idle: Idle) {
        self.proven += usize::from(idle.is_proven());
        self.idle.push(idle);
    }

    /// Counts again what is left after connections were dropped.
    fn recount(&mut self) {
        self.proven = self.idle.iter().filter(|idle| idle.is_proven()).count();
    }
}

thread_local! {
    /// By proxy, then by server.
    static SHELVES: RefCell<Vec<Vec<Shelf>>> = const { RefCell::new(Vec::new()) };
    static KEEPER: Cell<TaskKey> = const { Cell::new(TaskKey::NONE) };
    /// Who waits for a connection from another worker, and what came.
    static EXPECTED: RefCell<Vec<Expected>> = const { RefCell::new(Vec::new()) };
}

/// A task that waits for a connection from another worker.
struct Expected {
    task: TaskKey,
    answer: Option<Option<Parcel>>,
}

/// A connection on its way from one worker to another.
struct Parcel {
    descriptor: OwnedFd,
    requests: u32,
}

fn with_shelf<R>(proxy: &Proxy, server: usize, then: impl FnOnce(&mut Shelf) -> R) -> R {
    SHELVES.with_borrow_mut(|shelves| {
        if shelves.len() <= proxy.index {
            shelves.resize_with(proxy.index + 1, Vec::new);
        }
        let of_proxy = &mut shelves[proxy.index];
        if of_proxy.len() <= server {
            of_proxy.resize_with(server + 1, Shelf::default);
        }
        then(&mut of_proxy[server])
    })
}

/// Takes an idle connection of this worker to the leased server.
pub(super) fn take(exchange: &Exchange, hash: u64) -> Option<Upstream> {
    let server = exchange.lease.as_ref()?.server().key().index();
    let proven_only = exchange.backend.config.settings.options.reuse == Reuse::Aggressive
        && exchange.session.requests.get() <= 1;
    let pools = exchange.backend.idle.get(server)?;
    let taken = with_shelf(exchange.backend, server, |shelf| {
        let mut looked = 0;
        let mut at = shelf.idle.len();
        let mut found = None;
        // The youngest first: its memory is warm, and its server least likely to have closed it.
        while at > 0 && looked < LOOK {
            at -= 1;
            looked += 1;
            let candidate = &shelf.idle[at];
            if candidate.hash != hash || (proven_only && !candidate.is_proven()) {
                continue;
            }
            let candidate = shelf.idle.swap_remove(at);
            shelf.proven -= usize::from(candidate.is_proven());
            if candidate.is_fresh() {
                found = Some(candidate);
                break;
            }
        }
        shelf.unused = shelf.unused.min(shelf.idle.len());
        pools.set(weir_sched::worker_index(), shelf);
        found
    })?;
    pools.use_one();
    Some(taken.into_upstream())
}

/// Asks the worker that keeps most for one of its idle connections.
pub(super) async fn take_over(exchange: &Exchange, hash: u64) -> Option<Upstream> {
    let lease = exchange.lease.as_ref()?;
    let server = lease.server().key().index();
    let pools = exchange.backend.idle.get(server)?;
    let settings = lease.server().settings().pool;
    if hash != 0 || !settings.shared || pools.idle() < settings.low.max(1) {
        return None;
    }
    let own = weir_sched::worker_index();
    let other = pools.richest(own)?;
    let (proxy, task) = (exchange.backend, weir_sched::current());
    EXPECTED.with_borrow_mut(|expected| expected.push(Expected { task, answer: None }));
    let asked = weir_sched::send_to(other, move || {
        let parcel = give_away(proxy, server);
        let _ = weir_sched::send_to(own, move || arrive(proxy, server, task, parcel));
    });
    // The other worker may be busy: then a new connection is the better choice.
    let deadline = clock::after(TAKEOVER);
    while asked.is_ok() && !answered(task) && wait(deadline).await != Wakeup::Deadline {}
    let parcel = EXPECTED.with_borrow_mut(|expected| {
        let at = expected.iter().position(|expected| expected.task == task)?;
        expected.swap_remove(at).answer?
    })?;
    let idle = parcel.unpack()?;
    pools.use_one();
    Some(idle.into_upstream())
}

fn answered(task: TaskKey) -> bool {
    EXPECTED.with_borrow(|expected| expected.iter().any(|one| one.task == task && one.answer.is_some()))
}

/// The other worker's answer: for who waits, or for the shelf when nobody does any more.
fn arrive(proxy: &'static Proxy, server: usize, task: TaskKey, parcel: Option<Parcel>) {
    let unwanted =
        EXPECTED.with_borrow_mut(|expected| match expected.iter_mut().find(|one| one.task == task) {
            Some(one) => {
                one.answer = Some(parcel);
                None
            }
            None => parcel,
        });
    match unwanted.and_then(Parcel::unpack) {
        Some(idle) => {
            idle.connection.descriptor().set_owner(KEEPER.get());
            with_shelf(proxy, server, |shelf| {
                shelf.push(idle);
                if let Some(pools) = proxy.idle.get(server) {
                    pools.set(weir_sched::worker_index(), shelf);
                }
            });
        }
        None => weir_sched::wake(task),
    }
}

impl Parcel {
    fn unpack(self) -> Option<Idle> {
        let connection = Connection::new(Descriptor::register(self.descriptor).ok()?);
        Some(Idle { connection, requests: self.requests, hash: 0 })
    }
}

/// Gives one idle connection to another worker.
fn give_away(proxy: &'static Proxy, server: usize) -> Option<Parcel> {
    let idle = with_shelf(proxy, server, |shelf| {
        // The oldest go first: this worker's own requests use the youngest.
        let at = shelf.idle.iter().position(|idle| idle.hash == 0 && idle.is_fresh())?;
        let idle = shelf.idle.remove(at);
        shelf.proven -= usize::from(idle.is_proven());
        if let Some(pools) = proxy.idle.get(server) {
            pools.set(weir_sched::worker_index(), shelf);
        }
        Some(idle)
    })?;
    Some(Parcel { descriptor: idle.connection.into_descriptor().into_fd(), requests: idle.requests })
}

/// Keeps a connection for whoever comes next, if the limits allow.
pub(crate) fn give(exchange: &Exchange, mut upstream: Upstream) {
    upstream.requests = upstream.requests.saturating_add(1);
    let Some(lease) = &exchange.lease else {
        // Without a server (`option transparent`) a connection can only serve its own client again.
        if exchange.facts.keep_client {
            keep_own(exchange, None, upstream);
        }
        return;
    };
    let server = lease.server().key().index();
    let Some(pools) = exchange.backend.idle.get(server) else { return };
    let settings = lease.server().settings().pool;
    let private =
        upstream.hash & PRIVATE != 0 || exchange.backend.config.settings.options.reuse == Reuse::Never;
    let worn = settings.maximum_reuse.is_some_and(|most| upstream.requests > most);
    let full = settings.maximum.is_some_and(|most| pools.idle() >= most);
    if private && !worn && exchange.facts.keep_client {
        keep_own(exchange, Some(pools), upstream);
        return;
    }
    in_use_no_more(pools);
    if private || worn || full || settings.purge_delay_ms == 0 || !lease.server().is_up() {
        return;
    }
    upstream.connection.descriptor().set_owner(KEEPER.get());
    let idle = Idle { connection: upstream.connection, requests: upstream.requests, hash: upstream.hash };
    with_shelf(exchange.backend, server, |shelf| {
        if shelf.idle.is_empty() {
            shelf.unused = 0;
        }
        shelf.push(idle);
        pools.set(weir_sched::worker_index(), shelf);
    });
}

/// A server connection that serves one client only, and waits for that client's next request.
pub struct OwnConnection {
    backend: usize,
    /// None without a server (`option transparent`).
    server: Option<usize>,
    upstream: Option<Upstream>,
    pools: Option<&'static IdlePools>,
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        if let (Some(_), Some(pools)) = (self.upstream.take(), self.pools) {
            pools.private.fetch_sub(1, Relaxed);
            in_use_no_more(pools);
        }
    }
}

/// Keeps a connection that nobody else may use with its client.
fn keep_own(exchange: &Exchange, pools: Option<&'static IdlePools>, upstream: Upstream) {
    let (backend, server) = (exchange.backend.index, leased_index(exchange));
    let own = OwnConnection { backend, server, upstream: Some(upstream), pools };
    if let Some(pools) = pools {
        pools.private.fetch_add(1, Relaxed);
    }
    *exchange.session.own_connection.borrow_mut() = Some(Box::new(own));
}

fn leased_index(exchange: &Exchange) -> Option<usize> {
    exchange.lease.as_ref().map(|lease| lease.server().key().index())
}

/// Takes the connection that this client kept, if it still fits.
pub(super) fn take_own(exchange: &Exchange, hash: u64) -> Option<Upstream> {
    let server = leased_index(exchange);
    let mut own = exchange.session.own_connection.borrow_mut().take()?;
    let mut upstream = own.upstream.take()?;
    let connection = &upstream.connection;
    let fresh =
        !connection.descriptor().is_readable() && !connection.peer_closed() && !connection.is_broken();
    if own.backend != exchange.backend.index || own.server != server || upstream.hash != hash || !fresh {
        own.upstream = Some(upstream);
        return None;
    }
    if let Some(pools) = own.pools {
        pools.private.fetch_sub(1, Relaxed);
    }
    upstream.reused = true;
    Some(upstream)
}

/// A connection in use was closed.
pub(crate) fn closed(exchange: &Exchange) {
    let Some(lease) = &exchange.lease else { return };
    if let Some(pools) = exchange.backend.idle.get(lease.server().key().index()) {
        in_use_no_more(pools);
    }
}

/// A connection was opened.
pub(super) fn opened(exchange: &Exchange) {
    let Some(lease) = &exchange.lease else { return };
    if let Some(pools) = exchange.backend.idle.get(lease.server().key().index()) {
        pools.use_one();
    }
}

fn in_use_no_more(pools: &IdlePools) {
    let _ = pools.used.fetch_update(Relaxed, Relaxed, |used| used.checked_sub(1));
}

/// Starts the worker's keeper: it drops what servers closed, and half of what nobody needed.
pub fn start_keeper(site: &'static Site) {
    KEEPER.set(weir_sched::spawn(&KEEPER_KIND, Class::Bulk, keep(site)));
}

async fn keep(site: &'static Site) {
    let mut next_purge = clock::after(PURGE_STEP);
    loop {
        let woken = wait(next_purge).await;
        if woken == Wakeup::Event {
            // Servers tend to close many at once: one look for all of them.
            weir_sched::sleep_until(clock::after(GATHER)).await;
        }
        sweep(site, clock::passed(next_purge));
        if clock::passed(next_purge) {
            next_purge = clock::after(PURGE_STEP);
        }
    }
}

fn sweep(site: &'static Site, purge: bool) {
    let now_ms = weir_sched::now().as_ms();
    SHELVES.with_borrow_mut(|shelves| {
        for (proxy, of_proxy) in site.proxies.iter().zip(shelves) {
            let Some(backend) = &proxy.backend else { continue };
            for (server, shelf) in backend.servers().iter().zip(of_proxy) {
                let delay_ms = server.settings().pool.purge_delay_ms;
                let Some(pools) = proxy.idle.get(server.key().index()) else { continue };
                if purge {
                    pools.estimate(now_ms, delay_ms);
                }
                if shelf.idle.is_empty() {
                    continue;
                }
                shelf.idle.retain(Idle::is_fresh);
                if purge && now_ms >= shelf.purge_at_ms {
                    // Half of what was not needed since last time (manual, "pool-purge-delay").
                    let surplus = shelf.unused.min(shelf.idle.len()).div_ceil(2);
                    shelf.idle.drain(..surplus);
                    shelf.unused = shelf.idle.len();
                    shelf.purge_at_ms = now_ms.saturating_add(delay_ms);
                }
                if !server.is_up() || site.is_stopping() {
                    shelf.idle.clear();
                }
                shelf.recount();
                pools.set(weir_sched::worker_index(), shelf);
            }
        }
    });
}

/// Drops the idle connections of the current worker to one server, because they lead somewhere else now.
pub fn forget(proxy: &Proxy, server: ServerKey) {
    with_shelf(proxy, server.index(), |shelf| {
        shelf.idle.clear();
        shelf.recount();
        if let Some(pools) = proxy.idle.get(server.index()) {
            pools.set(weir_sched::worker_index(), shelf);
        }
    });
}

/// Set in the hash of a connection that serves one client only.
pub(super) const PRIVATE: u64 = 1 << 63;

static KEEPER_KIND: Kind = Kind::new("idle connections");

/// A connection that carried so many requests has been used again: its server keeps connections open.
const PROVEN: u32 = 2;
/// How many idle connections are looked at for one that fits: the search stays short on large shelves.
const LOOK: usize = 32;
/// How long a connection from another worker is waited for.
const TAKEOVER: Duration = Duration::from_millis(2);
/// How often surplus is looked for.
const PURGE_STEP: Duration = Duration::from_secs(1);
/// How long closings are gathered before the shelves are swept.
const GATHER: Duration = Duration::from_millis(50);
