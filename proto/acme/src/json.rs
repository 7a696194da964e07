//! The formats of ACME: JSON and base64url.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

/// A document that violates RFC 8555. The text names the missing or wrong part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the authority's answer is invalid: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads a document.
///
/// # Errors
/// If it is longer than [`MOST_BYTES`], or not a JSON object.
pub(crate) fn object(body: &[u8]) -> Result<Value, Malformed> {
    if body.len() > MOST_BYTES {
        return Err(Malformed("the document is too long"));
    }
    let value: Value = serde_json::from_slice(body).map_err(|_| Malformed("it is not JSON"))?;
    if value.is_object() { Ok(value) } else { Err(Malformed("it is not a JSON object")) }
}

/// A text of a document, if it has a usable length and no control characters.
pub(crate) fn text<'v>(value: &'v Value, name: &'static str) -> Result<&'v str, Malformed> {
    let text = value[name].as_str().ok_or(Malformed(name))?;
    let is_usable = (1..=MOST_TEXT).contains(&text.len()) && !text.chars().any(char::is_control);
    if is_usable { Ok(text) } else { Err(Malformed(name)) }
}

/// The text of a document, or `None` without it.
pub(crate) fn optional_text<'v>(value: &'v Value, name: &'static str) -> Result<Option<&'v str>, Malformed> {
    if value[name].is_null() { Ok(None) } else { text(value, name).map(Some) }
}

/// A URL of a document. An authority with TLS may name only URLs with TLS.
pub(crate) fn url(value: &Value, name: &'static str, secure: bool) -> Result<String, Malformed> {
    let text = text(value, name)?;
    if is_url(text, secure) { Ok(text.to_owned()) } else { Err(Malformed(name)) }
}

/// Whether a text is an absolute URL of HTTP, of printable ASCII.
pub(crate) fn is_url(text: &str, secure: bool) -> bool {
    let is_http = text.starts_with("https://") || (!secure && text.starts_with("http://"));
    is_http && text.len() <= MOST_TEXT && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> Value {
    Value::from(text)
}

/// Encodes bytes in base64url without padding, as everywhere in ACME.
pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// The longest document in bytes. Orders of a hundred names have 20 kB.
pub const MOST_BYTES: usize = 256 * 1024;
/// The longest text or URL in a document, in bytes.
const MOST_TEXT: usize = 4096;
