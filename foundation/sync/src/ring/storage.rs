//! Storage of a ring: memory, or a file that survives the process.
//!
//! ```text
//!     0   size of the area            (8 bytes each, in the machine's order)
//!     8   bytes before the area: 192
//!    32   version of the counters: 1; 0 in files without them
//!    40   when the ring was made, in nanoseconds since 1970
//!    64   tail: behind the last byte in use; its topmost bit is the writers' lock
//!    72   bytes ever reserved: modulo the size, the tail
//!    80   messages ever reserved
//!   128   head: the oldest message
//!   136   bytes ever recycled: modulo the size, the head
//!   144   messages ever recycled
//!   192   the area
//! ```
//! Tail, head and area are on separate cache lines (R107). Writers change the tail for each message, the head only to
//! recycle old messages. Size, header, tail and head alone determine the offsets of messages (R111, R114). The counters
//! are in bytes that are padding in the reference. With them, a reader of the file finds its position after any number
//! of wraparounds. All other state of a ring is in process memory.
//!
//! In the area, messages are contiguous and wrap around at the end. Each is a tag, a length and the bytes. A final tag
//! follows the last message. A tag counts the readers positioned at it. [`BUSY`] marks a message that is being written.

use crate::primitives::{AtomicU8, AtomicUsize, Ordering};

/// Size of the header in bytes.
pub const HEADER: usize = 192;

/// Tag of a message that is being written. Above [`MOST_READERS`](super::MOST_READERS), so no count of readers collides with it (R113).
pub const BUSY: u8 = 255;

/// The bit of the tail that is the writers' lock (R105). An area is therefore smaller than half of the address space.
pub const LOCKED: usize = 1 << (usize::BITS - 1);

/// Version of the counters, and its offset in the header.
pub(super) const VERSION: usize = 1;
pub(super) const VERSION_AT: usize = 32;

/// Offsets of the counters in the header.
pub(super) const MADE_NS: usize = 40;
pub(super) const BYTES_RESERVED: usize = 72;
pub(super) const MESSAGES_RESERVED: usize = 80;
pub(super) const BYTES_RECYCLED: usize = 136;
pub(super) const MESSAGES_RECYCLED: usize = 144;

/// The bits of the tail that contain the offset.
const PLACE: usize = LOCKED - 1;

impl Storage {
    /// The tail, without its lock bit.
    pub(super) fn tail(&self, ordering: Ordering) -> usize {
        self.in_area(self.tail_cell().load(ordering) & PLACE)
    }

    /// Tries to lock the tail. Returns its offset, or `None` if a writer holds it.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<usize> {
        let cell = self.tail_cell();
        let tail = cell.load(Ordering::Relaxed);
        if tail & LOCKED != 0 {
            return None;
        }
        cell.compare_exchange(tail, tail | LOCKED, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(self.in_area(tail))
    }

    /// Stores the tail and unlocks it.
    #[inline]
    pub(super) fn unlock(&self, tail: usize) {
        self.tail_cell().store(tail, Ordering::Release);
    }

    /// Offset of the oldest message.
    #[inline]
    pub(super) fn head(&self) -> usize {
        self.in_area(self.head_cell().load(Ordering::Relaxed))
    }

    /// Sets the head. Only for the holder of the tail.
    #[inline]
    pub(super) fn set_head(&self, head: usize) {
        self.head_cell().store(head, Ordering::Release);
    }

    /// Counts a reserved message of `bytes`, including tag and length. Only for the holder of the tail. A thread that
    /// loads the new count with Acquire also sees the tag and the length.
    #[inline]
    pub(super) fn note_reserved(&self, bytes: usize) {
        self.count(MESSAGES_RESERVED, 1, Ordering::Relaxed);
        self.count(BYTES_RESERVED, bytes, Ordering::Release);
    }

    /// Counts recycled messages. Only for the holder of the tail.
    #[inline]
    pub(super) fn note_recycled(&self, messages: usize, bytes: usize) {
        self.count(MESSAGES_RECYCLED, messages, Ordering::Relaxed);
        self.count(BYTES_RECYCLED, bytes, Ordering::Relaxed);
    }

    /// `place` plus `count`, modulo the size.
    #[inline]
    pub(super) fn add(&self, place: usize, count: usize) -> usize {
        let sum = place + count;
        if sum < self.size() { sum } else { self.in_area(sum - self.size()) }
    }

    /// Number of bytes from `first` to `last`, with wraparound.
    #[inline]
    pub(super) fn distance(&self, first: usize, last: usize) -> usize {
        if last >= first { last - first } else { last + self.size() - first }
    }

    /// Replaces an offset outside the area with 0. Other processes can write any value into a file.
    #[inline]
    fn in_area(&self, place: usize) -> usize {
        if place < self.size() { place } else { 0 }
    }

    /// Length of the message with its tag at `place`, and the number of bytes that encode the length. `None` if the
    /// length is invalid or not less than the size. No other thread may write these bytes meanwhile.
    #[inline]
    pub(super) fn length_at(&self, place: usize) -> Option<(usize, usize)> {
        let first = usize::from(self.byte(self.add(place, 1)));
        if first < 240 {
            return (first < self.size()).then_some((first, 1));
        }
        let length = super::varint::decode(|index| Some(self.byte(self.add(place, 1 + index))))?;
        (length.0 < self.size()).then_some(length)
    }
}

#[cfg(not(loom))]
pub(super) use real::Storage;

#[cfg(not(loom))]
mod real {
    use super::*;
    use std::alloc::{self, Layout};
    use std::io;
    use std::path::Path;
    use std::ptr::{self, NonNull};
    use std::time::{SystemTime, UNIX_EPOCH};

    use weir_sys::memory::Mapping;

    /// The header and the area.
    pub(crate) struct Storage {
        /// Start of the header, aligned to a cache line.
        start: NonNull<u8>,
        /// Size of the area. The header has a copy for readers of a file. Other processes cannot change this one.
        size: usize,
        kind: StorageKind,
    }

    /// Source of the memory, as an explicit flag instead of a guess from the address (R112).
    enum StorageKind {
        Allocated(Layout),
        /// Unmapped when the ring is dropped.
        Mapped(#[expect(dead_code, reason = "it is there to be dropped")] Mapping),
    }

    /// A cache line.
    const LINE: usize = 64;

    // SAFETY: the memory belongs to this value, and every access to it follows the protocol of `ring`: tags, head and
    // tail are atomic, other bytes are written only by the writer that reserved them and read only once their tag
    // allows it.
    unsafe impl Send for Storage {}
    // SAFETY: as above.
    unsafe impl Sync for Storage {}

    impl Storage {
        /// A header and an area of `size` bytes in total, in memory. `None` if the allocator fails.
        pub(crate) fn allocate(size: usize) -> Option<Self> {
            let size = size.max(2 * HEADER);
            let layout = Layout::from_size_align(size, LINE).ok()?;
            // SAFETY: the layout is not empty. The kernel allocates pages only when they are written to.
            let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
            Some(Self::prepare(start, size, StorageKind::Allocated(layout)))
        }

        /// A header and an area of `size` bytes in total, in a new file.
        pub(crate) fn create(path: &Path, size: usize) -> io::Result<Self> {
            let mapping = Mapping::create(path, size.max(2 * HEADER))?;
            Ok(Self::prepare(mapping.start(), mapping.length(), StorageKind::Mapped(mapping)))
        }

        /// Initialises an empty ring, which contains one tag.
        fn prepare(start: NonNull<u8>, length: usize, kind: StorageKind) -> Self {
            let storage = Self { start, size: length - HEADER, kind };
            let numbers = start.cast::<usize>();
            // SAFETY: the header begins on a cache line, and the memory is not shared yet.
            unsafe { numbers.write(storage.size) };
            // SAFETY: as above; the header has room for it.
            let reserved = unsafe { numbers.add(1) };
            // SAFETY: as above.
            unsafe { reserved.write(HEADER) };
            // A file may contain counters of a former process. Reset them.
            let made_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
            let counters = [
                (VERSION_AT, VERSION),
                (MADE_NS, made_ns as usize),
                (BYTES_RESERVED, 1),
                (MESSAGES_RESERVED, 0),
                (BYTES_RECYCLED, 0),
                (MESSAGES_RECYCLED, 0),
            ];
            for (at, value) in counters {
                storage.number(at).store(value, Ordering::Relaxed);
            }
            storage.set_head(0);
            storage.tag(0).store(0, Ordering::Relaxed);
            storage.unlock(1);
            storage
        }

        /// Adds to a counter. Only the holder of the tail writes, so a load and a store suffice.
        #[inline]
        pub(crate) fn count(&self, at: usize, by: usize, ordering: Ordering) {
            let counter = self.number(at);
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), ordering);
        }

        /// Whether the ring is in a file.
        pub(crate) fn is_file(&self) -> bool {
            matches!(self.kind, StorageKind::Mapped(_))
        }

        #[inline]
        pub(crate) fn size(&self) -> usize {
            self.size
        }

        #[inline]
        pub(crate) fn tail_cell(&self) -> &AtomicUsize {
            self.number(64)
        }

        #[inline]
        pub(crate) fn head_cell(&self) -> &AtomicUsize {
            self.number(128)
        }

        #[inline]
        fn number(&self, offset: usize) -> &AtomicUsize {
            debug_assert!(offset < HEADER);
            // SAFETY: the header has as many bytes.
            let place = unsafe { self.start.add(offset) };
            // SAFETY: the place is aligned, lives as long as `self` and is only ever used as an atomic.
            unsafe { AtomicUsize::from_ptr(place.as_ptr().cast()) }
        }

        /// The tag at `place`.
        #[inline]
        pub(crate) fn tag(&self, place: usize) -> &AtomicU8 {
            // SAFETY: a byte needs no alignment, and while it is a tag it is only used as an atomic.
            unsafe { AtomicU8::from_ptr(self.at(place)) }
        }

        #[inline]
        pub(crate) fn byte(&self, place: usize) -> u8 {
            // SAFETY: the place is in the area; by the protocol, it is not written now.
            unsafe { self.at(place).read() }
        }

        #[inline]
        fn at(&self, place: usize) -> *mut u8 {
            assert!(place < self.size, "a place in the area");
            // SAFETY: the area follows the header and has `size` bytes.
            unsafe { self.start.as_ptr().add(HEADER + place) }
        }

        /// Writes `bytes` at `place`, with wraparound.
        ///
        /// # Safety
        /// The caller has reserved these bytes: no other thread reads or writes them.
        #[inline]
        pub(crate) unsafe fn write(&self, place: usize, bytes: &[u8]) {
            assert!(bytes.len() < self.size, "more than the area");
            // Nearly every encoded length is one byte. A store is cheaper than a call of `memcpy`.
            if let &[byte] = bytes {
                // SAFETY: the place is in the area, and the caller has reserved it.
                unsafe { self.at(place).write(byte) };
                return;
            }
            if bytes.len() <= self.size - place {
                // SAFETY: they end in the area, and the caller has reserved them.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(place), bytes.len()) };
                return;
            }
            let (first, second) = bytes.split_at(bytes.len().min(self.size - place));
            // SAFETY: `first` ends at the end of the area at the latest; the caller has reserved the bytes.
            unsafe { ptr::copy_nonoverlapping(first.as_ptr(), self.at(place), first.len()) };
            if !second.is_empty() {
                // SAFETY: `second` is shorter than the area; the caller has reserved the bytes.
                unsafe { ptr::copy_nonoverlapping(second.as_ptr(), self.at(0), second.len()) };
            }
        }

        /// Passes the bytes at `place` to `take`, as two slices if they wrap around.
        ///
        /// # Safety
        /// These bytes are not written until `take` has returned.
        pub(crate) unsafe fn read<T>(
            &self,
            place: usize,
            length: usize,
            take: impl FnOnce(&[u8], &[u8]) -> T,
        ) -> T {
            assert!(length < self.size, "more than the area");
            let first = length.min(self.size - place);
            // SAFETY: these bytes are in the area, and by the caller's contract they are not written.
            let head = unsafe { std::slice::from_raw_parts(self.at(place), first) };
            // SAFETY: as above.
            let rest = unsafe { std::slice::from_raw_parts(self.at(0), length - first) };
            take(head, rest)
        }
    }

    impl Drop for Storage {
        fn drop(&mut self) {
            match &self.kind {
                // SAFETY: `allocate` got it with this layout, and all borrows of it have ended.
                StorageKind::Allocated(layout) => unsafe { alloc::dealloc(self.start.as_ptr(), *layout) },
                // The mapping unmaps itself; the file stays.
                StorageKind::Mapped(_) => {}
            }
        }
    }
}

#[cfg(loom)]
pub(super) use model::Storage;

/// Loom checks every access to a cell, so it detects concurrent accesses to one byte.
#[cfg(loom)]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;

    pub(crate) struct Storage {
        tail: AtomicUsize,
        head: AtomicUsize,
        tags: Vec<AtomicU8>,
        bytes: Vec<UnsafeCell<u8>>,
    }

    // SAFETY: only for the models, which verify it.
    unsafe impl Send for Storage {}
    // SAFETY: as above.
    unsafe impl Sync for Storage {}

    impl Storage {
        pub(crate) fn allocate(size: usize) -> Option<Self> {
            Some(Self {
                tail: AtomicUsize::new(1),
                head: AtomicUsize::new(0),
                tags: (0..size).map(|_| AtomicU8::new(0)).collect(),
                bytes: (0..size).map(|_| UnsafeCell::new(0)).collect(),
            })
        }

        pub(crate) fn is_file(&self) -> bool {
            false
        }

        pub(crate) fn size(&self) -> usize {
            self.bytes.len()
        }

        pub(crate) fn tail_cell(&self) -> &AtomicUsize {
            &self.tail
        }

        pub(crate) fn head_cell(&self) -> &AtomicUsize {
            &self.head
        }

        /// Counters are for readers of files. A model does not need them.
        pub(crate) fn count(&self, _at: usize, _by: usize, _ordering: Ordering) {}

        pub(crate) fn tag(&self, place: usize) -> &AtomicU8 {
            &self.tags[place]
        }

        pub(crate) fn byte(&self, place: usize) -> u8 {
            // SAFETY: loom fails the model if another thread writes.
            self.bytes[place].with(|byte| unsafe { *byte })
        }

        pub(crate) unsafe fn write(&self, place: usize, bytes: &[u8]) {
            for (index, value) in bytes.iter().enumerate() {
                // SAFETY: loom fails the model if another thread uses it.
                self.bytes[self.add(place, index)].with_mut(|byte| unsafe { *byte = *value });
            }
        }

        pub(crate) unsafe fn read<T>(
            &self,
            place: usize,
            length: usize,
            take: impl FnOnce(&[u8], &[u8]) -> T,
        ) -> T {
            let bytes: Vec<u8> = (0..length).map(|index| self.byte(self.add(place, index))).collect();
            take(&bytes, &[])
        }
    }
}
