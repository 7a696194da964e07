//! Runs that wait for a queue of their state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use weir_sched::TaskKey;

/// A run that waits for items. The run has it, so a run that was dropped is not woken.
#[derive(Debug)]
pub(crate) struct QueueWaiter {
    task: TaskKey,
    /// Whether a queue got an item since [`QueueWaiter::take`].
    rung: AtomicBool,
}

impl QueueWaiter {
    /// The waiter of the current task.
    pub(crate) fn new() -> Arc<QueueWaiter> {
        Arc::new(QueueWaiter { task: weir_sched::current(), rung: AtomicBool::new(false) })
    }

    /// Whether a queue got an item since the last call.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }
}

/// The waiters of the queues of a state, by the numbers of the queues.
#[derive(Debug, Default)]
pub(crate) struct QueueAlarms {
    last: i64,
    waiting: HashMap<i64, Vec<Weak<QueueWaiter>>>,
}

impl QueueAlarms {
    /// A number for a queue.
    pub(crate) fn number(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    /// Wakes a waiter at the next item of a queue.
    pub(crate) fn enlist(&mut self, queue: i64, waiter: &Arc<QueueWaiter>) {
        let is_alive = |known: &Weak<QueueWaiter>| known.strong_count() > 0;
        if self.waiting.len() == self.waiting.capacity() {
            // Queues that scripts dropped while runs waited for them.
            self.waiting.retain(|_, waiters| waiters.iter().any(is_alive));
        }
        let waiters = self.waiting.entry(queue).or_default();
        waiters.retain(|known| is_alive(known) && known.as_ptr() != Arc::as_ptr(waiter));
        waiters.push(Arc::downgrade(waiter));
    }

    /// A queue got an item: wakes its waiters.
    pub(crate) fn ring(&mut self, queue: i64) {
        for waiter in self.waiting.remove(&queue).unwrap_or_default().iter().filter_map(Weak::upgrade) {
            waiter.rung.store(true, Ordering::Release);
            weir_sched::wake(waiter.task);
        }
    }
}
