//! HTTP/1 through the proxy: the bytes that clients and servers see.

mod support;

use weir_backend::{BackendCounter, FrontendCounter};

use support::{Peer, World, plain, run};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// One stream: the request as sent and as forwarded, the response as sent and as forwarded, and the log line.
struct Stream {
    request: &'static str,
    forwarded: &'static str,
    answer: &'static str,
    response: &'static str,
    log: &'static str,
}

#[track_caller]
fn check(stream: Stream) {
    run(plain(""), move |world| async move {
        let mut client = world.client();
        client.send(stream.request).await;
        let mut server = world.accept("s1").await;
        server.expect(stream.forwarded).await;
        server.send(stream.answer).await;
        server.finish();
        client.expect(stream.response).await;
        client.finish();
        client.closed().await;
        assert_eq!(world.log().await, format!("front/s1 {} 0 0/0", stream.log));
        world.check_idle().await;
    });
}

#[test]
fn a_request_and_its_response_pass_unchanged() {
    check(Stream {
        request: "GET /a?b HTTP/1.1\r\nHost: X\r\nX-One: 1\r\nx-one: 2\r\n\r\n",
        forwarded: "GET /a?b HTTP/1.1\r\nHost: X\r\nX-One: 1\r\nx-one: 2\r\n\r\n",
        answer: OK,
        response: OK,
        log: "0/0/0/0 200 51 ----",
    });
}

#[test]
fn a_body_with_content_length_is_forwarded() {
    check(Stream {
        request: "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
        forwarded: "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
        answer: "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
        response: "HTTP/1.1 201 Made\r\ncontent-length: 0\r\n\r\n",
        log: "0/0/0/0 201 51 ----",
    });
}

#[test]
fn chunks_and_trailers_are_forwarded_without_chunk_extensions() {
    check(Stream {
        request: "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
            5;a=b\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
        forwarded: "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
            5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
        answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\nX-Sum: 7\r\n\r\n",
        response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nX-Sum: 7\r\n\r\n",
        log: "0/0/0/0 200 63 ----",
    });
}

#[test]
fn a_response_without_length_closes_the_client_connection() {
    check(Stream {
        request: GET,
        forwarded: GET,
        answer: "HTTP/1.1 200 OK\r\n\r\nuntil the end",
        response: "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end",
        log: "0/0/0/0 200 47 ----",
    });
}

#[test]
fn an_http_1_0_client_without_keep_alive_gets_connection_close() {
    check(Stream {
        request: "GET / HTTP/1.0\r\n\r\n",
        forwarded: "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        answer: OK,
        response: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        log: "0/0/0/0 200 51 ----",
    });
}

#[test]
fn sequential_requests_reuse_both_connections() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("GET /1 HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        for number in 1..=3 {
            server.expect(format!("GET /{number} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            server.send(OK).await;
            client.expect(OK).await;
            assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 0 0/0");
            client.send(format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", number + 1)).await;
        }
        assert!(world.origin("s1").is_untouched());
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    run(plain(""), |world| async move {
        support::answer_always(world.origin("s1"), OK.as_bytes());
        let mut client = world.client();
        // More than a buffer holds, in one segment as far as the kernel takes it.
        let many = GET.repeat(1000);
        client.connected().await;
        assert_eq!(client.send_some(many.as_bytes()), many.len(), "the kernel's buffers hold it");
        client.expect(OK.repeat(1000)).await;
        let counted = [FrontendCounter::Requests, FrontendCounter::Http2xx];
        assert_eq!(counted.map(|counter| world.frontend("front", counter)), [1000, 1000]);
        assert_eq!(world.backend("front", BackendCounter::Connects), 1);
        assert_eq!(world.frontend("front", FrontendCounter::BytesIn), many.len() as u64, "each byte once");
    });
}

#[test]
fn sends_no_body_in_response_to_head() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("HEAD / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect("HEAD / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        next(&mut client, &mut server).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 52 ---- 0 0/0");
    });
}

/// Another stream on the same two connections.
async fn next(client: &mut Peer, server: &mut Peer) {
    client.send(GET).await;
    server.expect(GET).await;
    server.send(OK).await;
    client.expect(OK).await;
}

#[test]
fn forwards_bodiless_statuses_without_a_body() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        for answer in [
            "HTTP/1.1 204 No\r\n\r\n",
            "HTTP/1.1 304 Same\r\ncontent-length: 77\r\n\r\n",
            "HTTP/1.1 304 Same\r\ntransfer-encoding: chunked\r\n\r\n",
        ] {
            server.expect(GET).await;
            server.send(answer).await;
            client.expect(answer).await;
            client.send(GET).await;
        }
        server.expect(GET).await;
    });
}

#[test]
fn a_100_continue_is_forwarded_before_the_request_body() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        let head = "POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n";
        client.send(head).await;
        let mut server = world.accept("s1").await;
        server.expect(head).await;
        let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
        server.send(hints).await;
        server.send("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.expect(hints).await;
        client.expect("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.send("abc").await;
        server.expect("abc").await;
        server.send(OK).await;
        client.expect(OK).await;
        assert!(world.log().await.starts_with("front/s1 0/0/0/0 200 "));
        next(&mut client, &mut server).await;
    });
}

#[test]
fn an_http_1_0_client_gets_only_the_final_response() {
    check(Stream {
        request: "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        forwarded: "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        answer: "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        response: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok",
        // The interim response counts as in HAProxy, though it is not sent.
        log: "0/0/0/0 200 88 ----",
    });
}

#[test]
fn a_connect_request_opens_a_tunnel() {
    tunnel("CONNECT x:8080 HTTP/1.1\r\nhost: x:8080\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "200 34");
}

#[test]
fn an_upgrade_opens_a_tunnel() {
    let request = "GET / HTTP/1.1\r\nhost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let answer = "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    tunnel(request, answer, "101 66");
}

#[track_caller]
fn tunnel(request: &'static str, answer: &'static str, status_and_head: &'static str) {
    run(plain(""), move |world| async move {
        let mut client = world.client();
        // The first bytes of the tunnel may arrive with the request.
        client.send(format!("{request}ping")).await;
        let mut server = world.accept("s1").await;
        server.expect(request).await;
        server.send(answer).await;
        client.expect(answer).await;
        server.expect("ping").await;
        server.send("pong").await;
        client.expect("pong").await;
        client.finish();
        server.closed().await;
        server.send("last words").await;
        server.finish();
        client.expect("last words").await;
        client.closed().await;
        let (status, head) = status_and_head.split_once(' ').expect("two numbers");
        let bytes = head.parse::<usize>().expect("a number") + "ponglast words".len();
        assert_eq!(world.log().await, format!("front/s1 0/0/0/0 {status} {bytes} ---- 0 0/0"));
        world.check_idle().await;
    });
}

#[test]
fn a_refused_connect_is_an_ordinary_response() {
    run(plain(""), |world| async move {
        let request = "CONNECT x:8080 HTTP/1.1\r\nhost: x:8080\r\n\r\n";
        let mut client = world.client();
        client.send(request).await;
        let mut server = world.accept("s1").await;
        server.expect(request).await;
        server.send("HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno").await;
        client.expect("HTTP/1.1 403 No\r\ncontent-length: 2\r\n\r\nno").await;
        next(&mut client, &mut server).await;
    });
}

#[test]
fn a_response_may_begin_before_the_request_ends() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n";
        client.send(head).await;
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.expect(format!("{head}abc")).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n12").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n12").await;
        client.send("def").await;
        server.expect("def").await;
        server.send("34").await;
        client.expect("34").await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 53 ---- 0 0/0");
        next(&mut client, &mut server).await;
    });
}

#[test]
fn a_complete_response_before_the_request_ends_is_forwarded() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n";
        client.send(format!("{head}abc")).await;
        let mut server = world.accept("s1").await;
        server.expect(format!("{head}abc")).await;
        server.send("HTTP/1.1 413 Enough\r\ncontent-length: 0\r\n\r\n").await;
        client.expect("HTTP/1.1 413 Enough\r\ncontent-length: 0\r\n\r\n").await;
        // The server gets the rest, and both connections stay open.
        client.send("def").await;
        server.expect("def").await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 413 53 ---- 0 0/0");
        next(&mut client, &mut server).await;
    });
}

#[test]
fn http_connection_options_decide_which_side_is_closed() {
    for (option, to_server, to_client) in [
        ("option httpclose", "connection: close\r\n", "connection: close\r\n"),
        ("option http-server-close", "connection: close\r\n", ""),
        ("option http-keep-alive", "", ""),
    ] {
        run(plain(option), move |world| async move {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(format!("GET / HTTP/1.1\r\nhost: x\r\n{to_server}\r\n")).await;
            server.send(OK).await;
            client.expect(format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{to_client}\r\nok")).await;
            if !to_server.is_empty() {
                server.closed().await;
            }
            if !to_client.is_empty() {
                client.closed().await;
            } else {
                client.send(GET).await;
                if to_server.is_empty() {
                    server.expect(GET).await;
                } else {
                    world
                        .accept("s1")
                        .await
                        .expect("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                        .await;
                }
            }
        });
    }
}

#[test]
fn a_request_with_connection_close_closes_the_client_connection() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\nConnection: close\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send(OK).await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").await;
        client.closed().await;
        world.check_idle().await;
        // The server connection is kept for other clients.
        assert!(server.is_quiet());
    });
}

#[test]
fn without_abortonclose_a_half_closed_client_gets_its_response() {
    run(plain("no option abortonclose"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        client.finish();
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send(OK).await;
        client.expect(OK).await;
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 0 0/0");
    });
}

#[test]
fn malformed_requests_get_400_and_a_close() {
    for junk in [
        "GET\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01",
    ] {
        run(plain(""), move |world| async move {
            let mut client = world.client();
            client.send(junk).await;
            assert!(client.rest().await.starts_with("HTTP/1.1 400 Bad request\r\n"), "{junk:?}");
            assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 400 0 PR-- 0 0/0", "{junk:?}");
            check_bad_request(&world);
            world.check_idle().await;
        });
    }
}

fn check_bad_request(world: &World) {
    use weir_backend::FrontendCounter as F;
    let counted = [F::BadRequests, F::Requests, F::Http4xx].map(|counter| world.frontend("front", counter));
    assert_eq!(counted, [1, 1, 1]);
}

#[test]
fn an_oversized_request_head_gets_414_or_431() {
    let head = |path: usize, field: usize| {
        format!("GET /{} HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "u".repeat(path), "v".repeat(field))
    };
    // The part that fits the buffer shows whether the start line or the head is too large (RFC 6585, 5; RFC 9110, 15.5.15).
    for (long, status, reason) in [
        (head(20_000, 0), 414, "URI Too Long"),
        (head(1, 20_000), 431, "Request Header Fields Too Large"),
        (head(8_000, 8_000), 431, "Request Header Fields Too Large"),
    ] {
        run(plain(""), move |world| async move {
            let mut client = world.client();
            client.send(long).await;
            let answer = client.rest().await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} {reason}\r\n")), "{answer}");
            assert_eq!(world.log().await, format!("front/<NOSRV> -1/-1/-1/-1 {status} 0 PR-- 0 0/0"));
        });
    }
}

#[test]
fn malformed_responses_are_replaced_by_502() {
    for junk in [
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "HTTP/1.1 101 Surprise\r\n\r\n",
    ] {
        run(plain(""), move |world| async move {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            server.send(junk).await;
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{junk:?}: {head}");
            assert!(!head.contains("close"), "the client is kept: {head}");
            server.closed().await;
            assert_eq!(world.log().await, "front/s1 0/0/0/-1 502 209 PH-- 0 0/0", "{junk:?}");
            drop(client);
            world.check_idle().await;
        });
    }
}

#[test]
fn a_malformed_chunk_in_a_response_closes_the_client_connection() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        client.expect("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        server.send("nonsense\r\n").await;
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 61 PD-- 0 0/0");
    });
}

#[test]
fn a_malformed_chunk_in_a_request_gets_400() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        let mut server = world.accept("s1").await;
        assert!(server.head().await.starts_with("POST "));
        client.send("nonsense\r\n").await;
        assert!(client.rest().await.starts_with("HTTP/1.1 400 Bad request\r\n"));
        server.expect("3\r\nabc\r\n").await;
        server.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 400 206 PH-- 0 0/0");
        world.check_idle().await;
    });
}

#[test]
fn the_rest_of_an_aborted_request_body_is_not_parsed_as_a_request() {
    run(plain(""), |world| async move {
        let smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
        let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n";
        let mut client = world.client();
        client.send(head).await;
        let mut server = world.accept("s1").await;
        server.expect(head).await;
        server.send("HTTP/1.1 413 Enough\r\ncontent-length: 4\r\n\r\nbye!").await;
        server.abort();
        // The rest of the body looks like a request, and arrives after the server closed.
        client.send(smuggled).await;
        client.expect("HTTP/1.1 413 Enough\r\ncontent-length: 4\r\n").await;
        client.rest().await;
        assert!(world.log().await.starts_with("front/s1 0/0/0/0 413 "));
        assert!(world.origin("s1").is_untouched());
        assert_eq!(world.frontend("front", FrontendCounter::Requests), 1);
        world.check_idle().await;
    });
}

#[test]
fn an_upload_continues_during_the_response() {
    run(plain(""), |world| async move {
        let body = vec![b'b'; 3_000_000];
        let mut client = world.client();
        client.connected().await;
        let mut sent = 0;
        client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nok").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nok").await;
        // All at once. The poller does not report bytes again that the proxy leaves unread.
        while sent < body.len() {
            sent += client.send_some(&body[sent..]);
            if sent < body.len() {
                server.read_now(200_000).await;
                weir_sched::yield_now().await;
            }
        }
        let mut quiet = 0;
        while quiet < 100 {
            quiet = if server.read_now(200_000).await.is_empty() { quiet + 1 } else { 0 };
            weir_sched::yield_now().await;
        }
        server.send("!!").await;
        client.expect("!!").await;
        assert!(world.log().await.contains(" 200 "));
        assert!(world.frontend("front", FrontendCounter::BytesIn) > 3_000_000);
    });
}

#[test]
fn an_edited_head_is_sent_before_its_body_arrives() {
    run(plain("http-request set-header x-a b"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        client.send("POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        assert!(server.head().await.contains("x-a: b"));
        server.send("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.expect("HTTP/1.1 100 Continue\r\n\r\n").await;
        client.send("abc").await;
        server.expect("abc").await;
        server.send(OK).await;
        client.expect(OK).await;
        assert_eq!(weir_sched::now(), began);
    });
}

#[test]
fn http_buffer_request_sends_100_continue() {
    run(plain("option http-buffer-request"), |world| async move {
        let mut client = world.client();
        client.send("POST / HTTP/1.1\r\nhost: x\r\nExpect: 100-continue\r\ncontent-length: 3\r\n\r\n").await;
        client.expect("HTTP/1.1 100 Continue\r\n\r\n").await;
        assert!(world.origin("s1").is_untouched());
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        // The proxy has sent `100 Continue`, so the server gets no `Expect` to send it again.
        server.expect("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc").await;
        server.send(OK).await;
        client.expect(OK).await;
    });
}
