use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use weir_model::CompressionAlgorithm::{self, *};
use weir_model::CompressionTuning;

use super::*;
use crate::pool::EncoderMemory;

/// Decodes with the decoder of a library. Returns the plain bytes, and whether the body ended.
fn decode(algorithm: CompressionAlgorithm, bytes: &[u8]) -> (Vec<u8>, bool) {
    match algorithm {
        Identity => (bytes.to_vec(), true),
        Gzip => inflate(bytes, 31),
        Deflate => inflate(bytes, 15),
        RawDeflate => inflate(bytes, 0),
        Brotli => {
            let mut plain = Vec::new();
            let mut reader = brotli::Decompressor::new(bytes, 4096);
            let ended = std::io::copy(&mut reader, &mut plain).is_ok();
            (plain, ended)
        }
        Zstd => {
            let mut context = zstd_safe::DCtx::create();
            let mut input = zstd_safe::InBuffer::around(bytes);
            let (mut plain, mut ended) = (Vec::new(), bytes.is_empty());
            loop {
                let mut block = vec![0; 65_536];
                let mut output = zstd_safe::OutBuffer::around(&mut block[..]);
                let left = context.decompress_stream(&mut output, &mut input).expect("valid Zstandard");
                let written = output.pos();
                plain.extend_from_slice(&block[..written]);
                ended |= left == 0;
                if input.pos() == bytes.len() && written < block.len() {
                    return (plain, ended);
                }
            }
        }
    }
}

/// Inflates with a window of 2^`bits` bytes: 16 more for gzip, 0 for no wrapper.
fn inflate(bytes: &[u8], bits: u8) -> (Vec<u8>, bool) {
    let mut state = zlib_rs::Inflate::new(bits > 0, if bits > 0 { bits } else { 15 });
    let (mut plain, mut block) = (Vec::new(), vec![0; 65_536]);
    loop {
        let (taken, before) = (state.total_in() as usize, state.total_out());
        let status = state.decompress(&bytes[taken..], &mut block, zlib_rs::InflateFlush::NoFlush);
        let written = (state.total_out() - before) as usize;
        plain.extend_from_slice(&block[..written]);
        match status.expect("valid deflate") {
            zlib_rs::Status::StreamEnd => {
                assert_eq!(state.total_in() as usize, bytes.len(), "bytes behind the end");
                return (plain, true);
            }
            _ if written == 0 && state.total_in() as usize == taken => return (plain, false),
            _ => {}
        }
    }
}

/// Encodes one part completely, in pieces of `room` bytes.
fn encode(body: &mut BodyEncoder, mut input: &[u8], goal: Goal, room: usize, out: &mut Vec<u8>) {
    let mut block = vec![0; room];
    for _ in 0..1_000_000 {
        let progress = body.encode(input, goal, &mut block).expect("the encoder works");
        out.extend_from_slice(&block[..progress.written]);
        input = &input[progress.taken..];
        if progress.is_complete && input.is_empty() {
            return;
        }
    }
    panic!("no end");
}

fn pool(limit: usize) -> Rc<EncoderPool> {
    EncoderPool::new(CompressionTuning::default(), Arc::new(EncoderMemory::new(limit)))
}

fn pages(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| b"<p>Hello, compressible world of pages</p>\n"[at % 42] ^ (at / 4200) as u8)
        .collect()
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn bodies_of_every_size_decode_in_every_format() {
    for algorithm in CompressionAlgorithm::ALL {
        for size in [0, 1, 2, 100, 16_383, 16_384, 65_535, 65_536, 300_000] {
            let (plain, mut out) = (pages(size), Vec::new());
            let mut body = BodyEncoder::new(algorithm, 1, &pool(0)).expect("no limit");
            encode(&mut body, &plain, Goal::End, 16_384, &mut out);
            assert!(decode(algorithm, &out) == (plain, true), "{algorithm:?} {size}");
            assert!(algorithm == Identity || size < 16_383 || out.len() * 4 < size, "{algorithm:?} {size}");
            assert_eq!(body.bypassed(), 0);
        }
    }
}

#[test]
fn a_flush_delivers_everything_so_far() {
    for algorithm in CompressionAlgorithm::ALL {
        let (plain, mut out) = (pages(100_000), Vec::new());
        let mut body = BodyEncoder::new(algorithm, 1, &pool(0)).expect("no limit");
        for (number, part) in plain.chunks(777).enumerate() {
            encode(&mut body, part, Goal::Flush, 16_384, &mut out);
            let so_far = (number * 777 + part.len()).min(plain.len());
            assert!(decode(algorithm, &out).0 == plain[..so_far], "{algorithm:?} after {so_far} bytes");
        }
        encode(&mut body, b"", Goal::End, 16_384, &mut out);
        assert!(decode(algorithm, &out) == (plain, true), "{algorithm:?}");
    }
}

#[test]
fn an_empty_body_without_an_encoder_is_valid() {
    for algorithm in CompressionAlgorithm::ALL {
        let (limited, mut out) = (pool(10_000_000), Vec::new());
        let mut body = BodyEncoder::new(algorithm, 1, &limited).expect("there is room");
        let _all = exhaust(&limited);
        encode(&mut body, b"", Goal::End, 16_384, &mut out);
        assert!(decode(algorithm, &out) == (Vec::new(), true), "{algorithm:?}: {out:?}");
    }
}

/// Takes every encoder of a pool.
fn exhaust(pool: &Rc<EncoderPool>) -> Vec<PooledEncoder> {
    let formats = [EncoderFormat::Zstd, EncoderFormat::Deflate, EncoderFormat::Brotli];
    formats.into_iter().flat_map(|format| std::iter::from_fn(move || pool.take(format, 1))).collect()
}

#[test]
fn a_body_without_an_encoder_is_sent_uncompressed_in_its_coding() {
    for algorithm in CompressionAlgorithm::ALL {
        if algorithm == Identity {
            continue;
        }
        let (limited, plain, mut out) = (pool(10_000_000), pages(200_000), Vec::new());
        let mut body = BodyEncoder::new(algorithm, 1, &limited).expect("there is room");
        let all = exhaust(&limited);
        assert!(BodyEncoder::new(algorithm, 1, &limited).is_none(), "the pool is empty");
        for part in plain.chunks(50_000) {
            encode(&mut body, part, Goal::Flush, 16_384, &mut out);
        }
        encode(&mut body, b"", Goal::End, 16_384, &mut out);
        assert!(decode(algorithm, &out) == (plain.clone(), true), "{algorithm:?}");
        assert_eq!(body.bypassed(), plain.len() as u64);
        assert!(out.len() < plain.len() + plain.len() / 1000 + 64, "{} bytes", out.len());
        drop(all);
    }
}

#[test]
fn a_deflated_body_compresses_again_once_the_pool_has_an_encoder() {
    for algorithm in [Gzip, Deflate, RawDeflate] {
        let (limited, plain, mut out) = (pool(10_000_000), pages(100_000), Vec::new());
        let mut body = BodyEncoder::new(algorithm, 1, &limited).expect("there is room");
        let all = exhaust(&limited);
        encode(&mut body, &plain[..50_000], Goal::Flush, 16_384, &mut out);
        drop(all);
        encode(&mut body, &plain[50_000..], Goal::End, 16_384, &mut out);
        assert!(decode(algorithm, &out) == (plain, true), "{algorithm:?}");
        assert_eq!(body.bypassed(), 50_000);
        assert!(out.len() < 60_000, "{} bytes", out.len());
    }
}

#[test]
fn a_paused_deflated_body_holds_no_encoder_if_memory_is_scarce() {
    let size = crate::encoder::footprint(EncoderFormat::Deflate, 1, &CompressionTuning::default());
    let memory = Arc::new(EncoderMemory::new(3 * size));
    let limited = EncoderPool::new(CompressionTuning::default(), Arc::clone(&memory));
    let plain = pages(30_000);
    let mut bodies: Vec<_> = (0..2).map(|_| BodyEncoder::new(Gzip, 1, &limited).expect("room")).collect();
    let mut outs = vec![Vec::new(); 2];
    for (body, out) in bodies.iter_mut().zip(&mut outs) {
        encode(body, &plain[..10_000], Goal::Flush, 16_384, out);
    }
    assert!(limited.is_scarce());
    for body in &mut bodies {
        body.pause();
    }
    // The first one gave its encoder back, and then memory was not scarce any more.
    assert!(!limited.is_scarce());
    assert!(bodies[0].encoder.is_none() && bodies[1].encoder.is_some());
    for (body, out) in bodies.iter_mut().zip(&mut outs) {
        encode(body, &plain[10_000..], Goal::End, 16_384, out);
        assert!(decode(Gzip, out) == (plain.clone(), true));
    }
    drop((bodies, limited));
    assert_eq!(memory.used(), 0);
}

#[test]
fn a_level_applies_after_renew() {
    let (plain, mut out) = (pages(200_000), Vec::new());
    let mut body = BodyEncoder::new(Gzip, 9, &pool(0)).expect("no limit");
    for (number, part) in plain.chunks(20_000).enumerate() {
        encode(&mut body, part, Goal::Flush, 16_384, &mut out);
        body.set_level(number as u8 % 9 + 1);
        body.renew();
    }
    encode(&mut body, b"", Goal::End, 16_384, &mut out);
    assert!(decode(Gzip, &out) == (plain, true));
}

#[test]
fn restart_begins_the_body_again() {
    for algorithm in CompressionAlgorithm::ALL {
        let (plain, mut out) = (pages(40_000), Vec::new());
        let mut body = BodyEncoder::new(algorithm, 1, &pool(0)).expect("no limit");
        encode(&mut body, &plain[..30_000], Goal::Flush, 16_384, &mut Vec::new());
        body.restart();
        encode(&mut body, &plain, Goal::End, 16_384, &mut out);
        assert!(decode(algorithm, &out) == (plain, true), "{algorithm:?}");
    }
}

#[test]
fn random_bytes_grow_by_a_thousandth_at_most() {
    let noise = noise(200_000);
    for algorithm in CompressionAlgorithm::ALL {
        for level in 1..=9 {
            let mut out = Vec::new();
            let mut body = BodyEncoder::new(algorithm, level, &pool(0)).expect("no limit");
            for part in noise.chunks(16_384) {
                encode(&mut body, part, Goal::Continue, 16_384, &mut out);
            }
            encode(&mut body, b"", Goal::End, 16_384, &mut out);
            assert!(decode(algorithm, &out).0 == noise, "{algorithm:?} {level}");
            let most = noise.len() + noise.len() / 1000 + 64;
            assert!(out.len() <= most, "{algorithm:?} level {level}: {} bytes of {most}", out.len());
        }
    }
}

#[test]
fn an_abandoned_body_does_not_change_the_next_one() {
    let noise = noise(120_000);
    for algorithm in CompressionAlgorithm::ALL {
        for level in [1, 2, 6, 9] {
            let pool = pool(0);
            for (number, room) in [64, 100, 1000, 16_384].into_iter().cycle().take(24).enumerate() {
                let plain = if number % 2 == 0 { pages(60_000) } else { noise.clone() };
                // Its client leaves after some of the output, in the middle of a block or of a flush.
                let mut left = BodyEncoder::new(algorithm, level, &pool).expect("no limit");
                for part in plain.chunks(16_384).take(number % 5) {
                    let goal = if number % 3 == 0 { Goal::Flush } else { Goal::Continue };
                    left.encode(part, goal, &mut vec![0; room]).expect("the encoder works");
                }
                drop(left);
                let mut out = Vec::new();
                let mut body = BodyEncoder::new(algorithm, level, &pool).expect("no limit");
                encode(&mut body, &plain, Goal::End, 16_384, &mut out);
                assert!(
                    decode(algorithm, &out) == (plain, true),
                    "{algorithm:?} level {level}, body {number}"
                );
            }
        }
    }
}

#[test]
fn payload_that_follows_an_incomplete_flush_decodes() {
    let noise = noise(400_000);
    for algorithm in CompressionAlgorithm::ALL {
        for level in 1..=9 {
            let mut body = BodyEncoder::new(algorithm, level, &pool(0)).expect("no limit");
            let (mut rest, mut out, mut block) = (&noise[..], Vec::new(), vec![0; 16_384]);
            // As a filter is called: payload, and one flush for each pause.
            while !rest.is_empty() {
                for (input, goal) in [(rest, Goal::Continue), (b"", Goal::Flush)] {
                    let input = &input[..input.len().min(40_000)];
                    let progress = body.encode(input, goal, &mut block).expect("the encoder works");
                    out.extend_from_slice(&block[..progress.written]);
                    rest = &rest[progress.taken..];
                }
            }
            encode(&mut body, b"", Goal::End, 16_384, &mut out);
            assert!(decode(algorithm, &out) == (noise.clone(), true), "{algorithm:?} level {level}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn output_decodes_for_every_cut_goal_and_room(
        algorithm in prop::sample::select(&CompressionAlgorithm::ALL[..]),
        level in 1u8..=9,
        window in 8u8..=15,
        memory in 1u8..=9,
        parts in prop::collection::vec((0usize..40_000, 0u8..4, 64usize..20_000), 1..8),
        scarce in any::<bool>(),
    ) {
        let tuning = CompressionTuning { zlib_window: window, zlib_memory_level: memory, ..CompressionTuning::default() };
        let memory = Arc::new(EncoderMemory::new(if scarce { 4_000_000 } else { 0 }));
        let pool = EncoderPool::new(tuning, Arc::clone(&memory));
        let mut body = BodyEncoder::new(algorithm, level, &pool).expect("there is room");
        let (mut plain, mut out) = (Vec::new(), Vec::new());
        for (size, kind, room) in parts {
            let part: Vec<u8> = (0..size).map(|at| (at * at / 7 % 251) as u8).collect();
            let goal = if kind == 0 { Goal::Continue } else { Goal::Flush };
            encode(&mut body, &part, goal, room, &mut out);
            plain.extend_from_slice(&part);
            match kind {
                2 => body.pause(),
                3 => body.renew(),
                _ => {}
            }
        }
        encode(&mut body, b"", Goal::End, 64, &mut out);
        let (decoded, ended) = decode(algorithm, &out);
        prop_assert!(ended && decoded == plain);
        drop((body, pool));
        prop_assert_eq!(memory.used(), 0);
    }
}
