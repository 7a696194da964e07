//! The public keys in files that `jwt_verify` names: read at start, found by path.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::signature::{self, ParsedPublicKey, VerificationAlgorithm};
use weir_fingerprint::{Canonical, Fingerprint};
use weir_syntax::Files;

/// The keys of a configuration, shared by path.
#[derive(Clone, Debug, Default)]
pub struct TokenKeys(Arc<ArcSwap<HashMap<Box<str>, KeyFile>>>);

/// A file that was read.
#[derive(Clone, Debug)]
struct KeyFile {
    key: Arc<TokenKey>,
    fingerprint: Fingerprint,
}

impl TokenKeys {
    /// An empty store.
    pub fn new() -> TokenKeys {
        TokenKeys::default()
    }

    /// The key of a file that was read before.
    pub(crate) fn find(&self, path: &str) -> Option<Arc<TokenKey>> {
        self.0.load().get(path).map(|file| Arc::clone(&file.key))
    }

    /// The fingerprint of a file that was read before.
    pub(crate) fn fingerprint(&self, path: &str) -> Option<Fingerprint> {
        self.0.load().get(path).map(|file| file.fingerprint)
    }

    /// Reads the key of a file, unless it was read before. False if the file does not exist.
    ///
    /// # Errors
    /// The reason why the file lacks a usable key.
    pub(crate) fn read(&self, path: &str, files: &dyn Files) -> Result<bool, String> {
        if self.find(path).is_some() {
            return Ok(true);
        }
        let Ok(pem) = files.read(path, MOST_BYTES) else { return Ok(false) };
        let file =
            KeyFile { key: Arc::new(TokenKey::from_pem(&pem)?), fingerprint: Fingerprint::of_file(&pem) };
        self.0.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.insert(path.into(), file.clone());
            known
        });
        Ok(true)
    }
}

/// A public key.
pub(crate) enum TokenKey {
    /// For PKCS #1 with SHA-256, SHA-384 and SHA-512, and for PSS with each of them.
    Rsa(Box<[ParsedPublicKey; 6]>),
    Ec(Curve, ParsedPublicKey),
}

/// A curve. It implies the digest (RFC 7518, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub(crate) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// The length of a signature in bytes: two numbers.
    pub(crate) fn signature_length(self) -> usize {
        match self {
            Curve::P256 => 64,
            Curve::P384 => 96,
            Curve::P521 => 132,
        }
    }
}

impl TokenKey {
    fn from_pem(text: &[u8]) -> Result<TokenKey, String> {
        let blocks = pem::parse_many(text).unwrap_or_default();
        let Some(block) = blocks.iter().find(|block| KEY_LABELS.contains(&block.tag())) else {
            let found: Vec<&str> = blocks.iter().map(pem::Pem::tag).collect();
            return Err(match &found[..] {
                [] => "no PEM block is in it, a 'PUBLIC KEY' is expected".to_owned(),
                found => format!(
                    "a 'PUBLIC KEY' is expected, found is '{}': 'openssl x509 -pubkey' and 'openssl pkey -pubout' write one",
                    found.join("', '")
                ),
            });
        };
        let key = |algorithm: &'static dyn VerificationAlgorithm| {
            ParsedPublicKey::new(algorithm, block.contents()).ok()
        };
        for (curve, algorithm) in CURVES {
            if let Some(key) = key(algorithm) {
                return Ok(TokenKey::Ec(curve, key));
            }
        }
        let [a, b, c, d, e, f] = RSA.map(key);
        match (a, b, c, d, e, f) {
            (Some(_), ..) if block.contents().len() < SHORTEST_RSA => {
                Err("an RSA key has 2048 to 8192 bits (RFC 7518, 3.3)".to_owned())
            }
            (Some(a), Some(b), Some(c), Some(d), Some(e), Some(f)) => {
                Ok(TokenKey::Rsa(Box::new([a, b, c, d, e, f])))
            }
            _ => Err("the key is neither one of RSA with 2048 to 8192 bits nor of the curves P-256, P-384, P-521 (RFC 7518, 3)"
                .to_owned()),
        }
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenKey::Rsa(_) => "an RSA key",
            TokenKey::Ec(..) => "an elliptic key",
        })
    }
}

/// The labels of PEM blocks with public keys: any kind of key, and RSA in its own format (PKCS #1).
const KEY_LABELS: [&str; 2] = ["PUBLIC KEY", "RSA PUBLIC KEY"];
const CURVES: [(Curve, &dyn VerificationAlgorithm); 3] = [
    (Curve::P256, &signature::ECDSA_P256_SHA256_FIXED),
    (Curve::P384, &signature::ECDSA_P384_SHA384_FIXED),
    (Curve::P521, &signature::ECDSA_P521_SHA512_FIXED),
];
const RSA: [&dyn VerificationAlgorithm; 6] = [
    &signature::RSA_PKCS1_2048_8192_SHA256,
    &signature::RSA_PKCS1_2048_8192_SHA384,
    &signature::RSA_PKCS1_2048_8192_SHA512,
    &signature::RSA_PSS_2048_8192_SHA256,
    &signature::RSA_PSS_2048_8192_SHA384,
    &signature::RSA_PSS_2048_8192_SHA512,
];
/// The shortest encoding of an RSA key, in bytes: its modulus has 2048 bits.
const SHORTEST_RSA: usize = 256;
/// The largest key file in bytes.
const MOST_BYTES: u64 = 1 << 20;
