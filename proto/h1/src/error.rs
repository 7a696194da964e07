//! Every way in which a message head can be wrong.

/// Why a head was refused, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadError {
    /// The kind of the error.
    pub kind: HeadErrorKind,
    /// The byte it was noticed at, from the start of the raw bytes (`show errors`).
    pub position: usize,
}

/// The errors of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeadErrorKind {
    /// The request line begins with something that is not a token character.
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
    /// A status that is not three digits, 100 or more; if violations are accepted, not a number of 16 bits.
    InvalidStatus,
    /// A byte that a reason phrase must not have.
    InvalidReason,
    /// A carriage return that no line feed follows.
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
    /// A `Transfer-Encoding` that cannot be understood, or an empty one.
    InvalidTransferEncoding,
    /// Transfer codings before the final `chunked`, which are not supported (status 422).
    UnsupportedTransferEncoding,
    /// The last transfer coding is not `chunked`: the end of the message is not safe to find.
    ChunkedNotFinal,
    /// `chunked` applied twice.
    ChunkedTwice,
    /// A body after an HTTP/1.0 `GET`, `HEAD` or `DELETE`, which other parsers may take for a next request (status
    /// 413).
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
    /// The status of the response to a request that is refused for this.
    pub fn status(self) -> u16 {
        match self {
            HeadErrorKind::PayloadForbidden => 413,
            HeadErrorKind::UnsupportedTransferEncoding => 422,
            _ => 400,
        }
    }
}
