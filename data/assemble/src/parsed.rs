//! A parsed configuration, with the objects that its expressions use.

use std::sync::Arc;

use weir_config::{ConfigOutcome, Inputs};
use weir_expr::{Loader, PatternStore, Registry, TokenKeys, VariableNames};
use weir_model::MAX_THREADS;
use weir_scripts::{ProcessLink, ScriptResources, Scripts};
use weir_stream::KEYWORDS;
use weir_syntax::{ConditionContext, Environment, SourceMap};
use weir_vocabulary::fetch::FETCHES;

/// A parsed configuration, with the registry and the pattern sets of its expressions.
pub struct LoadedConfiguration {
    /// The configuration, its environment and its diagnostics.
    pub outcome: ConfigOutcome,
    /// The fetches available to expressions.
    pub registry: Arc<Registry>,
    /// The loaded pattern sets.
    pub patterns: Arc<PatternStore>,
    /// The loaded public keys.
    pub token_keys: TokenKeys,
    pub variable_names: Arc<VariableNames>,
    /// The scripts that lines loaded.
    pub scripts: Arc<Scripts>,
}

impl LoadedConfiguration {
    /// Parses these files. `loader` reads the files that they refer to. `.if` tests the `conditions`.
    pub fn read(
        sources: &SourceMap,
        loader: Arc<dyn Loader + Send + Sync>,
        conditions: &dyn ConditionContext,
        environment: Environment,
    ) -> LoadedConfiguration {
        let registry = Arc::new(Registry::new(FETCHES.iter().map(|row| &row.decl)));
        let (patterns, variable_names) = (Arc::new(PatternStore::new()), Arc::new(VariableNames::new()));
        let token_keys = TokenKeys::new();
        let scripts = Arc::new(Scripts::new(
            ScriptResources {
                registry: Arc::clone(&registry),
                patterns: Arc::clone(&patterns),
                token_keys: TokenKeys::new(),
                variables: Arc::clone(&variable_names),
                files: Arc::clone(&loader),
                events: Arc::default(),
                process: ProcessLink::default(),
            },
            usize::from(MAX_THREADS),
        ));
        let inputs = Inputs {
            sources,
            loader: &*loader,
            registry: &registry,
            keywords: &KEYWORDS,
            patterns: &patterns,
            token_keys: &token_keys,
            variables: &variable_names,
            scripts: &*scripts,
            conditions,
        };
        let outcome = weir_config::parse(inputs, environment);
        LoadedConfiguration { outcome, registry, patterns, token_keys, variable_names, scripts }
    }
}
