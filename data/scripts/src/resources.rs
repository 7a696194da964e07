//! What expressions of scripts are parsed with.

use std::sync::Arc;

use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};

/// What expressions of scripts are parsed with: that of the configuration.
pub struct ScriptResources {
    pub registry: Arc<Registry>,
    pub patterns: Arc<PatternStore>,
    pub token_keys: TokenKeys,
    pub variables: Arc<VariableNames>,
}

impl std::fmt::Debug for ScriptResources {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ScriptResources")
    }
}
