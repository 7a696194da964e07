//! Typed data, and the lists of named values that consist of it (SPOE.txt, 3.1 and 3.2).

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_peers_protocol::{ByteReader, SessionFault, integer};

/// A payload that ends early, or has a type, scope, count or integer that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedPayload;

impl From<SessionFault> for MalformedPayload {
    fn from(_: SessionFault) -> Self {
        MalformedPayload
    }
}

/// A value with its type. Texts and binaries are borrowed from the payload.
///
/// Integers of all four types travel as 64 bits, signed ones as two's complement. HAProxy 3.2 does not reduce a received INT32
/// or UINT32 to 32 bits, so neither does this type. It sends its own integers as INT64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypedData<'a> {
    Null,
    Bool(bool),
    Int32(i64),
    Uint32(u64),
    Int64(i64),
    Uint64(u64),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
    /// The STRING of the specification. HAProxy does not check that it is UTF-8.
    Text(&'a [u8]),
    Binary(&'a [u8]),
}

impl<'a> TypedData<'a> {
    /// Reads a value from the front of `bytes`. Returns it with the rest.
    ///
    /// HAProxy 3.2 reads the unassigned types 10 to 15 as NULL and continues after the type's byte. Here they are an error in actions,
    /// because the bytes of such a value would be taken for the next action.
    ///
    /// # Errors
    /// The value is incomplete, its type is unassigned, or an integer exceeds 64 bits.
    pub fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), MalformedPayload> {
        let mut reader = ByteReader(bytes);
        Ok((Self::take(&mut reader)?, reader.0))
    }

    pub(crate) fn take(reader: &mut ByteReader<'a>) -> Result<Self, MalformedPayload> {
        let head = byte(reader)?;
        Ok(match head & TYPE_MASK {
            0 => TypedData::Null,
            // HAProxy 3.2 reads a value with reserved flags as false, although the specification only names the first bit.
            1 => TypedData::Bool(head & !TYPE_MASK == TRUE),
            2 => TypedData::Int32(reader.integer()?.cast_signed()),
            3 => TypedData::Uint32(reader.integer()?),
            4 => TypedData::Int64(reader.integer()?.cast_signed()),
            5 => TypedData::Uint64(reader.integer()?),
            6 => TypedData::Ipv4(Ipv4Addr::from(array(reader)?)),
            7 => TypedData::Ipv6(Ipv6Addr::from(array(reader)?)),
            8 => TypedData::Text(reader.counted_bytes()?),
            9 => TypedData::Binary(reader.counted_bytes()?),
            _ => return Err(MalformedPayload),
        })
    }

    /// Appends the value. One of 32 bits is not reduced.
    pub fn write(self, out: &mut Vec<u8>) {
        let number = |kind, value, out: &mut Vec<u8>| {
            out.push(kind);
            integer::write(value, out);
        };
        match self {
            TypedData::Null => out.push(0),
            TypedData::Bool(value) => out.push(if value { 1 | TRUE } else { 1 }),
            TypedData::Int32(value) => number(2, value.cast_unsigned(), out),
            TypedData::Uint32(value) => number(3, value, out),
            TypedData::Int64(value) => number(4, value.cast_unsigned(), out),
            TypedData::Uint64(value) => number(5, value, out),
            TypedData::Ipv4(address) => {
                out.push(6);
                out.extend_from_slice(&address.octets());
            }
            TypedData::Ipv6(address) => {
                out.push(7);
                out.extend_from_slice(&address.octets());
            }
            TypedData::Text(text) => {
                out.push(8);
                write_counted(text, out);
            }
            TypedData::Binary(bytes) => {
                out.push(9);
                write_counted(bytes, out);
            }
        }
    }

    /// The 64 bits of an integer of any of the four types.
    pub(crate) fn integer(self) -> Option<u64> {
        match self {
            TypedData::Int32(value) | TypedData::Int64(value) => Some(value.cast_unsigned()),
            TypedData::Uint32(value) | TypedData::Uint64(value) => Some(value),
            _ => None,
        }
    }
}

/// The type is in the lower half of the first byte, its flags in the upper one.
const TYPE_MASK: u8 = 0x0f;
/// The largest type that is assigned: BINARY.
const LAST_TYPE: u8 = 9;
/// The flag of a boolean that is true.
const TRUE: u8 = 0x10;

/// The next byte.
pub(crate) fn byte(reader: &mut ByteReader<'_>) -> Result<u8, MalformedPayload> {
    array(reader).map(|[byte]| byte)
}

fn array<const N: usize>(reader: &mut ByteReader<'_>) -> Result<[u8; N], MalformedPayload> {
    let (array, rest) = reader.0.split_first_chunk().ok_or(MalformedPayload)?;
    reader.0 = rest;
    Ok(*array)
}

/// Appends bytes after their count: the STRING of names, and the data of texts and binaries.
pub(crate) fn write_counted(bytes: &[u8], out: &mut Vec<u8>) {
    integer::write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends one item of a list of named values.
pub(crate) fn write_item(name: &[u8], value: TypedData<'_>, out: &mut Vec<u8>) {
    write_counted(name, out);
    value.write(out);
}

/// The items of a list of named values that fills its payload: a HELLO or DISCONNECT frame. It ends after an error.
///
/// A value of an unassigned type is a NULL without data, as in HAProxy 3.2. Later versions may add items, and the known ones decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Items<'a>(pub(crate) ByteReader<'a>);

impl<'a> Items<'a> {
    pub(crate) fn new(payload: &'a [u8]) -> Self {
        Items(ByteReader(payload))
    }

    /// The next item, of a type that is assigned.
    pub(crate) fn read_next(&mut self) -> Result<(&'a [u8], TypedData<'a>), MalformedPayload> {
        Ok((self.0.counted_bytes()?, TypedData::take(&mut self.0)?))
    }

    fn read_tolerantly(&mut self) -> Result<(&'a [u8], TypedData<'a>), MalformedPayload> {
        let name = self.0.counted_bytes()?;
        match self.0.0 {
            [head, rest @ ..] if head & TYPE_MASK > LAST_TYPE => {
                self.0 = ByteReader(rest);
                Ok((name, TypedData::Null))
            }
            _ => Ok((name, TypedData::take(&mut self.0)?)),
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<(&'a [u8], TypedData<'a>), MalformedPayload>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let item = self.read_tolerantly();
        if item.is_err() {
            self.0 = ByteReader(&[]);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(data: TypedData<'_>, expected: &[u8]) {
        let mut out = Vec::new();
        data.write(&mut out);
        assert_eq!(out, expected, "{data:?}");
        for cut in 0..out.len() {
            assert_eq!(TypedData::read(&out[..cut]), Err(MalformedPayload), "{data:?} {cut}");
        }
        out.push(0xee);
        assert_eq!(TypedData::read(&out), Ok((data, &[0xee][..])), "{data:?}");
    }

    #[test]
    fn each_type_survives_a_round_trip() {
        check(TypedData::Null, &[0]);
        check(TypedData::Bool(false), &[1]);
        check(TypedData::Bool(true), &[0x11]);
        check(TypedData::Int32(-1), &[2, 0xff, 0xf0, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0x0e]);
        check(TypedData::Uint32(16380), &[3, 0xfc, 0xf0, 0x06]);
        check(TypedData::Int64(5), &[4, 5]);
        check(TypedData::Uint64(240), &[5, 0xf0, 0]);
        check(TypedData::Ipv4(Ipv4Addr::LOCALHOST), b"\x06\x7f\0\0\x01");
        check(TypedData::Ipv6(Ipv6Addr::LOCALHOST), b"\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
        check(TypedData::Text(b"/x"), b"\x08\x02/x");
        check(TypedData::Binary(b"\xff\0"), b"\x09\x02\xff\0");
        check(TypedData::Text(b""), b"\x08\0");
    }

    #[test]
    fn unassigned_types_are_an_error() {
        for kind in 10..=15 {
            for flags in 0..16 {
                assert_eq!(TypedData::read(&[flags << 4 | kind, 0, 0]), Err(MalformedPayload));
            }
        }
    }

    #[test]
    fn flags_matter_for_booleans_only() {
        for flags in 0..16_u8 {
            let value = TypedData::Bool(flags == 1);
            assert_eq!(TypedData::read(&[flags << 4 | 1]), Ok((value, &[][..])));
            assert_eq!(TypedData::read(&[flags << 4]), Ok((TypedData::Null, &[][..])));
            assert_eq!(TypedData::read(&[flags << 4 | 8, 1, b'x']), Ok((TypedData::Text(b"x"), &[][..])));
        }
    }

    #[test]
    fn integers_keep_the_bits_that_haproxy_keeps() {
        let read = |bytes| TypedData::read(bytes).map(|(value, _)| value);
        // 2^32 + 5 and 2^32 - 1.
        assert_eq!(read(b"\x02\xf5\xf1\xfe\xfe\x7e"), Ok(TypedData::Int32((1 << 32) + 5)));
        assert_eq!(read(b"\x03\xff\xf0\xfe\xfe\x7e"), Ok(TypedData::Uint32((1 << 32) - 1)));
    }

    #[test]
    fn lengths_and_integers_beyond_64_bits_are_an_error() {
        for kind in [2, 3, 4, 5, 8, 9] {
            let bytes = [&[kind][..], &[0xff; 9], &[0x7f]].concat();
            assert_eq!(TypedData::read(&bytes), Err(MalformedPayload), "{kind}");
            let endless = [&[kind][..], &[0xff; 40]].concat();
            assert_eq!(TypedData::read(&endless), Err(MalformedPayload), "{kind}");
        }
        // A length of 2^63 and of the maximum.
        for length in [1 << 63, u64::MAX] {
            let mut bytes = vec![8];
            integer::write(length, &mut bytes);
            bytes.push(b'x');
            assert_eq!(TypedData::read(&bytes), Err(MalformedPayload));
        }
    }

    #[test]
    fn integers_at_each_border_have_the_documented_lengths() {
        let borders = [240, 2288, 264_432, 33_818_864, 4_328_786_160_u64];
        for (extra, border) in borders.into_iter().enumerate() {
            for (value, length) in [(border - 1, extra + 1), (border, extra + 2)] {
                let mut out = Vec::new();
                TypedData::Uint64(value).write(&mut out);
                assert_eq!(out.len(), 1 + length, "{value}");
                assert_eq!(TypedData::read(&out), Ok((TypedData::Uint64(value), &[][..])));
            }
        }
    }

    #[test]
    fn a_list_ends_after_an_error() {
        let mut items = Items::new(b"\x01a\x00\x01b\x08\x09\x01c\x00");
        assert_eq!(items.next(), Some(Ok((&b"a"[..], TypedData::Null))));
        assert_eq!(items.next(), Some(Err(MalformedPayload)));
        assert_eq!(items.next(), None);
    }

    #[test]
    fn an_item_of_an_unassigned_type_lacks_data() {
        for kind in 10..=15 {
            let bytes = [1, b'a', 0xf0 | kind, 1, b'b', 0x11];
            let expected = [Ok((&b"a"[..], TypedData::Null)), Ok((&b"b"[..], TypedData::Bool(true)))];
            assert_eq!(Vec::from_iter(Items::new(&bytes)), expected, "{kind}");
        }
        assert_eq!(Items::new(b"\x01a").next(), Some(Err(MalformedPayload)));
    }
}
