//! Facts about a head that its parser noted, so that the fields need not be searched again.

use std::ops::{BitOr, BitOrAssign};

/// A set of facts about a head, noted when it was parsed. Edits made later do not change them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(u32);

impl Flags {
    /// Nothing noted.
    pub const NONE: Flags = Flags(0);
    /// A `Connection` field has the token `close`.
    pub const CONNECTION_CLOSE: Flags = Flags(1);
    /// A `Connection` field has the token `keep-alive`.
    pub const CONNECTION_KEEP_ALIVE: Flags = Flags(1 << 1);
    /// A `Connection` field has the token `upgrade`.
    pub const CONNECTION_UPGRADE: Flags = Flags(1 << 2);
    /// A `Connection` field has some other token (a hop-by-hop field named by the peer).
    pub const CONNECTION_OTHER: Flags = Flags(1 << 3);
    /// There is at least one `Connection` field.
    pub const HAS_CONNECTION: Flags = Flags(1 << 4);
    /// There is at least one `Upgrade` field.
    pub const HAS_UPGRADE: Flags = Flags(1 << 5);
    /// There is a `Content-Length` that counts (one that `Transfer-Encoding` overrides does not).
    pub const HAS_CONTENT_LENGTH: Flags = Flags(1 << 6);
    /// There is at least one `Transfer-Encoding` field.
    pub const HAS_TRANSFER_ENCODING: Flags = Flags(1 << 7);
    /// The last transfer coding is `chunked`.
    pub const CHUNKED: Flags = Flags(1 << 8);
    /// `Expect: 100-continue`.
    pub const EXPECT_100: Flags = Flags(1 << 9);
    /// There is a `Host` field.
    pub const HAS_HOST: Flags = Flags(1 << 10);
    /// The request target is in absolute form (`http://host/path`).
    pub const ABSOLUTE_FORM: Flags = Flags(1 << 11);
    /// The request target is in authority form (`host:port`, with `CONNECT`).
    pub const AUTHORITY_FORM: Flags = Flags(1 << 12);
    /// Other parsers may find another end of the body: the message has both framing fields, or a transfer coding in HTTP/1.0
    /// (RFC 9112, 6.1 and 6.3).
    pub const INSECURE_FRAMING: Flags = Flags(1 << 13);
    /// There is a `Cookie` (request) or `Set-Cookie` (response) field.
    pub const HAS_COOKIE: Flags = Flags(1 << 14);
    /// `Upgrade` requests `h2c`.
    pub const UPGRADE_H2C: Flags = Flags(1 << 15);
    /// `Upgrade` requests `websocket`.
    pub const UPGRADE_WEBSOCKET: Flags = Flags(1 << 16);
    /// The raw bytes must not be forwarded verbatim: another parser could read them differently (bare line feeds,
    /// joined lines...). The head counts as edited.
    pub const MUST_REWRITE: Flags = Flags(1 << 17);
    /// Something was accepted only because of `option accept-unsafe-violations-in-...`.
    pub const VIOLATION: Flags = Flags(1 << 18);
    /// The message is ambiguous, or was tolerated despite a violation: neither connection is used again.
    pub const DOUBTFUL: Flags = Flags(Flags::INSECURE_FRAMING.0 | Flags::VIOLATION.0);
    /// There is a `Trailer` or a `TE: trailers`.
    pub const TE_TRAILERS: Flags = Flags(1 << 19);
    /// There is a `Date` field.
    pub const HAS_DATE: Flags = Flags(1 << 20);
    /// There is a `Keep-Alive` field.
    pub const HAS_KEEP_ALIVE: Flags = Flags(1 << 21);
    /// There is a `Proxy-Connection` field.
    pub const HAS_PROXY_CONNECTION: Flags = Flags(1 << 22);
    /// The message ended with its head, though the fields do not announce it (END_STREAM in HTTP/2).
    pub const ENDED: Flags = Flags(1 << 23);
    /// The message ends later than with its head, though no body follows (an empty last frame in HTTP/2).
    pub const ENDS_LATER: Flags = Flags(1 << 24);

    /// Whether all of `other` is noted.
    #[inline]
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is noted.
    #[inline]
    pub fn intersects(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Notes `other`.
    #[inline]
    pub fn insert(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Removes `other`.
    #[inline]
    pub fn remove(&mut self, other: Flags) {
        self.0 &= !other.0;
    }
}

/// The flags in words, in the order of their bits; `none` without any.
impl std::fmt::Display for Flags {
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

impl BitOr for Flags {
    type Output = Flags;
    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    #[inline]
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_flags_in_words() {
        assert_eq!(Flags::NONE.to_string(), "none");
        assert_eq!((Flags::HAS_HOST | Flags::CHUNKED).to_string(), "chunked,host");
        assert_eq!(
            (Flags::CONNECTION_CLOSE | Flags::HAS_PROXY_CONNECTION).to_string(),
            "connection-close,proxy-connection"
        );
        assert!(Flags(u32::MAX).to_string().split(',').count() == NAMES.len());
    }
}
