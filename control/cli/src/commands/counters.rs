//! `clear counters`.

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::{answer, server};
use crate::level::Level;
use crate::outcome::CommandOutcome;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "clear counters",
    syntax: "clear counters [all|server <bk>/<srv> [force]]",
    level: Level::Operator,
    flags: WORKER,
    help: "forget the highest values seen (all: every counter; server: every counter of one server)",
    run: Some(clear),
}];

fn clear(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let word = arguments.word(0);
    if matches!(word, "all" | "server") && context.modes.level < Level::Admin {
        return CommandOutcome::denied();
    }
    if word == "server" {
        return clear_server(context, arguments);
    }
    context.target.clear_counters(word == "all");
    CommandOutcome::Nothing
}

fn clear_server(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let server = server(context, arguments.word(1))?;
        match context.target.clear_server_counters(server) {
            true => Ok(CommandOutcome::info("Server counters cleared.\n")),
            false => Err(CommandOutcome::error("No such server.\n")),
        }
    })
}
