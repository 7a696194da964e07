//! Where accept tasks wait for room: a limit that is reached, and who wants to know when it no longer is.
//!
//! A connection holds a [`Permit`] of each limit that it counts for. Giving one back wakes one waiter; that no wake-up is
//! lost is the affair of [`Semaphore`], which is modelled.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_sched::TaskKey;
use weir_sync::Semaphore;

/// How many there are of something, a bound for it, and the tasks that wait for one to go.
#[derive(Debug, Default)]
pub struct ConnectionLimit {
    semaphore: Semaphore<TaskKey>,
    maximum: AtomicU32,
}

/// One counted connection; counts no more when it is dropped.
#[derive(Debug)]
pub struct Permit(&'static ConnectionLimit);

impl ConnectionLimit {
    /// Nothing inside, nobody waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many are inside.
    pub fn inside(&self) -> u32 {
        self.semaphore.inside()
    }

    /// The most that ever were inside at once since the last [`ConnectionLimit::clear_maximum`].
    pub fn maximum(&self) -> u32 {
        self.maximum.load(Relaxed)
    }

    /// The maximum starts again from what is.
    pub fn clear_maximum(&self) {
        self.maximum.store(self.inside(), Relaxed);
    }

    /// Gives back a place that was told to count on.
    #[inline]
    pub fn leave(&self) {
        if let Some(task) = self.semaphore.leave() {
            weir_sched::wake(task);
        }
    }

    /// One more, if there are fewer than `limit`.
    #[inline]
    pub fn enter(&'static self, limit: u32) -> Option<Permit> {
        self.semaphore.enter(limit).then(|| Permit(self))
    }

    /// Puts a task on the list of those that are woken, one for each place that becomes free. It has to try once more
    /// before it waits.
    pub fn enlist(&self, task: TaskKey) {
        self.semaphore.enlist(task);
    }

    /// Takes a task off the list. `false` when it is not there any more: a free place was offered to it, and if it does
    /// not try to take it, it must call [`ConnectionLimit::offer`].
    pub fn withdraw(&self, task: TaskKey) -> bool {
        self.semaphore.withdraw(task)
    }

    /// Wakes the task that has waited longest: there may be room.
    #[inline]
    pub fn offer(&self) {
        if let Some(task) = self.semaphore.next() {
            weir_sched::wake(task);
        }
    }

    /// Wakes everybody, because the limit was changed.
    pub fn offer_all(&self) {
        self.semaphore.everybody().into_iter().for_each(weir_sched::wake);
    }
}

impl Permit {
    /// Lets the place count for the maximum: it is used, not only tried.
    #[inline]
    pub fn keep(&self) {
        let now = self.0.inside();
        if self.0.maximum.load(Relaxed) < now {
            self.0.maximum.fetch_max(now, Relaxed);
        }
    }

    /// Lets the place count without this value: whoever keeps account of it calls [`ConnectionLimit::leave`], once.
    #[inline]
    pub fn count_on(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_and_the_most_of_them_is_remembered() {
        let gate: &'static ConnectionLimit = Box::leak(Box::default());
        let first = gate.enter(2).expect("room");
        let second = gate.enter(2).expect("room");
        assert!(gate.enter(2).is_none());
        second.keep();
        drop(second);
        assert_eq!((gate.inside(), gate.maximum()), (1, 2));
        drop(first);
        gate.clear_maximum();
        assert_eq!((gate.inside(), gate.maximum()), (0, 0));
    }
}
