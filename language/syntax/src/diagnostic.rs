//! What is said to the operator: all of it, never only the first fault.

use crate::source::Span;

/// How grave a diagnostic is. An `Alert` makes the configuration unusable; a `Warning` is fatal under `-dW` and
/// `zero-warning` only; `Diag` is shown under `-dD` only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Unusual but legal; shown in diagnostic mode only.
    Diag,
    /// Information.
    Notice,
    /// Probably not what was meant.
    Warning,
    /// The configuration cannot be used.
    Alert,
}

/// How the place is written before the message in the classic one-line form. The reference is not of one mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// `parsing [file:line] : message`, the usual one.
    #[default]
    Parsing,
    /// `parsing [file:line]: message`, what the lexer and a few keywords print.
    ParsingTight,
    /// `[file:line] : message`, for what is found after parsing.
    Place,
    /// The message alone, which names its subject itself.
    Bare,
}

/// One thing to tell the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How grave.
    pub severity: Severity,
    /// Where, when it has a place.
    pub span: Option<Span>,
    /// What is wrong, as one sentence in the reference's words where those are known.
    pub message: String,
    /// What was expected, or why; shown in the pretty form only.
    pub note: Option<String>,
    /// A known word near the one that was written.
    pub suggestion: Option<String>,
    /// How the classic form writes the place.
    pub layout: Layout,
    /// The line as the classic form repeats it below the message, and the byte in it that the caret points to.
    /// Broken quoting and broken conditions have one.
    pub excerpt: Option<(String, usize)>,
}

/// Collects diagnostics. Keeps the first [`MAX_DIAGNOSTICS`] and counts the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    alerts: usize,
    warnings: usize,
    dropped: usize,
}

impl Diagnostic {
    /// A diagnostic at `span`.
    pub fn new(severity: Severity, span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        let span = span.into();
        let layout = if span.is_some() { Layout::Parsing } else { Layout::Bare };
        Self { severity, span, message: message.into(), note: None, suggestion: None, layout, excerpt: None }
    }

    /// An error at `span`.
    pub fn alert(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Alert, span, message)
    }

    /// A warning at `span`.
    pub fn warning(span: impl Into<Option<Span>>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, span, message)
    }

    /// Adds what was expected.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds the word that was probably meant, if any.
    pub fn suggestion(mut self, suggestion: Option<impl Into<String>>) -> Self {
        self.suggestion = suggestion.map(Into::into);
        self
    }

    /// Chooses how the classic form writes the place.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// Makes the classic form repeat the line with a caret below byte `caret`.
    pub fn with_excerpt(mut self, line: impl Into<String>, caret: usize) -> Self {
        self.excerpt = Some((line.into(), caret));
        self
    }
}

impl Diagnostics {
    /// Nothing said yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        match diagnostic.severity {
            Severity::Alert => self.alerts += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Notice | Severity::Diag => {}
        }
        if self.list.len() < MAX_DIAGNOSTICS {
            self.list.push(diagnostic);
        } else {
            self.dropped += 1;
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
        self.push(Diagnostic::new(Severity::Notice, span, message));
    }

    /// Adds a remark for diagnostic mode.
    pub fn diag(&mut self, span: impl Into<Option<Span>>, message: impl Into<String>) {
        self.push(Diagnostic::new(Severity::Diag, span, message));
    }

    /// Whether anything makes the configuration unusable.
    pub fn has_alerts(&self) -> bool {
        self.alerts > 0
    }

    /// How many errors, those not kept included.
    pub fn alert_count(&self) -> usize {
        self.alerts
    }

    /// How many warnings, those not kept included.
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// How many diagnostics were counted but not kept.
    pub fn dropped_count(&self) -> usize {
        self.dropped
    }

    /// All kept diagnostics in the order they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Moves all of `other` to the end of this list.
    pub fn append(&mut self, other: Diagnostics) {
        self.dropped += other.dropped;
        // What `other` dropped was never in its list, so its counters come over whole.
        let (alerts, warnings) = (self.alerts + other.alerts, self.warnings + other.warnings);
        for diagnostic in other.list {
            self.push(diagnostic);
        }
        (self.alerts, self.warnings) = (alerts, warnings);
    }
}

/// A file with more faults than this is not a configuration; the rest is counted, not kept.
pub const MAX_DIAGNOSTICS: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_and_the_list_is_bounded() {
        let mut diagnostics = Diagnostics::new();
        for _ in 0..MAX_DIAGNOSTICS + 5 {
            diagnostics.alert(None, "x");
        }
        diagnostics.warning(None, "y");
        assert_eq!(diagnostics.alert_count(), MAX_DIAGNOSTICS + 5);
        assert_eq!(diagnostics.warning_count(), 1);
        assert_eq!(diagnostics.dropped_count(), 6);
        assert_eq!(diagnostics.iter().count(), MAX_DIAGNOSTICS);
        let mut other = Diagnostics::new();
        other.alert(None, "z");
        other.append(diagnostics);
        assert_eq!(other.alert_count(), MAX_DIAGNOSTICS + 6);
        assert_eq!(other.dropped_count(), 7);
    }
}
