//! Forwards what is written to a ring to a log server over TCP (or a unix stream socket).
//!
//! ```text
//!              stands                     a message, whole or in part
//! connecting ─────────► reading the ring ─────────────────────────────► sending ─► reading ...
//!     ▲                        │ nothing: sleeps until the ring wakes it      │
//!     └── a pause ◄── closed by the server, failed, or it takes nothing ◄─────┘
//! ```
//! The reader's place in the ring is the only queue: while a server is slow or away, messages stay in the ring; when that
//! is full, new ones are dropped by who writes them, and counted. So no server ever delays anybody. A message that was
//! sent in part is sent again from its beginning on the next connection. What a server says is read and forgotten.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use weir_config::model::{Framing, Host, SendProxy, ServerSettings, Source, TransparentSource};
use weir_proxy::{Addresses, Command, Transport, V2};
use weir_sched::{Class, Descriptor, Kind, Received, Sent, Tick, sleep_until, wait, yield_now};
use weir_sync::ring::{Progress, RingReader, Seek, Wait};
use weir_sys::{Address, AddressFamily, Errno, option, socket};

use crate::build::Forward;

/// Starts what this worker forwards: servers are spread over the workers.
pub fn start(forwards: &'static [Forward]) {
    let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
    for forward in forwards.iter().skip(worker).step_by(workers) {
        weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
    }
}

/// Waits until everything that was written has left for the servers that take it, for a moment at most: the last lines of a
/// process that ends are not lost.
pub async fn drain(forwards: &[Forward]) {
    if forwards.is_empty() {
        return;
    }
    let deadline = weir_sched::now().after(LAST_MESSAGES_MS);
    loop {
        // First of all, so that who was just woken has begun.
        sleep_until(weir_sched::now().after(LOOK_MS)).await;
        if weir_sched::now() >= deadline || !forwards.iter().any(|forward| forward.behind.load(Relaxed)) {
            return;
        }
    }
}

async fn run(forward: &'static Forward) {
    let task = weir_sched::current();
    let wake = move || weir_sched::wake(task);
    let Some(ring) = forward.sink.as_ring() else { return };
    // There are fewer servers than readers.
    let Ok(reader) = ring.attach(Seek::Oldest, Wait::Woken(Box::new(wake))) else { return };
    let mut sender = Sender { reader, outbox: Outbox::new(forward.settings.framing) };
    loop {
        if let Some(connection) = connect(forward).await {
            sender.speak(&connection, forward).await;
        }
        let nothing = sender.outbox.is_empty() && sender.reader.sleep();
        forward.behind.store(!nothing, Relaxed);
        sleep_until(weir_sched::now().after(PAUSE_MS)).await;
    }
}

async fn connect(forward: &Forward) -> Option<Descriptor> {
    let socket = open_socket(forward).ok()?;
    let descriptor = Descriptor::connect(socket, &forward.address).ok()?;
    descriptor.set_owner(weir_sched::current());
    let deadline = after(forward.connect_timeout);
    loop {
        match descriptor.finish_connect() {
            Ok(true) => return announce(&descriptor, &forward.settings).then_some(descriptor),
            Ok(false) if weir_sched::now() < deadline => _ = wait(deadline).await,
            _ => return None,
        }
    }
}

/// A socket that comes from where the server's line says.
fn open_socket(forward: &Forward) -> weir_sys::Result<OwnedFd> {
    let (socket, settings) = (socket::stream(forward.address.family())?, &forward.settings);
    if forward.address.is_unix() {
        return Ok(socket);
    }
    // Messages leave in pieces of our own making; without it, they only leave later. What else the kernel refuses leaves its
    // own ways.
    let _ = option::set_no_delay(&socket, true);
    if let Some(timeout) = settings.tcp_user_timeout {
        let _ = option::set_user_timeout(&socket, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
    }
    if settings.tcp_fast_open {
        let _ = option::set_fast_open_connect(&socket);
    }
    if let Some(source) = &settings.source {
        bind(&socket, source, forward.address.family())?;
    }
    Ok(socket)
}

fn bind(socket: &OwnedFd, source: &Source, family: AddressFamily) -> weir_sys::Result<()> {
    if let Some(interface) = &source.interface {
        option::set_device(socket, interface)?;
    }
    if let Some(TransparentSource::Address { host: Host::Ip(ip), port }) = &source.transparent {
        option::set_transparent(socket, family)?;
        return socket::bind(socket, &Address::Inet((*ip, *port).into()));
    }
    let Host::Ip(ip) = source.host else { return Ok(()) };
    if source.first_port == 0 && ip.is_unspecified() {
        return Ok(());
    }
    let _ = option::set_reuse_address(socket);
    let mut ports = source.first_port..=source.last_port.max(source.first_port);
    let mut taken = Err(Errno::ADDRINUSE);
    while let (Err(Errno::ADDRINUSE), Some(port)) = (taken, ports.next()) {
        taken = socket::bind(socket, &Address::Inet((ip, port).into()));
    }
    taken
}

/// Says in a PROXY header that the connection is on nobody's behalf, if the line asks for a header. A fresh connection has
/// room for it.
fn announce(connection: &Descriptor, settings: &ServerSettings) -> bool {
    let mut header = Vec::new();
    match settings.send_proxy {
        None => return true,
        Some(SendProxy::V1) => weir_proxy::write_v1(Addresses::Unknown, &mut header),
        Some(SendProxy::V2) => {
            let checksum = settings.proxy_v2.as_ref().is_some_and(|header| header.crc32c);
            let local = V2 {
                command: Command::Local,
                transport: Transport::Unspecified,
                addresses: Addresses::Unknown,
                tlvs: &[],
                checksum,
            };
            if weir_proxy::write_v2(&local, &mut header).is_err() {
                return false;
            }
        }
    }
    matches!(connection.send(&header, false), Ok(Sent::Bytes(count)) if count == header.len())
}

fn after(timeout: Option<std::time::Duration>) -> Tick {
    let ms = timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok()).filter(|ms| *ms > 0);
    weir_sched::now().after(ms.unwrap_or(DEFAULT_TIMEOUT_MS))
}

struct Sender {
    reader: RingReader,
    outbox: Outbox,
}

impl Sender {
    /// Sends until the connection ends.
    async fn speak(&mut self, connection: &Descriptor, forward: &Forward) {
        self.outbox.rewind();
        loop {
            if !listen(connection) {
                return;
            }
            if self.outbox.is_empty() {
                match self.fill() {
                    Progress::Busy if self.outbox.is_empty() => yield_now().await,
                    Progress::End if self.outbox.is_empty() && self.reader.sleep() => {
                        forward.behind.store(false, Relaxed);
                        wait(Tick::NEVER).await;
                        forward.behind.store(true, Relaxed);
                    }
                    _ => {}
                }
                continue;
            }
            let deadline = after(forward.server_timeout);
            while !self.outbox.is_empty() {
                match connection.send(self.outbox.unsent(), false) {
                    Ok(Sent::Bytes(count)) => {
                        self.outbox.sent(count);
                        break;
                    }
                    Ok(Sent::Blocked) if weir_sched::now() < deadline && listen(connection) => {
                        wait(deadline).await;
                    }
                    _ => return,
                }
            }
        }
    }

    /// Takes messages from the ring, as many as one send may take.
    fn fill(&mut self) -> Progress {
        let outbox = &mut self.outbox;
        self.reader.read(|message| {
            let room = outbox.bytes.len() < BATCH;
            if room {
                outbox.push(message.first, message.second);
            }
            room
        })
    }
}

/// Reads and forgets what the server says; false when it is gone.
fn listen(connection: &Descriptor) -> bool {
    let mut space = [0; 1024];
    for _ in 0..MOST_READS {
        match connection.receive_into(&mut space) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::Blocked | Received::Full) => return true,
            Ok(Received::End) | Err(_) => return false,
        }
    }
    // Who talks without end is no log server.
    false
}

/// Messages on their way, framed.
struct Outbox {
    framing: Framing,
    bytes: Vec<u8>,
    /// How many of them have left.
    gone: usize,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl Outbox {
    fn new(framing: Framing) -> Self {
        Outbox { framing, bytes: Vec::new(), gone: 0, ends: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.gone == self.bytes.len()
    }

    fn unsent(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    fn push(&mut self, first: &[u8], second: &[u8]) {
        if self.framing == Framing::OctetCount {
            self.bytes.extend_from_slice((first.len() + second.len()).to_string().as_bytes());
            self.bytes.push(b' ');
        }
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        if self.framing == Framing::Legacy {
            self.bytes.push(b'\n');
        }
        self.ends.push(self.bytes.len());
    }

    fn sent(&mut self, count: usize) {
        self.gone += count;
        if self.is_empty() {
            self.bytes.clear();
            self.ends.clear();
            self.gone = 0;
        }
    }

    /// The connection is a new one: begins with the first message that did not leave whole.
    fn rewind(&mut self) {
        let whole = self.ends.iter().copied().take_while(|end| *end <= self.gone).last().unwrap_or(0);
        self.bytes.drain(..whole);
        self.ends.retain_mut(|end| {
            let left = *end > whole;
            *end = end.saturating_sub(whole);
            left
        });
        self.gone = 0;
    }
}

/// How long the end of the process waits for a slow log server.
const LAST_MESSAGES_MS: u64 = 1_000;
/// How often it looks.
const LOOK_MS: u64 = 10;
static FORWARD: Kind = Kind::new("log forward");
/// Messages are taken from the ring until there are about so many bytes.
const BATCH: usize = 16_384;
/// How long nobody tries after a connection ended or failed.
const PAUSE_MS: u64 = 1_000;
/// What a connection or a send may take when the section does not say: every wait ends.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;
/// So many receives in a row are enough.
const MOST_READS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Duration;

    use weir_events::{LogFormat, Sink};
    use weir_sync::Ring;

    fn check(framing: Framing, messages: &[&str], expected: &str) {
        let mut outbox = Outbox::new(framing);
        messages.iter().for_each(|message| outbox.push(message.as_bytes(), b""));
        assert_eq!(String::from_utf8_lossy(outbox.unsent()), expected);
    }

    #[test]
    fn messages_are_framed_as_the_rfc_says() {
        check(Framing::Legacy, &["<6>one", "two"], "<6>one\ntwo\n");
        check(Framing::OctetCount, &["<6>one", "two\nlines"], "6 <6>one9 two\nlines");
        check(Framing::OctetCount, &[""], "0 ");
    }

    #[test]
    fn a_message_that_left_in_part_is_sent_again() {
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

    fn forward(address: std::net::SocketAddr, size: usize) -> (Arc<Ring>, &'static Forward) {
        let ring = Ring::in_memory(size, 6);
        let sink = Sink::ring("r", "r", LogFormat::Raw, 1024, Arc::clone(&ring));
        let forward = Forward {
            sink: Arc::new(sink),
            server: "s".into(),
            address: Address::Inet(address),
            settings: ServerSettings::default(),
            connect_timeout: Some(Duration::from_secs(5)),
            server_timeout: Some(Duration::from_secs(5)),
            behind: std::sync::atomic::AtomicBool::new(false),
        };
        (ring, Box::leak(Box::new(forward)))
    }

    /// What is written before, while and after the server is there arrives in order; a server that hangs up is connected to
    /// again.
    #[test]
    fn servers_that_come_and_go_get_everything_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (ring, forward) = forward(listener.local_addr().expect("an address"), 65_536);
        ring.write(0, &[b"before"]);
        let server = std::thread::spawn(move || {
            let (first, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(first).lines();
            let mut heard = vec![lines.next().expect("a line").expect("text")];
            // It hangs up once it has heard of the first; more is written then.
            drop(lines);
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

    static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

    fn weir_sched_stop(_: &Ring) {
        STOP.store(true, std::sync::atomic::Ordering::SeqCst);
    }

    /// What one connection says, and where it is from, when the server's line says `settings`.
    fn said_with(settings: ServerSettings) -> (std::net::IpAddr, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (ring, forward) = forward(listener.local_addr().expect("an address"), 65_536);
        let forward: &'static Forward = Box::leak(Box::new(Forward { settings, ..plain(forward) }));
        ring.write(0, &[b"message"]);
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
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

    fn plain(forward: &Forward) -> Forward {
        Forward {
            sink: Arc::clone(&forward.sink),
            server: Arc::clone(&forward.server),
            address: forward.address.clone(),
            settings: ServerSettings::default(),
            connect_timeout: forward.connect_timeout,
            server_timeout: forward.server_timeout,
            behind: std::sync::atomic::AtomicBool::new(false),
        }
    }

    #[test]
    fn connections_begin_and_come_from_where_the_line_says() {
        let source = Source {
            host: Host::Ip([127, 0, 0, 2].into()),
            first_port: 0,
            last_port: 0,
            transparent: None,
            interface: None,
        };
        let v1 = ServerSettings {
            send_proxy: Some(SendProxy::V1),
            source: Some(Arc::new(source)),
            ..ServerSettings::default()
        };
        let (from, said) = said_with(v1);
        assert_eq!(from, std::net::IpAddr::from([127, 0, 0, 2]));
        assert_eq!(said, b"PROXY UNKNOWN\r\nmessage");
        let v2 = ServerSettings {
            send_proxy: Some(SendProxy::V2),
            framing: Framing::OctetCount,
            ..ServerSettings::default()
        };
        let (_, said) = said_with(v2);
        let header = weir_proxy::parse(&said).expect("a header").expect("all of it");
        assert_eq!((header.command, header.addresses), (Command::Local, Addresses::Unknown));
        assert_eq!(&said[header.length..], b"7 message");
    }

    /// A server that takes the connection and then neither reads nor leaves: writers lose messages, and no time.
    #[test]
    fn a_server_that_takes_nothing_costs_messages_and_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (ring, forward) = forward(listener.local_addr().expect("an address"), 16_384);
        let theirs = Arc::clone(&ring);
        let slowest = weir_sched::run(async move {
            weir_sched::spawn(&FORWARD, Class::Bulk, run(forward));
            let mut slowest = Duration::ZERO;
            // Until the sockets' buffers and the ring are full, however large the kernel makes those.
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
}
