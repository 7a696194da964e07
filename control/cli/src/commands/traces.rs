//! `trace` and `show trace`: traces of each layer.

use crate::command::{Arguments, Command, Context, WORKER};
use crate::level::Level;
use crate::outcome::Outcome;

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

fn show(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = Some(arguments.word(0)).filter(|name| !name.is_empty());
    match context.target.traces().show(name) {
        Ok(text) => Outcome::Text(text),
        Err(why) => Outcome::error(why + "\n"),
    }
}

fn trace(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let words: Vec<&str> = arguments.from(0).iter().map(String::as_str).collect();
    match context.target.traces().command(&words) {
        Ok(None) => Outcome::Nothing,
        Ok(Some(text)) => Outcome::Text(text),
        Err(why) => Outcome::error(why + "\n"),
    }
}
