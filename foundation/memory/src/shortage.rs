//! Memory shortage: reject new work, and keep enough memory to finish running work.
//!
//! ```text
//!   the allocator is empty ──► the region serves small requests ─┐
//!                                                                ├──► short ──► no new work is begun
//!   `-m`: used > limit less a sixteenth ─────────────────────────┘
//!
//!   half of the region was lent / used > limit ──► exhausted ──► running work gets no more memory, and ends
//!
//!   the allocator has some again / used < limit less an eighth ──► no longer short
//! ```
//! Most allocations in Rust abort the process if they fail. Therefore a static region serves them when the allocator
//! fails. The region is bounded, so all memory that a client can grow (connections, buffers, heads) checks [`is_short`]
//! first.

use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64};

use weir_sys::time::monotonic_ns;

use crate::{FAILED, LIMITED, change};

/// Limits the memory that the process may allocate, in bytes (`-m`). Earlier allocations do not count.
pub fn limit(bytes: u64) {
    LIMIT.store(i64::try_from(bytes).unwrap_or(i64::MAX), Relaxed);
    change(LIMITED, true);
}

/// Whether memory is short. Work that needs memory must not begin then.
#[inline]
pub fn is_short() -> bool {
    SHORT.load(Relaxed) != 0
}

/// Like [`is_short`], but retries the allocator if the last retry is at least 10 ms ago.
pub fn is_short_still() -> bool {
    if SHORT.load(Relaxed) & NO_MEMORY != 0 {
        look_again();
    }
    is_short()
}

/// Whether even running work is refused memory, because the rest is needed to end it. True when half of the region was lent, or
/// usage exceeds the limit.
#[inline]
pub fn is_exhausted() -> bool {
    is_short() && is_nearly_used_up()
}

#[cold]
fn is_nearly_used_up() -> bool {
    REGION.reached() > REGION_BYTES / 2 || USED.load(Relaxed) > LIMIT.load(Relaxed)
}

/// Whether an optional allocation of `bytes` leaves a quarter of the limit free.
pub(crate) fn leaves_room(bytes: i64) -> bool {
    let limit = LIMIT.load(Relaxed);
    !is_short_still() && USED.load(Relaxed).saturating_add(bytes) <= limit - limit / 4
}

/// Whether memory is counted against a limit.
pub(crate) fn is_limited() -> bool {
    LIMIT.load(Relaxed) != i64::MAX
}

/// Counts a request refused because memory [is short](is_short).
#[cold]
pub fn count_refusal() {
    FAILURES.fetch_add(1, Relaxed);
}

/// Memory usage and failed allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    /// Bytes in use; 0 without a limit.
    pub used: u64,
    /// Failed allocations and requests refused because of a shortage.
    pub failures: u64,
    /// Bytes lent from the region because the allocator failed.
    pub emergency: u64,
}

/// Shortage counters of the process.
pub fn shortages() -> Shortages {
    let used = u64::try_from(USED.load(Relaxed)).unwrap_or(0);
    Shortages { used, failures: FAILURES.load(Relaxed), emergency: REGION.used() as u64 }
}

/// Counts bytes allocated (positive) or freed (negative) by the current thread. The shared counter is updated in batches.
#[inline]
pub(crate) fn charge(bytes: i64) {
    let charged = CHARGED.get() + bytes;
    if charged.abs() < BATCH {
        CHARGED.set(charged);
        return;
    }
    CHARGED.set(0);
    let used = USED.fetch_add(charged, Relaxed) + charged;
    let limit = LIMIT.load(Relaxed);
    if used > limit - limit / 16 {
        SHORT.fetch_or(OVER_LIMIT, Relaxed);
    } else if used < limit - limit / 8 && SHORT.load(Relaxed) & OVER_LIMIT != 0 {
        SHORT.fetch_and(!OVER_LIMIT, Relaxed);
    }
}

/// Serves a failed allocation from the region. Null when the region is used up, too.
#[cold]
pub(crate) fn relieve(layout: Layout) -> *mut u8 {
    FAILURES.fetch_add(1, Relaxed);
    SHORT.fetch_or(NO_MEMORY, Relaxed);
    // Never cleared, so that blocks of the region are recognised when they are freed.
    change(FAILED, true);
    REGION.take(layout).map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

/// Whether the region lent this block.
#[inline]
pub(crate) fn lent(block: *const u8) -> bool {
    REGION.holds(block)
}

/// Frees a block of the region.
///
/// # Safety
/// The region lent it for this layout, and it is not used any more.
pub(crate) unsafe fn give_back(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller keeps the contract, which is the same.
    unsafe { REGION.give_back(block, layout) };
}

/// Retries the allocator, at most once per [`LOOK_EVERY_NS`]. If the retry fails, the region serves the request.
#[cold]
fn look_again() {
    let now = monotonic_ns();
    let last = LOOKED_NS.load(Relaxed);
    let due = now.saturating_sub(last) >= LOOK_EVERY_NS;
    if !due || LOOKED_NS.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
        return;
    }
    let Ok(layout) = Layout::from_size_align(PROBE, 16) else { return };
    // The request below sets the flag again if it fails.
    SHORT.fetch_and(!NO_MEMORY, Relaxed);
    // SAFETY: the layout's size is not zero.
    let block = unsafe { std::alloc::alloc(layout) };
    if !block.is_null() {
        // SAFETY: it was allocated with this layout just now.
        unsafe { std::alloc::dealloc(block, layout) };
    }
}

/// Static memory, untouched until the first failed allocation. Block sizes are powers of two.
#[repr(C, align(4096))]
struct Region {
    bytes: UnsafeCell<[u8; REGION_BYTES]>,
    lists: UnsafeCell<RegionLists>,
    locked: AtomicBool,
}

// SAFETY: blocks are disjoint parts of `bytes`, each used only by its borrower; `lists` is used under the lock only.
unsafe impl Sync for Region {}

struct RegionLists {
    /// Offset of the memory never lent since the region was last empty.
    fresh: usize,
    /// Bytes lent.
    used: usize,
    /// Free list of each size: the offset of the first block plus one, 0 if empty. The first word of a free block links
    /// to the next one in the same form.
    free: [usize; SIZES],
}

impl RegionLists {
    const fn new() -> Self {
        RegionLists { fresh: 0, used: 0, free: [0; SIZES] }
    }
}

impl Region {
    const fn new() -> Self {
        Region {
            bytes: UnsafeCell::new([0; REGION_BYTES]),
            lists: UnsafeCell::new(RegionLists::new()),
            locked: AtomicBool::new(false),
        }
    }

    #[inline]
    fn holds(&self, block: *const u8) -> bool {
        let offset = (block as usize).wrapping_sub(self.bytes.get() as usize);
        offset < REGION_BYTES
    }

    fn used(&self) -> usize {
        self.with_lists(|lists| lists.used)
    }

    /// High-water mark in bytes since the region was last empty. Includes freed blocks, which may have sizes without demand.
    fn reached(&self) -> usize {
        self.with_lists(|lists| lists.fresh)
    }

    fn take(&self, layout: Layout) -> Option<NonNull<u8>> {
        let class = class_of(layout)?;
        let offset = self.with_lists(|lists| {
            let size = LEAST << class;
            let offset = match lists.free[class].checked_sub(1) {
                Some(offset) => {
                    // SAFETY: the block is in the region.
                    let next = unsafe { self.at(offset) }.cast::<usize>();
                    // SAFETY: it is free, has room for a word and is aligned for one, and `give_back` wrote it.
                    lists.free[class] = unsafe { next.read() };
                    offset
                }
                None => {
                    let offset = lists.fresh.next_multiple_of(size.min(PAGE));
                    let end = offset.checked_add(size).filter(|end| *end <= REGION_BYTES)?;
                    lists.fresh = end;
                    offset
                }
            };
            lists.used += size;
            Some(offset)
        })?;
        // SAFETY: blocks end within the region.
        NonNull::new(unsafe { self.at(offset) })
    }

    /// # Safety
    /// [`Region::take`] gave it for this layout, and it is not used any more.
    unsafe fn give_back(&self, block: NonNull<u8>, layout: Layout) {
        let Some(class) = class_of(layout) else { return };
        let offset = block.as_ptr() as usize - self.bytes.get() as usize;
        self.with_lists(|lists| {
            // SAFETY: the block is not in use, has room for a word and is aligned for one.
            unsafe { block.cast::<usize>().write(lists.free[class]) };
            lists.free[class] = offset + 1;
            lists.used -= LEAST << class;
            if lists.used == 0 {
                // The region is empty. Reset it, so that it can serve blocks of any size.
                *lists = RegionLists::new();
            }
        });
    }

    /// # Safety
    /// The offset is within the region.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: by the caller's contract, this stays inside.
        unsafe { self.bytes.get().cast::<u8>().add(offset) }
    }

    /// Runs `then` under the spin lock. The lock is held for a few instructions, and an allocator must not sleep.
    fn with_lists<R>(&self, then: impl FnOnce(&mut RegionLists) -> R) -> R {
        while self.locked.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held, so this is the only reference to the lists.
        let result = then(unsafe { &mut *self.lists.get() });
        self.locked.store(false, Release);
        result
    }
}

/// Index of the smallest block size that fits a layout. `None` if the layout is too large.
fn class_of(layout: Layout) -> Option<usize> {
    let size = layout.size().max(layout.align()).max(LEAST).checked_next_power_of_two()?;
    let class = (size / LEAST).trailing_zeros() as usize;
    (class < SIZES && layout.align() <= PAGE).then_some(class)
}

static REGION: Region = Region::new();
static LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);
static USED: AtomicI64 = AtomicI64::new(0);
static FAILURES: AtomicU64 = AtomicU64::new(0);
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);
static SHORT: AtomicU8 = AtomicU8::new(0);
const OVER_LIMIT: u8 = 1;
const NO_MEMORY: u8 = 2;

/// Size of the region: 800 bytes for each of 20,000 connections. It occupies address space, and memory only when used.
const REGION_BYTES: usize = 16 << 20;
const PAGE: usize = 4096;
/// Smallest block. It must fit the link of a free list.
const LEAST: usize = 16;
/// Block sizes from 16 bytes to 2 MB. A growing table doubles its allocation.
const SIZES: usize = 18;
/// Bytes that a thread allocates or frees before it updates the shared counter.
const BATCH: i64 = 32 * 1024;
/// Interval of retries of the allocator during a shortage, and the size of the request: a few buffers.
const LOOK_EVERY_NS: u64 = 10_000_000;
const PROBE: usize = 64 * 1024;

thread_local! {
    /// Bytes allocated by this thread and not yet added to the shared counter.
    static CHARGED: Cell<i64> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a layout")
    }

    #[test]
    fn allocation_size_classes_are_powers_of_two() {
        let class = |size, align| class_of(layout(size, align));
        assert_eq!(
            [class(0, 1), class(16, 8), class(17, 8), class(1, 64)],
            [Some(0), Some(0), Some(1), Some(2)]
        );
        assert_eq!([class(2 << 20, 8), class((2 << 20) + 1, 8), class(8, 8192)], [Some(17), None, None]);
    }

    #[test]
    fn the_emergency_region_lends_disjoint_blocks_until_it_is_empty() {
        // Too large for the stack of a thread.
        // SAFETY: all of its fields may be zeroes.
        let region: Box<Region> = unsafe { Box::<Region>::new_zeroed().assume_init() };
        let mut taken = Vec::new();
        for (number, size) in [1_usize, 100, 5_000, 16, 2 << 20].into_iter().cycle().enumerate() {
            let layout = layout(size, 16);
            let Some(block) = region.take(layout) else { break };
            assert!(region.holds(block.as_ptr()) && (block.as_ptr() as usize).is_multiple_of(16));
            // SAFETY: the block has room for that many bytes.
            unsafe { block.as_ptr().write_bytes(number as u8, size) };
            taken.push((block, layout, number as u8));
        }
        assert!(taken.len() > 25, "{}", taken.len());
        for (block, layout, byte) in &taken {
            // SAFETY: these bytes were written above.
            let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), layout.size()) };
            assert!(bytes.iter().all(|found| found == byte), "two share a block");
        }
        let (full, count) = (region.used(), taken.len());
        for (block, layout, _) in taken.drain(..) {
            // SAFETY: it was lent for this layout above.
            unsafe { region.give_back(block, layout) };
        }
        assert_eq!((region.used(), region.reached()), (0, 0));
        let again = [1_usize, 100, 5_000, 16, 2 << 20].into_iter().cycle().take(count);
        assert!(again.map(|size| region.take(layout(size, 16))).all(|block| block.is_some()));
        assert_eq!(region.used(), full);
        assert!(region.reached() > REGION_BYTES / 2);
        assert!(!region.holds(std::ptr::null()) && !region.holds((&raw const full).cast()));
    }
}
