//! The commands, by subject, and shared helper functions.

mod conversation;
mod counters;
mod descriptors;
mod errors;
mod events;
mod frontends;
mod later;
mod limits;
mod master;
mod ocsp;
mod patterns;
mod peers;
mod pools;
mod profiling;
mod report;
mod resolvers;
mod servers;
mod sessions;
mod statistics;
mod tables;
mod ticket_keys;
mod timeline;
mod tls;
mod traces;
mod variables;
mod work;

pub use conversation::{PROMPT_HELP, choose_severity_output, choose_timeout, switch};

use std::fmt::Write;
use std::sync::OnceLock;

use weir_events::WallTime;

use crate::command::{Command, CommandContext, EXPERIMENTAL, EXPERT, MASTER, WORKER};
use crate::help::HelpScope;
use crate::modes::SessionModes;
use crate::outcome::{CommandOutcome, WaitCondition};
use crate::target::{BackendKey, CommandTarget, FrontendKey, ScriptCommandView, ServerKey};

static TABLES: &[&[Command]] = &[
    conversation::COMMANDS,
    counters::COMMANDS,
    descriptors::COMMANDS,
    errors::COMMANDS,
    events::COMMANDS,
    frontends::COMMANDS,
    later::COMMANDS,
    limits::COMMANDS,
    master::COMMANDS,
    ocsp::COMMANDS,
    patterns::COMMANDS,
    peers::COMMANDS,
    pools::COMMANDS,
    profiling::COMMANDS,
    report::COMMANDS,
    resolvers::COMMANDS,
    servers::COMMANDS,
    sessions::COMMANDS,
    statistics::COMMANDS,
    tables::COMMANDS,
    ticket_keys::COMMANDS,
    timeline::COMMANDS,
    tls::COMMANDS,
    traces::COMMANDS,
    variables::COMMANDS,
    work::COMMANDS,
];

/// All commands, sorted by name.
fn sorted() -> &'static [&'static Command] {
    static SORTED: OnceLock<Vec<&'static Command>> = OnceLock::new();
    SORTED.get_or_init(|| {
        let mut rows: Vec<&Command> = TABLES.iter().copied().flatten().collect();
        rows.sort_by_key(|command| command.name);
        rows
    })
}

/// Every command, sorted by name.
pub fn commands() -> impl Iterator<Item = &'static Command> {
    sorted().iter().copied()
}

/// The command of one side ([`WORKER`], [`MASTER`]) that the words begin with, and its number of words. The longest name wins.
pub fn find_command(words: &[String], side: u8) -> Option<(&'static Command, usize)> {
    let (mut rows, mut found) = (sorted(), None);
    for (at, word) in words.iter().enumerate() {
        // Shorter names sort first.
        let of_row = |row: &&Command| row.name.split(' ').nth(at).unwrap_or_default();
        rows = &rows[rows.partition_point(|row| of_row(row) < word.as_str())..];
        rows = &rows[..rows.partition_point(|row| of_row(row) == word)];
        let mut whole = rows.iter().take_while(|row| row.name.split(' ').nth(at + 1).is_none());
        match whole.find(|row| row.flags & side != 0 && !word.is_empty()) {
            Some(command) => found = Some((*command, at + 1)),
            None if rows.is_empty() => break,
            None => {}
        }
    }
    found
}

/// Whether these words are a command, of a worker or of the master.
pub fn is_command(words: &[String]) -> bool {
    find_command(words, WORKER | MASTER).is_some_and(|(_, length)| length == words.len())
}

/// The output of `help` on a side: the commands that begin with these words, those of `scripts` among them. If none does, similar commands,
/// or all.
pub fn help(words: &[String], scripts: &[ScriptCommandView], side: u8, modes: &SessionModes) -> String {
    HelpScope { all: sorted(), scripts, side, modes }.help(words)
}

/// The answer to an unknown command on a side.
pub fn unknown(words: &[String], scripts: &[ScriptCommandView], side: u8, modes: &SessionModes) -> String {
    HelpScope { all: sorted(), scripts, side, modes }.unknown(words)
}

/// The list of all commands, for `-dKcli`.
pub fn keyword_dump() -> String {
    let mut text = String::from("# List of registered CLI keywords:\n");
    for command in commands() {
        let _ = write!(text, "{} ", command.name);
        for (flag, word) in [
            (MASTER, "[MASTER] "),
            (WORKER, "[WORKER] "),
            (EXPERT, "[EXPERT] "),
            (EXPERIMENTAL, "[EXPERIM] "),
        ] {
            if command.flags & flag != 0 {
                text.push_str(word);
            }
        }
        text.push('\n');
    }
    text
}

/// Whether the condition of `wait` is met.
pub(crate) fn holds(condition: &WaitCondition, target: &dyn CommandTarget) -> bool {
    match condition {
        WaitCondition::Removable(server) => servers::is_removable(target, *server),
    }
}

/// A time as `20/Nov/2026:13:05:05.123`.
pub(crate) fn date(target: &dyn CommandTarget, time: WallTime) -> String {
    let date = target.local_date(time);
    format!(
        "{:02}/{}/{:04}:{:02}:{:02}:{:02}.{:03}",
        date.day,
        date.month_name(),
        date.year,
        date.hour,
        date.minute,
        date.second,
        time.micros / 1000
    )
}

/// Looks up the server in `<backend>/<server>`. The error is the command's output.
fn server(context: &CommandContext<'_>, word: &str) -> Result<ServerKey, CommandOutcome> {
    let (backend, name) = backend_and_name(context, word)?;
    context.target.server(backend, name).ok_or_else(|| CommandOutcome::error("No such server.\n"))
}

/// Looks up the backend in `<backend>/<server>`. Also returns the server's name. The error is the command's output.
fn backend_and_name<'a>(
    context: &CommandContext<'_>,
    word: &'a str,
) -> Result<(BackendKey, &'a str), CommandOutcome> {
    let (backend, name) = word
        .split_once('/')
        .filter(|(backend, name)| !backend.is_empty() && !name.is_empty())
        .ok_or_else(|| CommandOutcome::error("Require 'backend/server'.\n"))?;
    Ok((self::backend(context, backend)?, name))
}

/// Looks up a backend. The error is the command's output.
fn backend(context: &CommandContext<'_>, name: &str) -> Result<BackendKey, CommandOutcome> {
    context.target.backend(name).ok_or_else(|| CommandOutcome::error("No such backend.\n"))
}

/// Looks up a frontend. The error is the command's output.
fn frontend(context: &CommandContext<'_>, name: &str) -> Result<FrontendKey, CommandOutcome> {
    if name.is_empty() {
        return Err(CommandOutcome::error("A frontend name is expected.\n"));
    }
    context.target.frontend(name).ok_or_else(|| CommandOutcome::error("No such frontend.\n"))
}

/// Converts an error of the configuration parser to the command's output.
fn complaint(text: &str) -> CommandOutcome {
    CommandOutcome::error(format!("{}.\n", text.trim_end_matches('.')))
}

/// Runs a command that may end early with an error, which is then its output.
fn answer(run: impl FnOnce() -> Result<CommandOutcome, CommandOutcome>) -> CommandOutcome {
    run().unwrap_or_else(|refused| refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command with the longest name that is a prefix of these words.
    fn longest(words: &[String], side: u8) -> Option<(&'static str, usize)> {
        let fits = |command: &&Command| {
            let count = command.name.split(' ').count();
            command.flags & side != 0
                && count <= words.len()
                && command.name.split(' ').eq(words[..count].iter().map(String::as_str))
        };
        let found = commands().filter(fits).map(|command| (command.name, command.name.split(' ').count()));
        found.max_by_key(|(_, count)| *count)
    }

    #[test]
    fn a_command_line_matches_the_longest_command_name() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut found = 0;
        for command in commands() {
            let name = command.name;
            let (before, last) = name.split_at(name.len() - 1);
            for text in [
                name,
                before,
                &format!("{name} be/s1"),
                &format!("{name}{last}"),
                &format!("{name}  x"),
                "",
                " ",
            ] {
                for side in [WORKER, MASTER, WORKER | MASTER] {
                    let command = find_command(&words(text), side);
                    let command = command.map(|(command, count)| (command.name, count));
                    assert_eq!(command, longest(&words(text), side), "{text:?} on {side}");
                    found += usize::from(command.is_some());
                }
            }
        }
        assert!(found > 500, "{found}");
        assert_eq!(find_command(&[], WORKER).map(|(command, _)| command.name), None);
    }
}
