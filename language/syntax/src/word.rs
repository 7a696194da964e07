//! The lexer's output: a line of words with their locations.

use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;

/// One line that has at least one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    words: Vec<Word>,
    span: Span,
    is_cut: bool,
    remarks: RefCell<Vec<Diagnostic>>,
}

/// One word after quotes, escapes and variables were resolved.
///
/// A configuration is bytes, nearly all of them text. Keywords and numbers are parsed from [`text`](Word::text),
/// payloads from [`bytes`](Word::bytes).
#[derive(Clone, PartialEq, Eq)]
pub struct Word {
    text: String,
    raw: Option<Box<[u8]>>,
    span: Span,
    quoted: bool,
    columns: Option<Box<[u32]>>,
}

impl Line {
    /// A line of `words`; `span` covers the first to the last word.
    ///
    /// A line always has at least one word.
    pub fn new(words: Vec<Word>, span: Span) -> Option<Self> {
        (!words.is_empty()).then_some(Self { words, span, is_cut: false, remarks: RefCell::default() })
    }

    /// All words, the keyword first.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// The words before word `index`, for a line with a fault in that word. `None` for the keyword.
    pub fn cut_at(mut self, index: usize) -> Option<Self> {
        self.words.truncate(index);
        self.is_cut = true;
        (!self.words.is_empty()).then_some(self)
    }

    /// Whether words were cut off. Such a line only begins its section or rule, and its fault was reported.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Adds a remark about the line during parsing. The caller reports it.
    pub fn remark(&self, remark: Diagnostic) {
        self.remarks.borrow_mut().push(remark);
    }

    /// Removes and returns the remarks.
    pub fn take_remarks(&self) -> Vec<Diagnostic> {
        self.remarks.take()
    }

    /// The line with word `index` replaced.
    pub fn with_word(mut self, index: usize, word: Word) -> Self {
        if let Some(place) = self.words.get_mut(index) {
            *place = word;
        }
        self
    }

    /// The first word.
    pub fn keyword(&self) -> &Word {
        &self.words[0]
    }

    /// The words after the keyword.
    pub fn arguments(&self) -> &[Word] {
        &self.words[1..]
    }

    /// Word `index`, the keyword being 0.
    pub fn get(&self, index: usize) -> Option<&Word> {
        self.words.get(index)
    }

    /// The text of word `index`. Empty if the line is shorter.
    pub fn text(&self, index: usize) -> &str {
        self.words.get(index).map_or("", Word::text)
    }

    /// Number of words, the keyword included.
    #[allow(clippy::len_without_is_empty)] // a line is never empty
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// From the first to the last word.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The span of word `index`. If the line is shorter, the position just after the last word: the caret of "expects an argument"
    /// belongs there.
    pub fn span_at(&self, index: usize) -> Span {
        self.words.get(index).map_or(self.span.after(), |word| word.span)
    }

    /// The text of words `from..` joined with single spaces.
    pub fn join(&self, from: usize) -> String {
        let texts: Vec<&str> = self.words.iter().skip(from).map(Word::text).collect();
        texts.join(" ")
    }
}

impl Word {
    /// A word made of bytes written at `span`. `columns` has the raw column of every byte of the word. Without it, byte `n` is at
    /// `span.start + n`.
    pub fn new(bytes: Vec<u8>, span: Span, columns: Option<Vec<u32>>) -> Self {
        let columns = columns.map(Vec::into_boxed_slice);
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, raw: None, span, quoted: false, columns },
            Err(error) => {
                let bytes = error.into_bytes();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Self { text, raw: Some(bytes.into_boxed_slice()), span, quoted: false, columns }
            }
        }
    }

    /// A word that no file contains, for tests and for values from the command line.
    pub fn synthetic(text: &str, span: Span) -> Self {
        Self::new(text.as_bytes().to_vec(), span, None)
    }

    /// Marks the word as having been written with quotes (an empty word is only possible this way).
    pub fn with_quotes(mut self, quoted: bool) -> Self {
        self.quoted = quoted;
        self
    }

    /// The word as text. Bytes that are not UTF-8 appear as U+FFFD.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The exact bytes of the word.
    pub fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// The span of the word in the file, including quotes.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Whether any part of the word was quoted.
    pub fn is_quoted(&self) -> bool {
        self.quoted
    }

    /// Whether the word is exactly `text`.
    pub fn is(&self, text: &str) -> bool {
        self.raw.is_none() && self.text == text
    }

    /// The raw columns of a range of bytes of the word, for carets inside a word. Also correct for words with quotes, escapes and
    /// variables. A range past the end gives the position just after the word.
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let length = self.bytes().len();
        if range.start >= length {
            return self.span.after();
        }
        let last = range.end.clamp(range.start + 1, length) - 1;
        let end =
            if range.end >= length && self.columns.is_none() { self.span.end } else { self.column(last) + 1 };
        let start = self.column(range.start);
        Span { start, end: if range.is_empty() { start } else { end.max(start) }, ..self.span }
    }

    fn column(&self, offset: usize) -> u32 {
        match &self.columns {
            Some(columns) => columns.get(offset).copied().unwrap_or(self.span.end),
            None => (self.span.start + offset as u32).min(self.span.end),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}@{}:{}..{}", self.text, self.span.line, self.span.start, self.span.end)
    }
}

impl AsRef<str> for Word {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.is(other)
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.is(other)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceMap;

    #[test]
    fn a_word_of_invalid_utf8_keeps_its_bytes() {
        let file = SourceMap::new().add("f", Vec::new());
        let word = Word::new(b"a\xffb".to_vec(), Span::new(file, 1, 0, 3), None);
        assert_eq!(word.bytes(), b"a\xffb");
        assert_eq!(word.text(), "a\u{fffd}b");
        assert!(!word.is("a\u{fffd}b"));
    }

    #[test]
    fn spans_within_a_word_follow_the_source_columns() {
        let file = SourceMap::new().add("f", Vec::new());
        let plain = Word::new(b"abcd".to_vec(), Span::new(file, 1, 10, 14), None);
        assert_eq!(plain.span_of(1..3), Span::new(file, 1, 11, 13));
        assert_eq!(plain.span_of(4..5), Span::new(file, 1, 14, 14));
        // "a\ b" in quotes: columns 11, 13, 14
        let escaped = Word::new(b"a b".to_vec(), Span::new(file, 1, 10, 16), Some(vec![11, 13, 14]));
        assert_eq!(escaped.span_of(1..2), Span::new(file, 1, 13, 14));
        assert_eq!(escaped.span_of(0..3), Span::new(file, 1, 11, 15));
    }
}
