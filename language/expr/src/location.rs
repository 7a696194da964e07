//! Locations in configuration files.

use std::fmt;
use std::sync::Arc;

/// The file and line that declared an object: for messages, `last_rule_file` and `last_rule_line`. The default file is empty.
///
/// Columns are only in diagnostics: they are not needed at run time.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file's name as given on the command line, shared by every line of the file.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl Location {
    /// A place in `file`.
    pub fn new(file: Arc<str>, line: u32) -> Self {
        Location { file, line }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}
