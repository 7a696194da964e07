//! A configuration from its text, with the objects that its expressions refer to.

use std::sync::Arc;

use weir_config::{ConfigOutcome, Inputs};
use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};
use weir_stream::KEYWORDS;
use weir_syntax::{ConditionContext, Environment, SourceMap};
use weir_vocabulary::fetch::FETCHES;

/// A parsed configuration, with the registry and the pattern sets of its expressions.
pub struct LoadedConfiguration {
    /// The configuration, its environment and its diagnostics.
    pub outcome: ConfigOutcome,
    /// The fetches that its expressions may use.
    pub registry: Arc<Registry>,
    /// The sets of patterns that it loaded.
    pub patterns: Arc<PatternStore>,
    /// The public keys that it loaded.
    pub token_keys: TokenKeys,
    /// The names of its variables.
    pub variable_names: Arc<VariableNames>,
}

impl LoadedConfiguration {
    /// Reads these files. `loader` reads the files that they name; `.if` tests the `conditions`.
    pub fn read(
        sources: &SourceMap,
        loader: &dyn Loader,
        conditions: &dyn ConditionContext,
        environment: Environment,
    ) -> LoadedConfiguration {
        let registry = Arc::new(Registry::new(FETCHES.iter().map(|row| &row.decl)));
        let (patterns, variable_names) = (Arc::new(PatternStore::new()), Arc::new(VariableNames::new()));
        let token_keys = TokenKeys::new();
        let inputs = Inputs {
            sources,
            loader,
            registry: &registry,
            keywords: &KEYWORDS,
            patterns: &patterns,
            token_keys: &token_keys,
            variables: &variable_names,
            conditions,
        };
        let outcome = weir_config::parse(inputs, environment);
        LoadedConfiguration { outcome, registry, patterns, token_keys, variable_names }
    }
}
