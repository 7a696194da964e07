//! `show events`: the effect of each flag, which applies only to its own command.

mod toy;

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use toy::{Toy, converse, toy};
use weir_cli::Level;
use weir_cli::{CliSession, SessionSettings, TransportAction};
use weir_events::{Sink, SyslogFormat};
use weir_sync::Ring;
use weir_sync::ring::{MOST_READERS, ReaderWait, Seek};

/// A process with a ring of two events, one of them with many lines.
fn with_ring() -> (Toy, Arc<Ring>) {
    let ring = Ring::in_memory(4096, 6);
    ring.write(0, &[b"one"]);
    ring.write(0, &[b"{\n \"a\": 1\n}"]);
    let mut toy = toy();
    toy.sinks.add(Sink::ring("r", "my ring", SyslogFormat::Raw, 1024, Arc::clone(&ring)));
    (toy, ring)
}

/// A client with its session.
struct Client {
    toy: Toy,
    session: CliSession,
}

impl Client {
    fn new(toy: Toy) -> Self {
        let session = CliSession::new(SessionSettings { level: Level::Admin, ..SessionSettings::default() });
        Client { toy, session }
    }

    /// Runs the session until it needs something. Returns the output and that action.
    fn hear(&mut self) -> (String, TransportAction) {
        let mut out = Vec::new();
        loop {
            match self.session.run(&mut self.toy, 0, usize::MAX, &mut out) {
                TransportAction::More => {}
                status => return (String::from_utf8(out).expect("text"), status),
            }
        }
    }

    fn send(&mut self, line: &str) -> (String, TransportAction) {
        self.session.feed(line.as_bytes());
        self.session.feed(b"\n");
        self.hear()
    }
}

fn check(command: &str, expected: &str, status: TransportAction) {
    let mut client = Client::new(with_ring().0);
    assert_eq!(client.send(command), (expected.to_owned(), status), "{command}");
}

#[test]
fn show_events_lists_sinks_like_haproxy() {
    let (mut toy, ring) = with_ring();
    ring.write(0, &[&[b'x'; 5000]]);
    toy.sinks.add(Sink::ring("a-long-name", "long", SyslogFormat::Raw, 1024, Ring::in_memory(4096, 6)));
    let (listed, _) = Client::new(toy).send("show events");
    assert_eq!(
        listed,
        "Supported events sinks are listed below. Add -0(zero), -w(wait), -n(new). Any key to stop.\n\
         \x20   stdout     : type=fd, 0 dropped, standard output (fd#1)\n\
         \x20   stderr     : type=fd, 0 dropped, standard output (fd#2)\n\
         \x20   buf0       : type=buffer, 0 dropped, in-memory ring buffer\n\
         \x20   r          : type=buffer, 1 dropped, my ring\n\
         \x20   a-long-name : type=buffer, 0 dropped, long\n\n"
    );
}

/// R97: with `-0` each event ends with NUL, so events with many lines can be separated. Otherwise with a newline.
#[test]
fn r97_events_end_with_a_newline_or_with_nul() {
    check("show events r", "one\n{\n \"a\": 1\n}\n\n", TransportAction::Close);
    check("show events r -0", "one\0{\n \"a\": 1\n}\0\n", TransportAction::Close);
    check("show events r -0w", "one\0{\n \"a\": 1\n}\0", TransportAction::Watch);
    check("show events r -n -0", "\n", TransportAction::Close);
}

/// R115: waiting and the start position depend only on the current command.
#[test]
fn r115_flags_of_waiting_and_seeking_apply_to_one_command() {
    check("show events r -n", "\n", TransportAction::Close);
    check("show events r -w", "one\n{\n \"a\": 1\n}\n", TransportAction::Watch);
    check("show events r -wn", "", TransportAction::Watch);
    check("show events r -n -w", "", TransportAction::Watch);
    // The answer does not depend on the size of the pieces.
    let settings = SessionSettings { level: Level::Admin, ..SessionSettings::default() };
    assert_eq!(converse(&mut with_ring().0, settings, b"show events r\n", 1, 1), "one\n{\n \"a\": 1\n}\n\n");
    // `show errors` after a command with flags, in the same session, is not affected by them.
    let mut fresh = Client::new(with_ring().0);
    let (errors, _) = fresh.send("show errors");
    let mut client = Client::new(with_ring().0);
    client.send("prompt i");
    client.send("show events r -n");
    assert_eq!(client.send("show errors").0, errors);
    assert_eq!(client.send("show events r").0, "one\n{\n \"a\": 1\n}\n\n");
}

#[test]
fn show_events_w_prints_new_events_until_input_arrives() {
    let (toy, ring) = with_ring();
    let woken = Arc::clone(&toy.woken);
    let mut client = Client::new(toy);
    client.send("prompt i");
    assert_eq!(client.send("show events r -wn"), (String::new(), TransportAction::Watch));
    ring.write(0, &[b"new"]);
    assert_eq!(woken.load(SeqCst), 1);
    assert_eq!(client.hear(), ("new\n".to_owned(), TransportAction::Watch));
    // The input that stops the command is not executed.
    assert_eq!(client.send("show version"), ("\n".to_owned(), TransportAction::NeedInput));
    assert_eq!(ring.readers(), 0);
    assert_eq!(client.send("show version").0, "3.5-weir\n\n");
}

/// A slow client delays only itself. Events without room in its buffer are lost and counted.
#[test]
fn a_slow_watcher_loses_events_and_delays_only_itself() {
    let (toy, ring) = with_ring();
    let mut client = Client::new(toy);
    client.send("show events r -w");
    let kept = (0..1000).filter(|_| ring.write(0, &[b"some event of some length"])).count() as u64;
    assert_eq!(kept + ring.dropped(), 1000);
    assert!(ring.dropped() > 0);
    let (heard, _) = client.hear();
    assert_eq!(heard.lines().count() as u64, kept);
}

/// R113: a reader above the limit is refused.
#[test]
fn r113_a_reader_above_the_limit_of_a_ring_is_refused() {
    let (toy, ring) = with_ring();
    let readers: Vec<_> = (0..MOST_READERS).map(|_| ring.attach(Seek::End, ReaderWait::No)).collect();
    let mut client = Client::new(toy);
    assert_eq!(
        client.send("show events r").0,
        "Cannot read the events: the ring has 254 readers already.\n\n"
    );
    drop(readers);
    client = Client::new(client.toy);
    assert_eq!(client.send("show events r").0, "one\n{\n \"a\": 1\n}\n\n");
}

#[test]
fn show_events_refuses_unknown_sinks_and_options_like_haproxy() {
    check("show events nosuch", "No such event sink\n\n", TransportAction::Close);
    check("show events stdout", "Nothing to report for this sink\n\n", TransportAction::Close);
    check("show events r -x", "unknown option\n\n", TransportAction::Close);
    check("show events r foo", "unknown option\n\n", TransportAction::Close);
}

#[test]
fn the_trace_command_configures_a_trace_source() {
    let mut client = Client::new(with_ring().0);
    client.send("prompt i");
    assert!(client.send("trace").0.contains(" [.] toy        : a toy\n"));
    assert_eq!(client.send("trace toy sink r start now").0, "\n");
    assert!(client.send("show trace").0.contains(" [R] toy        -> r [drp 0]  [a toy]\n"));
    assert!(client.send("show trace toy").0.contains("  + - - - toy_new"));
    assert_eq!(client.send("trace 0").0, "All traces now stopped\n\n");
    assert!(client.send("show trace").0.contains(" [.] toy        -> r [drp 0]"));
    assert_eq!(client.send("trace nosuch").0, "No such trace source 'nosuch'\n\n");
}
