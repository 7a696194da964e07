//! Abnormal termination: the bytes on each side, the termination code, the timers, the counters.

mod support;

use support::{HTTP, TCP, plain, run};
use weir_backend::{BackendCounter as B, FrontendCounter as F};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n";

#[track_caller]
fn check_reply(reply: &str, status: &str) {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{reply}");
}

// Client aborts.

#[test]
fn answers_400_to_a_client_that_closes_silently() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.finish();
        check_reply(&client.rest().await, "400 Bad request");
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 400 0 CR-- 0 0/0");
        assert_eq!([F::BadRequests, F::Requests].map(|c| world.frontend("front", c)), [1, 1]);
        world.check_idle().await;
    });
}

#[test]
fn ignores_silent_clients_with_dontlognull_or_ignore_probes() {
    for (option, bad) in [("option dontlognull", 1), ("option http-ignore-probes", 0)] {
        run(plain(option), move |world| async move {
            let mut client = world.client();
            client.finish();
            // One case lacks the log line, the other the response.
            assert_eq!(client.rest().await.is_empty(), bad == 0);
            world.check_idle().await;
            assert!(world.is_quiet());
            let counted = [F::BadRequests, F::Requests, F::Http4xx];
            assert_eq!(counted.map(|counter| world.frontend("front", counter)), [bad; 3]);
        });
    }
}

#[test]
fn logs_a_client_that_resets_within_its_request_head() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("GET / HT").await;
        client.abort();
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 400 0 CR-- 0 0/0");
        world.check_idle().await;
    });
}

#[test]
fn answers_400_to_a_client_that_closes_within_its_request_head() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("GET / HT").await;
        client.finish();
        check_reply(&client.rest().await, "400 Bad request");
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 400 0 CR-- 0 0/0");
    });
}

#[test]
fn does_not_log_a_client_that_closes_between_requests() {
    run(plain(""), |world| async move {
        support::answer_always(world.origin("s1"), OK.as_bytes());
        let mut client = world.client();
        client.send(GET).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 0 0/0");
        drop(client);
        world.check_idle().await;
        assert!(world.is_quiet());
        assert_eq!([F::BadRequests, F::Requests].map(|c| world.frontend("front", c)), [0, 1]);
    });
}

#[test]
fn with_abortonclose_a_client_fin_closes_the_server_connection() {
    run(plain("option abortonclose"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        client.finish();
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 400 206 CH-- 0 0/0");
        check_reply(&client.rest().await, "400 Bad request");
        server.closed().await;
        assert_eq!(world.backend("front", B::ClientAborts), 1);
        world.check_idle().await;
    });
}

/// `option abortonclose` is on by default in HTTP mode, and off in TCP mode.
#[test]
fn abortonclose_treats_a_half_close_as_an_abort() {
    for (option, leaves) in [("", true), ("option abortonclose", true), ("no option abortonclose", false)] {
        run(plain(option), move |world| async move {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            client.finish();
            if leaves {
                server.closed().await;
                check_reply(&client.rest().await, "400 Bad request");
            } else {
                server.send(OK).await;
                client.expect(OK).await;
            }
        });
    }
    for (option, leaves) in [("", false), ("option abortonclose", true), ("no option abortonclose", false)] {
        let text = format!("{TCP}listen front\n bind 127.0.0.1:1\n {option}\n server s1 {{stuck}}\n");
        run(text, move |world| async move {
            let began = weir_sched::now();
            let mut client = world.client();
            client.send("abc").await;
            client.finish();
            client.closed().await;
            let waited = weir_sched::now().since(began) > 0;
            assert_eq!(waited, !leaves, "{option}");
        });
    }
}

#[test]
fn a_client_reset_before_the_response_closes_the_server_connection() {
    run(plain("no option abortonclose"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        client.abort();
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 400 206 CH-- 0 0/0");
        server.closed().await;
        world.check_idle().await;
    });
}

#[test]
fn a_client_fin_within_the_request_body_closes_the_server_connection() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(format!("{POST}abc")).await;
        let mut server = world.accept("s1").await;
        server.expect(format!("{POST}abc")).await;
        client.finish();
        check_reply(&client.head().await, "400 Bad request");
        server.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 400 206 CH-- 0 0/0");
        assert_eq!(world.backend("front", B::ClientAborts), 1);
        world.check_idle().await;
    });
}

#[test]
fn a_client_reset_within_the_response_closes_the_server_connection() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc").await;
        client.abort();
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 54 CD-- 0 0/0");
        server.closed().await;
        assert_eq!(world.backend("front", B::ClientAborts), 1);
        world.check_idle().await;
    });
}

#[test]
fn with_abortonclose_a_closed_client_leaves_the_queue() {
    run(limited("option abortonclose"), |world| async move {
        let mut first = world.client();
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        let mut second = world.client();
        second.send(GET).await;
        world.queued(1).await;
        second.finish();
        assert_eq!(world.log().await, "front/<NOSRV> 0/0/-1/-1 -1 0 CQ-- 0 0/1");
        second.closed().await;
        server.send(OK).await;
        first.expect(OK).await;
    });
}

/// One server that takes one request at a time.
fn limited(lines: &str) -> String {
    format!("{HTTP}listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{s1}} maxconn 1\n")
}

#[test]
fn with_abortonclose_a_closed_client_ends_the_connect() {
    run(stuck("option abortonclose"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        client.finish();
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 -1 0 CC-- 0 0/0");
        client.closed().await;
        world.check_idle().await;
    });
}

#[test]
fn with_abortonclose_a_closed_client_ends_the_retries() {
    let text =
        format!("{HTTP}listen front\n bind 127.0.0.1:1\n option abortonclose\n server s1 {{closed}}\n");
    run(text, |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        weir_sched::sleep_until(weir_sched::now().after(300)).await;
        client.finish();
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 -1 0 CC-- 1 0/0");
        client.closed().await;
        world.check_idle().await;
    });
}

fn stuck(lines: &str) -> String {
    format!("{HTTP}listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{stuck}}\n")
}

// Server aborts.

#[test]
fn answers_503_when_the_server_refuses_connections() {
    let text = format!("{HTTP}listen front\n bind 127.0.0.1:1\n retries 1\n server s1 {{closed}}\n");
    run(text, |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        check_reply(&client.head().await, "503 Service Unavailable");
        // The turn-around pause counts as connecting.
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 503 217 SC-- 1 0/0");
        let counted = [B::FailedConnections, B::Retries, B::Connects, B::Http5xx, B::ServerAborts];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 1, 2, 1, 0]);
        drop(client);
        world.check_idle().await;
    });
}

#[test]
fn answers_502_when_the_server_closes_before_the_response() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        drop(server);
        check_reply(&client.head().await, "502 Bad Gateway");
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 502 209 SH-- 0 0/0");
        let counted = [B::FailedResponses, B::ServerAborts, B::FailedConnections];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 0, 0]);
    });
}

#[test]
fn answers_502_when_the_server_closes_within_its_response_head() {
    for reset in [false, true] {
        run(plain(""), move |world| async move {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            server.send("HTTP/1.1 200 OK\r\ncont").await;
            if reset {
                server.abort()
            } else {
                drop(server)
            }
            check_reply(&client.head().await, "502 Bad Gateway");
            // A partial head is a junk response (manual, "retry-on").
            assert_eq!(world.log().await, "front/s1 0/0/0/-1 502 209 PH-- 0 0/0");
        });
    }
}

#[test]
fn a_server_close_within_the_response_body_closes_the_client_connection() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
    ] {
        for reset in [false, true] {
            run(plain(""), move |world| async move {
                let mut client = world.client();
                client.send(GET).await;
                let mut server = world.accept("s1").await;
                server.expect(GET).await;
                server.send(answer).await;
                client.expect(answer).await;
                if reset {
                    server.abort()
                } else {
                    drop(server)
                }
                client.closed().await;
                // With one field, the log counts eleven bytes more than its head has, then the payload.
                let head = answer.find("\r\n\r\n").expect("a head") + 4;
                let length = head + 11 + "abc".len();
                assert_eq!(world.log().await, format!("front/s1 0/0/0/0 200 {length} SD-- 0 0/0"));
                let counted = [B::FailedResponses, B::ServerAborts];
                assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 1]);
                world.check_idle().await;
            });
        }
    }
}

#[test]
fn a_reset_truncates_a_response_without_length() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send("HTTP/1.1 200 OK\r\n\r\nabc").await;
        client.expect("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabc").await;
        server.abort();
        client.closed().await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 37 SD-- 0 0/0");
    });
}

#[test]
fn answers_502_when_the_server_resets_during_the_request() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(POST).await;
        let mut server = world.accept("s1").await;
        server.expect(POST).await;
        server.abort();
        check_reply(&client.head().await, "502 Bad Gateway");
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 502 209 SH-- 0 0/0");
        client.finish();
        world.check_idle().await;
    });
}

// Timeouts.

#[test]
fn answers_408_to_a_client_that_never_sends() {
    run(plain("timeout http-request 3s"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        check_reply(&client.rest().await, "408 Request Time-out");
        assert_eq!(weir_sched::now().since(began), 3_000);
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 408 0 cR-- 0 0/0");
        assert_eq!([F::BadRequests, F::Requests].map(|c| world.frontend("front", c)), [1, 1]);
        world.check_idle().await;
    });
}

#[test]
fn answers_408_to_a_client_with_an_incomplete_request_head() {
    run(plain("timeout http-request 3s"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\n").await;
            weir_sched::sleep_until(weir_sched::now().after(1_000)).await;
        }
        check_reply(&client.rest().await, "408 Request Time-out");
        assert_eq!(weir_sched::now().since(began), 3_000);
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 408 0 cR-- 0 0/0");
    });
}

#[test]
fn restarts_the_request_timeout_for_a_second_request() {
    run(plain("timeout http-request 3s\n timeout http-keep-alive 8s"), |world| async move {
        support::answer_always(world.origin("s1"), OK.as_bytes());
        let mut client = world.client();
        client.send(GET).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 0 0/0");
        weir_sched::sleep_until(weir_sched::now().after(7_000)).await;
        let began = weir_sched::now();
        client.send("G").await;
        check_reply(&client.rest().await, "408 Request Time-out");
        assert_eq!(weir_sched::now().since(began), 3_000);
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 408 0 cR-- 0 0/0");
    });
}

#[test]
fn closes_an_idle_client_without_response_or_log() {
    run(plain("timeout http-keep-alive 2s"), |world| async move {
        support::answer_always(world.origin("s1"), OK.as_bytes());
        let mut client = world.client();
        client.send(GET).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 0 0/0");
        let began = weir_sched::now();
        client.closed().await;
        assert_eq!(weir_sched::now().since(began), 2_000);
        world.check_idle().await;
        assert!(world.is_quiet());
    });
}

#[test]
fn answers_408_when_a_body_does_not_arrive() {
    run(plain("timeout client 3s"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(format!("{POST}abc")).await;
        let mut server = world.accept("s1").await;
        server.expect(format!("{POST}abc")).await;
        check_reply(&client.head().await, "408 Request Time-out");
        assert_eq!(weir_sched::now().since(began), 3_000);
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 408 232 cH-- 0 0/0");
        server.closed().await;
        client.finish();
        world.check_idle().await;
    });
}

#[test]
fn answers_504_when_the_server_never_responds() {
    run(plain("timeout server 2s"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        check_reply(&client.head().await, "504 Gateway Time-out");
        assert_eq!(weir_sched::now().since(began), 2_000);
        assert_eq!(world.log().await, "front/s1 0/0/0/-1 504 198 sH-- 0 0/0");
        assert_eq!(world.backend("front", B::FailedResponses), 1);
        server.closed().await;
    });
}

#[test]
fn timeout_server_within_the_response_body_closes_the_client_connection() {
    run(plain("timeout server 2s"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc").await;
        let began = weir_sched::now();
        client.closed().await;
        assert_eq!(weir_sched::now().since(began), 2_000);
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 53 sD-- 0 0/0");
    });
}

#[test]
fn a_server_that_keeps_sending_does_not_time_out() {
    run(plain("timeout server 2s\n timeout client 2s"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        weir_sched::sleep_until(weir_sched::now().after(1_500)).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await;
        for _ in 0..4 {
            weir_sched::sleep_until(weir_sched::now().after(1_500)).await;
            server.send("a").await;
        }
        client.expect("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\naaaa").await;
        assert_eq!(world.log().await, "front/s1 0/0/0/1500 200 53 ---- 0 0/0");
    });
}

#[test]
fn answers_503_when_connecting_times_out() {
    run(stuck("retries 1"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(GET).await;
        check_reply(&client.head().await, "503 Service Unavailable");
        assert_eq!(weir_sched::now().since(began), 8_000);
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 503 217 sC-- 1 0/0");
        let counted = [B::FailedConnections, B::Retries, B::ServerAborts];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 1, 0]);
        drop(client);
        world.check_idle().await;
    });
}

#[test]
fn answers_503_when_the_queue_times_out() {
    run(limited("timeout queue 3s"), |world| async move {
        let mut first = world.client();
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        let mut second = world.client();
        second.send(GET).await;
        check_reply(&second.head().await, "503 Service Unavailable");
        assert_eq!(world.log().await, "front/<NOSRV> 0/3000/-1/-1 503 217 sQ-- 0 0/1");
        assert_eq!(world.backend("front", B::FailedConnections), 1);
        server.send(OK).await;
        first.expect(OK).await;
    });
}

/// Checks two keep-alive clients during a soft stop: one with a request in progress, and an idle one.
#[track_caller]
fn check_leaving(spread: &str, closes: bool) {
    let text = format!("global\n{spread}\n{}", plain("timeout http-keep-alive 9s"));
    run(text, move |world| async move {
        let (mut busy, mut quiet) = (world.client(), world.client());
        quiet.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send(OK).await;
        quiet.expect(OK).await;
        busy.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        let began = weir_sched::now();
        world.instance.closing.begin(began.as_ms());
        world.instance.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
        weir_stream::worker::sessions().iter().for_each(|session| weir_sched::wake(session.task.get()));
        quiet.closed().await;
        assert_eq!(weir_sched::now().since(began), if closes { 0 } else { 9_000 });
        server.send(OK).await;
        let head = busy.head().await.to_ascii_lowercase();
        assert_eq!(head.contains("connection: close"), closes, "{head}");
    });
}

#[test]
fn a_soft_stop_closes_idle_clients_by_close_spread_time() {
    check_leaving("", true);
    check_leaving("close-spread-time infinite", false);
    check_leaving("close-spread-time 0", true);
}

#[test]
fn timeout_tunnel_closes_an_idle_tunnel() {
    run(plain("timeout tunnel 20s"), |world| async move {
        let mut client = world.client();
        client.send("CONNECT x:80 HTTP/1.1\r\nhost: x:80\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        assert!(server.head().await.starts_with("CONNECT"));
        server.send("HTTP/1.1 200 OK\r\n\r\n").await;
        client.expect("HTTP/1.1 200 OK\r\n\r\n").await;
        for _ in 0..3 {
            weir_sched::sleep_until(weir_sched::now().after(15_000)).await;
            server.send("x").await;
            client.expect("x").await;
        }
        let began = weir_sched::now();
        client.closed().await;
        assert_eq!(weir_sched::now().since(began), 20_000);
        server.closed().await;
        assert!(world.log().await.starts_with("front/s1 0/0/0/0 200 37 cD--"));
        world.check_idle().await;
    });
}

#[test]
fn log_timers_measure_each_phase_of_a_stream() {
    let timers = "log-format %Th/%Ti/%TR/%Tq/%Tw/%Tc/%Tr/%Td/%Ta/%Tt/%Tu";
    run(plain(timers), |world| async move {
        let pause = |ms| weir_sched::sleep_until(weir_sched::now().after(ms));
        let mut client = world.client();
        client.connected().await;
        pause(300).await;
        client.send("GET / HT").await;
        pause(200).await;
        client.send("TP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        pause(100).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
        pause(50).await;
        server.send("ok").await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "0/300/200/500/0/0/100/50/350/650/350");
        pause(400).await;
        client.send(GET).await;
        server.expect(GET).await;
        pause(100).await;
        server.send(OK).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "0/400/0/400/0/0/100/0/100/500/100");
    });
}

#[test]
fn times_out_a_client_that_does_not_read() {
    run(plain("timeout client 3s\n timeout server 1h"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 100000000\r\n\r\n").await;
        fill(&mut server).await;
        server.closed().await;
        assert!(world.log().await.contains(" cD-- "));
        assert_eq!(world.backend("front", B::ClientAborts), 1);
        world.check_idle().await;
    });
}

/// Sends until the connection accepts no more bytes.
async fn fill(peer: &mut support::Peer) {
    let mut quiet = 0;
    while quiet < 10 {
        quiet = if peer.send_some(&[0; 65_536]) == 0 { quiet + 1 } else { 0 };
        weir_sched::yield_now().await;
    }
}

#[test]
fn answers_504_when_the_server_does_not_read() {
    run(plain("timeout client 1h\n timeout server 3s"), |world| async move {
        let mut client = world.client();
        client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n").await;
        let server = world.accept("s1").await;
        fill(&mut client).await;
        check_reply(&client.head().await, "504 Gateway Time-out");
        assert!(world.log().await.starts_with("front/s1 0/0/0/-1 504 "));
        drop((client, server));
        world.check_idle().await;
    });
}

// Missing backends and servers.

#[test]
fn answers_503_without_a_backend() {
    run(format!("{HTTP}frontend front\n bind 127.0.0.1:1\n"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        check_reply(&client.head().await, "503 Service Unavailable");
        assert_eq!(world.log().await, "front/<NOSRV> -1/-1/-1/-1 503 217 SC-- 0 0/0");
    });
}

#[test]
fn answers_503_without_servers() {
    run(format!("{HTTP}listen front\n bind 127.0.0.1:1\n"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        check_reply(&client.head().await, "503 Service Unavailable");
        assert_eq!(world.log().await, "front/<NOSRV> 0/-1/-1/-1 503 217 SC-- 0 0/0");
        assert_eq!(world.backend("front", B::FailedConnections), 1);
    });
}
