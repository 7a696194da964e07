//! Server addresses.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where connections to a server go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// An address and a port.
    Ip(SocketAddr),
    /// A path in the file system.
    Unix(PathBuf),
    /// A name in Linux's abstract namespace, without its leading zero byte.
    Abstract(Vec<u8>),
    /// One end of an inherited pair of sockets: connections are passed over it.
    Pair(i32),
    /// Not known yet (a name to resolve).
    Unknown,
}
