//! Engines of `filter spoe` that fail open: without an answer of the agent, the stream goes on.

use weir_model::{Proxy, SpoeEngine};

use super::LintSubject;
use crate::findings::Finding;

/// Engines with messages and without a line that reads the variable for errors.
pub(super) fn failing_open(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for proxy in &subject.config.proxies {
        for filter in &proxy.filters {
            let Some(engine) = filter.facts().spoe.filter(|engine| !engine.messages.is_empty()) else {
                continue;
            };
            let (Some(why), Some(line)) = (reason(subject, engine), subject.line(&filter.at)) else {
                continue;
            };
            found.push(subject.finding(FAILS_OPEN, line.span(), message(proxy, engine, &why)));
        }
    }
    found
}

fn message(proxy: &Proxy, engine: &SpoeEngine, why: &str) -> String {
    format!("SPOE engine '{}' of {} '{}' fails open: {why}.", engine.name, proxy.section.name(), proxy.name)
}

/// The reason for which errors of the engine change nothing. None if a line reads its variable.
fn reason(subject: &LintSubject<'_>, engine: &SpoeEngine) -> Option<String> {
    let Some(variable) = engine.agent.set_on_error else {
        return Some(format!("its agent '{}' lacks 'option set-on-error'", engine.agent.name));
    };
    let name = subject.variables.text(variable);
    let decides = |line: &&weir_syntax::Line| !line.keyword().text().ends_with("log-format");
    let mut words = subject.lines.iter().filter(decides).flat_map(|line| line.words());
    let is_read = words.any(|word| mentions(word.text(), &name));
    (!is_read).then(|| format!("no rule reads '{name}'"))
}

/// Whether the text has the name of a variable that is not a part of a longer name.
fn mentions(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

const FAILS_OPEN: &str = "C720";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_by_their_whole_name() {
        for (text, found) in [
            ("var(txn.p.err)", true),
            ("%[var(txn.p.err),add(1)]", true),
            ("txn.p.err", true),
            ("var(txn.p.error)", false),
            ("var(txn.p.err.x)", false),
            ("var(xtxn.p.err)", false),
            ("var(ptxn.p.err),var(txn.p.err)", true),
        ] {
            assert_eq!(mentions(text, "txn.p.err"), found, "{text}");
        }
    }
}
