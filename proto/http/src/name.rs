//! Field names that the proxy uses, recognized once while a head is parsed.

/// A field name that the proxy recognizes. Any other is [`KnownName::Other`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(u8)]
#[allow(missing_docs, reason = "each variant is the field name it spells")]
pub enum KnownName {
    #[default]
    Other,
    Accept,
    AcceptEncoding,
    AcceptLanguage,
    Age,
    Authorization,
    CacheControl,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentType,
    Cookie,
    Date,
    Etag,
    Expect,
    Expires,
    Forwarded,
    Host,
    Http2Settings,
    IfModifiedSince,
    IfNoneMatch,
    KeepAlive,
    LastModified,
    Location,
    Origin,
    Pragma,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Range,
    Referer,
    SecWebsocketAccept,
    SecWebsocketKey,
    Server,
    SetCookie,
    StrictTransportSecurity,
    Te,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    Vary,
    Via,
    WwwAuthenticate,
    XForwardedFor,
    XForwardedProto,
}

impl KnownName {
    /// The known name that these bytes spell, in any case.
    #[inline]
    pub fn from_bytes(name: &[u8]) -> KnownName {
        let Some(&first) = name.first() else { return KnownName::Other };
        let candidate = match (name.len(), first | 0x20) {
            (2, b't') => KnownName::Te,
            (3, b'a') => KnownName::Age,
            (3, b'v') => KnownName::Via,
            (4, b'h') => KnownName::Host,
            (4, b'd') => KnownName::Date,
            (4, b'e') => KnownName::Etag,
            (4, b'v') => KnownName::Vary,
            (5, b'r') => KnownName::Range,
            (6, b'a') => KnownName::Accept,
            (6, b'c') => KnownName::Cookie,
            (6, b'e') => KnownName::Expect,
            (6, b'o') => KnownName::Origin,
            (6, b'p') => KnownName::Pragma,
            (6, b's') => KnownName::Server,
            (7, b'e') => KnownName::Expires,
            (7, b'r') => KnownName::Referer,
            (7, b't') => KnownName::Trailer,
            (7, b'u') => KnownName::Upgrade,
            (8, b'l') => KnownName::Location,
            (9, b'f') => KnownName::Forwarded,
            (10, b'c') => KnownName::Connection,
            (10, b'k') => KnownName::KeepAlive,
            (10, b'u') => KnownName::UserAgent,
            (10, b's') => KnownName::SetCookie,
            (12, b'c') => KnownName::ContentType,
            (13, b'a') => KnownName::Authorization,
            (13, b'c') => KnownName::CacheControl,
            (13, b'i') => KnownName::IfNoneMatch,
            (13, b'l') => KnownName::LastModified,
            (14, b'c') => KnownName::ContentLength,
            (14, b'h') => KnownName::Http2Settings,
            (15, b'a') if name[7] | 0x20 == b'e' => KnownName::AcceptEncoding,
            (15, b'a') => KnownName::AcceptLanguage,
            (15, b'x') => KnownName::XForwardedFor,
            (16, b'c') => KnownName::ContentEncoding,
            (16, b'p') => KnownName::ProxyConnection,
            (16, b'w') => KnownName::WwwAuthenticate,
            (17, b'i') => KnownName::IfModifiedSince,
            (17, b't') => KnownName::TransferEncoding,
            (17, b's') => KnownName::SecWebsocketKey,
            (17, b'x') => KnownName::XForwardedProto,
            (18, b'p') => KnownName::ProxyAuthenticate,
            (19, b'p') => KnownName::ProxyAuthorization,
            (20, b's') => KnownName::SecWebsocketAccept,
            (25, b's') => KnownName::StrictTransportSecurity,
            _ => return KnownName::Other,
        };
        if PATTERNS[candidate as usize].matches(name) { candidate } else { KnownName::Other }
    }

    /// The name in lower case; empty for [`KnownName::Other`].
    #[inline]
    pub const fn as_str(self) -> &'static str {
        TEXTS[self as usize]
    }
}

/// A known name prepared for comparison: word by word, in any case.
struct NamePattern {
    /// The name in lower case, then zeros.
    lower: [u8; NamePattern::LONGEST],
    /// The case bit at the position of each letter.
    case: [u8; NamePattern::LONGEST],
}

impl NamePattern {
    /// At least the length of the longest name, and a multiple of the word size.
    const LONGEST: usize = 32;

    const fn new(text: &str) -> NamePattern {
        let text = text.as_bytes();
        let mut pattern = NamePattern { lower: [0; NamePattern::LONGEST], case: [0; NamePattern::LONGEST] };
        let mut at = 0;
        while at < text.len() {
            pattern.lower[at] = text[at];
            pattern.case[at] = if text[at].is_ascii_lowercase() { 0x20 } else { 0 };
            at += 1;
        }
        pattern
    }

    /// Whether `name`, which has the right length, is this name. Compares eight bytes at a time, with overlapping last
    /// words. A byte loop took a fifth of the time of parsing a head.
    #[inline]
    fn matches(&self, name: &[u8]) -> bool {
        let length = name.len();
        if length < 8 {
            return name
                .iter()
                .zip(&self.lower)
                .zip(&self.case)
                .all(|((byte, lower), case)| byte | case == *lower);
        }
        let mut at = 0;
        while at + 8 < length {
            if !self.word_matches(name, at) {
                return false;
            }
            at += 8;
        }
        self.word_matches(name, length - 8)
    }

    #[inline]
    fn word_matches(&self, name: &[u8], at: usize) -> bool {
        match (word(name, at), word(&self.lower, at), word(&self.case, at)) {
            (Some(text), Some(lower), Some(case)) => text | case == lower,
            _ => false,
        }
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

static PATTERNS: [NamePattern; TEXTS.len()] = {
    let mut patterns = [const { NamePattern::new("") }; TEXTS.len()];
    let mut at = 0;
    while at < TEXTS.len() {
        patterns[at] = NamePattern::new(TEXTS[at]);
        at += 1;
    }
    patterns
};

/// The lowercase name of each variant, in declaration order. Empty for [`KnownName::Other`].
const TEXTS: [&str; 46] = [
    "",
    "accept",
    "accept-encoding",
    "accept-language",
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "host",
    "http2-settings",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "last-modified",
    "location",
    "origin",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "referer",
    "sec-websocket-accept",
    "sec-websocket-key",
    "server",
    "set-cookie",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
    "x-forwarded-for",
    "x-forwarded-proto",
];

/// Whether a byte may be in a token (RFC 9110, 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Whether these bytes are a token: a method, a field name.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is_token_byte(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_field_name_is_recognized_in_any_case() {
        for text in TEXTS.iter().skip(1) {
            let known = KnownName::from_bytes(text.as_bytes());
            assert_eq!(known.as_str(), *text);
            assert_eq!(KnownName::from_bytes(text.to_ascii_uppercase().as_bytes()), known);
            for at in 0..text.len() {
                let mut spoilt = text.as_bytes().to_vec();
                for change in 1..=255 {
                    spoilt[at] = text.as_bytes()[at] ^ change;
                    let same = spoilt.eq_ignore_ascii_case(text.as_bytes());
                    assert_eq!(KnownName::from_bytes(&spoilt) == known, same, "{spoilt:?}");
                }
            }
        }
        for other in ["", "hos", "hostt", "hxst", "x", "content_length", "contentxlength"] {
            assert_eq!(KnownName::from_bytes(other.as_bytes()), KnownName::Other, "{other}");
        }
    }
}
