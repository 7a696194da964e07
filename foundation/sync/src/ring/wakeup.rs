//! Waking readers. One writer at a time wakes all sleeping readers.
//!
//! ```text
//!   writer                                reader
//!   its message can be read               marks itself as sleeping
//!   ------------- fence -------------     ------------- fence -------------
//!   is a reader asleep?                   looks once more, sleeps if the ring is empty
//!   counts the delivery
//!   takes the waking mark, or leaves      (the holder of the mark looks at the count)
//!     wakes the sleepers
//!     drops the mark
//!     starts over if something was delivered since, unless another has the mark by then
//! ```
//! Only the holder of the mark walks the list (R100). Other writers count their delivery and return. The holder clears
//! the mark before it checks the count, so that another writer can take over and none is kept busy for ever (R101).

use std::cell::UnsafeCell;
use std::sync::Arc;

use crate::primitives::{AtomicBool, AtomicUsize, Ordering, fence, spin};

/// Wakes a reader. Called by writers, so it must neither block nor write to the ring.
pub type WakeReader = Box<dyn Fn() + Send + Sync>;

/// A reader that may sleep.
pub(super) struct Sleeper {
    sleeping: AtomicBool,
    wake: WakeReader,
}

/// The readers that may sleep.
pub(super) struct SleepingReaders {
    /// Set while a thread walks the list or changes it.
    waking: AtomicBool,
    /// Total number of deliveries while a reader slept.
    delivered: AtomicUsize,
    /// Number of sleeping readers.
    asleep: AtomicUsize,
    /// Only for the thread that has set `waking`.
    list: UnsafeCell<Vec<Arc<Sleeper>>>,
}

// SAFETY: only the thread that has set `waking` touches the list, and its content may be used from any thread.
unsafe impl Send for SleepingReaders {}
// SAFETY: as above.
unsafe impl Sync for SleepingReaders {}

impl SleepingReaders {
    pub(super) fn new() -> Self {
        Self {
            waking: AtomicBool::new(false),
            delivered: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            list: UnsafeCell::new(Vec::new()),
        }
    }

    /// Called after a message was published. Wakes sleeping readers, or leaves that to the holder of the mark.
    pub(super) fn deliver(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.delivered.fetch_add(1, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        while !self.waking.swap(true, Ordering::AcqRel) {
            // Acquire: a writer with a delivery counted here finds the mark set and returns, so this thread must see the same sleepers.
            let seen = self.delivered.load(Ordering::Acquire);
            // SAFETY: this thread has set the mark.
            let list = unsafe { &*self.list.get() };
            for sleeper in list {
                if self.rouse(sleeper) {
                    (sleeper.wake)();
                }
            }
            // A swap, not a store, to see the earlier writes of a writer that found the mark set.
            self.waking.swap(false, Ordering::AcqRel);
            if self.delivered.load(Ordering::Relaxed) == seen {
                return;
            }
        }
    }

    /// Marks a reader as awake. Returns whether it was asleep.
    fn rouse(&self, sleeper: &Sleeper) -> bool {
        let slept =
            sleeper.sleeping.load(Ordering::Relaxed) && sleeper.sleeping.swap(false, Ordering::AcqRel);
        if slept {
            self.asleep.fetch_sub(1, Ordering::Relaxed);
        }
        slept
    }

    pub(super) fn enlist(&self, wake: WakeReader) -> Arc<Sleeper> {
        let sleeper = Arc::new(Sleeper { sleeping: AtomicBool::new(false), wake });
        self.change(|list| list.push(Arc::clone(&sleeper)));
        sleeper
    }

    pub(super) fn strike(&self, sleeper: &Arc<Sleeper>) {
        self.mark_awake(sleeper);
        self.change(|list| list.retain(|other| !Arc::ptr_eq(other, sleeper)));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Sleeper>>)) {
        let mut tries = 0;
        while self.waking.swap(true, Ordering::AcqRel) {
            spin(&mut tries);
        }
        // SAFETY: this thread has set the mark.
        change(unsafe { &mut *self.list.get() });
        // A swap, as in `wake`.
        self.waking.swap(false, Ordering::AcqRel);
        // A writer that delivered meanwhile found the mark set and left the waking to this thread. The count does not
        // reveal this writer, since it increments the count earlier. A spurious wake-up is harmless, and readers rarely
        // attach or detach.
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// Marks a reader as asleep. The reader must check the ring once more before it sleeps.
    pub(super) fn mark_asleep(&self, sleeper: &Sleeper) {
        if !sleeper.sleeping.swap(true, Ordering::AcqRel) {
            self.asleep.fetch_add(1, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Marks a reader as awake.
    pub(super) fn mark_awake(&self, sleeper: &Sleeper) {
        self.rouse(sleeper);
    }
}
