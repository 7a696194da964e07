//! Encodes chunked bodies, for messages received with another framing.

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The end of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Maximum length of a [`ChunkHeader`] in bytes.
pub const MAX_HEADER: usize = 18;

/// The line before a chunk's payload.
#[derive(Clone, Copy, Debug)]
pub struct ChunkHeader {
    bytes: [u8; MAX_HEADER],
    start: u8,
}

impl ChunkHeader {
    /// The line for a chunk of `size` bytes. A chunk of zero bytes would end the body: use [`LAST_CHUNK`].
    pub fn new(size: u64) -> ChunkHeader {
        let mut bytes = [0; MAX_HEADER];
        bytes[MAX_HEADER - 2..].copy_from_slice(b"\r\n");
        let mut start = MAX_HEADER - 2;
        let mut rest = size;
        loop {
            start -= 1;
            bytes[start] = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
            if rest == 0 {
                return ChunkHeader { bytes, start: start as u8 };
            }
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_written_in_hexadecimal() {
        for (size, want) in
            [(1, "1\r\n"), (16, "10\r\n"), (0xabcdef, "abcdef\r\n"), (u64::MAX, "ffffffffffffffff\r\n")]
        {
            assert_eq!(ChunkHeader::new(size).as_bytes(), want.as_bytes());
        }
    }
}
