//! Configurations for the tests of actions and filters.

use weir_config::scripts::NoScripts;
use weir_config::{Inputs, StreamKeywords, parse};
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_model::Proxy;
use weir_syntax::{DiagnosticSeverity, Environment, MemoryFiles, SourceMap, StaticFeatures};
use weir_vocabulary::fetch;

/// The result of parsing a configuration.
pub(crate) struct Read {
    pub proxies: Vec<Proxy>,
    /// The diagnostics in HAProxy's form, each preceded by the first letter of its severity.
    pub messages: Vec<String>,
}

/// The file `engine.cfg` of each configuration: the engine `check`, in the words of the examples. Its agents are in the backend of
/// [`AGENTS`].
const ENGINE: &str = "\
[check]
spoe-agent check
 messages user
 groups addresses
 timeout processing 1s
 use-backend agents
spoe-message user
 args known=http_auth(users)
 event on-frontend-http-request
spoe-message source
 args ip=src
spoe-group addresses
 messages source
";

/// The sections that the engine needs, for the end of a configuration.
pub(crate) const AGENTS: &str = "\nbackend agents\n mode spop\n timeout connect 1s\n timeout server 1s\nuserlist users\n user a insecure-password b\n";

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
        loader: &[("engine.cfg", ENGINE)].into_iter().collect::<MemoryFiles>(),
        registry: &Registry::new(fetch::declarations()),
        keywords,
        patterns: &PatternStore::new(),
        token_keys: &TokenKeys::new(),
        variables: &VariableNames::new(),
        scripts: &NoScripts,
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
