//! Fields to the head of a request (RFC 9113, 8.1 to 8.3).
//!
//! While a header block is decoded, the head is written in the form of HTTP/1, behind the start line that the pseudo-header
//! fields make, and the index over it is made at the same time. So what leaves for a server of HTTP/1 is there already, and
//! rules look at the same bytes whatever version brought them.

use std::ops::Range;

use weir_hpack::{Field, Token};
use weir_http::authority::{has_port, host_fault, without_implied_port};
use weir_http::{Flags, Head, KnownName, Method, Span, Version, body, uri};

use crate::received::{FRAMING, ReceivedHead, Verdict, push};

/// Builds the head of one request after the other.
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
    /// `:protocol` was offered (RFC 8441).
    extended: bool,
    /// The start line was written: no pseudo-header field may follow.
    started: bool,
    /// The value of the only `Host`.
    host: Option<Span>,
    /// What cookies came, joined (RFC 9113, 8.2.3).
    cookies: Vec<u8>,
}

impl Builder {
    /// With `extended`, requests may ask for another protocol (RFC 8441).
    pub fn new(max_fields: u16, max_head: usize, extended: bool) -> Builder {
        let head = Head::with_limits(max_fields, Head::DEFAULT_MAX_EDITS);
        Builder {
            request: ReceivedHead { head, ..ReceivedHead::default() },
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

    /// Another request begins.
    pub fn begin(&mut self) {
        self.request.clear();
        self.pseudo.clear();
        self.cookies.clear();
        (self.method, self.scheme, self.authority, self.path) = (None, None, None, None);
        self.protocol = None;
        self.started = false;
        self.host = None;
    }

    /// Gives back the memory.
    pub fn shrink(&mut self) {
        self.begin();
        self.request.head.shrink();
        self.request.bytes = Vec::new();
        self.pseudo = Vec::new();
        self.cookies = Vec::new();
    }

    /// The next field of the block.
    pub fn field(&mut self, field: Field<'_>) {
        if self.request.verdict != Verdict::Sound {
            return;
        }
        if field.defect.is_some() {
            return self.malformed();
        }
        let held = self.request.bytes.len() + self.pseudo.len() + self.cookies.len();
        if held + field.name.len() + field.value.len() + FRAMING > self.max_head {
            self.request.verdict = Verdict::TooLarge;
            return;
        }
        match field.token {
            Token::Field(known) => {
                if !self.started {
                    self.start();
                }
                if self.request.verdict == Verdict::Sound {
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
            // A response's, one that nobody offered, or one that nobody knows.
            _ => return self.malformed(),
        };
        if slot.replace(place).is_some() {
            return self.malformed();
        }
        self.pseudo.extend_from_slice(value);
    }

    /// Writes the start line, and the `Host` that an authority means.
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
        let Some(line) = line else { return self.malformed() };
        let ReceivedHead { head, bytes, .. } = &mut self.request;
        bytes.extend_from_slice(line.method);
        let method_end = bytes.len();
        bytes.push(b' ');
        let target = bytes.len();
        if let (Some(scheme), Some(authority)) = (line.scheme, line.authority) {
            for part in [scheme, b"://", authority] {
                bytes.extend_from_slice(part);
            }
            head.note(Flags::ABSOLUTE_FORM);
        } else if let Some(authority) = line.authority {
            bytes.extend_from_slice(authority);
            head.note(Flags::AUTHORITY_FORM);
        }
        bytes.extend_from_slice(line.path);
        let target_end = bytes.len();
        bytes.extend_from_slice(b" HTTP/2.0\r\n");
        let version = Span::raw(target_end + 1, bytes.len() - 2);
        head.begin_request(0, Span::raw(0, method_end), Span::raw(target, target_end), version);
        head.note_method(Method::from_bytes(line.method));
        head.note_version(Version::HTTP_20);
        if let Some(authority) = line.authority {
            self.host = push(head, bytes, KnownName::Host, b"host", authority);
            head.note_host();
        }
        if let Some(protocol) = protocol {
            head.note(Flags::HAS_CONNECTION | Flags::CONNECTION_UPGRADE | Flags::HAS_UPGRADE);
            if protocol.eq_ignore_ascii_case(b"websocket") {
                head.note(Flags::UPGRADE_WEBSOCKET);
            }
            let connection = push(head, bytes, KnownName::Connection, b"connection", b"upgrade");
            let upgrade = push(head, bytes, KnownName::Upgrade, b"upgrade", protocol);
            if connection.is_none() || upgrade.is_none() {
                self.request.verdict = Verdict::TooLarge;
            }
        }
    }

    fn regular(&mut self, known: KnownName, name: &[u8], value: &[u8]) {
        let ReceivedHead { head, bytes, .. } = &mut self.request;
        let flags = match known {
            // What concerns one connection of HTTP/1 alone (RFC 9113, 8.2.2).
            KnownName::Connection
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::TransferEncoding
            | KnownName::Upgrade
            | KnownName::Http2Settings => return self.malformed(),
            KnownName::Te if !value.eq_ignore_ascii_case(b"trailers") => return self.malformed(),
            KnownName::Te => Flags::TE_TRAILERS,
            KnownName::Cookie => {
                self.cookies.extend_from_slice(if self.cookies.is_empty() { b"" } else { b"; " });
                self.cookies.extend_from_slice(value);
                return;
            }
            KnownName::Host => return self.host(value),
            KnownName::ContentLength => return self.content_length(value),
            KnownName::Expect if value.eq_ignore_ascii_case(b"100-continue") => Flags::EXPECT_100,
            KnownName::Date => Flags::HAS_DATE,
            _ => Flags::NONE,
        };
        head.note(flags);
        if push(head, bytes, known, name, value).is_none() {
            self.request.verdict = Verdict::TooLarge;
        }
    }

    /// A `Host` that says what the authority says adds nothing; another one would be taken for it by somebody (RFC 9113, 8.3.1).
    fn host(&mut self, value: &[u8]) {
        let ReceivedHead { head, bytes, .. } = &mut self.request;
        if let Some(known) = self.host {
            let port = self.scheme.clone().and_then(|scheme| uri::default_port(&self.pseudo[scheme]));
            let value = port.map_or(value, |port| without_implied_port(value, port));
            if !known.of(bytes, &[]).eq_ignore_ascii_case(value) {
                self.malformed();
            }
            return;
        }
        if host_fault(value).is_some() {
            return self.malformed();
        }
        self.host = push(head, bytes, KnownName::Host, b"host", value);
        head.note_host();
    }

    fn content_length(&mut self, value: &[u8]) {
        let ReceivedHead { head, bytes, .. } = &mut self.request;
        let Some(length) = body::length(value) else { return self.malformed() };
        match head.content_length() {
            Some(before) if before == length => {}
            Some(_) => self.malformed(),
            None => {
                head.note_content_length(length);
                // As everybody writes it: noughts before a number say octal to some.
                let noughts = value.iter().take_while(|digit| **digit == b'0').count().min(value.len() - 1);
                push(head, bytes, KnownName::ContentLength, b"content-length", &value[noughts..]);
            }
        }
    }

    /// The block is over; `end` says that no body follows.
    pub fn finish(&mut self, end: bool) {
        if !self.started && self.request.verdict == Verdict::Sound {
            self.start();
        }
        let ReceivedHead { head, bytes, verdict } = &mut self.request;
        if *verdict != Verdict::Sound {
            return;
        }
        let length = head.content_length();
        let tunnel = head.method() == Method::Connect || self.protocol.is_some();
        if (end && length.is_some_and(|length| length > 0)) || (tunnel && length.is_some()) {
            return self.malformed();
        }
        let mut room = true;
        if !self.cookies.is_empty() {
            room &= push(head, bytes, KnownName::Cookie, b"cookie", &self.cookies).is_some();
            head.note(Flags::HAS_COOKIE);
        }
        if !end && length.is_none() && !tunnel {
            // How the rest of the house says that the end is seen when it comes.
            room &=
                push(head, bytes, KnownName::TransferEncoding, b"transfer-encoding", b"chunked").is_some();
            head.note(Flags::HAS_TRANSFER_ENCODING | Flags::CHUNKED);
        }
        bytes.extend_from_slice(b"\r\n");
        head.finish(bytes.len());
        if !room {
            *verdict = Verdict::TooLarge;
        }
    }

    #[cold]
    fn malformed(&mut self) {
        self.request.verdict = Verdict::Malformed;
    }
}

/// What the pseudo-header fields say.
struct StartLine<'p> {
    method: &'p [u8],
    scheme: Option<&'p [u8]>,
    authority: Option<&'p [u8]>,
    path: &'p [u8],
}

impl<'p> StartLine<'p> {
    /// None if they do not fit together (RFC 9113, 8.3.1 and 8.5).
    fn of(
        method: Option<&'p [u8]>,
        scheme: Option<&'p [u8]>,
        authority: Option<&'p [u8]>,
        path: Option<&'p [u8]>,
    ) -> Option<Self> {
        let method = method.filter(|method| weir_http::is_token(method))?;
        if authority.is_some_and(|authority| host_fault(authority).is_some() || authority.is_empty()) {
            return None;
        }
        if method == b"CONNECT" {
            let authority = authority.filter(|authority| has_port(authority))?;
            return (scheme.is_none() && path.is_none()).then_some(StartLine {
                method,
                scheme: None,
                authority: Some(authority),
                path: b"",
            });
        }
        let scheme = scheme.filter(|scheme| is_scheme(scheme))?;
        let path = path.filter(|path| path.iter().all(|byte| matches!(byte, 0x21..0x7f) && *byte != b'#'))?;
        let star = path == b"*" && method == b"OPTIONS";
        if path.first() != Some(&b'/') && !star {
            return None;
        }
        let port = uri::default_port(scheme);
        let authority =
            authority.map(|authority| port.map_or(authority, |port| without_implied_port(authority, port)));
        // The server as a whole has no path (RFC 9110, 7.1).
        let path = if star && authority.is_some() { b"" } else { path };
        Some(StartLine { method, scheme: Some(scheme), authority, path })
    }
}

impl<'p> StartLine<'p> {
    /// Of an extended CONNECT: what a client of HTTP/1 asks a server to switch to with `Upgrade` (RFC 8441, 4). `h2c` would lead
    /// past every rule on requests.
    fn of_upgrade(
        method: Option<&'p [u8]>,
        scheme: Option<&'p [u8]>,
        authority: Option<&'p [u8]>,
        path: Option<&'p [u8]>,
        protocol: &[u8],
    ) -> Option<Self> {
        let is_name = weir_http::is_token(protocol) && !protocol.eq_ignore_ascii_case(b"h2c");
        let asks = method == Some(b"CONNECT") && authority.is_some() && path != Some(b"*");
        if asks && is_name { StartLine::of(Some(b"GET"), scheme, authority, path) } else { None }
    }
}

/// RFC 3986, 3.1.
fn is_scheme(text: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(inner)
}

#[cfg(test)]
mod tests;
