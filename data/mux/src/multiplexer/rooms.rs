//! Free list of head buffers, which pass from the connection that decodes heads to their streams.
//!
//! One list per worker, because many requests may arrive at once on one connection, and none on a thousand others.

#![allow(clippy::vec_box, reason = "the boxes are what is used again: a head is large to move")]

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_h2::ReceivedHead;

thread_local! {
    static ROOMS: RefCell<ManuallyDrop<Vec<Box<ReceivedHead>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Takes a free head buffer, if any.
pub(super) fn take() -> Option<Box<ReceivedHead>> {
    ROOMS.with_borrow_mut(|rooms| rooms.pop())
}

/// Returns a head buffer to the list. Buffers above [`LARGE`] bytes, or beyond [`KEPT`], are freed.
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

/// Frees all head buffers of the list.
pub(super) fn trim() {
    ROOMS.with_borrow_mut(|rooms| **rooms = Vec::new());
}

/// The number of streams that a connection usually starts at once.
const KEPT: usize = 128;
/// Maximum size of a kept buffer, in bytes. Most heads are smaller.
const LARGE: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_buffers_are_recycled_up_to_a_size_and_count_limit() {
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
