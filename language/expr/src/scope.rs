//! The inputs of the expression parser: names, files and the location of the expression.

use std::cell::RefCell;

use crate::acl::AclTable;
use crate::converters::{self, Converter};
use crate::error::ParseError;
use crate::expr::script;
use crate::fetch::{EvaluationPoints, FetchAnswer, FetchDecl, Registry};
use crate::loader::Loader;
use crate::location::Location;
use crate::pattern::PatternStore;
use crate::token_keys::TokenKeys;
use crate::variables::VariableNames;

/// Everything that an expression may refer to during parsing.
#[derive(Clone, Copy)]
pub struct ExpressionScope<'s> {
    /// The known fetches and ACL keywords.
    pub registry: &'s Registry,
    /// The maps and ACL files, shared by name.
    pub patterns: &'s PatternStore,
    /// The public keys from files, shared by path.
    pub token_keys: &'s TokenKeys,
    /// The interned names of variables.
    pub variables: &'s VariableNames,
    /// The ACLs of the proxy, if there are any.
    pub acls: Option<&'s AclTable>,
    /// The source of files.
    pub loader: &'s dyn Loader,
    /// The points where the expression is evaluated. A fetch must be valid in at least one of them.
    pub points: EvaluationPoints,
    pub warnings: &'s Warnings,
    /// The location of the line, for reports about regular expressions and for `show acl`.
    pub at: &'s Location,
}

impl ExpressionScope<'_> {
    /// The fetch with this name.
    pub(crate) fn fetch(&self, name: &str) -> Option<(FetchAnswer, &'static FetchDecl)> {
        if let Some(scripts) = self.loader.scripts()
            && scripts.has_fetch(name)
        {
            let word = script::word(name);
            return Some((FetchAnswer::Script(word.name), &word.fetch));
        }
        self.registry.answer(name)
    }

    /// The converter with this name.
    pub(crate) fn converter(&self, name: &str) -> Option<&'static Converter> {
        if let Some(scripts) = self.loader.scripts()
            && scripts.has_converter(name)
        {
            return Some(&script::word(name).converter);
        }
        converters::find(name)
    }
}

/// Warnings of the parser, with the words at fault.
#[derive(Debug, Default)]
pub struct Warnings(RefCell<Vec<ParseError>>);

impl Warnings {
    /// An empty list.
    pub fn new() -> Warnings {
        Warnings::default()
    }

    /// Adds a warning.
    pub fn push(&self, warning: ParseError) {
        self.0.borrow_mut().push(warning);
    }

    /// Removes and returns all warnings.
    pub fn take(&self) -> Vec<ParseError> {
        self.0.take()
    }
}
