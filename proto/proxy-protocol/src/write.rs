//! Writes a header, to be sent before the first byte to a server.

use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::tlv::{self, Tlv};
use crate::{ClientAddresses, HeaderCommand, SIGNATURE, Transport, UNIX_PATH, V2_FIXED, crc32c};

/// The contents of a header of version 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct V2<'a> {
    /// Whether the connection serves a client or the proxy itself.
    pub command: HeaderCommand,
    /// The transport between the client and us.
    pub transport: Transport,
    pub addresses: ClientAddresses<'a>,
    /// TLVs, in this order.
    pub tlvs: &'a [Tlv<'a>],
    /// Whether to end with a checksum.
    pub checksum: bool,
}

/// The contents are longer than a header can be. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderTooLong;

/// Appends a header of version 1. Addresses that it cannot express become `UNKNOWN`.
pub fn write_v1(addresses: ClientAddresses<'_>, out: &mut Vec<u8>) {
    let ClientAddresses::Inet { source, destination } = addresses else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let (source, destination) = same_family(source, destination);
    let protocol = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let written = write!(
        out,
        "PROXY {protocol} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    );
    debug_assert!(written.is_ok(), "a vector takes everything");
}

/// Appends a header of version 2.
pub fn write_v2(header: &V2<'_>, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
    let start = out.len();
    out.extend_from_slice(&SIGNATURE);
    out.push(0x20 | u8::from(header.command == HeaderCommand::Proxy));
    let transport = match header.transport {
        Transport::Unspecified => 0,
        Transport::Stream => 1,
        Transport::Datagram => 2,
    };
    match header.addresses {
        _ if header.command == HeaderCommand::Local => out.extend_from_slice(&[0, 0, 0]),
        ClientAddresses::Unknown => out.extend_from_slice(&[0, 0, 0]),
        ClientAddresses::Inet { source, destination } => {
            let (source, destination) = same_family(source, destination);
            out.extend_from_slice(&[transport | if source.is_ipv4() { 0x10 } else { 0x20 }, 0, 0]);
            write_address(source.ip(), out);
            write_address(destination.ip(), out);
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&destination.port().to_be_bytes());
        }
        ClientAddresses::Unix { source, destination } => {
            out.extend_from_slice(&[transport | 0x30, 0, 0]);
            for path in [source, destination] {
                let path = &path[..path.len().min(UNIX_PATH)];
                out.extend_from_slice(path);
                out.resize(out.len() + UNIX_PATH - path.len(), 0);
            }
        }
    }
    for tlv in header.tlvs {
        if tlv.value.len() > usize::from(u16::MAX) {
            out.truncate(start);
            return Err(HeaderTooLong);
        }
        tlv.write(out);
    }
    if header.checksum {
        Tlv { kind: tlv::CRC32C, value: &[0; 4] }.write(out);
    }
    let Ok(length) = u16::try_from(out.len() - start - V2_FIXED) else {
        out.truncate(start);
        return Err(HeaderTooLong);
    };
    out[start + 14..start + V2_FIXED].copy_from_slice(&length.to_be_bytes());
    if header.checksum {
        let sum = crc32c::checksum(&[&out[start..]]);
        let at = out.len() - 4;
        out[at..].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

fn write_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

/// Converts both addresses to one family, because a header has only one.
fn same_family(source: SocketAddr, destination: SocketAddr) -> (SocketAddr, SocketAddr) {
    if source.is_ipv4() == destination.is_ipv4() {
        return (source, destination);
    }
    (as_v6(source), as_v6(destination))
}

fn as_v6(address: SocketAddr) -> SocketAddr {
    let ip: Ipv6Addr = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(IpAddr::V6(ip), address.port())
}
