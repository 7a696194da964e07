//! Protocol Buffers: extracts one field of a message. Its number is a path through nested messages.

use std::borrow::Cow;

use weir_fingerprint::Canonical;

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::sample::SampleType::Bin;
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("protobuf", Bin, Bin, Run::Pure(protobuf), "A field of a Protocol Buffers message")
        .args(1, &[ArgKind::FieldNumber, ArgKind::Str])
        .check(check),
    Converter::new(
        "ungrpc",
        Bin,
        Bin,
        Run::Pure(ungrpc),
        "A field of the message that a gRPC message carries",
    )
    .args(1, &[ArgKind::FieldNumber, ArgKind::Str])
    .check(check),
];

/// The path of a field, and the type of its value.
#[derive(Debug, Canonical)]
struct Field {
    path: Box<[u64]>,
    kind: Option<Kind>,
}

/// The numeric types, by their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum Kind {
    Varint,
    /// Small negative numbers take few bytes.
    ZigZag,
    Fixed64,
    Fixed32 {
        signed: bool,
    },
    Double,
    Float,
}

impl Kind {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"int32" | b"uint32" | b"int64" | b"uint64" | b"bool" | b"enum" => Kind::Varint,
            b"sint32" | b"sint64" => Kind::ZigZag,
            b"fixed64" | b"sfixed64" => Kind::Fixed64,
            b"fixed32" => Kind::Fixed32 { signed: false },
            b"sfixed32" => Kind::Fixed32 { signed: true },
            b"double" => Kind::Double,
            b"float" => Kind::Float,
            _ => return None,
        })
    }
}

fn check(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let path: Box<[u64]> = match args.get(0) {
        Arg::FieldNumber(path) => path.iter().copied().map(u64::from).collect(),
        _ => return Err("A protocol buffers field number is expected".into()),
    };
    if path.len() > MAX_DEPTH {
        return Err(format!("A protocol buffers field number has at most {MAX_DEPTH} steps"));
    }
    let kind = match args.str(1) {
        None => None,
        Some(name) => {
            let kind = Kind::named(name);
            Some(kind.ok_or_else(|| format!("Wrong protocol buffers type '{}'", show(name)))?)
        }
    };
    args.set(0, Arg::Custom(std::sync::Arc::new(Field { path, kind })));
    Ok(())
}

fn show(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn protobuf<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let found = find(value.bytes()?, args.custom::<Field>(0)?)?;
    scratch::recycle(value);
    Some(found)
}

/// A gRPC message begins with a compression flag, which is ignored, and a length in four bytes.
fn ungrpc<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let [_, a, b, c, d, message @ ..] = value.bytes()? else { return None };
    let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
    let found = find(message.get(..length)?, args.custom::<Field>(0)?)?;
    scratch::recycle(value);
    Some(found)
}

fn find(mut message: &[u8], field: &Field) -> Option<Value<'static>> {
    let (last, path) = field.path.split_last()?;
    for &number in path {
        message = match first(message, number)? {
            FieldContent::Bytes(bytes) => bytes,
            FieldContent::Varint(..) | FieldContent::Fixed(_) => return None,
        };
    }
    let content = first(message, *last)?;
    Some(match (content, field.kind) {
        (FieldContent::Varint(raw, _) | FieldContent::Bytes(raw) | FieldContent::Fixed(raw), None) => {
            let mut out = scratch::take();
            out.extend_from_slice(raw);
            Value::Bin(Cow::Owned(out))
        }
        (FieldContent::Varint(_, number), Some(Kind::Varint)) => Value::Int(number as i64),
        (FieldContent::Varint(_, number), Some(Kind::ZigZag)) => {
            Value::Int((number >> 1) as i64 ^ -((number & 1) as i64))
        }
        (FieldContent::Fixed(raw), Some(kind)) => Value::Int(fixed(raw, kind)?),
        _ => return None,
    })
}

fn fixed(raw: &[u8], kind: Kind) -> Option<i64> {
    match (raw.len(), kind) {
        (8, Kind::Fixed64) => Some(i64::from_le_bytes(raw.try_into().ok()?)),
        (8, Kind::Double) => Some(f64::from_le_bytes(raw.try_into().ok()?) as i64),
        (4, Kind::Fixed32 { signed: true }) => Some(i32::from_le_bytes(raw.try_into().ok()?).into()),
        (4, Kind::Fixed32 { signed: false }) => Some(u32::from_le_bytes(raw.try_into().ok()?).into()),
        (4, Kind::Float) => Some(f32::from_le_bytes(raw.try_into().ok()?) as i64),
        _ => None,
    }
}

enum FieldContent<'m> {
    /// A number, and its encoded bytes.
    Varint(&'m [u8], u64),
    Bytes(&'m [u8]),
    /// Four or eight bytes.
    Fixed(&'m [u8]),
}

/// The first field with that number. None if the message contains none, or is invalid before it.
fn first(mut rest: &[u8], number: u64) -> Option<FieldContent<'_>> {
    while !rest.is_empty() {
        let (key, after) = varint(rest)?;
        let (content, after) = match key & 7 {
            0 => {
                let (value, next) = varint(after)?;
                (FieldContent::Varint(&after[..after.len() - next.len()], value), next)
            }
            1 => (FieldContent::Fixed(after.get(..8)?), &after[8..]),
            2 => {
                let (length, after) = varint(after)?;
                let length = usize::try_from(length).ok()?;
                (FieldContent::Bytes(after.get(..length)?), &after[length..])
            }
            5 => (FieldContent::Fixed(after.get(..4)?), &after[4..]),
            _ => return None,
        };
        if key >> 3 == number {
            return Some(content);
        }
        rest = after;
    }
    None
}

/// A number of seven bits per byte, least significant byte first, and the bytes after it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(MAX_VARINT) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// The longest encoding of a 64-bit number in bytes.
const MAX_VARINT: usize = 10;
/// A path has at most this many steps.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(message: &[u8], path: &[u64], kind: Option<&str>) -> Option<Value<'static>> {
        let kind = kind.map(|name| Kind::named(name.as_bytes()).expect("a type"));
        find(message, &Field { path: path.into(), kind })
    }

    #[test]
    fn protobuf_fields_are_found_by_their_path() {
        // 1: varint 150, 2: { 3: "abc", 4: fixed32 7 }, 5: double 2.5, 6: zigzag -2.
        let message = b"\x08\x96\x01\x12\x0a\x1a\x03abc\x25\x07\0\0\0\x29\0\0\0\0\0\0\x04\x40\x30\x03";
        let int = |path: &[u64], kind| match look_up(message, path, Some(kind)) {
            Some(Value::Int(number)) => Some(number),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(int(&[1], "int32"), Some(150));
        assert_eq!(int(&[2, 4], "fixed32"), Some(7));
        assert_eq!(int(&[5], "double"), Some(2));
        assert_eq!(int(&[6], "sint64"), Some(-2));
        assert_eq!(int(&[1], "double"), None, "another encoding");
        assert_eq!(int(&[2], "int32"), None, "no number");
        assert_eq!(int(&[9], "int32"), None, "no such field");
        let bytes = look_up(message, &[2, 3], None).expect("it is there");
        assert_eq!(bytes.bytes(), Some(&b"abc"[..]));
    }

    #[test]
    fn no_field_is_found_in_malformed_protobuf_messages() {
        for message in
            [&b"\x08"[..], b"\x12\x05ab", b"\x0d\x01", b"\x0b\x01", &[0xff; 20], b"\x12\xff\xff\xff\xff\x0f"]
        {
            for cut in 0..=message.len() {
                assert!(look_up(&message[..cut], &[2, 1], None).is_none());
            }
        }
    }
}
