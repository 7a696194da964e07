//! Name resolution at the start.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use weir_model::{Family, Host};

/// Turns names into addresses.
pub trait Resolver {
    /// All addresses of a name, the preferred one first; may be empty.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;
}

/// The system's own resolver: `/etc/hosts`, then DNS, as `nsswitch.conf` says.
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

/// A name without an address of the wanted family.
#[derive(Debug)]
pub struct UnresolvedName(pub Box<str>);

/// The address of a host.
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

/// The address of a host, with a port.
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
    fn prefers_the_first_address_of_the_wanted_family() {
        check("both", Family::Any, Some("127.0.0.1:80"));
        check("both", Family::V6, Some("[::1]:80"));
        check("neither", Family::Any, None);
    }
}
