//! Hash functions for balancing keys.
//!
//! The functions are public ones (sdbm, djb2, CRC-32, Bob Jenkins' integer mix); their results must
//! equal HAProxy's, because operators compare and because several balancers must agree.

use weir_model::{HashFunction, HashType};
/// The hash of a key by the configured `hash-type`.
#[must_use]
pub fn hash(kind: HashType, key: &[u8]) -> u32 {
    let raw = match kind.function {
        HashFunction::Sdbm => sdbm(key),
        HashFunction::Djb2 => djb2(key),
        HashFunction::Wt6 => wt6(key),
        HashFunction::Crc32 => crc32fast::hash(key),
        HashFunction::None => number(key),
    };
    if kind.avalanche { avalanche(raw) } else { raw }
}

/// The hash of the sdbm library: `h = byte + 65599 * h`.
#[must_use]
pub fn sdbm(key: &[u8]) -> u32 {
    key.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(65_599).wrapping_add(u32::from(*byte)))
}

/// Bernstein's `h = 33 * h + byte`, from 5381.
#[must_use]
pub fn djb2(key: &[u8]) -> u32 {
    key.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// The shift and rotate hash that HAProxy calls wt6. It has two halves, and each byte determines
/// how far the next bytes are rotated.
#[must_use]
pub fn wt6(key: &[u8]) -> u32 {
    let (mut left, mut right) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut left_turn, mut right_turn) = (6, 18);
    for byte in key {
        let byte = u32::from(*byte);
        let mixed = !(left ^ byte);
        left = (!right.wrapping_add(byte)).rotate_left(left_turn);
        right = mixed.rotate_left(right_turn);
        let turns = ((left >> 16) ^ right) & 0xffff;
        (left_turn, right_turn) = (turns & 31, turns >> 11);
    }
    left ^ right
}

/// A full avalanche of four bytes: one of Bob Jenkins' integer hashes, then a multiplication by a prime
/// near three quarters of 2^32, which spreads neighbours over the whole range.
#[must_use]
pub fn avalanche(hash: u32) -> u32 {
    let mut mixed = hash.wrapping_add(0x7ed5_5d16).wrapping_add(hash << 12);
    mixed = (mixed ^ 0xc761_c23c) ^ (mixed >> 19);
    mixed = mixed.wrapping_add(0x1656_67b1).wrapping_add(mixed << 5);
    mixed = mixed.wrapping_add(0xd3a2_646c) ^ (mixed << 9);
    mixed = mixed.wrapping_add(0xfd70_46c5).wrapping_add(mixed << 3);
    mixed = (mixed ^ 0xb55a_4f09) ^ (mixed >> 16);
    mixed.wrapping_mul(3_221_225_473)
}

/// The key as a number: its last four bytes, most significant first.
fn number(key: &[u8]) -> u32 {
    key.iter().fold(0, |number: u32, byte| (number << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_key_read_as_a_number_is_its_last_four_bytes() {
        for (key, expected) in
            [(&b""[..], 0), (b"a", 0x61), (b"\x01\x02", 0x0102), (b"\xff\x02\x03\x04\x05", 0x0203_0405)]
        {
            assert_eq!(number(key), expected, "{key:?}");
        }
    }

    /// The results of HAProxy's converters of the same names.
    #[test]
    fn hash_functions_give_haproxys_results() {
        #[track_caller]
        fn check(key: &str, expected: [u32; 5]) {
            let key = key.as_bytes();
            let got = [sdbm(key), djb2(key), wt6(key), crc32fast::hash(key), avalanche(sdbm(key))];
            assert_eq!(got, expected);
        }
        check("a", [97, 177_670, 1_900_802_597, 3_904_355_907, 1_830_748_055]);
        check("abc", [807_794_786, 193_485_963, 2_483_038_440, 891_568_578, 659_243_622]);
        check("/index.html", [858_007_926, 3_776_231_887, 822_151_038, 3_928_116_034, 4_217_574_924]);
        check("192.168.0.1", [2_736_327_284, 3_398_481_707, 2_849_228_218, 2_307_365_224, 3_854_749_407]);
        check("user42", [956_198_665, 556_066_410, 2_769_745_836, 2_083_503_798, 253_765_262]);
        check(
            "The quick brown fox jumps over the lazy dog",
            [2_359_783_795, 885_799_134, 3_840_389_189, 1_095_738_169, 4_144_961_173],
        );
    }
}
