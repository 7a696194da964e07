//! The encoding of one body.

use std::fmt;
use std::rc::Rc;

use weir_model::CompressionAlgorithm;
use zlib_rs::{adler32, crc32};

use crate::encoder::{EncodeError, EncoderFormat};
use crate::pool::{EncoderPool, PooledEncoder};
use crate::progress::{Goal, Progress};
use crate::stored::{OVERHEAD, UncompressedParts};

/// The encoding of one body with one algorithm.
///
/// Deflated bodies hold an encoder only while bytes arrive, if memory is scarce: after a flush, the rest may come from any encoder.
pub struct BodyEncoder {
    algorithm: CompressionAlgorithm,
    level: u8,
    pool: Rc<EncoderPool>,
    encoder: Option<PooledEncoder>,
    stored: UncompressedParts,
    /// Some input was encoded by `stored`, and its format does not allow a change.
    stays_stored: bool,
    trial: Trial,
    /// A flush did not fit. It is completed before more input is taken.
    is_flushing: bool,
    /// Input bytes that were sent uncompressed for lack of an encoder.
    bypassed: u64,
    /// The checksum of the input so far, for gzip and zlib.
    checksum: u32,
    /// The length of the input so far, modulo 2^32, for gzip.
    length: u32,
    stage: Stage,
}

/// The next part of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Header,
    Payload,
    Trailer,
    Done,
}

impl BodyEncoder {
    /// The encoding of a new body. `None` if no encoder is available now.
    pub fn new(algorithm: CompressionAlgorithm, level: u8, pool: &Rc<EncoderPool>) -> Option<BodyEncoder> {
        let is_possible = format_of(algorithm).is_none_or(|format| pool.has_room(format, level));
        is_possible.then(|| BodyEncoder {
            algorithm,
            level,
            pool: Rc::clone(pool),
            encoder: None,
            stored: UncompressedParts::default(),
            stays_stored: false,
            trial: Trial::Pending,
            is_flushing: false,
            bypassed: 0,
            checksum: first_checksum(algorithm),
            length: 0,
            stage: Stage::Header,
        })
    }

    /// Starts again, for the same body.
    pub fn restart(&mut self) {
        (self.checksum, self.length, self.stage) = (first_checksum(self.algorithm), 0, Stage::Header);
        (self.encoder, self.stored, self.stays_stored) = (None, UncompressedParts::default(), false);
        (self.trial, self.is_flushing) = (Trial::Pending, false);
    }

    /// The algorithm that encodes this body.
    pub fn algorithm(&self) -> CompressionAlgorithm {
        self.algorithm
    }

    /// The level, from 1 to 9.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Sets the level. It applies after [`BodyEncoder::renew`]. Brotli and Zstandard bodies keep their first level.
    pub fn set_level(&mut self, level: u8) {
        self.level = level;
    }

    /// Input bytes that were sent uncompressed, because no encoder was available.
    pub fn bypassed(&self) -> u64 {
        self.bypassed
    }

    /// Encodes as much of `input` as fits into `out`, which must have room for a few bytes.
    pub fn encode(&mut self, input: &[u8], goal: Goal, out: &mut [u8]) -> Result<Progress, EncodeError> {
        let Some(format) = format_of(self.algorithm) else { return Ok(copy(input, out)) };
        let mut all = Progress { taken: 0, written: 0, is_complete: false };
        if out.len() < SMALLEST_ROOM {
            return Ok(all);
        }
        if self.stage == Stage::Header {
            all.written = put(out, self.header());
            self.stage = Stage::Payload;
        }
        if self.is_flushing && self.stage == Stage::Payload {
            let rest = self.encode_payload(format, b"", Goal::Flush, &mut out[all.written..])?;
            all.written += rest.written;
            self.is_flushing = !rest.is_complete;
            if self.is_flushing {
                return Ok(all);
            }
        }
        if self.stage == Stage::Payload {
            let part = self.encode_payload(format, input, goal, &mut out[all.written..])?;
            self.is_flushing = goal == Goal::Flush && !part.is_complete;
            self.add(&input[..part.taken]);
            all.taken = part.taken;
            all.written += part.written;
            all.is_complete = part.is_complete;
            if part.is_complete && goal == Goal::End {
                self.encoder = None;
                self.stage = Stage::Trailer;
            }
        }
        if self.stage == Stage::Trailer {
            all.is_complete = out.len() - all.written >= TRAILER;
            if all.is_complete {
                let (trailer, length) = self.trailer();
                all.written += put(&mut out[all.written..], &trailer[..length]);
                self.stage = Stage::Done;
            }
        } else if self.stage == Stage::Done {
            all.is_complete = true;
        }
        Ok(all)
    }

    /// Gives the encoder back after a completed flush, if others may need it. Only a deflated body goes on with another.
    pub fn pause(&mut self) {
        if format_of(self.algorithm) == Some(EncoderFormat::Deflate) && self.pool.is_scarce() {
            self.encoder = None;
        }
    }

    /// Lets the next part of a deflated body begin with another encoder, after a completed flush. So it gets the level that was set.
    pub fn renew(&mut self) {
        if format_of(self.algorithm) == Some(EncoderFormat::Deflate) {
            self.encoder = None;
        }
    }

    fn encode_payload(
        &mut self,
        format: EncoderFormat,
        input: &[u8],
        goal: Goal,
        out: &mut [u8],
    ) -> Result<Progress, EncodeError> {
        if let Trial::Failed { left } = &mut self.trial
            && *left > 0
            && !input.is_empty()
        {
            let part = self.stored.encode(format, input, goal, out);
            *left = left.saturating_sub(part.taken);
            return Ok(part);
        }
        if self.encoder.is_none() && !self.stays_stored {
            match (input, goal) {
                ([], Goal::Continue | Goal::Flush) => {
                    return Ok(Progress { taken: 0, written: 0, is_complete: true });
                }
                // The end alone needs no encoder.
                ([], Goal::End) => {}
                _ => self.encoder = self.pool.take(format, self.level),
            }
        }
        if format == EncoderFormat::Deflate && self.level == TRIED_LEVEL && !input.is_empty() {
            return self.try_payload(input, goal, out);
        }
        match self.encoder.as_mut().and_then(PooledEncoder::encoder) {
            Some(encoder) => encoder.encode(input, goal, out),
            None => {
                let part = self.stored.encode(format, input, goal, out);
                self.bypassed += part.taken as u64;
                self.stays_stored |= format != EncoderFormat::Deflate;
                Ok(part)
            }
        }
    }

    /// Encodes at the level that cannot store: the part is stored here if the encoder would make it larger.
    fn try_payload(&mut self, input: &[u8], goal: Goal, out: &mut [u8]) -> Result<Progress, EncodeError> {
        let Some(encoder) = self.encoder.as_mut().and_then(PooledEncoder::encoder) else {
            let part = self.stored.encode(EncoderFormat::Deflate, input, goal, out);
            self.bypassed += part.taken as u64;
            return Ok(part);
        };
        match &mut self.trial {
            Trial::Passed { taken, written } => {
                // A part that grows ends with a flush, so that the next one is tried.
                let grows = *taken >= TRIAL_PERIOD && *written >= *taken;
                if *taken >= TRIAL_PERIOD && !grows {
                    (*taken, *written) = (0, 0);
                }
                let goal = if grows && goal == Goal::Continue { Goal::Flush } else { goal };
                let part = encoder.encode(input, goal, out)?;
                *taken += part.taken;
                *written += part.written;
                if grows && part.is_complete && goal == Goal::Flush {
                    self.trial = Trial::Pending;
                }
                return Ok(part);
            }
            Trial::Failed { .. } | Trial::Pending => {}
        }
        let size = input.len().min(out.len().saturating_sub(OVERHEAD));
        let is_all = size == input.len();
        let goal_of_part = if is_all && goal == Goal::End { Goal::End } else { Goal::Flush };
        let part = encoder.encode(&input[..size], goal_of_part, &mut out[..size])?;
        if part.is_complete {
            self.trial = Trial::Passed { taken: part.taken, written: part.written };
            return Ok(Progress { is_complete: is_all, ..part });
        }
        // The encoder's output is dropped, and with it its history.
        self.encoder = None;
        let stored = self.stored.encode(EncoderFormat::Deflate, input, goal, out);
        self.trial = Trial::Failed { left: TRIAL_PERIOD - stored.taken.min(TRIAL_PERIOD) };
        Ok(stored)
    }

    fn add(&mut self, input: &[u8]) {
        match self.algorithm {
            CompressionAlgorithm::Gzip => self.checksum = crc32::crc32(self.checksum, input),
            CompressionAlgorithm::Deflate => self.checksum = adler32::adler32(self.checksum, input),
            _ => {}
        }
        self.length = self.length.wrapping_add(input.len() as u32);
    }

    fn header(&self) -> &'static [u8] {
        match self.algorithm {
            // RFC 1952: deflate, no flags, no time, an unknown system.
            CompressionAlgorithm::Gzip => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
            // RFC 1950: a window of 32 kB, the fastest level.
            CompressionAlgorithm::Deflate => &[0x78, 0x01],
            _ => &[],
        }
    }

    /// The trailer, and its length.
    fn trailer(&self) -> ([u8; TRAILER], usize) {
        let mut bytes = [0; TRAILER];
        match self.algorithm {
            CompressionAlgorithm::Gzip => {
                bytes[..4].copy_from_slice(&self.checksum.to_le_bytes());
                bytes[4..].copy_from_slice(&self.length.to_le_bytes());
                (bytes, TRAILER)
            }
            CompressionAlgorithm::Deflate => {
                bytes[..4].copy_from_slice(&self.checksum.to_be_bytes());
                (bytes, 4)
            }
            _ => (bytes, 0),
        }
    }
}

impl fmt::Debug for BodyEncoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BodyEncoder({:?}, {:?}, {} bytes)", self.algorithm, self.stage, self.length)
    }
}

/// Whether the quickest level makes a body smaller. That level cannot store a block, so it makes images 5 per cent larger.
#[derive(Clone, Copy, Debug)]
enum Trial {
    /// The next part is compared with its own size.
    Pending,
    /// The encoder is used. `taken` and `written` bytes since the last comparison.
    Passed { taken: usize, written: usize },
    /// The next `left` bytes are stored.
    Failed { left: usize },
}

/// The level that is tried.
const TRIED_LEVEL: u8 = 1;
/// Bytes from one comparison to the next.
const TRIAL_PERIOD: usize = 64 * 1024;

/// The initial checksum of RFC 1950.
const ADLER_START: u32 = 1;
/// The longest trailer.
const TRAILER: usize = 8;
/// Room for the header, an empty part, and its end.
const SMALLEST_ROOM: usize = OVERHEAD + TRAILER + 16;

/// The checksum before the first byte.
fn first_checksum(algorithm: CompressionAlgorithm) -> u32 {
    if algorithm == CompressionAlgorithm::Deflate { ADLER_START } else { 0 }
}

/// The encoder's format. `None` for `identity`.
fn format_of(algorithm: CompressionAlgorithm) -> Option<EncoderFormat> {
    match algorithm {
        CompressionAlgorithm::Identity => None,
        CompressionAlgorithm::Gzip | CompressionAlgorithm::Deflate | CompressionAlgorithm::RawDeflate => {
            Some(EncoderFormat::Deflate)
        }
        CompressionAlgorithm::Brotli => Some(EncoderFormat::Brotli),
        CompressionAlgorithm::Zstd => Some(EncoderFormat::Zstd),
    }
}

fn copy(input: &[u8], out: &mut [u8]) -> Progress {
    let taken = input.len().min(out.len());
    out[..taken].copy_from_slice(&input[..taken]);
    Progress { taken, written: taken, is_complete: taken == input.len() }
}

fn put(out: &mut [u8], bytes: &[u8]) -> usize {
    out[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

#[cfg(test)]
mod tests;
