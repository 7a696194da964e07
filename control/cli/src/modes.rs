//! What a session is allowed and set to.

use crate::level::{Level, SeverityOutput};

/// What commands of one session leave for the next ones.
#[derive(Clone, Debug)]
pub struct SessionModes {
    /// What it may do; can only fall.
    pub level: Level,
    /// Whether messages say their severity.
    pub severity_output: SeverityOutput,
    /// Silence that ends it, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether expert commands are open.
    pub expert: bool,
    /// Whether experimental commands are open.
    pub experimental: bool,
    /// What happens after a line.
    pub mode: Mode,
    /// Whether the prompt shows the date.
    pub timed: bool,
}

/// What happens after a line was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The session ends.
    Single,
    /// It waits for the next line.
    Interactive,
    /// It waits for the next line, and says so with a prompt.
    Prompt,
}

/// The words for it.
pub const PERMISSION_DENIED: &str = "Permission denied\n";
