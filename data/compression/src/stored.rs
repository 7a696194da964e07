//! Uncompressed parts inside a coding, for bodies that get no encoder. They need no memory.

use crate::encoder::EncoderFormat;
use crate::progress::{Goal, Progress};

/// Bytes that the frame of one uncompressed part needs at most, with the beginning and the end of the body.
pub(crate) const OVERHEAD: usize = 24;

/// The state of a body without an encoder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UncompressedParts {
    /// The header of the format was written.
    has_begun: bool,
}

impl UncompressedParts {
    /// Writes input uncompressed. Takes nothing if `out` is shorter than [`OVERHEAD`].
    pub(crate) fn encode(
        &mut self,
        format: EncoderFormat,
        input: &[u8],
        goal: Goal,
        out: &mut [u8],
    ) -> Progress {
        let mut written = 0;
        let room = out.len().saturating_sub(OVERHEAD);
        let taken = input.len().min(room).min(LARGEST_PART);
        let is_all = taken == input.len();
        let is_end = goal == Goal::End && is_all && out.len() >= OVERHEAD;
        let mut put = |bytes: &[u8]| {
            out[written..written + bytes.len()].copy_from_slice(bytes);
            written += bytes.len();
        };
        if !self.has_begun && (taken > 0 || is_end) {
            match format {
                EncoderFormat::Deflate => {}
                // The window of 16 bits is one bit, so it is part of the first block.
                EncoderFormat::Brotli => {}
                // The magic number; no checksum, no size; a window of 64 kB.
                EncoderFormat::Zstd => put(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x30]),
            }
        }
        if taken > 0 {
            let length = taken as u32;
            match format {
                EncoderFormat::Deflate => {
                    let [low, high, ..] = length.to_le_bytes();
                    put(&[0, low, high, !low, !high]);
                }
                // Not the last, four nibbles of length, uncompressed.
                EncoderFormat::Brotli => {
                    let bits = (length - 1) << 3 | 1 << 19;
                    let bits = if self.has_begun { bits } else { bits << 1 };
                    let [first, second, third, _] = bits.to_le_bytes();
                    put(&[first, second, third]);
                }
                EncoderFormat::Zstd => {
                    let [first, second, third, _] = (length << 3).to_le_bytes();
                    put(&[first, second, third]);
                }
            }
            put(&input[..taken]);
        }
        if is_end {
            match format {
                EncoderFormat::Deflate => put(&[1, 0, 0, 0xff, 0xff]),
                // Last and empty, after the bit of the window if nothing was written.
                EncoderFormat::Brotli if taken > 0 || self.has_begun => put(&[3]),
                EncoderFormat::Brotli => put(&[6]),
                EncoderFormat::Zstd => put(&[1, 0, 0]),
            }
        }
        self.has_begun |= taken > 0 || is_end;
        Progress { taken, written, is_complete: is_all && (goal != Goal::End || is_end) }
    }
}

/// Fits the 16 bits of deflate and the block of Zstandard.
const LARGEST_PART: usize = 65_535;
