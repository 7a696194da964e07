//! A ring of messages with many writers and many readers; none of them waits for another.
//!
//! A writer reserves its place while it holds the tail for some instructions, then copies its message while others
//! reserve theirs. When the ring is full the oldest messages go; when a reader still needs those, the new one is dropped
//! and counted. So a reader, however slow or dead, costs writers nothing.
//!
//! ```text
//!                 head                                            tail
//!                  ▼                                               ▼
//!   ... free ... │0│len│a message│2│len│another│255│len│(a copy)│0│ ... free ...
//!                 ▲               ▲             ▲                ▲
//!              its tag     two readers here   being written    the last tag
//! ```
//! Begin with [`Ring::write`] and [`Ring::attach`]; `storage` draws the layout, which a file of a ring shares,
//! `waiting` describes writers that find the tail held, `wakeup` the notification of readers. [`file`] reads such
//! files.
//!
//! Access rules:
//!
//! * head, tail, the last tag and the lengths of messages: the holder of the tail;
//! * a message: the writer that reserved it, while its tag is [`BUSY`]; then readers, while its or an earlier tag counts a
//!   reader; then, once no tag from the head to it does, the holder of the tail.

pub mod file;
mod reader;
mod storage;
mod varint;
mod waiting;
mod wakeup;

#[cfg(not(loom))]
use std::io;
#[cfg(not(loom))]
use std::path::Path;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::primitives::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence, spin};
use storage::Storage;
use waiting::{Fate, Patience, PendingWrite, WriteBatch};
use wakeup::SleepingReaders;

pub use reader::{ReadEnd, ReaderWait, RingMessage, RingReader, Seek, TooManyReaders};
pub use storage::{BUSY, HEADER, LOCKED};
pub use wakeup::WakeReader;

/// The default number of writer queues: the best on all large machines that the design was measured on
/// (R98).
pub const DEFAULT_QUEUES: usize = 6;

/// The most queues.
pub const MOST_QUEUES: usize = 64;

/// The most readers at a time: all of them may be counted in one tag, which is a byte with one reserved value (R113).
pub const MOST_READERS: usize = BUSY as usize - 1;

/// A ring.
pub struct Ring {
    storage: Storage,
    /// Writers that wait for the tail, by their number modulo the count of queues (R99).
    queues: Box<[CachePadded<Queue>]>,
    /// Number of readers; changed only by the holder of the tail, except that leaving readers subtract themselves.
    readers: CachePadded<AtomicUsize>,
    /// Set when a reader left no room for a message and has not moved on since. Writers then need not take the tail.
    full: CachePadded<AtomicBool>,
    wakeup: SleepingReaders,
}

/// Waiting writers, and the count of messages that they dropped.
struct Queue {
    /// The last that came.
    newest: AtomicPtr<PendingWrite>,
    /// Messages that found no room.
    dropped: AtomicU64,
}

impl Ring {
    /// A ring of about `size` bytes in memory, its header included.
    pub fn in_memory(size: usize, queues: usize) -> Arc<Self> {
        Self::try_in_memory(size, queues).expect("memory for a ring of a constant size")
    }

    /// Like [`Ring::in_memory`], for a configured size; `None` if memory runs out.
    pub fn try_in_memory(size: usize, queues: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Self::over(Storage::allocate(size)?, queues)))
    }

    /// A ring in a file of `size` bytes at `path`. Other programs can read the messages, even after the process
    /// was killed. The contents of an existing file are lost.
    #[cfg(not(loom))]
    pub fn in_file(path: &Path, size: usize, queues: usize) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self::over(Storage::create(path, size)?, queues)))
    }

    fn over(storage: Storage, queues: usize) -> Self {
        let queues = queues.clamp(1, MOST_QUEUES);
        Self {
            storage,
            queues: (0..queues).map(|_| CachePadded::new(Queue::new())).collect(),
            readers: CachePadded::new(AtomicUsize::new(0)),
            full: CachePadded::new(AtomicBool::new(false)),
            wakeup: SleepingReaders::new(),
        }
    }

    /// Whether it is a file (R112).
    pub fn is_file(&self) -> bool {
        self.storage.is_file()
    }

    /// Bytes for messages, their tags and lengths.
    pub fn size(&self) -> usize {
        self.storage.size()
    }

    /// How many queues writers wait in.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// How many readers there are.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// How many messages found no room, because a reader was slow or they were larger than the ring.
    pub fn dropped(&self) -> u64 {
        self.queues.iter().map(|queue| queue.dropped.load(Ordering::Relaxed)).sum()
    }

    /// The longest message that fits.
    pub fn longest(&self) -> usize {
        self.size().saturating_sub(2 + 1 + varint::LONGEST)
    }

    /// Writes a message made of `parts`; false when it found no room and was dropped. `thread` is the writer's number.
    /// Messages of one thread stay in order.
    #[inline]
    pub fn write(&self, thread: usize, parts: &[&[u8]]) -> bool {
        if self.full.load(Ordering::Relaxed) {
            return self.lose(thread);
        }
        let Some(tail) = self.storage.try_lock() else { return self.write_by_queue(thread, parts) };
        let watched = self.is_watched();
        let mut end = tail;
        let place = self.reserve(parts.iter().map(|part| part.len()).sum(), &mut end, watched);
        self.storage.unlock(end);
        match place {
            Ok(place) => self.copy(place, parts.iter().copied()),
            Err(Fate::Blocked) => return self.write_by_queue(thread, parts),
            Err(_) => return self.lose(thread),
        }
        if watched {
            self.wakeup.deliver();
        }
        true
    }

    /// Counts a message that is dropped.
    #[cold]
    fn lose(&self, thread: usize) -> bool {
        self.queue_of(thread).dropped.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn queue_of(&self, thread: usize) -> &Queue {
        &self.queues[thread % self.queues.len()]
    }

    /// Whether readers may be counted in tags. Only for the holder of the tail: readers attach while they hold it.
    #[inline]
    fn is_watched(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Waits for the tail, or for a holder of the tail that writes this message along with others (R98).
    #[cold]
    fn write_by_queue(&self, thread: usize, parts: &[&[u8]]) -> bool {
        let queue = self.queue_of(thread);
        let mut pending = PendingWrite::new(parts);
        // From here on it is used only through this pointer, which other threads get.
        let pending: *mut PendingWrite = &mut pending;
        waiting::push(&queue.newest, pending);
        let mut patience = Patience::new();
        loop {
            // SAFETY: `pending` lives until this function returns, which it does only once it was served.
            match unsafe { waiting::fate(pending) } {
                Fate::Waiting => {}
                Fate::Written => return true,
                Fate::Blocked if patience.is_left_for_a_copy() => {
                    waiting::push(&queue.newest, pending);
                    patience.pass();
                }
                Fate::Blocked | Fate::Dropped => return self.lose(thread),
            }
            // The newest of the queue looks at the tail; the others leave it alone, unless that one is asleep.
            if (waiting::is_newest(&queue.newest, pending) || patience.is_over_for_the_newest())
                && let Some(tail) = self.storage.try_lock()
            {
                // SAFETY: every writer in the queue waits until it was served.
                self.serve(tail, unsafe { waiting::take(&queue.newest) });
                continue;
            }
            patience.pass();
        }
    }

    /// Writes a batch: reserves while holding the tail, gives it back, copies.
    fn serve(&self, tail: usize, batch: WriteBatch) {
        let mut end = tail;
        let watched = self.is_watched();
        batch.each(|pending| pending.place.set(self.reserve(pending.length, &mut end, watched)));
        self.storage.unlock(end);
        batch.each(|pending| {
            if let Ok(place) = pending.place.get() {
                // SAFETY: the writer of the message waits, so its text is still there.
                self.copy(place, unsafe { pending.parts() });
            }
        });
        // After this the writers of the batch return.
        batch.settle();
        if watched {
            self.wakeup.deliver();
        }
    }

    /// Makes room for a message and marks it as being written. Only for the holder of the tail.
    #[inline]
    fn reserve(&self, length: usize, tail: &mut usize, watched: bool) -> Result<Reservation, Fate> {
        let mut prefix = [0; varint::LONGEST];
        let prefix_length = varint::encode(length, &mut prefix);
        let needed = length.saturating_add(prefix_length + 1);
        self.make_room(needed, *tail)?;
        let at = self.before(*tail);
        let tag = self.storage.tag(at);
        // Readers may be attached already; without any, no other thread changes a tag.
        let readers = if watched {
            tag.swap(BUSY, Ordering::AcqRel)
        } else {
            let readers = tag.load(Ordering::Relaxed);
            tag.store(BUSY, Ordering::Relaxed);
            readers
        };
        // SAFETY: room was made, and only the holder of the tail writes behind it.
        unsafe { self.storage.write(*tail, &prefix[..prefix_length]) };
        let start = self.storage.add(*tail, prefix_length);
        let last = self.storage.add(start, length);
        // A crash leaves a ring that can be walked: length and last tag are written before the tail moves.
        self.storage.tag(last).store(0, Ordering::Relaxed);
        self.storage.note_reserved(needed);
        *tail = self.storage.add(last, 1);
        Ok(Reservation { tag: at, start, readers })
    }

    /// Recycles old messages until there are `needed` bytes.
    #[inline]
    fn make_room(&self, needed: usize, tail: usize) -> Result<(), Fate> {
        // One byte stays free: head and tail in one place would be an empty ring.
        let most = self.size() - 1;
        if needed >= most {
            return Err(Fate::Dropped);
        }
        let former = self.storage.head();
        let in_use = self.storage.distance(former, tail);
        let (mut used, mut recycled) = (in_use, 0);
        let mut head = former;
        while used + needed > most {
            // The last tag is not a message.
            if used <= 1 {
                return Err(Fate::Dropped);
            }
            match self.storage.tag(head).load(Ordering::Acquire) {
                0 => {}
                BUSY => return Err(Fate::Blocked),
                // A reader's count is at the tag of the next message to read.
                _ => return Err(self.note_full(head)),
            }
            let (length, bytes) = self.storage.length_at(head).ok_or(Fate::Dropped)?;
            let message = 1 + bytes + length;
            if message >= used {
                return Err(Fate::Dropped);
            }
            head = self.storage.add(head, message);
            used -= message;
            recycled += 1;
        }
        if head != former {
            self.storage.note_recycled(recycled, in_use - used);
            self.storage.set_head(head);
            // In the file of a crashed process the head has moved before anything behind it was overwritten.
            fence(Ordering::Release);
        }
        Ok(())
    }

    /// The message at `head` is in the way. If a reader needs it, writers need not look until that reader moves on.
    #[cold]
    fn note_full(&self, head: usize) -> Fate {
        self.full.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Either this sees the reader gone, or the reader sees the mark.
        if matches!(self.storage.tag(head).load(Ordering::Relaxed), 0 | BUSY) {
            self.full.store(false, Ordering::Relaxed);
        }
        Fate::Dropped
    }

    /// A reader moved on: writers may look for room again.
    fn note_room(&self) {
        fence(Ordering::SeqCst);
        if self.full.load(Ordering::Relaxed) {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Copies a message to its place and makes it readable.
    #[inline]
    fn copy<'p>(&self, reserved: Reservation, parts: impl Iterator<Item = &'p [u8]>) {
        let mut at = reserved.start;
        for part in parts {
            // SAFETY: the bytes were reserved for this message, and its tag keeps readers away.
            unsafe { self.storage.write(at, part) };
            at = self.storage.add(at, part.len());
        }
        self.storage.tag(reserved.tag).store(reserved.readers, Ordering::Release);
    }

    fn lock(&self) -> usize {
        let mut tries = 0;
        loop {
            if let Some(tail) = self.storage.try_lock() {
                return tail;
            }
            spin(&mut tries);
        }
    }

    /// The place before `place`.
    fn before(&self, place: usize) -> usize {
        if place == 0 { self.size() - 1 } else { place - 1 }
    }
}

impl Queue {
    fn new() -> Self {
        Self { newest: AtomicPtr::new(std::ptr::null_mut()), dropped: AtomicU64::new(0) }
    }
}

/// Space reserved for a message.
#[derive(Clone, Copy)]
struct Reservation {
    /// Where its tag is.
    tag: usize,
    /// Where its first byte goes.
    start: usize,
    /// The readers that its tag counted.
    readers: u8,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} bytes, {} readers, {} dropped)", self.size(), self.readers(), self.dropped())
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
