//! Compares our record layer with that of rustls, with the same keys.
//!
//! A deterministic handshake (`world/constant.rs`) gives every session the same keys. A pair of rustls connections and a pair of
//! ours are then twins: both must write the same bytes for the same data, accept the same input, and reject the same input with the
//! same alert.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Arc;

use weir_tls::rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use weir_tls::rustls::pki_types::ServerName;
use weir_tls::rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedCipherSuite,
};
use weir_tls::{Alert, HEADER, MAX_CONTENT, TlsSession};

mod world;
use world::constant::{self, Server};
use world::{Forger, Pair};

/// The settings of all twin sessions.
struct Nursery {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Nursery {
    /// Sessions with this cipher and records of at most `largest` bytes.
    fn new(suite: SupportedCipherSuite, largest: usize) -> Nursery {
        let (mut client, mut server) = constant::configs(suite);
        let size = (largest < MAX_CONTENT).then_some(largest + HEADER);
        (server.max_fragment_size, client.max_fragment_size) = (size, size);
        Nursery { client: Arc::new(client), server: Arc::new(server) }
    }

    fn ours(&self) -> Pair {
        let chooser = Arc::new(Server(Arc::clone(&self.server)));
        let mut pair = Pair::new(chooser, Arc::clone(&self.client), "one.example");
        pair.shake(usize::MAX / 2).expect("a handshake");
        assert!(pair.to_client.is_empty() && pair.to_server.is_empty(), "nothing comes behind the handshake");
        pair
    }

    fn theirs(&self) -> (ClientConnection, ServerConnection) {
        let name = ServerName::try_from("one.example").expect("a name");
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).expect("a client");
        let mut server = ServerConnection::new(Arc::clone(&self.server)).expect("a server");
        client.set_buffer_limit(None);
        server.set_buffer_limit(None);
        while client.is_handshaking() || server.is_handshaking() {
            let wire = written(|wire| client.write_tls(wire));
            feed(&wire, |wire| server.read_tls(wire));
            server.process_new_packets().expect("a handshake");
            let wire = written(|wire| server.write_tls(wire));
            feed(&wire, |wire| client.read_tls(wire));
            client.process_new_packets().expect("a handshake");
        }
        (client, server)
    }

    /// Creates records of any type, as a client of these sessions would.
    fn forger(&self) -> Forger {
        Forger::of_client(self.theirs().0)
    }
}

/// All bytes that a rustls connection has to send.
fn written(mut write: impl FnMut(&mut dyn Write) -> std::io::Result<usize>) -> Vec<u8> {
    let mut wire = Vec::new();
    while write(&mut wire).expect("memory") > 0 {}
    wire
}

/// Passes bytes to a rustls connection, as many as it accepts.
fn feed(mut wire: &[u8], mut read: impl FnMut(&mut dyn Read) -> std::io::Result<usize>) {
    while !wire.is_empty() {
        assert!(read(&mut wire).expect("memory") > 0);
    }
}

/// The outcome of a receiver.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    plain: Vec<u8>,
    has_ended: bool,
    has_failed: bool,
    /// The encrypted alert that it sends.
    answer: Vec<u8>,
}

fn our_verdict(server: &mut TlsSession, wire: &[u8], room: usize) -> Verdict {
    let (mut plain, mut answer, mut used) = (Vec::new(), Vec::new(), 0);
    let mut buffer = vec![0; room];
    loop {
        let opened = server.open(&wire[used..], &mut buffer, &mut answer);
        used += opened.used;
        plain.extend_from_slice(&buffer[..opened.filled]);
        if opened.filled == 0 && opened.used == 0 || opened.failure.is_some() || opened.ended {
            return Verdict { plain, has_ended: opened.ended, has_failed: opened.failure.is_some(), answer };
        }
    }
}

fn their_verdict(server: &mut ServerConnection, mut wire: &[u8]) -> Verdict {
    let (mut plain, mut has_ended, mut has_failed) = (Vec::new(), false, false);
    while !wire.is_empty() && !has_failed && !has_ended {
        server.read_tls(&mut wire).expect("memory");
        match server.process_new_packets() {
            Ok(state) => has_ended = state.peer_has_closed(),
            Err(_) => has_failed = true,
        }
        // Data before the close or failure is available.
        let mut buffer = vec![0; MAX_CONTENT];
        while let Ok(count @ 1..) = server.reader().read(&mut buffer) {
            plain.extend_from_slice(&buffer[..count]);
        }
    }
    Verdict { plain, has_ended, has_failed, answer: written(|wire| server.write_tls(wire)) }
}

fn suites() -> impl Iterator<Item = SupportedCipherSuite> {
    ALL_CIPHER_SUITES.iter().copied().filter(|suite| !format!("{suite:?}").contains("_RSA_"))
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// Encrypts all of `bytes` at once.
fn sealed(session: &mut TlsSession, bytes: &[u8], largest: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len() + (bytes.len() / largest + 2) * 64];
    let mut wire = Vec::new();
    let (taken, count) = session.seal(bytes, &mut out, largest, &mut wire).expect("a session");
    assert_eq!(taken, bytes.len());
    wire.extend_from_slice(&out[..count]);
    wire
}

const LENGTHS: [usize; 10] = [1, 2, 31, 32, 33, 1000, 1001, MAX_CONTENT - 1, MAX_CONTENT, MAX_CONTENT + 1];

#[test]
fn tls_records_equal_rustls_records_and_are_read_by_both() {
    for suite in suites() {
        for largest in [MAX_CONTENT, 1000, 32] {
            let nursery = Nursery::new(suite, largest);
            let mut ours = nursery.ours();
            let (mut client, mut server) = nursery.theirs();
            for length in LENGTHS {
                let (plain, what) =
                    (bytes(length), format!("{suite:?}, {length} bytes in records of {largest}"));
                let wire = sealed(&mut ours.client, &plain, largest);
                client.writer().write_all(&plain).expect("room");
                assert!(wire == written(|wire| client.write_tls(wire)), "client, {what}");
                assert!(our_verdict(&mut ours.server, &wire, MAX_CONTENT).plain == plain, "{what}");
                assert!(their_verdict(&mut server, &wire).plain == plain, "{what}");
                let wire = sealed(&mut ours.server, &plain, largest);
                server.writer().write_all(&plain).expect("room");
                assert!(wire == written(|wire| server.write_tls(wire)), "server, {what}");
                assert!(our_verdict(&mut ours.client, &wire, 100).plain == plain, "{what}");
            }
            let mut end = Vec::new();
            ours.client.close(&mut end);
            client.send_close_notify();
            assert_eq!(end, written(|wire| client.write_tls(wire)), "{suite:?}");
            let theirs = their_verdict(&mut server, &end);
            assert!(theirs.has_ended && theirs == our_verdict(&mut ours.server, &end, 100), "{suite:?}");
        }
    }
}

#[test]
fn updated_traffic_keys_match_those_of_rustls() {
    for suite in suites().filter(|suite| suite.tls13().is_some()) {
        let nursery = Nursery::new(suite, MAX_CONTENT);
        let mut ours = nursery.ours();
        let (mut client, mut server) = nursery.theirs();
        for round in 0..3 {
            // The client updates its key and requests an update from the server.
            client.refresh_traffic_keys().expect("TLS 1.3");
            client.writer().write_all(b"there").expect("room");
            let wire = written(|wire| client.write_tls(wire));
            assert_eq!(our_verdict(&mut ours.server, &wire, 100).plain, b"there", "{suite:?}, {round}");
            assert_eq!(their_verdict(&mut server, &wire).plain, b"there", "{suite:?}, {round}");
            // The rustls client reads the records of our server, so both have the new key.
            let wire = sealed(&mut ours.server, b"back", MAX_CONTENT);
            feed(&wire, |wire| client.read_tls(wire));
            client.process_new_packets().expect("records of the new key");
            let mut buffer = [0; 100];
            let count = client.reader().read(&mut buffer).expect("content");
            assert_eq!(&buffer[..count], b"back", "{suite:?}, {round}");
        }
    }
}

/// A named modification of the records.
type Change = (&'static str, fn(&mut Vec<Vec<u8>>));

const CHANGES: [Change; 17] = [
    ("unchanged", |_| {}),
    ("the content type", |records| records[1][0] ^= 1),
    ("the major version", |records| records[1][1] = 5),
    ("a longer length", |records| records[1][4] ^= 1),
    ("the first byte", |records| records[1][HEADER] ^= 0x80),
    ("the last byte", |records| *records[1].last_mut().expect("a tag") ^= 1),
    ("a byte in the middle", |records| records[1][20] ^= 1),
    ("cut in the header", |records| records.last_mut().expect("a record").truncate(3)),
    ("cut in the content", |records| records.last_mut().expect("a record").truncate(20)),
    ("cut and continued", |records| _ = records[1].pop()),
    ("a shorter tag", |records| {
        records[1].truncate(HEADER + 15);
        records[1][3..HEADER].copy_from_slice(&[0, 15]);
    }),
    ("without content", |records| records[1] = vec![23, 3, 3, 0, 0]),
    ("out of order", |records| records.swap(0, 1)),
    ("twice", |records| records[1] = records[0].clone()),
    ("one lost", |records| _ = records.remove(0)),
    ("longer than allowed", |records| records[1] = [&[23, 3, 3, 0x48, 1][..], &vec![0; 0x4801]].concat()),
    ("in clear", |records| records[1] = b"\x15\x03\x03\x00\x02\x02\x00".to_vec()),
];

#[test]
fn modified_records_get_the_same_verdict_as_from_rustls() {
    const DIFFERENCES: [Difference; 5] = [
        (
            "the content type",
            &[Alert::UnexpectedMessage],
            "the outer type is that of data (RFC 8446, 5.2); rustls does not compare it",
        ),
        ("the major version", &[Alert::UnexpectedMessage], "rustls fails to decode it"),
        (
            "longer than allowed",
            &[Alert::RecordOverflow],
            "RFC 8446, 5.2; RFC 5246, 6.2.3; rustls fails to decode it",
        ),
        (
            "without content",
            &[Alert::DecodeError],
            "in TLS 1.2 even the nonce is missing; rustls fails to decrypt it",
        ),
        (
            "in clear",
            &[Alert::UnexpectedMessage, Alert::DecodeError],
            "its type or its length tell; rustls fails to decrypt it",
        ),
    ];
    let mut comparison = Comparison::new(&DIFFERENCES);
    for suite in suites() {
        let nursery = Nursery::new(suite, MAX_CONTENT);
        for (what, change) in CHANGES {
            let mut sender = nursery.ours().client;
            let mut records: Vec<Vec<u8>> =
                [100, 200, 300].map(|length| sealed(&mut sender, &bytes(length), MAX_CONTENT)).into();
            change(&mut records);
            comparison.check(&nursery, &records.concat(), what);
        }
    }
    comparison.end();
}

/// Record content types.
const CHANGE_CIPHER: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

#[test]
fn forged_record_contents_get_the_same_verdict_as_from_rustls() {
    const DIFFERENCES: [Difference; 6] = [
        ("an unknown kind", &[Alert::UnexpectedMessage], "RFC 8446, 5; rustls fails to decode it"),
        ("another cipher", &[Alert::UnexpectedMessage], "in TLS 1.2; rustls fails to decode it"),
        (
            "no message",
            &[Alert::UnexpectedMessage],
            "a record of messages has content (RFC 8446, 5.1); rustls passes over it",
        ),
        (
            "a hello of a server",
            &[Alert::UnexpectedMessage],
            "rustls fails to decode it before it is unexpected",
        ),
        ("a longer message of a new key", &[Alert::UnexpectedMessage], "the same, in TLS 1.2"),
        ("zeros", &[Alert::UnexpectedMessage], "RFC 8446, 5.4; rustls sends no alert"),
    ];
    let mut comparison = Comparison::new(&DIFFERENCES);
    let update = |request: u8| vec![24, 0, 0, 1, request];
    for suite in suites().filter(|suite| format!("{suite:?}").contains("AES_256_GCM")) {
        let nursery = Nursery::new(suite, MAX_CONTENT);
        let is_tls13 = suite.tls13().is_some();
        for (what, kind, content) in [
            ("no content", DATA, Vec::new()),
            ("the most content", DATA, bytes(MAX_CONTENT)),
            ("too much content", DATA, bytes(MAX_CONTENT + 1)),
            ("far too much content", DATA, bytes(MAX_CONTENT + 200)),
            ("the end", ALERT, vec![1, 0]),
            ("a fatal alert", ALERT, vec![2, 80]),
            ("an alert cut short", ALERT, vec![1]),
            ("no alert", ALERT, Vec::new()),
            ("two alerts", ALERT, vec![1, 0, 1, 0]),
            ("an unknown kind", 99, vec![1]),
            ("another cipher", CHANGE_CIPHER, vec![1]),
            ("no message", HANDSHAKE, Vec::new()),
            ("a new key that is not one", HANDSHAKE, update(2)),
            ("a new key with more behind it", HANDSHAKE, [update(0), update(0)].concat()),
            ("a longer message of a new key", HANDSHAKE, vec![24, 0, 0, 2, 0, 0]),
            ("a hello of a server", HANDSHAKE, vec![2, 0, 0, 0]),
            ("a finished message", HANDSHAKE, [&[20, 0, 0, 12][..], &[0; 12]].concat()),
        ] {
            let mut forger = nursery.forger();
            let wire = [forger.record(kind, &content), forger.record(DATA, b"behind")].concat();
            comparison.check(&nursery, &wire, what);
        }
        if is_tls13 {
            let mut forger = nursery.forger();
            // The content type is the last non-zero byte.
            comparison.check(&nursery, &forger.record(0, &[0; 10]), "zeros");
            let padded = [&b"padded"[..], &[DATA], &[0; 100]].concat();
            let mut forger = nursery.forger();
            comparison.check(&nursery, &forger.record(0, &padded), "padding");
            let padded = [&bytes(MAX_CONTENT)[..], &[DATA, 0, 0, 0]].concat();
            let mut forger = nursery.forger();
            comparison.check(&nursery, &forger.record(0, &padded), "the most content, with padding");
        }
    }
    comparison.end();
}

/// A modification with different outcomes: its name, our alerts, and the reason.
type Difference = (&'static str, &'static [Alert], &'static str);

/// Compares outcomes, and records which known differences occurred.
struct Comparison {
    known: &'static [Difference],
    found: BTreeSet<&'static str>,
}

impl Comparison {
    fn new(known: &'static [Difference]) -> Comparison {
        Comparison { known, found: BTreeSet::new() }
    }

    /// Passes the same bytes to both receivers and compares their outcomes.
    #[track_caller]
    fn check(&mut self, nursery: &Nursery, wire: &[u8], what: &'static str) {
        let theirs = their_verdict(&mut nursery.theirs().1, wire);
        for room in [MAX_CONTENT, 50] {
            let ours = our_verdict(&mut nursery.ours().server, wire, room);
            let shown = |verdict: &Verdict| {
                // A twin client reads the alert.
                let opened = nursery.ours().client.open(&verdict.answer, &mut [0; 100], &mut Vec::new());
                let alert = opened.failure.and_then(|failure| failure.alert);
                (verdict.plain.len(), verdict.has_ended, verdict.has_failed, alert)
            };
            let known = self.known.iter().find(|(known, ..)| *known == what);
            match known {
                Some((_, alerts, _)) if ours != theirs => {
                    assert!(ours.has_failed, "{what}");
                    let (.., alert) = shown(&ours);
                    assert!(alert.is_some_and(|alert| alerts.contains(&alert)), "{what}: {alert:?}");
                    self.found.insert(what);
                }
                _ => assert!(ours == theirs, "{what}: ours {:?}, theirs {:?}", shown(&ours), shown(&theirs)),
            }
        }
    }

    fn end(self) {
        let known: BTreeSet<&str> = self.known.iter().map(|(what, ..)| *what).collect();
        assert_eq!(self.found, known, "differences that are not there any more");
    }
}
