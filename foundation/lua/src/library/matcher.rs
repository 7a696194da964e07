//! Lua's patterns, with a bound of time.
//!
//! The algorithm and its results are those of `lstrlib.c`. It knows nothing of Lua's stack, so a fault is a value.

use std::ffi::CStr;

use crate::frame::CallFrame;
use crate::limits::Steps;

/// A match of a pattern in a subject.
pub(super) struct Matcher<'m> {
    subject: &'m [u8],
    pattern: &'m [u8],
    steps: Steps<'m>,
    /// Nested calls that are left.
    depth: u32,
    level: usize,
    captures: [PatternCapture; MAX_CAPTURES],
}

#[derive(Clone, Copy)]
struct PatternCapture {
    start: usize,
    end: CaptureEnd,
}

#[derive(Clone, Copy, PartialEq)]
enum CaptureEnd {
    /// Its end has not been matched.
    Open,
    /// It is a position: `()`.
    Position,
    Length(usize),
}

/// A capture of a match.
pub(super) enum Captured<'m> {
    Bytes(&'m [u8]),
    /// A position, from 1.
    Position(i64),
}

/// Why a match ends without a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PatternFault {
    Late,
    TooComplex,
    TooManyCaptures,
    InvalidCapture,
    /// A reference to a capture that is not there, by its number.
    InvalidIndex(usize),
    Unfinished,
    EndsWithEscape,
    MissingBracket,
    MissingBalance,
    MissingFrontierSet,
}

impl PatternFault {
    /// Raises it as an error.
    pub(super) fn raise(self, frame: CallFrame, steps: Steps<'_>) -> ! {
        let text: &CStr = match self {
            PatternFault::Late => frame.raise_late(steps),
            PatternFault::TooComplex => c"pattern too complex",
            PatternFault::TooManyCaptures => c"too many captures",
            PatternFault::InvalidCapture => c"invalid pattern capture",
            PatternFault::InvalidIndex(_) => c"invalid capture index %%%d",
            PatternFault::Unfinished => c"unfinished capture",
            PatternFault::EndsWithEscape => c"malformed pattern (ends with '%%')",
            PatternFault::MissingBracket => c"malformed pattern (missing ']')",
            PatternFault::MissingBalance => c"malformed pattern (missing arguments to '%%b')",
            PatternFault::MissingFrontierSet => c"missing '[' after '%%f' in pattern",
        };
        let number = if let PatternFault::InvalidIndex(number) = self { number as i32 } else { 0 };
        frame.raise_number(text, number)
    }
}

/// The end of a match in the subject, if there is one.
type Match = Result<Option<usize>, PatternFault>;

impl<'m> Matcher<'m> {
    pub(super) fn new(subject: &'m [u8], pattern: &'m [u8], steps: Steps<'m>) -> Self {
        let captures = [PatternCapture { start: 0, end: CaptureEnd::Open }; MAX_CAPTURES];
        Matcher { subject, pattern, steps, depth: MAX_DEPTH, level: 0, captures }
    }

    /// The steps that are left.
    pub(super) fn steps(&self) -> Steps<'m> {
        self.steps
    }

    /// The first match that begins from `from` to `to`: its start and end. A match that ends at `avoided` does not count.
    pub(super) fn search(
        &mut self,
        from: usize,
        to: usize,
        avoided: Option<usize>,
    ) -> Result<Option<(usize, usize)>, PatternFault> {
        if from > to {
            return Ok(None);
        }
        let first = self.first_class()?;
        let mut start = from;
        while start <= to {
            if let Some(after) = first {
                match self.next_of_class(start, after) {
                    Some(next) if next <= to => start = next,
                    _ => return Ok(None),
                }
            }
            if let Some(end) = self.match_at(start)?.filter(|end| Some(*end) != avoided) {
                return Ok(Some((start, end)));
            }
            start += 1;
        }
        Ok(None)
    }

    /// The end of the class that every match begins with, if there is one.
    fn first_class(&self) -> Result<Option<usize>, PatternFault> {
        let is_class = match self.token(0) {
            b'(' | b')' => false,
            b'$' => self.pattern.len() > 1,
            ESCAPE => !matches!(self.token(1), b'b' | b'f' | b'0'..=b'9'),
            _ => !self.pattern.is_empty(),
        };
        if !is_class {
            return Ok(None);
        }
        let after = self.class_end(0)?;
        Ok((!matches!(self.token(after), b'*' | b'?' | b'-')).then_some(after))
    }

    /// The first byte from `start` on that is of the class at the begin of the pattern.
    fn next_of_class(&self, start: usize, after: usize) -> Option<usize> {
        let token = self.token(0);
        if after == 1 && token != b'.' {
            return memchr::memchr(token, self.subject.get(start..)?).map(|at| start + at);
        }
        (start..self.subject.len()).find(|at| self.matches_one(*at, 0, after))
    }

    /// Matches the whole pattern at a place of the subject.
    fn match_at(&mut self, start: usize) -> Match {
        self.depth = MAX_DEPTH;
        self.level = 0;
        self.run(start, 0)
    }

    /// The captures of a match. Without any, the whole match is one, if `is_whole`.
    pub(super) fn count(&self, is_whole: bool) -> usize {
        if self.level == 0 && is_whole { 1 } else { self.level }
    }

    /// A capture of the match from `start` to `end`, the first one by 0.
    pub(super) fn capture(
        &self,
        index: usize,
        start: usize,
        end: usize,
    ) -> Result<Captured<'m>, PatternFault> {
        let Some(capture) = self.captures[..self.level].get(index) else {
            return match index {
                0 => Ok(Captured::Bytes(self.whole((start, end)))),
                _ => Err(PatternFault::InvalidIndex(index + 1)),
            };
        };
        match capture.end {
            CaptureEnd::Open => Err(PatternFault::Unfinished),
            CaptureEnd::Position => Ok(Captured::Position(capture.start as i64 + 1)),
            CaptureEnd::Length(length) => Ok(Captured::Bytes(self.part(capture.start, length))),
        }
    }

    /// The text of a match.
    pub(super) fn whole(&self, (start, end): (usize, usize)) -> &'m [u8] {
        self.part(start, end - start)
    }

    fn part(&self, start: usize, length: usize) -> &'m [u8] {
        self.subject.get(start..start + length).unwrap_or_default()
    }

    /// A byte of the pattern, 0 behind its end.
    fn token(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// A byte of the subject, 0 behind its end.
    fn byte(&self, at: usize) -> u8 {
        self.subject.get(at).copied().unwrap_or(0)
    }

    fn step(&mut self) -> Result<(), PatternFault> {
        if self.steps.is_late() { Err(PatternFault::Late) } else { Ok(()) }
    }

    /// Counts the steps of a loop over bytes, which are short.
    fn scanned(&mut self, bytes: usize) -> Result<(), PatternFault> {
        if self.steps.is_late_after(bytes / BYTES_OF_STEP) { Err(PatternFault::Late) } else { Ok(()) }
    }

    /// Matches the pattern from `pattern` on at `at`.
    fn run(&mut self, at: usize, pattern: usize) -> Match {
        if self.depth == 0 {
            return Err(PatternFault::TooComplex);
        }
        self.depth -= 1;
        let matched = self.run_items(at, pattern)?;
        self.depth += 1;
        Ok(matched)
    }

    fn run_items(&mut self, mut at: usize, mut pattern: usize) -> Match {
        while pattern < self.pattern.len() {
            self.step()?;
            let next = match self.token(pattern) {
                b'(' if self.token(pattern + 1) == b')' => {
                    return self.open_capture(at, pattern + 2, CaptureEnd::Position);
                }
                b'(' => return self.open_capture(at, pattern + 1, CaptureEnd::Open),
                b')' => return self.close_capture(at, pattern + 1),
                b'$' if pattern + 1 == self.pattern.len() => {
                    return Ok((at == self.subject.len()).then_some(at));
                }
                ESCAPE => match self.token(pattern + 1) {
                    b'b' => self.balance(at, pattern + 2)?.map(|end| (end, pattern + 4)),
                    b'f' => self.frontier(at, pattern + 2)?.map(|after| (at, after)),
                    digit @ b'0'..=b'9' => self.back_reference(at, digit)?.map(|end| (end, pattern + 2)),
                    _ => match self.item(at, pattern)? {
                        ItemEnd::Goes(at, pattern) => Some((at, pattern)),
                        ItemEnd::Ended(matched) => return Ok(matched),
                    },
                },
                _ => match self.item(at, pattern)? {
                    ItemEnd::Goes(at, pattern) => Some((at, pattern)),
                    ItemEnd::Ended(matched) => return Ok(matched),
                },
            };
            match next {
                Some(next) => (at, pattern) = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// Matches a class of characters and its suffix.
    fn item(&mut self, at: usize, pattern: usize) -> Result<ItemEnd, PatternFault> {
        let after = self.class_end(pattern)?;
        let suffix = self.token(after);
        if !self.matches_one(at, pattern, after) {
            return Ok(match suffix {
                b'*' | b'?' | b'-' => ItemEnd::Goes(at, after + 1),
                _ => ItemEnd::Ended(None),
            });
        }
        Ok(match suffix {
            b'?' => match self.run(at + 1, after + 1)? {
                Some(end) => ItemEnd::Ended(Some(end)),
                None => ItemEnd::Goes(at, after + 1),
            },
            b'+' => ItemEnd::Ended(self.most(at + 1, pattern, after)?),
            b'*' => ItemEnd::Ended(self.most(at, pattern, after)?),
            b'-' => ItemEnd::Ended(self.least(at, pattern, after)?),
            _ => ItemEnd::Goes(at + 1, after),
        })
    }

    /// As many repetitions as possible.
    fn most(&mut self, at: usize, pattern: usize, after: usize) -> Match {
        let mut count = 0;
        while self.matches_one(at + count, pattern, after) {
            count += 1;
        }
        self.scanned(count)?;
        loop {
            if let Some(end) = self.run(at + count, after + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
            self.step()?;
        }
    }

    /// As few repetitions as possible.
    fn least(&mut self, mut at: usize, pattern: usize, after: usize) -> Match {
        loop {
            if let Some(end) = self.run(at, after + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_one(at, pattern, after) {
                return Ok(None);
            }
            at += 1;
            self.step()?;
        }
    }

    fn open_capture(&mut self, at: usize, pattern: usize, end: CaptureEnd) -> Match {
        let Some(capture) = self.captures.get_mut(self.level) else {
            return Err(PatternFault::TooManyCaptures);
        };
        *capture = PatternCapture { start: at, end };
        self.level += 1;
        let matched = self.run(at, pattern)?;
        if matched.is_none() {
            self.level -= 1;
        }
        Ok(matched)
    }

    fn close_capture(&mut self, at: usize, pattern: usize) -> Match {
        let is_open = |capture: &PatternCapture| capture.end == CaptureEnd::Open;
        let index =
            self.captures[..self.level].iter().rposition(is_open).ok_or(PatternFault::InvalidCapture)?;
        self.captures[index].end = CaptureEnd::Length(at - self.captures[index].start);
        let matched = self.run(at, pattern)?;
        if matched.is_none() {
            self.captures[index].end = CaptureEnd::Open;
        }
        Ok(matched)
    }

    /// The end of the text of an earlier capture, if it is at `at` again.
    fn back_reference(&mut self, at: usize, digit: u8) -> Match {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let invalid = PatternFault::InvalidIndex(index.wrapping_add(1));
        let capture = *self.captures[..self.level].get(index).ok_or(invalid)?;
        let length = match capture.end {
            CaptureEnd::Open => return Err(invalid),
            // A position never fits: its length is larger than every subject in `lstrlib.c`.
            CaptureEnd::Position => return Ok(None),
            CaptureEnd::Length(length) => length,
        };
        self.scanned(length)?;
        let is_same = self.subject.get(at..at + length) == Some(self.part(capture.start, length));
        Ok(is_same.then_some(at + length))
    }

    /// The end of a text with balanced delimiters.
    fn balance(&mut self, at: usize, pattern: usize) -> Match {
        if pattern + 1 >= self.pattern.len() {
            return Err(PatternFault::MissingBalance);
        }
        let (begin, end) = (self.token(pattern), self.token(pattern + 1));
        if self.byte(at) != begin {
            return Ok(None);
        }
        let mut open = 1_usize;
        for (offset, byte) in self.subject.iter().enumerate().skip(at + 1) {
            if *byte == end {
                open -= 1;
                if open == 0 {
                    self.scanned(offset - at)?;
                    return Ok(Some(offset + 1));
                }
            } else if *byte == begin {
                open += 1;
            }
        }
        self.scanned(self.subject.len() - at)?;
        Ok(None)
    }

    /// The pattern behind a frontier, if there is one at `at`.
    fn frontier(&self, at: usize, pattern: usize) -> Match {
        if self.token(pattern) != b'[' {
            return Err(PatternFault::MissingFrontierSet);
        }
        let after = self.class_end(pattern)?;
        let previous = if at == 0 { 0 } else { self.byte(at - 1) };
        let is_frontier =
            !self.in_set(previous, pattern, after - 1) && self.in_set(self.byte(at), pattern, after - 1);
        Ok(is_frontier.then_some(after))
    }

    /// The pattern behind a class.
    fn class_end(&self, pattern: usize) -> Result<usize, PatternFault> {
        let end = self.pattern.len();
        let mut at = pattern + 1;
        match self.token(pattern) {
            ESCAPE if at == end => Err(PatternFault::EndsWithEscape),
            ESCAPE => Ok(at + 1),
            b'[' => {
                if self.token(at) == b'^' {
                    at += 1;
                }
                loop {
                    if at >= end {
                        return Err(PatternFault::MissingBracket);
                    }
                    let token = self.token(at);
                    at += 1;
                    if token == ESCAPE && at < end {
                        at += 1;
                    }
                    if self.token(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte at `at` is of the class from `pattern` to `after`.
    fn matches_one(&self, at: usize, pattern: usize, after: usize) -> bool {
        let Some(byte) = self.subject.get(at).copied() else { return false };
        match self.token(pattern) {
            b'.' => true,
            ESCAPE => is_in_class(byte, self.token(pattern + 1)),
            b'[' => self.in_set(byte, pattern, after - 1),
            token => token == byte,
        }
    }

    /// Whether a byte is in the set from `[` at `pattern` to `]` at `end`.
    fn in_set(&self, byte: u8, pattern: usize, end: usize) -> bool {
        let set = self.pattern.get(pattern + 1..end).unwrap_or_default();
        let (is_positive, mut set) = match set {
            [b'^', rest @ ..] => (false, rest),
            _ => (true, set),
        };
        loop {
            let is_found = match *set {
                [] => return !is_positive,
                [ESCAPE, class, ref rest @ ..] => {
                    set = rest;
                    is_in_class(byte, class)
                }
                // The bracket that ends the set is the class: "[%]" cannot end otherwise.
                [ESCAPE] => return is_in_class(byte, b']') == is_positive,
                [first, b'-', last, ref rest @ ..] => {
                    set = rest;
                    (first..=last).contains(&byte)
                }
                [one, ref rest @ ..] => {
                    set = rest;
                    one == byte
                }
            };
            if is_found {
                return is_positive;
            }
        }
    }
}

/// How the match of an item ends.
enum ItemEnd {
    /// The pattern goes on there: the places in the subject and in the pattern.
    Goes(usize, usize),
    /// The rest of the pattern has been tried.
    Ended(Option<usize>),
}

/// Whether a byte is in a class: `a` for letters, `A` for all others, and so on. Classes are those of ASCII, whatever the locale.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == b'\x0b',
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in == class.is_ascii_lowercase()
}

const ESCAPE: u8 = b'%';
/// Bytes that a loop over bytes looks at in the time of a step.
const BYTES_OF_STEP: usize = 8;
/// `LUA_MAXCAPTURES`.
const MAX_CAPTURES: usize = 32;
/// Nested calls of a match. Each may need some hundred bytes of stack.
const MAX_DEPTH: u32 = 200;
