//! Limits of the process: `set maxconn global`, `set rate-limit`.

use crate::command::{Command, CommandArguments, CommandContext, SERVING, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::Limit;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "set maxconn global",
        syntax: "set maxconn global <value>",
        level: Level::Admin,
        flags: WORKER | SERVING,
        help: "limit the connections of the process (0: as configured)",
        run: Some(set_maxconn),
    },
    Command {
        name: "set rate-limit",
        syntax: "set rate-limit <setting> <value>",
        level: Level::Admin,
        flags: WORKER | SERVING,
        help: "limit the work that the process accepts per second (0: no limit)",
        run: Some(set_rate_limit),
    },
];

fn set_maxconn(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match arguments.word(0).parse() {
        Ok(value) => set(context, Limit::Maxconn, value),
        Err(_) => CommandOutcome::error("Expects an integer value.\n"),
    }
}

const RATE_LIMITS: &str = "\
'set rate-limit' only supports :
   - 'connections global' to set the per-process maximum connection rate
   - 'sessions global' to set the per-process maximum session rate
   - 'ssl-sessions global' to set the per-process maximum SSL session rate
   - 'http-compression global' to set the per-process maximum compression speed in kB/s
";

fn set_rate_limit(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let what = arguments.word(0);
    if arguments.word(1) != "global" {
        return CommandOutcome::error(RATE_LIMITS);
    }
    let limit = match what {
        "connections" => Limit::ConnectionRate,
        "sessions" => Limit::SessionRate,
        "ssl-sessions" => Limit::TlsRate,
        "http-compression" => Limit::CompressionRate,
        _ => return CommandOutcome::error(RATE_LIMITS),
    };
    match arguments.word(2).parse() {
        Ok(value) => set(context, limit, value),
        Err(_) => CommandOutcome::error("Expects an integer value.\n"),
    }
}

fn set(context: &mut CommandContext<'_>, limit: Limit, value: u32) -> CommandOutcome {
    if context.target.set_limit(limit, value) {
        CommandOutcome::Nothing
    } else {
        CommandOutcome::error("Value out of range.\n")
    }
}
