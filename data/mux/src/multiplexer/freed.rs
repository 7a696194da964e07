//! Counts memory of queued payload that was freed because its streams are quiet.
//!
//! The allocator returns free memory to the system only during later allocations and frees. Streams that become quiet
//! together free their memory at once, and no such activity follows.

use std::cell::Cell;

thread_local! {
    static FREED: Cell<usize> = const { Cell::new(0) };
}

/// Adds freed bytes to this worker's count.
pub(super) fn note(bytes: usize) {
    FREED.set(FREED.get().saturating_add(bytes));
}

/// Bytes freed on this worker since the last call.
pub fn take() -> usize {
    FREED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_returns_and_resets_the_freed_byte_count() {
        note(3);
        note(4);
        assert_eq!((take(), take()), (7, 0));
    }
}
