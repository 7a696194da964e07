//! Values for machines: JSON, and CBOR (RFC 8949).

use std::io::Write as _;

use crate::sample::{SampleType, Value};
use crate::scratch;

/// How named values are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    /// As bytes, or as hexadecimal digits.
    Cbor {
        binary: bool,
    },
}

impl Encoding {
    /// Begins the map of named values.
    pub(super) fn open(self, out: &mut Vec<u8>) {
        match self {
            Encoding::Json => out.push(b'{'),
            Encoding::Cbor { .. } => self.cbor(out, &[0xbf]),
        }
    }

    /// Writes a name; `first` says whether it begins the map.
    pub(super) fn name(self, name: &str, first: bool, out: &mut Vec<u8>) {
        match self {
            Encoding::Json => {
                if !first {
                    out.extend_from_slice(b", ");
                }
                json_string(name.as_bytes(), out);
                out.extend_from_slice(b": ");
            }
            Encoding::Cbor { .. } => self.cbor_text(name.as_bytes(), out),
        }
    }

    /// Ends the map.
    pub(super) fn close(self, out: &mut Vec<u8>) {
        match self {
            Encoding::Json => out.push(b'}'),
            Encoding::Cbor { .. } => self.cbor(out, &[0xff]),
        }
    }

    /// Writes a value, or that there is none.
    pub(super) fn value(self, value: Option<Value<'_>>, out: &mut Vec<u8>) {
        match (self, value) {
            (Encoding::Json, None) => out.extend_from_slice(b"null"),
            (Encoding::Cbor { .. }, None) => self.cbor(out, &[0xf6]),
            (Encoding::Json, Some(Value::Bool(value))) => {
                out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            (Encoding::Cbor { .. }, Some(Value::Bool(value))) => self.cbor(out, &[0xf4 + u8::from(value)]),
            (Encoding::Json, Some(Value::Int(value))) => {
                let _ = write!(out, "{value}");
            }
            (Encoding::Cbor { .. }, Some(Value::Int(value))) => match value {
                0.. => self.cbor_head(0, value as u64, out),
                // A negative number n is written as -1 - n.
                _ => self.cbor_head(1, !value as u64, out),
            },
            (_, Some(value)) => {
                let Some(value) = value.cast(SampleType::Str) else { return self.value(None, out) };
                let bytes = value.bytes().unwrap_or_default();
                match self {
                    Encoding::Json => json_string(bytes, out),
                    Encoding::Cbor { .. } => self.cbor_text(bytes, out),
                }
                scratch::recycle(value);
            }
        }
    }

    fn cbor_text(self, text: &[u8], out: &mut Vec<u8>) {
        self.cbor_head(3, text.len() as u64, out);
        self.cbor(out, text);
    }

    /// The first byte of an item and, unless it fits there, its number in the fewest bytes.
    fn cbor_head(self, major: u8, number: u64, out: &mut Vec<u8>) {
        let bytes = number.to_be_bytes();
        let (short, width) = match number {
            0..=23 => (number as u8, 0),
            24..=0xff => (24, 1),
            0x100..=0xffff => (25, 2),
            0x1_0000..=0xffff_ffff => (26, 4),
            _ => (27, 8),
        };
        self.cbor(out, &[major << 5 | short]);
        self.cbor(out, &bytes[8 - width..]);
    }

    fn cbor(self, out: &mut Vec<u8>, bytes: &[u8]) {
        if self == (Encoding::Cbor { binary: true }) {
            return out.extend_from_slice(bytes);
        }
        for byte in bytes {
            let _ = write!(out, "{byte:02X}");
        }
    }
}

/// A JSON string; bytes that are not UTF-8 are replaced.
fn json_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        let _ = match character {
            '"' => write!(out, "\\\""),
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            '\0'..='\x1f' | '\x7f' => write!(out, "\\u{:04x}", character as u32),
            _ => write!(out, "{character}"),
        };
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(encoding: Encoding, value: Option<Value<'_>>, expected: &str) {
        let mut out = Vec::new();
        encoding.value(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn json_values() {
        check(Encoding::Json, None, "null");
        check(Encoding::Json, Some(Value::Bool(true)), "true");
        check(Encoding::Json, Some(Value::Int(-5)), "-5");
        check(Encoding::Json, Some(Value::str(b"a\"\\\n\x01\xff")), "\"a\\\"\\\\\\n\\u0001\u{fffd}\"");
    }

    /// Values of appendix A of RFC 8949.
    #[test]
    fn cbor_values() {
        let hex = Encoding::Cbor { binary: false };
        check(hex, None, "F6");
        check(hex, Some(Value::Bool(false)), "F4");
        for (number, expected) in [
            (0, "00"),
            (23, "17"),
            (24, "1818"),
            (1000, "1903E8"),
            (1_000_000, "1A000F4240"),
            (1_000_000_000_000, "1B000000E8D4A51000"),
            (-1, "20"),
            (-100, "3863"),
            (-1000, "3903E7"),
            (i64::MIN, "3B7FFFFFFFFFFFFFFF"),
        ] {
            check(hex, Some(Value::Int(number)), expected);
        }
        check(hex, Some(Value::str(b"IETF")), "6449455446");
    }
}
