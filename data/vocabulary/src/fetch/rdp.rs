//! The first packet of the Remote Desktop Protocol (RDP), which may contain a cookie.
//!
//! ```text
//!   03 00 <length, 2>  TPKT, the packet's length
//!   <length, 1> e0 00 00 <source, 2> <class, 1>  X.224 connection request
//!   Cookie: <name>=<value>\r\n
//! ```
//!
//! The cookie identifies a user (`mstshash`), or is a token for persistence to a server (`msts`).

use std::net::{Ipv4Addr, SocketAddrV4};

/// The result of parsing the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdpCookie<'a> {
    Value(&'a [u8]),
    /// Another protocol, no cookie, or a cookie with another name.
    Nothing,
    /// The packet is incomplete.
    TooShort,
}

const TPKT: usize = 4;
const X224: usize = 7;
const MARK: &[u8] = b"Cookie: ";

/// Finds the cookie of this name, ignoring case. An empty name matches any cookie. Only the first line is examined.
pub fn cookie<'a>(input: &'a [u8], name: &[u8]) -> RdpCookie<'a> {
    let fixed = [(0, 3), (1, 0), (TPKT + 1, 0xe0)];
    if fixed.iter().any(|(at, byte)| input.get(*at).is_some_and(|found| found != byte)) {
        return RdpCookie::Nothing;
    }
    let mark = input.get(TPKT + X224..).unwrap_or_default();
    if !mark.iter().zip(MARK).all(|(found, wanted)| found.eq_ignore_ascii_case(wanted)) {
        return RdpCookie::Nothing;
    }
    let Some(text) = input.get(TPKT + X224 + MARK.len()..) else { return RdpCookie::TooShort };
    let Some(end) = text.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        // Bytes after the packet's length do not belong to it.
        let length = usize::from(u16::from_be_bytes([input[2], input[3]]));
        return if input.len() < length { RdpCookie::TooShort } else { RdpCookie::Nothing };
    };
    let Some(equals) = text[..end].iter().position(|byte| *byte == b'=') else { return RdpCookie::Nothing };
    if !name.is_empty() && !text[..equals].eq_ignore_ascii_case(name) {
        return RdpCookie::Nothing;
    }
    RdpCookie::Value(&text[equals + 1..end])
}

/// The server address in a token `<address>.<port>.0000`. Both numbers are network byte order read as little-endian.
pub fn server_of(token: &[u8]) -> Option<SocketAddrV4> {
    let mut parts = std::str::from_utf8(token).ok()?.split('.');
    let address: u32 = parts.next()?.parse().ok()?;
    let port: u16 = parts.next()?.parse().ok()?;
    parts.next()?;
    Some(SocketAddrV4::new(Ipv4Addr::from(address.swap_bytes()), port.swap_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(line: &str) -> Vec<u8> {
        let length = (TPKT + X224 + line.len()) as u8;
        let mut packet = vec![3, 0, 0, length, length - 5, 0xe0, 0, 0, 0, 0, 0];
        packet.extend_from_slice(line.as_bytes());
        packet
    }

    #[track_caller]
    fn check(line: &str, name: &str, expected: RdpCookie<'_>) {
        assert_eq!(cookie(&packet(line), name.as_bytes()), expected, "{line:?}");
    }

    #[test]
    fn rdp_cookies_are_found_by_name() {
        check("Cookie: mstshash=joe\r\n", "mstshash", RdpCookie::Value(b"joe"));
        check("Cookie: mstshash=joe\r\n", "MSTSHASH", RdpCookie::Value(b"joe"));
        check("cookie: mstshash=joe\r\n", "", RdpCookie::Value(b"joe"));
        check("Cookie: mstshash=\r\n", "", RdpCookie::Value(b""));
        check("Cookie: mstshash=joe\r\n", "msts", RdpCookie::Nothing);
        check("Cookie: mstshash\r\n", "", RdpCookie::Nothing);
        check("Cookie: mstshash=joe", "", RdpCookie::Nothing);
        check("\x01\x00\x08\x00\x03\x00\x00\x00", "", RdpCookie::Nothing);
        assert_eq!(cookie(b"GET / HTTP/1.1\r\n", b""), RdpCookie::Nothing);
    }

    #[test]
    fn a_partial_rdp_packet_is_too_short() {
        let whole = packet("Cookie: mstshash=joe\r\n");
        for length in 0..whole.len() - 1 {
            assert_eq!(cookie(&whole[..length], b""), RdpCookie::TooShort, "{length}");
        }
    }

    #[test]
    fn an_rdp_token_decodes_to_a_server_address() {
        // An example of the protocol's specification.
        let server = server_of(b"3640205228.15629.0000");
        assert_eq!(server, Some("172.31.249.216:3389".parse().expect("an address")));
        for token in ["", "1", "1.2", "4294967296.1.0000", "1.65536.0000", "a.b.c"] {
            assert_eq!(server_of(token.as_bytes()), None, "{token}");
        }
    }
}
