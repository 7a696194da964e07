//! Clients and servers over a simulated wire, without sockets.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod constant;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA384, KeyType, Prk};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use weir_syntax::{MemoryFiles, SharedFiles};
use weir_tls::clock::{TimeProvider, UnixTime};
use weir_tls::resumption::{SessionCache, SessionScope, tickets};
use weir_tls::rustls::pki_types::{CertificateDer, ServerName};
use weir_tls::rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets, ProtocolVersion};
use weir_tls::settings::{Base, SessionReuse, client_config};
use weir_tls::verify::{Authorities, IgnoredFaults, NameCheck, Verifier, algorithms};
use weir_tls::{
    Certificate, CertificateLoader, CertificateScope, ChooseServer, HandshakeProgress, ListenerCertificate,
    ListenerCertificates, ListenerSettings, SessionFailure, TlsSession, TlsSettings, VerifyMode,
};

/// A time within the validity of every certificate here.
pub(crate) const NOW: u64 = 1_700_000_000;

#[derive(Debug)]
pub(crate) struct Fixed(pub u64);

impl TimeProvider for Fixed {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

pub(crate) fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// A certificate loaded from files, as in the program.
pub(crate) fn certificate(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> Arc<Certificate> {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let signed = params.signed_by(&key, issuer).expect("a certificate");
    // Each certificate has its own file.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let path = format!("{}/site.pem", NUMBER.fetch_add(1, Ordering::Relaxed));
    let text = format!("{}{}", key.serialize_pem(), signed.pem());
    let files = SharedFiles::new(MemoryFiles::from_iter([(path.as_str(), text)]));
    let loaded = CertificateLoader { files, ..CertificateLoader::default() }.load(&path);
    loaded.expect("a good file").pop().expect("one certificate")
}

pub(crate) struct World {
    pub authority: CertifiedIssuer<'static, KeyPair>,
    pub settings: TlsSettings,
    pub verify: VerifyMode,
    pub ignored: IgnoredFaults,
    pub early_data: u32,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            authority: authority("authority"),
            settings: TlsSettings {
                key_log: Some(weir_tls::keep_keys()),
                ..TlsSettings::new(Arc::new(Fixed(NOW)))
            },
            verify: VerifyMode::None,
            ignored: IgnoredFaults::default(),
            early_data: 0,
        }
    }

    pub(crate) fn trusted(&self) -> Arc<Authorities> {
        let der: &CertificateDer<'static> = self.authority.der();
        Arc::new(Authorities::new(std::slice::from_ref(der), &[]).expect("an authority"))
    }

    pub(crate) fn verifier(&self, checks_name: bool) -> Arc<Verifier> {
        Arc::new(Verifier {
            mode: self.verify,
            authorities: Some(self.trusted()),
            ignored: self.ignored.clone(),
            ignored_of_authorities: IgnoredFaults::default(),
            silent: false,
            name: if checks_name { NameCheck::Sni } else { NameCheck::Any },
            algorithms: algorithms(),
            schemes: None,
            groups: None,
        })
    }

    pub(crate) fn clock(&self) -> Arc<dyn TimeProvider> {
        Arc::clone(&self.settings.clock)
    }

    pub(crate) fn listener(&self, names: &[&str], strict: bool) -> Arc<dyn ChooseServer> {
        Arc::new(self.plain_listener(names, strict))
    }

    pub(crate) fn plain_listener(&self, names: &[&str], strict: bool) -> ListenerCertificates {
        let base = self.base();
        let entry = |name: &&str| {
            ListenerCertificate::new(&certificate(&self.authority, name), &base, CertificateScope::default())
        };
        ListenerCertificates::new(strict, names.iter().map(entry))
    }

    pub(crate) fn base(&self) -> Arc<Base> {
        let settings = TlsSettings { verifier: Some(self.verifier(false)), ..self.settings.clone() };
        let base = ListenerSettings {
            settings,
            client_order: false,
            tickets: (self.early_data == 0).then(|| tickets(None, 300, self.clock(), SessionScope::of(&[]))),
            sessions: Some(Arc::new(SessionCache::new(100, 300, self.clock())).of_listener()),
            early_data: self.early_data,
        };
        Arc::new(base.build().expect("settings that fit together"))
    }

    pub(crate) fn client(&self, own: Option<&Certificate>) -> Arc<ClientConfig> {
        client_config(&self.settings, self.verifier(true), own, true, SessionReuse::Tickets)
            .expect("settings that fit together")
    }
}

/// Both ends of a connection, and the bytes in flight.
pub(crate) struct Pair {
    pub client: TlsSession,
    pub server: TlsSession,
    pub to_server: Vec<u8>,
    pub to_client: Vec<u8>,
    /// The number of expensive computations of the client and the server.
    pub computed: (u32, u32),
}

impl Pair {
    pub(crate) fn new(chooser: Arc<dyn ChooseServer>, config: Arc<ClientConfig>, name: &'static str) -> Pair {
        let name = ServerName::try_from(name).expect("a name");
        Pair {
            client: TlsSession::client(config, name).expect("a client"),
            server: TlsSession::server(chooser),
            to_server: Vec::new(),
            to_client: Vec::new(),
            computed: (0, 0),
        }
    }

    /// Runs both sides until the handshake is complete, passing at most `piece` bytes at a time.
    pub(crate) fn shake(&mut self, piece: usize) -> Result<(), (SessionFailure, Option<SessionFailure>)> {
        let (mut at_server, mut at_client) = (0, 0);
        for _ in 0..200_000 {
            let mut out = Vec::new();
            let end = at_client.min(self.to_client.len());
            let (used, client) =
                step(&mut self.client, &mut self.to_client[..end], &mut out, &mut self.computed.0);
            self.to_client.drain(..used);
            at_client = end - used + piece;
            self.to_server.extend_from_slice(&out);
            let mut out = Vec::new();
            let end = at_server.min(self.to_server.len());
            let (used, server) =
                step(&mut self.server, &mut self.to_server[..end], &mut out, &mut self.computed.1);
            self.to_server.drain(..used);
            at_server = end - used + piece;
            self.to_client.extend_from_slice(&out);
            match (client, server) {
                (Ok(HandshakeProgress::Established), Ok(HandshakeProgress::Established)) => return Ok(()),
                (Err(client), server) => return Err((client, server.err())),
                (_, Err(server)) => {
                    // The client receives an alert.
                    let (_, client) = step(&mut self.client, &mut self.to_client, &mut Vec::new(), &mut 0);
                    return Err((client.expect_err("an alert"), Some(server)));
                }
                _ => {}
            }
        }
        panic!("the handshake does not end");
    }
}

/// A handshake step, plus a second one if the first defers an expensive computation.
pub(crate) fn step(
    session: &mut TlsSession,
    wire: &mut [u8],
    answer: &mut Vec<u8>,
    computed: &mut u32,
) -> (usize, Result<HandshakeProgress, SessionFailure>) {
    let said = answer.len();
    let (used, progress) = session.shake(wire, answer);
    if progress != Ok(HandshakeProgress::Computes) {
        return (used, progress);
    }
    assert_eq!((used, answer.len()), (0, said), "it has done nothing yet");
    *computed += 1;
    let (used, progress) = session.shake(wire, answer);
    assert_ne!(progress, Ok(HandshakeProgress::Computes), "it had its turn");
    (used, progress)
}

/// Sends all of `bytes` from one side to the other, with small buffers on both. Returns the received bytes.
pub(crate) fn carry(
    from: &mut TlsSession,
    to: &mut TlsSession,
    wire: &mut Vec<u8>,
    bytes: &[u8],
    room: usize,
) -> Vec<u8> {
    let mut sent = 0;
    let mut arrived = Vec::new();
    let mut out = vec![0; 20_000];
    let mut answer = Vec::new();
    while sent < bytes.len() {
        let (taken, written) = from.seal(&bytes[sent..], &mut out, 16_384, &mut answer).expect("a session");
        assert!(answer.is_empty() && taken > 0);
        sent += taken;
        wire.extend_from_slice(&out[..written]);
    }
    let mut buffer = vec![0; room];
    loop {
        let opened = to.open(wire, &mut buffer, &mut answer);
        assert_eq!(opened.failure, None);
        wire.drain(..opened.used);
        arrived.extend_from_slice(&buffer[..opened.filled]);
        if opened.filled == 0 && opened.used == 0 {
            return arrived;
        }
    }
}

/// Encrypts records of any type as one side would, with AES-256-GCM.
pub(crate) struct Forger {
    is_tls13: bool,
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Forger {
    /// Replaces a client after its handshake.
    pub(crate) fn of_client(client: ClientConnection) -> Forger {
        let is_tls13 = client.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let (sequence, secrets) = client.dangerous_extract_secrets().expect("secrets").tx;
        let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else { panic!("another cipher") };
        Forger { is_tls13, ..Forger::with(key.as_ref(), iv.as_ref(), sequence) }
    }

    /// Uses the first key derived from this secret.
    pub(crate) fn of_secret(secret: &[u8]) -> Forger {
        struct Length(usize);
        impl KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let secret = Prk::new_less_safe(HKDF_SHA384, secret);
        let derive = |label: &[u8], length: usize| {
            let (parts, mut out) = ([0, length as u8, label.len() as u8], vec![0; length]);
            let info = [&parts[..], label, &[0]];
            secret.expand(&info, Length(length)).and_then(|made| made.fill(&mut out)).expect("not too long");
            out
        };
        Forger::with(&derive(b"tls13 key", 32), &derive(b"tls13 iv", 12), 0)
    }

    fn with(key: &[u8], iv: &[u8], sequence: u64) -> Forger {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("a key"));
        Forger { is_tls13: true, key, iv: iv.try_into().expect("12 bytes"), sequence }
    }

    pub(crate) fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, part)| *byte ^= part);
        let sequence = self.sequence.to_be_bytes();
        self.sequence += 1;
        if !self.is_tls13 {
            let mut body = content.to_vec();
            let aad = [&sequence[..], &[kind, 3, 3], &(body.len() as u16).to_be_bytes()].concat();
            let explicit = &nonce[4..].to_vec();
            let nonce = Nonce::assume_unique_for_key(nonce);
            self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut body).expect("a record");
            let length = (8 + body.len() as u16).to_be_bytes();
            return [&[kind, 3, 3][..], &length, explicit, &body].concat();
        }
        let mut body = [content, &[kind]].concat();
        let [high, low] = (body.len() as u16 + 16).to_be_bytes();
        let header = [23, 3, 3, high, low];
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut body).expect("a record");
        [&header[..], &body].concat()
    }
}
