//! HKDF for the key schedule of TLS 1.3 (RFC 5869; RFC 8446, 7.1), with HMAC keys prepared once per secret, and the library's PRF for
//! TLS 1.2. The values of a session's identity are noted where they are derived (`identity.rs`).
//!
//! A handshake derives about thirty values, each with one HMAC of a short message. Preparing an HMAC key hashes as much as the
//! message. The provider of rustls prepares the key for each value, but most secrets derive two to four values. Without a PSK, the
//! first secret of all sessions is the same and is extracted once. Keys of the data are derived twice, and hashed once
//! (`traffic_keys.rs`). HMACs come from the crate `hmac`, with prepared keys of 288 bytes. In aws-lc-rs, prepared keys are eight times
//! as large, are copied three times for a value, and hash no quicker.

use std::sync::{LazyLock, OnceLock};

use hmac::digest::Output;
use hmac::{Hmac, KeyInit, Mac};
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::crypto::hash::HashAlgorithm;
use rustls::crypto::hmac::Tag;
use rustls::crypto::tls12::Prf;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::crypto::{ActiveKeyExchange, CipherSuiteCommon};
use rustls::{Error, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};
use sha2::{Sha256, Sha384};

use crate::identity;
use crate::traffic_keys::{self, DerivedKind};

/// The same suite with this key schedule, or with this PRF.
pub fn with_our_schedule(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let ours = SUITES.iter().find(|ours| ours.suite() == suite.suite());
    ours.copied().unwrap_or(suite)
}

static SUITES: LazyLock<Vec<SupportedCipherSuite>> = LazyLock::new(|| {
    let ours = |suite: &SupportedCipherSuite| match *suite {
        SupportedCipherSuite::Tls13(suite) => {
            prepared(suite).map(|suite| SupportedCipherSuite::Tls13(Box::leak(Box::new(suite))))
        }
        SupportedCipherSuite::Tls12(suite) => {
            Some(SupportedCipherSuite::Tls12(Box::leak(Box::new(noting(suite)))))
        }
    };
    ALL_CIPHER_SUITES.iter().filter_map(ours).collect()
});

fn prepared(suite: &Tls13CipherSuite) -> Option<Tls13CipherSuite> {
    let Tls13CipherSuite { common, aead_alg, quic, .. } = suite;
    let hkdf_provider: &dyn Hkdf = match common.hash_provider.algorithm() {
        HashAlgorithm::SHA256 => &SHA256,
        HashAlgorithm::SHA384 => &SHA384,
        _ => return None,
    };
    let common = CipherSuiteCommon { ..*common };
    Some(Tls13CipherSuite { common, hkdf_provider, aead_alg: *aead_alg, quic: *quic })
}

static SHA256: PreparedHkdf<Hmac<Sha256>> = PreparedHkdf::new();
static SHA384: PreparedHkdf<Hmac<Sha384>> = PreparedHkdf::new();

/// HKDF over the HMAC `M`.
struct PreparedHkdf<M> {
    /// The first secret of a session without a PSK, with its HMAC key.
    first: OnceLock<Expander<M>>,
    /// The HMAC key of an extraction without a salt.
    no_salt: OnceLock<M>,
}

/// An HMAC with a prepared key that can be cloned for each message.
trait HmacKey: Mac + KeyInit + Clone + Send + Sync + 'static {}

impl<M: Mac + KeyInit + Clone + Send + Sync + 'static> HmacKey for M {}

/// Zeros of the length of the hash.
fn zeros<M: HmacKey>() -> &'static [u8] {
    &[0; OkmBlock::MAX_LEN][..M::output_size()]
}

fn prepare<M: HmacKey>(key: &[u8]) -> M {
    <M as KeyInit>::new_from_slice(key).expect("an HMAC takes keys of any length")
}

fn sign<M: HmacKey>(mut key: M, message: &[u8]) -> Output<M> {
    key.update(message);
    key.finalize().into_bytes()
}

impl<M: HmacKey> PreparedHkdf<M> {
    const fn new() -> Self {
        PreparedHkdf { first: OnceLock::new(), no_salt: OnceLock::new() }
    }

    /// HKDF-Extract.
    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> Expander<M> {
        let salt = match salt {
            Some(salt) => prepare(salt),
            None => self.no_salt.get_or_init(|| prepare(zeros::<M>())).clone(),
        };
        Expander::of(OkmBlock::new(&sign(salt, secret)))
    }

    /// Extracts from zeros, without a salt.
    fn extract_first(&self) -> Expander<M> {
        let first = self.extract(None, zeros::<M>());
        first.key();
        first
    }
}

impl<M: HmacKey> Hkdf for PreparedHkdf<M> {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        Box::new(match salt {
            None => self.first.get_or_init(|| self.extract_first()).clone(),
            salt => self.extract(salt, zeros::<M>()),
        })
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        // The extraction without a salt uses the PSK of a ticket (RFC 8446, 7.1).
        if salt.is_none() {
            identity::note_offered_key(secret);
        }
        Box::new(self.extract(salt, secret))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Expander::<M>::of(okm.clone()))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        // rustls uses this HMAC only for Finished messages and PSK binders (RFC 8446, 4.4.4 and 4.2.11.2).
        let signed = sign(prepare::<M>(key.as_ref()), message);
        identity::note_finished(&signed);
        Tag::new(&signed)
    }
}

/// HKDF-Expand with one secret.
#[derive(Clone)]
struct Expander<M> {
    secret: OkmBlock,
    /// The prepared HMAC key, set at its first use.
    key: OnceLock<M>,
}

impl<M: HmacKey> Expander<M> {
    fn of(secret: OkmBlock) -> Self {
        Expander { secret, key: OnceLock::new() }
    }

    fn key(&self) -> &M {
        self.key.get_or_init(|| prepare(self.secret.as_ref()))
    }

    /// One output block: the HMAC of the previous block, `info` and the block number (RFC 5869, 2.3).
    fn block(&self, before: &[u8], info: &[&[u8]], number: u8) -> Output<M> {
        let mut mac = self.key().clone();
        mac.update(before);
        info.iter().for_each(|part| mac.update(part));
        sign(mac, &[number])
    }
}

/// The name in a label. The parts of a label are two lengths, "tls13 ", the name, and a context behind its length (RFC
/// 8446, 7.1).
fn label<'i>(info: &[&'i [u8]]) -> &'i [u8] {
    info.get(3).copied().unwrap_or_default()
}

/// The kind of traffic key that a label derives (RFC 8446, 7.3).
fn purpose(info: &[&[u8]]) -> Option<DerivedKind> {
    match label(info) {
        b"key" => Some(DerivedKind::Key),
        b"iv" => Some(DerivedKind::Iv),
        _ => None,
    }
}

impl<M: HmacKey> HkdfExpander for Expander<M> {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        let purpose = purpose(info);
        if purpose.is_some_and(|purpose| traffic_keys::recall(&self.secret, purpose, output)) {
            return Ok(());
        }
        let mut before: Option<Output<M>> = None;
        for (index, part) in output.chunks_mut(self.hash_len()).enumerate() {
            let number = u8::try_from(index + 1).map_err(|_| OutputLengthError)?;
            let block = self.block(before.as_deref().unwrap_or_default(), info, number);
            part.copy_from_slice(&block[..part.len()]);
            before = Some(block);
        }
        if let Some(purpose) = purpose {
            traffic_keys::keep(&self.secret, purpose, output);
        }
        Ok(())
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        let block = self.block(&[], info, 1);
        if label(info) == b"resumption" {
            identity::note_ticket_key(&block);
        }
        OkmBlock::new(&block)
    }

    fn hash_len(&self) -> usize {
        M::output_size()
    }
}

fn noting(suite: &'static Tls12CipherSuite) -> Tls12CipherSuite {
    let Tls12CipherSuite { common, prf_provider, kx, sign, aead_alg } = suite;
    let prf_provider = Box::leak(Box::new(NotingPrf(*prf_provider)));
    Tls12CipherSuite {
        common: CipherSuiteCommon { ..*common },
        prf_provider,
        kx: *kx,
        sign,
        aead_alg: *aead_alg,
    }
}

/// The TLS 1.2 PRF (RFC 5246, 5).
struct NotingPrf(&'static dyn Prf);

impl Prf for NotingPrf {
    fn for_key_exchange(
        &self,
        output: &mut [u8; 48],
        exchange: Box<dyn ActiveKeyExchange>,
        peer: &[u8],
        label: &[u8],
        seed: &[u8],
    ) -> Result<(), Error> {
        self.0.for_key_exchange(output, exchange, peer, label, seed)
    }

    fn for_secret(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
        self.0.for_secret(output, secret, label, seed);
        if let b"client finished" | b"server finished" = label {
            identity::note_key(secret);
            identity::note_finished(output);
        }
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::cipher_suite;

    /// The derived values equal the values of rustls's own provider, in any order of derivation.
    #[test]
    fn derived_keys_equal_those_of_rustls() {
        for suite in [
            &cipher_suite::TLS13_AES_128_GCM_SHA256,
            &cipher_suite::TLS13_AES_256_GCM_SHA384,
            &cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ] {
            let ours = with_our_schedule(*suite);
            assert_eq!(ours, *suite);
            let [ours, theirs] = [ours, *suite].map(|suite| suite.tls13().expect("TLS 1.3").hkdf_provider);
            assert!(!std::ptr::addr_eq(ours, theirs), "the provider is replaced");
            let okm = OkmBlock::new(&[7; 48][..theirs.extract_from_zero_ikm(None).hash_len()]);
            let expanders = |hkdf: &dyn Hkdf| {
                [
                    hkdf.extract_from_zero_ikm(None),
                    hkdf.extract_from_zero_ikm(None),
                    hkdf.extract_from_zero_ikm(Some(b"salt")),
                    hkdf.extract_from_secret(None, b"secret"),
                    hkdf.extract_from_secret(Some(b"salt"), b"secret"),
                    hkdf.expander_for_okm(&okm),
                ]
            };
            for (our, their) in expanders(ours).iter().zip(&expanders(theirs)) {
                assert_eq!(our.hash_len(), their.hash_len());
                for info in [&[&b"label"[..], b"", b"context"][..], &[]] {
                    assert_eq!(our.expand_block(info).as_ref(), their.expand_block(info).as_ref());
                    for length in [0, 1, 12, 32, 48, 100, 255 * our.hash_len()] {
                        let (mut ones, mut others) = (vec![0; length], vec![0; length]);
                        our.expand_slice(info, &mut ones).expect("not too long");
                        their.expand_slice(info, &mut others).expect("not too long");
                        assert_eq!(ones, others);
                    }
                    let mut too_long = vec![0; 255 * our.hash_len() + 1];
                    assert!(our.expand_slice(info, &mut too_long).is_err());
                }
            }
            let signed = |hkdf: &dyn Hkdf| hkdf.hmac_sign(&okm, b"message").as_ref().to_vec();
            assert_eq!(signed(ours), signed(theirs));
        }
    }

    /// In a step of a session, traffic keys equal the library's when they are first derived, and hash nothing the second time.
    #[test]
    fn traffic_keys_are_derived_only_once_per_step() {
        let okm = OkmBlock::new(&[7; 48]);
        let theirs = cipher_suite::TLS13_AES_256_GCM_SHA384.tls13().expect("TLS 1.3").hkdf_provider;
        let expander = || Expander::<Hmac<Sha384>>::of(okm.clone());
        traffic_keys::with_kept(&mut None, || {
            for (name, length) in [(&b"key"[..], 32), (b"iv", 12), (b"finished", 48)] {
                let info = [&[0, 1][..], b"2", b"tls13 ", name, &[0]];
                let mut expected = vec![0; length];
                theirs.expander_for_okm(&okm).expand_slice(&info, &mut expected).expect("not too long");
                for is_again in [false, true] {
                    let (ours, mut derived) = (expander(), vec![0; length]);
                    ours.expand_slice(&info, &mut derived).expect("not too long");
                    assert_eq!(derived, expected);
                    assert_eq!(ours.key.get().is_none(), is_again && name != b"finished");
                }
            }
        });
    }
}
