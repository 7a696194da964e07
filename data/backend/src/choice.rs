//! The input and the result of choosing a server.

use crate::lease::Lease;
use crate::queue::Priority;
use crate::server_key::ServerKey;
use crate::waiting::QueueEntry;

/// The properties of a request that choosing needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChooseInput {
    /// The hash of the balancing key (see [`crate::hash`]); `None` when the algorithm does not use a key or
    /// the request does not carry it: then servers take turns.
    pub hash: Option<u32>,
    /// A server to avoid when there is another one (redispatch).
    pub avoid: Option<ServerKey>,
    /// A server to take if it has room and an empty queue (`option prefer-last-server`).
    pub prefer: Option<ServerKey>,
    /// The order in queues.
    pub priority: Priority,
    /// Entropy, for `balance random`.
    pub random: u64,
    /// The number of the calling worker; no other worker may use it.
    pub worker: usize,
    /// The time on a monotonic clock.
    pub now_ms: u64,
}

/// The result of choosing.
#[derive(Debug)]
pub enum Choice {
    /// A slot of a server.
    Server(Lease),
    /// No slot is free: a place in a queue.
    Wait(QueueEntry),
    /// The queue of the designated server is full (`maxqueue`): choose freely.
    Full,
    /// No server can serve.
    None,
}
