//! Configurations for the tests of actions and filters.

use weir_config::{Inputs, StreamKeywords, parse};
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_model::Proxy;
use weir_syntax::{DiagnosticSeverity, Environment, NoFiles, SourceMap, StaticFeatures};
use weir_vocabulary::fetch;

/// The result of parsing a configuration.
pub(crate) struct Read {
    pub proxies: Vec<Proxy>,
    /// The diagnostics in HAProxy's form, each preceded by the first letter of its severity.
    pub messages: Vec<String>,
}

/// Reads a whole configuration. The file is called `t.cfg`.
pub(crate) fn read(text: &str) -> Read {
    read_with(&crate::KEYWORDS, text)
}

/// Reads a whole configuration with other actions and filters.
pub(crate) fn read_with(keywords: &StreamKeywords, text: &str) -> Read {
    let mut sources = SourceMap::new();
    sources.add("t.cfg", text.as_bytes().to_vec());
    let inputs = Inputs {
        sources: &sources,
        loader: &NoFiles,
        registry: &Registry::new(fetch::declarations()),
        keywords,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &VariableNames::new(),
        conditions: &StaticFeatures { features: &[], enabled: &[], tls: None },
    };
    let outcome = parse(inputs, Environment::new());
    let shown =
        outcome.diagnostics.iter().filter(|diagnostic| diagnostic.severity != DiagnosticSeverity::Diag);
    let messages = shown.map(|diagnostic| {
        let letter = match diagnostic.severity {
            DiagnosticSeverity::Alert => "A",
            DiagnosticSeverity::Warning => "W",
            _ => "N",
        };
        format!("{letter} {}", diagnostic.classic_message(&sources))
    });
    Read { messages: messages.collect(), proxies: outcome.config.proxies }
}
