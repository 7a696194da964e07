//! Whether a peer's certificate is good, with the numbers that OpenSSL has for what is wrong with it.
//!
//! Rules, logs and scripts know those numbers (`ssl_c_verify`, `crt-ignore-err`), so each fault that webpki finds gets one. The
//! chain is built and checked by webpki; this module decides what a fault means.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::{
    CertRevocationList, EndEntityCert, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};

/// Whether a peer has to show a certificate (`verify`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyMode {
    /// It is not asked.
    #[default]
    None,
    /// It is asked, and may have none.
    Optional,
    /// It must.
    Required,
}

/// How a certificate was found: what OpenSSL calls it, 0 where nothing is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// What is wrong with the peer's own certificate.
    pub error: u16,
    /// What is wrong with one that issued it.
    pub authority_error: u16,
    /// How far up that one is.
    pub authority_depth: u16,
}

impl Verified {
    /// The one number that stands for all: what OpenSSL came to last. Behind a certificate that came alone and whose issuer is
    /// unknown it also says that its signature could not be checked.
    pub fn code(self) -> u16 {
        match (self.authority_error, self.error) {
            (0, NO_ISSUER) => NOT_CHECKED,
            (0, error) | (error, _) => error,
        }
    }
}

/// Which faults are no reason to refuse (`ca-ignore-err`, `crt-ignore-err`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// All of them.
    pub all: bool,
    /// These.
    pub codes: BTreeSet<u16>,
}

impl Ignored {
    fn covers(&self, code: u16) -> bool {
        self.all || self.codes.contains(&code)
    }
}

/// What certificates of peers are checked against.
#[derive(Debug)]
pub struct Authorities {
    /// The authorities that are trusted.
    anchors: Vec<TrustAnchor<'static>>,
    /// Their names, which a listener announces.
    names: Vec<DistinguishedName>,
    revoked: Vec<CertRevocationList<'static>>,
}

impl Authorities {
    /// Trusts these certificates, and nobody that these lists revoke.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn new(
        certificates: &[CertificateDer<'_>],
        lists: &[CertificateRevocationListDer<'_>],
    ) -> Result<Authorities, String> {
        let mut anchors = Vec::new();
        let mut names = Vec::new();
        for certificate in certificates {
            // What cannot be an authority (an old version, a damaged one) is passed over: bundles of systems have such.
            let Ok(anchor) = webpki::anchor_from_trusted_cert(certificate) else { continue };
            names.push(DistinguishedName::in_sequence(&anchor.subject));
            anchors.push(anchor.to_owned());
        }
        if anchors.is_empty() {
            return Err("holds no certificate of an authority".to_owned());
        }
        let revoked = lists
            .iter()
            .map(|list| {
                let list = webpki::OwnedCertRevocationList::from_der(list);
                list.map(CertRevocationList::Owned).map_err(|error| format!("holds a damaged list ({error})"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Authorities { anchors, names, revoked })
    }

    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        usage: impl webpki::ExtendedKeyUsageValidator,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), webpki::Error> {
        let lists: Vec<&CertRevocationList<'_>> = self.revoked.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .build()
        });
        let end_entity = EndEntityCert::try_from(certificate)?;
        let path = end_entity.verify_for_usage(
            algorithms.all,
            &self.anchors,
            intermediates,
            now,
            usage,
            revocation,
            None,
        );
        path.map(drop)
    }
}

/// What is wrong, in OpenSSL's numbers (X509_V_ERR_*).
fn code_of(error: &webpki::Error, certificate: &CertificateDer<'_>) -> u16 {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => 10,
        E::CertNotValidYet { .. } => 9,
        E::CertRevoked => 23,
        E::UnknownRevocationStatus => 3,
        E::CrlExpired { .. } => 12,
        E::InvalidCrlSignatureForPublicKey => 8,
        E::UnknownIssuer if is_self_issued(certificate) => 18,
        E::UnknownIssuer => NO_ISSUER,
        E::InvalidSignatureForPublicKey => 7,
        E::CaUsedAsEndEntity | E::EndEntityUsedAsCa => 79,
        E::PathLenConstraintViolated => 25,
        E::RequiredEkuNotFoundContext(_) => 26,
        E::NameConstraintViolation => 47,
        E::MaximumPathDepthExceeded => 22,
        E::UnsupportedCriticalExtension => 34,
        E::UnsupportedSignatureAlgorithmContext(_)
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => 67,
        _ => 1,
    }
}

/// X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY.
const NO_ISSUER: u16 = 20;
/// X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE.
const NOT_CHECKED: u16 = 21;

fn is_self_issued(certificate: &CertificateDer<'_>) -> bool {
    use x509_parser::prelude::{FromDer, X509Certificate};
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, parsed)| parsed.subject().as_raw() == parsed.issuer().as_raw())
}

thread_local! {
    /// What the last check of this thread found. The session that it was for takes it at once.
    static VERIFIED: Cell<Option<Verified>> = const { Cell::new(None) };
}

/// All signatures that are understood.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms
}

/// What the check found that was just made on this thread.
pub(crate) fn take_verified() -> Option<Verified> {
    VERIFIED.take()
}

/// Which name a server's certificate must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameCheck {
    /// Any.
    #[default]
    Any,
    /// The one that it was asked for (`sni`).
    Asked,
    /// This one (`verifyhost`).
    This(ServerName<'static>),
}

/// Checks the certificates of peers.
#[derive(Debug)]
pub struct Verifier {
    /// Whether clients must have one.
    pub mode: VerifyMode,
    /// Whom to trust; none to trust everybody.
    pub authorities: Option<Arc<Authorities>>,
    /// Faults of the peer's own certificate that are borne.
    pub ignored: Ignored,
    /// Faults of those that issued it that are borne.
    pub ignored_of_authorities: Ignored,
    /// Authorities are not announced to clients (`no-ca-names`).
    pub silent: bool,
    /// Which name a server must have beside being trusted.
    pub name: NameCheck,
    /// Which signatures are understood.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        mut now: UnixTime,
        usage: impl webpki::ExtendedKeyUsageValidator + Clone,
    ) -> Result<(), Error> {
        let Some(authorities) = &self.authorities else {
            VERIFIED.set(Some(Verified::default()));
            return Ok(());
        };
        let mut verified = Verified::default();
        // A fault of time that is borne is looked past once, to find others.
        for _ in 0..2 {
            let checked = authorities.check(certificate, intermediates, now, usage.clone(), &self.algorithms);
            let Err(error) = checked else { break };
            let code = code_of(&error, certificate);
            // Who cannot be trusted for want of an issuer is a fault of the chain, as OpenSSL counts it, when there is a chain.
            let (ignored, place) = match code {
                18..=21 if !intermediates.is_empty() => {
                    verified.authority_depth = intermediates.len() as u16;
                    (&self.ignored_of_authorities, &mut verified.authority_error)
                }
                _ => (&self.ignored, &mut verified.error),
            };
            *place = code;
            let borne = ignored.covers(code);
            if !borne {
                VERIFIED.set(Some(verified));
                return Err(Error::InvalidCertificate(certificate_error(&error)));
            }
            match error {
                webpki::Error::CertExpired { not_after, .. } => now = not_after,
                webpki::Error::CertNotValidYet { not_before, .. } => now = not_before,
                _ => break,
            }
        }
        VERIFIED.set(Some(verified));
        Ok(())
    }
}

/// What the peer is told.
fn certificate_error(error: &webpki::Error) -> CertificateError {
    use webpki::Error as E;
    match error {
        E::CertExpired { .. } => CertificateError::Expired,
        E::CertNotValidYet { .. } => CertificateError::NotValidYet,
        E::CertRevoked => CertificateError::Revoked,
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::CertNotValidForName(_) => CertificateError::NotValidForName,
        _ => CertificateError::ApplicationVerificationFailure,
    }
}

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
        self.verify(end_entity, intermediates, now, KeyUsage::client_auth())
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
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
        self.verify(end_entity, intermediates, now, KeyUsage::server_auth())?;
        let name = match &self.name {
            NameCheck::Any => None,
            NameCheck::Asked => Some(server_name),
            NameCheck::This(name) => Some(name),
        };
        if let Some(server_name) = name {
            let parsed = EndEntityCert::try_from(end_entity)
                .map_err(|error| Error::InvalidCertificate(certificate_error(&error)))?;
            parsed
                .verify_is_valid_for_subject_name(server_name)
                .map_err(|_| Error::InvalidCertificate(CertificateError::NotValidForName))?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
