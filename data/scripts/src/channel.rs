//! The channels of a stream: the bytes of each direction, as scripts see and change them.
//!
//! ```text
//!   peer ──► incoming bytes ── forward, send ──► outgoing bytes ──► other peer
//! ```
//! A script edits the incoming bytes. The stream sends the outgoing ones as soon as the other peer takes them.

use std::ops::Range;

use crate::message::ScriptSide;
use crate::target::ScriptChannels;

/// A call of a script that may wait for a channel.
#[derive(Debug, PartialEq, Eq)]
pub enum ChannelCall {
    Read(ChannelRead),
    /// Sends bytes in front of the incoming ones.
    Send(Vec<u8>),
    /// Forwards so many bytes.
    Forward(usize),
}

/// A read from the incoming bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelRead {
    pub unit: ReadUnit,
    /// The first byte. Negative offsets count from the end.
    pub offset: i64,
    pub length: ReadLength,
}

/// The unit of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    Bytes,
    /// A line with its end. All bytes if the line does not end.
    Line,
    /// Like `Line`. The bytes are removed.
    TakenLine,
}

/// How many bytes a read covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLength {
    /// All bytes received so far.
    Received,
    /// As many as the buffer takes.
    Most,
    Exactly(usize),
}

impl ChannelRead {
    /// The result of the read, as a range of `input`. `None` if it waits for more bytes, which `is_final` rules out.
    pub fn find(&self, input: &[u8], is_final: bool) -> Option<Range<usize>> {
        if input.is_empty() && !is_final {
            return None;
        }
        let start = position(self.offset, input.len());
        let end = match self.length {
            ReadLength::Received => input.len(),
            ReadLength::Most => usize::MAX,
            ReadLength::Exactly(length) => start.saturating_add(length),
        };
        let found = start.min(input.len())..end.min(input.len());
        if self.unit != ReadUnit::Bytes
            && let Some(line_end) = input[found.clone()].iter().position(|byte| *byte == b'\n')
        {
            return Some(found.start..found.start + line_end + 1);
        }
        (is_final || end <= input.len()).then_some(found)
    }

    /// The result of a read that does not wait any more: the bytes, removed if the read takes them. `None` for nil.
    pub fn finish(&self, channels: &mut dyn ScriptChannels, side: ScriptSide) -> Option<Vec<u8>> {
        let state = channels.channel(side);
        let input = channels.incoming(side)?;
        let found = self.find(input, true)?;
        let takes = self.unit == ReadUnit::TakenLine;
        let bytes = (!input.is_empty() || takes && state.may_receive).then(|| input[found.clone()].to_vec());
        if takes && !found.is_empty() {
            channels.replace_incoming(side, found, b"");
        }
        bytes
    }
}

/// The position of an offset in `length` bytes, at least 0. It may be beyond the end.
pub(crate) fn position(offset: i64, length: usize) -> usize {
    match usize::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => length.saturating_sub(usize::try_from(offset.unsigned_abs()).unwrap_or(usize::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &[u8] = b"first\nsecond\nthird";

    #[track_caller]
    fn check(unit: ReadUnit, offset: i64, length: ReadLength, expected: Option<&str>, at_the_end: &str) {
        let read = ChannelRead { unit, offset, length };
        let text = |range: Range<usize>| std::str::from_utf8(&INPUT[range]).expect("the input is ASCII");
        assert_eq!(read.find(INPUT, false).map(text), expected);
        assert_eq!(read.find(INPUT, true).map(text), Some(at_the_end));
    }

    #[test]
    fn reads_wait_for_bytes_that_are_missing() {
        use ReadLength::{Exactly, Most, Received};
        use ReadUnit::Bytes;
        check(Bytes, 0, Received, Some("first\nsecond\nthird"), "first\nsecond\nthird");
        check(Bytes, 6, Exactly(6), Some("second"), "second");
        check(Bytes, -5, Exactly(2), Some("th"), "th");
        check(Bytes, -5, Exactly(6), None, "third");
        check(Bytes, -50, Exactly(5), Some("first"), "first");
        check(Bytes, 0, Most, None, "first\nsecond\nthird");
        check(Bytes, 18, Received, Some(""), "");
        check(Bytes, 50, Received, Some(""), "");
        check(Bytes, 50, Exactly(1), None, "");
        check(Bytes, i64::MAX, Exactly(usize::MAX), None, "");
        check(Bytes, i64::MIN, Exactly(0), Some(""), "");
    }

    #[test]
    fn lines_end_at_their_end_or_with_the_input() {
        use ReadLength::{Exactly, Most, Received};
        check(ReadUnit::Line, 0, Received, Some("first\n"), "first\n");
        check(ReadUnit::Line, 6, Exactly(3), Some("sec"), "sec");
        check(ReadUnit::Line, 13, Received, Some("third"), "third");
        check(ReadUnit::Line, 13, Exactly(10), None, "third");
        check(ReadUnit::TakenLine, 0, Most, Some("first\n"), "first\n");
        check(ReadUnit::TakenLine, 13, Most, None, "third");
    }

    #[test]
    fn reads_of_an_empty_channel_wait() {
        let read = ChannelRead { unit: ReadUnit::Bytes, offset: 0, length: ReadLength::Received };
        assert_eq!(read.find(b"", false), None);
        assert_eq!(read.find(b"", true), Some(0..0));
    }
}
