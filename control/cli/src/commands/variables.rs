//! Variables of scope `proc`.

use crate::command::{Command, CommandArguments, CommandContext, EXPERIMENTAL, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::VariableSource;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "get var",
        syntax: "get var <name>",
        level: Level::Operator,
        flags: WORKER,
        help: "show type and value of a variable of the process",
        run: Some(get),
    },
    Command {
        name: "set var",
        syntax: "set var <name> [fmt|expr] {<fmt>|<expr>}",
        level: Level::Operator,
        flags: WORKER | EXPERIMENTAL,
        help: "give a variable of the process a new value",
        run: Some(set),
    },
];

fn get(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return CommandOutcome::error("Missing process-wide variable identifier.\n");
    }
    match context.target.variable(name) {
        Some((type_, value)) => CommandOutcome::info(format!("{name}: type={type_} value=<{value}>\n")),
        None => CommandOutcome::error("Variable not found.\n"),
    }
}

fn set(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return CommandOutcome::error("Missing process-wide variable identifier.\n");
    }
    let source = match (arguments.word(1), arguments.word(2)) {
        ("", _) | ("fmt" | "expr", "") => {
            return CommandOutcome::error("Missing either 'expr', 'fmt' or expression.\n");
        }
        ("fmt", format) => VariableSource::Format(format),
        ("expr", expression) | (expression, "") => VariableSource::Expression(expression),
        (kind, _) => {
            return CommandOutcome::error(format!(
                "'set var': 'expr' or 'fmt' is expected before the value, not '{kind}'.\n"
            ));
        }
    };
    match context.target.set_variable(name, source) {
        Ok(()) => CommandOutcome::Nothing,
        Err(text) => CommandOutcome::error(format!("{text}\n")),
    }
}
