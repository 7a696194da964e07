//! The PROXY protocol, versions 1 and 2, both ways.
//!
//! A proxy in front of us says, before the first byte of the client, whose connection this is; we say it to servers in
//! the same way. [`parse`] reads a header at the start of a receive buffer, [`write_v1`] and [`write_v2`] make one.
//! The specification is `doc/proxy-protocol.txt` of HAProxy.
//!
//! Nothing here knows who may be believed: a header must only be asked for where the configuration says so.

mod crc32c;
pub mod parse;
pub mod tlv;
pub mod write;

use std::net::SocketAddr;

pub use parse::{Header, ProxyError, parse};
pub use tlv::{Ssl, Tlv, Tlvs};
pub use write::{NoRoom, V2, write_v1, write_v2};

/// Which of the two forms a header has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary, with room for more than addresses.
    V2,
}

/// On whose behalf the connection was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The proxy's own, as for a health check: the addresses of the connection itself hold.
    Local,
    /// Somebody's, whose addresses are told.
    Proxy,
}

/// How the client speaks to the proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Not told.
    Unspecified,
    /// A byte stream: TCP, or a Unix stream socket.
    Stream,
    /// Datagrams: UDP, or a Unix datagram socket.
    Datagram,
}

/// Whose connection it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses<'a> {
    /// Not told: the addresses of the connection itself hold.
    Unknown,
    /// Two addresses of the same family.
    Inet {
        /// The client's.
        source: SocketAddr,
        /// The one that the client connected to.
        destination: SocketAddr,
    },
    /// Two paths, up to 108 bytes each, without the zeros after them. An abstract name begins with a zero.
    Unix {
        /// The client's.
        source: &'a [u8],
        /// The one that the client connected to.
        destination: &'a [u8],
    },
}

/// What every header of version 2 begins with.
pub(crate) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// What is before the addresses in a header of version 2.
pub(crate) const V2_FIXED: usize = 16;

/// The longest path in a header of version 2.
pub(crate) const UNIX_PATH: usize = 108;
