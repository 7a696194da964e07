//! Locations in configuration files.

use std::fmt;
use std::sync::Arc;

/// The file and line of a declaration, for messages, `last_rule_file` and `last_rule_line`. The default file is empty.
///
/// Only diagnostics have columns: run time does not need them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file's name as given on the command line. All lines of the file share it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u32,
}

impl Location {
    /// A line in `file`.
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
