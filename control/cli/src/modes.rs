//! The permissions and settings of a session.

use crate::level::{Level, SeverityOutput};

/// Settings of a session that its commands can change.
#[derive(Clone, Debug)]
pub struct SessionModes {
    /// The access level. Commands can only lower it.
    pub level: Level,
    /// Whether messages begin with their severity.
    pub severity_output: SeverityOutput,
    /// The idle timeout, in milliseconds. `None` for no limit.
    pub timeout_ms: Option<u64>,
    /// Whether expert commands are enabled.
    pub expert: bool,
    /// Whether experimental commands are enabled.
    pub experimental: bool,
    /// The behaviour after an answered line.
    pub mode: SessionMode,
    /// Whether the prompt shows the date.
    pub timed: bool,
}

/// The behaviour after an answered line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionMode {
    Single,
    /// Waits for the next line.
    Interactive,
    /// Prints a prompt and waits for the next line.
    Prompt,
}

/// The response to a command that needs a higher level.
pub const PERMISSION_DENIED: &str = "Permission denied\n";
