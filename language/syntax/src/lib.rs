//! The configuration language as text: files become lines, lines become words with spans.
//!
//! This crate knows how a line is cut (quotes, escapes, comments), how environment variables are expanded
//! inside double quotes, how `.if` blocks select lines, how times and sizes are written, and how a fault is
//! shown to an operator: file, line, caret, what was expected, a suggestion.
//!
//! It refuses to know what any keyword means. It opens no file, reads no clock and no process environment:
//! bytes and the [`Environment`] come in as arguments, so the whole crate can be fuzzed and read alone.
//!
//! Begin with [`Line`] and [`Word`], then [`Diagnostics`].

mod diagnostic;
mod environment;
mod source;
mod suggest;
mod version;
mod word;

pub use diagnostic::{Diagnostic, Diagnostics, Layout, MAX_DIAGNOSTICS, Severity};
pub use environment::Environment;
pub use source::{FileId, Source, SourceMap, Span};
pub use suggest::{did_you_mean, edit_distance};
pub use version::{LANGUAGE_VERSION, Version};
pub use word::{Line, Word};
