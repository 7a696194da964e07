//! What scripts ask their driver for.

use std::fmt;
use std::time::Duration;

use weir_lua::{LuaStack, Misuse};
use weir_sched::Tick;

use crate::channel::ChannelCall;
use crate::message::ScriptSide;

/// A wait that a script asks its driver to do.
#[derive(Debug)]
pub enum ScriptWait {
    /// `core.sleep`, `core.msleep`.
    Sleep(Duration),
    /// `core.wait`: until something wakes the task, or for so long.
    Event(Option<Duration>),
    /// `Queue.pop_wait`: until the queue has an item.
    Item,
    /// `core.yield`: other tasks run first.
    Others,
    /// `txn:done`: the function does not go on.
    Done(Option<Box<ScriptReply>>),
    /// Work that does not concern the stream.
    Job(Box<dyn ScriptJob>),
    /// A service reads from its client, perhaps only for so long.
    Receive(ReceiveAmount, Option<Duration>),
    /// A service sends to its client.
    Send(Vec<u8>),
    /// A service begins its response. The body of the reply is not used.
    Answer(Box<ScriptReply>),
    /// An action waits for bytes or room of a channel.
    Channel(ScriptSide, ChannelCall),
}

/// Work that a script waits for: of a socket, of a request, of a queue. It is done in the task of the run, and only there.
pub trait ScriptJob: Send {
    /// Goes on. `None` once the work has ended. Else the time when it wants to go on if nothing wakes the task before.
    fn advance(&mut self) -> Option<Tick>;

    /// Pushes the results of the function that waits.
    ///
    /// # Errors
    /// The function fails.
    fn finish(self: Box<Self>, stack: &LuaStack<'_>) -> Result<(), Misuse>;
}

impl fmt::Debug for dyn ScriptJob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ScriptJob")
    }
}

/// How much a service reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveAmount {
    /// A line with its end, or the rest without one.
    Line,
    /// So many bytes, or fewer at the end.
    Exactly(usize),
    /// The received bytes, without waiting.
    There,
    /// Everything up to the end.
    All,
}

impl ReceiveAmount {
    /// Whether these bytes are enough.
    pub fn is_enough(self, taken: &[u8]) -> bool {
        match self {
            ReceiveAmount::Exactly(size) => taken.len() >= size,
            ReceiveAmount::Line => taken.ends_with(b"\n"),
            ReceiveAmount::There => !taken.is_empty(),
            ReceiveAmount::All => false,
        }
    }

    /// How many of the received bytes belong behind those that were taken before.
    pub fn wanted(self, taken: &[u8], there: &[u8]) -> usize {
        match self {
            _ if self.is_enough(taken) => 0,
            ReceiveAmount::Exactly(size) => there.len().min(size - taken.len()),
            ReceiveAmount::Line => {
                there.iter().position(|byte| *byte == b'\n').map_or(there.len(), |end| end + 1)
            }
            ReceiveAmount::All | ReceiveAmount::There => there.len(),
        }
    }
}

/// A reply that a script made (`txn:reply`).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScriptReply {
    pub status: u16,
    pub reason: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// The time when a sleep from now on ends. It does not begin with the scheduling round, but now.
pub(crate) fn after(time: Duration) -> Tick {
    let passed_us = (weir_sched::precise_ns() / 1_000).saturating_sub(weir_sched::now_us());
    let time = time.saturating_add(Duration::from_micros(passed_us));
    weir_sched::now().after(u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX))
}
