//! Messages that contain their location as text: `[FILE:LINE] : message`, written after parsing.

use crate::diagnostic::{Diagnostic, DiagnosticSeverity};
use crate::source::{SourceMap, Span};

/// The location that a message names: the first `FILE:LINE` of a known file. Within the line, the last quoted part of `text` that
/// occurs in it, or else the whole line.
pub fn place(text: &str, sources: &SourceMap) -> Option<Span> {
    sources.iter().find_map(|(file, source)| {
        let (_, rest) = text.split_once(&format!("{}:", source.name()))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let line = rest[..digits].parse().ok()?;
        let raw = source.line(line).map_or(&b""[..], |(raw, _)| raw);
        let (start, end) = quoted(text, raw).unwrap_or_else(|| {
            let blanks = raw.len() - raw.trim_ascii_start().len();
            (blanks, blanks + raw.trim_ascii().len())
        });
        Some(Span { file, line, start: column(start), end: column(end) })
    })
}

fn column(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Offset and length in `raw` of the last quoted part of `text` that `raw` contains.
fn quoted(text: &str, raw: &[u8]) -> Option<(usize, usize)> {
    let raw = std::str::from_utf8(raw).ok()?;
    let parts = text.split('\'').filter(|part| part.len() > 1 && part.trim() == *part);
    parts
        .filter_map(|part| Some((raw.find(part)?, part.len())))
        .next_back()
        .map(|(start, length)| (start, start + length))
}

/// The message without a location at its beginning: `[FILE:LINE] : ...`, `parsing [FILE:LINE] : ...`.
pub fn without_place(text: &str) -> &str {
    let placed = text.strip_prefix("parsing ").unwrap_or(text).starts_with('[');
    text.split_once("] : ").filter(|_| placed).map_or(text, |(_, rest)| rest)
}

/// The pretty form of a message that names a location. None without a location.
pub fn pretty(severity: DiagnosticSeverity, text: &str, sources: &SourceMap, color: bool) -> Option<String> {
    let span = place(text, sources)?;
    let text = without_place(text.strip_prefix("config : ").unwrap_or(text));
    Some(format!("{}\n\n", Diagnostic::new(severity, span, text).pretty(sources, color)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn pointed_at(text: &str) -> Option<String> {
        let mut sources = SourceMap::new();
        sources.add("dir/a.cfg", b"one\n  bind :1 crt /x.pem\n\xff\n".to_vec());
        let span = place(text, &sources)?;
        let (raw, _) = sources.get(span.file)?.line(span.line).unwrap_or_default();
        let part = raw.get(span.start as usize..span.end as usize)?;
        Some(format!("{}: {}", span.line, String::from_utf8_lossy(part)))
    }

    #[test]
    fn a_diagnostic_points_at_the_last_quoted_part_found_on_its_line() {
        for (text, expected) in [
            ("[dir/a.cfg:2] : 'bind :1' : unable to read '/x.pem': Permission denied", "2: /x.pem"),
            ("config : [dir/a.cfg:2] : 'bind :1' : doesn't start with 'nothing'", "2: bind :1"),
            ("Binding [dir/a.cfg:2] for frontend f: cannot bind socket", "2: bind :1 crt /x.pem"),
            ("[dir/a.cfg:1] : 'x'", "1: one"),
            ("[dir/a.cfg:3] : 'x'", "3: \u{fffd}"),
            ("[dir/a.cfg:99] : 'one'", "99: "),
        ] {
            assert_eq!(pointed_at(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "cannot find user id for 'weir'",
            "dir/a.cfg: broken",
            "dir/a.cfg:99999999999999: broken",
            "b.cfg:1: x",
        ] {
            assert_eq!(pointed_at(text), None, "{text}");
        }
    }

    #[test]
    fn the_pretty_form_has_the_source_line_and_omits_the_location_prefix() {
        let mut sources = SourceMap::new();
        sources.add("a.cfg", b"  user nobodyhere\n".to_vec());
        let text = "config : parsing [a.cfg:1] : cannot find user id for 'nobodyhere'";
        let shown = pretty(DiagnosticSeverity::Alert, text, &sources, false).expect("a place");
        for part in [
            "error: cannot find user id for 'nobodyhere'\n",
            "a.cfg:1:8\n",
            "  user nobodyhere\n",
            "^^^^^^^^^^\n",
        ] {
            assert!(shown.contains(part), "{part} in\n{shown}");
        }
        assert_eq!(
            pretty(DiagnosticSeverity::Alert, "Fatal errors found in configuration.", &sources, false),
            None
        );
    }
}
