//! A ring buffer of messages with many writers and many readers.
//!
//! A writer locks the tail for a few instructions to reserve space, then copies its message while other writers reserve.
//! A full ring recycles its oldest messages. If a reader still needs them, the new message is dropped and counted. A
//! slow or dead reader never blocks writers.
//!
//! ```text
//!                 head                                            tail
//!                  ▼                                               ▼
//!   ... free ... │0│len│a message│2│len│another│255│len│(a copy)│0│ ... free ...
//!                 ▲               ▲             ▲                ▲
//!              its tag     two readers here   being written    the last tag
//! ```
//! Begin with [`Ring::write`] and [`Ring::attach`]. `storage` draws the layout in memory and in files, `waiting`
//! describes writers that find the tail locked, `wakeup` the notification of readers. [`file`] reads ring files.
//!
//! Access rules:
//!
//! * head, tail, the last tag and the lengths of messages: the holder of the tail;
//! * a message: first the writer that reserved it, while the tag is [`BUSY`]; then readers, while the tag of this or an
//!   earlier message counts a reader; then the holder of the tail.

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

/// Default number of writer queues. The fastest on all large machines measured (R98).
pub const DEFAULT_QUEUES: usize = 6;

/// Maximum number of queues.
pub const MOST_QUEUES: usize = 64;

/// Maximum number of readers at a time. A tag must be able to count all of them, in one byte with one reserved value (R113).
pub const MOST_READERS: usize = BUSY as usize - 1;

/// A ring.
pub struct Ring {
    storage: Storage,
    /// Writers that wait for the tail. The index is the thread number modulo the count of queues (R99).
    queues: Box<[CachePadded<Queue>]>,
    /// Number of readers. Only the holder of the tail increments it. A detaching reader decrements it without the tail.
    readers: CachePadded<AtomicUsize>,
    /// Set while a reader blocks recycling and has not advanced since. Writers drop messages without locking the tail then.
    full: CachePadded<AtomicBool>,
    wakeup: SleepingReaders,
}

/// A queue of waiting writers, and their count of dropped messages.
struct Queue {
    /// The writer that joined last.
    newest: AtomicPtr<PendingWrite>,
    /// Messages dropped because the ring was full.
    dropped: AtomicU64,
}

impl Ring {
    /// A ring in memory of about `size` bytes including the header.
    pub fn in_memory(size: usize, queues: usize) -> Arc<Self> {
        Self::try_in_memory(size, queues).expect("memory for a ring of a constant size")
    }

    /// Like [`Ring::in_memory`], for a configured size. `None` if the allocator fails.
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

    /// Whether the ring is in a file (R112).
    pub fn is_file(&self) -> bool {
        self.storage.is_file()
    }

    /// Size of the area for messages with their tags and lengths, in bytes.
    pub fn size(&self) -> usize {
        self.storage.size()
    }

    /// Number of writer queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Number of attached readers.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Number of messages dropped, because a reader was slow or the message was larger than the ring.
    pub fn dropped(&self) -> u64 {
        self.queues.iter().map(|queue| queue.dropped.load(Ordering::Relaxed)).sum()
    }

    /// Maximum length of a message in bytes.
    pub fn longest(&self) -> usize {
        self.size().saturating_sub(2 + 1 + varint::LONGEST)
    }

    /// Writes a message made of `parts`. False if it was dropped because the ring is full. `thread` is the worker
    /// number of the caller. Messages of one thread stay in order.
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

    /// Counts a dropped message. Returns false.
    #[cold]
    fn lose(&self, thread: usize) -> bool {
        self.queue_of(thread).dropped.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn queue_of(&self, thread: usize) -> &Queue {
        &self.queues[thread % self.queues.len()]
    }

    /// Whether readers may be counted in tags. Only for the holder of the tail, because readers lock the tail to attach.
    #[inline]
    fn is_watched(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Waits for the tail, or for a holder of the tail that writes this message along with others (R98).
    #[cold]
    fn write_by_queue(&self, thread: usize, parts: &[&[u8]]) -> bool {
        let queue = self.queue_of(thread);
        let mut pending = PendingWrite::new(parts);
        // From here on, `pending` is used only through this pointer, which is shared with other threads.
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
            // Only the newest writer of the queue polls the tail. The others do if the newest seems to be descheduled.
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

    /// Writes a batch: reserves the space for all messages, unlocks the tail, then copies.
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

    /// Reserves space for a message and marks it as [`BUSY`]. Only for the holder of the tail.
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
        // Write the length and the final tag before the tail moves, so that the ring is consistent after a crash.
        self.storage.tag(last).store(0, Ordering::Relaxed);
        self.storage.note_reserved(needed);
        *tail = self.storage.add(last, 1);
        Ok(Reservation { tag: at, start, readers })
    }

    /// Recycles old messages until `needed` bytes are free.
    #[inline]
    fn make_room(&self, needed: usize, tail: usize) -> Result<(), Fate> {
        // One byte stays free, because head == tail would mean an empty ring.
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
                // A reader is counted in the tag of its next message.
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

    /// A reader blocks the message at `head`. Sets `full`, so that writers do not retry until the reader advances.
    #[cold]
    fn note_full(&self, head: usize) -> Fate {
        self.full.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Either this load sees that the reader advanced, or the reader sees `full`.
        if matches!(self.storage.tag(head).load(Ordering::Relaxed), 0 | BUSY) {
            self.full.store(false, Ordering::Relaxed);
        }
        Fate::Dropped
    }

    /// A reader advanced. Clears `full`.
    fn note_room(&self) {
        fence(Ordering::SeqCst);
        if self.full.load(Ordering::Relaxed) {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// Copies a message into its reserved space and publishes it.
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

    /// The offset before `place`, with wraparound.
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
    /// Offset of the tag.
    tag: usize,
    /// Offset of the first byte of the message.
    start: usize,
    /// Number of readers that the tag counted before the reservation.
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
