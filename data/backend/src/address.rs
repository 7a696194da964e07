//! Server addresses.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where connections to a server go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An IP address and a port.
    Inet {
        /// The address; none while the server's name is not resolved.
        ip: Option<IpAddr>,
        /// The port. It outlives the address: name servers give a host another address without changing it.
        port: ServicePort,
    },
    /// A path in the file system.
    Unix(PathBuf),
    /// A name in Linux's abstract namespace, without its leading zero byte.
    Abstract(Vec<u8>),
    /// One end of an inherited pair of sockets: connections are passed over it.
    Pair(i32),
}

/// The port of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServicePort {
    /// This port; 0 is the port that the client connected to.
    Fixed(u16),
    /// The port that the client connected to, plus this: a port mapping (manual, "server").
    Mapped(i32),
}

impl ServerAddress {
    /// The address of a server with a name that is not resolved and without a port.
    pub const UNKNOWN: Self = Self::Inet { ip: None, port: ServicePort::Mapped(0) };

    /// The IP address, if there is one.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet { ip, .. } => *ip,
            _ => None,
        }
    }

    /// The port of an IP address, known or not.
    #[must_use]
    pub const fn port(&self) -> Option<ServicePort> {
        match self {
            Self::Inet { port, .. } => Some(*port),
            _ => None,
        }
    }

    /// Whether the server waits for an address: its name is not resolved.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Inet { ip: None, .. })
    }

    /// The IP address and the fixed port, without regard to clients: for checks, and for connections of the process itself.
    #[must_use]
    pub fn without_client(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip()?, self.port()?.fixed()?))
    }

    /// The IP address and the port, or the offset of a mapping, as the statistics show it: `127.0.0.1:80`, `[::1]:80`.
    #[must_use]
    pub fn inet_text(&self) -> Option<String> {
        let number = self.port()?.number();
        Some(match self.ip()? {
            IpAddr::V4(ip) => format!("{ip}:{number}"),
            IpAddr::V6(ip) => format!("[{ip}]:{number}"),
        })
    }

    /// Whether it depends on the client's destination.
    #[must_use]
    pub fn follows_client(&self) -> bool {
        match self {
            Self::Inet { ip, port } => ip.is_some_and(|ip| ip.is_unspecified()) || port.fixed().is_none(),
            _ => false,
        }
    }
}

impl From<SocketAddr> for ServerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Inet { ip: Some(address.ip()), port: ServicePort::Fixed(address.port()) }
    }
}

impl ServicePort {
    /// The port that does not depend on the client.
    #[must_use]
    pub const fn fixed(self) -> Option<u16> {
        match self {
            Self::Fixed(0) | Self::Mapped(_) => None,
            Self::Fixed(port) => Some(port),
        }
    }

    /// The port for a client that connected to `port`; none outside of 0 to 65535.
    #[must_use]
    pub fn for_client(self, port: u16) -> Option<u16> {
        match self {
            Self::Fixed(0) => Some(port),
            Self::Fixed(fixed) => Some(fixed),
            Self::Mapped(offset) => u16::try_from(i32::from(port).checked_add(offset)?).ok(),
        }
    }

    /// The port, or the offset of a mapping, as operators see it in the statistics, and as hashes take it.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Fixed(port) => i32::from(port),
            Self::Mapped(offset) => offset,
        }
    }
}

/// As in commands and log lines: `80`, or `+1` and `-1` for a mapping.
impl std::fmt::Display for ServicePort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(port) => port.fmt(formatter),
            Self::Mapped(offset) => write!(formatter, "{offset:+}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_follow_the_client_or_not() {
        let check = |port: ServicePort, shown: &str, expected: Option<u16>| {
            assert_eq!((port.to_string().as_str(), port.for_client(8000)), (shown, expected));
        };
        check(ServicePort::Fixed(80), "80", Some(80));
        check(ServicePort::Fixed(0), "0", Some(8000));
        check(ServicePort::Mapped(0), "+0", Some(8000));
        check(ServicePort::Mapped(1), "+1", Some(8001));
        check(ServicePort::Mapped(-7999), "-7999", Some(1));
        check(ServicePort::Mapped(-8001), "-8001", None);
        check(ServicePort::Mapped(i32::MAX), "+2147483647", None);
    }

    #[test]
    fn addresses_follow_the_client_by_their_ip_or_their_port() {
        let check = |ip: &str, port: ServicePort, follows: bool, own: Option<&str>| {
            let address = ServerAddress::Inet { ip: ip.parse().ok(), port };
            assert_eq!(address.follows_client(), follows, "{address:?}");
            assert_eq!(address.inet_text().is_some(), !ip.is_empty());
            assert_eq!(address.without_client().map(|own| own.to_string()).as_deref(), own, "{address:?}");
        };
        check("192.0.2.1", ServicePort::Fixed(80), false, Some("192.0.2.1:80"));
        check("192.0.2.1", ServicePort::Fixed(0), true, None);
        check("192.0.2.1", ServicePort::Mapped(80), true, None);
        check("0.0.0.0", ServicePort::Fixed(80), true, Some("0.0.0.0:80"));
        check("::", ServicePort::Fixed(80), true, Some("[::]:80"));
        check("", ServicePort::Fixed(80), false, None);
        assert!(!ServerAddress::Unix("/s".into()).follows_client());
    }
}
