use weir_http::Kind;
use weir_model::CompressionAlgorithm::*;

use super::*;

fn message(kind: Kind, text: &str) -> Message {
    let mut message = Message::default();
    message.read_kept(kind, text.as_bytes()).expect("a head");
    message
}

fn response(fields: &str) -> Message {
    message(Kind::Response, &format!("HTTP/1.1 200 OK\r\n{fields}\r\n"))
}

fn request(fields: &str) -> Message {
    message(Kind::Request, &format!("GET / HTTP/1.1\r\n{fields}\r\n"))
}

/// The lines of a head behind the first, sorted.
fn lines(message: &mut Message) -> Vec<String> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    let text = String::from_utf8(bytes).expect("text");
    let mut lines: Vec<_> = text.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn media_types_match_by_prefix_in_any_case() {
    let types: Vec<Arc<str>> = vec!["text/html".into(), "application/".into()];
    for (value, listed, any) in [
        ("text/html", true, true),
        ("TEXT/HTML; charset=utf-8", true, true),
        ("  text/html", true, true),
        ("application/json", true, true),
        ("image/png", false, true),
        ("text", false, true),
        ("multipart/mixed", false, false),
        ("application/grpc", false, false),
        ("application/grpc+proto", false, false),
        ("application/grpc;x=y", false, false),
        ("application/grpc-web", true, true),
    ] {
        let message = response(&format!("content-type: {value}\r\n"));
        assert_eq!((has_type(&message, &types), has_type(&message, &[])), (listed, any), "{value}");
    }
    assert_eq!((has_type(&response(""), &types), has_type(&response(""), &[])), (false, true));
}

#[test]
fn responses_that_must_not_change_are_left_alone() {
    for (fields, want) in [
        ("", true),
        ("content-encoding: br\r\n", false),
        ("content-encoding: identity\r\n", false),
        ("cache-control: max-age=3, No-Transform\r\n", false),
        ("cache-control: max-age=3\r\n", true),
        ("etag: \"a\"\r\n", true),
        ("etag: W/\"a\"\r\n", true),
        ("etag: a\r\n", false),
        ("etag: \"\r\n", false),
        ("etag: \"a\"\r\netag: \"b\"\r\n", false),
    ] {
        assert_eq!(may_response_change(&response(fields)), want, "{fields:?}");
    }
    for (status, want) in [(200, true), (203, true), (204, false), (206, false), (304, false), (404, false)] {
        let message = message(Kind::Response, &format!("HTTP/1.1 {status} X\r\n\r\n"));
        assert_eq!(may_response_change(&message), want, "{status}");
    }
    assert!(!may_response_change(&message(Kind::Response, "HTTP/1.0 200 OK\r\n\r\n")));
}

#[test]
fn some_requests_get_no_compressed_response() {
    let agent = |agent: &str| may_request_get(&request(&format!("user-agent: {agent}\r\n")));
    assert!(agent("Mozilla/5.0 (X11)") && agent("curl/8"));
    assert!(!agent("Mozilla/4.0 (compatible)"));
    assert!(!agent("Mozilla/4.0 (compatible; MSIE 5.5)"));
    assert!(!agent("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"));
    assert!(agent("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"));
    assert!(agent("Mozilla/4.0 (compatible; MSIE 7.0)") && agent("Mozilla/4.0 (compatible; MSIE 10.0)"));
    assert!(!may_request_get(&request("range: bytes=0-5\r\n")));
    assert!(!may_request_get(&message(Kind::Request, "HEAD / HTTP/1.1\r\n\r\n")));
    assert!(!may_request_get(&message(Kind::Request, "GET / HTTP/1.0\r\n\r\n")));
    assert!(may_request_get(&request("")));
}

#[test]
fn a_compressed_response_gets_coding_vary_and_a_weak_tag() {
    for (fields, want) in [
        ("", &["content-encoding: gzip", "vary: Accept-Encoding"][..]),
        (
            "etag: \"a\"\r\naccept-ranges: bytes\r\n",
            &["content-encoding: gzip", "etag: W/\"a\"", "vary: Accept-Encoding"],
        ),
        ("vary: Origin\r\n", &["content-encoding: gzip", "vary: Origin,Accept-Encoding"]),
        ("vary: *\r\n", &["content-encoding: gzip", "vary: *"]),
        (
            "vary: a\r\nvary: accept-encoding\r\n",
            &["content-encoding: gzip", "vary: a", "vary: accept-encoding"],
        ),
        (
            "content-md5: x\r\ndigest: x\r\ncontent-digest: x\r\nrepr-digest: x\r\n",
            &["content-encoding: gzip", "vary: Accept-Encoding"],
        ),
    ] {
        let mut message = response(fields);
        assert!(announce_response(&mut message, Gzip));
        assert_eq!(lines(&mut message), want, "{fields:?}");
    }
    let mut message = response("accept-ranges: bytes\r\n");
    assert!(announce_response(&mut message, Identity));
    assert_eq!(lines(&mut message), ["accept-ranges: bytes", "vary: Accept-Encoding"]);
}

#[test]
fn raw_deflate_is_announced_as_deflate() {
    let mut message = request("content-md5: x\r\n");
    assert!(announce_request(&mut message, RawDeflate));
    assert_eq!(lines(&mut message), ["content-encoding: deflate"]);
}

#[test]
fn weak_tags_of_clients_are_mapped_back() {
    for (fields, want) in [
        ("if-match: W/\"a\"\r\n", "if-match: \"a\""),
        ("if-match: \"b\", W/\"a\"\r\n", "if-match: \"b\", \"a\""),
        ("if-none-match: W/\"a\", \"b\"\r\n", "if-none-match: W/\"a\", \"a\", \"b\""),
        ("if-none-match: \"a\"\r\n", "if-none-match: \"a\""),
        ("if-none-match: *\r\n", "if-none-match: *"),
    ] {
        let mut message = request(fields);
        accept_strong_tags(&mut message);
        assert_eq!(lines(&mut message), [want]);
    }
}

#[test]
fn a_304_confirms_the_weak_tag_that_the_client_has() {
    for (asked, want) in [
        ("if-none-match: W/\"a\"\r\n", &["etag: W/\"a\"", "vary: Accept-Encoding"][..]),
        ("if-none-match: \"a\"\r\n", &["etag: \"a\""]),
        ("", &["etag: \"a\""]),
    ] {
        let mut message = message(Kind::Response, "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n");
        weaken_matched_tag(&mut message, &request(asked));
        assert_eq!(lines(&mut message), want, "{asked:?}");
    }
}
