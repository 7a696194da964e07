//! A connection that carries several streams: HTTP/2, with a client or with a server.
//!
//! One task owns the connection. When scheduled, it receives, distributes the data to the streams' tasks, wakes each of
//! them once, and sends the output of all of them with one call:
//!
//! ```text
//!   receive ──► engine ──► heads and payload by stream ──► the streams' tasks
//!                                                          │
//!   one send ◄── the engine's output ◄── heads, payload ◄──┘ (this task runs after them)
//! ```
//!
//! Streams refer to the connection by an `Rc`. The connection refers to them only by the numbers of their tasks, which
//! avoids a reference cycle.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

use weir_h2::{Connection as Engine, ConnectionLimits, ConnectionTally, ErrorCode, ReceivedHead};
use weir_http::Head;
use weir_net::{Connection, ConnectionFault, ReceiveOutcome, SendOutcome, shortage};
use weir_sched::TaskKey;
use weir_sys::Errno;
use weir_tls::Facts;

mod freed;
mod incoming;
mod lent;
mod rooms;
mod shared;
mod slot;
#[cfg(test)]
mod tests;
pub mod trace;
mod waiters;

pub use freed::take as take_freed;
use lent::LentWindow;
pub(crate) use shared::NoHead;
pub use shared::SharedStream;
pub(crate) use slot::TakeResult;
use slot::{SendEvent, StreamSlot};
use trace::{ConnectionIdentity, Passing, TraceEvent};

/// A connection and its streams.
#[derive(Debug)]
pub struct Multiplexer {
    inner: RefCell<MultiplexerState>,
    /// The parameters of the TLS session. Boxed, so that connections without TLS do not hold the space.
    facts: Option<Box<Facts>>,
    /// The task that owns the connection.
    owner: Cell<TaskKey>,
    /// Whether the owner was woken and has not run yet.
    woken: Cell<bool>,
}

#[derive(Debug)]
struct MultiplexerState {
    connection: Connection,
    engine: Engine,
    /// The streams, ordered by stream identifier.
    slots: VecDeque<StreamSlot>,
    /// Streams opened by the peer that do not have a task yet.
    started: VecDeque<u32>,
    /// The peer will not send any more.
    ended: bool,
    /// The fault that broke the connection.
    fault: Option<ConnectionFault>,
    /// Whether streams wait for queued output to be sent.
    crowded: bool,
    /// Whether some streams that wait for the connection window were not woken when it opened.
    starved: bool,
    /// Reading is paused because the output queue is full. The socket may hold unread bytes.
    withheld: bool,
    /// The stream that was woken last. The next wake-ups begin after it.
    woken_last: u32,
    /// Whether the last output could not be sent completely.
    stuck: bool,
    pace: Pace,
    /// RST_STREAM frames received in this scheduling round.
    resets: u32,
    /// Whether the peer is a server.
    sends_requests: bool,
    /// Tasks that wait for the server's first frame.
    greeting_waiters: Vec<TaskKey>,
    /// Time, in milliseconds, since which unread streams hold most of the connection window. 0 if they do not.
    clogged_since_ms: u64,
    /// Growth of the receive windows beyond their initial size.
    lent: LentWindow,
    identity: ConnectionIdentity,
    /// Bytes of the queued output that were traced, or [`UNKNOWN`].
    traced: usize,
}

/// Limits of one scheduling round of a connection (0 for unlimited), and how payload is sent. After a limit, other tasks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Received frames to process (`tune.h2.fe.max-frames-at-once`).
    pub frames: u32,
    /// RST_STREAM frames (`tune.h2.fe.max-rst-at-once`): after these, all other tasks run first.
    pub resets: u32,
    /// Payload is not sent from its receive buffer, but copied to the output (`tune.h2.zero-copy-fwd-send off`,
    /// `tune.disable-zero-copy-forwarding`).
    pub copies: bool,
}

/// The result of one scheduling round of the connection's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// No work is left until the next event.
    Quiet,
    /// Work is left for the next scheduling round. Other tasks run first.
    More,
    /// Work is left after too many RST_STREAM frames. All other tasks run first.
    Late,
    /// The connection is over.
    Over,
}

impl MultiplexerState {
    fn slot(&mut self, id: u32) -> Option<&mut StreamSlot> {
        let at = self.slots.binary_search_by_key(&id, |slot| slot.id).ok()?;
        self.slots.get_mut(at)
    }

    /// Bytes of payload that may still be queued. 0 from the output limit on. Below it, a whole piece usually fits.
    fn output_room(&self) -> usize {
        let most = max_output();
        match self.engine.output().len() {
            waiting if waiting >= most => 0,
            waiting => most + PIECE.min(most) - waiting,
        }
    }

    /// Sends the queued output. True if all of it was sent.
    fn flush(&mut self) -> bool {
        if self.engine.output().is_empty() {
            self.stuck = false;
            return true;
        }
        let active = self.trace_output();
        let waiting = self.engine.output().len();
        match self.connection.send(self.engine.output(), false) {
            SendOutcome::All => self.engine.flushed(waiting),
            SendOutcome::Part(count) => self.engine.flushed(count),
            SendOutcome::Failed(fault) => self.fail(fault),
        }
        self.stuck = !self.engine.output().is_empty();
        self.note_traced(active, waiting);
        self.engine.output().is_empty()
    }

    /// Whether payload can be sent without a copy to the output. Not after blocked output, with TLS, or while traced.
    fn sends_at_once(&self) -> bool {
        let is_free = !self.stuck && !self.connection.has_pending();
        is_free && !self.pace.copies && self.connection.is_plain() && !self.is_traced()
    }

    /// Sends the queued output, then payload directly from its buffer. Bytes that the socket does not accept are queued.
    /// Returns the payload count.
    fn send_through(&mut self, id: u32, payload: &[u8], ends: bool) -> usize {
        let MultiplexerState { engine, connection, .. } = self;
        let mut fault = None;
        let count = engine.send_data_through(id, payload, ends, |slices| {
            match connection.send_vectored(slices, false) {
                SendOutcome::All => slices.iter().map(|slice| slice.len()).sum(),
                SendOutcome::Part(count) => count,
                SendOutcome::Failed(what) => {
                    fault = Some(what);
                    0
                }
            }
        });
        self.stuck = !self.engine.output().is_empty();
        self.traced = UNKNOWN;
        if let Some(fault) = fault {
            self.fail(fault);
        }
        count
    }

    /// Lets receive windows grow up to the worker's limit, or not at all while memory is short.
    fn allow_growth(&mut self, now_ms: u64) {
        let most = if shortage::is_short() { 0 } else { lent::left() };
        self.engine.allow_growth(most, now_ms);
    }

    /// Counts window growth against the worker's limit.
    fn note_growth(&mut self) {
        self.lent.set(self.engine.lent());
    }

    fn fail(&mut self, fault: ConnectionFault) {
        if self.fault.is_none() {
            self.fault = Some(fault);
            self.trace_fault(fault);
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        self.slots.iter().for_each(|slot| slot.wake());
    }
}

impl Multiplexer {
    /// Takes over a client's connection. The current task becomes its owner.
    pub fn new(
        connection: Connection,
        limits: ConnectionLimits,
        pace: Pace,
        identity: ConnectionIdentity,
    ) -> Rc<Self> {
        let owner = weir_sched::current();
        Multiplexer::over(connection, Engine::server(limits), pace, (false, identity), owner)
    }

    /// Takes over a connection to a server. [`Multiplexer::own`] sets its owner.
    pub fn to_server(
        connection: Connection,
        limits: ConnectionLimits,
        pace: Pace,
        identity: ConnectionIdentity,
    ) -> Rc<Self> {
        Multiplexer::over(connection, Engine::client(limits), pace, (true, identity), TaskKey::NONE)
    }

    fn over(
        connection: Connection,
        engine: Engine,
        pace: Pace,
        (sends_requests, identity): (bool, ConnectionIdentity),
        owner: TaskKey,
    ) -> Rc<Self> {
        let facts = connection.tls().cloned().map(Box::new);
        let multiplexer = Rc::new(Multiplexer {
            inner: RefCell::new(MultiplexerState {
                connection,
                engine,
                slots: VecDeque::new(),
                started: VecDeque::new(),
                ended: false,
                fault: None,
                crowded: false,
                starved: false,
                woken_last: 0,
                withheld: false,
                stuck: false,
                pace,
                resets: 0,
                sends_requests,
                greeting_waiters: Vec::new(),
                clogged_since_ms: 0,
                lent: LentWindow::default(),
                identity,
                traced: UNKNOWN,
            }),
            facts,
            owner: Cell::new(owner),
            woken: Cell::new(false),
        });
        multiplexer.inner.borrow().trace_connection(TraceEvent::ConnectionNew);
        multiplexer
    }

    /// Makes this task the owner of the connection.
    pub fn own(&self, task: TaskKey) {
        self.owner.set(task);
        self.inner.borrow().connection.descriptor().set_owner(task);
    }

    /// One scheduling round of the owner. Receives, then sends the queued output.
    pub fn turn(&self) -> TurnEnd {
        self.woken.set(false);
        let mut inner = self.inner.borrow_mut();
        inner.trace_connection(TraceEvent::ConnectionWoken);
        if inner.has_window_for_others() {
            inner.wake_admitted();
        }
        // Output above the limit blocks receiving, and streams may need data from the peer. So it is sent first.
        if inner.engine.output().len() > MAX_OUTPUT {
            inner.flush();
        }
        let now_ms = weir_sched::now().as_ms();
        inner.allow_growth(now_ms);
        let mut more = !inner.ended && inner.receive(now_ms);
        inner.note_growth();
        if !inner.greeting_waiters.is_empty() && (inner.engine.frames() > 0 || inner.fault.is_some()) {
            inner.greeting_waiters.drain(..).for_each(weir_sched::wake);
        }
        let flushed = inner.flush();
        // The poller is edge-triggered and does not report this readiness again.
        more |= inner.engine.output().len() <= MAX_OUTPUT && std::mem::take(&mut inner.withheld);
        if inner.has_room_for_others() {
            inner.wake_fitting();
            more |= inner.crowded;
        }
        more |= inner.has_window_for_others();
        inner.clogged_since_ms = match inner.engine.is_clogged() {
            true if inner.clogged_since_ms == 0 => weir_sched::now().as_ms(),
            true => inner.clogged_since_ms,
            false => 0,
        };
        let over = inner.engine.is_over() || (inner.ended && inner.slots.is_empty());
        match () {
            () if inner.fault.is_some() => TurnEnd::Over,
            () if over && flushed => TurnEnd::Over,
            () if more && inner.pace.resets > 0 && inner.resets >= inner.pace.resets => TurnEnd::Late,
            () if more => TurnEnd::More,
            () => TurnEnd::Quiet,
        }
    }

    /// The next stream that was opened by the peer. It needs a task, set with [`Multiplexer::begin`].
    pub fn next_started(&self) -> Option<u32> {
        self.inner.borrow_mut().started.pop_front()
    }

    /// A stream that was opened by the peer, for the task that carries it.
    pub fn stream(self: &Rc<Self>, id: u32) -> SharedStream {
        SharedStream::new(Rc::clone(self), id)
    }

    /// Sets the task that carries the stream. Traces identify it by `serial`.
    pub fn begin(&self, id: u32, task: TaskKey, serial: u64) {
        if let Some(slot) = self.inner.borrow_mut().slot(id) {
            slot.task = task;
            slot.serial = serial;
        }
    }

    /// The number of streams in progress.
    pub fn live(&self) -> usize {
        self.inner.borrow().slots.len()
    }

    /// Concurrent streams that the peer may open, as announced. 0 for no limit.
    pub fn most_streams(&self) -> u32 {
        self.inner.borrow().engine.most_streams()
    }

    /// The connection's state in `name=value` pairs, for debugging.
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

    /// The connection's file descriptor number.
    pub fn descriptor(&self) -> i32 {
        self.inner.borrow().connection.descriptor().as_fd().as_raw_fd()
    }

    /// The stream of this task, in `name=value` pairs, for `show sess all`, if it is on this connection now.
    pub fn summary_of(&self, task: TaskKey) -> Option<String> {
        let inner = self.inner.borrow();
        let slot = inner.slots.iter().find(|slot| slot.task == task)?;
        let (receive, send) = inner.engine.windows(slot.id).unwrap_or_default();
        Some(format!(
            "stream={} in={} ended={} waits={} receive_window={receive} send_window={send}",
            slot.id,
            slot.arrived().len(),
            u8::from(slot.ended),
            match slot.awaits {
                SendEvent::Nothing => "none",
                SendEvent::Window => "window",
                SendEvent::Room => "room",
            },
        ))
    }

    /// Whether output is queued for the peer.
    pub fn has_output(&self) -> bool {
        !self.inner.borrow().engine.output().is_empty()
    }

    /// Counts of received frames and errors, and the number of streams.
    pub fn tally(&self) -> (ConnectionTally, u32) {
        let engine = &self.inner.borrow().engine;
        (*engine.tally(), engine.opened())
    }

    /// Glitches so far: events that a well-behaved peer never causes.
    pub fn glitches(&self) -> u32 {
        self.inner.borrow().engine.glitches()
    }

    /// Requests refused as malformed before they became streams.
    pub fn refused(&self) -> u32 {
        self.inner.borrow().engine.tally().refused
    }

    /// The error code sent to the peer, if the connection failed.
    pub fn failure(&self) -> Option<ErrorCode> {
        self.inner.borrow().engine.failure()
    }

    /// The fault of the connection itself, if it broke.
    pub fn fault_of_connection(&self) -> Option<ConnectionFault> {
        self.inner.borrow().fault
    }

    /// Bytes sent so far on the whole connection.
    pub fn bytes_sent(&self) -> u64 {
        self.inner.borrow().connection.sent
    }

    /// Sends GOAWAY: streams in progress are finished (RFC 9113, 6.8).
    pub fn leave(&self) {
        let mut inner = self.inner.borrow_mut();
        match inner.slots.is_empty() {
            true => inner.engine.farewell(),
            false => inner.engine.leave(),
        }
    }

    /// Whether GOAWAY was sent.
    pub fn is_leaving(&self) -> bool {
        self.inner.borrow().engine.is_leaving()
    }

    /// Whether the connection carries no stream, or output is queued for the peer.
    pub fn is_idle_or_has_output(&self) -> bool {
        let inner = self.inner.borrow();
        inner.slots.is_empty() || !inner.engine.output().is_empty()
    }

    /// Shrinks the memory of a quiet connection to the size that its streams need.
    pub fn shrink(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.slots.shrink_to_fit();
        inner.started.shrink_to_fit();
        inner.connection.shrink_input();
        inner.engine.shrink();
    }

    /// Closes the connection. Sends as much queued output as the socket accepts. Remaining streams fail with ECONNRESET.
    pub fn close(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.flush();
        inner.trace_connection(TraceEvent::ConnectionEnd);
        inner.connection.shut_write();
        inner.fail(ConnectionFault::Io(Errno::CONNRESET));
    }

    /// Receives and drops bytes, so that the peer can read the last output. Subtracts their number from `most`.
    /// [`TurnEnd::Over`] at EOF, after an error, or when `most` is used up.
    pub fn drain(&self, most: &mut usize) -> TurnEnd {
        let mut inner = self.inner.borrow_mut();
        for _ in 0..ROUNDS {
            let held = inner.connection.input().len();
            inner.connection.consume(held);
            match inner.connection.receive_bulk() {
                ReceiveOutcome::Bytes(count) if count < *most => *most -= count,
                ReceiveOutcome::Nothing => return TurnEnd::Quiet,
                _ => return TurnEnd::Over,
            }
        }
        // More bytes may have arrived without a further event.
        TurnEnd::More
    }

    /// The parameters of the TLS session.
    pub fn tls(&self) -> Option<&Facts> {
        self.facts.as_deref()
    }

    /// Calls `look` with the underlying connection.
    pub fn look<R>(&self, look: impl FnOnce(&Connection) -> R) -> R {
        look(&self.inner.borrow().connection)
    }

    /// Wakes the owner to send.
    fn touch(&self) {
        if !self.woken.replace(true) {
            weir_sched::wake(self.owner.get());
        }
    }

    /// The next head received for a stream.
    pub(crate) fn take_head(&self, id: u32) -> Option<Box<ReceivedHead>> {
        self.inner.borrow_mut().slot(id)?.take_head()
    }

    /// Whether a head was received for a stream and not taken.
    pub(crate) fn has_head(&self, id: u32) -> bool {
        self.inner.borrow_mut().slot(id).is_some_and(|slot| slot.has_head())
    }

    /// Appends the received bytes of a stream to `into`.
    pub(crate) fn take_arrived(&self, id: u32, into: &mut Vec<u8>) -> TakeResult {
        self.inner.borrow_mut().slot(id).map_or(TakeResult::default(), |slot| slot.take_arrived(into))
    }

    /// Shrinks the memory of a stream's untaken bytes to their size. Returns the number of bytes freed.
    pub(crate) fn shrink_arrived(&self, id: u32) -> usize {
        self.inner.borrow_mut().slot(id).map_or(0, StreamSlot::shrink)
    }

    pub(crate) fn consumed(&self, id: u32, count: u32) {
        let mut inner = self.inner.borrow_mut();
        let before = inner.engine.output().len();
        inner.allow_growth(weir_sched::now().as_ms());
        inner.engine.consumed(id, count);
        inner.note_growth();
        if inner.engine.output().len() > before {
            drop(inner);
            self.touch();
        }
    }

    pub(crate) fn peer_closed(&self) -> bool {
        let inner = self.inner.borrow();
        inner.ended || inner.fault.is_some()
    }

    pub(crate) fn fault(&self, id: u32) -> Option<ConnectionFault> {
        let mut inner = self.inner.borrow_mut();
        let of_stream = match inner.slot(id) {
            Some(slot) => slot.fault,
            None if id == shared::UNOPENED => None,
            None => Some(ConnectionFault::Io(Errno::CONNRESET)),
        };
        let failed = inner.engine.failure().map(|_| ConnectionFault::Io(Errno::CONNABORTED));
        // The fault of the stream itself is more precise.
        of_stream.or(failed).or(inner.fault)
    }

    /// Opens a stream for the current task and sends the request head. Returns the stream identifier and the head's size in
    /// bytes. `None` if no stream can be opened, temporarily or for good. Traces find it by `serial`.
    pub(crate) fn open(
        &self,
        serial: u64,
        (head, raw): (&Head, &[u8]),
        chunks: bool,
        end: bool,
    ) -> Option<(u32, usize)> {
        let mut inner = self.inner.borrow_mut();
        if inner.fault.is_some() {
            return None;
        }
        let before = inner.engine.output().len();
        inner.allow_growth(weir_sched::now().as_ms());
        let id = inner.engine.open(head, raw, DEFAULT_SCHEME, chunks, end)?;
        inner.note_growth();
        let mut slot = StreamSlot::new(id);
        slot.task = weir_sched::current();
        slot.serial = serial;
        inner.slots.push_back(slot);
        inner.trace_head(Passing::RequestSent, id, head, raw);
        let count = inner.engine.output().len() - before;
        drop(inner);
        self.touch();
        Some((id, count))
    }

    /// A stream to the server. It is opened when its request is sent.
    pub fn unopened(self: &Rc<Self>) -> SharedStream {
        SharedStream::unopened(Rc::clone(self))
    }

    /// Whether unread streams have held most of the connection window for `CLOGGED_MS`. They would delay the data of a new
    /// stream.
    pub fn is_clogged(&self) -> bool {
        let inner = self.inner.borrow();
        let since_ms = inner.clogged_since_ms;
        since_ms > 0 && inner.engine.is_clogged() && weir_sched::now().as_ms() >= since_ms + CLOGGED_MS
    }

    /// The limit of concurrent streams on a connection to a server.
    pub fn stream_limit(&self) -> u32 {
        self.inner.borrow().engine.stream_limit()
    }

    /// Whether the server's SETTINGS arrived or the connection failed. Otherwise the current task is woken by either.
    pub fn was_greeted(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        if inner.engine.frames() > 0 || inner.fault.is_some() {
            return true;
        }
        let task = weir_sched::current();
        if !inner.greeting_waiters.contains(&task) {
            inner.greeting_waiters.push(task);
        }
        false
    }

    /// Whether the server accepts extended CONNECT (RFC 8441).
    pub fn takes_extended_connect(&self) -> bool {
        self.inner.borrow().engine.takes_extended_connect()
    }

    /// Whether no more streams can be opened on a connection to a server.
    pub fn is_closing(&self) -> bool {
        let inner = self.inner.borrow();
        inner.fault.is_some() || inner.ended || inner.engine.is_closing()
    }

    /// Whether anything besides the owner refers to the connection.
    pub fn is_wanted(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) > 1
    }

    /// Notifies the owner that a reference to the connection was dropped.
    pub fn give_up(&self) {
        self.touch();
    }

    /// Sends PING to check whether the server answers. Any frame counts as an answer: [`Multiplexer::frames`].
    pub fn ping(&self) {
        self.inner.borrow_mut().engine.ping();
    }

    /// The number of frames received.
    pub fn frames(&self) -> u64 {
        self.inner.borrow().engine.frames()
    }

    pub(crate) fn windows(&self, id: u32) -> Option<(i32, i32)> {
        self.inner.borrow().engine.windows(id)
    }

    pub(crate) fn abort_code(&self, id: u32) -> Option<u32> {
        self.inner.borrow_mut().slot(id)?.abort
    }

    /// Sends a head. Returns its size in bytes, or `None` if the stream is gone or the connection failed.
    pub(crate) fn send_head(&self, id: u32, head: &Head, raw: &[u8], end: bool) -> Option<usize> {
        let mut inner = self.inner.borrow_mut();
        let before = inner.engine.output().len();
        if inner.fault.is_some() || !inner.engine.send_head(id, head, raw, end) {
            return None;
        }
        inner.trace_head(Passing::ResponseSent, id, head, raw);
        let count = inner.engine.output().len() - before;
        drop(inner);
        self.touch();
        Some(count)
    }

    pub(crate) fn send_trailers(&self, id: u32, lines: &[u8]) {
        self.inner.borrow_mut().engine.send_trailers(id, lines);
        self.touch();
    }

    /// Payload bytes that a stream may send now. `None` if the stream is gone or the connection failed.
    pub(crate) fn room(&self, id: u32) -> Option<usize> {
        let inner = self.inner.borrow();
        if inner.fault.is_some() {
            return None;
        }
        let open = inner.engine.sendable(id)?;
        Some(open.min(inner.output_room()))
    }

    /// Whether a live stream cannot send now, or cannot send payload if `payload` is set. If so, it is woken when it can.
    pub(crate) fn is_full(&self, id: u32, payload: bool) -> bool {
        let full = {
            let inner = self.inner.borrow();
            match inner.engine.sendable(id).filter(|_| inner.fault.is_none()) {
                Some(open) => inner.output_room() == 0 || (payload && open == 0),
                // The sender gets the fault.
                None => false,
            }
        };
        if full {
            self.await_room(id);
        }
        full
    }

    /// Whether the peer blocks a stream, by not reading the output or by a closed window.
    pub(crate) fn is_slow(&self, id: u32) -> bool {
        let inner = self.inner.borrow();
        inner.stuck || inner.engine.sendable(id).is_none_or(|open| open == 0)
    }

    /// Sends as much payload as the windows and the output limit allow. Returns the number of bytes.
    pub(crate) fn send_data(&self, id: u32, payload: &[u8], ends: bool) -> usize {
        let Some(room) = self.room(id) else { return 0 };
        let fits = payload.len().min(room);
        let ends = ends && fits == payload.len();
        let mut inner = self.inner.borrow_mut();
        let mut count = 0;
        if fits >= WORTH_A_CALL && inner.sends_at_once() {
            count = inner.send_through(id, &payload[..fits], ends);
        }
        if count < fits || fits == 0 {
            count += inner.engine.send_data(id, &payload[count..fits], ends);
        }
        let has_work = !inner.engine.output().is_empty() || inner.fault.is_some();
        drop(inner);
        if has_work && (count > 0 || ends) {
            self.touch();
        }
        count
    }

    /// Registers the stream to be woken when it may send more.
    pub(crate) fn await_room(&self, id: u32) {
        let mut inner = self.inner.borrow_mut();
        inner.crowded |= inner.engine.output().len() >= max_output() / 2;
        inner.trace_wait(id);
        let closed = inner.engine.sendable(id) == Some(0);
        if let Some(slot) = inner.slot(id) {
            slot.awaits = if closed { SendEvent::Window } else { SendEvent::Room };
        }
    }

    /// Removes a stream after its task is done with it.
    pub(crate) fn leave_stream(&self, id: u32, unreturned: u32, code: ErrorCode) {
        let mut inner = self.inner.borrow_mut();
        let Ok(at) = inner.slots.binary_search_by_key(&id, |slot| slot.id) else {
            drop(inner);
            // The stream was never opened. The connection may be unused now.
            return self.touch();
        };
        inner.trace_stream_end(id);
        let left = inner.slots.remove(at).map_or(0, |slot| slot.payload);
        inner.engine.reset(id, code);
        let returned = left + unreturned;
        if returned > 0 {
            inner.engine.consumed(id, returned);
        }
        inner.note_growth();
        drop(inner);
        // This may have been the last stream.
        self.touch();
    }
}

/// Limit of queued output, in bytes. Above it, streams add no more payload.
#[inline]
fn max_output() -> usize {
    if shortage::is_short() { LEAST_OUTPUT } else { MAX_OUTPUT }
}

/// Frees the memory that the worker keeps for heads.
pub fn trim() {
    rooms::trim();
    crate::application::trim();
}

/// The owner's handle of its connection. Dropping it closes the connection for its streams.
#[derive(Debug)]
pub struct OwnerHandle(pub Rc<Multiplexer>);

impl Drop for OwnerHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Marks output that tracing has not parsed.
const UNKNOWN: usize = usize::MAX;
/// How long unread streams hold most of the connection window before new streams use another connection. Streams that are
/// read take their data sooner.
const CLOGGED_MS: u64 = 100;
/// Maximum number of receives in one scheduling round, before output is sent and other tasks run (R181).
const ROUNDS: usize = 12;
/// Limit of queued output while memory is plentiful, in bytes. Above it, nothing is received.
const MAX_OUTPUT: usize = 128 * 1024;
/// Limit of queued output while memory is short, in bytes.
const LEAST_OUTPUT: usize = 4 * 1024;
/// Bytes by which one send may exceed the output limit.
const PIECE: usize = 32 * 1024;
/// Minimum payload, in bytes, for a system call of its own. Less is copied and sent with the output of other streams.
const WORTH_A_CALL: usize = 16 * 1024;
/// Scheme sent to a server for a request without one, as in HTTP/1. HAProxy sends the same.
const DEFAULT_SCHEME: &[u8] = b"https";

// An idle connection's share, in the smallest class of blocks that it fits, with the counts of its `Rc`. A build that counts instructions
// (bench/instructions.py) has error numbers of 32 bits, and takes the next one.
const _: () = assert!(size_of::<Multiplexer>() <= 1024 - 16 || size_of::<Errno>() > 2);
