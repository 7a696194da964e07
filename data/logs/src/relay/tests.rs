//! Whole `log-forward` sections: sockets as input, a ring as the target.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

use weir_events::{Facility, LogAddress, LogIdentity, LogTarget, Sink, Sinks, SyslogFormat};
use weir_sched::{Class, Descriptor, WorkKind, yield_now};
use weir_sync::Ring;
use weir_sync::ring::{ReaderWait, Seek};
use weir_sys::socket;

use super::*;

static KIND: WorkKind = WorkKind::new("test");

/// A section that sends to a ring and keeps message formats.
struct RelayFixture {
    relays: Arc<Relays>,
    relay: Arc<Relay>,
    listener: Arc<ForwardListener>,
    ring: Arc<Ring>,
}

impl RelayFixture {
    /// Creates the section on the current worker.
    fn new(change: impl FnOnce(&mut Relay)) -> Self {
        let ring = Ring::in_memory(1 << 20, 1);
        let mut sinks = Sinks::built_in(1);
        sinks.add(Sink::ring("r", "r", SyslogFormat::Raw, 65_535, Arc::clone(&ring)));
        let facility = Facility::from_name("local3").expect("a facility");
        let target = LogTarget {
            keeps_format: true,
            max_length: 65_535,
            ..LogTarget::new(LogAddress::Ring("r".into()), facility)
        };
        let mut relay = Relay {
            name: "f".into(),
            sinks: vec![Arc::new(LogSink::open(target, &sinks).expect("a ring"))],
            unparsed: false,
            lines_only: false,
            host: HostStrategy::Keep,
            client_timeout: None,
            connections: Arc::default(),
            connections_limit: 2,
        };
        change(&mut relay);
        let relay = Arc::new(relay);
        let listener = Arc::new(ForwardListener {
            relay: Arc::clone(&relay),
            accept_proxy: false,
            tls: None,
            connections: Arc::default(),
            connections_limit: u32::MAX,
        });
        let (gate, limit) = (Arc::default(), Arc::new(AtomicU32::new(100)));
        let relays = Arc::new(Relays::new(1, gate, limit, Box::new(|| ()), Box::new(|_| ())));
        install(weir_events::Logger::new(Arc::new(LogIdentity::default()), weir_events::calendar::utc()));
        RelayFixture { relays, relay, listener, ring }
    }

    fn listen(&self) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let descriptor = Descriptor::register(OwnedFd::from(listener)).expect("a descriptor");
        let acceptor =
            StreamAcceptor { relays: Arc::clone(&self.relays), listener: Arc::clone(&self.listener) };
        weir_sched::spawn(&KIND, Class::Normal, weir_net::listener::accept(descriptor, acceptor, 4));
        port
    }

    fn listen_to(&self, socket: impl Into<OwnedFd>) {
        let socket = socket.into();
        socket::set_nonblocking(&socket).expect("a socket");
        let descriptor = Descriptor::register(socket).expect("a descriptor");
        let receiving = receive_datagrams(Arc::clone(&self.relays), Arc::clone(&self.relay), descriptor);
        weir_sched::spawn(&KIND, Class::Bulk, receiving);
    }

    fn heard(&self) -> Vec<String> {
        let mut reader = self.ring.attach(Seek::Oldest, ReaderWait::No).expect("few readers");
        let mut heard = Vec::new();
        reader.read(|message| {
            let mut bytes = Vec::new();
            message.append_to(&mut bytes);
            heard.push(String::from_utf8_lossy(&bytes).into_owned());
            true
        });
        heard
    }

    async fn hear(&self, expected: &[&str]) {
        until(|| self.heard().len() >= expected.len()).await;
        assert_eq!(self.heard(), expected);
        assert_eq!(self.relays.received(), expected.len() as u64);
    }
}

/// Waits for a condition, with a limit, so that a defect fails the test instead of hanging it.
async fn until(mut what: impl FnMut() -> bool) {
    for _ in 0..1_000_000 {
        if what() {
            return;
        }
        yield_now().await;
    }
    panic!("it never happens");
}

fn connect(port: u16) -> TcpStream {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the kernel's queue has room")
}

fn run(test: impl Future<Output = ()> + 'static) {
    // A test that panicked returns nothing.
    weir_sched::run(test).expect("a worker").expect("the test came to its end");
}

#[test]
fn a_connection_may_mix_newline_and_octet_count_framing() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let mut client = connect(world.listen());
        client.write_all(b"<6>one\n8 <6>tw\no!<6>three\r\n<6>unfini").expect("room");
        world.hear(&["<6>one", "<6>tw\no!", "<6>three"]).await;
        client.write_all(b"shed\n").expect("room");
        world.hear(&["<6>one", "<6>tw\no!", "<6>three", "<6>unfinished"]).await;
    });
}

#[test]
fn drops_an_incomplete_message_when_the_connection_ends() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        let mut client = connect(port);
        client.write_all(b"<6>whole\n<6>not whole").expect("room");
        client.shutdown(Shutdown::Both).expect("a connection");
        world.hear(&["<6>whole"]).await;
        until(|| world.relay.connections.inside() == 0).await;
        world.hear(&["<6>whole"]).await;
    });
}

#[test]
fn a_connection_with_invalid_framing_is_closed_and_others_are_served() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        for nonsense in [&b"garbage\n<6>x\n"[..], b"99999999 <6>x", b"5x<6>x\n", &[b'<'; 100_000]] {
            let mut client = connect(port);
            // The connection is closed before all bytes are sent.
            let _ = client.write_all(nonsense);
            until(|| world.relay.connections.maximum() > 0 && world.relay.connections.inside() == 0).await;
            world.relay.connections.clear_maximum();
        }
        connect(port).write_all(b"<6>sense\n").expect("room");
        world.hear(&["<6>sense"]).await;
    });
}

/// An endless line holds one buffer until it is rejected. A slow line holds one as long as its connection is open.
#[test]
fn a_log_sender_holds_at_most_one_buffer() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        let (mut endless, mut slow) = (connect(port), connect(port));
        slow.write_all(b"<6>slo").expect("room");
        until(|| buffers() == 1).await;
        let piece = [b'x'; 4096];
        endless.set_nonblocking(true).expect("a socket");
        let _ = endless.write(b"<6>");
        for _ in 0..10_000 {
            if endless.write(&piece).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock) {
                break;
            }
            assert!(buffers() <= 2);
            yield_now().await;
        }
        until(|| world.relay.connections.inside() == 1).await;
        assert_eq!(buffers(), 1);
        slow.write_all(b"w\n").expect("room");
        world.hear(&["<6>slow"]).await;
        assert_eq!(buffers(), 0);
    });
}

/// The number of buffers that this worker has in use.
fn buffers() -> usize {
    weir_containers::BufferPool::statistics().used
}

#[test]
fn the_longest_log_message_fills_one_buffer() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        let longest = weir_containers::BufferPool::buffer_size() - weir_syslog::Framer::most_held(0);
        let message = format!("<6>{}", "x".repeat(longest - 3));
        let mut client = connect(port);
        client.write_all(format!("{message}\r\n{longest} {message}<6>after\n").as_bytes()).expect("room");
        world.hear(&[&message, &message, "<6>after"]).await;
        client.write_all(format!("{message}x\n<6>never\n").as_bytes()).expect("room");
        until(|| world.relay.connections.inside() == 0).await;
        assert_eq!(world.heard().len(), 3);
    });
}

#[test]
fn the_number_of_log_connections_is_limited() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        let mut clients: Vec<_> = (0..3).map(|_| connect(port)).collect();
        for client in &mut clients {
            client.write_all(b"<6>x\n").expect("room");
        }
        world.hear(&["<6>x", "<6>x"]).await;
        assert_eq!(world.relay.connections.inside(), 2);
        drop(clients.remove(0));
        world.hear(&["<6>x", "<6>x", "<6>x"]).await;
    });
}

#[test]
fn idle_log_connections_are_closed_after_timeout_client() {
    run(async {
        let world = RelayFixture::new(|relay| relay.client_timeout = Some(Duration::from_millis(20)));
        let mut client = connect(world.listen());
        client.set_nonblocking(true).expect("a socket");
        let mut looks = 0;
        while !matches!(client.read(&mut [0]), Ok(0)) {
            assert!(looks < 10_000, "it is still open");
            looks += 1;
            weir_sched::sleep_until(weir_sched::now().after(5)).await;
        }
        until(|| world.relay.connections.inside() == 0).await;
    });
}

#[test]
fn each_datagram_is_one_log_message() {
    run(async {
        let world = RelayFixture::new(|relay| relay.host = HostStrategy::Append);
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let to = server.local_addr().expect("an address");
        world.listen_to(server);
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        for message in [&b"<6>one\n"[..], b"", b"<6>a\nb\n\n", b"<6>Nov 20 13:05:05 host prog: x"] {
            client.send_to(message, to).expect("room");
        }
        world.hear(&["<6>one", "", "<6>a\nb", "<6>Nov 20 13:05:05 host,127.0.0.1 prog: x"]).await;
        assert_eq!(buffers(), 0);
    });
}

#[test]
fn messages_from_unix_sockets_keep_their_host() {
    run(async {
        let world = RelayFixture::new(|relay| relay.host = HostStrategy::Replace);
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        world.listen_to(theirs);
        ours.send(b"<6>Nov 20 13:05:05 host prog: x").expect("room");
        world.hear(&["<6>Nov 20 13:05:05 host prog: x"]).await;
    });
}

#[test]
fn the_host_is_replaced_in_rfc3164_and_rfc5424_messages() {
    run(async {
        let world = RelayFixture::new(|relay| relay.host = HostStrategy::Replace);
        let mut client = connect(world.listen());
        client
            .write_all(b"<6>Nov 20 13:05:05 host prog: x\n<6>1 - - p 1 - - x\n<6>1 - h p 1 - - x\n<6>x\n<6>Nov 20 13:05:05 prog: x\n")
            .expect("room");
        world
            .hear(&[
                "<6>Nov 20 13:05:05 127.0.0.1 prog: x",
                "<6>1 - 127.0.0.1 p 1 - - x",
                "<6>1 - 127.0.0.1 p 1 - - x",
                "<6>x",
                "<6>Nov 20 13:05:05 127.0.0.1 x",
            ])
            .await;
    });
}

#[test]
fn the_proxy_header_provides_the_host_of_a_message() {
    run(async {
        let world = RelayFixture::new(|relay| relay.host = HostStrategy::Replace);
        let listener = Arc::new(ForwardListener {
            relay: Arc::clone(&world.relay),
            accept_proxy: true,
            tls: None,
            connections: Arc::default(),
            connections_limit: u32::MAX,
        });
        let world = RelayFixture { listener, ..world };
        let port = world.listen();
        let mut client = connect(port);
        client.write_all(b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n<6>1 - h p 1 - - x\n").expect("room");
        world.hear(&["<6>1 - 192.0.2.7 p 1 - - x"]).await;
        // LOCAL: the proxy itself is the sender, whatever addresses the header contains (PROXY protocol, 2.2).
        let own =
            b"\r\n\r\n\0\r\nQUIT\n\x20\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\0\x01\0\x02<6>1 - h p 1 - - y\n";
        let mut proxy = connect(port);
        proxy.write_all(own).expect("room");
        world.hear(&["<6>1 - 192.0.2.7 p 1 - - x", "<6>1 - 127.0.0.1 p 1 - - y"]).await;
        drop(proxy);
        connect(port).write_all(b"<6>no header\n").expect("room");
        until(|| world.relay.connections.inside() == 1).await;
        assert_eq!(world.heard().len(), 2);
    });
}

#[test]
fn messages_received_before_a_stop_are_delivered() {
    run(async {
        let world = RelayFixture::new(|_| ());
        let port = world.listen();
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let to = server.local_addr().expect("an address");
        world.listen_to(server);
        let mut client = connect(port);
        client.write_all(b"<6>first\n").expect("room");
        world.hear(&["<6>first"]).await;
        client.write_all(b"<6>stream\n").expect("room");
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").send_to(b"<6>stream\n", to).expect("room");
        world.relays.stop();
        wake_sessions();
        world.hear(&["<6>first", "<6>stream", "<6>stream"]).await;
        until(|| world.relay.connections.inside() == 0).await;
    });
}

#[test]
fn dont_parse_log_relays_lines_verbatim() {
    run(async {
        let world = RelayFixture::new(|relay| (relay.unparsed, relay.lines_only) = (true, true));
        let mut client = connect(world.listen());
        client.write_all(b"no header\n6 <6>x\n\n<134>Nov 20 13:05:05 h p: x\n").expect("room");
        world.hear(&["no header", "6 <6>x", "<134>Nov 20 13:05:05 h p: x"]).await;
    });
}
