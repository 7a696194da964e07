//! Actions on variables, on maps and on ACL files.

use weir_expr::{FormatOptions, SetCondition, VariableId};
use weir_syntax::Word;

use super::{ActionContext, ActionReader, action, sets};
use crate::model::{Action, PatternEdit, PatternEditKind};
use crate::rows::Row;
use crate::words::{Parsed, fault};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action(
        "set-var",
        "(<var-name>[,<cond>...]) <expr>",
        "(txn.a,ifnotexists) src",
        "set a variable",
        sets::EVERY,
        |context, words| {
            let (name, condition) = variable(context)?;
            let value = context.line.expressions().expression(words, context.points)?;
            Ok(Action::SetVariable { name, condition, value })
        },
    ),
    action(
        "set-var-fmt",
        "(<var-name>[,<cond>...]) <fmt>",
        "(txn.a) %[src]",
        "set a variable to a formatted text",
        sets::EVERY,
        |context, words| {
            let (name, condition) = variable(context)?;
            // An empty text is a value, too.
            let word = words.take().ok_or_else(|| words.fault("expects exactly 1 argument <format>."))?;
            let format =
                context.line.expressions().format_with(word, context.points, FormatOptions::PLAIN)?;
            Ok(Action::SetVariableFormat { name, condition, value: Box::new(format) })
        },
    ),
    action("unset-var", "(<var-name>)", "(txn.a)", "forget a variable", sets::EVERY, |context, _| {
        let (name, condition) = variable(context)?;
        if condition != SetCondition::ALWAYS {
            return Err(fault(context.word.span(), "'unset-var' takes no conditions."));
        }
        Ok(Action::UnsetVariable(name))
    }),
    action(
        "add-acl",
        "(<file-name>) <key fmt>",
        "(virt@a) %[src]",
        "add an entry to an ACL file",
        sets::HTTP_MESSAGES,
        |context, words| {
            let key = words.expect("expects exactly 1 arguments.")?;
            patterns(context, key, PatternEditKind::AddAcl)
        },
    ),
    action(
        "del-acl",
        "(<file-name>) <key fmt>",
        "(virt@a) %[src]",
        "remove an entry of an ACL file",
        sets::HTTP,
        |context, words| {
            let key = words.expect("expects exactly 1 arguments.")?;
            patterns(context, key, PatternEditKind::DeleteAcl)
        },
    ),
    action(
        "del-map",
        "(<map-name>) <key fmt>",
        "(virt@b) %[src]",
        "remove an entry of a map",
        sets::HTTP,
        |context, words| {
            let key = words.expect("expects exactly 1 arguments.")?;
            patterns(context, key, PatternEditKind::DeleteMap)
        },
    ),
    action(
        "set-map",
        "(<map-name>) <key fmt> <value fmt>",
        "(virt@b) %[src] x",
        "set an entry of a map",
        sets::HTTP,
        |context, words| {
            let expects = "expects exactly 2 arguments.";
            let key = words.expect(expects)?;
            let value = words.expect(expects)?;
            let value =
                context.line.expressions().format_with(value, context.points, FormatOptions::PLAIN)?;
            patterns(context, key, PatternEditKind::SetMap { value })
        },
    ),
];

fn variable(context: &ActionContext<'_, '_>) -> Parsed<(VariableId, SetCondition)> {
    let span = context.word.span();
    let Some(arguments) = context.parenthesized() else {
        let message = format!(
            "invalid or incomplete action '{}'. Expects 'set-var(<var-name>)', 'set-var-fmt(<var-name>)' or 'unset-var(<var-name>)'.",
            context.word
        );
        return Err(fault(span, message));
    };
    let mut parts = arguments.split(',');
    let name = parts.next().unwrap_or_default().trim();
    let name = context.line.resources.variables.intern(name);
    let name = name.map_err(|message| fault(span, message))?;
    let mut condition = SetCondition::ALWAYS;
    for part in parts {
        condition = condition.with_word(part.trim()).map_err(|message| fault(span, message))?;
    }
    Ok((name, condition))
}

fn patterns(context: &mut ActionContext<'_, '_>, key: &Word, edit: PatternEditKind) -> Parsed<Action> {
    let span = context.word.span();
    let Some(file) = context.parenthesized().filter(|file| !file.is_empty()) else {
        return Err(fault(span, format!("'{}' expects a file name in parentheses.", context.word)));
    };
    let has_values = matches!(edit, PatternEditKind::DeleteMap | PatternEditKind::SetMap { .. });
    let resources = context.line.resources;
    // An entry is removed by its key, whatever kind of list it is in.
    let known = match edit {
        PatternEditKind::DeleteAcl | PatternEditKind::DeleteMap => resources.patterns.find(file),
        PatternEditKind::AddAcl | PatternEditKind::SetMap { .. } => None,
    };
    let set = match known {
        Some(set) => Ok(set),
        None => resources.patterns.changed(file, has_values, resources.loader),
    };
    let set = set.map_err(|message| fault(span, message))?;
    let key = context.line.expressions().format_with(key, context.points, FormatOptions::PLAIN)?;
    Ok(Action::Pattern(Box::new(PatternEdit { set, key, edit })))
}
