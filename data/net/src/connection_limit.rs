//! Connection limits: a count with its maximum, and the accept tasks that wait for room. The limit itself is given to
//! [`Permit::enter`].
//!
//! A connection holds a [`Permit`] of each limit that it counts for. Giving one back wakes one waiter; [`Semaphore`],
//! which is model-checked, makes sure that no wake-up is lost.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_sched::TaskKey;
use weir_sync::Semaphore;

/// A count, its maximum so far, and the tasks that wait for room. The limit is given to [`Permit::enter`].
#[derive(Debug, Default)]
pub struct ConnectionLimit {
    semaphore: Semaphore<TaskKey>,
    maximum: AtomicU32,
}

/// One counted connection. Dropping it decrements the count. It owns an `Arc` of its limit, or borrows the limit.
#[derive(Debug)]
pub struct Permit<L = Arc<ConnectionLimit>>(L)
where
    L: Deref<Target = ConnectionLimit>;

impl ConnectionLimit {
    /// A count of zero, without waiters.
    pub fn new() -> Self {
        Self::default()
    }

    /// The current count.
    pub fn inside(&self) -> u32 {
        self.semaphore.inside()
    }

    /// The highest count since the last [`ConnectionLimit::clear_maximum`].
    pub fn maximum(&self) -> u32 {
        self.maximum.load(Relaxed)
    }

    /// Updates the maximum with the current count. Call it once a connection is used, not only attempted.
    #[inline]
    pub fn note_maximum(&self) {
        let now = self.inside();
        if self.maximum.load(Relaxed) < now {
            self.maximum.fetch_max(now, Relaxed);
        }
    }

    /// Restarts the maximum at the current count.
    pub fn clear_maximum(&self) {
        self.maximum.store(self.inside(), Relaxed);
    }

    /// Decrements the count for a permit that was given up by [`Permit::count_on`].
    #[inline]
    pub fn leave(&self) {
        if let Some(task) = self.semaphore.leave() {
            weir_sched::wake(task);
        }
    }

    /// Adds a task to the waiters. Each freed permit wakes one waiter. The task must try once more before it waits.
    pub fn enlist(&self, task: TaskKey) {
        self.semaphore.enlist(task);
    }

    /// Removes a task from the waiters. `false` if a freed permit was already offered to the task. If the task does not try
    /// to take the permit, it must call [`ConnectionLimit::offer`].
    pub fn withdraw(&self, task: TaskKey) -> bool {
        self.semaphore.withdraw(task)
    }

    /// Wakes the task that has waited longest, because there may be room.
    #[inline]
    pub fn offer(&self) {
        if let Some(task) = self.semaphore.next() {
            weir_sched::wake(task);
        }
    }

    /// Wakes all waiters, because the limit was changed.
    pub fn offer_all(&self) {
        self.semaphore.everybody().into_iter().for_each(weir_sched::wake);
    }
}

impl<L: Deref<Target = ConnectionLimit>> Permit<L> {
    /// Increments the count of `limit`. `None` if it is `most` already.
    #[inline]
    pub fn enter(limit: L, most: u32) -> Option<Self> {
        limit.semaphore.enter(most).then(|| Permit(limit))
    }

    /// Updates the limit's maximum. Call it once the connection is used, not only attempted.
    #[inline]
    pub fn keep(&self) {
        self.0.note_maximum();
    }
}

impl Permit<&ConnectionLimit> {
    /// Drops the permit without decrementing the count. The caller must call [`ConnectionLimit::leave`] once.
    #[inline]
    pub fn count_on(self) {
        std::mem::forget(self);
    }
}

impl<L: Deref<Target = ConnectionLimit>> Drop for Permit<L> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_connections_and_their_maximum() {
        let gate = Arc::new(ConnectionLimit::new());
        let first = Permit::enter(Arc::clone(&gate), 2).expect("room");
        let second = Permit::enter(&*gate, 2).expect("room");
        assert!(Permit::enter(&*gate, 2).is_none());
        second.keep();
        drop(second);
        assert_eq!((gate.inside(), gate.maximum()), (1, 2));
        drop(first);
        gate.clear_maximum();
        assert_eq!((gate.inside(), gate.maximum()), (0, 0));
    }
}
