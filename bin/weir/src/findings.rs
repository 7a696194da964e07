//! Findings about a configuration, printed as text or JSON (`--format json`).

use std::fmt::Write;

use weir_formats::json::{Beyond, Escaping};
use weir_syntax::{Diagnostic, DiagnosticSeverity, Diagnostics, SourceMap, Span};

use crate::problems;

/// A problem found in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub severity: DiagnosticSeverity,
    /// The code for `weir explain`.
    pub code: &'static str,
    /// The position. `None` if unknown.
    pub position: Option<FilePosition>,
    pub message: String,
    /// The expected input or the reason.
    pub note: Option<String>,
    /// A known word similar to the misspelled one.
    pub suggestion: Option<String>,
    /// Number of lines with the same problem. Only the first few are listed.
    pub times: usize,
}

/// A position in a file. Lines and columns count from 1. Columns count bytes. `end_column` is one past the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    pub file: String,
    pub line: u32,
    /// First column and end column. `None` if only the line is known.
    pub columns: Option<(u32, u32)>,
}

/// All diagnostics of the parser, including warnings after errors.
pub(crate) fn of_diagnostics(diagnostics: &Diagnostics, sources: &SourceMap) -> Vec<Finding> {
    let mut findings = Vec::new();
    for report in diagnostics.all_reports() {
        let finding = of_diagnostic(report.diagnostic, report.count, sources);
        let further = report.places.iter().skip(1).map(|span| position(*span, sources));
        let further: Vec<Finding> =
            further.map(|position| Finding { position: Some(position), ..finding.clone() }).collect();
        findings.push(finding);
        findings.extend(further);
    }
    findings
}

fn of_diagnostic(diagnostic: &Diagnostic, times: usize, sources: &SourceMap) -> Finding {
    let text = diagnostic.group.as_ref().filter(|_| times > 1).unwrap_or(&diagnostic.message);
    Finding {
        severity: diagnostic.severity,
        code: code_of(diagnostic),
        position: diagnostic.span.map(|span| position(span, sources)),
        message: text.clone(),
        note: diagnostic.note.clone(),
        suggestion: diagnostic.suggestion.clone(),
        times,
    }
}

fn code_of(diagnostic: &Diagnostic) -> &'static str {
    if diagnostic.requested { REQUESTED } else { problems::code_of(&diagnostic.message) }
}

/// A finding made after parsing. The position, if any, is part of the text.
pub(crate) fn of_text(severity: DiagnosticSeverity, text: &str, sources: &SourceMap) -> Finding {
    Finding {
        severity,
        code: problems::code_of(text),
        position: weir_syntax::place(text, sources).map(|span| position(span, sources)),
        message: weir_syntax::without_place(text).to_owned(),
        note: None,
        suggestion: None,
        times: 1,
    }
}

fn position(span: Span, sources: &SourceMap) -> FilePosition {
    FilePosition {
        file: sources.name(span.file).to_owned(),
        line: span.line,
        columns: Some((span.start + 1, span.end + 1)),
    }
}

impl Finding {
    /// The finding in the format of compilers, which editors parse: `FILE:LINE:COLUMN: warning: MESSAGE [CODE]`.
    pub(crate) fn line(&self) -> String {
        let position = self.position.as_ref().map_or_else(String::new, |position| {
            let column = position.columns.map_or_else(String::new, |(column, _)| format!("{column}:"));
            format!("{}:{}:{column} ", position.file, position.line)
        });
        let suggestion =
            self.suggestion.as_ref().map_or_else(String::new, |word| format!(" Did you mean '{word}'?"));
        // The other lines of a message explain the first one.
        let message = self.message.lines().next().unwrap_or_default();
        format!("{position}{}: {message}{suggestion} [{}]\n", name(self.severity), self.code)
    }
}

/// One JSON object: whether the configuration is usable, and all findings, one per line.
pub(crate) fn json(valid: bool, findings: &[Finding]) -> String {
    let mut text = format!("{{\"valid\":{valid},\"diagnostics\":[");
    for (index, finding) in findings.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        object(&mut text, finding);
    }
    text.push_str(if findings.is_empty() { "]}\n" } else { "\n]}\n" });
    text
}

fn object(text: &mut String, finding: &Finding) {
    text.push('{');
    if let Some(position) = &finding.position {
        // Writing to a string does not fail.
        let _ = write!(text, "\"file\":{},\"line\":{},", JSON.quoted(&position.file), position.line);
        if let Some((column, end)) = position.columns {
            let _ = write!(text, "\"column\":{column},\"end_column\":{end},");
        }
    }
    let _ = write!(
        text,
        "\"code\":\"{}\",\"severity\":\"{}\",\"message\":{}",
        finding.code,
        name(finding.severity),
        JSON.quoted(&finding.message)
    );
    if let Some(note) = &finding.note {
        let _ = write!(text, ",\"note\":{}", JSON.quoted(note));
    }
    if let Some(suggestion) = &finding.suggestion {
        let _ = write!(text, ",\"suggestion\":{}", JSON.quoted(suggestion));
    }
    if finding.times > 1 {
        let _ = write!(text, ",\"times\":{}", finding.times);
    }
    text.push('}');
}

/// The severity names used by editors.
fn name(severity: DiagnosticSeverity) -> &'static str {
    match severity {
        DiagnosticSeverity::Alert => "error",
        DiagnosticSeverity::Warning => "warning",
        DiagnosticSeverity::Notice => "information",
        DiagnosticSeverity::Diag => "hint",
    }
}

/// The JSON string escaping for findings.
const JSON: Escaping = Escaping { short: "\n\t", is_uppercase: false, beyond: Beyond::Stay };

/// The code of messages from `.warning` and similar directives.
const REQUESTED: &str = "C116";

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> SourceMap {
        let mut sources = SourceMap::new();
        sources.add("dir/a.cfg", b"one\ntwo\n".to_vec());
        sources
    }

    #[test]
    fn takes_the_file_and_line_of_a_finding_from_its_message() {
        let line = |text| {
            of_text(DiagnosticSeverity::Alert, text, &sources()).position.map(|position| position.line)
        };
        assert_eq!(line("[dir/a.cfg:12] : 'server b/s' : could not resolve"), Some(12));
        assert_eq!(of_text(DiagnosticSeverity::Alert, "parsing [dir/a.cfg:1] : x", &sources()).message, "x");
        assert_eq!(line("cannot find user id for 'nobody'"), None);
        assert_eq!(line("dir/a.cfg: broken"), None);
        assert_eq!(line("dir/a.cfg:99999999999999: broken"), None);
    }

    #[test]
    fn repeated_findings_are_merged_with_their_count() {
        let sources = sources();
        let file = sources.iter().next().expect("a file").0;
        let mut diagnostics = Diagnostics::new();
        for line in 1..=7 {
            diagnostics
                .push(Diagnostic::alert(Span::new(file, line, 2, 4), format!("s{line}: no")).group("no"));
        }
        diagnostics.warning(Span::new(file, 1, 0, 3), "waits");
        let findings = of_diagnostics(&diagnostics, &sources);
        let lines: Vec<u32> = findings
            .iter()
            .filter_map(|finding| finding.position.as_ref())
            .map(|position| position.line)
            .collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 1]);
        assert_eq!((findings[0].times, findings[4].message.as_str(), findings[5].times), (7, "no", 1));
        assert_eq!(findings[0].position.as_ref().and_then(|position| position.columns), Some((3, 5)));
    }

    #[test]
    fn json_strings_are_escaped() {
        let text = JSON.quoted("a\"b\\c\n\r\t\u{1}\u{7f}é/").to_string();
        assert_eq!(text, "\"a\\\"b\\\\c\\n\\u000d\\t\\u0001\u{7f}é/\"");
        assert_eq!(json(true, &[]), "{\"valid\":true,\"diagnostics\":[]}\n");
    }
}
