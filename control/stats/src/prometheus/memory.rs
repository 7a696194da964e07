//! The memory shared by all scrapes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bounds the total memory of all scrapes in progress. A single bound, because clients may start scrapes and never read them.
///
/// A scrape that gets no memory is correct but slow: it reads all objects again for each metric.
#[derive(Debug)]
pub struct ScrapeMemory {
    left: AtomicUsize,
    is_short: fn() -> bool,
}

impl ScrapeMemory {
    /// Lends up to `bytes` bytes, or nothing while `is_short` returns true.
    pub const fn new(bytes: usize, is_short: fn() -> bool) -> Self {
        Self { left: AtomicUsize::new(bytes), is_short }
    }
}

/// The bytes borrowed by one scrape. Returned on drop.
#[derive(Debug)]
pub(super) struct MemoryShare {
    memory: &'static ScrapeMemory,
    bytes: usize,
}

impl MemoryShare {
    /// An empty share.
    pub(super) fn new(memory: &'static ScrapeMemory) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Borrows more bytes. False if fewer than `bytes` are left.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let taken =
            !(self.memory.is_short)() && self.memory.left.fetch_update(Relaxed, Relaxed, take).is_ok();
        self.bytes += if taken { bytes } else { 0 };
        taken
    }

    /// Returns all but `bytes` bytes.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.memory.left.fetch_add(surplus, Relaxed);
        self.bytes -= surplus;
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
