//! A connection that carries several streams: HTTP/2, with a client or with a server.
//!
//! One task owns the connection. In its turn it takes in what came, gives it to the streams that it concerns, each of which is
//! a task and is woken once, and sends what all of them produced with one call:
//!
//! ```text
//!   receive ──► engine ──► what each stream gets ──► the streams' tasks
//!                                                          │
//!   one send ◄── the engine's output ◄── heads, payload ◄──┘ (this task is woken behind them)
//! ```
//!
//! Streams reach the connection through an `Rc`: they never outlive what they need, and the connection knows them by the
//! numbers of their tasks only.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use weir_h2::{Connection as Engine, ErrorCode, Event, Limits, ReceivedHead};
use weir_http::{Flags, Head};
use weir_net::{Connection, Fault, Received, Sent};
use weir_sched::TaskKey;
use weir_sys::Errno;
use weir_tls::Facts;

mod rooms;
mod shared;

pub(crate) use shared::NoHead;
pub use shared::SharedStream;

/// A connection and its streams.
#[derive(Debug)]
pub struct Multiplexer {
    inner: RefCell<Inner>,
    /// What was agreed on over TLS.
    facts: Option<Facts>,
    /// The task that owns the connection.
    owner: Cell<TaskKey>,
    /// It was woken and did not run yet.
    woken: Cell<bool>,
}

#[derive(Debug)]
struct Inner {
    connection: Connection,
    engine: Engine,
    /// In the order of their numbers.
    slots: Vec<Slot>,
    /// Streams that began and have no task yet.
    started: Vec<u32>,
    /// The peer will not send any more.
    ended: bool,
    /// Nothing passes any more.
    fault: Option<Fault>,
    /// Streams wait until output left.
    crowded: bool,
    /// The last output that was sent did not leave as a whole.
    stuck: bool,
    pace: Pace,
    /// RST_STREAM that came in this turn.
    resets: u32,
    /// The peer is a server.
    asks: bool,
    /// Tasks that wait for the server's first frame.
    curious: Vec<TaskKey>,
}

/// How much one turn of a connection takes in before others have theirs; 0 for no limit of this kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Frames (`tune.h2.fe.max-frames-at-once`).
    pub frames: u32,
    /// RST_STREAM (`tune.h2.fe.max-rst-at-once`): then everybody else is served first.
    pub resets: u32,
}

/// What the connection keeps of a stream.
#[derive(Debug)]
struct Slot {
    id: u32,
    task: TaskKey,
    /// A head that nobody took yet.
    head: Option<Box<ReceivedHead>>,
    /// Those behind it: a server may send several.
    #[allow(clippy::vec_box, reason = "a head is large to move, and taken in its box")]
    later: Vec<Box<ReceivedHead>>,
    /// What came and was not taken over.
    arrived: Vec<u8>,
    /// Payload among it.
    payload: u32,
    /// Its body has no announced length.
    chunked: bool,
    ended: bool,
    /// What ended it before its time.
    fault: Option<Fault>,
    /// The number of the error that the peer reset it with.
    abort: Option<u32>,
    /// It waits for a window.
    blocked: bool,
}

/// What a stream took over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    pub bytes: usize,
    pub payload: u32,
    pub ended: bool,
}

/// How a turn of the connection's task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Everything that could be done is done.
    Quiet,
    /// More could be done: others have their turns first.
    More,
    /// The same, after so many RST_STREAM that everybody else goes first.
    Late,
    /// The connection is over.
    Over,
}

impl Inner {
    fn slot(&mut self, id: u32) -> Option<&mut Slot> {
        let at = self.slots.binary_search_by_key(&id, |slot| slot.id).ok()?;
        self.slots.get_mut(at)
    }

    /// Takes in what came, and shows it to the streams; true if there may be more.
    fn receive(&mut self, now_ms: u64) -> bool {
        let mut fresh = !self.connection.input().is_empty();
        let frames = self.engine.frames();
        self.resets = 0;
        for _ in 0..ROUNDS {
            if fresh && !self.demultiplex(now_ms, frames) {
                return true;
            }
            // Who does not take answers is asked nothing more, and neither is who failed.
            if self.fault.is_some()
                || self.engine.failure().is_some()
                || self.engine.output().len() > MAX_OUTPUT
            {
                return false;
            }
            match self.connection.receive_bulk() {
                Received::Bytes(_) => fresh = true,
                Received::Nothing => return false,
                Received::End => {
                    self.ended = true;
                    self.wake_all();
                    if self.asks {
                        // No more responses: HTTP/2 has no half of a connection.
                        self.fail(Fault::Io(Errno::CONNRESET));
                    }
                    return false;
                }
                Received::Full => self.fail(Fault::Io(Errno::PROTO)),
                Received::Failed(fault) => self.fail(fault),
            }
        }
        true
    }

    /// False if it is not to go on in this turn, which began after so many frames.
    fn demultiplex(&mut self, now_ms: u64, frames: u64) -> bool {
        loop {
            let (used, event) = self.engine.advance(self.connection.input(), now_ms);
            let more = event != Event::More;
            self.happened(event);
            self.connection.consume(used);
            if !more || self.engine.failure().is_some() {
                return true;
            }
            let Pace { frames: most, resets } = self.pace;
            let taken = self.engine.frames() - frames;
            if (most > 0 && taken >= u64::from(most)) || (resets > 0 && self.resets >= resets) {
                return false;
            }
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::More => {}
            Event::Request { stream, end } => {
                let head = self.take_head();
                let chunked = head.head.flags().contains(Flags::CHUNKED);
                self.slots.push(Slot { head: Some(head), chunked, ended: end, ..Slot::new(stream) });
                self.started.push(stream);
            }
            Event::Response { stream, end } => {
                let head = self.take_head();
                let Some(slot) = self.slot(stream) else { return };
                slot.chunked = head.head.flags().contains(Flags::CHUNKED);
                if end {
                    slot.end(b"");
                }
                if slot.head.is_none() {
                    slot.head = Some(head);
                } else if slot.later.len() < HEADS {
                    slot.later.push(head);
                } else {
                    slot.fault = Some(Fault::Protocol);
                    self.engine.reset(stream, ErrorCode::EnhanceYourCalm);
                }
                if let Some(slot) = self.slot(stream) {
                    slot.wake();
                }
            }
            Event::GoAway { last, .. } => {
                for slot in self.slots.iter_mut().filter(|slot| slot.id > last) {
                    slot.fault = Some(Fault::Refused);
                    slot.wake();
                }
            }
            Event::Data { stream, bytes, end } => {
                let bytes = &self.connection.input()[bytes];
                let count = bytes.len() as u32;
                let Ok(at) = self.slots.binary_search_by_key(&stream, |slot| slot.id) else {
                    self.engine.consumed(stream, count);
                    return;
                };
                self.slots[at].payload(bytes);
                if end {
                    self.slots[at].end(b"");
                }
                self.slots[at].wake();
            }
            Event::Trailers { stream } => {
                if let Ok(at) = self.slots.binary_search_by_key(&stream, |slot| slot.id) {
                    self.slots[at].end(self.engine.trailers());
                    self.slots[at].wake();
                }
            }
            Event::Reset { stream, code, received } => {
                self.resets += 1;
                let asks = self.asks;
                if let Some(slot) = self.slot(stream) {
                    slot.fault = Some(match code {
                        ErrorCode::RefusedStream => Fault::Refused,
                        _ => Fault::Io(Errno::CONNRESET),
                    });
                    slot.abort = received;
                    slot.wake();
                    // It was asked for and given up before anybody could look at it.
                    if received.is_some() && !asks && slot.head.is_some() {
                        self.engine.tolerate();
                    }
                }
            }
            Event::Window { stream: 0 } => self.wake_blocked(),
            Event::Window { stream } => {
                if let Some(slot) = self.slot(stream).filter(|slot| slot.blocked) {
                    slot.blocked = false;
                    slot.wake();
                }
            }
            Event::Failed(_) => self.wake_all(),
        }
    }

    /// How much more payload may wait for the peer: none once there is much, so that a piece is mostly taken as a whole.
    fn output_room(&self) -> usize {
        match self.engine.output().len() {
            waiting if waiting >= MAX_OUTPUT => 0,
            waiting => MAX_OUTPUT + PIECE - waiting,
        }
    }

    /// The head that the engine built.
    fn take_head(&mut self) -> Box<ReceivedHead> {
        let mut head = rooms::take().unwrap_or_else(|| Box::new(self.engine.room()));
        self.engine.take_head(&mut head);
        head
    }

    /// Sends what there is; true if all of it left.
    fn flush(&mut self) -> bool {
        if self.engine.output().is_empty() {
            self.stuck = false;
            return true;
        }
        match self.connection.send(self.engine.output(), false) {
            Sent::All => self.engine.flushed(self.engine.output().len()),
            Sent::Part(count) => self.engine.flushed(count),
            Sent::Failed(fault) => self.fail(fault),
        }
        self.stuck = !self.engine.output().is_empty();
        if self.crowded && self.engine.output().len() < MAX_OUTPUT / 2 {
            self.crowded = false;
            self.wake_blocked();
        }
        self.engine.output().is_empty()
    }

    fn fail(&mut self, fault: Fault) {
        if self.fault.is_none() {
            self.fault = Some(fault);
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        self.slots.iter().for_each(Slot::wake);
    }

    fn wake_blocked(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.blocked) {
            slot.blocked = false;
            slot.wake();
        }
    }
}

impl Slot {
    fn new(id: u32) -> Slot {
        Slot {
            id,
            task: TaskKey::NONE,
            head: None,
            later: Vec::new(),
            arrived: Vec::new(),
            payload: 0,
            chunked: false,
            ended: false,
            fault: None,
            abort: None,
            blocked: false,
        }
    }

    fn wake(&self) {
        if !self.task.is_none() {
            weir_sched::wake(self.task);
        }
    }

    fn payload(&mut self, bytes: &[u8]) {
        self.payload += bytes.len() as u32;
        if !self.chunked {
            self.arrived.extend_from_slice(bytes);
        } else if !bytes.is_empty() {
            let header = weir_h1::chunk_encoder::ChunkHeader::new(bytes.len() as u64);
            self.arrived.extend_from_slice(header.as_bytes());
            self.arrived.extend_from_slice(bytes);
            self.arrived.extend_from_slice(weir_h1::chunk_encoder::CHUNK_END);
        }
    }

    /// The peer's last byte came, and these trailers.
    fn end(&mut self, trailers: &[u8]) {
        self.ended = true;
        if self.chunked {
            self.arrived.extend_from_slice(b"0\r\n");
            self.arrived.extend_from_slice(trailers);
            self.arrived.extend_from_slice(b"\r\n");
        }
    }
}

impl Multiplexer {
    /// Takes over a client's connection. The current task owns it.
    pub fn new(connection: Connection, limits: Limits, pace: Pace) -> Rc<Self> {
        Multiplexer::over(connection, Engine::server(limits), pace, false, weir_sched::current())
    }

    /// Takes over a connection to a server. Nobody owns it before [`Multiplexer::own`].
    pub fn to_server(connection: Connection, limits: Limits, pace: Pace) -> Rc<Self> {
        Multiplexer::over(connection, Engine::client(limits), pace, true, TaskKey::NONE)
    }

    fn over(connection: Connection, engine: Engine, pace: Pace, asks: bool, owner: TaskKey) -> Rc<Self> {
        let facts = connection.tls().cloned();
        Rc::new(Multiplexer {
            inner: RefCell::new(Inner {
                connection,
                engine,
                slots: Vec::new(),
                started: Vec::new(),
                ended: false,
                fault: None,
                crowded: false,
                stuck: false,
                pace,
                resets: 0,
                asks,
                curious: Vec::new(),
            }),
            facts,
            owner: Cell::new(owner),
            woken: Cell::new(false),
        })
    }

    /// This task owns the connection from now on.
    pub fn own(&self, task: TaskKey) {
        self.owner.set(task);
        self.inner.borrow().connection.descriptor().set_owner(task);
    }

    /// One turn of the owner: what came is taken in and what is there is sent.
    pub fn turn(&self) -> Turn {
        self.woken.set(false);
        let mut inner = self.inner.borrow_mut();
        let more = !inner.ended && inner.receive(weir_sched::now().as_ms());
        if !inner.curious.is_empty() && (inner.engine.frames() > 0 || inner.fault.is_some()) {
            inner.curious.drain(..).for_each(weir_sched::wake);
        }
        let flushed = inner.flush();
        let over = inner.engine.is_over() || (inner.ended && inner.slots.is_empty());
        match () {
            () if inner.fault.is_some() => Turn::Over,
            () if over && flushed => Turn::Over,
            () if more && inner.pace.resets > 0 && inner.resets >= inner.pace.resets => Turn::Late,
            () if more => Turn::More,
            () => Turn::Quiet,
        }
    }

    /// The streams that began since this was asked last: each wants a task, which [`Multiplexer::begin`] is told of.
    pub fn started(&self) -> Vec<u32> {
        std::mem::take(&mut self.inner.borrow_mut().started)
    }

    /// A stream that began, to be carried by a task.
    pub fn stream(self: &Rc<Self>, id: u32) -> SharedStream {
        SharedStream::new(Rc::clone(self), id)
    }

    /// This task carries the stream.
    pub fn begin(&self, id: u32, task: TaskKey) {
        if let Some(slot) = self.inner.borrow_mut().slot(id) {
            slot.task = task;
        }
    }

    /// Streams in progress.
    pub fn live(&self) -> usize {
        self.inner.borrow().slots.len()
    }

    /// Streams that the peer may have at a time: what it was told, 0 for no limit.
    pub fn most_streams(&self) -> u32 {
        self.inner.borrow().engine.most_streams()
    }

    /// What it is at, in `name=value`, for experts.
    pub fn summary(&self) -> String {
        let inner = self.inner.borrow();
        let engine = &inner.engine;
        let (receive, send) = engine.windows(0).unwrap_or_default();
        format!(
            "streams={} opened={} frames={} glitches={} out={} receive_window={receive} send_window={send} leaving={} crowded={}",
            engine.live(),
            engine.opened(),
            engine.frames(),
            engine.glitches(),
            engine.output().len(),
            u8::from(engine.is_leaving()),
            u8::from(inner.crowded),
        )
    }

    /// Whether the peer does not take what is there for it.
    pub fn is_stuck(&self) -> bool {
        !self.inner.borrow().engine.output().is_empty()
    }

    /// How often the peer did what no well-behaved peer does.
    pub fn glitches(&self) -> u32 {
        self.inner.borrow().engine.glitches()
    }

    /// Requests that were refused for their form before they became streams.
    pub fn refused(&self) -> u32 {
        self.inner.borrow().engine.refused()
    }

    /// The error that the peer was told, if the connection failed.
    pub fn failure(&self) -> Option<ErrorCode> {
        self.inner.borrow().engine.failure()
    }

    /// Bytes sent so far on the whole connection.
    pub fn bytes_sent(&self) -> u64 {
        self.inner.borrow().connection.sent
    }

    /// This end leaves: streams in progress are finished (RFC 9113, 6.8).
    pub fn leave(&self) {
        let mut inner = self.inner.borrow_mut();
        match inner.slots.is_empty() {
            true => inner.engine.farewell(),
            false => inner.engine.leave(),
        }
    }

    /// Whether the peer was told so.
    pub fn is_leaving(&self) -> bool {
        self.inner.borrow().engine.is_leaving()
    }

    /// Whether there is no stream, or the peer takes nothing.
    pub fn is_idle_or_stuck(&self) -> bool {
        let inner = self.inner.borrow();
        inner.slots.is_empty() || !inner.engine.output().is_empty()
    }

    /// Keeps as little as a quiet connection needs.
    pub fn shrink(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.slots.shrink_to_fit();
        inner.started = Vec::new();
        inner.connection.shrink_input();
        inner.engine.shrink();
    }

    /// The connection ends: streams that are left learn of it. What was to leave was sent as far as the peer takes it.
    pub fn close(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.flush();
        inner.connection.shut_write();
        inner.fail(Fault::Io(Errno::CONNRESET));
    }

    /// Takes in and drops what still comes, so that the peer reads our last bytes; false when nothing more will come.
    pub fn drain(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        for _ in 0..ROUNDS {
            let held = inner.connection.input().len();
            inner.connection.consume(held);
            match inner.connection.receive_bulk() {
                Received::Bytes(_) => {}
                Received::Nothing => return true,
                _ => return false,
            }
        }
        true
    }

    /// What was agreed on over TLS.
    pub fn tls(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// Shows `look` the connection itself.
    pub fn look<R>(&self, look: impl FnOnce(&Connection) -> R) -> R {
        look(&self.inner.borrow().connection)
    }

    /// The owner has something to send.
    fn touch(&self) {
        if !self.woken.replace(true) {
            weir_sched::wake(self.owner.get());
        }
    }

    /// The next head that came for a stream.
    pub(crate) fn take_head(&self, id: u32) -> Option<Box<ReceivedHead>> {
        let mut inner = self.inner.borrow_mut();
        let slot = inner.slot(id)?;
        let head = slot.head.take();
        if !slot.later.is_empty() {
            slot.head = Some(slot.later.remove(0));
        }
        head
    }

    /// Moves what came for a stream behind what it holds.
    pub(crate) fn take_arrived(&self, id: u32, into: &mut Vec<u8>) -> Arrived {
        let mut inner = self.inner.borrow_mut();
        let Some(slot) = inner.slot(id) else { return Arrived::default() };
        let bytes = slot.arrived.len();
        if into.is_empty() {
            std::mem::swap(into, &mut slot.arrived);
        } else {
            into.append(&mut slot.arrived);
        }
        Arrived { bytes, payload: std::mem::take(&mut slot.payload), ended: slot.ended }
    }

    pub(crate) fn consumed(&self, id: u32, count: u32) {
        let mut inner = self.inner.borrow_mut();
        let before = inner.engine.output().len();
        inner.engine.consumed(id, count);
        if inner.engine.output().len() > before {
            drop(inner);
            self.touch();
        }
    }

    pub(crate) fn peer_closed(&self) -> bool {
        let inner = self.inner.borrow();
        inner.ended || inner.fault.is_some()
    }

    pub(crate) fn fault(&self, id: u32) -> Option<Fault> {
        let mut inner = self.inner.borrow_mut();
        let of_stream = match inner.slot(id) {
            Some(slot) => slot.fault,
            None if id == shared::UNOPENED => None,
            None => Some(Fault::Io(Errno::CONNRESET)),
        };
        let failed = inner.engine.failure().map(|_| Fault::Io(Errno::CONNABORTED));
        // What became of the stream itself says more.
        of_stream.or(failed).or(inner.fault)
    }

    /// Opens a stream for the current task with a request: its number, and how many bytes that takes. None if there is no room
    /// for one, now or ever.
    pub(crate) fn open(&self, head: &Head, raw: &[u8], chunks: bool, end: bool) -> Option<(u32, usize)> {
        let mut inner = self.inner.borrow_mut();
        if inner.fault.is_some() {
            return None;
        }
        let before = inner.engine.output().len();
        let id = inner.engine.open(head, raw, DEFAULT_SCHEME, chunks, end)?;
        inner.slots.push(Slot { task: weir_sched::current(), ..Slot::new(id) });
        let count = inner.engine.output().len() - before;
        drop(inner);
        self.touch();
        Some((id, count))
    }

    /// A stream to the server, which is opened when its request leaves.
    pub fn unopened(self: &Rc<Self>) -> SharedStream {
        SharedStream::unopened(Rc::clone(self))
    }

    /// How many streams a connection to a server may carry at a time.
    pub fn stream_limit(&self) -> u32 {
        self.inner.borrow().engine.stream_limit()
    }

    /// Whether the server said what it takes, or never will. Else the current task is woken when it does.
    pub fn was_greeted(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        if inner.engine.frames() > 0 || inner.fault.is_some() {
            return true;
        }
        let task = weir_sched::current();
        if !inner.curious.contains(&task) {
            inner.curious.push(task);
        }
        false
    }

    /// Whether the server may be asked to speak another protocol (RFC 8441).
    pub fn takes_extended_connect(&self) -> bool {
        self.inner.borrow().engine.takes_extended_connect()
    }

    /// Whether no stream can be opened any more on a connection to a server.
    pub fn is_closing(&self) -> bool {
        let inner = self.inner.borrow();
        inner.fault.is_some() || inner.ended || inner.engine.is_closing()
    }

    /// Whether somebody beside the owner has use for the connection.
    pub fn is_wanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1
    }

    /// Tells the owner that somebody has no use for the connection any more.
    pub fn give_up(&self) {
        self.touch();
    }

    /// Asks the server whether it is there. Any frame of it says so: [`Multiplexer::frames`].
    pub fn ping(&self) {
        self.inner.borrow_mut().engine.ping();
    }

    /// Frames that came.
    pub fn frames(&self) -> u64 {
        self.inner.borrow().engine.frames()
    }

    pub(crate) fn windows(&self, id: u32) -> Option<(i32, i32)> {
        self.inner.borrow().engine.windows(id)
    }

    pub(crate) fn abort_code(&self, id: u32) -> Option<u32> {
        self.inner.borrow_mut().slot(id)?.abort
    }

    /// Sends a head; how many bytes that takes, none if the stream is no more.
    pub(crate) fn send_head(&self, id: u32, head: &Head, raw: &[u8], end: bool) -> Option<usize> {
        let mut inner = self.inner.borrow_mut();
        let before = inner.engine.output().len();
        if inner.fault.is_some() || !inner.engine.send_head(id, head, raw, end) {
            return None;
        }
        let count = inner.engine.output().len() - before;
        drop(inner);
        self.touch();
        Some(count)
    }

    pub(crate) fn send_trailers(&self, id: u32, lines: &[u8]) {
        self.inner.borrow_mut().engine.send_trailers(id, lines);
        self.touch();
    }

    /// How many bytes of payload a stream may send now; none if it is no more.
    pub(crate) fn room(&self, id: u32) -> Option<usize> {
        let inner = self.inner.borrow();
        if inner.fault.is_some() {
            return None;
        }
        let open = inner.engine.sendable(id)?;
        Some(open.min(inner.output_room()))
    }

    /// Whether a stream that is there can send nothing, or no payload. It is woken when it can.
    pub(crate) fn is_full(&self, id: u32, payload: bool) -> bool {
        let full = {
            let inner = self.inner.borrow();
            match inner.engine.sendable(id).filter(|_| inner.fault.is_none()) {
                Some(open) => inner.output_room() == 0 || (payload && open == 0),
                // Whoever sends learns of it.
                None => false,
            }
        };
        if full {
            self.await_room(id);
        }
        full
    }

    /// Whether the peer is what a stream waits for: it takes nothing, or its window is used up.
    pub(crate) fn is_slow(&self, id: u32) -> bool {
        let inner = self.inner.borrow();
        inner.stuck || inner.engine.sendable(id).is_none_or(|open| open == 0)
    }

    /// Sends payload as far as there is room; how much that was.
    pub(crate) fn send_data(&self, id: u32, payload: &[u8], ends: bool) -> usize {
        let Some(room) = self.room(id) else { return 0 };
        let fits = payload.len().min(room);
        let ends = ends && fits == payload.len();
        let count = self.inner.borrow_mut().engine.send_data(id, &payload[..fits], ends);
        if count > 0 || ends {
            self.touch();
        }
        count
    }

    /// The stream is woken when it may send more.
    pub(crate) fn await_room(&self, id: u32) {
        let mut inner = self.inner.borrow_mut();
        inner.crowded |= inner.engine.output().len() >= MAX_OUTPUT / 2;
        if let Some(slot) = inner.slot(id) {
            slot.blocked = true;
        }
    }

    /// A stream's task is through with it.
    pub(crate) fn leave_stream(&self, id: u32, unreturned: u32, code: ErrorCode) {
        let mut inner = self.inner.borrow_mut();
        let Ok(at) = inner.slots.binary_search_by_key(&id, |slot| slot.id) else {
            drop(inner);
            // It was never opened: the connection may be of no use any more.
            return self.touch();
        };
        let slot = inner.slots.remove(at);
        inner.engine.reset(id, code);
        let returned = slot.payload + unreturned;
        if returned > 0 {
            inner.engine.consumed(id, returned);
        }
        drop(inner);
        // It may have been the last one.
        self.touch();
    }
}

/// Gives memory that the worker keeps for heads back to the allocator.
pub fn trim() {
    rooms::trim();
}

/// What is said to a server where a request of HTTP/1 says nothing: as the reference program does.
const DEFAULT_SCHEME: &[u8] = b"https";
/// An owner's hold on its connection, which ends for its streams when this is dropped.
#[derive(Debug)]
pub struct Closing(pub Rc<Multiplexer>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// How often one turn receives at most, before it sends and others have their turns (R181).
const ROUNDS: usize = 12;
/// Output that waits for the peer: streams stop adding payload to more than this, and nothing more is received.
const MAX_OUTPUT: usize = 128 * 1024;
/// What they may add at a time beyond it: a bulk buffer.
const PIECE: usize = 32 * 1024;
/// Heads that wait for one stream, all but the last one of interim responses: who sends more at once does not mean them.
const HEADS: usize = 64;
