//! Tables: the accepted messages with their forwarded form, the rejected ones with the reason.

mod bodies;
mod fields;
mod hops;
mod pieces;
mod start_lines;
mod targets;

use weir_http::{Head, Kind};

use super::{HeadParser, HeadProgress, ParseOptions};
use crate::error::{HeadError, HeadErrorKind};

const SAFE: ParseOptions = ParseOptions {
    accept_unsafe_violations: false,
    accept_fragment: false,
    accept_payload_with_any_method: false,
    keep_insecure_transfer_encoding: false,
};
const UNSAFE: ParseOptions = ParseOptions { accept_unsafe_violations: true, ..SAFE };

/// The result of parsing a message: the bytes to forward, or the refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
enum MessageOutcome {
    Incomplete,
    Forwarded { text: String, head_len: usize, edited: bool },
    Refused(HeadError),
}

fn parse(kind: Kind, raw: &[u8], pieces: &[usize], options: &ParseOptions) -> (MessageOutcome, Head) {
    let mut parser = HeadParser::default();
    let mut head = Head::new();
    let mut outcome = MessageOutcome::Incomplete;
    for end in pieces.iter().copied().chain([raw.len()]) {
        let progress = match kind {
            Kind::Request => parser.request(&raw[..end], options, &mut head),
            Kind::Response => parser.response(&raw[..end], options, &mut head),
        };
        outcome = match progress {
            HeadProgress::Incomplete => continue,
            HeadProgress::Error(error) => MessageOutcome::Refused(error),
            HeadProgress::Complete { head_len } => {
                let mut text = Vec::new();
                head.write(raw, &mut text);
                if !head.is_edited() {
                    assert_eq!(head.raw_bytes(raw).last(), Some(&b'\n'));
                }
                assert_eq!(head.written_len(raw), text.len());
                let text = String::from_utf8_lossy(&text).into_owned();
                MessageOutcome::Forwarded { text, head_len, edited: head.is_edited() }
            }
        };
        break;
    }
    (outcome, head)
}

fn outcome(kind: Kind, raw: &str, options: &ParseOptions) -> MessageOutcome {
    let whole = parse(kind, raw.as_bytes(), &[], options).0;
    for cut in 0..raw.len() {
        assert_eq!(parse(kind, raw.as_bytes(), &[cut], options).0, whole, "{raw:?} cut at {cut}");
    }
    let every: Vec<usize> = (0..raw.len()).collect();
    assert_eq!(parse(kind, raw.as_bytes(), &every, options).0, whole, "{raw:?} byte by byte");
    whole
}

/// Checks one message: its forwarded form, from its start line to its last field; or the reason for its rejection.
#[track_caller]
fn check(kind: Kind, options: &ParseOptions, raw: &str, want: Result<&str, HeadErrorKind>) {
    match (outcome(kind, raw, options), want) {
        (MessageOutcome::Forwarded { text, .. }, Ok(want)) => {
            assert_eq!(text, format!("{want}\r\n\r\n"), "{raw:?}");
        }
        (MessageOutcome::Refused(error), Err(kind)) => {
            assert_eq!(error.kind, kind, "{raw:?} at {}", error.position)
        }
        (outcome, want) => panic!("{raw:?}: {outcome:?}, not {want:?}"),
    }
}

#[track_caller]
fn request(raw: &str, want: Result<&str, HeadErrorKind>) {
    check(Kind::Request, &SAFE, raw, want);
}

#[track_caller]
fn unsafe_request(raw: &str, want: Result<&str, HeadErrorKind>) {
    check(Kind::Request, &UNSAFE, raw, want);
}

#[track_caller]
fn response(raw: &str, want: Result<&str, HeadErrorKind>) {
    check(Kind::Response, &SAFE, raw, want);
}

#[track_caller]
fn unedited(kind: Kind, raw: &str) {
    match outcome(kind, raw, &SAFE) {
        MessageOutcome::Forwarded { text, head_len, edited } => {
            assert!(!edited, "{raw:?}");
            assert_eq!(&raw[..head_len], text, "{raw:?}");
        }
        outcome => panic!("{raw:?}: {outcome:?}"),
    }
}

#[test]
fn ordinary_heads_are_forwarded_verbatim() {
    for raw in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "get /x?y=z HTTP/1.1\r\nhOsT: a\r\nX-Case: Kept\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a/x?y HTTP/1.1\r\nHost: A\r\n\r\n",
        "CONNECT a:444 HTTP/1.1\r\nHost: a:444\r\n\r\n",
        "GET /a\"<>\\^`{|} HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nTE: trailers\r\n\r\n",
    ] {
        unedited(Kind::Request, raw);
    }
    for raw in [
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found at all\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
    ] {
        unedited(Kind::Response, raw);
    }
}

#[test]
fn h1_parse_errors_have_the_position_of_the_fault() {
    let at = |raw: &str| match outcome(Kind::Request, raw, &SAFE) {
        MessageOutcome::Refused(error) => error.position,
        outcome => panic!("{raw:?}: {outcome:?}"),
    };
    assert_eq!(at("G@T / HTTP/1.1\r\n\r\n"), 1);
    assert_eq!(at("GET /a#b HTTP/1.1\r\n\r\n"), 6);
    assert_eq!(at("GET / HTTP/1.1\r\nA(: b\r\n\r\n"), 17);
    assert_eq!(at("GET / HTTP/1.1\r\nAb : b\r\n\r\n"), 18);
    assert_eq!(at("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n"), 20);
    assert_eq!(at("GET / HTTP/1.1\r\nA: b\0c\r\n\r\n"), 20);
}
