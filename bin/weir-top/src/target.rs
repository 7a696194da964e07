//! The address of the runtime API.

use std::fmt;
use std::path::{Path, PathBuf};

/// An address from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiAddress {
    Unix(PathBuf),
    /// Host and port. Resolved for each connection attempt.
    Tcp(String, u16),
}

impl ApiAddress {
    /// Parses a path or `host:port`, with an optional `unix@`, `ipv4@` or `ipv6@` prefix, as on `bind` lines.
    pub(crate) fn parse(text: &str) -> Result<ApiAddress, String> {
        let wrong = || format!("'{text}' is neither a path nor host:port");
        if let Some(path) = text.strip_prefix("unix@") {
            return if path.is_empty() { Err(wrong()) } else { Ok(ApiAddress::Unix(path.into())) };
        }
        let inet =
            ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"].iter().find_map(|prefix| text.strip_prefix(prefix));
        if inet.is_none() && text.contains('/') {
            return Ok(ApiAddress::Unix(text.into()));
        }
        let rest = inet.unwrap_or(text);
        if let Some((host, port)) = rest.rsplit_once(':') {
            let port = port.parse().ok().filter(|&port: &u16| port != 0).ok_or_else(wrong)?;
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            // Without a host, use the loopback address.
            let host = if host.is_empty() { "127.0.0.1" } else { host };
            return Ok(ApiAddress::Tcp(host.to_owned(), port));
        }
        // A bare name is a file in the current directory.
        if inet.is_some() || text.is_empty() { Err(wrong()) } else { Ok(ApiAddress::Unix(text.into())) }
    }

    /// The address to use without `-s`. The error is a message for the operator.
    pub(crate) fn default_one(variable: Option<&str>) -> Result<ApiAddress, String> {
        match variable.filter(|value| !value.is_empty()) {
            Some(value) => ApiAddress::parse(value).map_err(|why| format!("WEIR_SOCKET: {why}")),
            None => first_of(&DEFAULTS),
        }
    }
}

fn first_of(paths: &[&str]) -> Result<ApiAddress, String> {
    let found = paths.iter().find(|path| Path::new(path).exists());
    let none = || {
        format!(
            "none of the usual sockets is there ({}); name one with -s: the argument of 'stats socket' in the configuration",
            paths.join(", ")
        )
    };
    found.map(|path| ApiAddress::Unix(path.into())).ok_or_else(none)
}

impl fmt::Display for ApiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiAddress::Unix(path) => write!(f, "{}", crate::text::clean(&path.display().to_string(), 200)),
            ApiAddress::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            ApiAddress::Tcp(host, port) => write!(f, "{}:{port}", crate::text::clean(host, 200)),
        }
    }
}

/// The sockets in packages of weir and HAProxy, and in examples of manuals.
pub(crate) const DEFAULTS: [&str; 4] =
    ["/run/weir/admin.sock", "/run/haproxy/admin.sock", "/var/run/haproxy.sock", "/var/lib/haproxy/stats"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_socket_paths_and_tcp_addresses() {
        let unix = |path: &str| Ok(ApiAddress::Unix(path.into()));
        let tcp = |host: &str, port| Ok(ApiAddress::Tcp(host.to_owned(), port));
        for (text, expected) in [
            ("/run/a:1", unix("/run/a:1")),
            ("./a", unix("./a")),
            ("a.sock", unix("a.sock")),
            ("unix@a:9", unix("a:9")),
            ("localhost:99", tcp("localhost", 99)),
            (":99", tcp("127.0.0.1", 99)),
            ("[::1]:99", tcp("::1", 99)),
            ("ipv4@127.0.0.1:99", tcp("127.0.0.1", 99)),
            ("::1:99", tcp("::1", 99)),
        ] {
            assert_eq!(ApiAddress::parse(text), expected, "{text}");
        }
        for text in ["", "a:", "a:x", "a:0", "a:65536", "unix@", "ipv4@a"] {
            let expected = format!("'{text}' is neither a path nor host:port");
            assert_eq!(ApiAddress::parse(text), Err(expected), "{text}");
        }
        assert_eq!(ApiAddress::parse("[::1]:99").expect("an address").to_string(), "[::1]:99");
    }

    #[test]
    fn weir_socket_variable_overrides_the_default_sockets() {
        assert_eq!(ApiAddress::default_one(Some("h:1")), Ok(ApiAddress::Tcp("h".to_owned(), 1)));
        assert!(ApiAddress::default_one(Some("h:x")).expect_err("wrong").starts_with("WEIR_SOCKET: "));
        assert_eq!(first_of(&["/nonexistent/a", "/"]), Ok(ApiAddress::Unix("/".into())));
        assert!(first_of(&["/nonexistent/a"]).expect_err("none").contains("(/nonexistent/a)"));
    }
}
