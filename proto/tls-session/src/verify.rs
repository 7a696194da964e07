//! Verification of a peer's certificate, with OpenSSL's error codes.
//!
//! Rules, logs and scripts use those codes (`ssl_c_verify`, `crt-ignore-err`), so chains are checked here (`chain.rs`),
//! step by step as OpenSSL does; this module decides the effect of a fault on the handshake.

mod chain;
pub mod der;
mod host;
mod names;
mod parsed;
mod revocation;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, NamedGroup, OtherError,
    PeerMisbehaved, SignatureScheme,
};

use parsed::DecodedCertificate;

pub use chain::{Authorities, ChainFault};
pub use parsed::CertificatePurpose;

/// Whether a peer must send a certificate (`verify`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    /// The certificate is not requested.
    #[default]
    None,
    /// The certificate is requested but optional.
    Optional,
    Required,
}

/// The result of a check: OpenSSL's codes, 0 without a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyCodes {
    /// The first fault of the peer's own certificate.
    pub error: u16,
    /// The first fault of one of its issuers.
    pub authority_error: u16,
    /// The depth of that issuer.
    pub authority_depth: u16,
    /// The last fault: the single code for the whole chain.
    pub code: u16,
}

impl VerifyCodes {
    fn note(&mut self, fault: ChainFault) {
        self.code = fault.code;
        if fault.depth == 0 && self.error == 0 {
            self.error = fault.code;
        }
        if fault.depth > 0 && self.authority_error == 0 {
            (self.authority_error, self.authority_depth) = (fault.code, fault.depth);
        }
    }
}

/// Faults that are ignored (`ca-ignore-err`, `crt-ignore-err`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFaults {
    pub all: bool,
    pub codes: BTreeSet<u16>,
}

impl IgnoredFaults {
    fn covers(&self, code: u16) -> bool {
        self.all || self.codes.contains(&code)
    }
}

thread_local! {
    /// The result of the last check on this thread. Its session takes it right after the check.
    static VERIFIED: Cell<Option<VerifyOutcome>> = const { Cell::new(None) };
}

/// All supported signature algorithms.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms
}

/// The result of a check, and the authority at the top of a chain without a fault.
pub(crate) type VerifyOutcome = (VerifyCodes, Option<Arc<CertificateDer<'static>>>);

/// Takes the result of the last check on this thread. `None` without a check since the last call.
pub(crate) fn take_verified() -> Option<VerifyOutcome> {
    VERIFIED.take()
}

/// The name that a server's certificate must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameCheck {
    /// Any.
    #[default]
    Any,
    /// The SNI of the connection (`sni`).
    Sni,
    /// This name (`verifyhost`).
    This(Box<str>),
}

/// Checks the certificates of peers.
#[derive(Debug)]
pub struct Verifier {
    /// Whether clients must send a certificate.
    pub mode: VerifyMode,
    /// The trusted authorities; `None` trusts every certificate.
    pub authorities: Option<Arc<Authorities>>,
    /// Ignored faults of the peer's own certificate.
    pub ignored: IgnoredFaults,
    /// Ignored faults of the issuers.
    pub ignored_of_authorities: IgnoredFaults,
    /// Whether the authorities' names are not sent to clients (`no-ca-names`).
    pub silent: bool,
    /// The name that a server certificate must match.
    pub name: NameCheck,
    /// The supported signature algorithms.
    pub algorithms: WebPkiSupportedAlgorithms,
    /// The schemes that a peer may sign the handshake with, the preferred first; `None` for all.
    pub schemes: Option<Arc<[SignatureScheme]>>,
    /// The curves allowed for a peer's key in TLS 1.2, where `curves` also limits certificate keys. `None` for all.
    pub groups: Option<Arc<[NamedGroup]>>,
}

impl Verifier {
    fn schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.as_ref().map_or_else(|| self.algorithms.supported_schemes(), |chosen| chosen.to_vec())
    }

    /// Checks that the peer signed with a scheme that this side offered.
    fn check_scheme(&self, scheme: SignatureScheme) -> Result<(), Error> {
        match &self.schemes {
            Some(chosen) if !chosen.contains(&scheme) => {
                Err(Error::PeerMisbehaved(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a peer's key is on an allowed curve (RFC 8422, 5.1; for clients OpenSSL requires the same).
    fn check_curve(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let Some(groups) = &self.groups else { return Ok(()) };
        match DecodedCertificate::of(certificate).and_then(|parsed| parsed.curve()) {
            Some(curve) if !groups.contains(&curve) => {
                Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(WrongCurve)))))
            }
            _ => Ok(()),
        }
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        now: UnixTime,
        purpose: CertificatePurpose,
    ) -> Result<(), Error> {
        let mut verified = VerifyCodes::default();
        let mut judge = |fault: ChainFault| {
            verified.note(fault);
            let ignored = if fault.depth == 0 { &self.ignored } else { &self.ignored_of_authorities };
            ignored.covers(fault.code)
        };
        let checked = match &self.authorities {
            Some(authorities) => {
                authorities.check(certificate, sent, purpose, now, &self.algorithms, &mut judge)
            }
            None => Ok(None),
        };
        let root = checked.as_ref().ok().cloned().flatten();
        VERIFIED.set(Some((verified, root.filter(|_| verified.code == 0))));
        checked.map(drop).map_err(|fault| Error::InvalidCertificate(certificate_error(fault.code)))
    }

    fn check_name(
        &self,
        certificate: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
    ) -> Result<(), Error> {
        let is_for_it = match &self.name {
            NameCheck::Any => true,
            NameCheck::Sni => host::is_of(certificate, &server_name.to_str()),
            NameCheck::This(name) => host::is_of(certificate, name),
        };
        if is_for_it {
            return Ok(());
        }
        Err(Error::InvalidCertificate(match self.name {
            // The mapping to a failure distinguishes the two variants.
            NameCheck::This(_) => CertificateError::NotValidForNameContext {
                expected: server_name.to_owned(),
                presented: Vec::new(),
            },
            NameCheck::Any | NameCheck::Sni => CertificateError::NotValidForName,
        }))
    }

    /// Checks the peer's signature of the handshake. webpki would refuse certificates of version 1 here.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        algorithms_of_a_scheme: usize,
    ) -> Result<HandshakeSignatureValid, Error> {
        let unknown = || Error::from(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme);
        let (_, known) = self
            .algorithms
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == signed.scheme)
            .ok_or_else(unknown)?;
        let parsed = DecodedCertificate::of(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let key = der::PublicKeyInfo::of(parsed.key())
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let valid = known.iter().take(algorithms_of_a_scheme).any(|algorithm| {
            *algorithm.public_key_alg_id() == *key.algorithm
                && algorithm.verify_signature(key.bits, message, signed.signature()).is_ok()
        });
        if valid {
            return Ok(HandshakeSignatureValid::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::BadSignature))
    }

    fn check_signature12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // A TLS 1.2 scheme does not imply the curve of a key.
        self.check_signature(message, certificate, signed, usize::MAX)
    }

    fn check_signature13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if PKCS1.contains(&signed.scheme) {
            return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
        }
        self.check_signature(message, certificate, signed, 1)
    }
}

/// The rustls error with the alert that OpenSSL sends for `code`.
fn certificate_error(code: u16) -> CertificateError {
    match code {
        EXPIRED | LIST_EXPIRED => CertificateError::Expired,
        NOT_YET_VALID | LIST_NOT_YET_VALID | KEY_TOO_SMALL | ISSUER_KEY_TOO_SMALL | WEAK_SIGNATURE => {
            CertificateError::BadEncoding
        }
        REVOKED => CertificateError::Revoked,
        WRONG_SIGNATURE | LIST_NOT_SIGNED => CertificateError::BadSignature,
        UNFIT => CertificateError::InvalidPurpose,
        ISSUER_NOT_TRUSTED | NO_LIST | SELF_SIGNED | SELF_SIGNED_ABOVE | NO_ISSUER | NOT_CHECKED
        | CHAIN_TOO_LONG | PATH_TOO_LONG | NO_LIST_ISSUER | NOT_AN_AUTHORITY => {
            CertificateError::UnknownIssuer
        }
        _ => CertificateError::Other(OtherError(Arc::new(OtherFault(code)))),
    }
}

/// A key on a curve that may not be used.
#[derive(Debug)]
pub(crate) struct WrongCurve;

impl std::fmt::Display for WrongCurve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("wrong curve")
    }
}

impl std::error::Error for WrongCurve {}

/// A fault without a matching rustls error, with OpenSSL's code.
#[derive(Debug)]
struct OtherFault(u16);

impl std::fmt::Display for OtherFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "X509_V_ERR {}", self.0)
    }
}

impl std::error::Error for OtherFault {}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.mode != VerifyMode::None
    }

    fn client_auth_mandatory(&self) -> bool {
        self.mode == VerifyMode::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.authorities {
            Some(authorities) if !self.silent => &authorities.names,
            _ => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates, now, CertificatePurpose::Client)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(dss.scheme)?;
        self.check_curve(cert)?;
        self.check_signature12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(dss.scheme)?;
        self.check_signature13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates, now, CertificatePurpose::Server)?;
        self.check_name(end_entity, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(dss.scheme)?;
        self.check_curve(cert)?;
        self.check_signature12(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_scheme(dss.scheme)?;
        self.check_signature13(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

/// Schemes that TLS 1.3 does not allow in a handshake (RFC 8446, 4.2.3).
const PKCS1: [SignatureScheme; 4] = [
    SignatureScheme::RSA_PKCS1_SHA1,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

// OpenSSL's numbers (X509_V_ERR_*, openssl-verification-options(1)).
/// X509_V_ERR_UNSPECIFIED: a certificate that cannot be read.
const UNREADABLE: u16 = 1;
/// X509_V_ERR_UNSPECIFIED.
const TOO_MANY_NAMES: u16 = 1;
/// X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT.
const ISSUER_NOT_TRUSTED: u16 = 2;
/// X509_V_ERR_UNABLE_TO_GET_CRL.
const NO_LIST: u16 = 3;
/// X509_V_ERR_CERT_SIGNATURE_FAILURE.
const WRONG_SIGNATURE: u16 = 7;
/// X509_V_ERR_CRL_SIGNATURE_FAILURE.
const LIST_NOT_SIGNED: u16 = 8;
/// X509_V_ERR_CERT_NOT_YET_VALID.
const NOT_YET_VALID: u16 = 9;
/// X509_V_ERR_CERT_HAS_EXPIRED.
const EXPIRED: u16 = 10;
/// X509_V_ERR_CRL_NOT_YET_VALID.
const LIST_NOT_YET_VALID: u16 = 11;
/// X509_V_ERR_CRL_HAS_EXPIRED.
const LIST_EXPIRED: u16 = 12;
/// X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT.
const SELF_SIGNED: u16 = 18;
/// X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN.
const SELF_SIGNED_ABOVE: u16 = 19;
/// X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY.
const NO_ISSUER: u16 = 20;
/// X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE.
const NOT_CHECKED: u16 = 21;
/// X509_V_ERR_CERT_CHAIN_TOO_LONG.
const CHAIN_TOO_LONG: u16 = 22;
/// X509_V_ERR_CERT_REVOKED.
const REVOKED: u16 = 23;
/// X509_V_ERR_PATH_LENGTH_EXCEEDED.
const PATH_TOO_LONG: u16 = 25;
/// X509_V_ERR_INVALID_PURPOSE.
const UNFIT: u16 = 26;
/// X509_V_ERR_KEYUSAGE_NO_CERTSIGN.
const ISSUER_UNFIT: u16 = 32;
/// X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER.
const NO_LIST_ISSUER: u16 = 33;
/// X509_V_ERR_UNHANDLED_CRITICAL_EXTENSION.
const UNKNOWN_CRITICAL: u16 = 34;
/// X509_V_ERR_KEYUSAGE_NO_CRL_SIGN.
const LIST_SIGNER_UNFIT: u16 = 35;
/// X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION.
const LIST_UNKNOWN_CRITICAL: u16 = 36;
/// X509_V_ERR_INVALID_EXTENSION.
const INVALID_EXTENSION: u16 = 41;
/// X509_V_ERR_DIFFERENT_CRL_SCOPE.
const LIST_OF_OTHERS: u16 = 44;
/// X509_V_ERR_PERMITTED_VIOLATION.
const NOT_PERMITTED: u16 = 47;
/// X509_V_ERR_EXCLUDED_VIOLATION.
const EXCLUDED: u16 = 48;
/// X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE.
const UNKNOWN_CONSTRAINT: u16 = 51;
/// X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX.
const WRONG_CONSTRAINT: u16 = 52;
/// X509_V_ERR_UNSUPPORTED_NAME_SYNTAX.
const WRONG_NAME: u16 = 53;
/// X509_V_ERR_EE_KEY_TOO_SMALL.
const KEY_TOO_SMALL: u16 = 66;
/// X509_V_ERR_CA_KEY_TOO_SMALL.
const ISSUER_KEY_TOO_SMALL: u16 = 67;
/// X509_V_ERR_CA_MD_TOO_WEAK.
const WEAK_SIGNATURE: u16 = 68;
/// X509_V_ERR_INVALID_CA.
const NOT_AN_AUTHORITY: u16 = 79;
