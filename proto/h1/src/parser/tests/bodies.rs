//! Which body follows a head: lengths, codings, and messages without a body.

use weir_http::{HeadFlags, Kind};

use super::{MessageOutcome, SAFE, UNSAFE, check, parse, request, response, unedited, unsafe_request};
use crate::error::HeadErrorKind::*;
use crate::framing::{BodyFraming, request_framing};
use crate::parser::ParseOptions;

#[test]
fn equal_content_lengths_are_merged_and_invalid_ones_rejected() {
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
fn transfer_encoding_must_end_with_a_single_chunked() {
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
        assert!(!head.flags().intersects(HeadFlags::DOUBTFUL));
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

/// Manual, "option accept-unsafe-violations-in-http-response".
#[test]
fn tolerated_transfer_encodings_are_forwarded_as_plain_chunked() {
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
        assert!(head.flags().contains(HeadFlags::VIOLATION), "{fields:?}");
        assert_eq!(
            head.flags().contains(HeadFlags::HAS_TRANSFER_ENCODING | HeadFlags::CHUNKED),
            chunked,
            "{fields:?}"
        );
        assert_eq!(
            head.flags().intersects(HeadFlags::HAS_TRANSFER_ENCODING | HeadFlags::CHUNKED),
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
    // The manual allows it for responses only.
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n";
    check(Kind::Request, &UNSAFE, request, Err(ChunkedTwice));
}

#[test]
fn ambiguous_message_framing_forces_a_close() {
    let insecure = |raw: &str, options: &ParseOptions| {
        let (outcome, head) = parse(Kind::Request, raw.as_bytes(), &[], options);
        assert!(matches!(outcome, MessageOutcome::Forwarded { .. }), "{outcome:?}");
        assert_eq!(request_framing(&head), BodyFraming::Chunked);
        head.flags().contains(HeadFlags::INSECURE_FRAMING)
    };
    let both = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let fine = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let keep = ParseOptions { keep_insecure_transfer_encoding: true, ..SAFE };
    assert!(insecure(both, &SAFE));
    assert!(insecure(old, &SAFE));
    assert!(!insecure(fine, &SAFE));
    assert!(!insecure(both, &keep));
    // The option is about the length beside the coding (manual, "h1-do-not-close-on-insecure-transfer-encoding").
    assert!(insecure(old, &keep));
    assert!(insecure(&both.replace("1.1", "1.0"), &keep));
}

#[test]
fn rejects_bodies_of_get_head_and_delete_in_http_1_0() {
    let get = "GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\n";
    request(get, Err(PayloadForbidden));
    request("DELETE / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err(PayloadForbidden));
    request("HEAD / HTTP/1.0\r\nContent-Length: 3\r\n\r\n", Err(PayloadForbidden));
    unedited(Kind::Request, "PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\n");
    unedited(Kind::Request, "GET / HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    unedited(Kind::Request, "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let any = ParseOptions { accept_payload_with_any_method: true, ..SAFE };
    check(Kind::Request, &any, get, Ok("GET / HTTP/1.0\r\nContent-Length: 3"));
    let doubtful =
        |raw: &str| parse(Kind::Request, raw.as_bytes(), &[], &any).1.flags().intersects(HeadFlags::DOUBTFUL);
    assert!(doubtful(get));
    assert!(!doubtful("PUT / HTTP/1.0\r\nContent-Length: 3\r\n\r\n"));
    assert!(!doubtful("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
}

#[test]
fn rejects_a_connect_with_content() {
    let with = |field: &str| format!("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
    request(&with("Content-Length: 3"), Err(ConnectWithContent));
    request(&with("Transfer-Encoding: chunked"), Err(ConnectWithContent));
    unsafe_request(&with("Content-Length: 3"), Err(ConnectWithContent));
    unedited(Kind::Request, &with("Content-Length: 0"));
}

#[test]
fn bodiless_responses_are_forwarded_without_framing_fields() {
    response("HTTP/1.1 204 No\r\nContent-Length: 3\r\nX: y\r\n\r\n", Ok("HTTP/1.1 204 No\r\nX: y"));
    response("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", Ok("HTTP/1.1 204 No"));
    response("HTTP/1.1 103 Hints\r\nContent-Length: 3\r\n\r\n", Ok("HTTP/1.1 103 Hints"));
}
