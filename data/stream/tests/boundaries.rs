//! The same bytes, however they are split, give the same result on the other side. Neither side makes the proxy hold
//! more than its buffers, however slowly the other one reads.

mod support;

use proptest::prelude::*;
use support::{Peer, World, plain, plain_tcp, run};
use weir_sched::yield_now;

const REQUEST: &str = "POST /a HTTP/1.1\r\nHost: x\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\
    Transfer-Encoding: chunked\r\n\r\n5;n=v\r\nhello\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 Fine\r\nX-A: 1\r\ntransfer-encoding: chunked\r\n\r\n\
    3\r\nabc\r\na;q\r\n0123456789\r\n0\r\nx-sum: 9\r\n\r\n";

/// The forwarded form of a message, without chunk extensions.
fn passed(message: &str) -> String {
    message.replace(";n=v", "").replace(";q", "")
}

/// Sends `bytes` in pieces that end at `cuts`. The proxy receives each piece separately.
async fn send_cut(peer: &mut Peer, bytes: &[u8], cuts: &[usize]) {
    let mut start = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        if cut > start {
            peer.send(&bytes[start..cut]).await;
            // Long enough for the proxy to process the piece.
            for _ in 0..4 {
                yield_now().await;
            }
            start = cut;
        }
    }
}

/// One stream with both messages split.
async fn stream(
    world: &World,
    client: &mut Peer,
    server: &mut Option<Peer>,
    request: &[usize],
    answer: &[usize],
) {
    send_cut(client, REQUEST.as_bytes(), request).await;
    if server.is_none() {
        *server = Some(world.accept("s1").await);
    }
    let server = server.as_mut().expect("accepted");
    server.expect(passed(REQUEST)).await;
    send_cut(server, ANSWER.as_bytes(), answer).await;
    client.expect(passed(ANSWER)).await;
}

#[test]
fn forwards_a_request_and_response_split_at_every_byte() {
    run(plain(""), |world| async move {
        let (mut client, mut server) = (world.client(), None);
        for cut in 1..REQUEST.len() {
            stream(&world, &mut client, &mut server, &[cut], &[]).await;
        }
        for cut in 1..ANSWER.len() {
            stream(&world, &mut client, &mut server, &[], &[cut]).await;
        }
    });
}

#[test]
fn forwards_bytes_that_arrive_one_by_one() {
    run(plain(""), |world| async move {
        let (mut client, mut server) = (world.client(), None);
        let all = |length: usize| (1..length).collect::<Vec<_>>();
        stream(&world, &mut client, &mut server, &all(REQUEST.len()), &all(ANSWER.len())).await;
        stream(&world, &mut client, &mut server, &[], &[]).await;
    });
}

/// Reads up to `end` and returns everything before it.
async fn until(peer: &mut Peer, end: &str) -> String {
    let mut seen = String::new();
    while !seen.ends_with(end) {
        let byte = peer.read(1).await;
        assert!(!byte.is_empty(), "closed behind {seen:?}");
        seen.push_str(&String::from_utf8_lossy(&byte));
    }
    seen.truncate(seen.len() - end.len());
    seen
}

/// Reads a chunked body. Returns its payload, and its trailers as lines.
async fn chunks(peer: &mut Peer) -> (String, String) {
    let mut payload = String::new();
    loop {
        let size = until(peer, "\r\n").await;
        match usize::from_str_radix(&size, 16).expect("a size without an extension") {
            0 => break,
            size => payload.push_str(&String::from_utf8_lossy(&peer.read(size).await)),
        }
        assert_eq!(until(peer, "\r\n").await, "");
    }
    let mut trailers = String::new();
    loop {
        match until(peer, "\r\n").await {
            line if line.is_empty() => return (payload, trailers),
            line => trailers.push_str(&(line + "\r\n")),
        }
    }
}

/// A body that was inspected or filtered may have other chunks, but the same payload, trailers and end.
#[test]
fn rechunked_bodies_keep_their_payload_and_trailers() {
    for lines in [
        "option http-buffer-request",
        "http-request wait-for-body time 1s\n http-response wait-for-body time 1s",
        "http-request set-var(txn.b) req.body\n http-response set-header x-b %[res.body]",
        "filter bwlim-in i default-limit 1g default-period 1s\n filter bwlim-out o default-limit 1g default-period 1s",
    ] {
        run(plain(lines), |world| async move {
            let (mut client, mut server) = (world.client(), None);
            for cut in 1..REQUEST.len().max(ANSWER.len()) {
                send_cut(&mut client, REQUEST.as_bytes(), &[cut.min(REQUEST.len())]).await;
                if server.is_none() {
                    server = Some(world.accept("s1").await);
                }
                let server = server.as_mut().expect("accepted");
                assert!(server.head().await.starts_with("POST /a "));
                assert_eq!(chunks(server).await, ("hello!".to_owned(), "X-T: 1\r\n".to_owned()), "{cut}");
                send_cut(server, ANSWER.as_bytes(), &[cut.min(ANSWER.len())]).await;
                assert!(client.head().await.starts_with("HTTP/1.1 100 "));
                assert!(client.head().await.starts_with("HTTP/1.1 200 "));
                let want = ("abc0123456789".to_owned(), "x-sum: 9\r\n".to_owned());
                assert_eq!(chunks(&mut client).await, want, "{cut}");
            }
        });
    }
}

/// The end of a body without payload is also sent, however the body is framed.
#[test]
fn an_empty_chunked_body_is_forwarded_with_its_last_chunk() {
    for lines in ["", "option http-buffer-request", "http-response wait-for-body time 1s", "filter trace"] {
        run(plain(lines), move |world| async move {
            let mut client = world.client();
            client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").await;
            let mut server = world.accept("s1").await;
            for _ in 0..2 {
                server.head().await;
                assert_eq!(chunks(&mut server).await, (String::new(), String::new()), "{lines}");
                server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").await;
                client.head().await;
                assert_eq!(chunks(&mut client).await, (String::new(), String::new()), "{lines}");
                client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
                client.send("0\r\n\r\n").await;
            }
        });
    }
}

/// More of the next request than a buffer holds may arrive with a chunked body. Rules can still edit that request.
#[test]
fn rules_can_edit_a_request_pipelined_behind_a_chunked_body() {
    run(plain("http-request set-header x-edited yes"), |world| async move {
        let mut client = world.client();
        let body = "x".repeat(40_000);
        let first = format!(
            "POST /1 HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n9c40\r\n{body}\r\n0\r\n\r\n"
        );
        let second = format!("POST /2 HTTP/1.1\r\nhost: x\r\ncontent-length: 40000\r\n\r\n{body}");
        client.send(first + &second).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        assert_eq!(chunks(&mut server).await.0.len(), body.len());
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert!(server.head().await.ends_with("x-edited: yes\r\n\r\n"));
        assert_eq!(server.read(body.len()).await, body.as_bytes());
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        for _ in 0..2 {
            client.expect("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
}

#[test]
fn forwards_edited_messages_split_at_every_byte() {
    let text = plain(
        "http-request set-header x-one two\n http-response set-header x-three four\n http-response del-header x-a",
    );
    run(text, |world| async move {
        let (request, answer) = (
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 4\r\n\r\ndefg",
        );
        let mut client = world.client();
        let mut server = None;
        for cut in 1..request.len().max(answer.len()) {
            send_cut(&mut client, request.as_bytes(), &[cut.min(request.len())]).await;
            if server.is_none() {
                server = Some(world.accept("s1").await);
            }
            let server = server.as_mut().expect("accepted");
            server.expect("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nx-one: two\r\n\r\nabc").await;
            send_cut(server, answer.as_bytes(), &[cut.min(answer.len())]).await;
            client.expect("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx-three: four\r\n\r\ndefg").await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn forwards_pipelined_requests_split_at_random_bytes(
        cuts in proptest::collection::btree_set(1..3 * REQUEST.len(), 0..12),
        answer_cuts in proptest::collection::btree_set(1..ANSWER.len(), 0..6),
    ) {
        let cuts: Vec<_> = cuts.into_iter().collect();
        let answer_cuts: Vec<_> = answer_cuts.into_iter().collect();
        run(plain(""), move |world| async move {
            let mut client = world.client();
            send_cut(&mut client, REQUEST.repeat(3).as_bytes(), &cuts).await;
            let mut server = world.accept("s1").await;
            for _ in 0..3 {
                server.expect(passed(REQUEST)).await;
                send_cut(&mut server, ANSWER.as_bytes(), &answer_cuts).await;
                client.expect(passed(ANSWER)).await;
            }
        });
    }
}

// Backpressure.

/// Bytes with values derived from their positions.
fn body(length: usize) -> Vec<u8> {
    (0..length as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Sends `bytes` through `from`, which never waits, while `to` reads slowly. Returns the maximum number of buffers that
/// the worker used meanwhile.
async fn push(from: &mut Peer, to: &mut Peer, bytes: &[u8]) -> usize {
    let (mut sent, mut got) = (0, Vec::with_capacity(bytes.len()));
    let mut most = 0;
    while got.len() < bytes.len() {
        sent += from.send_some(&bytes[sent..]);
        // Nothing is read for a while, so that the proxy's buffers fill up.
        for _ in 0..8 {
            yield_now().await;
        }
        most = most.max(weir_containers::BufferPool::statistics().used);
        got.extend(to.read_now(200_000).await);
    }
    assert!(got == bytes, "the bytes are the same");
    most
}

#[test]
fn a_slow_client_limits_reading_from_the_server() {
    run(plain("timeout client 1h\n timeout server 1h"), |world| async move {
        let body = body(16_000_000);
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len())).await;
        client.head().await;
        let most = push(&mut server, &mut client, &body).await;
        // One buffer of the proxy, and one of each peer on the same worker.
        assert!(most <= 3, "{most} buffers");
        assert!(world.log().await.starts_with("front/s1 0/0/0/0 200 160000"));
    });
}

#[test]
fn a_slow_server_limits_reading_from_the_client() {
    run(plain("timeout client 1h\n timeout server 1h"), |world| async move {
        let body = body(16_000_000);
        let mut client = world.client();
        client.send(format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len())).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        let most = push(&mut client, &mut server, &body).await;
        assert!(most <= 3, "{most} buffers");
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    });
}

/// The payload of a complete chunked body.
fn decoded(mut framed: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    loop {
        let end = framed.windows(2).position(|pair| pair == b"\r\n").expect("the end of a line");
        let size =
            usize::from_str_radix(std::str::from_utf8(&framed[..end]).expect("text"), 16).expect("a size");
        let (chunk, rest) = framed[end + 2..].split_at(size);
        payload.extend_from_slice(chunk);
        framed = rest.strip_prefix(b"\r\n").expect("the end of a chunk");
        if size == 0 {
            assert!(framed.is_empty());
            return payload;
        }
    }
}

/// The sink accepts the proxy's own chunks in any pieces, so their framing may be split too.
#[test]
fn a_slow_client_receives_a_valid_rechunked_body() {
    let lines = "timeout client 1h\n timeout server 1h\n http-response wait-for-body time 1s at-least 1";
    run(plain(lines), |world| async move {
        let body = body(8_000_000);
        let mut framed = Vec::new();
        let mut rest = &body[..];
        for size in (1..).map(|number: usize| 1 + number * 7919 % 70_000) {
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            framed.extend_from_slice(chunk);
            framed.extend_from_slice(b"\r\n");
            if chunk.is_empty() {
                break;
            }
            rest = after;
        }
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let (mut sent, mut got, mut pieces) = (0, Vec::new(), 0);
        while !got.ends_with(b"\r\n0\r\n\r\n") && pieces < 2000 {
            sent += server.send_some(&framed[sent..]);
            for _ in 0..8 {
                yield_now().await;
            }
            got.extend(client.read_now(100_000 + pieces % 5 * 17_777).await);
            pieces += 1;
        }
        let head = got.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        assert!(decoded(&got[head..]) == body, "the payload is the same");
        assert!(pieces > 30, "{pieces}");
    });
}

#[test]
fn forwards_both_directions_at_once_in_tcp_mode() {
    for option in ["", "option splice-auto"] {
        run(plain_tcp(&format!("timeout client 1h\n timeout server 1h\n {option}")), |world| async move {
            let (up, down) = (body(1_500_000), body(2_000_000));
            let mut client = world.client();
            let mut server = world.accept("s1").await;
            let (mut sent_up, mut sent_down) = (0, 0);
            let (mut got_up, mut got_down) = (Vec::new(), Vec::new());
            while got_up.len() < up.len() || got_down.len() < down.len() {
                sent_up += client.send_some(&up[sent_up..]);
                sent_down += server.send_some(&down[sent_down..]);
                yield_now().await;
                got_up.extend(server.read_now(20_000).await);
                got_down.extend(client.read_now(50_000).await);
            }
            assert!(got_up == up && got_down == down);
            client.finish();
            server.finish();
            client.closed().await;
            assert!(world.log().await.contains(" 2000000 -- "));
            world.check_idle().await;
        });
    }
}

/// A large interim response.
fn interim() -> String {
    format!("HTTP/1.1 103 Early Hints\r\nlink: <{}>\r\n\r\n", "/style.css".repeat(125))
}
/// Endless interim responses, to a client that gets them and to an HTTP/1.0 client that does not. Number and size are limited.
/// Beyond the limit, the client gets an error and the rest is not read.
#[test]
fn number_and_size_of_interim_responses_are_limited() {
    let small = "HTTP/1.1 102 Processing\r\n\r\n".to_owned();
    for (interim, version) in [(small.clone(), "1.0"), (small, "1.1"), (interim(), "1.0"), (interim(), "1.1")]
    {
        run(plain("timeout client 1m\n timeout server 1m"), move |world| async move {
            let mut client = world.client();
            client.send(&format!("GET / HTTP/{version}\r\n\r\n")).await;
            let mut server = world.accept("s1").await;
            let mut sent = 0;
            while let Some(count) = server.try_some(interim.as_bytes()) {
                sent += count;
                assert!(sent < 8 << 20, "no end of it");
                let _ = client.read_now(1 << 20).await;
                yield_now().await;
            }
            let line = world.log().await;
            assert!(line.contains(" 502 ") && line.contains(" PH-- "), "{line}");
        });
    }
}

/// `timeout server` limits the wait for the final response, regardless of interim responses.
#[test]
fn interim_responses_do_not_restart_timeout_server() {
    run(plain("timeout client 1m\n timeout server 400ms"), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        for _ in 0..40 {
            if server.try_some(b"HTTP/1.1 102 Processing\r\n\r\n").is_none() {
                break;
            }
            weir_sched::sleep_until(weir_sched::now().after(50)).await;
        }
        let line = world.log().await;
        assert!(line.contains(" 504 ") && line.contains(" sH-- "), "{line}");
    });
}
