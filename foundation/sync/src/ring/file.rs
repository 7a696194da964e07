//! Reads ring files in any state: of a live process, of one that was killed, and of HAProxy.
//!
//! ```text
//!   aligned      size, 192, then tail at 64, head at 128, the area at 192      weir's own files, with counters between
//!   unaligned    size, 32, tail, head, the area at 32
//!   buffer       size, an address, count of bytes in use, head, ...; the area at the end of the file
//! ```
//! Each number has the machine's size and order. The second number identifies the layout (R109, R110): in the newer two
//! it is the size of the header, in the oldest it is an address, which ends like the size of the header because the
//! file was mapped at a page. The oldest has the count of bytes in use where the others have the tail; while the head
//! is 0 both are equal. A file that is shorter or longer than its header claims is read as far as possible.
//!
//! Begin with [`FileHeader::read`]; [`Area`] brings bytes from the file, [`AreaPart`] finds the messages in them.

mod part;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::storage::{
    BYTES_RECYCLED, BYTES_RESERVED, HEADER, LOCKED, MADE_NS, MESSAGES_RECYCLED, MESSAGES_RESERVED, VERSION,
    VERSION_AT,
};

pub use part::{AreaPart, RingElement, WalkEnd};

/// A file, or bytes in memory, to read from.
pub trait RingSource {
    /// How many there are.
    fn length(&self) -> io::Result<u64>;
    /// Reads at offset `at`; fewer bytes than requested only at the end of the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl RingSource for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], at + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl RingSource for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// Head and tail on cache lines of their own.
    Aligned,
    /// Head and tail behind the sizes.
    Unaligned,
    /// The oldest: a dump of the buffer in memory.
    Buffer,
}

impl FileLayout {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FileLayout::Aligned => "aligned",
            FileLayout::Unaligned => "unaligned",
            FileLayout::Buffer => "buffer",
        }
    }
}

/// Why a file is not that of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFileError {
    /// It is too short for any header.
    TooShort,
    /// The sizes at its beginning are not those of a ring.
    Size,
    /// Head or tail are outside of the area.
    Places,
}

impl std::fmt::Display for RingFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RingFileError::TooShort => "too short to be a ring",
            RingFileError::Size => "not a ring: its header has no size that makes sense",
            RingFileError::Places => {
                "damaged: its header says that messages begin or end outside of the file"
            }
        })
    }
}

impl std::error::Error for RingFileError {}

impl From<RingFileError> for io::Error {
    fn from(fault: RingFileError) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, fault)
    }
}

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// How the file is laid out.
    pub layout: FileLayout,
    pub area: Area,
    /// Where the oldest message's tag is.
    pub head: u64,
    /// Behind the last tag.
    pub tail: u64,
    /// Whether a writer held the tail.
    pub locked: bool,
    /// The counters, which only weir's files have.
    pub counters: Option<RingCounters>,
    /// How many bytes the file has.
    pub length: u64,
}

/// The counters of a ring since its creation. Positions are counts of bytes: modulo the area's size they are places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCounters {
    /// When the ring was made, in nanoseconds since 1970.
    pub made_ns: u64,
    /// The position of the oldest message's tag.
    pub head: u64,
    /// The position behind the last tag.
    pub tail: u64,
    /// How many messages are before the oldest.
    pub recycled: u64,
    /// How many messages were ever reserved.
    pub reserved: u64,
    /// Whether no writer changed them while they were read.
    pub steady: bool,
}

impl FileHeader {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// A [`RingFileError`] when the file is not that of a ring; else the error of reading it.
    pub fn read(source: &impl RingSource) -> io::Result<Self> {
        let mut header = Self::look(source)?;
        if header.head >= header.area.size || header.tail >= header.area.size {
            return Err(RingFileError::Places.into());
        }
        // Two equal readings without a writer in between: the numbers are consistent.
        for _ in 0..LOOKS {
            if !header.locked && header.counters.is_none_or(|counters| counters.steady) {
                break;
            }
            let next = Self::look(source)?;
            let steady = next == header && !next.locked;
            header = next;
            if let Some(counters) = &mut header.counters {
                counters.steady = steady;
            }
        }
        if header.head >= header.area.size || header.tail >= header.area.size {
            return Err(RingFileError::Places.into());
        }
        Ok(header)
    }

    /// Reads a header once; its head and tail may be inconsistent.
    fn look(source: &impl RingSource) -> io::Result<Self> {
        let length = source.length()?;
        let mut bytes = [0; HEADER];
        let count = source.read_at(0, &mut bytes)?;
        let number = |at: usize| {
            let bytes = bytes[at..at + size_of::<usize>()].try_into().expect("it has that size");
            usize::from_ne_bytes(bytes) as u64
        };
        let least = 4 * size_of::<usize>() as u64;
        if (count as u64) < least {
            return Err(RingFileError::TooShort.into());
        }
        let (size, second) = (number(0), number(size_of::<usize>()));
        // An area cannot be smaller than a tag and a message.
        if size <= 2 || size >= LOCKED as u64 {
            return Err(RingFileError::Size.into());
        }
        let (third, fourth) = (number(2 * size_of::<usize>()), number(3 * size_of::<usize>()));
        let mut header = Self {
            layout: FileLayout::Unaligned,
            area: Area { begin: second, size, present: 0 },
            head: fourth,
            tail: third & !(LOCKED as u64),
            locked: third & LOCKED as u64 != 0,
            counters: None,
            length,
        };
        if second >= PAGE {
            let begin = Some(second % PAGE).filter(|begin| *begin >= least);
            let begin = begin.or_else(|| length.checked_sub(size)).ok_or(RingFileError::Size)?;
            // Any bytes may look like this layout, so most of the area has to be there.
            if begin < least || length.saturating_sub(begin) < size / 2 || third > size {
                return Err(RingFileError::Size.into());
            }
            let tail = fourth.checked_add(third).ok_or(RingFileError::Places)?;
            header.layout = FileLayout::Buffer;
            header.area.begin = begin;
            (header.tail, header.locked) = (if tail >= size { tail - size } else { tail }, false);
        } else if second >= HEADER as u64 {
            if count < HEADER {
                return Err(RingFileError::TooShort.into());
            }
            let tail = number(64);
            header.layout = FileLayout::Aligned;
            (header.head, header.tail) = (number(128), tail & !(LOCKED as u64));
            header.locked = tail & LOCKED as u64 != 0;
            header.counters = (number(VERSION_AT) == VERSION as u64).then(|| RingCounters {
                made_ns: number(MADE_NS),
                head: number(BYTES_RECYCLED),
                tail: number(BYTES_RESERVED),
                recycled: number(MESSAGES_RECYCLED),
                reserved: number(MESSAGES_RESERVED),
                steady: false,
            });
        } else if second < least {
            return Err(RingFileError::Size.into());
        }
        header.area.present = length.saturating_sub(header.area.begin).min(size);
        Ok(header)
    }

    /// How many bytes are in use, the last tag included.
    pub fn used(&self) -> u64 {
        self.area.distance(self.head, self.tail)
    }

    /// Whether counters and offsets agree, as they do unless another program wrote into the file.
    pub fn counters_fit(&self) -> bool {
        self.counters.is_some_and(|counters| {
            let RingCounters { head, tail, .. } = counters;
            // A writer between two of its steps is one message ahead on one side.
            let agree = self.area.place(head) == self.head && self.area.place(tail) == self.tail;
            (agree || !counters.steady)
                && tail.checked_sub(head).is_some_and(|used| used <= self.area.size)
                && counters.recycled <= counters.reserved
        })
    }

    /// The difference between the file's length and the length in its header; negative for a shorter file.
    pub fn excess(&self) -> i128 {
        i128::from(self.length) - i128::from(self.area.begin) - i128::from(self.area.size)
    }

    /// Possible headers for a file with a damaged header, the likeliest first; only one if its sizes match the file's.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn guesses(source: &impl RingSource) -> io::Result<Vec<Self>> {
        let length = source.length()?;
        let mut guesses: Vec<Self> = Self::look(source).ok().into_iter().collect();
        if guesses.iter().any(|header| header.excess() == 0) {
            return Ok(guesses);
        }
        let mut second = [0; size_of::<usize>()];
        source.read_at(size_of::<usize>() as u64, &mut second)?;
        // Without the sizes, the second number alone may still give the header's size.
        let said = usize::from_ne_bytes(second) as u64 % PAGE;
        let mut layouts =
            vec![(FileLayout::Aligned, HEADER as u64), (FileLayout::Unaligned, 32), (FileLayout::Buffer, 72)];
        layouts.sort_by_key(|(_, begin)| *begin != said);
        for (layout, begin) in layouts {
            let Some(size) = length.checked_sub(begin).filter(|size| *size > 2) else { continue };
            // An offset outside the area: head and tail are unknown.
            guesses.push(Self {
                layout,
                area: Area { begin, size, present: size },
                head: size,
                tail: size,
                locked: false,
                counters: None,
                length,
            });
        }
        Ok(guesses)
    }
}

/// Where the messages are in a file. Places are offsets that wrap at the end of the area; positions only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its offset in the file.
    pub begin: u64,
    pub size: u64,
    /// How many of its bytes are in the file.
    pub present: u64,
}

impl Area {
    /// The place of a position.
    pub fn place(&self, position: u64) -> u64 {
        position % self.size
    }

    /// How many bytes there are from one place to another.
    pub fn distance(&self, first: u64, last: u64) -> u64 {
        if last >= first { last - first } else { last + self.size - first }
    }

    /// Whether the file ends before this position's byte, and then how many bytes it is to the next one present.
    pub fn cut_at(&self, position: u64) -> Option<u64> {
        let place = self.place(position);
        (place >= self.present).then(|| self.size - place)
    }

    /// Reads `length` bytes, at most the area's size, from a position on. Where the file was cut they are zeroes, and
    /// those ranges are returned.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(
        &self,
        source: &impl RingSource,
        position: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<Vec<Range<usize>>> {
        into.clear();
        into.resize(length, 0);
        let (mut done, mut missing) = (0, Vec::new());
        while done < length {
            let place = self.place(position + done as u64);
            let piece = (self.size - place).min((length - done) as u64) as usize;
            let there = self.present.saturating_sub(place).min(piece as u64) as usize;
            let count = source.read_at(self.begin + place, &mut into[done..done + there])?;
            if count < piece {
                into[done + count..done + piece].fill(0);
                missing.push(done + count..done + piece);
            }
            done += piece;
        }
        Ok(missing)
    }
}

/// An address is never as small as a page, and a header never as large.
const PAGE: u64 = 4096;

/// How often a header is read to get two equal readings: writers hold the tail for some nanoseconds.
const LOOKS: u32 = 64;

#[cfg(all(test, not(loom)))]
mod tests;
