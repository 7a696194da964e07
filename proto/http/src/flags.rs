//! Properties of a head that its parser recorded, so that the fields need not be searched again.

use std::ops::{BitOr, BitOrAssign};

/// A set of properties of a head, recorded by its parser. Later edits do not change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeadFlags(u32);

impl HeadFlags {
    /// The empty set.
    pub const NONE: HeadFlags = HeadFlags(0);
    /// A `Connection` field has the token `close`.
    pub const CONNECTION_CLOSE: HeadFlags = HeadFlags(1);
    /// A `Connection` field has the token `keep-alive`.
    pub const CONNECTION_KEEP_ALIVE: HeadFlags = HeadFlags(1 << 1);
    /// A `Connection` field has the token `upgrade`.
    pub const CONNECTION_UPGRADE: HeadFlags = HeadFlags(1 << 2);
    /// A `Connection` field has some other token (a hop-by-hop field named by the peer).
    pub const CONNECTION_OTHER: HeadFlags = HeadFlags(1 << 3);
    /// There is at least one `Connection` field.
    pub const HAS_CONNECTION: HeadFlags = HeadFlags(1 << 4);
    /// There is at least one `Upgrade` field.
    pub const HAS_UPGRADE: HeadFlags = HeadFlags(1 << 5);
    /// There is a `Content-Length` that `Transfer-Encoding` does not override.
    pub const HAS_CONTENT_LENGTH: HeadFlags = HeadFlags(1 << 6);
    /// There is at least one `Transfer-Encoding` field.
    pub const HAS_TRANSFER_ENCODING: HeadFlags = HeadFlags(1 << 7);
    /// The last transfer coding is `chunked`.
    pub const CHUNKED: HeadFlags = HeadFlags(1 << 8);
    /// `Expect: 100-continue`.
    pub const EXPECT_100: HeadFlags = HeadFlags(1 << 9);
    /// There is a `Host` field.
    pub const HAS_HOST: HeadFlags = HeadFlags(1 << 10);
    /// The request target is in absolute form (`http://host/path`).
    pub const ABSOLUTE_FORM: HeadFlags = HeadFlags(1 << 11);
    /// The request target is in authority form (`host:port`, with `CONNECT`).
    pub const AUTHORITY_FORM: HeadFlags = HeadFlags(1 << 12);
    /// Other parsers may see another end of the body. The message has both framing fields, or a transfer coding in
    /// HTTP/1.0 (RFC 9112, 6.1 and 6.3).
    pub const INSECURE_FRAMING: HeadFlags = HeadFlags(1 << 13);
    /// There is a `Cookie` (request) or `Set-Cookie` (response) field.
    pub const HAS_COOKIE: HeadFlags = HeadFlags(1 << 14);
    /// `Upgrade` requests `h2c`.
    pub const UPGRADE_H2C: HeadFlags = HeadFlags(1 << 15);
    /// `Upgrade` requests `websocket`.
    pub const UPGRADE_WEBSOCKET: HeadFlags = HeadFlags(1 << 16);
    /// The raw bytes must not be forwarded verbatim: another parser could read them differently (bare line feeds,
    /// joined lines...). The head counts as edited.
    pub const MUST_REWRITE: HeadFlags = HeadFlags(1 << 17);
    /// Something was accepted only because of `option accept-unsafe-violations-in-...`.
    pub const VIOLATION: HeadFlags = HeadFlags(1 << 18);
    /// The message is ambiguous, or was accepted despite a violation. Neither connection is reused.
    pub const DOUBTFUL: HeadFlags = HeadFlags(HeadFlags::INSECURE_FRAMING.0 | HeadFlags::VIOLATION.0);
    /// There is a `Trailer` or a `TE: trailers`.
    pub const TE_TRAILERS: HeadFlags = HeadFlags(1 << 19);
    /// There is a `Date` field.
    pub const HAS_DATE: HeadFlags = HeadFlags(1 << 20);
    /// There is a `Keep-Alive` field.
    pub const HAS_KEEP_ALIVE: HeadFlags = HeadFlags(1 << 21);
    /// There is a `Proxy-Connection` field.
    pub const HAS_PROXY_CONNECTION: HeadFlags = HeadFlags(1 << 22);
    /// The message ended with its head, though the fields do not announce it (END_STREAM in HTTP/2).
    pub const ENDED: HeadFlags = HeadFlags(1 << 23);
    /// The message ends after its head, without a body (an empty last frame in HTTP/2).
    pub const ENDS_LATER: HeadFlags = HeadFlags(1 << 24);

    /// Whether all flags of `other` are set.
    #[inline]
    pub fn contains(self, other: HeadFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    #[inline]
    pub fn intersects(self, other: HeadFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets the flags of `other`.
    #[inline]
    pub fn insert(&mut self, other: HeadFlags) {
        self.0 |= other.0;
    }

    /// Clears the flags of `other`.
    #[inline]
    pub fn remove(&mut self, other: HeadFlags) {
        self.0 &= !other.0;
    }
}

/// The names of the set flags, in the order of their bits; `none` for the empty set.
impl std::fmt::Display for HeadFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = NAMES.iter().enumerate().filter(|(bit, _)| self.0 & (1 << bit) != 0);
        let Some((_, first)) = words.next() else { return f.write_str("none") };
        f.write_str(first)?;
        words.try_for_each(|(_, word)| write!(f, ",{word}"))
    }
}

/// The name of each bit in traces.
const NAMES: [&str; 23] = [
    "connection-close",
    "connection-keep-alive",
    "connection-upgrade",
    "connection-other",
    "connection",
    "upgrade",
    "content-length",
    "transfer-encoding",
    "chunked",
    "expect-100",
    "host",
    "absolute-form",
    "authority-form",
    "insecure-framing",
    "cookie",
    "upgrade-h2c",
    "upgrade-websocket",
    "must-rewrite",
    "violation",
    "te-trailers",
    "date",
    "keep-alive",
    "proxy-connection",
];

impl BitOr for HeadFlags {
    type Output = HeadFlags;
    #[inline]
    fn bitor(self, other: HeadFlags) -> HeadFlags {
        HeadFlags(self.0 | other.0)
    }
}

impl BitOrAssign for HeadFlags {
    #[inline]
    fn bitor_assign(&mut self, other: HeadFlags) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_flags_are_displayed_as_words() {
        assert_eq!(HeadFlags::NONE.to_string(), "none");
        assert_eq!((HeadFlags::HAS_HOST | HeadFlags::CHUNKED).to_string(), "chunked,host");
        assert_eq!(
            (HeadFlags::CONNECTION_CLOSE | HeadFlags::HAS_PROXY_CONNECTION).to_string(),
            "connection-close,proxy-connection"
        );
        assert!(HeadFlags(u32::MAX).to_string().split(',').count() == NAMES.len());
    }
}
