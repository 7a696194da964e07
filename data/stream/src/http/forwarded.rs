//! `option forwarded`: the field of RFC 7239, with what servers would know from a direct connection.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use weir_config::model::{Forwarded, ForwardedValue};
use weir_expr::{Expr, Value};

use crate::stream::Stream;

impl Stream {
    /// The field's value: the configured parts, in the order of the manual.
    pub(super) fn forwarded_value(&mut self, option: &Forwarded) -> Vec<u8> {
        let mut out = Vec::new();
        if option.proto {
            out.extend_from_slice(b"proto=http");
        }
        if let Some(host) = option.host.as_ref().and_then(|value| self.forwarded_host(value)) {
            separate(&mut out);
            out.extend_from_slice(b"host=");
            quote(&mut out, &host);
        }
        let (source, destination) = (self.source().inet(), self.destination().inet());
        let by = (option.by.as_ref(), option.by_port.as_ref(), destination);
        let of_client = (option.source.as_ref(), option.source_port.as_ref(), source);
        for (name, (node, port, address)) in [(&b"by="[..], by), (b"for=", of_client)] {
            let Some(node) = node else { continue };
            separate(&mut out);
            out.extend_from_slice(name);
            let mut value = match node {
                ForwardedValue::Own => node_name(address.map(|address| address.ip())),
                ForwardedValue::Expression(expression) => self.forwarded_node(expression),
            };
            let port = port.and_then(|port| match port {
                ForwardedValue::Own => {
                    address.as_ref().map(|address| SocketAddr::port(address).to_string().into_bytes())
                }
                ForwardedValue::Expression(expression) => self.forwarded_port(expression),
            });
            if let Some(port) = port {
                value.push(b':');
                value.extend_from_slice(&port);
            }
            // A token has neither colons nor brackets (RFC 7239, section 4).
            if value.iter().all(|byte| !matches!(byte, b':' | b'[')) {
                out.extend_from_slice(&value);
            } else {
                quote(&mut out, &value);
            }
        }
        out
    }

    fn forwarded_host(&mut self, value: &ForwardedValue) -> Option<Vec<u8>> {
        match value {
            ForwardedValue::Own => {
                self.request.message.head.find(self.request.message.bytes(), b"host", 1).map(<[u8]>::to_vec)
            }
            ForwardedValue::Expression(expression) => {
                self.evaluate_string(expression).map(|text| text.as_slice().to_vec())
            }
        }
    }

    /// A node's name: an address, or an obfuscated identifier.
    fn forwarded_node(&mut self, expression: &Expr) -> Vec<u8> {
        let value = expression.evaluate(self).sample().map(|sample| sample.value);
        match value {
            Some(Value::Ipv4(ip)) => node_name(Some(IpAddr::V4(ip))),
            Some(Value::Ipv6(ip)) => node_name(Some(IpAddr::V6(ip))),
            Some(Value::Str(text)) => {
                let address = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                match address {
                    Some(address) => node_name(Some(address)),
                    None if text.eq_ignore_ascii_case(b"unknown") => node_name(None),
                    None => obfuscated(&text).unwrap_or_else(|| node_name(None)),
                }
            }
            Some(Value::Int(number)) => obfuscated(number.to_string().as_bytes()).unwrap_or_default(),
            _ => node_name(None),
        }
    }

    /// A node's port: a number, or an obfuscated identifier.
    fn forwarded_port(&mut self, expression: &Expr) -> Option<Vec<u8>> {
        match expression.evaluate(self).sample()?.value {
            Value::Int(port) => u16::try_from(port).ok().map(|port| port.to_string().into_bytes()),
            Value::Str(text) => obfuscated(&text),
            _ => None,
        }
    }
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b';');
    }
}

/// A quoted string (RFC 9110, section 5.6.4).
fn quote(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn node_name(address: Option<IpAddr>) -> Vec<u8> {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = match address {
        Some(IpAddr::V4(ip)) => write!(out, "{ip}"),
        Some(IpAddr::V6(ip)) => match ip.to_ipv4_mapped() {
            Some(ip) => write!(out, "{ip}"),
            None => write!(out, "[{ip}]"),
        },
        None => write!(out, "unknown"),
    };
    out
}

/// An obfuscated identifier of RFC 7239, section 6.3: letters, digits and `._-` after an underscore. None if the text has other bytes.
fn obfuscated(text: &[u8]) -> Option<Vec<u8>> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text.is_empty() || !text.iter().all(fits) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() + 1);
    if text[0] != b'_' {
        out.push(b'_');
    }
    out.extend_from_slice(text);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identifiers() {
        let name = |text: &str| String::from_utf8(node_name(text.parse().ok())).unwrap();
        assert_eq!(
            ["127.0.0.1", "::1", "::ffff:1.2.3.4", "x"].map(name),
            ["127.0.0.1", "[::1]", "1.2.3.4", "unknown"]
        );
        let hidden = |text: &str| obfuscated(text.as_bytes()).map(|made| String::from_utf8(made).unwrap());
        assert_eq!(hidden("7F00"), Some("_7F00".to_owned()));
        assert_eq!(hidden("_a.b-c"), Some("_a.b-c".to_owned()));
        assert_eq!((hidden(""), hidden("a b"), hidden("a:b")), (None, None, None));
        let mut out = Vec::new();
        quote(&mut out, b"a\"b");
        assert_eq!(out, b"\"a\\\"b\"");
    }
}
