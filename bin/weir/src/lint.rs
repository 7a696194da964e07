//! `weir lint`: probable mistakes in a configuration that weir can serve.
//!
//! Finds unreachable rules, unused ACLs, unused FastCGI applications, unused backends, contradictory timeouts, world-readable secrets, conditions and limits that
//! never apply, unreachable servers and log sockets, unknown protocols, compressed pages that may reveal secrets, and engines that fail open. Also reports the findings of `-c`, including the remarks
//! of `-dD`. A finding is a guess that is almost always right. Where the running configuration could refute it (for example, a
//! backend selected by a log-format expression), lint does not report anything.

mod compression;
mod counters;
mod criteria;
mod engines;
mod flow;
mod log_sockets;
mod names;
mod protocols;
mod redirects;
mod secrets;
mod servers;
mod timeouts;

use weir_expr::VariableNames;
use weir_model::{Config, Location};
use weir_syntax::{DiagnosticSeverity, Line, SourceMap, Span};

use crate::arguments::Arguments;
use crate::configuration;
use crate::findings::{self, FilePosition, Finding};

/// Prints the findings. Returns 0 without findings, 1 with findings, 2 if the configuration cannot be used.
pub(crate) fn lint(arguments: &Arguments) -> u8 {
    let checked = configuration::check(arguments);
    let valid = checked.is_valid();
    let mut findings = checked.findings;
    if valid {
        let lines = configuration::lines(&checked.sources, arguments);
        let subject = LintSubject {
            config: &checked.config,
            variables: &checked.variables,
            sources: &checked.sources,
            lines: &lines,
        };
        findings.extend(inspect(&subject, &findings));
    }
    let text = match arguments.json {
        true => findings::json(valid, &findings),
        false => findings.iter().map(Finding::line).collect(),
    };
    crate::say(&text);
    match (valid, findings.is_empty()) {
        (false, _) => 2,
        (true, false) => 1,
        (true, true) => 0,
    }
}

/// The configuration under examination.
struct LintSubject<'s> {
    config: &'s Config,
    variables: &'s VariableNames,
    sources: &'s SourceMap,
    /// All lines in effect: variables expanded, and without the conditional blocks that do not apply.
    lines: &'s [Line],
}

fn inspect(subject: &LintSubject<'_>, known: &[Finding]) -> Vec<Finding> {
    let mut found = flow::unreached_rules(subject);
    found.extend(names::unused_acls(subject));
    found.extend(names::unused_applications(subject));
    found.extend(flow::unchosen_backends(subject));
    found.extend(timeouts::contradictions(subject.config));
    found.extend(secrets::exposed(subject));
    found.extend(criteria::unmatched(subject));
    found.extend(counters::not_kept(subject));
    found.extend(redirects::endless(subject));
    found.extend(servers::misused(subject));
    found.extend(log_sockets::unreachable(subject));
    found.extend(protocols::unknown(subject));
    found.extend(compression::revealing(subject));
    found.extend(engines::failing_open(subject));
    // The parser already reports some unreachable rules.
    let is_reported = |finding: &Finding| {
        known.iter().any(|other| other.code == "C305" && other.line_of() == finding.line_of())
    };
    found.retain(|finding| finding.code != flow::UNREACHED || !is_reported(finding));
    found.sort_by(|a, b| a.line_of().cmp(&b.line_of()));
    found
}

impl LintSubject<'_> {
    /// The line at a position.
    fn line(&self, at: &Location) -> Option<&Line> {
        let is_it = |line: &&Line| {
            let span = line.span();
            span.line == at.line && self.sources.name(span.file) == &*at.file
        };
        self.lines.iter().find(is_it)
    }

    fn finding(&self, code: &'static str, span: Span, message: String) -> Finding {
        let position = FilePosition {
            file: self.sources.name(span.file).to_owned(),
            line: span.line,
            columns: Some((span.start + 1, span.end + 1)),
        };
        finding(code, Some(position), message)
    }
}

/// Each line with the name of its section. `None` outside of proxies.
fn with_sections(lines: &[Line]) -> impl Iterator<Item = (Option<&str>, &Line)> {
    let mut section = None;
    lines.iter().map(move |line| {
        if weir_config::is_section(line.keyword().text()) {
            let is_proxy = ["frontend", "backend", "listen"].iter().any(|kind| line.keyword().is(kind));
            section = is_proxy.then(|| line.text(1));
        }
        (section, line)
    })
}

/// A finding at a line.
fn finding_at(code: &'static str, at: &Location, message: String) -> Finding {
    let position = FilePosition { file: at.file.to_string(), line: at.line, columns: None };
    finding(code, Some(position), message)
}

fn finding(code: &'static str, position: Option<FilePosition>, message: String) -> Finding {
    Finding {
        severity: DiagnosticSeverity::Warning,
        code,
        position,
        message,
        note: None,
        suggestion: None,
        times: 1,
    }
}

impl Finding {
    /// The file and line of a finding, as a sort key.
    fn line_of(&self) -> Option<(&str, u32)> {
        self.position.as_ref().map(|position| (position.file.as_str(), position.line))
    }
}
