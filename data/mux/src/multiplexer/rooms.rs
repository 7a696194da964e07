//! Memory for heads between their connection, which decodes them, and their streams.
//!
//! It is the worker's: so many requests come at once on one connection, and none on a thousand others.

#![allow(clippy::vec_box, reason = "the boxes are what is used again: a head is large to move")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_h2::ReceivedHead;

thread_local! {
    static ROOMS: RefCell<ManuallyDrop<Vec<Box<ReceivedHead>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// What is kept for the next head, if anything is.
pub(super) fn take() -> Option<Box<ReceivedHead>> {
    ROOMS.with_borrow_mut(|rooms| rooms.pop())
}

/// The head was taken over: its memory is kept, unless it is much.
pub(super) fn give(mut room: Box<ReceivedHead>) {
    if room.head.capacity() + room.bytes.capacity() > LARGE {
        return;
    }
    ROOMS.with_borrow_mut(|rooms| {
        if rooms.len() < KEPT {
            room.clear();
            rooms.push(room);
        }
    });
}

/// Gives what the worker keeps back to the allocator.
pub(super) fn trim() {
    ROOMS.with_borrow_mut(|rooms| **rooms = Vec::new());
}

/// As many as streams of a connection usually begin at once.
const KEPT: usize = 128;
/// Most heads are smaller.
const LARGE: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_up_to_its_bounds() {
        let room =
            |bytes| Box::new(ReceivedHead { bytes: Vec::with_capacity(bytes), ..ReceivedHead::default() });
        give(room(LARGE + 1));
        assert!(take().is_none());
        (0..KEPT + 5).for_each(|_| give(room(100)));
        let kept = std::iter::from_fn(take).inspect(|room| assert!(room.bytes.capacity() >= 100)).count();
        assert_eq!(kept, KEPT);
        give(room(100));
        trim();
        assert!(take().is_none());
    }
}
