//! Reading a header at the start of a receive buffer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::tlv::{self, Tlvs};
use crate::{
    ClientAddresses, HeaderCommand, HeaderVersion, SIGNATURE, Transport, UNIX_PATH, V2_FIXED, crc32c,
};

/// A parsed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyHeader<'a> {
    pub version: HeaderVersion,
    /// Whether the connection serves a client or the proxy itself.
    pub command: HeaderCommand,
    /// The transport between client and proxy.
    pub transport: Transport,
    pub addresses: ClientAddresses<'a>,
    /// The TLVs. Empty in version 1 and after [`HeaderCommand::Local`].
    pub tlvs: Tlvs<'a>,
    /// Length of the header in bytes. The client's bytes follow.
    pub length: usize,
}

/// Why a header is invalid. The connection must be closed: nothing on it can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProxyError {
    /// The bytes match neither version 1 nor version 2.
    NotProxy,
    /// A line of version 1 with more than [`MAX_V1`] bytes.
    LineTooLong,
    /// A line of version 1 that does not end with `\r\n`.
    InvalidLineEnd,
    /// A line of version 1 with another protocol than `TCP4`, `TCP6` or `UNKNOWN`.
    UnknownProtocol,
    /// A line of version 1 with too few or too many words, or with an odd space.
    InvalidLine,
    /// An invalid address, or one of another family than the protocol's.
    InvalidAddress,
    /// A port that is not a number up to 65535.
    InvalidPort,
    /// The signature of version 2, with another version after it.
    UnsupportedVersion,
    /// A command of version 2 other than `LOCAL` and `PROXY`.
    UnknownCommand,
    /// A family or a transport that version 2 does not have.
    UnknownFamily,
    /// A length that is too short for the addresses.
    TruncatedAddresses,
    /// A TLV that ends beyond the header.
    TruncatedTlv,
    /// A checksum that is not four bytes long.
    InvalidChecksum,
    /// A checksum that does not match the header.
    ChecksumMismatch,
    /// A unique identifier of more than 128 bytes.
    UniqueIdTooLong,
    /// An SSL TLV that is not complete.
    InvalidSsl,
}

/// The longest header of version 1, its line end included.
pub const MAX_V1: usize = 107;

/// Reads the header at the start of `bytes`. `None` if it is incomplete: call again with more bytes. The caller handles
/// a full buffer without a complete header.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyError> {
    let seen = bytes.len().min(SIGNATURE.len());
    if bytes[..seen] == SIGNATURE[..seen] {
        return if bytes.len() < V2_FIXED { early_v2(bytes) } else { parse_v2(bytes) };
    }
    let seen = bytes.len().min(V1_START.len());
    if bytes[..seen] == V1_START[..seen] {
        return parse_v1(bytes);
    }
    Err(ProxyError::NotProxy)
}

fn parse_v1(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyError> {
    let window = &bytes[..bytes.len().min(MAX_V1)];
    let Some(feed) = window.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() >= MAX_V1 { Err(ProxyError::LineTooLong) } else { Ok(None) };
    };
    let line = bytes[V1_START.len()..feed].strip_suffix(b"\r").ok_or(ProxyError::InvalidLineEnd)?;
    let mut words = line.split(|byte| *byte == b' ');
    let protocol = words.next().unwrap_or_default();
    let (transport, addresses) = match protocol {
        // The rest of the line must be ignored.
        b"UNKNOWN" => (Transport::Unspecified, ClientAddresses::Unknown),
        b"TCP4" => (Transport::Stream, v1_addresses(words, |text| text.parse().ok().map(IpAddr::V4))?),
        b"TCP6" => (Transport::Stream, v1_addresses(words, |text| text.parse().ok().map(IpAddr::V6))?),
        _ => return Err(ProxyError::UnknownProtocol),
    };
    let tlvs = Tlvs::default();
    let (version, command) = (HeaderVersion::V1, HeaderCommand::Proxy);
    Ok(Some(ProxyHeader { version, command, transport, addresses, tlvs, length: feed + 1 }))
}

fn v1_addresses<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    address: impl Fn(&str) -> Option<IpAddr>,
) -> Result<ClientAddresses<'static>, ProxyError> {
    let mut word = || words.next().filter(|word| !word.is_empty()).ok_or(ProxyError::InvalidLine);
    let (source, destination) = (word()?, word()?);
    let (source_port, destination_port) = (word()?, word()?);
    if words.next().is_some() {
        return Err(ProxyError::InvalidLine);
    }
    let address =
        |word: &[u8]| std::str::from_utf8(word).ok().and_then(&address).ok_or(ProxyError::InvalidAddress);
    Ok(ClientAddresses::Inet {
        source: SocketAddr::new(address(source)?, port(source_port)?),
        destination: SocketAddr::new(address(destination)?, port(destination_port)?),
    })
}

fn port(digits: &[u8]) -> Result<u16, ProxyError> {
    if digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(ProxyError::InvalidPort);
    }
    let number = digits.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    u16::try_from(number).map_err(|_| ProxyError::InvalidPort)
}

/// Checks the beginning of a header with an incomplete fixed part.
fn early_v2(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyError> {
    let Some(byte) = bytes.get(12) else { return Ok(None) };
    if command(*byte)? == HeaderCommand::Proxy
        && let Some(byte) = bytes.get(13)
    {
        family(*byte)?;
    }
    Ok(None)
}

fn parse_v2(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyError> {
    let command = command(bytes[12])?;
    let length = V2_FIXED + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if command == HeaderCommand::Local {
        // For `LOCAL`, the family, addresses and TLVs must be ignored (specification, 2.2).
        return Ok((bytes.len() >= length).then_some(ProxyHeader {
            version: HeaderVersion::V2,
            command,
            transport: Transport::Unspecified,
            addresses: ClientAddresses::Unknown,
            tlvs: Tlvs::default(),
            length,
        }));
    }
    let (transport, layout) = family(bytes[13])?;
    let Some(header) = bytes.get(..length) else { return Ok(None) };
    let body = &header[V2_FIXED..];
    let (block, rest) = body.split_at_checked(layout.size()).ok_or(ProxyError::TruncatedAddresses)?;
    let addresses = layout.read(block);
    let tlvs = Tlvs::new(rest).ok_or(ProxyError::TruncatedTlv)?;
    check_values(header, tlvs)?;
    Ok(Some(ProxyHeader { version: HeaderVersion::V2, command, transport, addresses, tlvs, length }))
}

fn command(byte: u8) -> Result<HeaderCommand, ProxyError> {
    match (byte >> 4, byte & 15) {
        (2, 0) => Ok(HeaderCommand::Local),
        (2, 1) => Ok(HeaderCommand::Proxy),
        (2, _) => Err(ProxyError::UnknownCommand),
        _ => Err(ProxyError::UnsupportedVersion),
    }
}

fn family(byte: u8) -> Result<(Transport, AddressLayout), ProxyError> {
    let transport = match byte & 15 {
        0 => Transport::Unspecified,
        1 => Transport::Stream,
        2 => Transport::Datagram,
        _ => return Err(ProxyError::UnknownFamily),
    };
    let layout = match byte >> 4 {
        0 => AddressLayout::Nothing,
        1 => AddressLayout::V4,
        2 => AddressLayout::V6,
        3 => AddressLayout::Unix,
        _ => return Err(ProxyError::UnknownFamily),
    };
    Ok((transport, layout))
}

/// The layout of the addresses in a header of version 2.
#[derive(Clone, Copy)]
enum AddressLayout {
    Nothing,
    V4,
    V6,
    Unix,
}

impl AddressLayout {
    fn size(self) -> usize {
        match self {
            AddressLayout::Nothing => 0,
            AddressLayout::V4 => 12,
            AddressLayout::V6 => 36,
            AddressLayout::Unix => 2 * UNIX_PATH,
        }
    }

    /// Reads a block of the right size.
    fn read(self, block: &[u8]) -> ClientAddresses<'_> {
        match self {
            AddressLayout::Nothing => ClientAddresses::Unknown,
            AddressLayout::V4 => inet(block, |bytes: [u8; 4]| IpAddr::V4(Ipv4Addr::from(bytes))),
            AddressLayout::V6 => inet(block, |bytes: [u8; 16]| IpAddr::V6(Ipv6Addr::from(bytes))),
            AddressLayout::Unix => {
                let (source, destination) = block.split_at(UNIX_PATH.min(block.len()));
                ClientAddresses::Unix {
                    source: without_padding(source),
                    destination: without_padding(destination),
                }
            }
        }
    }
}

fn inet<const SIZE: usize>(block: &[u8], address: impl Fn([u8; SIZE]) -> IpAddr) -> ClientAddresses<'static> {
    let part = |from: usize| block.get(from..).and_then(|rest| rest.first_chunk::<SIZE>()).copied();
    let port = |from: usize| block.get(from..).and_then(|rest| rest.first_chunk::<2>()).copied();
    let at = 2 * SIZE;
    match (part(0), part(SIZE), port(at), port(at + 2)) {
        (Some(source), Some(destination), Some(source_port), Some(destination_port)) => {
            ClientAddresses::Inet {
                source: SocketAddr::new(address(source), u16::from_be_bytes(source_port)),
                destination: SocketAddr::new(address(destination), u16::from_be_bytes(destination_port)),
            }
        }
        _ => ClientAddresses::Unknown,
    }
}

fn without_padding(path: &[u8]) -> &[u8] {
    // An abstract name begins with a zero, and ends with the last nonzero byte.
    let end = match path.first() {
        Some(0) => path.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1),
        _ => path.iter().position(|byte| *byte == 0).unwrap_or(path.len()),
    };
    &path[..end]
}

fn check_values(header: &[u8], tlvs: Tlvs<'_>) -> Result<(), ProxyError> {
    let mut at = header.len() - tlvs.as_bytes().len();
    for tlv in tlvs {
        let value_at = at + 3;
        match tlv.kind {
            tlv::CRC32C => {
                let sum: [u8; 4] = tlv.value.try_into().map_err(|_| ProxyError::InvalidChecksum)?;
                let real = crc32c::checksum(&[&header[..value_at], &[0; 4], &header[value_at + 4..]]);
                if real != u32::from_be_bytes(sum) {
                    return Err(ProxyError::ChecksumMismatch);
                }
            }
            tlv::UNIQUE_ID if tlv.value.len() > tlv::MAX_UNIQUE_ID => {
                return Err(ProxyError::UniqueIdTooLong);
            }
            tlv::SSL if tlv::Ssl::new(tlv.value).is_none() => return Err(ProxyError::InvalidSsl),
            _ => {}
        }
        at = value_at + tlv.value.len();
    }
    Ok(())
}

const V1_START: &[u8] = b"PROXY ";
