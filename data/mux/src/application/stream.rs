//! One request to a FastCGI application: a place on its connection.

use std::any::Any;
use std::rc::{Rc, Weak};

use weir_fcgi::record::MAX_CONTENT;
use weir_fcgi::{CgiFacts, CgiFault, CgiHead, CgiProgress, Params, write_http};
use weir_http::status::is_bodyless;
use weir_http::{BodySize, Head, Method, Version};
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sys::Errno;

use crate::served::ServedConnection;
use crate::trace::TracedStream;

use super::extras::{self, RequestExtras};
use super::requests::RequestSlot;
use super::{ApplicationMultiplexer, ApplicationState, MAX_OUTPUT};

/// A place for one request on a connection to an application. Dropping it aborts the request, unless its response is complete.
#[derive(Debug)]
pub struct ApplicationStream {
    connection: Rc<ApplicationMultiplexer>,
    extras: Box<RequestExtras>,
    /// The request's number on the connection. 0 before it began.
    id: u16,
    method: Method,
    /// Whether the client understands chunks.
    takes_chunks: bool,
    /// Whether the end of the body was sent.
    shut: bool,
    /// Whether all output up to END_REQUEST was taken.
    ended: bool,
    /// Whether the stream took the whole response.
    is_complete: bool,
    /// Whether the application stated the framing of its body: a chunked body is in its own chunks.
    sends_chunks: bool,
    /// Bytes of output that were received.
    pub(crate) received: u64,
    /// Bytes of records that were queued for the application.
    pub(crate) sent: u64,
}

// A connector has one in place of a connection, and must not grow.
const _: () = assert!(size_of::<ApplicationStream>() <= 56);

/// Whether an application reads the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodySinkState {
    Open,
    /// It reads no more, and its response may be there.
    Closed,
    Failed(ConnectionFault),
}

/// Why an application's output lacks a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoCgiHead {
    Awaited,
    TooLarge,
    Invalid,
    Ended,
    Shortage,
}

impl ApplicationStream {
    pub(super) fn new(connection: Rc<ApplicationMultiplexer>) -> Self {
        ApplicationStream {
            connection,
            extras: Box::new(extras::take()),
            id: UNOPENED,
            method: Method::Other,
            takes_chunks: false,
            shut: false,
            ended: false,
            is_complete: false,
            sends_chunks: false,
            received: 0,
            sent: 0,
        }
    }

    /// Keeps `lease` until the request is over, and drops it then.
    pub fn hold(&mut self, lease: Box<dyn Any>) {
        self.extras.lease = Some(lease);
    }

    /// The connection that carries the request.
    pub fn connection(&self) -> &ApplicationMultiplexer {
        &self.connection
    }

    /// A weak reference to the connection.
    pub(crate) fn carrier(&self) -> Weak<ApplicationMultiplexer> {
        Rc::downgrade(&self.connection)
    }

    /// The request's number on the connection. 0 before it began.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The request's state in `name=value` pairs, for debugging.
    pub fn summary(&self) -> String {
        format!(
            "ended={} in={} out={} complete={} body_ended={}",
            u8::from(self.ended),
            self.input().len(),
            u8::from(self.has_pending()),
            u8::from(self.is_complete),
            u8::from(self.shut),
        )
    }

    /// Another stream on the same connection.
    pub fn another(&self) -> ApplicationStream {
        self.connection.stream()
    }

    /// The parameters that [`Message::send`](crate::Message::send) sends in place of the head.
    pub fn params_mut(&mut self) -> &mut Params {
        &mut self.extras.params
    }

    /// The stream took the whole response. The connection waits for END_REQUEST and is not closed when the stream is dropped.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Begins the request with its parameters. They are queued, and sent by the next flush.
    pub(crate) fn open(&mut self, head: &Head) -> SendOutcome {
        self.method = head.method();
        self.takes_chunks = head.version() >= Version::HTTP_11;
        let has_body = BodySize::of_request(head) != BodySize::None;
        let before = self.queued();
        let Some(id) = self.connection.begin(self.extras.params.bytes(), has_body, self.extras.serial) else {
            return SendOutcome::Failed(self.fault().unwrap_or(ConnectionFault::Refused));
        };
        self.id = id;
        self.shut = !has_body;
        self.sent += (self.queued() - before) as u64;
        SendOutcome::All
    }

    /// Begins the request and sends its parameters.
    pub(crate) fn send_message(&mut self, head: &Head) -> SendOutcome {
        match self.open(head) {
            SendOutcome::All => self.flush(),
            failed => failed,
        }
    }

    /// Takes all of this payload, the last of the body if `ends`.
    pub(crate) fn send_pending(&mut self, payload: &[u8], ends: bool) -> SendOutcome {
        self.put(payload, ends);
        match self.flush() {
            SendOutcome::Part(_) => SendOutcome::Part(payload.len()),
            other => other,
        }
    }

    /// Sends as much payload as the output limit admits. `ends` marks the last payload of the body. Drops payload that the application does
    /// not read any more: its response is there, or the next receive finds out why not.
    pub(crate) fn send(&mut self, payload: &[u8], ends: bool) -> SendOutcome {
        let mut done = 0;
        while done < payload.len() && !self.shut {
            match self.body_sink() {
                BodySinkState::Open => {}
                BodySinkState::Closed => return self.drop_rest(ends),
                BodySinkState::Failed(fault) => return SendOutcome::Failed(fault),
            }
            // The socket may take the queued records by now.
            if self.has_pending() {
                self.flush();
                if self.body_sink() != BodySinkState::Open {
                    continue;
                }
            }
            if self.is_full() {
                return SendOutcome::Part(done);
            }
            let piece = &payload[done..][..PIECE.min(payload.len() - done)];
            done += piece.len();
            self.put(piece, ends && done == payload.len());
            self.flush();
        }
        match self.body_sink() {
            BodySinkState::Failed(fault) => SendOutcome::Failed(fault),
            BodySinkState::Open | BodySinkState::Closed => SendOutcome::All,
        }
    }

    /// Drops the rest of the body. Unless all of it was queued before, the connection carries no other request after this one.
    fn drop_rest(&mut self, ends: bool) -> SendOutcome {
        self.connection.inner.borrow_mut().is_leaving |= !self.shut;
        self.shut |= ends;
        SendOutcome::All
    }

    fn put(&mut self, payload: &[u8], ends: bool) {
        let mut inner = self.connection.inner.borrow_mut();
        let before = inner.connection.sent + inner.engine.output().len() as u64;
        inner.put(self.id, payload, ends);
        self.sent += inner.connection.sent + inner.engine.output().len() as u64 - before;
        self.shut |= ends;
    }

    /// Sends the queued bytes, or leaves that to the connection's owner. Nothing is left to do once the application reads no more of the
    /// request: the owner sends the rest of a complete body, and that of an incomplete one ends with the connection.
    pub(crate) fn flush(&mut self) -> SendOutcome {
        if self.id == UNOPENED {
            return SendOutcome::All;
        }
        let flushed = self.flush_queue();
        if flushed == SendOutcome::All {
            return flushed;
        }
        self.look_for_end();
        match self.is_unread() {
            true => self.drop_rest(false),
            false => flushed,
        }
    }

    /// Sends bytes of a body that are queued. After a failure the response decides, as in [`send`](Self::send).
    pub(crate) fn flush_body(&mut self) -> SendOutcome {
        match self.flush() {
            SendOutcome::Failed(_) if self.body_sink() == BodySinkState::Closed => self.drop_rest(false),
            other => other,
        }
    }

    fn flush_queue(&mut self) -> SendOutcome {
        let mut inner = self.connection.inner.borrow_mut();
        if !inner.is_direct {
            let has_output = !inner.engine.output().is_empty();
            drop(inner);
            if has_output {
                self.connection.touch();
            }
            return self.fault().map_or(SendOutcome::All, SendOutcome::Failed);
        }
        let flushed = inner.flush();
        match inner.fault.or(inner.write_fault) {
            Some(fault) => SendOutcome::Failed(fault),
            None if flushed => SendOutcome::All,
            None => SendOutcome::Part(0),
        }
    }

    /// Receives for an upload that does not go on. The task of a complete response receives no more by itself, and would miss the end of the
    /// request.
    fn look_for_end(&mut self) {
        let drives = self.connection.inner.borrow().is_direct;
        if !drives || !self.input().is_empty() || self.is_unread() {
            return;
        }
        let had_ended = self.ended;
        let received = self.receive(MAX_AHEAD);
        let is_news = matches!(received, ReceiveOutcome::Bytes(_)) || self.ended != had_ended;
        let inner = self.connection.inner.borrow();
        // The poller does not report these bytes to the task again, nor those that are left.
        if is_news || (inner.fault.is_none() && inner.connection.descriptor().is_readable()) {
            weir_sched::wake(weir_sched::current());
        }
    }

    /// Ends the body, after all payload. Later calls only flush.
    pub(crate) fn finish(&mut self) -> SendOutcome {
        if !self.shut {
            self.put(b"", true);
        }
        match self.flush() {
            SendOutcome::Failed(_) if self.body_sink() == BodySinkState::Closed => self.drop_rest(true),
            other => other,
        }
    }

    /// Whether queued records of this request, which drives the connection, were not sent.
    pub(crate) fn has_pending(&self) -> bool {
        let inner = self.connection.inner.borrow();
        let has_output = self.id != UNOPENED && inner.is_direct && !inner.engine.output().is_empty();
        drop(inner);
        has_output && !self.is_unread()
    }

    /// Whether the connection takes no payload now. If so, the task is woken when it does.
    pub(crate) fn is_full(&self) -> bool {
        if self.is_unread() {
            return false;
        }
        let mut inner = self.connection.inner.borrow_mut();
        let most = if inner.is_direct { 1 } else { MAX_OUTPUT };
        if inner.engine.output().len() < most || inner.fault.is_some() {
            return false;
        }
        inner.requests.await_room(self.id);
        inner.trace_wait(self.id);
        true
    }

    /// Whether the end of the body was passed to the connection.
    pub(crate) fn shut(&self) -> bool {
        self.shut
    }

    pub(crate) fn input(&self) -> &[u8] {
        self.extras.input()
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.extras.consume(count);
    }

    /// Calls `edit` with the input from offset `from` on: see [`Connection::shorten_input`](weir_net::Connection::shorten_input).
    pub(crate) fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        let input = self.extras.compact();
        let held = input.len();
        let (result, useless) = edit(&mut input[from.min(held)..]);
        input.truncate(held - useless.min(held));
        result
    }

    /// Receives output, until the input holds at most `limit` bytes. [`ReceiveOutcome::Full`] if it does.
    pub(crate) fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        let held = self.input().len();
        if held >= limit {
            return ReceiveOutcome::Full;
        }
        let mut inner = self.connection.inner.borrow_mut();
        let input = self.extras.compact();
        if inner.is_direct {
            receive_directly(&mut inner, self.id, input, limit);
        } else {
            inner.requests.take(self.id, input, limit - held);
            if std::mem::take(&mut inner.is_withheld) {
                self.connection.touch();
            }
        }
        self.ended = inner.requests.get(self.id).is_some_and(RequestSlot::is_over);
        drop(inner);
        let count = self.input().len() - held;
        self.received += count as u64;
        match () {
            () if count > 0 => ReceiveOutcome::Bytes(count),
            () if self.ended => ReceiveOutcome::End,
            () => self.fault_of(None).map_or(ReceiveOutcome::Nothing, ReceiveOutcome::Failed),
        }
    }

    /// Whether all output was taken.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// The fault that ended the request early, or keeps its body from being sent.
    pub(crate) fn fault(&self) -> Option<ConnectionFault> {
        let write_fault = self.connection.inner.borrow().write_fault;
        self.fault_of(write_fault)
    }

    /// The fault that ended the request early, else `write_fault`.
    fn fault_of(&self, write_fault: Option<ConnectionFault>) -> Option<ConnectionFault> {
        let inner = self.connection.inner.borrow();
        let fault = inner.fault.or(write_fault);
        match inner.requests.get(self.id) {
            Some(slot) if slot.has_ended() => None,
            Some(_) => fault,
            None if self.id == UNOPENED => fault,
            None => fault.or(Some(ConnectionFault::Io(Errno::CONNRESET))),
        }
    }

    /// Whether the application takes more of the body.
    fn body_sink(&mut self) -> BodySinkState {
        if self.connection.inner.borrow().write_fault.is_some() {
            // Its last records say whether it ended the request before it closed.
            self.look_for_end();
        }
        let inner = self.connection.inner.borrow();
        let (fault, write_fault) = (inner.fault, inner.write_fault);
        match inner.requests.get(self.id) {
            _ if self.is_unread() => BodySinkState::Closed,
            slot => match fault {
                Some(fault) => BodySinkState::Failed(fault),
                None if slot.is_none() => BodySinkState::Failed(ConnectionFault::Io(Errno::PIPE)),
                None if write_fault.is_some() => BodySinkState::Closed,
                None => BodySinkState::Open,
            },
        }
    }

    /// Whether the application ended the request and reads no more of the body. One that ended only its output may still read, or fail.
    fn is_unread(&self) -> bool {
        self.connection.inner.borrow().requests.get(self.id).is_some_and(|slot| slot.ended)
    }

    /// Whether the application certainly sent nothing new.
    pub(crate) fn is_quiet(&self) -> bool {
        let inner = self.connection.inner.borrow();
        if !self.input().is_empty() || inner.fault.is_some() {
            return false;
        }
        let is_quiet = !inner.is_direct || inner.connection.is_quiet();
        is_quiet && inner.requests.get(self.id).is_some_and(RequestSlot::is_quiet)
    }

    pub(crate) fn has_slack(&self) -> bool {
        self.extras.input.capacity() > self.input().len() + SLACK
    }

    pub(crate) fn shrink_input(&mut self) {
        self.extras.compact().shrink_to_fit();
    }

    /// Whether the body of the response is in chunks that the application made.
    pub(crate) fn sends_chunks(&self) -> bool {
        self.sends_chunks
    }

    /// Takes the head of a response, of at most `limit` bytes, and appends it to `text` as one of HTTP/1.1.
    pub(crate) fn take_head(&mut self, limit: usize, text: &mut Vec<u8>) -> Result<(), NoCgiHead> {
        loop {
            match self.find_head(limit) {
                CgiProgress::Complete { length } => {
                    let written = write_http(&self.input()[..length], text);
                    self.extras.consume(length);
                    self.extras.head = CgiHead::new();
                    let facts = written.map_err(|_: CgiFault| NoCgiHead::Invalid)?;
                    self.sends_chunks = facts.has_framing;
                    self.add_lines(facts, text);
                    return Ok(());
                }
                CgiProgress::TooLarge => return Err(NoCgiHead::TooLarge),
                CgiProgress::Incomplete => {}
            }
            match self.receive(limit) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Nothing => return Err(NoCgiHead::Awaited),
                ReceiveOutcome::Full => return Err(NoCgiHead::TooLarge),
                ReceiveOutcome::Failed(ConnectionFault::Shortage) => return Err(NoCgiHead::Shortage),
                // A connection that fails before the head is complete is the same as one that ends.
                ReceiveOutcome::End | ReceiveOutcome::Failed(_) => return Err(NoCgiHead::Ended),
            }
        }
    }

    /// Adds the lines of an HTTP server: a date, and a framing for a body without a length.
    fn add_lines(&self, facts: CgiFacts, text: &mut Vec<u8>) {
        // A response of unknown length to a client of HTTP/1.0 ends with its connection.
        let needs_chunks = self.takes_chunks && self.method != Method::Head && !is_bodyless(facts.status);
        text.truncate(text.len() - EMPTY_LINE.len());
        if !facts.has_date {
            text.extend_from_slice(b"date: ");
            super::date::append(text);
            text.extend_from_slice(EMPTY_LINE);
        }
        if needs_chunks && !facts.has_framing {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        text.extend_from_slice(EMPTY_LINE);
    }

    fn find_head(&mut self, limit: usize) -> CgiProgress {
        let RequestExtras { input, start, head, .. } = &mut *self.extras;
        head.find(&input[*start..], limit)
    }

    fn queued(&self) -> usize {
        self.connection.inner.borrow().engine.output().len()
    }
}

/// Receives from a connection that carries only this request.
fn receive_directly(inner: &mut ApplicationState, id: u16, input: &mut Vec<u8>, limit: usize) {
    let held = input.len();
    for _ in 0..DIRECT_ROUNDS {
        let limit = if limit == usize::MAX { limit } else { limit - held };
        let more = inner.fault.is_none() && inner.receive(1, Some((id, input)), limit);
        let is_over = inner.requests.get(id).is_none_or(RequestSlot::has_ended);
        if !more || is_over || input.len() > held {
            return;
        }
    }
    // Records without output, as those of errors, must not keep the task from others. The poller does not report them again.
    weir_sched::wake(weir_sched::current());
}

impl TracedStream for ApplicationStream {
    fn identify(&mut self, serial: u64) {
        self.extras.serial = serial;
    }
}

impl Drop for ApplicationStream {
    fn drop(&mut self) {
        let connection = &self.connection;
        let is_left = self.id != UNOPENED && connection.leave_stream(self.id, self.is_complete, self.shut);
        let extras = std::mem::take(&mut *self.extras);
        extras::give(extras);
        // The owner reports the connection to the pool, and closes one that is not wanted.
        if is_left || connection.is_closing() || Rc::strong_count(connection) <= LAST_USER {
            connection.touch();
        }
    }
}

/// The end of a line, and all of the line that ends a head.
const EMPTY_LINE: &[u8] = b"\r\n";
/// The number of a request that has not begun. FastCGI reserves 0 for the connection.
const UNOPENED: u16 = 0;
/// Payload that is sent or queued at once, in bytes: a record.
const PIECE: usize = MAX_CONTENT;
/// Output that is received for an upload that waits, in bytes, before the response takes it.
const MAX_AHEAD: usize = 16 * 1024;
/// Receives of one call that bring no output.
const DIRECT_ROUNDS: usize = 8;
/// Capacity without content, in bytes, that is worth being freed.
const SLACK: usize = 1024;
/// References to a connection that only its owner and one stream use.
const LAST_USER: usize = 2;
