//! A bounded number of permits, and the list of those that wait for one.
//!
//! A caller that gets no permit enlists and then tries again; a caller that returns one counts down and then looks at
//! the list. A fence between the two steps of each makes one of them see the other, so a free permit and a waiter never
//! miss each other. Without waiters, returning a permit takes no lock.

use std::collections::VecDeque;

use crate::lock_label::{Lock, LockLabel};
use crate::primitives::{AtomicU32, Ordering, fence};

/// The name of the list's lock in profiles.
static LABEL: LockLabel = LockLabel::new("QUEUE");

/// Counts permits and lists waiters, each named by a `W`.
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
    /// All permits free, the list empty.
    pub fn new() -> Self {
        Self {
            inside: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            list: Lock::new(VecDeque::new(), &LABEL),
        }
    }

    /// How many permits are taken.
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

    /// Returns a permit; the result is the waiter to notify.
    #[inline]
    #[must_use = "the returned waiter has to be notified"]
    pub fn leave(&self) -> Option<W> {
        self.inside.fetch_sub(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.next()
    }

    /// Puts `waiter` on the list. It has to try once more before it waits.
    pub fn enlist(&self, waiter: W) {
        self.change(|list| list.push_back(waiter));
        fence(Ordering::SeqCst);
    }

    /// Takes `waiter` off the list. `false` when it was notified, or is about to be: then a permit may be free, and if it
    /// does not try to take it, it has to pass that on with [`Semaphore::next`].
    pub fn withdraw(&self, waiter: W) -> bool {
        self.change(|list| {
            let position = list.iter().position(|other| *other == waiter);
            position.map(|position| list.remove(position)).is_some()
        })
    }

    /// Takes the longest waiter off the list, to be notified that a permit may be free.
    #[inline]
    #[must_use = "the returned waiter has to be notified"]
    pub fn next(&self) -> Option<W> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.change(VecDeque::pop_front)
    }

    /// Takes all waiters off the list, because the limit was changed.
    #[must_use = "the returned waiter has to be notified"]
    pub fn everybody(&self) -> VecDeque<W> {
        self.change(std::mem::take)
    }

    #[cold]
    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<W>) -> T) -> T {
        let mut list = self.list.lock();
        let result = change(&mut list);
        // As many as there are tasks at most, far below 2^32.
        self.waiting.store(list.len() as u32, Ordering::Relaxed);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn refuses_permits_beyond_the_limit() {
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
    fn a_freed_permit_is_taken_or_its_waiter_notified() {
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
    fn of_two_callers_one_enters_and_the_other_is_notified_when_it_leaves() {
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
