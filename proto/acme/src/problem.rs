//! Errors of an authority (RFC 8555, section 6.7; RFC 7807).

use serde_json::Value;

/// An error that an authority answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeProblem {
    /// The type without `urn:ietf:params:acme:error:`, such as `rateLimited`. May be empty.
    pub kind: String,
    /// For people. Without control characters, and bounded.
    pub detail: String,
    /// The errors of single names: the name, the type and the detail.
    pub parts: Vec<(String, String, String)>,
}

impl AcmeProblem {
    /// Reads an error from an answer. One that is not JSON has neither type nor detail.
    pub fn read(body: &[u8]) -> AcmeProblem {
        crate::json::object(body).map(|value| AcmeProblem::of(&value)).unwrap_or_default()
    }

    pub(crate) fn of(value: &Value) -> AcmeProblem {
        let parts = value["subproblems"].as_array().into_iter().flatten().take(MOST_PARTS);
        let parts = parts.map(|part| {
            let name = printable(part["identifier"]["value"].as_str().unwrap_or_default());
            (name, kind(part), printable(part["detail"].as_str().unwrap_or_default()))
        });
        AcmeProblem {
            kind: kind(value),
            detail: printable(value["detail"].as_str().unwrap_or_default()),
            parts: parts.collect(),
        }
    }

    /// Whether a repetition with a new nonce may succeed.
    pub fn is_bad_nonce(&self) -> bool {
        self.kind == "badNonce"
    }

    /// Whether the authority wants fewer requests.
    pub fn is_rate_limit(&self) -> bool {
        self.kind == "rateLimited"
    }

    /// Whether the account is unknown to the authority, such as that of a restored backup.
    pub fn is_unknown_account(&self) -> bool {
        self.kind == "accountDoesNotExist"
    }
}

impl std::fmt::Display for AcmeProblem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&*self.kind, &*self.detail) {
            ("", "") => formatter.write_str("without an explanation")?,
            ("", detail) => formatter.write_str(detail)?,
            (kind, "") => formatter.write_str(kind)?,
            (kind, detail) => write!(formatter, "{kind}: {detail}")?,
        }
        for (name, kind, detail) in &self.parts {
            write!(formatter, "; {name}: {kind}: {detail}")?;
        }
        Ok(())
    }
}

fn kind(value: &Value) -> String {
    let text = value["type"].as_str().unwrap_or_default();
    printable(text.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(text))
}

/// The text on one line, cut to [`MOST_TEXT`] characters.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MOST_TEXT)
        .collect()
}

/// In characters.
const MOST_TEXT: usize = 512;
const MOST_PARTS: usize = 20;
