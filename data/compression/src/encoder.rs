//! The encoders of the libraries, behind one interface.

use std::fmt;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use weir_model::CompressionTuning;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::progress::{Goal, Progress};

/// The formats of encoders. The wrapper of gzip and zlib is written by [`BodyEncoder`](crate::BodyEncoder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncoderFormat {
    /// RFC 1951.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

/// An encoder failed. A bug of a library, or no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError;

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the encoder failed")
    }
}

impl std::error::Error for EncodeError {}

/// The state of a deflate encoder.
pub(crate) struct DeflateState {
    state: Deflate,
    /// Maximum input of one call.
    most: usize,
    /// All input was put out, and no block is open.
    is_clean: bool,
}

/// The state of one encoder.
pub(crate) enum EncoderState {
    Deflate(DeflateState),
    Brotli(Box<BrotliEncoderStateStruct<StandardAlloc>>),
    Zstd(CCtx<'static>),
}

impl EncoderState {
    /// An encoder for a new body. `level` is from 1 to 9.
    pub(crate) fn new(
        format: EncoderFormat,
        level: u8,
        tuning: &CompressionTuning,
    ) -> Result<Self, EncodeError> {
        match format {
            EncoderFormat::Deflate => {
                let state = Deflate::new_with_config(DeflateConfig {
                    level: i32::from(level),
                    // Negative: without a wrapper. This format does not support a window of 256 bytes.
                    window_bits: -i32::from(tuning.zlib_window.max(SMALLEST_WINDOW)),
                    mem_level: i32::from(tuning.zlib_memory_level),
                    ..DeflateConfig::default()
                });
                let most = 1 << (tuning.zlib_memory_level + 6);
                Ok(EncoderState::Deflate(DeflateState { state, most, is_clean: true }))
            }
            EncoderFormat::Brotli => {
                let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
                state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, brotli_quality(level));
                state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
                Ok(EncoderState::Brotli(Box::new(state)))
            }
            EncoderFormat::Zstd => {
                let mut state = CCtx::try_create().ok_or(EncodeError)?;
                set(&mut state, CParameter::CompressionLevel(zstd_level(level)))?;
                set(&mut state, CParameter::WindowLog(ZSTD_WINDOW))?;
                Ok(EncoderState::Zstd(state))
            }
        }
    }

    pub(crate) fn format(&self) -> EncoderFormat {
        match self {
            EncoderState::Deflate(_) => EncoderFormat::Deflate,
            EncoderState::Brotli(_) => EncoderFormat::Brotli,
            EncoderState::Zstd(_) => EncoderFormat::Zstd,
        }
    }

    /// Whether the encoder may be used for another body.
    pub(crate) fn is_reusable(&self) -> bool {
        match self {
            // The reset of zlib-rs 0.6.8 keeps an open block and the offset of unsent output: the next body would miss the beginning of its
            // first block, or panic.
            EncoderState::Deflate(DeflateState { is_clean, .. }) => *is_clean,
            EncoderState::Brotli(_) => false,
            EncoderState::Zstd(_) => true,
        }
    }

    /// Prepares a used encoder for a new body of this level. False if the encoder cannot be used again.
    pub(crate) fn reset(&mut self, level: u8) -> bool {
        match self {
            EncoderState::Deflate(DeflateState { state, .. }) => {
                state.reset();
                matches!(state.set_level(i32::from(level)), Ok(Status::Ok))
            }
            EncoderState::Brotli(_) => false,
            EncoderState::Zstd(state) => {
                state.reset(ResetDirective::SessionOnly).is_ok()
                    && set(state, CParameter::CompressionLevel(zstd_level(level))).is_ok()
            }
        }
    }

    /// Encodes as much of `input` as fits into `out`.
    pub(crate) fn encode(
        &mut self,
        input: &[u8],
        goal: Goal,
        out: &mut [u8],
    ) -> Result<Progress, EncodeError> {
        match self {
            EncoderState::Deflate(deflate) => {
                let progress = encode_deflate(&mut deflate.state, deflate.most, input, goal, out);
                deflate.is_clean =
                    goal != Goal::Continue && progress.is_ok_and(|progress| progress.is_complete);
                progress
            }
            EncoderState::Brotli(state) => encode_brotli(state, input, goal, out),
            EncoderState::Zstd(state) => encode_zstd(state, input, goal, out),
        }
    }
}

/// The most bytes of memory of an encoder with these parameters. Measured; a test compares them.
pub(crate) fn footprint(format: EncoderFormat, level: u8, tuning: &CompressionTuning) -> usize {
    match format {
        // The window, the hash chains of each of its bytes, the pending symbols, and a hash table of fixed size.
        EncoderFormat::Deflate => {
            let window = 1usize << (tuning.zlib_window.max(SMALLEST_WINDOW) + 2);
            window + (7 << (tuning.zlib_memory_level + 6)) + ZLIB_TABLES
        }
        EncoderFormat::Brotli => match brotli_quality(level) {
            0 => 180_000,
            2 | 3 => 1_280_000,
            4 => 2_200_000,
            5 => 2_750_000,
            _ => 3_800_000,
        },
        EncoderFormat::Zstd => match zstd_level(level) {
            1 => 540_000,
            2 => 740_000,
            3 => 1_260_000,
            4 => 2_570_000,
            _ => 3_100_000,
        },
    }
}

const ZLIB_TABLES: usize = 136_000;
/// The smallest window of zlib-rs without a wrapper, as a power of two.
const SMALLEST_WINDOW: u8 = 9;
/// 128 kB.
const BROTLI_WINDOW: u32 = 17;
/// 64 kB: more needs much more memory, and makes pages hardly smaller.
const ZSTD_WINDOW: u32 = 16;

/// Quality 1 is larger than 0 and hardly slower than 2. From 7 on an encoder needs 9 MB and more.
fn brotli_quality(level: u8) -> u32 {
    match level {
        0 | 1 => 0,
        _ => u32::from(level).min(6),
    }
}

/// From 7 on an encoder needs 6 MB and more.
fn zstd_level(level: u8) -> i32 {
    i32::from(level).clamp(1, 6)
}

fn set(state: &mut CCtx<'_>, parameter: CParameter) -> Result<(), EncodeError> {
    state.set_parameter(parameter).map(|_| ()).map_err(|_| EncodeError)
}

/// Passes the input on in slices of at most `most` bytes, a quarter of the encoder's output buffer. With more, level 1 of zlib-rs 0.6.8
/// panics when its output buffer is nearly full at the end of a call.
fn encode_deflate(
    state: &mut Deflate,
    most: usize,
    input: &[u8],
    goal: Goal,
    out: &mut [u8],
) -> Result<Progress, EncodeError> {
    let (first_in, first_out) = (state.total_in(), state.total_out());
    loop {
        let taken = (state.total_in() - first_in) as usize;
        let written = (state.total_out() - first_out) as usize;
        let slice = &input[taken..input.len().min(taken + most)];
        let is_last = taken + slice.len() == input.len();
        let flush = match goal {
            Goal::Flush if is_last => DeflateFlush::SyncFlush,
            Goal::End if is_last => DeflateFlush::Finish,
            _ => DeflateFlush::NoFlush,
        };
        let status = state.compress(slice, &mut out[written..], flush).map_err(|_| EncodeError)?;
        let taken = (state.total_in() - first_in) as usize;
        let written = (state.total_out() - first_out) as usize;
        let has_room = written < out.len();
        let is_complete = match goal {
            Goal::End => status == Status::StreamEnd,
            Goal::Flush | Goal::Continue => is_last && taken == input.len() && has_room,
        };
        if is_complete || !has_room || is_last {
            return Ok(Progress { taken, written, is_complete });
        }
    }
}

fn encode_brotli(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    goal: Goal,
    out: &mut [u8],
) -> Result<Progress, EncodeError> {
    let operation = match goal {
        Goal::Continue => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
        Goal::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        Goal::End => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
    };
    let (mut left, mut taken, mut room, mut written) = (input.len(), 0, out.len(), 0);
    // One call may leave output inside although there is room.
    loop {
        let before = (taken, written);
        let ok = state.compress_stream(
            operation,
            &mut left,
            input,
            &mut taken,
            &mut room,
            out,
            &mut written,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !ok {
            return Err(EncodeError);
        }
        let is_all = left == 0 && !state.has_more_output();
        let is_complete = if goal == Goal::End { state.is_finished() } else { is_all };
        if is_complete || room == 0 || (taken, written) == before {
            return Ok(Progress { taken, written, is_complete });
        }
    }
}

fn encode_zstd(
    state: &mut CCtx<'_>,
    input: &[u8],
    goal: Goal,
    out: &mut [u8],
) -> Result<Progress, EncodeError> {
    let directive = match goal {
        Goal::Continue => ZSTD_EndDirective::ZSTD_e_continue,
        Goal::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Goal::End => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input = InBuffer::around(input);
    let room = out.len();
    let mut output = OutBuffer::around(out);
    loop {
        let before = (input.pos(), output.pos());
        let left = state.compress_stream2(&mut output, &mut input, directive).map_err(|_| EncodeError)?;
        let is_all = input.pos() == input.src.len();
        let is_complete = is_all && (left == 0 || goal == Goal::Continue);
        if is_complete || output.pos() == room || (input.pos(), output.pos()) == before {
            return Ok(Progress { taken: input.pos(), written: output.pos(), is_complete });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zstandard_encoder_uses_at_most_its_footprint() {
        let tuning = CompressionTuning::default();
        for level in 1..=9 {
            let mut encoder =
                EncoderState::new(EncoderFormat::Zstd, level, &tuning).expect("there is memory");
            let (input, mut out) = (vec![7; 100_000], vec![0; 200_000]);
            encoder.encode(&input, Goal::Flush, &mut out).expect("the encoder works");
            let EncoderState::Zstd(state) = &encoder else { panic!("it is one") };
            let (used, counted) = (state.sizeof(), footprint(EncoderFormat::Zstd, level, &tuning));
            assert!(used <= counted && used * 10 >= counted * 9, "level {level}: {used} of {counted}");
        }
    }
}
