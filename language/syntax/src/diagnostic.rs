//! Messages to the operator: all faults, never only the first.

use crate::source::Span;
use std::collections::HashMap;

/// How severe a diagnostic is. An `Alert` makes the configuration unusable; a `Warning` is fatal under `-dW` and
/// `zero-warning` only; `Diag` is shown under `-dD` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticSeverity {
    /// Unusual but legal; shown in diagnostic mode only.
    Diag,
    Notice,
    Warning,
    /// The configuration cannot be used.
    Alert,
}

/// How the location is written before the message in the classic one-line form. HAProxy uses several forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `parsing [file:line] : message`, the usual one.
    #[default]
    Parsing,
    /// `parsing [file:line]: message`, the form of the lexer and of a few keywords.
    ParsingTight,
    /// `[file:line] : message`, for faults found after parsing.
    Location,
    /// The message alone. It names its subject itself.
    Bare,
}

/// One message to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: DiagnosticSeverity,
    /// The location, if there is one.
    pub span: Option<Span>,
    /// The fault as one sentence, in HAProxy's words if those are known.
    pub message: String,
    /// The expected input, or the reason; shown in the pretty form only.
    pub note: Option<String>,
    /// A known word near the one that was written.
    pub suggestion: Option<String>,
    /// How the classic form writes the location.
    pub layout: Layout,
    /// The line that the classic form repeats below the message, and the byte in it that the caret points to.
    /// Only for broken quoting and broken conditions.
    pub excerpt: Option<(String, usize)>,
    /// The part of the message that is the same for every subject. None for the whole message. It identifies repetitions.
    pub group: Option<String>,
    /// Further faults of the same line.
    pub also: Vec<Diagnostic>,
    /// Whether the operator requested the message (`.warning` and similar). Such a message is always shown.
    pub requested: bool,
}

/// Collects diagnostics. Keeps [`MAX_DIAGNOSTICS`] different ones. Repetitions and further ones are only counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Kept diagnostics with the index of their group: the first two of each group.
    list: Vec<(Diagnostic, usize)>,
    groups: Vec<DiagnosticGroup>,
    positions: HashMap<(DiagnosticSeverity, String), usize>,
    alerts: usize,
    warnings: usize,
    dropped: usize,
}

/// Diagnostics with the same severity and group text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DiagnosticGroup {
    count: usize,
    /// The locations of the first [`MAX_PLACES`] diagnostics.
    places: Vec<Span>,
    /// The position of the first diagnostic in the list.
    first: usize,
}

impl Diagnostic {
    /// A diagnostic at `span`.
    pub fn new(
        severity: DiagnosticSeverity,
        span: impl Into<Option<Span>>,
        message: impl Into<String>,
    ) -> Self {
        let span = span.into();
        let layout = if span.is_some() { Layout::Parsing } else { Layout::Bare };
        Self {
            severity,
            span,
            message: message.into(),
            note: None,
            suggestion: None,
            layout,
            excerpt: None,
            group: None,
            also: Vec::new(),
            requested: false,
        }
    }

    /// An error at `span`.
    pub fn alert(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(DiagnosticSeverity::Alert, span, message)
    }

    /// A warning at `span`.
    pub fn warning(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(DiagnosticSeverity::Warning, span, message)
    }

    /// Adds a note: the expected input, or the reason.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the word that was probably meant, if there is one.
    pub fn suggestion(mut self, suggestion: Option<impl Into<String>>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }

    /// Chooses how the classic form writes the location.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Sets the part of the message that is the same for every subject.
    pub fn group(mut self, text: impl Into<String>) -> Self {
        self.group = Some(text.into());
        self
    }

    /// Makes the classic form repeat the line with a caret below byte `caret`.
    pub fn with_excerpt(mut self, line: impl Into<String>, caret: usize) -> Self {
        self.excerpt = Some((line.into(), caret));
        self
    }
}

impl Diagnostics {
    /// No diagnostics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, mut diagnostic: Diagnostic) {
        let others = std::mem::take(&mut diagnostic.also);
        match diagnostic.severity {
            DiagnosticSeverity::Alert => self.alerts += 1,
            DiagnosticSeverity::Warning => self.warnings += 1,
            DiagnosticSeverity::Notice | DiagnosticSeverity::Diag => {}
        }
        self.keep(diagnostic);
        others.into_iter().for_each(|other| self.push(other));
    }

    fn keep(&mut self, diagnostic: Diagnostic) {
        let text = diagnostic.group.as_ref().unwrap_or(&diagnostic.message);
        let key = (diagnostic.severity, text.clone());
        let position = match self.positions.get(&key) {
            Some(position) => *position,
            None if self.groups.len() == MAX_DIAGNOSTICS => {
                self.dropped += 1;
                return;
            }
            None => {
                self.positions.insert(key, self.groups.len());
                self.groups.push(DiagnosticGroup { count: 0, places: Vec::new(), first: self.list.len() });
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[position];
        group.count += 1;
        if group.places.len() < MAX_PLACES {
            group.places.extend(diagnostic.span);
        }
        if group.count < GROUPED_FROM {
            self.list.push((diagnostic, position));
        }
    }

    /// Adds an error.
    pub fn alert(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::alert(span, message));
    }

    /// Adds a warning.
    pub fn warning(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::warning(span, message));
    }

    /// Adds a notice.
    pub fn notice(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::new(DiagnosticSeverity::Notice, span, message));
    }

    /// Adds a remark for diagnostic mode.
    pub fn diag(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::new(DiagnosticSeverity::Diag, span, message));
    }

    /// Whether anything makes the configuration unusable.
    pub fn has_alerts(&self) -> bool {
        self.alerts > 0
    }

    /// The number of errors, including those not kept.
    pub fn alert_count(&self) -> usize {
        self.alerts
    }

    /// The number of warnings, including those not kept.
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// The number of diagnostics that were counted but not kept.
    pub fn dropped_count(&self) -> usize {
        self.dropped
    }

    /// All kept diagnostics in the order of detection: the first two of each group.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> + Clone {
        self.list.iter().map(|(diagnostic, _)| diagnostic)
    }

    /// The diagnostics to show to the operator: warnings are held back until all errors are fixed.
    pub fn reports(&self) -> Vec<DiagnosticReport<'_>> {
        let mut reports = self.all_reports();
        let waits = |diagnostic: &Diagnostic| {
            self.alerts > 0 && diagnostic.severity < DiagnosticSeverity::Alert && !diagnostic.requested
        };
        reports.retain(|report| !waits(report.diagnostic));
        reports
    }

    /// Reports of all kept diagnostics. Repetitions are one report with their number and the first locations.
    pub fn all_reports(&self) -> Vec<DiagnosticReport<'_>> {
        let mut reports = Vec::new();
        for (index, (diagnostic, position)) in self.list.iter().enumerate() {
            let group = &self.groups[*position];
            let repeats = group.count >= GROUPED_FROM;
            if repeats && group.first != index {
                continue;
            }
            let places = if repeats { group.places.as_slice() } else { &[] };
            let count = if repeats { group.count } else { 1 };
            reports.push(DiagnosticReport { diagnostic, count, places });
        }
        reports
    }

    /// The number of warnings held back until all errors are fixed.
    pub fn waiting_count(&self) -> usize {
        let requested = self
            .iter()
            .filter(|known| known.requested && known.severity == DiagnosticSeverity::Warning)
            .count();
        if self.alerts > 0 { self.warnings.saturating_sub(requested) } else { 0 }
    }

    /// True without any diagnostic.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// A diagnostic or a group of them, as shown to the operator.
#[derive(Debug, Clone, Copy)]
pub struct DiagnosticReport<'d> {
    /// The first diagnostic of the group.
    pub diagnostic: &'d Diagnostic,
    /// The size of the group: 1, or [`GROUPED_FROM`] and more.
    pub count: usize,
    /// The locations of the first diagnostics of a group. Empty for a single one.
    pub places: &'d [Span],
}

/// The limit of different diagnostics that are kept. Further ones are only counted.
pub const MAX_DIAGNOSTICS: usize = 200;

/// From this number on, equal diagnostics are reported as one.
pub const GROUPED_FROM: usize = 3;

/// The limit of locations in the report of a group.
const MAX_PLACES: usize = 5;

/// The system's text for an error, without the number that the standard library adds.
pub fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_diagnostics_are_counted_and_a_limited_number_kept() {
        let mut diagnostics = Diagnostics::new();
        for number in 0..MAX_DIAGNOSTICS + 5 {
            diagnostics.alert(None, format!("x{number}"));
        }
        diagnostics.warning(None, "y");
        assert_eq!(diagnostics.alert_count(), MAX_DIAGNOSTICS + 5);
        assert_eq!(diagnostics.warning_count(), 1);
        assert_eq!(diagnostics.dropped_count(), 6);
        assert_eq!(diagnostics.iter().count(), MAX_DIAGNOSTICS);
        assert_eq!(diagnostics.reports().len(), MAX_DIAGNOSTICS);
    }

    /// The message, how many there are, and the lines.
    fn reported(diagnostics: &Diagnostics) -> Vec<(&str, usize, Vec<u32>)> {
        let reports = diagnostics.reports();
        let lines = |report: &DiagnosticReport<'_>| report.places.iter().map(|place| place.line).collect();
        reports.iter().map(|report| (&*report.diagnostic.message, report.count, lines(report))).collect()
    }

    #[test]
    fn groups_repeated_diagnostics_into_one_report() {
        let file = crate::source::SourceMap::new().add("f", Vec::new());
        let mut diagnostics = Diagnostics::new();
        for line in 1..=1000 {
            let span = Span::new(file, line, 0, 1);
            let message = format!("server {line}: 'check' is not there");
            diagnostics.push(Diagnostic::alert(span, message).group("'check' is not there"));
            if line <= 2 {
                diagnostics.alert(span, "twice");
            }
        }
        assert_eq!(
            reported(&diagnostics),
            [
                ("server 1: 'check' is not there", 1000, vec![1, 2, 3, 4, 5]),
                ("twice", 1, vec![]),
                ("twice", 1, vec![])
            ]
        );
        assert_eq!((diagnostics.alert_count(), diagnostics.dropped_count()), (1002, 0));
    }

    #[test]
    fn hides_warnings_until_errors_are_fixed() {
        let mut diagnostics = Diagnostics::new();
        diagnostics.warning(None, "a");
        let mut requested = Diagnostic::warning(None, "b");
        requested.requested = true;
        diagnostics.push(requested);
        assert_eq!((reported(&diagnostics).len(), diagnostics.waiting_count()), (2, 0));
        let mut alert = Diagnostic::alert(None, "c");
        alert.also.push(Diagnostic::alert(None, "d"));
        diagnostics.push(alert);
        let messages: Vec<&str> = reported(&diagnostics).iter().map(|(message, ..)| *message).collect();
        assert_eq!((messages, diagnostics.waiting_count()), (vec!["b", "c", "d"], 1));
    }
}
