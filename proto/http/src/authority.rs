//! Hosts and ports in request targets and `Host` (RFC 3986, 3.2; RFC 9112, 3.2; RFC 9113, 8.3.1).
//!
//! In every HTTP version, servers must read the same host as the rules did.

use crate::uri;

/// Offset of the first byte that is not part of a host with an optional port: a byte of a list, of user information or
/// of another part of a target. `None` if every byte is allowed. An empty host is accepted.
#[inline]
pub fn host_fault(host: &[u8]) -> Option<usize> {
    let at = host.iter().position(|byte| !is_host_byte(*byte))?;
    (!is_bracketed(host)).then_some(at)
}

/// Whether this is an address of IPv6 or later in brackets, with an optional port.
#[cold]
fn is_bracketed(host: &[u8]) -> bool {
    let inside = host.strip_prefix(b"[");
    let parts = inside.and_then(|inside| Some((inside, memchr::memchr(b']', inside)?)));
    let Some((inside, end)) = parts else { return false };
    let (address, rest) = (&inside[..end], &inside[end + 1..]);
    let plain = |text: &[u8]| text.iter().all(|byte| is_host_byte(*byte));
    plain(address) && plain(rest) && (rest.is_empty() || rest[0] == b':')
}

/// Whether a byte may be in a host or a port, brackets aside. More bytes than RFC 3986 allows, as servers accept more; never a byte
/// at which some parsers end a host.
#[inline]
pub fn is_host_byte(byte: u8) -> bool {
    HOST[usize::from(byte)]
}

const HOST: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        bytes[byte] = true;
        byte += 1;
    }
    let never = b",/?#@\\[]";
    let mut at = 0;
    while at < never.len() {
        bytes[never[at] as usize] = false;
        at += 1;
    }
    bytes
};

/// An authority without its scheme's default port, and without a trailing colon (RFC 3986, 6.2.3). Hosts are compared in this form.
pub fn without_implied_port<'a>(authority: &'a [u8], port: &[u8]) -> &'a [u8] {
    authority.strip_suffix(b":").unwrap_or_else(|| uri::without_port(authority, port))
}

/// Whether this ends with a colon and a port number, after a host.
pub fn has_port(authority: &[u8]) -> bool {
    let Some(colon) = memchr::memrchr(b':', authority) else { return false };
    let port = &authority[colon + 1..];
    colon > 0 && (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_fault_finds_the_first_invalid_byte_of_a_host() {
        for host in ["", "a", "a.b:80", "a:", "[::1]", "[::1]:80", "[v7.x]", "a_b", "1.2.3.4"] {
            assert_eq!(host_fault(host.as_bytes()), None, "{host}");
        }
        let faults = [
            ("a,b", 1),
            ("u@h", 1),
            ("a/b", 1),
            ("a b", 1),
            ("[::1", 0),
            ("[::1]8", 0),
            ("a[1]", 1),
            ("\u{e9}", 0),
        ];
        for (host, at) in faults {
            assert_eq!(host_fault(host.as_bytes()), Some(at), "{host}");
        }
        for byte in 0..=255u8 {
            let plain = byte.is_ascii_graphic() && !b",/?#@\\[]".contains(&byte);
            assert_eq!(is_host_byte(byte), plain, "{byte}");
        }
    }

    #[test]
    fn a_host_port_has_one_to_five_digits() {
        for (authority, has) in [
            ("a:1", true),
            ("[::1]:65535", true),
            ("a:", false),
            (":80", false),
            ("a:123456", false),
            ("a:8x", false),
            ("a", false),
        ] {
            assert_eq!(has_port(authority.as_bytes()), has, "{authority}");
        }
    }

    #[test]
    fn default_and_empty_ports_are_removed_from_authorities() {
        for (authority, without) in
            [("a:80", "a"), ("a:", "a"), ("a:8080", "a:8080"), ("a", "a"), ("[::80]", "[::80]")]
        {
            assert_eq!(without_implied_port(authority.as_bytes(), b"80"), without.as_bytes());
        }
    }
}
