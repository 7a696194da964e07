//! Strings of JSON (RFC 8259, section 7).
//!
//! Every writer escapes `"`, `\` and controls. An [`Escaping`] decides the rest: HAProxy has several, and its users compare bytes.

use std::fmt;

/// How a writer escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Escaping {
    /// The characters with an escape of a letter, besides `"` and `\`: some of backspace, tab, newline, form feed, carriage return and the solidus.
    pub short: &'static str,
    /// Whether hexadecimal digits are uppercase.
    pub is_uppercase: bool,
    /// The characters from U+007F on that are escaped.
    pub beyond: Beyond,
}

/// Characters beyond printable ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    Stay,
    /// DEL and the controls to U+009F are escaped.
    StayButControls,
    /// All are escaped, as two surrogates from U+10000 on.
    Escaped,
}

/// The characters that have an escape of a letter, and the letters.
const LETTERS: [(char, char); 6] =
    [('\u{8}', 'b'), ('\t', 't'), ('\n', 'n'), ('\u{c}', 'f'), ('\r', 'r'), ('/', '/')];

impl Escaping {
    /// Appends `text` as a string, with its quotes.
    pub fn write(self, text: &str, out: &mut Vec<u8>) {
        out.push(b'"');
        let Ok(()) = self.escape(text, |piece| {
            out.extend_from_slice(piece.as_bytes());
            Ok::<(), std::convert::Infallible>(())
        });
        out.push(b'"');
    }

    /// `text` as a string with its quotes, for formatting.
    pub fn quoted(self, text: &str) -> QuotedString<'_> {
        QuotedString { escaping: self, text }
    }

    /// Appends one character of a string.
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

    /// Whether a character needs no escape.
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

    /// Gives the text in pieces: runs that need no escape, and escapes.
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

    /// Writes the escape of a character; returns its length.
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

/// A string of JSON with its quotes; see [`Escaping::quoted`].
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
    fn each_escaping_has_its_characters_and_forms() {
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
        fn another_reader_finds_the_text(text in any::<String>()) {
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
