//! Values encoded as JSON or CBOR (RFC 8949).

use std::io::Write as _;

use weir_fingerprint::Canonical;
use weir_formats::json::{Beyond, Escaping};

use crate::sample::{SampleType, Value};
use crate::scratch;

/// How named values are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Canonical)]
pub(crate) enum Encoding {
    /// With `utf8` valid UTF-8 stays. Otherwise every byte beyond ASCII is escaped.
    Json { utf8: bool },
    /// With `binary` values are bytes. Otherwise hexadecimal digits.
    Cbor { binary: bool },
}

impl Encoding {
    /// Begins the map of named values.
    pub(crate) fn open(self, out: &mut Vec<u8>) {
        match self {
            Encoding::Json { .. } => out.push(b'{'),
            Encoding::Cbor { .. } => self.cbor(out, &[0xbf]),
        }
    }

    /// Writes a name. `first` is true for the first name of the map.
    pub(crate) fn name(self, name: &str, first: bool, out: &mut Vec<u8>) {
        match self {
            Encoding::Json { utf8 } => {
                if !first {
                    out.extend_from_slice(b", ");
                }
                json_string(name.as_bytes(), utf8, out);
                out.extend_from_slice(b": ");
            }
            Encoding::Cbor { .. } => self.cbor_text(name.as_bytes(), out),
        }
    }

    /// Ends the map.
    pub(crate) fn close(self, out: &mut Vec<u8>) {
        match self {
            Encoding::Json { .. } => out.push(b'}'),
            Encoding::Cbor { .. } => self.cbor(out, &[0xff]),
        }
    }

    /// Writes a null.
    pub(crate) fn null(self, out: &mut Vec<u8>) {
        match self {
            Encoding::Json { .. } => out.extend_from_slice(b"null"),
            Encoding::Cbor { .. } => self.cbor(out, &[0xf6]),
        }
    }

    /// Writes strings as a list. An empty list becomes a null.
    pub(crate) fn list<'t>(self, texts: impl Iterator<Item = &'t [u8]>, out: &mut Vec<u8>) {
        let mut texts = texts.peekable();
        if texts.peek().is_none() {
            return self.null(out);
        }
        match self {
            Encoding::Json { .. } => out.push(b'['),
            Encoding::Cbor { .. } => self.cbor(out, &[0x9f]),
        }
        for (index, text) in texts.enumerate() {
            match self {
                Encoding::Json { utf8 } => {
                    out.extend_from_slice(if index > 0 { b", " } else { b"" });
                    json_string(text, utf8, out);
                }
                Encoding::Cbor { .. } => self.cbor_text(text, out),
            }
        }
        match self {
            Encoding::Json { .. } => out.push(b']'),
            Encoding::Cbor { .. } => self.cbor(out, &[0xff]),
        }
    }

    /// Writes a value. None becomes an empty string in JSON. An empty string becomes null in CBOR.
    pub(crate) fn value(self, value: Option<Value<'_>>, out: &mut Vec<u8>) {
        match (self, value) {
            (Encoding::Json { .. }, Some(Value::Bool(value))) => {
                out.extend_from_slice(if value { b"true" } else { b"false" });
            }
            (Encoding::Cbor { .. }, Some(Value::Bool(value))) => self.cbor(out, &[0xf4 + u8::from(value)]),
            (Encoding::Json { .. }, Some(Value::Int(value))) => {
                let _ = write!(out, "{value}");
            }
            (Encoding::Cbor { .. }, Some(Value::Int(value))) => match value {
                0.. => self.cbor_head(0, value as u64, out),
                // A negative number n is written as -1 - n.
                _ => self.cbor_head(1, !value as u64, out),
            },
            (Encoding::Cbor { .. }, Some(Value::Bin(bytes))) if !bytes.is_empty() => {
                // A string of one chunk.
                self.cbor(out, &[0x5f]);
                self.cbor_head(2, bytes.len() as u64, out);
                self.cbor(out, &bytes);
                self.cbor(out, &[0xff]);
                scratch::recycle(Value::Bin(bytes));
            }
            (_, value) => {
                let value = value.and_then(|value| value.cast(SampleType::Str));
                let bytes = value.as_ref().and_then(Value::bytes).unwrap_or_default();
                match self {
                    Encoding::Json { utf8 } => json_string(bytes, utf8, out),
                    Encoding::Cbor { .. } if bytes.is_empty() => self.null(out),
                    Encoding::Cbor { .. } => self.cbor_text(bytes, out),
                }
                value.into_iter().for_each(scratch::recycle);
            }
        }
    }

    fn cbor_text(self, text: &[u8], out: &mut Vec<u8>) {
        self.cbor_head(3, text.len() as u64, out);
        self.cbor(out, text);
    }

    /// Writes the first byte of an item. If the number does not fit into it, the number follows in the fewest bytes.
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

/// Writes a JSON string. Escapes every byte beyond printable ASCII. With `utf8`, escapes only control characters and invalid UTF-8.
fn json_string(text: &[u8], utf8: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    if utf8 {
        for chunk in text.utf8_chunks() {
            chunk.valid().chars().for_each(|character| UTF8.push(character, out));
            chunk.invalid().iter().for_each(|byte| BYTES.push(char::from(*byte), out));
        }
    } else {
        text.iter().for_each(|byte| BYTES.push(char::from(*byte), out));
    }
    out.push(b'"');
}

const BYTES: Escaping = Escaping { short: "\u{8}\u{c}\n\r\t", is_uppercase: true, beyond: Beyond::Escaped };
const UTF8: Escaping = Escaping { beyond: Beyond::StayButControls, ..BYTES };

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(encoding: Encoding, value: Option<Value<'_>>, expected: &str) {
        let mut out = Vec::new();
        encoding.value(value, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// Results of HAProxy 3.2.
    #[test]
    fn encodes_values_as_json() {
        let json = Encoding::Json { utf8: false };
        check(json, None, "\"\"");
        check(json, Some(Value::str(b"")), "\"\"");
        check(json, Some(Value::Bool(true)), "true");
        check(json, Some(Value::Int(-5)), "-5");
        check(json, Some(Value::bin(b"A\xff\0B")), r#""A\u00FF""#);
        check(
            json,
            Some(Value::str(b"a\"\\\n\x08\x0c\r\t\x01/\x7f\xc3\xa9")),
            r#""a\"\\\n\b\f\r\t\u0001/\u007F\u00C3\u00A9""#,
        );
        let utf8 = Encoding::Json { utf8: true };
        check(utf8, Some(Value::str("é\u{85}€\n\u{a0}".as_bytes())), "\"é\\u0085€\\n\u{a0}\"");
        check(utf8, Some(Value::str(b"\xc3\xa9\xc2\xff\xe2\x82z")), r#""é\u00C2\u00FF\u00E2\u0082z""#);
    }

    #[test]
    fn encodes_lists_as_json_and_cbor() {
        let made = |encoding: Encoding, texts: &[&'static [u8]]| {
            let mut out = Vec::new();
            encoding.list(texts.iter().copied(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(made(Encoding::Json { utf8: false }, &[b"a", b"\""]), r#"["a", "\""]"#);
        assert_eq!(made(Encoding::Json { utf8: false }, &[]), "null");
        assert_eq!(made(Encoding::Cbor { binary: false }, &[b"a", b"-"]), "9F6161612DFF");
        assert_eq!(made(Encoding::Cbor { binary: false }, &[]), "F6");
    }

    /// Values of appendix A of RFC 8949.
    #[test]
    fn encodes_values_as_cbor() {
        let hex = Encoding::Cbor { binary: false };
        check(hex, None, "F6");
        check(hex, Some(Value::str(b"")), "F6");
        check(hex, Some(Value::bin(b"A\xff")), "5F4241FFFF");
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
