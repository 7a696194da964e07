//! What is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

/// An error in a list of words: which word, which bytes of it, what is wrong and what would help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Index of the word at fault, in the list that was given to the parser.
    pub word: usize,
    /// The bytes of that word that are at fault, if it is not the whole word.
    pub span: Option<Range<usize>>,
    /// What is wrong, without a final dot.
    pub message: String,
    /// A suggestion for the reader.
    pub help: Option<String>,
}

impl ParseError {
    /// An error about a whole word.
    pub fn new(word: usize, message: impl Into<String>) -> Self {
        ParseError { word, span: None, message: message.into(), help: None }
    }

    /// Narrows the error to some bytes of the word.
    #[must_use]
    pub fn at(mut self, span: Range<usize>) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds "did you mean" if something close enough was found.
    #[must_use]
    pub fn did_you_mean(mut self, candidate: Option<&str>) -> Self {
        if let Some(candidate) = candidate {
            self.help = Some(format!("did you mean '{candidate}' ?"));
        }
        self
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, ", {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseError {}

/// Bytes of the configuration, readable in a message.
pub(crate) fn show(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
