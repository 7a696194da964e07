use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use weir_events::SyslogFormat;
use weir_net::SourceAddress;
use weir_sync::Ring;

fn check(framing: Framing, messages: &[&str], expected: &str) {
    let mut outbox = Outbox::new(framing);
    messages.iter().for_each(|message| outbox.push(message.as_bytes(), b""));
    assert_eq!(String::from_utf8_lossy(outbox.unsent()), expected);
}

#[test]
fn frames_syslog_messages_by_rfc_6587() {
    check(Framing::Legacy, &["<6>one", "two"], "<6>one\ntwo\n");
    check(Framing::OctetCount, &["<6>one", "two\nlines"], "6 <6>one9 two\nlines");
    check(Framing::OctetCount, &[""], "0 ");
}

#[test]
fn after_a_reconnect_a_partially_sent_message_is_resent() {
    let sent = |count: usize| {
        let mut outbox = Outbox::new(Framing::Legacy);
        ["one", "two", "three"].iter().for_each(|message| outbox.push(message.as_bytes(), b""));
        outbox.sent(count);
        outbox.rewind();
        outbox.rewind();
        String::from_utf8_lossy(outbox.unsent()).into_owned()
    };
    assert_eq!(sent(0), "one\ntwo\nthree\n");
    assert_eq!(sent(3), "one\ntwo\nthree\n");
    assert_eq!(sent(4), "two\nthree\n");
    assert_eq!(sent(9), "three\n");
    assert_eq!(sent(14), "");
}

/// These settings with the timeouts of all tests.
fn line(line: ForwardLine) -> ForwardLine {
    let (connect_timeout, server_timeout) = (Some(Duration::from_secs(5)), Some(Duration::from_secs(5)));
    ForwardLine { connect_timeout, server_timeout, ..line }
}

fn forward(address: SocketAddr, size: usize) -> (Arc<Ring>, Arc<Forward>) {
    let ring = Ring::in_memory(size, 6);
    let sink = Sink::ring("r", "r", SyslogFormat::Raw, 1024, Arc::clone(&ring));
    let address = Some(Address::Inet(address));
    (ring, Arc::new(Forward::new(Arc::new(sink), "s".into(), address, line(ForwardLine::default()))))
}

/// Messages written before, while and after the server is up arrive in order. After a disconnect the forward reconnects.
#[test]
fn each_ring_message_is_delivered_once_across_reconnects() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (ring, forward) = forward(listener.local_addr().expect("an address"), 65_536);
    ring.write(0, &[b"before"]);
    let server = std::thread::spawn(move || {
        let (first, _) = listener.accept().expect("a connection");
        let mut lines = BufReader::new(&first).lines();
        let mut heard = vec![lines.next().expect("a line").expect("text")];
        // The server disconnects after the first message. More is written only after the forward has closed too, because TCP loses
        // data that crosses a close.
        first.shutdown(std::net::Shutdown::Write).expect("it is connected");
        assert!(lines.next().is_none(), "nothing else was written");
        ring.write(0, &[b"between"]);
        let (second, _) = listener.accept().expect("another connection");
        let mut lines = BufReader::new(second).lines();
        ring.write(0, &[b"after"]);
        heard.extend((0..2).map(|_| lines.next().expect("a line").expect("text")));
        weir_sched_stop(&ring);
        heard
    });
    weir_sched::run(async move {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
        while !STOP.load(std::sync::atomic::Ordering::SeqCst) {
            sleep_until(weir_sched::now().after(5)).await;
        }
    })
    .expect("a worker")
    .expect("the test came to its end");
    assert_eq!(server.join().expect("the server does not panic"), ["before", "between", "after"]);
}

/// `show sess` lists a connection while it exists. `shutdown session` closes it, and the forward reconnects.
#[test]
fn the_connection_of_a_forward_is_listed_and_can_be_shut_down() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (ring, forward) = forward(listener.local_addr().expect("an address"), 65_536);
    ring.write(0, &[b"first"]);
    let seen = weir_sched::run(async move {
        assert!(!forward.conversation.end() && forward.conversation.seen().is_none());
        weir_sched::spawn(&FORWARD, Class::Bulk, run(Arc::clone(&forward)));
        let until = async |wanted: fn(Option<conversation::ConversationState>) -> bool| {
            while !wanted(forward.conversation.seen()) {
                sleep_until(weir_sched::now().after(1)).await;
            }
            forward.conversation.seen()
        };
        let stands = |seen: Option<conversation::ConversationState>| {
            seen.is_some_and(|seen| seen.descriptor.is_some())
        };
        let first = until(stands).await;
        assert!(forward.conversation.end());
        until(|seen| seen.is_some_and(|seen| seen.paused)).await;
        (first, until(stands).await)
    });
    let (first, second) = seen.expect("a worker").expect("the test came to its end");
    let (first, second) = (first.expect("it stood"), second.expect("it stood again"));
    assert_eq!((first.worker, first.paused, second.paused), (0, false, false));
    assert!(second.since_ms >= first.since_ms + PAUSE_MS, "{first:?} {second:?}");
}

static STOP: AtomicBool = AtomicBool::new(false);

fn weir_sched_stop(_: &Ring) {
    STOP.store(true, std::sync::atomic::Ordering::SeqCst);
}

/// The bytes sent on one connection and its source address, with these settings of the server's line.
fn said_with(settings: ForwardLine) -> (std::net::IpAddr, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (ring, forward) = forward(listener.local_addr().expect("an address"), 65_536);
    let forward = with_line(&forward, settings);
    ring.write(0, &[b"message"]);
    let done = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&done);
    let server = std::thread::spawn(move || {
        let (mut connection, from) = listener.accept().expect("a connection");
        let mut said = Vec::new();
        while !said.ends_with(b"message") && !said.ends_with(b"message\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("the whole message");
            said.push(byte[0]);
        }
        theirs.store(true, std::sync::atomic::Ordering::SeqCst);
        (from.ip(), said)
    });
    weir_sched::run(async move {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            sleep_until(weir_sched::now().after(5)).await;
        }
    })
    .expect("a worker")
    .expect("the test came to its end");
    server.join().expect("the server does not panic")
}

/// The same forward with these settings.
fn with_line(forward: &Forward, settings: ForwardLine) -> Arc<Forward> {
    let (sink, server) = (Arc::clone(&forward.sink), Arc::clone(&forward.server));
    Arc::new(Forward::new(sink, server, forward.address().as_ref().clone(), line(settings)))
}

#[test]
fn a_forward_uses_the_proxy_header_and_source_of_its_server_line() {
    let source = OwnedSource { address: SourceAddress::Ip([127, 0, 0, 2].into()), interface: None };
    let header = (*b"PROXY UNKNOWN\r\n").into();
    let (from, said) = said_with(ForwardLine { header, source, ..ForwardLine::default() });
    assert_eq!(from, std::net::IpAddr::from([127, 0, 0, 2]));
    assert_eq!(said, b"PROXY UNKNOWN\r\nmessage");
    let (_, said) = said_with(ForwardLine { framing: Framing::OctetCount, ..ForwardLine::default() });
    assert_eq!(said, b"7 message");
}

/// The proxy receives a request for the server's address, and the messages once it has granted the request.
#[test]
fn log_messages_reach_a_server_through_a_socks4_proxy() {
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = proxy.local_addr().expect("an address");
    let (ring, forward) = forward("192.0.2.1:514".parse().expect("an address"), 65_536);
    let settings =
        ForwardLine { socks4: Some(at), header: (*b"PROXY UNKNOWN\r\n").into(), ..ForwardLine::default() };
    let forward = with_line(&forward, settings);
    ring.write(0, &[b"message"]);
    let done = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&done);
    let proxy = std::thread::spawn(move || {
        let (mut connection, _) = proxy.accept().expect("a connection");
        let mut request = [0; 16];
        connection.read_exact(&mut request).expect("a request");
        connection.write_all(&[0, 90, 0, 0, 0, 0, 0, 0]).expect("it listens");
        let mut said = [0; 23];
        connection.read_exact(&mut said).expect("a message");
        theirs.store(true, std::sync::atomic::Ordering::SeqCst);
        (request, said)
    });
    weir_sched::run(async move {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
        while !done.load(std::sync::atomic::Ordering::SeqCst) {
            sleep_until(weir_sched::now().after(5)).await;
        }
    })
    .expect("a worker")
    .expect("the test came to its end");
    let (request, said) = proxy.join().expect("the proxy does not panic");
    assert_eq!(&request, b"\x04\x01\x02\x02\xc0\x00\x02\x01HAProxy\x00");
    assert_eq!(&said, b"PROXY UNKNOWN\r\nmessage\n");
}

/// A server that accepts the connection and then neither reads nor closes it. Messages are lost, but writers are not delayed.
#[test]
fn a_stalled_log_server_loses_messages_without_delaying_writers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (ring, forward) = forward(listener.local_addr().expect("an address"), 16_384);
    let theirs = Arc::clone(&ring);
    let slowest = weir_sched::run(async move {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
        let mut slowest = Duration::ZERO;
        // Fills the ring and the socket buffers, whatever their sizes.
        for _ in 0..1_000_000 {
            let begin = std::time::Instant::now();
            theirs.write(0, &[&[b'x'; 1000]]);
            slowest = slowest.max(begin.elapsed());
            if theirs.dropped() > 1000 {
                break;
            }
            yield_now().await;
        }
        slowest
    })
    .expect("a worker")
    .expect("the test came to its end");
    assert!(ring.dropped() > 1000);
    assert!(slowest < Duration::from_millis(500));
    let (mut held, _) = listener.accept().expect("a connection");
    assert_eq!(held.read(&mut [0; 8]).expect("some bytes"), 8);
}
