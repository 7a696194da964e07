//! The listening sockets of the process: opened in the main thread, accepted from on the workers, closed at the end.

pub(crate) mod plan;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_config::model::{Account, Bind, Global, ListenAddress, Proxy as ProxyConfig};
use weir_net::{Acceptor, Endpoint, HandedOver, OpenError, Opened, Opener, Placement, SocketOptions};
use weir_sched::{Class, Descriptor, Kind};
use weir_stream::instance::{Instance, Listener, Proxy};
use weir_sys::{Address, process, socket, users};

use crate::build::{LivePeers, LiveRelays, PeerListener, RelayListener, RelayWay, Resolver};
use crate::messages::Messages;

pub use plan::workers_of;

/// What opening needs to know of the process.
pub struct BindContext<'s> {
    /// The global section.
    pub global: &'s Global,
    /// How many workers there will be.
    pub workers: usize,
    /// Several processes may have the same address at once: not with `noreuseport` or `-dR`.
    pub reuse_port: bool,
    /// Turns names into addresses.
    pub resolver: &'s dyn Resolver,
    /// Where to say what is wrong.
    pub messages: &'s Messages,
}

/// A process that has the addresses now, and will give them up when it is told to.
pub trait Predecessor {
    /// Asks it to release its addresses. `false` when there is nobody to ask.
    fn release(&self) -> bool;
}

/// All listening sockets.
#[derive(Default)]
pub struct Listening {
    sockets: Vec<ListenerSockets>,
    /// UNIX sockets that have no path of their own yet, and where each was written.
    placements: Vec<(Placement, String)>,
}

/// The sockets of one listener.
pub struct ListenerSockets {
    /// Whose connections they bring.
    pub owner: Owner,
    /// The numbers of the workers that accept and serve.
    pub workers: &'static [usize],
    /// One, or one for each shard.
    sockets: Mutex<Vec<OwnedFd>>,
    /// Somebody else made them, and may go on using them.
    inherited: bool,
    /// Where they listen.
    pub address: Address,
    /// The network interface that they are bound to.
    interface: Option<Box<str>>,
}

/// Whose connections a socket brings.
#[derive(Clone, Copy)]
pub enum Owner {
    /// A frontend's.
    Frontend(&'static Listener),
    /// The runtime API's, of the `stats socket` line at this position.
    Operator(usize),
    /// Messages for a `log-forward` section.
    Relay(&'static RelayListener),
    /// A peer's.
    Peers(&'static PeerListener),
}

/// A socket that is to be opened.
struct SocketRequest<'w> {
    owner: Owner,
    /// As messages name it: `[file:line] for frontend fe`.
    place: String,
    address: &'w ListenAddress,
    endpoint: Endpoint,
    options: SocketOptions,
    workers: &'static [usize],
    shards: usize,
    /// No other line wants this address.
    alone: bool,
}

impl Listening {
    /// Opens every socket of the instance and of the runtime API, or uses one of those that a former process `gave`. While `predecessor` has an address, it is asked to
    /// release it, and given some time. `None` when something could not be opened; that was said.
    pub fn open(
        instance: &'static Instance,
        relays: &'static LiveRelays,
        peers: &'static LivePeers,
        context: &BindContext<'_>,
        gave: Vec<HandedOver>,
        predecessor: &dyn Predecessor,
    ) -> Option<Listening> {
        let wanted = plan::wanted(instance, relays, peers, context)?;
        let mut opener = Opener::new();
        opener.adopt(gave);
        let mut opened: Vec<Option<Vec<Opened>>> = wanted.iter().map(|_| None).collect();
        let give_up = Instant::now() + PATIENCE;
        let mut asked = false;
        loop {
            let mut faults = Vec::new();
            for (wanted, opened) in wanted.iter().zip(&mut opened).filter(|(_, opened)| opened.is_none()) {
                match open_shards(&mut opener, wanted) {
                    Ok(sockets) => *opened = Some(sockets),
                    Err(error) => faults.push((wanted, error)),
                }
            }
            if faults.is_empty() {
                break;
            }
            let may_help = faults.iter().all(|(_, error)| error.is_in_use()) && Instant::now() < give_up;
            if may_help && (asked || predecessor.release()) {
                asked = true;
                std::thread::sleep(RETRY);
                continue;
            }
            for (wanted, error) in faults {
                complain(context.messages, wanted, error);
            }
            context.messages.alert("[weir.main()] Some protocols failed to start their listeners! Exiting.");
            return None;
        }
        let mut listening = Listening::default();
        for (wanted, opened) in wanted.iter().zip(opened) {
            let mut opened = opened.expect("the loop ends when all are open");
            let beside = opened.iter_mut().filter_map(Opened::take_placement);
            listening.placements.extend(beside.map(|placement| (placement, wanted.place.clone())));
            listening.sockets.push(wanted.listener_sockets(opened, context.messages));
        }
        Some(listening)
    }

    /// Gives UNIX sockets their paths, which may be a former process's until now. To be called once nothing else can fail. `None`
    /// when that did; it was said.
    pub fn put_in_place(&mut self, messages: &Messages) -> Option<()> {
        for (placement, place) in std::mem::take(&mut self.placements) {
            if let Err(error) = placement.put_in_place() {
                messages.alert(format!("Binding {place}: {error} for [{placement}]"));
                return None;
            }
        }
        Some(())
    }

    /// Each listener's sockets.
    pub fn all_sockets(&self) -> &[ListenerSockets] {
        &self.sockets
    }

    /// A descriptor of each socket, and the interface that it is bound to.
    pub fn all(&self) -> weir_sys::Result<Vec<(OwnedFd, Option<Box<str>>)>> {
        let mut sockets = Vec::new();
        for listener_sockets in &self.sockets {
            // A paused one listens no more; one for datagrams never does.
            let gives = |socket: &&OwnedFd| {
                socket::keeps_messages_apart(socket) || socket::is_listening(socket) == Ok(true)
            };
            for socket in listener_sockets.lock().iter().filter(gives) {
                sockets.push((process::duplicate(socket)?, listener_sockets.interface.clone()));
            }
        }
        Ok(sockets)
    }

    /// Whether a connection may still come in: accept tasks that were told to stop take what was reported to them alone.
    pub fn is_accepting(&self) -> bool {
        Accepting::count() > 0
    }

    /// Stops a frontend's sockets from taking connections without giving the addresses up for good; connections that
    /// come meanwhile are refused, so that another process on the same address gets them. Sockets of somebody else,
    /// and those that cannot be paused, keep their connections waiting.
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

    /// Undoes [`Listening::pause`]. `false` when another process has one of the addresses now: then all stay paused, as nobody
    /// would accept what comes to the others.
    pub fn resume(&self, proxy: &Proxy) -> bool {
        let mut resumed = true;
        for listener_sockets in self.of(proxy).filter(|listener_sockets| !listener_sockets.inherited) {
            let Owner::Frontend(listener) = listener_sockets.owner else { continue };
            for socket in &*listener_sockets.lock() {
                resumed &= socket::listen(socket, plan::backlog(&listener.bind, &proxy.config, proxy) as i32)
                    .is_ok();
            }
        }
        if !resumed {
            self.pause(proxy);
        }
        resumed
    }

    /// Closes a frontend's sockets in the main thread; the workers' accept tasks close theirs when they end.
    pub fn close(&self, proxy: &Proxy) {
        self.of(proxy).for_each(|listener_sockets| listener_sockets.lock().clear());
    }

    /// Closes the sockets of the runtime API, of `log-forward` and of `peers` sections in the main thread.
    pub fn close_others(&self) {
        let others = self
            .sockets
            .iter()
            .filter(|listener_sockets| !matches!(listener_sockets.owner, Owner::Frontend(_)));
        others.for_each(|listener_sockets| listener_sockets.lock().clear());
    }

    /// Stops connections and datagrams from coming to `log-forward` sections, as [`Listening::pause`] does.
    pub fn pause_relays(&self) {
        for (listener_sockets, listener) in
            self.of_relays().filter(|(listener_sockets, _)| !listener_sockets.address.is_unix())
        {
            for socket in &*listener_sockets.lock() {
                match listener.way {
                    RelayWay::Stream(_) => stop_listening(socket),
                    // One that is paused already says so; that is what is wanted.
                    RelayWay::Datagrams(_) => _ = socket::hear_nobody(socket),
                }
            }
        }
    }

    /// Undoes [`Listening::pause_relays`]. `false` when another process has an address now: then all stay paused.
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

    /// Sockets of this process that `log-forward` sections receive from.
    fn of_relays(&self) -> impl Iterator<Item = (&ListenerSockets, &'static RelayListener)> {
        self.sockets.iter().filter(|listener_sockets| !listener_sockets.inherited).filter_map(
            |listener_sockets| match listener_sockets.owner {
                Owner::Relay(listener) => Some((listener_sockets, listener)),
                _ => None,
            },
        )
    }

    fn of<'l>(&'l self, proxy: &'l Proxy) -> impl Iterator<Item = &'l ListenerSockets> {
        self.sockets.iter().filter(move |listener_sockets| match listener_sockets.owner {
            Owner::Frontend(listener) => listener.proxy().index == proxy.index,
            Owner::Operator(_) | Owner::Relay(_) | Owner::Peers(_) => false,
        })
    }
}

impl ListenerSockets {
    /// Starts to accept on the current worker, if this is one of its workers.
    pub fn accept_here<D: Acceptor>(&self, door: D, batch: u32) -> Option<weir_sched::TaskKey> {
        let position = self.workers.iter().position(|&worker| worker == weir_sched::worker_index())?;
        let descriptor = {
            let sockets = self.lock();
            let socket = sockets.get(position % sockets.len().max(1))?;
            // Each worker has a descriptor of its own: it goes away with the worker's accept task.
            process::duplicate(socket).and_then(Descriptor::register_shared)
        };
        // Without descriptors left at start, other workers accept.
        let descriptor = descriptor.ok()?;
        let accepting = Accepting::new();
        // Before what is served already: who waits in the kernel's queue waits unseen.
        Some(weir_sched::spawn(&ACCEPT, Class::Urgent, async move {
            weir_net::listener::accept(descriptor, door, batch).await;
            drop(accepting);
        }))
    }

    /// Receives datagrams with `receive` on the current worker, if it is this one that reads one of the sockets: each is
    /// read by one worker, so that messages of a sender stay in order. `number` tells such sockets apart.
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

/// One accept task, counted as long as it may still accept.
struct Accepting;

static ACCEPT_TASKS: AtomicUsize = AtomicUsize::new(0);

impl Accepting {
    fn new() -> Self {
        ACCEPT_TASKS.fetch_add(1, SeqCst);
        Accepting
    }

    /// How many there are.
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
    fn listener_sockets(&self, opened: Vec<Opened>, messages: &Messages) -> ListenerSockets {
        let inherited = opened.iter().any(|opened| opened.inherited);
        let address = opened.first().map(|opened| opened.address.clone()).unwrap_or_default();
        let refused: BTreeSet<String> =
            opened.iter().flat_map(|opened| &opened.refused).map(ToString::to_string).collect();
        for text in refused {
            messages.warning(format!("Binding {}: {text} for [{address}]", self.place));
        }
        if let Owner::Frontend(listener) = self.owner {
            // Opened once: nobody has set it before.
            let _ = listener.address.set(address.clone());
            for opened in &opened {
                weir_stream::accept::prepare_listener(listener.proxy(), &opened.socket);
            }
        }
        let sockets = Mutex::new(opened.into_iter().map(|opened| opened.socket).collect());
        ListenerSockets {
            owner: self.owner,
            workers: self.workers,
            sockets,
            inherited,
            address,
            interface: self.options.interface.clone(),
        }
    }
}

/// Has a socket listen no more, until it is told to again. One that does not listen is left alone: the kernel would remember that
/// it was shut, and so would be every connection that it accepts later.
fn stop_listening(socket: &OwnedFd) {
    if socket::is_listening(socket) == Ok(true) {
        // It can only fail when somebody else was faster.
        let _ = socket::shutdown_both(socket);
    }
}

fn open_shards(opener: &mut Opener, wanted: &SocketRequest<'_>) -> Result<Vec<Opened>, OpenError> {
    let first = opener.open(&wanted.endpoint, &wanted.options)?;
    // The kernel chose a port: the other shards have to have the same one.
    let endpoint = match &wanted.endpoint {
        Endpoint::Address(_) => Endpoint::Address(first.address.clone()),
        inherited => inherited.clone(),
    };
    let mut opened = vec![first];
    for _ in 1..wanted.shards {
        opened.push(opener.open(&endpoint, &wanted.options)?);
    }
    // A former process had more of them: connections wait in those too.
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

/// Opens the sockets of a line that belongs to no instance: a master's command line. `None` when one cannot be opened; that was
/// said. UNIX sockets are still beside their paths.
pub fn open_apart(opener: &mut Opener, bind: &Bind, messages: &Messages) -> Option<Vec<Opened>> {
    let global = Global::default();
    let resolver = &crate::build::SystemResolver::default();
    let context = BindContext { global: &global, workers: 1, reuse_port: true, resolver, messages };
    let mut opened = Vec::new();
    let mut open = || -> Result<(), String> {
        let options = plan::options(bind, bind.options.backlog.unwrap_or(BACKLOG_APART), &context)?;
        for address in &bind.addresses {
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

/// Who owns a UNIX socket, by number.
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

static ACCEPT: Kind = Kind::new("accept");
static RECEIVE: Kind = Kind::new("log datagrams");
/// How many may wait to be accepted by a line of no instance.
const BACKLOG_APART: u32 = 128;
/// How long a predecessor has to release its addresses.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the addresses are tried meanwhile.
const RETRY: Duration = Duration::from_millis(10);
