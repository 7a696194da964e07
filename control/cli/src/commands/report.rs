//! Commands that show the process: version, environment, sockets, backends.

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, MASTER, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, ListPosition};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show version",
        syntax: "show version",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print the version of the process",
        run: Some(|context, _| CommandOutcome::info(format!("{}\n", context.target.version()))),
    },
    Command {
        name: "show backend",
        syntax: "show backend",
        level: Level::User,
        flags: WORKER,
        help: "list the backends",
        run: Some(|_, _| CommandOutcome::Stream(Box::new(ShowBackends { begun: false, place: 0 }))),
    },
    Command {
        name: "show cli sockets",
        syntax: "show cli sockets",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "list the sockets of the runtime API",
        run: Some(show_cli_sockets),
    },
    Command {
        name: "show env",
        syntax: "show env [var]",
        level: Level::Operator,
        flags: WORKER | MASTER,
        help: "print the environment of the process, or one variable of it",
        run: Some(show_env),
    },
    Command {
        name: "show startup-logs",
        syntax: "show startup-logs",
        level: Level::Operator,
        flags: WORKER | MASTER,
        help: "print the log messages of the start",
        run: Some(|context, _| CommandOutcome::Text(context.target.startup_logs())),
    },
];

struct ShowBackends {
    begun: bool,
    place: ListPosition,
}

impl AnswerStream for ShowBackends {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        if !self.begun {
            self.begun = true;
            out.extend_from_slice(b"# name\n");
        }
        while out.len() < enough {
            let Some(name) = target.next_backend(&mut self.place) else { return AnswerStep::Done };
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        AnswerStep::More
    }
}

fn show_cli_sockets(context: &mut CommandContext<'_>, _: &CommandArguments<'_>) -> CommandOutcome {
    let mut text = String::from("# socket lvl processes\n");
    for socket in context.target.cli_sockets() {
        let _ = writeln!(text, "{} {} all", socket.address, socket.level.name());
    }
    CommandOutcome::Text(text)
}

fn show_env(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let variables = context.target.environment();
    let name = arguments.word(0);
    if name.is_empty() {
        return CommandOutcome::Text(variables.iter().map(|variable| format!("{variable}\n")).collect());
    }
    match variables
        .iter()
        .find(|variable| variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    {
        Some(variable) => CommandOutcome::Text(format!("{variable}\n")),
        None => CommandOutcome::error("Variable not found\n"),
    }
}
