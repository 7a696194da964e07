//! Fields of certificates for rules and logs (`ssl_c_*`, `ssl_f_*`).

use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::Validity;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2sn};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;

/// A parsed certificate that borrows its DER.
pub struct CertificateDetails<'c> {
    parsed: X509Certificate<'c>,
}

/// A name in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Subject,
    Issuer,
}

impl<'c> CertificateDetails<'c> {
    /// Parses a certificate. `None` if it is damaged.
    pub fn of(certificate: &'c CertificateDer<'_>) -> Option<CertificateDetails<'c>> {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(CertificateDetails { parsed })
    }

    fn name(&self, party: Party) -> &X509Name<'_> {
        match party {
            Party::Subject => self.parsed.subject(),
            Party::Issuer => self.parsed.issuer(),
        }
    }

    /// A distinguished name: `/C=FR/CN=example`, or in the format of RFC 2253.
    pub fn distinguished_name(&self, party: Party, rfc2253: bool) -> String {
        name_of(self.name(party), rfc2253)
    }

    /// The validity period.
    pub(crate) fn validity(&self) -> &Validity {
        self.parsed.validity()
    }

    /// The public key. `None` if its type is unknown.
    pub(crate) fn key(&self) -> Option<PublicKey<'_>> {
        self.parsed.public_key().parsed().ok()
    }

    /// The value of one attribute of a name: the `occurrence`th from the front, or from the back if negative. `None` for 0.
    pub fn attribute(&self, party: Party, key: &str, occurrence: i64) -> Option<String> {
        let mut values: Vec<String> = attributes(self.name(party))
            .into_iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(key))
            .map(|(_, value)| value)
            .collect();
        let place = usize::try_from(occurrence.unsigned_abs()).ok()?.checked_sub(1)?;
        if occurrence < 0 {
            values.reverse();
        }
        (place < values.len()).then(|| values.swap_remove(place))
    }

    /// The serial number, big-endian, without the zero byte that DER prepends if the highest bit is set.
    pub fn serial(&self) -> &'c [u8] {
        match self.parsed.tbs_certificate.raw_serial() {
            [0, serial @ ..] if !serial.is_empty() => serial,
            serial => serial,
        }
    }

    /// The version, counted from 1.
    pub fn version(&self) -> u32 {
        self.parsed.version().0 + 1
    }

    /// The beginning of the validity, as `YYMMDDhhmmssZ`.
    pub fn not_before(&self) -> String {
        moment(&self.parsed.validity().not_before)
    }

    /// The end of the validity, as `YYMMDDhhmmssZ`.
    pub fn not_after(&self) -> String {
        moment(&self.parsed.validity().not_after)
    }

    /// OpenSSL's name of the signature algorithm.
    pub fn signature_algorithm(&self) -> String {
        let oid = self.parsed.signature_algorithm.algorithm.to_id_string();
        named(&oid, SIGNATURES)
    }

    /// OpenSSL's name of the key algorithm.
    pub fn key_algorithm(&self) -> String {
        let oid = self.parsed.public_key().algorithm.algorithm.to_id_string();
        named(&oid, KEYS)
    }

    /// Key type and size, as `RSA2048` or `EC256`. `None` for other key types.
    pub fn key_in_short(&self) -> Option<String> {
        match self.parsed.public_key().parsed().ok()? {
            PublicKey::RSA(key) => Some(format!("RSA{}", key.key_size())),
            // An uncompressed point: one byte and two coordinates, which have 66 bytes each in P-521.
            PublicKey::EC(point) => match point.data().len() {
                133 => Some("EC521".to_owned()),
                length => Some(format!("EC{}", (length.checked_sub(1)?) * 4)),
            },
            _ => None,
        }
    }

    /// The alternative names, as `DNS:a, IP Address:1.2.3.4`.
    pub fn alternative_names(&self) -> Option<String> {
        let names = self.parsed.subject_alternative_name().ok()??;
        let words = names.value.general_names.iter().filter_map(|name| {
            Some(match name {
                GeneralName::DNSName(name) => format!("DNS:{name}"),
                GeneralName::RFC822Name(name) => format!("email:{name}"),
                GeneralName::URI(name) => format!("URI:{name}"),
                GeneralName::IPAddress([a, b, c, d]) => format!("IP Address:{a}.{b}.{c}.{d}"),
                GeneralName::IPAddress(bytes) => {
                    let address: [u8; 16] = (*bytes).try_into().ok()?;
                    let words: Vec<String> = std::net::Ipv6Addr::from(address)
                        .segments()
                        .iter()
                        .map(|segment| format!("{segment:X}"))
                        .collect();
                    format!("IP Address:{}", words.join(":"))
                }
                _ => return None,
            })
        });
        Some(words.collect::<Vec<_>>().join(", "))
    }
}

/// A distinguished name: `/C=FR/CN=example`, or in the format of RFC 2253.
pub(crate) fn name_of(name: &X509Name<'_>, rfc2253: bool) -> String {
    let mut parts = attributes(name);
    if !rfc2253 {
        return parts.iter().fold(String::new(), |mut text, (key, value)| {
            // Writing to memory does not fail.
            let _ = write!(text, "/{key}={value}");
            text
        });
    }
    parts.reverse();
    parts.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect::<Vec<_>>().join(",")
}

pub(crate) fn attributes(name: &X509Name<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for attribute in name.iter_attributes() {
        let oid = attribute.attr_type();
        let key = match oid.to_id_string().as_str() {
            "1.2.840.113549.1.9.1" => "emailAddress".to_owned(),
            "0.9.2342.19200300.100.1.1" => "UID".to_owned(),
            "0.9.2342.19200300.100.1.25" => "DC".to_owned(),
            "2.5.4.3" => "CN".to_owned(),
            "2.5.4.4" => "SN".to_owned(),
            "2.5.4.5" => "serialNumber".to_owned(),
            "2.5.4.6" => "C".to_owned(),
            "2.5.4.7" => "L".to_owned(),
            "2.5.4.8" => "ST".to_owned(),
            "2.5.4.10" => "O".to_owned(),
            "2.5.4.11" => "OU".to_owned(),
            "2.5.4.12" => "title".to_owned(),
            "2.5.4.42" => "GN".to_owned(),
            text => oid2sn(oid, oid_registry()).map_or_else(|_| text.to_owned(), str::to_owned),
        };
        let value = match attribute.as_str() {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(attribute.as_slice()).into_owned(),
        };
        found.push((key, value));
    }
    found
}

/// OpenSSL's name of a signature algorithm.
pub(crate) fn named_signature(oid: &str) -> String {
    named(oid, SIGNATURES)
}

fn named(oid: &str, names: &[(&str, &str)]) -> String {
    names.iter().find(|(known, _)| *known == oid).map_or(oid, |(_, name)| *name).to_owned()
}

/// A time as `YYMMDDhhmmssZ`.
fn moment(time: &ASN1Time) -> String {
    let time = time.to_datetime();
    format!(
        "{:02}{:02}{:02}{:02}{:02}{:02}Z",
        time.year().rem_euclid(100),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// A value escaped as in RFC 2253 (2.4). Like OpenSSL, also escapes control characters and non-ASCII bytes.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for (at, letter) in value.char_indices() {
        if letter.is_control() || !letter.is_ascii() {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to memory does not fail.
                let _ = write!(text, "\\{byte:02X}");
            }
            continue;
        }
        let is_first = at == 0 && matches!(letter, ' ' | '#');
        let is_last = at + 1 == value.len() && letter == ' ';
        if is_first || is_last || matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

const SIGNATURES: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.4", "RSA-MD5"),
    ("1.2.840.113549.1.1.5", "RSA-SHA1"),
    ("1.2.840.113549.1.1.11", "RSA-SHA256"),
    ("1.2.840.113549.1.1.12", "RSA-SHA384"),
    ("1.2.840.113549.1.1.13", "RSA-SHA512"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256"),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384"),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512"),
    ("1.3.101.112", "ED25519"),
];

const KEYS: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.1", "rsaEncryption"),
    ("1.2.840.10045.2.1", "id-ecPublicKey"),
    ("1.3.101.112", "ED25519"),
];

/// The SHA-1 fingerprint of a certificate. It is an identifier, not a proof.
pub fn sha1(der: &[u8]) -> aws_lc_rs::digest::Digest {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, der)
}
