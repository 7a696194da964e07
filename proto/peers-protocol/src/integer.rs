//! Integers of variable length, and a reader for message bodies.

use crate::SessionFault;

/// The smallest value that is encoded in more than one byte.
const ONE_BYTE: u64 = 0xf0;

/// Appends an integer: one byte below 240, at most ten bytes.
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    if value < ONE_BYTE {
        out.push(value as u8);
        return;
    }
    out.push(value as u8 | ONE_BYTE as u8);
    value = (value - ONE_BYTE) >> 4;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value = (value - 0x80) >> 7;
    }
    out.push(value as u8);
}

/// Reads an integer; returns it with its length in bytes. `None` if bytes are missing.
///
/// # Errors
/// It does not fit into 64 bits.
pub fn read(bytes: &[u8]) -> Result<Option<(u64, usize)>, SessionFault> {
    let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
    let mut value = u64::from(*first);
    if value < ONE_BYTE {
        return Ok(Some((value, 1)));
    }
    let mut shift = 4;
    for (position, byte) in rest.iter().enumerate() {
        let part = u64::from(*byte);
        if shift >= 64 || part << shift >> shift != part {
            return Err(SessionFault::Malformed);
        }
        value = value.checked_add(part << shift).ok_or(SessionFault::Malformed)?;
        if *byte < 0x80 {
            return Ok(Some((value, position + 2)));
        }
        shift += 7;
    }
    // No integer is longer, so more bytes would not complete it.
    if rest.len() > LONGEST { Err(SessionFault::Malformed) } else { Ok(None) }
}

/// The longest encoding of a 64-bit integer in bytes.
const LONGEST: usize = 10;

/// The unread bytes of one complete message. Missing bytes are therefore a fault.
#[derive(Debug, Clone, Copy)]
pub struct ByteReader<'b>(pub &'b [u8]);

impl<'b> ByteReader<'b> {
    /// An integer of variable length.
    ///
    /// # Errors
    /// The integer is missing or not valid.
    pub fn integer(&mut self) -> Result<u64, SessionFault> {
        let (value, length) = read(self.0)?.ok_or(SessionFault::Malformed)?;
        self.0 = &self.0[length..];
        Ok(value)
    }

    /// An integer of variable length that fits into 32 bits.
    ///
    /// # Errors
    /// The integer is missing, not valid, or larger than 32 bits.
    pub fn short_integer(&mut self) -> Result<u32, SessionFault> {
        u32::try_from(self.integer()?).map_err(|_| SessionFault::Malformed)
    }

    /// Four bytes as a big-endian number.
    ///
    /// # Errors
    /// There are fewer.
    pub fn four_bytes(&mut self) -> Result<u32, SessionFault> {
        let (first, rest) = self.0.split_first_chunk().ok_or(SessionFault::Malformed)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*first))
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn bytes(&mut self, length: u64) -> Result<&'b [u8], SessionFault> {
        let length = usize::try_from(length).map_err(|_| SessionFault::Malformed)?;
        let (first, rest) = self.0.split_at_checked(length).ok_or(SessionFault::Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    /// Bytes preceded by their count.
    ///
    /// # Errors
    /// There are fewer.
    pub fn counted_bytes(&mut self) -> Result<&'b [u8], SessionFault> {
        let length = self.integer()?;
        self.bytes(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write(value, &mut out);
        out
    }

    #[test]
    fn encoded_integers_have_the_documented_lengths() {
        let lengths = |values: &[u64]| values.iter().map(|value| written(*value).len()).collect::<Vec<_>>();
        assert_eq!(lengths(&[0, 239, 240, 2287, 2288, 264_431]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(lengths(&[264_432, 33_818_863, 33_818_864, 4_328_786_159, u64::MAX]), [4, 4, 5, 5, 10]);
    }

    #[test]
    fn encodes_the_documented_example_integer() {
        assert_eq!(written(0x1234), [0xf4, 0x94, 0x01]);
        assert_eq!(read(&[0xf4, 0x94, 0x01, 0x77]), Ok(Some((0x1234, 3))));
    }

    #[test]
    fn rejects_integers_above_64_bits() {
        assert_eq!(read(&[0xff; 12]), Err(SessionFault::Malformed));
        assert_eq!(read(&[0xff; 5]), Ok(None), "more may come");
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            Err(SessionFault::Malformed)
        );
    }

    proptest! {
        #[test]
        fn encoded_integers_survive_a_round_trip(value: u64, small in 0_u64..5000) {
            for value in [value, small] {
                let bytes = written(value);
                prop_assert_eq!(read(&bytes), Ok(Some((value, bytes.len()))));
                for cut in 0..bytes.len() {
                    prop_assert_eq!(read(&bytes[..cut]), Ok(None));
                }
            }
        }
    }
}
