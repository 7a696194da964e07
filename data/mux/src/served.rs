//! What connections that carry streams have in common, for the task that owns one: exchanges with agents, requests to applications.

pub(crate) mod trace;

use weir_sched::TaskKey;

use crate::multiplexer::TurnEnd;

/// A connection that carries streams and has a task of its own.
pub trait ServedConnection {
    /// Makes this task the owner of the connection.
    fn own(&self, task: TaskKey);

    /// One scheduling round of the owner. Receives, then sends the queued bytes.
    fn turn(&self) -> TurnEnd;

    /// The progress of the greeting. The current task is woken when it ends.
    fn greeting(&self) -> GreetingProgress;

    /// Ends the wait for the greeting. Without it the connection breaks, so that the pool does not lend it.
    fn end_greeting(&self);

    /// How many streams the connection may carry at once.
    fn stream_limit(&self) -> u32;

    /// Whether the connection takes no more streams.
    fn is_closing(&self) -> bool;

    /// Whether the connection takes no further stream now.
    fn is_clogged(&self) -> bool;

    /// Says farewell. Returns whether the peer's answer is worth a wait.
    fn leave(&self) -> bool;

    /// Whether the owner waits for the peer: to read queued bytes, or to end a complete stream.
    fn awaits_peer(&self) -> bool;

    /// A count that grows with each step of the peer that the owner waits for.
    fn progress(&self) -> u64;

    /// Breaks the connection. Its streams fail.
    fn close(&self);

    /// Notifies the owner that a reference to the connection was dropped.
    fn give_up(&self);
}

/// The progress of the handshake before the first stream of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingProgress {
    Awaited,
    Complete,
    Failed,
}
