//! The inputs of the expression parser: names, files and the location of the expression.

use std::cell::RefCell;

use crate::acl::AclTable;
use crate::error::ParseError;
use crate::fetch::{EvaluationPoints, Registry};
use crate::loader::Loader;
use crate::location::Location;
use crate::pattern::PatternStore;
use crate::token_keys::TokenKeys;
use crate::variables::VariableNames;

/// Everything an expression may refer to while it is parsed.
#[derive(Clone, Copy)]
pub struct ExpressionScope<'s> {
    /// The known fetches and ACL keywords.
    pub registry: &'s Registry,
    /// The maps and ACL files, shared by name.
    pub patterns: &'s PatternStore,
    /// The public keys of files, shared by path.
    pub token_keys: &'s TokenKeys,
    /// The interned names of variables.
    pub variables: &'s VariableNames,
    /// The ACLs of the proxy, where there are any.
    pub acls: Option<&'s AclTable>,
    /// Where files come from.
    pub loader: &'s dyn Loader,
    /// Where the expression is written: a fetch must be valid in at least one of these points.
    pub points: EvaluationPoints,
    pub warnings: &'s Warnings,
    /// The line, for reports about regular expressions and for `show acl`.
    pub at: &'s Location,
}

/// Warnings of the parser, with the words at fault.
#[derive(Debug, Default)]
pub struct Warnings(RefCell<Vec<ParseError>>);

impl Warnings {
    /// None yet.
    pub fn new() -> Warnings {
        Warnings::default()
    }

    /// Adds one.
    pub fn push(&self, warning: ParseError) {
        self.0.borrow_mut().push(warning);
    }

    /// Takes them all.
    pub fn take(&self) -> Vec<ParseError> {
        self.0.take()
    }
}
