//! Two TLS engines over a simulated wire, without sockets.

use std::io::{Read, Write};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use weir_tls::rustls::pki_types::ServerName;
use weir_tls::rustls::{ClientConfig, ClientConnection, ProtocolVersion};
use weir_tls::{
    Alert, CertificateScope, ChooseServer, HandshakeProgress, ListenerCertificate, ListenerCertificates,
    Secret, TlsSession, VerifyMode, Why,
};

mod world;
use world::*;

fn versions() -> [(bool, bool, ProtocolVersion); 2] {
    [(true, false, ProtocolVersion::TLSv1_2), (true, true, ProtocolVersion::TLSv1_3)]
}

#[test]
fn tls_1_2_and_1_3_transfer_data_after_a_handshake_in_any_pieces() {
    for (tls12, tls13, version) in versions() {
        let mut world = World::new();
        world.settings.tls12 = tls12;
        world.settings.tls13 = tls13;
        let listener = world.listener(&["one.example"], false);
        let whole = {
            let mut pair = Pair::new(Arc::clone(&listener), world.client(None), "one.example");
            pair.shake(usize::MAX / 2).expect("a handshake");
            pair
        };
        assert_eq!(whole.server.facts().version, Some(version));
        for piece in [1, 2, 7, 100, 1000] {
            let mut pair = Pair::new(Arc::clone(&listener), world.client(None), "one.example");
            pair.shake(piece).expect("a handshake");
            let bytes: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
            let there = carry(&mut pair.client, &mut pair.server, &mut pair.to_server, &bytes, 4000);
            assert!(there == bytes, "{version:?} {piece}");
            let back = carry(&mut pair.server, &mut pair.client, &mut pair.to_client, &bytes, 40_000);
            assert!(back == bytes, "{version:?} {piece}");
            assert_eq!(pair.server.facts().server_name.as_deref(), Some("one.example"));
        }
    }
}

#[test]
fn a_replaced_certificate_is_found_by_its_new_names() {
    let world = World::new();
    let listener = world.plain_listener(&["one.example", "two.example"], true);
    let with = |name: &str| {
        let made = certificate(&world.authority, name);
        let changed = |(at, entry): (usize, &ListenerCertificate)| {
            if at == 1 { entry.with_certificate(&made) } else { entry.clone() }
        };
        (Arc::new(listener.with_entries(listener.entries().iter().enumerate().map(changed))), made)
    };
    let shown = |listener: &Arc<ListenerCertificates>, name: &'static str| {
        let mut pair = Pair::new(Arc::clone(listener) as _, world.client(None), name);
        pair.shake(usize::MAX / 2).ok()?;
        pair.server.facts().certificate.clone()
    };
    // The same names with another key.
    let (same, made) = with("two.example");
    assert_eq!(shown(&same, "two.example").expect("a certificate").own(), made.own());
    let (other, made) = with("three.example");
    assert_eq!(shown(&other, "three.example").expect("a certificate").own(), made.own());
    assert!(shown(&other, "two.example").is_none() && shown(&other, "one.example").is_some());
}

#[test]
fn certificates_of_a_listener_are_found_by_their_path() {
    let world = World::new();
    let listener = world.plain_listener(&["two.example", "one.example", "three.example"], true);
    let places = |listener: &ListenerCertificates, path: &str| -> Vec<usize> {
        let at = |entry: &ListenerCertificate| {
            listener.entries().iter().position(|known| std::ptr::eq(known, entry))
        };
        listener.entries_of(path).filter_map(at).collect()
    };
    let path = |at: usize| listener.entries()[at].certificate().path.clone();
    assert_eq!([0, 1, 2].map(|at| places(&listener, &path(at))), [[0], [1], [2]]);
    assert!(places(&listener, "/nowhere").is_empty());
    // Another session, and the first one a second time.
    let again = [1, 2, 0, 1].map(|at| listener.entries()[at].clone());
    let again = listener.with_entries(again);
    assert_eq!([0, 1, 2].map(|at| places(&again, &path(at))), [vec![2], vec![0, 3], vec![1]]);
    assert!(places(&listener.with_entries([]), &path(0)).is_empty());
}

#[test]
fn every_cipher_transfers_data() {
    let all = [weir_tls::ciphers::all_suites(), weir_tls::ciphers::all_ciphers()].concat();
    for cipher in all {
        // The certificates here have ECDSA keys.
        if format!("{cipher:?}").contains("_RSA_") {
            continue;
        }
        let mut world = World::new();
        world.settings.ciphers = vec![cipher];
        world.settings.tls13 = cipher.tls13().is_some();
        world.settings.tls12 = !world.settings.tls13;
        let mut pair = Pair::new(world.listener(&["one.example"], false), world.client(None), "one.example");
        pair.shake(50).unwrap_or_else(|failure| panic!("{cipher:?}: {failure:?}"));
        let there = carry(&mut pair.client, &mut pair.server, &mut pair.to_server, &[7; 50_000], 16_384);
        assert!(there == [7; 50_000], "{cipher:?}");
        assert_eq!(pair.server.facts().cipher, Some(cipher.suite()));
    }
}

#[test]
fn a_modified_tls_record_ends_the_session() {
    for (tls12, tls13, _) in versions() {
        let mut world = World::new();
        (world.settings.tls12, world.settings.tls13) = (tls12, tls13);
        let listener = world.listener(&["one.example"], false);
        for at in [0, 3, 5, 20, 40] {
            let mut pair = Pair::new(Arc::clone(&listener), world.client(None), "one.example");
            pair.shake(usize::MAX / 2).expect("a handshake");
            let mut out = vec![0; 1000];
            let (_, written) =
                pair.client.seal(&[1; 100], &mut out, 16_384, &mut Vec::new()).expect("a session");
            let mut wire = std::mem::take(&mut pair.to_server);
            let start = wire.len();
            wire.extend_from_slice(&out[..written]);
            wire[start + at] ^= 0x55;
            wire.resize(wire.len() + 20_000, 0);
            let mut answer = Vec::new();
            let opened = pair.server.open(&wire, &mut [0; 30_000], &mut answer);
            assert!(opened.failure.is_some(), "byte {at}");
            assert_eq!(opened.filled, 0, "byte {at}");
            assert!(!answer.is_empty(), "byte {at}: the peer gets an alert");
            // A failed session stays failed.
            assert!(pair.server.seal(b"x", &mut out, 100, &mut answer).is_err());
        }
    }
}

#[test]
fn a_close_notify_is_reported_as_eof() {
    let world = World::new();
    let mut pair = Pair::new(world.listener(&["one.example"], false), world.client(None), "one.example");
    pair.shake(usize::MAX / 2).expect("a handshake");
    let opened = pair.server.open(&pair.to_server, &mut [0; 100], &mut Vec::new());
    assert!(!opened.ended);
    pair.to_server.drain(..opened.used);
    pair.client.close(&mut pair.to_server);
    let opened = pair.server.open(&pair.to_server, &mut [0; 100], &mut Vec::new());
    assert!(opened.ended && opened.failure.is_none());
}

#[test]
fn a_close_notify_is_reported_after_the_data_before_it() {
    for breaks in [false, true] {
        let world = World::new();
        let mut pair = Pair::new(world.listener(&["one.example"], false), world.client(None), "one.example");
        pair.shake(usize::MAX / 2).expect("a handshake");
        let opened = pair.server.open(&pair.to_server, &mut [0; 100], &mut Vec::new());
        pair.to_server.drain(..opened.used);
        assert!(!pair.server.is_holding());
        let mut out = [0; 100];
        let (_, written) = pair.client.seal(b"last", &mut out, 16_384, &mut Vec::new()).expect("a session");
        pair.to_server.extend_from_slice(&out[..written]);
        if breaks {
            // A record that no key decrypts.
            pair.to_server.extend_from_slice(&[23, 3, 3, 0, 20]);
            pair.to_server.extend_from_slice(&[0; 20]);
        } else {
            pair.client.close(&mut pair.to_server);
        }
        let mut room = [0; 100];
        let opened = pair.server.open(&pair.to_server, &mut room, &mut Vec::new());
        assert_eq!(&room[..opened.filled], b"last");
        // The reader got bytes, and reads on only if bytes are held: the socket is drained.
        assert!(pair.server.is_holding());
        let opened = pair.server.open(&[], &mut room, &mut Vec::new());
        assert_eq!((opened.filled, opened.ended, opened.failure.is_some()), (0, !breaks, breaks));
    }
}

#[test]
fn tls_sessions_are_resumed() {
    for (tls12, tls13, version) in versions() {
        let mut world = World::new();
        (world.settings.tls12, world.settings.tls13) = (tls12, tls13);
        let listener = world.listener(&["one.example"], false);
        let config = world.client(None);
        let mut of_two = 0;
        for resumed in [false, true, true] {
            let mut pair = Pair::new(Arc::clone(&listener), Arc::clone(&config), "one.example");
            pair.shake(usize::MAX / 2).expect("a handshake");
            // The server sends TLS 1.3 tickets after the handshake: two after a full one, one after a resumption.
            let tickets = pair.to_client.len();
            match resumed {
                false => of_two = tickets,
                true => {
                    assert!(tickets * 5 < of_two * 3 || of_two == 0, "{tickets} bytes, {of_two} at first")
                }
            }
            carry(&mut pair.server, &mut pair.client, &mut pair.to_client, b"x", 100);
            assert_eq!(pair.server.facts().resumed, resumed, "{version:?}");
            assert_eq!(pair.client.facts().resumed, resumed, "{version:?}");
        }
    }
}

/// A listener that accepts early data, and the settings of a client with a ticket that sends early data.
fn early_world(early_data: u32) -> (Arc<dyn ChooseServer>, Arc<ClientConfig>) {
    let (_, listener, config) = early_worlds(early_data);
    (listener, config)
}

/// Like [`early_world`], plus another listener that does not know the client's session.
fn early_worlds(early_data: u32) -> (Arc<dyn ChooseServer>, Arc<dyn ChooseServer>, Arc<ClientConfig>) {
    let world = World { early_data, ..World::new() };
    let listener = world.listener(&["one.example"], false);
    let mut config = ClientConfig::clone(&world.client(None));
    config.enable_early_data = true;
    let config = Arc::new(config);
    let mut pair = Pair::new(Arc::clone(&listener), Arc::clone(&config), "one.example");
    pair.shake(usize::MAX / 2).expect("a handshake");
    carry(&mut pair.server, &mut pair.client, &mut pair.to_client, b"x", 100);
    (world.listener(&["one.example"], false), listener, config)
}

fn early_client(config: &Arc<ClientConfig>, says: &[u8]) -> (ClientConnection, Vec<u8>) {
    let name = ServerName::try_from("one.example").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    client.early_data().expect("a ticket for early data").write_all(says).expect("room");
    let wire = spoken(&mut client);
    (client, wire)
}

/// All bytes that a rustls client has to send.
fn spoken(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("memory");
    }
    wire
}

/// Passes a client's bytes to a server, `piece` bytes at a time, until a session is established. Returns the remaining bytes, the
/// server's output, and the progress.
fn show(server: &mut TlsSession, wire: &[u8], piece: usize) -> (Vec<u8>, Vec<u8>, HandshakeProgress) {
    let (mut kept, mut answer, mut progress) = (Vec::new(), Vec::new(), HandshakeProgress::More);
    for bytes in wire.chunks(piece) {
        kept.extend_from_slice(bytes);
        if progress == HandshakeProgress::More {
            let (used, shaken) = step(server, &mut kept, &mut answer, &mut 0);
            progress = shaken.expect("a handshake");
            kept.drain(..used);
        }
    }
    (kept, answer, progress)
}

/// Decrypts all received bytes.
fn opened(server: &mut TlsSession, wire: &mut Vec<u8>, answer: &mut Vec<u8>, room: usize) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), vec![0; room]);
    loop {
        let opened = server.open(wire, &mut room, answer);
        assert_eq!(opened.failure, None);
        wire.drain(..opened.used);
        all.extend_from_slice(&room[..opened.filled]);
        if opened.filled == 0 && opened.used == 0 {
            return all;
        }
    }
}

fn heard(client: &mut ClientConnection, mut wire: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while !wire.is_empty() {
        client.read_tls(&mut wire).expect("memory");
        client.process_new_packets().expect("a good server");
        // The end of the available data is reported as an error.
        let _ = client.reader().read_to_end(&mut all);
    }
    all
}

#[test]
fn early_data_are_read_and_answered_before_the_handshake_completes() {
    let says: Vec<u8> = (0..3000u32).map(|number| number as u8).collect();
    for (piece, room) in [(usize::MAX / 2, 20_000), (1, 7), (100, 1000)] {
        let (listener, config) = early_world(4000);
        let (mut client, wire) = early_client(&config, &says);
        let mut server = TlsSession::server(listener);
        let (mut kept, mut answer, progress) = show(&mut server, &wire, piece);
        assert_eq!(progress, HandshakeProgress::Established);
        assert!(server.facts().early && server.facts().early_received && server.facts().resumed);
        assert!(server.is_holding());
        assert!(opened(&mut server, &mut kept, &mut answer, room) == says);
        let mut sealed = vec![0; 20_000];
        let (taken, written) = server.seal(&says, &mut sealed, 1000, &mut answer).expect("half a session");
        assert_eq!((taken, server.facts().early), (says.len(), true));
        answer.extend_from_slice(&sealed[..written]);
        assert!(heard(&mut client, &answer) == says);
        // The end of the handshake, and data after it: byte by byte as well.
        client.writer().write_all(b"later").expect("room");
        let (mut wire, mut later, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        for bytes in spoken(&mut client).chunks(piece) {
            wire.extend_from_slice(bytes);
            later.extend(opened(&mut server, &mut wire, &mut answer, room));
        }
        assert_eq!(
            (&later[..], server.facts().early, server.facts().early_received),
            (&b"later"[..], false, true)
        );
        let (_, written) = server.seal(b"last", &mut sealed, 1000, &mut answer).expect("a session");
        answer.extend_from_slice(&sealed[..written]);
        assert_eq!(heard(&mut client, &answer), b"last");
    }
}

/// A slow server receives the end of the handshake together with the early data. They still count as early, but can no longer be a
/// replay.
#[test]
fn early_data_received_with_the_finished_message_count_as_early() {
    let (listener, config) = early_world(4000);
    let (mut client, mut wire) = early_client(&config, b"early");
    let hello = weir_tls::announced(&wire).expect("a record");
    let mut later = wire.split_off(hello);
    let mut server = TlsSession::server(listener);
    let (_, answer, progress) = show(&mut server, &wire, usize::MAX / 2);
    assert_eq!((progress, server.facts().early_received), (HandshakeProgress::More, false));
    heard(&mut client, &answer);
    later.extend(spoken(&mut client));
    let mut answer = Vec::new();
    let (used, progress) = step(&mut server, &mut later, &mut answer, &mut 0);
    assert_eq!(
        (progress, server.facts().early, server.facts().early_received),
        (Ok(HandshakeProgress::Established), false, true)
    );
    later.drain(..used);
    assert_eq!(opened(&mut server, &mut later, &mut answer, 100), b"early");
}

#[test]
fn discards_refused_early_data_up_to_a_limit() {
    let (_, config) = early_world(4000);
    let (_, wire) = early_client(&config, b"");
    let hello = weir_tls::announced(&wire).expect("a record");
    let mut server = TlsSession::server(early_world(4000).0);
    let (_, _, progress) = show(&mut server, &wire[..hello], usize::MAX / 2);
    assert_eq!(progress, HandshakeProgress::More);
    let record = [&[23, 3, 3, 0x40, 0x11][..], &[7; 16_401]].concat();
    // A megabyte, plus the bytes that rustls itself skips.
    let ends = (0..100).find(|number| {
        let (used, shaken) = server.shake(&mut record.clone(), &mut Vec::new());
        assert_eq!(shaken.is_ok(), used == record.len(), "record {number}");
        shaken.is_err()
    });
    assert_eq!(ends, Some(64));
}

#[test]
fn early_data_of_a_ticket_are_accepted_only_once() {
    let (listener, config) = early_world(4000);
    let (_, wire) = early_client(&config, b"once");
    let mut first = TlsSession::server(Arc::clone(&listener));
    let (mut kept, mut answer, _) = show(&mut first, &wire, 1000);
    assert_eq!(opened(&mut first, &mut kept, &mut answer, 100), b"once");
    // A replay of all recorded bytes.
    let mut again = TlsSession::server(listener);
    let (_, _, progress) = show(&mut again, &wire, 1000);
    assert_eq!((progress, again.facts().early_received), (HandshakeProgress::More, false));
}

#[test]
fn accepts_early_data_up_to_the_announced_limit() {
    // A client sends no early data to a listener without it.
    let (_, config) = early_world(0);
    let name = ServerName::try_from("one.example").expect("a name");
    assert!(ClientConnection::new(config, name).expect("a client").early_data().is_none());
    let (listener, config) = early_world(10);
    let (mut client, wire) = early_client(&config, &[b'x'; 10]);
    assert_eq!(client.early_data().map(|mut data| data.write(b"y").expect("a count")), Some(0));
    let mut server = TlsSession::server(listener);
    let (mut kept, mut answer, _) = show(&mut server, &wire, 1000);
    assert_eq!(opened(&mut server, &mut kept, &mut answer, 100), [b'x'; 10]);
    // The client closed before the end of its early data.
    let mut out = Vec::new();
    server.close(&mut out);
    answer.extend_from_slice(&out);
    heard(&mut client, &answer);
    assert_eq!(client.reader().read(&mut [0]).expect("an end"), 0);
}

#[test]
fn server_and_client_export_the_same_secrets() {
    for (tls12, tls13, version) in versions() {
        let mut world = World::new();
        (world.settings.tls12, world.settings.tls13) = (tls12, tls13);
        let mut pair = Pair::new(world.listener(&["one.example"], false), world.client(None), "one.example");
        pair.shake(usize::MAX / 2).expect("a handshake");
        let (client, server) = (pair.client.facts(), pair.server.facts());
        assert_eq!(client.randoms, server.randoms, "{version:?}");
        assert!(client.randoms.client.is_some() && client.randoms.server.is_some(), "{version:?}");
        let key = |facts: &weir_tls::Facts, secret| {
            facts.secrets.as_ref().and_then(|secrets| secrets.get(secret).map(<[u8]>::to_vec))
        };
        let all = [Secret::Master, Secret::ClientHandshake, Secret::ServerTraffic, Secret::Exporter];
        for (secret, is_known) in all.into_iter().zip([!tls13, tls13, tls13, tls13]) {
            assert_eq!(key(client, secret), key(server, secret), "{version:?} {secret:?}");
            assert_eq!(key(server, secret).is_some(), is_known, "{version:?} {secret:?}");
        }
    }
}

#[test]
fn certificates_are_selected_by_sni() {
    let world = World::new();
    let listener = world.listener(&["one.example", "two.example", "*.wild.example"], false);
    for (name, expected) in
        [("one.example", "one.example"), ("TWO.example", "two.example"), ("a.wild.example", "*.wild.example")]
    {
        let mut pair = Pair::new(Arc::clone(&listener), world.client(None), name);
        pair.shake(usize::MAX / 2).expect("a handshake");
        let certificate = pair.server.facts().certificate.clone().expect("a certificate");
        let names = |der: &[u8]| der.windows(expected.len()).any(|part| part == expected.as_bytes());
        assert!(names(certificate.own()), "{name} gets another certificate than {expected}");
    }
    // The default certificate is for another name, and the client detects that.
    let mut pair = Pair::new(listener, world.client(None), "a.b.wild.example");
    assert_eq!(pair.shake(usize::MAX / 2).expect_err("another name").0.why, Why::WrongName);
    let strict = world.listener(&["one.example"], true);
    let mut pair = Pair::new(strict, world.client(None), "none.example");
    let (client, server) = pair.shake(usize::MAX / 2).expect_err("no name");
    assert_eq!((client.why, server.expect("a failure").why), (Why::PeerAlert, Why::UnknownName));
}

#[test]
fn the_first_certificate_is_an_additional_default() {
    let world = World::new();
    let declared = |part: CertificateScope| {
        let listener = world.plain_listener(&["one.example", "two.example", "three.example"], false);
        let base = world.base();
        let second = ListenerCertificate::new(listener.entries()[1].certificate(), &base, part);
        let entries = [listener.entries()[0].clone(), second, listener.entries()[2].clone()];
        let listener = listener.with_entries(entries);
        assert_eq!(&*listener.implicit_default().expect("the first").certificate().names[0], "one.example");
        listener.defaults().map(|entry| entry.certificate().names[0].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(declared(CertificateScope::default()), ["one.example"]);
    let both = ["one.example", "two.example"];
    assert_eq!(declared(CertificateScope { filters: vec!["*".into()], ..CertificateScope::default() }), both);
    assert_eq!(declared(CertificateScope { is_default: true, ..CertificateScope::default() }), both);
    assert!(world.plain_listener(&["one.example"], true).implicit_default().is_none());
}

#[test]
fn verify_required_demands_a_client_certificate() {
    let mut world = World::new();
    world.verify = VerifyMode::Required;
    let listener = world.listener(&["one.example"], false);
    let own = certificate(&world.authority, "client.example");
    let mut pair = Pair::new(Arc::clone(&listener), world.client(Some(&own)), "one.example");
    pair.shake(usize::MAX / 2).expect("a handshake");
    assert_eq!(pair.server.facts().peer_certificates.len(), 1);
    assert_eq!(pair.server.facts().verified.expect("it was checked").code, 0);
    world.settings.tls13 = false;
    let mut pair = Pair::new(Arc::clone(&listener), world.client(None), "one.example");
    let (_, server) = pair.shake(usize::MAX / 2).expect_err("no certificate");
    assert_eq!(server.expect("a failure").why, Why::NoCertificate);
    // Another authority.
    let other = certificate(&authority("another"), "client.example");
    let mut pair = Pair::new(listener, world.client(Some(&other)), "one.example");
    let (_, server) = pair.shake(usize::MAX / 2).expect_err("a wrong certificate");
    assert_eq!(server.expect("a failure").why, Why::Untrusted);
    // These faults can be ignored: OpenSSL's codes for an unknown issuer and an unchecked signature.
    world.ignored.codes.extend([20, 21]);
    let listener = world.listener(&["one.example"], false);
    let mut pair = Pair::new(listener, world.client(Some(&other)), "one.example");
    pair.shake(usize::MAX / 2).expect("a handshake");
    let verified = pair.server.facts().verified.expect("it was checked");
    assert_eq!((verified.error, verified.code), (20, 21));
}

#[test]
fn distinguishes_bytes_other_than_a_client_hello() {
    let world = World::new();
    let listener = world.listener(&["one.example"], false);
    for (bytes, why, alert_code) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], Why::PlainHttp, None),
        (b"SSH-2.0-x\r\n", Why::NotTls, None),
        (b"\x17\x03\x03\x00\x01x", Why::NotTls, Some(10)),
        (b"\x16\x03\x01\x40\x01", Why::NotTls, Some(22)),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", Why::Misbehaved, Some(10)),
        (b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03", Why::Misbehaved, Some(50)),
    ] {
        let (mut server, mut answer) = (TlsSession::server(Arc::clone(&listener)), Vec::new());
        let (_, result) = step(&mut server, &mut bytes.to_vec(), &mut answer, &mut 0);
        assert_eq!(result.expect_err("no hello").why, why, "{bytes:?}");
        let alert = alert_code.map(|code| vec![21, 3, 3, 0, 2, 2, code]);
        assert_eq!(answer, alert.unwrap_or_default(), "{bytes:?}");
    }
    // An endless ClientHello fails at the size limit.
    let mut server = TlsSession::server(listener);
    let endless: Vec<u8> = [&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x3ffc]].concat();
    let (_, result) = step(&mut server, &mut endless.repeat(5), &mut Vec::new(), &mut 0);
    assert_eq!(result.expect_err("too long").why, Why::Misbehaved);
}

/// A session of our client after its ClientHello with a ticket, and the bytes written so far, including `says` as early data.
fn early_session(config: &Arc<ClientConfig>, says: &[u8]) -> (TlsSession, Vec<u8>) {
    let name = ServerName::try_from("one.example").expect("a name");
    let mut client = TlsSession::client(Arc::clone(config), name).expect("a client");
    let (mut wire, mut sealed) = (Vec::new(), vec![0; 40_000]);
    assert_eq!(client.shake(&mut [], &mut wire), (0, Ok(HandshakeProgress::Established)));
    assert!(client.facts().early && client.facts().resumed);
    let (taken, written) = client.seal(says, &mut sealed, 1000, &mut wire).expect("a session");
    assert_eq!(taken, says.len());
    wire.extend_from_slice(&sealed[..written]);
    (client, wire)
}

/// Exchanges bytes with a server that has received `wire`, `piece` bytes at a time towards the client, until the server has
/// received `length` bytes of data and the client has finished the handshake. Returns the data.
fn talk(
    client: &mut TlsSession,
    server: &mut TlsSession,
    wire: Vec<u8>,
    piece: usize,
    length: usize,
) -> Vec<u8> {
    let (mut to_server, mut to_client, mut heard) = (wire, Vec::new(), Vec::new());
    let mut shaken = HandshakeProgress::More;
    for _ in 0..10 {
        if shaken == HandshakeProgress::More {
            let (used, progress) = step(server, &mut to_server, &mut to_client, &mut 0);
            shaken = progress.expect("a handshake");
            to_server.drain(..used);
        }
        if shaken == HandshakeProgress::Established {
            heard.extend(opened(server, &mut to_server, &mut to_client, 20_000));
        }
        let mut kept = Vec::new();
        for bytes in std::mem::take(&mut to_client).chunks(piece) {
            kept.extend_from_slice(bytes);
            assert_eq!(opened(client, &mut kept, &mut to_server, 20_000), b"");
        }
        if heard.len() >= length && !client.facts().early && to_server.is_empty() {
            break;
        }
    }
    assert!(!client.facts().early && client.facts().version_name() == Some("TLSv1.3"));
    heard
}

#[test]
fn early_data_of_a_client_arrive_once_even_if_they_are_refused() {
    let says: Vec<u8> = (0..3000u32).map(|number| number as u8).collect();
    for (limit, piece) in [(4000, usize::MAX / 2), (4000, 1), (3000, 9), (1500, 100), (1000, 50)] {
        // The server that issued the ticket accepts early data up to its limit. The rest follows after the handshake.
        let (stranger, listener, config) = early_worlds(limit);
        let (mut client, wire) = early_session(&config, &says);
        let mut server = TlsSession::server(listener);
        assert!(talk(&mut client, &mut server, wire, piece, says.len()) == says, "{limit} {piece}");
        assert!(server.facts().early_received && server.facts().resumed && client.facts().resumed);
        // Another server does not know the session, so all data is sent again.
        let (mut client, wire) = early_session(&config, &says);
        let mut server = TlsSession::server(stranger);
        assert!(talk(&mut client, &mut server, wire, piece, says.len()) == says, "{limit} {piece}");
        assert!(!server.facts().early_received && !server.facts().resumed && !client.facts().resumed);
    }
}

#[test]
fn data_are_transferred_in_both_directions_after_early_data() {
    let (listener, config) = early_world(4000);
    let (mut client, wire) = early_session(&config, b"early");
    let mut server = TlsSession::server(listener);
    assert_eq!(talk(&mut client, &mut server, wire, 10_000, 5), b"early");
    let (mut sealed, mut answer) = (vec![0; 1000], Vec::new());
    let (_, written) = server.seal(b"answer", &mut sealed, 1000, &mut answer).expect("a session");
    let mut wire = [&answer[..], &sealed[..written]].concat();
    answer.clear();
    assert_eq!(opened(&mut client, &mut wire, &mut answer, 100), b"answer");
    let (_, written) = client.seal(b"more", &mut sealed, 1000, &mut answer).expect("a session");
    let mut wire = [&answer[..], &sealed[..written]].concat();
    assert_eq!(opened(&mut server, &mut wire, &mut Vec::new(), 100), b"more");
}

/// The Finished message that identifies the session is the server's, sent before the early data is read.
#[test]
fn a_session_has_its_identifiers_while_its_data_are_early() {
    weir_tls::keep_identities();
    let (listener, config) = early_world(4000);
    let (mut client, mut wire) = early_session(&config, b"early");
    assert_eq!((client.facts().unique_id(), client.facts().session_key()), (None, None));
    let (mut server, mut answer) = (TlsSession::server(listener), Vec::new());
    let (used, progress) = step(&mut server, &mut wire, &mut answer, &mut 0);
    assert_eq!((progress, server.facts().early), (Ok(HandshakeProgress::Established), true));
    let said = server.facts().unique_id().expect("the server's").to_vec();
    let resumed_with = server.facts().session_key().expect("the ticket's").to_vec();
    let mut end = Vec::new();
    assert_eq!(opened(&mut client, &mut answer, &mut end, 1000), b"");
    wire.drain(..used);
    wire.extend_from_slice(&end);
    assert_eq!(opened(&mut server, &mut wire, &mut answer, 1000), b"early");
    assert!(!server.facts().early && !client.facts().early);
    assert_eq!(
        [&server, &client].map(|side| side.facts().unique_id().expect("a message")),
        [&said[..], &said]
    );
    assert_eq!(opened(&mut client, &mut answer, &mut end, 1000), b"");
    assert_eq!(server.facts().session_key(), client.facts().session_key());
    assert_ne!(server.facts().session_key(), Some(&resumed_with[..]), "there are new tickets");
}

/// Servers written in Go send tickets in their first flight, before the client's Finished.
#[test]
fn accepts_a_session_ticket_before_the_clients_finished_message() {
    weir_tls::keep_identities();
    let world = World::new();
    let mut pair = Pair::new(world.listener(&["one.example"], false), world.client(None), "one.example");
    let identifiers_of = |session: &TlsSession| {
        let facts = session.facts();
        [facts.session_id(), facts.session_key(), facts.unique_id()]
            .map(|part| part.unwrap_or_default().to_vec())
    };
    let (mut hello, mut flight, mut end) = (Vec::new(), Vec::new(), Vec::new());
    step(&mut pair.client, &mut [], &mut hello, &mut 0).1.expect("a hello");
    step(&mut pair.server, &mut hello, &mut flight, &mut 0).1.expect("a flight");
    let secrets = pair.server.facts().secrets.as_ref().expect("keys");
    let mut forger = Forger::of_secret(secrets.get(Secret::ServerTraffic).expect("a key"));
    // Lifetime, `ticket_age_add`, nonce, ticket, no extensions (RFC 8446, 4.6.1).
    let ticket = [&[0, 0, 1, 0, 1, 2, 3, 4, 1, 9, 0, 6][..], b"ticket", &[0, 0]].concat();
    flight.extend(forger.record(22, &[&[4, 0, 0, ticket.len() as u8], &ticket[..]].concat()));
    flight.extend(forger.record(23, b"data"));
    let (used, progress) = step(&mut pair.client, &mut flight, &mut end, &mut 0);
    assert_eq!(progress, Ok(HandshakeProgress::Established));
    let before = identifiers_of(&pair.client);
    assert_eq!((before[0].len(), before[1].len(), before[2].len()), (0, 0, 48));
    let mut room = [0; 100];
    let opened = pair.client.open(&flight[used..], &mut room, &mut end);
    assert_eq!((&room[..opened.filled], opened.failure), (&b"data"[..], None));
    let after = identifiers_of(&pair.client);
    assert_eq!(after[0], digest(&SHA256, b"ticket").as_ref());
    assert!(after[1] != before[1] && after[2] == before[2]);
}

#[test]
fn data_stay_early_when_their_handshake_fails() {
    let (_, config) = early_world(4000);
    let (mut client, _) = early_session(&config, b"early");
    let refusal = [21, 3, 3, 0, 2, 2, 40];
    let opened = client.open(&refusal, &mut [0; 100], &mut Vec::new());
    assert_eq!(opened.failure.map(|failure| failure.why), Some(Why::PeerAlert));
    assert!(client.facts().early && client.facts().failure.is_some());
    // A server that negotiates an older version cannot have issued the ticket (RFC 8446, D.3).
    let (mut client, _) = early_session(&config, b"early");
    let garbage = [22, 3, 3, 0, 4, 2, 0, 0, 0];
    assert!(client.open(&garbage, &mut [0; 100], &mut Vec::new()).failure.is_some());
    assert!(client.seal(b"x", &mut [0; 100], 100, &mut Vec::new()).is_err());
}

/// A rustls client with an established TLS 1.3 session with our server.
fn updating_client() -> (ClientConnection, TlsSession) {
    connected(true)
}

/// A rustls client with an established TLS 1.3 or 1.2 session with our server.
fn connected(tls13: bool) -> (ClientConnection, TlsSession) {
    let mut world = World::new();
    world.settings.tls13 = tls13;
    let name = ServerName::try_from("one.example").expect("a name");
    let mut client = ClientConnection::new(world.client(None), name).expect("a client");
    let mut server = TlsSession::server(world.listener(&["one.example"], false));
    let mut answer = Vec::new();
    for _ in 0..2 {
        let mut wire = spoken(&mut client);
        step(&mut server, &mut wire, &mut answer, &mut 0).1.expect("a handshake");
        assert_eq!(heard(&mut client, &std::mem::take(&mut answer)), b"");
    }
    let version = if tls13 { "TLSv1.3" } else { "TLSv1.2" };
    assert!(!client.is_handshaking() && server.facts().version_name() == Some(version));
    (client, server)
}

#[test]
fn key_updates_between_data_are_unlimited() {
    let (mut client, mut server) = updating_client();
    let mut sealed = vec![0; 1000];
    for number in 0..500u32 {
        client.refresh_traffic_keys().expect("an update");
        client.writer().write_all(&number.to_be_bytes()).expect("room");
        let (mut wire, mut answer) = (spoken(&mut client), Vec::new());
        assert_eq!(opened(&mut server, &mut wire, &mut answer, 1000), number.to_be_bytes());
        // rustls itself accepts at most 32 updates of its peer, which answer its own.
        if number < 31 {
            let (_, written) = server.seal(b"answer", &mut sealed, 1000, &mut answer).expect("a session");
            assert!(!answer.is_empty(), "a new key");
            assert_eq!(heard(&mut client, &[&answer[..], &sealed[..written]].concat()), b"answer");
        }
    }
}

/// Messages that no server accepts fail before they are complete.
#[test]
fn unexpected_handshake_messages_are_refused_by_their_headers() {
    for (header, alert) in [
        // A ticket, a certificate, and key updates that are too long or empty.
        ([4, 0, 16, 0], Alert::UnexpectedMessage),
        ([11, 0, 16, 0], Alert::UnexpectedMessage),
        ([24, 0, 0, 2], Alert::DecodeError),
        ([24, 0, 0, 0], Alert::IllegalParameter),
    ] {
        let (client, mut server) = updating_client();
        let wire = Forger::of_client(client).record(22, &header);
        let opened = server.open(&wire, &mut [0; 100], &mut Vec::new());
        assert_eq!(opened.failure.and_then(|failure| failure.alert), Some(alert), "{header:?}");
    }
}

/// Answers to a peer that sends but does not read would accumulate in the output queue (RFC 8446, 4.6.3).
#[test]
fn repeated_key_update_requests_are_answered_once_while_idle() {
    let (mut client, mut server) = updating_client();
    let (mut sealed, mut answer) = (vec![0; 1000], Vec::new());
    for number in 0..500u32 {
        client.refresh_traffic_keys().expect("an update");
        client.writer().write_all(&number.to_be_bytes()).expect("room");
        assert_eq!(opened(&mut server, &mut spoken(&mut client), &mut answer, 1000), number.to_be_bytes());
    }
    assert_eq!(answer, b"", "nothing is sent before there are data");
    for said in [&b""[..], b"one", b"two"] {
        let (_, written) = server.seal(said, &mut sealed, 1000, &mut answer).expect("a session");
        assert_eq!(answer.is_empty(), said != b"one", "one new key for all");
        let wire = [&std::mem::take(&mut answer)[..], &sealed[..written]].concat();
        assert_eq!(heard(&mut client, &wire), said);
    }
}

/// Each attempt is answered by a warning, which stays queued until the peer reads it.
#[test]
fn renegotiation_attempts_are_refused_a_limited_number_of_times() {
    let (client, mut server) = connected(false);
    let mut forger = Forger::of_client(client);
    // The beginning of a ClientHello is enough, because it is not parsed.
    let hello = [1, 0, 0, 4, 3, 3, 0, 0];
    let (mut room, mut answer) = ([0; 100], Vec::new());
    for number in 0..33 {
        let wire = [forger.record(22, &hello), forger.record(23, b"x")].concat();
        let opened = server.open(&wire, &mut room, &mut answer);
        let failure = opened.failure.map(|failure| failure.alert);
        let expected = if number < 32 { (1, None) } else { (0, Some(Some(Alert::UnexpectedMessage))) };
        assert_eq!((opened.filled, failure), expected, "{number}");
    }
    assert!(answer.len() <= 33 * 31, "{}", answer.len());
}

#[test]
fn many_key_updates_without_data_end_the_session() {
    let (mut client, mut server) = updating_client();
    let (mut updates, mut sent) = (0, 0);
    let failure = loop {
        client.refresh_traffic_keys().expect("an update");
        let mut answer = Vec::new();
        let opened = server.open(&spoken(&mut client), &mut [0; 1000], &mut answer);
        sent += answer.len();
        updates += 1;
        assert!(updates < 100, "it goes on");
        match opened.failure {
            Some(failure) => break failure,
            None => heard(&mut client, &answer),
        };
    };
    assert_eq!((updates, failure.alert), (33, Some(Alert::UnexpectedMessage)));
    // At most one small record per update, and the alert.
    assert!(sent <= 33 * 30, "{sent}");
}

/// The records of a handshake message must be consecutive (RFC 8446, 5.1).
#[test]
fn interleaved_records_within_a_handshake_message_are_refused() {
    let (alert, message, data) = (21, 22, 23);
    let key_update = [24, 0, 0, 1, 0];
    let check = |records: &[(u8, &[u8])], read: &[u8], expected: Option<(Why, Alert)>| {
        let (client, mut server) = updating_client();
        let mut forger = Forger::of_client(client);
        let wire: Vec<u8> =
            records.iter().flat_map(|(kind, content)| forger.record(*kind, content)).collect();
        let (mut room, mut answer) = ([0; 1000], Vec::new());
        let opened = server.open(&wire, &mut room, &mut answer);
        let failure = opened.failure.map(|failure| (failure.why, failure.alert.expect("an alert")));
        assert_eq!((&room[..opened.filled], failure), (read, expected), "{records:?}");
        let sends_alert = expected.is_some_and(|(why, _)| why != Why::PeerAlert);
        assert_eq!(answer.is_empty(), !sends_alert, "{records:?}");
    };
    let refused = Some((Why::Misbehaved, Alert::UnexpectedMessage));
    check(&[(data, b"one"), (message, &key_update[..3]), (message, &key_update[3..])], b"one", None);
    check(&[(data, b"one"), (message, &key_update[..3]), (data, b"two")], b"one", refused);
    check(&[(message, &key_update[..4]), (data, b""), (message, &key_update[4..])], b"", refused);
    check(&[(message, &key_update[..1]), (alert, &[1, 0])], b"", refused);
    // The end of the session has its own reason.
    let ended = Some((Why::PeerAlert, Alert::InternalError));
    check(&[(message, &key_update[..1]), (alert, &[2, 80])], b"", ended);
}
