//! The fields that the proxy adds to requests, among them `option forwarded`: the RFC 7239 field with the facts that servers would see
//! on a direct connection.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use weir_expr::{Expr, Value};
use weir_http::NoRoom;
use weir_model::{Forwarded, ForwardedValue};

use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::stream::phases::ExchangePhase;
use crate::stream::{PhaseResult, Stream, StreamError};

impl ExchangePhase {
    /// `unique-id-header`, `Early-Data` (RFC 8470, 5.1), `option forwardfor`, `option originalto`, `option forwarded`, in the order
    /// in which HAProxy adds them.
    pub(super) fn add_forwarding_fields(&mut self) -> PhaseResult {
        self.try_add_forwarding_fields()
            .map_err(|NoRoom| StreamError::Error(400, Ending::new(By::Proxy, During::Request)))
    }

    fn try_add_forwarding_fields(&mut self) -> Result<(), NoRoom> {
        // Generates the unique ID here at the latest: response rules and the log then see an ID derived from the request.
        if self.stream.log_line().unique_id().is_some()
            && let Some(name) = &self.stream.frontend.config.settings.unique_id_header
        {
            let id = self.stream.captures.unique_id().unwrap_or_default();
            self.stream.request.message.head.add(name.as_bytes(), id)?;
        }
        if self.stream.as_inspection().is_early() {
            self.stream.request.message.head.add(b"early-data", b"1")?;
        }
        let (frontend, backend): (&Proxy, &Proxy) = (&self.stream.frontend, &self.stream.backend);
        fn of(proxy: &Proxy) -> &weir_model::Options {
            &proxy.config.settings.options
        }
        if let Some(option) = of(backend).forward_for.as_ref().or(of(frontend).forward_for.as_ref()) {
            let name = option.header.as_bytes();
            let source = self.stream.source().ip();
            // A client's field suppresses ours only if every configured option has `if-none`. Otherwise a client could forge it.
            let options =
                || [backend, frontend].into_iter().filter_map(|proxy| of(proxy).forward_for.as_ref());
            let if_none = options().all(|option| option.if_none);
            let present =
                if_none && self.stream.request.message.head.has(self.stream.request.message.bytes(), name);
            // An address in `except` of either proxy is excepted: such a client sends the field itself.
            let excepted = |source: &IpAddr| {
                options().any(|option| option.except.is_some_and(|network| network.contains(*source)))
            };
            if let Some(source) = source.filter(|source| !excepted(source))
                && !present
            {
                add_displayed(&mut self.stream.request.message.head, name, &source)?;
            }
        }
        if let Some(option) = of(backend).original_to.as_ref().or(of(frontend).original_to.as_ref()) {
            let destination = self.stream.destination().ip();
            let mut options =
                [backend, frontend].into_iter().filter_map(|proxy| of(proxy).original_to.as_ref());
            if let Some(destination) = destination.filter(|address| {
                !options.any(|option| option.except.is_some_and(|network| network.contains(*address)))
            }) {
                add_displayed(&mut self.stream.request.message.head, option.header.as_bytes(), &destination)?;
            }
        }
        if self.stream.backend.config.settings.options.forwarded.is_some() {
            add_forwarded(&mut self.stream)?;
        }
        Ok(())
    }

    /// `http-send-name-header`. Runs after the choice of the server.
    pub(super) fn add_server_name(&mut self) -> Result<(), NoRoom> {
        let (Some(name), Some(lease)) =
            (&self.stream.backend.config.settings.send_name_header, &self.stream.server.lease)
        else {
            return Ok(());
        };
        let (head, raw) = self.stream.request.message.edit();
        head.set(raw, name.as_bytes(), lease.server().name().as_bytes())
    }

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
        let (source, destination) = (self.stream.source().inet(), self.stream.destination().inet());
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
            // A token does not contain colons or brackets (RFC 7239, section 4).
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
            ForwardedValue::Own => self
                .stream
                .request
                .message
                .head
                .find(self.stream.request.message.bytes(), b"host", 1)
                .map(<[u8]>::to_vec),
            ForwardedValue::Expression(expression) => {
                self.stream.evaluate_string(expression).map(|text| text.as_slice().to_vec())
            }
        }
    }

    /// A node's name: an address, or an obfuscated identifier.
    fn forwarded_node(&mut self, expression: &Expr) -> Vec<u8> {
        let value = expression.evaluate(&mut self.stream).sample().map(|sample| sample.value);
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
        match expression.evaluate(&mut self.stream).sample()?.value {
            Value::Int(port) => u16::try_from(port).ok().map(|port| port.to_string().into_bytes()),
            Value::Str(text) => obfuscated(&text),
            _ => None,
        }
    }
}

fn add_forwarded(stream: &mut Stream) -> Result<(), NoRoom> {
    let backend = stream.backend.proxy().clone();
    if let Some(option) = &backend.config.settings.options.forwarded {
        let value = stream.exchange_phase().forwarded_value(option);
        stream.request.message.head.add(b"forwarded", &value)?;
    }
    Ok(())
}

/// Adds a field with a short displayed value.
fn add_displayed(head: &mut weir_http::Head, name: &[u8], value: &IpAddr) -> Result<(), NoRoom> {
    use std::io::Write as _;
    let mut room = [0; 48];
    let mut rest = &mut room[..];
    // An address has at most 45 characters.
    let _ = write!(rest, "{value}");
    let left = rest.len();
    let length = room.len() - left;
    head.add(name, &room[..length])
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

/// An obfuscated identifier (RFC 7239, section 6.3): an underscore, then letters, digits and `._-`. `None` if the text has other bytes.
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
    fn formats_and_quotes_nodes_of_the_forwarded_header() {
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
