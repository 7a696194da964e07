//! Each source of a body with each sink, with and without filters and inspection. However the bytes are split, payload, trailers
//! and the end are the same.

mod support;

use std::cell::Cell;
use std::rc::Rc;

use support::instance::datagrams::Arrivals;
use support::instance::datagrams::pattern::{Pattern, Way};
use support::{HTTP, Peer, World, run};
use weir_h2::{Connection, ConnectionEvent, ConnectionLimits, ErrorCode};
use weir_http::Kind;
use weir_mux::Message;
use weir_sched::{Class, TaskKey, Tick, current, now, sleep_until, spawn, wait, wake, yield_now};

const PIECES: [&str; 2] = ["hello", " world!"];
const TRAILERS: &str = "x-sum: 9\r\n";

/// The protocol of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// The framing of a body. In HTTP/2 bodies without a length end with trailers or DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Length,
    Chunks,
    Close,
}

/// A peer, with its HTTP/2 engine if it speaks HTTP/2.
struct End {
    peer: Peer,
    engine: Option<Connection>,
    input: Vec<u8>,
    kind: Kind,
    stream: u32,
}

impl End {
    /// A client or a server. `kind` is the kind of message that it sends.
    fn new(peer: Peer, protocol: Protocol, kind: Kind) -> End {
        let engine = (protocol == Protocol::Http2).then(|| match kind {
            Kind::Request => Connection::client(ConnectionLimits::default()),
            Kind::Response => Connection::server(ConnectionLimits::default()),
        });
        End { peer, engine, input: Vec::new(), kind, stream: 0 }
    }

    /// The bytes of a message.
    fn bytes(&mut self, form: Form) -> Vec<u8> {
        let first = match self.kind {
            Kind::Request => "POST / HTTP/1.1\r\nhost: x\r\n",
            Kind::Response => "HTTP/1.1 200 OK\r\n",
        };
        let framing = match form {
            Form::Length => "content-length: 12\r\n",
            Form::Chunks => "transfer-encoding: chunked\r\n",
            Form::Close => "",
        };
        let Some(engine) = &mut self.engine else {
            let body = match form {
                Form::Chunks => format!("5;n=v\r\nhello\r\n7\r\n world!\r\n0\r\n{TRAILERS}\r\n"),
                _ => PIECES.concat(),
            };
            return format!("{first}{framing}\r\n{body}").into_bytes();
        };
        let mut message = Message::new(10);
        message.read_kept(self.kind, format!("{first}{framing}\r\n").as_bytes()).expect("a head");
        match self.kind {
            Kind::Request => {
                let opened = engine.open(&message.head, message.bytes(), b"http", true, false);
                self.stream = opened.expect("there is room");
            }
            Kind::Response => {
                assert!(engine.send_head(self.stream, &message.head, message.bytes(), false));
            }
        }
        for (at, piece) in PIECES.iter().enumerate() {
            let ends = at == 1 && form != Form::Chunks;
            assert_eq!(engine.send_data(self.stream, piece.as_bytes(), ends), piece.len());
        }
        if form == Form::Chunks {
            assert!(engine.send_trailers(self.stream, TRAILERS.as_bytes()));
        }
        let bytes = engine.output().to_vec();
        engine.flushed(bytes.len());
        bytes
    }

    /// Sends a message in two pieces. The proxy receives each separately.
    async fn send(&mut self, bytes: &[u8], cut: usize) {
        for piece in [&bytes[..cut], &bytes[cut..]] {
            self.peer.send(piece).await;
            for _ in 0..4 {
                yield_now().await;
            }
        }
    }

    /// Receives a message. Returns its payload and its trailers.
    async fn receive(&mut self) -> (String, String) {
        let (payload, trailers) = self.outcome().await;
        (payload, trailers.expect("it is complete"))
    }

    /// Receives a message. Returns its payload and its trailers, `None` if the message was truncated.
    async fn outcome(&mut self) -> (String, Option<String>) {
        let mut payload = String::new();
        loop {
            let ended = match self.engine.is_some() {
                true => self.look(&mut payload),
                false => whole(&self.input, &mut payload).map(Some),
            };
            self.flush().await;
            if let Some(trailers) = ended {
                if self.engine.is_none() {
                    self.input.clear();
                }
                return (payload, trailers);
            }
            let first = self.peer.read(1).await;
            if first.is_empty() {
                let text = String::from_utf8_lossy(&self.input).into_owned();
                let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
                let is_delimited = head.contains("content-length") || head.contains("chunked");
                return match head {
                    "" => (payload, None),
                    _ if is_delimited => (payload, None),
                    _ => (body.to_owned(), Some(String::new())),
                };
            }
            self.input.extend(first);
            self.input.extend(self.peer.read_now(65_536).await);
        }
    }

    /// Sends the engine's output.
    async fn flush(&mut self) {
        if let Some(engine) = &mut self.engine {
            let output = engine.output().to_vec();
            engine.flushed(output.len());
            self.peer.try_send(&output).await;
        }
    }

    /// Passes the input to the engine. Returns the trailers once the message is complete, `Some(None)` if it was truncated.
    fn look(&mut self, payload: &mut String) -> Option<Option<String>> {
        let engine = self.engine.as_mut()?;
        loop {
            let (used, event) = engine.advance(&self.input, 0);
            let mut ended = None;
            match event {
                ConnectionEvent::More => {
                    self.input.drain(..used);
                    return None;
                }
                ConnectionEvent::Request { stream, end } | ConnectionEvent::Response { stream, end } => {
                    let mut head = engine.room();
                    engine.take_head(&mut head);
                    assert!(!end && head.fault.is_none());
                    self.stream = stream;
                }
                ConnectionEvent::Data { bytes, end, stream } => {
                    payload.push_str(&String::from_utf8_lossy(&self.input[bytes.clone()]));
                    engine.consumed(stream, bytes.len() as u32);
                    ended = end.then(|| Some(String::new()));
                }
                ConnectionEvent::Trailers { .. } => {
                    ended = Some(Some(String::from_utf8_lossy(engine.trailers()).into_owned()));
                }
                ConnectionEvent::Reset { .. } => ended = Some(None),
                ConnectionEvent::Window { .. } => {}
                other => panic!("{other:?}"),
            }
            self.input.drain(..used);
            if ended.is_some() {
                return ended;
            }
        }
    }
}

/// Reads an HTTP/1 message with a length or in chunks. Returns its trailers once it is complete.
fn whole(input: &[u8], payload: &mut String) -> Option<String> {
    let text = std::str::from_utf8(input).expect("a text");
    let (head, mut body) = text.split_once("\r\n\r\n")?;
    payload.clear();
    if !head.contains("chunked") {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        let length: usize = length.parse().expect("a number");
        assert!(body.len() <= length, "{text}");
        payload.push_str(body);
        return (body.len() == length).then(String::new);
    }
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            let end =
                rest.find("\r\n\r\n").map(|at| at + 2).or_else(|| rest.starts_with("\r\n").then_some(0))?;
            assert_eq!(&rest[end..], "\r\n");
            return Some(rest[..end].to_owned());
        }
        payload.push_str(&rest[..size.min(rest.len())]);
        body = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}

/// One exchange. Its request or its response is split.
async fn exchange(
    world: &World,
    client: &mut End,
    server: Protocol,
    forms: [Form; 2],
    cut: impl Fn(Kind, usize) -> usize,
) -> [(String, String); 2] {
    let bytes = client.bytes(forms[0]);
    client.send(&bytes, cut(Kind::Request, bytes.len()).min(bytes.len())).await;
    let mut server = End::new(world.accept("s1").await, server, Kind::Response);
    let request = server.receive().await;
    let bytes = server.bytes(forms[1]);
    server.send(&bytes, cut(Kind::Response, bytes.len()).min(bytes.len())).await;
    if forms[1] == Form::Close && server.engine.is_none() {
        server.peer.finish();
    }
    [request, client.receive().await]
}

/// Checks all split positions of one pair, on one client connection.
#[track_caller]
fn check(protocols: [Protocol; 2], mode: &'static str) {
    let word = |protocol| if protocol == Protocol::Http2 { " proto h2" } else { "" };
    let [client_word, server_word] = protocols.map(word);
    let text = format!(
        "{HTTP}listen front\n bind 127.0.0.1:1{client_word}\n http-reuse never\n{mode}\n server s1 {{s1}}{server_word}\n"
    );
    run(text, move |world| async move {
        let mut client = End::new(world.client(), protocols[0], Kind::Request);
        // Trailers exist only if both sides frame the body without a length.
        let whole = |form| (PIECES.concat(), if form == Form::Chunks { TRAILERS } else { "" }.to_owned());
        for forms in [[Form::Length; 2], [Form::Chunks; 2], [Form::Length, Form::Close]] {
            let mut length = [usize::MAX; 2];
            let mut cut = 1;
            while cut < length[0].max(length[1]) {
                let seen = Cell::new([0; 2]);
                let at = |kind, bytes| {
                    let mut all = seen.get();
                    all[usize::from(kind == Kind::Response)] = bytes;
                    seen.set(all);
                    cut
                };
                let came = exchange(&world, &mut client, protocols[1], forms, at).await;
                length = seen.get();
                assert_eq!(came, forms.map(whole), "{protocols:?}, {mode}, {forms:?} cut at {cut}");
                cut += 1;
                // The body may be delimited by the close of the connection.
                if forms[1] == Form::Close {
                    client = End::new(world.client(), protocols[0], Kind::Request);
                }
            }
        }
    });
}

/// Payload is the same in weir's own chunks, with a length, and in DATA frames.
#[test]
fn every_pair_of_protocols_forwards_bodies_at_every_cut() {
    for mode in ["", " filter trace quiet max-fwd 3", " option http-buffer-request"] {
        for client in [Protocol::Http1, Protocol::Http2] {
            for server in [Protocol::Http1, Protocol::Http2] {
                check([client, server], mode);
            }
        }
    }
}

/// Requests a body in pieces of a datagram's size, on a new connection. `version` is the version of an HTTP/1 request.
async fn request(client: &mut End, number: u64, length: usize, version: &str) {
    let head = format!("GET /{number}/Datagrams/{length}/0 HTTP/{version}\r\nhost: x\r\n\r\n");
    let bytes = match &mut client.engine {
        None => head.into_bytes(),
        Some(engine) => {
            let mut message = Message::new(10);
            message.read_kept(Kind::Request, head.as_bytes()).expect("a head");
            let opened = engine.open(&message.head, message.bytes(), b"http", true, true);
            client.stream = opened.expect("there is room");
            let bytes = engine.output().to_vec();
            engine.flushed(bytes.len());
            bytes
        }
    };
    client.peer.send(bytes).await;
}

/// Small pieces, lent and appended, at irregular times: in chunks, until the connection closes, and in DATA frames.
#[test]
fn bodies_in_datagram_sized_pieces_arrive_complete() {
    let sinks = [(Protocol::Http1, "1.1"), (Protocol::Http1, "1.0"), (Protocol::Http2, "1.1")];
    let limit = " filter bwlim-out o default-limit 1m default-period 1s\n http-request set-bandwidth-limit o";
    for mode in ["", " filter trace quiet max-fwd 700", limit] {
        for (protocol, version) in sinks {
            let word = if protocol == Protocol::Http2 { " proto h2" } else { "" };
            let text =
                format!("{HTTP}listen front\n bind 127.0.0.1:1{word}\n{mode}\n stats enable\n stats uri /\n");
            run(text, move |world| async move {
                for (number, length) in [1, 1199, 1400, 16_384, 40_000, 200_000].into_iter().enumerate() {
                    for number in [number as u64, number as u64 + 100] {
                        let mut client = End::new(world.client(), protocol, Kind::Request);
                        request(&mut client, number, length, version).await;
                        let (body, trailers) = client.receive().await;
                        let want = Pattern::new(number, Way::Down).make(length);
                        let is_whole = body.as_bytes() == want && trailers.is_empty();
                        assert!(
                            is_whole,
                            "{protocol:?} {version}, {mode}, {number}: {} of {length}",
                            body.len()
                        );
                    }
                }
            });
        }
    }
}

/// An HTTP/2 request with a body in datagrams.
#[derive(Clone, Copy, Debug)]
struct Upload {
    number: u64,
    length: usize,
    /// Whether its head announces the length.
    announced: bool,
    end: UploadEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UploadEnd {
    /// With the last datagram.
    With,
    Apart,
    Trailers,
    /// The stream is reset, or the connection closed, in place of this datagram.
    Reset(usize),
    Close(usize),
}

impl Upload {
    /// Sends the request, each datagram separately, and receives window updates. False if the server's response will not arrive.
    async fn send(self, client: &mut End) -> bool {
        let Upload { number, length, announced, end } = self;
        let framing = if announced { format!("content-length: {length}\r\n") } else { String::new() };
        let mut message = Message::new(10);
        let head = format!("POST /{number} HTTP/1.1\r\nhost: x\r\n{framing}\r\n");
        message.read_kept(Kind::Request, head.as_bytes()).expect("a head");
        let engine = client.engine.as_mut().expect("HTTP/2");
        let stream =
            engine.open(&message.head, message.bytes(), b"http", true, false).expect("there is room");
        client.stream = stream;
        client.flush().await;
        let mut arrivals = Arrivals::new(number, Way::Up, length, 3);
        let mut sent = 0;
        while !arrivals.is_over() {
            let Some(mut datagram) = arrivals.take() else {
                sleep_until(arrivals.next_at()).await;
                continue;
            };
            match end {
                UploadEnd::Reset(at) if at == sent => {
                    client.engine.as_mut().expect("HTTP/2").reset(stream, ErrorCode::Cancel);
                    client.flush().await;
                    return false;
                }
                UploadEnd::Close(at) if at == sent => {
                    client.flush().await;
                    client.peer.finish();
                    return false;
                }
                _ => {}
            }
            let ends = arrivals.is_over() && end == UploadEnd::With;
            while !datagram.is_empty() {
                let engine = client.engine.as_mut().expect("HTTP/2");
                let count = engine.send_data(stream, &datagram, ends);
                datagram.drain(..count);
                client.flush().await;
                client.input.extend(client.peer.read_now(65_536).await);
                assert_eq!(client.look(&mut String::new()), None, "nothing ends before the request");
                if count == 0 {
                    sleep_until(now().after(1)).await;
                }
            }
            sent += 1;
            // The proxy receives each separately.
            for _ in 0..4 {
                yield_now().await;
            }
        }
        let engine = client.engine.as_mut().expect("HTTP/2");
        match end {
            UploadEnd::Apart => assert_eq!(engine.send_data(stream, b"", true), 0),
            UploadEnd::Trailers => assert!(engine.send_trailers(stream, TRAILERS.as_bytes())),
            _ => {}
        }
        client.flush().await;
        true
    }
}

/// Uploads through a proxy with these lines. The server closes its first `failures` connections once it has the request.
#[track_caller]
fn check_uploads(server: Protocol, mode: &'static str, failures: usize, uploads: Vec<Upload>) {
    let word = if server == Protocol::Http2 { " proto h2" } else { "" };
    let text = format!(
        "{HTTP}listen front\n bind 127.0.0.1:1 proto h2\n http-reuse never\n{mode}\n server s1 {{s1}}{word}\n"
    );
    run(text, move |world| async move {
        for upload in uploads {
            let seen = Rc::new(Served::default());
            let (origin, at_server) = (world.origin("s1"), Rc::clone(&seen));
            let task = spawn(&SERVER, Class::Normal, async move {
                for _ in 0..failures {
                    let mut failing = End::new(origin.accept().await, server, Kind::Response);
                    assert!(failing.outcome().await.1.is_some(), "the whole request came");
                }
                let mut end = End::new(origin.accept().await, server, Kind::Response);
                let (payload, trailers) = end.outcome().await;
                if trailers.is_some() {
                    let bytes = end.bytes(Form::Chunks);
                    end.peer.send(bytes).await;
                }
                at_server.came.set(Some((payload, trailers)));
                wake(at_server.waiting.get());
                // The connection stays until the script is over.
                wait(Tick::NEVER).await;
            });
            let mut client = End::new(world.client(), Protocol::Http2, Kind::Request);
            let is_whole = upload.send(&mut client).await;
            if is_whole {
                assert_eq!(client.receive().await, (PIECES.concat(), TRAILERS.to_owned()), "{upload:?}");
            }
            let log = world.log().await;
            let case = format!("{server:?}, {mode}, {upload:?}: {log}");
            if log.contains("<NOSRV>") {
                assert!(!is_whole && mode.contains("buffer"), "{case}");
            } else {
                let (payload, trailers) = seen.came().await;
                let want = Pattern::new(upload.number, Way::Up).make(upload.length);
                assert!(want.starts_with(payload.as_bytes()), "{case}: other bytes");
                assert_eq!(trailers.is_some(), is_whole, "{case}: {} bytes", payload.len());
                if is_whole {
                    assert_eq!(payload.len(), upload.length, "{case}");
                    // In HTTP/1 no trailers follow a body with a length.
                    let go_on = server == Protocol::Http2 || !upload.announced;
                    let sent = if upload.end == UploadEnd::Trailers && go_on { TRAILERS } else { "" };
                    assert_eq!(trailers.as_deref(), Some(sent), "{case}");
                }
            }
            weir_sched::kill(task);
        }
    });
}

/// The request that a server got.
#[derive(Default)]
struct Served {
    came: Cell<Option<(String, Option<String>)>>,
    waiting: Cell<TaskKey>,
}

impl Served {
    async fn came(&self) -> (String, Option<String>) {
        self.waiting.set(current());
        loop {
            if let Some(came) = self.came.take() {
                return came;
            }
            let ended = wait(now().after(60_000)).await;
            assert_ne!(ended, weir_sched::Wakeup::Deadline, "the server has not got to an end");
        }
    }
}

static SERVER: weir_sched::WorkKind = weir_sched::WorkKind::new("server");
const SERVERS: [Protocol; 2] = [Protocol::Http1, Protocol::Http2];
const INSPECTED: &str = " option http-buffer-request\n http-request set-header x-size %[req.body_len]";

/// A QUIC-like client. Each datagram of the body arrives separately, the end with the last one, alone, or with trailers.
#[test]
fn uploads_in_datagrams_arrive_complete() {
    let waits =
        " http-request wait-for-body time 10s at-least 3000\n http-request set-header x-size %[req.body_len]";
    for mode in ["", " filter trace quiet max-fwd 700", INSPECTED, waits] {
        for server in SERVERS {
            let mut uploads = Vec::new();
            for (number, length) in (1..).zip([1, 1199, 1400, 4000, 16_384, 40_000, 200_000]) {
                for end in [UploadEnd::With, UploadEnd::Apart, UploadEnd::Trailers] {
                    uploads.push(Upload { number, length, announced: false, end });
                    uploads.push(Upload { number: number + 100, length, announced: true, end });
                }
            }
            check_uploads(server, mode, 0, uploads);
        }
    }
}

/// A kept body is resent unchanged.
#[test]
fn uploads_in_datagrams_are_resent_unchanged() {
    let mode = " option http-buffer-request\n retries 3\n retry-on all-retryable-errors";
    for server in SERVERS {
        let mut uploads = Vec::new();
        for (number, length) in (1..).zip([1, 1400, 4000, 14_000]) {
            for end in [UploadEnd::With, UploadEnd::Apart, UploadEnd::Trailers] {
                uploads.push(Upload { number, length, announced: false, end });
                uploads.push(Upload { number, length, announced: true, end });
            }
        }
        check_uploads(server, mode, 2, uploads);
    }
}

/// Wherever an upload is truncated, no server takes it for a complete one.
#[test]
fn an_upload_truncated_at_any_datagram_is_never_complete_at_the_server() {
    for mode in ["", " filter trace quiet max-fwd 700", INSPECTED] {
        for server in SERVERS {
            let mut uploads = Vec::new();
            for at in 0..12 {
                for end in [UploadEnd::Reset(at), UploadEnd::Close(at)] {
                    uploads.push(Upload { number: 7, length: 20_000, announced: at % 2 == 0, end });
                    uploads.push(Upload { number: 8, length: 20_000, announced: at % 2 == 1, end });
                }
            }
            check_uploads(server, mode, 0, uploads);
        }
    }
}
