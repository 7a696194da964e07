//! Commands on frontends.

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::{answer, frontend};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::{FrontendKey, FrontendRefusal};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "disable frontend",
        syntax: "disable frontend <frontend>",
        level: Level::Admin,
        flags: WORKER,
        help: "stop accepting connections until it is enabled again",
        run: Some(|context, arguments| {
            let refusals = Refusals {
                already: "All sockets are already disabled.\n",
                gone: "Frontend was previously shut down, cannot disable.\n",
            };
            on_frontend(context, arguments, refusals, |context, key| context.target.disable_frontend(key))
        }),
    },
    Command {
        name: "enable frontend",
        syntax: "enable frontend <frontend>",
        level: Level::Admin,
        flags: WORKER,
        help: "accept connections again after 'disable frontend'",
        run: Some(|context, arguments| {
            let refusals = Refusals {
                already: "All sockets are already enabled.\n",
                gone: "Frontend was previously shut down, cannot enable.\n",
            };
            on_frontend(context, arguments, refusals, |context, key| context.target.enable_frontend(key))
        }),
    },
    Command {
        name: "shutdown frontend",
        syntax: "shutdown frontend <frontend>",
        level: Level::Admin,
        flags: WORKER,
        help: "close the sockets of a frontend for good",
        run: Some(|context, arguments| {
            let text = "Frontend was already shut down.\n";
            let refusals = Refusals { already: text, gone: text };
            on_frontend(context, arguments, refusals, |context, key| context.target.shutdown_frontend(key))
        }),
    },
    Command {
        name: "set maxconn frontend",
        syntax: "set maxconn frontend <frontend> <value>",
        level: Level::Admin,
        flags: WORKER,
        help: "limit the connections of a frontend",
        run: Some(set_maxconn),
    },
];

/// The messages for refused changes.
struct Refusals {
    already: &'static str,
    gone: &'static str,
}

fn on_frontend(
    context: &mut CommandContext<'_>,
    arguments: &CommandArguments<'_>,
    refusals: Refusals,
    act: fn(&mut CommandContext<'_>, FrontendKey) -> Result<(), FrontendRefusal>,
) -> CommandOutcome {
    answer(|| {
        let key = frontend(context, arguments.word(0))?;
        act(context, key).map_err(|refusal| refused(refusal, &refusals))?;
        Ok(CommandOutcome::Nothing)
    })
}

fn refused(refusal: FrontendRefusal, refusals: &Refusals) -> CommandOutcome {
    match refusal {
        FrontendRefusal::Gone => CommandOutcome::error(refusals.gone),
        FrontendRefusal::Already => CommandOutcome::error(refusals.already),
        FrontendRefusal::Because(text) => CommandOutcome::error(format!("{text}\n")),
    }
}

fn set_maxconn(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let key = frontend(context, arguments.word(0))?;
        let value: i64 =
            arguments.word(1).parse().map_err(|_| CommandOutcome::error("Integer value expected.\n"))?;
        let value = u32::try_from(value).map_err(|_| CommandOutcome::error("Value out of range.\n"))?;
        let text = "Frontend was previously shut down.\n";
        let refusals = Refusals { already: text, gone: text };
        context.target.set_frontend_maxconn(key, value).map_err(|refusal| refused(refusal, &refusals))?;
        Ok(CommandOutcome::Nothing)
    })
}
