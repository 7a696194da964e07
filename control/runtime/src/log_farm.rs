//! Log backends: the choice of a server for each line, and its transport.
//!
//! ```text
//! line ──► LogSink ──► LogFarm ──► a server that is sent datagrams: one system call that never waits
//!                        │ └─────► any other: its ring ──► forward.rs ──► its connection
//!                        └ none usable, no room, refused by the kernel: dropped, counted
//! ```
//! The farm's backend is an ordinary one, with its servers, states and statistics. Each time that it may have changed, the
//! farm publishes the servers that can take lines, with their transports: choosing reads that. No lock is taken for a
//! line, and nothing is allocated. Weights play no part (manual, "balance").

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_backend::{
    BackendCounter, BackendFigures, FarmView, HashType, Server, ServerAddress, ServerCounter, ServerKey,
    hash::hash,
};
use weir_config::model::{Location, Source};
use weir_events::{LogServers, Sockets, open_datagrams, write_to_ring};
use weir_expr::Chain;
use weir_stream::instance::Instance;
use weir_stream::server::plan;
use weir_sync::{CachePadded, Published, Ring};
use weir_sys::{Address, AddressFamily, Errno, socket};

use crate::build::{BuildError, Forward};

/// A backend in log mode.
pub struct LogFarm {
    name: Arc<str>,
    policy: Policy,
    /// The next turn. All workers write to it, as to a sampled target's count: turns are those of the process.
    turn: CachePadded<AtomicUsize>,
    /// One transport for each server of the configuration.
    transports: Box<[LogTransport]>,
    usable: Published<Box<[Exit]>>,
    figures: OnceLock<Arc<BackendFigures>>,
}

/// How a server is chosen.
#[derive(Debug)]
pub enum Policy {
    /// In turn.
    Turns,
    /// At random.
    Random,
    /// By the hash of the converters' result for the text; in turn when there is none.
    Hash(Arc<Chain>, HashType),
    /// The first.
    Sticky,
}

/// The transport of lines to a server.
#[derive(Debug)]
pub enum LogTransport {
    /// A ring that one of the process's forwards empties.
    Ring {
        /// The ring.
        ring: Arc<Ring>,
        /// That forward.
        forward: Arc<Forward>,
    },
    /// As datagrams.
    Datagrams {
        /// The position of the server line in the configuration.
        at: Location,
        /// Their source, if configured.
        source: Option<Arc<Source>>,
        /// The socket with that source, shared by the workers.
        socket: OnceLock<Result<Arc<OwnedFd>, Errno>>,
    },
}

/// A server that can take lines now.
#[derive(Debug)]
struct Exit {
    server: Arc<Server>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Ring(Arc<Ring>),
    /// From the worker's own socket, to this address.
    Datagrams(Address),
    DatagramsFrom(Arc<OwnedFd>, Address),
}

impl std::fmt::Debug for LogFarm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LogFarm({})", self.name)
    }
}

impl LogFarm {
    /// A farm without servers: until it is attached, lines are dropped.
    pub fn new(name: Arc<str>, policy: Policy, transports: Vec<LogTransport>) -> Self {
        LogFarm {
            name,
            policy,
            turn: CachePadded::default(),
            transports: transports.into(),
            usable: Published::default(),
            figures: OnceLock::new(),
        }
    }

    /// Follows its backend from now on. Call it once, before any worker runs.
    ///
    /// # Errors
    /// When the source of datagrams of a server's line cannot be used.
    pub fn attach(self: &Arc<Self>, instance: &Instance) -> Result<(), BuildError> {
        let mut proxies = instance.proxies.iter();
        let Some(proxy) = proxies.find(|proxy| proxy.config.is_backend() && proxy.config.name == self.name)
        else {
            return Ok(());
        };
        let Some(backend) = &proxy.backend else { return Ok(()) };
        let _ = self.figures.set(Arc::clone(&proxy.backend_figures));
        let farm = Arc::clone(self);
        backend.watch(Box::new(move |view| farm.follow(view)));
        self.transports.iter().try_for_each(LogTransport::check)
    }

    fn follow(&self, view: &FarmView<'_>) {
        for server in view.servers.iter() {
            if let Some(LogTransport::Ring { forward, .. }) = self.transport(server.key()) {
                let address =
                    destination(&server.address()).filter(|_| !server.admin_state().is_maintenance());
                forward.send_to(address);
            }
        }
        let usable = view.usable.iter().filter_map(|server| {
            let way = self.transport(server.key())?.way(destination(&server.address())?)?;
            Some(Exit { server: Arc::clone(server), way })
        });
        self.usable.publish(usable.collect());
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

impl LogServers for LogFarm {
    fn send(&self, thread: usize, text: &[u8], line: &[u8], sockets: &mut Sockets) -> Result<(), Errno> {
        let usable = self.usable.load();
        let exit = match usable.len() {
            0 => None,
            count => usable.get(self.choose(text, count)),
        };
        let left = match exit.map(|exit| &exit.way) {
            None => Err(Errno::HOSTUNREACH),
            Some(Way::Ring(ring)) if write_to_ring(ring, thread, line) => Ok(()),
            Some(Way::Ring(_)) => Err(Errno::AGAIN),
            Some(Way::Datagrams(to)) => sockets.send_to(line, to),
            Some(Way::DatagramsFrom(from, to)) => socket::send_to(from, line, to).map(drop),
        };
        if let Some(figures) = self.figures.get() {
            count(figures, exit.map(|exit| &*exit.server), thread, line.len() as u64, left.is_ok());
        }
        left
    }
}

/// Counts a line as a session, and one that could not be sent as a failed connection, of the backend only if there was no server.
fn count(of_backend: &BackendFigures, server: Option<&Server>, worker: usize, bytes: u64, left: bool) {
    let now_ms = weir_sched::now().as_ms();
    of_backend.increment(worker, BackendCounter::Sessions);
    of_backend.event(worker, 0_usize, now_ms);
    of_backend.session_seen(worker, now_ms);
    match left {
        true => of_backend.add(worker, BackendCounter::BytesIn, bytes),
        false => of_backend.increment(worker, BackendCounter::FailedConnections),
    }
    let Some(server) = server else { return };
    let of_server = server.figures();
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
    pub fn datagrams(at: Location, source: Option<Arc<Source>>) -> Self {
        LogTransport::Datagrams { at, source, socket: OnceLock::new() }
    }

    fn way(&self, to: Address) -> Option<Way> {
        match self {
            LogTransport::Ring { ring, .. } => Some(Way::Ring(Arc::clone(ring))),
            LogTransport::Datagrams { source: None, .. } => Some(Way::Datagrams(to)),
            LogTransport::Datagrams { source: Some(_), .. } if to.is_unix() => Some(Way::Datagrams(to)),
            LogTransport::Datagrams { source: Some(source), socket, .. } => {
                let from = socket.get_or_init(|| open(source, to.family()).map(Arc::new)).as_ref().ok()?;
                Some(Way::DatagramsFrom(Arc::clone(from), to))
            }
        }
    }

    fn check(&self) -> Result<(), BuildError> {
        match self {
            LogTransport::Datagrams { at, socket, .. } => match socket.get() {
                Some(Err(error)) => Err(BuildError {
                    at: at.clone(),
                    message: format!("'source' : datagrams cannot come from there: {error}."),
                }),
                _ => Ok(()),
            },
            LogTransport::Ring { .. } => Ok(()),
        }
    }
}

fn open(source: &Source, family: AddressFamily) -> weir_sys::Result<OwnedFd> {
    let socket = open_datagrams(family)?;
    plan::source(source, 0).bind(&socket, family)?;
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use weir_events::{
        Facility, Level, LogAddress, LogFormat, LogIdentity, LogMessage, LogSink, LogTarget, Logger, Sent,
        WallTime,
    };

    use super::*;
    use crate::observe::Live;
    use crate::observe::fixture::{ask, live};

    const TIME: WallTime = WallTime { seconds: 1_795_179_905, micros: 0 };

    /// A log backend with these lines, whose servers `a`, `b` and `c` get datagrams, and their sockets.
    struct Farm {
        live: Live,
        servers: Vec<UdpSocket>,
        sink: LogSink,
        logger: Logger,
    }

    impl Farm {
        fn new(lines: &str) -> Self {
            let servers: Vec<_> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
            let mut text = format!("backend logs\n mode log\n{lines}\n");
            for (name, server) in ["a", "b", "c"].iter().zip(&servers) {
                server.set_nonblocking(true).expect("an option");
                let address = server.local_addr().expect("an address");
                text.push_str(&format!(" server {name} udp@{address}\n"));
            }
            let live = live(&text);
            let facility = Facility::from_name("local0").expect("a facility");
            let target = LogTarget {
                format: LogFormat::Priority,
                ..LogTarget::new(LogAddress::Servers("logs".into()), facility)
            };
            let sink = LogSink::open(target, &live.record.events.sinks).expect("the backend is there");
            let logger = Logger::new(Arc::new(LogIdentity::default()), Arc::new(|_| 0));
            Farm { live, servers, sink, logger }
        }

        fn send(&mut self, text: &str) -> Sent {
            let message =
                LogMessage { level: Level::Info, tag: b"", structured_data: b"", text: text.as_bytes() };
            self.logger.send(&self.sink, TIME, &message)
        }

        /// The name of the server that gets each of these texts; `-` for none.
        fn hear(&mut self, texts: &[&str]) -> String {
            texts.iter().map(|text| self.who_hears(text)).collect()
        }

        fn who_hears(&mut self, text: &str) -> char {
            let left = self.send(text) == Sent::Yes;
            let mut space = [0; 256];
            let heard = |server: &UdpSocket| server.recv(&mut space).ok();
            let found = self.servers.iter().map(heard).position(|length| length.is_some());
            assert_eq!(found.is_some(), left, "{text}");
            found.map_or('-', |index| char::from(b'a' + index as u8))
        }
    }

    fn with(lines: &'static str, work: impl FnOnce(&mut Farm) + Send + 'static) {
        let done = weir_sched::run(async move { work(&mut Farm::new(lines)) });
        assert!(done.expect("a worker").is_some(), "the test came to its end");
    }

    #[test]
    fn servers_take_turns_whatever_their_weights() {
        with(" balance roundrobin", |farm| {
            ask(&farm.live, "set server logs/a weight 200");
            assert_eq!(farm.hear(&["x"; 6]), "abcabc");
            ask(&farm.live, "disable server logs/b");
            assert_eq!(farm.hear(&["x"; 4]), "acac");
            ask(&farm.live, "set server logs/a state drain");
            ask(&farm.live, "set server logs/c health down");
            assert_eq!((farm.hear(&["x"; 2]).as_str(), farm.sink.dropped()), ("--", 2));
        });
    }

    #[test]
    fn a_key_has_its_server_and_none_has_a_turn() {
        with(" balance log-hash 'field(2,/)'", |farm| {
            let heard = farm.hear(&["/a/1", "/b/1", "/c/1", "/a/2", "/c/3", "/b/2"]);
            let of: Vec<char> = heard.chars().collect();
            assert_eq!((of[3], of[4], of[5]), (of[0], of[2], of[1]), "{heard}");
            // 97 and 98 modulo 3, by sdbm.
            assert_eq!((of[0], of[1]), ('b', 'c'));
        });
        with(" balance log-hash 'field(9,/)'", |farm| assert_eq!(farm.hear(&["x"; 4]), "abca"));
    }

    #[test]
    fn a_sticky_server_is_left_when_it_has_to_be() {
        with(" balance sticky", |farm| {
            assert_eq!(farm.hear(&["x"; 2]), "aa");
            ask(&farm.live, "set server logs/a health down");
            assert_eq!(farm.hear(&["x"; 2]), "bb");
            ask(&farm.live, "set server logs/a health up");
            assert_eq!(farm.hear(&["x"; 2]), "bb");
            ask(&farm.live, "disable server logs/b");
            assert_eq!(farm.hear(&["x"; 2]), "cc", "the first one stands behind it now");
        });
    }

    #[test]
    fn chance_reaches_everybody() {
        with("", |farm| {
            let heard = farm.hear(&["x"; 200]);
            assert!("abc".chars().all(|server| heard.matches(server).count() > 20), "{heard}");
        });
    }

    #[test]
    fn lines_are_counted_where_they_went() {
        with(" balance sticky", |farm| {
            farm.hear(&["12345", "12345"]);
            ask(&farm.live, "disable server logs/a");
            ask(&farm.live, "disable server logs/b");
            ask(&farm.live, "disable server logs/c");
            assert_eq!(farm.send("lost"), Sent::Dropped);
            let proxy = &farm.live.instance.proxies[0];
            let figures = &proxy.backend_figures;
            let of = |counter| figures.sum(counter);
            // "<134>12345" and a newline.
            assert_eq!((of(BackendCounter::Sessions), of(BackendCounter::BytesIn)), (3, 22));
            assert_eq!((of(BackendCounter::Balanced), of(BackendCounter::FailedConnections)), (2, 1));
            let servers = proxy.servers().servers();
            assert_eq!(servers[0].figures().sum(ServerCounter::Sessions), 2);
            assert_eq!(servers[1].figures().sum(ServerCounter::Sessions), 0);
        });
    }
}
