//! The PROXY protocol, versions 1 and 2, both ways.
//!
//! A proxy in front of this one sends the client's addresses before the client's first byte. This proxy sends them to
//! servers in the same way. [`parse`] reads a header at the start of a receive buffer, [`write_v1`] and [`write_v2`]
//! make one. The specification is `doc/proxy-protocol.txt` of HAProxy.
//!
//! Nothing here knows which peers are trusted: parse a header only if the configuration requires one.

mod crc32c;
pub mod parse;
pub mod tlv;
pub mod write;

use std::net::SocketAddr;

pub use parse::{ProxyError, ProxyHeader, parse};
pub use tlv::{Ssl, Tlv, Tlvs};
pub use write::{HeaderTooLong, V2, write_v1, write_v2};

/// The version of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary, with TLVs besides addresses.
    V2,
}

/// Whether the connection serves a client or the proxy itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderCommand {
    /// The proxy itself, as for a health check. The addresses of the connection apply.
    Local,
    /// A client; its addresses are in the header.
    Proxy,
}

/// The transport between client and proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Unspecified,
    /// A byte stream: TCP, or a Unix stream socket.
    Stream,
    /// Datagrams: UDP, or a Unix datagram socket.
    Datagram,
}

/// The client's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientAddresses<'a> {
    /// Not specified. The addresses of the connection apply.
    Unknown,
    /// Two addresses of the same family.
    Inet {
        source: SocketAddr,
        /// The one that the client connected to.
        destination: SocketAddr,
    },
    /// Two paths, up to 108 bytes each, without the zeros after them. An abstract name begins with a zero.
    Unix {
        source: &'a [u8],
        /// The one that the client connected to.
        destination: &'a [u8],
    },
}

/// The signature that every header of version 2 begins with.
pub(crate) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses in a header of version 2.
pub(crate) const V2_FIXED: usize = 16;

/// The longest path in a header of version 2.
pub(crate) const UNIX_PATH: usize = 108;
