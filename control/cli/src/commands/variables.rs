//! Variables of scope `proc`.

use crate::command::{Arguments, Command, Context, EXPERIMENTAL, WORKER};
use crate::level::Level;
use crate::outcome::Outcome;
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

fn get(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return Outcome::error("Missing process-wide variable identifier.\n");
    }
    match context.target.variable(name) {
        Some((type_, value)) => Outcome::info(format!("{name}: type={type_} value=<{value}>\n")),
        None => Outcome::error("Variable not found.\n"),
    }
}

fn set(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return Outcome::error("Missing process-wide variable identifier.\n");
    }
    let source = match (arguments.word(1), arguments.word(2)) {
        ("", _) | ("fmt" | "expr", "") => {
            return Outcome::error("Missing either 'expr', 'fmt' or expression.\n");
        }
        ("fmt", format) => VariableSource::Format(format),
        ("expr", expression) | (expression, "") => VariableSource::Expression(expression),
        (kind, _) => {
            return Outcome::error(format!(
                "'set var': 'expr' or 'fmt' is expected before the value, not '{kind}'.\n"
            ));
        }
    };
    match context.target.set_variable(name, source) {
        Ok(()) => Outcome::Nothing,
        Err(text) => Outcome::error(format!("{text}\n")),
    }
}
