//! A proxy, its clients and its servers in one test, all on one worker, over real loopback sockets.
//!
//! A test is a configuration text and a script. In the text `{name}` stands for the address of an origin, a server that
//! the script plays, `{closed}` for one that refuses connections, `{stuck}` for one that never accepts. The script
//! connects clients, plays servers, and checks the bytes, the log lines and the counters. Time is virtual
//! ([`weir_sched::simulate`]). Nothing sleeps, and a timeout of a minute takes no real time.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod instance;
mod peer;
pub(crate) mod threads;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use weir_backend::{BackendCounter, FrontendCounter, ServerCounter};
use weir_sched::{Class, Descriptor, ReceiveResult, WorkKind, current, now, simulate, spawn, wait};
use weir_stream::instance::{Instance, LocalInstance, Proxy, ProxyRef, local};
use weir_sys::{Address, AddressFamily, process, socket};

pub(crate) use peer::Peer;

/// A running proxy, for a script.
pub(crate) struct World {
    /// The instance that the proxy runs.
    pub instance: LocalInstance,
    origins: RefCell<BTreeMap<String, Rc<Origin>>>,
    listeners: Vec<(String, Address)>,
    log: Option<Descriptor>,
    /// Sockets that must stay open.
    _held: Vec<OwnedFd>,
}

/// A server that the script plays.
pub(crate) struct Origin {
    listener: RefCell<Option<Descriptor>>,
    address: Address,
}

/// The beginning of a configuration of HTTP proxies.
pub(crate) const HTTP: &str = "defaults\n mode http\n timeout client 10s\n timeout server 10s\n timeout connect 4s\n \
    log stdout format raw local0\n log-format \"%b/%s %TR/%Tw/%Tc/%Tr %ST %B %tsc %rc %sq/%bq\"\n";

/// The beginning of a configuration of TCP proxies.
pub(crate) const TCP: &str = "defaults\n mode tcp\n timeout client 10s\n timeout server 10s\n timeout connect 4s\n \
    log stdout format raw local0\n log-format \"%b/%s %Tw/%Tc/%Tt %B %ts %rc %sq/%bq\"\n";

/// A proxy with one server: the basis of most tests.
pub(crate) fn plain(lines: &str) -> String {
    format!("{HTTP}listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{s1}}\n")
}

/// [`plain`] in TCP mode.
pub(crate) fn plain_tcp(lines: &str) -> String {
    format!("{TCP}listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{s1}}\n")
}

/// Runs a proxy for `text` and a script with it.
#[track_caller]
pub(crate) fn run<T: 'static, F: Future<Output = T>>(
    text: impl Into<String>,
    script: impl FnOnce(World) -> F + 'static,
) -> T {
    let text = text.into();
    let outcome = simulate::run(SEED, async move {
        let world = World::start(&text);
        script(world).await
    });
    outcome.expect("a worker").expect("the script ends")
}

impl World {
    /// Starts the proxy on the current worker.
    pub(crate) fn start(text: &str) -> World {
        let mut held = Vec::new();
        let mut origins = BTreeMap::new();
        let text = substitute(text, &mut origins, &mut held);
        let (near, log) = instance::log_pair();
        let mut instance = instance::build(&text, 1, &instance::raw_sink(&near));
        let sockets = open(&mut instance);
        let instance = local(&Arc::new(instance));
        let listeners = sockets.into_iter().map(|socket| listen(&instance, socket)).collect();
        prepare_worker(&instance, 0);
        let log = Some(Descriptor::register(log).expect("a descriptor"));
        held.push(near);
        World { instance, origins: RefCell::new(origins), listeners, log, _held: held }
    }

    /// A client of the first frontend.
    pub(crate) fn client(&self) -> Peer {
        Peer::connect(&self.listeners[0].1)
    }

    pub(crate) fn client_of(&self, frontend: &str) -> Peer {
        let (_, address) = self.listeners.iter().find(|(name, _)| name == frontend).expect("such a frontend");
        Peer::connect(address)
    }

    /// The address of the first frontend.
    pub(crate) fn address(&self) -> &Address {
        &self.listeners[0].1
    }

    /// A server that the script plays.
    pub(crate) fn origin(&self, name: &str) -> Rc<Origin> {
        Rc::clone(self.origins.borrow().get(name).expect("such an origin"))
    }

    /// The next connection to a server.
    pub(crate) async fn accept(&self, name: &str) -> Peer {
        self.origin(name).accept().await
    }

    /// The next log line.
    pub(crate) async fn log(&self) -> String {
        let log = self.log.as_ref().expect("only the end takes it");
        log.set_owner(current());
        let mut room = [0; 4096];
        let deadline = now().after(PATIENCE_MS);
        loop {
            if let ReceiveResult::Bytes(length) = log.receive_into(&mut room).expect("the pair lives") {
                return String::from_utf8_lossy(&room[..length]).trim_end().to_owned();
            }
            assert_ne!(wait(deadline).await, weir_sched::Wakeup::Deadline, "nothing is logged");
        }
    }

    /// Whether no log line is unread.
    pub(crate) fn is_quiet(&self) -> bool {
        let log = self.log.as_ref().expect("only the end takes it");
        log.peek(&mut [0]) == Ok(ReceiveResult::Blocked)
    }

    pub(crate) fn proxy(&self, name: &str) -> &Proxy {
        self.instance.proxies.iter().find(|proxy| proxy.name() == name).expect("such a proxy")
    }

    pub(crate) fn frontend(&self, name: &str, counter: FrontendCounter) -> u64 {
        self.proxy(name).frontend_counters.sum(counter)
    }

    pub(crate) fn backend(&self, name: &str, counter: BackendCounter) -> u64 {
        self.proxy(name).backend_counters.sum(counter)
    }

    pub(crate) fn server(&self, proxy: &str, server: &str, counter: ServerCounter) -> u64 {
        let proxy = self.proxy(proxy);
        let server = proxy.servers().server_by_name(server).expect("such a server");
        server.counters().sum(counter)
    }

    /// Waits until `count` requests wait for a server of the first backend.
    pub(crate) async fn queued(&self, count: u32) {
        let backend =
            self.instance.proxies.iter().find_map(|proxy| proxy.backend.as_ref()).expect("a backend");
        let waiting = || {
            let at_servers: u32 = backend.servers().iter().map(|server| server.queued()).sum();
            backend.queued() + at_servers
        };
        for _ in 0..1000 {
            if waiting() == count {
                return;
            }
            weir_sched::yield_now().await;
        }
        panic!("{} requests wait, not {count}", waiting());
    }

    /// Checks the conditions that hold whenever no stream is in progress.
    pub(crate) async fn check_idle(&self) {
        let deadline = now().after(PATIENCE_MS);
        loop {
            let busy = self.instance.connections.inside() > 0;
            if !busy {
                break;
            }
            assert!(now() < deadline, "somebody is still served");
            wait(now().after(1)).await;
        }
        for proxy in &self.instance.proxies {
            assert_eq!(proxy.connections.inside(), 0, "{}", proxy.name());
            let Some(backend) = &proxy.backend else { continue };
            assert_eq!((backend.sessions(), backend.queued()), (0, 0), "{}", proxy.name());
            for server in backend.servers().iter() {
                assert_eq!((server.served(), server.queued()), (0, 0), "{}", server.name());
                assert_eq!(server.pools().used(), 0, "connections in use of {}", server.name());
            }
        }
        assert_eq!(self.instance.process_counters[0].streams_now.value(), 0);
    }
}

impl Origin {
    fn open() -> Origin {
        let (listener, address) = listening(64);
        let listener = Descriptor::register(listener).expect("a descriptor");
        Origin { listener: RefCell::new(Some(listener)), address }
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> Peer {
        let deadline = now().after(PATIENCE_MS);
        loop {
            {
                let listener = self.listener.borrow();
                let listener = listener.as_ref().expect("it listens");
                listener.set_owner(current());
                if let Some((accepted, _)) = listener.accept().expect("it listens") {
                    return Peer::new(Descriptor::register(accepted).expect("a descriptor"));
                }
            }
            assert_ne!(wait(deadline).await, weir_sched::Wakeup::Deadline, "nobody connects");
        }
    }

    /// Whether no connection waits to be accepted.
    pub(crate) fn is_untouched(&self) -> bool {
        self.listener.borrow().as_ref().expect("it listens").accept().expect("it listens").is_none()
    }

    /// Starts to refuse connections.
    pub(crate) fn close(&self) {
        self.listener.take();
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

/// Answers every request with the same bytes, on every connection, until the end of the test.
pub(crate) fn answer_always(origin: Rc<Origin>, answer: &'static [u8]) {
    answer_with(origin, move |_| answer.to_vec());
}

/// Answers every request with the result of `answer` for its head, on every connection, until the end of the test.
pub(crate) fn answer_with(origin: Rc<Origin>, answer: impl Fn(&str) -> Vec<u8> + 'static) {
    static ORIGIN: WorkKind = WorkKind::new("origin");
    let answer = Rc::new(answer);
    spawn(&ORIGIN, Class::Normal, async move {
        loop {
            let mut peer = origin.accept_forever().await;
            let answer = Rc::clone(&answer);
            spawn(&ORIGIN, Class::Normal, async move { while peer.serve(&*answer).await {} });
        }
    });
}

impl Origin {
    async fn accept_forever(&self) -> Peer {
        loop {
            {
                let listener = self.listener.borrow();
                let listener = listener.as_ref().expect("it listens");
                listener.set_owner(current());
                if let Some((accepted, _)) = listener.accept().expect("it listens") {
                    return Peer::new(Descriptor::register(accepted).expect("a descriptor"));
                }
            }
            wait(weir_sched::Tick::NEVER).await;
        }
    }
}

/// Replaces `{name}` by addresses. Conditions, which have blanks inside their braces, stay.
fn substitute(text: &str, origins: &mut BTreeMap<String, Rc<Origin>>, held: &mut Vec<OwnedFd>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (name, after) = after.split_once('}').expect("a closed placeholder");
        let address = match name {
            condition if condition.contains(' ') => {
                out.push_str(&format!("{{{condition}}}"));
                rest = after;
                continue;
            }
            "closed" => {
                let (socket, address) = bound();
                held.push(socket);
                address
            }
            "stuck" => stuck(held),
            _ => origins.entry(name.to_owned()).or_insert_with(|| Rc::new(Origin::open())).address.clone(),
        };
        out.push_str(&format!("127.0.0.1:{}", address.port()));
        rest = after;
    }
    out + rest
}

/// Sets the current worker up to serve.
fn prepare_worker(instance: &LocalInstance, worker: usize) {
    weir_containers::BufferPool::configure(instance.limits.buffer_size, usize::MAX, 64);
    weir_stream::worker::install(Arc::clone(&instance.process_counters[worker]));
    weir_stream::recycle::configure(instance.limits.header_count);
    weir_stream::log::install(instance::logger());
    weir_stream::server::idle::start_keeper(Rc::clone(instance));
}

/// A listening socket of an instance.
struct OpenSocket {
    proxy: usize,
    listener: usize,
    socket: OwnedFd,
    address: Address,
}

/// Opens a socket for each listener, and stores the socket's address in the listener.
fn open(instance: &mut Instance) -> Vec<OpenSocket> {
    let mut sockets = Vec::new();
    for (at, proxy) in instance.proxies.iter_mut().enumerate() {
        for listener in 0..proxy.listeners.len() {
            let (socket, address) = listening(1024);
            weir_stream::accept::prepare_listener(proxy, &socket);
            proxy.listeners[listener].address = Some(address.clone());
            sockets.push(OpenSocket { proxy: at, listener, socket, address });
        }
    }
    sockets
}

/// Accepts from a socket. Returns the name of its proxy, and its address.
fn listen(instance: &LocalInstance, open: OpenSocket) -> (String, Address) {
    static ACCEPT: WorkKind = WorkKind::new("accept");
    let proxy = ProxyRef::at(instance, open.proxy).expect("it is there");
    let handler = weir_stream::listener_handler::ListenerHandler {
        frontend: proxy.clone(),
        listener: open.listener as u32,
        workers: Arc::new([0]),
        spread: weir_stream::listener_handler::Spread::Keep,
    };
    let descriptor = Descriptor::register(open.socket).expect("a descriptor");
    let task = spawn(&ACCEPT, Class::Urgent, weir_net::listener::accept(descriptor, handler, 64));
    proxy.acceptors.lock().expect("nobody panics with it").push(task);
    (proxy.name().to_owned(), open.address)
}

/// A socket with a port of its own that does not listen.
fn bound() -> (OwnedFd, Address) {
    let socket = socket::stream(AddressFamily::Inet).expect("a socket");
    socket::bind(&socket, &Address::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = socket::local_address(&socket).expect("it is bound");
    (socket, address)
}

/// A listening socket with a port of its own.
pub(crate) fn listening(backlog: i32) -> (OwnedFd, Address) {
    let (socket, address) = bound();
    socket::listen(&socket, backlog).expect("it is bound");
    (socket, address)
}

/// A listener with a full accept queue. Connecting to it never completes.
fn stuck(held: &mut Vec<OwnedFd>) -> Address {
    let (listener, address) = listening(0);
    for _ in 0..4 {
        let filler = socket::stream(AddressFamily::Inet).expect("a socket");
        let _ = socket::connect(&filler, &address);
        held.push(filler);
    }
    held.push(listener);
    address
}

/// A second descriptor of the same file.
pub(crate) fn duplicate(descriptor: impl AsFd) -> OwnedFd {
    process::duplicate(descriptor).expect("a free descriptor")
}

/// Timeout of a script's waits, in virtual milliseconds. Longer than any timeout that a test sets.
pub(crate) const PATIENCE_MS: u64 = 600_000;
const SEED: u64 = 7;
