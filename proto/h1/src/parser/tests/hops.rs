//! Fields for one connection only, and offers to switch protocols.

use weir_http::Kind;

use super::{SAFE, parse, request, response, unedited, unsafe_request};
use crate::error::HeadErrorKind::*;

#[test]
fn removes_hop_by_hop_fields() {
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
fn h2c_is_removed_from_upgrade_fields() {
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
fn websocket_handshakes_require_valid_key_fields() {
    let get =
        |fields: &str| format!("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{fields}\r\n");
    unedited(Kind::Request, &get("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    // An `Upgrade` that `Connection` does not name is not an offer.
    request("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", Ok("GET / HTTP/1.1"));
    request("GET / HTTP/1.1\r\nConnection: x\r\nUpgrade: a\r\n\r\n", Ok("GET / HTTP/1.1\r\nConnection: x"));
    request(&get(""), Err(InvalidWebsocketKey));
    request(&get("Sec-WebSocket-Key: x\r\n"), Err(InvalidWebsocketKey));
    unsafe_request(&get(""), Ok("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket"));
    let switch = "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
    response(&format!("{switch}\r\n"), Err(InvalidWebsocketKey));
    unedited(Kind::Response, &format!("{switch}Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"));
}
