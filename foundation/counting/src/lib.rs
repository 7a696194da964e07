//! An allocator that counts, for tests of the number of allocations and of the bytes that an object holds.
//!
//! A test binary makes [`CountingAllocator`] its `#[global_allocator]`; the program itself never does. Each thread counts for itself, so
//! other threads do not matter. Memory that one thread allocates and another frees stays live on the first for ever and counts
//! negative on the second.
//!
//! This crate must not know the allocator of the program, and depends on nothing. Begin with [`allocations`] and [`live_bytes`]:
//! a test reads them before and after the code that it measures.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// How often the current thread allocated or grew memory.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// How many bytes the current thread allocated and did not free.
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

    /// The allocations and the bytes that the code adds.
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
    fn does_not_count_other_threads() {
        let (_, bytes, ()) = added(|| {
            std::thread::scope(|scope| drop(scope.spawn(|| std::mem::forget(vec![1_u8; 1 << 20])).join()));
        });
        assert!(bytes < 1 << 16, "{bytes} bytes");
    }
}
