//! Files of rings, read as they are: of a live process, of one that was killed, and of the reference program.
//!
//! ```text
//!   aligned      size, 192, then tail at 64, head at 128, the area at 192      what weir writes
//!   unaligned    size, 32, tail, head, the area at 32
//!   buffer       size, an address, count of bytes in use, head, ...; the area at the end of the file
//! ```
//! Each number has the machine's size and order. The second number tells them apart (R109, R110): in the newer two it is
//! the size of the header and, with the size of the area, the size of the file; in the oldest an address stands there.
//! The oldest says how much is in use where the others have the tail, so while the head is 0 it is the same.

use super::storage::{BUSY, LOCKED};
use super::varint;

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Head and tail on cache lines of their own.
    Aligned,
    /// Head and tail behind the sizes.
    Unaligned,
    /// The oldest: a buffer as it was in memory.
    Buffer,
}

impl Layout {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Aligned => "aligned",
            Layout::Unaligned => "unaligned",
            Layout::Buffer => "buffer",
        }
    }
}

/// Why a file is not that of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is too short for any header.
    TooShort,
    /// The size that it says is not one that fits into it.
    Size,
    /// Head or tail are outside of the area.
    Places,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Fault::TooShort => "the file is too short to be a ring",
            Fault::Size => "the file says that it has a size that it has not",
            Fault::Places => "the file says that it begins or ends outside of itself",
        })
    }
}

impl std::error::Error for Fault {}

/// A ring's file, in memory.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// How it is laid out.
    pub layout: Layout,
    /// Where the oldest message's tag is.
    pub head: usize,
    /// Behind the last tag.
    pub tail: usize,
    /// Whether a writer held the tail.
    pub locked: bool,
    area: &'a [u8],
}

/// One message of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where its tag is.
    pub place: usize,
    /// Where the next one's tag is.
    pub behind: usize,
    /// Its bytes; `None` while it was being written.
    pub bytes: Option<Vec<u8>>,
}

impl<'a> Image<'a> {
    /// Looks at the header of a file.
    pub fn open(file: &'a [u8]) -> Result<Self, Fault> {
        let image = Self::look(file)?;
        let places = image.head < image.area.len() && image.tail < image.area.len();
        if places { Ok(image) } else { Err(Fault::Places) }
    }

    /// Looks at the header of a file whose head and tail need not make sense.
    fn look(file: &'a [u8]) -> Result<Self, Fault> {
        let number = |at: usize| {
            let bytes = file.get(at..at + size_of::<usize>())?;
            Some(usize::from_ne_bytes(bytes.try_into().expect("it has that size")))
        };
        let unaligned = 4 * size_of::<usize>();
        let (Some(size), Some(second)) = (number(0), number(size_of::<usize>())) else {
            return Err(Fault::TooShort);
        };
        if file.len() < unaligned {
            return Err(Fault::TooShort);
        }
        // An area that is smaller than a tag and a message is none.
        let header = file.len().checked_sub(size).filter(|_| size > 2).ok_or(Fault::Size)?;
        let area = &file[header..];
        let places = |tail: usize, head: usize| (number(tail).unwrap_or(0), number(head).unwrap_or(0));
        let (layout, (tail, head)) = if second < PAGE && second == header && second >= unaligned {
            match second {
                super::HEADER.. => (Layout::Aligned, places(64, 128)),
                _ => (Layout::Unaligned, places(2 * size_of::<usize>(), 3 * size_of::<usize>())),
            }
        } else if header >= unaligned {
            let (used, head) = places(2 * size_of::<usize>(), 3 * size_of::<usize>());
            let tail = head.checked_add(used).ok_or(Fault::Places)?;
            let tail = if tail >= size && used < size { tail - size } else { tail };
            (Layout::Buffer, (tail, head))
        } else {
            return Err(Fault::Size);
        };
        Ok(Self { layout, head, tail: tail & !LOCKED, locked: tail & LOCKED != 0, area })
    }

    /// The size of the area.
    pub fn size(&self) -> usize {
        self.area.len()
    }

    /// Messages from the one whose tag is at `place` to the end, or to the first that makes no sense.
    pub fn messages_from(&self, place: usize) -> Messages<'a> {
        Messages { image: *self, next: place, damaged: false, left: self.distance(place, self.tail) }
    }

    /// All messages.
    pub fn messages(&self) -> Messages<'a> {
        self.messages_from(self.head)
    }

    /// Where the messages begin and end when the header does not say so any more: those that lead to the end that it
    /// says, or else the longest row of messages anywhere.
    pub fn repair(file: &'a [u8]) -> Result<Self, Fault> {
        let image = Self::look(file)?;
        let last = image.tail.checked_sub(1).unwrap_or(image.size() - 1);
        let longest = |end: Option<usize>| {
            let rows = image.rows(end).into_iter().enumerate();
            let rows = rows.filter(|(_, row)| row.bytes > 0 && end.is_none_or(|end| row.last == end));
            rows.max_by_key(|(_, row)| (row.bytes, std::cmp::Reverse(row.count)))
        };
        let (head, row) = longest(Some(last)).or_else(|| longest(None)).ok_or(Fault::Places)?;
        Ok(Self { head, tail: image.add(row.last, 1), ..image })
    }

    /// For each place, what messages follow one another from there on, if it is a tag. At `end` they do.
    fn rows(&self, end: Option<usize>) -> Vec<Row> {
        let mut rows: Vec<Option<Row>> = vec![None; self.size()];
        let mut path = Vec::new();
        for start in 0..self.size() {
            let mut place = start;
            path.clear();
            // Follows messages to a place that is known; a circle ends where it began.
            while rows[place].is_none() {
                rows[place] = Some(Row { bytes: 0, count: 0, last: place });
                let Some((length, behind)) = self.plausible(place).filter(|_| end != Some(place)) else {
                    break;
                };
                path.push((place, length));
                place = behind;
            }
            let mut row = rows[place].unwrap_or_default();
            for &(before, length) in path.iter().rev() {
                // Zeroes that nobody ever wrote look like empty messages; at the end, they are none.
                row = if length == 0 && row.bytes == 0 && end.is_none() {
                    Row { bytes: 0, count: 0, last: before }
                } else {
                    Row { bytes: row.bytes + length, count: row.count + 1, last: row.last }
                };
                rows[before] = Some(row);
            }
        }
        rows.into_iter().map(Option::unwrap_or_default).collect()
    }

    /// The length of the message and where the next tag is, if this and that may be tags.
    fn plausible(&self, place: usize) -> Option<(usize, usize)> {
        let is_tag = |place: usize| matches!(self.area[place], 0 | BUSY);
        let (range, behind) = self.message(place).filter(|_| is_tag(place))?;
        is_tag(behind).then_some((range.len(), behind))
    }

    /// Where the message's bytes are, and the next tag.
    fn message(&self, place: usize) -> Option<(std::ops::Range<usize>, usize)> {
        let byte = |index: usize| self.area.get(self.add(place, 1 + index)).copied();
        let (length, bytes) = varint::decode(byte)?;
        if self.size().checked_sub(1 + bytes).is_none_or(|room| length >= room) {
            return None;
        }
        let start = self.add(place, 1 + bytes);
        Some((start..start + length, self.add(start, length)))
    }

    fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        let first = range.end.min(self.size());
        let mut bytes = self.area[range.start..first].to_vec();
        bytes.extend_from_slice(&self.area[..range.end - first]);
        bytes
    }

    fn add(&self, place: usize, count: usize) -> usize {
        (place + count) % self.size()
    }

    fn distance(&self, first: usize, last: usize) -> usize {
        if last >= first { last - first } else { last + self.size() - first }
    }
}

/// Messages that follow one another.
#[derive(Clone, Copy, Default)]
struct Row {
    /// How long they are together.
    bytes: usize,
    /// How many they are.
    count: usize,
    /// Where the last tag is.
    last: usize,
}

/// The messages of a file.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    image: Image<'a>,
    next: usize,
    left: usize,
    damaged: bool,
}

impl Messages<'_> {
    /// Whether reading ended at something that is no message.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The tag where the next message is or will be.
    pub fn place(&self) -> usize {
        self.next
    }
}

impl Iterator for Messages<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        // The last tag is left.
        if self.left <= 1 || self.damaged {
            return None;
        }
        let place = self.next;
        let Some((range, behind)) = self.image.message(place) else {
            self.damaged = true;
            return None;
        };
        let taken = self.image.distance(place, behind);
        if taken >= self.left {
            self.damaged = true;
            return None;
        }
        self.left -= taken;
        self.next = behind;
        let complete = self.image.area[place] != BUSY;
        Some(Entry { place, behind, bytes: complete.then(|| self.image.bytes(range)) })
    }
}

/// No header is as large as a page.
const PAGE: usize = 4096;

#[cfg(all(test, not(loom)))]
mod tests;
