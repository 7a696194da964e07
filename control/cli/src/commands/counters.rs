//! `clear counters`.

use crate::command::{Arguments, Command, Context, WORKER};
use crate::commands::{answer, server};
use crate::level::Level;
use crate::outcome::Outcome;

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "clear counters",
    syntax: "clear counters [all|server <bk>/<srv> [force]]",
    level: Level::Operator,
    flags: WORKER,
    help: "forget the highest values seen (all: every counter; server: every counter of one server)",
    run: Some(clear),
}];

fn clear(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let word = arguments.word(0);
    if matches!(word, "all" | "server") && context.modes.level < Level::Admin {
        return Outcome::denied();
    }
    if word == "server" {
        return clear_server(context, arguments);
    }
    context.target.clear_counters(word == "all");
    Outcome::Nothing
}

fn clear_server(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    answer(|| {
        let server = server(context, arguments.word(1))?;
        match context.target.clear_server_counters(server) {
            true => Ok(Outcome::info("Server counters cleared.\n")),
            false => Err(Outcome::error("No such server.\n")),
        }
    })
}
