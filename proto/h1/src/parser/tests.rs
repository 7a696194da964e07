//! Tables: what is taken, how it is forwarded, what is refused and why.

use proptest::prelude::*;
use weir_http::{Flags, Head, Kind};

use super::{Options, Parser, Progress};
use crate::error::{HeadError, HeadErrorKind, HeadErrorKind::*};
use crate::framing::{BodyFraming, request_framing};

const SAFE: Options = Options {
    accept_unsafe_violations: false,
    accept_fragment: false,
    accept_payload_with_any_method: false,
    keep_insecure_transfer_encoding: false,
};
const UNSAFE: Options = Options { accept_unsafe_violations: true, ..SAFE };

/// What a parser makes of a message: the bytes that go on, or the refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Incomplete,
    Forwarded { text: String, head_len: usize, edited: bool },
    Refused(HeadError),
}

fn parse(kind: Kind, raw: &[u8], pieces: &[usize], options: &Options) -> (Outcome, Head) {
    let mut parser = Parser::default();
    let mut head = Head::new();
    let mut outcome = Outcome::Incomplete;
    for end in pieces.iter().copied().chain([raw.len()]) {
        let progress = match kind {
            Kind::Request => parser.request(&raw[..end], options, &mut head),
            Kind::Response => parser.response(&raw[..end], options, &mut head),
        };
        outcome = match progress {
            Progress::Incomplete => continue,
            Progress::Error(error) => Outcome::Refused(error),
            Progress::Complete { head_len } => {
                let mut text = Vec::new();
                head.write(raw, &mut text);
                if !head.is_edited() {
                    assert_eq!(head.raw_bytes(raw).last(), Some(&b'\n'));
                }
                assert_eq!(head.written_len(raw), text.len());
                let text = String::from_utf8_lossy(&text).into_owned();
                Outcome::Forwarded { text, head_len, edited: head.is_edited() }
            }
        };
        break;
    }
    (outcome, head)
}

fn outcome(kind: Kind, raw: &str, options: &Options) -> Outcome {
    let whole = parse(kind, raw.as_bytes(), &[], options).0;
    for cut in 0..raw.len() {
        assert_eq!(parse(kind, raw.as_bytes(), &[cut], options).0, whole, "{raw:?} cut at {cut}");
    }
    let every: Vec<usize> = (0..raw.len()).collect();
    assert_eq!(parse(kind, raw.as_bytes(), &every, options).0, whole, "{raw:?} byte by byte");
    whole
}

/// One message: what it is forwarded as, from its start line to its last field; or why it is refused.
#[track_caller]
fn check(kind: Kind, options: &Options, raw: &str, want: Result<&str, HeadErrorKind>) {
    match (outcome(kind, raw, options), want) {
        (Outcome::Forwarded { text, .. }, Ok(want)) => {
            assert_eq!(text, format!("{want}\r\n\r\n"), "{raw:?}");
        }
        (Outcome::Refused(error), Err(kind)) => assert_eq!(error.kind, kind, "{raw:?} at {}", error.position),
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
        Outcome::Forwarded { text, head_len, edited } => {
            assert!(!edited, "{raw:?}");
            assert_eq!(&raw[..head_len], text, "{raw:?}");
        }
        outcome => panic!("{raw:?}: {outcome:?}"),
    }
}

#[test]
fn ordinary_heads_are_forwarded_as_they_came() {
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
fn line_ends() {
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
fn request_lines() {
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
fn versions() {
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

#[test]
fn field_lines() {
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
fn fields_with_impossible_names_go_no_further() {
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
        assert!(head.flags().intersects(Flags::DOUBTFUL), "{field:?}");
        assert_eq!(request_framing(&head), BodyFraming::None, "{field:?}");
        let raw = format!("HTTP/1.1 200 OK\r\n{field}\r\nX: y\r\n\r\n");
        check(Kind::Response, &UNSAFE, &raw, Ok("HTTP/1.1 200 OK\r\nX: y"));
    }
    // A line that begins with a blank continues nothing when it is the first.
    unsafe_request(
        "GET / HTTP/1.1\r\n Content-Length: 3\r\nHost: a\r\n\r\n",
        Ok("GET / HTTP/1.1\r\nHost: a"),
    );
}

#[test]
fn hosts_that_are_none() {
    let origin = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let absolute = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for good in
        ["", "a", "a-b_c.d:80", "1.2.3.4", "[::1]", "[::1]:80", "[v1.a:b]:", "a!$&'()*+;=~%41:", "\"<>^`{|}"]
    {
        unedited(Kind::Request, &origin(good));
    }
    for bad in [
        "a b",
        "a\tb",
        "a,b",
        "a:80,b:80",
        "a/b",
        "/",
        "a?b",
        "a#b",
        "u@a",
        "a\\b",
        "a\u{1}b",
        "a\u{b}",
        "a\u{7f}b",
        "aé",
        "[::1",
        "a]b",
        "::1]",
        "[::1]x",
        "[::1]]",
        "[a[b]",
        "x[::1]",
        "[a b]",
        "[a]:8,b",
    ] {
        for options in [&SAFE, &UNSAFE] {
            check(Kind::Request, options, &origin(bad), Err(InvalidHost));
        }
    }
    for bad in ["a,b", "a\\b", "u\\v@a", "[::1", "a]b", "[::1]x"] {
        let raw = format!("GET http://{bad}/ HTTP/1.1\r\n\r\n");
        request(&raw, Err(InvalidHost));
        unsafe_request(&raw, Err(InvalidHost));
    }
    unedited(Kind::Request, &absolute("[::1]:81"));
    // A fold leaves blanks inside.
    request("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", Err(InvalidHost));
    request("GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n", Ok("GET / HTTP/1.1\r\nHost: a"));
    // Of the authority of CONNECT the manual says that it is not looked at.
    unsafe_request("CONNECT a,b:80 HTTP/1.1\r\n\r\n", Ok("CONNECT a,b:80 HTTP/1.1"));
    request("CONNECT a,b:80 HTTP/1.1\r\n\r\n", Err(InvalidHost));
}

#[test]
fn absolute_targets_have_a_path() {
    let with = |target: &str| format!("{target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let becomes =
        |target: &str, want: &str| request(&with(target), Ok(&format!("{want} HTTP/1.1\r\nHost: a")));
    becomes("GET http://a", "GET http://a/");
    becomes("GET http://a?", "GET http://a/?");
    becomes("GET http://a?b=c", "GET http://a/?b=c");
    becomes("GET https://u@a:443?b", "GET https://u@a/?b");
    becomes("OPTIONS http://a", "OPTIONS http://a");
    becomes("OPTIONS http://a?b", "OPTIONS http://a/?b");
    becomes("OPTIONS *", "OPTIONS *");
    unsafe_request(&with("GET http://a#b"), Ok("GET http://a/#b HTTP/1.1\r\nHost: a"));
    let raw = with("GET http://a?b");
    let (_, head) = parse(Kind::Request, raw.as_bytes(), &[], &SAFE);
    assert_eq!((head.path(raw.as_bytes()), head.query(raw.as_bytes())), (&b"/"[..], Some(&b"b"[..])));
}

#[test]
fn a_connect_has_no_content() {
    let with = |field: &str| format!("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    request(&with("Content-Length: 3"), Err(ConnectWithContent));
    request(&with("Transfer-Encoding: chunked"), Err(ConnectWithContent));
    unsafe_request(&with("Content-Length: 3"), Err(ConnectWithContent));
    unedited(Kind::Request, &with("Content-Length: 0"));
}

/// Manual, "option accept-unsafe-violations-in-http-response".
#[test]
fn codings_that_are_tolerated_go_on_in_their_plain_form() {
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\nX: y\r\n\r\n");
    for (fields, chunked) in [
        ("Transfer-Encoding: chunked, chunked", true),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\nTransfer-Encoding:", true),
        ("Transfer-Encoding: ,chunked,,", true),
        ("Transfer-Encoding:\r\nTransfer-Encoding: chunked", true),
        ("Transfer-Encoding:", false),
        ("Transfer-Encoding: ,\r\nTransfer-Encoding:", false),
    ] {
        let want = if chunked {
            "HTTP/1.1 200 OK\r\nX: y\r\ntransfer-encoding: chunked"
        } else {
            "HTTP/1.1 200 OK\r\nX: y"
        };
        check(Kind::Response, &UNSAFE, &with(fields), Ok(want));
        let (_, head) = parse(Kind::Response, with(fields).as_bytes(), &[], &UNSAFE);
        assert!(head.flags().contains(Flags::VIOLATION), "{fields:?}");
        assert_eq!(
            head.flags().contains(Flags::HAS_TRANSFER_ENCODING | Flags::CHUNKED),
            chunked,
            "{fields:?}"
        );
        assert_eq!(
            head.flags().intersects(Flags::HAS_TRANSFER_ENCODING | Flags::CHUNKED),
            chunked,
            "{fields:?}"
        );
    }
    let length = "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\nContent-Length: 2\r\n\r\n";
    check(Kind::Response, &UNSAFE, length, Ok("HTTP/1.1 200 OK\r\nContent-Length: 2"));
    let (_, head) = parse(Kind::Response, length.as_bytes(), &[], &UNSAFE);
    assert_eq!(head.content_length(), Some(2));
    check(Kind::Response, &UNSAFE, &with("Transfer-Encoding: gzip, chunked, chunked"), Err(ChunkedTwice));
    check(Kind::Response, &UNSAFE, &with("Transfer-Encoding: chunked,, gzip"), Err(ChunkedNotFinal));
    // Of requests the manual does not say it.
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n";
    check(Kind::Request, &UNSAFE, request, Err(ChunkedTwice));
}

/// Manual, "option accept-unsafe-violations-in-http-response".
#[test]
fn long_statuses() {
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
        assert!(head.flags().contains(Flags::VIOLATION));
    }
    for bad in ["65536", "99999999999999999999", "0099", "20", "099", "000200x", "", "2x0"] {
        check(Kind::Response, &UNSAFE, &with(bad), Err(InvalidStatus));
    }
}

#[test]
fn folded_lines_are_joined() {
    request(
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\t  c\r\n\r\n",
        Ok("GET / HTTP/1.1\r\nHost: a\r\nX: a   b  \t  c"),
    );
    request("GET / HTTP/1.1\r\nX: a\r\n \r\nY: b\r\n\r\n", Ok("GET / HTTP/1.1\r\nX: a\r\nY: b"));
    request("GET / HTTP/1.1\r\nX:\r\n a\r\n\r\n", Ok("GET / HTTP/1.1\r\nX: a"));
    request("GET / HTTP/1.1\r\nX: a\n b\n\n", Ok("GET / HTTP/1.1\r\nX: a  b"));
    request("GET / HTTP/1.1\r\nX\r\n : a\r\n\r\n", Err(InvalidName));
    // Blanks go, other white space is part of a value.
    for odd in ["\u{c}chunked\r\n ", "\r\n \u{c}chunked", "chunked\r\n \u{c}", "chunked\u{b}\r\n "] {
        let raw = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {odd}\r\n\r\n");
        request(&raw, Err(ChunkedNotFinal));
    }
    // What a field means is read from the joined value.
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
fn hosts() {
    let with = |target: &str, fields: &str| format!("{target} HTTP/1.1\r\n{fields}\r\n");
    request(&with("GET /", "Host: a\r\nX: y\r\nHost: A\r\n"), Ok("GET / HTTP/1.1\r\nHost: a\r\nX: y"));
    request(&with("GET /", "Host: a\r\nHost: b\r\n"), Err(ConflictingHost));
    request(&with("GET http://b/x", "Host: a\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET http://a/x", "Host:\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET http://a:81/x", "Host: a\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET http://a:443/x", "Host: a\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET ftp://a/x", "Host: b\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET http://a/x", ""), Ok("GET http://a/x HTTP/1.1"));
    request(&with("GET http://a:80/x?y", "Host: a\r\n"), Ok("GET http://a/x?y HTTP/1.1\r\nHost: a"));
    request(&with("GET http://a:80", "Host: a:80\r\n"), Ok("GET http://a/ HTTP/1.1\r\nHost: a"));
    request(&with("GET http://a/x", "Host: a:80\r\n"), Ok("GET http://a/x HTTP/1.1\r\nHost: a:80"));
    request(&with("GET http://u@a:/x", "Host: a:80\r\n"), Ok("GET http://u@a/x HTTP/1.1\r\nHost: a"));
    request(&with("GET http://a:80/x", "Host: a:\r\n"), Ok("GET http://a/x HTTP/1.1\r\nHost: a"));
    request(&with("GET http://a/x", "Host: a:\r\n"), Ok("GET http://a/x HTTP/1.1\r\nHost: a:"));
    request(&with("GET https://:", "Host: :443\r\n"), Ok("GET https:/// HTTP/1.1\r\nHost: "));
    request(&with("GET http://a/x", "Host: a:81\r\n"), Err(HostAuthorityMismatch));
    request(&with("GET https://a:443/x", "Host: a\r\n"), Ok("GET https://a/x HTTP/1.1\r\nHost: a"));
    request(&with("GET http://u:p@a/x", "Host: a\r\n"), Ok("GET http://u:p@a/x HTTP/1.1\r\nHost: a"));
    unsafe_request(&with("GET http://b/x", "Host: a\r\n"), Ok("GET http://b/x HTTP/1.1\r\nHost: a"));
}

#[test]
fn target_forms() {
    let with = |target: &str, fields: &str| format!("{target} HTTP/1.1\r\n{fields}\r\n");
    request(&with("CONNECT a:443", "Host: a\r\n"), Ok("CONNECT a:443 HTTP/1.1\r\nHost: a"));
    request(&with("CONNECT a:443", ""), Ok("CONNECT a:443 HTTP/1.1"));
    request(
        &with("CONNECT [::1]:443", "Host: [::1]:443\r\n"),
        Ok("CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]"),
    );
    request(&with("CONNECT a:80", "Host: a:\r\n"), Ok("CONNECT a:80 HTTP/1.1\r\nHost: a:"));
    request(&with("CONNECT a:8443", "Host: a:8443\r\n"), Ok("CONNECT a:8443 HTTP/1.1\r\nHost: a:8443"));
    request(&with("CONNECT a:80", "Host: a:443\r\n"), Err(HostAuthorityMismatch));
    request(&with("CONNECT a:443", "Host: b:443\r\n"), Err(HostAuthorityMismatch));
    request(&with("CONNECT a:8080", "Host: a\r\n"), Err(HostAuthorityMismatch));
    for bad in ["a", "/", "*", "a:", "a:x", ":443"] {
        request(&with(&format!("CONNECT {bad}"), "Host: a\r\n"), Err(TargetForm));
    }
    request(&with("GET a:80", "Host: a\r\n"), Err(TargetForm));
    request(&with("GET a/b", "Host: a\r\n"), Err(TargetForm));
    request(&with("GET ?a", "Host: a\r\n"), Err(TargetForm));
    for bad in [
        "GET a/b",
        "GET a:80",
        "GET *",
        "HEAD *",
        "CONNECT /",
        "CONNECT *",
        "CONNECT http://a/",
        "CONNECT http://a:80",
    ] {
        request(&with(bad, "Host: a\r\n"), Err(TargetForm));
        unsafe_request(&with(bad, "Host: a\r\n"), Err(TargetForm));
    }
    let takes_fragments = Options { accept_fragment: true, ..SAFE };
    request(&with("GET /#a", "Host: a\r\n"), Err(InvalidTarget));
    let same = "GET /#a#b HTTP/1.1\r\nHost: a";
    check(Kind::Request, &takes_fragments, &with("GET /#a#b", "Host: a\r\n"), Ok(same));
    unsafe_request(&with("CONNECT a", "Host: a\r\n"), Ok("CONNECT a HTTP/1.1\r\nHost: a"));
}

#[test]
fn lengths() {
    let post = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
    let taken = |fields: &str, want: &str| request(&post(fields), Ok(&format!("POST / HTTP/1.1\r\n{want}")));
    taken("Content-Length: 3\r\nX: y\r\nContent-Length: 3", "Content-Length: 3\r\nX: y");
    taken("Content-Length: 3, 3", "Content-Length: 3");
    taken("Content-Length: 3,3,3\r\ncontent-length: 3", "Content-Length: 3");
    taken("Content-Length: 003", "Content-Length: 3");
    taken("Content-Length: 003, 3", "Content-Length: 3");
    taken("Content-Length: 3, 003", "Content-Length: 3");
    taken("Content-Length: 03\r\nContent-Length: 3", "Content-Length: 3");
    taken("Content-Length: 000", "Content-Length: 0");
    taken("Content-Length: 0", "Content-Length: 0");
    taken("Content-Length: 30", "Content-Length: 30");
    taken("Content-Length: 9223372036854775807", "Content-Length: 9223372036854775807");
    for bad in
        ["", "+3", "-3", "3,", ",3", "3 3", "0x3", "3.0", "9223372036854775808", "99999999999999999999"]
    {
        request(&post(&format!("Content-Length: {bad}")), Err(InvalidContentLength));
    }
    request(&post("Content-Length: 3\r\nContent-Length: 4"), Err(ConflictingContentLength));
    request(&post("Content-Length: 3, 4"), Err(ConflictingContentLength));
    request(&post("Content-Length: 3\r\nContent-Length: x"), Err(InvalidContentLength));
}

#[test]
fn transfer_encodings() {
    let post = |fields: &str| format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n");
    let refused = |fields: &str, kind| {
        request(&post(fields), Err(kind));
        response(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n"), Err(kind));
    };
    refused("Transfer-Encoding: gzip", ChunkedNotFinal);
    refused("Transfer-Encoding: chunked, gzip", ChunkedNotFinal);
    refused("Transfer-Encoding: gzip, chunked", UnsupportedTransferEncoding);
    refused("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", UnsupportedTransferEncoding);
    refused("Transfer-Encoding: chunked, chunked", ChunkedTwice);
    refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ChunkedTwice);
    refused("Transfer-Encoding: chunked;q=1", ChunkedNotFinal);
    refused("Transfer-Encoding: xchunked", ChunkedNotFinal);
    refused("Transfer-Encoding:", InvalidTransferEncoding);
    refused("Transfer-Encoding: chunked,", InvalidTransferEncoding);
    for spelled in
        ["Transfer-Encoding: CHUNKED", "TRANSFER-ENCODING: Chunked", "Transfer-Encoding:\r\n chunkeD"]
    {
        request(&post(spelled), Ok("POST / HTTP/1.1\r\ntransfer-encoding: chunked"));
        let (_, head) = parse(Kind::Request, post(spelled).as_bytes(), &[], &SAFE);
        assert!(!head.flags().intersects(Flags::DOUBTFUL));
    }
    request(
        &post("Content-Length: 3\r\nTransfer-Encoding: chunked"),
        Ok("POST / HTTP/1.1\r\nTransfer-Encoding: chunked"),
    );
    request(
        &post("Transfer-Encoding: chunked\r\nContent-Length: 3"),
        Ok("POST / HTTP/1.1\r\nTransfer-Encoding: chunked"),
    );
}

#[test]
fn framing_that_could_be_read_two_ways_closes() {
    let insecure = |raw: &str, options: &Options| {
        let (outcome, head) = parse(Kind::Request, raw.as_bytes(), &[], options);
        assert!(matches!(outcome, Outcome::Forwarded { .. }), "{outcome:?}");
        assert_eq!(request_framing(&head), BodyFraming::Chunked);
        head.flags().contains(Flags::INSECURE_FRAMING)
    };
    let both = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let fine = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let keep = Options { keep_insecure_transfer_encoding: true, ..SAFE };
    assert!(insecure(both, &SAFE));
    assert!(insecure(old, &SAFE));
    assert!(!insecure(fine, &SAFE));
    assert!(!insecure(both, &keep));
    // The option is about the length beside the coding (manual, "h1-do-not-close-on-insecure-transfer-encoding").
    assert!(insecure(old, &keep));
    assert!(insecure(&both.replace("1.1", "1.0"), &keep));
}

#[test]
fn bodies_after_old_requests() {
    let get = "GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\n";
    request(get, Err(PayloadForbidden));
    request("DELETE / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(PayloadForbidden));
    request("HEAD / HTTP/1.0\r\nContent-Length: 3\r\n\r\n", Err(PayloadForbidden));
    unedited(Kind::Request, "PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\n");
    unedited(Kind::Request, "GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    unedited(Kind::Request, "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let any = Options { accept_payload_with_any_method: true, ..SAFE };
    check(Kind::Request, &any, get, Ok("GET / HTTP/1.0\r\nContent-Length: 3"));
    let doubtful =
        |raw: &str| parse(Kind::Request, raw.as_bytes(), &[], &any).1.flags().intersects(Flags::DOUBTFUL);
    assert!(doubtful(get));
    assert!(!doubtful("PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\n"));
    assert!(!doubtful("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
}

#[test]
fn hop_by_hop_fields() {
    let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
    request(&get("TE: gzip, trailers;q=0.5"), Ok("GET / HTTP/1.1"));
    request(&get("TE: trailers, gzip"), Ok("GET / HTTP/1.1\r\nTE: trailers"));
    request(&get("TE: gzip , trailers"), Ok("GET / HTTP/1.1\r\nTE: trailers"));
    request(&get("TE:"), Ok("GET / HTTP/1.1"));
    request(
        "POST / HTTP/1.1\r\nUpgrade: foo\r\nConnection: upgrade\r\nContent-Length: 3\r\n\r\n",
        Ok("POST / HTTP/1.1\r\nConnection: upgrade\r\nContent-Length: 3"),
    );
}

#[test]
fn nobody_is_offered_h2c() {
    let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
    let goes = |fields: &str, want: &str| request(&get(fields), Ok(&format!("GET / HTTP/1.1{want}")));
    goes(
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
        "\r\nConnection: Upgrade, HTTP2-Settings",
    );
    goes("Connection: upgrade\r\nUpgrade: foo, H2C,bar", "\r\nConnection: upgrade\r\nUpgrade: foo, bar");
    goes("Upgrade: h2c\r\nConnection: upgrade\r\nUpgrade: foo", "\r\nConnection: upgrade\r\nUpgrade: foo");
    goes("Connection: upgrade\r\nUpgrade: h2c2", "\r\nConnection: upgrade\r\nUpgrade: h2c2");
    let (_, head) = parse(Kind::Request, get("Connection: upgrade\r\nUpgrade: h2c").as_bytes(), &[], &SAFE);
    assert!(!crate::connection::may_switch_protocols(&head));
}

#[test]
fn websocket_handshakes() {
    let get =
        |fields: &str| format!("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{fields}\r\n");
    unedited(Kind::Request, &get("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    // What `Connection` does not name is no offer.
    request("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", Ok("GET / HTTP/1.1"));
    request("GET / HTTP/1.1\r\nConnection: x\r\nUpgrade: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nConnection: x"));
    request(&get(""), Err(InvalidWebsocketKey));
    request(&get("Sec-WebSocket-Key: x\r\n"), Err(InvalidWebsocketKey));
    unsafe_request(&get(""), Ok("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket"));
    let switch = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    response(&format!("{switch}\r\n"), Err(InvalidWebsocketKey));
    unedited(Kind::Response, &format!("{switch}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"));
}

#[test]
fn status_lines() {
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

/// Every way to write a version, asked of HAProxy 2.6 in both directions, with and without its option for unsafe
/// messages: `y` where it was taken. RFC 9112, 2.3, has the first column: `HTTP`, in that case, and two digits.
#[test]
fn versions_as_the_reference_program_takes_them() {
    #[track_caller]
    fn check(text: &str, taken: &str) {
        let request = format!("GET / {text}\r\nHost: a\r\n\r\n");
        let response = format!("{text} 200 OK\r\n\r\n");
        let seen: String = [(Kind::Request, &request), (Kind::Response, &response)]
            .into_iter()
            .flat_map(|(kind, raw)| [&SAFE, &UNSAFE].map(|options| outcome(kind, raw, options)))
            .map(|outcome| if matches!(outcome, Outcome::Refused(_)) { '-' } else { 'y' })
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
    // What RTSP servers answer passes, whatever the option.
    check("RTSP/1.0", "-yyy");
    check("RTSP/1", "-y-y");
    for text in ["SIP/2.0", "ABC/1.1", "ABCDE/1.1", "A/1"] {
        check(text, "-y-y");
    }
    // Stricter than the reference program, which takes what has no version at all (RFC 9112, 2.3 and 4).
    for text in ["HTTP/", "HTTP", "/1.1", "ICY"] {
        check(text, "----");
    }
}

#[test]
fn responses_without_body_announce_none() {
    response("HTTP/1.1 204 No\r\nContent-Length: 3\r\nX: y\r\n\r\n", Ok("HTTP/1.1 204 No\r\nX: y"));
    response("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("HTTP/1.1 204 No"));
    response("HTTP/1.1 103 Hints\r\nContent-Length: 3\r\n\r\n", Ok("HTTP/1.1 103 Hints"));
}

#[test]
fn as_many_fields_as_the_limit_says() {
    let raw = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(count));
    unedited(Kind::Request, &raw(100));
    request(&raw(101), Err(TooManyFields));
}

#[test]
fn errors_say_where() {
    let at = |raw: &str| match outcome(Kind::Request, raw, &SAFE) {
        Outcome::Refused(error) => error.position,
        outcome => panic!("{raw:?}: {outcome:?}"),
    };
    assert_eq!(at("G@T / HTTP/1.1\r\n\r\n"), 1);
    assert_eq!(at("GET /a#b HTTP/1.1\r\n\r\n"), 6);
    assert_eq!(at("GET / HTTP/1.1\r\nA(: b\r\n\r\n"), 17);
    assert_eq!(at("GET / HTTP/1.1\r\nAb : b\r\n\r\n"), 18);
    assert_eq!(at("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n"), 20);
    assert_eq!(at("GET / HTTP/1.1\r\nA: b\0c\r\n\r\n"), 20);
}

#[test]
fn notes() {
    let flags = |raw: &str| parse(Kind::Request, raw.as_bytes(), &[], &SAFE).1.flags();
    let get = |fields: &str| flags(&format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n"));
    assert_eq!(get("X: y"), Flags::NONE);
    assert_eq!(get("Host: y"), Flags::HAS_HOST);
    assert_eq!(get("Connection: Close"), Flags::HAS_CONNECTION | Flags::CONNECTION_CLOSE);
    assert_eq!(
        get("Connection: keep-alive, Upgrade, x\r\nUpgrade: foo"),
        Flags::HAS_CONNECTION
            | Flags::CONNECTION_KEEP_ALIVE
            | Flags::CONNECTION_UPGRADE
            | Flags::CONNECTION_OTHER
            | Flags::HAS_UPGRADE
    );
    assert_eq!(get("Expect: 100-Continue"), Flags::EXPECT_100);
    assert_eq!(get("Cookie: a=b"), Flags::HAS_COOKIE);
}

/// Bytes that mean something in a head, so that random heads reach deep.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"GET ",
        b"POST ",
        b"CONNECT ",
        b"/",
        b"a:80",
        b"http://a/",
        b" ",
        b"\t",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"200",
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"Host: a",
        b"Content-Length: ",
        b"Transfer-Encoding: ",
        b"chunked",
        b",",
        b"3",
        b":",
        b"X",
        b"Connection: close",
        b"TE: trailers",
        b"\x80",
        b"Upgrade: websocket",
    ];
    prop_oneof![
        8 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ]
}

fn some_head() -> impl Strategy<Value = Vec<u8>> {
    let start = proptest::sample::select(vec![
        &b"GET / HTTP/1.1\r\n"[..],
        b"HTTP/1.1 200 OK\r\n",
        b"POST / HTTP/1.0\n",
        b"",
        b"\r\n",
    ]);
    (start, proptest::collection::vec(fragment(), 0..24))
        .prop_map(|(start, rest)| [start.to_vec(), rest.concat(), b"\r\n\r\n".to_vec()].concat())
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        raw in some_head(),
        pieces in proptest::collection::vec(0usize..400, 0..6),
        is_request: bool,
        accept_unsafe_violations: bool,
    ) {
        let kind = if is_request { Kind::Request } else { Kind::Response };
        let options = Options { accept_unsafe_violations, ..SAFE };
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.min(raw.len())).collect();
        pieces.sort_unstable();
        let (whole, _) = parse(kind, &raw, &[], &options);
        let (cut, _) = parse(kind, &raw, &pieces, &options);
        prop_assert_eq!(whole, cut);
    }

    /// What is forwarded is understood in the same way by the next one.
    #[test]
    fn what_is_forwarded_is_clean(raw in some_head(), is_request: bool) {
        let kind = if is_request { Kind::Request } else { Kind::Response };
        if let (Outcome::Forwarded { text, .. }, head) = parse(kind, &raw, &[], &SAFE) {
            let mut bytes = Vec::new();
            head.write(&raw, &mut bytes);
            let (again, head_again) = parse(kind, &bytes, &[], &SAFE);
            prop_assert!(matches!(again, Outcome::Forwarded { .. }), "{:?} -> {:?}: {:?}", raw, text, again);
            let mut bytes_again = Vec::new();
            head_again.write(&bytes, &mut bytes_again);
            prop_assert_eq!(&bytes, &bytes_again);
            prop_assert_eq!(head.content_length(), head_again.content_length());
            prop_assert_eq!(
                head.flags().contains(Flags::CHUNKED),
                head_again.flags().contains(Flags::CHUNKED)
            );
            if !head.is_edited() {
                prop_assert!(!head.raw_bytes(&raw).contains(&0));
                prop_assert_eq!(
                    memchr::memchr_iter(b'\n', head.raw_bytes(&raw)).count(),
                    memchr::memmem::find_iter(head.raw_bytes(&raw), b"\r\n").count()
                );
            }
        }
    }
}
