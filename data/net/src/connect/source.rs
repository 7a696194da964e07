//! The source of connections: an address, a port, an interface (manual, "source").

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use weir_sys::{Address, AddressFamily, Errno, option, socket};

/// The local end of a connection, from `source` settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSource<'p> {
    /// The network interface for its packets, regardless of routes.
    pub interface: Option<&'p str>,
    pub address: SourceAddress,
}

/// A [`ConnectionSource`] that owns its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedSource {
    /// The network interface for its packets, regardless of routes.
    pub interface: Option<Box<str>>,
    pub address: SourceAddress,
}

impl From<ConnectionSource<'_>> for OwnedSource {
    fn from(source: ConnectionSource<'_>) -> Self {
        OwnedSource { interface: source.interface.map(Box::from), address: source.address }
    }
}

impl OwnedSource {
    /// The source, as connections use it.
    pub fn as_source(&self) -> ConnectionSource<'_> {
        ConnectionSource { interface: self.interface.as_deref(), address: self.address }
    }
}

/// The source address of a connection, and how its port is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceAddress {
    /// The kernel's choice.
    #[default]
    Any,
    /// A local address. The kernel chooses the port when it knows the destination, so that one port serves several
    /// destinations.
    Ip(IpAddr),
    /// A local address, with a port of a range.
    Ports {
        /// The address. May be the unspecified one.
        ip: IpAddr,
        /// The first port, not 0.
        first: u16,
        /// The last port, at least the first.
        last: u16,
        /// Selects the port to try first, modulo the range. A different value each time makes collisions rare.
        turn: u32,
    },
    /// A foreign address with packets that are routed to this machine (`usesrc`). Port 0 for any.
    Foreign(SocketAddr),
}

impl ConnectionSource<'_> {
    /// Binds a socket of that family.
    ///
    /// # Errors
    /// [`Errno::ADDRINUSE`] when no port is free, otherwise the kernel's error for the interface or the address.
    pub fn bind(&self, socket: &OwnedFd, family: AddressFamily) -> Result<(), Errno> {
        if let Some(interface) = self.interface {
            option::set_device(socket, interface)?;
        }
        match self.address {
            SourceAddress::Any => Ok(()),
            SourceAddress::Ip(ip) => {
                let _ = option::set_bind_address_no_port(socket);
                bind(socket, ip, 0)
            }
            SourceAddress::Ports { ip, first, last, turn } => {
                bind_port(socket, ip, in_turn(first, last, turn))
            }
            SourceAddress::Foreign(address) => {
                option::set_transparent(socket, family)?;
                bind(socket, address.ip(), address.port())
            }
        }
    }
}

fn bind_port(socket: &OwnedFd, ip: IpAddr, ports: impl Iterator<Item = u16>) -> Result<(), Errno> {
    let _ = option::set_reuse_address(socket);
    for port in ports {
        match bind(socket, ip, port) {
            // Some ports may be reserved for privileged processes. Any other error would be the same for each port.
            Err(Errno::ADDRINUSE | Errno::ACCESS) => {}
            bound => return bound,
        }
    }
    Err(Errno::ADDRINUSE)
}

/// All ports of a range, beginning at `turn`, wrapping around.
fn in_turn(first: u16, last: u16, turn: u32) -> impl Iterator<Item = u16> {
    let count = u32::from(last.saturating_sub(first)) + 1;
    let start = turn % count;
    (0..count).map(move |step| first + ((start + step) % count) as u16)
}

fn bind(socket: &OwnedFd, ip: IpAddr, port: u16) -> Result<(), Errno> {
    socket::bind(socket, &Address::Inet(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: u16, last: u16, turn: u32, expected: &[u16]) {
        assert_eq!(in_turn(first, last, turn).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn source_ports_are_tried_in_turn() {
        check(10, 12, 0, &[10, 11, 12]);
        check(10, 12, 1, &[11, 12, 10]);
        check(10, 12, 5, &[12, 10, 11]);
        check(7, 7, 3, &[7]);
        check(u16::MAX - 1, u16::MAX, 1, &[u16::MAX, u16::MAX - 1]);
        assert_eq!(in_turn(1, u16::MAX, u32::MAX).count(), 65_535);
    }
}
