//! Errors in expressions, with their location.

use std::fmt;
use std::ops::Range;

/// An error in a list of words: the word, the bytes at fault, the message, and a suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Index of the word at fault in the list of words that the parser got.
    pub word: usize,
    /// The bytes of the word that are at fault. None for the whole word.
    pub span: Option<Range<usize>>,
    /// The error, without a final dot.
    pub message: String,
    /// The expected input, or the reason.
    pub note: Option<String>,
    /// A known word near the one that was written.
    pub suggestion: Option<String>,
}

impl ParseError {
    /// An error about a whole word.
    pub fn new(word: usize, message: impl Into<String>) -> Self {
        ParseError { word, span: None, message: message.into(), note: None, suggestion: None }
    }

    /// Narrows the error to a byte range of the word.
    #[must_use]
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds the note: the expected input, or the reason.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the word that was probably meant, if there is one.
    #[must_use]
    pub fn suggest(mut self, suggestion: Option<&str>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, ", did you mean '{suggestion}' ?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ParseError {}

/// Bytes of the configuration in a form for messages.
pub(crate) fn show(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
