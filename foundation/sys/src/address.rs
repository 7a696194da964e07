//! Socket addresses.

use crate::Result;
use rustix::net::{SocketAddrAny, SocketAddrUnix};
use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The address of one end of a stream or datagram socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Address {
    /// IPv4 or IPv6, with a port.
    Inet(SocketAddr),
    /// A UNIX socket in the file system.
    Unix(PathBuf),
    /// A UNIX socket in the abstract namespace of Linux. The name excludes the leading zero byte.
    Abstract(Box<[u8]>),
    /// An unnamed UNIX socket (of a client), or an unknown address.
    #[default]
    Unnamed,
}

/// Address families of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressFamily {
    Inet,
    Inet6,
    /// UNIX, named, abstract or unnamed.
    Unix,
}

impl Address {
    /// The family of the address.
    pub fn family(&self) -> AddressFamily {
        match self {
            Self::Inet(SocketAddr::V4(_)) => AddressFamily::Inet,
            Self::Inet(SocketAddr::V6(_)) => AddressFamily::Inet6,
            Self::Unix(_) | Self::Abstract(_) | Self::Unnamed => AddressFamily::Unix,
        }
    }

    /// The IP address and port. `None` for a UNIX address.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(*address),
            _ => None,
        }
    }

    /// The IP address. `None` for a UNIX address.
    pub fn ip(&self) -> Option<IpAddr> {
        self.inet().map(|address| address.ip())
    }

    /// The port. 0 for a UNIX address.
    pub fn port(&self) -> u16 {
        self.inet().map_or(0, |address| address.port())
    }

    /// The path of a UNIX socket in the file system. `None` for other addresses.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            _ => None,
        }
    }

    /// Whether this is a UNIX address of any kind.
    pub fn is_unix(&self) -> bool {
        self.inet().is_none()
    }

    /// Converts to the kernel's form. Fails for a path of more than 107 bytes.
    pub(crate) fn to_kernel(&self) -> Result<SocketAddrAny> {
        Ok(match self {
            Self::Inet(SocketAddr::V4(address)) => (*address).into(),
            Self::Inet(SocketAddr::V6(address)) => (*address).into(),
            Self::Unix(path) => SocketAddrUnix::new(path.as_path())?.into(),
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name)?.into(),
            Self::Unnamed => SocketAddrUnix::new_unnamed().into(),
        })
    }

    /// Converts from the kernel's form. An address of an unsupported family becomes [`Address::Unnamed`].
    pub(crate) fn from_kernel(address: &SocketAddrAny) -> Self {
        let address = address.clone();
        if address.address_family() == rustix::net::AddressFamily::INET {
            return SocketAddrV4::try_from(address).map_or(Self::Unnamed, |v4| Self::Inet(v4.into()));
        }
        if address.address_family() == rustix::net::AddressFamily::INET6 {
            return SocketAddrV6::try_from(address).map_or(Self::Unnamed, |v6| Self::Inet(v6.into()));
        }
        SocketAddrUnix::try_from(address).map_or(Self::Unnamed, |unix| Self::from_unix(&unix))
    }

    fn from_unix(address: &SocketAddrUnix) -> Self {
        // The kernel reports a socket without a name in a form that also passes for an empty abstract name.
        if let Some(name) = address.abstract_name().filter(|name| !name.is_empty()) {
            return Self::Abstract(name.into());
        }
        match address.path_bytes() {
            Some(path) if !path.is_empty() => {
                let path = path.strip_suffix(b"\0").unwrap_or(path);
                Self::Unix(Path::new(OsStr::from_bytes(path)).to_path_buf())
            }
            _ => Self::Unnamed,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl From<(Ipv4Addr, u16)> for Address {
    fn from((ip, port): (Ipv4Addr, u16)) -> Self {
        Self::Inet(SocketAddrV4::new(ip, port).into())
    }
}

/// The format of logs: `192.0.2.1:80`, `2001:db8::1:80` (without brackets, like HAProxy), the path, `abns@name` or `unix`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{}:{}", address.ip(), address.port()),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "abns@{}", String::from_utf8_lossy(name)),
            Self::Unnamed => f.write_str("unix"),
        }
    }
}

impl AddressFamily {
    pub(crate) fn to_kernel(self) -> rustix::net::AddressFamily {
        match self {
            Self::Inet => rustix::net::AddressFamily::INET,
            Self::Inet6 => rustix::net::AddressFamily::INET6,
            Self::Unix => rustix::net::AddressFamily::UNIX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: Address, family: AddressFamily, text: &str) {
        let kernel = address.to_kernel().expect("fits the kernel");
        assert_eq!(Address::from_kernel(&kernel), address);
        assert_eq!((address.family(), address.to_string().as_str()), (family, text));
    }

    #[test]
    fn every_kind_of_address_survives_the_kernel_format() {
        check(Address::from((Ipv4Addr::LOCALHOST, 80)), AddressFamily::Inet, "127.0.0.1:80");
        let v6: SocketAddr = "[2001:db8::1]:443".parse().expect("an address");
        check(v6.into(), AddressFamily::Inet6, "2001:db8::1:443");
        check(Address::Unix("/run/a.sock".into()), AddressFamily::Unix, "/run/a.sock");
        check(Address::Abstract((*b"name").into()), AddressFamily::Unix, "abns@name");
        check(Address::Unnamed, AddressFamily::Unix, "unix");
    }

    #[test]
    fn a_unix_path_above_the_kernel_limit_is_refused() {
        let path = "/".repeat(200);
        assert_eq!(Address::Unix(path.into()).to_kernel().err(), Some(crate::Errno::NAMETOOLONG));
    }
}
