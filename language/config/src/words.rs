//! Reading the words of a line from left to right.

use weir_syntax::{Diagnostic, Layout, Line};
pub use weir_syntax::{Span, Word};

use weir_model::Location;

/// The error of a line. Boxed, because nearly every parser can return one and errors are rare.
pub type Fault = Box<Diagnostic>;

/// The result of a parser.
pub type Parsed<T = ()> = Result<T, Fault>;

/// The words of a line, and the position of the next one.
#[derive(Clone, Debug)]
pub struct Words<'l> {
    line: &'l Line,
    next: usize,
}

impl<'l> Words<'l> {
    /// Reads `line` from word `next` on.
    pub fn new(line: &'l Line, next: usize) -> Self {
        Words { line, next }
    }

    /// The line.
    pub fn line(&self) -> &'l Line {
        self.line
    }

    /// The index of the next word.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Continues at another word.
    pub fn seek(&mut self, position: usize) {
        self.next = position;
    }

    /// The next word, if there is one.
    pub fn peek(&self) -> Option<&'l Word> {
        self.line.get(self.next)
    }

    /// The text of the next word, empty at the end.
    pub fn peek_text(&self) -> &'l str {
        self.line.text(self.next)
    }

    /// Reads a word.
    pub fn take(&mut self) -> Option<&'l Word> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    /// Reads the next word if it is `text`.
    pub fn take_if(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.is(text));
        self.next += usize::from(found);
        found
    }

    /// Reads a word that is not empty, or returns an error with `message` at its position.
    pub fn expect(&mut self, message: &str) -> Parsed<&'l Word> {
        match self.peek() {
            Some(word) if !word.bytes().is_empty() => {
                self.next += 1;
                Ok(word)
            }
            _ => Err(self.fault(message)),
        }
    }

    /// The span of the next word, or the position after the last word.
    pub fn here(&self) -> Span {
        self.line.span_at(self.next)
    }

    /// An error about the next word.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        fault(self.here(), message)
    }

    /// Whether the next word begins a condition.
    pub fn at_condition(&self) -> bool {
        matches!(self.peek_text(), "if" | "unless")
    }

    /// Whether no word is left.
    pub fn at_end(&self) -> bool {
        self.next >= self.line.len()
    }

    /// Returns an error if any word is left after the arguments of `keyword`.
    pub fn end(&self, keyword: &str) -> Parsed {
        match self.peek() {
            None => Ok(()),
            Some(word) => {
                Err(fault(word.span(), format!("'{keyword}' cannot handle unexpected argument '{word}'.")))
            }
        }
    }

    /// All words of the line as bytes, for the parsers of expressions.
    pub fn all_bytes(&self) -> Vec<&'l [u8]> {
        self.line.words().iter().map(Word::bytes).collect()
    }
}

/// Collects the faults of a line that is parsed further after the first one: unknown or unimplemented words.
#[derive(Debug, Default)]
pub(crate) struct LineFaults {
    first: Option<Fault>,
    /// Whether the previous word was unknown. The following words may be its arguments.
    after_unknown: bool,
}

impl LineFaults {
    /// Adds a fault.
    pub(crate) fn push(&mut self, fault: Fault) {
        self.after_unknown = false;
        match &mut self.first {
            None => self.first = Some(fault),
            Some(first) if first.also.len() < MAX_LINE_FAULTS => first.also.push(*fault),
            Some(_) => {}
        }
    }

    /// Adds an unknown word. Ignores it if it looks like an argument of a preceding unknown word: a number, an address, a path.
    pub(crate) fn unknown(&mut self, word: &Word, fault: Fault) {
        let regular = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let text = word.text();
        let is_keyword =
            text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(regular);
        if is_keyword || !self.after_unknown {
            self.push(fault);
        }
        self.after_unknown = true;
    }

    /// Records a known word.
    pub(crate) fn known(&mut self) {
        self.after_unknown = false;
    }

    /// Skips the arguments of a refused word: its mandatory ones, or one word that is not a known word.
    pub(crate) fn skip_arguments(
        &mut self,
        words: &mut Words<'_>,
        arguments: &str,
        is_known: impl Fn(&str) -> bool,
    ) {
        if !arguments.is_empty() && !words.at_end() && !is_known(words.peek_text()) {
            words.take();
        }
    }

    /// The first fault. It contains all others.
    pub(crate) fn into_result(self) -> Parsed {
        self.first.map_or(Ok(()), Err)
    }
}

/// The limit of faults that are reported for one line.
const MAX_LINE_FAULTS: usize = 16;

/// The error for a section with the same kind and name as another one.
pub(crate) fn same_section(kind: &str, name: &Word, twin: &Location) -> Fault {
    fault(
        name.span(),
        format!("{kind} section '{name}' has the same name as another {kind} section declared at {twin}."),
    )
}

/// An error at `span`.
pub fn fault(span: Span, message: impl Into<String>) -> Fault {
    Box::new(Diagnostic::alert(span, message))
}

/// The error for a part of the language that weir does not implement yet.
pub fn not_yet(span: Span, what: &str) -> Fault {
    let text = format!("'{what}' is not implemented yet");
    Box::new(Diagnostic::alert(span, text.clone()).group(text))
}

/// The same error with words in front of its message.
pub(crate) fn prefixed(mut fault: Fault, prefix: &str) -> Fault {
    fault.message.insert_str(0, prefix);
    fault
}

/// The same error with the word that was probably meant.
pub(crate) fn suggesting(mut fault: Fault, nearest: Option<&str>) -> Fault {
    fault.suggestion = nearest.map(str::to_owned);
    fault
}

/// An error about a word that is not one of `known`.
pub(crate) fn none_of<'k>(
    word: &Word,
    message: impl Into<String>,
    known: impl IntoIterator<Item = &'k str>,
) -> Fault {
    suggesting(fault(word.span(), message), weir_syntax::did_you_mean(word.text(), known))
}

/// The same error in the form without a space before the colon.
pub(crate) fn tight(mut fault: Fault) -> Fault {
    fault.layout = Layout::ParsingTight;
    fault
}

/// Whether a name of a proxy, a server or an ACL may have the character.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':')
}
