//! Server addresses.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use weir_model::ServerPort;

/// The destination of connections to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An IP address and a port.
    Inet {
        /// The address. `None` while the server's name is not resolved.
        ip: Option<IpAddr>,
        /// The port. It stays when name resolution changes the IP address.
        port: ServerPort,
    },
    /// A path in the file system.
    Unix(PathBuf),
    /// A name in Linux's abstract namespace, without its leading zero byte.
    Abstract(Vec<u8>),
    /// One end of an inherited socket pair. Connections are passed over it.
    Pair(i32),
}

impl ServerAddress {
    /// The address of a server with an unresolved name and without a port.
    pub const UNKNOWN: Self = Self::Inet { ip: None, port: ServerPort::Mapped(0) };

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
    pub const fn port(&self) -> Option<ServerPort> {
        match self {
            Self::Inet { port, .. } => Some(*port),
            _ => None,
        }
    }

    /// Whether the server's name is not resolved yet.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Inet { ip: None, .. })
    }

    /// The IP address and the fixed port, independent of a client: for checks and for connections of the process itself.
    #[must_use]
    pub fn without_client(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip()?, self.port()?.fixed()?))
    }

    /// The IP address and the port (or the offset of a port mapping) as in the statistics: `127.0.0.1:80`, `[::1]:80`.
    #[must_use]
    pub fn inet_text(&self) -> Option<String> {
        let number = self.port()?.number();
        Some(match self.ip()? {
            IpAddr::V4(ip) => format!("{ip}:{number}"),
            IpAddr::V6(ip) => format!("[{ip}]:{number}"),
        })
    }

    /// Whether the server's address depends on the client's destination.
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
        Self::Inet { ip: Some(address.ip()), port: ServerPort::Fixed(address.port()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_addresses_may_take_the_ip_or_port_of_the_client() {
        let check = |ip: &str, port: ServerPort, follows: bool, own: Option<&str>| {
            let address = ServerAddress::Inet { ip: ip.parse().ok(), port };
            assert_eq!(address.follows_client(), follows, "{address:?}");
            assert_eq!(address.inet_text().is_some(), !ip.is_empty());
            assert_eq!(address.without_client().map(|own| own.to_string()).as_deref(), own, "{address:?}");
        };
        check("192.0.2.1", ServerPort::Fixed(80), false, Some("192.0.2.1:80"));
        check("192.0.2.1", ServerPort::Fixed(0), true, None);
        check("192.0.2.1", ServerPort::Mapped(80), true, None);
        check("0.0.0.0", ServerPort::Fixed(80), true, Some("0.0.0.0:80"));
        check("::", ServerPort::Fixed(80), true, Some("[::]:80"));
        check("", ServerPort::Fixed(80), false, None);
        assert!(!ServerAddress::Unix("/s".into()).follows_client());
    }
}
