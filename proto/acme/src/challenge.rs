//! Proofs of control of a name (RFC 8555, section 8).

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value;

use crate::account::AccountKey;
use crate::identifier::Identifier;
use crate::json::{Malformed, encode, is_url, text, url};
use crate::problem::AcmeProblem;

/// A kind of challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// A file below `/.well-known/acme-challenge/` on port 80 (section 8.3).
    Http01,
    /// A TXT record of `_acme-challenge` (section 8.4).
    Dns01,
    /// A TXT record of `_validation-persist` that stays (draft-ietf-acme-dns-persist).
    DnsPersist01,
    /// A certificate of its own for the protocol `acme-tls/1` on port 443 (RFC 8737).
    TlsAlpn01,
}

/// A challenge of an authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    pub kind: ChallengeKind,
    pub url: String,
    /// In base64url. Empty for [`ChallengeKind::DnsPersist01`].
    pub token: String,
    /// The names of the authority that a persistent record may have. Empty for other kinds.
    pub issuers: Vec<String>,
    /// Why the authority's validation failed.
    pub error: Option<AcmeProblem>,
}

impl ChallengeKind {
    pub const ALL: [ChallengeKind; 4] =
        [ChallengeKind::Http01, ChallengeKind::Dns01, ChallengeKind::DnsPersist01, ChallengeKind::TlsAlpn01];

    /// The name in ACME and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            ChallengeKind::Http01 => "http-01",
            ChallengeKind::Dns01 => "dns-01",
            ChallengeKind::DnsPersist01 => "dns-persist-01",
            ChallengeKind::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// The kind of a name.
    pub fn named(name: &str) -> Option<ChallengeKind> {
        ChallengeKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it can prove control of this identifier (RFC 8555, section 7.1.3; RFC 8738, section 7).
    pub fn proves(self, identifier: &Identifier, is_wildcard: bool) -> bool {
        let is_dns = matches!(self, ChallengeKind::Dns01 | ChallengeKind::DnsPersist01);
        match identifier {
            Identifier::Dns(_) => is_dns || !is_wildcard,
            Identifier::Ip(_) => !is_dns,
        }
    }
}

impl Challenge {
    pub(crate) fn read(kind: ChallengeKind, value: &Value, secure: bool) -> Result<Challenge, Malformed> {
        let (token, issuers) = match kind {
            ChallengeKind::DnsPersist01 => (String::new(), issuers(value)?),
            _ => (token(value)?, Vec::new()),
        };
        let error = value["error"].is_object().then(|| AcmeProblem::of(&value["error"]));
        Ok(Challenge { kind, url: url(value, "url", secure)?, token, issuers, error })
    }

    /// The token and the thumbprint of the key: the body of a file, and the secret of other kinds (section 8.1).
    pub fn key_authorization(&self, key: &AccountKey) -> String {
        format!("{}.{}", self.token, key.thumbprint())
    }

    /// The value of the TXT record for [`ChallengeKind::Dns01`].
    pub fn dns_value(&self, key: &AccountKey) -> String {
        encode(digest(&SHA256, self.key_authorization(key).as_bytes()).as_ref())
    }

    /// The digest in the certificate for [`ChallengeKind::TlsAlpn01`] (RFC 8737, section 3).
    pub fn tls_digest(&self, key: &AccountKey) -> [u8; 32] {
        let found = digest(&SHA256, self.key_authorization(key).as_bytes());
        found.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The value of the TXT record for [`ChallengeKind::DnsPersist01`], for the account of this URL.
    pub fn persistent_value(&self, account: &str, is_wildcard: bool) -> Option<String> {
        let issuer = self.issuers.first()?;
        let policy = if is_wildcard { "; policy=wildcard" } else { "" };
        is_url(account, false).then(|| format!("{issuer}; accounturi={account}{policy}"))
    }
}

/// The name of the TXT record that proves control of `name` by this kind. `None` for kinds without one.
pub fn record_name(kind: ChallengeKind, name: &str) -> Option<String> {
    let name = name.strip_prefix("*.").unwrap_or(name);
    match kind {
        ChallengeKind::Dns01 => Some(format!("_acme-challenge.{name}")),
        ChallengeKind::DnsPersist01 => Some(format!("_validation-persist.{name}")),
        ChallengeKind::Http01 | ChallengeKind::TlsAlpn01 => None,
    }
}

/// A token has the characters of base64url only: it becomes part of a path and of names of files.
fn token(value: &Value) -> Result<String, Malformed> {
    let token = text(value, "token")?;
    let is_safe = token.len() <= MOST_TOKEN
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_safe { Ok(token.to_owned()) } else { Err(Malformed("token")) }
}

/// Names of issuers become part of a record: without separators.
fn issuers(value: &Value) -> Result<Vec<String>, Malformed> {
    let malformed = Malformed("issuer-domain-names");
    let list =
        value["issuer-domain-names"].as_array().filter(|list| (1..=MOST_ISSUERS).contains(&list.len()));
    let names = list.ok_or(malformed)?.iter().map(|one| match one.as_str().and_then(Identifier::parse) {
        Some(Identifier::Dns(name)) if !name.starts_with('*') => Ok(name),
        _ => Err(malformed),
    });
    names.collect()
}

/// The longest token in bytes. Authorities use 43.
const MOST_TOKEN: usize = 256;
/// The draft allows ten.
const MOST_ISSUERS: usize = 10;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::account::{AccountKeyKind, KeyCurve, make_key};

    fn read(kind: ChallengeKind, value: Value) -> Result<Challenge, Malformed> {
        Challenge::read(kind, &value, true)
    }

    #[test]
    fn proofs_are_made_of_the_token_and_the_key() {
        let der = make_key(AccountKeyKind::Ecdsa(KeyCurve::P256)).expect("random numbers");
        let key = AccountKey::from_der(&der).expect("a key of ours");
        let challenge = read(ChallengeKind::Http01, json!({"url": "https://a/1", "token": "abc-_9"}))
            .expect("it is valid");
        let proof = challenge.key_authorization(&key);
        assert_eq!(proof, format!("abc-_9.{}", key.thumbprint()));
        assert_eq!(key.thumbprint().len(), 43);
        let hash = digest(&SHA256, proof.as_bytes());
        assert_eq!(challenge.tls_digest(&key), hash.as_ref());
        assert_eq!(challenge.dns_value(&key), encode(hash.as_ref()));
        assert_eq!(record_name(ChallengeKind::Dns01, "*.a.test").as_deref(), Some("_acme-challenge.a.test"));
        assert_eq!(record_name(ChallengeKind::TlsAlpn01, "a.test"), None);
    }

    #[test]
    fn persistent_records_name_issuer_account_and_policy() {
        let value = json!({"url": "https://a/1", "issuer-domain-names": ["ca.test", "other.test"]});
        let challenge = read(ChallengeKind::DnsPersist01, value).expect("it is valid");
        let account = "https://a/account/1";
        assert_eq!(
            challenge.persistent_value(account, false).as_deref(),
            Some("ca.test; accounturi=https://a/account/1")
        );
        assert_eq!(
            challenge.persistent_value(account, true).as_deref(),
            Some("ca.test; accounturi=https://a/account/1; policy=wildcard")
        );
        assert_eq!(challenge.persistent_value("https://a/; x", false), None);
        for wrong in [
            json!([]),
            json!(null),
            json!(["a; accounturi=x"]),
            json!(vec!["a.test"; 11]),
            json!(["*.a.test"]),
        ] {
            let value = json!({"url": "https://a/1", "issuer-domain-names": wrong});
            assert_eq!(read(ChallengeKind::DnsPersist01, value), Err(Malformed("issuer-domain-names")));
        }
    }

    #[test]
    fn tokens_and_urls_with_other_characters_are_refused() {
        for token in [
            json!(""),
            json!("a/b"),
            json!(".."),
            json!("a b"),
            json!("\u{e9}"),
            json!(7),
            json!("a".repeat(257)),
        ] {
            assert_eq!(
                read(ChallengeKind::Http01, json!({"url": "https://a/1", "token": token})),
                Err(Malformed("token"))
            );
        }
        for url in ["http://a/1", "https://a/ 1", "https://a/\n", "ftp://a", ""] {
            assert_eq!(
                read(ChallengeKind::Http01, json!({"url": url, "token": "a"})),
                Err(Malformed("url")),
                "{url}"
            );
        }
    }

    #[test]
    fn kinds_of_challenges_prove_names_or_addresses() {
        let name = Identifier::parse("a.test").expect("a name");
        let address = Identifier::parse("192.0.2.1").expect("an address");
        let proves = |identifier: &Identifier, is_wildcard| {
            ChallengeKind::ALL.map(|kind| kind.proves(identifier, is_wildcard))
        };
        assert_eq!(proves(&name, false), [true; 4]);
        assert_eq!(proves(&name, true), [false, true, true, false]);
        assert_eq!(proves(&address, false), [true, false, false, true]);
        assert!(ChallengeKind::ALL.into_iter().all(|kind| ChallengeKind::named(kind.name()) == Some(kind)));
    }
}
