//! Encoders allocate at most the memory that their pool counts for them (D25).

use std::sync::Arc;

use weir_compression::{BodyEncoder, EncoderMemory, EncoderPool, Goal};
use weir_counting::{CountingAllocator, live_bytes};
use weir_model::{CompressionAlgorithm, CompressionTuning};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Encodes a megabyte, and returns the most bytes allocated meanwhile, and the most that the pool counted.
fn measure(algorithm: CompressionAlgorithm, level: u8, window: u8, memory: u8) -> (usize, usize) {
    let tuning =
        CompressionTuning { zlib_window: window, zlib_memory_level: memory, ..CompressionTuning::default() };
    let input: Vec<u8> = (0..16_384usize).map(|at| (at * at / 7 % 97) as u8).collect();
    let mut out = vec![0; 16_384];
    let memory = Arc::new(EncoderMemory::new(0));
    let pool = EncoderPool::new(tuning, Arc::clone(&memory));
    let before = live_bytes();
    let mut body = BodyEncoder::new(algorithm, level, &pool).expect("no limit");
    let (mut most, mut counted) = (0, 0);
    for _ in 0..40 {
        let mut rest = &input[..];
        while !rest.is_empty() {
            let progress = body.encode(rest, Goal::Continue, &mut out).expect("the encoder works");
            rest = &rest[progress.taken..];
        }
        most = most.max(live_bytes() - before);
        counted = counted.max(memory.used());
    }
    (usize::try_from(most).expect("more was allocated than freed"), counted)
}

#[test]
fn an_encoder_allocates_at_most_its_footprint() {
    // The memory of Zstandard is allocated in C: see the unit test of the encoder.
    for level in [1, 2, 3, 4, 5, 6, 9] {
        for (window, memory) in [(15, 8), (13, 5), (8, 1), (9, 9)] {
            let (most, counted) = measure(CompressionAlgorithm::Gzip, level, window, memory);
            assert!(most <= counted + 2_000, "gzip {level} {window} {memory}: {most} of {counted}");
            assert!(most * 10 >= counted * 9, "gzip {level} {window} {memory}: {most} of {counted}");
        }
        let (most, counted) = measure(CompressionAlgorithm::Brotli, level, 15, 8);
        assert!(most <= counted + 2_000, "br {level}: {most} of {counted}");
        assert!(most * 10 >= counted * 8, "br {level}: {most} of {counted}");
    }
}
