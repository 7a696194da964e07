//! Commands of the master CLI. The master executes them itself. Their rows are here so that `help` lists them with the others.

use crate::command::{Command, HIDDEN, MASTER};
use crate::level::Level;
use crate::outcome::CommandOutcome;

macro_rules! of_the_master {
    ($($flags:expr, $level:ident => { $($name:literal, $syntax:literal, $help:literal;)* })*) => {
        &[$($(Command {
            name: $name,
            syntax: $syntax,
            level: Level::$level,
            flags: $flags,
            help: $help,
            // A session on a worker does not find these rows.
            run: Some(|_, _| CommandOutcome::error("This command is the master's.\n")),
        },)*)*]
    };
}

pub(super) static COMMANDS: &[Command] = of_the_master! {
    MASTER, User => {
        "@!<pid>", "@!<pid> [command]", "send commands to the process with this identifier";
        "@<relative pid>", "@<relative pid> [command]", "send commands to a worker by its number; after @@, all that follows";
        "@master", "@master [command]", "send commands to the master again";
        "show proc", "show proc [debug]", "list the processes";
    }
    MASTER | HIDDEN, User => {
        "_loadstatus", "_loadstatus", "report the result of the last reload, to the process that requested it";
        "_send_status", "_send_status READY <pid>", "a worker reports to its master that it is ready";
    }
    MASTER | HIDDEN, Admin => {
        "mcli-debug-mode", "mcli-debug-mode [on|off]", "open the commands of workers on the master, for this connection";
    }
    MASTER, Operator => {
        "hard-reload", "hard-reload", "reload and stop the old workers at once";
        "reload", "reload", "start new workers with the current configuration";
    }
};
