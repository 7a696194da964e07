//! Log backends: server selection for each line, and transport.
//!
//! ```text
//! line ──► LogSink ──► LogBackend ──► a server that is sent datagrams: one system call that never waits
//!                        │ └─────► any other: its ring ──► forward.rs ──► its connection
//!                        └ none usable, no room, refused by the kernel: dropped, counted
//! ```
//! The attached `Backend` is an ordinary one, with servers, states and statistics. Whenever it may have changed, the log backend
//! publishes the servers that can receive lines, with their transports. Sending a line reads that version, without locks or
//! allocation. Weights are ignored (manual, "balance").

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use weir_model::HashType;

use weir_backend::{
    Backend, BackendCounter, BackendCounters, BackendView, Server, ServerAddress, ServerCounter, ServerKey,
    hash::hash,
};
use weir_events::{LogServers, Sockets, open_datagrams, write_to_ring};
use weir_expr::Chain;
use weir_net::OwnedSource;
use weir_sync::{CachePadded, Ring, VersionCell};
use weir_sys::{Address, AddressFamily, Errno, socket};

use crate::forward::Forward;

/// A backend in log mode: its servers, and the policy that chooses one for each message.
pub struct LogBackend {
    name: Arc<str>,
    policy: Policy,
    /// The round-robin counter, shared by all workers.
    turn: CachePadded<AtomicUsize>,
    /// One transport per configured server, by index.
    transports: Box<[LogTransport]>,
    usable: VersionCell<Usable>,
}

/// The load balancing algorithm.
#[derive(Debug)]
pub enum Policy {
    Turns,
    Random,
    /// By a hash of the converters' result for the text. Round-robin if the converters fail.
    Hash(Arc<Chain>, HashType),
    Sticky,
}

/// How lines reach a server.
#[derive(Debug)]
pub enum LogTransport {
    /// A ring, read by a [`Forward`] of this process.
    Ring { ring: Arc<Ring>, forward: Arc<Forward> },
    Datagrams {
        /// The source address, if configured.
        source: Option<OwnedSource>,
        /// The socket bound to `source`, shared by the workers.
        socket: OnceLock<Result<Arc<OwnedFd>, Errno>>,
    },
}

/// The servers that can receive lines now.
#[derive(Default)]
struct Usable {
    exits: Box<[LogExit]>,
    /// The counters of the backend. `None` before [`LogBackend::attach`].
    counters: Option<Arc<BackendCounters>>,
}

/// A server that can receive lines now.
#[derive(Debug)]
struct LogExit {
    server: Arc<Server>,
    way: ExitWay,
}

#[derive(Debug)]
enum ExitWay {
    Ring(Arc<Ring>),
    /// From the worker's own socket to this address.
    Datagrams(Address),
    DatagramsFrom(Arc<OwnedFd>, Address),
}

impl std::fmt::Debug for LogBackend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LogBackend({})", self.name)
    }
}

impl LogBackend {
    /// Creates a log backend without servers. It drops lines until it is attached.
    pub fn new(name: Arc<str>, policy: Policy, transports: Vec<LogTransport>) -> Self {
        LogBackend {
            name,
            policy,
            turn: CachePadded::default(),
            transports: transports.into(),
            usable: VersionCell::default(),
        }
    }

    /// The name of the `backend` section.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Attaches the backend and follows its changes. Call it once, before any worker runs.
    ///
    /// # Errors
    /// When a datagram socket cannot be bound to a server's source address: the index of the server, and the reason.
    pub fn attach(
        self: &Arc<Self>,
        backend: &Backend,
        counters: &Arc<BackendCounters>,
    ) -> Result<(), (usize, Errno)> {
        let (log_backend, counters) = (Arc::clone(self), Arc::clone(counters));
        backend.watch(Box::new(move |view| log_backend.follow(view, &counters)));
        let faults = self.transports.iter().map(LogTransport::fault).enumerate();
        faults.filter_map(|(server, fault)| Some((server, fault?))).next().map_or(Ok(()), Err)
    }

    fn follow(&self, view: &BackendView<'_>, counters: &Arc<BackendCounters>) {
        for server in view.servers.iter() {
            if let Some(LogTransport::Ring { forward, .. }) = self.transport(server.key()) {
                let address =
                    destination(&server.address()).filter(|_| !server.admin_state().is_maintenance());
                forward.send_to(address);
            }
        }
        let exits = view.usable.iter().filter_map(|server| {
            let way = self.transport(server.key())?.way(destination(&server.address())?)?;
            Some(LogExit { server: Arc::clone(server), way })
        });
        self.usable.publish(Usable { exits: exits.collect(), counters: Some(Arc::clone(counters)) });
    }

    fn transport(&self, key: ServerKey) -> Option<&LogTransport> {
        self.transports.get(key.index()).filter(|_| key.is_configured())
    }

    fn choose(&self, text: &[u8], count: usize) -> usize {
        match &self.policy {
            Policy::Sticky => 0,
            Policy::Random => (weir_sched::random() % count as u64) as usize,
            Policy::Turns => self.next(count),
            Policy::Hash(converters, kind) => match converters.apply(text) {
                Some(key) => hash(*kind, &key) as usize % count,
                None => self.next(count),
            },
        }
    }

    fn next(&self, count: usize) -> usize {
        self.turn.fetch_add(1, Relaxed) % count
    }
}

impl LogServers for LogBackend {
    fn send(&self, thread: usize, text: &[u8], line: &[u8], sockets: &mut Sockets) -> Result<(), Errno> {
        let usable = self.usable.load();
        let exit = match usable.exits.len() {
            0 => None,
            count => usable.exits.get(self.choose(text, count)),
        };
        let left = match exit.map(|exit| &exit.way) {
            None => Err(Errno::HOSTUNREACH),
            Some(ExitWay::Ring(ring)) if write_to_ring(ring, thread, line) => Ok(()),
            Some(ExitWay::Ring(_)) => Err(Errno::AGAIN),
            Some(ExitWay::Datagrams(to)) => sockets.send_to(line, to),
            Some(ExitWay::DatagramsFrom(from, to)) => socket::send_to(from, line, to).map(drop),
        };
        if let Some(counters) = &usable.counters {
            count(counters, exit.map(|exit| &*exit.server), thread, line.len() as u64, left.is_ok());
        }
        left
    }
}

/// Counts a line as a session, and an unsent line as a failed connection. Without a server, only the backend counts it.
fn count(of_backend: &BackendCounters, server: Option<&Server>, worker: usize, bytes: u64, left: bool) {
    let now_ms = weir_sched::now().as_ms();
    of_backend.increment(worker, BackendCounter::Sessions);
    of_backend.event(worker, 0_usize, now_ms);
    of_backend.session_seen(worker, now_ms);
    match left {
        true => of_backend.add(worker, BackendCounter::BytesIn, bytes),
        false => of_backend.increment(worker, BackendCounter::FailedConnections),
    }
    let Some(server) = server else { return };
    let of_server = server.counters();
    of_backend.increment(worker, BackendCounter::Balanced);
    of_server.increment(worker, ServerCounter::Balanced);
    of_server.increment(worker, ServerCounter::Sessions);
    of_server.event(worker, 0_usize, now_ms);
    of_server.session_seen(worker, now_ms);
    match left {
        true => of_server.add(worker, ServerCounter::BytesIn, bytes),
        false => of_server.increment(worker, ServerCounter::FailedConnections),
    }
}

impl LogTransport {
    /// A transport by datagrams. Its socket is not open yet.
    pub fn datagrams(source: Option<OwnedSource>) -> Self {
        LogTransport::Datagrams { source, socket: OnceLock::new() }
    }

    fn way(&self, to: Address) -> Option<ExitWay> {
        match self {
            LogTransport::Ring { ring, .. } => Some(ExitWay::Ring(Arc::clone(ring))),
            LogTransport::Datagrams { source: None, .. } => Some(ExitWay::Datagrams(to)),
            LogTransport::Datagrams { source: Some(_), .. } if to.is_unix() => Some(ExitWay::Datagrams(to)),
            LogTransport::Datagrams { source: Some(source), socket } => {
                let from = socket.get_or_init(|| open(source, to.family()).map(Arc::new)).as_ref().ok()?;
                Some(ExitWay::DatagramsFrom(Arc::clone(from), to))
            }
        }
    }

    /// Why the socket cannot be bound to its source address.
    fn fault(&self) -> Option<Errno> {
        match self {
            LogTransport::Datagrams { socket, .. } => socket.get()?.as_ref().err().copied(),
            LogTransport::Ring { .. } => None,
        }
    }
}

fn open(source: &OwnedSource, family: AddressFamily) -> weir_sys::Result<OwnedFd> {
    let socket = open_datagrams(family)?;
    source.as_source().bind(&socket, family)?;
    Ok(socket)
}

/// The address for lines to a server. `None` if unknown.
fn destination(address: &ServerAddress) -> Option<Address> {
    match address {
        ServerAddress::Inet { .. } => address.without_client().map(Address::Inet),
        ServerAddress::Unix(path) => Some(Address::Unix(path.clone())),
        ServerAddress::Abstract(name) => Some(Address::Abstract(name.clone().into())),
        ServerAddress::Pair(_) => None,
    }
}
