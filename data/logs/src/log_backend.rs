//! Log backends: the choice of a server for each line, and its transport.
//!
//! ```text
//! line ──► LogSink ──► LogBackend ──► a server that is sent datagrams: one system call that never waits
//!                        │ └─────► any other: its ring ──► forward.rs ──► its connection
//!                        └ none usable, no room, refused by the kernel: dropped, counted
//! ```
//! The attached `Backend` is an ordinary one, with its servers, states and statistics. Each time that it may have changed, the
//! log backend publishes the servers that can take lines, with their transports: choosing reads that. No lock is taken for a
//! line, and nothing is allocated. Weights play no part (manual, "balance").

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

/// A backend in log mode.
pub struct LogBackend {
    name: Arc<str>,
    policy: Policy,
    /// The next turn. All workers write to it, as to a sampled target's count: turns are those of the process.
    turn: CachePadded<AtomicUsize>,
    /// One transport for each server of the configuration.
    transports: Box<[LogTransport]>,
    usable: VersionCell<Usable>,
}

/// How a server is chosen.
#[derive(Debug)]
pub enum Policy {
    Turns,
    Random,
    /// By the hash of the converters' result for the text; in turn if they fail.
    Hash(Arc<Chain>, HashType),
    Sticky,
}

/// The transport of lines to a server.
#[derive(Debug)]
pub enum LogTransport {
    /// A ring that one of the process's forwards empties.
    Ring { ring: Arc<Ring>, forward: Arc<Forward> },
    Datagrams {
        /// Their source, if configured.
        source: Option<OwnedSource>,
        /// The socket with that source, shared by the workers.
        socket: OnceLock<Result<Arc<OwnedFd>, Errno>>,
    },
}

/// The servers that can take lines now.
#[derive(Default)]
struct Usable {
    exits: Box<[LogExit]>,
    /// The counters of the backend; none before the log backend is attached.
    counters: Option<Arc<BackendCounters>>,
}

/// A server that can take lines now.
#[derive(Debug)]
struct LogExit {
    server: Arc<Server>,
    way: ExitWay,
}

#[derive(Debug)]
enum ExitWay {
    Ring(Arc<Ring>),
    /// From the worker's own socket, to this address.
    Datagrams(Address),
    DatagramsFrom(Arc<OwnedFd>, Address),
}

impl std::fmt::Debug for LogBackend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LogBackend({})", self.name)
    }
}

impl LogBackend {
    /// A log backend without servers: until it is attached, lines are dropped.
    pub fn new(name: Arc<str>, policy: Policy, transports: Vec<LogTransport>) -> Self {
        LogBackend {
            name,
            policy,
            turn: CachePadded::default(),
            transports: transports.into(),
            usable: VersionCell::default(),
        }
    }

    /// The name of its backend.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts to follow its backend. Call it once, before any worker runs.
    ///
    /// # Errors
    /// When datagrams cannot have the source of a server's line: the server's position, and the reason.
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

/// Counts a line as a session, and a line that could not be sent as a failed connection. Without a server, only the
/// backend counts it.
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
    /// A transport for datagrams.
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

    /// Why its source cannot be used.
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

/// The address for lines to a server, if it is known.
fn destination(address: &ServerAddress) -> Option<Address> {
    match address {
        ServerAddress::Inet { .. } => address.without_client().map(Address::Inet),
        ServerAddress::Unix(path) => Some(Address::Unix(path.clone())),
        ServerAddress::Abstract(name) => Some(Address::Abstract(name.clone().into())),
        ServerAddress::Pair(_) => None,
    }
}
