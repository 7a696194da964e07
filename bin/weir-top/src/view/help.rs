//! The keys, and the meaning of the columns.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::framed;
use super::theme::Theme;
use crate::app::App;
use crate::columns::Tone;

/// Keys and their effects. A row without a key starts a new part.
const KEYS: &[(&str, &str)] = &[
    ("", "Views"),
    ("1 to 6", "overview, frontends, backends, servers, errors, sessions"),
    ("Tab, arrows", "the next view, the one before"),
    ("Enter", "the servers of a backend; the details of everything else"),
    ("Esc", "one step back: from help, details, a filter"),
    ("", "Lists"),
    ("up, down, j, k", "one row; page keys, Home, End, g and G go further"),
    ("< and >", "sort by the column beside it"),
    ("r, o", "turn the order; back to the order of the configuration"),
    ("/", "show names that contain a text, or begin with it after ^"),
    ("[ and ]", "scroll captured messages"),
    ("", "Servers"),
    ("d", "drain: no new sessions, those that are there go on"),
    ("e", "ready: back into service"),
    ("m", "maintenance: no sessions, no checks"),
    ("w", "another weight"),
    ("", "Each asks first, and needs a socket of level admin"),
    ("", "Else"),
    ("p", "pause"),
    ("+ and -", "ask less often, more often"),
    ("q", "quit"),
    ("", "Columns"),
    ("RATE", "requests a second, for TCP and servers sessions; HISTORY is its past"),
    ("ERRORS", "of requests, connections and responses, without denials"),
    ("p50, p99", "of the total time, since the process began; weir only"),
    ("AVERAGE", "mean of the total time of the last 1024"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, words)| match *key {
            "" => Line::styled(*words, theme.heading()),
            key => Line::from(vec![
                Span::styled(format!("  {key:<15}"), theme.style(Tone::Plain)),
                Span::styled(*words, theme.style(Tone::Dim)),
            ]),
        })
        .collect();
    let last = (lines.len() as u16 + 10).saturating_sub(area.height);
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false }).block(framed(theme, " Keys "));
    frame.render_widget(paragraph.scroll((app.scroll.min(last), 0)), area);
}
