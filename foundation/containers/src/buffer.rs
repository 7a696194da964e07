//! Fixed-size buffers from a pool per thread. Dropping a buffer returns it to the pool.
//!
//! Keep a [`Buffer`] only while it contains bytes. Bytes are appended at the end, parsed in place and consumed from the
//! front. The pool is last in, first out, because the buffer released last is still in the CPU cache.
//!
//! The memory is zeroed once, on allocation, so the free space can be passed to the kernel as a plain slice. Bytes of a
//! former user stay in the free space until they are overwritten.

use std::alloc::{Layout, alloc_zeroed};
use std::cell::RefCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use crate::pools::PoolCounters;

/// A pooled block of bytes. Dereferences to the bytes that were filled and not yet consumed.
///
/// The handle is two words. The start and end offsets are in the first bytes of the block, on a cache line that the
/// user is about to access anyway.
pub struct Buffer {
    block: Box<[u8]>,
}

impl Buffer {
    /// Takes an empty buffer from the thread's pool, or from the allocator while the pool's limit allows.
    #[inline]
    pub fn take() -> Result<Self, BufferExhausted> {
        let block = POOL.with_borrow_mut(|pool| pool.pop()).ok_or(BufferExhausted)?;
        let mut buffer = Self { block };
        buffer.set_range(0..0);
        Ok(buffer)
    }

    /// Takes one of the buffers [set aside](BufferPool::set_aside) for a shortage. Only for a caller that frees more memory than it takes.
    #[cold]
    pub fn take_aside() -> Result<Self, BufferExhausted> {
        let block = POOL.with_borrow_mut(|pool| pool.pop_aside()).ok_or(BufferExhausted)?;
        let mut buffer = Self { block };
        buffer.set_range(0..0);
        Ok(buffer)
    }

    /// Takes an empty buffer of [`BULK_SIZE`] for bytes that are forwarded without parsing. Last in, first out, so a
    /// copy through it stays in the CPU cache. At most 32 per thread are in use.
    #[inline]
    pub fn take_bulk() -> Result<Self, BufferExhausted> {
        let block = POOL.with_borrow_mut(|pool| pool.pop_bulk()).ok_or(BufferExhausted)?;
        let mut buffer = Self { block };
        buffer.set_range(0..0);
        Ok(buffer)
    }

    /// Allocates an empty buffer of the usual size beyond the pool's limit, for the few streams that continue when the
    /// pool is exhausted. `None` if the allocator fails.
    #[cold]
    pub fn take_apart() -> Option<Self> {
        let block = POOL.with_borrow_mut(|pool| {
            let block = zeroed(HEADER + pool.size + APART)?;
            pool.note_fitting(block.len());
            Some(block)
        })?;
        Some(Self { block })
    }

    /// A buffer outside the pool, for the rare message that must be larger than `tune.bufsize` (or for a test).
    pub fn with_capacity(capacity: usize) -> Self {
        let block = vec![0; HEADER + capacity.min(MAX_SIZE)].into_boxed_slice();
        POOL.with_borrow_mut(|pool| pool.note_fitting(block.len()));
        Self { block }
    }

    /// Total capacity in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.block.len() - HEADER
    }

    /// The free space behind the filled bytes. Write into its front, then call [`Buffer::fill`].
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        let end = self.range().end;
        &mut self.block[HEADER + end..]
    }

    /// Marks the first `count` bytes of the free space as filled.
    ///
    /// # Panics
    /// When `count` exceeds the free space.
    #[inline]
    pub fn fill(&mut self, count: usize) {
        let Range { start, end } = self.range();
        assert!(count <= self.capacity() - end, "filled {count} bytes past the end");
        self.set_range(start..end + count);
    }

    /// Drops `count` bytes from the front.
    ///
    /// # Panics
    /// When the buffer contains fewer than `count` bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let Range { start, end } = self.range();
        assert!(count <= end - start, "consumed {count} bytes of {}", end - start);
        // An empty buffer restarts at offset 0, for the most free space and the warmest cache lines.
        let left = if start + count == end { 0..0 } else { start + count..end };
        self.set_range(left);
    }

    /// Keeps the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        let Range { start, end } = self.range();
        self.set_range(start..end.min(start + length));
    }

    /// Discards all bytes.
    pub fn clear(&mut self) {
        self.set_range(0..0);
    }

    /// Moves the bytes to offset 0, so that all free space is behind them.
    pub fn compact(&mut self) {
        let Range { start, end } = self.range();
        if start > 0 {
            self.block.copy_within(HEADER + start..HEADER + end, HEADER);
            self.set_range(0..end - start);
        }
    }

    /// Number of consumed bytes at the front, which [`Buffer::compact`] would free.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.range().start
    }

    /// Number of bytes that can be appended without [`Buffer::compact`].
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.range().end
    }

    /// Whether the buffer is full, even after [`Buffer::compact`].
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// Whether the bytes fit in a block smaller by at least an eighth, and the pool permits a block of that size.
    #[inline]
    pub fn has_slack(&self) -> bool {
        let needed = fitting_size(self.len());
        self.block.len() > needed + needed / 8 && POOL.with_borrow(|pool| pool.tolerates(needed))
    }

    /// Moves the bytes to a tightly fitting block outside the pool if that saves an eighth or more. Meant for bytes that stay
    /// queued for long. Afterwards little free space remains. Does nothing if the allocator fails, or if buffers are limited and
    /// the block would exceed a quarter of a buffer.
    pub fn shrink(&mut self) {
        if !self.has_slack() {
            return;
        }
        let Some(block) = zeroed(fitting_size(self.len())) else { return };
        POOL.with_borrow_mut(|pool| pool.note_fitting(block.len()));
        let mut fitting = Self { block };
        fitting.set_range(0..0);
        fitting.append(self);
        *self = fitting;
    }

    /// Appends as much of `bytes` as fits without compacting. Returns the number of bytes appended.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let count = bytes.len().min(space.len());
        space[..count].copy_from_slice(&bytes[..count]);
        self.fill(count);
        count
    }

    #[inline]
    fn range(&self) -> Range<usize> {
        let word = |at: usize| {
            let bytes = self.block[at..at + 4].try_into().expect("the range has four bytes");
            u32::from_ne_bytes(bytes) as usize
        };
        word(0)..word(4)
    }

    #[inline]
    fn set_range(&mut self, range: Range<usize>) {
        debug_assert!(range.start <= range.end && range.end <= self.capacity());
        self.block[0..4].copy_from_slice(&(range.start as u32).to_ne_bytes());
        self.block[4..8].copy_from_slice(&(range.end as u32).to_ne_bytes());
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let Range { start, end } = self.range();
        &self.block[HEADER + start..HEADER + end]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Range { start, end } = self.range();
        &mut self.block[HEADER + start..HEADER + end]
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        let block = std::mem::take(&mut self.block);
        // During thread exit the pool may already be destroyed. The block then goes back to the allocator.
        if let Ok(Some(notify)) = POOL.try_with(|pool| pool.borrow_mut().push(block)) {
            notify();
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len(), self.capacity())
    }
}

/// The pool's limit is reached or memory is short. Wait for the release of a buffer ([`BufferPool::notify_of_next`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferExhausted;

impl fmt::Display for BufferExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no buffer left in this thread's pool")
    }
}

impl std::error::Error for BufferExhausted {}

/// The buffer pool of the current thread.
pub struct BufferPool {
    free: Vec<Box<[u8]>>,
    /// Free buffers of [`BULK_SIZE`].
    free_bulk: Vec<Box<[u8]>>,
    /// Number of bulk buffers in use.
    bulk_used: usize,
    /// Bytes in blocks of sizes other than `size` and [`BULK_SIZE`].
    fitting_bytes: u64,
    size: usize,
    /// Maximum number of buffers in use at once.
    limit: usize,
    /// Maximum number of free buffers to keep.
    reserve: usize,
    /// Source of further buffers, if a process-wide limit is shared by all threads.
    allowance: Option<Allowance>,
    /// Buffers for [`Buffer::take_aside`]; `aside_count` is the number to keep.
    aside: Vec<Box<[u8]>>,
    aside_count: usize,
    /// Whether memory is short. The pool does not allocate then.
    is_short: fn() -> bool,
    /// Called once, on the next release of a buffer.
    notify: Option<fn()>,
    statistics: BufferPoolStatistics,
}

/// The process-wide limit on buffers. Each thread's pool takes its share in batches.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Number of buffers per batch.
    pub batch: usize,
    /// Reserves up to the given number of buffers. Returns the number reserved.
    pub take: fn(usize) -> usize,
    /// Returns the given number of buffers.
    pub give: fn(usize),
}

impl BufferPool {
    /// Sets up the current thread's pool. `size` is the capacity of a buffer (`tune.bufsize`), `limit` the maximum in
    /// use at once (`tune.buffers.limit`; `usize::MAX` for no limit), `reserve` the maximum number of free buffers to
    /// keep. Buffers in use with another size go to the allocator on release.
    pub fn configure(size: usize, limit: usize, reserve: usize) {
        POOL.with_borrow_mut(|pool| {
            let size = size.clamp(MIN_SIZE, MAX_SIZE);
            if pool.size != size {
                pool.free.clear();
                pool.aside.clear();
            }
            pool.size = size;
            pool.limit = limit;
            pool.reserve = reserve;
            pool.free.truncate(reserve);
            pool.statistics.free = pool.free.len();
        });
    }

    /// Limits the current thread to the buffers reserved from `allowance`, initially 0.
    pub fn share(allowance: Allowance) {
        POOL.with_borrow_mut(|pool| (pool.limit, pool.allowance) = (0, Some(allowance)));
    }

    /// Keeps the current thread's pool from allocating while `is_short` returns true.
    pub fn grow_unless(is_short: fn() -> bool) {
        POOL.with_borrow_mut(|pool| pool.is_short = is_short);
    }

    /// Allocates `count` buffers now and keeps them for [`Buffer::take_aside`].
    pub fn set_aside(count: usize) {
        POOL.with_borrow_mut(|pool| {
            pool.aside_count = count;
            pool.aside.truncate(count);
            let missing = count - pool.aside.len();
            let size = HEADER + pool.size;
            pool.aside.extend((0..missing).map_while(|_| zeroed(size)));
        });
    }

    /// Calls the function once, on the next release of a buffer to the current thread's pool.
    pub fn notify_of_next(notify: fn()) {
        POOL.with_borrow_mut(|pool| pool.notify = Some(notify));
    }

    /// Returns the pool's free buffers to the allocator, except those that were set aside.
    pub fn trim() {
        POOL.with_borrow_mut(|pool| {
            (pool.free, pool.free_bulk) = (Vec::new(), Vec::new());
            pool.statistics.free = 0;
        });
    }

    /// Counters of the current thread: buffers of `tune.bufsize` (including those [set aside](Self::set_aside)), buffers of
    /// [`BULK_SIZE`], and bytes in blocks of other sizes.
    pub(crate) fn counters() -> [PoolCounters; 3] {
        POOL.with_borrow(|pool| {
            let used = pool.statistics.used.saturating_sub(pool.bulk_used) as u64;
            let buffers = PoolCounters {
                name: "buffer",
                size: pool.size,
                allocated: used + (pool.free.len() + pool.aside.len()) as u64,
                used,
                failures: pool.statistics.refused,
            };
            let used = pool.bulk_used as u64;
            let allocated = used + pool.free_bulk.len() as u64;
            let bulk = PoolCounters { name: "buffer_bulk", size: BULK_SIZE, allocated, used, failures: 0 };
            let bytes = pool.fitting_bytes;
            [
                buffers,
                bulk,
                PoolCounters { name: "buffer_fit", size: 1, allocated: bytes, used: bytes, failures: 0 },
            ]
        })
    }

    /// Counters of the current thread's pool.
    pub fn statistics() -> BufferPoolStatistics {
        POOL.with_borrow(|pool| pool.statistics)
    }

    /// The capacity of a buffer of the current thread.
    pub fn buffer_size() -> usize {
        POOL.with_borrow(|pool| pool.size)
    }

    const fn new() -> Self {
        Self {
            free: Vec::new(),
            free_bulk: Vec::new(),
            bulk_used: 0,
            fitting_bytes: 0,
            size: DEFAULT_SIZE,
            limit: usize::MAX,
            reserve: DEFAULT_RESERVE,
            allowance: None,
            aside: Vec::new(),
            aside_count: 0,
            is_short: || false,
            notify: None,
            statistics: BufferPoolStatistics { used: 0, free: 0, high_water: 0, allocated: 0, refused: 0 },
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Box<[u8]>> {
        if self.statistics.used >= self.limit && !self.extend() {
            self.statistics.refused += 1;
            return None;
        }
        let statistics = &mut self.statistics;
        statistics.used += 1;
        statistics.high_water = statistics.high_water.max(statistics.used);
        match self.free.pop() {
            Some(block) => {
                statistics.free -= 1;
                Some(block)
            }
            None => self.allocate(self.size),
        }
    }

    #[inline]
    fn pop_bulk(&mut self) -> Option<Box<[u8]>> {
        let statistics = &mut self.statistics;
        if self.bulk_used >= MOST_BULK || statistics.used >= self.limit {
            return None;
        }
        statistics.used += 1;
        statistics.high_water = statistics.high_water.max(statistics.used);
        let block = self.free_bulk.pop().or_else(|| self.allocate(BULK_SIZE))?;
        self.bulk_used += 1;
        Some(block)
    }

    /// Allocates a block. If memory is short, returns `None` and undoes the caller's count of a used buffer.
    #[cold]
    fn allocate(&mut self, size: usize) -> Option<Box<[u8]>> {
        let block = if (self.is_short)() { None } else { zeroed(HEADER + size) };
        match block {
            Some(_) => self.statistics.allocated += 1,
            None => {
                self.statistics.used -= 1;
                self.statistics.refused += 1;
            }
        }
        block
    }

    fn pop_aside(&mut self) -> Option<Box<[u8]>> {
        let block = self.aside.pop()?;
        self.statistics.used += 1;
        Some(block)
    }

    /// Counts a block made outside the pool. On release, a block with the pool's size joins the pool.
    fn note_fitting(&mut self, size: usize) {
        if size == HEADER + self.size || size == HEADER + BULK_SIZE {
            self.statistics.used += 1;
            self.bulk_used += usize::from(size == HEADER + BULK_SIZE && self.size != BULK_SIZE);
        } else {
            self.fitting_bytes += size as u64;
        }
    }

    /// Whether a block of `size` bytes may be allocated outside the pool.
    fn tolerates(&self, size: usize) -> bool {
        self.limit == usize::MAX || size <= self.size / UNCOUNTED_PART
    }

    /// Reserves a batch from the shared allowance. False if the allowance is used up.
    #[cold]
    fn extend(&mut self) -> bool {
        let Some(allowance) = self.allowance else { return false };
        let more = (allowance.take)(allowance.batch);
        self.limit += more;
        more > 0
    }

    /// Takes a released block. Returns the callback for the caller to run, if one is set.
    #[inline]
    fn push(&mut self, block: Box<[u8]>) -> Option<fn()> {
        if block.len() == HEADER + BULK_SIZE && self.size != BULK_SIZE {
            self.statistics.used = self.statistics.used.saturating_sub(1);
            self.bulk_used = self.bulk_used.saturating_sub(1);
            self.free_bulk.push(block);
            return self.came_back();
        }
        if block.len() != HEADER + self.size {
            // Allocated outside the pool, or before the size changed.
            self.fitting_bytes = self.fitting_bytes.saturating_sub(block.len() as u64);
            return None;
        }
        self.statistics.used = self.statistics.used.saturating_sub(1);
        if self.aside.len() < self.aside_count {
            self.aside.push(block);
        } else if self.free.len() < self.reserve {
            self.free.push(block);
            self.statistics.free += 1;
        }
        self.came_back()
    }

    /// Returns a surplus batch to the shared allowance. Returns the callback of the waiter, if one is set.
    #[inline]
    fn came_back(&mut self) -> Option<fn()> {
        if let Some(allowance) = self.allowance
            && self.limit.saturating_sub(self.statistics.used) >= 2 * allowance.batch
        {
            self.limit -= allowance.batch;
            (allowance.give)(allowance.batch);
        }
        self.notify.take()
    }
}

/// Counters of one thread's [`BufferPool`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferPoolStatistics {
    pub used: usize,
    /// Free buffers in the pool.
    pub free: usize,
    /// Maximum of `used` so far.
    pub high_water: usize,
    /// Number of successful allocations.
    pub allocated: u64,
    /// Number of requests refused by the limit or by a memory shortage.
    pub refused: u64,
}

/// Maximum bytes per receive of forwarded data, independent of `tune.bufsize`. Received bytes are sent at once and
/// should leave as one packet. The kernel builds packets of up to 64 kB including headers, and a slightly larger send
/// (2 x 32 kB) costs a second packet for the rest. 48 kB are three TLS records. 63.5 kB are a few per cent cheaper, but
/// a stalled reader can leave a full buffer: 500 of them held 20.3 kB each, more than with HAProxy.
pub(crate) const BULK_SIZE: usize = 48 * 1024;
/// With a limit on buffers, queued bytes may move only to a block smaller than a buffer by this factor. Larger uncounted
/// blocks would defeat the limit.
const UNCOUNTED_PART: usize = 4;
/// At most 1.5 MB of bulk buffers per thread. More would be in use only while many receivers are blocked, which gain
/// nothing from a large buffer.
const MOST_BULK: usize = 32;
/// Allocates a zeroed block, if possible as untouched zero pages of the kernel. `None` if the allocator fails.
fn zeroed(size: usize) -> Option<Box<[u8]>> {
    let layout = Layout::array::<u8>(size).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout's size is not zero.
    let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    let block = NonNull::slice_from_raw_parts(block, size);
    // SAFETY: the global allocator made the block with the layout of such a slice, and it is initialised with zeroes.
    Some(unsafe { Box::from_raw(block.as_ptr()) })
}

/// Block size for the header and `length` + 1 bytes, rounded up in steps of an eighth like the size classes of allocators.
fn fitting_size(length: usize) -> usize {
    let size = HEADER + length + 1;
    size.next_multiple_of((size.next_power_of_two() / 16).max(16))
}

/// Start and end offsets, two `u32`. 16 bytes keep the data aligned.
const HEADER: usize = 16;
/// Extra size of a [`Buffer::take_apart`] buffer, so that it does not join the pool on release.
const APART: usize = 16;
/// HAProxy's default for `tune.bufsize`.
const DEFAULT_SIZE: usize = 16_384;
const MIN_SIZE: usize = 64;
/// Offsets are `u32`. HAProxy has the same maximum.
const MAX_SIZE: usize = i32::MAX as usize - HEADER;
/// 4 MB of default-sized buffers. Free buffers beyond that go back to the allocator.
const DEFAULT_RESERVE: usize = 256;

thread_local! {
    static POOL: RefCell<ManuallyDrop<BufferPool>> = const { RefCell::new(ManuallyDrop::new(BufferPool::new())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_handle_is_two_words() {
        assert_eq!(size_of::<Option<Buffer>>(), 16);
    }

    #[test]
    fn a_buffer_appends_at_its_end_and_consumes_at_its_front() {
        let mut buffer = Buffer::take().expect("no limit is set");
        buffer.space()[..5].copy_from_slice(b"hello");
        buffer.fill(5);
        buffer.consume(2);
        assert_eq!((&buffer[..], buffer.headroom()), (&b"llo"[..], 2));
        assert_eq!(buffer.append(b" world"), 6);
        buffer.compact();
        assert_eq!((&buffer[..], buffer.headroom()), (&b"llo world"[..], 0));
        buffer.truncate(3);
        assert_eq!(&buffer[..], b"llo");
        buffer.consume(3);
        assert_eq!(buffer.room(), buffer.capacity());
    }

    #[test]
    fn the_last_released_buffer_is_taken_first() {
        let (first, second) = (Buffer::take().expect("first"), Buffer::take().expect("second"));
        let address = first.block.as_ptr();
        drop(second);
        drop(first);
        assert_eq!(Buffer::take().expect("one waits").block.as_ptr(), address);
    }

    #[test]
    fn a_bulk_buffer_returns_to_its_own_free_list() {
        let bulk = Buffer::take_bulk().expect("no limit is set");
        assert_eq!(bulk.capacity(), BULK_SIZE);
        let address = bulk.block.as_ptr();
        drop(bulk);
        assert_ne!(Buffer::take().expect("an ordinary one").capacity(), BULK_SIZE);
        assert_eq!(Buffer::take_bulk().expect("it waits").block.as_ptr(), address);
    }

    #[test]
    fn the_number_of_bulk_buffers_is_limited() {
        let many: Vec<_> = (0..MOST_BULK).map_while(|_| Buffer::take_bulk().ok()).collect();
        assert_eq!(many.len(), MOST_BULK);
        assert!(Buffer::take_bulk().is_err());
        drop(many);
        assert!(Buffer::take_bulk().is_ok());
        assert_eq!(BufferPool::statistics().refused, 0, "there are others");
    }

    #[test]
    fn the_buffer_limit_refuses_and_recovers_after_a_release() {
        BufferPool::configure(128, 2, 1);
        let (first, second) = (Buffer::take().expect("first"), Buffer::take().expect("second"));
        assert_eq!(first.capacity(), 128);
        assert!(Buffer::take().is_err());
        drop(first);
        let third = Buffer::take().expect("one came back");
        drop(third);
        drop(second);
        let statistics = BufferPool::statistics();
        assert_eq!((statistics.used, statistics.free, statistics.high_water), (0, 1, 2));
        assert_eq!((statistics.allocated, statistics.refused), (2, 1));
    }

    #[test]
    fn a_pool_takes_and_returns_the_shared_allowance_in_batches() {
        static LEFT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(5);
        fn take(count: usize) -> usize {
            let count = count.min(LEFT.load(Relaxed));
            LEFT.fetch_sub(count, Relaxed);
            count
        }
        fn give(count: usize) {
            LEFT.fetch_add(count, Relaxed);
        }
        use std::sync::atomic::Ordering::Relaxed;
        BufferPool::share(Allowance { batch: 2, take, give });
        let mut held: Vec<_> = std::iter::from_fn(|| Buffer::take().ok()).collect();
        assert_eq!((held.len(), LEFT.load(Relaxed), BufferPool::statistics().refused), (5, 0, 1));
        held.truncate(2);
        assert_eq!(LEFT.load(Relaxed), 0, "three are not two batches");
        held.clear();
        assert_eq!(LEFT.load(Relaxed), 2);
        assert!(Buffer::take().is_ok());
    }

    #[test]
    fn without_memory_only_reserved_buffers_are_available() {
        BufferPool::set_aside(1);
        BufferPool::grow_unless(|| true);
        assert!(Buffer::take().is_err() && Buffer::take_bulk().is_err());
        let last = Buffer::take_aside().expect("one was set aside");
        assert!(Buffer::take_aside().is_err());
        drop(last);
        drop(Buffer::take_aside().expect("it is there again"));
        assert_eq!(BufferPool::statistics().used, 0);
    }

    #[test]
    fn a_released_buffer_notifies_once() {
        thread_local!(static NOTIFIED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
        let (one, other) = (Buffer::take().expect("one"), Buffer::take().expect("another"));
        BufferPool::notify_of_next(|| NOTIFIED.set(NOTIFIED.get() + 1));
        drop(one);
        drop(other);
        assert_eq!(NOTIFIED.get(), 1);
    }

    #[test]
    fn with_a_buffer_limit_shrink_moves_only_few_bytes() {
        BufferPool::configure(16_384, 8, 8);
        let mut buffer = Buffer::take().expect("the first");
        buffer.append(&[0; 5_000]);
        assert!(!buffer.has_slack());
        buffer.shrink();
        assert_eq!(buffer.capacity(), 16_384);
        buffer.consume(4_000);
        buffer.shrink();
        assert!(buffer.capacity() < 1_200);
    }

    #[test]
    fn a_full_buffer_rejects_further_bytes_until_compacted() {
        let mut buffer = Buffer::with_capacity(4);
        assert_eq!(buffer.append(b"abcdef"), 4);
        assert!(buffer.is_full() && buffer.space().is_empty());
        buffer.consume(1);
        assert_eq!(buffer.append(b"e"), 0);
        buffer.compact();
        assert_eq!(buffer.append(b"e"), 1);
        assert_eq!(&buffer[..], b"bcde");
    }

    #[test]
    fn shrink_moves_bytes_to_a_block_of_their_size() {
        for length in [0, 1, 31, 100, 1000, 14_000] {
            let mut buffer = Buffer::take().expect("no limit is set");
            let used = BufferPool::statistics().used;
            buffer.append(&vec![7; length + 3]);
            buffer.consume(3);
            assert!(buffer.has_slack(), "{length}");
            buffer.shrink();
            assert_eq!((&buffer[..], buffer.headroom()), (&vec![7; length][..], 0));
            assert!(buffer.room() > 0 && buffer.capacity() < length + length / 7 + 64, "{buffer:?}");
            assert!(!buffer.has_slack(), "{buffer:?}");
            assert_eq!(BufferPool::statistics().used, used - 1, "the pool has its own again");
        }
        let mut full = Buffer::take().expect("no limit is set");
        full.append(&[7; 16_000]);
        full.shrink();
        assert_eq!(full.capacity(), 16_384, "hardly anything is to be had");
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn filling_more_than_the_capacity_panics() {
        Buffer::with_capacity(4).fill(5);
    }
}
