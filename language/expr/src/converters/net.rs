//! Addresses, hosts and the Forwarded header.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::text::{lower, slice};
use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::error::show;
use crate::literal::is_token_byte;
use crate::sample::SampleType::{Addr, Any, Bool, Int, Str};
use crate::sample::Value;
use crate::sample::cast::{embedded_ipv4, parse_ipv4, parse_ipv6};
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("host_only", Str, Str, Run::Pure(host_only), "The host of a Host header, in lower case"),
    Converter::new("ipmask", Addr, Addr, Run::Pure(ipmask), "The network of an address")
        .args(1, &[ArgKind::Mask4, ArgKind::Mask6]),
    Converter::new("port_only", Str, Int, Run::Pure(port_only), "The port of a Host header, 0 without one"),
    Converter::new(
        "rfc7239_field",
        Str,
        Str,
        Run::Pure(rfc7239_field),
        "One parameter of the first element of a Forwarded header",
    )
    .args(1, &[ArgKind::Str])
    .check(check_rfc7239_field),
    Converter::new(
        "rfc7239_is_valid",
        Str,
        Bool,
        Run::Pure(rfc7239_is_valid),
        "Whether a Forwarded header is well formed",
    ),
    Converter::new(
        "rfc7239_n2nn",
        Str,
        Any,
        Run::Pure(rfc7239_n2nn),
        "The name in a node of a Forwarded header",
    ),
    Converter::new(
        "rfc7239_n2np",
        Str,
        Any,
        Run::Pure(rfc7239_n2np),
        "The port in a node of a Forwarded header",
    ),
    Converter::new(
        "rfc7239_nn",
        Any,
        Str,
        Run::Pure(rfc7239_nn),
        "An address or a name as the name of a node",
    ),
    Converter::new("rfc7239_np", Any, Str, Run::Pure(rfc7239_np), "A number or a name as the port of a node"),
];

/// Offset of the end of the host: the last colon, unless it is inside brackets.
fn host_end(text: &[u8]) -> usize {
    match memchr::memrchr2(b':', b']', text) {
        Some(at) if text[at] == b':' => at,
        _ => text.len(),
    }
}

fn host_only<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    let end = host_end(&bytes);
    lower(Value::Str(slice(bytes, 0, end)), args)
}

fn port_only<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let text = value.bytes()?;
    let port = text.get(host_end(text) + 1..).and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    scratch::recycle(value);
    Some(Value::Int(port.unwrap_or(0i64)))
}

/// An IPv6 address that represents an IPv4 one in any of the three ways is masked as IPv4. Other IPv6 addresses need the second mask.
fn ipmask<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let Arg::Ipv4(mask4) = args.get(0) else { return None };
    match value {
        Value::Ipv4(address) => Some(Value::Ipv4(address & *mask4)),
        Value::Ipv6(address) => match (embedded_ipv4(address), args.get(1)) {
            (Some(address), _) => Some(Value::Ipv4(address & *mask4)),
            (None, Arg::Ipv6(mask6)) => Some(Value::Ipv6(address & *mask6)),
            _ => None,
        },
        _ => None,
    }
}

/// A node of a Forwarded header (RFC 7239, 6): name and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ForwardedNode<'t> {
    name: NodeName<'t>,
    port: Option<NodePort<'t>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeName<'t> {
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    Unknown,
    Obfuscated(&'t [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodePort<'t> {
    Number(u16),
    Obfuscated(&'t [u8]),
}

/// `_` and at least one letter, digit, dot, underscore or hyphen.
fn is_obfuscated(text: &[u8]) -> bool {
    matches!(text, [b'_', rest @ ..] if !rest.is_empty()
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte)))
}

impl<'t> ForwardedNode<'t> {
    fn parse(text: &'t [u8]) -> Option<ForwardedNode<'t>> {
        let (name, port) = match text {
            [b'[', rest @ ..] => {
                let end = memchr::memchr(b']', rest)?;
                let port = match &rest[end + 1..] {
                    [] => None,
                    [b':', port @ ..] => Some(port),
                    _ => return None,
                };
                (NodeName::Ipv6(parse_ipv6(&rest[..end])?), port)
            }
            _ => {
                let (name, port) = match memchr::memchr(b':', text) {
                    Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
                    None => (text, None),
                };
                let name = if name.eq_ignore_ascii_case(b"unknown") {
                    NodeName::Unknown
                } else if is_obfuscated(name) {
                    NodeName::Obfuscated(name)
                } else {
                    NodeName::Ipv4(parse_ipv4(name)?)
                };
                (name, port)
            }
        };
        let port = match port {
            None => None,
            Some(port) if is_obfuscated(port) => Some(NodePort::Obfuscated(port)),
            Some(port) => Some(NodePort::Number(parse_port(port)?)),
        };
        Some(ForwardedNode { name, port })
    }
}

fn parse_port(text: &[u8]) -> Option<u16> {
    let digits = (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// A value from a part of a sample.
fn piece<'a>(value: Value<'a>, wrap: impl FnOnce(&[u8]) -> Value<'static>) -> Option<Value<'a>> {
    let made = wrap(value.bytes()?);
    scratch::recycle(value);
    Some(made)
}

fn owned_str(bytes: &[u8]) -> Value<'static> {
    let mut out = scratch::take();
    out.extend_from_slice(bytes);
    Value::Str(Cow::Owned(out))
}

fn rfc7239_n2nn<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let node = ForwardedNode::parse(value.bytes()?)?;
    let made = match node.name {
        NodeName::Ipv4(address) => Value::Ipv4(address),
        NodeName::Ipv6(address) => Value::Ipv6(address),
        NodeName::Unknown => Value::str(b"unknown"),
        NodeName::Obfuscated(name) => owned_str(name),
    };
    piece(value, |_| made)
}

fn rfc7239_n2np<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let node = ForwardedNode::parse(value.bytes()?)?;
    let made = match node.port? {
        NodePort::Number(port) => Value::Int(port.into()),
        NodePort::Obfuscated(port) => owned_str(port),
    };
    piece(value, |_| made)
}

/// Writes addresses verbatim, an empty string as an unknown node, and other strings as obfuscated identifiers.
fn rfc7239_nn<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let mut out = scratch::take();
    let _ = match &value {
        Value::Ipv4(address) => write!(out, "{address}"),
        Value::Ipv6(address) => write!(out, "[{address}]"),
        Value::Str(text) if text.is_empty() => write!(out, "unknown"),
        _ => return obfuscated(value, out),
    };
    scratch::recycle(value);
    Some(Value::Str(Cow::Owned(out)))
}

/// Numbers are written as ports, other values as obfuscated identifiers.
fn rfc7239_np<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let mut out = scratch::take();
    match &value {
        Value::Int(port) => {
            let _ = write!(out, "{}", u16::try_from(*port).ok()?);
        }
        _ => return obfuscated(value, out),
    }
    Some(Value::Str(Cow::Owned(out)))
}

/// An obfuscated identifier (RFC 7239, 6.3). None if the text cannot be one.
fn obfuscated(value: Value<'_>, mut out: Vec<u8>) -> Option<Value<'_>> {
    let text = value.cast(Str)?;
    out.push(b'_');
    out.extend_from_slice(text.bytes()?);
    scratch::recycle(text);
    is_obfuscated(&out).then_some(Value::Str(Cow::Owned(out)))
}

/// The parameters that RFC 7239 defines.
const FORWARDED_PARAMETERS: [&[u8]; 4] = [b"proto", b"host", b"for", b"by"];

fn check_rfc7239_field(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let name = args.str(0).unwrap_or_default();
    match FORWARDED_PARAMETERS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        true => Ok(()),
        false => {
            Err(format!("Invalid rfc7239 field '{}': expects 'proto', 'host', 'for' or 'by'", show(name)))
        }
    }
}

/// The name and the value of a parameter, as written.
type ForwardedParameter<'t> = (&'t [u8], &'t [u8]);

/// The text is not a valid list of parameters.
#[derive(Debug, Clone, Copy)]
struct MalformedParameters;

/// Reads `name=value` pairs of one element, each value a token or between quotes.
struct ForwardedParameters<'t> {
    rest: &'t [u8],
}

impl<'t> ForwardedParameters<'t> {
    /// The next pair. `None` at the end, an error if the text is malformed.
    fn next(&mut self) -> Result<Option<ForwardedParameter<'t>>, MalformedParameters> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let equals = memchr::memchr(b'=', self.rest).ok_or(MalformedParameters)?;
        let name = &self.rest[..equals];
        let after = &self.rest[equals + 1..];
        let end = match after {
            [b'"', quoted @ ..] => {
                let mut at = 0;
                loop {
                    match quoted.get(at).ok_or(MalformedParameters)? {
                        b'"' => break at + 2,
                        b'\\' => at += 2,
                        _ => at += 1,
                    }
                }
            }
            _ => after.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(after.len()),
        };
        let value = &after[..end];
        self.rest = match &after[end..] {
            [] => &[],
            [b';', rest @ ..] if !rest.is_empty() => rest,
            _ => return Err(MalformedParameters),
        };
        Ok(Some((name, value)))
    }
}

/// The text of a value without quotes and escapes.
fn unquote(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) else {
        return Cow::Borrowed(value);
    };
    if !inner.contains(&b'\\') {
        return Cow::Borrowed(inner);
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        out.push(if *byte == b'\\' { *bytes.next().unwrap_or(byte) } else { *byte });
    }
    Cow::Owned(out)
}

fn is_valid_parameter(name: &[u8], value: &[u8]) -> bool {
    let text = unquote(value);
    // Colons and brackets are not allowed in tokens, so addresses with them must be quoted.
    match name.to_ascii_lowercase().as_slice() {
        b"for" | b"by" => ForwardedNode::parse(&text).is_some(),
        b"proto" => {
            text.first().is_some_and(u8::is_ascii_alphabetic)
                && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
        }
        b"host" => {
            let host = &text[..host_end(&text)];
            let port = text.get(host.len() + 1..);
            let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte);
            let literal = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
            let good_host =
                literal.map_or(!host.is_empty() && host.iter().all(named), |host| parse_ipv6(host).is_some());
            good_host && port.is_none_or(|port| parse_port(port).is_some())
        }
        _ => false,
    }
}

/// Whether the text is one element with known parameters, each at most once.
fn rfc7239_is_valid<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let mut parameters = ForwardedParameters { rest: value.bytes()? };
    let mut seen = [false; 4];
    let mut any = false;
    let valid = loop {
        match parameters.next() {
            Ok(None) => break any,
            Err(MalformedParameters) => break false,
            Ok(Some((name, text))) => {
                any = true;
                let known = FORWARDED_PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known));
                match known {
                    Some(index) if !seen[index] && is_valid_parameter(name, text) => seen[index] = true,
                    _ => break false,
                }
            }
        }
    };
    scratch::recycle(value);
    Some(Value::Bool(valid))
}

fn rfc7239_field<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let wanted = args.str(0)?;
    let mut parameters = ForwardedParameters { rest: value.bytes()? };
    let mut found = None;
    while let Some((name, text)) = parameters.next().ok()? {
        // A repeated parameter makes the element invalid (RFC 7239, 4).
        if name.eq_ignore_ascii_case(wanted) && found.replace(text).is_some() {
            return None;
        }
    }
    let found = found.filter(|text| is_valid_parameter(wanted, text)).map(|text| owned_str(&unquote(text)));
    scratch::recycle(value);
    found
}
