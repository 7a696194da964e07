//! Commands are table rows: name, syntax, level, help, function. Parsing, `help`, `-dKcli` and the README use these rows.

use crate::level::Level;
use crate::modes::{PERMISSION_DENIED, SessionModes};
use crate::outcome::CommandOutcome;
use crate::target::CommandTarget;

/// A command of the runtime API or the master CLI.
pub struct Command {
    /// The words of its name, separated by single spaces.
    pub name: &'static str,
    /// The syntax for `help`.
    pub syntax: &'static str,
    /// The minimum level for this command.
    pub level: Level,
    /// A sum of the flags below.
    pub flags: u8,
    /// The help text, one line.
    pub help: &'static str,
    /// The implementation. `None` if not implemented yet.
    pub run: Option<CommandFunction>,
}

/// The function that runs a command.
pub type CommandFunction = fn(&mut CommandContext<'_>, &CommandArguments<'_>) -> CommandOutcome;

/// Available on workers.
pub const WORKER: u8 = 1;
/// Available on the master.
pub const MASTER: u8 = 2;
/// Requires `expert-mode on`.
pub const EXPERT: u8 = 4;
/// Requires `experimental-mode on`.
pub const EXPERIMENTAL: u8 = 8;
/// Not listed in `help`.
pub const HIDDEN: u8 = 16;
/// Useful only with traffic: never available on a master, even if it runs worker commands.
pub const SERVING: u8 = 32;

impl Command {
    /// Why a session with these modes may not use the command. `None` if it may.
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

/// The context in which a command runs.
pub struct CommandContext<'a> {
    pub target: &'a mut dyn CommandTarget,
    pub modes: &'a mut SessionModes,
}

/// The words after a command's name, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct CommandArguments<'a> {
    words: &'a [String],
    /// The payload, without the line that terminated it.
    pub payload: Option<&'a str>,
}

impl<'a> CommandArguments<'a> {
    /// Creates arguments from the words after the command's name, and the payload.
    pub fn new(words: &'a [String], payload: Option<&'a str>) -> Self {
        Self { words, payload }
    }

    /// The word at this index. Empty if missing.
    pub fn word(&self, index: usize) -> &'a str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// All words starting at this index.
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
