//! The outer DER structure of certificates and revocation lists: the signed content, the algorithm, and the signature.

use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::crypto::WebPkiSupportedAlgorithms;

/// A signed structure.
#[derive(Clone, Copy)]
pub struct SignedStructure<'d> {
    message: &'d [u8],
    /// The content of its AlgorithmIdentifier.
    algorithm: &'d [u8],
    signature: &'d [u8],
}

impl<'d> SignedStructure<'d> {
    /// A signed message, with the content of its AlgorithmIdentifier, and the signature's bits.
    pub fn new(message: &'d [u8], algorithm: &'d [u8], signature: &'d [u8]) -> SignedStructure<'d> {
        SignedStructure { message, algorithm, signature }
    }

    /// The signed structure in `der`. `None` if it is malformed.
    pub fn of(der: &'d [u8]) -> Option<SignedStructure<'d>> {
        let (outer, rest) = element(der, SEQUENCE)?;
        if !rest.is_empty() {
            return None;
        }
        let (_, after) = element(outer.content, SEQUENCE)?;
        let message = &outer.content[..outer.content.len() - after.len()];
        let (algorithm, after) = element(after, SEQUENCE)?;
        let (signature, after) = element(after, BIT_STRING)?;
        let (0, signature) = signature.content.split_first().map(|(unused, bits)| (*unused, bits))? else {
            return None;
        };
        after.is_empty().then_some(SignedStructure { message, algorithm: algorithm.content, signature })
    }

    /// Whether it was signed with the key of this SubjectPublicKeyInfo. Unknown algorithms give false. The strength of the key and
    /// the signature is not checked here: that is a fault of its own, which may be ignored.
    pub fn is_by(&self, key: &[u8], algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let Some(key) = PublicKeyInfo::of(key) else { return false };
        let by_known = algorithms.all.iter().any(|known| {
            *known.signature_alg_id() == *self.algorithm
                && *known.public_key_alg_id() == *key.algorithm
                && known.verify_signature(key.bits, self.message, self.signature).is_ok()
        });
        let is_by_weak = |weak: &Weak| {
            *weak.signature == *self.algorithm
                && key.algorithm.starts_with(weak.key)
                && UnparsedPublicKey::new(weak.algorithm, key.bits)
                    .verify(self.message, self.signature)
                    .is_ok()
        };
        by_known || WEAK.iter().any(is_by_weak)
    }
}

/// A signature algorithm that webpki does not support but OpenSSL does: old revocation lists are signed with SHA-1. The
/// strength of the hash is not checked.
struct Weak {
    /// The content of the signature's AlgorithmIdentifier.
    signature: &'static [u8],
    /// The beginning of the key's AlgorithmIdentifier.
    key: &'static [u8],
    algorithm: &'static dyn VerificationAlgorithm,
}

const RSA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";

const WEAK: &[Weak] = &[
    Weak {
        signature: b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05\x05\x00",
        key: RSA,
        algorithm: &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
    },
    Weak {
        signature: b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00",
        key: RSA,
        algorithm: &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    },
    Weak {
        signature: b"\x06\x07\x2a\x86\x48\xce\x3d\x04\x01",
        key: b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
        algorithm: &signature::ECDSA_P256_SHA1_ASN1,
    },
];

#[derive(Clone, Copy)]
pub(super) struct PublicKeyInfo<'d> {
    /// The content of its AlgorithmIdentifier.
    pub algorithm: &'d [u8],
    pub bits: &'d [u8],
}

impl<'d> PublicKeyInfo<'d> {
    /// The key of a SubjectPublicKeyInfo.
    pub(super) fn of(der: &'d [u8]) -> Option<PublicKeyInfo<'d>> {
        let (outer, _) = element(der, SEQUENCE)?;
        let (algorithm, after) = element(outer.content, SEQUENCE)?;
        let (bits, _) = element(after, BIT_STRING)?;
        let (0, bits) = bits.content.split_first().map(|(unused, bits)| (*unused, bits))? else {
            return None;
        };
        Some(PublicKeyInfo { algorithm: algorithm.content, bits })
    }

    /// The size of an RSA key's modulus in bits.
    pub(super) fn modulus_bits(&self) -> Option<usize> {
        let (outer, _) = element(self.bits, SEQUENCE)?;
        let (modulus, _) = element(outer.content, INTEGER)?;
        let zeros = modulus.content.iter().take_while(|byte| **byte == 0).count();
        let digits = &modulus.content[zeros..];
        Some(digits.len() * 8 - digits.first()?.leading_zeros() as usize)
    }
}

/// An element of DER.
pub struct Element<'d> {
    pub content: &'d [u8],
}

/// The first element, which must have this tag, and the rest.
pub fn element(der: &[u8], tag: u8) -> Option<(Element<'_>, &[u8])> {
    let (found, element, rest) = any(der)?;
    (found == tag).then_some((element, rest))
}

/// The first element with its tag, and the rest.
pub fn any(der: &[u8]) -> Option<(u8, Element<'_>, &[u8])> {
    let (&tag, after) = der.split_first()?;
    let (&first, after) = after.split_first()?;
    let (length, after) = match first {
        0..=0x7f => (usize::from(first), after),
        0x81..=0x83 => {
            let (digits, after) = after.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), after)
        }
        _ => return None,
    };
    let (content, rest) = after.split_at_checked(length)?;
    Some((tag, Element { content }, rest))
}

/// Encodes a DER element with these parts.
pub fn built(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut der = vec![tag];
    match length {
        0..=0x7f => der.push(length as u8),
        0x80..=0xff => der.extend([0x81, length as u8]),
        0x100..=0xffff => der.extend([0x82, (length >> 8) as u8, length as u8]),
        _ => der.extend([0x83, (length >> 16) as u8, (length >> 8) as u8, length as u8]),
    }
    parts.iter().for_each(|part| der.extend_from_slice(part));
    der
}

/// The tag of an explicitly tagged element.
pub const fn explicit(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a number.
pub const INTEGER: u8 = 0x02;
/// The tag of bits, such as a key or a signature.
pub const BIT_STRING: u8 = 0x03;
/// The tag of bytes.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of an object identifier.
pub const OBJECT: u8 = 0x06;
/// The tag of one of several values.
pub const ENUMERATED: u8 = 0x0a;
/// The tag of a UTF-8 string.
pub const UTF8_STRING: u8 = 0x0c;
/// The tag of a time with a year of two digits.
pub const UTC_TIME: u8 = 0x17;
/// The tag of a time with a year of four digits.
pub const GENERALIZED_TIME: u8 = 0x18;
/// The tag of a sequence.
pub const SEQUENCE: u8 = 0x30;
/// The tag of a set.
pub const SET: u8 = 0x31;
