//! Diagnostics as text: the classic line that tools and tests know, and the pretty form for people.

use crate::diagnostic::{Diagnostic, DiagnosticReport, DiagnosticSeverity, Diagnostics, Layout};
use crate::source::{SourceMap, Span};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt::Write;

impl Diagnostics {
    /// Every report as [`DiagnosticReport::classic`] writes it. Includes `Diag` reports only if `show_diag` is set.
    pub fn classic(&self, sources: &SourceMap, process: u32, show_diag: bool) -> String {
        let shown = self.reports().into_iter();
        let shown =
            shown.filter(|report| show_diag || report.diagnostic.severity != DiagnosticSeverity::Diag);
        let mut text: String = shown
            .map(|report| {
                let message = format!("config : {}", report.classic(sources));
                classic_line(report.diagnostic.severity, process, &message)
            })
            .collect();
        for message in self.summary() {
            text.push_str(&classic_line(DiagnosticSeverity::Notice, process, &format!("config : {message}")));
        }
        text
    }

    /// Every report as [`DiagnosticReport::pretty`] writes it, each followed by an empty line. Includes `Diag` reports only if
    /// `show_diag` is set. Without the summary.
    pub fn pretty(&self, sources: &SourceMap, color: bool, show_diag: bool) -> String {
        let shown = self.reports().into_iter();
        let shown =
            shown.filter(|report| show_diag || report.diagnostic.severity != DiagnosticSeverity::Diag);
        shown.map(|report| format!("{}\n\n", report.pretty(sources, color))).collect()
    }

    /// Counts of messages that are not shown: those beyond the limit, and warnings held back.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.dropped_count() > 0 {
            lines.push(format!("{} more messages are not shown.", self.dropped_count()));
        }
        if self.waiting_count() > 0 {
            let count = self.waiting_count();
            let noun = if count == 1 { "warning is" } else { "warnings are" };
            lines.push(format!("{count} {noun} not shown before the errors are gone."));
        }
        lines
    }
}

impl DiagnosticReport<'_> {
    /// The classic form without severity and process. It always includes the location if there is one.
    pub fn classic(&self, sources: &SourceMap) -> String {
        let diagnostic = self.diagnostic;
        if self.count == 1 {
            let text = diagnostic.classic_message(sources);
            return match diagnostic.span.filter(|_| diagnostic.layout == Layout::Bare) {
                Some(span) => with_place(&text, &format!("({}:{})", sources.name(span.file), span.line)),
                None => text,
            };
        }
        let text = diagnostic.group.as_ref().unwrap_or(&diagnostic.message);
        let place = diagnostic.span.map_or_else(String::new, |span| {
            format!("parsing [{}:{}] : ", sources.name(span.file), span.line)
        });
        format!("{place}{}{}", text.trim_end_matches('.'), self.count_and_places(sources))
    }

    /// `: 770 times, first at lines 12, 13, 14`.
    fn count_and_places(&self, sources: &SourceMap) -> String {
        let mut text = format!(": {} times", self.count);
        let Some(first) = self.places.first() else { return text };
        let mut file = first.file;
        for (index, place) in self.places.iter().enumerate() {
            text.push_str(if index == 0 { ", first at lines " } else { ", " });
            if place.file != file {
                let _ = write!(text, "{}:", sources.name(place.file));
                file = place.file;
            }
            let _ = write!(text, "{}", place.line);
        }
        text
    }

    /// The line with a caret, the expected input, and the suggestion.
    pub fn pretty(&self, sources: &SourceMap, color: bool) -> String {
        let diagnostic = self.diagnostic;
        if self.count == 1 {
            return diagnostic.pretty(sources, color);
        }
        let text = diagnostic.group.as_ref().unwrap_or(&diagnostic.message);
        let message = format!("{}{}", text.trim_end_matches('.'), self.count_and_places(sources));
        Diagnostic { message, ..diagnostic.clone() }.pretty(sources, color)
    }
}

/// The text with a location at the end of its first line.
fn with_place(text: &str, place: &str) -> String {
    let (first, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    match first.strip_suffix('.') {
        Some(sentence) => format!("{sentence} {place}.{rest}"),
        None => format!("{first} {place}{rest}"),
    }
}

impl Diagnostic {
    /// The classic form without severity and process: `parsing [file:line] : message`.
    pub fn classic_message(&self, sources: &SourceMap) -> String {
        let mut text = match self.span {
            None => String::new(),
            Some(span) => {
                let place = format!("[{}:{}]", sources.name(span.file), span.line);
                match self.layout {
                    Layout::Parsing => format!("parsing {place} : "),
                    Layout::ParsingTight => format!("parsing {place}: "),
                    Layout::Location => format!("{place} : "),
                    Layout::Bare => String::new(),
                }
            }
        };
        text.push_str(&self.message);
        if let Some(suggestion) = &self.suggestion {
            if text.ends_with('.') {
                text.pop(); // the suggestion goes on with the sentence
            }
            let _ = write!(text, "; did you mean '{suggestion}' maybe ?");
        }
        if let Some((line, caret)) = &self.excerpt {
            let indentation = line.get(..*caret).map_or(*caret, |before| before.chars().count());
            let _ = write!(text, ":\n  {line}\n  {:indentation$}^", "");
        }
        text
    }

    /// The line with a caret, the expected input, and the suggestion.
    pub fn pretty(&self, sources: &SourceMap, color: bool) -> String {
        let level = match self.severity {
            DiagnosticSeverity::Alert => Level::ERROR,
            DiagnosticSeverity::Warning => Level::WARNING,
            DiagnosticSeverity::Notice => Level::NOTE,
            DiagnosticSeverity::Diag => Level::INFO,
        };
        let (shown, range) = self.span.map(|span| shown_source(sources, span)).unwrap_or_default();
        let message = printable(&self.message);
        let mut group = level
            .primary_title(message.as_str())
            .elements(std::iter::empty::<Snippet<'_, annotate_snippets::Annotation<'_>>>());
        if let Some(span) = self.span {
            group = group.element(
                Snippet::source(shown.as_str())
                    .line_start(span.line as usize)
                    .path(sources.name(span.file))
                    .annotation(AnnotationKind::Primary.span(range)),
            );
        }
        let note = self.note.as_deref().map(printable);
        if let Some(note) = &note {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        let help = self.suggestion.as_ref().map(|word| printable(&format!("did you mean '{word}'?")));
        if let Some(help) = &help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// One line of the classic form, newline included: the severity padded to eleven columns.
pub fn classic_line(severity: DiagnosticSeverity, process: u32, message: &str) -> String {
    let label = match severity {
        DiagnosticSeverity::Alert => "[ALERT]",
        DiagnosticSeverity::Warning => "[WARNING]",
        DiagnosticSeverity::Notice => "[NOTICE]",
        DiagnosticSeverity::Diag => "[DIAG]",
    };
    format!("{label:<10} ({process}) : {message}\n")
}

/// The line of `span` as text with the same columns, and the range to underline. A long line is cut around that range.
fn shown_source(sources: &SourceMap, span: Span) -> (String, std::ops::Range<usize>) {
    let raw =
        sources.get(span.file).and_then(|source| source.line(span.line)).map_or(&b""[..], |(raw, _)| raw);
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    let (start, end) = ((span.start as usize).min(raw.len()), (span.end as usize).min(raw.len()));
    let from = start.saturating_sub(MAX_PRETTY_BYTES / 2);
    let until = raw.len().min(from + MAX_PRETTY_BYTES);
    // Replace each non-printable byte by one byte, so that columns keep their positions.
    let mut shown = String::with_capacity(until - from);
    for chunk in raw[from..until].utf8_chunks() {
        for character in chunk.valid().chars() {
            shown.push(if character.is_control() { ' ' } else { character });
        }
        shown.extend(chunk.invalid().iter().map(|_| '?'));
    }
    let boundary =
        |at: usize| (at..=shown.len()).find(|&at| shown.is_char_boundary(at)).unwrap_or(shown.len());
    let range = boundary((start - from).min(shown.len()))..boundary((end - from).min(shown.len()));
    (shown, range.start..range.end.max(range.start))
}

/// Replaces control characters: messages repeat bytes of the file, and a terminal must not interpret them.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() && character != '\n' { ' ' } else { character })
        .collect()
}

/// The most bytes of a line that the pretty form shows.
const MAX_PRETTY_BYTES: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> SourceMap {
        let mut sources = SourceMap::new();
        sources.add("bad.cfg", b"global\n\n# x\n\tnbthread 2x\n".to_vec());
        sources
    }

    fn span(sources: &SourceMap) -> Span {
        Span::new(sources.iter().next().unwrap().0, 4, 10, 12)
    }

    #[test]
    fn the_classic_diagnostic_form_matches_haproxy() {
        let sources = sources();
        let message = "'nbthread' passed a missing or unparsable integer value in '2x'";
        let said = |diagnostic: Diagnostic| {
            let mut diagnostics = Diagnostics::new();
            diagnostics.push(diagnostic);
            diagnostics.classic(&sources, 1584, false)
        };
        assert_eq!(
            said(Diagnostic::alert(span(&sources), message)),
            format!("[ALERT]    (1584) : config : parsing [bad.cfg:4] : {message}\n")
        );
        assert_eq!(
            said(Diagnostic::warning(span(&sources), "'W'.").layout(Layout::ParsingTight)),
            "[WARNING]  (1584) : config : parsing [bad.cfg:4]: 'W'.\n"
        );
        assert_eq!(
            said(Diagnostic::alert(None, "Fatal errors found in configuration.")),
            "[ALERT]    (1584) : config : Fatal errors found in configuration.\n"
        );
        // HAProxy's form without a location: the location goes to the end of the first line.
        assert_eq!(
            said(Diagnostic::alert(span(&sources), "Proxy 'f': lost.\n  | more").layout(Layout::Bare)),
            "[ALERT]    (1584) : config : Proxy 'f': lost (bad.cfg:4).\n  | more\n"
        );
    }

    #[test]
    fn repeated_diagnostics_are_shown_as_one_line_with_a_count() {
        let mut sources = sources();
        let other = sources.add("b.cfg", b"x\n".to_vec());
        let first = span(&sources);
        let mut diagnostics = Diagnostics::new();
        for (file, line) in [(first.file, 2), (first.file, 4), (other, 1), (other, 7)] {
            let message = format!("'server b/s{line}' : 'check' is not implemented yet");
            let alert = Diagnostic::alert(Span::new(file, line, 0, 0), message);
            diagnostics.push(alert.group("'check' is not implemented yet"));
        }
        diagnostics.warning(None, "hidden");
        assert_eq!(
            diagnostics.classic(&sources, 1, false),
            "[ALERT]    (1) : config : parsing [bad.cfg:2] : 'check' is not implemented yet: 4 times, first at lines 2, 4, \
             b.cfg:1, 7\n[NOTICE]   (1) : config : 1 warning is not shown before the errors are gone.\n"
        );
        let pretty = diagnostics.reports()[0].pretty(&sources, false);
        assert!(
            pretty.contains("error: 'check' is not implemented yet: 4 times") && pretty.contains("bad.cfg:2"),
            "{pretty}"
        );
    }

    #[test]
    fn the_classic_message_has_the_suggestion_and_the_excerpt() {
        let sources = sources();
        let diagnostic = Diagnostic::alert(None, "unknown keyword 'maxcon'").suggestion(Some("maxconn"));
        assert_eq!(
            diagnostic.classic_message(&sources),
            "unknown keyword 'maxcon'; did you mean 'maxconn' maybe ?"
        );
        let diagnostic = Diagnostic::alert(None, "unknown keyword 'x' out of section.").suggestion(Some("y"));
        assert_eq!(
            diagnostic.classic_message(&sources),
            "unknown keyword 'x' out of section; did you mean 'y' maybe ?"
        );
        let diagnostic = Diagnostic::alert(None, "unmatched quote at position 6").with_excerpt("log \"a", 4);
        assert_eq!(
            diagnostic.classic_message(&sources),
            "unmatched quote at position 6:\n  log \"a\n      ^"
        );
    }

    #[test]
    fn the_pretty_form_underlines_the_span() {
        let sources = sources();
        let diagnostic = Diagnostic::alert(span(&sources), "not a number")
            .note("expected an integer")
            .suggestion(Some("2"));
        let text = diagnostic.pretty(&sources, false);
        for part in [
            "error: not a number",
            "bad.cfg:4:11",
            " nbthread 2x",
            "^^",
            "expected an integer",
            "did you mean '2'?",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let line = text.lines().position(|line| line.contains("nbthread")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[line].find("2x"), lines[line + 1].find("^^"), "{text}");
    }

    #[test]
    fn the_pretty_form_accepts_any_span() {
        let mut sources = SourceMap::new();
        let file =
            sources.add("f", "é\u{1b}[31m\u{e9}é\n".bytes().chain([0xff, 0xfe, b'\r', b'\n']).collect());
        for line in 0..4 {
            for start in 0..20 {
                for end in start..20 {
                    let span = Span::new(file, line, start, end);
                    let text = Diagnostic::alert(span, "\u{1b}x").pretty(&sources, false);
                    assert!(!text.contains('\u{1b}'));
                }
            }
        }
    }
}
