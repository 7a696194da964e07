//! A simplified lexer of Rust for declarations: words and punctuation, without comments and literals.

/// A lexeme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lexeme<'t> {
    /// A keyword, a name, a lifetime's name, or a number.
    Word(&'t str),
    /// One character of punctuation.
    Mark(char),
}

/// Iterates over the lexemes of a valid source text.
#[derive(Debug, Clone)]
pub(super) struct Lexemes<'t> {
    rest: &'t str,
}

impl<'t> Lexemes<'t> {
    /// The lexemes of a text.
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn word(&mut self) -> Option<Lexeme<'t>> {
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() && is_part(bytes[end]) {
            end += 1;
        }
        let word = &self.rest[..end];
        self.skip(end);
        if matches!(word, "r" | "br" | "cr") {
            let hashes = self.rest.len() - self.rest.trim_start_matches('#').len();
            if self.rest[hashes..].starts_with('"') {
                let end = format!("\"{}", "#".repeat(hashes));
                let string = &self.rest[hashes + 1..];
                self.rest = string.split_once(&end).map_or("", |(_, after)| after);
                return self.next();
            }
            if hashes == 1 {
                // A raw identifier.
                self.skip(1);
                return self.word();
            }
        }
        Some(Lexeme::Word(word))
    }
}

impl<'t> Iterator for Lexemes<'t> {
    type Item = Lexeme<'t>;

    fn next(&mut self) -> Option<Lexeme<'t>> {
        loop {
            let bytes = self.rest.as_bytes();
            let first = *bytes.first()?;
            match first {
                b' ' | b'\n' | b'\t' => self.skip(1),
                b'/' if bytes.get(1) == Some(&b'/') => self.skip(self.rest.find('\n').unwrap_or(bytes.len())),
                b'/' if bytes.get(1) == Some(&b'*') => self.skip(block_comment(self.rest)),
                b'"' => self.skip(string(self.rest)),
                b'\'' => self.skip(character(self.rest)),
                _ if is_part(first) => return self.word(),
                _ => {
                    self.skip(1);
                    return Some(Lexeme::Mark(char::from(first)));
                }
            }
        }
    }
}

/// Whether a byte is part of a word. Outside of literals and comments, all non-ASCII characters are.
fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The length of the block comment at the start of a text. Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut end) = (0_usize, 0);
    while let Some(at) = text[end..].find(['/', '*']).map(|at| end + at) {
        let (step, length) = match text.get(at..at + 2) {
            Some("/*") => (1, 2),
            Some("*/") => (-1, 2),
            _ => (0, 1),
        };
        depth = depth.saturating_add_signed(step);
        end = at + length;
        if depth == 0 {
            return end;
        }
    }
    text.len()
}

/// The length of the string literal at the start of a text.
fn string(text: &str) -> usize {
    let mut end = 1;
    while let Some(at) = text.get(end..).and_then(|rest| rest.find(['"', '\\'])).map(|at| end + at) {
        if text[at..].starts_with('"') {
            return at + 1;
        }
        end = at + 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
    }
    text.len()
}

/// The length of the character literal at the start of a text. 1 for the apostrophe of a lifetime.
fn character(text: &str) -> usize {
    let mut after = text[1..].chars();
    match (after.next(), after.next()) {
        // The escaped character may be an apostrophe.
        (Some('\\'), Some(escaped)) => {
            let start = 2 + escaped.len_utf8();
            text[start..].find('\'').map_or(text.len(), |at| start + at + 1)
        }
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let written = |lexeme| match lexeme {
            Lexeme::Word(word) => word.to_owned(),
            Lexeme::Mark(mark) => mark.to_string(),
        };
        assert_eq!(Lexemes::new(text).map(written).collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn splits_words_and_punctuation() {
        check("fn f(x: &u8) -> a::B<0x1f> {}", "fn f ( x : & u8 ) - > a : : B < 0x1f > { }");
        check("é_1+r#type;r", "é_1 + type ; r");
    }

    #[test]
    fn the_lexer_skips_comments() {
        check("a // b \" '\nc /* d /* e */ f / * */ g", "a c g");
        check("a //", "a");
        check("a /* b", "a");
    }

    #[test]
    fn the_lexer_skips_string_literals() {
        check(r#"a "b \" { \\" c "" d"#, "a c d");
        check(r##"a r"b \" c r#"d " e"# f br"g" h"##, "a c f h");
        check("a \"b", "a");
        check("a r#\"b\"", "a");
    }

    #[test]
    fn distinguishes_character_literals_from_lifetimes() {
        check(r"a '{' b '\'' c '\u{7d}' d '\\' e 'é' f", "a b c d e f");
        check("X<'a, 'b>(&'static str)", "X < a , b > ( & static str )");
    }
}
