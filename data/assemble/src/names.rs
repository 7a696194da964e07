//! Host name resolution at start.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use weir_model::{Family, Host};

/// Resolves host names.
pub trait Resolver {
    /// All addresses of a host name, the preferred one first. Empty if it does not resolve.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;
}

/// The system's resolver (`getaddrinfo`), configured by `nsswitch.conf`.
#[derive(Debug, Default)]
pub struct SystemResolver {
    /// `-4`: only IPv4 addresses.
    pub ipv4_only: bool,
}

impl Resolver for SystemResolver {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        (name, 0)
            .to_socket_addrs()
            .map(|found| found.map(|address| address.ip()))
            .map(|found| found.filter(|address| address.is_ipv4() || !self.ipv4_only).collect())
            .unwrap_or_default()
    }
}

/// A host name without an address of the wanted family.
#[derive(Debug)]
pub struct UnresolvedName(pub Box<str>);

/// The address of a host, resolved if it is a name.
pub fn address(host: &Host, resolver: &dyn Resolver) -> Result<IpAddr, UnresolvedName> {
    match host {
        Host::Ip(address) => Ok(*address),
        Host::Name { name, family } => {
            let wanted = |address: &IpAddr| match family {
                Family::Any => true,
                Family::V4 => address.is_ipv4(),
                Family::V6 => address.is_ipv6(),
            };
            let found = resolver.addresses(name).into_iter().find(wanted);
            found.ok_or_else(|| UnresolvedName(name.clone()))
        }
    }
}

/// The address of a host, resolved if it is a name, with a port.
pub(super) fn socket_address(
    host: &Host,
    port: u16,
    resolver: &dyn Resolver,
) -> Result<SocketAddr, UnresolvedName> {
    address(host, resolver).map(|address| SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Both;

    impl Resolver for Both {
        fn addresses(&self, name: &str) -> Vec<IpAddr> {
            match name {
                "both" => vec![[127, 0, 0, 1].into(), IpAddr::V6(1.into())],
                _ => Vec::new(),
            }
        }
    }

    #[track_caller]
    fn check(name: &str, family: Family, expected: Option<&str>) {
        let host = Host::Name { name: name.into(), family };
        let found = socket_address(&host, 80, &Both).ok().map(|address| address.to_string());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn ipv4_only_ignores_ipv6_addresses() {
        let of = |ipv4_only, name| SystemResolver { ipv4_only }.addresses(name);
        assert_eq!(of(false, "::1"), [IpAddr::V6(1.into())]);
        assert!(of(true, "::1").is_empty());
        assert_eq!(of(true, "127.0.0.1"), [IpAddr::from([127, 0, 0, 1])]);
    }

    #[test]
    fn resolves_a_name_to_its_first_address_of_the_preferred_family() {
        check("both", Family::Any, Some("127.0.0.1:80"));
        check("both", Family::V6, Some("[::1]:80"));
        check("neither", Family::Any, None);
    }
}
