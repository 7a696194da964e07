//! Targets and hosts: which form goes with which method, and that both name the same host.

use weir_http::Kind;

use super::{SAFE, UNSAFE, check, parse, request, unedited, unsafe_request};
use crate::error::HeadErrorKind::*;
use crate::parser::ParseOptions;

#[test]
fn request_target_forms_must_fit_the_method() {
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
    let takes_fragments = ParseOptions { accept_fragment: true, ..SAFE };
    request(&with("GET /#a", "Host: a\r\n"), Err(InvalidTarget));
    let same = "GET /#a#b HTTP/1.1\r\nHost: a";
    check(Kind::Request, &takes_fragments, &with("GET /#a#b", "Host: a\r\n"), Ok(same));
    unsafe_request(&with("CONNECT a", "Host: a\r\n"), Ok("CONNECT a HTTP/1.1\r\nHost: a"));
}

#[test]
fn absolute_targets_without_a_path_get_a_slash() {
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
fn host_fields_must_match_the_target_authority() {
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
fn rejects_invalid_host_fields() {
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
    // According to the manual, the authority of CONNECT is not validated then.
    unsafe_request("CONNECT a,b:80 HTTP/1.1\r\n\r\n", Ok("CONNECT a,b:80 HTTP/1.1"));
    request("CONNECT a,b:80 HTTP/1.1\r\n\r\n", Err(InvalidHost));
}
