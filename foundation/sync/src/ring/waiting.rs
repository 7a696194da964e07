//! Writers that wait for the tail. Each queue is a lock-free stack of messages, each stored in its writer's stack
//! frame. The next holder of the tail takes a whole queue and writes it as one batch.
//!
//! Under contention, one lock serves many messages. Only the newest writer of each queue polls the tail, and the others
//! poll a byte of their own. Polling backs off exponentially, because each poll takes the tail's cache line from its
//! holder. Consecutive messages of one writer cost a fraction of messages that alternate between two writers.

use std::cell::Cell;
use std::ptr;

use super::Reservation;
use crate::primitives::{AtomicPtr, AtomicU8, Ordering, yield_now};

/// A message queued for writing.
pub(super) struct PendingWrite {
    parts: *const [*const [u8]],
    /// Total length in bytes.
    pub(super) length: usize,
    /// Its reserved space, or the reason for a failure. Only for the thread that serves the batch.
    pub(super) place: Cell<Result<Reservation, Fate>>,
    /// The previous message in the queue.
    next: Cell<*mut PendingWrite>,
    state: AtomicU8,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// The message is in a queue.
    Waiting,
    /// The message is in the ring.
    Written,
    /// Dropped: it is larger than the ring, or a reader blocks recycling.
    Dropped,
    /// The oldest message is still being copied. Retry shortly.
    Blocked,
}

impl PendingWrite {
    pub(super) fn new(parts: &[&[u8]]) -> Self {
        Self {
            // The same pointers without a lifetime. The writer waits, so the slices stay valid.
            parts: ptr::from_ref(parts) as *const [*const [u8]],
            length: parts.iter().map(|part| part.len()).sum(),
            place: Cell::new(Err(Fate::Waiting)),
            next: Cell::new(ptr::null_mut()),
            state: AtomicU8::new(Fate::Waiting as u8),
        }
    }

    /// The message that entered the queue before it.
    #[cfg(all(test, not(loom)))]
    pub(super) fn following(&self) -> *mut PendingWrite {
        self.next.get()
    }

    /// The message.
    ///
    /// # Safety
    /// The writer that made it is still in `Ring::write`.
    pub(super) unsafe fn parts(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the slice of parts is borrowed by the writer, which waits.
        let parts = unsafe { &*self.parts };
        // SAFETY: as above for each part.
        parts.iter().map(|&part| unsafe { &*part })
    }
}

/// Messages served by one holder of the tail.
pub(super) struct WriteBatch {
    first: *mut PendingWrite,
}

impl WriteBatch {
    /// Visits each message.
    pub(super) fn each(&self, mut visit: impl FnMut(&PendingWrite)) {
        let mut next = self.first;
        while !next.is_null() {
            // SAFETY: its writer waits until it is settled, and the batch is this thread's alone.
            let pending = unsafe { &*next };
            next = pending.next.get();
            visit(pending);
        }
    }

    /// Reports the result to the writer of each message.
    pub(super) fn settle(self) {
        let mut next = self.first;
        while !next.is_null() {
            // SAFETY: its writer waits until the store below; afterwards it is gone, and this is not used again.
            let pending = unsafe { &*next };
            next = pending.next.get();
            let fate = pending.place.get().err().unwrap_or(Fate::Written);
            pending.state.store(fate as u8, Ordering::Release);
        }
    }
}

/// Pushes a message onto a queue, for the first time or again.
pub(super) fn push(queue: &AtomicPtr<PendingWrite>, pending: *mut PendingWrite) {
    // SAFETY: it is in no queue, so this thread alone knows it.
    unsafe { &(*pending).state }.store(Fate::Waiting as u8, Ordering::Relaxed);
    let mut newest = queue.load(Ordering::Relaxed);
    loop {
        // SAFETY: it is not in the queue yet, so this thread alone knows it.
        unsafe { &(*pending).next }.set(newest);
        match queue.compare_exchange_weak(newest, pending, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => newest = now,
        }
    }
}

/// Whether `pending` is the newest in its queue.
pub(super) fn is_newest(queue: &AtomicPtr<PendingWrite>, pending: *const PendingWrite) -> bool {
    ptr::eq(queue.load(Ordering::Relaxed), pending)
}

/// The state of a message, for its writer.
///
/// # Safety
/// `pending` lives.
pub(super) unsafe fn fate(pending: *const PendingWrite) -> Fate {
    // SAFETY: it lives; others only touch it through the same pointer, and this field is atomic.
    let state = unsafe { &(*pending).state }.load(Ordering::Acquire);
    [Fate::Waiting, Fate::Written, Fate::Dropped, Fate::Blocked][usize::from(state)]
}

/// Takes the whole queue, oldest first.
///
/// # Safety
/// Every writer in it waits until it is settled.
pub(super) unsafe fn take(queue: &AtomicPtr<PendingWrite>) -> WriteBatch {
    let mut next = queue.swap(ptr::null_mut(), Ordering::Acquire);
    let mut first = ptr::null_mut();
    while !next.is_null() {
        // SAFETY: the queue was taken whole, and its writers wait.
        let following = unsafe { &(*next).next }.replace(first);
        first = next;
        next = following;
    }
    WriteBatch { first }
}

/// Backoff of a waiting writer.
pub(super) struct Patience {
    turns: u32,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { turns: 0 }
    }

    /// Waits once. The pause doubles each time. Later calls yield the CPU, so that a preempted thread can run.
    pub(super) fn pass(&mut self) {
        if cfg!(loom) || self.turns >= SPINNING_TURNS {
            yield_now();
        } else {
            (0..1_u32 << self.turns.min(LONGEST_PAUSE)).for_each(|_| std::hint::spin_loop());
        }
        self.turns = self.turns.saturating_add(1);
    }

    /// Whether to poll the tail without being the newest of the queue, since the newest may be preempted.
    pub(super) fn is_over_for_the_newest(&self) -> bool {
        self.turns > NEWEST_TURNS
    }

    /// Whether to keep waiting for the end of a copy that blocks recycling.
    pub(super) fn is_left_for_a_copy(&self) -> bool {
        self.turns < COPY_TURNS
    }
}

/// Decides whether a reader at the end of the ring spins before it sleeps. At a high message rate, a sleep and a wake-up
/// cost more than the time until the next message. After each unsuccessful spin, the reader spins less often.
#[derive(Debug, Default)]
pub(super) struct SpinPolicy {
    /// Number of further sleeps without spinning.
    sleeps: u32,
    /// Number of sleeps without spinning scheduled after the last unsuccessful spin.
    skipped: u32,
}

impl SpinPolicy {
    /// Spins until `came` returns true. False if it did not, or if the spin was skipped.
    pub(super) fn until(&mut self, came: impl Fn() -> bool) -> bool {
        if cfg!(loom) || self.sleeps > 0 {
            self.sleeps = self.sleeps.saturating_sub(1);
            return false;
        }
        for _ in 0..LOOKS {
            (0..PAUSES_BETWEEN_LOOKS).for_each(|_| std::hint::spin_loop());
            if came() {
                self.skipped = 0;
                return true;
            }
        }
        self.skipped = (2 * self.skipped + 1).min(MOST_SKIPPED);
        self.sleeps = self.skipped;
        false
    }
}

/// Number of polls before a sleep, and spin-loop hints between polls. Some microseconds in total.
const LOOKS: u32 = 8;
const PAUSES_BETWEEN_LOOKS: u32 = 64;

/// Maximum number of sleeps between two spins.
const MOST_SKIPPED: u32 = 255;

/// Waits by spinning, before yielding. Some microseconds in total, much longer than a running thread locks the tail.
const SPINNING_TURNS: u32 = 9;

/// log2 of the maximum number of spin-loop hints per wait (some microseconds). A quarter of it reduced the throughput
/// of 2 to 8 writers by a fifth.
const LONGEST_PAUSE: u32 = 8;

/// Waits after which a writer no longer relies on the newest of its queue.
const NEWEST_TURNS: u32 = 16;

/// Maximum waits for the end of a copy. Another thread was preempted during a copy while other writers filled the ring.
/// If it does not resume in time, the message is dropped and counted.
const COPY_TURNS: u32 = if cfg!(loom) { 2 } else { 64 };
