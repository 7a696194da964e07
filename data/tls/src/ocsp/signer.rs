//! The signer of a response: the authority itself, or a delegate that it authorized (RFC 6960, 4.2.2.2).

use x509_parser::prelude::{FromDer, X509Certificate};

use super::{OcspResponse, ResponseParts};
use crate::inspect::sha1;
use rustls::pki_types::UnixTime;
use weir_tls_session::verify::der::{OCTET_STRING, SignedStructure, element};
use x509_parser::time::ASN1Time;

impl OcspResponse {
    /// Verifies that `issuer`, the issuer of the certificate, or its delegate signed this response. Required for responses from the
    /// network.
    ///
    /// # Errors
    /// The reason why the response is not trusted.
    pub fn verify(&self, issuer: &[u8], now: UnixTime) -> Result<(), &'static str> {
        let read = ResponseParts::of(&self.der)?;
        let (_, authority) = X509Certificate::from_der(issuer).map_err(|_| DAMAGED_ISSUER)?;
        if read.is_by(&authority) {
            return if read.signature_is_of(&authority) { Ok(()) } else { Err(WRONG_SIGNATURE) };
        }
        let mut delegates = read.certificates.iter().filter_map(|der| {
            let (_, delegate) = X509Certificate::from_der(der).ok()?;
            read.is_by(&delegate).then_some((*der, delegate))
        });
        let (der, delegate) = delegates.next().ok_or("OCSP response: its signer is not known.")?;
        may_sign(der, &delegate, &authority, now)?;
        if read.signature_is_of(&delegate) { Ok(()) } else { Err(WRONG_SIGNATURE) }
    }
}

/// Checks that `delegate`, in DER as `der`, is a certificate that the authority issued for signing OCSP responses.
fn may_sign(
    der: &[u8],
    delegate: &X509Certificate<'_>,
    authority: &X509Certificate<'_>,
    now: UnixTime,
) -> Result<(), &'static str> {
    let signed = SignedStructure::of(der).ok_or("OCSP response: its signer's certificate is damaged.")?;
    let algorithms = weir_tls_session::verify::algorithms();
    if delegate.issuer().as_raw() != authority.subject().as_raw()
        || !signed.is_by(authority.public_key().raw, &algorithms)
    {
        return Err("OCSP response: its signer is of another authority.");
    }
    let usage = delegate.extended_key_usage().ok().flatten();
    if !usage.is_some_and(|usage| usage.value.ocsp_signing) {
        return Err("OCSP response: its signer may not sign responses.");
    }
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    if !now.is_some_and(|now| delegate.validity().is_valid_at(now)) {
        return Err("OCSP response: its signer's certificate is not valid now.");
    }
    Ok(())
}

impl ResponseParts<'_> {
    /// Whether the response names this certificate as its signer.
    fn is_by(&self, certificate: &X509Certificate<'_>) -> bool {
        if self.responder_is_key {
            let digest = sha1(&certificate.public_key().subject_public_key.data);
            return element(self.responder.content, OCTET_STRING)
                .is_some_and(|(named, _)| named.content == digest.as_ref());
        }
        *certificate.subject().as_raw() == *self.responder.content
    }

    fn signature_is_of(&self, certificate: &X509Certificate<'_>) -> bool {
        let signed = SignedStructure::new(self.signed, self.algorithm, self.signature);
        signed.is_by(certificate.public_key().raw, &weir_tls_session::verify::algorithms())
    }
}

const DAMAGED_ISSUER: &str = "OCSP response: the certificate of the issuer is damaged.";
const WRONG_SIGNATURE: &str = "OCSP response: wrong signature.";
