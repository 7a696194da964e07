//! A connection to an agent, which carries exchanges (SPOP): a NOTIFY frame goes out, and its ACK comes back.
//!
//! One task owns the connection. It sends the frames of all exchanges with one call, and wakes the task of each exchange that was
//! answered:
//!
//! ```text
//!   opened ──► HAPROXY-HELLO, AGENT-HELLO ──► exchanges ──► HAPROXY-DISCONNECT ──► AGENT-DISCONNECT, closed
//!                  │                              │
//!                  └── refused, closed ───────────┴── an invalid frame, a fault: every exchange in flight fails
//! ```
//!
//! With pipelining on both sides many exchanges are in flight at once, and the agent may answer them in any order.

mod stream;
mod trace;

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;

use weir_net::{Connection, ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sched::TaskKey;
use weir_spop::{AgentConnection, AgentEvent, AgentLimits, StatusCode};
use weir_sys::Errno;
use weir_tls::Facts;

use crate::multiplexer::TurnEnd;
use crate::multiplexer::trace::ConnectionIdentity;
use crate::served::trace::{ConnectionTraceEvent, TracedConnection as _};
use crate::served::{GreetingProgress, ServedConnection};

pub use stream::{AgentStream, Notified};
pub use trace::SPOP;

/// A connection to an agent, and its exchanges.
#[derive(Debug)]
pub struct AgentMultiplexer {
    inner: RefCell<AgentState>,
    /// The parameters of the TLS session.
    facts: Option<Box<Facts>>,
    /// The task that owns the connection.
    owner: Cell<TaskKey>,
    /// Whether the owner was woken and has not run yet.
    woken: Cell<bool>,
}

#[derive(Debug)]
struct AgentState {
    connection: Connection,
    engine: AgentConnection,
    /// The exchanges in flight, in the order of their numbers.
    exchanges: Vec<Exchange>,
    /// Empty buffers for answers, at most [`MAX_SPARE`].
    spare: Vec<Vec<u8>>,
    /// The number of the next exchange: odd, as HAProxy's.
    next: u32,
    /// Why no exchange can go on. `None` while the connection works.
    fault: Option<AgentFault>,
    /// Whether the agent said hello.
    is_ready: bool,
    /// How many exchanges may be in flight.
    places: u32,
    /// Exchanges given up in a row, without an answer in between.
    silent: u32,
    /// Answers to exchanges that were answered before.
    surplus: u32,
    /// Tasks that wait for the agent's hello.
    greeting_waiters: Vec<TaskKey>,
    /// Answers to exchanges that were given up, since the last report.
    late: u64,
    /// Whether the connection takes no more exchanges.
    is_leaving: bool,
    identity: ConnectionIdentity,
}

#[derive(Debug)]
struct Exchange {
    number: u32,
    /// The number of its stream in traces. 0 for none.
    serial: u64,
    /// The task to wake. `None` if the exchange was given up.
    task: Option<TaskKey>,
    /// The payload of its ACK: a list of actions.
    answer: Option<Vec<u8>>,
}

/// Why a connection to an agent failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFault {
    /// The transport broke or was closed.
    Transport(ConnectionFault),
    /// The agent broke the protocol: the status that it was sent.
    Protocol(StatusCode),
    /// The agent left with this status, which may be one of its own.
    Left(u32),
}

impl AgentFault {
    /// The status code of SPOP (SPOE.txt, 3.5) that describes the fault. An agent that leaves normally was not expected to.
    pub fn status(self) -> u32 {
        match self {
            AgentFault::Transport(_) | AgentFault::Left(0) => StatusCode::Io.number(),
            AgentFault::Protocol(status) => status.number(),
            AgentFault::Left(status) => status,
        }
    }
}

impl AgentState {
    /// Sends the queued frames. True if all of them were sent.
    fn flush(&mut self) -> bool {
        if self.engine.output().is_empty() {
            return true;
        }
        let queued = self.engine.output().len();
        match self.connection.send(self.engine.output(), false) {
            SendOutcome::All => self.note_sent(queued),
            SendOutcome::Part(count) => self.note_sent(count),
            SendOutcome::Failed(fault) => self.fail(AgentFault::Transport(fault)),
        }
        self.engine.output().is_empty()
    }

    fn note_sent(&mut self, count: usize) {
        self.engine.flushed(count);
        self.trace_sent(count, !self.engine.output().is_empty());
    }

    /// Queues a DISCONNECT frame.
    fn disconnect(&mut self, status: StatusCode) {
        if self.engine.disconnect(status) {
            self.trace_disconnect(status);
        }
    }

    /// Receives frames and distributes them. True if there may be more.
    fn receive(&mut self) -> bool {
        let mut fresh = !self.connection.input().is_empty();
        for _ in 0..ROUNDS {
            if fresh {
                self.distribute();
            }
            if self.fault.is_some() {
                return false;
            }
            match self.connection.receive_bulk() {
                ReceiveOutcome::Bytes(count) => {
                    self.trace_received(count);
                    fresh = true;
                }
                ReceiveOutcome::Nothing => return false,
                ReceiveOutcome::End => {
                    self.fail(AgentFault::Transport(ConnectionFault::Io(Errno::CONNRESET)))
                }
                ReceiveOutcome::Full => self.fail(AgentFault::Protocol(StatusCode::FrameTooBig)),
                ReceiveOutcome::Failed(fault) => self.fail(AgentFault::Transport(fault)),
            }
        }
        true
    }

    fn distribute(&mut self) {
        loop {
            let (used, event) = self.engine.receive(self.connection.input());
            if let Some(event) = &event {
                self.trace_event(event);
            }
            match event {
                None => {
                    self.connection.consume(used);
                    return;
                }
                Some(AgentEvent::Ready { pipelining, .. }) => {
                    self.places = if pipelining { MAX_EXCHANGES } else { 1 };
                    self.is_ready = true;
                    self.greeting_waiters.drain(..).for_each(weir_sched::wake);
                }
                // As in HAProxy, the ABORT flag is ignored: the actions apply.
                Some(AgentEvent::Ack { stream_id, frame_id, payload, .. }) => {
                    let number =
                        u32::try_from(stream_id).ok().filter(|number| *number < self.next && number % 2 == 1);
                    let Some(number) = number.filter(|_| frame_id == FRAME_ID) else {
                        self.disconnect(StatusCode::FrameIdNotFound);
                        self.fail(AgentFault::Protocol(StatusCode::FrameIdNotFound));
                        return;
                    };
                    self.silent = 0;
                    match settle(&mut self.exchanges, &mut self.spare, number, payload) {
                        Settled::Expected => {}
                        Settled::Late => self.late += 1,
                        Settled::Again => self.surplus += 1,
                    }
                    if self.surplus > MAX_SURPLUS {
                        self.disconnect(StatusCode::InvalidFrame);
                        self.fail(AgentFault::Protocol(StatusCode::InvalidFrame));
                        return;
                    }
                }
                Some(AgentEvent::Disconnected { status, .. }) => self.fail(AgentFault::Left(status)),
                Some(AgentEvent::Failed(status)) => self.fail(AgentFault::Protocol(status)),
            }
            self.connection.consume(used);
        }
    }
}

impl AgentState {
    fn position(&self, number: u32) -> Option<usize> {
        position(&self.exchanges, number)
    }

    fn fail(&mut self, fault: AgentFault) {
        if self.fault.is_none() {
            self.trace_fault(fault);
            self.fault = Some(fault);
            self.is_leaving = true;
            self.greeting_waiters.drain(..).for_each(weir_sched::wake);
            self.exchanges.iter().filter_map(|exchange| exchange.task).for_each(weir_sched::wake);
        }
    }

    /// Keeps the buffer of an answer for another one.
    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE && buffer.capacity() <= MAX_SPARE_SIZE {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    /// Exchanges in flight that their streams gave up.
    fn abandoned(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.task.is_none()).count()
    }

    /// Whether another exchange may begin now.
    fn takes_more(&self) -> bool {
        !self.is_leaving && self.exchanges.len() < self.places as usize
    }
}

impl Drop for AgentState {
    fn drop(&mut self) {
        self.trace_connection(ConnectionTraceEvent::End);
    }
}

fn position(exchanges: &[Exchange], number: u32) -> Option<usize> {
    exchanges.binary_search_by_key(&number, |exchange| exchange.number).ok()
}

/// The exchange of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    Expected,
    /// For an exchange that was given up.
    Late,
    /// For an exchange that was answered before. It is dropped.
    Again,
}

/// Records the end of an exchange and wakes its task.
fn settle(exchanges: &mut Vec<Exchange>, spare: &mut Vec<Vec<u8>>, number: u32, answer: &[u8]) -> Settled {
    let at = position(exchanges, number).filter(|at| exchanges[*at].answer.is_none());
    let Some(at) = at else { return Settled::Again };
    let Some(task) = exchanges[at].task else {
        exchanges.remove(at);
        return Settled::Late;
    };
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.extend_from_slice(answer);
    exchanges[at].answer = Some(buffer);
    weir_sched::wake(task);
    Settled::Expected
}

impl AgentMultiplexer {
    /// Takes over a connection to an agent, and queues the hello. [`AgentMultiplexer::own`] sets its owner. Traces use `identity`.
    pub fn new(connection: Connection, limits: AgentLimits<'_>, identity: ConnectionIdentity) -> Rc<Self> {
        let facts = connection.tls().cloned().map(Box::new);
        let state = AgentState {
            connection,
            engine: AgentConnection::new(limits),
            exchanges: Vec::new(),
            spare: Vec::new(),
            next: 1,
            fault: None,
            is_ready: false,
            places: 1,
            silent: 0,
            surplus: 0,
            greeting_waiters: Vec::new(),
            late: 0,
            is_leaving: false,
            identity,
        };
        state.trace_new();
        Rc::new(AgentMultiplexer {
            inner: RefCell::new(state),
            facts,
            owner: Cell::new(TaskKey::NONE),
            woken: Cell::new(false),
        })
    }

    /// A stream for one exchange on this connection.
    pub fn stream(self: &Rc<Self>) -> AgentStream {
        AgentStream::new(Rc::clone(self))
    }

    /// The fault that ended the connection.
    pub fn fault(&self) -> Option<AgentFault> {
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

    /// The connection's file descriptor number.
    pub fn descriptor(&self) -> i32 {
        self.look(|connection| connection.descriptor().as_fd().as_raw_fd())
    }

    /// The connection's state in `name=value` pairs, for debugging.
    pub fn summary(&self) -> String {
        self.inner.borrow().summary()
    }

    /// The exchange of this task, in `name=value` pairs, if it is on this connection now.
    pub fn summary_of(&self, task: TaskKey) -> Option<String> {
        let inner = self.inner.borrow();
        let exchange = inner.exchanges.iter().find(|exchange| exchange.task == Some(task))?;
        let (number, answered) = (exchange.number, u8::from(exchange.answer.is_some()));
        Some(format!("stream={number} answered={answered}"))
    }

    /// The number of late answers since the last call: those to exchanges that were given up.
    pub fn take_late(&self) -> u64 {
        std::mem::take(&mut self.inner.borrow_mut().late)
    }

    /// Wakes the owner to send.
    fn touch(&self) {
        if !self.woken.replace(true) {
            weir_sched::wake(self.owner.get());
        }
    }
}

impl ServedConnection for AgentMultiplexer {
    fn own(&self, task: TaskKey) {
        self.owner.set(task);
        self.inner.borrow().connection.descriptor().set_owner(task);
    }

    fn turn(&self) -> TurnEnd {
        self.woken.set(false);
        let mut inner = self.inner.borrow_mut();
        inner.trace_connection(ConnectionTraceEvent::Woken);
        let more = inner.fault.is_none() && inner.receive();
        let flushed = inner.flush();
        match inner.fault {
            // A fault of the protocol is reported to the agent before the close.
            Some(AgentFault::Protocol(_)) if !flushed => TurnEnd::Quiet,
            Some(_) => TurnEnd::Over,
            None if more => TurnEnd::More,
            None => TurnEnd::Quiet,
        }
    }

    fn greeting(&self) -> GreetingProgress {
        let mut inner = self.inner.borrow_mut();
        match inner.fault {
            Some(_) => GreetingProgress::Failed,
            None if inner.is_ready => GreetingProgress::Complete,
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
        if !self.inner.borrow().is_ready {
            self.close();
        }
        self.touch();
    }

    fn stream_limit(&self) -> u32 {
        self.inner.borrow().places
    }

    fn is_closing(&self) -> bool {
        self.inner.borrow().is_leaving
    }

    fn is_clogged(&self) -> bool {
        let inner = self.inner.borrow();
        !inner.takes_more() || inner.is_ready && !inner.engine.may_notify()
    }

    /// Sends HAPROXY-DISCONNECT (SPOE.txt, 3.2.8). The agent answers it and closes.
    fn leave(&self) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.is_leaving = true;
        if inner.fault.is_none() {
            inner.disconnect(StatusCode::Normal);
        }
        // An agent that does not answer exchanges is not waited for: such connections would pile up.
        inner.abandoned() == 0
    }

    fn close(&self) {
        self.inner.borrow_mut().fail(AgentFault::Transport(ConnectionFault::Io(Errno::CONNRESET)));
    }

    fn give_up(&self) {
        self.touch();
    }

    fn awaits_peer(&self) -> bool {
        !self.inner.borrow().engine.output().is_empty()
    }

    fn progress(&self) -> u64 {
        self.inner.borrow().connection.sent
    }
}

/// Second answers that an agent may send on one connection. Each costs time of the worker.
const MAX_SURPLUS: u32 = 100;
/// The frame of an exchange. It has only one.
const FRAME_ID: u64 = 1;
/// Buffers that a connection keeps for answers. Most tasks collect theirs before the next answers arrive.
const MAX_SPARE: usize = 4;
/// The largest buffer that is kept, in bytes. The actions of most answers fit.
const MAX_SPARE_SIZE: usize = 512;
/// Maximum number of receives in one scheduling round.
const ROUNDS: usize = 12;
/// Exchanges in flight on one connection. More of them take further connections, as streams of HTTP/2 do.
pub const MAX_EXCHANGES: u32 = 100;

#[cfg(test)]
mod tests;
