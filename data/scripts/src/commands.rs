//! The commands that scripts add to the runtime API.

use crate::registry::ScriptCommand;

/// The commands of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerCommands<'s> {
    pub(crate) own: &'s [ScriptCommand],
    pub(crate) shared: &'s [ScriptCommand],
}

impl<'s> WorkerCommands<'s> {
    /// All of them, those of the worker's own state first.
    pub fn iter(self) -> impl Iterator<Item = &'s ScriptCommand> {
        let is_new =
            move |command: &&ScriptCommand| self.own.iter().all(|known| known.words != command.words);
        self.own.iter().chain(self.shared.iter().filter(is_new))
    }

    /// The longest command that these words begin with.
    pub fn find(self, words: &[String]) -> Option<&'s ScriptCommand> {
        let begun = self.iter().filter(|command| words.starts_with(&command.words));
        begun.max_by_key(|command| command.words.len())
    }
}
