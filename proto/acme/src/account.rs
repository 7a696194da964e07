//! The key of an account: signatures of requests (RFC 7518), and its thumbprint (RFC 7638).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256,
};

use crate::json::encode;

/// The private key of an account.
#[derive(Debug)]
pub struct AccountKey {
    pair: Pair,
    /// The public key as a JSON Web Key, with its members in the order of RFC 7638, section 3.
    jwk: String,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair, KeyCurve),
}

/// A curve of ECDSA keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCurve {
    P256,
    P384,
    P521,
}

/// The kind of a key to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountKeyKind {
    Ecdsa(KeyCurve),
    /// With so many bits: 2048, 3072, 4096 or 8192.
    Rsa(u32),
}

/// Why a key is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Neither RSA from 2048 bits on, nor ECDSA on P-256, P-384 or P-521; or damaged.
    Unknown,
    /// The library failed to make a key.
    NotMade,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            KeyError::Unknown => {
                "expected an RSA key of 2048 to 8192 bits, or an ECDSA key on P-256, P-384 or P-521"
            }
            KeyError::NotMade => "the cryptographic library failed to make a key",
        })
    }
}

impl std::error::Error for KeyError {}

impl KeyCurve {
    const ALL: [KeyCurve; 3] = [KeyCurve::P256, KeyCurve::P384, KeyCurve::P521];

    fn algorithm(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            KeyCurve::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            KeyCurve::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            KeyCurve::P521 => &ECDSA_P521_SHA512_FIXED_SIGNING,
        }
    }

    /// The name in JSON Web Keys, which `curves` of the configuration also uses.
    pub fn name(self) -> &'static str {
        match self {
            KeyCurve::P256 => "P-256",
            KeyCurve::P384 => "P-384",
            KeyCurve::P521 => "P-521",
        }
    }

    /// The curve of a name, also of OpenSSL's names.
    pub fn named(name: &str) -> Option<KeyCurve> {
        Some(match name {
            "P-256" | "prime256v1" | "secp256r1" => KeyCurve::P256,
            "P-384" | "secp384r1" => KeyCurve::P384,
            "P-521" | "secp521r1" => KeyCurve::P521,
            _ => return None,
        })
    }
}

/// Makes a private key, in DER of PKCS #8. Takes up to seconds for RSA.
///
/// # Errors
/// [`KeyError::NotMade`], also for a size that is not one of [`AccountKeyKind::Rsa`].
pub fn make_key(kind: AccountKeyKind) -> Result<Vec<u8>, KeyError> {
    let failed = |_| KeyError::NotMade;
    match kind {
        AccountKeyKind::Ecdsa(curve) => {
            let pair =
                EcdsaKeyPair::generate_pkcs8(curve.algorithm(), &SystemRandom::new()).map_err(failed)?;
            Ok(pair.as_ref().to_vec())
        }
        AccountKeyKind::Rsa(bits) => {
            let size = match bits {
                2048 => KeySize::Rsa2048,
                3072 => KeySize::Rsa3072,
                4096 => KeySize::Rsa4096,
                8192 => KeySize::Rsa8192,
                _ => return Err(KeyError::NotMade),
            };
            let pair = RsaKeyPair::generate(size).map_err(failed)?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
            Ok(der.as_ref().to_vec())
        }
    }
}

impl AccountKey {
    /// The key in this DER: PKCS #8, PKCS #1 (RSA) or SEC 1 (ECDSA).
    ///
    /// # Errors
    /// [`KeyError::Unknown`].
    pub fn from_der(der: &[u8]) -> Result<AccountKey, KeyError> {
        let pair = Pair::from_der(der).ok_or(KeyError::Unknown)?;
        Ok(AccountKey { jwk: pair.jwk(), pair })
    }

    /// The public key as a JSON Web Key.
    pub fn jwk(&self) -> &str {
        &self.jwk
    }

    /// The hash of the public key that challenges contain (RFC 8555, section 8.1), in base64url.
    pub fn thumbprint(&self) -> String {
        encode(digest(&SHA256, self.jwk.as_bytes()).as_ref())
    }

    /// The `alg` of signatures.
    pub(crate) fn algorithm(&self) -> &'static str {
        match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::Ecdsa(_, KeyCurve::P256) => "ES256",
            Pair::Ecdsa(_, KeyCurve::P384) => "ES384",
            Pair::Ecdsa(_, KeyCurve::P521) => "ES512",
        }
    }

    /// Signs a message.
    ///
    /// # Errors
    /// If the system fails to make random numbers.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.map(|()| signature).map_err(|_| KeyError::NotMade)
            }
            Pair::Ecdsa(pair, _) => {
                let signature = pair.sign(&random, message).map_err(|_| KeyError::NotMade)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

impl Pair {
    fn from_der(der: &[u8]) -> Option<Pair> {
        let ecdsa = |curve: KeyCurve| {
            let pair = EcdsaKeyPair::from_pkcs8(curve.algorithm(), der)
                .or_else(|_| EcdsaKeyPair::from_private_key_der(curve.algorithm(), der));
            pair.ok().map(|pair| Pair::Ecdsa(pair, curve))
        };
        let rsa = || RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)).ok().map(Pair::Rsa);
        KeyCurve::ALL.into_iter().find_map(ecdsa).or_else(rsa)
    }

    fn jwk(&self) -> String {
        match self {
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                let number = |bytes: &[u8]| encode(bytes);
                let exponent = number(public.exponent().big_endian_without_leading_zero());
                let modulus = number(public.modulus().big_endian_without_leading_zero());
                format!(r#"{{"e":"{exponent}","kty":"RSA","n":"{modulus}"}}"#)
            }
            Pair::Ecdsa(pair, curve) => {
                // An uncompressed point (SEC 1, section 2.3.3): a byte 4, and two coordinates of one length.
                let point = pair.public_key().as_ref().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                format!(r#"{{"crv":"{}","kty":"EC","x":"{}","y":"{}"}}"#, curve.name(), encode(x), encode(y))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::is_signed;

    #[test]
    fn public_keys_verify_the_signatures_of_each_kind_of_key() {
        let kinds = [
            (AccountKeyKind::Ecdsa(KeyCurve::P256), "ES256"),
            (AccountKeyKind::Ecdsa(KeyCurve::P384), "ES384"),
            (AccountKeyKind::Ecdsa(KeyCurve::P521), "ES512"),
            (AccountKeyKind::Rsa(2048), "RS256"),
        ];
        for (kind, algorithm) in kinds {
            let key = AccountKey::from_der(&make_key(kind).expect("random numbers")).expect("a key of ours");
            let jwk: Value = serde_json::from_str(key.jwk()).expect("JSON");
            let header = json!({"alg": key.algorithm(), "jwk": jwk});
            assert_eq!(key.algorithm(), algorithm);
            let signature = key.sign(b"message").expect("random numbers");
            assert!(
                is_signed(&header, b"message", &signature) && !is_signed(&header, b"massage", &signature),
                "{kind:?}"
            );
            // RFC 7638: no white space, members in the order of their names.
            let members: Vec<_> = key.jwk().split('"').skip(1).step_by(4).collect();
            assert!(members.is_sorted() && !key.jwk().contains(' '), "{members:?}");
        }
    }

    #[test]
    fn other_keys_are_refused() {
        assert_eq!(make_key(AccountKeyKind::Rsa(1024)), Err(KeyError::NotMade));
        let der = make_key(AccountKeyKind::Ecdsa(KeyCurve::P256)).expect("random numbers");
        for damaged in [&b""[..], b"-----BEGIN", &der[..der.len() - 1]] {
            assert_eq!(AccountKey::from_der(damaged).err(), Some(KeyError::Unknown));
        }
    }
}
