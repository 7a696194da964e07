//! The encoding of a message length: one byte up to 239, more for larger values.
//!
//! ```text
//!   0 .. 239      the value
//!   240 ..        240 + four low bits of (value - 240), then the rest of it in groups of seven bits,
//!                 each but the last with its top bit set and one more subtracted at each step
//! ```
//! The same encoding as in HAProxy's ring files (and in its peers and SPOE protocols), so that one tool reads both.

/// Maximum size of an encoded length in bytes.
pub(super) const LONGEST: usize = 10;

/// Encodes `value`. Returns the number of bytes.
pub(super) fn encode(value: usize, into: &mut [u8; LONGEST]) -> usize {
    if value < 240 {
        into[0] = value as u8;
        return 1;
    }
    into[0] = 240 | (value as u8 & 15);
    let mut rest = (value - 240) >> 4;
    // The low four bits of 240 are 0, so `value` and `value - 240` have the same low bits.
    let mut length = 1;
    while rest >= 128 {
        into[length] = 128 | (rest as u8 & 127);
        rest = (rest - 128) >> 7;
        length += 1;
    }
    into[length] = rest as u8;
    length + 1
}

/// Decodes a value from the bytes that `byte` returns by index. Returns the value and its encoded length. `None` if bytes
/// are missing or the value overflows.
pub(super) fn decode(mut byte: impl FnMut(usize) -> Option<u8>) -> Option<(usize, usize)> {
    let first = byte(0)?;
    if first < 240 {
        return Some((usize::from(first), 1));
    }
    let mut value = usize::from(first);
    for index in 1..LONGEST {
        let next = byte(index)?;
        let shift = 4 + 7 * (index as u32 - 1);
        value = value.checked_add(usize::from(next).checked_shl(shift)?)?;
        if next < 128 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn check(value: usize, expected: &[u8]) {
        let mut bytes = [0; LONGEST];
        let length = encode(value, &mut bytes);
        assert_eq!(&bytes[..length], expected, "{value}");
        assert_eq!(decode(|index| bytes[..length].get(index).copied()), Some((value, length)));
    }

    #[test]
    fn varint_lengths_equal_haproxys() {
        check(0, &[0]);
        check(239, &[239]);
        check(240, &[0xf0, 0]);
        // From a file of the packaged HAProxy 2.6, for a message of 307 bytes.
        check(307, &[0xf3, 4]);
        check(2287, &[0xff, 127]);
        check(2288, &[0xf0, 0x80, 0]);
        check(264_431, &[0xff, 0xff, 127]);
        check(264_432, &[0xf0, 0x80, 0x80, 0]);
    }

    #[test]
    fn every_varint_length_survives_a_round_trip() {
        for value in (0..70_000).chain([1 << 31, usize::MAX >> 8]) {
            let mut bytes = [0; LONGEST];
            let length = encode(value, &mut bytes);
            assert_eq!(decode(|index| bytes[..length].get(index).copied()), Some((value, length)));
            assert_eq!(decode(|index| bytes[..length - 1].get(index).copied()), None);
        }
    }

    #[test]
    fn an_endless_varint_is_rejected() {
        assert_eq!(decode(|_| Some(255)), None);
    }
}
