//! Commands that show the process: version, environment, sockets, backends.

use std::fmt::Write;

use crate::command::{Arguments, Command, Context, MASTER, WORKER};
use crate::level::Level;
use crate::outcome::{Outcome, Step, Stream};
use crate::target::{ListPosition, Target};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show version",
        syntax: "show version",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print the version of the process",
        run: Some(|context, _| Outcome::info(format!("{}\n", context.target.version()))),
    },
    Command {
        name: "show backend",
        syntax: "show backend",
        level: Level::User,
        flags: WORKER,
        help: "list the backends",
        run: Some(|_, _| Outcome::Stream(Box::new(ShowBackends { begun: false, place: 0 }))),
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
        run: Some(|context, _| Outcome::Text(context.target.startup_logs())),
    },
];

struct ShowBackends {
    begun: bool,
    place: ListPosition,
}

impl Stream for ShowBackends {
    fn advance(&mut self, target: &mut dyn Target, enough: usize, out: &mut Vec<u8>) -> Step {
        if !self.begun {
            self.begun = true;
            out.extend_from_slice(b"# name\n");
        }
        while out.len() < enough {
            let Some(name) = target.next_backend(&mut self.place) else { return Step::Done };
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        Step::More
    }
}

fn show_cli_sockets(context: &mut Context<'_>, _: &Arguments<'_>) -> Outcome {
    let mut text = String::from("# socket lvl processes\n");
    for socket in context.target.cli_sockets() {
        let _ = writeln!(text, "{} {} all", socket.address, socket.level.name());
    }
    Outcome::Text(text)
}

fn show_env(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let variables = context.target.environment();
    let name = arguments.word(0);
    if name.is_empty() {
        return Outcome::Text(variables.iter().map(|variable| format!("{variable}\n")).collect());
    }
    match variables
        .iter()
        .find(|variable| variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    {
        Some(variable) => Outcome::Text(format!("{variable}\n")),
        None => Outcome::error("Variable not found\n"),
    }
}
