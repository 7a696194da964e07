//! One raw line becomes words: quotes, escapes, comments and environment variables (manual, sections 2.2, 2.3).
//!
//! | outside quotes | inside `"…"` | inside `'…'` |
//! |---|---|---|
//! | white space ends a word, `#` starts a comment | both are text | all is text |
//! | `\` before space `\` `#` `"` `'` means the character itself | also before `$` | |
//! | `\n` `\r` `\t` `\xHH` are one byte | the same | |
//! | `$` is text | `$NAME` `${NAME}` `${NAME-default}` `${NAME[*]}` expand | |
//!
//! A backslash before anything else stays. A variable's value is literal: quotes and comments in it are plain
//! text, and only `[*]` splits it into several words. Empty words from splitting are dropped.

use crate::environment::Environment;
use crate::source::{FileId, Span};
use crate::word::Word;
use std::fmt;

/// The most words of one line.
pub const MAX_WORDS: usize = 64;

/// The limit of a line in bytes, up to the end of its last word. It applies to the raw line and to the line with expanded variables.
/// Comments do not count. HAProxy does not limit a line; weir bounds the cost of one line.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The values of the pseudo-variables `.FILE`, `.LINE` and `.SECTION` on this line.
#[derive(Debug, Clone, Copy)]
pub struct Pseudo<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The number of the line, from one.
    pub line: u32,
    /// The name of the section, or its kind for a section without a name.
    pub section: &'a str,
}

/// The fault of a line that could not be split into words, and its raw column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LexError {
    pub fault: LexFault,
    /// The raw byte column, from zero.
    pub column: u32,
}

/// The ways in which a line can be malformed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LexFault {
    /// A quote that the line does not close.
    UnmatchedQuote,
    /// `\x` without two hexadecimal digits.
    InvalidHexadecimal,
    /// A variable's name starts with a character that no name may start with.
    InvalidVariableName,
    /// `${` without `}`.
    UnmatchedBrace,
    /// `[` after a name that is not `[*]`.
    InvalidExpansion,
    /// More than [`MAX_WORDS`]. Contains the last word that was kept.
    TooManyWords(String),
    /// More than [`MAX_LINE_BYTES`].
    LineTooLong,
}

/// Splits `raw` (one line without newline) into words. The result is empty for an empty line or a comment.
pub fn lex_line(
    raw: &[u8],
    file: FileId,
    pseudo: Pseudo<'_>,
    environment: &Environment,
) -> Result<Vec<Word>, LexError> {
    let lexer = Lexer {
        raw,
        at: 0,
        file,
        pseudo,
        environment,
        words: Vec::new(),
        started: None,
        bytes: Vec::new(),
        columns: Vec::new(),
        quoted: false,
        split: false,
        budget: MAX_LINE_BYTES,
    };
    lexer.run()
}

struct Lexer<'a> {
    raw: &'a [u8],
    at: usize,
    file: FileId,
    pseudo: Pseudo<'a>,
    environment: &'a Environment,
    words: Vec<Word>,
    /// The raw column where the current word started.
    started: Option<usize>,
    bytes: Vec<u8>,
    columns: Vec<u32>,
    quoted: bool,
    /// Whether `[*]` split or created the word. Such a word is dropped if it is empty.
    split: bool,
    /// Remaining bytes that variables may add to this line.
    budget: usize,
}

impl Lexer<'_> {
    fn run(mut self) -> Result<Vec<Word>, LexError> {
        while let Some(&byte) = self.raw.get(self.at) {
            match byte {
                b'#' => break,
                byte if is_space(byte) => {
                    self.finish_word()?;
                    self.at += 1;
                }
                b'"' => self.weak_quotes()?,
                b'\'' => self.strong_quotes()?,
                b'\\' => self.escape(b" \\#\"'")?,
                _ => self.plain_run()?,
            }
        }
        self.finish_word()?;
        Ok(self.words)
    }

    /// Takes the bytes up to the next special character; most words consist only of these.
    fn plain_run(&mut self) -> Result<(), LexError> {
        let (start, rest) = (self.at, &self.raw[self.at..]);
        let length = rest.iter().position(|&byte| is_special(byte)).unwrap_or(rest.len());
        self.at += length;
        let whole = rest.get(length).is_none_or(|&byte| is_space(byte) || byte == b'#');
        if whole && self.started.is_none() {
            // A word without quotes and escapes needs no columns.
            return self.add_word(start, rest[..length].to_vec(), None);
        }
        self.started.get_or_insert(start);
        self.bytes.extend_from_slice(&rest[..length]);
        self.columns.extend((start..self.at).map(|column| column as u32));
        Ok(())
    }

    fn strong_quotes(&mut self) -> Result<(), LexError> {
        let opening = self.open_quote();
        while let Some(&byte) = self.raw.get(self.at) {
            if byte == b'\'' {
                self.at += 1;
                return Ok(());
            }
            self.push(byte, self.at);
            self.at += 1;
            self.check_length()?;
        }
        Err(fault(LexFault::UnmatchedQuote, opening))
    }

    fn weak_quotes(&mut self) -> Result<(), LexError> {
        let opening = self.open_quote();
        while let Some(&byte) = self.raw.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => self.escape(b" \\#\"'$")?,
                b'$' => self.variable()?,
                _ => {
                    self.push(byte, self.at);
                    self.at += 1;
                }
            }
            self.check_length()?;
        }
        Err(fault(LexFault::UnmatchedQuote, opening))
    }

    fn open_quote(&mut self) -> usize {
        let opening = self.at;
        self.started.get_or_insert(opening);
        self.quoted = true;
        self.at += 1;
        opening
    }

    /// Reads `\` and the bytes after it. `literal` lists the characters that it escapes here.
    fn escape(&mut self, literal: &[u8]) -> Result<(), LexError> {
        let backslash = self.at;
        self.started.get_or_insert(backslash);
        let (byte, length) = match self.raw.get(backslash + 1) {
            Some(&byte) if literal.contains(&byte) => (byte, 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'x') => match self.raw.get(backslash + 2..backslash + 4).and_then(hexadecimal) {
                Some(byte) => (byte, 4),
                None => return Err(fault(LexFault::InvalidHexadecimal, backslash)),
            },
            _ => (b'\\', 1),
        };
        self.push(byte, backslash);
        self.at += length;
        Ok(())
    }

    /// Reads `$NAME` or `${NAME}` with its suffixes, inside double quotes.
    fn variable(&mut self) -> Result<(), LexError> {
        let dollar = self.at;
        let braced = self.raw.get(dollar + 1) == Some(&b'{');
        let name_at = dollar + 1 + usize::from(braced);
        let name_end = self.name_end(name_at)?;
        let name = &self.raw[name_at..name_end];
        let (mut end, mut split, mut default) = (name_end, false, &b""[..]);
        if braced {
            let unmatched = fault(LexFault::UnmatchedBrace, dollar + 1);
            if self.raw.get(end) == Some(&b'[') {
                if !self.raw[end..].starts_with(b"[*]") {
                    return Err(fault(LexFault::InvalidExpansion, end));
                }
                (end, split) = (end + 3, true);
            }
            if self.raw.get(end) == Some(&b'-') {
                let length = self.raw[end + 1..].iter().position(|&b| b == b'}').ok_or(unmatched.clone())?;
                default = &self.raw[end + 1..end + 1 + length];
                end += 1 + length;
            }
            if self.raw.get(end) != Some(&b'}') {
                return Err(unmatched);
            }
            end += 1;
        }
        let value = self.value(name).unwrap_or_else(|| default.to_vec());
        self.budget = self.budget.checked_sub(value.len()).ok_or(fault(LexFault::LineTooLong, dollar))?;
        self.at = end; // first, so that every word made of the value covers the variable
        self.expand(&value, dollar, split)
    }

    fn name_end(&self, start: usize) -> Result<usize, LexError> {
        let rest = &self.raw[start..];
        match rest.first() {
            Some(b'.') => PSEUDO_VARIABLES
                .iter()
                .find(|name| rest.starts_with(name) && !rest.get(name.len()).is_some_and(|&b| is_name(b)))
                .map(|name| start + name.len())
                .ok_or(fault(LexFault::InvalidVariableName, start)),
            Some(&byte) if is_name(byte) && !byte.is_ascii_digit() => {
                Ok(start + rest.iter().position(|&b| !is_name(b)).unwrap_or(rest.len()))
            }
            _ => Err(fault(LexFault::InvalidVariableName, start)),
        }
    }

    fn value(&self, name: &[u8]) -> Option<Vec<u8>> {
        match name {
            b".FILE" => Some(self.pseudo.file.as_bytes().to_vec()),
            b".LINE" => Some(self.pseudo.line.to_string().into_bytes()),
            b".SECTION" => Some(self.pseudo.section.as_bytes().to_vec()),
            _ => self.environment.value(name).map(<[u8]>::to_vec),
        }
    }

    /// Adds a variable's value. With `split`, every run of white space ends the current word and starts a new one, even at the ends
    /// of the value.
    fn expand(&mut self, value: &[u8], dollar: usize, split: bool) -> Result<(), LexError> {
        let mut after_space = false;
        self.split |= split;
        for &byte in value {
            if split && (is_space(byte) || byte == b'\n') {
                after_space = true;
                continue;
            }
            if std::mem::take(&mut after_space) {
                self.restart_word(dollar)?;
            }
            self.push(byte, dollar);
        }
        if after_space {
            self.restart_word(dollar)?;
        }
        Ok(())
    }

    fn restart_word(&mut self, dollar: usize) -> Result<(), LexError> {
        self.finish_word()?;
        self.started = Some(dollar);
        self.quoted = true;
        self.split = true;
        Ok(())
    }

    fn push(&mut self, byte: u8, column: usize) {
        self.bytes.push(byte);
        self.columns.push(column as u32);
    }

    fn finish_word(&mut self) -> Result<(), LexError> {
        let Some(start) = self.started.take() else { return Ok(()) };
        let bytes = std::mem::take(&mut self.bytes);
        let columns = std::mem::take(&mut self.columns);
        if std::mem::take(&mut self.split) && bytes.is_empty() {
            self.quoted = false;
            return Ok(());
        }
        self.add_word(start, bytes, Some(columns))
    }

    fn check_length(&self) -> Result<(), LexError> {
        match self.at > MAX_LINE_BYTES {
            true => Err(fault(LexFault::LineTooLong, MAX_LINE_BYTES)),
            false => Ok(()),
        }
    }

    fn add_word(&mut self, start: usize, bytes: Vec<u8>, columns: Option<Vec<u32>>) -> Result<(), LexError> {
        if self.words.len() == MAX_WORDS {
            let last = &self.words[MAX_WORDS - 1];
            let kept = last.text().chars().take(MAX_QUOTED_CHARS).collect();
            return Err(LexError { fault: LexFault::TooManyWords(kept), column: last.span().start });
        }
        self.check_length()?;
        let span = Span::new(self.file, self.pseudo.line, start as u32, self.at as u32);
        let word = Word::new(bytes, span, columns);
        self.words.push(word.with_quotes(std::mem::take(&mut self.quoted)));
        Ok(())
    }
}

fn fault(fault: LexFault, column: usize) -> LexError {
    LexError { fault, column: column as u32 }
}

/// Whether a byte separates words: C's white space without the newline.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

fn is_special(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'#' | b'"' | b'\'' | b'\\')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

const PSEUDO_VARIABLES: [&[u8]; 3] = [b".FILE", b".LINE", b".SECTION"];

/// The limit of characters of a word in a message.
const MAX_QUOTED_CHARS: usize = 64;

impl fmt::Display for LexError {
    /// HAProxy's message, with the position counted from one.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.column + 1;
        match &self.fault {
            LexFault::UnmatchedQuote => write!(formatter, "unmatched quote at position {position}"),
            LexFault::InvalidHexadecimal => {
                write!(formatter, "truncated or invalid hexadecimal sequence at position {position}")
            }
            LexFault::InvalidVariableName => {
                write!(formatter, "forbidden first char in environment variable name at position {position}")
            }
            LexFault::UnmatchedBrace => {
                write!(formatter, "unmatched brace in environment variable name at position {position}")
            }
            LexFault::InvalidExpansion => {
                write!(formatter, "truncated or invalid word expansion sequence at position {position}")
            }
            LexFault::TooManyWords(last) => write!(
                formatter,
                "too many words, truncating after word {MAX_WORDS}, position {position}: <{last}>."
            ),
            LexFault::LineTooLong => write!(formatter, "line too long, limit: {MAX_LINE_BYTES}."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    fn environment() -> Environment {
        Environment::from_iter([
            ("A", "one two"),
            ("E", ""),
            ("L", "a  b\tc"),
            ("S", " a b "),
            ("Q", "\"#'$A"),
        ])
    }

    fn lex(raw: &[u8]) -> Result<Vec<Word>, LexError> {
        let file = SourceMap::new().add("f.cfg", Vec::new());
        let pseudo = Pseudo { file: "f.cfg", line: 7, section: "web" };
        lex_line(raw, file, pseudo, &environment())
    }

    #[track_caller]
    fn check(raw: &str, expected: &[&str]) {
        let words = lex(raw.as_bytes()).unwrap();
        let texts: Vec<&str> = words.iter().map(Word::text).collect();
        assert_eq!(texts, expected, "{raw}");
    }

    #[track_caller]
    fn check_fault(raw: &str, fault: LexFault, position: u32) {
        assert_eq!(lex(raw.as_bytes()), Err(LexError { fault, column: position - 1 }), "{raw}");
    }

    #[test]
    fn splits_words_and_drops_comments() {
        check("", &[]);
        check("  \t# nothing", &[]);
        check("  bind\t:80  # here", &["bind", ":80"]);
        check("a#b", &["a"]);
        check("maxconn 1\u{b}0\r", &["maxconn", "1", "0"]);
    }

    #[test]
    fn resolves_quotes_and_escapes() {
        check(r"a\#b a\ b a\\b a\'b a\zb a\", &["a#b", "a b", r"a\b", "a'b", r"a\zb", r"a\"]);
        check(r#"a"b"'c'd "" ''"#, &["abcd", "", ""]);
        check(r##""a\b\q \" \$A '#'" 'a\zb"#'"##, &[r##"a\b\q " $A '#'"##, "a\\zb\"#"]);
        check(r"\x41\n\r\t", &["A\n\r\t"]);
        check("log-format \"%{+Q}o %t\"' %s'\\ %{-Q}r", &["log-format", "%{+Q}o %t %s %{-Q}r"]);
        assert_eq!(lex(br"\xff").unwrap()[0].bytes(), b"\xff");
    }

    #[test]
    fn expands_environment_variables_in_double_quotes() {
        check(r#"$A '$A' ${A}"#, &["$A", "$A", "${A}"]);
        check(r#"x"$A"y "${A}z" "$A-x" "$A$A""#, &["xone twoy", "one twoz", "one two-x", "one twoone two"]);
        check(r#""$N" "$E" "${E-d}" "${N-d e}" "${N-}" "${N-a\}b}""#, &["", "", "", "d e", "", "a\\b}"]);
        check(r#""${N-${A}}" "$Q""#, &["${A}", "\"#'$A"]);
        check(r#""$.FILE:${.LINE}:$.SECTION""#, &["f.cfg:7:web"]);
    }

    #[test]
    fn expands_array_variables_into_several_words() {
        check(r#""${A[*]}" z"#, &["one", "two", "z"]);
        check(r#""${L[*]}""#, &["a", "b", "c"]);
        check(r#""${S[*]}x""#, &["a", "b", "x"]);
        check(r#""x${S[*]}" y"#, &["x", "a", "b", "y"]);
        check(r#""${E[*]}" "${N[*]}" "a${E[*]}b""#, &["ab"]);
        check(r#""${N[*]-a b}""#, &["a", "b"]);
    }

    #[test]
    fn the_line_limit_counts_only_words() {
        check(&format!("a #{}", "x".repeat(10 << 20)), &["a"]);
        check(&" ".repeat(MAX_LINE_BYTES + 1), &[]);
        check(&format!("a{}", " ".repeat(MAX_LINE_BYTES)), &["a"]);
        let too_long = |text: String| check_fault(&text, LexFault::LineTooLong, MAX_LINE_BYTES as u32 + 1);
        too_long(format!("{}b", " ".repeat(MAX_LINE_BYTES)));
        too_long(format!("'{}'", "b".repeat(MAX_LINE_BYTES)));
        too_long(format!("\"{}\"", "b".repeat(MAX_LINE_BYTES)));
    }

    #[test]
    fn lexer_errors_name_the_column() {
        check_fault("log \"a", LexFault::UnmatchedQuote, 5);
        check_fault("log \"a\\", LexFault::UnmatchedQuote, 5);
        check_fault("log 'a", LexFault::UnmatchedQuote, 5);
        check_fault(r"log \x4", LexFault::InvalidHexadecimal, 5);
        check_fault(r"log \xzz", LexFault::InvalidHexadecimal, 5);
        check_fault(r#".notice "$1""#, LexFault::InvalidVariableName, 11);
        check_fault(r#".notice "${}""#, LexFault::InvalidVariableName, 12);
        check_fault(r#".notice "${.NOPE}""#, LexFault::InvalidVariableName, 12);
        check_fault(r#".notice "$.FILEX""#, LexFault::InvalidVariableName, 11);
        check_fault(r#".notice "${A""#, LexFault::UnmatchedBrace, 11);
        check_fault(r#".notice "${A-b""#, LexFault::UnmatchedBrace, 11);
        check_fault(r#".notice "${A[x]}""#, LexFault::InvalidExpansion, 13);
    }

    #[test]
    fn rejects_too_many_words_and_too_long_lines() {
        check(&"a ".repeat(MAX_WORDS), &["a"; MAX_WORDS]);
        check_fault(&"a ".repeat(MAX_WORDS + 1), LexFault::TooManyWords("a".into()), 127);
        check_fault(&"a".repeat(MAX_LINE_BYTES + 1), LexFault::LineTooLong, MAX_LINE_BYTES as u32 + 1);
        let file = SourceMap::new().add("f", Vec::new());
        let environment = Environment::from_iter([("A", "a".repeat(MAX_LINE_BYTES / 2 + 1))]);
        let pseudo = Pseudo { file: "f", line: 1, section: "" };
        let error = lex_line(br#""$A$A""#, file, pseudo, &environment).unwrap_err();
        assert_eq!(error, LexError { fault: LexFault::LineTooLong, column: 3 });
    }

    #[test]
    fn word_spans_are_columns_of_the_raw_line() {
        let words = lex(br#"  a "x $A" b\ c "${A[*]}" end"#).unwrap();
        let spans: Vec<(u32, u32)> = words.iter().map(|word| (word.span().start, word.span().end)).collect();
        assert_eq!(&spans[..3], [(2, 3), (4, 10), (11, 15)]);
        assert_eq!(spans[5], (26, 29));
        assert_eq!(words[1].span_of(3..4).start, 7); // inside the variable: its dollar
        assert_eq!(words[2].span_of(2..3).start, 14);
        assert_eq!(words[3].span().start, 16);
        assert_eq!(words[4].span().start, 17); // the second word of the variable
    }
}
