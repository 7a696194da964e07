//! From the bytes of a balancing key to a hash.
//!
//! The functions are public ones (sdbm, djb2, CRC-32, Bob Jenkins' integer mix); their results must
//! equal HAProxy's, because operators compare and because several balancers must agree.

use crate::settings::{HashFunction, HashType};

/// The hash of a key, as `hash-type` says.
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

/// The shift and rotate hash that HAProxy calls wt6: two halves chase each other, and each byte
/// decides how far the next ones are rotated.
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

/// A full avalanche of four bytes, one of Bob Jenkins' integer hashes.
#[must_use]
pub fn avalanche(hash: u32) -> u32 {
    let mut mixed = hash;
    mixed = mixed.wrapping_sub(mixed << 6);
    mixed ^= mixed >> 17;
    mixed = mixed.wrapping_sub(mixed << 9);
    mixed ^= mixed << 4;
    mixed = mixed.wrapping_sub(mixed << 3);
    mixed ^= mixed << 10;
    mixed ^ (mixed >> 15)
}

/// The key as a number already: its last four bytes, most significant first.
fn number(key: &[u8]) -> u32 {
    key.iter().fold(0, |number: u32, byte| (number << 8) | u32::from(*byte))
}
