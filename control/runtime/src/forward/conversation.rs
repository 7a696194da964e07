//! What goes on between a ring and one of its servers: `show sess` lists it, `shutdown session` ends it.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};

use weir_sched::{Descriptor, TaskKey};

/// A connection to a log server, the attempt to make one, or the pause before the next. The worker that forwards writes it, any
/// other may read it, so that a listing asks nobody.
#[derive(Debug, Default)]
pub struct Conversation {
    /// When it began, in milliseconds of the workers' clock; 0 before the first one.
    since_ms: AtomicU64,
    /// Its task.
    task: AtomicU64,
    worker: AtomicU32,
    /// The connection while it stands, from 1.
    descriptor: AtomicI32,
    /// It is over, and the next one not begun.
    paused: AtomicBool,
    /// How often its task had something to do.
    calls: AtomicU64,
    /// Connections that failed or ended, one after the other, since a message left.
    failures: AtomicU32,
    /// An operator ended it.
    ended: AtomicBool,
}

/// What is to be seen of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it began, in milliseconds of the workers' clock.
    pub since_ms: u64,
    /// The worker that forwards, from 0.
    pub worker: u32,
    /// The connection, while it stands.
    pub descriptor: Option<i32>,
    /// It is over, and the next one not begun.
    pub paused: bool,
    /// How often its task had something to do.
    pub calls: u64,
    /// How many connections failed or ended before this one, since a message left.
    pub failures: u32,
}

/// A conversation as long as it lasts.
pub(crate) struct Lasting<'c>(&'c Conversation);

impl Conversation {
    /// It begins, in the current task.
    pub(crate) fn begin(&self) -> Lasting<'_> {
        self.task.store(weir_sched::current().to_bits(), Relaxed);
        self.worker.store(weir_sched::worker_index() as u32, Relaxed);
        self.descriptor.store(0, Relaxed);
        self.calls.store(0, Relaxed);
        self.ended.store(false, Relaxed);
        self.paused.store(false, Relaxed);
        self.since_ms.store(weir_sched::now().as_ms().max(1), Relaxed);
        Lasting(self)
    }

    /// The connection stands.
    pub(super) fn stands(&self, connection: &Descriptor) {
        self.descriptor.store(connection.as_fd().as_raw_fd() + 1, Relaxed);
    }

    /// Its task runs; false when an operator ended it.
    pub(crate) fn goes_on(&self) -> bool {
        // One writer: no other adds in between.
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
        !self.ended.load(Relaxed)
    }

    /// A message left.
    pub(super) fn succeeded(&self) {
        self.failures.store(0, Relaxed);
    }

    /// What is to be seen; nothing before the first.
    pub fn seen(&self) -> Option<Seen> {
        let since_ms = self.since_ms.load(Relaxed);
        let descriptor = self.descriptor.load(Relaxed);
        (since_ms > 0).then(|| Seen {
            since_ms,
            worker: self.worker.load(Relaxed),
            descriptor: (descriptor > 0).then_some(descriptor - 1),
            paused: self.paused.load(Relaxed),
            calls: self.calls.load(Relaxed),
            failures: self.failures.load(Relaxed),
        })
    }

    /// Ends it; the ring's next connection to the server is made after the usual pause. False before the first.
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
