//! The errors of a message head.

/// Why a head was refused, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadError {
    pub kind: HeadErrorKind,
    /// Offset in the raw bytes at which the error was detected (`show errors`).
    pub position: usize,
}

/// The errors of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeadErrorKind {
    /// The request line does not begin with a token character.
    InvalidMethod,
    /// A byte that a request target must not have.
    InvalidTarget,
    /// The target's form does not fit the method: not an authority with `CONNECT`, `*` without `OPTIONS`, a relative
    /// one.
    TargetForm,
    /// Something after the target that is not `HTTP/x.y`.
    InvalidVersion,
    /// The beginning of HTTP/2's connection preface.
    Http2Preface,
    /// A request line without version, which only HTTP/0.9 has.
    Http09,
    /// A status line that does not begin with `HTTP/`.
    NotHttp,
    /// A status that is not three digits, or is below 100. If violations are accepted, a status that is not a 16-bit number.
    InvalidStatus,
    /// A byte that a reason phrase must not have.
    InvalidReason,
    /// A carriage return without a line feed after it.
    BareCarriageReturn,
    /// A field line without a name before its colon.
    EmptyName,
    /// A byte that a field name must not have.
    InvalidName,
    /// A field line without colon.
    MissingColon,
    /// White space between a field name and its colon.
    SpaceBeforeColon,
    /// A byte that a field value must not have.
    InvalidValue,
    /// The first field line begins with white space: it cannot continue another line.
    FoldedFirstField,
    /// More fields than the limit.
    TooManyFields,
    /// A `Content-Length` that is not a number, or too large.
    InvalidContentLength,
    /// Several `Content-Length` that differ.
    ConflictingContentLength,
    /// A malformed or empty `Transfer-Encoding`.
    InvalidTransferEncoding,
    /// Transfer codings before the final `chunked`, which are not supported (status 422).
    UnsupportedTransferEncoding,
    /// The last transfer coding is not `chunked`, so the end of the message is ambiguous.
    ChunkedNotFinal,
    /// `chunked` applied twice.
    ChunkedTwice,
    /// A body after an HTTP/1.0 `GET`, `HEAD` or `DELETE`, which other parsers may read as another request (status 413).
    PayloadForbidden,
    /// A `Host`, or the authority of a target, that is not a host: a list, a path, user information, an invalid byte.
    InvalidHost,
    /// A `CONNECT` that announces content.
    ConnectWithContent,
    /// Several `Host` that differ.
    ConflictingHost,
    /// A `Host` that differs from the authority of the target.
    HostAuthorityMismatch,
    /// The head is longer than a span can address.
    TooLong,
    /// A WebSocket handshake without the key, or the answer to it, that it must have (RFC 6455).
    InvalidWebsocketKey,
}

impl HeadErrorKind {
    /// The status of the response to a request with this error.
    pub fn status(self) -> u16 {
        match self {
            HeadErrorKind::PayloadForbidden => 413,
            HeadErrorKind::UnsupportedTransferEncoding => 422,
            _ => 400,
        }
    }
}
