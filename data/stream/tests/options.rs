//! Options for non-compliant HTTP/1 peers, tested on the wire.

mod support;

use support::{plain, run};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Checks one stream under a configuration: the forwarded request, the forwarded response, and whether the client's
/// connection stays open.
#[track_caller]
fn check(
    text: String,
    (request, forwarded): (&'static str, &'static str),
    (answer, response): (&'static str, &'static str),
    persists: bool,
) {
    run(text, move |world| async move {
        let mut client = world.client();
        client.send(request).await;
        let mut server = world.accept("s1").await;
        server.expect(forwarded).await;
        server.send(answer).await;
        client.expect(response).await;
        if persists {
            client.send("GET /next HTTP/1.1\r\n\r\n").await;
            server.expect("GET /next HTTP/1.1\r\n\r\n").await;
        } else {
            client.closed().await;
        }
    });
}

const BODY_WITH_OLD_GET: &str = "GET / HTTP/1.0\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nabc";

#[test]
fn h1_accept_payload_with_any_method_accepts_http_1_0_get_bodies() {
    // Some servers expect no body there, so a tolerated message is the last on both connections.
    let last = "GET / HTTP/1.0\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc";
    let closing = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let text = format!("global\n h1-accept-payload-with-any-method\n{}", plain(""));
    check(text, (BODY_WITH_OLD_GET, last), (OK, closing), false);
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(BODY_WITH_OLD_GET).await;
        assert!(client.rest().await.starts_with("HTTP/1.1 413 "));
        assert!(world.origin("s1").is_untouched());
    });
}

#[test]
fn content_length_with_chunked_coding_forces_a_close_by_default() {
    let both =
        "POST / HTTP/1.1\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let one = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let last =
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let closing = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let global = "global\n h1-do-not-close-on-insecure-transfer-encoding\n";
    check(plain(""), (both, last), (OK, closing), false);
    check(format!("{global}{}", plain("")), (both, one), (OK, OK), true);
    // HTTP/1.0 does not define transfer codings, with or without the option.
    let old = "POST / HTTP/1.0\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let last =
        "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    check(plain(""), (old, last), (OK, closing), false);
    check(format!("{global}{}", plain("")), (old, last), (OK, closing), false);
    check(plain("option http-pretend-keepalive"), (old, last), (OK, closing), false);
    // The same in a response, which closes the server's and the client's connection.
    let get = ("GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n");
    let both =
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    let one = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    let closing =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nconnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n";
    check(plain(""), get, (both, closing), false);
    check(format!("{global}{}", plain("")), get, (both, one), true);
}

/// A configuration with names to adjust, and these options.
fn adjusting(options: &str) -> String {
    format!(
        "global\n h1-case-adjust content-length Content-Length\n h1-case-adjust x-own X-OWN\n{}",
        plain(options)
    )
}

#[test]
fn h1_case_adjust_bogus_server_changes_request_field_names() {
    let request = "POST / HTTP/1.1\r\ncontent-length: 3\r\nx-Own: a\r\nx-other: b\r\n\r\nabc";
    let adjusted = "POST / HTTP/1.1\r\nContent-Length: 3\r\nX-OWN: a\r\nx-other: b\r\n\r\nabc";
    check(adjusting("option h1-case-adjust-bogus-server"), (request, adjusted), (OK, OK), true);
    check(adjusting(""), (request, request), (OK, OK), true);
    // A body that arrives with its head, one that arrives later, and a head that was edited anyway.
    run(
        adjusting("option h1-case-adjust-bogus-server\n http-request set-header x-own c"),
        |world| async move {
            let mut client = world.client();
            client.send("POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n").await;
            let mut server = world.accept("s1").await;
            server.expect("POST / HTTP/1.1\r\nContent-Length: 3\r\nX-OWN: c\r\n\r\n").await;
            client.send("abc").await;
            server.expect("abc").await;
        },
    );
}

#[test]
fn h1_case_adjust_bogus_client_changes_response_field_names() {
    let get = ("GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n");
    let adjusted = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let option = "option h1-case-adjust-bogus-client";
    check(adjusting(option), get, (OK, adjusted), true);
    let interim = "HTTP/1.1 103 Early Hints\r\nx-own: a\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let adjusted = "HTTP/1.1 103 Early Hints\r\nX-OWN: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    check(adjusting(option), get, (interim, adjusted), true);
    // Local responses, too.
    run(adjusting(&format!("{option}\n http-request return status 200 hdr x-own b")), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\n\r\n").await;
        client.expect("HTTP/1.1 200 OK\r\nX-OWN: b\r\nContent-Length: 0\r\n\r\n").await;
    });
}

#[test]
fn http_drop_trailers_options_drop_trailers() {
    let request =
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-a: 1\r\nx-b: 2\r\n\r\n";
    let without = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-c: 3\r\n\r\n";
    let bare = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    check(plain(""), (request, request), (answer, answer), true);
    check(plain("option http-drop-request-trailers"), (request, without), (answer, answer), true);
    check(plain("option http-drop-response-trailers"), (request, request), (answer, bare), true);
    let both = "option http-drop-request-trailers\n option http-drop-response-trailers";
    check(plain(both), (request, without), (answer, bare), true);
    // The result is the same if the body was buffered before, or kept for a retry.
    check(plain(&format!("{both}\n option http-buffer-request")), (request, without), (answer, bare), true);
    let replayed = format!("{both}\n option http-buffer-request\n retry-on empty-response");
    check(plain(&replayed), (request, without), (answer, bare), true);
    let edited = format!("{both}\n http-request del-header x\n http-response wait-for-body time 1s");
    check(plain(&edited), (request, without), (answer, bare), true);
}

#[test]
fn http_drop_request_trailers_drops_trailers_at_every_cut() {
    let head = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let body = "3\r\nabc\r\n0\r\nx-a: 1\r\nx-b: 2\r\n\r\n";
    for cut in 0..body.len() {
        run(plain("option http-drop-request-trailers"), move |world| async move {
            let mut client = world.client();
            client.send(format!("{head}{}", &body[..cut])).await;
            let mut server = world.accept("s1").await;
            assert_eq!(server.head().await, head);
            client.send(&body[cut..]).await;
            server.expect("3\r\nabc\r\n0\r\n\r\n").await;
            server.send(OK).await;
            client.expect(OK).await;
            client.send("GET / HTTP/1.1\r\n\r\n").await;
            server.expect("GET / HTTP/1.1\r\n\r\n").await;
        });
    }
}
