//! A connection to a FastCGI application, which carries requests: BEGIN_REQUEST, PARAMS and STDIN go out, STDOUT and END_REQUEST come back.
//!
//! Most applications answer one request at a time on a connection (`option mpxs-conns` is off). The task of that request drives the
//! connection itself, as over HTTP/1. With several requests, and between two, the task that owns the connection does:
//!
//! ```text
//!   opened ──► FCGI_GET_VALUES, its result (option get-values) ──► requests ──► closed
//!
//!   no request      the owner sees a close by the application
//!   one request     its task receives and sends
//!   more requests   the owner receives for all and wakes their tasks; it sends the records of all with one call
//! ```
//!
//! FastCGI lacks flow control, so requests that share a connection wait for the slowest of them (D26).

mod date;
mod extras;
mod requests;
mod stream;
mod trace;

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::rc::Rc;

use weir_fcgi::record::MAX_CONTENT;
use weir_fcgi::{ConnectionOptions, FcgiConnection, FcgiEvent};
use weir_net::{Connection, ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sched::TaskKey;
use weir_sys::Errno;
use weir_tls::Facts;

use crate::multiplexer::TurnEnd;
use crate::multiplexer::trace::ConnectionIdentity;
use crate::served::trace::{ConnectionTraceEvent, TracedConnection as _};
use crate::served::{GreetingProgress, ServedConnection};

use requests::RequestTable;

pub use extras::trim;
pub use stream::ApplicationStream;
pub(crate) use stream::NoCgiHead;
pub use trace::FCGI;

/// Receives the text that an application writes to its error output.
pub trait ErrorOutput {
    /// Takes a piece of the text. `ends` if it is the last piece of its record.
    fn write(&mut self, text: &[u8], ends: bool);
}

/// A connection to an application, and its requests.
#[derive(Debug)]
pub struct ApplicationMultiplexer {
    inner: RefCell<ApplicationState>,
    /// The parameters of the TLS session.
    facts: Option<Box<Facts>>,
    /// The task that owns the connection.
    owner: Cell<TaskKey>,
    /// Whether the owner was woken and has not run yet.
    woken: Cell<bool>,
}

struct ApplicationState {
    connection: Connection,
    engine: FcgiConnection,
    requests: RequestTable,
    /// Whether the only request drives the connection.
    is_direct: bool,
    /// Why no request can go on. `None` while the connection works.
    fault: Option<ConnectionFault>,
    /// Why nothing can be sent any more. Earlier output of the application may still be unread.
    write_fault: Option<ConnectionFault>,
    /// Whether the connection takes no more requests.
    is_leaving: bool,
    /// Whether reading is paused because a request does not take its bytes. The socket may hold unread bytes.
    is_withheld: bool,
    /// Tasks that wait for the application's limits.
    greeting_waiters: Vec<TaskKey>,
    errors: Option<Box<dyn ErrorOutput>>,
    /// Requests that ended.
    ended: u64,
    identity: ConnectionIdentity,
}

impl std::fmt::Debug for ApplicationState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApplicationState")
            .field("requests", &self.requests)
            .field("is_direct", &self.is_direct)
            .field("fault", &self.fault)
            .field("is_leaving", &self.is_leaving)
            .finish_non_exhaustive()
    }
}

impl ApplicationState {
    /// Sends the queued records. True if all of them were sent.
    fn flush(&mut self) -> bool {
        if self.engine.output().is_empty() {
            return true;
        }
        let queued = self.engine.output().len();
        match self.connection.send(self.engine.output(), false) {
            SendOutcome::All => self.note_sent(queued),
            SendOutcome::Part(count) => self.note_sent(count),
            SendOutcome::Failed(fault) => self.fail_sending(fault),
        }
        self.engine.output().is_empty()
    }

    fn note_sent(&mut self, count: usize) {
        self.engine.flushed(count);
        self.trace_sent(count, !self.engine.output().is_empty());
    }

    /// Queues payload of a request, or sends it from its buffer if that saves a copy.
    fn put(&mut self, id: u16, payload: &[u8], ends: bool) {
        if self.write_fault.is_some() {
            return;
        }
        if !self.engine.is_live(id) {
            // The application ended the request early, and never gets the end of the body.
            self.is_leaving |= ends;
            return;
        }
        self.trace_body(id, payload, ends);
        let is_free = self.is_direct && self.engine.output().is_empty() && !self.connection.has_pending();
        if payload.len() < WORTH_A_CALL || !is_free || !self.connection.is_plain() {
            return self.engine.stdin(id, payload, ends);
        }
        for piece in payload.chunks(MAX_CONTENT) {
            if !self.engine.output().is_empty() {
                self.engine.stdin(id, piece, false);
                continue;
            }
            let header = FcgiConnection::stdin_header(id, piece.len() as u16);
            let count =
                match self.connection.send_vectored(&[IoSlice::new(&header), IoSlice::new(piece)], false) {
                    SendOutcome::All => {
                        self.trace_sent(header.len() + piece.len(), false);
                        continue;
                    }
                    SendOutcome::Part(count) => {
                        self.trace_sent(count, true);
                        count
                    }
                    SendOutcome::Failed(fault) => return self.fail_sending(fault),
                };
            self.engine.queue(header.get(count..).unwrap_or_default());
            self.engine.queue(&piece[count.saturating_sub(header.len())..]);
        }
        if ends {
            self.engine.stdin(id, b"", true);
        }
    }

    /// Receives records and distributes them. Output of the request `direct` is appended to its buffer, at most `limit` bytes in a round. True if
    /// there may be more.
    fn receive(&mut self, rounds: usize, mut direct: Option<(u16, &mut Vec<u8>)>, limit: usize) -> bool {
        let mut fresh = !self.connection.input().is_empty();
        for _ in 0..rounds {
            if fresh {
                self.distribute(direct.as_mut().map(|(id, into)| (*id, &mut **into)));
            }
            if self.fault.is_some() {
                return false;
            }
            self.is_withheld = self.requests.is_any_full();
            if self.is_withheld {
                return false;
            }
            let received = match limit {
                usize::MAX => self.connection.receive_bulk(),
                limit => self.connection.receive(limit.max(MIN_RECEIVE)),
            };
            match received {
                ReceiveOutcome::Bytes(count) => {
                    self.trace_received(count);
                    fresh = true;
                }
                ReceiveOutcome::Nothing => return false,
                ReceiveOutcome::End => self.fail(ConnectionFault::Io(Errno::CONNRESET)),
                ReceiveOutcome::Full => self.fail(ConnectionFault::Protocol),
                ReceiveOutcome::Failed(fault) => self.fail(fault),
            }
        }
        if fresh && self.fault.is_none() {
            self.distribute(direct);
        }
        true
    }

    fn distribute(&mut self, mut direct: Option<(u16, &mut Vec<u8>)>) {
        let mut used = 0;
        loop {
            let (count, event) = self.engine.receive(&self.connection.input()[used..]);
            used += count;
            if let Some(event) = &event {
                self.trace_event(event);
            }
            match event {
                None => break,
                Some(FcgiEvent::Stdout { id, payload }) => {
                    let Some(slot) = self.requests.get_mut(id) else { continue };
                    // Records behind the end of the output belong to no response.
                    if slot.output_ended {
                        continue;
                    }
                    slot.output_ended = payload.is_empty();
                    match &mut direct {
                        Some((own, into)) if *own == id => into.extend_from_slice(payload),
                        _ => self.requests.append(id, payload),
                    }
                }
                Some(FcgiEvent::Stderr { payload, ends_record, .. }) => {
                    if let Some(errors) = &mut self.errors {
                        errors.write(payload, ends_record);
                    }
                }
                // The state of the protocol does not matter: a response is there, or it is not.
                Some(FcgiEvent::Ended { id, .. }) => {
                    self.ended += 1;
                    let Some(slot) = self.requests.get_mut(id) else { continue };
                    slot.ended = true;
                    // The task that drives the connection is running.
                    if direct.as_ref().is_none_or(|(own, _)| *own != id) {
                        slot.wake();
                    }
                    if slot.is_draining() {
                        self.requests.remove(id);
                    }
                }
                Some(FcgiEvent::Ready) => self.greeting_waiters.drain(..).for_each(weir_sched::wake),
                Some(FcgiEvent::Failed(_)) => {
                    self.fail(ConnectionFault::Protocol);
                    break;
                }
            }
        }
        self.connection.consume(used);
    }

    fn fail(&mut self, fault: ConnectionFault) {
        if self.fault.is_none() {
            self.trace_fault(fault);
            self.fault = Some(fault);
            self.is_leaving = true;
            self.greeting_waiters.drain(..).for_each(weir_sched::wake);
            self.requests.wake_all();
        }
    }

    /// Drops the queued bytes. The connection fails once nothing is left to read: the application may have responded before it closed.
    fn fail_sending(&mut self, fault: ConnectionFault) {
        self.write_fault.get_or_insert(fault);
        self.is_leaving = true;
        self.engine.flushed(self.engine.output().len());
    }

    fn is_closing(&self) -> bool {
        self.is_leaving || self.engine.is_closing()
    }
}

impl Drop for ApplicationState {
    fn drop(&mut self) {
        self.trace_connection(ConnectionTraceEvent::End);
    }
}

impl ApplicationMultiplexer {
    /// Takes over a connection to an application. [`ApplicationMultiplexer::own`] sets its owner. `errors` gets the error output, and traces
    /// use `identity`.
    pub fn new(
        connection: Connection,
        options: ConnectionOptions,
        errors: Option<Box<dyn ErrorOutput>>,
        identity: ConnectionIdentity,
    ) -> Rc<Self> {
        let facts = connection.tls().cloned().map(Box::new);
        let state = ApplicationState {
            connection,
            engine: FcgiConnection::new(options),
            requests: RequestTable::default(),
            is_direct: false,
            fault: None,
            write_fault: None,
            is_leaving: false,
            is_withheld: false,
            greeting_waiters: Vec::new(),
            errors,
            ended: 0,
            identity,
        };
        state.trace_connection(ConnectionTraceEvent::New);
        if options.get_values {
            state.trace_values();
        }
        Rc::new(ApplicationMultiplexer {
            inner: RefCell::new(state),
            facts,
            owner: Cell::new(TaskKey::NONE),
            woken: Cell::new(false),
        })
    }

    /// A stream for one request on this connection.
    pub fn stream(self: &Rc<Self>) -> ApplicationStream {
        ApplicationStream::new(Rc::clone(self))
    }

    /// The fault that ended the connection.
    pub fn fault(&self) -> Option<ConnectionFault> {
        self.inner.borrow().fault
    }

    /// The parameters of the TLS session.
    pub fn tls(&self) -> Option<&Facts> {
        self.facts.as_deref()
    }

    /// Calls `look` with the underlying connection.
    pub fn look<R>(&self, look: impl FnOnce(&Connection) -> R) -> R {
        look(&self.inner.borrow().connection)
    }

    /// The connection's state in `name=value` pairs, for debugging.
    pub fn summary(&self) -> String {
        self.inner.borrow().summary()
    }

    /// The request of this task, in `name=value` pairs, if it is on this connection now.
    pub fn summary_of(&self, task: TaskKey) -> Option<String> {
        Some(self.inner.borrow().requests.of_task(task)?.summary())
    }

    /// Wakes the owner.
    fn touch(&self) {
        if !self.woken.replace(true) {
            weir_sched::wake(self.owner.get());
        }
    }

    /// Begins a request of the current task. Traces find it by `serial`. `None` if the connection takes none.
    fn begin(&self, params: &[u8], has_body: bool, serial: u64) -> Option<u16> {
        let mut inner = self.inner.borrow_mut();
        if inner.fault.is_some() || inner.is_leaving {
            return None;
        }
        let has_output = !inner.engine.output().is_empty();
        let id = inner.engine.begin(params, has_body)?;
        let task = weir_sched::current();
        // A request that another one shares the connection with leaves the records to the owner. One that the application ended shares it
        // until its stream took the output.
        let is_alone = inner.engine.live() == 1 && inner.requests.is_empty();
        if is_alone {
            inner.connection.descriptor().set_owner(task);
        } else if inner.is_direct {
            inner.connection.descriptor().set_owner(self.owner.get());
            // From now on the socket wakes the owner. A task that waited for the socket needs a wake from it.
            if has_output {
                inner.requests.await_room_all();
            }
        }
        inner.is_direct = is_alone;
        inner.requests.insert(id, task, serial);
        inner.trace_begin(id, params, has_body);
        Some(id)
    }

    /// Removes a request from the connection. `is_complete` if its response is, so that the connection can carry another one. Returns
    /// whether the owner has work.
    fn leave_stream(&self, id: u16, is_complete: bool, has_sent_all: bool) -> bool {
        let mut inner = self.inner.borrow_mut();
        if std::mem::take(&mut inner.is_direct) {
            inner.connection.descriptor().set_owner(self.owner.get());
        }
        let Some(slot) = inner.requests.get(id) else { return false };
        let has_ended = slot.ended;
        inner.trace_stream_end(id);
        match has_ended {
            // An application that ended the request early may not read the rest of its body.
            true => {
                inner.requests.remove(id);
                inner.is_leaving |= !has_sent_all;
            }
            false if is_complete && has_sent_all => {
                inner.requests.drain(id);
                // The owner bounds the wait for the end.
                return true;
            }
            false => {
                inner.trace_abort(id);
                inner.requests.remove(id);
                inner.engine.abort(id);
                // Most applications notice the end of a request only by the end of its connection.
                inner.is_leaving = true;
            }
        }
        // The poller does not repeat the events that it reported to the stream, and reading may have been paused for it.
        !inner.connection.is_quiet() || !inner.engine.output().is_empty() || inner.is_withheld
    }
}

impl ServedConnection for ApplicationMultiplexer {
    fn own(&self, task: TaskKey) {
        self.owner.set(task);
        self.inner.borrow().connection.descriptor().set_owner(task);
    }

    fn turn(&self) -> TurnEnd {
        self.woken.set(false);
        let mut inner = self.inner.borrow_mut();
        inner.trace_connection(ConnectionTraceEvent::Woken);
        if inner.is_direct {
            return if inner.fault.is_some() { TurnEnd::Over } else { TurnEnd::Quiet };
        }
        let more = inner.fault.is_none() && inner.receive(ROUNDS, None, usize::MAX);
        if inner.requests.has_surplus() {
            inner.fail(ConnectionFault::Protocol);
        }
        inner.flush();
        if inner.engine.output().len() < MAX_OUTPUT {
            inner.requests.wake_for_room();
        }
        match inner.fault {
            Some(_) => TurnEnd::Over,
            None if more => TurnEnd::More,
            None => TurnEnd::Quiet,
        }
    }

    fn greeting(&self) -> GreetingProgress {
        let mut inner = self.inner.borrow_mut();
        match inner.fault {
            Some(_) => GreetingProgress::Failed,
            None if inner.engine.is_ready() => GreetingProgress::Complete,
            None => {
                let task = weir_sched::current();
                if !inner.greeting_waiters.contains(&task) {
                    inner.greeting_waiters.push(task);
                }
                GreetingProgress::Awaited
            }
        }
    }

    fn end_greeting(&self) {
        if !self.inner.borrow().engine.is_ready() {
            self.close();
        }
        self.touch();
    }

    fn stream_limit(&self) -> u32 {
        u32::from(self.inner.borrow().engine.request_limit())
    }

    fn is_closing(&self) -> bool {
        self.inner.borrow().is_closing()
    }

    fn is_clogged(&self) -> bool {
        let inner = self.inner.borrow();
        let is_full = inner.engine.live() >= usize::from(inner.engine.request_limit());
        inner.is_closing() || is_full || inner.is_withheld || inner.engine.output().len() >= MAX_OUTPUT
    }

    /// Sends the queued bytes. The protocol lacks a farewell.
    fn leave(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.is_leaving = true;
        inner.flush();
        false
    }

    fn close(&self) {
        self.inner.borrow_mut().fail(ConnectionFault::Io(Errno::CONNRESET));
    }

    fn give_up(&self) {
        self.touch();
    }

    fn awaits_peer(&self) -> bool {
        let inner = self.inner.borrow();
        // While reading is paused, a request of this process holds the application up.
        !inner.is_direct
            && !inner.is_withheld
            && (!inner.engine.output().is_empty() || inner.requests.is_draining())
    }

    fn progress(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.connection.sent + inner.ended
    }
}

/// Limit of queued output, in bytes. Above it, requests add no more of their bodies.
const MAX_OUTPUT: usize = 64 * 1024;
/// Minimum room for a receive, in bytes: a header, or the end of a request, may be there in part.
const MIN_RECEIVE: usize = 16;
/// Maximum number of receives in one scheduling round.
const ROUNDS: usize = 12;
/// Minimum payload, in bytes, for a system call of its own. Less is copied and sent with other records.
const WORTH_A_CALL: usize = 4 * 1024;

#[cfg(test)]
mod tests;
