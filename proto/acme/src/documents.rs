//! The documents of an authority (RFC 8555, section 7.1), checked and bounded.

use serde_json::Value;

use crate::challenge::{Challenge, ChallengeKind};
use crate::identifier::Identifier;
use crate::json::{Malformed, is_url, object, text, url};
use crate::problem::AcmeProblem;

/// The addresses of an authority (section 7.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub new_nonce: String,
    pub new_account: String,
    pub new_order: String,
    /// RFC 9773, section 4.
    pub renewal_info: Option<String>,
    pub requires_external_account: bool,
    /// The names of profiles. May be empty.
    pub profiles: Vec<String>,
}

/// The state of an order or an authorization (section 7.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Pending,
    Ready,
    Processing,
    Valid,
    Invalid,
    Deactivated,
    Expired,
    Revoked,
}

/// An order (section 7.1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateOrder {
    pub status: Status,
    pub authorizations: Vec<String>,
    pub finalize: String,
    pub certificate: Option<String>,
    pub error: Option<AcmeProblem>,
}

/// An authorization (section 7.1.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    pub status: Status,
    /// Without the `*.` of a wildcard.
    pub identifier: Identifier,
    pub is_wildcard: bool,
    pub challenges: Vec<Challenge>,
}

impl Directory {
    /// Reads a directory. `secure` if its own URL has TLS.
    ///
    /// # Errors
    /// The field that is missing or wrong.
    pub fn read(body: &[u8], secure: bool) -> Result<Directory, Malformed> {
        let value = object(body)?;
        let renewal_info = match value["renewalInfo"].is_null() {
            true => None,
            false => Some(url(&value, "renewalInfo", secure)?),
        };
        let profiles = value["meta"]["profiles"].as_object();
        let profiles = profiles.map(|profiles| profiles.keys().take(MOST_ITEMS).cloned().collect());
        Ok(Directory {
            new_nonce: url(&value, "newNonce", secure)?,
            new_account: url(&value, "newAccount", secure)?,
            new_order: url(&value, "newOrder", secure)?,
            renewal_info,
            requires_external_account: value["meta"]["externalAccountRequired"].as_bool().unwrap_or(false),
            profiles: profiles.unwrap_or_default(),
        })
    }
}

impl Status {
    fn read(value: &Value) -> Result<Status, Malformed> {
        Ok(match text(value, "status")? {
            "pending" => Status::Pending,
            "ready" => Status::Ready,
            "processing" => Status::Processing,
            "valid" => Status::Valid,
            "invalid" => Status::Invalid,
            "deactivated" => Status::Deactivated,
            "expired" => Status::Expired,
            "revoked" => Status::Revoked,
            _ => return Err(Malformed("status")),
        })
    }
}

impl CertificateOrder {
    /// Reads an order.
    ///
    /// # Errors
    /// The field that is missing or wrong.
    pub fn read(body: &[u8], secure: bool) -> Result<CertificateOrder, Malformed> {
        let value = object(body)?;
        let list = value["authorizations"].as_array().filter(|list| (1..=MOST_ITEMS).contains(&list.len()));
        let authorizations = list.ok_or(Malformed("authorizations"))?.iter().map(|one| match one.as_str() {
            Some(text) if is_url(text, secure) => Ok(text.to_owned()),
            _ => Err(Malformed("authorizations")),
        });
        let certificate = match value["certificate"].is_null() {
            true => None,
            false => Some(url(&value, "certificate", secure)?),
        };
        Ok(CertificateOrder {
            status: Status::read(&value)?,
            authorizations: authorizations.collect::<Result<_, _>>()?,
            finalize: url(&value, "finalize", secure)?,
            certificate,
            error: value["error"].is_object().then(|| AcmeProblem::of(&value["error"])),
        })
    }
}

impl Authorization {
    /// Reads an authorization. Challenges of unknown kinds are left out.
    ///
    /// # Errors
    /// The field that is missing or wrong.
    pub fn read(body: &[u8], secure: bool) -> Result<Authorization, Malformed> {
        let value = object(body)?;
        let identifier = &value["identifier"];
        let name = Identifier::parse(text(identifier, "value")?).ok_or(Malformed("identifier"))?;
        if identifier["type"] != name.kind() || name.is_wildcard() {
            return Err(Malformed("identifier"));
        }
        let list = value["challenges"].as_array().filter(|list| list.len() <= MOST_ITEMS);
        let mut challenges = Vec::new();
        for one in list.ok_or(Malformed("challenges"))? {
            if let Some(kind) = one["type"].as_str().and_then(ChallengeKind::named) {
                challenges.push(Challenge::read(kind, one, secure)?);
            }
        }
        Ok(Authorization {
            status: Status::read(&value)?,
            identifier: name,
            is_wildcard: value["wildcard"].as_bool().unwrap_or(false),
            challenges,
        })
    }
}

/// The most authorizations of an order, and challenges of an authorization. Authorities allow 100 names, or less.
const MOST_ITEMS: usize = 1000;
