//! TLS ticket keys: lists their files, and adds keys.

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::{CommandTarget, TicketKeyRefusal};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "set ssl tls-key",
        syntax: "set ssl tls-key [id|file] <key>",
        // A chosen key can decrypt sessions.
        level: Level::Admin,
        flags: WORKER,
        help: "choose the next key for session tickets",
        run: Some(set),
    },
    Command {
        name: "show tls-keys",
        syntax: "show tls-keys [id|*]",
        // A key can decrypt sessions.
        level: Level::Admin,
        flags: WORKER,
        help: "list the keys for session tickets",
        run: Some(show),
    },
];

/// The number of the file given by `#<id>` or by its path.
fn number_of(target: &dyn CommandTarget, word: &str) -> Option<usize> {
    let files = target.ticket_keys();
    match word.strip_prefix('#') {
        Some(number) => number.parse().ok().filter(|number| *number < files.len()),
        None => files.iter().position(|keys| keys.file == word),
    }
}

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let files = context.target.ticket_keys();
    let word = arguments.word(0);
    if word.is_empty() {
        let lines = files.iter().enumerate().map(|(number, keys)| format!("{number} ({})\n", keys.file));
        return CommandOutcome::Text(format!("# id (file)\n{}", lines.collect::<String>()));
    }
    let chosen = match word {
        "*" => None,
        word => match number_of(context.target, word) {
            None => return CommandOutcome::error("'show tls-keys' unable to locate referenced filename\n"),
            number => number,
        },
    };
    let mut text = "# id secret\n".to_owned();
    let all = files.iter().enumerate().filter(|(number, _)| chosen.is_none_or(|chosen| chosen == *number));
    for (number, keys) in all {
        // Writing to memory does not fail.
        let _ = writeln!(text, "# {number} ({})", keys.file);
        for (at, secret) in keys.secrets.iter().enumerate() {
            let _ = writeln!(text, "{number}.{at} {secret}");
        }
    }
    if word == "*" && !files.is_empty() {
        text.push('\n');
    }
    CommandOutcome::Text(text)
}

fn set(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (word, key) = (arguments.word(0), arguments.word(1));
    if word.is_empty() || key.is_empty() {
        return CommandOutcome::error(
            "'set ssl tls-key' expects a filename and the new TLS key in base64 encoding.\n",
        );
    }
    let file =
        number_of(context.target, word).map(|number| context.target.ticket_keys().swap_remove(number).file);
    let pushed = match &file {
        Some(file) => context.target.push_ticket_key(file, key),
        None => Err(TicketKeyRefusal::UnknownFile),
    };
    match pushed {
        Ok(()) => CommandOutcome::info("TLS ticket key updated!\n"),
        Err(TicketKeyRefusal::UnknownFile) => {
            CommandOutcome::error("'set ssl tls-key' unable to locate referenced filename\n")
        }
        Err(TicketKeyRefusal::NotBase64) => {
            CommandOutcome::error("'set ssl tls-key' received invalid base64 encoded TLS key.\n")
        }
        Err(TicketKeyRefusal::WrongSize) => {
            CommandOutcome::error("'set ssl tls-key' received a key of wrong size.\n")
        }
    }
}
