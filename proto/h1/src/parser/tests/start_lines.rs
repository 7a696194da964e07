//! Start lines: how they end, methods, versions, statuses.

use weir_http::{HeadFlags, Kind};

use super::{MessageOutcome, SAFE, UNSAFE, check, outcome, parse, request, response, unsafe_request};
use crate::error::HeadErrorKind::*;

#[test]
fn line_ends_of_a_head_are_normalized_to_crlf() {
    request("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Err(BareCarriageReturn));
    request("GET / HTTP/1.1\nHost: a\n\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a\r\nX: b"));
    request("GET / HTTP/1.1\r\nHost: a\r\n\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", Err(BareCarriageReturn));
    request("GET / HTTP/1.1\r\rHost: a\r\n\r\n", Err(BareCarriageReturn));
    request("GET / HTTP/1.1\r\n\rHost: a\r\n\r\n", Err(BareCarriageReturn));
    unsafe_request("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", Err(BareCarriageReturn));
}

#[test]
fn bare_line_feeds_are_never_forwarded() {
    for raw in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
    ] {
        let (_, head) = parse(Kind::Request, raw.as_bytes(), &[], &SAFE);
        assert!(head.is_edited(), "{raw:?}");
    }
}

#[test]
fn parses_request_lines() {
    request("GET  /\t HTTP/1.1\r\nHost: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request(" GET / HTTP/1.1\r\n\r\n", Err(InvalidMethod));
    request("G@T / HTTP/1.1\r\n\r\n", Err(InvalidMethod));
    request("\u{16}\u{3}\u{1}", Err(InvalidMethod));
    request("GET\r\n\r\n", Err(InvalidVersion));
    request("GET \r\n\r\n", Err(InvalidTarget));
    request("GET /\r\n\r\n", Err(Http09));
    request("GET / \r\n\r\n", Err(Http09));
    request("GET /a b HTTP/1.1\r\n\r\n", Err(InvalidVersion));
    request("GET / HTTP/1.1 \r\n\r\n", Err(InvalidVersion));
    request("GET /\u{1} HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    request("GET /\u{0} HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    request("GET /\u{7f} HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    request("GET /é HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    request("GET /a#b HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    unsafe_request("GET /é HTTP/1.1\r\n\r\n", Ok("GET /é HTTP/1.1"));
    unsafe_request("GET /a#b HTTP/1.1\r\n\r\n", Ok("GET /a#b HTTP/1.1"));
    unsafe_request("GET /\u{7f} HTTP/1.1\r\n\r\n", Err(InvalidTarget));
    unsafe_request("GET /\u{1} HTTP/1.1\r\n\r\n", Err(InvalidTarget));
}

#[test]
fn parses_http_versions_of_requests() {
    request("GET / HTTP/1.2\r\nHost: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("GET / HTTP/2.0\r\nHost: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    request("GET / HTTP/0.9\r\nHost: a\r\n\r\n", Ok("GET / HTTP/0.9\r\nHost: a"));
    request("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err(Http2Preface));
    for bad in ["HTTP/11.1", "http/1.1", "ICY/1.1", "RTSP/1.0", "HTTP/1", "HTTP/1.", "HTTP/a.b", "HTTP"] {
        request(&format!("GET / {bad}\r\nHost: a\r\n\r\n"), Err(InvalidVersion));
    }
    for odd in ["HTTP/11.1", "ICY/1.1", "RTSP/1.0"] {
        let line = format!("GET / {odd}");
        unsafe_request(&format!("{line}\r\n\r\n"), Ok(&line));
    }
    unsafe_request("GET / http/1.1\r\n\r\n", Err(InvalidVersion));
    unsafe_request("GET /\r\n\r\n", Ok("GET / HTTP/1.0"));
    unsafe_request("GET / \r\n\r\n", Ok("GET / HTTP/1.0"));
    unsafe_request("POST /\r\n\r\n", Err(InvalidVersion));
}

/// Many ways to write a version, tried on HAProxy 2.6 in both directions, with and without its option for unsafe
/// messages: `y` where it was accepted. RFC 9112, 2.3, has the first column: `HTTP`, in that case, and two digits.
#[test]
fn http_versions_are_accepted_like_in_haproxy() {
    #[track_caller]
    fn check(text: &str, taken: &str) {
        let request = format!("GET / {text}\r\nHost: a\r\n\r\n");
        let response = format!("{text} 200 OK\r\n\r\n");
        let seen: String = [(Kind::Request, &request), (Kind::Response, &response)]
            .into_iter()
            .flat_map(|(kind, raw)| [&SAFE, &UNSAFE].map(|options| outcome(kind, raw, options)))
            .map(|outcome| if matches!(outcome, MessageOutcome::Refused(_)) { '-' } else { 'y' })
            .collect();
        assert_eq!(seen, taken, "{text:?}");
    }
    for text in
        ["HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3.0", "HTTP/0.9", "HTTP/9.9"]
    {
        check(text, "yyyy");
    }
    for text in
        ["HTTP/1.10", "HTTP/01.1", "HTTP/11.1", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/1..1", "HTTP/1.1.1"]
    {
        check(text, "-y-y");
    }
    for text in
        ["http/1.1", "Http/1.1", "abcd/1.1", "HTTP/1.1x", "HTTP/x.1", "HTTP/1.x", "HTTP 1.1", "HT-P/1.1"]
    {
        check(text, "----");
    }
    // Responses of RTSP servers pass, whatever the option.
    check("RTSP/1.0", "-yyy");
    check("RTSP/1", "-y-y");
    for text in ["SIP/2.0", "ABC/1.1", "ABCDE/1.1", "A/1"] {
        check(text, "-y-y");
    }
    // Stricter than HAProxy, which accepts lines without any version (RFC 9112, 2.3 and 4).
    for text in ["HTTP/", "HTTP", "/1.1", "ICY"] {
        check(text, "----");
    }
}

#[test]
fn parses_status_lines() {
    response("\r\nHTTP/1.1 200 OK\r\n\r\n", Ok("HTTP/1.1 200 OK"));
    response("HTTP/1.1 200\r\n\r\n", Ok("HTTP/1.1 200 "));
    response("HTTP/1.1  200  OK then \r\n\r\n", Ok("HTTP/1.1 200 OK then "));
    response("HTTP/1.2 200 OK\r\n\r\n", Ok("HTTP/1.1 200 OK"));
    response("HTTP/3.0 200 OK\r\n\r\n", Ok("HTTP/1.1 200 OK"));
    response("RTSP/1.0 200 OK\r\n\r\n", Ok("RTSP/1.0 200 OK"));
    response("HTTP/1.1 200 O\u{1}éK\r\n\r\n", Ok("HTTP/1.1 200 O\u{1}éK"));
    response("HTTP/1.1 200 O\u{0}K\r\n\r\n", Err(InvalidReason));
    for bad in ["20", "2000", "099", "2x0", "x", ""] {
        response(&format!("HTTP/1.1 {bad} OK\r\n\r\n"), Err(InvalidStatus));
    }
    response("HTTP/1.1\r\n\r\n", Err(InvalidStatus));
    response("http/1.1 200 OK\r\n\r\n", Err(NotHttp));
    response("ICY 200 OK\r\n\r\n", Err(NotHttp));
    response("HTTP/11.1 200 OK\r\n\r\n", Err(InvalidVersion));
    check(Kind::Response, &UNSAFE, "HTTP/11.1 200 OK\r\n\r\n", Ok("HTTP/11.1 200 OK"));
}

/// Manual, "option accept-unsafe-violations-in-http-response".
#[test]
fn parses_status_codes_of_more_than_three_digits() {
    let with = |status: &str| format!("HTTP/1.1 {status} OK\r\n\r\n");
    for (status, number, written) in [
        ("2000", 2000, "2000"),
        ("65535", 65535, "65535"),
        ("1000", 1000, "1000"),
        ("00200", 200, "200"),
        ("0404", 404, "404"),
    ] {
        response(&with(status), Err(InvalidStatus));
        check(Kind::Response, &UNSAFE, &with(status), Ok(&format!("HTTP/1.1 {written} OK")));
        let (_, head) = parse(Kind::Response, with(status).as_bytes(), &[], &UNSAFE);
        assert_eq!(head.status(), number);
        assert!(head.flags().contains(HeadFlags::VIOLATION));
    }
    for bad in ["65536", "99999999999999999999", "0099", "20", "099", "000200x", "", "2x0"] {
        check(Kind::Response, &UNSAFE, &with(bad), Err(InvalidStatus));
    }
}
