//! Signed requests: flattened JSON Web Signatures (RFC 7515, section 7.2.2; RFC 8555, section 6.2).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::account::{AccountKey, KeyError};
use crate::json::{encode, quoted};

/// Who signs a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer<'a> {
    /// The key itself, for an account without a URL.
    Key,
    /// The account of this URL.
    Account(&'a str),
}

/// Signs a request to `url`. The payload is JSON, or empty for a request that reads (POST-as-GET).
///
/// # Errors
/// If the system fails to make random numbers.
pub(crate) fn sign(
    key: &AccountKey,
    signer: Signer<'_>,
    nonce: &str,
    url: &str,
    payload: &str,
) -> Result<String, KeyError> {
    let who = match signer {
        Signer::Key => format!(r#""jwk":{}"#, key.jwk()),
        Signer::Account(account) => format!(r#""kid":{}"#, quoted(account)),
    };
    let algorithm = key.algorithm();
    let header = format!(r#"{{"alg":"{algorithm}",{who},"nonce":{},"url":{}}}"#, quoted(nonce), quoted(url));
    let signed = format!("{}.{}", encode(header.as_bytes()), encode(payload.as_bytes()));
    let signature = key.sign(signed.as_bytes())?;
    Ok(flattened(&signed, &signature))
}

/// `signed` is the header and the payload with a point between them.
fn flattened(signed: &str, signature: &[u8]) -> String {
    let (header, payload) = signed.split_once('.').unwrap_or((signed, ""));
    format!(r#"{{"protected":"{header}","payload":"{payload}","signature":"{}"}}"#, encode(signature))
}

/// The binding of an account to one that the authority knows otherwise (RFC 8555, section 7.3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccount {
    pub key_id: String,
    /// The key as bytes, which authorities hand out in base64url.
    pub mac_key: Vec<u8>,
    pub algorithm: MacAlgorithm,
}

impl std::fmt::Debug for ExternalAccount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// The algorithm of an [`ExternalAccount`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MacAlgorithm {
    #[default]
    Hs256,
    Hs384,
    Hs512,
}

impl MacAlgorithm {
    /// The algorithm of a name in the configuration.
    pub fn named(name: &str) -> Option<MacAlgorithm> {
        Some(match name {
            "HS256" => MacAlgorithm::Hs256,
            "HS384" => MacAlgorithm::Hs384,
            "HS512" => MacAlgorithm::Hs512,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            MacAlgorithm::Hs256 => "HS256",
            MacAlgorithm::Hs384 => "HS384",
            MacAlgorithm::Hs512 => "HS512",
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            MacAlgorithm::Hs256 => hmac::HMAC_SHA256,
            MacAlgorithm::Hs384 => hmac::HMAC_SHA384,
            MacAlgorithm::Hs512 => hmac::HMAC_SHA512,
        }
    }
}

impl ExternalAccount {
    /// An account with the key in base64url, as authorities hand it out. Padding and white space around it are ignored. `None` if it is not
    /// base64url, or empty.
    pub fn new(key_id: &str, mac_key: &str, algorithm: MacAlgorithm) -> Option<ExternalAccount> {
        let mac_key = BASE64_URL_SAFE_NO_PAD.decode(mac_key.trim().trim_end_matches('=')).ok()?;
        (!mac_key.is_empty()).then(|| ExternalAccount {
            key_id: key_id.trim().to_owned(),
            mac_key,
            algorithm,
        })
    }

    /// The object `externalAccountBinding` of a request to `url` that makes an account.
    pub(crate) fn binding(&self, key: &AccountKey, url: &str) -> String {
        let (algorithm, id) = (self.algorithm.name(), quoted(&self.key_id));
        let header = format!(r#"{{"alg":"{algorithm}","kid":{id},"url":{}}}"#, quoted(url));
        let signed = format!("{}.{}", encode(header.as_bytes()), encode(key.jwk().as_bytes()));
        let secret = hmac::Key::new(self.algorithm.hmac(), &self.mac_key);
        flattened(&signed, hmac::sign(&secret, signed.as_bytes()).as_ref())
    }
}
