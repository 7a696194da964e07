//! Tracks whether a thread is asleep, so that other threads wake it only if needed.
//!
//! ```text
//!   owner                             another thread
//!   mark_asleep()   sleeping = true
//!                ---- fence ----      leaves a message
//!   checks its inboxes                ---- fence ----
//!   sleeps if they are empty          must_ring(): sleeping?
//!   mark_awake()  sleeping = false
//! ```
//! Because of the two fences, either the owner sees the message or the other thread sees that the owner is asleep.

use crate::primitives::{AtomicBool, Ordering, fence};

/// The sleeping mark of one thread.
#[derive(Debug, Default)]
pub struct Doorbell {
    sleeping: AtomicBool,
}

impl Doorbell {
    /// A doorbell of a thread that is awake.
    pub fn new() -> Self {
        Self { sleeping: AtomicBool::new(false) }
    }

    /// Marks the owner as asleep. The owner must check its inboxes once more before it sleeps.
    #[inline]
    pub fn mark_asleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the owner as awake, also if it decided not to sleep.
    #[inline]
    pub fn mark_awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Whether the owner is asleep. Call it after queueing work that other threads may take as well. An owner that is awake
    /// checks the queue anyway.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Whether the caller must wake the owner. Call it after queueing a message.
    #[inline]
    pub fn must_ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R14: a thread that is awake is not woken. A sleeping one is woken by exactly one sender.
    #[test]
    fn only_a_sleeping_thread_is_woken_and_by_one_sender() {
        let bell = Doorbell::new();
        assert!(!bell.is_asleep() && !bell.must_ring());
        bell.mark_asleep();
        assert!(bell.is_asleep());
        assert_eq!([bell.must_ring(), bell.must_ring(), bell.is_asleep()], [true, false, false]);
        bell.mark_asleep();
        bell.mark_awake();
        assert!(!bell.must_ring());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// A message for a sleeping owner always causes a wake-up (R14).
    #[test]
    fn a_message_for_a_sleeping_owner_always_causes_a_wake_up() {
        loom::model(|| {
            let shared = Arc::new((Doorbell::new(), AtomicBool::new(false)));
            let other = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.store(true, Ordering::Relaxed);
                    shared.0.must_ring()
                })
            };
            shared.0.mark_asleep();
            let seen = shared.1.load(Ordering::Relaxed);
            if seen {
                shared.0.mark_awake();
            }
            let rung = other.join().expect("the other thread ends");
            assert!(seen || rung);
        });
    }
}
