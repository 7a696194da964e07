//! RFC 9113, 8.1 to 8.3 and 8.5: the head that a list of fields becomes, or why it is malformed.

use super::*;
use weir_hpack::Defect;

/// Builds a head of lines `name: value`.
fn build(lines: &str, end: bool) -> Builder {
    build_with(20, lines, end)
}

fn build_with(max_fields: u16, lines: &str, end: bool) -> Builder {
    let mut builder = Builder::new(max_fields, 2000, lines.contains(":protocol"));
    builder.begin();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let token = Token::of(name);
        let defect = Defect::of_name(name, token).or(Defect::of_value(value));
        builder.field(DecodedField { token, name, value, defect, sensitive: false });
    }
    builder.finish(end);
    builder
}

#[track_caller]
fn check(lines: &str, end: bool, want: &str) {
    let builder = build(lines, end);
    let ReceivedHead { head, bytes, fault } = &builder.request;
    assert_eq!(*fault, None, "{lines}");
    assert_eq!(String::from_utf8_lossy(bytes).replace("\r\n", "\n"), want);
    // The index matches the bytes.
    let mut written = Vec::new();
    head.write(bytes, &mut written);
    let fields = |text: &[u8]| text.iter().position(|byte| *byte == b'\n').map(|end| text[end..].to_vec());
    assert_eq!(fields(&written), fields(bytes), "only the start line is another one for a server of HTTP/1");
    assert_eq!(head.raw_bytes(bytes), bytes);
    assert_eq!((head.end(), head.version()), (bytes.len(), Version::HTTP_20));
    assert!(head.index().iter().all(|field| field.known == KnownName::from_bytes(field.name.of(bytes, &[]))));
}

const GET: &str = ":method: GET\n:scheme: https\n:authority: example.com\n:path: /a?b=c\n";

#[test]
fn h2_request_fields_become_a_request_head() {
    check(GET, true, "GET https://example.com/a?b=c HTTP/2.0\nhost: example.com\n\n");
    check(
        &format!("{GET}accept: */*\nx-mine: 1\ncontent-length: 05, 5"),
        false,
        "GET https://example.com/a?b=c HTTP/2.0\nhost: example.com\naccept: */*\nx-mine: 1\ncontent-length: 5\n\n",
    );
    check(":method: GET\n:path: /\n:scheme: http\nhost: h", true, "GET / HTTP/2.0\nhost: h\n\n");
    check(":method: OPTIONS\n:path: *\n:scheme: http", true, "OPTIONS * HTTP/2.0\n\n");
    check(
        ":method: OPTIONS\n:path: *\n:scheme: http\n:authority: h",
        true,
        "OPTIONS http://h HTTP/2.0\nhost: h\n\n",
    );
    check(":method: CONNECT\n:authority: h:443", false, "CONNECT h:443 HTTP/2.0\nhost: h:443\n\n");
}

#[test]
fn an_extended_connect_becomes_an_upgrade_request_rfc_8441() {
    let connect = ":method: CONNECT\n:scheme: https\n:authority: h:443\n:path: /chat\n";
    let want = "GET https://h/chat HTTP/2.0\nhost: h\nconnection: upgrade\nupgrade: websocket\norigin: o\n\n";
    check(&format!("{connect}:protocol: websocket\norigin: o"), false, want);
    let builder = build(&format!("{connect}:protocol: WebSocket"), false);
    let flags = HeadFlags::UPGRADE_WEBSOCKET | HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE;
    assert!(builder.request.head.flags().contains(flags));
    assert_eq!(weir_http::BodySize::of_request(&builder.request.head), weir_http::BodySize::None);
    let builder = build(&format!("{connect}:protocol: other"), false);
    assert!(!builder.request.head.flags().contains(HeadFlags::UPGRADE_WEBSOCKET));
    for wrong in [
        format!("{connect}:protocol: h2c"),
        format!("{connect}:protocol: a, b"),
        format!("{connect}:protocol:"),
        format!("{connect}:protocol: websocket\n:protocol: websocket"),
        format!("{connect}:protocol: websocket\ncontent-length: 5"),
        format!("{connect}:protocol: websocket\nconnection: upgrade"),
        format!("{GET}:protocol: websocket"),
        ":method: CONNECT\n:authority: h:443\n:protocol: websocket".to_owned(),
        ":method: CONNECT\n:scheme: http\n:path: /\n:protocol: websocket".to_owned(),
    ] {
        assert_eq!(build(&wrong, false).request.fault, Some(HeadFault::Malformed), "{wrong}");
    }
    let mut builder = Builder::new(20, 2000, false);
    builder.begin();
    let (name, value) = (&b":protocol"[..], &b"websocket"[..]);
    builder.field(DecodedField { token: Token::of(name), name, value, defect: None, sensitive: false });
    assert_eq!(builder.request.fault, Some(HeadFault::Malformed), "nobody offered it");
}

#[test]
fn an_h2_body_of_unknown_length_is_announced_as_chunked() {
    let want = "POST http://h/ HTTP/2.0\nhost: h\ntransfer-encoding: chunked\n\n";
    check(":method: POST\n:path: /\n:scheme: http\n:authority: h", false, want);
    let builder = build(":method: POST\n:path: /\n:scheme: http\n:authority: h", false);
    assert_eq!(weir_http::BodySize::of_request(&builder.request.head), weir_http::BodySize::Unknown);
}

#[test]
fn cookie_fields_are_joined_8_2_3() {
    let want = "GET https://example.com/a?b=c HTTP/2.0\nhost: example.com\nx: y\ncookie: a=b; c=d; e=f\n\n";
    check(&format!("{GET}cookie: a=b\ncookie: c=d\nx: y\ncookie: e=f"), true, want);
}

#[test]
fn removes_the_default_port_of_the_scheme_from_an_authority() {
    for (scheme, authority, bare) in
        [("https", "h:443", "h"), ("http", "h:80", "h"), ("http", "h:443", "h:443"), ("https", "h:", "h")]
    {
        check(
            &format!(":method: GET\n:path: /\n:scheme: {scheme}\n:authority: {authority}\nhost: {authority}"),
            true,
            &format!("GET {scheme}://{bare}/ HTTP/2.0\nhost: {bare}\n\n"),
        );
    }
    check(
        ":method: GET\n:path: /\n:scheme: http\n:authority: [::1]:8080",
        true,
        "GET http://[::1]:8080/ HTTP/2.0\nhost: [::1]:8080\n\n",
    );
}

#[test]
fn h2_fields_set_their_head_flags() {
    let builder = build(
        &format!("{GET}expect: 100-continue\nte: trailers\ncookie: a\ncontent-length: 7\ncontent-length: 7"),
        false,
    );
    let head = &builder.request.head;
    let flags = HeadFlags::EXPECT_100 | HeadFlags::TE_TRAILERS | HeadFlags::HAS_COOKIE | HeadFlags::HAS_HOST;
    assert!(head.flags().contains(flags), "{}", head.flags());
    assert_eq!((head.content_length(), head.host_count()), (Some(7), 1));
    assert!(!head.is_edited());
}

#[track_caller]
fn malformed(lines: &str, end: bool) {
    assert_eq!(build(lines, end).request.fault, Some(HeadFault::Malformed), "{lines}");
}

#[test]
fn rejects_missing_repeated_misplaced_and_unknown_pseudo_fields_8_3() {
    malformed("", true);
    for missing in [":method", ":scheme", ":path"] {
        let rest: Vec<&str> = GET.lines().filter(|line| !line.starts_with(missing)).collect();
        malformed(&rest.join("\n"), true);
    }
    for repeated in GET.lines() {
        malformed(&format!("{GET}{repeated}"), true);
    }
    for more in [":status: 200", ":unknown: x", ":protocol: websocket", "x: y\n:path: /"] {
        malformed(&format!("{GET}{more}"), true);
    }
    malformed(":method: CONNECT\n:authority: h", false);
    malformed(":method: CONNECT\n:authority: h:1\n:path: /", false);
    malformed(":method: CONNECT\n:authority: h:1\n:scheme: http", false);
    malformed(":method: CONNECT\n:authority: h:1\ncontent-length: 0", false);
}

#[test]
fn rejects_values_that_would_change_the_request_in_http_1() {
    // Invalid methods and schemes are answered, as HAProxy does.
    for (name, fault, values) in [
        (":method", HeadFault::NoRequest, &["", "GET /", "G\u{e9}T", "GET\tx", "PRI"][..]),
        (":scheme", HeadFault::NoRequest, &["", "ht tp", "1http", "http://x"]),
        (":path", HeadFault::NoRequest, &["*"]),
        (":path", HeadFault::Malformed, &["", "a", "/ HTTP/1.1", "/a#b", "/\u{e9}", "http://h/", "/\tx"]),
        (
            ":authority",
            HeadFault::Malformed,
            &["", "a b", "a,b", "u@h", "h/x", "h?x", "a\\b", "[::1", "[::1]x", "h]"],
        ),
    ] {
        for value in values {
            let lines: Vec<String> = GET
                .lines()
                .map(|line| if line.starts_with(name) { format!("{name}: {value}") } else { line.to_owned() })
                .collect();
            let lines = lines.join("\n");
            assert_eq!(build(&lines, true).request.fault, Some(fault), "{lines}");
        }
    }
}

#[test]
fn rejects_connection_specific_fields_8_2_2() {
    for field in [
        "connection: close",
        "keep-alive: 1",
        "proxy-connection: x",
        "transfer-encoding: chunked",
        "upgrade: x",
        "http2-settings: x",
        "te: gzip",
        "te: trailers, gzip",
        "X: y",
        "x y: z",
    ] {
        malformed(&format!("{GET}{field}"), true);
    }
}

#[test]
fn the_authority_pseudo_field_overrides_the_host_field_8_3_1() {
    let alone = {
        let builder = build(GET, true);
        String::from_utf8_lossy(&builder.request.bytes).replace("\r\n", "\n")
    };
    for host in ["other.com", "example.com:8443", "a,b", "", "example.com"] {
        check(&format!("{GET}host: {host}"), true, &alone);
    }
    check(&format!("{GET}host: other.com\nhost: third.com"), true, &alone);
    malformed(":method: GET\n:path: /\n:scheme: http\nhost: a,b", true);
    malformed(":method: GET\n:path: /\n:scheme: http\nhost: a\nhost: b", true);
}

#[test]
fn white_space_around_a_field_value_is_removed_8_2_1() {
    for (value, taken) in [(" x", "x"), ("x\t", "x"), (" \t x \t", "x"), ("\u{c}x", "\u{c}x"), (" ", "")] {
        let mut builder = Builder::new(20, 2000, false);
        builder.begin();
        for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("a", value)] {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let token = Token::of(name);
            let defect = Defect::of_name(name, token).or(Defect::of_value(value));
            builder.field(DecodedField { token, name, value, defect, sensitive: false });
        }
        builder.finish(true);
        assert_eq!(builder.request.fault, None, "{value:?}");
        let end = format!("\r\na: {taken}\r\n\r\n");
        assert!(builder.request.bytes.ends_with(end.as_bytes()), "{value:?}");
    }
}

#[test]
fn rejects_invalid_conflicting_and_impossible_content_lengths_8_1_1() {
    for lengths in [
        "content-length: x",
        "content-length:",
        "content-length: +1",
        "content-length: 1\ncontent-length: 2",
        "content-length: 1, 2",
        "content-length: 1,",
        "content-length: 0\ncontent-length: 0, 00, 1",
        "content-length: 9223372036854775808",
    ] {
        malformed(&format!("{GET}{lengths}"), false);
    }
    malformed(&format!("{GET}content-length: 1"), true);
    assert_eq!(build(&format!("{GET}content-length: 0"), true).request.fault, None);
}

#[test]
fn h2_heads_are_limited_in_fields_and_bytes() {
    let fields: String = (0..20).map(|number| format!("x-{number}: y\n")).collect();
    assert_eq!(build(&format!("{GET}{fields}"), true).request.fault, Some(HeadFault::TooLarge));
    let long = "z".repeat(1990);
    for field in [format!("x: {long}"), format!("cookie: {long}")] {
        let builder = build(&format!("{GET}{field}"), true);
        assert_eq!(builder.request.fault, Some(HeadFault::TooLarge));
        assert!(builder.request.bytes.len() < 2000);
    }
    let cookies = "cookie: 1234567890\n".repeat(200);
    assert_eq!(build(&format!("{GET}{cookies}"), true).request.fault, Some(HeadFault::TooLarge));
    // A head with one field more than its index holds is refused, for any last field.
    let nine: String = (0..9).map(|number| format!("x-{number}: y\n")).collect();
    for last in ["content-length: 5", "host: b", "x: y", "te: trailers"] {
        let lines = format!(":method: GET\n:scheme: https\n:path: /\n{nine}");
        let full = build_with(10, &format!("{lines}x-9: y\n{last}"), true);
        assert_eq!(full.request.fault, Some(HeadFault::TooLarge), "{last}");
    }
    let authority = format!("{GET}{nine}x-9: y");
    assert_eq!(build_with(10, &authority, true).request.fault, Some(HeadFault::TooLarge), "it means a host");
}
