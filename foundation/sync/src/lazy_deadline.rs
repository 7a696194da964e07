//! A deadline that its owner moves freely, and its entry in a queue that several threads empty.
//!
//! The owner notes the deadline and touches the queue only when it comes nearer than the entry; the thread that scans the
//! queue finds an expired entry and puts it back when the deadline has moved away. Each side writes its own word, then
//! looks at the other's, with a fence between. So when a deadline is set while its old entry is taken out, at least
//! one side notices, and the deadline is never left without an entry.

use crate::primitives::{AtomicU64, Ordering, fence};

/// One deadline and its entry's time.
#[derive(Debug)]
pub struct LazyDeadline {
    /// [`NEVER`] without a deadline.
    deadline: AtomicU64,
    /// The entry's time in the queue: not later than the deadline; [`NEVER`] without an entry. Written under
    /// the queue's write lock.
    entry: AtomicU64,
}

/// The action for an expired entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The deadline passed: the entry goes, its owner is woken.
    Due,
    /// The deadline is later: the entry moves there.
    Later(u64),
    /// The deadline was removed: the entry goes.
    Gone,
}

impl Default for LazyDeadline {
    fn default() -> Self {
        Self { deadline: AtomicU64::new(NEVER), entry: AtomicU64::new(NEVER) }
    }
}

impl LazyDeadline {
    /// The owner sets its deadline (`u64::MAX`: none). If true, take the queue's write lock and
    /// call [`LazyDeadline::arm`].
    #[must_use = "when it is true the deadline has no entry yet"]
    pub fn set(&self, deadline: u64) -> bool {
        self.deadline.store(deadline, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        deadline < self.entry.load(Ordering::Relaxed)
    }

    /// Under the write lock: where the entry must lie now, if it must move.
    #[must_use]
    pub fn arm(&self) -> Option<u64> {
        let deadline = self.deadline.load(Ordering::Relaxed);
        let moves = deadline < self.entry.load(Ordering::Relaxed);
        moves.then(|| {
            self.entry.store(deadline, Ordering::Relaxed);
            deadline
        })
    }

    /// Under the write lock: the entry came up at `now`.
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

    /// Under the write lock: the entry is taken out.
    pub fn disarm(&self) {
        self.entry.store(NEVER, Ordering::Relaxed);
    }

    /// Whether there may be an entry.
    pub fn is_armed(&self) -> bool {
        self.entry.load(Ordering::Relaxed) != NEVER
    }

    /// The deadline; `u64::MAX` without one.
    pub fn get(&self) -> u64 {
        self.deadline.load(Ordering::Relaxed)
    }
}

const NEVER: u64 = u64::MAX;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R59: it is armed exactly while it has an entry.
    #[test]
    fn it_is_known_whether_there_is_an_entry() {
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

    /// R58: an entry that came up too early moves to where the deadline is.
    #[test]
    fn a_deadline_moves_both_ways() {
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

    /// R58: a deadline that is set while its old entry comes up keeps an entry, whichever side is first.
    #[test]
    fn a_deadline_is_never_without_an_entry() {
        loom::model(|| {
            // The queue's write lock, and the one entry in it.
            let shared = Arc::new((LazyDeadline::default(), Mutex::new(None)));
            assert!(shared.0.set(10));
            *crate::primitives::lock(&shared.1) = shared.0.arm();
            // Another event woke it; its deadline is off while it runs.
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
