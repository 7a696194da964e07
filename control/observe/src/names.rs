//! Lookup of objects by name, and text forms of addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_backend::{Server, ServerAddress};
use weir_stream::instance::{Instance, Proxy};
use weir_sys::Address;

/// A proxy by name or `#<id>`, of the kind that `side` accepts.
///
/// If a frontend and a backend share a name, the first one in the configuration wins.
pub(super) fn proxy<'s>(instance: &'s Instance, name: &str, side: fn(&Proxy) -> bool) -> Option<&'s Proxy> {
    let id = name.strip_prefix('#').and_then(|id| id.parse::<u32>().ok());
    let mut proxies = instance.proxies.iter().filter(|proxy| side(proxy));
    match id {
        Some(id) => proxies.find(|proxy| proxy.config.id == id),
        None => proxies.find(|proxy| proxy.name() == name),
    }
}

/// Accepts any proxy.
pub(super) fn any_side(_: &Proxy) -> bool {
    true
}

/// Accepts proxies with a frontend side.
pub(super) fn frontend_side(proxy: &Proxy) -> bool {
    proxy.config.is_frontend()
}

/// Accepts proxies with a backend side.
pub(super) fn backend_side(proxy: &Proxy) -> bool {
    proxy.backend.is_some()
}

/// A server by name or `#<id>`.
pub(super) fn server(proxy: &Proxy, name: &str) -> Option<Arc<Server>> {
    let backend = proxy.backend.as_ref()?;
    match name.strip_prefix('#').and_then(|id| id.parse().ok()) {
        Some(id) => backend.server_by_id(id),
        None => backend.server_by_name(name),
    }
}

/// A listener's address in statistics: `127.0.0.1:80`, `[::1]:80`, `unix`.
pub(super) fn of_listener(address: &Address) -> String {
    match address {
        Address::Inet(address) => bracketed(*address),
        Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => "unix".to_owned(),
    }
}

/// A server's address in statistics. `None` while its name is unresolved.
pub(super) fn of_server(address: &ServerAddress) -> Option<String> {
    match address {
        ServerAddress::Inet { .. } => address.inet_text(),
        ServerAddress::Unix(_) | ServerAddress::Abstract(_) | ServerAddress::Pair(_) => {
            Some("unix".to_owned())
        }
    }
}

/// The protocol of an address: `tcpv4`, `tcpv6`, `unix_stream`.
pub(super) fn protocol(address: &Address) -> &'static str {
    match address {
        Address::Inet(SocketAddr::V4(_)) => "tcpv4",
        Address::Inet(SocketAddr::V6(_)) => "tcpv6",
        Address::Unix(_) | Address::Abstract(_) | Address::Unnamed => "unix_stream",
    }
}

fn bracketed(address: SocketAddr) -> String {
    // The standard form, but without the scope id of an IPv6 address.
    match address.ip() {
        std::net::IpAddr::V4(ip) => format!("{ip}:{}", address.port()),
        std::net::IpAddr::V6(ip) => format!("[{ip}]:{}", address.port()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_are_shown_in_brackets_and_paths_as_unix() {
        let check = |text: &str, expected: &str, kind: &str| {
            let address = Address::Inet(text.parse().unwrap());
            assert_eq!((of_listener(&address).as_str(), protocol(&address)), (expected, kind));
        };
        check("127.0.0.1:80", "127.0.0.1:80", "tcpv4");
        check("[::1]:18090", "[::1]:18090", "tcpv6");
        let path = Address::Unix("/run/x".into());
        assert_eq!((of_listener(&path).as_str(), protocol(&path)), ("unix", "unix_stream"));
        assert_eq!(of_server(&ServerAddress::UNKNOWN), None);
    }
}
