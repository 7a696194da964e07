//! The state of a ring's connection to a server: `show sess` lists it, `shutdown session` ends it.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use weir_sched::{Descriptor, TaskKey};

/// A connection to a log server, the attempt to open one, or the pause before the next. Only the worker that forwards writes
/// it, and any worker may read it, so that a listing needs no messages.
#[derive(Debug, Default)]
pub struct LogConversation {
    /// When it began, in milliseconds of the workers' clock; 0 before the first one.
    since_ms: AtomicU64,
    task: AtomicU64,
    worker: AtomicU32,
    /// The connection's descriptor plus one while it is established.
    descriptor: AtomicI32,
    /// Whether it is over, and the next one has not begun.
    paused: AtomicBool,
    /// How often its task ran.
    calls: AtomicU64,
    /// Consecutive connections that failed or ended since a message was sent.
    failures: AtomicU32,
    /// Whether an operator ended it.
    ended: AtomicBool,
}

/// The visible state of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationState {
    /// When it began, in milliseconds of the workers' clock.
    pub since_ms: u64,
    /// The worker that forwards, from 0.
    pub worker: u32,
    /// The connection's descriptor, while it is established.
    pub descriptor: Option<i32>,
    /// Whether it is over, and the next one has not begun.
    pub paused: bool,
    /// How often its task ran.
    pub calls: u64,
    /// How many connections failed or ended before this one, since a message was sent.
    pub failures: u32,
}

/// A conversation in progress.
pub struct Lasting<'c>(&'c LogConversation);

impl LogConversation {
    /// Begins it, in the current task.
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

    /// The connection is established.
    pub(super) fn stands(&self, connection: &Descriptor) {
        self.descriptor.store(connection.as_fd().as_raw_fd() + 1, Relaxed);
    }

    /// Counts a run of its task; false when an operator ended it.
    pub fn goes_on(&self) -> bool {
        // There is only one writer.
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        !self.ended.load(Relaxed)
    }

    /// A message was sent.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Relaxed);
    }

    /// The visible state; none before the first connection.
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

    /// Ends it; the ring's next connection to the server is opened after the usual pause. False before the first.
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
