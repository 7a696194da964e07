//! TCP mode: bytes in both directions, half-closes, aborts, timeouts.

mod support;

use support::{HTTP, TCP, plain_tcp, run};
use weir_backend::{BackendCounter as B, FrontendCounter as F};

#[test]
fn tcp_mode_forwards_bytes_and_half_closes_in_both_directions() {
    run(plain_tcp(""), |world| async move {
        let mut client = world.client();
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.expect("abc").await;
        client.finish();
        server.closed().await;
        server.send("defg").await;
        client.expect("defg").await;
        server.finish();
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0 4 -- 0 0/0");
        assert_eq!([F::BytesIn, F::BytesOut].map(|c| world.frontend("front", c)), [3, 4]);
        assert_eq!([B::BytesIn, B::BytesOut].map(|c| world.backend("front", c)), [3, 4]);
        world.check_idle().await;
    });
}

#[test]
fn a_server_fin_leaves_the_client_direction_open() {
    run(plain_tcp(""), |world| async move {
        let mut client = world.client();
        let mut server = world.accept("s1").await;
        server.send("hello").await;
        server.finish();
        client.expect("hello").await;
        client.closed().await;
        client.send("thanks").await;
        server.expect("thanks").await;
        drop(client);
        server.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0 5 -- 0 0/0");
    });
}

#[test]
fn resets_are_propagated_and_logged_with_their_side() {
    run(plain_tcp(""), |world| async move {
        let mut client = world.client();
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.expect("abc").await;
        client.abort();
        server.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0 0 CD 0 0/0");
        let mut client = world.client();
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.expect("abc").await;
        server.abort();
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0 0 SD 0 0/0");
        let counted = [B::ClientAborts, B::ServerAborts, B::FailedResponses];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 1, 1]);
        world.check_idle().await;
    });
}

/// Checks a connection without traffic.
#[track_caller]
fn check_idle(timeouts: &str, after_ms: u64, letters: &'static str) {
    run(plain_tcp(timeouts), move |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        let mut server = world.accept("s1").await;
        client.closed().await;
        server.closed().await;
        assert_eq!(weir_sched::now().since(began), after_ms);
        assert_eq!(world.log().await, format!("front/s1 0/0/{after_ms} 0 {letters} 0 0/0"));
        world.check_idle().await;
    });
}

#[test]
fn idle_tcp_connections_end_at_their_timeout() {
    check_idle("timeout client 3s\n timeout server 3s", 3_000, "cD");
    check_idle("timeout client 3s\n timeout server 5s", 3_000, "cD");
    check_idle("timeout client 5s\n timeout server 3s", 3_000, "sD");
    check_idle("timeout client 5s\n timeout server 5s\n timeout tunnel 2s", 2_000, "cD");
    check_idle("timeout client 1s\n timeout server 1s\n timeout tunnel 7s", 7_000, "cD");
}

/// Checks a connection after the client's half-close, while the server is silent.
#[track_caller]
fn check_half_closed(timeouts: &str, after_ms: u64, letters: &'static str) {
    run(plain_tcp(timeouts), move |world| async move {
        let mut client = world.client();
        client.send("abc").await;
        let mut server = world.accept("s1").await;
        server.expect("abc").await;
        client.finish();
        let began = weir_sched::now();
        server.closed().await;
        client.closed().await;
        assert_eq!(weir_sched::now().since(began), after_ms, "{letters}");
        assert_eq!(world.log().await, format!("front/s1 0/0/{after_ms} 0 {letters} 0 0/0"));
    });
}

#[test]
fn half_closed_tcp_connections_end_at_timeout_server_or_server_fin() {
    check_half_closed("timeout server 3s", 3_000, "sD");
    check_half_closed("timeout server 3s\n timeout client-fin 1s", 3_000, "sD");
    check_half_closed("timeout server 3s\n timeout server-fin 1s", 1_000, "sD");
    check_half_closed("timeout tunnel 1h\n timeout server-fin 1s", 1_000, "sD");
}

#[test]
fn bytes_in_one_direction_restart_both_timeouts() {
    for (option, ends_after) in [("", 8_000), ("option independent-streams", 3_000)] {
        let text = plain_tcp(&format!("timeout client 3s\n timeout server 1h\n {option}"));
        run(text, move |world| async move {
            let began = weir_sched::now();
            let mut client = world.client();
            let mut server = world.accept("s1").await;
            for _ in 0..5 {
                weir_sched::sleep_until(weir_sched::now().after(1_000)).await;
                if !server.try_send(b"x").await {
                    break;
                }
            }
            let came = client.rest().await;
            assert_eq!(weir_sched::now().since(began).max(ends_after), weir_sched::now().since(began));
            assert!(world.log().await.contains(&format!("front/s1 0/0/{ends_after} ")), "{came}");
        });
    }
}

#[test]
fn closes_the_client_connection_when_no_server_is_reachable() {
    run(
        format!("{TCP}listen front\n bind 127.0.0.1:1\n retries 0\n server s1 {{closed}}\n"),
        |world| async move {
            let mut client = world.client();
            client.closed().await;
            assert_eq!(world.log().await, "front/s1 0/-1/0 0 SC 0 0/0");
            assert_eq!([B::FailedConnections, B::Connects].map(|c| world.backend("front", c)), [1, 1]);
            world.check_idle().await;
        },
    );
    run(format!("{TCP}listen front\n bind 127.0.0.1:1\n"), |world| async move {
        let mut client = world.client();
        client.closed().await;
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/0 0 SC 0 0/0");
        world.check_idle().await;
    });
}

#[test]
fn a_tcp_client_that_closes_or_times_out_leaves_the_queue() {
    let text =
        format!("{TCP}listen front\n bind 127.0.0.1:1\n timeout queue 3s\n server s1 {{s1}} maxconn 1\n");
    run(text, |world| async move {
        let first = world.client();
        let _server = world.accept("s1").await;
        let second = world.client();
        world.queued(1).await;
        drop(second);
        assert_eq!(world.log().await, "front/<NOSRV> 0/-1/0 0 CQ 0 0/1");
        let mut third = world.client();
        third.closed().await;
        assert_eq!(world.log().await, "front/<NOSRV> 3000/-1/3000 0 sQ 0 0/1");
        assert_eq!(world.backend("front", B::FailedConnections), 1);
        drop(first);
    });
}

#[test]
fn a_half_closed_tcp_client_with_data_waits_in_the_queue() {
    let text = format!("{TCP}listen front\n bind 127.0.0.1:1\n server s1 {{s1}} maxconn 1\n");
    run(text, |world| async move {
        let mut first = world.client();
        let mut server = world.accept("s1").await;
        let mut second = world.client();
        second.send("a question").await;
        second.finish();
        world.queued(1).await;
        first.finish();
        server.closed().await;
        drop(server);
        let mut server = world.accept("s1").await;
        server.expect("a question").await;
        server.closed().await;
        server.send("an answer").await;
        drop(server);
        second.expect("an answer").await;
        second.closed().await;
        drop(first);
        world.check_idle().await;
    });
}

#[test]
fn logs_null_connections_without_dontlognull() {
    for (option, logged) in [("", true), ("option dontlognull", false)] {
        run(plain_tcp(option), move |world| async move {
            let mut client = world.client();
            client.finish();
            let mut server = world.accept("s1").await;
            server.closed().await;
            drop(server);
            client.closed().await;
            world.check_idle().await;
            assert_eq!(!world.is_quiet(), logged);
        });
    }
}

#[test]
fn spliced_tcp_bytes_arrive_complete() {
    run(plain_tcp("option splice-auto"), |world| async move {
        let mut client = world.client();
        let mut server = world.accept("s1").await;
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 / 5) as u8).collect();
        let mut got = Vec::new();
        let mut sent = 0;
        while got.len() < bytes.len() {
            sent += server.send_some(&bytes[sent..]);
            weir_sched::yield_now().await;
            let part = client.read((bytes.len() - got.len()).min(100_000).min(sent - got.len())).await;
            if part.is_empty() && sent > got.len() {
                panic!("it ended after {} bytes: {}", got.len(), world.log().await);
            }
            got.extend(part);
        }
        assert!(got == bytes);
        server.finish();
        client.finish();
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0 3000000 -- 0 0/0");
        assert!(world.instance.process_counters[0].bytes_spliced.value() > 2_000_000);
        world.check_idle().await;
    });
}

#[test]
fn the_proxy_header_is_sent_before_any_client_bytes() {
    let text = format!("{TCP}listen front\n bind 127.0.0.1:1\n server s1 {{s1}} send-proxy\n");
    run(text, |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        let mut server = world.accept("s1").await;
        assert!(server.read(5).await == b"PROXY");
        server.send("220 hello\r\n").await;
        client.expect("220 hello\r\n").await;
        assert_eq!(weir_sched::now(), began);
    });
}

/// The manual, section 8.2.1: the default line "is emitted as soon as the connection is accepted", in TCP mode. The others were
/// observed with HAProxy 3.2: a line for each request on arrival, none without a request.
#[test]
fn the_default_log_line_is_written_at_accept_or_first_data() {
    let text = |begin: &str, options: &str| {
        let begin = begin.split(" log-format").next().unwrap_or_default();
        format!("{begin}\n{options}listen front\n bind 127.0.0.1:1\n server s1 {{s1}}\n")
    };
    run(text(TCP, ""), |world| async move {
        let mut client = world.client();
        let line = world.log().await;
        assert!(line.starts_with("Connect from 127.0.0.1:") && line.ends_with(" (front/TCP)"), "{line}");
        client.finish();
        world.accept("s1").await.finish();
        client.closed().await;
        world.check_idle().await;
        assert!(world.is_quiet());
    });
    // Here, whether a line is logged is decided only at the end.
    for options in [" option dontlognull\n", " option dontlog-normal\n"] {
        run(text(TCP, options), |world| async move {
            let mut client = world.client();
            let mut server = world.accept("s1").await;
            assert!(world.is_quiet());
            client.finish();
            server.closed().await;
            server.finish();
            client.closed().await;
            world.check_idle().await;
            assert!(world.is_quiet());
        });
    }
    run(text(HTTP, " monitor-uri /up\n"), |world| async move {
        let mut client = world.client();
        client.send("GET /up HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.head().await;
        assert!(world.is_quiet());
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let line = world.log().await;
        assert!(line.ends_with(" (front/HTTP)"), "{line}");
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        client.head().await;
        client.send("nonsense\r\n\r\n").await;
        client.rest().await;
        world.check_idle().await;
        assert!(world.is_quiet());
    });
}
