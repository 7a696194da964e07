//! OCSP responses (RFC 6960): an authority's recent statement about a certificate, which a handshake can staple.
//!
//! A response applies to the certificate that its [`CertId`] names. The authority's signature is verified only on responses from
//! the network ([`OcspResponse::verify`]). Other responses come from the operator's files, and clients verify them.

mod question;
mod signer;

use std::fmt::Write as _;

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

pub use question::responder;

use crate::describe::moment;
use crate::inspect::{attributes, named_signature, sha1};
use crate::pem;
use weir_tls_session::verify::der::{
    BIT_STRING, ENUMERATED, Element, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, any, built, element, explicit,
};

/// Identifies a certificate: digests of its issuer's name and key, and its serial number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertId {
    /// SHA-1 of the issuer's name.
    pub name_hash: Box<[u8]>,
    /// SHA-1 of the issuer's key.
    pub key_hash: Box<[u8]>,
    /// The serial number, as in the certificate.
    pub serial: Box<[u8]>,
}

impl CertId {
    /// The identifier of a certificate. `None` if `certificate` or `issuer` is damaged, or if `issuer` did not issue it.
    pub fn of(certificate: &CertificateDer<'_>, issuer: &CertificateDer<'_>) -> Option<CertId> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let (_, issuer) = X509Certificate::from_der(issuer).ok()?;
        // Another certificate of the chain is not its issuer.
        if certificate.issuer().as_raw() != issuer.subject().as_raw() {
            return None;
        }
        Some(CertId {
            name_hash: sha1(issuer.subject().as_raw()).as_ref().into(),
            key_hash: sha1(&issuer.public_key().subject_public_key.data).as_ref().into(),
            serial: certificate.tbs_certificate.raw_serial().into(),
        })
    }

    /// Parses a CertID with SHA-1.
    fn read(content: &[u8]) -> Option<CertId> {
        let (algorithm, rest) = element(content, SEQUENCE)?;
        let (name_hash, rest) = element(rest, OCTET_STRING)?;
        let (key_hash, rest) = element(rest, OCTET_STRING)?;
        let (serial, _) = element(rest, INTEGER)?;
        let is_sha1 = algorithm.content.starts_with(&SHA1[..7]);
        is_sha1.then(|| CertId {
            name_hash: name_hash.content.into(),
            key_hash: key_hash.content.into(),
            serial: serial.content.into(),
        })
    }

    /// Encodes it as DER (RFC 6960, 4.1.1).
    pub fn to_der(&self) -> Vec<u8> {
        let parts = [
            built(SEQUENCE, &[SHA1]),
            built(OCTET_STRING, &[&self.name_hash]),
            built(OCTET_STRING, &[&self.key_hash]),
            built(INTEGER, &[&self.serial]),
        ];
        built(SEQUENCE, &[&parts.concat()])
    }

    /// The identifier in the runtime API: the DER in hexadecimal digits.
    pub fn key(&self) -> String {
        self.to_der().iter().fold(String::new(), |mut text, byte| {
            // Writing to memory does not fail, here and below.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// The inverse of [`CertId::key`]. `None` if `key` is not a valid identifier.
    pub fn from_key(key: &str) -> Option<CertId> {
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let der: Vec<u8> = key.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?;
        let (id, _) = element(&der, SEQUENCE)?;
        CertId::read(id.content).filter(|id| id.key() == key)
    }

    /// The fields as text, each line after `indent`.
    pub fn describe(&self, indent: &str) -> String {
        format!(
            "{indent}Issuer Name Hash: {}\n{indent}Issuer Key Hash: {}\n{indent}Serial Number: {}\n",
            capitals(&self.name_hash),
            capitals(&self.key_hash),
            capitals(&self.serial)
        )
    }
}

/// A response about one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OcspResponse {
    der: Box<[u8]>,
    id: CertId,
    this_update: i64,
    next_update: i64,
}

impl OcspResponse {
    /// Reads a response.
    ///
    /// # Errors
    /// The reason why the response cannot be used.
    pub fn parse(der: &[u8]) -> Result<OcspResponse, &'static str> {
        let read = ResponseParts::of(der)?;
        let id = CertId::read(read.id).ok_or("OCSP single response: Certificate ID without SHA-1.")?;
        let next_update = read.next_update.as_ref().ok_or("OCSP single response: missing nextupdate.")?;
        Ok(OcspResponse {
            der: der.into(),
            id,
            this_update: read.this_update.timestamp(),
            next_update: next_update.timestamp(),
        })
    }

    /// The identifier of the certificate that the response is about.
    pub fn id(&self) -> &CertId {
        &self.id
    }

    /// The whole response in DER, for stapling.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The response may be stapled until this time, in seconds since 1970 (`nextUpdate`).
    pub fn good_until(&self) -> u64 {
        u64::try_from(self.next_update).unwrap_or(0)
    }

    /// Whether it may be stapled now.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check(&self, now: UnixTime) -> Result<(), &'static str> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if self.this_update > now.saturating_add(SKEW) {
            return Err("OCSP single response: not yet valid.");
        }
        if self.next_update < now {
            return Err("OCSP single response: no longer valid.");
        }
        Ok(())
    }

    /// The response as text in the format of the openssl command. Its certificates are printed as PEM.
    pub fn describe(&self) -> String {
        ResponseParts::of(&self.der).map(|read| read.describe(&self.id)).unwrap_or_default()
    }
}

struct ResponseParts<'d> {
    /// The signed part, including its DER header.
    signed: &'d [u8],
    /// The responder: its name, or the SHA-1 of its key.
    responder: Element<'d>,
    responder_is_key: bool,
    produced: ASN1Time,
    id: &'d [u8],
    status: CertificateStatus,
    this_update: ASN1Time,
    next_update: Option<ASN1Time>,
    algorithm: &'d [u8],
    signature: &'d [u8],
    certificates: Vec<&'d [u8]>,
}

enum CertificateStatus {
    Good,
    Revoked(ASN1Time, Option<u8>),
    Unknown,
}

impl<'d> ResponseParts<'d> {
    fn of(der: &'d [u8]) -> Result<ResponseParts<'d>, &'static str> {
        const DAMAGED: &str = "Unable to parse OCSP response.";
        let (outer, _) = element(der, SEQUENCE).ok_or(DAMAGED)?;
        let (status, rest) = element(outer.content, ENUMERATED).ok_or(DAMAGED)?;
        if *status.content != [0] {
            return Err("OCSP response status not successful.");
        }
        Self::basic(rest).ok_or(DAMAGED)?
    }

    /// Parses the content of a successful response. The outer `None` means damaged DER.
    fn basic(rest: &'d [u8]) -> Option<Result<ResponseParts<'d>, &'static str>> {
        let (bytes, _) = element(rest, explicit(0))?;
        let (bytes, _) = element(bytes.content, SEQUENCE)?;
        let (kind, rest) = element(bytes.content, OBJECT)?;
        if *kind.content != *BASIC {
            return Some(Err("OCSP response is not a basic one."));
        }
        let (basic, _) = element(rest, OCTET_STRING)?;
        let (basic, _) = element(basic.content, SEQUENCE)?;
        let (signed, rest) = element(basic.content, SEQUENCE)?;
        let signed_whole = &basic.content[..basic.content.len() - rest.len()];
        let (algorithm, rest) = element(rest, SEQUENCE)?;
        let (signature, rest) = element(rest, BIT_STRING)?;
        let mut certificates = Vec::new();
        if let Some((list, _)) = element(rest, explicit(0)) {
            let (list, _) = element(list.content, SEQUENCE)?;
            let mut left = list.content;
            while !left.is_empty() && certificates.len() < MAX_CERTIFICATES {
                let (_, after) = element(left, SEQUENCE)?;
                certificates.push(&left[..left.len() - after.len()]);
                left = after;
            }
        }
        let rest = element(signed.content, explicit(0)).map_or(signed.content, |(_, rest)| rest);
        let (tag, responder, rest) = any(rest)?;
        let responder_is_key = tag == explicit(2);
        let (produced, rest) = time(rest)?;
        let (responses, _) = element(rest, SEQUENCE)?;
        let (single, others) = element(responses.content, SEQUENCE)?;
        if !others.is_empty() {
            return Some(Err("OCSP response ignored because contains multiple single responses."));
        }
        let (id, rest) = element(single.content, SEQUENCE)?;
        let (tag, status, rest) = any(rest)?;
        let status = match tag {
            0x80 => CertificateStatus::Good,
            0xa1 => {
                let (at, rest) = time(status.content)?;
                let reason =
                    element(rest, explicit(0)).and_then(|(reason, _)| element(reason.content, ENUMERATED));
                CertificateStatus::Revoked(at, reason.and_then(|(reason, _)| reason.content.first().copied()))
            }
            _ => CertificateStatus::Unknown,
        };
        let (this_update, rest) = time(rest)?;
        let next_update = match element(rest, explicit(0)) {
            Some((next, _)) => Some(time(next.content)?.0),
            None => None,
        };
        let (0, signature) = signature.content.split_first().map(|(unused, bits)| (*unused, bits))? else {
            return None;
        };
        Some(Ok(ResponseParts {
            signed: signed_whole,
            responder,
            responder_is_key,
            produced,
            id: id.content,
            status,
            this_update,
            next_update,
            algorithm: algorithm.content,
            signature,
            certificates,
        }))
    }

    fn describe(&self, id: &CertId) -> String {
        let mut text = String::from(
            "OCSP Response Data:\n    OCSP Response Status: successful (0x0)\n    Response Type: Basic OCSP Response\n    Version: 1 (0x0)\n",
        );
        let _ = writeln!(text, "    Responder Id: {}", self.responder());
        let _ = writeln!(text, "    Produced At: {}", moment(&self.produced));
        text += "    Responses:\n    Certificate ID:\n      Hash Algorithm: sha1\n";
        text += &id.describe("      ");
        match &self.status {
            CertificateStatus::Good => text += "    Cert Status: good\n",
            CertificateStatus::Unknown => text += "    Cert Status: unknown\n",
            CertificateStatus::Revoked(at, reason) => {
                let _ = writeln!(text, "    Cert Status: revoked\n    Revocation Time: {}", moment(at));
                if let Some(reason) = reason {
                    let words = REASONS.get(usize::from(*reason)).copied().unwrap_or("(UNKNOWN)");
                    let _ = writeln!(text, "    Revocation Reason: {words} (0x{reason:x})");
                }
            }
        }
        let _ = writeln!(text, "    This Update: {}", moment(&self.this_update));
        if let Some(next) = &self.next_update {
            let _ = writeln!(text, "    Next Update: {}", moment(next));
        }
        let algorithm =
            element(self.algorithm, OBJECT).map(|(oid, _)| dotted(oid.content)).unwrap_or_default();
        let _ = writeln!(text, " \n    Signature Algorithm: {}", named_signature(&algorithm));
        text += "    Signature Value:\n";
        let digits: Vec<String> = self.signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<String> =
            digits.chunks(18).map(|line| format!("        {}", line.join(":"))).collect();
        text += &lines.join(":\n");
        text.push('\n');
        for certificate in &self.certificates {
            text += &pem::encode("CERTIFICATE", certificate);
        }
        text
    }

    fn responder(&self) -> String {
        if self.responder_is_key {
            return element(self.responder.content, OCTET_STRING)
                .map(|(hash, _)| capitals(hash.content))
                .unwrap_or_default();
        }
        let Ok((_, name)) = X509Name::from_der(self.responder.content) else { return String::new() };
        let parts = attributes(&name).into_iter().map(|(key, value)| format!("{key} = {value}"));
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn time(der: &[u8]) -> Option<(ASN1Time, &[u8])> {
    let (rest, time) = ASN1Time::from_der(der).ok()?;
    Some((time, rest))
}

fn capitals(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// An object identifier in dotted form.
fn dotted(content: &[u8]) -> String {
    let (mut numbers, mut number) = (Vec::new(), 0_u64);
    for byte in content {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let Some((first, rest)) = numbers.split_first() else { return String::new() };
    let root = (first / 40).min(2);
    let all = [root, first - root * 40].into_iter().chain(rest.iter().copied());
    all.map(|number| number.to_string()).collect::<Vec<_>>().join(".")
}

/// The content of the AlgorithmIdentifier of SHA-1.
const SHA1: &[u8] = b"\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00";
/// `id-pkix-ocsp-basic`.
const BASIC: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01\x01";
/// How far a responder's clock may be ahead of ours, in seconds.
const SKEW: i64 = 300;
/// The limit of certificates read from a response.
const MAX_CERTIFICATES: usize = 8;

/// Revocation reasons (RFC 5280, 5.3.1), as OpenSSL prints them.
const REASONS: [&str; 11] = [
    "unspecified",
    "keyCompromise",
    "cACompromise",
    "affiliationChanged",
    "superseded",
    "cessationOfOperation",
    "certificateHold",
    "(UNKNOWN)",
    "removeFromCRL",
    "privilegeWithdrawn",
    "aACompromise",
];
