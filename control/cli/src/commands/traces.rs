//! `trace` and `show trace`: traces of each layer.

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show trace",
        syntax: "show trace [<module>]",
        level: Level::User,
        flags: WORKER,
        help: "show the traces",
        run: Some(show),
    },
    Command {
        name: "trace",
        syntax: "trace [<module>|0] [cmd [args...]]",
        level: Level::Operator,
        flags: WORKER,
        help: "configure the traces",
        run: Some(trace),
    },
];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let name = Some(arguments.word(0)).filter(|name| !name.is_empty());
    match context.target.traces().show(name) {
        Ok(text) => CommandOutcome::Text(text),
        Err(why) => CommandOutcome::error(why + "\n"),
    }
}

fn trace(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let words: Vec<&str> = arguments.from(0).iter().map(String::as_str).collect();
    match context.target.traces().command(&words) {
        Ok(None) => CommandOutcome::Nothing,
        Ok(Some(text)) => CommandOutcome::Text(text),
        Err(why) => CommandOutcome::error(why + "\n"),
    }
}
