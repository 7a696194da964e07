//! The task that a worker runs now, readable from other threads.

use std::panic::Location;
use std::sync::OnceLock;
use weir_sync::atomic::{AtomicBool, Ordering::Relaxed};

use weir_sync::{Counter, StaticRef};
use weir_sys::process;
use weir_sys::time::ThreadClock;

use crate::task::WorkKind;

/// Has its own cache line. Costs one or two stores per task run.
#[derive(Default)]
pub(crate) struct CurrentWork {
    kind: StaticRef<WorkKind>,
    /// The source location that woke the task, while profiling is on.
    place: StaticRef<Location<'static>>,
    /// How many tasks ran.
    switches: Counter,
    /// Whether the worker is in the poller, where it may wait without limit.
    waiting: AtomicBool,
    /// Whether the running task is in a computation with a limit of its own.
    limited: AtomicBool,
    identity: OnceLock<WorkerThread>,
}

#[derive(Clone, Copy)]
struct WorkerThread {
    thread: u32,
    clock: Option<ThreadClock>,
}

impl CurrentWork {
    /// Records the current thread as the worker's.
    pub(crate) fn introduce(&self) {
        self.identity.get_or_init(|| WorkerThread {
            thread: process::thread_id(),
            clock: ThreadClock::of_this_thread(),
        });
    }

    /// Records that a task of this kind runs.
    #[inline]
    pub(crate) fn enter(&self, kind: &'static WorkKind) {
        self.kind.set(Some(kind));
        self.switches.increment();
    }

    /// Records the source location that woke the running task.
    #[inline]
    pub(crate) fn woken_at(&self, place: Option<&'static Location<'static>>) {
        self.place.set(place);
    }

    /// Records that the worker enters the poller.
    #[inline]
    pub(crate) fn wait(&self) {
        self.waiting.store(true, Relaxed);
    }

    /// Records that the worker left the poller.
    #[inline]
    pub(crate) fn resume(&self) {
        self.kind.set(None);
        self.waiting.store(false, Relaxed);
    }

    /// The kind of the running task; `None` in the poller and between two tasks.
    pub(crate) fn kind(&self) -> Option<&'static WorkKind> {
        self.kind.get().filter(|_| !self.is_waiting())
    }

    /// Whether the worker is in the poller.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// Records that the running task begins or ends a computation with a limit of its own.
    #[inline]
    pub(crate) fn limit(&self, limited: bool) {
        self.limited.store(limited, Relaxed);
    }

    /// Whether the running task is in a computation with a limit of its own.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.load(Relaxed)
    }

    /// How many tasks ran.
    pub(crate) fn switches(&self) -> u64 {
        self.switches.value()
    }

    /// CPU time of the worker in nanoseconds. `None` before it runs.
    pub(crate) fn cpu_ns(&self) -> Option<u64> {
        self.identity.get()?.clock?.ns()
    }

    /// The thread ID of the worker. `None` before it runs.
    pub(crate) fn thread(&self) -> Option<u32> {
        self.identity.get().map(|identity| identity.thread)
    }

    /// The source location that woke the running task, while profiling is on.
    pub(crate) fn woken_by(&self) -> Option<&'static Location<'static>> {
        self.place.get()
    }
}
