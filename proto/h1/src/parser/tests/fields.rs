//! Fields: names, values, folds, their number, and the flags noted of them.

use weir_http::{HeadFlags, Kind};

use super::{SAFE, UNSAFE, check, parse, request, unedited, unsafe_request};
use crate::error::HeadErrorKind::*;
use crate::framing::{BodyFraming, request_framing};

#[test]
fn parses_h1_field_lines() {
    let line = |field: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    let taken = |field: &str, want: &str| {
        request(&line(field), Ok(&format!("GET / HTTP/1.1\r\nHost: a\r\n{want}")));
    };
    taken("X:", "X: ");
    taken("X: \t y \t", "X: y");
    taken("X:y:z", "X: y:z");
    taken("X: a\u{1}b\u{7f}\u{b}d", "X: a\u{1}b\u{7f}\u{b}d");
    taken("X: é\tü", "X: é\tü");
    let refused = |field: &str, kind| request(&line(field), Err(kind));
    refused("X : y", SpaceBeforeColon);
    refused("X\t: y", SpaceBeforeColon);
    refused("X y: z", InvalidName);
    refused("X(: y", InvalidName);
    refused("Xé: y", InvalidName);
    refused("X\u{0}: y", InvalidName);
    refused("X\u{1}: y", InvalidName);
    refused(": y", EmptyName);
    refused("XYZ", MissingColon);
    refused("X: a\u{0}b", InvalidValue);
    request("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err(FoldedFirstField));
    unsafe_request(&line("X: a\u{0}b"), Ok("GET / HTTP/1.1\r\nHost: a\r\nX: a\u{0}b"));
    unsafe_request(&line(": y"), Err(EmptyName));
    unsafe_request(&line("XYZ"), Err(MissingColon));
    unsafe_request(&line("X: y\rz"), Err(BareCarriageReturn));
}

/// Manual, "option accept-unsafe-violations-in-http-request" and "-response": such a field is dropped, folds included.
#[test]
fn fields_with_invalid_names_are_dropped_with_their_continuations() {
    for field in [
        "X : y",
        "X\t: y",
        "X y: z",
        "X(: y",
        "Xé: y",
        "X\u{0}: y",
        "X\u{1}: y",
        "X\ry: z",
        "X\r: z",
        "X \r\r : z",
        "Content-Length : 31",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\u{0}: chunked",
        "Host : b",
        "X(: y\r\n Content-Length: 3",
        "X(:\r\n\tTransfer-Encoding: chunked",
    ] {
        let raw = format!("GET / HTTP/1.1\r\n{field}\r\nHost: a\r\n{field}\r\nX: y\r\n\r\n");
        unsafe_request(&raw, Ok("GET / HTTP/1.1\r\nHost: a\r\nX: y"));
        let (_, head) = parse(Kind::Request, raw.as_bytes(), &[], &UNSAFE);
        assert!(head.flags().intersects(HeadFlags::DOUBTFUL), "{field:?}");
        assert_eq!(request_framing(&head), BodyFraming::None, "{field:?}");
        let raw = format!("HTTP/1.1 200 OK\r\n{field}\r\nX: y\r\n\r\n");
        check(Kind::Response, &UNSAFE, &raw, Ok("HTTP/1.1 200 OK\r\nX: y"));
    }
    // The first line cannot be a continuation.
    unsafe_request(
        "GET / HTTP/1.1\r\n Content-Length: 3\r\nHost: a\r\n\r\n",
        Ok("GET / HTTP/1.1\r\nHost: a"),
    );
}

#[test]
fn folded_field_lines_are_joined() {
    request(
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\t  c\r\n\r\n",
        Ok("GET / HTTP/1.1\r\nHost: a\r\nX: a   b  \t  c"),
    );
    request("GET / HTTP/1.1\r\nX: a\r\n \r\nY: b\r\n\r\n", Ok("GET / HTTP/1.1\r\nX: a\r\nY: b"));
    request("GET / HTTP/1.1\r\nX:\r\n a\r\n\r\n", Ok("GET / HTTP/1.1\r\nX: a"));
    request("GET / HTTP/1.1\r\nX: a\n b\n\n", Ok("GET / HTTP/1.1\r\nX: a  b"));
    request("GET / HTTP/1.1\r\nX\r\n : a\r\n\r\n", Err(InvalidName));
    // Blanks are removed, other white space is part of a value.
    for odd in ["\u{c}chunked\r\n ", "\r\n \u{c}chunked", "chunked\r\n \u{c}", "chunked\u{b}\r\n "] {
        let raw = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {odd}\r\n\r\n");
        request(&raw, Err(ChunkedNotFinal));
    }
    // The meaning of a field is taken from the joined value.
    request(
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip,\r\n chunked\r\n\r\n",
        Err(UnsupportedTransferEncoding),
    );
    request(
        "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        Ok("POST / HTTP/1.1\r\nTransfer-Encoding: chunked"),
    );
    request("POST / HTTP/1.1\r\nContent-Length: 1\r\n 2\r\n\r\n", Err(InvalidContentLength));
}

#[test]
fn accepts_as_many_fields_as_the_limit_allows() {
    let raw = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(count));
    unedited(Kind::Request, &raw(100));
    request(&raw(101), Err(TooManyFields));
}

#[test]
fn h1_fields_set_their_head_flags() {
    let flags = |raw: &str| parse(Kind::Request, raw.as_bytes(), &[], &SAFE).1.flags();
    let get = |fields: &str| flags(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n"));
    assert_eq!(get("X: y"), HeadFlags::NONE);
    assert_eq!(get("Host: y"), HeadFlags::HAS_HOST);
    assert_eq!(get("Connection: Close"), HeadFlags::HAS_CONNECTION | HeadFlags::CONNECTION_CLOSE);
    assert_eq!(
        get("Connection: keep-alive, Upgrade, x\r\nUpgrade: foo"),
        HeadFlags::HAS_CONNECTION
            | HeadFlags::CONNECTION_KEEP_ALIVE
            | HeadFlags::CONNECTION_UPGRADE
            | HeadFlags::CONNECTION_OTHER
            | HeadFlags::HAS_UPGRADE
    );
    assert_eq!(get("Expect: 100-Continue"), HeadFlags::EXPECT_100);
    assert_eq!(get("Cookie: a=b"), HeadFlags::HAS_COOKIE);
}
