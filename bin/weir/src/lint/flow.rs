//! Unreachable parts: rules after one that always ends the list, and backends that are never selected.

use std::collections::{HashMap, HashSet};

use weir_model::{BackendTarget, Location, Proxy, RulesetKind};
use weir_syntax::Word;

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// Rules that can never run.
pub(super) fn unreached_rules(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for proxy in &subject.config.proxies {
        for kind in RulesetKind::ALL {
            let rules = proxy.rules(kind).map(|rule| FlowRule {
                at: &rule.at,
                conditional: rule.condition.is_some(),
                ends: rule.action.facts().is_final,
            });
            found.extend(unreached(subject, rules, kind.keyword()));
        }
        let rules = proxy.use_backend.iter().map(|rule| FlowRule {
            at: &rule.at,
            conditional: rule.condition.is_some(),
            ends: is_certain(subject, &rule.target),
        });
        found.extend(unreached(subject, rules, "use_backend"));
        found.extend(unreached_default(subject, proxy));
    }
    // Several proxies may inherit a rule from the same `defaults` section. Report it once.
    let mut reported = HashSet::new();
    found.retain(|finding| reported.insert(finding.line_of().map(|(file, line)| (file.to_owned(), line))));
    found
}

/// The properties of a rule that decide whether later rules are reachable.
struct FlowRule<'r> {
    at: &'r Location,
    conditional: bool,
    ends: bool,
}

fn unreached<'r>(
    subject: &LintSubject<'_>,
    rules: impl Iterator<Item = FlowRule<'r>>,
    list: &str,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut over: Option<&Location> = None;
    // Conditions of terminating rules since the last rule that could change the tested values.
    let mut tested: HashMap<String, &Location> = HashMap::new();
    for rule in rules {
        let condition = condition(subject, rule.at).filter(|_| rule.conditional);
        if let Some(first) = over {
            let message =
                format!("this rule is never reached: the '{list}' rule at {first} always ends the list.");
            found.push(finding_at(UNREACHED, rule.at, message));
        } else if let Some(first) = condition.as_ref().and_then(|text| tested.get(text)) {
            let message = format!(
                "this rule is never reached: the '{list}' rule at {first} has the same condition and ends the list."
            );
            found.push(finding_at(UNREACHED, rule.at, message));
        }
        match (rule.ends, rule.conditional) {
            (true, false) => over = over.or(Some(rule.at)),
            (true, true) => {
                if let Some(text) = condition {
                    tested.entry(text).or_insert(rule.at);
                }
            }
            (false, _) => tested.clear(),
        }
    }
    found
}

/// The condition of a rule. `None` if its result may change between two evaluations.
fn condition(subject: &LintSubject<'_>, at: &Location) -> Option<String> {
    let line = subject.line(at)?;
    let begins = |word: &Word| !word.is_quoted() && (word.is("if") || word.is("unless"));
    let from = line.words().iter().rposition(begins)?;
    let text = line.join(from);
    (!text.contains("rand")).then_some(text)
}

/// Whether a matching `use_backend` rule always ends the search. Unpublished backends are skipped, and so are unknown names from a
/// log-format expression.
fn is_certain(subject: &LintSubject<'_>, target: &BackendTarget) -> bool {
    match target {
        BackendTarget::Static(index) => {
            let backend = subject.config.proxies.get(index.get());
            backend.is_some_and(|backend| !backend.unpublished && !backend.settings.disabled)
        }
        BackendTarget::Dynamic(_) => false,
    }
}

/// A `default_backend` after an unconditional `use_backend`.
fn unreached_default(subject: &LintSubject<'_>, proxy: &Proxy) -> Option<Finding> {
    proxy.default_backend?;
    let certain = proxy
        .use_backend
        .iter()
        .find(|rule| rule.condition.is_none() && is_certain(subject, &rule.target))?;
    let message =
        format!("'default_backend' of '{}' is never used: this 'use_backend' has no condition.", proxy.name);
    Some(finding_at(UNREACHED, &certain.at, message))
}

/// Backends with servers that neither rules, log targets nor engines refer to. Empty if a log-format expression may select any of them.
pub(super) fn unchosen_backends(subject: &LintSubject<'_>) -> Vec<Finding> {
    let proxies = &subject.config.proxies;
    let mut chosen = HashSet::new();
    for proxy in proxies {
        chosen.extend(proxy.default_backend.map(|index| index.get()));
        for rule in &proxy.use_backend {
            match &rule.target {
                BackendTarget::Static(index) => drop(chosen.insert(index.get())),
                BackendTarget::Dynamic(_) => return Vec::new(),
            }
        }
    }
    for rule in proxies.iter().flat_map(|proxy| proxy.rules(RulesetKind::HttpRequest)) {
        let target = rule.action.facts().asks.and_then(|backend| backend.target());
        chosen.extend(target.map(|(index, _)| index as usize));
    }
    for engine in proxies.iter().flat_map(|proxy| &proxy.filters).filter_map(|filter| filter.facts().spoe) {
        chosen.extend(engine.agent.backend.target().map(|(index, _)| index as usize));
    }
    let words = || subject.lines.iter().flat_map(|line| line.words());
    let logged: HashSet<&str> = words().filter_map(|word| word.text().strip_prefix("backend@")).collect();
    let is_idle = |(index, proxy): &(usize, &Proxy)| {
        !proxy.is_frontend()
            && !proxy.servers.is_empty()
            && !proxy.settings.disabled
            && !chosen.contains(index)
            && !logged.contains(&*proxy.name)
    };
    let idle = proxies.iter().enumerate().filter(is_idle);
    idle.map(|(_, proxy)| {
        finding_at(UNCHOSEN, &proxy.at, format!("nothing sends to backend '{}'.", proxy.name))
    })
    .collect()
}

/// The code of unreachable rules.
pub(super) const UNREACHED: &str = "C701";
/// The code of unused backends.
const UNCHOSEN: &str = "C703";
