//! Name-value pairs: two lengths, a name and a value (FastCGI specification, 3.4).

use std::iter::FusedIterator;

/// The byte of a parameter's name for a byte of a field's name: letters in upper case, digits, and `_` for all others.
#[must_use]
pub fn parameter_byte(byte: u8) -> u8 {
    if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' }
}

/// A reusable buffer of encoded pairs: the content of a request's PARAMS records. Pairs keep their order, and names may
/// repeat. The caller bounds the total.
#[derive(Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
}

impl Params {
    /// An empty buffer, without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all pairs. Keeps at most [`KEPT_PARAMS`] bytes of memory for the next request.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_PARAMS);
    }

    /// Appends a pair. A name or value of 2^31 bytes or more cannot be encoded: the pair is left out.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_parts(name, &[value]);
    }

    /// Appends a pair with the concatenation of `parts` as its value, with the limits of [`Self::push`].
    pub fn push_parts(&mut self, name: &[u8], parts: &[&[u8]]) {
        let value_length = parts.iter().map(|part| part.len()).sum();
        if self.push_lengths(name.len(), value_length) {
            self.bytes.extend_from_slice(name);
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
    }

    /// Appends a request header as a meta-variable (RFC 3875, 4.1.18): `HTTP_` and the field name in upper case, with `_` for
    /// characters other than letters and digits ([`parameter_byte`]). So `a-b` and `a_b` give the same name; the caller decides
    /// which fields are passed, `Proxy` among them ("httpoxy").
    pub fn push_header(&mut self, name: &[u8], value: &[u8]) {
        if self.push_lengths(HEADER_PREFIX.len() + name.len(), value.len()) {
            self.bytes.extend_from_slice(HEADER_PREFIX);
            self.bytes.extend(name.iter().map(|&byte| parameter_byte(byte)));
            self.bytes.extend_from_slice(value);
        }
    }

    /// Appends the lengths of a pair. False, without an effect, if one cannot be encoded.
    fn push_lengths(&mut self, name: usize, value: usize) -> bool {
        if name > MAX_LENGTH || value > MAX_LENGTH {
            return false;
        }
        for length in [name, value] {
            match u8::try_from(length) {
                Ok(short) if short & LONG == 0 => self.bytes.push(short),
                _ => {
                    let [.., third, second, first, last] = length.to_be_bytes();
                    self.bytes.extend_from_slice(&[third | LONG, second, first, last]);
                }
            }
        }
        true
    }

    /// The encoded pairs.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the encoded pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the buffer holds zero pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A length exceeds the bytes that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedPairs;

/// The pairs of `bytes`, which were checked as a whole.
///
/// # Errors
/// A pair is incomplete.
pub fn pairs(bytes: &[u8]) -> Result<Pairs<'_>, MalformedPairs> {
    let mut rest = bytes;
    while !rest.is_empty() {
        rest = split_pair(rest).ok_or(MalformedPairs)?.rest;
    }
    Ok(Pairs { rest: bytes })
}

/// Names and values, in their order.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let pair = split_pair(self.rest)?;
        self.rest = pair.rest;
        Some((pair.name, pair.value))
    }
}

impl FusedIterator for Pairs<'_> {}

struct SplitPair<'a> {
    name: &'a [u8],
    value: &'a [u8],
    rest: &'a [u8],
}

fn split_pair(bytes: &[u8]) -> Option<SplitPair<'_>> {
    let (name_length, rest) = split_length(bytes)?;
    let (value_length, rest) = split_length(rest)?;
    let (name, rest) = rest.split_at_checked(name_length)?;
    let (value, rest) = rest.split_at_checked(value_length)?;
    Some(SplitPair { name, value, rest })
}

fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first & LONG == 0 {
        return Some((usize::from(first), rest));
    }
    let (&[second, third, last], rest) = rest.split_first_chunk()?;
    let length = u32::from_be_bytes([first & !LONG, second, third, last]);
    Some((usize::try_from(length).ok()?, rest))
}

/// The length of the longest front of encoded pairs that ends between two of them and has at most `limit` bytes. If the
/// first pair is longer, its length; if it is malformed, that of all bytes.
pub(crate) fn pairs_within(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let mut end = 0;
    while let Some(pair) = split_pair(&bytes[end..]) {
        let next = bytes.len() - pair.rest.len();
        if next > limit {
            return if end == 0 { next } else { end };
        }
        end = next;
    }
    if end == 0 { bytes.len() } else { end }
}

/// How much memory [`Params::clear`] keeps, in bytes: the largest heads of requests at the usual size of buffers.
pub const KEPT_PARAMS: usize = 64 * 1024;

/// The longest name or value: its length has 31 bits.
const MAX_LENGTH: usize = 0x7fff_ffff;

/// The bit of the first byte of a length that has four bytes.
const LONG: u8 = 0x80;

const HEADER_PREFIX: &[u8] = b"HTTP_";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(list: &[(&[u8], &[u8])]) -> Params {
        let mut params = Params::new();
        list.iter().for_each(|(name, value)| params.push(name, value));
        params
    }

    #[test]
    fn pairs_are_encoded_like_the_examples_of_the_specification() {
        let long = [b'v'; 128];
        let params = encoded(&[(b"SERVER_PORT", b"80"), (b"A", &long), (&long[..127], b"")]);
        let expected =
            [&b"\x0b\x02SERVER_PORT80\x01\x80\0\0\x80A"[..], &long, b"\x7f\0", &long[..127]].concat();
        assert_eq!((params.bytes(), params.len()), (&expected[..], expected.len()));
    }

    #[test]
    fn pairs_of_every_length_survive_a_round_trip() {
        let content = vec![b'x'; 1 << 20];
        let lengths = [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 20];
        for (name, value) in lengths.iter().flat_map(|name| lengths.map(|value| (*name, value))) {
            let pair = (&content[..name], &content[..value]);
            let params = encoded(&[pair, (b"n", b"v")]);
            let found: Vec<_> = pairs(params.bytes()).expect("well-formed").collect();
            assert!(found == [pair, (&b"n"[..], &b"v"[..])], "{name}, {value}");
            assert!(pairs(&params.bytes()[..params.len() - 1]).is_err());
        }
    }

    #[test]
    fn lengths_beyond_31_bits_are_left_out() {
        let mut params = Params::new();
        for (name, value) in [(MAX_LENGTH + 1, 0), (0, MAX_LENGTH + 1)] {
            assert!(!params.push_lengths(name, value) && params.is_empty());
        }
        assert!(params.push_lengths(MAX_LENGTH, MAX_LENGTH));
        assert_eq!(params.bytes(), [0xff; 8]);
    }

    #[test]
    fn incomplete_pairs_are_malformed() {
        for bytes in [
            &b"\x01"[..],
            b"\x80\0\0",
            b"\x00\x80\0\0",
            b"\x01\x01a",
            b"\x01\x01ab\0",
            b"\xff\xff\xff\xff\xff\xff\xff\xffab",
        ] {
            assert!(pairs(bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(pairs(b"").expect("no pair").count(), 0);
    }

    #[test]
    fn short_lengths_may_have_four_bytes() {
        let found: Vec<_> = pairs(b"\x80\0\0\x01\x02abc").expect("well-formed").collect();
        assert_eq!(found, [(&b"a"[..], &b"bc"[..])]);
    }

    #[test]
    fn headers_become_meta_variables() {
        let mut params = Params::new();
        params.push_header(b"x-Forwarded_for.1", b"a-b");
        params.push_header(b"x-Forwarded_for.1", b"");
        params.push_header(&[b'-'; 123], b"v");
        params.push_header(b"X!a", b"v");
        let found: Vec<_> = pairs(params.bytes()).expect("well-formed").collect();
        let long = [&b"HTTP"[..], &[b'_'; 124]].concat();
        let name = &b"HTTP_X_FORWARDED_FOR_1"[..];
        assert_eq!(
            found,
            [(name, &b"a-b"[..]), (name, b""), (&long[..], b"v"), (b"HTTP_X_A", b"v")],
            "order and repeated names stay"
        );
    }

    #[test]
    fn bytes_other_than_letters_and_digits_become_underscores() {
        for byte in 0..=u8::MAX {
            let expected = match byte {
                b'a'..=b'z' => byte - b'a' + b'A',
                b'A'..=b'Z' | b'0'..=b'9' => byte,
                _ => b'_',
            };
            assert_eq!(parameter_byte(byte), expected, "{byte}");
        }
    }

    #[test]
    fn parts_are_joined_to_one_value() {
        let mut params = Params::new();
        params.push_parts(b"SCRIPT_FILENAME", &[b"/www", b"/", b"index.php"]);
        params.push_parts(b"EMPTY", &[]);
        let expected = encoded(&[(b"SCRIPT_FILENAME", b"/www/index.php"), (b"EMPTY", b"")]);
        assert_eq!(params.bytes(), expected.bytes());
    }

    #[test]
    fn clearing_keeps_a_bounded_buffer() {
        let mut params = encoded(&[(b"n", &[0; 1 << 20])]);
        assert!(!params.is_empty());
        params.clear();
        assert!(
            params.is_empty() && params.bytes.capacity() >= KEPT_PARAMS && params.bytes.capacity() < 1 << 20
        );
        params.push(b"n", b"v");
        assert_eq!(params.bytes(), b"\x01\x01nv");
    }

    #[test]
    fn fronts_of_pairs_end_between_two_of_them() {
        let params = encoded(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"0123456789")]);
        for (limit, expected) in [(3, 4), (4, 4), (7, 4), (8, 8), (20, 8), (21, 21), (99, 21)] {
            assert_eq!(pairs_within(params.bytes(), limit), expected, "{limit}");
        }
        assert_eq!(pairs_within(&params.bytes()[8..], 4), 13, "a pair longer than the limit");
        assert_eq!(pairs_within(b"\x7f\x7fabc", 4), 5, "malformed");
        assert_eq!(pairs_within(b"\x01\x01nv\x7f\x7fabc", 6), 4, "malformed behind a pair");
    }

    proptest! {
        #[test]
        fn decoding_never_panics_and_agrees_with_encoding(bytes: Vec<u8>) {
            if let Ok(found) = pairs(&bytes) {
                let list: Vec<_> = found.collect();
                let params = encoded(&list);
                prop_assert!(params.len() <= bytes.len());
                prop_assert_eq!(pairs(params.bytes()).expect("well-formed").collect::<Vec<_>>(), list);
            }
        }
    }
}
