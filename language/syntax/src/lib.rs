//! The configuration language as text: files become lines, lines become words with spans.
//!
//! This crate knows how a line is cut (quotes, escapes, comments), how environment variables are expanded
//! inside double quotes, how `.if` blocks select lines, how times and sizes are written, and how a fault is
//! shown to an operator: file, line, caret, the expected input, a suggestion.
//!
//! It refuses to know the meaning of any keyword. It opens no file ([`Files`] is an argument) and reads neither a clock nor the process
//! environment: bytes and the [`Environment`] come in as arguments, so that the whole crate can be fuzzed and read alone.
//!
//! Begin with [`LineReader`], which hands out one [`Line`] at a time so that a `setenv` on one line is seen by
//! the next; then [`Word`], [`Diagnostics`] and [`units`].

mod condition;
mod diagnostic;
mod environment;
mod files;
mod lexer;
mod placed;
mod reader;
mod render;
mod source;
mod suggest;
pub mod units;
mod version;
mod word;

pub use condition::{
    ConditionContext, ConditionError, MAX_CONDITION_DEPTH, StaticFeatures, TlsLibrary, evaluate_condition,
};
pub use diagnostic::{
    Diagnostic, DiagnosticReport, DiagnosticSeverity, Diagnostics, GROUPED_FROM, Layout, MAX_DIAGNOSTICS,
    error_text,
};
pub use environment::Environment;
pub use files::{FileKind, Files, FolderEntry, MAX_NAMED_FILE, MemoryFiles, NoFiles, SharedFiles};
pub use lexer::{LexError, LexFault, MAX_LINE_BYTES, MAX_WORDS, Pseudo, lex_line};
pub use placed::{place, pretty, without_place};
pub use reader::{LineReader, MAX_CONDITION_NESTING};
pub use render::classic_line;
pub use source::{FileId, SourceMap, SourceText, Span};
pub use suggest::{did_you_mean, edit_distance};
pub use version::{LANGUAGE_VERSION, ReleaseVersion};
pub use word::{Line, Word};
