//! What scripts share with their configuration and their process.

use std::sync::Arc;

use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};

use crate::events::Subscriptions;
use crate::process::ProcessLink;

/// What scripts share with their configuration and their process.
pub struct ScriptResources {
    pub registry: Arc<Registry>,
    pub patterns: Arc<PatternStore>,
    pub token_keys: TokenKeys,
    pub variables: Arc<VariableNames>,
    /// The files that scripts load while the configuration is read.
    pub files: Arc<dyn Loader + Send + Sync>,
    /// The events that scripts subscribed to.
    pub events: Arc<Subscriptions>,
    /// The process, once it has been made from the configuration.
    pub process: ProcessLink,
}

impl std::fmt::Debug for ScriptResources {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ScriptResources")
    }
}
