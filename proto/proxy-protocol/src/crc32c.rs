//! The checksum of a header of version 2: CRC-32C (RFC 4960, appendix B), byte by byte, as headers are short.

/// The checksum of the concatenation of `parts`.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    let mut sum = !0u32;
    for byte in parts.iter().copied().flatten() {
        sum = TABLE[((sum ^ u32::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
    }
    !sum
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut sum = index as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82f6_3b78 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_known_crc32c_checksums() {
        // The check value of the algorithm, and two of RFC 3720, B.4.
        assert_eq!(checksum(&[b"123456789"]), 0xe306_9283);
        assert_eq!(checksum(&[b"1234", b"", b"56789"]), 0xe306_9283);
        assert_eq!(checksum(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(checksum(&[&[0xff; 32]]), 0x62a8_ab43);
    }
}
