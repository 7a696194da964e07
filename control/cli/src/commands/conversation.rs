//! Commands on the session itself: help, prompt, levels, `wait`.

use crate::command::{Command, CommandArguments, CommandContext, HIDDEN, MASTER, SERVING, WORKER};
use crate::commands::{answer, server};
use crate::level::{Level, SeverityOutput};
use crate::modes::{SessionMode, SessionModes};
use crate::outcome::{CommandOutcome, WaitCondition};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "help",
        syntax: "help [<command>]",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "list all commands, or those that look like this one",
        run: Some(|context, arguments| {
            let scripts = context.target.script_commands();
            CommandOutcome::info(super::help(arguments.from(0), &scripts, WORKER, context.modes))
        }),
    },
    Command {
        name: "prompt",
        syntax: "prompt [help | n | i | p | timed ]*",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "keep the connection open after a command, with a prompt",
        run: Some(prompt),
    },
    Command {
        name: "quit",
        syntax: "quit",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "close the connection",
        run: Some(|_, _| CommandOutcome::Quit),
    },
    Command {
        name: "user",
        syntax: "user",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "give up all rights but those of level user, for this connection",
        run: Some(|context, arguments| lower(context, arguments, Level::User)),
    },
    Command {
        name: "operator",
        syntax: "operator",
        level: Level::Operator,
        flags: WORKER | MASTER,
        help: "give up all rights but those of level operator, for this connection",
        run: Some(|context, arguments| lower(context, arguments, Level::Operator)),
    },
    Command {
        name: "show cli level",
        syntax: "show cli level",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print the level of this connection",
        run: Some(|context, _| CommandOutcome::info(format!("{}\n", context.modes.level.name()))),
    },
    Command {
        name: "expert-mode",
        syntax: "expert-mode [on|off]",
        level: Level::Admin,
        flags: WORKER | MASTER | HIDDEN,
        help: "open commands that can harm the process, for this connection",
        run: Some(|context, arguments| obey("expert-mode", &mut context.modes.expert, arguments)),
    },
    Command {
        name: "experimental-mode",
        syntax: "experimental-mode [on|off]",
        level: Level::Admin,
        flags: WORKER | MASTER | HIDDEN,
        help: "open commands that may still change, for this connection",
        run: Some(|context, arguments| obey("experimental-mode", &mut context.modes.experimental, arguments)),
    },
    Command {
        name: "set severity-output",
        syntax: "set severity-output [none|number|string]",
        level: Level::User,
        flags: WORKER,
        help: "choose whether messages begin with their severity, for this connection",
        run: Some(set_severity_output),
    },
    Command {
        name: "set timeout",
        syntax: "set timeout [cli] <delay>",
        level: Level::User,
        flags: WORKER,
        help: "choose how many seconds of silence close this connection",
        run: Some(set_timeout),
    },
    Command {
        name: "_getsocks",
        syntax: "_getsocks",
        level: Level::User,
        flags: WORKER | HIDDEN | SERVING,
        help: "hand over the listening sockets",
        run: Some(|_, _| CommandOutcome::HandOver),
    },
    Command {
        name: "echo",
        syntax: "echo <text>",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print these words",
        run: Some(|_, arguments| CommandOutcome::Text(format!("{}\n", arguments.from(0).join(" ")))),
    },
    Command {
        name: "wait",
        syntax: "wait {-h|<delay_ms>} cond [args...]",
        level: Level::Admin,
        flags: WORKER,
        help: "wait so long, or until a condition holds (-h lists them)",
        run: Some(wait),
    },
];

/// Lowers the level. With `-` without output: a master does this before it forwards a command.
fn lower(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>, level: Level) -> CommandOutcome {
    if level > context.modes.level {
        return CommandOutcome::denied();
    }
    context.modes.level = level;
    context.modes.expert = false;
    context.modes.experimental = false;
    if arguments.word(0) == "-" { CommandOutcome::Silence } else { CommandOutcome::Nothing }
}

/// Switches a mode. With `-` without output, like [`lower`].
fn obey(name: &str, state: &mut bool, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match switch(name, state, arguments.word(0)) {
        Some(text) => CommandOutcome::info(text),
        None if arguments.word(1) == "-" => CommandOutcome::Silence,
        None => CommandOutcome::Nothing,
    }
}

/// Switches a mode on or off. Without a word, returns the state as text.
pub fn switch(name: &str, state: &mut bool, word: &str) -> Option<String> {
    match word {
        "" => return Some(format!("{name} is {}\n", if *state { "ON" } else { "OFF" })),
        "on" => *state = true,
        // Any other word switches the mode off, so that it is never on by mistake.
        _ => *state = false,
    }
    None
}

fn set_severity_output(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match choose_severity_output(context.modes, arguments.word(0)) {
        Err(text) => CommandOutcome::error(text),
        // No output, like the level commands.
        Ok(()) if arguments.word(1) == "-" => CommandOutcome::Silence,
        Ok(()) => CommandOutcome::Nothing,
    }
}

/// Sets how messages show their severity. The error is the command's output.
pub fn choose_severity_output(modes: &mut SessionModes, word: &str) -> Result<(), &'static str> {
    let choice = SeverityOutput::from_name(word);
    modes.severity_output = choice.ok_or("one of 'none', 'number', 'string' is a required argument\n")?;
    Ok(())
}

fn set_timeout(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match choose_timeout(context.modes, [arguments.word(0), arguments.word(1)]) {
        Err(text) => CommandOutcome::error(text),
        Ok(()) => CommandOutcome::Nothing,
    }
}

/// Sets the idle timeout, from the words `cli` and a delay in seconds. The error is the command's output.
pub fn choose_timeout(modes: &mut SessionModes, words: [&str; 2]) -> Result<(), &'static str> {
    let [side, delay] = words;
    if side != "cli" {
        return Err("'set timeout' only supports 'cli'.\n");
    }
    if delay.is_empty() {
        return Err("Expects an integer value.\n");
    }
    let delay = duration_ms(delay, 1000).filter(|delay| (1..=LONGEST_TIMEOUT_MS).contains(delay));
    modes.timeout_ms = Some(delay.ok_or("Invalid timeout value.\n")?);
    Ok(())
}

/// Maximum timeout, as for any setting: the milliseconds must fit into 32 bits.
const LONGEST_TIMEOUT_MS: u64 = u32::MAX as u64;

/// The output of `prompt help`.
pub const PROMPT_HELP: &str = "\
Usage: prompt [help | n | i | p | timed]*
Changes the default prompt and interactive mode. Available options:
  help    display this help
  n       set to single-command mode (no prompt, single command)
  i       set to interactive mode only (no prompt, multi-command)
  p       set to prompt+interactive mode (prompt + multi-command)
  timed   toggle displaying the uptime in the prompt
Without any argument, toggles between n/i->p, p->n.
";

fn prompt(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (mut mode, mut timed) = (None, context.modes.timed);
    for word in arguments.from(0) {
        match word.as_str() {
            "n" => mode = Some(SessionMode::Single),
            "i" => mode = Some(SessionMode::Interactive),
            "p" => mode = Some(SessionMode::Prompt),
            "timed" => timed = !context.modes.timed,
            _ => return CommandOutcome::Text(PROMPT_HELP.to_owned()),
        }
    }
    // A timed prompt implies a prompt.
    let turned_on = context.modes.mode == SessionMode::Prompt && arguments.is_empty();
    let unless_said = if turned_on { SessionMode::Single } else { SessionMode::Prompt };
    context.modes.mode = mode.unwrap_or(unless_said);
    context.modes.timed = timed;
    CommandOutcome::Nothing
}

const WAIT_HELP: &str = "\
Usage: wait {-h|<duration>} [condition [args...]]
  - '-h' displays this help
  - <duration> is the maximum wait time, optionally suffixed by the unit among
    'us', 'ms', 's', 'm', 'h', and 'd'. ; the default unit is milliseconds.
  - <condition> indicates what to wait for, no longer than the specified
    duration. Supported conditions are:
    - <none> : by default, just sleep for the specified duration.
    - srv-removable <px>/<sv> : wait for this server to become removable.
";

fn wait(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        match arguments.word(0) {
            "" => return Err(CommandOutcome::error("Expects a duration in milliseconds.\n")),
            "-h" => return Ok(CommandOutcome::Text(WAIT_HELP.to_owned())),
            _ => {}
        }
        let delay_ms = duration_ms(arguments.word(0), 1).filter(|&delay| delay > 0);
        let delay_ms = delay_ms.ok_or_else(|| CommandOutcome::error("Invalid duration.\n"))?;
        let until = match (arguments.word(1), arguments.word(2)) {
            ("", _) => None,
            ("srv-removable", "") => {
                return Err(CommandOutcome::error("Missing server name (<backend>/<server>).\n"));
            }
            ("srv-removable", name) => match server(context, name) {
                Ok(key) => Some(WaitCondition::Removable(key)),
                Err(CommandOutcome::Message(_, why)) if name.contains('/') => {
                    return Err(CommandOutcome::error(format!("Failed. {why}")));
                }
                Err(other) => return Err(other),
            },
            _ => return Err(CommandOutcome::error(WAIT_HELP)),
        };
        Ok(CommandOutcome::Wait { delay_ms, until })
    })
}

/// Parses `10`, `10ms`, `2s`, ... as milliseconds, rounded up. A number without a unit is in `default_unit_ms`.
pub(super) fn duration_ms(text: &str, default_unit_ms: u64) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "" => default_unit_ms,
        "us" => return Some(number.div_ceil(1000)),
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_with_units() {
        for (text, expected) in [
            ("10", Some(10_000)),
            ("10ms", Some(10)),
            ("1500us", Some(2)),
            ("2m", Some(120_000)),
            ("1d", Some(86_400_000)),
            ("", None),
            ("x", None),
            ("1w", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("9999999999999999999d", None),
        ] {
            assert_eq!(duration_ms(text, 1000), expected, "{text}");
        }
    }
}
