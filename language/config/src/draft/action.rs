//! The declaration of an action, and an action during parsing.
//!
//! Other crates supply the rows, as with fetches. This crate parses rules and calls a row's reader for the arguments.

use weir_expr::EvaluationPoints;
use weir_syntax::Word;

use super::LineContext;
use crate::rows::Table;
use crate::words::{Parsed, Words};
use weir_model::{Action, RulesetKind, RulesetSet};

/// All actions, in the order in which messages list them.
pub type ActionTable = Table<ActionReader>;

/// Reads the arguments of an action up to the condition or the end of the line.
pub type ReadAction = fn(&mut ActionContext<'_, '_>, &mut Words<'_>) -> Parsed<Action>;

/// Reads an action, in the rulesets that allow it.
#[derive(Clone, Copy, Debug)]
pub struct ActionReader {
    /// The rulesets that allow the action.
    pub rulesets: RulesetSet,
    /// The function that reads it.
    pub read: ReadAction,
}

/// An action during parsing.
pub struct ActionContext<'a, 'c> {
    pub(crate) line: &'a mut LineContext<'c>,
    pub kind: RulesetKind,
    /// The points where its expressions are evaluated.
    pub(crate) points: EvaluationPoints,
    /// The action's own word, for `set-var(...)` and similar actions.
    pub word: &'a Word,
}

impl std::fmt::Debug for ActionContext<'_, '_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "ActionContext({} at {})", self.word, self.line.at)
    }
}
