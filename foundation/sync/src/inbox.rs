//! A queue of values from many threads to one.
//!
//! A stack of nodes, only pushed to or taken as a whole, so a node is never read while another thread may free it. The
//! owner reverses the stack to deliver values in sending order. Each value costs an allocation, so use it for rare
//! messages (a migrated connection, a command of the runtime API), and [`crate::WakeList`] for frequent ones.

use crate::primitives::{AtomicPtr, AtomicUsize, Ordering};
use std::ptr;

/// A bounded, lock-free queue with many senders and one receiver.
pub struct Inbox<T> {
    head: AtomicPtr<InboxNode<T>>,
    length: AtomicUsize,
    limit: usize,
}

struct InboxNode<T> {
    value: T,
    next: *mut InboxNode<T>,
}

// SAFETY: values move between threads, and only the thread that took a node reads it.
unsafe impl<T: Send> Send for Inbox<T> {}
// SAFETY: as above; shared access never yields a reference to a value.
unsafe impl<T: Send> Sync for Inbox<T> {}

impl<T> Inbox<T> {
    /// An empty inbox for at most about `limit` values.
    pub fn new(limit: usize) -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), length: AtomicUsize::new(0), limit }
    }

    /// Queues `value`. Returns it as the error if the inbox is full.
    pub fn push(&self, value: T) -> Result<(), T> {
        if self.length.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.length.fetch_sub(1, Ordering::Relaxed);
            return Err(value);
        }
        let node = Box::into_raw(Box::new(InboxNode { value, next: ptr::null_mut() }));
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is not published yet, so this thread alone knows it.
            unsafe { (*node).next = head };
            match self.head.compare_exchange_weak(head, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(newer) => head = newer,
            }
        }
    }

    /// Whether the inbox is empty. May be outdated if another thread is pushing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all values and passes them to `receive` in sending order. Returns their count.
    pub fn drain(&self, mut receive: impl FnMut(T)) -> usize {
        // Loom tries other schedules at read-modify-writes, not at a load like this one, which only saves the swap.
        if !cfg!(loom) && self.is_empty() {
            return 0;
        }
        let first = reverse(self.head.swap(ptr::null_mut(), Ordering::Acquire));
        let batch = NodeBatch { first, length: &self.length };
        let mut count = 0;
        for value in batch {
            count += 1;
            receive(value);
        }
        count
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.drain(drop);
    }
}

impl<T> std::fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox(at most {})", self.limit)
    }
}

/// Nodes owned by the receiver. Frees the rest if `receive` panics.
struct NodeBatch<'i, T> {
    first: *mut InboxNode<T>,
    length: &'i AtomicUsize,
}

impl<T> Iterator for NodeBatch<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: `push` made the node from a box, and the swap in `drain` gave it to this batch alone.
        let node = unsafe { Box::from_raw(self.first) };
        self.first = node.next;
        self.length.fetch_sub(1, Ordering::Relaxed);
        Some(node.value)
    }
}

impl<T> Drop for NodeBatch<'_, T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

fn reverse<T>(mut node: *mut InboxNode<T>) -> *mut InboxNode<T> {
    let mut reversed = ptr::null_mut();
    while !node.is_null() {
        // SAFETY: the list was taken whole by this thread; every node in it is valid and private.
        let next = unsafe { std::mem::replace(&mut (*node).next, reversed) };
        reversed = node;
        node = next;
    }
    reversed
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// When a receiver panics, the nodes that it did not receive are freed.
    #[test]
    fn a_panicking_receiver_frees_the_remaining_values() {
        let (inbox, value) = (Inbox::new(5), Arc::new(()));
        (0..5).for_each(|_| inbox.push(value.clone()).expect("there is room"));
        let receive =
            std::panic::AssertUnwindSafe(|| inbox.drain(|_| std::panic::resume_unwind(Box::new(()))));
        assert!(std::panic::catch_unwind(receive).is_err());
        assert_eq!((Arc::strong_count(&value), inbox.is_empty()), (1, true));
        assert!((0..5).all(|_| inbox.push(value.clone()).is_ok()), "and leaves all the room");
    }

    #[test]
    fn inbox_values_arrive_in_order_and_within_the_limit() {
        let inbox = Inbox::new(3);
        for value in 0..3 {
            assert_eq!(inbox.push(value), Ok(()));
        }
        assert_eq!(inbox.push(3), Err(3));
        let mut received = Vec::new();
        assert_eq!(inbox.drain(|value| received.push(value)), 3);
        assert_eq!(received, [0, 1, 2]);
        assert!(inbox.is_empty() && inbox.push(4).is_ok());
    }

    #[test]
    fn dropping_an_inbox_frees_unreceived_values() {
        let value = Arc::new(());
        let inbox = Inbox::new(8);
        for _ in 0..4 {
            inbox.push(value.clone()).expect("below the limit");
        }
        drop(inbox);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn concurrent_senders_lose_no_values() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::new(8));
            let senders: Vec<_> = (0..2)
                .map(|value| {
                    let inbox = inbox.clone();
                    loom::thread::spawn(move || inbox.push(value).expect("below the limit"))
                })
                .collect();
            let mut received = Vec::new();
            inbox.drain(|value| received.push(value));
            for sender in senders {
                sender.join().expect("a sender ends");
            }
            inbox.drain(|value| received.push(value));
            received.sort_unstable();
            assert_eq!(received, [0, 1]);
        });
    }
}
