//! A line of input: commands separated by `;`, words separated by blanks, `\` to escape separators.
//!
//! Quotes are ordinary characters, as in HAProxy. A space within a word is written as `\ `. A line may end with `<<` or `<<PATTERN`.
//! Then a payload follows, up to an empty line or a line equal to the pattern.

use std::fmt;

/// Maximum number of words per command: twice as many as the longest `add server` command has.
pub const MAX_WORDS: usize = 64;

/// Maximum length of the pattern that ends a payload, in bytes.
pub const MAX_PATTERN: usize = 7;

/// A parsed input line: its commands, and the pattern that ends a payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The words of each command. An empty line is one command without words.
    pub commands: Vec<Vec<String>>,
    /// The pattern that ends the last command's payload. Empty for an empty line. `None` without a payload.
    pub payload: Option<String>,
}

/// A line that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    /// A command has more than [`MAX_WORDS`] words.
    TooManyWords,
    /// The line is not UTF-8.
    NotUtf8,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineError::TooManyWords => write!(f, "Too many words, the limit is {MAX_WORDS}."),
            LineError::NotUtf8 => f.write_str("The command is not valid UTF-8."),
        }
    }
}

impl CommandLine {
    /// Parses a line, given without its `\n` or `\r\n`.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let (bytes, payload) = split_payload(bytes);
        let mut splitter = Splitter::default();
        let mut escaped = false;
        for &byte in bytes {
            match byte {
                _ if escaped => {
                    escaped = false;
                    splitter.push(byte);
                }
                b'\\' => escaped = true,
                b';' => splitter.end_command()?,
                b' ' | b'\t' => splitter.end_word()?,
                _ => splitter.push(byte),
            }
        }
        splitter.end_command()?;
        Ok(Self { commands: splitter.commands, payload })
    }

    /// Whether a payload follows the line, even if the line itself cannot be parsed.
    pub fn announces_payload(bytes: &[u8]) -> bool {
        split_payload(bytes).1.is_some()
    }
}

#[derive(Default)]
struct Splitter {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    /// The current word. An escaped space starts a word, even without other characters.
    word: Option<Vec<u8>>,
}

impl Splitter {
    fn push(&mut self, byte: u8) {
        self.word.get_or_insert_default().push(byte);
    }

    fn end_word(&mut self) -> Result<(), LineError> {
        let Some(word) = self.word.take() else { return Ok(()) };
        if self.words.len() == MAX_WORDS {
            return Err(LineError::TooManyWords);
        }
        self.words.push(String::from_utf8(word).map_err(|_| LineError::NotUtf8)?);
        Ok(())
    }

    fn end_command(&mut self) -> Result<(), LineError> {
        self.end_word()?;
        self.commands.push(std::mem::take(&mut self.words));
        Ok(())
    }
}

/// Removes `<<PATTERN` from the end of a line, if it is a word of its own.
fn split_payload(bytes: &[u8]) -> (&[u8], Option<String>) {
    let start = bytes.iter().rposition(|&byte| matches!(byte, b' ' | b'\t' | b';')).map_or(0, |at| at + 1);
    let escaped = bytes[..start].ends_with(b"\\ ") || bytes[..start].ends_with(b"\\;");
    let pattern = bytes[start..].strip_prefix(b"<<").filter(|_| start > 0 && !escaped);
    match pattern.map(std::str::from_utf8) {
        Some(Ok(pattern)) if pattern.len() <= MAX_PATTERN && !pattern.contains('\\') => {
            (&bytes[..start], Some(pattern.to_owned()))
        }
        _ => (bytes, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, commands: &[&[&str]], payload: Option<&str>) {
        let line = CommandLine::parse(text.as_bytes()).unwrap();
        let found: Vec<Vec<&str>> =
            line.commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
        assert_eq!(found, commands, "{text}");
        assert_eq!(line.payload.as_deref(), payload, "{text}");
    }

    #[test]
    fn splits_a_line_at_blanks_and_semicolons() {
        check("", &[&[]], None);
        check(" \t ", &[&[]], None);
        check("show info", &[&["show", "info"]], None);
        check("  show\t info  ", &[&["show", "info"]], None);
        check("a;b c; d", &[&["a"], &["b", "c"], &["d"]], None);
        check("a;;b", &[&["a"], &[], &["b"]], None);
        check("a;", &[&["a"], &[]], None);
    }

    #[test]
    fn a_backslash_escapes_the_next_byte() {
        check(r"add acl f Mon\ User\ Agent\;", &[&["add", "acl", "f", "Mon User Agent;"]], None);
        check(r"a\.b a\\b", &[&["a.b", r"a\b"]], None);
        check(r"a\", &[&["a"]], None);
        check(r"\  x", &[&[" ", "x"]], None);
        check(r#"set var proc.x "a b""#, &[&["set", "var", "proc.x", "\"a", "b\""]], None);
    }

    #[test]
    fn the_last_word_of_a_line_announces_a_payload() {
        check("add map #1 <<", &[&["add", "map", "#1"]], Some(""));
        check("add map #1 <<EOF", &[&["add", "map", "#1"]], Some("EOF"));
        check("show info;add map #1 <<", &[&["show", "info"], &["add", "map", "#1"]], Some(""));
        check("add map #1<<", &[&["add", "map", "#1<<"]], None);
        check("add map << x", &[&["add", "map", "<<", "x"]], None);
        check("add map <<TOOLONGX", &[&["add", "map", "<<TOOLONGX"]], None);
        check(r"add map \ <<", &[&["add", "map", " <<"]], None);
        check("<<", &[&["<<"]], None);
    }

    #[test]
    fn rejects_too_many_words_and_invalid_utf8() {
        assert_eq!(CommandLine::parse(&b"x ".repeat(MAX_WORDS + 1)), Err(LineError::TooManyWords));
        assert_eq!(CommandLine::parse(b"show \xff"), Err(LineError::NotUtf8));
        assert!(
            CommandLine::announces_payload(b"add map \xff <<")
                && !CommandLine::announces_payload(b"show \xff")
        );
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = CommandLine::parse(&bytes);
        }

        #[test]
        fn escaped_words_are_read_back_unchanged(words in prop::collection::vec("[ -~]{1,12}", 1..6)) {
            let text: Vec<String> =
                words.iter().map(|word| word.chars().flat_map(|c| ['\\', c]).collect()).collect();
            let line = CommandLine::parse(text.join(" ").as_bytes()).unwrap();
            prop_assert_eq!(&line.commands[0], &words);
        }
    }
}
