//! Where a ring's bytes are: in memory, or in a file that survives the process.
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
//! Tail, head and area are on cache lines of their own (R107): writers change the tail for each message, the head only
//! when it is in the way. Size, header, tail and head alone determine the places of messages (R111, R114). The counters
//! stand where the reference has padding; they let a reader of the file know its own position after any number of laps.
//! Everything else of a ring is in the process's memory.
//!
//! In the area, messages follow each other and continue at the beginning after the end. Each is a tag, a length and its
//! bytes; a last tag ends them. A tag counts its readers; [`BUSY`] marks a message that is being written.

use crate::primitives::{AtomicU8, AtomicUsize, Ordering};

/// The bytes before the area.
pub const HEADER: usize = 192;

/// The tag of a message that is being written: one value of the readers' count that no number of readers reaches (R113).
pub const BUSY: u8 = 255;

/// The bit of the tail that is the writers' lock (R105). An area is therefore smaller than half of the address space.
pub const LOCKED: usize = 1 << (usize::BITS - 1);

/// The version of the counters, and where it is.
pub(super) const VERSION: usize = 1;
pub(super) const VERSION_AT: usize = 32;

/// Where the counters are.
pub(super) const MADE_NS: usize = 40;
pub(super) const BYTES_RESERVED: usize = 72;
pub(super) const MESSAGES_RESERVED: usize = 80;
pub(super) const BYTES_RECYCLED: usize = 136;
pub(super) const MESSAGES_RECYCLED: usize = 144;

/// The bits of the tail that are the offset.
const PLACE: usize = LOCKED - 1;

impl Storage {
    /// The tail, without its lock bit.
    pub(super) fn tail(&self, ordering: Ordering) -> usize {
        self.in_area(self.tail_cell().load(ordering) & PLACE)
    }

    /// Locks the tail, if no writer holds it; returns it.
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

    /// Where the oldest message is.
    #[inline]
    pub(super) fn head(&self) -> usize {
        self.in_area(self.head_cell().load(Ordering::Relaxed))
    }

    /// Moves the head; only for the holder of the tail.
    #[inline]
    pub(super) fn set_head(&self, head: usize) {
        self.head_cell().store(head, Ordering::Release);
    }

    /// Counts a reserved message, its tag and length included; only for the holder of the tail. A thread that sees the
    /// count also sees the tag and the length.
    #[inline]
    pub(super) fn note_reserved(&self, bytes: usize) {
        self.count(MESSAGES_RESERVED, 1, Ordering::Relaxed);
        self.count(BYTES_RESERVED, bytes, Ordering::Release);
    }

    /// Counts messages that were recycled; only for the holder of the tail.
    #[inline]
    pub(super) fn note_recycled(&self, messages: usize, bytes: usize) {
        self.count(MESSAGES_RECYCLED, messages, Ordering::Relaxed);
        self.count(BYTES_RECYCLED, bytes, Ordering::Relaxed);
    }

    /// `place` plus `count`, going on at the beginning after the end.
    #[inline]
    pub(super) fn add(&self, place: usize, count: usize) -> usize {
        let sum = place + count;
        if sum < self.size() { sum } else { self.in_area(sum - self.size()) }
    }

    /// How many bytes there are from `first` to `last`.
    #[inline]
    pub(super) fn distance(&self, first: usize, last: usize) -> usize {
        if last >= first { last - first } else { last + self.size() - first }
    }

    /// Other processes can change a file: with any content, no place is outside of the area.
    #[inline]
    fn in_area(&self, place: usize) -> usize {
        if place < self.size() { place } else { 0 }
    }

    /// The length of the message with its tag at `place`, and the number of bytes that encode it. Nothing else may
    /// write there.
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
        /// Where the header is, aligned to a cache line.
        start: NonNull<u8>,
        /// The size of the area. It is in the header too, for readers of a file; other processes cannot change this
        /// copy.
        size: usize,
        kind: StorageKind,
    }

    /// Where the memory comes from: a flag rather than a guess by its address (R112).
    enum StorageKind {
        Allocated(Layout),
        /// Held until the ring goes.
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
        /// Header and area of `size` bytes together, in memory; `None` if memory runs out.
        pub(crate) fn allocate(size: usize) -> Option<Self> {
            let size = size.max(2 * HEADER);
            let layout = Layout::from_size_align(size, LINE).ok()?;
            // SAFETY: the layout is not empty. The kernel allocates pages only when they are written to.
            let start = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
            Some(Self::prepare(start, size, StorageKind::Allocated(layout)))
        }

        /// Header and area of `size` bytes together, in a new file.
        pub(crate) fn create(path: &Path, size: usize) -> io::Result<Self> {
            let mapping = Mapping::create(path, size.max(2 * HEADER))?;
            Ok(Self::prepare(mapping.start(), mapping.length(), StorageKind::Mapped(mapping)))
        }

        /// An empty ring: one tag.
        fn prepare(start: NonNull<u8>, length: usize, kind: StorageKind) -> Self {
            let storage = Self { start, size: length - HEADER, kind };
            let numbers = start.cast::<usize>();
            // SAFETY: the header begins on a cache line, and the memory is not shared yet.
            unsafe { numbers.write(storage.size) };
            // SAFETY: as above; the header has room for it.
            let reserved = unsafe { numbers.add(1) };
            // SAFETY: as above.
            unsafe { reserved.write(HEADER) };
            // A file may hold the counters of a former process: they start over.
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

        /// Adds to a counter. It has one writer at a time, so no exchange is needed.
        #[inline]
        pub(crate) fn count(&self, at: usize, by: usize, ordering: Ordering) {
            let counter = self.number(at);
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), ordering);
        }

        /// Whether it is a file.
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

        /// Writes at `place`, going on at the beginning after the end.
        ///
        /// # Safety
        /// The caller has reserved these bytes: no other thread reads or writes them.
        #[inline]
        pub(crate) unsafe fn write(&self, place: usize, bytes: &[u8]) {
            assert!(bytes.len() < self.size, "more than the area");
            // Nearly every length is one byte: a store instead of a call.
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

        /// Hands out the bytes at `place`, in two pieces if they go over the end.
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

/// Loom watches every access to a cell, so a byte that two threads touch at a time is found.
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

        /// Counters are for readers of files; a model does without.
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
