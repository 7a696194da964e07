//! One exchange with an agent: a place on its connection.

use std::any::Any;
use std::rc::{Rc, Weak};

use weir_net::ConnectionFault;
use weir_spop::{NotifyError, StatusCode};

use crate::served::ServedConnection;
use crate::trace::TracedStream;

use super::{AgentFault, AgentMultiplexer, Exchange, FRAME_ID};

/// A place for one exchange on a connection to an agent. Dropping it gives up the exchange: a later answer is dropped.
#[derive(Debug)]
pub struct AgentStream {
    connection: Rc<AgentMultiplexer>,
    /// The number of the exchange. 0 before its NOTIFY.
    number: u32,
    /// The number of the stream in traces. 0 for none.
    serial: u64,
    /// The stream's slot on the connection. Dropped with the stream.
    lease: Option<Box<dyn Any>>,
    /// Bytes of the ACK that were received.
    pub(crate) received: u64,
    /// Bytes of the NOTIFY.
    pub(crate) sent: u64,
}

// A connector has one in place of a connection, and must not grow.
const _: () = assert!(size_of::<AgentStream>() <= 56);

/// The result of sending a NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notified {
    Sent,
    /// The messages exceed the frame size that the agent accepts.
    TooLarge,
    /// The connection failed before. Nothing was sent.
    Failed(AgentFault),
}

impl AgentStream {
    pub(super) fn new(connection: Rc<AgentMultiplexer>) -> Self {
        AgentStream { connection, number: 0, serial: 0, lease: None, received: 0, sent: 0 }
    }

    /// Keeps `lease` until the exchange is over, and drops it then.
    pub fn hold(&mut self, lease: Box<dyn Any>) {
        self.lease = Some(lease);
    }

    /// The connection that carries the exchange.
    pub fn connection(&self) -> &AgentMultiplexer {
        &self.connection
    }

    /// A weak reference to the connection.
    pub(crate) fn carrier(&self) -> Weak<AgentMultiplexer> {
        Rc::downgrade(&self.connection)
    }

    /// Sends the messages to the agent. The current task is woken when it answers.
    pub fn notify(&mut self, messages: &[u8]) -> Notified {
        let mut inner = self.connection.inner.borrow_mut();
        if let Some(fault) = inner.fault {
            return Notified::Failed(fault);
        }
        let number = inner.next;
        let before = inner.engine.output().len();
        match inner.engine.notify(u64::from(number), FRAME_ID, messages) {
            Ok(()) => {}
            Err(NotifyError::TooLarge) => return Notified::TooLarge,
            Err(NotifyError::Busy | NotifyError::NotReady) => {
                return Notified::Failed(AgentFault::Protocol(StatusCode::Unknown));
            }
        }
        // The numbers do not wrap: the connection ends before.
        inner.is_leaving |= inner.next >= LAST_NUMBER;
        inner.next = number + 2;
        self.number = number;
        self.sent += (inner.engine.output().len() - before) as u64;
        let (serial, task) = (self.serial, Some(weir_sched::current()));
        inner.exchanges.push(Exchange { number, serial, task, answer: None });
        inner.trace_notify(number, messages);
        drop(inner);
        self.connection.touch();
        Notified::Sent
    }

    /// Appends the actions of the agent's answer to `actions`, once they are there. `None` before.
    pub fn answer(&mut self, actions: &mut Vec<u8>) -> Option<Result<(), AgentFault>> {
        let mut inner = self.connection.inner.borrow_mut();
        let at = inner.position(self.number);
        if let Some(at) = at
            && inner.exchanges[at].answer.is_some()
        {
            inner.trace_stream_end(std::mem::take(&mut self.number), true);
            let answer = inner.exchanges.remove(at).answer?;
            self.received += answer.len() as u64;
            actions.extend_from_slice(&answer);
            inner.keep_spare(answer);
            return Some(Ok(()));
        }
        let lost = AgentFault::Protocol(StatusCode::Unknown);
        inner.fault.or(at.is_none().then_some(lost)).map(Err)
    }

    /// The fault of the connection.
    pub(crate) fn fault(&self) -> Option<ConnectionFault> {
        self.connection.fault().map(|fault| match fault {
            AgentFault::Transport(fault) => fault,
            AgentFault::Protocol(_) | AgentFault::Left(_) => ConnectionFault::Protocol,
        })
    }
}

impl TracedStream for AgentStream {
    fn identify(&mut self, serial: u64) {
        self.serial = serial;
    }
}

impl Drop for AgentStream {
    fn drop(&mut self) {
        let connection = &self.connection;
        let mut inner = connection.inner.borrow_mut();
        if let Some(at) = inner.position(self.number) {
            match inner.exchanges[at].answer {
                Some(_) => _ = inner.exchanges.remove(at),
                None => {
                    inner.trace_stream_end(self.number, false);
                    inner.exchanges[at].task = None;
                    // An agent that answers one exchange at a time would get the next before it has answered this one. One that drops
                    // frames would use up the places.
                    let most = if inner.places > 1 { MAX_ABANDONED } else { 0 };
                    inner.silent += 1;
                    // An agent that vanished without a close does not answer on any connection that it had.
                    inner.is_leaving |= inner.abandoned() > most || inner.silent >= MAX_SILENT;
                }
            }
        }
        drop(inner);
        drop(self.lease.take());
        // The owner reports a connection that is leaving to the pool, and ends one that is not wanted.
        if connection.is_closing() || Rc::strong_count(connection) <= LAST_USER {
            connection.touch();
        }
    }
}

/// Exchanges in flight that may be given up before a connection with pipelining is replaced.
const MAX_ABANDONED: usize = 50;
/// Exchanges given up in a row, without an answer in between, after which a connection is replaced.
const MAX_SILENT: u32 = 5;
/// The exchange after which a connection takes no more.
const LAST_NUMBER: u32 = u32::MAX - 2;
/// References to a connection that only its owner and one stream use.
const LAST_USER: usize = 2;
