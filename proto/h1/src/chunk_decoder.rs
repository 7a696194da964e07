//! Streaming validation and decoding of chunked bodies (RFC 9112, 7.1).
//!
//! Use one of two methods for a whole body. [`ChunkDecoder::validate`] keeps the framing: the bytes that it consumes
//! are valid and may be forwarded verbatim. [`ChunkDecoder::decode`] removes the framing in place, so that payload is
//! contiguous across chunks. The state between calls is at most 16 bytes.
//!
//! Chunk extensions are removed. A recipient must ignore extensions that it does not understand (RFC 9112, 7.1.1), and
//! a next hop that finds the end of an extension elsewhere would read another body.
//!
//! ```text
//!        ┌───────────────────────────────────────────────────┐
//!        ▼                                                   │
//!   FirstDigit ─► Digits ─► Padding ─► Extension ─► SizeReturn ─► SizeFeed ─► Payload ─► PayloadReturn ─► PayloadFeed
//!                                                                    │
//!                                                       (size zero)  ▼
//!                              TrailerStart ─► TrailerName ─► TrailerValue ─► TrailerFeed ─► TrailerStart
//!                                   └────────► LastFeed ─► Ended
//! ```
//!
//! Lines end with `\r\n`. A bare line feed is an error, because chunked parsers disagree about it.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::parser::scan::is_token_byte;

/// Decodes a chunked body that arrives in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct ChunkDecoder {
    awaiting: ChunkPart,
    /// The chunk size while its line is parsed, then the bytes of the chunk not received yet.
    remaining: u64,
    /// Digits of the size, extension bytes or trailer bytes so far. Each has its limit.
    count: u16,
    /// Extension bytes beyond one for each eight payload bytes; at most [`ChunkDecoder::MAX_EXCESS`].
    excess: u16,
    /// The name of the trailer being read.
    name: TrailerName,
}

// Every forwarded body holds a decoder, so it stays small.
const _: () = assert!(size_of::<ChunkDecoder>() <= 16);

/// The result of [`ChunkDecoder::validate`] and [`ChunkDecoder::decode`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advance {
    /// Number of body bytes after the skipped ones: the wire form from `validate`, payload and then trailers from
    /// `decode`. These are all remaining bytes, unless the body ended.
    pub consumed: usize,
    /// Number of framing bytes at the front, which the caller has to drop. Moving a long chunk over them would cost more. 0 from `validate`.
    pub skipped: usize,
    /// Number of bytes removed after the skipped ones. The bytes behind the gap were moved toward the front by this number.
    pub removed: usize,
    /// How many of the consumed bytes are payload.
    pub payload: usize,
    /// Range of the trailer lines in the consumed bytes, with line ends, without the final empty line. Empty for most bodies.
    pub trailers: Range<usize>,
    /// Whether the body ended. The bytes behind the consumed ones begin the next message.
    pub done: bool,
}

impl Advance {
    /// Merges the results of two consecutive calls. `next` is the result of the second call.
    pub fn followed_by(self, next: Advance) -> Advance {
        let later = next.trailers.start + self.consumed..next.trailers.end + self.consumed;
        Advance {
            consumed: self.consumed + next.consumed,
            skipped: self.skipped + next.skipped,
            removed: self.removed + next.removed,
            payload: self.payload + next.payload,
            trailers: match (self.trailers.is_empty(), later.is_empty()) {
                (true, true) => 0..0,
                (true, false) => later,
                (false, true) => self.trailers,
                (false, false) => self.trailers.start..later.end,
            },
            done: next.done,
        }
    }
}

/// The next piece of the input. Framing before its range belongs to it.
#[derive(PartialEq, Eq, Debug)]
enum ChunkPiece {
    Payload(Range<usize>),
    /// A part of the trailer section, line ends included, without the empty line that ends it. The lines are valid.
    Trailers(Range<usize>),
    /// An extension, or the blanks before one.
    Extension(Range<usize>),
    /// Only framing: all the bytes are used, and more are needed.
    More,
    /// The body ended at this offset of the input.
    Done(usize),
}

/// An error in a chunked body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChunkError {
    /// The chunk size does not begin with a hexadecimal digit, or an invalid byte follows its digits.
    InvalidSize,
    /// A chunk size of more digits than [`ChunkDecoder::MAX_DIGITS`], or above [`ChunkDecoder::MAX_SIZE`].
    SizeTooLarge,
    /// A control character in a chunk extension.
    InvalidExtension,
    /// A chunk extension longer than [`ChunkDecoder::MAX_EXTENSION`].
    ExtensionTooLong,
    /// A line feed without carriage return, or a carriage return without line feed.
    InvalidLineEnd,
    /// Something other than a line end after a chunk's payload.
    MissingLineEnd,
    /// A trailer line that is not a field, or one with a framing field.
    InvalidTrailer,
    /// Trailers longer than [`ChunkDecoder::MAX_TRAILERS`].
    TrailersTooLong,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ChunkPart {
    #[default]
    FirstDigit,
    Digits,
    Padding,
    Extension,
    SizeReturn,
    SizeFeed,
    Payload,
    PayloadReturn,
    PayloadFeed,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerFeed,
    LastFeed,
    Ended,
}

impl ChunkDecoder {
    /// The most digits of a chunk size, leading zeros included: enough for 64 bits.
    pub const MAX_DIGITS: u16 = 16;

    /// Largest chunk in bytes. A double-precision number still holds it exactly. HAProxy has the same limit.
    pub const MAX_SIZE: u64 = (1 << 52) - 1;

    /// The longest extension of one chunk, in bytes. Signed chunks, the longest in use, need less than 100.
    pub const MAX_EXTENSION: u16 = 1024;

    /// Maximum number of extension bytes of a body beyond one for each eight bytes of payload.
    pub const MAX_EXCESS: u16 = 16384;

    /// Longest trailer section in bytes: the default size of a head.
    pub const MAX_TRAILERS: u16 = 16384;

    /// A decoder at the first byte of a body.
    pub fn new() -> ChunkDecoder {
        ChunkDecoder::default()
    }

    /// Consumes the part of `bytes` that belongs to the body, and removes chunk extensions in place. The consumed bytes
    /// may be forwarded verbatim. After an error, forward nothing of `bytes`.
    ///
    /// # Errors
    /// Where the coding is invalid.
    #[inline]
    pub fn validate(&mut self, bytes: &mut [u8]) -> Result<Advance, ChunkError> {
        self.pass::<true>(bytes, false)
    }

    /// Like [`validate`](Self::validate), but removes all framing: the consumed bytes are payload, contiguous across
    /// chunks, and then trailers. The first [`skipped`](Advance::skipped) bytes are framing to drop; 0 unless
    /// `may_skip`.
    ///
    /// # Errors
    /// Where the coding is invalid.
    #[inline]
    pub fn decode(&mut self, bytes: &mut [u8], may_skip: bool) -> Result<Advance, ChunkError> {
        self.pass::<false>(bytes, may_skip)
    }

    /// Whether `bytes` are a valid beginning of a chunked body. The bytes are not changed.
    pub fn may_begin(bytes: &[u8]) -> bool {
        let (mut decoder, mut at, mut last) = (ChunkDecoder::new(), 0, SizeLine::default());
        loop {
            while let Some(chunk) = decoder.plain_chunk(bytes, at, &mut last) {
                at = chunk.end + CRLF.len();
                if last.is_at(bytes, at) {
                    at += last.count(bytes, at) * last.chunk;
                }
            }
            match decoder.piece_from(bytes, at) {
                Ok(
                    ChunkPiece::Payload(range) | ChunkPiece::Trailers(range) | ChunkPiece::Extension(range),
                ) => at = range.end,
                Ok(ChunkPiece::More | ChunkPiece::Done(_)) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Consumes the part of `bytes` that belongs to the body. Keeps the framing if `FRAMED`, except extensions.
    #[inline]
    fn pass<const FRAMED: bool>(&mut self, bytes: &mut [u8], may_skip: bool) -> Result<Advance, ChunkError> {
        let (mut at, mut payload, mut trailers) = (0, 0, 0..0);
        // Bytes from offset `kept` on are still in their original position.
        let (mut front, mut kept) = (Front { start: 0, end: 0, may_skip }, 0);
        let mut last = SizeLine::default();
        let end = loop {
            while let Some(chunk) = self.plain_chunk(bytes, at, &mut last) {
                payload += chunk.len();
                at = chunk.end + CRLF.len();
                if !FRAMED {
                    front.add(bytes, chunk);
                }
                // With varying chunk sizes this check usually fails, and saves the call.
                if last.is_at(bytes, at) {
                    let count = if FRAMED { last.count(bytes, at) } else { front.join(bytes, at, &last) };
                    payload += count * last.size;
                    at += count * last.chunk;
                }
                if !FRAMED {
                    kept = at;
                }
            }
            match self.piece_from(bytes, at)? {
                ChunkPiece::Payload(range) => {
                    payload += range.len();
                    at = range.end;
                    if !FRAMED {
                        front.add(bytes, range);
                        kept = at;
                    }
                }
                ChunkPiece::Trailers(range) => {
                    at = range.end;
                    if FRAMED {
                        let removed = kept - front.end;
                        trailers = range.start - removed..range.end - removed;
                    } else {
                        trailers = front.add(bytes, range);
                        kept = at;
                    }
                }
                ChunkPiece::Extension(range) => {
                    at = range.end;
                    if FRAMED {
                        front.add(bytes, kept..range.start);
                    }
                    kept = at;
                }
                ChunkPiece::More => break bytes.len(),
                ChunkPiece::Done(consumed) => break consumed,
            }
        };
        if !FRAMED {
            kept = end;
        }
        let (skipped, removed) = (front.start, kept - front.end);
        if removed > 0 {
            bytes.copy_within(kept.., front.end);
        }
        let done = self.is_done();
        Ok(Advance { consumed: end - removed - skipped, skipped, removed, payload, trailers, done })
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.awaiting == ChunkPart::Ended
    }

    fn piece_from(&mut self, bytes: &[u8], mut at: usize) -> Result<ChunkPiece, ChunkError> {
        while let Some(&byte) = bytes.get(at) {
            match self.awaiting {
                ChunkPart::FirstDigit => {
                    self.remaining = u64::from(hexadecimal(byte).ok_or(ChunkError::InvalidSize)?);
                    self.count = 1;
                    self.awaiting = ChunkPart::Digits;
                    at += 1;
                }
                ChunkPart::Digits => at = self.digit(byte, at)?,
                ChunkPart::Padding | ChunkPart::Extension => {
                    let end = self.extension(bytes, at)?;
                    return Ok(ChunkPiece::Extension(at..end));
                }
                ChunkPart::SizeReturn => {
                    // Only a carriage return leads to this state.
                    self.awaiting = ChunkPart::SizeFeed;
                    at += 1;
                }
                ChunkPart::SizeFeed => {
                    if byte != b'\n' {
                        return Err(ChunkError::InvalidLineEnd);
                    }
                    self.begin_chunk();
                    at += 1;
                }
                ChunkPart::Payload => {
                    let there = bytes.len() - at;
                    let taken = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(there);
                    self.remaining -= taken as u64;
                    if self.remaining == 0 {
                        self.awaiting = ChunkPart::PayloadReturn;
                    }
                    return Ok(ChunkPiece::Payload(at..at + taken));
                }
                ChunkPart::PayloadReturn => {
                    if byte != b'\r' {
                        return Err(ChunkError::MissingLineEnd);
                    }
                    self.awaiting = ChunkPart::PayloadFeed;
                    at += 1;
                }
                ChunkPart::PayloadFeed => {
                    if byte != b'\n' {
                        return Err(ChunkError::InvalidLineEnd);
                    }
                    self.awaiting = ChunkPart::FirstDigit;
                    at += 1;
                }
                ChunkPart::TrailerStart if byte == b'\r' => {
                    self.awaiting = ChunkPart::LastFeed;
                    at += 1;
                }
                ChunkPart::TrailerStart
                | ChunkPart::TrailerName
                | ChunkPart::TrailerValue
                | ChunkPart::TrailerFeed => {
                    let end = self.trailers(bytes, at)?;
                    return Ok(ChunkPiece::Trailers(at..end));
                }
                ChunkPart::LastFeed => {
                    if byte != b'\n' {
                        return Err(ChunkError::InvalidLineEnd);
                    }
                    self.awaiting = ChunkPart::Ended;
                    at += 1;
                }
                ChunkPart::Ended => break,
            }
        }
        if self.awaiting == ChunkPart::Ended { Ok(ChunkPiece::Done(at)) } else { Ok(ChunkPiece::More) }
    }

    /// Fast path: the payload range of the chunk at `at`, if the chunk is complete with its line end, and has a short
    /// size and no extension. Most small chunks are such, and a state machine step for each byte costs many times as
    /// much. `None` leaves the decoder unchanged.
    ///
    /// Most chunks have the size of the preceding chunk. After two equal sizes, `last` predicts the same size line
    /// again ([`SizeLine::is_at`]). `None` clears the prediction, because the next bytes may belong to another state.
    #[inline(always)]
    fn plain_chunk(&mut self, bytes: &[u8], at: usize, last: &mut SizeLine) -> Option<Range<usize>> {
        last.needed = usize::MAX;
        let first = match self.awaiting {
            ChunkPart::FirstDigit => at,
            ChunkPart::PayloadReturn if bytes.get(at..at + CRLF.len())? == CRLF => at + CRLF.len(),
            _ => return None,
        };
        let (mut size, mut start) = (0, first);
        for byte in bytes.get(start..)?.iter().take(PLAIN_DIGITS) {
            let digit = DIGITS[usize::from(*byte)];
            if digit > 15 {
                break;
            }
            size = size << 4 | usize::from(digit);
            start += 1;
        }
        if size == 0 || bytes.get(start..start + CRLF.len())? != CRLF {
            return None;
        }
        start += CRLF.len();
        let payload = start..start + size;
        if bytes.get(payload.end..payload.end + CRLF.len())? != CRLF {
            return None;
        }
        if self.excess > 0 {
            self.excess = self.excess.saturating_sub(u16::try_from(size / 8).unwrap_or(u16::MAX));
        }
        self.awaiting = ChunkPart::FirstDigit;
        if last.size != size {
            last.size = size;
        } else if self.excess == 0
            && let Some(line) = bytes[first..].first_chunk()
        {
            last.expect(*line, start - first);
        }
        Some(payload)
    }

    /// Ends the size line. The payload follows, or the trailers after size 0.
    fn begin_chunk(&mut self) {
        self.count = 0;
        let excused = u16::try_from(self.remaining / 8).unwrap_or(u16::MAX);
        self.excess = self.excess.saturating_sub(excused);
        self.awaiting = if self.remaining == 0 { ChunkPart::TrailerStart } else { ChunkPart::Payload };
    }

    #[inline]
    fn digit(&mut self, byte: u8, at: usize) -> Result<usize, ChunkError> {
        if let Some(digit) = hexadecimal(byte) {
            self.count += 1;
            if self.count > ChunkDecoder::MAX_DIGITS || self.remaining > ChunkDecoder::MAX_SIZE >> 4 {
                return Err(ChunkError::SizeTooLarge);
            }
            self.remaining = self.remaining << 4 | u64::from(digit);
            return Ok(at + 1);
        }
        self.count = 0;
        match byte {
            b'\r' => self.awaiting = ChunkPart::SizeReturn,
            b' ' | b'\t' => self.awaiting = ChunkPart::Padding,
            b';' => self.awaiting = ChunkPart::Extension,
            b'\n' => return Err(ChunkError::InvalidLineEnd),
            _ => return Err(ChunkError::InvalidSize),
        }
        // The next state reads the same byte.
        Ok(at)
    }

    /// Parses an extension, and blanks before it, up to the carriage return. Returns the offset reached.
    #[cold]
    fn extension(&mut self, bytes: &[u8], mut at: usize) -> Result<usize, ChunkError> {
        while let Some(&byte) = bytes.get(at) {
            match (self.awaiting, byte) {
                (_, b'\r') => {
                    self.awaiting = ChunkPart::SizeReturn;
                    break;
                }
                (_, b'\n') => return Err(ChunkError::InvalidLineEnd),
                (ChunkPart::Padding, b' ' | b'\t') => {}
                (ChunkPart::Padding, b';') => self.awaiting = ChunkPart::Extension,
                (ChunkPart::Padding, _) => return Err(ChunkError::InvalidSize),
                (_, b'\t' | 0x20..=0x7e | 0x80..) => {}
                _ => return Err(ChunkError::InvalidExtension),
            }
            at += 1;
            self.count += 1;
            self.excess += 1;
            if self.count > ChunkDecoder::MAX_EXTENSION || self.excess > ChunkDecoder::MAX_EXCESS {
                return Err(ChunkError::ExtensionTooLong);
            }
        }
        Ok(at)
    }

    /// Parses trailer lines up to the final empty line or the end of `bytes`. Returns the offset reached.
    #[cold]
    fn trailers(&mut self, bytes: &[u8], mut at: usize) -> Result<usize, ChunkError> {
        while let Some(&byte) = bytes.get(at) {
            match (self.awaiting, byte) {
                (ChunkPart::TrailerStart, b'\r') => break,
                (ChunkPart::TrailerStart, b'\n') | (ChunkPart::TrailerValue, b'\n') => {
                    return Err(ChunkError::InvalidLineEnd);
                }
                // A fold would begin with white space, which is not a token byte either.
                (ChunkPart::TrailerStart, _) if is_token_byte(byte) => {
                    self.name = TrailerName::default();
                    self.name.push(byte);
                    self.awaiting = ChunkPart::TrailerName;
                }
                (ChunkPart::TrailerName, b':') if self.name.frames() => {
                    return Err(ChunkError::InvalidTrailer);
                }
                (ChunkPart::TrailerName, b':') => self.awaiting = ChunkPart::TrailerValue,
                (ChunkPart::TrailerName, _) if is_token_byte(byte) => self.name.push(byte),
                (ChunkPart::TrailerValue, b'\r') => self.awaiting = ChunkPart::TrailerFeed,
                (ChunkPart::TrailerValue, 1..) => {}
                (ChunkPart::TrailerFeed, b'\n') => self.awaiting = ChunkPart::TrailerStart,
                (ChunkPart::TrailerFeed, _) => return Err(ChunkError::InvalidLineEnd),
                _ => return Err(ChunkError::InvalidTrailer),
            }
            at += 1;
            self.count += 1;
            if self.count > ChunkDecoder::MAX_TRAILERS {
                return Err(ChunkError::TrailersTooLong);
            }
        }
        Ok(at)
    }
}

/// Matches a trailer's name against the framing fields, which trailers must not contain (RFC 9110, 6.5.1). The length
/// saturates, because a longer name already differs.
#[derive(Clone, Copy, Debug, Default)]
struct TrailerName {
    length: u8,
    differs: [bool; FRAMING_NAMES.len()],
}

/// The predicted size line of the next chunks, after two chunks had the same. Its check is one comparison, and the
/// processor can read the following chunk without waiting for a parsed size.
struct SizeLine {
    /// The bytes of the line as a little-endian number, and the mask of its bits.
    bytes: u64,
    mask: u64,
    /// Length of the line in bytes.
    length: usize,
    /// The size of the last chunk.
    size: usize,
    /// Length of a whole chunk in bytes: size line, payload and line end.
    chunk: usize,
    /// Bytes required to check for a whole chunk. `usize::MAX` without a prediction.
    needed: usize,
}

impl Default for SizeLine {
    fn default() -> Self {
        SizeLine { bytes: 0, mask: 0, length: 0, size: 0, chunk: 0, needed: usize::MAX }
    }
}

impl SizeLine {
    /// Predicts a size line: the first `length` bytes of `line`.
    #[inline]
    fn expect(&mut self, line: [u8; 8], length: usize) {
        self.mask = u64::MAX >> (64 - 8 * length);
        self.bytes = u64::from_le_bytes(line) & self.mask;
        self.length = length;
        self.chunk = length + self.size + LINE_END.len();
        self.needed = self.chunk.max(line.len());
    }

    /// Whether a whole chunk with the predicted size line begins at `at`.
    #[inline(always)]
    fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        let Some(chunk) = bytes.get(at..).and_then(|rest| rest.get(..self.needed)) else { return false };
        let Some(line) = chunk.first_chunk() else { return false };
        let end = chunk.get(self.length + self.size..).and_then(|end| end.first_chunk());
        u64::from_le_bytes(*line) & self.mask == self.bytes && end == Some(LINE_END)
    }

    /// Number of consecutive chunks with the predicted size line from `at` on.
    #[inline]
    fn count(&self, bytes: &[u8], mut at: usize) -> usize {
        let mut count = 0;
        while self.is_at(bytes, at) {
            at += self.chunk;
            count += 1;
        }
        count
    }
}

/// The range of the output at the front of the slice.
struct Front {
    start: usize,
    end: usize,
    /// Whether the output may start behind offset 0, so that the first payload is not moved.
    may_skip: bool,
}

impl Front {
    /// Moves `range` to the end of the output. Returns its range relative to the output's start.
    #[inline]
    fn add(&mut self, bytes: &mut [u8], range: Range<usize>) -> Range<usize> {
        if self.may_skip && self.end == 0 {
            (self.start, self.end) = (range.start, range.start);
        }
        let (start, length) = (self.end - self.start, range.len());
        if range.start != self.end {
            move_up(bytes, range.start, length, self.end);
        }
        self.end += length;
        start..start + length
    }

    /// Like [`add`](Self::add), for the payload of all consecutive chunks with the predicted size line from `at` on.
    /// Returns their number. The output already has a start. Not inlined, because `pass` has too few registers.
    #[inline(never)]
    fn join(&mut self, bytes: &mut [u8], mut at: usize, line: &SizeLine) -> usize {
        let (mut count, mut end) = (0, self.end);
        while line.is_at(bytes, at) {
            move_up(bytes, at + line.length, line.size, end);
            end += line.size;
            at += line.chunk;
            count += 1;
        }
        self.end = end;
        count
    }
}

/// Moves bytes toward the front. Up to [`BLOCK`] bytes are copied as one block, at a quarter of the cost of a call. The
/// rest of the block overwrites only bytes that were parsed already and are not part of the output.
#[inline(always)]
fn move_up(bytes: &mut [u8], from: usize, length: usize, to: usize) {
    if length > BLOCK || to + BLOCK > from + length || !move_block(bytes, from, to) {
        bytes.copy_within(from..from + length, to);
    }
}

/// False if a block does not fit.
#[inline(always)]
fn move_block(bytes: &mut [u8], from: usize, to: usize) -> bool {
    let Some(block) = bytes.get(from..).and_then(|rest| rest.first_chunk::<BLOCK>()) else { return false };
    let block = *block;
    let Some(place) = bytes.get_mut(to..).and_then(|rest| rest.first_chunk_mut::<BLOCK>()) else {
        return false;
    };
    *place = block;
    true
}

const CRLF: &[u8] = LINE_END;
const LINE_END: &[u8; 2] = b"\r\n";
/// The size of a block in bytes: a register.
const BLOCK: usize = 16;

/// The values of hexadecimal digits, and more than 15 for other bytes.
const DIGITS: [u8; 256] = {
    let mut digits = [u8::MAX; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Some(digit) = hexadecimal(byte as u8) {
            digits[byte] = digit;
        }
        byte += 1;
    }
    digits
};

/// Maximum digits of a size on the fast path; longer sizes are rare. With the line end they fill a `u64`.
const PLAIN_DIGITS: usize = 6;

const FRAMING_NAMES: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];

impl TrailerName {
    fn push(&mut self, byte: u8) {
        for (name, differs) in FRAMING_NAMES.iter().zip(&mut self.differs) {
            *differs |= name.get(usize::from(self.length)) != Some(&byte.to_ascii_lowercase());
        }
        self.length = self.length.saturating_add(1);
    }

    /// Whether the complete name is a framing field.
    fn frames(self) -> bool {
        let mut names = FRAMING_NAMES.iter().zip(self.differs);
        names.any(|(name, differs)| !differs && name.len() == usize::from(self.length))
    }
}

#[inline]
const fn hexadecimal(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
