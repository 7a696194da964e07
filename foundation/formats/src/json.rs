//! JSON strings (RFC 8259, section 7).
//!
//! Every writer escapes `"`, `\` and control characters. An [`Escaping`] defines the rest. HAProxy has several variants, and its
//! users compare bytes.

use std::fmt;

/// A variant of escaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaping {
    /// The characters with a two-character escape (such as `\n`) besides `"` and `\`.
    pub short: &'static str,
    /// Whether hexadecimal digits are uppercase.
    pub is_uppercase: bool,
    /// The treatment of characters from U+007F on.
    pub beyond: Beyond,
}

/// Characters beyond printable ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    Stay,
    /// Escapes DEL and the control characters up to U+009F.
    StayButControls,
    /// Escapes all characters, from U+10000 on as a surrogate pair.
    Escaped,
}

/// Characters with a two-character escape, and its letter.
const LETTERS: [(char, char); 6] =
    [('\u{8}', 'b'), ('\t', 't'), ('\n', 'n'), ('\u{c}', 'f'), ('\r', 'r'), ('/', '/')];

impl Escaping {
    /// Appends `text` as a quoted JSON string.
    pub fn write(self, text: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        let Ok(()) = self.escape(text, |piece| {
            out.extend_from_slice(piece.as_bytes());
            Ok::<(), std::convert::Infallible>(())
        });
        out.push(b'"');
    }

    /// Formats `text` as a quoted JSON string.
    pub fn quoted(self, text: &str) -> QuotedString<'_> {
        QuotedString { escaping: self, text }
    }

    /// Appends one character, escaped if necessary.
    #[inline]
    pub fn push(self, character: char, out: &mut Vec<u8>) {
        match u8::try_from(character) {
            Ok(byte @ b' '..=b'~') if self.stays(character) => out.push(byte),
            _ => {
                let Ok(()) = self.escape(character.encode_utf8(&mut [0; 4]), |piece| {
                    out.extend_from_slice(piece.as_bytes());
                    Ok::<(), std::convert::Infallible>(())
                });
            }
        }
    }

    /// Whether a character is written unescaped.
    #[inline]
    fn stays(self, character: char) -> bool {
        match character {
            '"' | '\\' | '\0'..=' ' => character == ' ',
            '/' => !self.short.contains('/'),
            '!'..='~' => true,
            '\u{7f}'..'\u{a0}' => self.beyond == Beyond::Stay,
            _ => self.beyond != Beyond::Escaped,
        }
    }

    /// Passes the text to `give` in pieces: runs of unescaped characters, and escapes.
    fn escape<E>(self, text: &str, mut give: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
        let mut start = 0;
        for (at, character) in text.char_indices().filter(|(_, character)| !self.stays(*character)) {
            if start < at {
                give(&text[start..at])?;
            }
            start = at + character.len_utf8();
            let mut escape = *b"\\u0000\\u0000";
            let length = self.fill(character, &mut escape);
            give(std::str::from_utf8(&escape[..length]).expect("an escape is ASCII"))?;
        }
        if start < text.len() { give(&text[start..]) } else { Ok(()) }
    }

    /// Writes the escape of a character. Returns its length.
    fn fill(self, character: char, escape: &mut [u8; 12]) -> usize {
        let letter = match character {
            '"' | '\\' => Some(character),
            _ if self.short.contains(character) => {
                LETTERS.iter().find(|(known, _)| *known == character).map(|(_, letter)| *letter)
            }
            _ => None,
        };
        if let Some(letter) = letter {
            escape[1] = letter as u8;
            return 2;
        }
        let digits = if self.is_uppercase { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units);
        for (place, unit) in escape.chunks_exact_mut(6).zip(&*units) {
            for (at, digit) in place[2..].iter_mut().enumerate() {
                *digit = digits[usize::from(unit >> (12 - 4 * at) & 15)];
            }
        }
        6 * units.len()
    }
}

/// A quoted JSON string. See [`Escaping::quoted`].
#[derive(Clone, Copy, Debug)]
pub struct QuotedString<'t> {
    escaping: Escaping,
    text: &'t str,
}

impl fmt::Display for QuotedString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        self.escaping.escape(self.text, |piece| f.write_str(piece))?;
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ESCAPINGS: [Escaping; 4] = [
        Escaping { short: "\n", is_uppercase: false, beyond: Beyond::Stay },
        Escaping { short: "\n\r\t", is_uppercase: false, beyond: Beyond::Stay },
        Escaping { short: "\u{8}\u{c}\n\r\t", is_uppercase: true, beyond: Beyond::StayButControls },
        Escaping { short: "\u{8}\u{c}\n\r\t/", is_uppercase: false, beyond: Beyond::Escaped },
    ];

    fn written(escaping: Escaping, text: &str) -> String {
        let mut out = Vec::new();
        escaping.write(text, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn each_json_escaping_mode_escapes_its_characters() {
        let text = "a/\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f} ~\u{7f}\u{9f}\u{a0}é€\u{1f600}";
        for (escaping, expected) in ESCAPINGS.into_iter().zip([
            "\"a/\\\"\\\\\\u0008\\u000c\\n\\u000d\\u0009\\u0001\\u001f ~\u{7f}\u{9f}\u{a0}é€\u{1f600}\"",
            "\"a/\\\"\\\\\\u0008\\u000c\\n\\r\\t\\u0001\\u001f ~\u{7f}\u{9f}\u{a0}é€\u{1f600}\"",
            "\"a/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001F ~\\u007F\\u009F\u{a0}é€\u{1f600}\"",
            r#""a\/\"\\\b\f\n\r\t\u0001\u001f ~\u007f\u009f\u00a0\u00e9\u20ac\ud83d\ude00""#,
        ]) {
            assert_eq!(written(escaping, text), expected);
        }
    }

    proptest! {
        #[test]
        fn escaped_strings_are_read_back_by_serde_json(text in any::<String>()) {
            for escaping in ESCAPINGS {
                let json = written(escaping, &text);
                prop_assert_eq!(&serde_json::from_str::<String>(&json).expect("a string of JSON"), &text);
                prop_assert_eq!(escaping.quoted(&text).to_string(), &*json);
                let mut pushed = vec![b'"'];
                text.chars().for_each(|character| escaping.push(character, &mut pushed));
                pushed.push(b'"');
                prop_assert_eq!(pushed, json.into_bytes());
            }
        }
    }
}
