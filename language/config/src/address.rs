//! Addresses: `[family@]host:port`, `/path`, `abns@name`, `fd@N`.
//!
//! One grammar serves `bind`, `server`, `source` and `log`. They differ in the accepted families and forms of ports. Host names are not
//! resolved here.

pub(crate) mod variables;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use weir_syntax::{SourceMap, Span, Word};

use crate::words::{Parsed, fault, not_yet};
use weir_model::{Family, Host, IpNetwork, ListenAddress, LogAddress, ServerAddress, ServerPort};

/// A parsed address. Its family and port are not checked yet.
#[derive(Debug)]
enum Raw<'w> {
    /// A host, and the text after the last colon. None without a colon.
    Inet {
        host: Host,
        port: Option<&'w str>,
    },
    Unix(&'w str),
    /// A name in the abstract namespace.
    Abstract {
        name: &'w str,
        padded: bool,
    },
    /// `fd@N`.
    Descriptor(i32),
    /// `sockpair@N`.
    SocketPair(i32),
}

/// A port as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Missing,
    /// `80`, or `80-89`.
    Range(u16, u16),
    /// `+80` or `-80`.
    Offset(i32),
}

/// The words that may precede `@`, and their meaning.
const PREFIXES: &[(&str, AddressPrefix)] = &[
    ("ipv4", AddressPrefix::Family(Family::V4)),
    ("ipv6", AddressPrefix::Family(Family::V6)),
    ("ip", AddressPrefix::Family(Family::Any)),
    ("tcp", AddressPrefix::Family(Family::Any)),
    ("tcp4", AddressPrefix::Family(Family::V4)),
    ("tcp6", AddressPrefix::Family(Family::V6)),
    ("unix", AddressPrefix::Unix),
    ("uxst", AddressPrefix::Unix),
    ("abns", AddressPrefix::Abstract { padded: true }),
    ("abnsz", AddressPrefix::Abstract { padded: false }),
    ("fd", AddressPrefix::Descriptor),
    ("sockpair", AddressPrefix::SocketPair),
    ("udp", AddressPrefix::Datagram(Family::Any)),
    ("udp4", AddressPrefix::Datagram(Family::V4)),
    ("udp6", AddressPrefix::Datagram(Family::V6)),
    ("uxdg", AddressPrefix::DatagramUnix),
    ("quic4", AddressPrefix::NotYet),
    ("quic6", AddressPrefix::NotYet),
    ("quic+ip", AddressPrefix::NotYet),
    ("quic+ipv4", AddressPrefix::NotYet),
    ("quic+ipv6", AddressPrefix::NotYet),
    ("mptcp", AddressPrefix::Multipath(Family::Any)),
    ("mptcp4", AddressPrefix::Multipath(Family::V4)),
    ("mptcp6", AddressPrefix::Multipath(Family::V6)),
    ("rhttp", AddressPrefix::NotYet),
];

/// The meaning of a prefix.
#[derive(Clone, Copy, Debug)]
enum AddressPrefix {
    Family(Family),
    Multipath(Family),
    Unix,
    Abstract { padded: bool },
    Descriptor,
    SocketPair,
    Datagram(Family),
    DatagramUnix,
    NotYet,
}

/// Whether a connection or datagrams are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketType {
    Stream,
    Datagram,
}

/// Parses the comma-separated addresses of a `bind` line. Messages use `keyword`.
pub fn listen_addresses(word: &Word, keyword: &str) -> Parsed<Vec<ListenAddress>> {
    all_listen_addresses(word, keyword, SocketType::Stream)
}

/// Parses the comma-separated addresses of a line for datagram sockets.
pub fn datagram_addresses(word: &Word, keyword: &str) -> Parsed<Vec<ListenAddress>> {
    all_listen_addresses(word, keyword, SocketType::Datagram)
}

fn all_listen_addresses(word: &Word, keyword: &str, transport: SocketType) -> Parsed<Vec<ListenAddress>> {
    let mut addresses = Vec::new();
    let text = word.text();
    let mut start = 0;
    for part in text.split(',') {
        let span = word.span_of(start..start + part.len());
        let last = start + part.len() == text.len();
        start += part.len() + 1;
        if part.is_empty() && last && !addresses.is_empty() {
            break;
        }
        addresses.push(listen_address(part.trim_matches([' ', '\t']), span, keyword, transport)?);
    }
    Ok(addresses)
}

fn listen_address(text: &str, span: Span, keyword: &str, transport: SocketType) -> Parsed<ListenAddress> {
    let complain = |message: String| fault(span, format!("'{keyword}' : {message}"));
    match raw(text, span, keyword, transport)? {
        Raw::Inet { host, port } => match port_of(port, text).map_err(complain)? {
            Port::Missing if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(complain(format!(
                    "missing port specification in '{text}': a port follows a colon, ':{text}'"
                )))
            }
            Port::Missing => Err(complain(format!("missing port specification in '{text}'"))),
            Port::Offset(_) => Err(complain(format!("port offset not permitted here in '{text}'"))),
            Port::Range(0, _) => Err(complain("invalid port '0'".to_owned())),
            Port::Range(first_port, last_port) => {
                Ok(ListenAddress::Inet { host, first_port, last_port, multipath: is_multipath(text) })
            }
        },
        Raw::Unix(path) => Ok(ListenAddress::Unix(PathBuf::from(path))),
        Raw::Abstract { name, padded } => {
            Ok(ListenAddress::Abstract { name: name.as_bytes().into(), padded })
        }
        Raw::Descriptor(number) => Ok(ListenAddress::Descriptor(number)),
        Raw::SocketPair(number) => Ok(ListenAddress::SocketPair(number)),
    }
}

/// Parses the address of a server. Messages use `subject`.
pub fn server_address(word: &Word, subject: &str) -> Parsed<ServerAddress> {
    address_of_server(word, subject, SocketType::Stream)
}

/// Parses the address of a server or a log server. Also returns whether it takes datagrams.
pub(crate) fn any_server_address(word: &Word, subject: &str) -> Parsed<(ServerAddress, bool)> {
    let transport = forced_transport(word.text()).unwrap_or(SocketType::Stream);
    Ok((address_of_server(word, subject, transport)?, transport == SocketType::Datagram))
}

fn address_of_server(word: &Word, subject: &str, transport: SocketType) -> Parsed<ServerAddress> {
    let (text, span) = (word.text(), word.span());
    let complain = |message: String| fault(span, format!("'{subject}' : {message}"));
    match raw(text, span, subject, transport)? {
        Raw::Inet { host, port } => {
            let port = match port_of(port, text).map_err(complain)? {
                Port::Missing => ServerPort::Mapped(0),
                Port::Offset(offset) => ServerPort::Mapped(offset),
                Port::Range(first, last) if first == last => ServerPort::Fixed(first),
                Port::Range(..) => {
                    return Err(complain(format!("port range not permitted here in '{text}'")));
                }
            };
            Ok(ServerAddress::Inet { host, port })
        }
        Raw::Unix(path) => Ok(ServerAddress::Unix(PathBuf::from(path))),
        Raw::Abstract { name, padded } => {
            Ok(ServerAddress::Abstract { name: name.as_bytes().into(), padded })
        }
        Raw::SocketPair(number) => Ok(ServerAddress::SocketPair(number)),
        Raw::Descriptor(_) => Err(complain(format!("'fd@' is not permitted here in '{text}'"))),
    }
}

/// Parses the address of a peer in a script: that of a server, with an IP address and a plain port. `None` if it is not valid.
pub fn script_address(text: &str) -> Option<ServerAddress> {
    let file = SourceMap::new().add("script", Vec::new());
    let word = Word::synthetic(text, Span::new(file, 1, 0, 0));
    let address = server_address(&word, "script").ok()?;
    let suits = match &address {
        ServerAddress::Inet { host, port } => {
            // Short forms of IPv4 addresses are likely to be mistakes here.
            let is_whole = |ip: IpAddr| ip.is_ipv6() || ip.is_unspecified() || text.contains(&ip.to_string());
            host.ip().is_some_and(is_whole) && matches!(port, ServerPort::Fixed(_) | ServerPort::Mapped(0))
        }
        ServerAddress::Unix(_) | ServerAddress::Abstract { .. } => true,
        ServerAddress::SocketPair(_) => false,
    };
    (suits && !is_multipath(text)).then_some(address)
}

/// Parses the address of a log target. Messages use `keyword`.
pub fn log_address(word: &Word, keyword: &str) -> Parsed<LogAddress> {
    let (text, span) = (word.text(), word.span());
    match text {
        "stdout" => return Ok(LogAddress::Descriptor(1)),
        "stderr" => return Ok(LogAddress::Descriptor(2)),
        _ => {}
    }
    let complain = |message: String| fault(span, format!("{keyword} : {message}"));
    if let Some(name) = text.strip_prefix("ring@") {
        if name.is_empty() {
            return Err(complain("a ring's name is expected after 'ring@'".to_owned()));
        }
        return Ok(LogAddress::Ring(name.into()));
    }
    if let Some(name) = text.strip_prefix("backend@") {
        if name.is_empty() {
            return Err(complain("a backend's name is expected after 'backend@'".to_owned()));
        }
        return Ok(LogAddress::Backend(name.into()));
    }
    let wanted = log_transport(text);
    let raw = raw(text, span, keyword, wanted).map_err(|mut fault| {
        // Messages about log lines show their keyword without quotes.
        fault.message = fault.message.replacen(&format!("'{keyword}'"), keyword, 1);
        fault
    })?;
    let inet = |host, port| match wanted {
        SocketType::Datagram => LogAddress::Udp { host, port },
        SocketType::Stream => LogAddress::Stream {
            server: ServerAddress::Inet { host, port: ServerPort::Fixed(port) },
            multipath: is_multipath(text),
        },
    };
    match raw {
        Raw::Inet { host, port } => match port_of(port, text).map_err(complain)? {
            Port::Missing => Ok(inet(host, SYSLOG_PORT)),
            Port::Range(first, last) if first == last => Ok(inet(host, first)),
            Port::Range(..) => Err(complain(format!("port range not permitted here in '{text}'"))),
            Port::Offset(_) => Err(complain(format!("port offset not permitted here in '{text}'"))),
        },
        Raw::Unix(path) if wanted == SocketType::Stream => {
            let server = ServerAddress::Unix(PathBuf::from(path));
            Ok(LogAddress::Stream { server, multipath: false })
        }
        Raw::Unix(path) => Ok(LogAddress::Unix(PathBuf::from(path))),
        Raw::Abstract { name, padded } if wanted == SocketType::Stream => {
            let server = ServerAddress::Abstract { name: name.as_bytes().into(), padded };
            Ok(LogAddress::Stream { server, multipath: false })
        }
        Raw::Abstract { name, .. } => Ok(LogAddress::Abstract(name.as_bytes().into())),
        Raw::Descriptor(number) => Ok(LogAddress::Descriptor(number)),
        Raw::SocketPair(_) => Err(complain(format!("'sockpair@' is not permitted here in '{text}'"))),
    }
}

/// Log messages are sent as datagrams unless a prefix forces a connection.
fn log_transport(text: &str) -> SocketType {
    forced_transport(text).unwrap_or(SocketType::Datagram)
}

/// The transport that the prefixes of an address force.
fn forced_transport(text: &str) -> Option<SocketType> {
    let (transport, rest) = forcing_prefix(text);
    transport.or_else(|| match prefix(rest)? {
        (_, AddressPrefix::Datagram(_) | AddressPrefix::DatagramUnix) => Some(SocketType::Datagram),
        (_, AddressPrefix::Multipath(_)) | ("tcp" | "tcp4" | "tcp6" | "uxst", _) => Some(SocketType::Stream),
        _ => None,
    })
}

/// The prefix of an address, and its meaning.
fn prefix(address: &str) -> Option<(&str, AddressPrefix)> {
    let (prefix, _) = address.split_once('@')?;
    PREFIXES.iter().find(|(known, _)| *known == prefix).copied()
}

/// Whether the prefix of an address requires MPTCP.
pub(crate) fn is_multipath(text: &str) -> bool {
    matches!(prefix(forcing_prefix(text).1), Some((_, AddressPrefix::Multipath(_))))
}

/// Refuses `mptcp@` where MPTCP is not possible.
pub(crate) fn refuse_multipath(word: &Word, subject: &str) -> Parsed {
    if is_multipath(word.text()) {
        return Err(fault(word.span(), format!("'{subject}' : 'mptcp@' is not permitted here in '{word}'")));
    }
    Ok(())
}

/// Splits `stream+` or `dgram+` from an address (manual, "Address formats").
fn forcing_prefix(text: &str) -> (Option<SocketType>, &str) {
    let forced = |prefix, transport| text.strip_prefix(prefix).map(|rest| (Some(transport), rest));
    forced("stream+", SocketType::Stream)
        .or_else(|| forced("dgram+", SocketType::Datagram))
        .unwrap_or((None, text))
}

/// Parses `<address>[:<port>[-<port>]]`, a source address.
pub(crate) fn source_address(word: &Word, subject: &str) -> Parsed<(Host, u16, u16)> {
    let (text, span) = (word.text(), word.span());
    let complain = |message: String| fault(span, format!("'{subject}' : {message}"));
    match raw(text, span, subject, SocketType::Stream)? {
        Raw::Inet { host, port } => match port_of(port, text).map_err(complain)? {
            Port::Missing => Ok((host, 0, 0)),
            Port::Range(first, last) => Ok((host, first, last)),
            Port::Offset(_) => Err(complain(format!("port offset not permitted here in '{text}'"))),
        },
        _ => Err(complain(format!("'{text}' : an IP address is expected"))),
    }
}

/// Parses `<address>:<port>` of a proxy for outgoing connections.
pub(crate) fn proxy_address(word: &Word, subject: &str) -> Parsed<(Host, u16)> {
    let (text, span) = (word.text(), word.span());
    let complain = |message: String| fault(span, format!("'{subject}' : {message}"));
    match raw(text, span, subject, SocketType::Stream)? {
        Raw::Inet { host, port } => match port_of(port, text).map_err(complain)? {
            Port::Missing => Err(complain(format!("missing port specification in '{text}'"))),
            Port::Range(0, _) => Err(complain("invalid port '0'".to_owned())),
            Port::Range(first, last) if first == last => Ok((host, first)),
            Port::Range(..) => Err(complain(format!("port range not permitted here in '{text}'"))),
            Port::Offset(_) => Err(complain(format!("port offset not permitted here in '{text}'"))),
        },
        _ => Err(complain(format!("'{text}' : an IP address is expected"))),
    }
}

/// Parses the address of a name server, and whether it is queried over TCP. Messages use `subject`.
pub(crate) fn name_server_address(word: &Word, subject: &str) -> Parsed<(SocketAddr, bool)> {
    let (text, span) = (word.text(), word.span());
    let complain = |message: String| fault(span, format!("'{subject}' : {message}"));
    let transport = log_transport(text);
    let Raw::Inet { host, port } = raw(text, span, subject, transport)? else {
        return Err(complain(format!("'{text}' : an IP address is expected")));
    };
    let Some(ip) = host.ip() else {
        let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
        return Err(complain(format!("invalid address: '{host}' in '{text}'")));
    };
    match port_of(port, text).map_err(complain)? {
        Port::Missing => Err(complain(format!("missing port specification in '{text}'"))),
        Port::Range(0, _) => Err(complain("invalid port '0'".to_owned())),
        Port::Range(first, last) if first == last => {
            Ok((SocketAddr::new(ip, first), transport == SocketType::Stream))
        }
        Port::Range(..) => Err(complain(format!("port range not permitted here in '{text}'"))),
        Port::Offset(_) => Err(complain(format!("port offset not permitted here in '{text}'"))),
    }
}

/// Parses `<address>[/<length>]`, or an IPv4 address with a dotted mask.
pub(crate) fn network(text: &str) -> Option<IpNetwork> {
    let (address, mask) = match text.split_once('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix_length = match mask {
        None => bits,
        Some(mask) => match mask.parse::<u8>() {
            Ok(length) if length <= bits => length,
            Ok(_) => return None,
            Err(_) => dotted_mask(mask)?,
        },
    };
    Some(IpNetwork { address, prefix_length })
}

fn dotted_mask(text: &str) -> Option<u8> {
    let mask: Ipv4Addr = text.parse().ok()?;
    let bits = mask.to_bits();
    let length = bits.leading_ones();
    (bits.count_ones() == length).then_some(length as u8)
}

/// The default port of a log target.
const SYSLOG_PORT: u16 = 514;

fn raw<'w>(text: &'w str, span: Span, subject: &str, wanted: SocketType) -> Parsed<Raw<'w>> {
    let complain = |message: String| fault(span, format!("'{subject}' : {message}"));
    if text.is_empty() {
        return Err(complain("'' resolves to an empty address (environment variable missing?)".to_owned()));
    }
    let (_, address) = forcing_prefix(text);
    let (prefix, rest) = match address.split_once('@') {
        Some((name, rest)) => match PREFIXES.iter().find(|(known, _)| *known == name) {
            Some((_, prefix)) => (Some(*prefix), rest),
            None if address.starts_with('/') => (None, address),
            None => return Err(complain(format!("invalid address: '{name}@' in '{text}'"))),
        },
        None => (None, address),
    };
    if forced_transport(text).is_some_and(|transport| transport != wanted) {
        return Err(match wanted {
            SocketType::Stream => complain(format!("dgram-type address not acceptable in '{text}'")),
            SocketType::Datagram => complain(format!("stream-type address not acceptable in '{text}'")),
        });
    }
    match prefix {
        Some(AddressPrefix::NotYet) => Err(not_yet(span, text)),
        Some(AddressPrefix::Unix | AddressPrefix::DatagramUnix) => Ok(Raw::Unix(rest)),
        Some(AddressPrefix::Abstract { padded }) => Ok(Raw::Abstract { name: rest, padded }),
        Some(AddressPrefix::Descriptor) => descriptor(rest, text).map(Raw::Descriptor).map_err(complain),
        Some(AddressPrefix::SocketPair) => descriptor(rest, text).map(Raw::SocketPair).map_err(complain),
        None if rest.starts_with('/') => Ok(Raw::Unix(rest)),
        None => inet(rest, text, Family::Any).map_err(complain),
        Some(
            AddressPrefix::Family(family)
            | AddressPrefix::Multipath(family)
            | AddressPrefix::Datagram(family),
        ) => inet(rest, text, family).map_err(complain),
    }
}

fn descriptor(number: &str, text: &str) -> Result<i32, String> {
    match number.parse::<i32>() {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(format!("file descriptor '{number}' is not a valid integer in '{text}'")),
    }
}

fn inet<'w>(rest: &'w str, text: &str, family: Family) -> Result<Raw<'w>, String> {
    let (host, port) = if let Some(inside) = rest.strip_prefix('[') {
        let (host, after) = inside.split_once(']').ok_or_else(|| format!("missing ']' in '{text}'"))?;
        match after.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if after.is_empty() => (host, None),
            None => return Err(format!("unexpected '{after}' after ']' in '{text}'")),
        }
    } else {
        // The port follows the last colon, even after an IPv6 address without brackets.
        match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        }
    };
    let host = host_of(host, family).ok_or_else(|| format!("invalid address: '{host}' in '{text}'"))?;
    Ok(Raw::Inet { host, port })
}

fn host_of(text: &str, family: Family) -> Option<Host> {
    if text.is_empty() || text == "*" {
        return Some(Host::Ip(match family {
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Family::Any | Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        }));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        let suits = match family {
            Family::Any => true,
            Family::V4 => ip.is_ipv4(),
            Family::V6 => ip.is_ipv6(),
        };
        return suits.then_some(Host::Ip(ip));
    }
    if text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit())) {
        // A top-level domain is never a number, so this is an address or an error.
        return numeric_address(text).filter(|_| family != Family::V6).map(|ip| Host::Ip(ip.into()));
    }
    let is_name = text.len() <= MAX_HOST_NAME
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    is_name.then(|| Host::Name { name: text.into(), family })
}

/// An IPv4 address of one to four decimal numbers. The last number fills the remaining bytes: `127.1` is 127.0.0.1.
fn numeric_address(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = Vec::new();
    for part in text.split('.') {
        let decimal = part.len() == 1 || !part.starts_with('0');
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        numbers.push(part.parse::<u32>().ok().filter(|_| digits && decimal && numbers.len() < 4)?);
    }
    let last = numbers.pop()?;
    let mut address = 0;
    for (index, number) in numbers.iter().enumerate() {
        address |= u32::from(u8::try_from(*number).ok()?) << (24 - 8 * index);
    }
    let room = u32::MAX.checked_shr(8 * numbers.len() as u32)?;
    (last <= room).then(|| Ipv4Addr::from_bits(address | last))
}

/// The limit of characters in a domain name (RFC 1035, section 2.3.4).
const MAX_HOST_NAME: usize = 255;

fn port_of(port: Option<&str>, text: &str) -> Result<Port, String> {
    let Some(port) = port else { return Ok(Port::Missing) };
    if let Some(digits) = port.strip_prefix('+') {
        return port_number(digits, port, text).map(|offset| Port::Offset(i32::from(offset)));
    }
    if let Some(digits) = port.strip_prefix('-') {
        return port_number(digits, port, text).map(|offset| Port::Offset(-i32::from(offset)));
    }
    if port.is_empty() {
        return Ok(Port::Missing);
    }
    match port.split_once('-') {
        None => port_number(port, port, text).map(|number| Port::Range(number, number)),
        Some((first, last)) => {
            let first = port_number(first, first, text)?;
            let last = port_number(last, last, text)?;
            if first > last {
                return Err(format!("invalid port range '{port}'"));
            }
            Ok(Port::Range(first, last))
        }
    }
}

fn port_number(digits: &str, port: &str, text: &str) -> Result<u16, String> {
    if let Some(stranger) = digits.chars().find(|character| !character.is_ascii_digit()) {
        return Err(format!("invalid character '{stranger}' in port number '{port}' in '{text}'"));
    }
    digits.parse().map_err(|_| format!("invalid port '{port}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        let file = SourceMap::new().add("f", Vec::new());
        Word::synthetic(text, Span::new(file, 1, 0, text.len() as u32))
    }

    fn show<T: std::fmt::Debug>(result: Parsed<T>) -> String {
        match result {
            Ok(value) => format!("{value:?}"),
            Err(fault) => fault.message,
        }
    }

    #[test]
    fn scripts_connect_to_addresses_without_names() {
        let show = |text: &str| script_address(text).map(|address| format!("{address:?}"));
        for text in [
            "127.0.0.1",
            "127.0.0.1:80",
            "ipv4@127.0.0.1:80",
            "[::1]:80",
            "::1:80",
            "*:80",
            "/run/x",
            "unix@x",
            "abns@x",
        ] {
            assert!(show(text).is_some(), "{text}");
        }
        for text in [
            "",
            "localhost:80",
            "a.example",
            "fd@5",
            "sockpair@5",
            "udp@127.0.0.1:80",
            "127.0.0.1:80:80",
            "127.0.0.1:+80",
            "127.0.0.1:1-2",
            "127.0.0.1:x",
            "mptcp@127.0.0.1:80",
            "no such host:80",
            "rhttp@x",
            "5:80",
            "127.1:80",
        ] {
            assert_eq!(show(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check_listen(text: &str, expected: &str) {
        let shown = show(listen_addresses(&word(text), "bind"));
        assert!(shown.contains(expected), "{text}: {shown}");
    }

    #[test]
    fn parses_listening_addresses() {
        check_listen(":80", "[Inet { host: Ip(0.0.0.0), first_port: 80, last_port: 80, multipath: false }]");
        check_listen("*:80", "Ip(0.0.0.0)");
        check_listen("ipv6@:80", "Ip(::)");
        check_listen(":::80", "Ip(::), first_port: 80");
        check_listen("[::1]:80", "Ip(::1)");
        check_listen("::1:80-82", "Ip(::1), first_port: 80, last_port: 82");
        check_listen("localhost:80", "Name { name: \"localhost\", family: Any }");
        check_listen(
            "1.2.3.4:1,:2",
            "last_port: 1, multipath: false }, Inet { host: Ip(0.0.0.0), first_port: 2",
        );
        check_listen(":80,", "[Inet { host: Ip(0.0.0.0), first_port: 80, last_port: 80, multipath: false }]");
        check_listen("mptcp@:80-81", "Ip(0.0.0.0), first_port: 80, last_port: 81, multipath: true");
        check_listen("mptcp6@:80", "Ip(::), first_port: 80, last_port: 80, multipath: true");
        check_listen(
            "stream+mptcp4@127.0.0.1:80",
            "Ip(127.0.0.1), first_port: 80, last_port: 80, multipath: true",
        );
        check_listen("mptcp4@[::1]:80", "invalid address: '::1'");
        check_listen("/a,unix@b", "[Unix(\"/a\"), Unix(\"b\")]");
        check_listen("fd@3", "[Descriptor(3)]");
        check_listen("sockpair@4", "[SocketPair(4)]");
        check_listen("abns@x", "padded: true");
        check_listen("abnsz@x", "padded: false");
        check_listen("abc", "'bind' : missing port specification in 'abc'");
        check_listen(":80-70", "'bind' : invalid port range '80-70'");
        check_listen(":99999", "'bind' : invalid port '99999'");
        check_listen(":0", "'bind' : invalid port '0'");
        check_listen(":x", "invalid character 'x' in port number 'x' in ':x'");
        check_listen("foo@:80", "'bind' : invalid address: 'foo@' in 'foo@:80'");
        check_listen("fd@x", "'bind' : file descriptor 'x' is not a valid integer in 'fd@x'");
        check_listen(":+80", "'bind' : port offset not permitted here in ':+80'");
        check_listen("ipv4@::1:80", "'bind' : invalid address: '::1' in 'ipv4@::1:80'");
        check_listen(",:80", "'bind' : '' resolves to an empty address");
        check_listen("stream+1.1.1.1:80", "Ip(1.1.1.1), first_port: 80");
        check_listen("stream+[::1]:80", "Ip(::1)");
        check_listen("stream+:80", "Ip(0.0.0.0)");
        check_listen("stream+/run/x@y", "Unix(\"/run/x@y\")");
        check_listen("stream+ipv6@[::1]:80", "Ip(::1)");
        check_listen("stream+tcp4@1.1.1.1:80", "Ip(1.1.1.1)");
        check_listen("stream+abns@x", "padded: true");
        check_listen("stream+fd@3", "Descriptor(3)");
        check_listen("stream+sockpair@3", "SocketPair(3)");
        check_listen("stream+stream+1.1.1.1:80", "invalid address: 'stream+1.1.1.1'");
        check_listen("xyz+1.1.1.1:80", "invalid address: 'xyz+1.1.1.1'");
        check_listen("dgram+1.1.1.1:80", "dgram-type address not acceptable in 'dgram+1.1.1.1:80'");
        check_listen("dgram+/run/x", "dgram-type address not acceptable");
        check_listen("udp@1.1.1.1:80", "'bind' : dgram-type address not acceptable in 'udp@1.1.1.1:80'");
        check_listen("quic4@1.1.1.1:80", "'quic4@1.1.1.1:80' is not implemented yet");
        check_listen("[::1:80", "missing ']'");
    }

    #[track_caller]
    fn check_server(text: &str, expected: &str) {
        let shown = show(server_address(&word(text), "server l/a"));
        assert!(shown.contains(expected), "{text}: {shown}");
    }

    #[test]
    fn parses_server_addresses() {
        check_server("1.1.1.1:80", "Ip(1.1.1.1), port: Fixed(80)");
        check_server("1.1.1.1", "Mapped(0)");
        check_server("*", "Ip(0.0.0.0), port: Mapped(0)");
        check_server("1.1.1.1:+80", "Mapped(80)");
        check_server("1.1.1.1:-80", "Mapped(-80)");
        check_server(
            "www.example.com:80",
            "Name { name: \"www.example.com\", family: Any }, port: Fixed(80)",
        );
        check_server("ipv6@www.example.com:80", "family: V6");
        check_server("/tmp/x", "Unix(\"/tmp/x\")");
        check_server("stream+1.1.1.1:80", "Ip(1.1.1.1), port: Fixed(80)");
        check_server(
            "stream+www.example.com",
            "Name { name: \"www.example.com\", family: Any }, port: Mapped(0)",
        );
        check_server("stream+unix@/tmp/x", "Unix(\"/tmp/x\")");
        check_server("dgram+1.1.1.1:80", "'server l/a' : dgram-type address not acceptable");
        let (_, datagrams) =
            any_server_address(&word("dgram+1.1.1.1:80"), "server l/a").expect("a log server");
        assert!(datagrams);
        check_server("1.1.1.1:80-90", "'server l/a' : port range not permitted here in '1.1.1.1:80-90'");
        check_server("a b:80", "'server l/a' : invalid address: 'a b' in 'a b:80'");
    }

    #[test]
    fn parses_log_addresses() {
        let check = |text: &str, expected: &str| {
            let shown = show(log_address(&word(text), "log"));
            assert!(shown.contains(expected), "{text}: {shown}");
        };
        check("127.0.0.1", "port: 514");
        check("127.0.0.1:5140", "port: 5140");
        check("udp@127.0.0.1:5140", "port: 5140");
        check("/dev/log", "Unix(\"/dev/log\")");
        check("stdout", "Descriptor(1)");
        check("fd@7", "Descriptor(7)");
        check("ring@a", "Ring(\"a\")");
        check("backend@a", "Backend(\"a\")");
        check("backend@", "log : a backend's name is expected after 'backend@'");
        check(
            "tcp@127.0.0.1:1514",
            "Stream { server: Inet { host: Ip(127.0.0.1), port: Fixed(1514) }, multipath: false",
        );
        check("tcp4@127.0.0.1", "Fixed(514)");
        check("uxst@/run/log", "Stream { server: Unix(\"/run/log\")");
        check("stream+unix@/run/log", "Stream { server: Unix(\"/run/log\")");
        check("stream+127.0.0.1:1514", "Stream { server: Inet { host: Ip(127.0.0.1), port: Fixed(1514) }");
        check("stream+/run/log", "Stream { server: Unix(\"/run/log\")");
        check(
            "mptcp@127.0.0.1",
            "Stream { server: Inet { host: Ip(127.0.0.1), port: Fixed(514) }, multipath: true",
        );
        check("dgram+127.0.0.1:1514", "Udp { host: Ip(127.0.0.1), port: 1514 }");
        check("dgram+ip@127.0.0.1", "Udp { host: Ip(127.0.0.1), port: 514 }");
        check("dgram+unix@/run/log", "Unix(\"/run/log\")");
        check("dgram+/run/log", "Unix(\"/run/log\")");
        check("dgram+fd@7", "Descriptor(7)");
        check("/dev/tcp@log", "Unix(\"/dev/tcp@log\")");
    }

    #[test]
    fn networks_contain_their_addresses() {
        let check = |network_text: &str, address: &str, expected: bool| {
            let network = network(network_text).expect("a network");
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network_text} {address}");
        };
        check("10.0.0.0/8", "10.1.2.3", true);
        check("10.0.0.0/8", "11.1.2.3", false);
        check("10.0.0.0/255.0.0.0", "10.9.9.9", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("2001:db8::/32", "2001:db8::1", true);
        check("2001:db8::/32", "1.2.3.4", false);
        assert_eq!(network("1.2.3.4/33"), None);
        assert_eq!(network("x"), None);
        assert_eq!(network("1.2.3.4/255.0.255.0"), None);
    }
}
