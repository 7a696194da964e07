//! The language as rows: one row for each word, with arguments, help text, and reader function.
//!
//! Parsing, "did you mean", dumps, help and tests all derive from the rows. A word of the language that weir does not implement yet has a
//! row too: it is an error with a clear message, never ignored.

use std::collections::HashMap;
use std::sync::OnceLock;
use weir_model::ValueHelp;

use weir_syntax::{Line, did_you_mean};

/// One word of the language. `F` is its reader function.
#[derive(Debug)]
pub struct Row<F> {
    /// The word, or several words.
    pub name: &'static str,
    /// The arguments in the notation of the manual. Empty for none.
    pub arguments: &'static str,
    /// The help text, one line.
    pub help: &'static str,
    /// Example arguments, for a test that reads every row once.
    pub example: &'static str,
    /// The reader function or the state of the word.
    pub handler: Handler<F>,
    /// Whether the master reads the word too, before it starts its worker (R148).
    pub discovery: bool,
    /// Bits that the table defines for the contexts of the word.
    pub uses: u8,
    /// The default without the word, if there is one.
    pub default: Option<DefaultValue>,
    /// The values to choose from, for a word with an argument from a list.
    pub values: &'static [ValueHelp],
}

/// The default of a word that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DefaultValue {
    /// The same as these arguments. A test parses each configuration with and without them and compares the results.
    Written(&'static str),
    /// A part of a sentence that describes a default that depends on something else.
    Described(&'static str),
}

/// The reader function of a word, or its state.
#[derive(Clone, Copy, Debug)]
pub enum Handler<F> {
    Ready(F),
    NotYet,
    /// Removed from the language. The text names the replacement.
    Removed(&'static str),
}

impl<F> Row<F> {
    /// An implemented word.
    pub const fn ready(
        name: &'static str,
        arguments: &'static str,
        example: &'static str,
        help: &'static str,
        read: F,
    ) -> Self {
        Row::new(name, arguments, example, help, Handler::Ready(read))
    }

    /// A word of the language that is not implemented yet.
    pub const fn not_yet(name: &'static str, arguments: &'static str, help: &'static str) -> Self {
        Row::new(name, arguments, "", help, Handler::NotYet)
    }

    /// A word that was removed from the language.
    pub const fn removed(name: &'static str, instead: &'static str) -> Self {
        Row::new(name, "", "", instead, Handler::Removed(instead))
    }

    /// An implemented word that the master reads too.
    pub const fn discovered(
        name: &'static str,
        arguments: &'static str,
        example: &'static str,
        help: &'static str,
        read: F,
    ) -> Self {
        let mut row = Row::new(name, arguments, example, help, Handler::Ready(read));
        row.discovery = true;
        row
    }

    const fn new(
        name: &'static str,
        arguments: &'static str,
        example: &'static str,
        help: &'static str,
        handler: Handler<F>,
    ) -> Self {
        Row { name, arguments, help, example, handler, discovery: false, uses: 0, default: None, values: &[] }
    }

    /// The row with these bits of [`Row::uses`].
    pub const fn with(mut self, uses: u8) -> Self {
        self.uses |= uses;
        self
    }

    /// The row with this default.
    pub const fn default(mut self, value: DefaultValue) -> Self {
        self.default = Some(value);
        self
    }

    /// The row with these values to choose from.
    pub const fn values(mut self, values: &'static [ValueHelp]) -> Self {
        self.values = values;
        self
    }

    /// The row with another reader.
    pub(crate) const fn handled_by<G>(&self, handler: Handler<G>) -> Row<G> {
        let Row { name, arguments, help, example, discovery, uses, default, values, .. } = *self;
        Row { name, arguments, help, example, handler, discovery, uses, default, values }
    }

    /// Whether the word is implemented.
    pub const fn is_ready(&self) -> bool {
        matches!(self.handler, Handler::Ready(_))
    }
}

/// Rows that are found by name.
#[derive(Debug)]
pub struct Table<F: 'static> {
    parts: &'static [&'static [Row<F>]],
    index: OnceLock<HashMap<&'static str, &'static Row<F>>>,
    phrases: OnceLock<HashMap<&'static str, Vec<&'static Row<F>>>>,
}

impl<F> Table<F> {
    /// A table of several lists of rows.
    pub const fn new(parts: &'static [&'static [Row<F>]]) -> Self {
        Table { parts, index: OnceLock::new(), phrases: OnceLock::new() }
    }

    /// All rows, in the order of the source.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row<F>> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// The row with this name.
    pub fn find(&self, name: &str) -> Option<&'static Row<F>> {
        let index = self.index.get_or_init(|| self.rows().map(|row| (row.name, row)).collect());
        index.get(name).copied()
    }

    /// The row for the words of the line from `at` on, and its number of words. The longest of several matching rows wins.
    pub fn find_phrase(&self, line: &Line, at: usize) -> Option<(&'static Row<F>, usize)> {
        let rows = self.phrases().get(line.text(at))?;
        rows.iter().find_map(|row| {
            let mut words = 0;
            let has_parentheses = row.arguments.starts_with('(');
            let matches = row.name.split(' ').all(|word| {
                words += 1;
                let text = line.text(at + words - 1);
                text == word || (has_parentheses && text.split('(').next() == Some(word))
            });
            matches.then_some((*row, words))
        })
    }

    /// The words that may follow `first`. Empty if no row begins with it, or if it stands alone.
    pub fn continuations(&self, first: &str) -> Vec<&'static str> {
        let rows = self.phrases().get(first).map_or(&[][..], Vec::as_slice);
        let mut words: Vec<_> = rows.iter().filter_map(|row| Some(row.name.split_once(' ')?.1)).collect();
        words.sort_unstable();
        words.dedup();
        words
    }

    /// Rows by their first word, those with more words first.
    fn phrases(&self) -> &HashMap<&'static str, Vec<&'static Row<F>>> {
        self.phrases.get_or_init(|| {
            let mut phrases: HashMap<&'static str, Vec<&'static Row<F>>> = HashMap::new();
            for row in self.rows() {
                phrases.entry(row.name.split(' ').next().unwrap_or_default()).or_default().push(row);
            }
            for rows in phrases.values_mut() {
                rows.sort_by_key(|row| std::cmp::Reverse(row.name.split(' ').count()));
            }
            phrases
        })
    }

    /// The name that was probably meant.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        did_you_mean(name, self.rows().map(|row| row.name))
    }
}
