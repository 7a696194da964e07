//! Every way in which a message head can be wrong.

/// Why a head was refused, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadError {
    /// What is wrong.
    pub kind: HeadErrorKind,
    /// The byte it was noticed at, from the start of the raw bytes (`show errors`).
    pub position: usize,
}

/// What can be wrong with a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeadErrorKind {
    /// The request line begins with something that is not a token character.
    InvalidMethod,
    /// A byte that a request target must not have.
    InvalidTarget,
    /// A target that does not fit its method: no authority after `CONNECT`, `*` without `OPTIONS`, a relative one.
    TargetForm,
    /// Something after the target that is not `HTTP/x.y`.
    InvalidVersion,
    /// A well-formed version that HTTP/1 does not have.
    UnsupportedVersion,
    /// A request line without version, which only HTTP/0.9 has.
    Http09,
    /// A status line that does not begin with `HTTP/`.
    NotHttp,
    /// A status that is not three digits, 100 or more.
    InvalidStatus,
    /// A byte that a reason phrase must not have.
    InvalidReason,
    /// A carriage return that no line feed follows.
    BareCarriageReturn,
    /// A field line without a name before its colon.
    EmptyName,
    /// A byte that a field name must not have.
    InvalidName,
    /// White space between a field name and its colon.
    SpaceBeforeColon,
    /// A byte that a field value must not have.
    InvalidValue,
    /// The first field line begins with white space: a continuation of nothing.
    FoldedFirstField,
    /// More fields than the limit.
    TooManyFields,
    /// A `Content-Length` that is not a number, or too large.
    InvalidContentLength,
    /// Several `Content-Length` that differ.
    ConflictingContentLength,
    /// A `Transfer-Encoding` that cannot be understood, or an empty one.
    InvalidTransferEncoding,
    /// A request whose last transfer coding is not `chunked`: it has no end.
    ChunkedNotFinal,
    /// `chunked` applied twice.
    ChunkedTwice,
    /// A `Transfer-Encoding` in a message before HTTP/1.1.
    TransferEncodingVersion,
    /// Several `Host` that differ.
    ConflictingHost,
    /// A `Host` that differs from the authority of the target.
    HostAuthorityMismatch,
    /// A `Host` that no authority can be.
    InvalidHost,
    /// The head goes beyond what a span can say.
    TooLong,
    /// An `Upgrade` or `Sec-WebSocket` exchange that breaks its own rules.
    InvalidUpgrade,
}
