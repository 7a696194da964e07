//! The declaration of a filter, and a filter during parsing.
//!
//! Other crates supply the rows, as with actions. This crate finds the row and calls its reader for the arguments.

use std::sync::Arc;

use weir_expr::{ArgKind, EvaluationPoints, Expr, Reference};
use weir_syntax::{Diagnostic, Span, Word};

use super::LineContext;
use crate::rows::Table;
use crate::scripts::ScriptFilter;
use crate::words::{Parsed, Words};
use weir_model::{Filter, FilterArguments, Mode};

/// All filters, in the order in which messages list them.
pub type FilterTable = Table<FilterReader>;

/// Reads the arguments of a filter up to the end of the line.
pub type ReadFilter = fn(&mut FilterContext<'_, '_>, &mut Words<'_>) -> Parsed<Arc<dyn FilterArguments>>;

/// Reads a filter.
#[derive(Clone, Copy, Debug)]
pub struct FilterReader {
    /// The group of the filter in `-vv` and `-dKflt`.
    pub family: &'static str,
    /// The function that reads it.
    pub read: ReadFilter,
    /// Creates the filter for a proxy without a line for it, if other words of the proxy imply the filter.
    pub implied: Option<fn() -> Arc<dyn FilterArguments>>,
}

/// A filter during parsing.
pub struct FilterContext<'a, 'c> {
    pub(crate) line: &'a mut LineContext<'c>,
    /// The filter's own word.
    pub word: &'a Word,
}

impl std::fmt::Debug for FilterContext<'_, '_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "FilterContext({} at {})", self.word, self.line.at)
    }
}

impl FilterContext<'_, '_> {
    /// The section's name.
    pub fn section_name(&self) -> Arc<str> {
        self.line.name()
    }

    /// The filters of earlier lines in the same section.
    pub fn earlier(&self) -> &[Filter] {
        &self.line.draft.proxy.filters
    }

    /// Warns about a word of the line.
    pub fn warn(&self, words: &Words<'_>, span: Span, message: impl Into<String>) {
        words.line().remark(Diagnostic::warning(span, message));
    }

    /// Makes the filter of a script with this name, with `lua.`. `None` if no script registered it.
    ///
    /// # Errors
    /// The message of an error in the script.
    pub fn script_filter(&self, name: &str, arguments: &[&str]) -> Option<Result<ScriptFilter, String>> {
        self.line.resources.scripts.filter(name, arguments)
    }

    /// Whether the lines so far put the section into HTTP mode.
    pub fn is_http(&self) -> bool {
        self.line.draft.proxy.mode() == Mode::Http
    }

    /// Reads an expression, which may be several words long.
    pub fn expression(&self, words: &mut Words<'_>) -> Parsed<Arc<Expr>> {
        self.line.expressions().expression(words, EvaluationPoints::ALL)
    }

    /// The table of this name. Without a name, the proxy's own.
    pub fn table(&mut self, name: Option<&str>, words: &Words<'_>) -> Reference {
        let table = Reference::new(ArgKind::Table, name);
        self.line.note_table(&table, words.line().span());
        table
    }
}
