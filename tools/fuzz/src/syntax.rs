//! The lines and conditions of a configuration.

use weir_config::Inputs;
use weir_config::scripts::NoScripts;
use weir_expr::{PatternStore, TokenKeys, VariableNames};
use weir_syntax::{
    Diagnostics, Environment, Line, LineReader, MAX_WORDS, SourceMap, StaticFeatures, evaluate_condition,
};

use crate::expression::{FuzzFiles, REGISTRY};

const FEATURES: StaticFeatures<'_> = StaticFeatures { features: &["PCRE2"], enabled: &["EPOLL"], tls: None };

fn environment() -> Environment {
    Environment::from_iter([("A", "one two"), ("E", ""), ("S", " a  b "), ("X", "\" ' # \\ $A")])
}

/// A file: its words are within their lines, and its faults can be displayed in both formats.
pub fn configuration_lines(bytes: &[u8]) {
    let mut sources = SourceMap::new();
    sources.add("fuzz.cfg", bytes.to_vec());
    let (environment, mut diagnostics) = (environment(), Diagnostics::new());
    let mut reader = LineReader::new(&sources);
    let lines: Vec<Line> =
        std::iter::from_fn(|| reader.next_line(&environment, &FEATURES, &mut diagnostics)).collect();
    for line in &lines {
        assert!((1..=MAX_WORDS).contains(&line.len()));
    }
    let _ = (diagnostics.classic(&sources, 1, true), diagnostics.pretty(&sources, false, true));
}

/// The condition of `.if` or `-cc`: true, false, or a fault that points into it.
pub fn preprocessor_condition(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = evaluate_condition(&text, &environment(), &FEATURES) {
        assert!(error.offset <= text.len());
    }
}

/// A complete configuration: all its faults can be displayed.
pub fn configuration(bytes: &[u8]) {
    let mut sources = SourceMap::new();
    sources.add("fuzz.cfg", bytes.to_vec());
    let (patterns, variables) = (PatternStore::new(), VariableNames::new());
    let inputs = Inputs {
        sources: &sources,
        loader: &FuzzFiles,
        registry: &REGISTRY,
        keywords: &weir_stream::KEYWORDS,
        patterns: &patterns,
        token_keys: &TokenKeys::new(),
        variables: &variables,
        scripts: &NoScripts,
        conditions: &FEATURES,
    };
    let outcome = weir_config::parse(inputs, environment());
    let _ = outcome.diagnostics.pretty(&sources, false, true);
}
