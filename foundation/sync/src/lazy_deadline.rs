//! A deadline that its owner changes freely, and its entry in a timer queue shared by several threads.
//!
//! The owner stores the deadline, and accesses the queue only if the deadline is earlier than the entry. The thread that
//! scans the queue reinserts an expired entry if the deadline is later. Each side writes its own word, then reads the
//! other's, with a fence in between. So if a deadline is set while its old entry is removed, at least one side notices,
//! and the deadline always has an entry.

use crate::primitives::{AtomicU64, Ordering, fence};

/// One deadline and its entry's time.
#[derive(Debug)]
pub struct LazyDeadline {
    /// The deadline, or [`NEVER`] without one.
    deadline: AtomicU64,
    /// The entry's time in the queue, not later than the deadline. [`NEVER`] without an entry. Written under the queue's write lock.
    entry: AtomicU64,
}

/// The action for an expired entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The deadline passed. Remove the entry and wake the owner.
    Due,
    /// The deadline is later. Move the entry to this time.
    Later(u64),
    /// The deadline was removed. Remove the entry.
    Gone,
}

impl Default for LazyDeadline {
    fn default() -> Self {
        Self { deadline: AtomicU64::new(NEVER), entry: AtomicU64::new(NEVER) }
    }
}

impl LazyDeadline {
    /// Sets the deadline (`u64::MAX` for none). Only for the owner. If true, take the queue's write lock and call [`LazyDeadline::arm`].
    #[must_use = "when it is true the deadline has no entry yet"]
    pub fn set(&self, deadline: u64) -> bool {
        self.deadline.store(deadline, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        deadline < self.entry.load(Ordering::Relaxed)
    }

    /// The new time of the entry, if it must move. Call it under the queue's write lock.
    #[must_use]
    pub fn arm(&self) -> Option<u64> {
        let deadline = self.deadline.load(Ordering::Relaxed);
        let moves = deadline < self.entry.load(Ordering::Relaxed);
        moves.then(|| {
            self.entry.store(deadline, Ordering::Relaxed);
            deadline
        })
    }

    /// Decides about an entry that expired at `now`. Call it under the queue's write lock.
    #[must_use]
    pub fn expire(&self, now: u64) -> Expiry {
        self.entry.store(NEVER, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        match self.deadline.load(Ordering::Relaxed) {
            NEVER => Expiry::Gone,
            deadline if deadline <= now => Expiry::Due,
            deadline => {
                self.entry.store(deadline, Ordering::Relaxed);
                Expiry::Later(deadline)
            }
        }
    }

    /// Notes that the entry was removed. Call it under the queue's write lock.
    pub fn disarm(&self) {
        self.entry.store(NEVER, Ordering::Relaxed);
    }

    /// Whether there may be an entry.
    pub fn is_armed(&self) -> bool {
        self.entry.load(Ordering::Relaxed) != NEVER
    }

    /// The deadline. `u64::MAX` for none.
    pub fn get(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }
}

const NEVER: u64 = u64::MAX;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R59: the deadline is armed exactly while it has an entry.
    #[test]
    fn a_deadline_is_armed_exactly_while_it_has_a_queue_entry() {
        let deadline = LazyDeadline::default();
        assert!(!deadline.is_armed());
        assert!(
            deadline.set(50) && !deadline.is_armed() && deadline.arm() == Some(50) && deadline.is_armed()
        );
        assert!(!deadline.set(50), "there is an entry already");
        deadline.disarm();
        assert!(!deadline.is_armed() && deadline.set(60) && deadline.arm() == Some(60));
        assert_eq!((deadline.expire(59), deadline.is_armed()), (Expiry::Later(60), true));
        assert_eq!((deadline.expire(60), deadline.is_armed()), (Expiry::Due, false));
    }

    /// R58: an entry that expires before its deadline moves to the deadline.
    #[test]
    fn a_deadline_can_be_moved_earlier_and_later() {
        let deadline = LazyDeadline::default();
        assert!(deadline.set(50) && deadline.arm() == Some(50) && deadline.arm().is_none());
        assert!(!deadline.set(80), "later: the entry stays");
        assert_eq!(deadline.expire(50), Expiry::Later(80));
        assert!(deadline.set(60) && deadline.arm() == Some(60), "nearer: the entry moves");
        assert_eq!(deadline.expire(60), Expiry::Due);
        assert!(!deadline.is_armed());
        assert!(deadline.set(90) && deadline.arm() == Some(90));
        assert!(!deadline.set(NEVER));
        assert_eq!(deadline.expire(90), Expiry::Gone);
        assert_eq!(deadline.get(), NEVER);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::primitives::Mutex;
    use loom::sync::Arc;

    /// R58: a deadline set while its old entry expires keeps an entry, in either order of events.
    #[test]
    fn a_deadline_set_during_expiry_keeps_a_queue_entry() {
        loom::model(|| {
            // The queue's write lock, and the one entry in it.
            let shared = Arc::new((LazyDeadline::default(), Mutex::new(None)));
            assert!(shared.0.set(10));
            *crate::primitives::lock(&shared.1) = shared.0.arm();
            // Another event woke the task. Its deadline is disarmed while it runs.
            assert!(!shared.0.set(NEVER));
            let scanner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let mut entry = crate::primitives::lock(&shared.1);
                    if entry.is_some_and(|due| due <= 15) {
                        *entry = match shared.0.expire(15) {
                            Expiry::Later(due) => Some(due),
                            Expiry::Due | Expiry::Gone => None,
                        };
                    }
                })
            };
            if shared.0.set(20) {
                let mut entry = crate::primitives::lock(&shared.1);
                if let Some(due) = shared.0.arm() {
                    *entry = Some(due);
                }
            }
            scanner.join().expect("the scanner ends");
            let entry = *crate::primitives::lock(&shared.1);
            assert!(entry.is_some_and(|due| due <= 20), "{entry:?}");
        });
    }
}
