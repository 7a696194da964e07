//! Actions on variables, on maps and on ACL files.

use std::borrow::Cow;
use std::sync::Arc;

use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Word, fault};
use weir_expr::pattern::{PatternSet, Selector, SetError};
use weir_expr::{Context as _, Expr, FetchResult, FormatOptions, LogFormat, SetCondition, Value, VariableId};
use weir_fingerprint::Canonical;
use weir_model::{Action, Visit};

use super::{ActionResult, ActionRow, RuleContext, StreamAction};
use crate::stream::Stream;

pub(super) const ROWS: &[ActionRow] = &[
    action(
        "set-var",
        "(<var-name>[,<cond>...]) <expr>",
        "(txn.a,ifnotexists) src",
        "set a variable",
        sets::EVERY,
        |context, words| {
            let (name, condition) = variable(context)?;
            let value = context.expression(words)?;
            Ok(SetVariable { name, condition, value }.into_action())
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
            // An empty text is a valid value.
            let word = words.take().ok_or_else(|| words.fault("expects exactly 1 argument <format>."))?;
            let value = context.format(word, FormatOptions::PLAIN)?;
            Ok(SetVariableFormat { name, condition, value }.into_action())
        },
    ),
    action("unset-var", "(<var-name>)", "(txn.a)", "forget a variable", sets::EVERY, |context, _| {
        let (name, condition) = variable(context)?;
        if condition != SetCondition::ALWAYS {
            return Err(fault(context.word.span(), "'unset-var' takes no conditions."));
        }
        Ok(UnsetVariable(name).into_action())
    }),
    action(
        "add-acl",
        "(<file-name>) <key fmt>",
        "(virt@a) %[src]",
        "add an entry to an ACL file",
        sets::HTTP_MESSAGES,
        |context, words| {
            let key = words.expect("expects exactly 1 arguments.")?;
            patterns(context, key, Edit::AddAcl)
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
            patterns(context, key, Edit::DeleteAcl)
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
            patterns(context, key, Edit::DeleteMap)
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
            let value = context.format(value, FormatOptions::PLAIN)?;
            patterns(context, key, Edit::SetMap { value })
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
    let name = context.variable(parts.next().unwrap_or_default().trim())?;
    let mut condition = SetCondition::ALWAYS;
    for part in parts {
        condition = condition.with_word(part.trim()).map_err(|message| fault(span, message))?;
    }
    Ok((name, condition))
}

fn patterns(context: &ActionContext<'_, '_>, key: &Word, edit: Edit) -> Parsed<Action> {
    let Some(file) = context.parenthesized().filter(|file| !file.is_empty()) else {
        let message = format!("'{}' expects a file name in parentheses.", context.word);
        return Err(fault(context.word.span(), message));
    };
    let has_values = matches!(edit, Edit::DeleteMap | Edit::SetMap { .. });
    // An entry is removed by key, both from maps and from ACL files.
    let known = match edit {
        Edit::DeleteAcl | Edit::DeleteMap => context.known_patterns(file),
        Edit::AddAcl | Edit::SetMap { .. } => None,
    };
    let set = match known {
        Some(set) => set,
        None => context.changed_patterns(file, has_values)?,
    };
    let key = context.format(key, FormatOptions::PLAIN)?;
    Ok(PatternEdit { set, key, edit }.into_action())
}

/// `set-var`.
#[derive(Debug, Canonical)]
struct SetVariable {
    name: VariableId,
    condition: SetCondition,
    value: Arc<Expr>,
}

impl StreamAction for SetVariable {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        // If the expression fails, the variable stays unchanged (manual, "set-var").
        if let FetchResult::Sample(sample) = self.value.evaluate(stream).into_owned() {
            // At the memory limit the variable is not set. This does not end a stream (manual, "tune.vars.global-max-size").
            stream.set_variable(self.name, sample.value, self.condition);
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// `set-var-fmt`.
#[derive(Debug, Canonical)]
struct SetVariableFormat {
    name: VariableId,
    condition: SetCondition,
    value: LogFormat,
}

impl StreamAction for SetVariableFormat {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let text = stream.format(&self.value);
        // At the memory limit the variable is not set, as with `set-var`.
        stream.set_variable(self.name, Value::Str(Cow::Borrowed(&text)), self.condition);
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// `unset-var`.
#[derive(Debug, Canonical)]
struct UnsetVariable(VariableId);

impl StreamAction for UnsetVariable {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        stream.unset_variable(self.0);
        ActionResult::NEXT
    }
}

/// `add-acl`, `del-acl`, `del-map`, `set-map`: a change to a set of patterns.
#[derive(Debug, Canonical)]
struct PatternEdit {
    /// The patterns of the file.
    set: Arc<PatternSet>,
    key: LogFormat,
    edit: Edit,
}

#[derive(Debug, Canonical)]
enum Edit {
    AddAcl,
    DeleteAcl,
    DeleteMap,
    SetMap { value: LogFormat },
}

impl StreamAction for PatternEdit {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let key = stream.format(&self.key);
        let changed = match &self.edit {
            // An existing entry is not added again (manual, "add-acl").
            Edit::AddAcl if self.set.contains(&key) => Ok(()),
            Edit::AddAcl => self.set.add(None, &key, None),
            Edit::DeleteAcl | Edit::DeleteMap => match self.set.delete(Selector::Pattern(&key)) {
                Err(SetError::NotFound) => Ok(()),
                other => other.map(drop),
            },
            Edit::SetMap { value } => {
                let value = stream.format(value);
                self.set.set_or_add(None, &key, &value)
            }
        };
        ActionResult::of(changed.is_ok())
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.key.visit_references(visit);
        if let Edit::SetMap { value } = &self.edit {
            value.visit_references(visit);
        }
    }
}
