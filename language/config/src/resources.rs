//! The inputs of the parser from outside.

use crate::scripts::ScriptHost;
use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};

/// The known expressions, and access to the files that lines name.
#[derive(Clone, Copy)]
pub struct Resources<'r> {
    /// The fetches and ACL keywords that expressions may use.
    pub registry: &'r Registry,
    /// The maps and ACL files.
    pub patterns: &'r PatternStore,
    /// The public keys from files.
    pub token_keys: &'r TokenKeys,
    pub variables: &'r VariableNames,
    /// Runs the scripts that lines load.
    pub scripts: &'r dyn ScriptHost,
    /// The source of files.
    pub loader: &'r dyn Loader,
}
