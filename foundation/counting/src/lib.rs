//! A counting allocator, for tests of the number of allocations and of the memory of an object.
//!
//! Only test binaries install [`CountingAllocator`] as their `#[global_allocator]`. Counts are per thread. Memory allocated by
//! one thread and freed by another stays live on the first and counts as negative on the second.
//!
//! This crate must not know the allocator of the program, nor have dependencies. Begin with [`allocations`] and [`live_bytes`].
//! A test reads them before and after the measured code.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system allocator with counting.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Number of allocations and growths by the current thread.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes allocated minus bytes freed by the current thread.
pub fn live_bytes() -> i64 {
    LIVE.get()
}

fn note(allocations: u64, bytes: i64) {
    ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(allocations));
    LIVE.set(LIVE.get().wrapping_add(bytes));
}

// SAFETY: everything is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: the block came from this allocator, which is the system's, with this layout.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: the block came from this allocator, which is the system's, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    /// The number of allocations and of live bytes added by the code.
    fn added<R>(code: impl FnOnce() -> R) -> (u64, i64, R) {
        let (count, bytes) = (allocations(), live_bytes());
        let result = code();
        (allocations() - count, live_bytes() - bytes, result)
    }

    #[test]
    fn counts_allocations_and_live_bytes_of_the_thread() {
        let (count, bytes, mut vector) = added(|| Vec::<u8>::with_capacity(100));
        assert_eq!((count, bytes), (1, 100));
        let (count, bytes, ()) = added(|| vector.reserve_exact(300));
        assert_eq!((count, bytes), (1, 200));
        let (count, bytes, zeroed) = added(|| vec![0_u8; 50]);
        assert_eq!((count, bytes), (1, 50));
        assert_eq!(added(move || drop((vector, zeroed))).1, -350);
    }

    #[test]
    fn allocations_of_other_threads_are_not_counted() {
        let (_, bytes, ()) = added(|| {
            std::thread::scope(|scope| drop(scope.spawn(|| std::mem::forget(vec![1_u8; 1 << 20])).join()));
        });
        assert!(bytes < 1 << 16, "{bytes} bytes");
    }
}
