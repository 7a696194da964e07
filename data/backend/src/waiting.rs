//! The wait of one request for a slot: polling and outcomes.

use std::sync::Arc;

use crate::lease::Lease;
use crate::queue::{Decision, QueueOf, QueuePosition, Waiter};
use crate::server_key::ServerKey;

/// How many requests left the queue while this one waited, including itself: `%sq` and `%bq` in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// Requests that left the server's queue.
    pub server: u32,
    /// Requests that left the backend's queue.
    pub backend: u32,
}

impl Positions {
    /// Adds the counts of another wait.
    pub fn add(&mut self, other: Self) {
        self.server = self.server.saturating_add(other.server);
        self.backend = self.backend.saturating_add(other.backend);
    }
}

/// How a wait ended.
#[derive(Debug)]
pub enum WaitOutcome {
    /// A slot was granted.
    Granted(GrantedSlot),
    /// The server went down: choose again.
    ChooseAgain(Positions),
}

/// A slot granted after a wait.
#[derive(Debug)]
pub struct GrantedSlot {
    pub lease: Lease,
    /// How many requests left the queue during the wait.
    pub positions: Positions,
}

/// A position in a queue. Drop leaves the queue, or releases a slot that was just granted.
pub struct QueueEntry {
    owner: Arc<dyn WaiterQueues>,
    waiter: Arc<Waiter>,
    queue: QueueOf,
    order: QueuePosition,
    settled: bool,
}

impl QueueEntry {
    pub(crate) fn new(
        owner: Arc<dyn WaiterQueues>,
        waiter: Arc<Waiter>,
        queue: QueueOf,
        order: QueuePosition,
    ) -> Self {
        Self { owner, waiter, queue, order, settled: false }
    }

    /// The outcome of the wait. `None` before the decision, and after the outcome was returned.
    pub fn poll(&mut self) -> Option<WaitOutcome> {
        if self.settled {
            return None;
        }
        let decision = self.waiter.decision()?;
        self.settled = true;
        let positions = self.positions();
        Some(match decision {
            Decision::ChooseAgain => WaitOutcome::ChooseAgain(positions),
            Decision::Granted(key) => match self.owner.leased(key) {
                Some(lease) => WaitOutcome::Granted(GrantedSlot { lease, positions }),
                // A granted slot prevents the removal of its server. Without the server, no slot has to be released.
                None => WaitOutcome::ChooseAgain(positions),
            },
        })
    }

    /// The server of the queue. `None` for the backend's queue.
    #[must_use]
    pub fn server(&self) -> Option<ServerKey> {
        match self.queue {
            QueueOf::Server(key) => Some(key),
            QueueOf::Backend => None,
        }
    }

    /// Leaves the queue, or releases a slot that was just granted. Returns the positions for the logs.
    #[must_use]
    pub fn give_up(mut self) -> Positions {
        self.leave();
        self.positions()
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.owner.abandon(self.queue, self.order, &self.waiter);
        }
    }

    /// How many requests left this queue while this one waited. Known once this one left it.
    fn positions(&self) -> Positions {
        let ahead = self.waiter.ahead();
        match self.queue {
            QueueOf::Server(_) => Positions { server: ahead, backend: 0 },
            QueueOf::Backend => Positions { server: 0, backend: ahead },
        }
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        self.leave();
    }
}

impl std::fmt::Debug for QueueEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waiting").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The part of the backend that a waiter calls.
pub(crate) trait WaiterQueues: Send + Sync {
    /// The granted slot of a server. `None` if the server does not exist any more.
    fn leased(&self, key: ServerKey) -> Option<Lease>;

    /// Called when a waiter gives up. It leaves its queue, or its granted slot goes to the next waiter.
    fn abandon(&self, queue: QueueOf, order: QueuePosition, waiter: &Waiter);
}
