//! A worker that runs a configuration on a simulated network, with operations for scripts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use weir_containers::BufferPool;
use weir_events::{Facility, LogAddress, LogServers, LogSink, LogTarget, Sinks, Sockets, SyslogFormat};
use weir_net::shortage::BufferLimits;
use weir_sched::simulate::network::{SimulatedNetwork, SimulatedPeer, SimulatedService};
use weir_sched::{Class, Descriptor, TaskKey, Tick, WorkKind, current, now, spawn, wait};
use weir_scripts::{Client, ClientSettings, ScriptNetwork};
use weir_stream::instance::{LocalInstance, ProxyRef, ProxyState, local};
use weir_sys::Address;

use crate::client::Answer;
use crate::course::Course;
use crate::engines::EngineRules;
use crate::plan::PlannedRequest;
use crate::{instance, server};

/// A running proxy, for a script.
pub(crate) struct Stage {
    pub network: SimulatedNetwork,
    pub instance: LocalInstance,
    listeners: Vec<(String, Address)>,
    services: RefCell<BTreeMap<String, Rc<SimulatedService>>>,
    addresses: BTreeMap<String, Address>,
    log: Arc<Lines>,
    next_client: Cell<u16>,
    next_id: Cell<u64>,
    /// The number of running scripts, and the tasks that wait for them.
    playing: Cell<usize>,
    waiting: Cell<TaskKey>,
    hosts: RefCell<BTreeMap<String, TaskKey>>,
    /// The outcome of each request.
    pub ledger: RefCell<BTreeMap<u64, Entry>>,
    /// Bytes that clients sent and received, on connections that ended.
    pub of_clients: Cell<(u64, u64)>,
    /// Bytes that servers sent and received, on connections that ended.
    pub of_servers: Cell<(u64, u64)>,
    /// Maximum number of times that servers may receive one request.
    pub most_arrivals: Cell<u32>,
    /// Whether some connections carry several streams. Scripts and counters then count different bytes.
    pub multiplexed: Cell<bool>,
    /// The properties of the engine (SPOE), if the scenario has one.
    pub engine: Cell<Option<EngineRules>>,
    /// Server addresses with the time when the server left. `None` for current ones. Empty if servers do not move.
    places: RefCell<BTreeMap<String, Option<Tick>>>,
    stopped: Cell<bool>,
    left_early: Cell<bool>,
    /// Whether faults may happen.
    pub faulty: bool,
    /// Tasks of the worker before any client connected, without acceptors.
    pub own_tasks: u64,
}

/// The facts about one request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub request: PlannedRequest,
    /// Whether the request is the first of its connection.
    pub first: bool,
    /// Number of times that a server received the head.
    pub arrived: u32,
    pub answer: Option<Answer>,
}

/// Maximum time in transit of a request to a server, in virtual milliseconds.
const LONGEST_WAY_MS: u64 = 400;

impl Stage {
    /// Starts the proxy on the current worker. In the text `{name}` stands for the address of a server, `{closed}` for
    /// one that refuses connections.
    pub(crate) fn start(network: SimulatedNetwork, text: &str, course: &Course) -> Rc<Stage> {
        let mut addresses = BTreeMap::new();
        let text = substitute(text, &mut addresses);
        let log = Arc::new(Lines::default());
        let mut instance = instance::build(&text, 1, &sink(&log));
        let listeners = instance.proxies.iter_mut().flat_map(|proxy| &mut proxy.listeners);
        for (port, listener) in (80..).zip(listeners) {
            listener.address = Some(Address::from((Ipv4Addr::LOCALHOST, port)));
        }
        let instance = local(&Arc::new(instance));
        let limits = BufferLimits {
            size: instance.limits.buffer_size,
            most: None,
            kept: 64,
            reserve: if course.buffers.is_some() { 2 } else { 0 },
        };
        limits.set_up(1);
        if let Some(most) = course.buffers {
            BufferPool::configure(instance.limits.buffer_size, most, 64);
        }
        weir_stream::worker::install(Arc::clone(&instance.process_counters[0]));
        weir_stream::recycle::configure(instance.limits.header_count);
        weir_stream::log::install(instance::logger());
        weir_stream::server::idle::start_keeper(Rc::clone(&instance));
        let mut own_tasks = weir_sched::task_count();
        if let Some(scripts) = &instance.hooks.scripts {
            let settings = ClientSettings { retries: 1, connect_ms: 1_000, tls: None, naming: None };
            scripts.connect(ScriptNetwork { client: Arc::new(Client::new(settings)), tls: None });
            scripts.log_to(|_, _| true);
            scripts.begin(0);
            // The keeper of their sockets. Other tasks end.
            own_tasks += 1;
        }
        let mut services = BTreeMap::new();
        for (name, address) in addresses.iter().filter(|(name, _)| *name != "closed") {
            services.insert(name.clone(), Rc::new(network.listen(address).expect("each has its own")));
        }
        let listeners = listen(&network, &instance);
        Rc::new(Stage {
            network,
            instance,
            listeners,
            services: RefCell::new(services),
            addresses,
            log,
            next_client: Cell::new(0),
            next_id: Cell::new(0),
            playing: Cell::new(0),
            waiting: Cell::new(TaskKey::NONE),
            hosts: RefCell::default(),
            ledger: RefCell::default(),
            of_clients: Cell::default(),
            of_servers: Cell::default(),
            // Without `retry-on` a request is retried only if no server can have received it, or if it is idempotent and the
            // connection was reused.
            most_arrivals: Cell::new(2),
            multiplexed: Cell::new(false),
            engine: Cell::new(None),
            places: RefCell::default(),
            stopped: Cell::new(false),
            left_early: Cell::new(false),
            faulty: course.faulty,
            own_tasks,
        })
    }

    /// A client of the first frontend, which begins to connect.
    pub(crate) fn client(&self) -> SimulatedPeer {
        let number = self.next_client.get() + 1;
        self.next_client.set(number);
        let from = Address::from((Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8), 1024 + number));
        self.network.connect(&from, &self.listeners[0].1)
    }

    /// A unique number for a request.
    pub(crate) fn next_id(&self) -> u64 {
        let id = self.next_id.get() + 1;
        self.next_id.set(id);
        id
    }

    /// A listening server, for a script.
    pub(crate) fn service(&self, name: &str) -> Rc<SimulatedService> {
        Rc::clone(self.services.borrow().get(name).expect("such a server"))
    }

    /// Whether such a server listens.
    pub(crate) fn has_service(&self, name: &str) -> bool {
        self.services.borrow().contains_key(name)
    }

    /// Whether clients that connect to a server now get a response.
    pub(crate) fn answer(&self, name: &str, answers: bool) {
        if let Some(service) = self.services.borrow().get(name) {
            service.answer(answers);
        }
    }

    /// Closes a server. Accepted connections stay, new ones are refused.
    pub(crate) fn close_service(&self, name: &str) {
        self.services.borrow_mut().remove(name);
        if let Some(host) = self.hosts.borrow_mut().remove(name) {
            weir_sched::kill(host);
        }
    }

    /// Reopens a server.
    pub(crate) fn open_service(self: &Rc<Self>, name: &str) {
        if self.listen_again(name) {
            self.host(name);
        }
    }

    /// Makes a closed server listen again, without a script. False if it listens already.
    pub(crate) fn listen_again(&self, name: &str) -> bool {
        // The script of a server that was closed may not have ended yet.
        let Ok(service) = self.network.listen(&self.addresses[name]) else { return false };
        self.services.borrow_mut().insert(name.to_owned(), Rc::new(service));
        true
    }

    /// Makes all servers follow the requests' paths.
    pub(crate) fn host_all(self: &Rc<Self>) {
        let names: Vec<String> = self.services.borrow().keys().cloned().collect();
        names.iter().for_each(|name| self.host(name));
    }

    /// Makes a server follow the requests' paths, as long as it listens.
    pub(crate) fn host(self: &Rc<Self>, name: &str) {
        let (stage, name) = (Rc::clone(self), name.to_owned());
        let place: Rc<str> = Rc::from(&*name);
        self.host_with(&name, move |peer| server::serve(Rc::clone(&stage), peer, Rc::clone(&place)));
    }

    /// Makes a server run this function for each of its connections, as long as it listens.
    pub(crate) fn host_with<F: Future<Output = ()> + 'static>(
        self: &Rc<Self>,
        name: &str,
        serve: impl Fn(SimulatedPeer) -> F + 'static,
    ) {
        let (stage, service) = (Rc::clone(self), Rc::downgrade(&self.service(name)));
        let task = spawn(&HOST, Class::Normal, async move {
            while let Some(service) = service.upgrade() {
                let peer = service.accept().await;
                stage.play(serve(peer));
            }
        });
        self.hosts.borrow_mut().insert(name.to_owned(), task);
    }

    /// Starts a script.
    pub(crate) fn play(self: &Rc<Self>, script: impl Future<Output = ()> + 'static) {
        let playing = Playing(Rc::clone(self));
        self.playing.set(self.playing.get() + 1);
        spawn(&SCRIPT, Class::Normal, async move {
            let _playing = playing;
            script.await;
        });
    }

    /// Waits until all scripts ended.
    pub(crate) async fn played(&self) {
        self.waiting.set(current());
        while self.playing.get() > 0 {
            wait(Tick::NEVER).await;
        }
    }

    /// Soft-stops the worker, as a reload does. It stops accepting and closes idle connections.
    pub(crate) fn stop(&self) {
        if self.stopped.replace(true) {
            return;
        }
        self.left_early.set(self.playing.get() > 0);
        self.network.note(&"soft stop");
        self.instance.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        self.instance.proxies.iter().for_each(|proxy| proxy.set_state(ProxyState::Stopped));
        self.instance.closing.begin(now().as_ms());
        for session in weir_stream::worker::sessions() {
            weir_sched::wake(session.task.get());
        }
    }

    /// Whether a soft stop began while scripts ran.
    pub(crate) fn left_early(&self) -> bool {
        self.left_early.get()
    }

    /// Closes all servers.
    pub(crate) fn close_servers(&self) {
        let names: Vec<String> = self.services.borrow().keys().cloned().collect();
        names.iter().for_each(|name| self.close_service(name));
    }

    /// Records that a client begins to send a request.
    pub(crate) fn note_request(&self, request: &PlannedRequest, first: bool) {
        let entry = Entry { request: request.clone(), first, arrived: 0, answer: None };
        assert!(
            self.ledger.borrow_mut().insert(request.id, entry).is_none(),
            "{} is requested twice",
            request.id
        );
    }

    /// Records that a server received the head of a request.
    pub(crate) fn arrived(&self, id: u64, line: &str) {
        let mut ledger = self.ledger.borrow_mut();
        let entry = ledger.get_mut(&id).unwrap_or_else(|| panic!("nobody sent {line}"));
        assert!(line.starts_with(entry.request.method), "{line} is not {:?}", entry.request);
        entry.arrived += 1;
    }

    /// Moves the servers to these addresses.
    pub(crate) fn places_are(&self, current: &[&str]) {
        let mut places = self.places.borrow_mut();
        places.values_mut().for_each(|left| *left = left.or(Some(now())));
        places.extend(current.iter().map(|name| ((*name).to_owned(), None)));
    }

    /// Checks the address that a request reached. A server must be there, or have been there when the request was sent.
    pub(crate) fn reached(&self, place: &str) {
        let places = self.places.borrow();
        let is_right = match places.get(place) {
            Some(Some(left)) => now() <= left.after(LONGEST_WAY_MS),
            Some(None) => true,
            None => places.is_empty(),
        };
        assert!(is_right, "a request reached {place}, servers are at {places:?}");
    }

    /// The port of a server of the text.
    pub(crate) fn port_of(&self, name: &str) -> u16 {
        self.addresses[name].port()
    }

    /// The port that clients connect to.
    pub(crate) fn client_port(&self) -> u16 {
        self.listeners[0].1.port()
    }

    /// Records the response that a client received.
    pub(crate) fn answered(&self, request: &PlannedRequest, answer: Answer) {
        if let Some(entry) = self.ledger.borrow_mut().get_mut(&request.id) {
            entry.answer = Some(answer);
        }
    }

    /// Counts the bytes of a client connection that ends.
    pub(crate) fn client_ends(&self, peer: &SimulatedPeer) {
        add(&self.of_clients, peer);
    }

    /// Counts the bytes of a server connection that ends.
    pub(crate) fn server_ends(&self, peer: &SimulatedPeer) {
        add(&self.of_servers, peer);
    }

    /// The log lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.0.lock().expect("nobody panics with it").clone()
    }
}

fn add(sum: &Cell<(u64, u64)>, peer: &SimulatedPeer) {
    let ((sent, received), (more_sent, more_received)) = (sum.get(), peer.bytes());
    sum.set((sent + more_sent, received + more_received));
}

/// Counts a running script until it is dropped.
struct Playing(Rc<Stage>);

impl Drop for Playing {
    fn drop(&mut self) {
        self.0.playing.set(self.0.playing.get() - 1);
        weir_sched::wake(self.0.waiting.get());
    }
}

/// The log lines.
#[derive(Debug, Default)]
struct Lines(Mutex<Vec<String>>);

impl LogServers for Lines {
    fn send(&self, _: usize, text: &[u8], _: &[u8], _: &mut Sockets) -> weir_sys::Result<()> {
        self.0.lock().expect("nobody panics with it").push(String::from_utf8_lossy(text).into_owned());
        Ok(())
    }
}

fn sink(log: &Arc<Lines>) -> Arc<LogSink> {
    let facility = Facility::from_name("local0").expect("a facility");
    let address = LogAddress::Servers("script".into());
    let target = LogTarget { format: SyslogFormat::Raw, ..LogTarget::new(address, facility) };
    let mut sinks = Sinks::default();
    sinks.add_servers("script", Arc::clone(log) as Arc<dyn LogServers>);
    Arc::new(LogSink::open(target, &sinks).expect("it is one of them"))
}

fn listen(network: &SimulatedNetwork, instance: &LocalInstance) -> Vec<(String, Address)> {
    let mut addresses = Vec::new();
    for proxy in &instance.proxies {
        for (at, listener) in (0..).zip(&proxy.listeners) {
            let address = listener.address.clone().expect("it has one");
            let socket = network.listener(&address).expect("each has its own");
            weir_stream::accept::prepare_listener(proxy, &socket);
            let handler = weir_stream::listener_handler::ListenerHandler {
                frontend: ProxyRef::at(instance, proxy.index).expect("it is there"),
                listener: at,
                workers: Arc::new([0]),
                spread: weir_stream::listener_handler::Spread::Keep,
            };
            let descriptor = Descriptor::register(socket).expect("it is simulated");
            let task = spawn(&ACCEPT, Class::Urgent, weir_net::listener::accept(descriptor, handler, 64));
            proxy.acceptors.lock().expect("nobody panics with it").push(task);
            addresses.push((proxy.name().to_owned(), address));
        }
    }
    addresses
}

/// Replaces `{name}` by addresses. Conditions, which have blanks inside their braces, stay.
fn substitute(text: &str, addresses: &mut BTreeMap<String, Address>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').expect("a closed placeholder");
        out.push_str(before);
        if name.contains(' ') {
            out.push_str(&format!("{{{name}}}"));
        } else {
            let next = 8001 + addresses.len() as u16;
            let address =
                addresses.entry(name.to_owned()).or_insert_with(|| (Ipv4Addr::LOCALHOST, next).into());
            out.push_str(&format!("127.0.0.1:{}", address.port()));
        }
        rest = after;
    }
    out + rest
}

static HOST: WorkKind = WorkKind::new("server's script");
static SCRIPT: WorkKind = WorkKind::new("script");
static ACCEPT: WorkKind = WorkKind::new("accept");
