//! An allocator that counts, for tests that check that nothing is allocated, or how many bytes an object holds.
//!
//! A test binary makes it its `#[global_allocator]`; the program itself never does. Each thread counts for itself, so
//! other threads do not matter. Memory that one thread allocates and another frees stays live on the
//! first for ever and counts negative on the second.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// How often the current thread asked for memory, or for more of it.
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
unsafe impl GlobalAlloc for Counting {
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
