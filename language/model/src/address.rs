//! Addresses as a configuration can name them: to listen on, to connect to, to connect from.
//!
//! Names are kept as names: this crate never resolves anything. `data/assemble` does at start.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_fingerprint::Canonical;

/// Which address family a prefix such as `ipv6@` demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Canonical)]
pub enum Family {
    /// No prefix.
    #[default]
    Any,
    /// `ipv4@`.
    V4,
    /// `ipv6@`.
    V6,
}

/// An IP address, or a host name that has yet to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum Host {
    /// A literal address; the unspecified one stands for `*`.
    Ip(IpAddr),
    /// A name, and the family that its address must have.
    Name {
        /// The name as written.
        name: Box<str>,
        /// The family demanded by a prefix.
        family: Family,
    },
}

impl Host {
    /// The address, unless it is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Host::Ip(ip) => Some(*ip),
            Host::Name { .. } => None,
        }
    }
}

/// One element of the address list of a `bind` line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum ListenAddress {
    /// `192.0.2.1:80`, `*:8000-8009`, `:::443`: one listener for each port.
    Inet {
        /// The address; the unspecified one of its family for `*`.
        host: Host,
        first_port: u16,
        /// The last port, at least `first_port`.
        last_port: u16,
        /// Whether connections speak MPTCP: `mptcp@`.
        multipath: bool,
    },
    /// `/run/x.sock` or `unix@...`. The `unix-bind prefix` is not applied yet.
    Unix(PathBuf),
    /// `abns@name`: the abstract namespace, padded with zeroes to the whole `sun_path`; `abnsz@name`: not padded.
    Abstract {
        /// The name, without the leading zero byte.
        name: Box<[u8]>,
        /// Whether the whole `sun_path` counts (`abns@`), or only the name (`abnsz@`).
        padded: bool,
    },
    /// `fd@N`: a listening socket inherited from the parent process.
    Descriptor(i32),
    /// `sockpair@N`: connections arrive as descriptors passed over this inherited socket.
    SocketPair(i32),
}

impl ListenAddress {
    /// Whether connections to it speak MPTCP.
    pub fn is_multipath(&self) -> bool {
        matches!(self, ListenAddress::Inet { multipath: true, .. })
    }

    /// The number of listeners that the address creates.
    pub fn listener_count(&self) -> usize {
        match self {
            ListenAddress::Inet { first_port, last_port, .. } => {
                usize::from(last_port.saturating_sub(*first_port)) + 1
            }
            _ => 1,
        }
    }
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum ServerAddress {
    /// An IP address or a name. The unspecified address means the client's original destination.
    Inet {
        /// The address or the name.
        host: Host,
        /// The port, or how it follows from the client's.
        port: ServerPort,
    },
    /// `unix@/path` or `/path`. The `unix-bind prefix` does not apply to servers.
    Unix(PathBuf),
    /// `abns@name` or `abnsz@name`.
    Abstract {
        /// The name, without the leading zero byte.
        name: Box<[u8]>,
        /// Whether the whole `sun_path` counts (`abns@`), or only the name (`abnsz@`).
        padded: bool,
    },
    /// `sockpair@N`: for each connection, weir creates a socket pair and passes one socket over this inherited socket.
    SocketPair(i32),
}

/// The port to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum ServerPort {
    /// A fixed port.
    Fixed(u16),
    /// Offset to the port that the client connected to: 0 for an address without a port, else `:+N` or `:-N`.
    Mapped(i32),
}

impl ServerPort {
    /// The fixed port. None for a mapped port.
    pub const fn fixed(self) -> Option<u16> {
        match self {
            ServerPort::Fixed(0) | ServerPort::Mapped(_) => None,
            ServerPort::Fixed(port) => Some(port),
        }
    }

    /// The port for a client that connected to `port`. None outside of 0 to 65535.
    pub fn for_client(self, port: u16) -> Option<u16> {
        match self {
            ServerPort::Fixed(0) => Some(port),
            ServerPort::Fixed(fixed) => Some(fixed),
            ServerPort::Mapped(offset) => u16::try_from(i32::from(port).checked_add(offset)?).ok(),
        }
    }

    /// The fixed port, or the offset of a mapped port, as in statistics and as hash input.
    pub fn number(self) -> i32 {
        match self {
            ServerPort::Fixed(port) => i32::from(port),
            ServerPort::Mapped(offset) => offset,
        }
    }
}

/// As in commands and log lines: `80`, or `+1` and `-1` for a mapping.
impl std::fmt::Display for ServerPort {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerPort::Fixed(port) => port.fmt(formatter),
            ServerPort::Mapped(offset) => write!(formatter, "{offset:+}"),
        }
    }
}

/// The source address of outgoing connections: `source`, on a proxy or a server.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Source {
    /// The address to bind to; unspecified for `*` and `0.0.0.0`.
    pub host: Host,
    /// The ports to choose from; `0..=0` when the kernel chooses.
    pub first_port: u16,
    /// The last port of the range.
    pub last_port: u16,
    /// The foreign source address of transparent sockets (`usesrc`).
    pub transparent: Option<TransparentSource>,
    /// The network interface to leave through.
    pub interface: Option<Box<str>>,
}

/// The `usesrc` part of `source`: a foreign address to present to the server.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum TransparentSource {
    /// A fixed address and port, 0 for any port.
    Address {
        /// The address, or the host name until it is resolved at start.
        host: Host,
        port: u16,
    },
    /// The client's address and port.
    Client,
    /// The client's address, any port.
    ClientAddress,
    /// The address found in a request header.
    Header {
        name: Box<str>,
        /// Occurrence of the header's value, from 1. A negative number counts from the last one.
        occurrence: i32,
    },
}

/// The SOCKS4 proxy that connections to a server go through: `socks4`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct SocksProxy {
    /// The proxy's address, or its host name until it is resolved at start.
    pub host: Host,
    /// The proxy's port, not 0.
    pub port: u16,
}

/// A network in prefix form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Canonical)]
pub struct IpNetwork {
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_length: u8,
}

impl IpNetwork {
    /// Whether `address` belongs to the network. Families never match each other.
    pub fn contains(&self, address: IpAddr) -> bool {
        let length = u32::from(self.prefix_length);
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let difference = network.to_bits() ^ address.to_bits();
                difference.leading_zeros() >= length
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let difference = network.to_bits() ^ address.to_bits();
                difference.leading_zeros() >= length
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_ports_may_be_offsets_from_the_client_port() {
        let check = |port: ServerPort, shown: &str, expected: Option<u16>| {
            assert_eq!((port.to_string().as_str(), port.for_client(8000)), (shown, expected));
        };
        check(ServerPort::Fixed(80), "80", Some(80));
        check(ServerPort::Fixed(0), "0", Some(8000));
        check(ServerPort::Mapped(0), "+0", Some(8000));
        check(ServerPort::Mapped(1), "+1", Some(8001));
        check(ServerPort::Mapped(-7999), "-7999", Some(1));
        check(ServerPort::Mapped(-8001), "-8001", None);
        check(ServerPort::Mapped(i32::MAX), "+2147483647", None);
    }
}
