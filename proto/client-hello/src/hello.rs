//! Parser of the first message of a TLS handshake, without a TLS session.
//!
//! ```text
//!   record     16 <version, 2> <length, 2> <fragment>
//!   handshake  <type, 1> <length, 3> <body>, in one record or cut over several
//!   body       <version, 2> <random, 32> <session, 1+> <ciphers, 2+> <compressions, 1+> <extensions, 2+>
//! ```
//!
//! Nothing is trusted: every length is checked against its container. A [`HandshakeMessage`] holds at most the content of the
//! caller's buffer, and only a message that is cut over records is copied.

use std::borrow::Cow;

/// A complete handshake message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeMessage<'a> {
    /// The message type: 1 for ClientHello, 2 for ServerHello.
    pub kind: u8,
    /// The body, without type and length.
    pub body: Cow<'a, [u8]>,
}

/// Why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// More bytes are needed.
    TooShort,
    /// The bytes are not a TLS handshake.
    NotTls,
}

/// Client hello.
pub const CLIENT_HELLO: u8 = 1;

const HANDSHAKE_RECORD: u8 = 0x16;
const RECORD_HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
/// The longest fragment of an unencrypted record in bytes (RFC 8446, 5.1).
const MAX_FRAGMENT: usize = 1 << 14;

/// The first handshake message in `input`.
pub fn read(input: &[u8]) -> Result<HandshakeMessage<'_>, Unread> {
    let first = fragment(input)?;
    if let [kind, high, middle, low, rest @ ..] = first.bytes {
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        if let Some(body) = rest.get(..length) {
            return Ok(HandshakeMessage { kind: *kind, body: Cow::Borrowed(body) });
        }
    }
    if first.cut {
        return Err(Unread::TooShort);
    }
    joined(input, first)
}

/// Reads a message that continues in further records.
fn joined<'a>(mut input: &[u8], first: Fragment<'_>) -> Result<HandshakeMessage<'a>, Unread> {
    let mut message = Vec::new();
    let mut fragment_here = first;
    loop {
        message.extend_from_slice(fragment_here.bytes);
        if let [kind, high, middle, low, ..] = message[..] {
            let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if message.len() - MESSAGE_HEADER >= length {
                message.truncate(MESSAGE_HEADER + length);
                message.drain(..MESSAGE_HEADER);
                return Ok(HandshakeMessage { kind, body: Cow::Owned(message) });
            }
        }
        if fragment_here.cut {
            return Err(Unread::TooShort);
        }
        input = &input[RECORD_HEADER + fragment_here.bytes.len()..];
        fragment_here = fragment(input)?;
    }
}

/// The content of a record.
#[derive(Clone, Copy, Debug)]
struct Fragment<'a> {
    bytes: &'a [u8],
    /// The record is incomplete.
    cut: bool,
}

fn fragment(input: &[u8]) -> Result<Fragment<'_>, Unread> {
    // Reported at once, because with another protocol the peer may wait for a response.
    match input {
        [kind, ..] if *kind != HANDSHAKE_RECORD => return Err(Unread::NotTls),
        [_, major, ..] if *major != 3 => return Err(Unread::NotTls),
        _ => {}
    }
    let [_, _, _, high, low, rest @ ..] = input else { return Err(Unread::TooShort) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length == 0 || length > MAX_FRAGMENT {
        return Err(Unread::NotTls);
    }
    Ok(match rest.get(..length) {
        Some(bytes) => Fragment { bytes, cut: false },
        None => Fragment { bytes: rest, cut: true },
    })
}

/// The parts of a client hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The highest version that the client supports, up to TLS 1.2: major and minor.
    pub version: [u8; 2],
    /// The identifier of the session to resume before TLS 1.3; later versions fill it for compatibility only.
    pub session: &'a [u8],
    /// The cipher suites, two bytes each.
    pub ciphers: &'a [u8],
    extensions: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Parses a body.
    pub fn parse(body: &'a [u8]) -> Option<ClientHello<'a>> {
        let (version, rest) = body.split_first_chunk::<2>()?;
        let rest = rest.get(32..)?;
        let (session, rest) = vector(rest, 1)?;
        let (ciphers, rest) = vector(rest, 2)?;
        let (_compressions, rest) = vector(rest, 1)?;
        // Before TLS 1.2 a hello may end here.
        let extensions = if rest.is_empty() { rest } else { vector(rest, 2)?.0 };
        Some(ClientHello { version: *version, session, ciphers, extensions })
    }

    /// The content of an extension.
    pub fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        self.extensions().find(|(kind, _)| *kind == wanted).map(|(_, content)| content)
    }

    /// All extensions, in the client's order: the type of each, and its content.
    pub fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        listed(self.extensions)
    }

    /// The requested host name (RFC 6066, 3).
    pub fn server_name(&self) -> Option<&'a [u8]> {
        let (mut names, _) = vector(self.extension(0)?, 2)?;
        loop {
            let (kind, rest) = names.split_first()?;
            let (name, rest) = vector(rest, 2)?;
            if *kind == 0 {
                return Some(name);
            }
            names = rest;
        }
    }

    /// The first application protocol that the client offers (RFC 7301, 3.1).
    pub fn application_protocol(&self) -> Option<&'a [u8]> {
        self.application_protocols().next()
    }

    /// All application protocols that the client offers, in its order.
    pub fn application_protocols(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.extension(16).and_then(|list| Some(vector(list, 2)?.0)).unwrap_or_default();
        std::iter::from_fn(move || {
            let (protocol, after) = vector(rest, 1)?;
            rest = after;
            Some(protocol)
        })
    }

    /// The groups that the client supports, two bytes each (called elliptic curves before TLS 1.3).
    pub fn groups(&self) -> Option<&'a [u8]> {
        Some(vector(self.extension(10)?, 2)?.0)
    }

    /// The signature schemes that the client supports, two bytes each.
    pub fn signature_schemes(&self) -> Option<&'a [u8]> {
        Some(vector(self.extension(13)?, 2)?.0)
    }

    /// The point formats of curves that the client supports, a byte each (RFC 8422, 5.1.2).
    pub fn point_formats(&self) -> Option<&'a [u8]> {
        Some(vector(self.extension(11)?, 1)?.0)
    }

    /// The versions that the client supports, two bytes each (RFC 8446, 4.2.1).
    pub fn versions(&self) -> Option<&'a [u8]> {
        Some(vector(self.extension(43)?, 1)?.0)
    }

    /// The session ticket, empty when the client only announces support for tickets (RFC 5077, 3.2).
    pub fn session_ticket(&self) -> Option<&'a [u8]> {
        self.extension(35)
    }

    /// Whether the client lists a version.
    pub fn offers_version(&self, version: [u8; 2]) -> bool {
        self.versions().is_some_and(|listed| listed.chunks_exact(2).any(|one| one == version))
    }

    /// The tickets of the sessions that the client offers to resume in TLS 1.3 (RFC 8446, 4.2.11).
    pub fn offered_sessions(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.extension(41).and_then(|keys| Some(vector(keys, 2)?.0)).unwrap_or_default();
        std::iter::from_fn(move || {
            let (ticket, after) = vector(rest, 2)?;
            rest = after.get(4..)?;
            Some(ticket)
        })
    }

    /// The groups that the client sent keys for (RFC 8446, 4.2.8), two bytes each.
    pub fn key_share_groups(&self) -> Option<impl Iterator<Item = [u8; 2]> + use<'a>> {
        let (mut shares, _) = vector(self.extension(51)?, 2)?;
        Some(std::iter::from_fn(move || {
            let (group, rest) = shares.split_first_chunk::<2>()?;
            shares = vector(rest, 2)?.1;
            Some(*group)
        }))
    }
}

/// The extensions of a server's hello (RFC 8446, 4.1.3): the type of each, and its content.
pub fn server_extensions(body: &[u8]) -> Option<impl Iterator<Item = (u16, &[u8])> + Clone> {
    let (_session, rest) = vector(body.get(34..)?, 1)?;
    let rest = rest.get(3..)?;
    // Before TLS 1.3 the list may be missing.
    Some(listed(if rest.is_empty() { rest } else { vector(rest, 2)?.0 }))
}

/// A list of extensions: the type of each, and its content.
pub fn listed(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> + Clone + use<'_> {
    std::iter::from_fn(move || {
        let (kind, after) = rest.split_first_chunk::<2>()?;
        let (content, after) = vector(after, 2)?;
        rest = after;
        Some((u16::from_be_bytes(*kind), content))
    })
}

/// A vector with a length prefix of `size` bytes, and the rest.
fn vector(bytes: &[u8], size: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_at_checked(size)?;
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    rest.split_at_checked(length)
}

/// The version that an SSLv2-format hello requests; TLS clients also used to send such hellos.
pub fn sslv2_version(input: &[u8]) -> Result<[u8; 2], Unread> {
    let is_sslv2 = input.first().is_none_or(|first| first & 0x80 != 0)
        && input.get(2).is_none_or(|kind| *kind == CLIENT_HELLO)
        && input.get(3).is_none_or(|major| matches!(major, 0 | 2 | 3));
    if !is_sslv2 {
        return Err(Unread::NotTls);
    }
    let [
        high,
        low,
        _,
        major,
        minor,
        ciphers_1,
        ciphers_2,
        session_1,
        session_2,
        challenge_1,
        challenge_2,
        ..,
    ] = input
    else {
        return Err(Unread::TooShort);
    };
    let length = usize::from(u16::from_be_bytes([high & 0x7f, *low]));
    let sizes = [[ciphers_1, ciphers_2], [session_1, session_2], [challenge_1, challenge_2]];
    let sum: usize = sizes.iter().map(|[high, low]| usize::from(u16::from_be_bytes([**high, **low]))).sum();
    // Nine bytes before the three lists; nothing after them.
    if 9 + sum != length { Err(Unread::NotTls) } else { Ok([*major, *minor]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_length(size: usize, bytes: &[u8]) -> Vec<u8> {
        let length = (bytes.len() as u64).to_be_bytes();
        [&length[8 - size..], bytes].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &with_length(2, content)].concat()
    }

    fn hello(extensions: Option<&[Vec<u8>]>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(with_length(1, &[9; 32]));
        body.extend(with_length(2, &[0x13, 1, 0x13, 2]));
        body.extend(with_length(1, &[0]));
        if let Some(extensions) = extensions {
            body.extend(with_length(2, &extensions.concat()));
        }
        [&[CLIENT_HELLO][..], &with_length(3, &body)].concat()
    }

    /// A message in records of at most `size` bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [&[0x16, 3, 1][..], &with_length(2, part)].concat()).collect()
    }

    fn usual() -> Vec<u8> {
        let name =
            with_length(2, &[&[1][..], &with_length(2, b"odd"), &[0], &with_length(2, b"foo.bar")].concat());
        let protocols = with_length(2, &[with_length(1, b"h2"), with_length(1, b"http/1.1")].concat());
        let shares = with_length(
            2,
            &[&[0, 29][..], &with_length(2, &[1; 32]), &[0, 23], &with_length(2, b"k")].concat(),
        );
        hello(Some(&[
            extension(10, &with_length(2, &[0, 29, 0, 23])),
            extension(0, &name),
            extension(16, &protocols),
            extension(13, &with_length(2, &[4, 3])),
            extension(35, b""),
            extension(51, &shares),
            extension(43, &with_length(1, &[3, 4, 3, 3])),
            extension(
                41,
                &[with_length(2, &[with_length(2, b"ticket"), vec![0; 4]].concat()), vec![0; 9]].concat(),
            ),
        ]))
    }

    #[test]
    fn finds_the_parts_of_a_client_hello() {
        let bytes = records(&usual(), MAX_FRAGMENT);
        let message = read(&bytes).expect("a message");
        assert!(matches!(message.body, Cow::Borrowed(_)));
        let hello = ClientHello::parse(&message.body).expect("a hello");
        assert_eq!((message.kind, hello.version), (CLIENT_HELLO, [3, 3]));
        assert_eq!(hello.ciphers, [0x13, 1, 0x13, 2]);
        assert_eq!(hello.server_name(), Some(&b"foo.bar"[..]));
        assert_eq!(hello.application_protocol(), Some(&b"h2"[..]));
        assert_eq!(hello.groups(), Some(&[0, 29, 0, 23][..]));
        assert_eq!(hello.signature_schemes(), Some(&[4, 3][..]));
        assert_eq!(hello.session_ticket(), Some(&b""[..]));
        let groups: Vec<_> = hello.key_share_groups().expect("shares").collect();
        assert_eq!(groups, [[0, 29], [0, 23]]);
        assert_eq!(hello.session, [9; 32]);
        assert!(hello.offers_version([3, 4]) && !hello.offers_version([3, 2]));
        assert_eq!(hello.offered_sessions().collect::<Vec<_>>(), [b"ticket"]);
    }

    #[test]
    fn parses_a_client_hello_without_extensions() {
        let bytes = records(&hello(None), MAX_FRAGMENT);
        let message = read(&bytes).expect("a message");
        let hello = ClientHello::parse(&message.body).expect("a hello");
        assert_eq!((hello.server_name(), hello.groups(), hello.session_ticket()), (None, None, None));
    }

    #[test]
    fn parses_the_extensions_of_a_server_hello() {
        let body = |extensions: &[u8]| [&[3, 3][..], &[7; 32], &[2, 9, 9, 0x13, 1, 0], extensions].concat();
        let with = body(&with_length(2, &[extension(43, &[3, 4]), extension(41, &[0, 0])].concat()));
        let found: Vec<_> = server_extensions(&with).expect("a hello").map(|(kind, _)| kind).collect();
        assert_eq!(found, [43, 41]);
        assert_eq!(server_extensions(&body(&[])).expect("a hello").count(), 0);
        assert!(server_extensions(&body(&[0, 9])).is_none() && server_extensions(&with[..36]).is_none());
    }

    #[test]
    fn a_client_hello_is_the_same_for_any_record_split() {
        let message = usual();
        let whole = read(&records(&message, MAX_FRAGMENT)).expect("a message").body.into_owned();
        for size in 1..message.len() {
            let bytes = records(&message, size);
            assert_eq!(read(&bytes).expect("a message").body, whole, "records of {size}");
            for length in 0..bytes.len() {
                assert_eq!(read(&bytes[..length]), Err(Unread::TooShort), "{length} bytes of {size}");
            }
        }
    }

    #[test]
    fn recognises_other_protocols_by_their_first_bytes() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"\x17\x03\x01",
            b"\x16\x02",
            b"\x16\x03\x01\x00\x00",
            b"\x16\x03\x01\xff\xff",
        ] {
            assert_eq!(read(bytes), Err(Unread::NotTls), "{bytes:?}");
        }
    }

    #[test]
    fn a_client_hello_with_any_damaged_byte_never_panics() {
        let honest = usual();
        for at in 0..honest.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut lying = honest.clone();
                lying[at] = value;
                let bytes = records(&lying, MAX_FRAGMENT);
                let Ok(message) = read(&bytes) else { continue };
                let Some(hello) = ClientHello::parse(&message.body) else { continue };
                let _ = (hello.server_name(), hello.application_protocol(), hello.groups());
                let _ = hello.key_share_groups().map(Iterator::count);
            }
        }
    }

    #[test]
    fn parses_the_version_of_an_sslv2_client_hello() {
        let mut old = vec![0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10];
        old.extend([5; 0x25]);
        assert_eq!(sslv2_version(&old), Ok([3, 1]));
        assert_eq!(sslv2_version(&old[..10]), Err(Unread::TooShort));
        assert_eq!(sslv2_version(b"GET /"), Err(Unread::NotTls));
        old[1] = 0x2f;
        assert_eq!(sslv2_version(&old), Err(Unread::NotTls));
    }
}
