//! Writers that wait for the tail: a stack of messages, each on its writer's stack, that whoever gets the tail takes
//! whole and writes at once.
//!
//! While many wait, one lock serves many messages, and only the newest of each queue looks at the tail: the others watch
//! a byte of their own.

use std::cell::Cell;
use std::ptr;

use super::Reserved;
use crate::primitives::{AtomicPtr, AtomicU8, Ordering};

/// A message that waits to be written.
pub(super) struct Pending {
    parts: *const [*const [u8]],
    /// How many bytes it has in all.
    pub(super) length: usize,
    /// Where it goes; `None` when there is no room. Only for who serves it.
    pub(super) place: Cell<Option<Reserved>>,
    /// The one that came before it.
    next: Cell<*mut Pending>,
    state: AtomicU8,
}

const WAITING: u8 = 0;
const WRITTEN: u8 = 1;
const DROPPED: u8 = 2;

impl Pending {
    pub(super) fn new(parts: &[&[u8]]) -> Self {
        Self {
            // The same pointers, without their lifetime: the writer outlives the wait.
            parts: ptr::from_ref(parts) as *const [*const [u8]],
            length: parts.iter().map(|part| part.len()).sum(),
            place: Cell::new(None),
            next: Cell::new(ptr::null_mut()),
            state: AtomicU8::new(WAITING),
        }
    }

    /// The message.
    ///
    /// # Safety
    /// Whoever made it is still in `Ring::write`.
    pub(super) unsafe fn parts(&self) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the slice of parts is borrowed by the writer, which waits.
        let parts = unsafe { &*self.parts };
        // SAFETY: as above for each part.
        parts.iter().map(|&part| unsafe { &*part })
    }
}

/// Messages that one holder of the tail writes together.
pub(super) struct Batch {
    first: *mut Pending,
}

impl Batch {
    /// Visits each message.
    pub(super) fn each(&self, mut visit: impl FnMut(&Pending)) {
        let mut next = self.first;
        while !next.is_null() {
            // SAFETY: its writer waits until it is settled, and the batch is this thread's alone.
            let pending = unsafe { &*next };
            next = pending.next.get();
            visit(pending);
        }
    }

    /// Tells all writers what became of their messages.
    pub(super) fn settle(self) {
        let mut next = self.first;
        while !next.is_null() {
            // SAFETY: its writer waits until the store below; afterwards it is gone, and this is not used again.
            let pending = unsafe { &*next };
            next = pending.next.get();
            let state = if pending.place.get().is_some() { WRITTEN } else { DROPPED };
            pending.state.store(state, Ordering::Release);
        }
    }
}

/// Joins a queue.
pub(super) fn push(queue: &AtomicPtr<Pending>, pending: *mut Pending) {
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

/// Whether it is the last that came.
pub(super) fn is_newest(queue: &AtomicPtr<Pending>, pending: *const Pending) -> bool {
    ptr::eq(queue.load(Ordering::Relaxed), pending)
}

/// What became of a message: `None` while it waits.
///
/// # Safety
/// `pending` lives.
pub(super) unsafe fn settled(pending: *const Pending) -> Option<bool> {
    // SAFETY: it lives; others only touch it through the same pointer, and this field is atomic.
    match unsafe { &(*pending).state }.load(Ordering::Acquire) {
        WAITING => None,
        state => Some(state == WRITTEN),
    }
}

/// Takes the whole queue, oldest first.
///
/// # Safety
/// Every writer in it waits until it is settled.
pub(super) unsafe fn take(queue: &AtomicPtr<Pending>) -> Batch {
    let mut next = queue.swap(ptr::null_mut(), Ordering::Acquire);
    let mut first = ptr::null_mut();
    while !next.is_null() {
        // SAFETY: the queue was taken whole, and its writers wait.
        let following = unsafe { &(*next).next }.replace(first);
        first = next;
        next = following;
    }
    Batch { first }
}
