//! Servers: slots and queues, retries, reused connections, PROXY headers.

mod support;

use std::sync::Arc;

use support::{HTTP, Peer, World, plain, run};
use weir_backend::{BackendCounter as B, ServerCounter as S};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

fn listen(lines: &str) -> String {
    format!("{HTTP}listen front\n bind 127.0.0.1:1\n balance roundrobin\n{lines}\n")
}

async fn stream(client: &mut Peer, server: &mut Peer) {
    client.send(GET).await;
    server.expect(GET).await;
    server.send(OK).await;
    client.expect(OK).await;
}

// Slots.

#[test]
fn a_server_at_maxconn_serves_its_queue_in_order() {
    run(listen(" server s1 {s1} maxconn 1"), |world| async move {
        let mut clients = Vec::new();
        for number in 0..4 {
            let mut client = world.client();
            client.send(format!("GET /{number} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            world.queued(number).await;
            clients.push(client);
        }
        let mut server = world.accept("s1").await;
        for (number, client) in clients.iter_mut().enumerate() {
            // The connection is handed on with the slot, although each client's first request should have a
            // connection of its own (`http-reuse safe`).
            if number > 0 {
                server = world.accept("s1").await;
            }
            server.expect(format!("GET /{number} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
            server.send(OK).await;
            client.expect(OK).await;
            let ahead = if number == 0 { 0 } else { number };
            assert_eq!(world.log().await, format!("front/s1 0/0/0/0 200 51 ---- 0 0/{ahead}"));
        }
        drop(clients);
        world.check_idle().await;
        let backend = world.proxy("front").servers();
        assert_eq!((backend.queued_maximum(), backend.sessions_maximum()), (3, 4));
        assert_eq!(backend.servers()[0].served_maximum(), 1);
        // A request in the backend's queue counts for no server.
        assert_eq!((world.backend("front", B::Balanced), world.server("front", "s1", S::Balanced)), (1, 1));
        assert_eq!(world.server("front", "s1", S::Requests), 4);
    });
}

#[test]
fn counts_a_queued_request_as_balanced_to_its_server() {
    run(listen(" balance source\n server s1 {s1} maxconn 1"), |world| async move {
        let (mut first, mut second) = (world.client(), world.client());
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        second.send(GET).await;
        world.queued(1).await;
        assert_eq!((world.backend("front", B::Balanced), world.server("front", "s1", S::Balanced)), (2, 2));
        exchange_answer(&mut server, &mut first).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut second).await;
        assert_eq!(world.backend("front", B::Balanced), 2);
    });
}

#[test]
fn a_maxconn_slot_is_free_at_the_end_of_the_response() {
    run(listen(" server s1 {s1} maxconn 1"), |world| async move {
        let (mut first, mut second) = (world.client(), world.client());
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut first).await;
        // The first client stays connected, and holds no slot.
        second.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut second).await;
    });
}

async fn exchange_answer(server: &mut Peer, client: &mut Peer) {
    server.expect(GET).await;
    server.send(OK).await;
    client.expect(OK).await;
}

#[test]
fn a_queued_request_gets_the_next_free_server() {
    run(listen(" server s1 {s1} maxconn 1\n server s2 {s2} maxconn 1"), |world| async move {
        let mut clients: Vec<_> = (0..3).map(|_| world.client()).collect();
        for client in &mut clients {
            client.send(GET).await;
        }
        let (mut one, mut two) = (world.accept("s1").await, world.accept("s2").await);
        one.expect(GET).await;
        two.expect(GET).await;
        world.queued(1).await;
        two.send(OK).await;
        world.accept("s2").await.expect(GET).await;
        one.send(OK).await;
    });
}

// Retries.

#[test]
fn a_refused_connection_is_redispatched_to_the_next_server() {
    run(listen(" option redispatch 1\n server s1 {closed}\n server s2 {s2}"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s2").await;
        exchange_answer(&mut server, &mut client).await;
        assert_eq!(world.log().await, "front/s2 0/0/0/0 200 51 ---- +1 0/0");
        let counted = [B::Redispatches, B::Retries, B::Connects, B::Balanced, B::FailedConnections];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [1, 0, 2, 2, 0]);
        let of = |server, counter| world.server("front", server, counter);
        assert_eq!((of("s1", S::Redispatches), of("s1", S::Sessions), of("s2", S::Sessions)), (1, 1, 1));
        drop(client);
        world.check_idle().await;
    });
}

#[test]
fn a_server_that_cannot_be_avoided_is_retried() {
    let servers = " retries 2\n option redispatch 1\n server s1 {closed}\n server s2 {s2} maxconn 1";
    run(listen(servers), |world| async move {
        let mut first = world.client();
        first.send(GET).await;
        let mut server = world.accept("s2").await;
        server.expect(GET).await;
        // The only other server is full.
        let mut second = world.client();
        second.send(GET).await;
        assert!(second.head().await.starts_with("HTTP/1.1 503 "));
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 503 217 SC-- 2 0/0");
        let of = |server, counter| world.server("front", server, counter);
        assert_eq!([S::Retries, S::Redispatches, S::FailedConnections].map(|c| of("s1", c)), [2, 1, 1]);
        assert_eq!([S::Retries, S::Redispatches, S::FailedConnections].map(|c| of("s2", c)), [0, 0, 0]);
        // The first request was balanced to both servers, the second one to the first.
        assert_eq!(["s1", "s2"].map(|server| of(server, S::Balanced)), [2, 1]);
        assert_eq!([B::Retries, B::Redispatches, B::Balanced].map(|c| world.backend("front", c)), [2, 1, 3]);
    });
}

#[test]
fn a_refused_connection_is_retried_after_one_second() {
    run(listen(" retries 2\n server s1 {closed}"), |world| async move {
        let began = weir_sched::now();
        let mut client = world.client();
        client.send(GET).await;
        assert!(client.head().await.starts_with("HTTP/1.1 503 "));
        assert_eq!(weir_sched::now().since(began), 2_000);
        assert_eq!(world.log().await, "front/s1 0/0/-1/-1 503 217 SC-- 2 0/0");
        assert_eq!([S::Retries, S::Sessions, S::Requests].map(|c| world.server("front", "s1", c)), [2, 3, 0]);
    });
}

#[test]
fn retries_after_an_empty_response_with_retry_on() {
    run(plain("retry-on empty-response"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut first = world.accept("s1").await;
        first.expect(GET).await;
        drop(first);
        let mut second = world.accept("s1").await;
        exchange_answer(&mut second, &mut client).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 1 0/0");
        // Once for the missing answer, once for the connection.
        assert_eq!([B::Retries, B::FailedResponses].map(|c| world.backend("front", c)), [2, 0]);
        drop(client);
        world.check_idle().await;
    });
}

#[test]
fn a_body_is_resent_with_its_retried_request() {
    let text = plain("retry-on empty-response 503\n option http-buffer-request");
    run(text, |world| async move {
        let request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";
        let mut client = world.client();
        client.send(request).await;
        let mut first = world.accept("s1").await;
        first.expect(request).await;
        first.send("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").await;
        let mut second = world.accept("s1").await;
        second.expect(request).await;
        drop(second);
        let mut third = world.accept("s1").await;
        third.expect(request).await;
        third.send(OK).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 2 0/0");
        stream(&mut client, &mut third).await;
    });
}

#[test]
fn a_large_body_is_resent_with_its_retried_request() {
    let text = plain("retry-on empty-response\n option http-buffer-request");
    run(text, |world| async move {
        let body = "b".repeat(12_000);
        let request = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 12000\r\n\r\n{body}");
        let mut client = world.client();
        client.send(&request).await;
        let mut first = world.accept("s1").await;
        first.make_narrow();
        assert!(first.head().await.starts_with("POST "));
        drop(first);
        let mut second = world.accept("s1").await;
        second.expect(&request).await;
        second.send(OK).await;
        client.expect(OK).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 1 0/0");
    });
}

#[test]
fn the_last_status_is_forwarded_when_retries_are_exhausted() {
    run(plain("retry-on 503\n retries 1"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        for _ in 0..2 {
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            server.send("HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno").await;
        }
        client.expect("HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno").await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 503 51 ---- 1 0/0");
        let of = |counter| world.server("front", "s1", counter);
        assert_eq!([S::Http5xx, S::Requests, S::Retries, S::Balanced].map(of), [1, 1, 2, 1]);
    });
}

// Reused connections.

#[test]
fn an_idle_connection_closed_by_the_server_is_not_reused() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        drop(server);
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        assert_eq!([B::Connects, B::Reuses, B::Retries].map(|c| world.backend("front", c)), [2, 0, 0]);
    });
}

/// Even if the dead connection was reused before.
#[test]
fn a_closed_connection_does_not_displace_an_idle_one() {
    run(plain(""), |world| async move {
        let mut first = world.client();
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut first).await;
        stream(&mut first, &mut server).await;
        drop(server);
        let mut second = world.client();
        second.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut second).await;
        stream(&mut second, &mut server).await;
        assert_eq!([B::Connects, B::Reuses].map(|counter| world.backend("front", counter)), [2, 2]);
    });
}

#[test]
fn a_request_on_a_reused_connection_that_closes_is_retried() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        world.log().await;
        client.send(GET).await;
        server.expect(GET).await;
        drop(server);
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        assert_eq!(world.log().await, "front/s1 0/0/0/0 200 51 ---- 1 0/0");
        let counted = [B::Connects, B::Reuses, B::Retries, B::FailedResponses];
        assert_eq!(counted.map(|counter| world.backend("front", counter)), [2, 1, 1, 0]);
        drop(client);
        world.check_idle().await;
    });
}

#[test]
fn unsafe_or_unretryable_requests_are_sent_only_once() {
    check_sent_once("", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
    check_sent_once("", "DELETE / HTTP/1.1\r\nhost: x\r\n\r\n");
    check_sent_once("retries 0", GET);
    check_sent_once("retry-on none", GET);
}

#[track_caller]
fn check_sent_once(settings: &str, request: &'static str) {
    run(plain(settings), move |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        world.log().await;
        client.send(request).await;
        server.expect(request).await;
        drop(server);
        // The client gets no response either, because it may retry on a reused connection.
        client.closed().await;
        assert!(world.origin("s1").is_untouched());
        assert_eq!(world.backend("front", B::FailedResponses), 1);
    });
}

#[test]
fn excess_bytes_after_a_response_prevent_reuse_of_the_connection() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        server.send(format!("{OK}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison")).await;
        client.expect(OK).await;
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
    });
}

#[test]
fn bytes_received_on_an_idle_connection_prevent_its_reuse() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        server.send("HTTP/1.1 408 Bored\r\ncontent-length: 0\r\n\r\n").await;
        weir_sched::sleep_until(weir_sched::now().after(1)).await;
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
    });
}

/// Checks whether the second client's first request gets an idle connection after the first client made `before` requests.
#[track_caller]
fn check_reuse(mode: &str, before: usize, reused: bool) {
    run(plain(&format!("http-reuse {mode}")), move |world| async move {
        let mut first = world.client();
        first.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut first).await;
        for _ in 1..before {
            stream(&mut first, &mut server).await;
        }
        let mut second = world.client();
        second.send(GET).await;
        if !reused {
            server = world.accept("s1").await;
        }
        exchange_answer(&mut server, &mut second).await;
    });
}

#[test]
fn http_reuse_decides_which_connections_are_shared() {
    check_reuse("never", 2, false);
    check_reuse("safe", 2, false);
    check_reuse("aggressive", 1, false);
    check_reuse("aggressive", 2, true);
    check_reuse("always", 1, true);
}

#[test]
fn http_reuse_never_keeps_the_server_connection_for_its_client() {
    run(plain("http-reuse never"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        stream(&mut client, &mut server).await;
        let pools = Arc::clone(world.proxy("front").servers().servers()[0].pools());
        assert_eq!((pools.used(), pools.private(), pools.idle()), (1, 1, 0));
        drop(client);
        server.closed().await;
        world.check_idle().await;
    });
}

#[test]
fn pool_max_conn_and_pool_purge_delay_limit_idle_connections() {
    for (setting, kept) in [("pool-max-conn 1", 1), ("pool-max-conn 0", 0), ("pool-purge-delay 0", 0)] {
        run(listen(&format!(" server s1 {{s1}} {setting}")), move |world| async move {
            let mut clients: Vec<_> = (0..2).map(|_| world.client()).collect();
            for client in &mut clients {
                client.send(GET).await;
            }
            let mut servers = vec![world.accept("s1").await, world.accept("s1").await];
            for server in &mut servers {
                server.expect(GET).await;
                server.send(OK).await;
            }
            for client in &mut clients {
                client.expect(OK).await;
            }
            assert_eq!(world.proxy("front").servers().servers()[0].pools().idle(), kept, "{setting}");
        });
    }
    run(listen(" server s1 {s1} max-reuse 1"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        stream(&mut client, &mut server).await;
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
    });
}

#[test]
fn single_requests_leave_at_most_the_peak_number_of_idle_connections() {
    run(plain(""), |world| async move {
        let pools = Arc::clone(world.proxy("front").servers().servers()[0].pools());
        let mut kept: Option<Peer> = None;
        for _ in 0..5 {
            // A first request takes no idle connection (`http-reuse safe`).
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            exchange_answer(&mut server, &mut client).await;
            assert_eq!((pools.idle(), pools.used()), (1, 0));
            // The latest connection replaces the previous one. The client may retry.
            if let Some(mut before) = kept.replace(server) {
                before.closed().await;
            }
        }
    });
}

#[test]
fn reused_connections_stay_within_the_peak_number_of_connections() {
    run(plain(""), |world| async move {
        let pools = Arc::clone(world.proxy("front").servers().servers()[0].pools());
        let mut regular = world.client();
        regular.send(GET).await;
        let mut kept = world.accept("s1").await;
        exchange_answer(&mut kept, &mut regular).await;
        for round in 0..5 {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            exchange_answer(&mut server, &mut client).await;
            // The first round replaces a connection that was never reused. Later rounds reuse the new one, which stays.
            let (mut gone, stays) = if round == 0 { (kept, server) } else { (server, kept) };
            gone.closed().await;
            kept = stays;
            stream(&mut regular, &mut kept).await;
            assert_eq!((pools.idle(), pools.safe(), pools.used()), (1, 1, 0), "round {round}");
        }
    });
}

#[test]
fn closes_unneeded_idle_connections_gradually() {
    run(plain("http-reuse always\n timeout http-keep-alive 1s"), |world| async move {
        let mut clients: Vec<_> = (0..8).map(|_| world.client()).collect();
        let mut servers = Vec::new();
        for client in &mut clients {
            client.send(GET).await;
            servers.push(world.accept("s1").await);
        }
        for server in &mut servers {
            server.expect(GET).await;
            server.send(OK).await;
        }
        for client in &mut clients {
            client.expect(OK).await;
        }
        let pools = Arc::clone(world.proxy("front").servers().servers()[0].pools());
        assert_eq!((pools.idle(), pools.needed()), (8, 8));
        weir_sched::sleep_until(weir_sched::now().after(120_000)).await;
        assert_eq!((pools.idle(), pools.used()), (0, 0));
        for server in &mut servers {
            server.closed().await;
        }
    });
}

#[test]
fn maintenance_closes_the_idle_connections_of_a_server() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        exchange_answer(&mut server, &mut client).await;
        set_down(&world);
        server.closed().await;
        client.send(GET).await;
        assert!(client.head().await.starts_with("HTTP/1.1 503 "));
    });
}

fn set_down(world: &World) {
    use weir_backend::{RequestedState, ServerChange};
    let backend = world.proxy("front").servers();
    let key = backend.servers()[0].key();
    let change = ServerChange::State(RequestedState::Maintenance);
    backend.change(key, change, weir_sched::now().as_ms()).expect("a server");
}

// PROXY headers.

/// Checks the source address that the server sees for a request with `x-from: 127.0.0.5`.
fn check_source(lines: &'static str, expected: [u8; 4]) {
    run(listen(lines), move |world| async move {
        let request = "GET / HTTP/1.1\r\nhost: x\r\nx-from: 127.0.0.5\r\n\r\n";
        let mut client = world.client();
        client.send(request).await;
        let mut server = world.accept("s1").await;
        assert_eq!(server.peer_address().ip(), Some(expected.into()), "{lines}");
        server.expect(request).await;
        server.send(OK).await;
        client.expect(OK).await;
    });
}

#[test]
fn server_connections_use_the_most_specific_source_setting() {
    check_source(" server s1 {s1}", [127, 0, 0, 1]);
    check_source(" source 127.0.0.2\n server s1 {s1}", [127, 0, 0, 2]);
    check_source(" source 127.0.0.2\n server s1 {s1} source 127.0.0.3", [127, 0, 0, 3]);
    check_source(" server s1 {s1} source 0.0.0.0 usesrc 127.0.0.4", [127, 0, 0, 4]);
    check_source(" server s1 {s1} source 0.0.0.0 usesrc hdr_ip(x-from)", [127, 0, 0, 5]);
    // Without an address in the request, `usesrc` is ignored.
    check_source(" server s1 {s1} source 127.0.0.2 usesrc hdr_ip(x-other)", [127, 0, 0, 2]);
    check_source(" source 127.0.0.2 usesrc clientip\n server s1 {s1}", [127, 0, 0, 1]);
}

#[test]
fn send_proxy_sends_a_proxy_header_of_version_1() {
    run(listen(" server s1 {s1} send-proxy"), |world| async move {
        let mut client = world.client();
        client.connected().await;
        let (from, to) = (client.address().port(), world.address().port());
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {to}\r\n{GET}")).await;
        server.send(OK).await;
        client.expect(OK).await;
        // The connection carries this client's address, so it is kept for this client only.
        stream(&mut client, &mut server).await;
        let mut other = world.client();
        other.send(GET).await;
        assert!(world.accept("s1").await.head().await.starts_with("PROXY TCP4 "));
    });
}

#[test]
fn send_proxy_v2_sends_a_proxy_header_of_version_2() {
    run(listen(" server s1 {s1} send-proxy-v2"), |world| async move {
        let mut client = world.client();
        client.connected().await;
        let (from, to) = (client.address().port(), world.address().port());
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01".to_vec();
        header.extend_from_slice(&from.to_be_bytes());
        header.extend_from_slice(&to.to_be_bytes());
        server.expect(header).await;
        exchange_answer(&mut server, &mut client).await;
    });
}

#[test]
fn accept_proxy_uses_the_addresses_of_the_proxy_header() {
    let text = format!(
        "{HTTP}listen front\n bind 127.0.0.1:1 accept-proxy\n option forwardfor\n server s1 {{s1}} send-proxy\n"
    );
    run(text, |world| async move {
        // The header may arrive in pieces, and together with the request.
        for cut in [1, 10, 44, 46] {
            let whole = format!("PROXY TCP4 192.0.2.1 198.51.100.7 1111 2222\r\n{GET}");
            let mut client = world.client();
            client.send(&whole[..cut]).await;
            weir_sched::sleep_until(weir_sched::now().after(20)).await;
            client.send(&whole[cut..]).await;
            let mut server = world.accept("s1").await;
            server.expect("PROXY TCP4 192.0.2.1 198.51.100.7 1111 2222\r\n").await;
            server.expect("GET / HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 192.0.2.1\r\n\r\n").await;
            server.send(OK).await;
            client.expect(OK).await;
            // Only bytes after the header are part of the request.
            let receiving = if cut > 45 { 20 } else { 0 };
            assert_eq!(world.log().await, format!("front/s1 {receiving}/0/0/0 200 51 ---- 0 0/0"));
        }
    });
}

/// The messages were observed in the log of HAProxy 2.6.
#[test]
fn accept_proxy_closes_a_connection_without_a_valid_proxy_header() {
    const TRUNCATED: &str = "Truncated PROXY protocol header received";
    for (bytes, finishes, wait_ms, said) in [
        (&b""[..], false, 10_000, "Timeout while waiting for PROXY protocol header"),
        (b"", true, 0, "Connection closed while waiting for PROXY protocol header"),
        (b"PROXY TCP4 1", false, 10_000, TRUNCATED),
        (b"PROXY TCP4 1", true, 0, TRUNCATED),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            false,
            0,
            "Received something which does not look like a PROXY protocol header",
        ),
        (
            b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n",
            false,
            0,
            "Received an unhandled protocol in the PROXY protocol header",
        ),
        (b"PROXY TCP4 1 1 1 1\r\n", false, 0, "Received an invalid PROXY protocol header"),
    ] {
        for forgets_silent_ones in [false, true] {
            let option = if forgets_silent_ones { " option dontlognull\n" } else { "" };
            let text =
                format!("{HTTP}{option}listen front\n bind 127.0.0.1:1 accept-proxy\n server s1 {{s1}}\n");
            run(text, move |world| async move {
                let began = weir_sched::now();
                let mut client = world.client();
                client.send(bytes).await;
                if finishes {
                    client.finish();
                }
                client.closed().await;
                assert_eq!(weir_sched::now().since(began), wait_ms);
                assert_eq!(client.was_reset(), !bytes.is_empty());
                world.check_idle().await;
                if forgets_silent_ones && bytes.is_empty() {
                    assert!(world.is_quiet());
                } else {
                    let line = world.log().await;
                    assert!(line.ends_with(&format!("] front/1: {said}")), "{line}");
                }
            });
        }
    }
}

/// The log of HAProxy 2.6 for a server connection that failed, was closed, or became idle.
#[test]
fn a_failed_server_connection_is_logged_with_its_addresses() {
    let format =
        "%ST %tsc [%bi]:%bp %si:%sp %[bc_src]:%[bc_src_port] %[bc_http_major] %[bc_err] %[bc_reused]";
    let text = format!(
        "{HTTP} retries 0\n log-format \"{format}\"\nfrontend front\n bind 127.0.0.1:1\n \
        use_backend %[path,field(2,/)]\nbackend gone\n server s1 {{closed}}\nbackend back\n server s1 {{s1}}\n"
    );
    run(text, |world| async move {
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\n\r\n");
        let own = |peer: &Peer| peer.peer_address().port();
        let port = world.origin("s1").address().port();
        // The connection is kept. The second request uses it, and the first log line still shows it.
        let mut client = world.client();
        client.send(get("/back")).await;
        let mut server = world.accept("s1").await;
        for reused in [0, 1] {
            server.expect(get("/back")).await;
            server.send(OK).await;
            client.expect(OK).await;
            let from = own(&server);
            let expected =
                format!("200 ---- [127.0.0.1]:{from} 127.0.0.1:{port} 127.0.0.1:{from} 1 0 {reused}");
            assert_eq!(world.log().await, expected);
            client.send(get("/back")).await;
        }
        // The server closes without a response. A request that the client may retry is not logged.
        server.expect(get("/back")).await;
        drop(server);
        client.closed().await;
        let mut client = world.client();
        client.send(get("/back")).await;
        let mut server = world.accept("s1").await;
        server.expect(get("/back")).await;
        let from = own(&server);
        server.finish();
        assert!(client.rest().await.starts_with("HTTP/1.1 502 "));
        let expected = format!("502 SH-- [127.0.0.1]:{from} 127.0.0.1:{port} 127.0.0.1:{from} 1 0 0");
        assert_eq!(world.log().await, expected);
        // The connection was never established.
        let mut client = world.client();
        client.send(get("/gone")).await;
        assert!(client.rest().await.starts_with("HTTP/1.1 503 "));
        let line = world.log().await;
        assert!(line.starts_with("503 SC-- [127.0.0.1]:"), "{line}");
        assert!(!line.contains("]:-") && line.ends_with(" 1 47 0"), "{line}");
    });
}
