//! A reader: its position in the ring, and the messages that it protects from recycling.

use std::sync::Arc;

use super::storage::BUSY;
use super::waiting::SpinPolicy;
use super::wakeup::{Sleeper, WakeReader};
use super::{MOST_READERS, Ring};
use crate::primitives::{Ordering, spin};

/// Start position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// At the oldest message.
    Oldest,
    /// After the newest message. The reader receives only messages written later.
    End,
}

/// Whether a reader may wait for messages.
pub enum ReaderWait {
    /// It reads only the messages already available.
    No,
    /// It sleeps. The function is called when a message arrives after [`RingReader::sleep`] returned true.
    Woken(WakeReader),
}

/// The ring already has [`MOST_READERS`] readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReaders;

impl std::fmt::Display for TooManyReaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the ring has {MOST_READERS} readers already")
    }
}

impl std::error::Error for TooManyReaders {}

/// A message, in two slices if it wraps around at the end of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingMessage<'r> {
    pub first: &'r [u8],
    /// The rest after the wraparound, usually empty.
    pub second: &'r [u8],
}

impl RingMessage<'_> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Whether its length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the message to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.first);
        out.extend_from_slice(self.second);
    }
}

/// The reason why [`RingReader::read`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// The reader is at the end of the ring.
    End,
    /// The next message is being written. Retry shortly.
    Busy,
    /// `take` returned false.
    Stopped,
}

/// A reader of a ring. Messages from its position on are not recycled. If it is slow and the ring is full, new messages
/// are dropped and counted.
pub struct RingReader {
    ring: Arc<Ring>,
    /// Offset of the tag that counts this reader. Messages from there on are not recycled.
    held: usize,
    /// Offset of the tag of the next message.
    next: usize,
    sleeper: Option<Arc<Sleeper>>,
    watch: SpinPolicy,
}

impl Ring {
    /// Attaches a reader. Start position and waiting are fixed from then on (R115).
    ///
    /// # Errors
    /// When there are [`MOST_READERS`] already (R113).
    pub fn attach(self: &Arc<Self>, seek: Seek, wait: ReaderWait) -> Result<RingReader, TooManyReaders> {
        // While the tail is locked, the head does not move and its message is not recycled.
        let tail = self.lock();
        if self.readers.load(Ordering::Relaxed) >= MOST_READERS {
            self.storage.unlock(tail);
            return Err(TooManyReaders);
        }
        self.readers.fetch_add(1, Ordering::Relaxed);
        let place = match seek {
            Seek::Oldest => self.storage.head(),
            Seek::End => self.before(tail),
        };
        self.count_in(place);
        self.storage.unlock(tail);
        let sleeper = match wait {
            ReaderWait::No => None,
            ReaderWait::Woken(wake) => Some(self.wakeup.enlist(wake)),
        };
        Ok(RingReader {
            ring: Arc::clone(self),
            held: place,
            next: place,
            sleeper,
            watch: SpinPolicy::default(),
        })
    }

    /// Increments the reader count of a tag. Spins while the tag's message is being written.
    fn count_in(&self, place: usize) {
        let mut tries = 0;
        while !self.try_count(place, 1) {
            spin(&mut tries);
        }
    }

    /// Adds `change` to the reader count of a tag. False if the tag's message is being written.
    fn try_count(&self, place: usize, change: i8) -> bool {
        let tag = self.storage.tag(place);
        let mut readers = tag.load(Ordering::Relaxed);
        while readers != BUSY {
            let changed = readers.wrapping_add_signed(change);
            match tag.compare_exchange(readers, changed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => readers = now,
            }
        }
        false
    }
}

impl RingReader {
    /// The ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Passes messages to `take`, oldest first, until `take` returns false (the next call repeats that message) or the end of the ring.
    pub fn read(&mut self, mut take: impl FnMut(RingMessage<'_>) -> bool) -> ReadEnd {
        // Each message before the tail is either complete or marked busy. Writers keep modifying the tail's cache line,
        // so load the tail again only after those messages.
        let mut tail = self.ring.storage.tail(Ordering::Acquire);
        loop {
            match self.peek(tail) {
                Peek::End => {
                    let former = std::mem::replace(&mut tail, self.ring.storage.tail(Ordering::Acquire));
                    if tail == former {
                        return ReadEnd::End;
                    }
                }
                Peek::Busy => return ReadEnd::Busy,
                Peek::Message { start, length, behind } => {
                    let message = |first: &[u8], second: &[u8]| take(RingMessage { first, second });
                    // SAFETY: the message is complete, and the count at `held` keeps it from being recycled.
                    if !unsafe { self.ring.storage.read(start, length, message) } {
                        return ReadEnd::Stopped;
                    }
                    self.next = behind;
                    // Release in batches. Releasing each message would take its cache line from the writer of the next one.
                    if self.ring.storage.distance(self.held, behind) > self.ring.size() / HELD_PART {
                        self.move_hold();
                    }
                }
            }
        }
    }

    /// Releases the messages read and prepares to sleep. False if a message is available. At a high message rate, spins for
    /// some microseconds first. Only readers attached with [`ReaderWait::Woken`] are woken.
    pub fn sleep(&mut self) -> bool {
        self.move_hold();
        let mut watch = std::mem::take(&mut self.watch);
        let came = watch.until(|| !self.is_at_end());
        self.watch = watch;
        if came {
            return false;
        }
        let Some(sleeper) = &self.sleeper else { return self.is_at_end() };
        self.ring.wakeup.mark_asleep(sleeper);
        if self.is_at_end() {
            return true;
        }
        self.ring.wakeup.mark_awake(sleeper);
        false
    }

    fn is_at_end(&self) -> bool {
        matches!(self.peek(self.ring.storage.tail(Ordering::Acquire)), Peek::End)
    }

    fn peek(&self, tail: usize) -> Peek {
        let storage = &self.ring.storage;
        if storage.add(self.next, 1) == tail {
            return Peek::End;
        }
        if storage.tag(self.next).load(Ordering::Acquire) == BUSY {
            return Peek::Busy;
        }
        // An invalid length means that another program wrote into the file.
        let Some((length, bytes)) = storage.length_at(self.next) else { return Peek::End };
        let start = storage.add(self.next, 1 + bytes);
        Peek::Message { start, length, behind: storage.add(start, length) }
    }

    /// Releases the messages read. Does nothing while the next message is being written.
    fn move_hold(&mut self) {
        if self.next != self.held && self.ring.try_count(self.next, 1) {
            self.release_hold();
            self.held = self.next;
        }
    }

    /// Decrements the count at `held`. Spins while that tag is busy, which is possible only if it was the final tag.
    fn release_hold(&self) {
        let mut tries = 0;
        while !self.ring.try_count(self.held, -1) {
            spin(&mut tries);
        }
        self.ring.note_room();
    }
}

/// A reader releases messages once they exceed this fraction (1/16) of the ring.
const HELD_PART: usize = 16;

enum Peek {
    End,
    Busy,
    Message { start: usize, length: usize, behind: usize },
}

impl Drop for RingReader {
    fn drop(&mut self) {
        if let Some(sleeper) = &self.sleeper {
            self.ring.wakeup.strike(sleeper);
        }
        self.release_hold();
        self.ring.readers.fetch_sub(1, Ordering::Release);
    }
}

impl std::fmt::Debug for RingReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RingReader(at {} of {:?})", self.next, self.ring)
    }
}
