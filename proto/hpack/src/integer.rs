//! Integers with a prefix of some bits (RFC 7541, 5.1).

/// The result of reading an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Integer {
    /// The value, and the number of its bytes.
    Whole(u32, usize),
    /// More bytes are needed.
    Short,
    /// Larger than [`MAX`], or written with more bytes than [`MAX`] needs.
    TooLarge,
}

/// Maximum number of bytes after the prefix. Four encode any number up to [`MAX`].
const MAX_CONTINUATION: usize = 4;
/// The largest number that is accepted. Every meaningful length and index is below.
pub const MAX: u32 = 1 << 28;

/// Reads the integer at the front of `bytes`; the first byte has a prefix of `bits` bits.
#[inline]
pub fn read(bytes: &[u8], bits: u32) -> Integer {
    let Some(&first) = bytes.first() else { return Integer::Short };
    let mask = (1u32 << bits) - 1;
    let prefix = u32::from(first) & mask;
    if prefix < mask {
        return Integer::Whole(prefix, 1);
    }
    let mut value = prefix;
    for (at, &byte) in bytes[1..].iter().enumerate() {
        if at >= MAX_CONTINUATION {
            return Integer::TooLarge;
        }
        value += u32::from(byte & 0x7f) << (7 * at);
        if value > MAX {
            return Integer::TooLarge;
        }
        if byte & 0x80 == 0 {
            return Integer::Whole(value, at + 2);
        }
    }
    if bytes.len() > MAX_CONTINUATION { Integer::TooLarge } else { Integer::Short }
}

/// Appends `value` with a prefix of `bits` bits; `pattern` holds the other bits of the first byte.
#[inline]
pub fn write(out: &mut Vec<u8>, pattern: u8, bits: u32, value: u32) {
    let mask = (1u32 << bits) - 1;
    if value < mask {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes_the_examples_of_rfc_7541_c_1() {
        for (value, bits, wire) in [(10, 5, &[10u8][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut out = Vec::new();
            write(&mut out, 0, bits, value);
            assert_eq!(out, wire);
            assert_eq!(read(wire, bits), Integer::Whole(value, wire.len()));
        }
    }

    #[test]
    fn every_integer_survives_a_round_trip_and_its_prefixes_are_incomplete() {
        for bits in 4..=8 {
            for value in (0..4096).chain([1 << 14, (1 << 21) - 1, 1 << 21, MAX - 300, MAX]) {
                let mut wire = Vec::new();
                write(&mut wire, 0, bits, value);
                assert_eq!(read(&wire, bits), Integer::Whole(value, wire.len()), "{value} in {bits} bits");
                for length in 0..wire.len() {
                    assert_eq!(read(&wire[..length], bits), Integer::Short, "{value} cut to {length}");
                }
            }
        }
    }

    #[test]
    fn rejects_oversized_and_padded_integers() {
        let mut beyond = Vec::new();
        write(&mut beyond, 0, 7, MAX + 1);
        assert_eq!(read(&beyond, 7), Integer::TooLarge);
        // Padding with zeros would encode a small number at any length.
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0], 7), Integer::TooLarge);
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x80, 0x80], 7), Integer::TooLarge);
        assert_eq!(read(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 7), Integer::TooLarge);
    }
}
