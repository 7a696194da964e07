//! HTTP/1 bodies through pipes (`option splice-*`; manual, 4.2): which ones, their ends, and the messages after them.

mod support;

use weir_backend::{BackendCounter, FrontendCounter};

use support::{Peer, World, plain, run};

const SIZE: usize = 400_000;
const SPLICED: &str = "option splice-request\n option splice-response";

fn body() -> Vec<u8> {
    (0..SIZE as u32).map(|number| (number * 7 / 5) as u8).collect()
}

/// Sends bytes from one end and reads them at the other, some at a time. A body that arrives at once ends before a pipe is used.
async fn pass(from: &mut Peer, to: &mut Peer, bytes: &[u8]) {
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        sent += from.send_some(&bytes[sent..]);
        weir_sched::yield_now().await;
        got.extend(to.read((sent - got.len()).min(50_000)).await);
    }
    assert!(got == bytes, "the bytes are the same");
}

/// A client and a server, after the client sent a request and received the head of the answer.
async fn answered(world: &World, head: &str, received: &str) -> (Peer, Peer) {
    let mut client = world.client();
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut server = world.accept("s1").await;
    server.head().await;
    server.send(head).await;
    client.expect(received).await;
    (client, server)
}

/// The counters of spliced bytes: from clients, to clients, from servers, to servers.
fn counted(world: &World) -> [u64; 4] {
    let proxy = &world.instance.proxies[0];
    let front = |counter| proxy.frontend_counters.sum(counter);
    let back = |counter| proxy.backend_counters.sum(counter);
    [
        front(FrontendCounter::SplicedIn),
        front(FrontendCounter::SplicedOut),
        back(BackendCounter::SplicedIn),
        back(BackendCounter::SplicedOut),
    ]
}

#[test]
fn a_spliced_upload_ends_at_its_content_length() {
    run(plain(SPLICED), |world| async move {
        let (mut client, body) = (world.client(), body());
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {SIZE}\r\n\r\n");
        let next = "GET /next HTTP/1.1\r\nhost: x\r\n\r\n";
        client.send(&head).await;
        let mut server = world.accept("s1").await;
        server.expect(&head).await;
        pass(&mut client, &mut server, &body[..SIZE - 10]).await;
        // The next request arrives with the last bytes.
        client.send([&body[SIZE - 10..], next.as_bytes()].concat()).await;
        server.expect(&body[SIZE - 10..]).await;
        for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 204 No Content\r\n\r\n"] {
            server.send(answer).await;
            client.expect(answer).await;
            if answer.contains("200") {
                server.expect(next).await;
            }
        }
        let [from_client, to_client, from_server, to_server] = counted(&world);
        assert!(from_client > SIZE as u64 / 2 && from_client < SIZE as u64, "{from_client}");
        assert_eq!((from_client, to_client, from_server), (to_server, 0, 0));
        assert_eq!((world.instance.pipes.used(), world.instance.pipes.free()), (0, 1));
    });
}

#[test]
fn a_response_follows_a_spliced_body_on_the_same_connection() {
    run(plain(SPLICED), |world| async move {
        let (mut client, body) = (world.client(), body());
        let get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let mut server = None;
        for round in 1..=2 {
            client.send(get).await;
            let server = match &mut server {
                Some(server) => server,
                none => none.insert(world.accept("s1").await),
            };
            server.expect(get).await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n");
            server.send(&head).await;
            client.expect(&head).await;
            pass(server, &mut client, &body).await;
            assert!(world.log().await.contains(" ---- "));
            let [from_client, to_client, from_server, to_server] = counted(&world);
            assert!(to_client > round * SIZE as u64 / 2, "{to_client}");
            assert_eq!((from_client, to_client, to_server), (0, from_server, 0));
        }
        assert_eq!(world.instance.pipes.free(), 1, "the second body takes the first one's pipe");
    });
}

#[test]
fn a_spliced_body_without_length_ends_with_the_server_fin() {
    run(plain(SPLICED), |world| async move {
        let (mut client, mut server) =
            answered(&world, "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
        pass(&mut server, &mut client, &body()).await;
        server.finish();
        client.closed().await;
        assert!(world.log().await.contains(" ---- "));
        assert!(counted(&world)[1] > SIZE as u64 / 2);
    });
}

#[test]
fn a_truncated_spliced_body_is_logged_as_a_server_abort() {
    run(plain(SPLICED), |world| async move {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", SIZE + 1);
        let (mut client, mut server) = answered(&world, &head, &head).await;
        pass(&mut server, &mut client, &body()).await;
        server.finish();
        client.closed().await;
        assert!(world.log().await.contains(" SD-- "));
        assert!(counted(&world)[1] > SIZE as u64 / 2);
    });
}

/// Chunks must be inspected, short bodies end too early, each option applies to one direction, and the limit of pipes may be reached.
#[test]
fn never_splices_short_chunked_or_filtered_bodies() {
    let check = |text: String, head: &'static str, length: usize, end: &'static str| {
        run(text, move |world| async move {
            let (mut client, mut server) = answered(&world, head, head).await;
            pass(&mut server, &mut client, &body()[..length]).await;
            server.send(end).await;
            client.expect(end).await;
            assert!(world.log().await.contains(" ---- "));
            assert_eq!(counted(&world), [0; 4]);
        });
    };
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 400000\r\n\r\n";
    check(plain(""), whole, SIZE, "");
    check(plain("option splice-request"), whole, SIZE, "");
    check(
        plain(
            "option splice-auto\n filter bwlim-out b default-limit 1g default-period 1s\n http-response set-bandwidth-limit b",
        ),
        whole,
        SIZE,
        "",
    );
    check(format!("global\n maxpipes 0\n{}", plain(SPLICED)), whole, SIZE, "");
    check(plain(SPLICED), "HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n", 20_000, "");
    let chunk = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n61a80\r\n";
    check(plain(SPLICED), chunk, SIZE, "\r\n0\r\n\r\n");
}
