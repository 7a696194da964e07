//! The buffers of a request to an application. A worker uses it again for later requests.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_fcgi::{CgiHead, Params};

/// Buffers and the lease of a request.
#[derive(Default)]
pub(super) struct RequestExtras {
    /// Received output. The bytes before `start` were consumed.
    pub(super) input: Vec<u8>,
    pub(super) start: usize,
    /// How far the head of the response was searched.
    pub(super) head: CgiHead,
    /// The parameters of the request.
    pub(super) params: Params,
    /// The stream's slot on the connection. Dropped with the stream.
    pub(super) lease: Option<Box<dyn Any>>,
    /// The number of the stream in traces. 0 for none.
    pub(super) serial: u64,
}

impl std::fmt::Debug for RequestExtras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestExtras").field("input", &self.input().len()).finish_non_exhaustive()
    }
}

impl RequestExtras {
    pub(super) fn input(&self) -> &[u8] {
        &self.input[self.start..]
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count.min(self.input.len() - self.start);
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
        }
    }

    /// Removes consumed bytes from the input and returns it.
    pub(super) fn compact(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        &mut self.input
    }
}

thread_local! {
    static SPARE: RefCell<ManuallyDrop<Vec<RequestExtras>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Empty extras, used before if possible.
pub(super) fn take() -> RequestExtras {
    SPARE.with_borrow_mut(|spare| spare.pop()).unwrap_or_default()
}

/// Drops the lease, and keeps the buffers for a later request. Those with large buffers, or beyond [`KEPT`], are freed.
pub(super) fn give(mut extras: RequestExtras) {
    drop(extras.lease.take());
    if extras.input.capacity() + extras.params.len() > LARGE {
        return;
    }
    extras.input.clear();
    extras.start = 0;
    extras.head = CgiHead::default();
    extras.serial = 0;
    extras.params.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < KEPT {
            spare.push(extras);
        }
    });
}

/// Frees the memory that the worker keeps for requests to applications.
pub fn trim() {
    SPARE.with_borrow_mut(|spare| **spare = Vec::new());
}

/// Requests for which a worker keeps buffers.
const KEPT: usize = 32;
/// Maximum size of kept buffers, in bytes.
const LARGE: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        SPARE.with_borrow(|spare| spare.len())
    }

    #[test]
    fn a_worker_keeps_few_and_small_buffers() {
        (0..2 * KEPT).for_each(|_| give(RequestExtras::default()));
        assert_eq!(kept(), KEPT);
        let taken: Vec<_> = (0..KEPT).map(|_| take()).collect();
        assert_eq!(kept(), 0);
        drop(taken);
        for (capacity, expected) in [(LARGE, 1), (LARGE + 1, 1)] {
            give(RequestExtras { input: Vec::with_capacity(capacity), ..RequestExtras::default() });
            assert_eq!(kept(), expected, "{capacity}");
        }
        let mut params = Params::new();
        params.push(b"A", &[0; LARGE]);
        give(RequestExtras { params, ..RequestExtras::default() });
        assert_eq!(kept(), 1);
        trim();
        assert_eq!(SPARE.with_borrow(|spare| spare.capacity()), 0);
    }
}
