//! Keys of entries, as 32-bit words.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_expr::Value;
use weir_expr::table::KeyType;

use crate::layout::words_of_key;

/// A key of a table, in the form in which entries store it.
#[derive(Debug, Clone)]
pub struct Key {
    words: KeyWords,
}

/// The words of a key. Short keys need no allocation.
#[derive(Debug, Clone)]
enum KeyWords {
    Short([u32; SHORT], usize),
    Long(Vec<u32>),
}

/// Number of words of a string key of the default length, plus the word for its length.
const SHORT: usize = 9;

impl Key {
    /// The key of a sample in a table with this key type. `None` if the sample cannot be converted.
    pub fn of(value: Value<'_>, kind: KeyType) -> Option<Key> {
        match (value.cast(kind.sample_type())?, kind) {
            (Value::Ipv4(address), _) => Some(Key::short(&[u32::from(address)])),
            (Value::Ipv6(address), _) => {
                let bits = u128::from(address);
                let word = |shift: u32| (bits >> shift) as u32;
                Some(Key::short(&[word(96), word(64), word(32), word(0)]))
            }
            (Value::Int(number), _) => Some(Key::short(&[number as u32])),
            (Value::Str(bytes), KeyType::Text(length)) => {
                let bytes = &bytes[..bytes.len().min(length.min(KeyType::MAX_STORED) as usize)];
                Some(Key::packed(words_of_key(kind), Some(bytes.len() as u32), bytes))
            }
            (Value::Bin(bytes), KeyType::Binary(length)) => {
                Some(Key::packed(words_of_key(kind), None, &bytes[..bytes.len().min(length as usize)]))
            }
            _ => None,
        }
    }

    fn short(words: &[u32]) -> Key {
        let mut room = [0; SHORT];
        room[..words.len()].copy_from_slice(words);
        Key { words: KeyWords::Short(room, words.len()) }
    }

    /// Bytes packed into words. If the length varies, the first word holds it.
    fn packed(words: usize, length: Option<u32>, bytes: &[u8]) -> Key {
        let mut words = match words <= SHORT {
            true => KeyWords::Short([0; SHORT], words),
            false => KeyWords::Long(vec![0; words]),
        };
        let room = match &mut words {
            KeyWords::Short(room, count) => &mut room[..*count],
            KeyWords::Long(room) => &mut room[..],
        };
        let from = usize::from(length.is_some());
        if let (Some(length), Some(first)) = (length, room.first_mut()) {
            *first = length;
        }
        for (word, bytes) in room[from..].iter_mut().zip(bytes.chunks(4)) {
            let mut four = [0; 4];
            four[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_ne_bytes(four);
        }
        Key { words }
    }

    /// The key's words.
    #[inline]
    pub(crate) fn words(&self) -> &[u32] {
        match &self.words {
            KeyWords::Short(room, count) => &room[..*count],
            KeyWords::Long(room) => room,
        }
    }
}

/// The value of a stored key.
pub(crate) fn value_of(words: &[u32], kind: KeyType) -> Value<'static> {
    let first = words.first().copied().unwrap_or_default();
    match kind {
        KeyType::Ipv4 => Value::Ipv4(Ipv4Addr::from(first)),
        KeyType::Ipv6 => Value::Ipv6(ipv6(words)),
        KeyType::Integer => Value::Int(i64::from(first)),
        KeyType::Text(_) => Value::Str(unpacked(words.get(1..).unwrap_or_default(), first as usize).into()),
        KeyType::Binary(length) => Value::Bin(unpacked(words, length as usize).into()),
    }
}

fn ipv6(words: &[u32]) -> Ipv6Addr {
    let bits = words.iter().fold(0_u128, |bits, word| bits << 32 | u128::from(*word));
    Ipv6Addr::from(bits)
}

fn unpacked(words: &[u32], length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.truncate(length);
    bytes
}

/// Two keys are the same if their words are.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Key {}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words().iter().try_for_each(|word| write!(out, "{word:08x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: Value<'_>, kind: KeyType, expected: Option<Value<'_>>) {
        let key = Key::of(value, kind);
        if let Some(key) = &key {
            assert_eq!(key.words().len(), words_of_key(kind));
        }
        assert_eq!(key.map(|key| value_of(key.words(), kind)), expected.map(Value::into_owned));
    }

    #[test]
    fn table_keys_convert_back_to_their_values() {
        check(Value::Ipv4(Ipv4Addr::LOCALHOST), KeyType::Ipv4, Some(Value::Ipv4(Ipv4Addr::LOCALHOST)));
        let address = "2001:db8::1:2".parse().expect("an address");
        check(Value::Ipv6(address), KeyType::Ipv6, Some(Value::Ipv6(address)));
        check(Value::Int(-1), KeyType::Integer, Some(Value::Int(4_294_967_295)));
        check(Value::str(b""), KeyType::Text(32), Some(Value::str(b"")));
        check(Value::bin(b"ab"), KeyType::Binary(4), Some(Value::bin(b"ab\0\0")));
        let long = [b'x'; 200];
        check(Value::str(&long), KeyType::Text(200), Some(Value::str(&long)));
    }

    #[test]
    fn long_keys_are_truncated_and_strings_convert_to_addresses() {
        check(Value::str(b"abcdef"), KeyType::Text(5), Some(Value::str(b"abcde")));
        check(Value::bin(b"abcdef"), KeyType::Binary(5), Some(Value::bin(b"abcde")));
        check(Value::str(b"192.0.2.1"), KeyType::Ipv4, Some(Value::Ipv4(Ipv4Addr::new(192, 0, 2, 1))));
        check(Value::str(b"nothing"), KeyType::Ipv4, None);
    }

    #[test]
    fn any_declared_key_length_is_accepted_without_reserving_memory() {
        let longest = KeyType::MAX_STORED as usize;
        let long = vec![b'x'; longest + 5];
        for declared in [longest as u32, longest as u32 + 1, i32::MAX as u32] {
            check(Value::str(&long), KeyType::Text(declared), Some(Value::str(&long[..longest])));
        }
        check(Value::str(b"ab"), KeyType::Text(i32::MAX as u32), Some(Value::str(b"ab")));
    }

    #[test]
    fn nul_bytes_are_part_of_a_string_key() {
        let key = |bytes| Key::of(Value::str(bytes), KeyType::Text(32));
        assert_ne!(key(b"a\0b"), key(b"a"));
        assert_ne!(key(b"a\0"), key(b"a"));
        assert_eq!(key(b"a\0b"), key(b"a\0b"));
    }
}
