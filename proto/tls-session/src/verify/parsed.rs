//! A parsed certificate of a chain: issuer relations, and the uses that its extensions allow.

use rustls::NamedGroup;
use x509_parser::extensions::{AuthorityKeyIdentifier, GeneralName, NameConstraints, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::der::{PublicKeyInfo, SignedStructure};
use super::names;

/// The use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificatePurpose {
    Client,
    Server,
}

/// The parts of a certificate that chains need.
pub(super) struct DecodedCertificate<'c> {
    pub der: &'c [u8],
    pub signed: SignedStructure<'c>,
    pub x509: X509Certificate<'c>,
    /// The names in canonical form.
    pub subject: Vec<u8>,
    pub issuer: Vec<u8>,
    /// Whether an extension is malformed or repeated.
    pub is_invalid: bool,
    /// Whether it has an unknown critical extension.
    pub has_unknown_critical: bool,
    key_usage: Option<u16>,
    extended_usage: Option<ExtendedUsage>,
    netscape: Option<Netscape>,
    /// Basic constraints: whether it is a CA, and the maximum number of CAs below it.
    constraints: Option<(bool, Option<u32>)>,
    key_id: Option<&'c [u8]>,
    issuer_key: Option<AuthorityKeyIdentifier<'c>>,
    pub names: Option<NameConstraints<'c>>,
}

#[derive(Clone, Copy)]
struct ExtendedUsage {
    client: bool,
    server: bool,
}

#[derive(Clone, Copy)]
struct Netscape {
    client: bool,
    server: bool,
    authority: bool,
}

impl<'c> DecodedCertificate<'c> {
    /// Parses a certificate. `None` if it is malformed.
    pub(super) fn of(der: &'c [u8]) -> Option<DecodedCertificate<'c>> {
        let (rest, x509) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() || x509.signature_algorithm != x509.tbs_certificate.signature {
            return None;
        }
        let mut parsed = DecodedCertificate {
            der,
            signed: SignedStructure::of(der)?,
            subject: names::canonical(&x509.tbs_certificate.subject),
            issuer: names::canonical(&x509.tbs_certificate.issuer),
            is_invalid: false,
            has_unknown_critical: false,
            key_usage: None,
            extended_usage: None,
            netscape: None,
            constraints: None,
            key_id: None,
            issuer_key: None,
            names: None,
            x509,
        };
        let x509 = parsed.x509.clone();
        let extensions = x509.tbs_certificate.extensions();
        for (at, extension) in extensions.iter().enumerate() {
            parsed.is_invalid |= extensions[..at].iter().any(|earlier| earlier.oid == extension.oid);
            parsed.note(extension.parsed_extension(), extension.critical);
        }
        Some(parsed)
    }

    fn note(&mut self, extension: &ParsedExtension<'c>, critical: bool) {
        match extension {
            ParsedExtension::ParseError { .. } => self.is_invalid = true,
            ParsedExtension::KeyUsage(usage) => {
                self.is_invalid |= usage.flags == 0;
                self.key_usage = Some(usage.flags);
            }
            ParsedExtension::ExtendedKeyUsage(usage) => {
                let gated = usage.other.iter().any(|oid| GATED.contains(&oid.to_id_string().as_str()));
                let server = usage.server_auth || gated;
                self.extended_usage = Some(ExtendedUsage { client: usage.client_auth, server });
            }
            ParsedExtension::NSCertType(kind) => {
                self.netscape = Some(Netscape {
                    client: kind.ssl_client(),
                    server: kind.ssl_server(),
                    authority: kind.ssl_ca(),
                });
            }
            ParsedExtension::BasicConstraints(constraints) => {
                // A path length is only allowed for authorities.
                self.is_invalid |=
                    !constraints.ca && constraints.path_len_constraint.is_some_and(|limit| limit > 0);
                self.constraints = Some((constraints.ca, constraints.path_len_constraint));
            }
            ParsedExtension::SubjectKeyIdentifier(key) => self.key_id = Some(key.0),
            ParsedExtension::AuthorityKeyIdentifier(key) => self.issuer_key = Some(key.clone()),
            ParsedExtension::NameConstraints(names) => self.names = Some(names.clone()),
            ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::CertificatePolicies(_)
            | ParsedExtension::PolicyMappings(_)
            | ParsedExtension::PolicyConstraints(_)
            | ParsedExtension::InhibitAnyPolicy(_)
            | ParsedExtension::CRLDistributionPoints(_) => {}
            _ => self.has_unknown_critical |= critical,
        }
    }

    /// Whether its issuer is its own subject.
    pub(super) fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Whether its names, key identifiers and key type are those of a self-signed certificate. The signature is not checked.
    pub(super) fn is_self_signed(&self) -> bool {
        self.is_self_issued() && self.key_matches(self) && self.kind_matches(self)
    }

    /// Whether `issuer` may have issued it, by names, key identifiers and key types.
    pub(super) fn may_be_by(&self, issuer: &DecodedCertificate<'_>) -> bool {
        self.issuer == issuer.subject
            && !self.is_invalid
            && !issuer.is_invalid
            && self.key_matches(issuer)
            && self.kind_matches(issuer)
    }

    fn key_matches(&self, issuer: &DecodedCertificate<'_>) -> bool {
        let Some(wanted) = &self.issuer_key else { return true };
        if let (Some(wanted), Some(has)) = (&wanted.key_identifier, issuer.key_id)
            && wanted.0 != has
        {
            return false;
        }
        if wanted.authority_cert_serial.is_some_and(|serial| serial != issuer.x509.raw_serial()) {
            return false;
        }
        let named = wanted.authority_cert_issuer.iter().flatten().find_map(|name| match name {
            GeneralName::DirectoryName(name) => Some(names::canonical(name)),
            _ => None,
        });
        named.is_none_or(|named| named == issuer.issuer)
    }

    /// Whether its signature algorithm matches the type of the issuer's key.
    fn kind_matches(&self, issuer: &DecodedCertificate<'_>) -> bool {
        let key = issuer.x509.public_key().algorithm.algorithm.to_id_string();
        let signature = self.x509.signature_algorithm.algorithm.to_id_string();
        match key.as_str() {
            RSA => signature.starts_with(RSA_SIGNATURES),
            EC => signature.starts_with(ECDSA_SIGNATURES),
            _ => true,
        }
    }

    /// Its subject key identifier.
    pub(super) fn key_id(&self) -> Option<&'c [u8]> {
        self.key_id
    }

    /// Its public key, as encoded.
    pub(super) fn key(&self) -> &[u8] {
        self.x509.tbs_certificate.subject_pki.raw
    }

    /// Whether it may issue certificates (RFC 5280, 4.2.1.9; in version 1 a self-signed certificate counts as an authority).
    pub(super) fn is_authority(&self) -> bool {
        if !self.signs_certificates() {
            return false;
        }
        match self.constraints {
            Some((is_authority, _)) => is_authority,
            None => {
                (self.x509.version().0 == 0 && self.is_self_signed())
                    || self.key_usage.is_some()
                    || self.netscape.is_some_and(|kind| kind.authority)
            }
        }
    }

    /// How many authorities may follow below it.
    pub(super) fn path_limit(&self) -> Option<u32> {
        self.constraints.and_then(|(_, limit)| limit)
    }

    /// Whether its key may sign certificates.
    pub(super) fn signs_certificates(&self) -> bool {
        self.key_usage.is_none_or(|usage| usage & CERT_SIGN != 0)
    }

    /// Whether it may sign revocation lists.
    pub(super) fn signs_lists(&self) -> bool {
        self.key_usage.is_none_or(|usage| usage & LIST_SIGN != 0)
    }

    /// Whether its extensions allow the purpose, as the peer's own certificate or as an authority's.
    pub(super) fn serves(&self, purpose: CertificatePurpose, as_authority: bool) -> bool {
        let extended = |usage: ExtendedUsage| match purpose {
            CertificatePurpose::Client => usage.client,
            CertificatePurpose::Server => usage.server,
        };
        if self.extended_usage.is_some_and(|usage| !extended(usage)) {
            return false;
        }
        if as_authority {
            return self.is_authority() && self.netscape.is_none_or(|kind| kind.authority);
        }
        let (allowed, netscape) = match purpose {
            CertificatePurpose::Client => {
                (DIGITAL_SIGNATURE | KEY_AGREEMENT, self.netscape.map(|kind| kind.client))
            }
            CertificatePurpose::Server => {
                (DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | KEY_AGREEMENT, self.netscape.map(|kind| kind.server))
            }
        };
        self.key_usage.is_none_or(|usage| usage & allowed != 0) && netscape.unwrap_or(true)
    }

    /// Whether its key is strong enough for OpenSSL's security level 2: 112 bits.
    pub(super) fn has_strong_key(&self) -> bool {
        match self.x509.public_key().algorithm.algorithm.to_id_string().as_str() {
            RSA | "1.2.840.113549.1.1.10" => PublicKeyInfo::of(self.key())
                .and_then(|key| key.modulus_bits())
                .is_some_and(|bits| bits >= 2048),
            EC => {
                let curve = self.x509.public_key().algorithm.parameters.as_ref();
                let curve = curve.and_then(|curve| curve.clone().oid().ok());
                curve.is_some_and(|curve| CURVES.contains(&curve.to_id_string().as_str()))
            }
            "1.3.101.112" | "1.3.101.113" => true,
            _ => false,
        }
    }

    /// The curve of its key, if it is one that TLS 1.2 can agree on.
    pub(super) fn curve(&self) -> Option<NamedGroup> {
        let algorithm = &self.x509.public_key().algorithm;
        let curve = algorithm.parameters.as_ref()?.clone().oid().ok()?.to_id_string();
        let named = |name: &str| GROUPS.iter().find(|group| group.0 == name).map(|group| group.1);
        (algorithm.algorithm.to_id_string() == EC).then(|| named(&curve))?
    }

    /// Whether its signature is strong enough for the same level.
    pub(super) fn has_strong_signature(&self) -> bool {
        STRONG.contains(&self.x509.signature_algorithm.algorithm.to_id_string().as_str())
    }

    /// Its serial number without leading zeros.
    pub(super) fn serial(&self) -> &[u8] {
        plain_serial(self.x509.raw_serial())
    }
}

/// A serial number without leading zeros.
pub(super) fn plain_serial(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}

// Bits of RFC 5280, 4.2.1.3.
const DIGITAL_SIGNATURE: u16 = 1;
const KEY_ENCIPHERMENT: u16 = 1 << 2;
const KEY_AGREEMENT: u16 = 1 << 4;
const CERT_SIGN: u16 = 1 << 5;
const LIST_SIGN: u16 = 1 << 6;

/// Server gated cryptography of Microsoft and Netscape, in old server certificates.
const GATED: [&str; 2] = ["1.3.6.1.4.1.311.10.3.3", "2.16.840.1.113730.4.1"];

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_SIGNATURES: &str = "1.2.840.113549.1.1.";
const EC: &str = "1.2.840.10045.2.1";
const ECDSA_SIGNATURES: &str = "1.2.840.10045.4.";

/// OIDs of the curves accepted as strong enough (112 bits of security): secp224r1, P-256, P-384, P-521, secp256k1. All others
/// count as weak.
const CURVES: [&str; 5] =
    ["1.3.132.0.33", "1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35", "1.3.132.0.10"];

/// Curves, and their numbers in TLS.
const GROUPS: [(&str, NamedGroup); 3] = [
    ("1.2.840.10045.3.1.7", NamedGroup::secp256r1),
    ("1.3.132.0.34", NamedGroup::secp384r1),
    ("1.3.132.0.35", NamedGroup::secp521r1),
];

/// Signature algorithms with SHA-224 or stronger, and RSASSA-PSS, which is never verified with a weaker hash.
const STRONG: [&str; 11] = [
    "1.2.840.113549.1.1.14",
    "1.2.840.113549.1.1.11",
    "1.2.840.113549.1.1.12",
    "1.2.840.113549.1.1.13",
    "1.2.840.113549.1.1.10",
    "1.2.840.10045.4.3.1",
    "1.2.840.10045.4.3.2",
    "1.2.840.10045.4.3.3",
    "1.2.840.10045.4.3.4",
    "1.3.101.112",
    "1.3.101.113",
];
