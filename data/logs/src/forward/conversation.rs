//! The state of a forward's connection to a server: `show sess` lists it, `shutdown session` closes it.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use weir_sched::{Descriptor, TaskKey};

/// A connection to a log server, including the connection attempt and the pause after it. Only the forwarding worker writes it. Any
/// worker may read it, so a listing needs no messages between workers.
#[derive(Debug, Default)]
pub struct LogConversation {
    /// The start, in milliseconds of the workers' clock. 0 before the first connection attempt.
    since_ms: AtomicU64,
    task: AtomicU64,
    worker: AtomicU32,
    /// The descriptor plus one while the connection is established. 0 otherwise.
    descriptor: AtomicI32,
    /// Whether the pause after a closed connection or failed attempt is in progress.
    paused: AtomicBool,
    /// How often the task has run for this connection.
    calls: AtomicU64,
    /// Consecutive connections that failed or closed since a message was sent.
    failures: AtomicU32,
    /// Whether an operator closed it.
    ended: AtomicBool,
}

/// The state of a connection to a log server at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationState {
    /// The start, in milliseconds of the workers' clock.
    pub since_ms: u64,
    /// The index of the forwarding worker.
    pub worker: u32,
    /// The descriptor, while the connection is established.
    pub descriptor: Option<i32>,
    /// Whether the pause after a closed connection or failed attempt is in progress.
    pub paused: bool,
    /// How often the task has run for this connection.
    pub calls: u64,
    /// Consecutive connections that failed or closed since a message was sent.
    pub failures: u32,
}

/// A connection or connection attempt in progress. Dropping it begins the pause.
pub struct Lasting<'c>(&'c LogConversation);

impl LogConversation {
    /// Begins a connection attempt in the current task.
    pub fn begin(&self) -> Lasting<'_> {
        self.task.store(weir_sched::current().to_bits(), Relaxed);
        self.worker.store(weir_sched::worker_index() as u32, Relaxed);
        self.descriptor.store(0, Relaxed);
        self.calls.store(0, Relaxed);
        self.ended.store(false, Relaxed);
        self.paused.store(false, Relaxed);
        self.since_ms.store(weir_sched::now().as_ms().max(1), Relaxed);
        Lasting(self)
    }

    /// Records that the connection is established.
    pub(super) fn stands(&self, connection: &Descriptor) {
        self.descriptor.store(connection.as_fd().as_raw_fd() + 1, Relaxed);
    }

    /// Counts a run of the task. False if an operator closed the connection.
    pub fn goes_on(&self) -> bool {
        // Only one task writes, so the update need not be atomic.
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        !self.ended.load(Relaxed)
    }

    /// Records that bytes were sent.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Relaxed);
    }

    /// A snapshot of the state. `None` before the first connection attempt.
    pub fn seen(&self) -> Option<ConversationState> {
        let since_ms = self.since_ms.load(Relaxed);
        let descriptor = self.descriptor.load(Relaxed);
        (since_ms > 0).then(|| ConversationState {
            since_ms,
            worker: self.worker.load(Relaxed),
            descriptor: (descriptor > 0).then_some(descriptor - 1),
            paused: self.paused.load(Relaxed),
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
        })
    }

    /// Closes the connection. The forward reconnects after the usual pause. False before the first connection attempt.
    pub fn end(&self) -> bool {
        if self.since_ms.load(Relaxed) == 0 {
            return false;
        }
        self.ended.store(true, Relaxed);
        weir_sched::wake(TaskKey::from_bits(self.task.load(Relaxed)));
        true
    }
}

impl Drop for Lasting<'_> {
    fn drop(&mut self) {
        let failures = &self.0.failures;
        failures.store(failures.load(Relaxed).saturating_add(1), Relaxed);
        self.0.descriptor.store(0, Relaxed);
        self.0.paused.store(true, Relaxed);
    }
}
