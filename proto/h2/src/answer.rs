//! Decoded fields to the head of a response (RFC 9113, 8.1 and 8.3.2), on the client side.
//!
//! As with requests, the head is written in HTTP/1 form while its block is decoded: `HTTP/2.0 200`, the fields, and an index
//! over both.

use weir_hpack::{DecodedField, Token};
use weir_http::{HeadFlags, KnownName, MessageSpan, Version, body, status, values};

use crate::received::{HeadFault, ReceivedHead};

/// Properties of the request that a response depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestTraits {
    /// The request's method was `HEAD`.
    pub head_only: bool,
    /// The request's method was `CONNECT`.
    pub connect: bool,
    /// The request was an extended CONNECT (RFC 8441).
    pub extended: bool,
    /// A body without an announced length is marked as chunked. Otherwise it lasts until the stream ends.
    pub chunks: bool,
}

/// Builds the heads of responses, one at a time.
#[derive(Debug)]
pub(crate) struct Builder {
    pub received: ReceivedHead,
    max_head: usize,
    status: Option<u16>,
    request: RequestTraits,
    /// The status line is written. A later pseudo-header field is a fault.
    started: bool,
}

impl Builder {
    pub(crate) fn new(max_fields: u16, max_head: usize) -> Builder {
        let received = ReceivedHead::with_max_fields(max_fields);
        Builder { received, max_head, status: None, request: RequestTraits::default(), started: false }
    }

    /// Begins the next response, for a request with these properties.
    pub(crate) fn begin(&mut self, request: RequestTraits) {
        self.request = request;
        self.received.clear();
        self.status = None;
        self.started = false;
    }

    /// Frees the memory.
    pub(crate) fn shrink(&mut self) {
        self.begin(RequestTraits::default());
        self.received.shrink();
    }

    /// Adds the next field of the header block.
    pub(crate) fn field(&mut self, field: DecodedField<'_>) {
        if !self.received.admits(&field, 0, self.max_head) {
            return;
        }
        match field.token {
            Token::Field(known) => {
                if !self.started {
                    self.start();
                }
                if self.received.is_sound() {
                    self.regular(known, field.name, field.value);
                }
            }
            Token::Status if !self.started && self.status.is_none() => match field.value {
                [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                    self.status = body::length(field.value).and_then(|status| u16::try_from(status).ok());
                }
                _ => self.malformed(),
            },
            _ => self.malformed(),
        }
    }

    fn start(&mut self) {
        self.started = true;
        let Some(mut status) = self.status else { return self.malformed() };
        // HTTP/2 lacks 101 (RFC 9113, 8.6). A server accepts another protocol with a 2xx status, which corresponds to
        // 101 in HTTP/1.
        if status == 101 {
            return self.malformed();
        }
        let switches = self.request.extended && (200..300).contains(&status);
        if switches {
            status = 101;
        }
        let ReceivedHead { head, bytes, .. } = &mut self.received;
        let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
        // HTTP/1 clients expect a reason phrase, which HTTP/2 does not have (RFC 9113, 8.3.2).
        let reason = status::reason(status).as_bytes();
        for part in [&b"HTTP/2.0 "[..], &digits, b" ", reason, b"\r\n"] {
            bytes.extend_from_slice(part);
        }
        let end = bytes.len() - 2;
        let code = MessageSpan::raw(VERSION + 1, VERSION + 1 + digits.len());
        head.begin_response(0, MessageSpan::raw(0, VERSION), code, MessageSpan::raw(end - reason.len(), end));
        head.note_status(status);
        head.note_version(Version::HTTP_20);
        if switches {
            // A caller that requested another protocol writes its name over this one.
            self.received.push_upgrade(b"websocket");
        }
    }

    fn regular(&mut self, known: KnownName, name: &[u8], value: &[u8]) {
        let value = values::trim(value);
        let flags = match known {
            // HTTP/1's connection-specific fields (RFC 9113, 8.2.2).
            KnownName::Connection
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::TransferEncoding
            | KnownName::Upgrade => return self.malformed(),
            KnownName::ContentLength => return self.received.push_length(value),
            KnownName::SetCookie => HeadFlags::HAS_COOKIE,
            KnownName::Date => HeadFlags::HAS_DATE,
            _ => HeadFlags::NONE,
        };
        self.received.head.note(flags);
        self.received.push(known, name, value);
    }

    /// Ends the block; `end`: no body follows. Returns how much payload the stream may still carry; `None` if it is not
    /// known, as after an interim response.
    pub(crate) fn finish(&mut self, end: bool) -> Option<u64> {
        let request = self.request;
        if !self.started && self.received.is_sound() {
            self.start();
        }
        if !self.received.is_sound() {
            return None;
        }
        let ReceivedHead { head, .. } = &mut self.received;
        let code = head.status();
        if (100..200).contains(&code) && code != 101 {
            // Another response follows an interim one.
            if end {
                self.malformed();
            }
            self.received.finish();
            return None;
        }
        let length = head.content_length();
        let tunnel = code == 101 || (request.connect && code < 300);
        let bodyless = !tunnel && (request.head_only || status::is_bodyless(code));
        let expected = if tunnel {
            None
        } else if bodyless {
            Some(0)
        } else {
            length
        };
        if end && expected.is_some_and(|expected| expected > 0) {
            self.malformed();
            return None;
        }
        if request.chunks && !bodyless && !tunnel && length.is_none() {
            if end {
                head.note(HeadFlags::ENDED);
            }
            self.received.push_chunked();
        }
        self.received.finish();
        expected
    }

    #[cold]
    fn malformed(&mut self) {
        self.received.fail(HeadFault::Malformed);
    }
}

/// The length of `HTTP/2.0`.
const VERSION: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_hpack::Defect;

    fn build(lines: &str, end: bool, request: RequestTraits) -> (Builder, Option<u64>) {
        let mut builder = Builder::new(8, 400);
        builder.begin(request);
        for line in lines.split(", ") {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let token = Token::of(name);
            let defect = Defect::of_name(name, token).or(Defect::of_value(value));
            builder.field(DecodedField { token, name, value, defect, sensitive: false });
        }
        let expected = builder.finish(end);
        (builder, expected)
    }

    #[track_caller]
    fn check(lines: &str, end: bool, request: RequestTraits, want: &str, length: Option<u64>) {
        let (builder, expected) = build(lines, end, request);
        let ReceivedHead { head, bytes, fault } = &builder.received;
        assert_eq!(*fault, None, "{lines}");
        assert_eq!(String::from_utf8_lossy(bytes).replace("\r\n", "|"), want);
        assert_eq!((head.end(), head.version(), expected), (bytes.len(), Version::HTTP_20, length));
        let mut written = Vec::new();
        head.write(bytes, &mut written);
        let for_http1 = want.replace("HTTP/2.0", "HTTP/1.1");
        assert_eq!(String::from_utf8_lossy(&written).replace("\r\n", "|"), for_http1);
    }

    const CHUNKS: RequestTraits =
        RequestTraits { head_only: false, connect: false, extended: false, chunks: true };

    #[test]
    fn h2_response_fields_become_a_response_head() {
        check(
            ":status=200, content-length=05, a=b",
            false,
            CHUNKS,
            "HTTP/2.0 200 OK|content-length: 5|a: b||",
            Some(5),
        );
        check(
            ":status=204, set-cookie=a, set-cookie=b",
            true,
            CHUNKS,
            "HTTP/2.0 204 No Content|set-cookie: a|set-cookie: b||",
            Some(0),
        );
        check(":status=103, link=x", false, CHUNKS, "HTTP/2.0 103 Early Hints|link: x||", None);
    }

    #[test]
    fn an_h2_response_body_without_length_is_empty_or_chunked() {
        check(":status=200", false, CHUNKS, "HTTP/2.0 200 OK|transfer-encoding: chunked||", None);
        check(":status=200", false, RequestTraits::default(), "HTTP/2.0 200 OK||", None);
        check(":status=200", true, CHUNKS, "HTTP/2.0 200 OK|transfer-encoding: chunked||", None);
        let ended =
            |end| build(":status=200", end, CHUNKS).0.received.head.flags().contains(HeadFlags::ENDED);
        assert_eq!((ended(true), ended(false)), (true, false));
        let head_only = RequestTraits { head_only: true, ..CHUNKS };
        check(
            ":status=200, content-length=7",
            true,
            head_only,
            "HTTP/2.0 200 OK|content-length: 7||",
            Some(0),
        );
        check(
            ":status=304, content-length=7",
            true,
            CHUNKS,
            "HTTP/2.0 304 Not Modified|content-length: 7||",
            Some(0),
        );
        let connect = RequestTraits { connect: true, ..CHUNKS };
        check(":status=200, content-length=7", false, connect, "HTTP/2.0 200 OK|content-length: 7||", None);
        check(":status=403", false, connect, "HTTP/2.0 403 Forbidden|transfer-encoding: chunked||", None);
    }

    #[test]
    fn a_2xx_response_to_an_extended_connect_becomes_101_rfc_8441() {
        let extended = RequestTraits { extended: true, ..CHUNKS };
        let want = "HTTP/2.0 101 Switching Protocols|connection: upgrade|upgrade: websocket|a: b||";
        check(":status=200, a=b", false, extended, want, None);
        check(":status=404", false, extended, "HTTP/2.0 404 Not Found|transfer-encoding: chunked||", None);
    }

    #[test]
    fn rejects_malformed_h2_response_heads() {
        for (lines, end) in [
            ("a=b", true),
            (":status=200, :status=200", true),
            ("a=b, :status=200", true),
            (":status=20", true),
            (":status=2000", true),
            (":status=020", true),
            (":status=2x0", true),
            (":status=200, :path=/", true),
            (":status=200, connection=close", true),
            (":status=200, transfer-encoding=chunked", false),
            (":status=200, upgrade=x", true),
            (":status=200, A=b", true),
            (":status=200, a=b\nc", true),
            (":status=200, content-length=x", false),
            (":status=200, content-length=1, content-length=2", false),
            (":status=200, content-length=1", true),
            (":status=101", false),
            (":status=103", true),
        ] {
            let (builder, _) = build(lines, end, CHUNKS);
            assert_eq!(builder.received.fault, Some(HeadFault::Malformed), "{lines}");
        }
        let long = format!(":status=200, a={}", "x".repeat(400));
        assert_eq!(build(&long, true, CHUNKS).0.received.fault, Some(HeadFault::TooLarge));
        let many = format!(":status=200{}", ", a=b".repeat(9));
        assert_eq!(build(&many, true, CHUNKS).0.received.fault, Some(HeadFault::TooLarge));
        let length = format!(":status=200{}, content-length=5", ", a=b".repeat(8));
        assert_eq!(build(&length, false, CHUNKS).0.received.fault, Some(HeadFault::TooLarge));
    }
}
