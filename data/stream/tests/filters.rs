//! Filters on streams: bandwidth limits to the millisecond of the virtual clock, and unchanged messages behind any filter.

mod support;

use support::{HTTP, answer_with, plain, plain_tcp, run};

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
/// A thousand bytes a second in both directions.
const LIMITS: &str = " filter bwlim-in i default-limit 1000 default-period 1s\n \
    filter bwlim-out o default-limit 1000 default-period 1s\n";

fn answer(length: usize) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    answer.extend((0..length).map(|at| b'a' + (at % 26) as u8));
    answer
}

/// Checks how long a response of `length` bytes takes, in ms.
#[track_caller]
fn check_download(rules: &str, length: usize, want_ms: u64) {
    let took = run(plain(&format!("{LIMITS}{rules}")), move |world| async move {
        answer_with(world.origin("s1"), move |_| answer(length));
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(GET).await;
        client.expect(answer(length)).await;
        weir_sched::now().since(began)
    });
    // Each part waits for whole milliseconds.
    assert!(took.abs_diff(want_ms) <= 2 + want_ms / 500, "{rules}: {took} ms, not {want_ms}");
}

/// Manual, 9.7 and "set-bandwidth-limit".
#[test]
fn a_bandwidth_limit_sets_the_duration_of_a_response() {
    check_download("", 40_000, 0);
    check_download(" http-request set-bandwidth-limit i", 40_000, 0);
    check_download(" http-request set-bandwidth-limit o", 2000, 2000);
    // Longer than both timeouts. Neither side times out.
    check_download(" http-request set-bandwidth-limit o", 30_000, 30_000);
    check_download(" http-response set-bandwidth-limit o", 2000, 2000);
    check_download(" tcp-request content set-bandwidth-limit o", 2000, 2000);
    check_download(" tcp-response content set-bandwidth-limit o", 2000, 2000);
    check_download(" http-request set-bandwidth-limit o if FALSE", 2000, 0);
    check_download(" http-request set-bandwidth-limit o limit 100k", 204_800, 2000);
    check_download(" http-request set-bandwidth-limit o period 2s", 2000, 4000);
    check_download(" http-request set-bandwidth-limit o limit int(4000) period int(500)", 8000, 1000);
    // Without a value, the filter's default applies.
    check_download(" http-request set-bandwidth-limit o limit req.hdr(none) period 0", 2000, 2000);
    // Only the last rule applies, without the values of earlier ones.
    let two = " http-request set-bandwidth-limit o limit 10 period 50s\n http-request set-bandwidth-limit o";
    check_download(two, 2000, 2000);
    // Of several filters, the slowest limits. The other passes it the first bytes after 50 ms.
    let second = " filter bwlim-out p default-limit 500 default-period 1s\n http-request set-bandwidth-limit o\n \
        http-request set-bandwidth-limit p";
    check_download(second, 2000, 4050);
}

#[test]
fn a_backend_rule_enables_the_bandwidth_filter_of_its_backend() {
    let text = format!(
        "{HTTP}frontend front\n bind 127.0.0.1:1\n filter bwlim-out a default-limit 1 default-period 1s\n \
         default_backend back\nbackend back\n filter bwlim-out a default-limit 1000 default-period 1s\n \
         http-request set-bandwidth-limit a\n server s1 {{s1}}\n"
    );
    let took = run(text, |world| async move {
        answer_with(world.origin("s1"), |_| answer(3000));
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(GET).await;
        client.expect(answer(3000)).await;
        weir_sched::now().since(began)
    });
    assert!(took.abs_diff(3000) <= 2, "{took}");
}

#[test]
fn a_bandwidth_limit_sets_the_duration_of_a_request() {
    let rules = " http-request set-bandwidth-limit i";
    for (head, framed) in [("content-length: 20000", false), ("transfer-encoding: chunked", true)] {
        let took = run(plain(&format!("{LIMITS}{rules}")), move |world| async move {
            let mut client = world.client();
            let body = "x".repeat(20_000);
            client.send(format!("POST / HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n")).await;
            let sent = if framed { format!("4e20\r\n{body}\r\n0\r\n\r\n") } else { body.clone() };
            client.send(sent).await;
            let mut server = world.accept("s1").await;
            let began = weir_sched::now();
            let framed = if framed { format!("4e20\r\n{body}\r\n0\r\n\r\n") } else { body };
            let whole = format!("POST / HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n{framed}");
            assert!(joined(&mut server, &whole).await == whole);
            let took = weir_sched::now().since(began);
            server.send(answer(1)).await;
            client.expect(answer(1)).await;
            took
        });
        assert!(took.abs_diff(20_000) <= 2, "{head}: {took}");
    }
}

#[test]
fn bandwidth_limits_apply_to_each_direction_of_a_tcp_stream() {
    let text = plain_tcp(&format!(
        "{LIMITS} tcp-request content set-bandwidth-limit i\n tcp-request content set-bandwidth-limit o"
    ));
    run(text, |world| async move {
        let mut client = world.client();
        client.send("x".repeat(15_000)).await;
        let mut server = world.accept("s1").await;
        server.send("y".repeat(500)).await;
        let began = weir_sched::now();
        client.expect("y".repeat(500)).await;
        let down = weir_sched::now().since(began);
        client.finish();
        server.expect("x".repeat(15_000)).await;
        server.closed().await;
        let up = weir_sched::now().since(began);
        assert!(down.abs_diff(500) <= 2 && up.abs_diff(15_000) <= 2, "{down} {up}");
        server.finish();
        client.closed().await;
        assert_eq!(world.log().await, format!("front/s1 0/0/{} 500 -- 0 0/0", up));
    });
}

/// Checks a stream through filters that pass everything in small random parts, and then another stream on the same connection.
#[track_caller]
fn check_messages(request: &'static str, came: &'static str, answer: &'static str, response: &'static str) {
    let filters = " filter trace name t quiet random-forwarding\n filter trace quiet max-fwd 3\n \
        filter trace quiet random-forwarding\n filter bwlim-out o default-limit 100 default-period 1s\n \
        http-request set-bandwidth-limit o\n";
    run(plain(filters), move |world| async move {
        let mut client = world.client();
        for _ in 0..2 {
            client.send(request).await;
            let mut server = world.accept("s1").await;
            assert_eq!(joined(&mut server, came).await, came);
            server.send(answer).await;
            server.finish();
            assert_eq!(joined(&mut client, response).await, response);
        }
    });
}

/// Received bytes, with chunks joined as in `like`, because a filter may split them differently.
async fn joined(peer: &mut support::Peer, like: &str) -> String {
    let (head, body) = like.split_once("\r\n\r\n").expect("a head");
    let mut came = peer.head().await;
    if !head.contains("chunked") {
        came.push_str(&String::from_utf8_lossy(&peer.read(body.len()).await));
        return came;
    }
    let mut payload = String::new();
    loop {
        let mut line = String::new();
        while !line.ends_with("\r\n") {
            line.push(peer.read(1).await[0] as char);
        }
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a size");
        if size == 0 {
            break;
        }
        payload.push_str(&String::from_utf8_lossy(&peer.read(size).await));
        peer.expect("\r\n").await;
    }
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
        trailers.push(peer.read(1).await[0] as char);
    }
    came.push_str(&format!("{:x}\r\n{payload}\r\n0\r\n{trailers}", payload.len()));
    came
}

#[test]
fn filters_that_pass_everything_leave_messages_unchanged() {
    const GOT: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    const HEAD: &str = "HEAD / HTTP/1.1\r\nhost: x\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n0123456789";
    const CHUNKS: &str = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\nT: 1\r\nU: 2\r\n\r\n";
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nX: y\r\n\r\n";
    const EMPTY: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    const LENGTH: &str = "HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n";
    const NONE: &str = "HTTP/1.1 204 No Content\r\n\r\n";
    check_messages(GET, GOT, OK, OK);
    check_messages(GET, GOT, NONE, NONE);
    check_messages(HEAD, HEAD, LENGTH, LENGTH);
    check_messages(POST, POST, OK, OK);
    check_messages(CHUNKS, CHUNKS, OK, OK);
    check_messages(POST, POST, CHUNKED, CHUNKED);
    run(plain(" filter trace quiet"), move |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send(EMPTY).await;
        client.expect(EMPTY).await;
    });
}

#[test]
fn a_filtered_response_without_length_ends_with_its_connection() {
    run(plain(" filter trace quiet max-fwd 3"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\n\r\nabcdefgh").await;
        server.finish();
        assert!(client.rest().await.ends_with("\r\n\r\nabcdefgh"));
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 42 ---- 0 0/0");
    });
}

#[test]
fn tunnel_bytes_pass_through_filters() {
    let text = format!("{LIMITS} http-request set-bandwidth-limit o\n");
    run(plain(&text), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 101 Go\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 101"));
        client.send("ping").await;
        server.expect("ping").await;
        let began = weir_sched::now();
        server.send("z".repeat(2000)).await;
        client.expect("z".repeat(2000)).await;
        let took = weir_sched::now().since(began);
        assert!(took.abs_diff(2000) <= 2, "{took}");
    });
}

#[test]
fn a_client_reset_while_a_filter_delays_bytes_ends_the_stream() {
    run(plain(&format!("{LIMITS} http-request set-bandwidth-limit o")), |world| async move {
        answer_with(world.origin("s1"), |_| answer(50_000));
        let mut client = world.client();
        client.send(GET).await;
        client.read(500).await;
        client.abort();
        let log = world.log().await;
        assert!(log.contains(" CD"), "{log}");
    });
}

#[test]
fn timeout_client_ends_a_client_that_does_not_read_behind_a_filter() {
    run(plain(" filter trace quiet"), |world| async move {
        answer_with(world.origin("s1"), |_| answer(20_000_000));
        let mut client = world.client();
        client.make_narrow();
        client.send(GET).await;
        let log = world.log().await;
        assert!(log.contains(" cD"), "{log}");
    });
}

#[test]
fn rejects_invalid_chunked_coding_behind_filters() {
    run(plain(" filter trace quiet"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        client.expect("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
        server.send("zz\r\n").await;
        client.closed().await;
        let log = world.log().await;
        assert!(log.contains(" PD"), "{log}");
    });
}

#[test]
fn a_filtered_body_is_resent_with_its_retried_request() {
    let limit = " filter bwlim-in i default-limit 10 default-period 1s\n filter trace quiet max-fwd 2\n \
        http-request set-bandwidth-limit i\n retry-on 503\n retries 2";
    for request in [
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: 1\r\n\r\n",
    ] {
        run(plain(limit), move |world| async move {
            let mut client = world.client();
            client.send(request).await;
            let began = weir_sched::now();
            for answer in [
                "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            ] {
                let mut server = world.accept("s1").await;
                assert_eq!(joined(&mut server, request).await, request);
                server.send(answer).await;
            }
            client.expect("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let took = weir_sched::now().since(began);
            assert!(took.abs_diff(1000) <= 100, "the limit holds for both: {took}");
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
        });
    }
}

/// A service may wait longer than all timeouts.
#[test]
fn a_service_may_pause_longer_than_the_timeouts() {
    for filter in ["", " filter trace quiet\n"] {
        run(plain(&format!("{filter} stats enable\n stats uri /stats\n")), |world| async move {
            let mut client = world.client();
            let began = weir_sched::now();
            client.send("GET /stats;slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
            client.head().await;
            for (ms, chunk) in [(60_000, "5\r\nfirst\r\n"), (120_000, "5\r\nlater\r\n0\r\n\r\n")] {
                client.expect(chunk).await;
                assert_eq!(weir_sched::now().since(began), ms);
            }
            client.send(GET).await;
            world.accept("s1").await;
        });
        // The service's wait ends while a filter holds the bytes back.
        let limit =
            " filter bwlim-out o default-limit 1 default-period 1s\n http-request set-bandwidth-limit o\n";
        run(plain(&format!("{filter}{limit} stats enable\n stats uri /stats\n")), |world| async move {
            let mut client = world.client();
            let began = weir_sched::now();
            client.send("GET /stats;slow HTTP/1.0\r\n\r\n").await;
            client.head().await;
            assert_eq!(client.read(10).await, b"firstlater");
            let took = weir_sched::now().since(began);
            assert!((120_000..=131_000).contains(&took), "{took}");
        });
        run(plain(&format!("{filter} stats enable\n stats uri /stats\n")), |world| async move {
            let mut client = world.client();
            client.send("GET /stats;slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
            client.head().await;
            client.abort();
            // Logged at once, not when the service continues.
            assert_eq!(world.log().await, "front/<STATS> 0/0/0/0 200 82 LR-- 0 0/0");
        });
    }
}

/// A server that answers once it has the whole request, and a rule that waits for its answer.
#[test]
fn a_limited_request_continues_while_its_response_is_inspected() {
    let limit = format!(
        "{LIMITS} tcp-request content set-bandwidth-limit i\n tcp-response inspect-delay 10s\n \
         tcp-response content accept if {{ res.len gt 3 }}"
    );
    run(plain_tcp(&limit), |world| async move {
        let mut client = world.client();
        client.send("x".repeat(2000)).await;
        let mut server = world.accept("s1").await;
        let began = weir_sched::now();
        server.expect("x".repeat(2000)).await;
        let took = weir_sched::now().since(began);
        assert!(took.abs_diff(2000) <= 2, "{took}");
        server.send("answer").await;
        client.expect("answer").await;
    });
    run(plain_tcp(&limit), |world| async move {
        let mut client = world.client();
        client.send("x".repeat(20_000)).await;
        let mut server = world.accept("s1").await;
        server.send("abc").await;
        let began = weir_sched::now();
        client.expect("abc").await;
        let took = weir_sched::now().since(began);
        assert!(took.abs_diff(10_000) <= 2, "the delay ends all the same: {took}");
    });
}

/// A byte in 20 s, and timeouts of 10 s.
#[test]
fn timeouts_do_not_expire_while_a_filter_delays_bytes() {
    let limits = " filter bwlim-in i default-limit 1 default-period 20s\n \
        filter bwlim-out o default-limit 1 default-period 20s\n \
        tcp-request content set-bandwidth-limit i\n tcp-request content set-bandwidth-limit o\n";
    run(plain(limits), |world| async move {
        let mut client = world.client();
        let post = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
        client.send(post).await;
        let mut server = world.accept("s1").await;
        let began = weir_sched::now();
        server.expect(post).await;
        let up = weir_sched::now().since(began);
        server.send(answer(3)).await;
        client.expect(answer(3)).await;
        let took = weir_sched::now().since(began);
        assert_eq!((up, took), (60_000, 120_000));
        assert_eq!(world.log().await, "front/s1 0/0/0/60000 200 52 ---- 0 0/0");
    });
    run(plain_tcp(limits), |world| async move {
        let mut client = world.client();
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.send("defg").await;
        server.expect("abc").await;
        client.expect("defg").await;
        client.finish();
        server.finish();
        client.closed().await;
        let log = world.log().await;
        assert!(log.contains(" 4 -- "), "{log}");
    });
}

#[test]
fn the_statistics_page_passes_through_filters() {
    let text = format!("{LIMITS} stats enable\n stats uri /stats\n http-request set-bandwidth-limit o\n");
    run(plain(&text), |world| async move {
        let mut client = world.client();
        let began = weir_sched::now();
        client.send("GET /stats HTTP/1.0\r\n\r\n").await;
        let page = client.rest_raw().await;
        let body = page.windows(4).position(|part| part == b"\r\n\r\n").map_or(0, |at| page.len() - at - 4);
        let took = weir_sched::now().since(began);
        assert!(body > 0 && took.abs_diff(body as u64) <= 2, "{body} bytes in {took} ms");
    });
}
