//! A reader: where it is in the ring, and which messages it keeps from being recycled.

use std::sync::Arc;

use super::storage::BUSY;
use super::waiting::SpinPolicy;
use super::wakeup::{Sleeper, WakeReader};
use super::{MOST_READERS, Ring};
use crate::primitives::{Ordering, spin};

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// At the oldest message.
    Oldest,
    /// Behind the newest: it sees messages written from now on.
    End,
}

/// Whether a reader may wait for messages.
pub enum ReaderWait {
    /// It reads the available messages and ends.
    No,
    /// It is woken by this function when a message arrives after [`RingReader::sleep`] returned true.
    Woken(WakeReader),
}

/// The ring already has the most readers allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyReaders;

impl std::fmt::Display for TooManyReaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the ring has {MOST_READERS} readers already")
    }
}

impl std::error::Error for TooManyReaders {}

/// A message, in two pieces when it goes over the end of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingMessage<'r> {
    pub first: &'r [u8],
    /// Its end, often empty.
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

    /// Appends it.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.first);
        out.extend_from_slice(self.second);
    }
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// There is nothing more for now.
    End,
    /// The next message is being written: it will be complete in a moment.
    Busy,
    /// `take` returned false.
    Stopped,
}

/// One reader of a ring. Messages from its position on are kept for it: when it is slow, new ones are dropped and counted.
pub struct RingReader {
    ring: Arc<Ring>,
    /// The tag that counts this reader: nothing from there on is recycled.
    held: usize,
    /// The tag of the next message.
    next: usize,
    sleeper: Option<Arc<Sleeper>>,
    watch: SpinPolicy,
}

impl Ring {
    /// A new reader (R115: where it begins and whether it waits are decided here and nowhere else).
    ///
    /// # Errors
    /// When there are [`MOST_READERS`] already (R113).
    pub fn attach(self: &Arc<Self>, seek: Seek, wait: ReaderWait) -> Result<RingReader, TooManyReaders> {
        // The head does not move while the tail is held, and its message stays.
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

    /// Adds a reader to a tag, once the message behind it is written.
    fn count_in(&self, place: usize) {
        let mut tries = 0;
        while !self.try_count(place, 1) {
            spin(&mut tries);
        }
    }

    /// Adds to or takes from a tag, unless the message behind it is being written.
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

    /// Passes messages to `take`, oldest first, until it returns false (that message will come again) or the ring has
    /// been read to its end.
    pub fn read(&mut self, mut take: impl FnMut(RingMessage<'_>) -> bool) -> ReadEnd {
        // Messages before the tail are either complete or have a busy tag by then. Writers have its line: it is read
        // again only at the end of those messages.
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
                    // Releasing each message by itself would take its cache line from the writer of the next one.
                    if self.ring.storage.distance(self.held, behind) > self.ring.size() / HELD_PART {
                        self.move_hold();
                    }
                }
            }
        }
    }

    /// Says that the reader is about to sleep; false when there is something to read by now. Only readers that were
    /// attached with [`ReaderWait::Woken`] are woken. A reader that sleeps holds nothing that it has read. While messages come
    /// faster than it could be woken, it stays for the next one: at most some microseconds.
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

    /// Releases the messages read. If the next message is being written, a later call does so.
    fn move_hold(&mut self) {
        if self.next != self.held && self.ring.try_count(self.next, 1) {
            self.release_hold();
            self.held = self.next;
        }
    }

    /// The tag at `held` is busy only if nothing follows it and a message is being written there.
    fn release_hold(&self) {
        let mut tries = 0;
        while !self.ring.try_count(self.held, -1) {
            spin(&mut tries);
        }
        self.ring.note_room();
    }
}

/// A reader holds at most this part of the ring after reading it.
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
