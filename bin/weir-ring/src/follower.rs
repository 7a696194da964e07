//! Reads the messages added to a ring file since the last read.
//!
//! A follower keeps its own position: the offset in bytes since the creation of the ring. After each read it checks that the
//! oldest message has not overtaken this position. So it detects a writer that wrapped around, however often.
//! HAProxy's files lack counters. For these it checks that the last message is unchanged, in position and bytes.
//! A writer that left identical bytes goes unnoticed.

use std::io;

use weir_sync::ring::HEADER;
use weir_sync::ring::file::{Area, AreaPart, FileHeader, RingCounters, RingElement, RingSource, WalkEnd};

/// The read position in a ring file.
#[derive(Debug, Default)]
pub(crate) struct FileFollower {
    place: Option<RingPosition>,
    stuck: UnfinishedMessage,
}

/// A message or a fault found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileReport<'a> {
    Message(&'a [u8]),
    /// Messages were overwritten before they were read. The count is approximate if a writer was active. It is unknown for files
    /// without counters, where a loss may also go unnoticed.
    Lost {
        count: Option<u64>,
        about: bool,
    },
    /// A message that its writer never finished, or has not finished yet.
    Unfinished,
    /// `bytes` bytes at offset `place` of the area are not messages.
    Damaged {
        place: u64,
        bytes: u64,
    },
    /// The number of messages found differs from the counters.
    Miscounted {
        counted: u64,
        found: u64,
    },
    /// The file now contains another ring. Unread messages of the former ring are lost.
    Replaced,
}

/// A callback for reports.
pub(crate) type Reporter<'t> = &'t mut dyn FnMut(FileReport<'_>) -> io::Result<()>;

/// How often the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookMode {
    /// Once: all messages of the file.
    Once,
    /// Repeatedly. The next read retries an unfinished message.
    Again,
}

impl FileFollower {
    /// Reports the new messages.
    ///
    /// # Errors
    /// If the file cannot be read or is not a ring, or `report` fails.
    pub(crate) fn look(
        &mut self,
        source: &impl RingSource,
        look: LookMode,
        report: Reporter<'_>,
    ) -> io::Result<()> {
        let header = FileHeader::read(source)?;
        let place = match self.place.take() {
            Some(place) if place.is_of(&header) => place,
            Some(_) => {
                report(FileReport::Replaced)?;
                RingPosition::oldest(&header)
            }
            None => RingPosition::oldest(&header),
        };
        let mut reading =
            FileReading { source, look, header, place, stuck: &mut self.stuck, bytes: Vec::new() };
        let read = reading.read(report);
        self.place = Some(reading.place);
        read
    }
}

/// One pass over the file.
struct FileReading<'l, S> {
    source: &'l S,
    look: LookMode,
    header: FileHeader,
    place: RingPosition,
    stuck: &'l mut UnfinishedMessage,
    bytes: Vec<u8>,
}

impl<S: RingSource> FileReading<'_, S> {
    /// Reads all messages that existed at the start of this pass.
    fn read(&mut self, report: Reporter<'_>) -> io::Result<()> {
        self.place.catch_up(&self.header, self.source, report)?;
        let end = self.place.end(&self.header);
        while self.place.position + 1 < end {
            if !self.read_part(end, report)? {
                return Ok(());
            }
        }
        match counters(&self.header).filter(|counters| counters.steady) {
            Some(counters) if counters.tail == self.place.position + 1 => {
                self.place.compare(counters, report)
            }
            _ => Ok(()),
        }
    }

    /// Reads one part of the area. Returns whether to continue.
    fn read_part(&mut self, end: u64, report: Reporter<'_>) -> io::Result<bool> {
        if let Some(bytes) = self.place.area.cut_at(self.place.position) {
            let bytes = bytes.min(end - 1 - self.place.position);
            self.place.damage(self.place.position, bytes, report)?;
            self.place.sure = false;
            return Ok(true);
        }
        let mut size = PART;
        let walked = loop {
            let former = self.place.position;
            let rest = end.saturating_sub(former);
            let length = rest.min(size) as usize;
            let mut missing = self.place.area.read(self.source, former, length, &mut self.bytes)?;
            // Discards bytes that were overwritten during the read.
            self.header = FileHeader::read(self.source)?;
            if !self.place.is_of(&self.header) {
                return Ok(false);
            }
            self.place.catch_up(&self.header, self.source, report)?;
            let lost = usize::try_from(self.place.position - former).unwrap_or(usize::MAX);
            if lost >= length.max(1) || (lost > 0 && !missing.is_empty()) {
                return Ok(true);
            }
            self.bytes.drain(..lost);
            missing.iter_mut().for_each(|range| *range = range.start - lost..range.end - lost);
            let ends = length as u64 == rest;
            let part = AreaPart { bytes: &self.bytes, missing: &missing, begins: self.place.sure, ends };
            match part.walk() {
                // A corrupt length can lead to bytes that resemble a tag.
                Some(walked) if walked.next > 0 && self.is_doubtful(&walked, part, end) => {
                    break part.search();
                }
                Some(walked) if walked.next > 0 => break walked,
                // The message is longer than the part.
                _ if !part.ends && size < LARGEST_PART => size = LARGEST_PART,
                // HAProxy moves the tail before it writes a message's length.
                _ if self.look == LookMode::Again && self.stuck.waits(self.place.position) => {
                    return Ok(false);
                }
                _ => break part.search(),
            }
        };
        self.place.sure = true;
        self.take(&walked.found, walked.next, report)
    }

    /// Whether the number of messages differs from the counters. Without counters: whether a message text contains tags.
    fn is_doubtful(&self, walked: &WalkEnd, part: AreaPart<'_>, end: u64) -> bool {
        let Some(counters) = counters(&self.header) else { return !part.is_text(walked) };
        let number =
            self.place.number.filter(|_| !self.place.about && counters.steady && counters.tail == end);
        part.ends && number.is_some_and(|number| number + walked.found.len() as u64 != counters.reserved)
    }

    /// Reports the messages and faults found in the bytes. Returns whether all were reported.
    fn take(&mut self, found: &[RingElement], next: usize, report: Reporter<'_>) -> io::Result<bool> {
        let start = self.place.position;
        let mut last = 0..0;
        for found in found {
            match found {
                RingElement::Message(range) => {
                    report(FileReport::Message(&self.bytes[range.clone()]))?;
                    self.place.pass(start + range.end as u64, 1);
                    last = range.clone();
                }
                RingElement::Busy(tag) => {
                    self.place.pass(start + *tag as u64, 0);
                    if self.look == LookMode::Again && self.stuck.waits(self.place.position) {
                        self.place.remember(&self.bytes[last]);
                        return Ok(false);
                    }
                    report(FileReport::Unfinished)?;
                    self.place.pass(self.place.position, 1);
                    last = 0..0;
                }
                RingElement::Damage(range) => {
                    self.place.damage(start + range.start as u64, range.len() as u64, report)?;
                    last = 0..0;
                }
            }
        }
        self.place.pass(start + next as u64, 0);
        self.place.remember(&self.bytes[last]);
        Ok(true)
    }
}

/// A position between two messages of a ring.
#[derive(Clone, Debug)]
struct RingPosition {
    /// Offset of the next message's tag, in bytes since the creation of the ring.
    position: u64,
    /// Whether `position` is certainly at a tag. It is uncertain after bytes missing from the file.
    sure: bool,
    /// Number of messages before `position`, if known.
    number: Option<u64>,
    /// Whether `number` is approximate.
    about: bool,
    /// Creation time of the ring, which identifies it.
    made_ns: u64,
    area: Area,
    /// The last bytes of the previous message, for files without counters.
    before: Vec<u8>,
}

impl RingPosition {
    /// The position of the oldest message.
    fn oldest(header: &FileHeader) -> Self {
        let counters = counters(header);
        RingPosition {
            position: counters.map_or(header.area.size + header.head, |counters| counters.head),
            sure: true,
            number: counters.map(|counters| counters.recycled),
            about: counters.is_some_and(|counters| !counters.steady),
            made_ns: made_ns(header),
            area: header.area,
            before: Vec::new(),
        }
    }

    /// Whether this position belongs to the ring with this header.
    fn is_of(&self, header: &FileHeader) -> bool {
        self.made_ns == made_ns(header)
            && (self.area.begin, self.area.size) == (header.area.begin, header.area.size)
            && counters(header).is_none_or(|counters| self.position < counters.tail)
    }

    /// The position after the last tag.
    fn end(&self, header: &FileHeader) -> u64 {
        let distance = || self.area.distance(self.area.place(self.position), header.tail);
        counters(header).map_or_else(|| self.position + distance(), |counters| counters.tail)
    }

    /// Moves to the oldest message if that has overtaken this position.
    fn catch_up(
        &mut self,
        header: &FileHeader,
        source: &impl RingSource,
        report: Reporter<'_>,
    ) -> io::Result<()> {
        self.area.present = header.area.present;
        if let Some(counters) = counters(header) {
            if self.position < counters.head {
                let count = self.number.map(|number| counters.recycled.saturating_sub(number));
                let about = self.about || !counters.steady;
                report(FileReport::Lost { count, about })?;
                *self = RingPosition::oldest(header);
            }
            return Ok(());
        }
        let place = self.area.place(self.position);
        let kept = self.area.distance(header.head, place);
        let between = kept + self.area.distance(place, header.tail) == header.used();
        // If all messages read so far were overwritten, unread ones may be lost too.
        let about = between && kept == 0 && !self.before.is_empty();
        if between && !about && self.is_as_before(kept, source)? {
            return Ok(());
        }
        report(FileReport::Lost { count: None, about })?;
        let ahead = self.area.distance(place, header.head);
        self.position += if ahead == 0 { self.area.size } else { ahead };
        self.sure = true;
        self.before.clear();
        Ok(())
    }

    /// Whether the previous message is unchanged since it was read. Compares only its bytes within the last `kept` bytes.
    fn is_as_before(&self, kept: u64, source: &impl RingSource) -> io::Result<bool> {
        let length = self.before.len().min(usize::try_from(kept).unwrap_or(usize::MAX));
        let mut now = Vec::new();
        self.area.read(source, self.position - length as u64, length, &mut now)?;
        Ok(self.before.ends_with(&now))
    }

    /// Advances to `position`, past this number of messages.
    fn pass(&mut self, position: u64, messages: u64) {
        self.position = position;
        self.number = self.number.map(|number| number + messages);
    }

    /// Reports bytes that are not messages, and skips them.
    fn damage(&mut self, position: u64, bytes: u64, report: Reporter<'_>) -> io::Result<()> {
        report(FileReport::Damaged { place: self.area.place(position), bytes })?;
        self.position = position + bytes;
        self.number = None;
        self.before.clear();
        Ok(())
    }

    fn remember(&mut self, message: &[u8]) {
        let end = &message[message.len().saturating_sub(LONGEST_BEFORE)..];
        self.before.clear();
        self.before.extend_from_slice(end);
    }

    /// Compares the number of messages with the counters, after the last message.
    fn compare(&mut self, counters: RingCounters, report: Reporter<'_>) -> io::Result<()> {
        let counted = counters.reserved;
        match self.number.replace(counted) {
            Some(number) if number != counted && !self.about => {
                let found = number.saturating_sub(counters.recycled);
                report(FileReport::Miscounted { counted: counted - counters.recycled, found })?;
            }
            _ => {}
        }
        self.about = false;
        Ok(())
    }
}

/// The unfinished message at which reading stopped.
#[derive(Debug, Default)]
struct UnfinishedMessage {
    position: u64,
    looks: u32,
}

impl UnfinishedMessage {
    /// Whether to keep waiting for the message at `position`.
    fn waits(&mut self, position: u64) -> bool {
        if self.position != position {
            *self = UnfinishedMessage { position, looks: 0 };
        }
        self.looks += 1;
        self.looks < MOST_LOOKS
    }
}

/// Reports all messages of a file with a damaged header, wherever they are. The oldest comes first if the order is known.
///
/// # Errors
/// If the file cannot be read or does not contain a message, or `report` fails.
pub(crate) fn repair(source: &impl RingSource, report: Reporter<'_>) -> io::Result<()> {
    let mut best: Option<(u64, FileHeader, u64)> = None;
    for guess in FileHeader::guesses(source)? {
        let known = [guess.tail, guess.head].into_iter().find(|place| *place < guess.area.size);
        // The start must not be in the middle of a message that wraps around to the beginning of the area.
        let first = known.map_or_else(|| Gaps::of(&guess, source, 0).map(|gaps| gaps.first), Ok)?;
        let gaps = Gaps::of(&guess, source, first)?;
        // A layout with a shorter header may read the rest of a longer header as messages. So a later guess wins only if it
        // finds over `HEADER` bytes more.
        if gaps.read > best.map_or(0, |(most, ..)| most + HEADER as u64) {
            // Without tail and head, assume that the oldest message follows the widest gap.
            best = Some((gaps.read, guess, known.unwrap_or(gaps.behind_widest)));
        }
    }
    let nothing = || io::Error::new(io::ErrorKind::InvalidData, "no messages were found");
    let (_, header, start) = best.ok_or_else(nothing)?;
    search(&header, source, start, report)
}

/// The gaps between the messages found by a search.
struct Gaps {
    /// Total bytes of the messages.
    read: u64,
    /// Offset of the first message.
    first: u64,
    /// Offset of the first message after the widest gap.
    behind_widest: u64,
}

impl Gaps {
    fn of(header: &FileHeader, source: &impl RingSource, start: u64) -> io::Result<Self> {
        let mut gaps = Gaps { read: 0, first: start, behind_widest: start };
        let mut widest = 0;
        search(header, source, start, &mut |report| {
            match report {
                FileReport::Message(message) => gaps.read += message.len() as u64,
                FileReport::Damaged { place, bytes } => {
                    let behind = header.area.place(place + bytes);
                    if place == start && gaps.read == 0 {
                        gaps.first = behind;
                    }
                    if bytes > widest {
                        (widest, gaps.behind_widest) = (bytes, behind);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(gaps)
    }
}

/// Reports all bytes in the whole area that have the form of a message, beginning at `start`.
fn search(header: &FileHeader, source: &impl RingSource, start: u64, report: Reporter<'_>) -> io::Result<()> {
    let (mut at, mut sure, mut bytes) = (0, false, Vec::new());
    let area = header.area;
    // Once around the area to the last tag. If that is unknown, to the tag of the first message.
    let size = if header.tail == start { area.size } else { area.size + 1 };
    while at + 1 < size {
        if let Some(cut) = area.cut_at(start + at) {
            let cut = cut.min(size - at);
            report(FileReport::Damaged { place: area.place(start + at), bytes: cut })?;
            at += cut;
            sure = false;
            continue;
        }
        let rest = size - at;
        let length = rest.min(LARGEST_PART);
        let missing = area.read(source, start + at, length as usize, &mut bytes)?;
        let part = AreaPart { bytes: &bytes, missing: &missing, begins: sure, ends: length == rest };
        let walked = part.search();
        sure = true;
        for found in &walked.found {
            match found {
                RingElement::Message(range) => report(FileReport::Message(&bytes[range.clone()]))?,
                RingElement::Busy(_) => report(FileReport::Unfinished)?,
                RingElement::Damage(range) => {
                    let place = area.place(start + at + range.start as u64);
                    report(FileReport::Damaged { place, bytes: range.len() as u64 })?;
                }
            }
        }
        at += walked.next as u64;
    }
    Ok(())
}

/// The counters, if they are plausible.
fn counters(header: &FileHeader) -> Option<RingCounters> {
    header.counters.filter(|_| header.counters_fit())
}

fn made_ns(header: &FileHeader) -> u64 {
    header.counters.map_or(0, |counters| counters.made_ns)
}

/// Bytes per read.
const PART: u64 = 1 << 20;
/// Maximum bytes to read for one long message, or for a search.
const LARGEST_PART: u64 = 64 << 20;
/// Maximum number of retries for an unfinished message, about a second in total. Then its writer is assumed dead.
const MOST_LOOKS: u32 = 20;
/// Number of bytes of the previous message to compare.
const LONGEST_BEFORE: usize = 256;

#[cfg(test)]
mod tests;
