//! The handshake steps that compute as long as a hundred small requests: replies to a ClientHello, with a signature or
//! only a key agreement, and certificate checks.
//!
//! The type of the next message decides. Whether a certificate must be generated (`generate-certificates`) depends on
//! the client's SNI. So the choice is first tried without a signature, and repeated if it needs one.

use std::cell::Cell;
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{Signer, SigningKey};
use rustls::{CommonState, Error, HandshakeKind, ProtocolVersion, SignatureAlgorithm, SignatureScheme};
use weir_client_hello::CLIENT_HELLO;

use crate::record::{HEADER, announced};

/// The computing time of the next handshake step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Short,
    Long,
}

/// The cost of the client's messages after its first ClientHello.
pub(crate) fn of_client(wire: &[u8], common: &CommonState, checks_certificate: bool) -> Cost {
    let checks_certificate = checks_certificate && !is_resumed(common);
    match first_record(wire, common) {
        // The ClientHello after a HelloRetryRequest (RFC 8446, 4.1.4). In TLS 1.2, an encrypted byte may look like this type.
        Some((HANDSHAKE, CLIENT_HELLO)) if common.protocol_version() != Some(ProtocolVersion::TLSv1_2) => {
            Cost::Long
        }
        Some((HANDSHAKE, CERTIFICATE) | (ENCRYPTED, _)) if checks_certificate => Cost::Long,
        _ => Cost::Short,
    }
}

/// The cost of the server's messages.
pub(crate) fn of_server(wire: &[u8], common: &CommonState) -> Cost {
    match first_record(wire, common) {
        Some((HANDSHAKE, SERVER_HELLO)) if resumes(wire) => Cost::Short,
        Some((HANDSHAKE, SERVER_HELLO | CERTIFICATE | SERVER_KEY_EXCHANGE) | (ENCRYPTED, _))
            if !is_resumed(common) =>
        {
            Cost::Long
        }
        _ => Cost::Short,
    }
}

/// Whether a ServerHello resumes the session: it accepts the pre-shared key, or in TLS 1.2 no certificate follows.
fn resumes(wire: &[u8]) -> bool {
    let Ok(message) = weir_client_hello::read(wire) else { return false };
    let Some(extensions) = weir_client_hello::server_extensions(&message.body) else { return false };
    let has = |wanted| extensions.clone().any(|(kind, _)| kind == wanted);
    if has(SUPPORTED_VERSIONS) {
        return has(PRE_SHARED_KEY);
    }
    let behind = MESSAGE_HEADER + message.body.len();
    let record = announced(wire).unwrap_or(wire.len()).min(wire.len());
    match wire[..record].get(HEADER + behind) {
        Some(kind) => *kind != CERTIFICATE,
        None => !matches!(wire[record..], [HANDSHAKE, _, _, _, _, CERTIFICATE, ..]),
    }
}

fn is_resumed(common: &CommonState) -> bool {
    common.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// The types of the first record and of its first message; `None` until the record is complete. In TLS 1.3,
/// ChangeCipherSpec is meaningless (RFC 8446, D.4) and skipped. In TLS 1.2, the records after it are encrypted and need
/// little computation.
fn first_record(mut wire: &[u8], common: &CommonState) -> Option<(u8, u8)> {
    loop {
        let length = announced(wire).filter(|length| wire.len() >= *length)?;
        let (record, rest) = wire.split_at(length);
        if record[0] != CHANGE_CIPHER_SPEC || common.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return Some((record[0], *record.get(HEADER)?));
        }
        wire = rest;
    }
}

/// Runs `work` with signatures disabled. `None` if it needed one.
pub(crate) fn without_signature<T>(work: impl FnOnce() -> T) -> Option<T> {
    struct RestoreSignatures;
    impl Drop for RestoreSignatures {
        fn drop(&mut self) {
            SIGNATURES.set(SignaturePermission::Allowed);
        }
    }
    let _restore = RestoreSignatures;
    SIGNATURES.set(SignaturePermission::Refused);
    let result = work();
    (SIGNATURES.get() == SignaturePermission::Refused).then_some(result)
}

/// A wrapper of `key` that refuses to sign within `without_signature`.
pub fn guarded(key: Arc<dyn SigningKey>) -> Arc<dyn SigningKey> {
    Arc::new(GuardedKey(key))
}

#[derive(Debug)]
struct GuardedKey(Arc<dyn SigningKey>);

impl SigningKey for GuardedKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.choose_scheme(offered).map(|signer| Box::new(GuardedSigner(signer)) as _)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct GuardedSigner(Box<dyn Signer>);

impl Signer for GuardedSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        if SIGNATURES.get() != SignaturePermission::Allowed {
            SIGNATURES.set(SignaturePermission::Wanted);
            return Err(Error::General("a signature needs a turn of its own".to_owned()));
        }
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignaturePermission {
    Allowed,
    Refused,
    /// Refused, and a signature was needed.
    Wanted,
}

thread_local! {
    static SIGNATURES: Cell<SignaturePermission> = const { Cell::new(SignaturePermission::Allowed) };
}

/// Types of records (RFC 8446, 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const ENCRYPTED: u8 = 23;
/// Types of messages (RFC 8446, 4; RFC 5246, 7.4).
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const SERVER_KEY_EXCHANGE: u8 = 12;
const MESSAGE_HEADER: usize = 4;
/// Extensions (RFC 8446, 4.2).
const PRE_SHARED_KEY: u16 = 41;
const SUPPORTED_VERSIONS: u16 = 43;
