//! Finds messages in a part of a ring's area: by their lengths if these lead to the end, otherwise by a heuristic search.

use std::ops::Range;

use super::super::storage::BUSY;
use super::super::varint;

/// Bytes of an area.
#[derive(Clone, Copy, Debug)]
pub struct AreaPart<'a> {
    pub bytes: &'a [u8],
    /// Ranges of `bytes` missing from the file.
    pub missing: &'a [Range<usize>],
    /// Whether the first byte is known to be a tag.
    pub begins: bool,
    /// Whether the last byte is the final tag of the ring. Otherwise messages continue after the part.
    pub ends: bool,
}

/// An element of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingElement {
    /// A message, with the range of its bytes.
    Message(Range<usize>),
    /// A message that was being written, with the offset of its tag.
    Busy(usize),
    /// Bytes that are not a message.
    Damage(Range<usize>),
}

/// The result of a walk or a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkEnd {
    /// The messages and gaps found, in order.
    pub found: Vec<RingElement>,
    /// Offset of the next tag.
    pub next: usize,
}

impl AreaPart<'_> {
    /// Finds messages by their lengths. `None` if the lengths do not lead to the end.
    pub fn walk(&self) -> Option<WalkEnd> {
        if !self.begins {
            return None;
        }
        let mut walked = WalkEnd::default();
        let mut at = 0;
        while at + 1 < self.bytes.len() {
            let frame = self.frame(at)?;
            if frame.behind >= self.bytes.len() {
                if self.ends {
                    return None;
                }
                break;
            }
            walked.found.push(frame.found(at));
            at = frame.behind;
        }
        walked.next = at;
        Some(walked)
    }

    /// Finds messages of a damaged part, and the gaps between them. A message must have a tag before and after it. The
    /// first message after damage must be text, without a zero or a [`BUSY`] byte.
    pub fn search(&self) -> WalkEnd {
        let mut walked = WalkEnd::default();
        let last = self.bytes.len().saturating_sub(1);
        let (mut at, mut empty) = (0, 0..0);
        if !self.begins && last > 0 {
            at = self.candidate(0);
            walked.damage(0..at);
        }
        while at < last && walked.found.len() < MOST_FOUND {
            match self.frame(at).filter(|frame| self.is_plausible(at, frame)) {
                Some(frame) if frame.behind <= last => {
                    if frame.bytes.is_empty() && frame.tag != BUSY {
                        // Unwritten zeroes look like empty messages. Decide after the next bytes.
                        empty = if empty.is_empty() { at } else { empty.start }..frame.behind;
                        if empty.len() > MOST_EMPTY {
                            walked.damage(std::mem::take(&mut empty));
                        }
                    } else {
                        walked.empty(std::mem::take(&mut empty));
                        walked.found.push(frame.found(at));
                    }
                    at = frame.behind;
                }
                // The message continues after the part.
                Some(_) if !self.ends && at > 0 => break,
                _ => {
                    let next = self.candidate(at + 1);
                    walked.damage(if empty.is_empty() { at } else { empty.start }..next);
                    (at, empty) = (next, 0..0);
                }
            }
        }
        walked.empty(empty);
        walked.next = at;
        walked
    }

    /// Whether all messages are text, without a zero or a [`BUSY`] byte.
    pub fn is_text(&self, walked: &WalkEnd) -> bool {
        walked.found.iter().all(|found| match found {
            RingElement::Message(range) => self.is_text_at(range),
            RingElement::Busy(_) | RingElement::Damage(_) => true,
        })
    }

    /// Offset of the next plausible message, or of the last byte.
    fn candidate(&self, from: usize) -> usize {
        let last = self.bytes.len() - 1;
        let starts = (from..last).filter(|at| matches!(self.bytes[*at], 0 | BUSY));
        let mut texts = starts.filter(|at| {
            self.frame(*at).is_some_and(|frame| {
                !frame.bytes.is_empty()
                    && frame.behind <= last
                    && self.is_tag(frame.behind)
                    && self.is_text_at(&frame.bytes)
            })
        });
        texts.next().unwrap_or(last)
    }

    fn is_plausible(&self, at: usize, frame: &Frame) -> bool {
        let tags = self.is_tag(at) && (frame.behind >= self.bytes.len() || self.is_tag(frame.behind));
        tags && (frame.behind >= self.bytes.len() || self.is_text_at(&frame.bytes) || !self.swallows(frame))
    }

    /// Whether the byte is a plausible tag: a small reader count or [`BUSY`].
    fn is_tag(&self, at: usize) -> bool {
        self.bytes[at] <= FEW_READERS || self.bytes[at] == BUSY
    }

    fn is_text_at(&self, range: &Range<usize>) -> bool {
        !self.bytes[range.clone()].iter().any(|byte| matches!(*byte, 0 | BUSY))
    }

    /// Whether the bytes of a message contain two messages, or one that extends beyond its end. Its length is wrong then.
    fn swallows(&self, outer: &Frame) -> bool {
        let mut from = outer.bytes.start;
        (0..CANDIDATES).any(|_| {
            let mut at = self.candidate(from);
            from = at + 1;
            for _ in 0..2 {
                if at >= outer.behind {
                    return false;
                }
                let behind = |frame: Frame| Some(frame.behind).filter(|behind| *behind < self.bytes.len());
                let next = self.frame(at).and_then(behind).filter(|behind| self.is_tag(*behind));
                let Some(next) = next else { return false };
                at = next;
                if at >= outer.behind {
                    return true;
                }
            }
            true
        })
    }

    /// The message with its tag at `at`. It may continue after the part. `None` if its length or a part of it is missing.
    fn frame(&self, at: usize) -> Option<Frame> {
        let (length, bytes) = match varint::decode(|index| self.bytes.get(at + 1 + index).copied()) {
            Some(found) => found,
            // The length itself continues after the part.
            None if !self.ends && at + 1 + varint::LONGEST >= self.bytes.len() => (self.bytes.len(), 1),
            None => return None,
        };
        let start = at + 1 + bytes;
        let behind = start.checked_add(length)?;
        let there = |range: &Range<usize>| range.end <= at || range.start > behind;
        self.missing.iter().all(there).then_some(Frame { tag: self.bytes[at], bytes: start..behind, behind })
    }
}

impl WalkEnd {
    /// Adds the empty messages of a range. Each is a tag and a length byte.
    fn empty(&mut self, range: Range<usize>) {
        self.found.extend(range.step_by(2).map(|tag| RingElement::Message(tag + 2..tag + 2)));
    }

    fn damage(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        match self.found.last_mut() {
            Some(RingElement::Damage(before)) if before.end == range.start => before.end = range.end,
            _ => self.found.push(RingElement::Damage(range)),
        }
    }
}

/// A message.
struct Frame {
    tag: u8,
    bytes: Range<usize>,
    behind: usize,
}

impl Frame {
    fn found(&self, at: usize) -> RingElement {
        if self.tag == BUSY { RingElement::Busy(at) } else { RingElement::Message(self.bytes.clone()) }
    }
}

/// Maximum reader count of a plausible tag in a damaged ring. A larger byte is more likely text.
const FEW_READERS: u8 = 8;

/// Maximum bytes of consecutive empty messages. More of them are an unwritten area.
const MOST_EMPTY: usize = 128;

/// Maximum number of results per search.
const MOST_FOUND: usize = 1 << 16;

/// Maximum number of messages tried inside another.
const CANDIDATES: usize = 8;
