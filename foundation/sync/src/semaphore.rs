//! A bounded number of permits, and a list of waiters.
//!
//! A caller without a permit adds itself to the list, then retries. A caller that returns a permit decrements the
//! count, then checks the list. A fence between the two steps of each ensures that at least one sees the other, so a
//! free permit always meets a waiter. Without waiters, returning a permit does not take a lock.

use std::collections::VecDeque;

use crate::lock_label::{Lock, LockLabel};
use crate::primitives::{AtomicU32, Ordering, fence};

/// Label of the lock in profiles.
static LABEL: LockLabel = LockLabel::new("QUEUE");

/// A counting semaphore with a FIFO list of waiters, identified by `W`.
#[derive(Debug)]
pub struct Semaphore<W> {
    inside: AtomicU32,
    waiting: AtomicU32,
    list: Lock<VecDeque<W>>,
}

impl<W: Copy + PartialEq> Default for Semaphore<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Copy + PartialEq> Semaphore<W> {
    /// A semaphore with all permits free and an empty list.
    pub fn new() -> Self {
        Self {
            inside: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            list: Lock::new(VecDeque::new(), &LABEL),
        }
    }

    /// Number of permits taken.
    pub fn inside(&self) -> u32 {
        self.inside.load(Ordering::Relaxed)
    }

    /// Takes a permit, if fewer than `limit` are taken.
    #[inline]
    pub fn enter(&self, limit: u32) -> bool {
        let mut inside = self.inside.load(Ordering::Relaxed);
        while inside < limit {
            match self.inside.compare_exchange(inside, inside + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => inside = now,
            }
        }
        false
    }

    /// Returns a permit. The result is the waiter to notify.
    #[inline]
    #[must_use = "the returned waiter has to be notified"]
    pub fn leave(&self) -> Option<W> {
        self.inside.fetch_sub(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.next()
    }

    /// Adds `waiter` to the list. The caller must retry once before it waits.
    pub fn enlist(&self, waiter: W) {
        self.change(|list| list.push_back(waiter));
        fence(Ordering::SeqCst);
    }

    /// Removes `waiter` from the list. `false` if it was notified or is about to be. Then a permit may be free, and the
    /// caller must either try to take it or notify the [`Semaphore::next`] waiter.
    pub fn withdraw(&self, waiter: W) -> bool {
        self.change(|list| {
            let position = list.iter().position(|other| *other == waiter);
            position.map(|position| list.remove(position)).is_some()
        })
    }

    /// Removes the first waiter from the list, for a notification that a permit may be free.
    #[inline]
    #[must_use = "the returned waiter has to be notified"]
    pub fn next(&self) -> Option<W> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.change(VecDeque::pop_front)
    }

    /// Removes all waiters from the list, after a change of the limit.
    #[must_use = "the returned waiter has to be notified"]
    pub fn everybody(&self) -> VecDeque<W> {
        self.change(std::mem::take)
    }

    #[cold]
    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<W>) -> T) -> T {
        let mut list = self.list.lock();
        let result = change(&mut list);
        // At most one waiter per task, far below 2^32.
        self.waiting.store(list.len() as u32, Ordering::Relaxed);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn permits_beyond_the_limit_are_refused() {
        let semaphore = Semaphore::<u8>::new();
        assert_eq!(semaphore.inside(), 0);
        assert!(semaphore.enter(2) && semaphore.enter(2) && !semaphore.enter(2));
        assert_eq!(semaphore.inside(), 2);
        assert_eq!(semaphore.leave(), None);
        assert_eq!(semaphore.inside(), 1);
        assert!(semaphore.enter(2));
    }

    #[test]
    fn the_longest_waiter_gets_the_permit_first() {
        let semaphore = Semaphore::new();
        assert!(semaphore.enter(1));
        semaphore.enlist('a');
        semaphore.enlist('b');
        semaphore.enlist('c');
        assert!(semaphore.withdraw('b'));
        assert_eq!(semaphore.leave(), Some('a'));
        assert!(!semaphore.withdraw('a'), "it was notified");
        assert_eq!(semaphore.everybody(), ['c']);
        assert_eq!(semaphore.next(), None);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Takes a permit or enlists. Returns whether it took one.
    fn come(semaphore: &Semaphore<u8>, waiter: u8) -> bool {
        semaphore.enter(1) || {
            semaphore.enlist(waiter);
            let entered = semaphore.enter(1);
            if entered {
                semaphore.withdraw(waiter);
            }
            entered
        }
    }

    #[test]
    fn a_concurrently_freed_permit_is_taken_or_its_waiter_notified() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new());
            assert!(semaphore.enter(1));
            let other = {
                let semaphore = semaphore.clone();
                loom::thread::spawn(move || come(&semaphore, 1))
            };
            let notified = semaphore.leave();
            let entered = other.join().expect("the other thread ends");
            assert!(entered || notified == Some(1), "a place is free and somebody waits for it");
            assert!(semaphore.inside() <= 1);
        });
    }

    #[test]
    fn the_second_of_two_callers_is_notified_when_the_first_leaves() {
        loom::model(|| {
            let semaphore = Arc::new(Semaphore::new());
            let other = {
                let semaphore = semaphore.clone();
                loom::thread::spawn(move || {
                    let entered = come(&semaphore, 2);
                    (entered, if entered { semaphore.leave() } else { None })
                })
            };
            let entered = come(&semaphore, 1);
            let notified = if entered { semaphore.leave() } else { None };
            let (other_entered, other_notified) = other.join().expect("the other thread ends");
            assert!(entered || other_notified == Some(1), "the first one sleeps beside a free place");
            assert!(other_entered || notified == Some(2), "the second one sleeps beside a free place");
        });
    }
}
