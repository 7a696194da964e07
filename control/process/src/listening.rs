//! The listening sockets of the process. The main thread opens and closes them. The workers accept from them.

pub(crate) mod plan;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_assemble::{LivePeers, PeerListener, RelayListener, RelayListeners, RelayWay, Resolver};
use weir_model::{Account, Bind, Global, ListenAddress, Proxy as ProxyConfig};
use weir_net::{
    Acceptor, Endpoint, HandedOver, ListeningSocket, OpenError, Opener, PlacedSocket, Placement,
    SocketOptions,
};
use weir_observe::messages::{Messages, Verbosity};
use weir_sched::{Class, Descriptor, WorkKind};
use weir_stream::instance::{Instance, Proxy};
use weir_sys::{Address, process, socket, users};

pub use plan::workers_of;

/// Parameters for opening sockets.
pub struct ListenContext<'s> {
    pub global: &'s Global,
    pub workers: usize,
    /// Whether several processes may bind the same address: not with `noreuseport` or `-dR`.
    pub reuse_port: bool,
    /// Resolves host names.
    pub resolver: &'s dyn Resolver,
    pub messages: &'s Messages,
}

/// A process that currently holds the addresses and releases them on request.
pub trait Predecessor {
    /// Signals the process to release its addresses. `false` if the process does not exist.
    fn release(&self) -> bool;
}

/// All listening sockets of the process, by listener.
#[derive(Default)]
pub struct ListeningSockets {
    sockets: Vec<ListenerSockets>,
    /// UNIX sockets still at temporary paths, each with its position in the configuration.
    placements: Vec<(Placement, String)>,
    /// UNIX sockets moved to their final paths before startup was certain to succeed.
    placed: Vec<PlacedSocket>,
}

impl Drop for ListeningSockets {
    fn drop(&mut self) {
        self.placed.drain(..).for_each(PlacedSocket::withdraw);
    }
}

/// The sockets of one listening address.
pub struct ListenerSockets {
    /// The owner of their connections.
    pub owner: SocketOwner,
    /// Indexes of the workers that accept connections and serve them.
    pub workers: Arc<[usize]>,
    /// One socket, or one per shard.
    sockets: Mutex<Vec<OwnedFd>>,
    /// Whether another process created the sockets and may continue to use them.
    inherited: bool,
    pub address: Address,
    /// The network interface to which the sockets are bound.
    interface: Option<Box<str>>,
}

/// The part of weir that serves the connections of a socket.
#[derive(Clone)]
pub enum SocketOwner {
    Frontend {
        /// The index of the proxy.
        proxy: usize,
        /// The listener's index within the proxy.
        listener: u32,
    },
    /// A runtime API socket, by the index of its `stats socket` line.
    Operator(usize),
    /// Messages for a `log-forward` section.
    Relay(Arc<RelayListener>),
    Peers(Arc<PeerListener>),
}

/// A socket to be opened.
struct SocketRequest<'w> {
    owner: SocketOwner,
    /// The name of the socket in messages: `[file:line] for frontend fe`.
    place: String,
    address: &'w ListenAddress,
    endpoint: Endpoint,
    options: SocketOptions,
    workers: Arc<[usize]>,
    shards: usize,
    /// Whether this is the only line with this address.
    alone: bool,
}

impl ListeningSockets {
    /// Opens all sockets of the instance and of the runtime API, or reuses those that a former process `gave`. If
    /// `predecessor` holds an address, asks it to release the address and retries for two seconds. `None` if a socket could not
    /// be opened. The error has been logged.
    ///
    /// UNIX sockets come first, so a program that reaches a TCP port also finds the runtime API. A path without a listener is
    /// taken immediately. [`ListeningSockets::put_in_place`] takes a path in use by another process.
    pub fn open(
        instance: &Instance,
        relays: &RelayListeners,
        peers: &LivePeers,
        context: &ListenContext<'_>,
        gave: Vec<HandedOver>,
        predecessor: &dyn Predecessor,
    ) -> Option<ListeningSockets> {
        let wanted = plan::wanted(instance, relays, peers, context)?;
        let mut opener = Opener::new();
        opener.adopt(gave);
        let mut listening = ListeningSockets::default();
        let mut opened: Vec<Option<Vec<ListeningSocket>>> = wanted.iter().map(|_| None).collect();
        let (paths, others): (Vec<_>, Vec<_>) =
            (0..wanted.len()).partition(|index| wanted[*index].is_at_a_path());
        let give_up = Instant::now() + PATIENCE;
        let mut requested = false;
        loop {
            let mut faults = Vec::new();
            for index in paths.iter().chain(&others).copied() {
                let (wanted, opened) = (&wanted[index], &mut opened[index]);
                if opened.is_some() {
                    continue;
                }
                let sockets = open_shards(&mut opener, wanted);
                match sockets.and_then(|sockets| listening.place_early(sockets, &wanted.place)) {
                    Ok(sockets) => *opened = Some(sockets),
                    Err(error) => faults.push((wanted, error)),
                }
            }
            if faults.is_empty() {
                break;
            }
            let may_help = faults.iter().all(|(_, error)| error.is_in_use()) && Instant::now() < give_up;
            if may_help && (requested || predecessor.release()) {
                requested = true;
                std::thread::sleep(RETRY);
                continue;
            }
            for (wanted, error) in faults {
                complain(context.messages, wanted, error);
            }
            context.messages.alert("[weir.main()] Some protocols failed to start their listeners! Exiting.");
            return None;
        }
        for (wanted, opened) in wanted.iter().zip(opened) {
            let opened = opened.expect("the loop ends when all are open");
            listening.sockets.push(wanted.listener_sockets(instance, opened, context.messages));
        }
        Some(listening)
    }

    /// Sets the bound addresses of the listeners in the instance.
    pub fn name_listeners(&self, instance: &mut Instance) {
        for sockets in &self.sockets {
            let SocketOwner::Frontend { proxy, listener } = sockets.owner else { continue };
            instance.proxies[proxy].listeners[listener as usize].address = Some(sockets.address.clone());
        }
    }

    /// Moves sockets to their final paths, except paths with an active listener.
    fn place_early(
        &mut self,
        mut opened: Vec<ListeningSocket>,
        place: &str,
    ) -> Result<Vec<ListeningSocket>, OpenError> {
        for placement in opened.iter_mut().filter_map(ListeningSocket::take_placement) {
            match placement.is_taken() {
                true => self.placements.push((placement, place.to_owned())),
                false => self.placed.push(placement.put_in_place()?),
            }
        }
        Ok(opened)
    }

    /// Moves UNIX sockets to their final paths, which a former process may still use. Call it when nothing else can fail.
    /// `None` on failure. The error has been logged.
    pub fn put_in_place(&mut self, messages: &Messages) -> Option<()> {
        for (placement, place) in std::mem::take(&mut self.placements) {
            if let Err(error) = placement.put_in_place() {
                messages.alert(format!("Binding {place}: {error} for [{placement}]"));
                return None;
            }
        }
        self.placed.clear();
        Some(())
    }

    /// The sockets, grouped by listener.
    pub fn all_sockets(&self) -> &[ListenerSockets] {
        &self.sockets
    }

    /// A duplicate descriptor of each listening socket, with its interface.
    pub fn all(&self) -> weir_sys::Result<Vec<(OwnedFd, Option<Box<str>>)>> {
        let mut sockets = Vec::new();
        for listener_sockets in &self.sockets {
            // A paused socket is not in the listening state. A datagram socket never is.
            let gives = |socket: &&OwnedFd| {
                socket::keeps_messages_apart(socket) || socket::is_listening(socket) == Ok(true)
            };
            for socket in listener_sockets.lock().iter().filter(gives) {
                sockets.push((process::duplicate(socket)?, listener_sockets.interface.clone()));
            }
        }
        Ok(sockets)
    }

    /// Whether accept tasks are still running: after a stop, each first drains the connections already reported to it.
    pub fn is_accepting(&self) -> bool {
        Accepting::count() > 0
    }

    /// Stops accepting on a frontend's sockets but keeps the addresses bound. New connections are refused, or go to another
    /// process on the same address. Inherited and UNIX sockets cannot be paused. Their connections wait in the backlog.
    pub fn pause(&self, proxy: &Proxy) {
        for listener_sockets in self
            .of(proxy)
            .filter(|listener_sockets| !listener_sockets.inherited && !listener_sockets.address.is_unix())
        {
            for socket in &*listener_sockets.lock() {
                stop_listening(socket);
            }
        }
    }

    /// Undoes [`ListeningSockets::pause`]. `false` if another process has one of the addresses. Then all sockets stay paused,
    /// because connections to the others would not be accepted.
    pub fn resume(&self, proxy: &Proxy) -> bool {
        let mut resumed = true;
        for listener_sockets in self.of(proxy).filter(|listener_sockets| !listener_sockets.inherited) {
            let SocketOwner::Frontend { listener, .. } = listener_sockets.owner else { continue };
            let bind = &proxy.listener(listener).bind;
            for socket in &*listener_sockets.lock() {
                resumed &= socket::listen(socket, plan::backlog(bind, &proxy.config, proxy) as i32).is_ok();
            }
        }
        if !resumed {
            self.pause(proxy);
        }
        resumed
    }

    /// Closes the main thread's descriptors of a frontend's sockets. The workers' accept tasks close theirs when they stop.
    pub fn close(&self, proxy: &Proxy) {
        self.of(proxy).for_each(|listener_sockets| listener_sockets.lock().clear());
    }

    /// Closes the main thread's descriptors of the runtime API, `log-forward` and `peers` sockets.
    pub fn close_others(&self) {
        let others = self
            .sockets
            .iter()
            .filter(|listener_sockets| !matches!(listener_sockets.owner, SocketOwner::Frontend { .. }));
        others.for_each(|listener_sockets| listener_sockets.lock().clear());
    }

    /// Pauses the sockets of `log-forward` sections, as [`ListeningSockets::pause`] does.
    pub fn pause_relays(&self) {
        for (listener_sockets, listener) in
            self.of_relays().filter(|(listener_sockets, _)| !listener_sockets.address.is_unix())
        {
            for socket in &*listener_sockets.lock() {
                match listener.way {
                    RelayWay::Stream(_) => stop_listening(socket),
                    // An error means that the socket is already paused.
                    RelayWay::Datagrams(_) => _ = socket::hear_nobody(socket),
                }
            }
        }
    }

    /// Undoes [`ListeningSockets::pause_relays`]. `false` if another process has one of the addresses. Then all stay paused.
    pub fn resume_relays(&self) -> bool {
        let mut resumed = true;
        for (listener_sockets, listener) in self.of_relays() {
            for socket in &*listener_sockets.lock() {
                let heard = match listener.way {
                    RelayWay::Stream(_) => {
                        socket::listen(socket, i32::try_from(listener.backlog).unwrap_or(i32::MAX))
                    }
                    RelayWay::Datagrams(_) if listener_sockets.address.is_unix() => Ok(()),
                    RelayWay::Datagrams(_) => socket::hear_everybody(socket),
                };
                resumed &= heard.is_ok();
            }
        }
        if !resumed {
            self.pause_relays();
        }
        resumed
    }

    /// The `log-forward` sockets that this process created.
    fn of_relays(&self) -> impl Iterator<Item = (&ListenerSockets, &RelayListener)> {
        self.sockets.iter().filter(|listener_sockets| !listener_sockets.inherited).filter_map(
            |listener_sockets| match &listener_sockets.owner {
                SocketOwner::Relay(listener) => Some((listener_sockets, &**listener)),
                _ => None,
            },
        )
    }

    fn of<'l>(&'l self, proxy: &'l Proxy) -> impl Iterator<Item = &'l ListenerSockets> {
        self.sockets.iter().filter(move |listener_sockets| match listener_sockets.owner {
            SocketOwner::Frontend { proxy: owner, .. } => owner == proxy.index,
            SocketOwner::Operator(_) | SocketOwner::Relay(_) | SocketOwner::Peers(_) => false,
        })
    }
}

impl ListenerSockets {
    /// Spawns an accept task on the current worker, if this worker serves these sockets.
    pub fn accept_here<D: Acceptor>(&self, acceptor: D, batch: u32) -> Option<weir_sched::TaskKey> {
        let position = self.workers.iter().position(|&worker| worker == weir_sched::worker_index())?;
        let descriptor = {
            let sockets = self.lock();
            let socket = sockets.get(position % sockets.len().max(1))?;
            // Each worker has a duplicate of the descriptor. The accept task closes it when it stops.
            process::duplicate(socket).and_then(Descriptor::register_shared)
        };
        // If no descriptors are free at start, only the other workers accept.
        let descriptor = descriptor.ok()?;
        let accepting = Accepting::new();
        // Urgent class, ahead of established connections: connections in the kernel's backlog wait without a deadline.
        Some(weir_sched::spawn(&ACCEPT, Class::Urgent, async move {
            weir_net::listener::accept(descriptor, acceptor, batch).await;
            drop(accepting);
        }))
    }

    /// Receives datagrams with `receive` on the current worker, if one of the sockets is assigned to it. One worker reads each
    /// socket, so messages of one sender stay in order. `number` distinguishes listeners of this kind.
    pub fn receive_here<F>(
        &self,
        number: usize,
        receive: impl FnOnce(Descriptor) -> F,
    ) -> Option<weir_sched::TaskKey>
    where
        F: Future<Output = ()> + 'static,
    {
        let own = self.workers.iter().position(|&worker| worker == weir_sched::worker_index())?;
        let workers = self.workers.len();
        let position = (own + workers - number % workers) % workers;
        // There are never more sockets than workers.
        let socket = process::duplicate(self.lock().get(position)?).ok()?;
        let descriptor = Descriptor::register(socket).ok()?;
        let (receiving, accepting) = (receive(descriptor), Accepting::new());
        Some(weir_sched::spawn(&RECEIVE, Class::Bulk, async move {
            receiving.await;
            drop(accepting);
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a running accept task until it is dropped.
struct Accepting;

static ACCEPT_TASKS: AtomicUsize = AtomicUsize::new(0);

impl Accepting {
    fn new() -> Self {
        ACCEPT_TASKS.fetch_add(1, SeqCst);
        Accepting
    }

    /// The number of accept tasks.
    fn count() -> usize {
        ACCEPT_TASKS.load(SeqCst)
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        ACCEPT_TASKS.fetch_sub(1, SeqCst);
    }
}

impl SocketRequest<'_> {
    fn is_at_a_path(&self) -> bool {
        matches!(self.endpoint, Endpoint::Address(Address::Unix(_)))
    }

    fn listener_sockets(
        &self,
        instance: &Instance,
        opened: Vec<ListeningSocket>,
        messages: &Messages,
    ) -> ListenerSockets {
        let inherited = opened.iter().any(|opened| opened.inherited);
        let address = opened.first().map(|opened| opened.address.clone()).unwrap_or_default();
        let refused: BTreeSet<String> =
            opened.iter().flat_map(|opened| &opened.refused).map(ToString::to_string).collect();
        for text in refused {
            messages.warning(format!("Binding {}: {text} for [{address}]", self.place));
        }
        if messages.verbosity() == Verbosity::Verbose {
            messages.notice(format!("Binding {}: listening at [{address}].", self.place));
        }
        if let SocketOwner::Frontend { proxy, .. } = self.owner {
            let proxy = &instance.proxies[proxy];
            for opened in &opened {
                weir_stream::accept::prepare_listener(proxy, &opened.socket);
            }
        }
        let sockets = Mutex::new(opened.into_iter().map(|opened| opened.socket).collect());
        ListenerSockets {
            owner: self.owner.clone(),
            workers: Arc::clone(&self.workers),
            sockets,
            inherited,
            address,
            interface: self.options.interface.clone(),
        }
    }
}

/// Shuts down a listening socket. A socket that is not listening stays untouched: the kernel would remember the shutdown
/// and apply it to connections accepted later.
fn stop_listening(socket: &OwnedFd) {
    if socket::is_listening(socket) == Ok(true) {
        // Fails only if another process was faster.
        let _ = socket::shutdown_both(socket);
    }
}

fn open_shards(opener: &mut Opener, wanted: &SocketRequest<'_>) -> Result<Vec<ListeningSocket>, OpenError> {
    let first = opener.open(&wanted.endpoint, &wanted.options)?;
    // The kernel chose the port. The other shards must bind the same one.
    let endpoint = match &wanted.endpoint {
        Endpoint::Address(_) => Endpoint::Address(first.address.clone()),
        inherited => inherited.clone(),
    };
    let mut opened = vec![first];
    for _ in 1..wanted.shards {
        opened.push(opener.open(&endpoint, &wanted.options)?);
    }
    // A former process had more sockets. Connections wait in the backlogs of those too.
    if let (Endpoint::Address(address), true) = (&endpoint, wanted.alone) {
        while let Some(another) = opener.another(address, &wanted.options) {
            opened.push(another?);
        }
    }
    Ok(opened)
}

fn complain(messages: &Messages, wanted: &SocketRequest<'_>, error: OpenError) {
    let address = match (&wanted.endpoint, wanted.address) {
        (Endpoint::Inherited(number) | Endpoint::Pair(number), _) => format!("fd {number}"),
        (Endpoint::Address(address), _) => address.to_string(),
    };
    messages.alert(format!("Binding {}: {error} for [{address}]", wanted.place));
}

/// Opens the sockets of a `bind` line outside an instance: the master's CLI. `None` if one cannot be opened. The error has
/// been logged. UNIX sockets stay at temporary paths.
pub fn open_apart(opener: &mut Opener, bind: &Bind, messages: &Messages) -> Option<Vec<ListeningSocket>> {
    let global = Global::default();
    let resolver = &weir_assemble::SystemResolver::default();
    let context = ListenContext { global: &global, workers: 1, reuse_port: true, resolver, messages };
    let mut opened = Vec::new();
    let mut open = || -> Result<(), String> {
        let options = plan::options(bind, bind.options.backlog.unwrap_or(BACKLOG_APART), &context)?;
        for address in &bind.addresses {
            let options = SocketOptions { multipath: address.is_multipath(), ..options.clone() };
            for endpoint in plan::endpoints(address, &context) {
                let because = |error: OpenError| format!("{error} for [{}]", bind.spelling);
                opened.push(opener.open(&endpoint?, &options).map_err(because)?);
            }
        }
        Ok(())
    };
    if let Err(fault) = open() {
        messages.alert(format!("Binding [{}] for proxy MASTER: {fault}", bind.spelling));
        return None;
    }
    Some(opened)
}

/// The numeric user or group id of a UNIX socket's owner.
fn account(account: Option<&Account>, look_up: impl Fn(&str) -> Option<u32>) -> Result<Option<u32>, String> {
    match account {
        None => Ok(None),
        Some(Account::Id(id)) => Ok(Some(*id)),
        Some(Account::Name(name)) => look_up(name).map(Some).ok_or_else(|| format!("'{name}' is unknown")),
    }
}

fn user_id(name: &str) -> Option<u32> {
    users::user(name).ok().flatten().map(|user| user.id)
}

fn group_id(name: &str) -> Option<u32> {
    users::group(name).ok().flatten()
}

static ACCEPT: WorkKind = WorkKind::new("accept");
static RECEIVE: WorkKind = WorkKind::new("log datagrams");
/// The backlog of a socket outside an instance.
const BACKLOG_APART: u32 = 128;
/// The time limit for a predecessor to release its addresses.
const PATIENCE: Duration = Duration::from_secs(2);
/// The interval between attempts to bind in that time.
const RETRY: Duration = Duration::from_millis(10);
