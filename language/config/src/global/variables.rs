//! `set-var` and `set-var-fmt`: variables of the process, set once at start.

use std::cell::RefCell;
use std::sync::Arc;

use weir_expr::{AclTable, EvaluationPoint, EvaluationPoints, FormatOptions, VariableId, VariableScope};

use super::context::{GlobalContext, GlobalReader};
use crate::expressions::{ExpressionParser, Notes};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{ProcessValue, ProcessVariable};

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready(
        "set-var",
        "<var-name> <expr>",
        "proc.site str(north)",
        "set a variable of the process",
        |line, words| {
            let name = variable(line, words, "a sample expression")?;
            let value = with_expressions(line, |expressions| {
                let value = expressions.expression(words, PLACES)?;
                words.end("set-var")?;
                Ok(ProcessValue::Expression(value))
            })?;
            line.global.variables.push(ProcessVariable { name, value, at: line.at.clone() });
            Ok(())
        },
    ),
    Row::ready(
        "set-var-fmt",
        "<var-name> <fmt>",
        "proc.site north-%[pid]",
        "set a variable of the process",
        |line, words| {
            let name = variable(line, words, "a format string")?;
            let value = with_expressions(line, |expressions| {
                let format = words.expect("'set-var-fmt' expects a format string as argument.")?;
                words.end("set-var-fmt")?;
                let format = expressions.format_with(format, PLACES, FormatOptions::PLAIN)?;
                Ok(ProcessValue::Format(Arc::new(format)))
            })?;
            line.global.variables.push(ProcessVariable { name, value, at: line.at.clone() });
            Ok(())
        },
    ),
];

/// Parses a value without ACLs and without references to proxies, since neither is known yet.
fn with_expressions(
    line: &mut GlobalContext<'_>,
    parse: impl FnOnce(ExpressionParser<'_>) -> Parsed<ProcessValue>,
) -> Parsed<ProcessValue> {
    let (acls, notes) = (AclTable::default(), RefCell::new(Notes::default()));
    let value =
        parse(ExpressionParser { resources: line.resources, acls: &acls, at: &line.at, notes: &notes })?;
    let notes = notes.into_inner();
    notes.warnings.into_iter().for_each(|warning| line.diagnostics.push(warning));
    match notes.references.first() {
        None => Ok(value),
        Some(reference) => {
            let message =
                format!("'{}': '{}' is not known in the global section.", line.keyword, reference.name);
            Err(fault(reference.span, message))
        }
    }
}

/// The values are evaluated during parsing, without a stream.
const PLACES: EvaluationPoints = EvaluationPoints::only(EvaluationPoint::ConfigParser);

/// Reads the variable's name, which must have process scope. `what` must follow the name.
fn variable(line: &GlobalContext<'_>, words: &mut Words<'_>, what: &str) -> Parsed<VariableId> {
    let keyword = line.keyword;
    let name = words.take().filter(|_| !words.at_end());
    let Some(name) = name else {
        let message =
            format!("'{keyword}' requires a process-wide variable name ('proc.<name>') and {what}.");
        return Err(fault(words.line().span(), message));
    };
    let id = line.resources.variables.intern(name.text()).map_err(|message| fault(name.span(), message))?;
    if id.scope != VariableScope::Process {
        let message = format!(
            "'{keyword}': cannot set variable '{name}', only scope 'proc' is permitted in the global section."
        );
        return Err(fault(name.span(), message));
    }
    Ok(id)
}
