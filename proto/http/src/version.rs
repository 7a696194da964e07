//! Protocol versions.

/// An HTTP version: two digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Version {
    /// The digit before the dot.
    pub major: u8,
    /// The digit after the dot.
    pub minor: u8,
}

impl Version {
    /// `HTTP/0.9`: a request line without a version; no header, no status line.
    pub const HTTP_09: Version = Version { major: 0, minor: 9 };
    /// `HTTP/1.0`
    pub const HTTP_10: Version = Version { major: 1, minor: 0 };
    /// `HTTP/1.1`
    pub const HTTP_11: Version = Version { major: 1, minor: 1 };
    /// `HTTP/2.0`
    pub const HTTP_20: Version = Version { major: 2, minor: 0 };
    /// `HTTP/3.0`
    pub const HTTP_30: Version = Version { major: 3, minor: 0 };

    /// Reads `HTTP/x.y`, letters in upper case only, one digit on each side (RFC 9112, 2.3).
    #[inline]
    pub fn from_bytes(text: &[u8]) -> Option<Version> {
        match text {
            b"HTTP/1.1" => Some(Version::HTTP_11),
            b"HTTP/1.0" => Some(Version::HTTP_10),
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
                if major.is_ascii_digit() && minor.is_ascii_digit() =>
            {
                Some(Version { major: major - b'0', minor: minor - b'0' })
            }
            _ => None,
        }
    }

    /// The form of the `req.ver` fetch: `1.1`, without the protocol's name.
    pub fn digits(self) -> [u8; 3] {
        [b'0' + self.major % 10, b'.', b'0' + self.minor % 10]
    }

    /// Its form on the wire: `HTTP/1.1`.
    pub fn wire(self) -> [u8; 8] {
        let [major, dot, minor] = self.digits();
        [b'H', b'T', b'T', b'P', b'/', major, dot, minor]
    }

    /// Whether chunked bodies, `Host` and persistence by default hold (1.1 and above).
    #[inline]
    pub fn is_11_or_later(self) -> bool {
        self >= Version::HTTP_11
    }
}
