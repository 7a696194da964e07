//! Responses that the proxy makes itself: `deny`, `return`, `tarpit`, `http-error`, `errorfile`, `errorloc`.

use std::sync::{Arc, OnceLock};

use weir_expr::{Location, LogFormat};
use weir_fingerprint::{Canonical, FormEncoder};

/// A response made of a rule's arguments.
#[derive(Clone, Debug, Canonical)]
pub struct Reply {
    /// The status. 0 for the rule's default (403 for `deny`, 500 for `tarpit`, 200 for `return`).
    pub status: u16,
    /// The `content-type`. None for the type of the content.
    pub content_type: Option<Arc<str>>,
    /// The body, or its source.
    pub content: ReplyContent,
    /// `hdr <name> <fmt>`: further headers, in order.
    pub headers: Vec<ReplyHeader>,
}

/// One `hdr` of a reply.
#[derive(Clone, Debug, Canonical)]
pub struct ReplyHeader {
    pub name: Box<str>,
    pub value: LogFormat,
}

/// The content of a reply.
#[derive(Clone, Debug, Canonical)]
pub enum ReplyContent {
    /// The proxy's error message for the status: an `errorfile` or similar word, else the built-in message.
    ProxyDefault,
    /// Nothing but headers: a `return` or `http-error` without content.
    Empty,
    /// `errorfile <file>`: a complete message.
    Message(Arc<ErrorMessage>),
    /// `errorfiles <name>`: the message of an `http-errors` section for the reply's status.
    Section(Arc<ErrorSection>),
    /// `string` or `file`: a fixed body.
    Body(Arc<[u8]>),
    /// `lf-string` or `lf-file`: a body made for each request.
    Format(Arc<LogFormat>),
}

/// A message of an `http-errors` section, which may be written after the rule that uses it.
#[derive(Debug)]
pub struct ErrorSection {
    pub name: Box<str>,
    /// The message, set once the configuration is complete. Absent if the section lacks the status.
    pub message: OnceLock<Arc<ErrorMessage>>,
}

/// Encoded as the message: the section is only a declaration.
impl Canonical for ErrorSection {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let ErrorSection { name: _, message } = self;
        message.get().encode(out);
    }
}

/// An `http-errors` section. Its messages count as parts of the objects that name it.
#[derive(Clone, Debug, Canonical)]
pub struct HttpErrors {
    pub name: Box<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    pub replies: Arc<ErrorReplies>,
}

/// The message of an `errorfile`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct ErrorMessage {
    /// The file.
    #[canonical(skip = "the content of the file counts")]
    pub path: Box<str>,
    /// None for an empty file like `/dev/null`: the connection closes without a response.
    pub response: Option<ErrorResponse>,
}

/// A complete response, without the fields that depend on the client's connection and on the framing.
#[derive(Clone, PartialEq, Eq, Canonical)]
pub struct ErrorResponse {
    /// Whether the file has version HTTP/1.0.
    pub is_http_10: bool,
    /// From 200 to 999.
    pub status: u16,
    /// The reason phrase. Empty for the usual one of the status.
    pub reason: Box<[u8]>,
    /// The other fields, in their order.
    pub fields: Box<[ErrorField]>,
    pub body: Arc<[u8]>,
}

/// A field of an error file.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct ErrorField {
    /// The name, in the case of the file.
    pub name: Box<[u8]>,
    /// The value, on one line.
    pub value: Box<[u8]>,
}

impl std::fmt::Debug for ErrorResponse {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ErrorResponse({}, {} bytes)", self.status, self.body.len())
    }
}

/// The error messages of a proxy, by status.
#[derive(Clone, Debug, Default, Canonical)]
pub struct ErrorReplies {
    entries: Vec<(u16, ErrorReply)>,
}

/// The reply of a proxy to an error.
#[derive(Clone, Debug, Canonical)]
pub enum ErrorReply {
    /// `errorfile`, `errorfiles`.
    Message(Arc<ErrorMessage>),
    /// `errorloc`, `errorloc302` (302), `errorloc303` (303).
    Redirect {
        status: u16,
        /// The `location`.
        url: Arc<str>,
    },
    /// `http-error`.
    Reply(Arc<Reply>),
}

impl ErrorReplies {
    /// The statuses for which an error message can be set.
    /// 421 and 422 are not in the manual's list, but the reference has messages for them.
    pub const STATUSES: [u16; 21] = [
        200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503,
        504,
    ];

    /// The reply for `status`. None for the built-in message.
    pub fn get(&self, status: u16) -> Option<&ErrorReply> {
        let index = self.entries.binary_search_by_key(&status, |entry| entry.0).ok()?;
        Some(&self.entries[index].1)
    }

    /// Sets the reply for `status`.
    pub fn set(&mut self, status: u16, reply: ErrorReply) {
        match self.entries.binary_search_by_key(&status, |entry| entry.0) {
            Ok(index) => self.entries[index].1 = reply,
            Err(index) => self.entries.insert(index, (status, reply)),
        }
    }

    /// All of them, by ascending status.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &ErrorReply)> {
        self.entries.iter().map(|(status, reply)| (*status, reply))
    }

    /// Whether every error gets its built-in message.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
