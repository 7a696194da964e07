//! Writers that wait for the tail: a stack of messages, each on its writer's stack, that the next holder of the tail
//! takes whole and writes at once.
//!
//! While many wait, one lock serves many messages, and only the newest of each queue looks at the tail: the others
//! watch a byte of their own. A waiter looks less and less often: each look takes the tail's cache line away from its
//! holder, and a row of messages from one writer costs a fraction of the same messages from two writers in turns.

use std::cell::Cell;
use std::ptr;

use super::Reservation;
use crate::primitives::{AtomicPtr, AtomicU8, Ordering, yield_now};

/// A message that waits to be written.
pub(super) struct PendingWrite {
    parts: *const [*const [u8]],
    /// How many bytes it has in all.
    pub(super) length: usize,
    /// Where it goes, or why it was not written. Only for the holder of the tail that serves it.
    pub(super) place: Cell<Result<Reservation, Fate>>,
    /// The one that came before it.
    next: Cell<*mut PendingWrite>,
    state: AtomicU8,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    /// It is in a queue.
    Waiting,
    /// It is in the ring.
    Written,
    /// It is larger than the ring, or a reader is in the way.
    Dropped,
    /// A message that is being copied is in the way: there will be room in a moment.
    Blocked,
}

impl PendingWrite {
    pub(super) fn new(parts: &[&[u8]]) -> Self {
        Self {
            // The same pointers, without their lifetime: the writer outlives the wait.
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

/// Messages that one holder of the tail writes together.
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

    /// Reports to all writers the fate of their messages.
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

/// Joins a queue, for the first time or again.
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

/// Whether it is the newest in its queue.
pub(super) fn is_newest(queue: &AtomicPtr<PendingWrite>, pending: *const PendingWrite) -> bool {
    ptr::eq(queue.load(Ordering::Relaxed), pending)
}

/// The state of a message, as its writer sees it.
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

/// How long a writer has been waiting.
pub(super) struct Patience {
    turns: u32,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { turns: 0 }
    }

    /// Waits: twice as long each turn, later by yielding the processor, so that a preempted thread can run.
    pub(super) fn pass(&mut self) {
        if cfg!(loom) || self.turns >= SPINNING_TURNS {
            yield_now();
        } else {
            (0..1_u32 << self.turns.min(LONGEST_PAUSE)).for_each(|_| std::hint::spin_loop());
        }
        self.turns = self.turns.saturating_add(1);
    }

    /// Whether to look at the tail without being the newest of the queue: the newest may have been preempted.
    pub(super) fn is_over_for_the_newest(&self) -> bool {
        self.turns > NEWEST_TURNS
    }

    /// Whether to go on waiting for the end of a copy that is in the way.
    pub(super) fn is_left_for_a_copy(&self) -> bool {
        self.turns < COPY_TURNS
    }
}

/// Decides whether a reader that has read everything waits a moment before it sleeps: while many messages come, sleeping and
/// waking costs it and the writer more than the time until the next one. After a wait in vain it does so less often.
#[derive(Debug, Default)]
pub(super) struct SpinPolicy {
    /// How many times to sleep without waiting first.
    sleeps: u32,
    /// How many times it did so since the last wait in vain.
    skipped: u32,
}

impl SpinPolicy {
    /// Whether `came` became true.
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

/// How often a reader looks before it sleeps, and how long it waits between: some microseconds in all.
const LOOKS: u32 = 8;
const PAUSES_BETWEEN_LOOKS: u32 = 64;

/// The most times that a reader sleeps at once before it tries again whether messages come fast.
const MOST_SKIPPED: u32 = 255;

/// Turns on the processor: some microseconds in all, much longer than any hold of the tail by a thread that runs.
const SPINNING_TURNS: u32 = 9;

/// The longest turn is two to this power of pauses, some microseconds: with a quarter of it, two to eight writers got
/// a fifth less throughput.
const LONGEST_PAUSE: u32 = 8;

/// Turns after which a writer no longer counts on the newest of its queue.
const NEWEST_TURNS: u32 = 16;

/// Turns for which a writer waits for the end of a copy. A thread was taken off its processor in the middle of one
/// while others went once round the ring: it comes back within some turns, or messages are dropped and counted, like
/// those for a slow reader.
const COPY_TURNS: u32 = if cfg!(loom) { 2 } else { 64 };
