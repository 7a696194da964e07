//! Commands are rows: name, syntax, level, help, function. Parsing, `help`, `-dKcli` and the README use them.

use crate::level::Level;
use crate::modes::{PERMISSION_DENIED, SessionModes};
use crate::outcome::CommandOutcome;
use crate::target::CommandTarget;

/// One row.
pub struct Command {
    /// The words that name it, separated by one blank.
    pub name: &'static str,
    /// Its syntax, for `help`.
    pub syntax: &'static str,
    /// The lowest level that may use it.
    pub level: Level,
    /// Where it exists and when it is listed.
    pub flags: u8,
    /// The help text, in one line.
    pub help: &'static str,
    /// Its function; `None` when it is not implemented yet.
    pub run: Option<CommandFunction>,
}

/// A command's function.
pub type CommandFunction = fn(&mut CommandContext<'_>, &CommandArguments<'_>) -> CommandOutcome;

/// Exists on workers.
pub const WORKER: u8 = 1;
/// Exists on the master.
pub const MASTER: u8 = 2;
/// Needs `expert-mode on`.
pub const EXPERT: u8 = 4;
/// Needs `experimental-mode on`.
pub const EXPERIMENTAL: u8 = 8;
/// Not listed in `help`.
pub const HIDDEN: u8 = 16;
/// Useful only where traffic is served: never on a master, even when it runs the commands of workers.
pub const SERVING: u8 = 32;

impl Command {
    /// Why a session with these modes may not use it, if it may not.
    pub fn refusal(&self, modes: &SessionModes) -> Option<&'static str> {
        if self.flags & EXPERT != 0 && !modes.expert {
            return Some("This command is restricted to expert mode only.\n");
        }
        if self.flags & EXPERIMENTAL != 0 && !modes.experimental {
            return Some("This command is restricted to experimental mode only.\n");
        }
        (self.level > modes.level).then_some(PERMISSION_DENIED)
    }
}

/// The environment of a command.
pub struct CommandContext<'a> {
    pub target: &'a mut dyn CommandTarget,
    pub modes: &'a mut SessionModes,
}

/// The arguments of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandArguments<'a> {
    words: &'a [String],
    /// The lines of the payload, without the line that ended them.
    pub payload: Option<&'a str>,
}

impl<'a> CommandArguments<'a> {
    /// Arguments from the words after the name, and a payload.
    pub fn new(words: &'a [String], payload: Option<&'a str>) -> Self {
        Self { words, payload }
    }

    /// The word at this index; empty if it is missing.
    pub fn word(&self, index: usize) -> &'a str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// All words from this index on.
    pub fn from(&self, index: usize) -> &'a [String] {
        self.words.get(index..).unwrap_or_default()
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the list of words is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
