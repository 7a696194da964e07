//! The permissions and settings of a session.

use crate::level::{Level, SeverityOutput};

/// Settings of a session, which its commands may change.
#[derive(Clone, Debug)]
pub struct SessionModes {
    /// Its level; commands can only lower it.
    pub level: Level,
    /// Whether messages begin with their severity.
    pub severity_output: SeverityOutput,
    /// The idle timeout, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether expert commands are enabled.
    pub expert: bool,
    /// Whether experimental commands are enabled.
    pub experimental: bool,
    /// The behaviour after a line.
    pub mode: SessionMode,
    /// Whether the prompt shows the date.
    pub timed: bool,
}

/// The behaviour after a line is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    Single,
    /// It waits for the next line.
    Interactive,
    /// It prints a prompt and waits for the next line.
    Prompt,
}

/// The answer to a command above the session's level.
pub const PERMISSION_DENIED: &str = "Permission denied\n";
