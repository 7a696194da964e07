//! Extracts the bytes of a request that hash-based balancing hashes.
//!
//! These bytes determine the server of a user, so they equal those that HAProxy hashes. They were determined with release 2.6: see the
//! tables below.

use std::net::IpAddr;
use weir_model::HashType;

use weir_backend::hash::{avalanche, hash};
use weir_model::UriKey;

/// `balance source`: the address as a number. IPv6 addresses are folded. The configured hash function is not used, only its modifier.
pub(super) fn source(kind: HashType, address: IpAddr) -> u32 {
    let folded = match address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => {
            let words = u128::from(address);
            [96, 64, 32, 0].iter().fold(0, |folded, shift| folded ^ (words >> shift) as u32)
        }
    };
    if kind.avalanche { avalanche(folded) } else { folded }
}

/// `balance uri`: the hash of the configured part of the URI.
pub(super) fn uri(kind: HashType, arguments: UriKey, uri: &[u8]) -> u32 {
    hash(kind, uri_part(arguments, uri))
}

/// The part of a URI that `balance uri` hashes. Without a path, `path-only` hashes an empty string, so all such requests go to the same
/// server.
pub(super) fn uri_part(arguments: UriKey, uri: &[u8]) -> &[u8] {
    let mut part = if arguments.path_only { path(uri) } else { uri };
    if !arguments.whole {
        part = until(part, b'?');
    }
    if arguments.length > 0 {
        part = &part[..part.len().min(arguments.length as usize)];
    }
    match arguments.depth {
        0 => part,
        depth => {
            let mut slashes = part.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            &part[..slashes.nth(depth as usize).unwrap_or(part.len())]
        }
    }
}

/// `balance url_param`: the value of a parameter in a query string or a form body. An empty value is a value. A parameter without `=`
/// is skipped. Only `&` separates parameters.
pub(super) fn parameter<'a>(name: &str, parameters: &'a [u8]) -> Option<&'a [u8]> {
    parameters
        .split(|byte| *byte == b'&')
        .find_map(|parameter| parameter.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The query string of a URI, without its question mark.
pub(super) fn query(uri: &[u8]) -> &[u8] {
    uri.iter().position(|byte| *byte == b'?').map_or(&[], |at| &uri[at + 1..])
}

/// `balance hdr`: the first element of a header's list.
pub(super) fn header_part(value: &[u8], use_domain_only: bool) -> &[u8] {
    let first = until(value, b',').trim_ascii();
    if use_domain_only { domain(first) } else { first }
}

/// The label before the last dot: `1wt` of `haproxy.1wt.eu`.
fn domain(value: &[u8]) -> &[u8] {
    let last_dot = value.iter().rposition(|byte| *byte == b'.');
    let Some(end) = last_dot.filter(|at| *at > 0) else { return value };
    let start = value[..end - 1].iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
    &value[start..end]
}

/// The path and query of an absolute or origin-form URI.
fn path(uri: &[u8]) -> &[u8] {
    if uri.first() == Some(&b'/') {
        return uri;
    }
    let scheme_end = uri.windows(3).position(|bytes| bytes == b"://");
    let Some(authority) = scheme_end.map(|at| &uri[at + 3..]) else { return &[] };
    authority.iter().position(|byte| *byte == b'/').map_or(&[], |at| &authority[at..])
}

fn until(bytes: &[u8], stop: u8) -> &[u8] {
    &bytes[..bytes.iter().position(|byte| *byte == stop).unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balance_uri_selects_the_configured_parts_of_a_uri() {
        #[track_caller]
        fn check(arguments: &str, uri: &str, expected: &str) {
            let mut key = UriKey::default();
            for argument in arguments.split_whitespace() {
                match argument.split_once('=') {
                    None if argument == "whole" => key.whole = true,
                    None => key.path_only = true,
                    Some(("len", length)) => key.length = length.parse().unwrap(),
                    Some((_, depth)) => key.depth = depth.parse().unwrap(),
                }
            }
            assert_eq!(String::from_utf8_lossy(uri_part(key, uri.as_bytes())), expected);
        }
        check("", "/a/b?x=1", "/a/b");
        check("", "http://example.com/a/b?x", "http://example.com/a/b");
        check("", "*", "*");
        check("whole", "/a/b?x=1", "/a/b?x=1");
        check("len=4", "/index.html", "/ind");
        check("len=4", "/a", "/a");
        check("depth=1", "/a/b/c", "/a");
        check("depth=1", "/", "/");
        check("depth=2", "/a/b/c/d", "/a/b");
        check("whole depth=2", "http://example.com/a/b?x", "http://example.com");
        check("whole depth=2", "/?a/b/c", "/?a/b");
        check("whole depth=2", "//a//b", "//a");
        check("depth=2 len=3", "/a/b/c/d", "/a/");
        check("path-only", "http://example.com/a/b?x", "/a/b");
        check("path-only", "/a/b?x", "/a/b");
        check("path-only", "a://b/c", "/c");
        check("path-only", "http://example.com", "");
        check("path-only", "*", "");
    }

    #[test]
    fn balance_uri_hashes_only_the_selected_part() {
        let (plain, path_only) = (UriKey::default(), UriKey { path_only: true, ..UriKey::default() });
        let kind = HashType::default();
        assert_eq!(uri(kind, plain, b"/index.html?x=1"), hash(kind, b"/index.html"));
        assert_eq!(uri(kind, path_only, b"http://x/a?b"), hash(kind, b"/a"));
        assert_ne!(uri(kind, plain, b"/a"), uri(kind, plain, b"/b"));
    }

    #[test]
    fn finds_the_value_of_a_url_parameter() {
        #[track_caller]
        fn check(parameters: &str, expected: Option<&str>) {
            let found = parameter("user", parameters.as_bytes());
            assert_eq!(found.map(|value| String::from_utf8_lossy(value).into_owned()).as_deref(), expected);
        }
        check("user=alice", Some("alice"));
        check("a=1&user=alice;b=2", Some("alice;b=2"));
        check("a=1;user=alice", None);
        check("user=", Some(""));
        check("user=&user=bob", Some(""));
        check("user", None);
        check("USER=alice", None);
        check("xuser=alice", None);
        check("user=a%20b", Some("a%20b"));
        check("user=alice?user=bob", Some("alice?user=bob"));
        check("user=al ice", Some("al ice"));
        check("", None);
        assert_eq!(query(b"/x?a=1?b"), b"a=1?b");
        assert_eq!(query(b"/x"), b"");
    }

    #[test]
    fn use_domain_only_selects_the_main_part_of_a_host_name() {
        #[track_caller]
        fn check(value: &str, expected: &str) {
            assert_eq!(String::from_utf8_lossy(header_part(value.as_bytes(), true)), expected);
        }
        check("haproxy.1wt.eu", "1wt");
        check("www.example.com:443", "example");
        check("example.com", "example");
        check("a.b.c.example.co.uk:8080", "co");
        check("localhost", "localhost");
        check("10.0.0.1", "0");
        check("x.yy", "x");
        check("foo.", "foo");
        check("a.foo.", "foo");
        check(".foo", ".foo");
        check("a..b", "a.");
        check("b.foo..bar", "foo.");
        check("..", ".");
        check(".", ".");
        check("", "");
        assert_eq!(header_part(b"  a , b", false), b"a");
    }

    #[test]
    fn hashes_ipv4_and_ipv6_source_addresses() {
        let plain = HashType::default();
        assert_eq!(source(plain, "127.0.0.1".parse().unwrap()), 0x7f00_0001);
        assert_eq!(
            source(plain, "1:2:3:4:5:6:7:8".parse().unwrap()),
            0x0001_0002 ^ 0x0003_0004 ^ 0x0005_0006 ^ 0x0007_0008
        );
        let mixed = HashType { avalanche: true, ..plain };
        assert_eq!(source(mixed, "0.0.0.97".parse().unwrap()), 1_830_748_055);
    }
}
