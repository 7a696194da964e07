//! The commands that scripts add to the runtime API.

use weir_expr::ScriptName;

use crate::registry::ScriptCommand;
use crate::scripts::Scripts;

impl Scripts {
    /// The commands of a worker, those of its own state first.
    pub fn commands(&self, worker: usize) -> impl Iterator<Item = &ScriptCommand> {
        let [own, shared] = self.registered_commands(worker);
        let is_new = move |command: &&ScriptCommand| own.iter().all(|known| known.words != command.words);
        own.iter().chain(shared.iter().filter(is_new))
    }

    /// The number of words of the longest command of a worker that these words begin with.
    pub fn command_length(&self, worker: usize, words: &[String]) -> Option<usize> {
        self.command(worker, words).map(|command| command.words.len())
    }

    /// The function of the command that these words begin with.
    pub(crate) fn command_function(&self, worker: usize, words: &[String]) -> Option<ScriptName> {
        self.command(worker, words).map(ScriptCommand::name)
    }

    fn command(&self, worker: usize, words: &[String]) -> Option<&ScriptCommand> {
        let begun = self.commands(worker).filter(|command| words.starts_with(&command.words));
        begun.max_by_key(|command| command.words.len())
    }

    /// Checks the commands of all states, also while the configuration is read: none may be one that the runtime API has (`is_taken`).
    ///
    /// # Errors
    /// The message about such a command.
    pub fn check_commands(&self, is_taken: impl Fn(&[String]) -> bool) -> Result<(), String> {
        match self.all_commands().into_iter().find(|command| is_taken(&command.words)) {
            Some(command) => Err(format!(
                "register_cli: '{}' is a command of the runtime API already; a script's command needs other words",
                command.words.join(" ")
            )),
            None => Ok(()),
        }
    }
}
