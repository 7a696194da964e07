//! The input and the result of choosing a server.

use crate::lease::Lease;
use crate::queue::Priority;
use crate::server_key::ServerKey;
use crate::waiting::QueueEntry;

/// The properties of a request that choosing needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChooseInput {
    /// The hash of the balancing key (see [`crate::hash`]). `None` if the algorithm does not use a key or the request does
    /// not contain it. Servers then take turns.
    pub hash: Option<u32>,
    /// A server to avoid if another one is usable (redispatch). With `balance random` and `latency` a full one is usable: the request
    /// waits for it.
    pub avoid: Option<ServerKey>,
    /// A server to take if it has room and an empty queue (`option prefer-last-server`).
    pub prefer: Option<ServerKey>,
    /// The order in queues.
    pub priority: Priority,
    /// Entropy, for `balance random`.
    pub random: u64,
    /// The number of the calling worker. No other worker may use it.
    pub worker: usize,
    /// The time on a monotonic clock, in milliseconds.
    pub now_ms: u64,
}

/// The result of choosing.
#[derive(Debug)]
pub enum Choice {
    /// A slot of a server.
    Server(Lease),
    /// No slot is free. The request joined a queue.
    Wait(QueueEntry),
    /// The queue of the designated server is full (`maxqueue`). Choose by the algorithm instead.
    Full,
    /// No server can serve.
    None,
}
