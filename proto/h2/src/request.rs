//! Decoded fields to the head of a request (RFC 9113, 8.1 to 8.3).
//!
//! While a header block is decoded, the head is written in HTTP/1 form and indexed. The pseudo-header fields become the
//! start line. So the bytes for an HTTP/1 server are ready, and rules see the same bytes for every HTTP version.

use std::ops::Range;

use weir_hpack::{DecodedField, Token};
use weir_http::authority::{has_port, host_fault, without_implied_port};
use weir_http::{HeadFlags, KnownName, MessageSpan, Method, Version, uri, values};

use crate::received::{HeadFault, ReceivedHead};

/// Builds the heads of requests, one at a time.
#[derive(Debug)]
pub(crate) struct Builder {
    pub request: ReceivedHead,
    max_head: usize,
    /// The values of pseudo-header fields, until the start line is written.
    pseudo: Vec<u8>,
    method: Option<Range<usize>>,
    scheme: Option<Range<usize>>,
    authority: Option<Range<usize>>,
    path: Option<Range<usize>>,
    protocol: Option<Range<usize>>,
    /// This end announced extended CONNECT, so `:protocol` is allowed (RFC 8441).
    extended: bool,
    /// The start line is written. A later pseudo-header field is a fault.
    started: bool,
    /// The value of the only `Host`.
    host: Option<MessageSpan>,
    /// The values of all `Cookie` fields, joined (RFC 9113, 8.2.3).
    cookies: Vec<u8>,
}

impl Builder {
    /// With `extended`, requests may use extended CONNECT (RFC 8441).
    pub(crate) fn new(max_fields: u16, max_head: usize, extended: bool) -> Builder {
        Builder {
            request: ReceivedHead::with_max_fields(max_fields),
            max_head,
            pseudo: Vec::new(),
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            extended,
            started: false,
            host: None,
            cookies: Vec::new(),
        }
    }

    /// Begins the next request.
    pub(crate) fn begin(&mut self) {
        self.request.clear();
        self.pseudo.clear();
        self.cookies.clear();
        (self.method, self.scheme, self.authority, self.path) = (None, None, None, None);
        self.protocol = None;
        self.started = false;
        self.host = None;
    }

    /// Adds the next field of the header block.
    pub(crate) fn field(&mut self, field: DecodedField<'_>) {
        if !self.request.admits(&field, self.pseudo.len() + self.cookies.len(), self.max_head) {
            return;
        }
        match field.token {
            Token::Field(known) => {
                if !self.started {
                    self.start();
                }
                if self.request.is_sound() {
                    self.regular(known, field.name, field.value);
                }
            }
            _ if self.started => self.malformed(),
            pseudo => self.pseudo(pseudo, field.value),
        }
    }

    fn pseudo(&mut self, token: Token, value: &[u8]) {
        let place = self.pseudo.len()..self.pseudo.len() + value.len();
        let slot = match token {
            Token::Method => &mut self.method,
            Token::Scheme => &mut self.scheme,
            Token::Authority => &mut self.authority,
            Token::Path => &mut self.path,
            Token::Protocol if self.extended => &mut self.protocol,
            // A pseudo-header field of a response, one that was not announced, or an unknown one.
            _ => return self.malformed(),
        };
        if slot.replace(place).is_some() {
            return self.malformed();
        }
        self.pseudo.extend_from_slice(value);
    }

    /// Writes the start line, and a `Host` with the authority.
    fn start(&mut self) {
        self.started = true;
        let text = |place: &Option<Range<usize>>| place.clone().map(|place| &self.pseudo[place]);
        let (method, scheme, authority, path) =
            (text(&self.method), text(&self.scheme), text(&self.authority), text(&self.path));
        let protocol = text(&self.protocol);
        let line = match protocol {
            None => StartLine::of(method, scheme, authority, path),
            Some(protocol) => StartLine::of_upgrade(method, scheme, authority, path, protocol),
        };
        let line = match line {
            Ok(line) => line,
            Err(fault) => return self.request.fail(fault),
        };
        let ReceivedHead { head, bytes, .. } = &mut self.request;
        bytes.reserve(FIRST_CAPACITY.max(2 * self.pseudo.len()));
        bytes.extend_from_slice(line.method);
        let method_end = bytes.len();
        bytes.push(b' ');
        let target = bytes.len();
        if let (Some(scheme), Some(authority)) = (line.scheme, line.authority) {
            for part in [scheme, b"://", authority] {
                bytes.extend_from_slice(part);
            }
            head.note(HeadFlags::ABSOLUTE_FORM);
        } else if let Some(authority) = line.authority {
            bytes.extend_from_slice(authority);
            head.note(HeadFlags::AUTHORITY_FORM);
        }
        bytes.extend_from_slice(line.path);
        let target_end = bytes.len();
        bytes.extend_from_slice(b" HTTP/2.0\r\n");
        let version = MessageSpan::raw(target_end + 1, bytes.len() - 2);
        head.begin_request(0, MessageSpan::raw(0, method_end), MessageSpan::raw(target, target_end), version);
        head.note_method(Method::from_bytes(line.method));
        head.note_version(Version::HTTP_20);
        if let Some(authority) = line.authority {
            head.note_host();
            self.host = Some(self.request.push(KnownName::Host, b"host", authority));
        }
        if let Some(protocol) = protocol {
            if protocol.eq_ignore_ascii_case(b"websocket") {
                self.request.head.note(HeadFlags::UPGRADE_WEBSOCKET);
            }
            self.request.push_upgrade(protocol);
        }
    }

    /// White space around a value is removed, as in HTTP/1. RFC 9113 (8.2.1) forbids it, but HAProxy accepts it. It must not be forwarded.
    fn regular(&mut self, known: KnownName, name: &[u8], value: &[u8]) {
        let value = values::trim(value);
        let flags = match known {
            // HTTP/1's connection-specific fields (RFC 9113, 8.2.2).
            KnownName::Connection
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::TransferEncoding
            | KnownName::Upgrade
            | KnownName::Http2Settings => return self.malformed(),
            KnownName::Te if !value.eq_ignore_ascii_case(b"trailers") => return self.malformed(),
            KnownName::Te => HeadFlags::TE_TRAILERS,
            KnownName::Cookie => {
                self.cookies.extend_from_slice(if self.cookies.is_empty() { b"" } else { b"; " });
                self.cookies.extend_from_slice(value);
                return;
            }
            KnownName::Host => return self.host(value),
            KnownName::ContentLength => return self.request.push_length(value),
            KnownName::Expect if value.eq_ignore_ascii_case(b"100-continue") => HeadFlags::EXPECT_100,
            KnownName::Date => HeadFlags::HAS_DATE,
            _ => HeadFlags::NONE,
        };
        self.request.head.note(flags);
        self.request.push(known, name, value);
    }

    /// `Host` is dropped beside an authority, whatever its value: rules and servers see the authority alone, as with
    /// HAProxy. Without an authority, several `Host` must be equal, because a server could use any of them (RFC 9113,
    /// 8.3.1).
    fn host(&mut self, value: &[u8]) {
        if self.authority.is_some() {
            return;
        }
        if let Some(known) = self.host {
            if !known.of(&self.request.bytes, &[]).eq_ignore_ascii_case(value) {
                self.malformed();
            }
            return;
        }
        if host_fault(value).is_some() {
            return self.malformed();
        }
        self.request.head.note_host();
        self.host = Some(self.request.push(KnownName::Host, b"host", value));
    }

    /// Ends the header block. With `end`, no body follows.
    pub(crate) fn finish(&mut self, end: bool) {
        if !self.started && self.request.is_sound() {
            self.start();
        }
        if !self.request.is_sound() {
            return;
        }
        let ReceivedHead { head, .. } = &mut self.request;
        let length = head.content_length();
        let tunnel = head.method() == Method::Connect || self.protocol.is_some();
        if (end && length.is_some_and(|length| length > 0)) || (tunnel && length.is_some()) {
            return self.malformed();
        }
        if !self.cookies.is_empty() {
            head.note(HeadFlags::HAS_COOKIE);
            self.request.push(KnownName::Cookie, b"cookie", &self.cookies);
        }
        if !end && length.is_none() && !tunnel {
            self.request.push_chunked();
        }
        self.request.finish();
    }

    #[cold]
    fn malformed(&mut self) {
        self.request.fail(HeadFault::Malformed);
    }
}

/// The start line from the pseudo-header fields.
struct StartLine<'p> {
    method: &'p [u8],
    scheme: Option<&'p [u8]>,
    authority: Option<&'p [u8]>,
    path: &'p [u8],
}

impl<'p> StartLine<'p> {
    /// An error if the pseudo-header fields are inconsistent (RFC 9113, 8.3.1 and 8.5).
    fn of(
        method: Option<&'p [u8]>,
        scheme: Option<&'p [u8]>,
        authority: Option<&'p [u8]>,
        path: Option<&'p [u8]>,
    ) -> Result<Self, HeadFault> {
        let method = method.ok_or(HeadFault::Malformed)?;
        if !weir_http::is_token(method) {
            return Err(HeadFault::NoRequest);
        }
        if authority.is_some_and(|authority| host_fault(authority).is_some() || authority.is_empty()) {
            return Err(HeadFault::Malformed);
        }
        if method == b"CONNECT" {
            if scheme.is_some() || path.is_some() || !authority.is_some_and(has_port) {
                return Err(HeadFault::Malformed);
            }
            return Ok(StartLine { method, scheme: None, authority, path: b"" });
        }
        let scheme = scheme.ok_or(HeadFault::Malformed)?;
        if !is_scheme(scheme) {
            return Err(HeadFault::NoRequest);
        }
        let path = path
            .filter(|path| path.iter().all(|byte| matches!(byte, 0x21..0x7f) && *byte != b'#'))
            .ok_or(HeadFault::Malformed)?;
        let star = path == b"*" && method == b"OPTIONS";
        // `*` is for OPTIONS alone, and no request has the method `PRI` of the preface.
        if (path == b"*" && !star) || method == b"PRI" {
            return Err(HeadFault::NoRequest);
        }
        if path.first() != Some(&b'/') && !star {
            return Err(HeadFault::Malformed);
        }
        let port = uri::default_port(scheme);
        let authority =
            authority.map(|authority| port.map_or(authority, |port| without_implied_port(authority, port)));
        // `OPTIONS *` with an authority becomes an absolute target without a path (RFC 9110, 7.1).
        let path = if star && authority.is_some() { b"" } else { path };
        Ok(StartLine { method, scheme: Some(scheme), authority, path })
    }
}

impl<'p> StartLine<'p> {
    /// The start line of an extended CONNECT, which corresponds to `Upgrade` in HTTP/1 (RFC 8441, 4). `h2c` is
    /// rejected, because it would bypass all rules on requests.
    fn of_upgrade(
        method: Option<&'p [u8]>,
        scheme: Option<&'p [u8]>,
        authority: Option<&'p [u8]>,
        path: Option<&'p [u8]>,
        protocol: &[u8],
    ) -> Result<Self, HeadFault> {
        let is_name = weir_http::is_token(protocol) && !protocol.eq_ignore_ascii_case(b"h2c");
        let is_valid = method == Some(b"CONNECT") && authority.is_some() && path != Some(b"*");
        if !is_valid || !is_name {
            return Err(HeadFault::Malformed);
        }
        StartLine::of(Some(b"GET"), scheme, authority, path)
    }
}

/// Whether the text is a valid scheme (RFC 3986, 3.1).
fn is_scheme(text: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(inner)
}

/// Initial capacity for a head in bytes. Enough for most heads, and avoids many reallocations.
const FIRST_CAPACITY: usize = 256;

#[cfg(test)]
mod tests;
