//! Where accept tasks wait for room: a limit that is reached, and who wants to know when it no longer is.
//!
//! A connection holds a [`Place`] of each limit that it counts for. Giving one back wakes one waiter. No wake-up is
//! lost: who finds the limit reached enlists first and tries again then, and who gives a place back counts down first
//! and looks for waiters then; all four steps are totally ordered, so one of the two sees the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_sched::TaskKey;

/// How many there are of something, a bound for it, and the tasks that wait for one to go.
#[derive(Debug, Default)]
pub struct Gate {
    now: AtomicU32,
    maximum: AtomicU32,
    waiting: AtomicU32,
    tasks: Mutex<VecDeque<TaskKey>>,
}

/// One counted connection; counts no more when it is dropped.
#[derive(Debug)]
pub struct Place(&'static Gate);

impl Gate {
    /// Nothing inside, nobody waits.
    pub const fn new() -> Self {
        Gate {
            now: AtomicU32::new(0),
            maximum: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            tasks: Mutex::new(VecDeque::new()),
        }
    }

    /// How many are inside.
    pub fn inside(&self) -> u32 {
        self.now.load(SeqCst)
    }

    /// The most that ever were inside at once since the last [`Gate::clear_maximum`].
    pub fn maximum(&self) -> u32 {
        self.maximum.load(SeqCst)
    }

    /// The maximum starts again from what is.
    pub fn clear_maximum(&self) {
        self.maximum.store(self.inside(), SeqCst);
    }

    /// One more, if there are fewer than `limit`.
    pub fn enter(&'static self, limit: u32) -> Option<Place> {
        let more = |now: u32| (now < limit).then_some(now + 1);
        self.now.fetch_update(SeqCst, SeqCst, more).ok()?;
        Some(Place(self))
    }

    /// Puts a task on the list of those that are woken, one for each place that becomes free.
    pub fn enlist(&self, task: TaskKey) {
        let mut tasks = self.lock();
        tasks.push_back(task);
        self.waiting.store(tasks.len() as u32, SeqCst);
    }

    /// Takes a task off the list. `false` when it is not there any more: a free place was offered to it, and if it does
    /// not try to take it, it must call [`Gate::offer`].
    pub fn withdraw(&self, task: TaskKey) -> bool {
        let mut tasks = self.lock();
        let Some(at) = tasks.iter().position(|waiting| *waiting == task) else { return false };
        tasks.remove(at);
        self.waiting.store(tasks.len() as u32, SeqCst);
        true
    }

    /// Wakes the task that has waited longest: there may be room.
    #[inline]
    pub fn offer(&self) {
        if self.waiting.load(SeqCst) > 0 {
            self.wake_first();
        }
    }

    /// Wakes everybody, because the limit was changed.
    pub fn offer_all(&self) {
        let mut waiting = self.lock();
        let tasks = std::mem::take(&mut *waiting);
        self.waiting.store(0, SeqCst);
        drop(waiting);
        tasks.into_iter().for_each(weir_sched::wake);
    }

    #[cold]
    fn wake_first(&self) {
        let mut tasks = self.lock();
        let first = tasks.pop_front();
        self.waiting.store(tasks.len() as u32, SeqCst);
        drop(tasks);
        if let Some(task) = first {
            weir_sched::wake(task);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<TaskKey>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Lets the place count for the maximum: it is used, not only tried.
    pub fn keep(&self) {
        let now = self.0.inside();
        if self.0.maximum.load(SeqCst) < now {
            self.0.maximum.fetch_max(now, SeqCst);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
        self.0.offer();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> &'static Gate {
        Box::leak(Box::default())
    }

    #[test]
    fn nobody_enters_a_full_gate() {
        let gate = gate();
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

    #[test]
    fn a_place_that_is_given_back_goes_to_one_waiter() {
        let gate = gate();
        let place = gate.enter(1).expect("room");
        let (early, late) = (key(1), key(2));
        gate.enlist(early);
        gate.enlist(late);
        drop(place);
        assert!(!gate.withdraw(early), "it was offered the place");
        assert!(gate.withdraw(late), "it still waits");
        gate.enlist(late);
        gate.offer_all();
        assert!(!gate.withdraw(late));
    }

    /// A task's key; the workers that it would name do not exist, so nobody is woken.
    fn key(number: u64) -> TaskKey {
        TaskKey::from_bits(1023 << 54 | number << 32 | 1)
    }
}
