//! Whether a thread sleeps, so that the others ring only when they must.
//!
//! ```text
//!   owner                             another thread
//!   lie_down()   sleeping = true
//!                ---- fence ----      leaves a message
//!   checks its inboxes                ---- fence ----
//!   sleeps if they are empty          must_ring(): sleeping?
//!   rise()       sleeping = false
//! ```
//! Either the owner sees the message or the other sees it sleeping: both fences together rule out neither.

use crate::primitives::{AtomicBool, Ordering, fence};

/// The sleeping mark of one thread.
#[derive(Debug, Default)]
pub struct Doorbell {
    sleeping: AtomicBool,
}

impl Doorbell {
    /// A bell of a thread that is awake.
    pub fn new() -> Self {
        Self { sleeping: AtomicBool::new(false) }
    }

    /// The owner announces that it will sleep. It must look at its inboxes once more before it does.
    #[inline]
    pub fn lie_down(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake again, or decided not to sleep.
    #[inline]
    pub fn rise(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// After something was left that others may find, too: whether the owner sleeps. One that does not will look.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed)
    }

    /// After a message was left: whether the caller is the one that has to wake the owner.
    #[inline]
    pub fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R14: who is awake is not rung, and who sleeps is rung by one of those that leave something.
    #[test]
    fn only_a_sleeper_is_rung_and_once() {
        let bell = Doorbell::new();
        assert!(!bell.is_asleep() && !bell.must_ring());
        bell.lie_down();
        assert!(bell.is_asleep());
        assert_eq!([bell.must_ring(), bell.must_ring(), bell.is_asleep()], [true, false, false]);
        bell.lie_down();
        bell.rise();
        assert!(!bell.must_ring());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A message is never left with a sleeper that nobody rings (R14).
    #[test]
    fn no_message_is_slept_over() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::new(), AtomicBool::new(false)));
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.store(true, Ordering::Relaxed);
                    shared.0.must_ring()
                })
            };
            shared.0.lie_down();
            let seen = shared.1.load(Ordering::Relaxed);
            if seen {
                shared.0.rise();
            }
            let rung = other.join().expect("the other thread ends");
            assert!(seen || rung);
        });
    }
}
