//! `compression`: which messages are compressed, and how.

use std::sync::Arc;

use weir_fingerprint::Canonical;

/// The `compression` words of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Compression {
    /// `compression algo-req`: the algorithm for requests. None compresses no request.
    pub request_algorithm: Option<CompressionAlgorithm>,
    /// `compression algo-res`: the algorithms for responses. Empty compresses no response.
    pub response_algorithms: Vec<CompressionAlgorithm>,
    /// `compression type-req`: prefixes of the media types of requests. Empty for every type.
    pub request_types: Vec<Arc<str>>,
    /// `compression type-res`: prefixes of the media types of responses. Empty for every type.
    pub response_types: Vec<Arc<str>>,
    /// `compression minsize-req`: bytes of the smallest request body to compress.
    pub request_min_size: u64,
    /// `compression minsize-res`: bytes of the smallest response body to compress.
    pub response_min_size: u64,
    /// `compression offload`: servers do not receive Accept-Encoding.
    pub offload: bool,
    /// `compression direction`: the directions of `filter compression`, and of a proxy without a filter line.
    pub direction: CompressionDirection,
}

/// The directions that `compression direction` selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum CompressionDirection {
    Request,
    #[default]
    Response,
    Both,
}

impl CompressionDirection {
    /// Whether requests are compressed.
    pub fn has_requests(self) -> bool {
        self != CompressionDirection::Response
    }

    /// Whether responses are compressed.
    pub fn has_responses(self) -> bool {
        self != CompressionDirection::Request
    }
}

/// An algorithm of `compression algo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum CompressionAlgorithm {
    /// Changes no byte.
    Identity,
    Gzip,
    /// Deflate in the zlib format (RFC 1950).
    Deflate,
    /// Deflate without a wrapper (RFC 1951), which old browsers expect for "deflate".
    RawDeflate,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl CompressionAlgorithm {
    /// Every algorithm. If a client accepts several equally, the first of them is used.
    pub const ALL: [CompressionAlgorithm; 6] = [
        CompressionAlgorithm::Zstd,
        CompressionAlgorithm::Brotli,
        CompressionAlgorithm::Gzip,
        CompressionAlgorithm::Deflate,
        CompressionAlgorithm::RawDeflate,
        CompressionAlgorithm::Identity,
    ];

    /// The algorithm's word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            CompressionAlgorithm::Identity => "identity",
            CompressionAlgorithm::Gzip => "gzip",
            CompressionAlgorithm::Deflate => "deflate",
            CompressionAlgorithm::RawDeflate => "raw-deflate",
            CompressionAlgorithm::Brotli => "br",
            CompressionAlgorithm::Zstd => "zstd",
        }
    }

    /// The algorithm's content coding (RFC 9110, 8.4.1).
    pub fn coding(self) -> &'static str {
        match self {
            CompressionAlgorithm::RawDeflate => "deflate",
            other => other.word(),
        }
    }

    /// The algorithm of this word.
    pub fn from_word(word: &str) -> Option<CompressionAlgorithm> {
        CompressionAlgorithm::ALL.into_iter().find(|algorithm| algorithm.word() == word)
    }
}

/// The process-wide settings of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct CompressionTuning {
    /// `maxcomprate`: kilobytes of input per second. 0 for no limit.
    pub rate_limit: u32,
    /// `maxcompcpuusage`: per cent of CPU usage from which less is compressed. 100 for no limit.
    pub cpu_limit: u8,
    /// `maxzlibmem`: megabytes of memory for encoders. 0 for no limit.
    pub memory_limit: u32,
    /// `tune.comp.maxlevel`: from 1 to 9.
    pub level: u8,
    /// `tune.zlib.memlevel`: from 1 to 9.
    pub zlib_memory_level: u8,
    /// `tune.zlib.windowsize`: the base-2 logarithm of the bytes, from 8 to 15.
    pub zlib_window: u8,
}

impl Default for CompressionTuning {
    fn default() -> Self {
        CompressionTuning {
            rate_limit: 0,
            cpu_limit: 100,
            memory_limit: DEFAULT_MEMORY_LIMIT,
            level: 1,
            zlib_memory_level: 8,
            zlib_window: 15,
        }
    }
}

/// The default of `maxzlibmem`. HAProxy does not limit the memory by default, because its usual encoder is stateless.
const DEFAULT_MEMORY_LIMIT: u32 = 256;
