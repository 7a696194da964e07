//! Scripted HTTP/2 clients and servers: many concurrent streams, with windows of any size, resets, early ends and broken connections.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_h2::{Connection, ConnectionLimits, ErrorCode};
use weir_http::Kind;
use weir_mux::Message;
use weir_sched::simulate::network::{SimulatedNetwork, SimulatedPeer};
use weir_sched::{Tick, now};

use crate::client::Answer;
use crate::pattern::{Pattern, Way};
use crate::plan::{How, Leave, Menu, PlannedRequest, Upload, Visit};
use crate::sending::Sending;
use crate::stage::Stage;
use crate::wire::{Came, Wire, field, message};

/// Several clients with several connections each, and several streams on each.
pub(crate) fn some(stage: &Rc<Stage>, most: u64, menu: &'static Menu) {
    for _ in 0..=stage.network.random(most) {
        let guest = Rc::clone(stage);
        stage.play(async move {
            for _ in 0..=guest.network.random(2) {
                let visits = (0..=guest.network.random(3)).map(|_| Visit::drawn(&guest, menu));
                let visits: Vec<Visit> = visits.collect();
                let leave = visits[0].leave;
                let requests = visits.into_iter().flat_map(|visit| visit.requests).collect();
                visit(&guest, requests, leave, menu.datagrams).await;
            }
        });
    }
}

/// Window sizes, and the limit of concurrent streams.
fn limits(network: &SimulatedNetwork) -> ConnectionLimits {
    let stream_window = [64, 500, 3_000, 65_535][network.random(4) as usize];
    ConnectionLimits {
        stream_window,
        connection_window: [65_535, 100_000, 1 << 20][network.random(3) as usize],
        concurrent_streams: [1, 3, 100][network.random(3) as usize],
        header_table_size: [0, 100, 4096][network.random(3) as usize],
        ..ConnectionLimits::default()
    }
}

/// A client's request in progress.
struct NameLookup {
    request: PlannedRequest,
    body: Sending,
    answer: Answer,
    came: Pattern,
    open: bool,
    /// The request is cancelled after this many bytes of the answer.
    given_up_at: Option<usize>,
}

struct Client<'s> {
    stage: &'s Stage,
    wire: Wire<'s>,
    waiting: Vec<PlannedRequest>,
    requested: BTreeMap<u32, NameLookup>,
    most: usize,
    datagrams: bool,
}

/// Runs all requests of one connection of a client.
async fn visit(stage: &Stage, mut requests: Vec<PlannedRequest>, leave: Leave, datagrams: bool) {
    let network = &stage.network;
    requests.reverse();
    let peer = stage.client();
    let wire = Wire::new(&peer, Connection::client(limits(network)));
    let most = 1 + network.random(8) as usize;
    let mut client = Client { stage, wire, waiting: requests, requested: BTreeMap::new(), most, datagrams };
    let gone = client.run(leave).await;
    let Client { requested, .. } = client;
    for NameLookup { request, answer, .. } in requested.into_values() {
        stage.answered(&request, answer);
    }
    stage.client_ends(&peer);
    match leave {
        Leave::ResetAfter(_) if gone => peer.reset(),
        Leave::VanishAfter(_) if gone => peer.vanish(),
        _ => drop(peer),
    }
}

impl Client<'_> {
    /// Runs the visit. True if the client leaves before it is done.
    async fn run(&mut self, leave: Leave) -> bool {
        loop {
            self.begin();
            let sent = self.send_bodies();
            let most = 1 + self.stage.network.random(20_000) as usize;
            let moved = self.wire.step(most);
            let nothing = moved.is_none() && !sent;
            moved.into_iter().flatten().for_each(|came| self.take(came));
            match leave {
                Leave::After(bytes) | Leave::ResetAfter(bytes) | Leave::VanishAfter(bytes)
                    if self.wire.moved >= bytes =>
                {
                    return true;
                }
                _ => {}
            }
            let idle = !self.requested.values().any(|requested| requested.open);
            if self.wire.ended || (idle && (self.waiting.is_empty() || self.wire.engine.is_closing())) {
                return false;
            }
            if nothing {
                match self.stage.network.random(20) {
                    0 => weir_sched::sleep_until(now().after(self.stage.network.random(200))).await,
                    _ => self.wire.wait(self.next_at()).await,
                }
            }
        }
    }

    fn begin(&mut self) {
        let live = self.requested.values().filter(|requested| requested.open).count();
        for _ in live..self.most {
            let Some(request) = self.waiting.last().cloned() else { return };
            let network = &self.stage.network;
            let head = message(Kind::Request, &head_of(&request));
            let ends = request.upload == Upload::None;
            let Some(id) = self.wire.engine.open(&head.head, head.bytes(), b"http", true, ends) else {
                return;
            };
            self.waiting.pop();
            // Some are retried.
            if !self.requested.values().any(|requested| requested.request.id == request.id) {
                self.stage.note_request(&request, false);
            }
            let given_up_at = (self.stage.faulty && network.random(6) == 0)
                .then(|| network.random(1 + 2 * request.download as u64) as usize);
            let came = Pattern::new(request.id, Way::Down);
            let body = Sending::of(&request, self.datagrams, self.stage);
            let requested =
                NameLookup { request, body, answer: Answer::default(), came, open: true, given_up_at };
            self.requested.insert(id, requested);
        }
    }

    /// When the next piece of a body arrives.
    fn next_at(&self) -> Tick {
        let open = self.requested.values().filter(|requested| requested.open);
        open.map(|requested| requested.body.next_at()).min().unwrap_or(Tick::NEVER)
    }

    /// Sends the next pieces of bodies. True if any byte was sent.
    fn send_bodies(&mut self) -> bool {
        let mut sent = false;
        for (id, requested) in self.requested.iter_mut().filter(|(_, requested)| requested.open) {
            sent |= requested.body.send(*id, &mut self.wire, &self.stage.network);
        }
        let (engine, requested) = (&mut self.wire.engine, &mut self.requested);
        for (id, requested) in requested.iter_mut().filter(|(_, requested)| requested.open) {
            if requested.given_up_at.is_some_and(|at| requested.came.done >= at)
                || requested.body.is_given_up()
            {
                requested.open = false;
                engine.reset(*id, ErrorCode::Cancel);
            }
        }
        sent
    }

    fn take(&mut self, came: Came) {
        match came {
            Came::Head(id, head, end) => {
                let Some(requested) = self.requested.get_mut(&id).filter(|requested| requested.open) else {
                    return;
                };
                let from_server = field(&head, "x-from").is_some();
                if from_server {
                    let own = requested.request.id.to_string();
                    assert_eq!(field(&head, "x-id"), Some(own), "the answer to another request");
                }
                requested.answer = Answer { status: head.head.status(), from_server, complete: false };
                if end {
                    requested.end();
                }
            }
            Came::Data(id, bytes, end) => {
                self.wire.engine.consumed(id, bytes.len() as u32);
                let Some(requested) = self.requested.get_mut(&id).filter(|requested| requested.open) else {
                    return;
                };
                if requested.answer.from_server {
                    requested.came.check(&bytes);
                }
                if end {
                    requested.end();
                }
            }
            Came::End(id) => {
                if let Some(requested) = self.requested.get_mut(&id).filter(|requested| requested.open) {
                    requested.end();
                }
            }
            Came::Reset(id, refused) => {
                if let Some(requested) = self.requested.get_mut(&id).filter(|requested| requested.open) {
                    let request = &requested.request;
                    self.stage.network.note(&format!("{} is reset, refused: {refused}", request.id));
                    requested.open = false;
                    if refused {
                        self.waiting.push(request.clone());
                    }
                }
            }
            Came::GoAway(last) => {
                for (_, requested) in self.requested.iter_mut().filter(|(id, _)| **id > last) {
                    requested.open = false;
                }
            }
        }
    }
}

impl NameLookup {
    /// The last byte was received.
    fn end(&mut self) {
        let whole = self.request.method == "HEAD" || self.came.done == self.request.download;
        assert!(whole || !self.answer.from_server, "{} of {:?}", self.came.done, self.request);
        self.answer.complete = true;
        self.open = false;
    }
}

fn head_of(request: &PlannedRequest) -> Vec<u8> {
    let PlannedRequest { id, method, how, download, delay_ms, upload, .. } = request;
    let body = match upload {
        Upload::None => String::new(),
        Upload::Length(length) => format!("content-length: {length}\r\n"),
        Upload::Chunked(_) => "transfer-encoding: chunked\r\n".to_owned(),
    };
    format!("{method} /{id}/{how:?}/{download}/{delay_ms} HTTP/1.1\r\nhost: a\r\nx-id: {id}\r\n{body}\r\n")
        .into_bytes()
}

/// A request at a server.
struct Served {
    id: u64,
    how: String,
    length: usize,
    head_only: bool,
    came: Pattern,
    /// When the request is answered. `None` before it is complete.
    answer_at: Option<Tick>,
    delay_ms: u64,
    /// The rest of the body, to be sent after the head.
    body: Option<Vec<u8>>,
    /// The response is truncated there, or never sent.
    breaks: bool,
}

/// Makes HTTP/2 servers follow the requests' paths.
pub(crate) fn host(stage: &Rc<Stage>) {
    stage.multiplexed.set(true);
    for name in ["s1", "s2"].into_iter().filter(|name| stage.has_service(name)) {
        let of = Rc::clone(stage);
        stage.host_with(name, move |peer| serve(Rc::clone(&of), peer));
    }
}

/// Serves a connection until it ends. The path of each request selects its handling.
pub(crate) async fn serve(stage: Rc<Stage>, peer: SimulatedPeer) {
    let end = serve_streams(&stage, &peer).await;
    stage.server_ends(&peer);
    match end {
        End::Close => drop(peer),
        End::Reset => peer.reset(),
        End::Vanish => peer.vanish(),
    }
}

enum End {
    Close,
    Reset,
    Vanish,
}

async fn serve_streams(stage: &Stage, peer: &SimulatedPeer) -> End {
    let network = &stage.network;
    // A server's limit of streams is known once its SETTINGS have arrived, and a request with a body that it refused before cannot
    // be sent again.
    let drawn = limits(network);
    let concurrent_streams = if stage.faulty { drawn.concurrent_streams } else { 100 };
    let limits = ConnectionLimits { concurrent_streams, ..drawn };
    let mut wire = Wire::new(peer, Connection::server(limits));
    let mut streams: BTreeMap<u32, Served> = BTreeMap::new();
    // A request with a partly sent body cannot be retried, so servers do not leave in faultless runs.
    let leaves_after = (stage.faulty && network.random(4) == 0).then(|| 1 + network.random(6));
    let mut begun = 0;
    loop {
        if let Some(end) = answer(stage, &mut wire, &mut streams) {
            wire.send();
            return end;
        }
        let moved = wire.step(1 + network.random(20_000) as usize);
        let nothing = moved.is_none();
        for came in moved.into_iter().flatten() {
            match came {
                Came::Head(stream, head, end) => {
                    begun += 1;
                    streams.insert(stream, Served::begin(stage, &head, end));
                    if field(&head, "expect").is_some() {
                        let interim = message(Kind::Response, b"HTTP/1.1 100 Continue\r\n\r\n");
                        wire.engine.send_head(stream, &interim.head, interim.bytes(), false);
                    }
                }
                Came::Data(stream, bytes, end) => {
                    wire.engine.consumed(stream, bytes.len() as u32);
                    if let Some(served) = streams.get_mut(&stream) {
                        served.came.check(&bytes);
                        served.answer_at = end.then(|| now().after(served.delay_ms));
                    }
                }
                Came::End(stream) => {
                    if let Some(served) = streams.get_mut(&stream) {
                        served.answer_at = Some(now().after(served.delay_ms));
                    }
                }
                Came::Reset(stream, _) => {
                    streams.remove(&stream);
                }
                Came::GoAway(_) => {}
            }
        }
        // Streams in progress are finished. Later ones are refused, and clients retry them elsewhere.
        if leaves_after.is_some_and(|count| begun >= count) && !wire.engine.is_leaving() {
            match network.random(2) {
                0 => wire.engine.leave(),
                _ => wire.engine.farewell(),
            }
        }
        // The far end may have unread bytes. Closing while it still sends would reset the connection.
        if wire.ended {
            return End::Close;
        }
        if nothing {
            let next = streams.values().filter(|served| served.body.is_none() && !served.breaks);
            let next = next.filter_map(|served| served.answer_at).min();
            wire.wait(next.unwrap_or(Tick::NEVER)).await;
        }
    }
}

/// Answers the requests that are due. Returns how the connection ends, if it does.
fn answer(stage: &Stage, wire: &mut Wire<'_>, streams: &mut BTreeMap<u32, Served>) -> Option<End> {
    let network = &stage.network;
    let mut over = Vec::new();
    for (stream, served) in streams.iter_mut() {
        if served.body.is_none() && !served.breaks && served.answer_at.is_some_and(|at| now() >= at) {
            match &*served.how {
                "Silent" => served.breaks = true,
                "Mute" => {
                    wire.engine.reset(*stream, ErrorCode::Internal);
                    over.push(*stream);
                    continue;
                }
                "Garbage" => return Some(End::Close),
                "Vanish" => return Some(End::Vanish),
                _ => served.begin_answer(*stream, wire),
            }
        }
        let Some(body) = &mut served.body else { continue };
        let piece = (network.random(8_000) as usize).min(body.len());
        let breaks = matches!(&*served.how, "Truncated" | "Reset" | "Rash");
        let ends = piece == body.len() && !breaks;
        let sent = wire.engine.send_data(*stream, &body[..piece], ends && !served.head_only);
        body.drain(..sent);
        match &*served.how {
            _ if !body.is_empty() || sent < piece => {}
            "Truncated" | "Rash" => {
                wire.engine.reset(*stream, ErrorCode::Internal);
                over.push(*stream);
            }
            "Reset" => return Some(End::Reset),
            _ if wire.engine.sendable(*stream).is_none() => over.push(*stream),
            _ => {}
        }
    }
    over.iter().for_each(|stream| drop(streams.remove(stream)));
    None
}

impl Served {
    fn begin(stage: &Stage, head: &Message, end: bool) -> Served {
        let raw = head.bytes();
        let path = String::from_utf8_lossy(head.head.uri(raw)).into_owned();
        let path =
            path.trim_start_matches("http").trim_start_matches('s').trim_start_matches("://a").to_owned();
        let (id, how, length, delay_ms) =
            PlannedRequest::understood(&path).unwrap_or_else(|| panic!("nobody sent {path}"));
        assert_eq!(field(head, "x-id"), Some(id.to_string()), "a head of two requests");
        let method = String::from_utf8_lossy(head.head.method_text(raw)).into_owned();
        stage.arrived(id, &format!("{method} {path}"));
        Served {
            id,
            how,
            length,
            head_only: method == "HEAD",
            came: Pattern::new(id, Way::Up),
            answer_at: end.then(|| now().after(delay_ms)),
            delay_ms,
            body: None,
            breaks: false,
        }
    }

    fn begin_answer(&mut self, stream: u32, wire: &mut Wire<'_>) {
        let (id, length) = (self.id, self.length);
        let announced = match &*self.how {
            "Length" | "Last" | "Early" => format!("content-length: {length}\r\n"),
            "Truncated" | "Reset" | "Rash" => format!("content-length: {}\r\n", length + 1),
            _ => String::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\nx-from: server\r\nx-id: {id}\r\n{announced}\r\n");
        let head = message(Kind::Response, head.as_bytes());
        wire.engine.send_head(stream, &head.head, head.bytes(), self.head_only);
        let body = if self.head_only { 0 } else { length };
        self.body = Some(Pattern::new(id, Way::Down).make(body));
    }
}

/// The behaviours of HTTP/2 servers that requests may select.
pub(crate) const MENU: Menu = Menu {
    hows: &[How::Length, How::Length, How::Chunked, How::Close, How::Last],
    wrong: &[How::Silent, How::Truncated, How::Reset, How::Mute, How::Garbage, How::Vanish, How::Rash],
    pipelined: false,
    half_closed: false,
    large: false,
    datagrams: false,
    announced: false,
    hasty: false,
};
