//! Certificates generated on demand for the SNI of clients (`generate-certificates`).
//!
//! The operator's authority (`ca-sign-file`) signs them. They use the key of the listener's default certificate. An LRU cache holds
//! a limited number (`tune.ssl.ssl-ctx-cache-size`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::SignatureScheme;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::certificate::{Certificate, CertificateLoader, CertificateParts};
use crate::entry::ListenerCertificate;
use weir_tls_session::verify::der::{
    BIT_STRING, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, SET, UTC_TIME, UTF8_STRING, built,
    element, explicit,
};

/// Generates certificates.
pub struct Forger {
    authority: Arc<Certificate>,
    /// The capacity of the cache.
    most: usize,
    kept: Mutex<CertificateCache>,
}

/// Generated certificates, in order of last use.
#[derive(Default)]
struct CertificateCache {
    entries: HashMap<Box<str>, (u64, ListenerCertificate)>,
    ages: BTreeMap<u64, Box<str>>,
    clock: u64,
}

impl CertificateCache {
    fn get(&mut self, name: &str) -> Option<ListenerCertificate> {
        let (age, entry) = self.entries.get_mut(name)?;
        let entry = entry.clone();
        let kept = self.ages.remove(age)?;
        self.clock += 1;
        *age = self.clock;
        self.ages.insert(self.clock, kept);
        Some(entry)
    }

    fn put(&mut self, name: &str, entry: &ListenerCertificate, most: usize) {
        while self.entries.len() >= most {
            let Some((_, oldest)) = self.ages.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        self.clock += 1;
        if let Some((former, _)) = self.entries.insert(name.into(), (self.clock, entry.clone())) {
            self.ages.remove(&former);
        }
        self.ages.insert(self.clock, name.into());
    }
}

impl Forger {
    /// Creates a generator that signs with the key of `authority` and caches up to `most` certificates.
    ///
    /// # Errors
    /// When the key's type cannot sign certificates.
    pub fn new(authority: Arc<Certificate>, most: usize) -> Result<Forger, &'static str> {
        if scheme_of(&authority).is_none() {
            return Err("its key signs no certificates: RSA, ECDSA on P-256 or P-384 and Ed25519 do.");
        }
        Ok(Forger { authority, most, kept: Mutex::default() })
    }

    /// The certificate for the SNI `name`, with the settings and the key of `model`. `None` if the name is invalid.
    pub(crate) fn entry(&self, name: &str, model: &ListenerCertificate) -> Option<ListenerCertificate> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept().get(name) {
            return Some(known);
        }
        let now = model.now()?;
        let entry = model.with_certificate(&self.make(name, model.certificate(), now)?);
        if self.most > 0 {
            kept().put(name, &entry, self.most);
        }
        Some(entry)
    }

    fn make(&self, name: &str, model: &Certificate, now: UnixTime) -> Option<Arc<Certificate>> {
        let is_part = |part: &str| !part.is_empty() && part.len() <= 63;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.len() > MAX_NAME || !name.bytes().all(is_letter) || !name.split('.').all(is_part) {
            return None;
        }
        let own = sign(&self.authority, model.own(), name, now)?;
        let above = &self.authority.certified.cert;
        let is_root = |der: &CertificateDer<'_>| {
            X509Certificate::from_der(der).is_ok_and(|(_, parsed)| parsed.subject() == parsed.issuer())
        };
        let chain = [own].into_iter().chain(above.iter().filter(|der| !is_root(der)).cloned()).collect();
        let parts =
            CertificateParts { chain, key: model.parts().key, issuer: Vec::new(), ocsp: None, files: None };
        CertificateLoader::default().assemble(name, parts).ok()
    }
}

impl fmt::Debug for Forger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forger").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// A certificate for `name` with the key of `model`. Its validity begins one day before `now` and lasts a year.
fn sign(
    authority: &Certificate,
    model: &CertificateDer<'_>,
    name: &str,
    now: UnixTime,
) -> Option<CertificateDer<'static>> {
    let (_, issuer) = X509Certificate::from_der(authority.own()).ok()?;
    let (_, model) = X509Certificate::from_der(model).ok()?;
    let (scheme, algorithm) = scheme_of(authority)?;
    let algorithm = built(SEQUENCE, &[algorithm]);
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).ok()?;
    // Makes the serial number positive, with a first byte other than zero.
    serial[0] = serial[0] & 0x7f | 0x40;
    let validity = [time(now, -DAY)?, time(now, YEAR)?];
    let mut extensions = vec![
        extension(b"\x55\x1d\x11", &built(SEQUENCE, &[&built(DNS_NAME, &[name.as_bytes()])])),
        extension(
            b"\x55\x1d\x25",
            &built(SEQUENCE, &[&built(OBJECT, &[b"\x2b\x06\x01\x05\x05\x07\x03\x01"])]),
        ),
    ];
    let key_id = issuer.extensions().iter().find(|extension| extension.oid.as_bytes() == b"\x55\x1d\x0e");
    if let Some((key_id, _)) = key_id.and_then(|extension| element(extension.value, OCTET_STRING)) {
        extensions.push(extension(b"\x55\x1d\x23", &built(SEQUENCE, &[&built(KEY_ID, &[key_id.content])])));
    }
    let signed = built(
        SEQUENCE,
        &[
            &built(explicit(0), &[&built(INTEGER, &[&[2]])]),
            &built(INTEGER, &[&serial]),
            &algorithm,
            issuer.subject().as_raw(),
            &built(SEQUENCE, &[&validity[0], &validity[1]]),
            &subject(issuer.subject().as_raw(), name)?,
            model.public_key().raw,
            &built(explicit(3), &[&built(SEQUENCE, &[&extensions.concat()])]),
        ],
    );
    let signature = authority.certified.key.choose_scheme(&[scheme])?.sign(&signed).ok()?;
    Some(built(SEQUENCE, &[&signed, &algorithm, &built(BIT_STRING, &[&[0], &signature])]).into())
}

/// The authority's subject plus the name, as in HAProxy. A common name has at most 64 characters (RFC 5280, A.1). For a
/// longer name the subject is empty, and only the alternative names contain it.
fn subject(authority: &[u8], name: &str) -> Option<Vec<u8>> {
    if name.len() > 64 {
        return Some(built(SEQUENCE, &[]));
    }
    let (authority, _) = element(authority, SEQUENCE)?;
    let attribute =
        built(SEQUENCE, &[&built(OBJECT, &[b"\x55\x04\x03"]), &built(UTF8_STRING, &[name.as_bytes()])]);
    Some(built(SEQUENCE, &[authority.content, &built(SET, &[&attribute])]))
}

fn extension(id: &[u8], value: &[u8]) -> Vec<u8> {
    built(SEQUENCE, &[&built(OBJECT, &[id]), &built(OCTET_STRING, &[value])])
}

/// The DER of `now` plus `seconds`.
fn time(now: UnixTime, seconds: i64) -> Option<Vec<u8>> {
    let at = i64::try_from(now.as_secs()).ok()?.checked_add(seconds)?;
    let at = ASN1Time::from_timestamp(at).ok()?.to_datetime();
    let rest = format!(
        "{:02}{:02}{:02}{:02}{:02}Z",
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    );
    Some(match at.year() {
        year @ 1950..2050 => built(UTC_TIME, &[format!("{:02}{rest}", year % 100).as_bytes()]),
        year => built(GENERALIZED_TIME, &[format!("{year:04}{rest}").as_bytes()]),
    })
}

/// The signature scheme of an authority, and the content of its AlgorithmIdentifier.
fn scheme_of(authority: &Certificate) -> Option<(SignatureScheme, &'static [u8])> {
    SCHEMES.iter().copied().find(|(scheme, _)| authority.certified.key.choose_scheme(&[*scheme]).is_some())
}

const SCHEMES: [(SignatureScheme, &[u8]); 4] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"),
    (SignatureScheme::ECDSA_NISTP384_SHA384, b"\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03"),
    (SignatureScheme::RSA_PKCS1_SHA256, b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00"),
    (SignatureScheme::ED25519, b"\x06\x03\x2b\x65\x70"),
];

/// A `dNSName` of a GeneralName.
const DNS_NAME: u8 = 0x82;
/// The `keyIdentifier` of an AuthorityKeyIdentifier.
const KEY_ID: u8 = 0x80;
/// The longest DNS name, in bytes.
const MAX_NAME: usize = 253;
const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;
