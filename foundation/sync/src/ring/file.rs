//! Reads ring files of a live or killed process, and of HAProxy.
//!
//! ```text
//!   aligned      size, 192, then tail at 64, head at 128, the area at 192      weir's own files, with counters between
//!   unaligned    size, 32, tail, head, the area at 32
//!   buffer       size, an address, count of bytes in use, head, ...; the area at the end of the file
//! ```
//! Numbers have the machine's word size and byte order. The second number identifies the layout (R109, R110). In the
//! two newer layouts it is the header size. In the oldest it is an address, which modulo the page size equals the
//! header size. The oldest layout has the count of bytes in use instead of the tail. A file shorter or longer than its
//! header claims is read as far as possible.
//!
//! Begin with [`FileHeader::read`]. [`Area`] reads bytes of the file, [`AreaPart`] finds the messages in them.

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

/// A file or a byte vector to read from.
pub trait RingSource {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Reads at offset `at`. Returns the number of bytes read, fewer than requested only at the end of the file.
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

/// The layout of a ring file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// Head and tail on separate cache lines.
    Aligned,
    /// Head and tail directly after the sizes.
    Unaligned,
    /// The oldest layout: a memory image of the buffer.
    Buffer,
}

impl FileLayout {
    /// Name of the layout.
    pub fn name(self) -> &'static str {
        match self {
            FileLayout::Aligned => "aligned",
            FileLayout::Unaligned => "unaligned",
            FileLayout::Buffer => "buffer",
        }
    }
}

/// The reason why a file is not a valid ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFileError {
    /// Too short for any header.
    TooShort,
    /// The sizes in the header are invalid.
    Size,
    /// Head or tail is outside of the area.
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
    pub layout: FileLayout,
    pub area: Area,
    /// Offset of the oldest message's tag in the area.
    pub head: u64,
    /// Offset after the final tag in the area.
    pub tail: u64,
    /// Whether a writer held the lock of the tail.
    pub locked: bool,
    /// The counters. `None` in files not written by weir.
    pub counters: Option<RingCounters>,
    /// Length of the file in bytes.
    pub length: u64,
}

/// The counters of a ring since its creation. Positions are byte counts that never wrap. Modulo the area's size they are offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCounters {
    /// When the ring was made, in nanoseconds since 1970.
    pub made_ns: u64,
    /// Position of the oldest message's tag.
    pub head: u64,
    /// Position after the final tag.
    pub tail: u64,
    /// Number of messages recycled so far.
    pub recycled: u64,
    /// Number of messages reserved so far.
    pub reserved: u64,
    /// Whether the counters were read without a concurrent change.
    pub steady: bool,
}

impl FileHeader {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// A [`RingFileError`] if the file is not a ring, otherwise the read error.
    pub fn read(source: &impl RingSource) -> io::Result<Self> {
        let mut header = Self::look(source)?;
        if header.head >= header.area.size || header.tail >= header.area.size {
            return Err(RingFileError::Places.into());
        }
        // Two equal reads without a lock on the tail are consistent.
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

    /// Reads a header once. Head and tail may be inconsistent with each other.
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
        // An area contains at least a tag and a message.
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
            // Arbitrary bytes may look like this layout, so at least half of the area must be present.
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

    /// Number of bytes in use, including the final tag.
    pub fn used(&self) -> u64 {
        self.area.distance(self.head, self.tail)
    }

    /// Whether counters and offsets agree. False only if another program wrote into the file.
    pub fn counters_fit(&self) -> bool {
        self.counters.is_some_and(|counters| {
            let RingCounters { head, tail, .. } = counters;
            // During a write, counter and offset may differ by one message.
            let agree = self.area.place(head) == self.head && self.area.place(tail) == self.tail;
            (agree || !counters.steady)
                && tail.checked_sub(head).is_some_and(|used| used <= self.area.size)
                && counters.recycled <= counters.reserved
        })
    }

    /// Length of the file minus the length in its header. Negative for a truncated file.
    pub fn excess(&self) -> i128 {
        i128::from(self.length) - i128::from(self.area.begin) - i128::from(self.area.size)
    }

    /// Possible headers for a file with a damaged header, the likeliest first. Only one if its sizes match the file length.
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
        // If the sizes are damaged, the second number may still contain the header size.
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

/// The range of messages in a file. Places are offsets that wrap at the end of the area. Positions never wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset of the area in the file.
    pub begin: u64,
    pub size: u64,
    /// Number of bytes of the area present in the file.
    pub present: u64,
}

impl Area {
    /// The offset of a position.
    pub fn place(&self, position: u64) -> u64 {
        position % self.size
    }

    /// Number of bytes from one offset to another, with wraparound.
    pub fn distance(&self, first: u64, last: u64) -> u64 {
        if last >= first { last - first } else { last + self.size - first }
    }

    /// If the file is truncated before `position`, the number of bytes to the next byte present. Otherwise `None`.
    pub fn cut_at(&self, position: u64) -> Option<u64> {
        let place = self.place(position);
        (place >= self.present).then(|| self.size - place)
    }

    /// Reads `length` bytes from `position`, at most the area's size. Missing bytes of a truncated file are zeroed, and
    /// their ranges returned.
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

/// Distinguishes an address (at least one page) from a header size (less than one page).
const PAGE: u64 = 4096;

/// Maximum number of reads for two equal ones. Writers lock the tail for nanoseconds.
const LOOKS: u32 = 64;

#[cfg(all(test, not(loom)))]
mod tests;
