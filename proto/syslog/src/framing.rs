//! The end of a message in a stream (RFC 6587): octet counting and non-transparent framing, distinguished for each
//! message by its first byte.
//!
//! ```text
//!  digit 1 to 9   octet counting: "<count> " and that many bytes
//!  <              up to a newline, which a carriage return may precede
//!  CR, LF         nothing: senders end counted messages with a newline too
//!  anything else  refused, unless every message is taken for a line
//! ```

use std::ops::Range;

use memchr::memchr;

/// Cuts a stream into messages. It stores the offset searched so far, so that a line that arrives byte by byte is searched once.
#[derive(Debug)]
pub struct Framer {
    /// The longest message in bytes.
    longest: usize,
    /// Whether every message is one line, even if it begins with a count (`option assume-rfc6587-ntf`).
    lines_only: bool,
    /// Number of bytes at the front already searched for a newline.
    looked_at: usize,
}

/// The result of a search for the next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameScan {
    /// A whole message: where it is, and how many bytes it and its frame take.
    Message {
        body: Range<usize>,
        /// Bytes to drop once it is handled.
        used: usize,
    },
    /// Line ends between messages: this many bytes to drop.
    Nothing(usize),
    /// Not yet a whole message.
    Incomplete,
    /// No message can be found here any more.
    Refused(FramingFault),
}

/// Why a stream cannot be cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingFault {
    /// A message begins with neither `<` nor a count.
    Beginning,
    /// A count is not followed by a space.
    Count,
    /// A message is longer than the longest.
    TooLong,
}

impl Framer {
    /// For messages of at most `longest` bytes.
    pub fn new(longest: usize, lines_only: bool) -> Self {
        Framer { longest, lines_only, looked_at: 0 }
    }

    /// The most bytes that the caller may have to hold until a message is complete: a message, its count and a line
    /// end.
    pub fn most_held(longest: usize) -> usize {
        longest.saturating_add(MOST_DIGITS + 1)
    }

    /// Classifies the beginning of `bytes`. After [`FrameScan::Incomplete`] call it with the same bytes and more, otherwise without
    /// the used ones.
    pub fn next(&mut self, bytes: &[u8]) -> FrameScan {
        let framed = match bytes.first() {
            None => FrameScan::Incomplete,
            Some(b'\r' | b'\n') => {
                FrameScan::Nothing(bytes.iter().take_while(|byte| is_line_end(**byte)).count())
            }
            Some(_) if self.lines_only => self.line(bytes),
            Some(b'<') => self.line(bytes),
            Some(b'1'..=b'9') => self.counted(bytes),
            Some(_) => FrameScan::Refused(FramingFault::Beginning),
        };
        if framed != FrameScan::Incomplete {
            self.looked_at = 0;
        }
        framed
    }

    fn line(&mut self, bytes: &[u8]) -> FrameScan {
        let from = self.looked_at.min(bytes.len());
        let Some(found) = memchr(b'\n', &bytes[from..]) else {
            self.looked_at = bytes.len();
            // A carriage return may still turn out to be a part of the line's end.
            let long = bytes.len() > self.longest.saturating_add(1);
            return if long { FrameScan::Refused(FramingFault::TooLong) } else { FrameScan::Incomplete };
        };
        let newline = from + found;
        let body = bytes[..newline].strip_suffix(b"\r").map_or(newline, <[u8]>::len);
        match body <= self.longest {
            true => FrameScan::Message { body: 0..body, used: newline + 1 },
            false => FrameScan::Refused(FramingFault::TooLong),
        }
    }

    fn counted(&self, bytes: &[u8]) -> FrameScan {
        let digits = bytes.iter().take(MOST_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        if digits > MOST_DIGITS {
            return FrameScan::Refused(FramingFault::TooLong);
        }
        let count = bytes[..digits].iter().fold(0, |count, digit| count * 10 + usize::from(digit - b'0'));
        if count > self.longest {
            return FrameScan::Refused(FramingFault::TooLong);
        }
        let end = digits + 1 + count;
        match bytes.get(digits) {
            None => FrameScan::Incomplete,
            Some(b' ') if bytes.len() < end => FrameScan::Incomplete,
            Some(b' ') => FrameScan::Message { body: digits + 1..end, used: end },
            Some(_) => FrameScan::Refused(FramingFault::Count),
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// The most digits of a count: larger counts exceed any accepted length.
const MOST_DIGITS: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All messages of a stream that comes in pieces of `step` bytes, and how it ends.
    fn cut(stream: &[u8], longest: usize, lines_only: bool, step: usize) -> (Vec<Vec<u8>>, String) {
        let mut framer = Framer::new(longest, lines_only);
        let (mut held, mut messages) = (Vec::new(), Vec::new());
        for piece in stream.chunks(step.max(1)) {
            held.extend_from_slice(piece);
            loop {
                match framer.next(&held) {
                    FrameScan::Message { body, used } => {
                        messages.push(held[body].to_vec());
                        held.drain(..used);
                    }
                    FrameScan::Nothing(used) => drop(held.drain(..used)),
                    FrameScan::Incomplete => break,
                    FrameScan::Refused(why) => return (messages, format!("{why:?}")),
                }
            }
            assert!(held.len() <= Framer::most_held(longest).max(longest + 2));
        }
        (messages, String::from_utf8_lossy(&held).into_owned())
    }

    #[track_caller]
    fn check_as(lines_only: bool, stream: &str, messages: &[&str], rest: &str) {
        for step in 1..=stream.len() {
            let (found, left) = cut(stream.as_bytes(), 30, lines_only, step);
            let found: Vec<_> = found.iter().map(|message| String::from_utf8_lossy(message)).collect();
            assert_eq!(found, messages, "{stream:?} by {step}");
            assert_eq!(left, rest, "{stream:?} by {step}");
        }
    }

    #[track_caller]
    fn check(stream: &str, messages: &[&str], rest: &str) {
        check_as(false, stream, messages, rest);
    }

    #[test]
    fn recognises_newline_and_octet_count_framing_of_each_message() {
        check("<1>one\n<2>two\n", &["<1>one", "<2>two"], "");
        check("6 <1>one6 <2>two", &["<1>one", "<2>two"], "");
        check("6 <1>one<2>two\n6 <3>six", &["<1>one", "<2>two", "<3>six"], "");
        check("11 <1>one\n<2>x<2>two\n", &["<1>one\n<2>x", "<2>two"], "");
        check("3 abc", &["abc"], "");
        check("<1>crlf\r\n<2>two\r\n", &["<1>crlf", "<2>two"], "");
        check("<1>a\rb\n", &["<1>a\rb"], "");
    }

    #[test]
    fn newlines_between_syslog_messages_are_skipped() {
        check("6 <1>one\n6 <2>two\r\n\n\n<3>x\n", &["<1>one", "<2>two", "<3>x"], "");
        check("\n\n<1>x\n", &["<1>x"], "");
    }

    #[test]
    fn incomplete_syslog_messages_wait_for_more_bytes() {
        check("<1>unfinished", &[], "<1>unfinished");
        check("20 <1>short\n", &[], "20 <1>short\n");
        check("2", &[], "2");
        check("", &[], "");
    }

    #[test]
    fn rejects_streams_with_invalid_syslog_framing() {
        check("garbage\n<1>x\n", &[], "Beginning");
        check("<1>x\n garbage\n", &["<1>x"], "Beginning");
        check("0 <1>x\n", &[], "Beginning");
        check("-3 <1>x\n", &[], "Beginning");
        check("5x<1>x\n", &[], "Count");
        check("31 <1>", &[], "TooLong");
        check("999999999999999999999999 <1>", &[], "TooLong");
        check("<1>4567890123456789012345678901\n", &[], "TooLong");
        check("<1>45678901234567890123456789012", &[], "TooLong");
        check("<1>456789012345678901234567890\r\n", &["<1>456789012345678901234567890"], "");
    }

    #[test]
    fn with_lines_only_every_line_is_a_message() {
        check_as(true, "garbage\n6 <1>x\n\n<1>y\n", &["garbage", "6 <1>x", "<1>y"], "");
        check_as(true, " \nx", &[" "], "x");
        check_as(true, "0123456789012345678901234567890\n", &[], "TooLong");
    }

    proptest! {
        /// The points where a stream is split do not matter, and counted messages come out unchanged.
        #[test]
        fn syslog_framing_is_the_same_for_any_pieces(stream in proptest::collection::vec(prop_oneof![
            Just(b'<'), Just(b'\n'), Just(b'\r'), Just(b' '), b'0'..=b'9', any::<u8>()
        ], 0..120), step in 1_usize..20, lines_only: bool) {
            let whole = cut(&stream, 30, lines_only, stream.len().max(1));
            let pieces = cut(&stream, 30, lines_only, step);
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn octet_counted_messages_may_contain_any_bytes(messages in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..30), 0..8
        ), step in 1_usize..20) {
            let mut stream = Vec::new();
            for message in &messages {
                stream.extend_from_slice(format!("{} ", message.len()).as_bytes());
                stream.extend_from_slice(message);
            }
            prop_assert_eq!(cut(&stream, 30, false, step), (messages, String::new()));
        }
    }
}
