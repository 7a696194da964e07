//! Certificates and revocation lists as text for the runtime API: one field per line, in the format of the openssl command.

use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use weir_formats::civil::MONTHS;
use x509_parser::prelude::{CertificateRevocationList, FromDer};
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

use crate::inspect::{CertificateDetails, Party, name_of, named_signature, sha1};

/// The text of a certificate. Empty if it is damaged.
pub fn certificate(der: &CertificateDer<'_>) -> String {
    let Some(inspected) = CertificateDetails::of(der) else { return String::new() };
    let mut text = String::new();
    // Writing to memory does not fail, here and below.
    let _ = writeln!(text, "Serial: {}", hexadecimal(inspected.serial()));
    let validity = inspected.validity();
    let _ = writeln!(text, "notBefore: {}", moment(&validity.not_before));
    let _ = writeln!(text, "notAfter: {}", moment(&validity.not_after));
    let _ = writeln!(text, "Subject Alternative Name: {}", inspected.alternative_names().unwrap_or_default());
    let _ = writeln!(text, "Algorithm: {}", key(&inspected));
    let _ = writeln!(text, "SHA1 FingerPrint: {}", hexadecimal(sha1(der).as_ref()));
    let _ = writeln!(text, "Subject: {}", inspected.distinguished_name(Party::Subject, false));
    let _ = writeln!(text, "Issuer: {}", inspected.distinguished_name(Party::Issuer, false));
    text
}

/// The text of a chain certificate: subject and issuer.
pub fn chain_certificate(der: &CertificateDer<'_>) -> String {
    let Some(inspected) = CertificateDetails::of(der) else { return String::new() };
    format!(
        "Chain Subject: {}\nChain Issuer: {}\n",
        inspected.distinguished_name(Party::Subject, false),
        inspected.distinguished_name(Party::Issuer, false)
    )
}

/// The beginning and the end of a certificate's validity, as `Nov 23 04:34:37 2026 GMT`. `None` if it is damaged.
pub fn validity(der: &CertificateDer<'_>) -> Option<(String, String)> {
    let inspected = CertificateDetails::of(der)?;
    let validity = inspected.validity();
    Some((moment(&validity.not_before), moment(&validity.not_after)))
}

/// The end of a certificate's validity, in seconds since 1970.
pub fn ends(der: &CertificateDer<'_>) -> Option<i64> {
    Some(CertificateDetails::of(der)?.validity().not_after.timestamp())
}

/// Why a certificate is not valid at `now`, in seconds since 1970: `expired on Nov 23 04:34:37 2026 GMT`. `None` if it is valid.
pub fn out_of_validity(der: &CertificateDer<'_>, now: i64) -> Option<String> {
    let inspected = CertificateDetails::of(der)?;
    let validity = inspected.validity();
    if validity.not_after.timestamp() < now {
        return Some(format!("expired on {}", moment(&validity.not_after)));
    }
    (validity.not_before.timestamp() > now)
        .then(|| format!("is not valid before {}", moment(&validity.not_before)))
}

/// The text of a revocation list. Empty if it is damaged.
pub fn revocation_list(der: &[u8]) -> String {
    let Ok((_, list)) = CertificateRevocationList::from_der(der) else { return String::new() };
    let mut text = String::new();
    let version = list.version().map_or(1, |version| version.0 + 1);
    let _ = writeln!(text, "Version {version}");
    let signature = list.signature_algorithm.algorithm.to_id_string();
    let _ = writeln!(text, "Signature Algorithm: {}", named_signature(&signature));
    let _ = writeln!(text, "Issuer: {}", name_of(list.issuer(), false));
    let _ = writeln!(text, "Last Update: {}", moment(&list.last_update()));
    let next = list.next_update().map_or_else(|| "NONE".to_owned(), |time| moment(&time));
    let _ = writeln!(text, "Next Update: {next}");
    let mut revoked = list.iter_revoked_certificates().peekable();
    if revoked.peek().is_none() {
        text.push_str("No Revoked Certificates.\n");
        return text;
    }
    text.push_str("Revoked Certificates:\n");
    for certificate in revoked {
        let _ = writeln!(text, "    Serial Number: {}", hexadecimal(certificate.raw_serial()));
        let _ = writeln!(text, "        Revocation Date: {}", moment(&certificate.revocation_date));
    }
    text
}

/// A number in hexadecimal digits, without the leading zero byte that DER prepends to positive numbers.
fn hexadecimal(bytes: &[u8]) -> String {
    let bytes = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        bytes => bytes,
    };
    let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Type and size of a public key: `RSA2048`, `EC256`.
fn key(inspected: &CertificateDetails<'_>) -> String {
    match inspected.key() {
        Some(PublicKey::RSA(key)) => format!("RSA{}", key.key_size()),
        Some(PublicKey::EC(point)) => format!("EC{}", point.key_size()),
        _ => inspected.key_algorithm(),
    }
}

/// A time in OpenSSL's format.
pub(crate) fn moment(time: &ASN1Time) -> String {
    let time = time.to_datetime();
    format!(
        "{} {:2} {:02}:{:02}:{:02} {} GMT",
        MONTHS[usize::from(u8::from(time.month())) - 1],
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.year()
    )
}
