//! Expressions, formats and conditions: parsed, and if valid, evaluated without a stream.

use std::io;
use std::sync::LazyLock;

use weir_expr::context::DetachedContext;
use weir_expr::scope::Warnings;
use weir_expr::{
    AclTable, Condition, EvaluationPoints, Expr, ExpressionScope, FormatOptions, Loader, Location, LogFormat,
    PatternStore, Registry, TokenKeys, VariableNames,
};

/// All fetches that work without traffic.
pub(crate) static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new([]));

/// The files that an expression may name.
pub(crate) struct FuzzFiles;

impl Loader for FuzzFiles {}

impl weir_syntax::Files for FuzzFiles {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        match path {
            "m" => Ok(b"a one\nb two\n10.0.0.0/8 ten\n# c\n^x(.)y$ \\1\n1:5 range\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Calls `call` with a scope in which everything is allowed.
fn with_scope(call: impl FnOnce(&ExpressionScope<'_>)) {
    let (patterns, variables, acls, warnings) =
        (PatternStore::new(), VariableNames::new(), AclTable::new(), Warnings::new());
    call(&ExpressionScope {
        registry: &REGISTRY,
        patterns: &patterns,
        token_keys: &TokenKeys::new(),
        variables: &variables,
        acls: Some(&acls),
        loader: &FuzzFiles,
        points: EvaluationPoints::ALL,
        warnings: &warnings,
        at: &Location::new("fuzz.cfg".into(), 1),
    });
}

/// One expression: a fetch and its converters.
pub fn expression(bytes: &[u8]) {
    with_scope(|scope| {
        if let Ok(expression) = Expr::parse_text(bytes, scope) {
            let mut context = DetachedContext::default();
            let _ = expression.evaluate(&mut context);
            let _ = expression.evaluate_str(&mut context);
        }
    });
}

/// A log-format string.
pub fn log_format(bytes: &[u8]) {
    with_scope(|scope| {
        for options in [FormatOptions::LOG, FormatOptions::HTTP, FormatOptions::PLAIN] {
            if let Ok(format) = LogFormat::parse(bytes, options, scope) {
                format.render(&mut DetachedContext::default(), &mut Vec::new());
            }
        }
    });
}

/// The words after `if`, separated by blanks.
pub fn condition(bytes: &[u8]) {
    let mut words: Vec<&[u8]> = vec![b"if"];
    words.extend(bytes.split(|byte| *byte == b' ').filter(|word| !word.is_empty()));
    with_scope(|scope| {
        if let Ok(condition) = Condition::parse(&words, 0, scope) {
            let _ = condition.evaluate(&mut DetachedContext::default());
        }
    });
}
