//! TLS input from clients: hellos, and the records of established sessions.

use std::sync::{Arc, LazyLock};

use weir_client_hello::{CLIENT_HELLO, ClientHello, Unread};
use weir_tls::rustls::crypto::aws_lc_rs::cipher_suite;
use weir_tls::rustls::crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use weir_tls::rustls::pki_types::ServerName;
use weir_tls::rustls::{
    ClientConnection, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite,
};
use weir_tls::{HandshakeProgress, MAX_CONTENT, SessionFailure, TlsSession};

// The same sessions as in the tests of `weir-tls`: their handshakes do not vary.
#[path = "../../../data/tls/tests/world/constant.rs"]
mod constant;
use constant::Server;

/// A client's first bytes: the parts of the hello lie inside them, and more bytes do not change the hello.
pub fn client_hello(bytes: &[u8]) {
    let _ = weir_client_hello::sslv2_version(bytes);
    let whole = weir_client_hello::read(bytes);
    let half = weir_client_hello::read(&bytes[..bytes.len() / 2]);
    assert!(half == Err(Unread::TooShort) || half == whole, "the second half changes the first");
    let Ok(message) = whole else { return };
    assert!(message.body.len() <= bytes.len());
    let _ = weir_client_hello::server_extensions(&message.body).map(Iterator::count);
    let Some(hello) = ClientHello::parse(&message.body) else { return };
    if message.kind != CLIENT_HELLO {
        return;
    }
    let lists = [hello.server_name(), hello.groups(), hello.signature_schemes(), hello.point_formats()];
    let others = [hello.versions(), hello.session_ticket(), hello.application_protocol()];
    let names = hello.application_protocols().chain(hello.offered_sessions());
    let extensions = hello.extensions().map(|(_, content)| content);
    let parts = lists.into_iter().chain(others).flatten().chain(names).chain(extensions);
    let within = message.body.as_ptr_range();
    for part in parts.chain([hello.session, hello.ciphers]).filter(|part| !part.is_empty()) {
        let range = part.as_ptr_range();
        assert!(within.start <= range.start && range.end <= within.end, "a part is not of the message");
    }
    let _ = hello.key_share_groups().map(Iterator::count);
    // A server reads the same hello, and answers or refuses it.
    let mut session = RECORDED[0].server();
    let (mut wire, mut answer) = (bytes.to_vec(), Vec::new());
    let (used, progress) = session.shake(&mut wire, &mut answer);
    assert!(used <= bytes.len());
    assert!(progress.is_ok() || answer.is_empty() || answer[0] == 21 || answer[0] == 22, "an alert");
}

/// Records after a handshake. Each is one byte for its kind, two for its length, and its content, sent encrypted or in
/// clear. Cut anywhere and read in small pieces, the input must give the same data and the same result.
pub fn tls_records(bytes: &[u8]) {
    let [cut, small, script @ ..] = bytes else { return };
    let recorded = &RECORDED[usize::from(small % 2)];
    let (wire, plain) = recorded.records(script);
    let whole = recorded.receive(&[&wire], MAX_CONTENT);
    assert!(plain.starts_with(&whole.plain), "data that the client did not send");
    let (first, second) = wire.split_at(usize::from(*cut).min(wire.len()));
    let cut = recorded.receive(&[first, second], usize::from(*small) + 1);
    assert_eq!(whole, cut, "pieces change what is read");
}

/// A client that sends the same messages in each handshake.
struct RecordedClient {
    suite: SupportedCipherSuite,
    /// The client's bytes of each handshake step.
    said: Vec<Vec<u8>>,
    /// The client's traffic key.
    key: [u8; 32],
    iv: [u8; 12],
}

/// Of TLS 1.3, and of TLS 1.2.
static RECORDED: LazyLock<[RecordedClient; 2]> = LazyLock::new(|| {
    [
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ]
    .map(RecordedClient::new)
});

impl RecordedClient {
    fn new(suite: SupportedCipherSuite) -> RecordedClient {
        let (config, _) = constant::configs(suite);
        let name = ServerName::try_from("site.example").expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut recorded = RecordedClient { suite, said: Vec::new(), key: [0; 32], iv: [0; 12] };
        let mut server = recorded.server();
        while client.is_handshaking() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).expect("memory");
            }
            recorded.said.push(wire.clone());
            let answer = shake(&mut server, &mut wire);
            let mut rest = &answer[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("memory");
            }
            client.process_new_packets().expect("a handshake");
        }
        let mut last = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut last).expect("memory");
        }
        recorded.said.push(last);
        let (_, secrets) = client.dangerous_extract_secrets().expect("secrets").tx;
        let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else {
            panic!("another cipher")
        };
        recorded.key.copy_from_slice(key.as_ref());
        recorded.iv.copy_from_slice(iv.as_ref());
        recorded
    }

    /// A server that has not received anything yet.
    fn server(&self) -> TlsSession {
        let (_, config) = constant::configs(self.suite);
        TlsSession::server(Arc::new(Server(Arc::new(config))))
    }

    /// A server after the handshake.
    fn established(&self) -> TlsSession {
        let mut session = self.server();
        self.said.iter().for_each(|said| _ = shake(&mut session, &mut said.clone()));
        session
    }

    fn encrypter(&self) -> Box<dyn MessageEncrypter> {
        let key = AeadKey::from(self.key);
        match self.suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, Iv::copy(&self.iv)),
            SupportedCipherSuite::Tls12(suite) => suite.aead_alg.encrypter(key, &self.iv, &[]),
        }
    }

    /// Encodes the records of a script. Returns the wire bytes, and the plaintext up to the first unencrypted record.
    fn records(&self, mut script: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut encrypter, mut sequence) = (self.encrypter(), u64::from(self.suite.tls13().is_none()));
        let (mut wire, mut plain, mut is_good) = (Vec::new(), Vec::new(), true);
        while let [kind, high, low, rest @ ..] = script {
            let length = usize::from(u16::from_be_bytes([*high, *low])).min(MAX_CONTENT + 2);
            let (content, after) = rest.split_at(length.min(rest.len()));
            script = after;
            let typ = match kind % 5 {
                0 => ContentType::ApplicationData,
                1 => ContentType::Alert,
                2 => ContentType::Handshake,
                3 => ContentType::from(*kind),
                _ => {
                    wire.extend_from_slice(content);
                    is_good &= content.is_empty();
                    continue;
                }
            };
            if typ == ContentType::ApplicationData && is_good {
                plain.extend_from_slice(content);
            }
            let payload = OutboundChunks::Single(content);
            let message = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload };
            wire.extend(encrypter.encrypt(message, sequence).expect("a record").encode());
            sequence += 1;
        }
        (wire, plain)
    }

    /// Passes the bytes after the handshake to a server in pieces, and reads into a buffer of `room` bytes.
    fn receive(&self, pieces: &[&[u8]], room: usize) -> Reception {
        let mut session = self.established();
        let (mut plain, mut answer, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let mut buffer = vec![0; room];
        for piece in pieces {
            waiting.extend_from_slice(piece);
            loop {
                let opened = session.open(&waiting, &mut buffer, &mut answer);
                assert!(opened.used <= waiting.len() && opened.filled <= room);
                waiting.drain(..opened.used);
                plain.extend_from_slice(&buffer[..opened.filled]);
                if opened.filled == 0 && opened.used == 0 || opened.failure.is_some() {
                    break;
                }
            }
        }
        let last = session.open(&waiting, &mut buffer, &mut answer);
        Reception { plain, has_ended: last.ended, failure: last.failure, answer }
    }
}

/// The result of a session.
#[derive(Debug, PartialEq, Eq)]
struct Reception {
    plain: Vec<u8>,
    has_ended: bool,
    failure: Option<SessionFailure>,
    /// The bytes for the client.
    answer: Vec<u8>,
}

/// A handshake step that must succeed. Returns the server's bytes.
fn shake(server: &mut TlsSession, wire: &mut [u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let (mut used, mut progress) = server.shake(wire, &mut answer);
    if progress == Ok(HandshakeProgress::Computes) {
        (used, progress) = server.shake(wire, &mut answer);
    }
    assert!(progress.is_ok() && used == wire.len(), "{progress:?}");
    answer
}
