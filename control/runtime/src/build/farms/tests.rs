//! Log backends of a configuration.

use std::net::UdpSocket;
use std::sync::Arc;

use weir_events::{
    Facility, Level, LogAddress, LogFormat, LogIdentity, LogMessage, LogSink, LogTarget, Logger, Sent,
    WallTime,
};

use crate::observe::Live;
use crate::observe::fixture::{ask, live};
use weir_backend::{BackendCounter, ServerCounter};

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
