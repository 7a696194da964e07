//! Words about the environment. Each takes effect on the next line.

use weir_syntax::{Diagnostic, Layout};

use super::context::GlobalReader;
use crate::rows::Row;
use crate::words::{Parsed, Words};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::discovered("setenv", "<name> <value>", "NAME value", "set a variable", |line, words| {
        let (name, value) = name_and_value(words, "setenv")?;
        line.world.set_variable(name, value);
        Ok(())
    }),
    Row::discovered(
        "presetenv",
        "<name> <value>",
        "NAME value",
        "set a variable unless it is set",
        |line, words| {
            let (name, value) = name_and_value(words, "presetenv")?;
            line.world.change_environment(|environment| environment.set_if_absent(name, value));
            Ok(())
        },
    ),
    Row::discovered("unsetenv", "[<name> ...]", "NAME", "forget variables", |line, words| {
        if words.peek_text().is_empty() {
            return Err(tight(words, "'unsetenv' expects at least one variable name."));
        }
        while let Some(name) = words.take() {
            line.world.change_environment(|environment| environment.remove(name.bytes()));
        }
        Ok(())
    }),
    Row::discovered(
        "resetenv",
        "[<name> ...]",
        "PATH HOME",
        "forget all variables but these",
        |line, words| {
            let mut kept = Vec::new();
            while let Some(name) = words.take() {
                kept.push(name.bytes());
            }
            line.world.change_environment(|environment| environment.retain(|name| kept.contains(&name)));
            Ok(())
        },
    ),
];

fn name_and_value<'l>(words: &mut Words<'l>, keyword: &str) -> Parsed<(&'l str, &'l [u8])> {
    let complaint = format!("'{keyword}' expects a name and a value.");
    let name = words.take().filter(|name| !name.text().is_empty());
    let value = words.take().filter(|value| !value.bytes().is_empty());
    match (name, value) {
        (Some(name), Some(value)) => {
            words.end(keyword)?;
            Ok((name.text(), value.bytes()))
        }
        _ => Err(tight(words, &complaint)),
    }
}

fn tight(words: &Words<'_>, message: &str) -> crate::words::Fault {
    Box::new(Diagnostic::alert(words.here(), message).layout(Layout::ParsingTight))
}
