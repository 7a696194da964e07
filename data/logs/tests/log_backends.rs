//! Log backends built from a configuration.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use weir_assemble::{
    EventSinks, LoadedConfiguration, NameServersPlan, PeersPlan, ProcessValues, Resolver, SavedStates,
};
use weir_backend::{
    Backend, BackendCounter, OperationalState, RequestedState, ServerChange, ServerCounter, ServerKey,
    WeightChange,
};
use weir_expr::TimeZone;
use weir_stream::instance::{Instance, InstanceIdentity};
use weir_syntax::{Environment, NoFiles, SharedFiles, SourceMap, StaticFeatures};

use weir_events::{
    Facility, Level, LogAddress, LogDelivery, LogIdentity, LogMessage, LogSink, LogTarget, Logger,
    SyslogFormat, WallTime,
};

/// The servers of a backend.
const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

const TIME: WallTime = WallTime { seconds: 1_795_179_905, micros: 0 };

/// A log backend with these lines, and sockets that receive the datagrams for its servers `a`, `b` and `c`.
struct TestBackend {
    instance: Instance,
    servers: Vec<UdpSocket>,
    sink: LogSink,
    logger: Logger,
}

impl TestBackend {
    fn new(lines: &str) -> Self {
        let servers: Vec<_> = (0..3).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
        let mut text = format!("backend logs\n mode log\n{lines}\n");
        for (name, server) in ["a", "b", "c"].iter().zip(&servers) {
            server.set_nonblocking(true).expect("an option");
            let address = server.local_addr().expect("an address");
            text.push_str(&format!(" server {name} udp@{address}\n"));
        }
        let (instance, events) = built(&text);
        let facility = Facility::from_name("local0").expect("a facility");
        let target = LogTarget {
            format: SyslogFormat::Priority,
            ..LogTarget::new(LogAddress::Servers("logs".into()), facility)
        };
        let sink = LogSink::open(target, &events.sinks).expect("the backend is there");
        let logger = Logger::new(Arc::new(LogIdentity::default()), Arc::new(|_| 0));
        TestBackend { instance, servers, sink, logger }
    }

    fn backend(&self) -> &Backend {
        self.instance.proxies[0].servers()
    }

    fn change(&self, server: u32, change: ServerChange) {
        self.backend().change(ServerKey::configured(server), change, 0).expect("it is there");
    }

    fn disable(&self, server: u32) {
        self.change(server, ServerChange::State(RequestedState::Maintenance));
    }

    fn send(&mut self, text: &str) -> LogDelivery {
        let message =
            LogMessage { level: Level::Info, tag: b"", structured_data: b"", text: text.as_bytes() };
        self.logger.send(&self.sink, TIME, &message)
    }

    /// The name of the server that receives each of these messages. `-` for none.
    fn hear(&mut self, texts: &[&str]) -> String {
        texts.iter().map(|text| self.who_hears(text)).collect()
    }

    fn who_hears(&mut self, text: &str) -> char {
        let left = self.send(text) == LogDelivery::Yes;
        let mut space = [0; 256];
        let heard = |server: &UdpSocket| server.recv(&mut space).ok();
        let found = self.servers.iter().map(heard).position(|length| length.is_some());
        assert_eq!(found.is_some(), left, "{text}");
        found.map_or('-', |index| char::from(b'a' + index as u8))
    }
}

fn with(lines: &'static str, work: impl FnOnce(&mut TestBackend) + Send + 'static) {
    let done = weir_sched::run(async move { work(&mut TestBackend::new(lines)) });
    assert!(done.expect("a worker").is_some(), "the test came to its end");
}

#[test]
fn roundrobin_log_servers_take_turns_regardless_of_weights() {
    with(" balance roundrobin", |backend| {
        backend.change(A, ServerChange::Weight(WeightChange::Absolute(200)));
        assert_eq!(backend.hear(&["x"; 6]), "abcabc");
        backend.disable(B);
        assert_eq!(backend.hear(&["x"; 4]), "acac");
        backend.change(A, ServerChange::State(RequestedState::Drain));
        backend.change(C, ServerChange::Health(OperationalState::Stopped));
        assert_eq!((backend.hear(&["x"; 2]).as_str(), backend.sink.dropped()), ("--", 2));
    });
}

#[test]
fn log_hash_maps_equal_keys_to_one_server_and_rotates_lines_without_key() {
    with(" balance log-hash 'field(2,/)'", |backend| {
        let heard = backend.hear(&["/a/1", "/b/1", "/c/1", "/a/2", "/c/3", "/b/2"]);
        let of: Vec<char> = heard.chars().collect();
        assert_eq!((of[3], of[4], of[5]), (of[0], of[2], of[1]), "{heard}");
        // The sdbm hash of `a` is 97, that of `b` is 98. Modulo 3, these select `b` and `c`.
        assert_eq!((of[0], of[1]), ('b', 'c'));
    });
    with(" balance log-hash 'field(9,/)'", |backend| assert_eq!(backend.hear(&["x"; 4]), "abca"));
}

#[test]
fn a_sticky_log_server_is_left_only_when_it_is_unavailable() {
    with(" balance sticky", |backend| {
        assert_eq!(backend.hear(&["x"; 2]), "aa");
        backend.change(A, ServerChange::Health(OperationalState::Stopped));
        assert_eq!(backend.hear(&["x"; 2]), "bb");
        backend.change(A, ServerChange::Health(OperationalState::Running));
        assert_eq!(backend.hear(&["x"; 2]), "bb");
        backend.disable(B);
        assert_eq!(backend.hear(&["x"; 2]), "cc", "the first one stands behind it now");
    });
}

#[test]
fn random_log_balancing_reaches_every_server() {
    with("", |backend| {
        let heard = backend.hear(&["x"; 200]);
        assert!("abc".chars().all(|server| heard.matches(server).count() > 20), "{heard}");
    });
}

#[test]
fn log_lines_are_counted_at_the_server_that_received_them() {
    with(" balance sticky", |backend| {
        backend.hear(&["12345", "12345"]);
        backend.disable(A);
        backend.disable(B);
        backend.disable(C);
        assert_eq!(backend.send("lost"), LogDelivery::Dropped);
        let proxy = &backend.instance.proxies[0];
        let counters = &proxy.backend_counters;
        let of = |counter| counters.sum(counter);
        // "<134>12345" and a newline.
        assert_eq!((of(BackendCounter::Sessions), of(BackendCounter::BytesIn)), (3, 22));
        assert_eq!((of(BackendCounter::Balanced), of(BackendCounter::FailedConnections)), (2, 1));
        let servers = proxy.servers().servers();
        assert_eq!(servers[0].counters().sum(ServerCounter::Sessions), 2);
        assert_eq!(servers[1].counters().sum(ServerCounter::Sessions), 0);
    });
}

struct Nothing;

impl Resolver for Nothing {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// The instance of a configuration, and its event sinks.
fn built(text: &str) -> (Instance, EventSinks) {
    let mut sources = SourceMap::new();
    sources.add("t.cfg", text.as_bytes().to_vec());
    let config = LoadedConfiguration::read(
        &sources,
        Arc::new(NoFiles),
        &StaticFeatures::default(),
        Environment::new(),
    )
    .outcome
    .config;
    let events = weir_assemble::events(&config, &Nothing, false).expect("no names");
    let identity = InstanceIdentity {
        hostname: "host".into(),
        node: "host".into(),
        process_id: 1,
        started_us: 0,
        time_zone: TimeZone::fixed(0, "UTC"),
    };
    let options = ProcessValues {
        files: SharedFiles::default(),
        variable_names: Arc::default(),
        workers: 1,
        connections: 100,
        open_files: 100,
        pipes: 0,
        frontend_connections: None,
        events: &events,
        resolver: &Nothing,
        states: &SavedStates::default(),
        ignore_unknown_names: false,
        identity,
        warn: &|_| {},
        notice: &|_| {},
    };
    let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
    let built = weir_assemble::instance(config, options, &mut peers, &mut name_servers).expect("no names");
    events.attach(&built.instance).expect("no sources");
    (built.instance, events)
}
