//! TLVs of a header of version 2: a sequence of typed values.

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tlv<'a> {
    /// Its type: one of the constants here, or an unknown one.
    pub kind: u8,
    pub value: &'a [u8],
}

/// The application protocol that TLS negotiated.
pub const ALPN: u8 = 0x01;
/// The host name that the client requested, as in TLS's server name.
pub const AUTHORITY: u8 = 0x02;
/// The checksum of the header.
pub const CRC32C: u8 = 0x03;
/// Padding.
pub const NOOP: u8 = 0x04;
/// Up to 128 bytes that identify the connection.
pub const UNIQUE_ID: u8 = 0x05;
/// Properties of the TLS connection: see [`Ssl`].
pub const SSL: u8 = 0x20;
/// In [`SSL`]: the TLS version.
pub const SSL_VERSION: u8 = 0x21;
/// In [`SSL`]: the common name of the client's certificate.
pub const SSL_CN: u8 = 0x22;
/// In [`SSL`]: the cipher.
pub const SSL_CIPHER: u8 = 0x23;
/// In [`SSL`]: the signature algorithm of the certificate.
pub const SSL_SIGNATURE_ALGORITHM: u8 = 0x24;
/// In [`SSL`]: the kind of the certificate's key.
pub const SSL_KEY_ALGORITHM: u8 = 0x25;
/// The name of the network namespace.
pub const NETNS: u8 = 0x30;

/// The longest [`UNIQUE_ID`].
pub const MAX_UNIQUE_ID: usize = 128;

/// TLVs in the order of the header. The parser has checked that they are complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tlvs<'a> {
    bytes: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// The TLVs in `bytes`. `None` if the last one is incomplete.
    pub fn new(bytes: &'a [u8]) -> Option<Tlvs<'a>> {
        let mut tlvs = TlvIter { rest: bytes };
        while tlvs.next().is_some() {}
        tlvs.rest.is_empty().then_some(Tlvs { bytes })
    }

    /// The values, one by one.
    pub fn iter(&self) -> TlvIter<'a> {
        TlvIter { rest: self.bytes }
    }

    /// The first value of this kind.
    pub fn find(&self, kind: u8) -> Option<&'a [u8]> {
        self.iter().find(|tlv| tlv.kind == kind).map(|tlv| tlv.value)
    }

    /// The [`SSL`] value, if there is one and it is complete.
    pub fn ssl(&self) -> Option<Ssl<'a>> {
        Ssl::new(self.find(SSL)?)
    }

    /// The encoded values.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> IntoIterator for Tlvs<'a> {
    type Item = Tlv<'a>;
    type IntoIter = TlvIter<'a>;

    fn into_iter(self) -> TlvIter<'a> {
        self.iter()
    }
}

/// An iterator over [`Tlvs`].
#[derive(Clone, Debug)]
pub struct TlvIter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for TlvIter<'a> {
    type Item = Tlv<'a>;

    fn next(&mut self) -> Option<Tlv<'a>> {
        let [kind, high, low, rest @ ..] = self.rest else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        self.rest = rest;
        Some(Tlv { kind: *kind, value })
    }
}

/// A parsed value of the kind [`SSL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ssl<'a> {
    /// Bits: [`Ssl::USED`], [`Ssl::CERTIFICATE_ON_CONNECTION`], [`Ssl::CERTIFICATE_IN_SESSION`].
    pub client: u8,
    /// Zero when the client's certificate was verified.
    pub verify: u32,
    pub tlvs: Tlvs<'a>,
}

impl<'a> Ssl<'a> {
    /// The client used TLS.
    pub const USED: u8 = 1;
    /// The client sent a certificate on this connection.
    pub const CERTIFICATE_ON_CONNECTION: u8 = 2;
    /// The client sent a certificate at least once in this TLS session.
    pub const CERTIFICATE_IN_SESSION: u8 = 4;

    /// Reads the value; `None` when it is not complete.
    pub fn new(value: &'a [u8]) -> Option<Ssl<'a>> {
        let [client, a, b, c, d, rest @ ..] = value else { return None };
        let verify = u32::from_be_bytes([*a, *b, *c, *d]);
        Some(Ssl { client: *client, verify, tlvs: Tlvs::new(rest)? })
    }

    /// Appends the value of such a TLV, with the values `inside`. The caller keeps it below 64 kB.
    pub fn write(client: u8, verify: u32, inside: &[Tlv], out: &mut Vec<u8>) {
        out.push(client);
        out.extend_from_slice(&verify.to_be_bytes());
        for tlv in inside {
            tlv.write(out);
        }
    }
}

impl Tlv<'_> {
    /// Appends the TLV. A value longer than 65,535 bytes is truncated.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = u16::try_from(self.value.len()).unwrap_or(u16::MAX);
        out.push(self.kind);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.value[..usize::from(length)]);
    }
}
