//! URLs of requests.

use std::fmt;
use std::net::IpAddr;

/// An absolute HTTP or HTTPS URL, without user and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme is `https`.
    pub is_secure: bool,
    /// The host: a name, or an address without brackets.
    pub host: Box<str>,
    /// The explicit port, or the default of the scheme.
    pub port: u16,
    /// Host and port, verbatim.
    pub authority: Box<str>,
    /// Path and query, at least `/`.
    pub target: Box<str>,
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// Why it is not valid.
    pub fn parse(text: &str) -> Result<Url, UrlFault> {
        if text.len() > LONGEST {
            return Err(UrlFault::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err(UrlFault::Characters);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlFault::WithoutScheme)?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(UrlFault::OtherScheme),
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(UrlFault::WithoutHost);
        }
        let (host, port) = parts(authority).ok_or(UrlFault::Authority)?;
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}").into() };
        let port = port.unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Url { is_secure, host: host.into(), port, authority: authority.into(), target })
    }

    /// The host, if it is a literal address.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The absolute form, for requests to a proxy (RFC 9112, 3.2.2).
    pub fn absolute(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.target)
    }

    /// This URL with one more path segment.
    #[must_use]
    pub fn below(&self, last: &str) -> Url {
        let target = format!("{}/{last}", self.target.trim_end_matches('/'));
        Url { target: target.into(), ..self.clone() }
    }
}

/// Why a URL is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlFault {
    TooLong,
    /// A byte that URLs cannot have, or a fragment.
    Characters,
    WithoutScheme,
    OtherScheme,
    WithoutHost,
    /// The host or the port is not valid.
    Authority,
}

impl fmt::Display for UrlFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            UrlFault::TooLong => "the URL is too long",
            UrlFault::Characters => "the URL has characters that no URL has",
            UrlFault::WithoutScheme => "the URL has no scheme",
            UrlFault::OtherScheme => "the scheme of the URL is not http or https",
            UrlFault::WithoutHost | UrlFault::Authority => "the URL names no valid host and port",
        })
    }
}

/// Host and port of an authority.
fn parts(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, port)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
            if host.is_empty() || host.len() > LONGEST_HOST || !host.bytes().all(is_of_host) {
                return None;
            }
            (host, port)
        }
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Some((host, None)),
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            Some((host, Some(digits.parse().ok().filter(|port| *port != 0)?)))
        }
        _ => None,
    }
}

/// The longest URL, in bytes.
const LONGEST: usize = 8192;
/// The longest host name, in bytes (RFC 1035, 2.3.4).
const LONGEST_HOST: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(bool, &str, u16, &str)>) {
        let read = Url::parse(text).ok();
        let read = read.as_ref().map(|url| (url.is_secure, &*url.host, url.port, &*url.target));
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn splits_urls_into_parts() {
        check("http://a.example", Some((false, "a.example", 80, "/")));
        check("HTTPS://a.example:8443/x?y=/z", Some((true, "a.example", 8443, "/x?y=/z")));
        check("http://[::1]:81?q", Some((false, "::1", 81, "/?q")));
        check("http://192.0.2.1/", Some((false, "192.0.2.1", 80, "/")));
    }

    #[test]
    fn rejects_urls_that_could_smuggle_a_request() {
        for text in [
            "a.example/x",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://a:0/",
            "http://a:65536/",
            "http://a:8x/",
            "http://u@a/",
            "http://[::1/",
            "http://[a]/",
            "http://a/x y",
            "http://a/\r\nX: y",
            "http://a/#f",
            "http://a\u{e9}/",
            "http://a:/",
        ] {
            check(text, None);
        }
        check(&format!("http://a/{}", "x".repeat(LONGEST)), None);
        check(&format!("http://{}/", "x".repeat(LONGEST_HOST + 1)), None);
    }

    #[test]
    fn joins_path_segments_with_one_slash() {
        for text in ["http://a/x", "http://a/x/"] {
            assert_eq!(Url::parse(text).expect("a URL").below("y").absolute(), "http://a/x/y");
        }
        assert_eq!(&*Url::parse("http://a").expect("a URL").below("y").target, "/y");
    }
}
