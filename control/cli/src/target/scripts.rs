//! Commands of scripts, as sessions run them.

/// Operations on the commands that scripts registered.
pub trait ScriptCommandTarget {
    /// All commands of scripts, for `help`.
    fn script_commands(&self) -> Vec<ScriptCommandView>;

    /// The number of words of the longest command that these words begin with.
    fn script_command_length(&self, words: &[String]) -> Option<usize>;

    /// Runs the longest command that these words begin with. `None` without one.
    fn run_script_command(&mut self, words: &[String]) -> Option<Box<dyn ScriptCommandRun>>;
}

/// A run of a script's command.
pub trait ScriptCommandRun {
    /// Goes on. Appends to `out` until it holds `enough` bytes, or the command waits or has ended.
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ScriptCommandStep;

    /// Takes input of the client, before each [`ScriptCommandRun::advance`]. `is_last` once no more follows. Returns the number of bytes that it
    /// took; the others are further commands.
    fn read(&mut self, input: &[u8], is_last: bool) -> usize;
}

/// The progress of a script's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptCommandStep {
    /// Send the output, and call again after other tasks.
    More,
    /// Waiting for input, or for this time, in milliseconds.
    Input { until_ms: u64 },
    /// Waiting for this time, in milliseconds, or until something wakes the session's task.
    Until { at_ms: u64 },
    /// The command has ended.
    Done,
}

/// A command of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommandView {
    /// Its words, separated by single spaces.
    pub name: String,
    /// Its line in `help`.
    pub usage: String,
}
