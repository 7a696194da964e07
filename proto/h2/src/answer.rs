//! Fields to the head of a response (RFC 9113, 8.1 and 8.3.2), as a client takes it.
//!
//! As with requests, the head is written in the form of HTTP/1 while its block is decoded: `HTTP/2.0 200`, the fields, and an index
//! over both.

use weir_hpack::{Field, Token};
use weir_http::{Flags, Head, KnownName, Span, Version, body, status};

use crate::received::{FRAMING, ReceivedHead, Verdict, push};

/// What a response depends on beside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// The request was one of `HEAD`.
    pub head_only: bool,
    /// The request was one of `CONNECT`.
    pub connect: bool,
    /// The request asked for another protocol (RFC 8441).
    pub extended: bool,
    /// A body without an announced length is said to come in chunks. Else it lasts until the stream ends.
    pub chunks: bool,
}

/// Builds the head of one response after the other.
#[derive(Debug)]
pub(crate) struct Builder {
    pub received: ReceivedHead,
    max_head: usize,
    status: Option<u16>,
    asked: Asked,
    /// The status line was written: no pseudo-header field may follow.
    started: bool,
}

impl Builder {
    pub fn new(max_fields: u16, max_head: usize) -> Builder {
        let head = Head::with_limits(max_fields, Head::DEFAULT_MAX_EDITS);
        let received = ReceivedHead { head, ..ReceivedHead::default() };
        Builder { received, max_head, status: None, asked: Asked::default(), started: false }
    }

    /// Another response begins, to a request that asked this.
    pub fn begin(&mut self, asked: Asked) {
        self.asked = asked;
        self.received.clear();
        self.status = None;
        self.started = false;
    }

    /// Gives back the memory.
    pub fn shrink(&mut self) {
        self.begin(Asked::default());
        self.received.head.shrink();
        self.received.bytes = Vec::new();
    }

    /// The next field of the block.
    pub fn field(&mut self, field: Field<'_>) {
        if self.received.verdict != Verdict::Sound {
            return;
        }
        if field.defect.is_some() {
            return self.malformed();
        }
        let held = self.received.bytes.len() + field.name.len() + field.value.len() + FRAMING;
        if held > self.max_head {
            self.received.verdict = Verdict::TooLarge;
            return;
        }
        match field.token {
            Token::Field(known) => {
                if !self.started {
                    self.start();
                }
                if self.received.verdict == Verdict::Sound {
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
        // There is no 101 here (RFC 9113, 8.6). Who agrees to speak another protocol says that it is all right, which is what
        // a server of HTTP/1 says with 101.
        if status == 101 {
            return self.malformed();
        }
        let switches = self.asked.extended && (200..300).contains(&status);
        if switches {
            status = 101;
        }
        let ReceivedHead { head, bytes, .. } = &mut self.received;
        let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
        for part in [&b"HTTP/2.0 "[..], &digits, b" \r\n"] {
            bytes.extend_from_slice(part);
        }
        let end = bytes.len() - 2;
        head.begin_response(0, Span::raw(0, VERSION), Span::raw(VERSION + 1, end - 1), Span::raw(end, end));
        head.note_status(status);
        head.note_version(Version::HTTP_20);
        if switches {
            head.note(Flags::HAS_CONNECTION | Flags::CONNECTION_UPGRADE | Flags::HAS_UPGRADE);
            let connection = push(head, bytes, KnownName::Connection, b"connection", b"upgrade");
            let upgrade = push(head, bytes, KnownName::Upgrade, b"upgrade", b"websocket");
            if connection.is_none() || upgrade.is_none() {
                self.received.verdict = Verdict::TooLarge;
            }
        }
    }

    fn regular(&mut self, known: KnownName, name: &[u8], value: &[u8]) {
        let ReceivedHead { head, bytes, .. } = &mut self.received;
        let flags = match known {
            // What concerns one connection of HTTP/1 alone (RFC 9113, 8.2.2).
            KnownName::Connection
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::TransferEncoding
            | KnownName::Upgrade => return self.malformed(),
            KnownName::ContentLength => return self.content_length(value),
            KnownName::SetCookie => Flags::HAS_COOKIE,
            KnownName::Date => Flags::HAS_DATE,
            _ => Flags::NONE,
        };
        head.note(flags);
        if push(head, bytes, known, name, value).is_none() {
            self.received.verdict = Verdict::TooLarge;
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        let ReceivedHead { head, bytes, .. } = &mut self.received;
        let Some(length) = body::length(value) else { return self.malformed() };
        match head.content_length() {
            Some(before) if before == length => {}
            Some(_) => self.malformed(),
            None => {
                head.note_content_length(length);
                push(head, bytes, KnownName::ContentLength, b"content-length", length.to_string().as_bytes());
            }
        }
    }

    /// The block is over; `end` says that no body follows. How much payload the stream may still carry: none where nobody said.
    /// An interim response says nothing of it.
    pub fn finish(&mut self, end: bool) -> Option<u64> {
        let asked = self.asked;
        if !self.started && self.received.verdict == Verdict::Sound {
            self.start();
        }
        if self.received.verdict == Verdict::Malformed {
            return None;
        }
        let ReceivedHead { head, bytes, verdict } = &mut self.received;
        let code = head.status();
        if (100..200).contains(&code) && code != 101 {
            // Another response follows an interim one.
            if end {
                *verdict = Verdict::Malformed;
            }
            bytes.extend_from_slice(b"\r\n");
            head.finish(bytes.len());
            return None;
        }
        let length = head.content_length();
        let tunnel = code == 101 || (asked.connect && code < 300);
        let bodyless = !tunnel && (asked.head_only || status::is_bodyless(code));
        let expected = if tunnel {
            None
        } else if bodyless {
            Some(0)
        } else {
            length
        };
        let mut room = true;
        if end && expected.is_some_and(|expected| expected > 0) {
            *verdict = Verdict::Malformed;
            return None;
        }
        if asked.chunks && !bodyless && !tunnel && length.is_none() {
            room &=
                push(head, bytes, KnownName::TransferEncoding, b"transfer-encoding", b"chunked").is_some();
            head.note(Flags::HAS_TRANSFER_ENCODING | Flags::CHUNKED);
            if end {
                head.note(Flags::ENDED);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        head.finish(bytes.len());
        if !room {
            *verdict = Verdict::TooLarge;
        }
        expected
    }

    #[cold]
    fn malformed(&mut self) {
        self.received.verdict = Verdict::Malformed;
    }
}

/// The length of `HTTP/2.0`.
const VERSION: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_hpack::Defect;

    fn build(lines: &str, end: bool, asked: Asked) -> (Builder, Option<u64>) {
        let mut builder = Builder::new(8, 400);
        builder.begin(asked);
        for line in lines.split(", ") {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let token = Token::of(name);
            let defect = Defect::of_name(name, token).or(Defect::of_value(value));
            builder.field(Field { token, name, value, defect, sensitive: false });
        }
        let expected = builder.finish(end);
        (builder, expected)
    }

    #[track_caller]
    fn check(lines: &str, end: bool, asked: Asked, want: &str, length: Option<u64>) {
        let (builder, expected) = build(lines, end, asked);
        let ReceivedHead { head, bytes, verdict } = &builder.received;
        assert_eq!(*verdict, Verdict::Sound, "{lines}");
        assert_eq!(String::from_utf8_lossy(bytes).replace("\r\n", "|"), want);
        assert_eq!((head.end(), head.version(), expected), (bytes.len(), Version::HTTP_20, length));
        let mut written = Vec::new();
        head.write(bytes, &mut written);
        let for_http1 = want.replace("HTTP/2.0", "HTTP/1.1");
        assert_eq!(String::from_utf8_lossy(&written).replace("\r\n", "|"), for_http1);
    }

    const CHUNKS: Asked = Asked { head_only: false, connect: false, extended: false, chunks: true };

    #[test]
    fn a_list_of_fields_is_a_head() {
        check(
            ":status=200, content-length=05, a=b",
            false,
            CHUNKS,
            "HTTP/2.0 200 |content-length: 5|a: b||",
            Some(5),
        );
        check(
            ":status=204, set-cookie=a, set-cookie=b",
            true,
            CHUNKS,
            "HTTP/2.0 204 |set-cookie: a|set-cookie: b||",
            Some(0),
        );
        check(":status=103, link=x", false, CHUNKS, "HTTP/2.0 103 |link: x||", None);
    }

    #[test]
    fn where_no_length_is_said_it_is_known_or_comes_in_chunks_or_lasts() {
        check(":status=200", false, CHUNKS, "HTTP/2.0 200 |transfer-encoding: chunked||", None);
        check(":status=200", false, Asked::default(), "HTTP/2.0 200 ||", None);
        check(":status=200", true, CHUNKS, "HTTP/2.0 200 |transfer-encoding: chunked||", None);
        let ended = |end| build(":status=200", end, CHUNKS).0.received.head.flags().contains(Flags::ENDED);
        assert_eq!((ended(true), ended(false)), (true, false));
        let head_only = Asked { head_only: true, ..CHUNKS };
        check(":status=200, content-length=7", true, head_only, "HTTP/2.0 200 |content-length: 7||", Some(0));
        check(":status=304, content-length=7", true, CHUNKS, "HTTP/2.0 304 |content-length: 7||", Some(0));
        let connect = Asked { connect: true, ..CHUNKS };
        check(":status=200, content-length=7", false, connect, "HTTP/2.0 200 |content-length: 7||", None);
        check(":status=403", false, connect, "HTTP/2.0 403 |transfer-encoding: chunked||", None);
    }

    #[test]
    fn who_agrees_to_speak_another_protocol_switches_rfc_8441() {
        let extended = Asked { extended: true, ..CHUNKS };
        let want = "HTTP/2.0 101 |connection: upgrade|upgrade: websocket|a: b||";
        check(":status=200, a=b", false, extended, want, None);
        check(":status=404", false, extended, "HTTP/2.0 404 |transfer-encoding: chunked||", None);
    }

    #[test]
    fn what_is_no_response_is_refused() {
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
            assert_eq!(builder.received.verdict, Verdict::Malformed, "{lines}");
        }
        let long = format!(":status=200, a={}", "x".repeat(400));
        assert_eq!(build(&long, true, CHUNKS).0.received.verdict, Verdict::TooLarge);
        let many = format!(":status=200{}", ", a=b".repeat(9));
        assert_eq!(build(&many, true, CHUNKS).0.received.verdict, Verdict::TooLarge);
    }
}
