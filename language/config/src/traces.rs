//! `traces` sections: traces that are active from startup on (manual, section "Traces").

use weir_syntax::{Diagnostic, Diagnostics, Line};

use crate::rows::{Handler, Row, Table};
use crate::words::{Parsed, Words, fault};
use weir_model::{Location, TraceLine};

/// Reads one line of the section.
pub(crate) type TracesKeyword = fn(&mut Vec<TraceLine>, Location, &mut Words<'_>) -> Parsed;

/// Every word of the section.
pub(crate) static TRACES_KEYWORDS: Table<TracesKeyword> = Table::new(&[&[Row::ready(
    "trace",
    "<source> <args...>",
    "stream sink stderr",
    "a trace command, as the runtime API takes it",
    |lines, at, words| {
        let mut taken = Vec::new();
        while let Some(word) = words.take() {
            taken.push(word.text().into());
        }
        if taken.is_empty() {
            return Err(fault(words.line().span(), "'trace' expects a source and what to do with it."));
        }
        if lines.len() == MOST_LINES {
            return Err(fault(words.line().span(), format!("more than {MOST_LINES} 'trace' lines.")));
        }
        lines.push(TraceLine { at, words: taken });
        Ok(())
    },
)]]);

/// A limit above the number of settings of all sources.
const MOST_LINES: usize = 1024;

pub(crate) fn read_line(
    lines: &mut Vec<TraceLine>,
    line: &Line,
    at: Location,
    diagnostics: &mut Diagnostics,
) {
    let keyword = line.keyword();
    let Some(row) = TRACES_KEYWORDS.find(keyword.text()) else {
        let message = format!("unknown keyword '{keyword}' in 'traces' section");
        let nearest = TRACES_KEYWORDS.nearest(keyword.text());
        diagnostics.push(Diagnostic::alert(keyword.span(), message).suggestion(nearest));
        return;
    };
    let Handler::Ready(read) = row.handler else { return };
    if let Err(fault) = read(lines, at, &mut Words::new(line, 1)) {
        diagnostics.push(*fault);
    }
}

#[cfg(test)]
mod tests {
    use crate::document::tests::parse_text;

    #[test]
    fn lines_of_a_traces_section_are_kept_as_commands() {
        let read =
            parse_text("traces\n trace stream sink stderr level user start now\n trace h1 start now\n");
        assert_eq!(read.messages, [""; 0]);
        let words: Vec<_> = read.config.traces.iter().map(|line| line.words.join(" ")).collect();
        assert_eq!(words, ["stream sink stderr level user start now", "h1 start now"]);
        let read = parse_text("traces x\n trase stream\n trace\n");
        assert_eq!(
            read.messages,
            [
                "parsing [test.cfg:1] : 'traces' cannot handle unexpected argument 'x'.",
                "parsing [test.cfg:2] : unknown keyword 'trase' in 'traces' section; did you mean 'trace' maybe ?",
                "parsing [test.cfg:3] : 'trace' expects a source and what to do with it.",
            ]
        );
    }
}
