//! `shutdown session`: streams end at once, in every wait.

mod support;

use std::rc::Rc;

use support::{plain, run};
use weir_containers::PoolBox;
use weir_net::Connection;
use weir_sched::{Class, Descriptor, Tick, WorkKind, now, sleep_until, spawn, wait};
use weir_stream::ending::By;
use weir_stream::entry::{ListedStream, end_streams, streams};
use weir_stream::http::FirstByteWait;
use weir_stream::stream::Stream;
use weir_sys::socket;

static STUBBORN: WorkKind = WorkKind::new("stubborn");
static STREAM: WorkKind = WorkKind::new("a stream of its own");
const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// The only stream in progress.
async fn the_stream() -> ListedStream {
    for _ in 0..1000 {
        if let Some(stream) = streams().pop() {
            return stream;
        }
        weir_sched::yield_now().await;
    }
    panic!("no stream begins");
}

#[test]
fn shutting_down_a_stream_waiting_for_its_server_gives_a_logged_502() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let _server = world.accept("s1").await;
        let id = the_stream().await.entry.id.get();
        sleep_until(now().after(20)).await;
        assert_eq!(end_streams(By::Killed, |stream| stream.entry.id.get() == id + 1), 0);
        assert_eq!(end_streams(By::Killed, |stream| stream.entry.id.get() == id), 1);
        assert!(client.rest().await.starts_with("HTTP/1.1 502"));
        assert!(world.log().await.contains(" KH-- "));
        world.check_idle().await;
    });
}

/// The client of a local response does not read it.
#[test]
fn shutting_down_a_stream_with_a_client_that_does_not_read_is_logged() {
    let body = "x".repeat(6000);
    let text = plain(&format!(" http-request return status 200 content-type text/plain string {body}"));
    run(text, |world| async move {
        let mut client = world.client();
        client.make_narrow();
        // The answers to these requests fill the kernel's buffers.
        client.send(GET.repeat(2000)).await;
        // Read the log lines of the responses sent, until no more arrive.
        loop {
            sleep_until(now().after(1000)).await;
            if world.is_quiet() {
                break;
            }
            while !world.is_quiet() {
                world.log().await;
            }
        }
        let began = now();
        assert_eq!(end_streams(By::Killed, |_| true), 1);
        assert!(world.log().await.contains(" 200 "), "the answer that did not leave");
        assert!(now().since(began) < 50, "at its next step");
        drop(client);
        world.check_idle().await;
    });
}

/// R67: the scheduler kills a stream that does not check.
#[test]
fn a_stream_that_does_not_check_for_its_end_is_killed() {
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let _server = world.accept("s1").await;
        // Wait until only the kill can wake the stream.
        sleep_until(now().after(20)).await;
        let entry = the_stream().await.entry;
        let own_task = entry.task().expect("it runs");
        let held = Rc::new(());
        let stubborn = spawn(&STUBBORN, Class::Normal, {
            let held = held.clone();
            async move {
                let _held = held;
                loop {
                    wait(Tick::NEVER).await;
                }
            }
        });
        entry.task.set(stubborn);
        let began = now();
        assert_eq!(end_streams(By::Killed, |_| true), 1);
        while Rc::strong_count(&held) > 1 {
            assert!(now().since(began) < 1000, "it is never killed");
            sleep_until(now().after(10)).await;
        }
        weir_sched::wake(own_task);
        assert!(client.rest().await.starts_with("HTTP/1.1 502"));
        world.check_idle().await;
    });
}

/// A connection may carry several streams at once, each in a task of its own.
#[test]
fn streams_of_one_connection_are_listed_and_ended_separately() {
    let lines = " http-request set-src req.hdr(x-from)\n http-request set-var(txn.of) req.hdr(x-from)\n \
        http-response set-header x-of %[var(txn.of)]";
    run(plain(lines), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\nx-from: 10.0.0.1\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        let session = the_stream().await.session;
        let (near, far) = socket::stream_pair().expect("a pair");
        let far = Descriptor::register(far).expect("a descriptor");
        far.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-from: 10.0.0.2\r\n\r\n", false).expect("there is room");
        let of_session = Rc::clone(&session);
        spawn(&STREAM, Class::Normal, async move {
            let descriptor = Descriptor::register(near).expect("a descriptor");
            descriptor.set_owner(weir_sched::current());
            let connection = Connection::new(descriptor);
            let stream = PoolBox::new(Stream::new(of_session, connection, weir_sched::now_us()));
            Stream::run(stream, FirstByteWait::Bytes).await;
        });
        let _waits_for_ever = world.accept("s1").await;
        let mut both = streams();
        both.sort_by_key(|stream| stream.entry.id.get());
        assert!(both.iter().all(|stream| Rc::ptr_eq(&stream.session, &session)));
        let sources: Vec<String> =
            both.iter().map(|stream| stream.source().ip().expect("an address").to_string()).collect();
        assert_eq!(sources, ["10.0.0.1", "10.0.0.2"]);
        let second = both[1].entry.id.get();
        assert_eq!(end_streams(By::Killed, |stream| stream.entry.id.get() == second), 1);
        assert!(world.log().await.contains(" KH-- "));
        let mut room = [0; 512];
        let answer = far.receive_into(&mut room);
        let Ok(weir_sched::ReceiveResult::Bytes(length)) = answer else { panic!("{answer:?}") };
        assert!(room[..length].starts_with(b"HTTP/1.1 502"));
        // Longer than the time limit of the ended stream for its log line.
        sleep_until(now().after(500)).await;
        assert_eq!(streams().len(), 1);
        server.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert!(client.head().await.contains("x-of: 10.0.0.1"));
        assert!(world.log().await.contains(" 200 "));
        assert!(streams().is_empty());
        drop((client, session, both));
        world.check_idle().await;
    });
}
