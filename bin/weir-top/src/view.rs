//! The screen: title, page tabs, the open page, and a line for keys, notices and input.

mod detail;
mod help;
pub(crate) mod list;
pub(crate) mod overview;
pub(crate) mod theme;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, BorderType, Clear, Paragraph, Wrap};

use crate::app::{ApiLink, App, Typing};
use crate::columns::Tone;
use crate::model::PageAnswer;
use crate::page::Page;
use crate::text::duration;
use theme::Theme;

/// Draws the screen. Adapts offset and height of the lists to its size.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme, now: Instant) {
    let area = frame.area();
    // On a low screen, the lines of the page have the highest priority.
    let fixed = |least: u16| Constraint::Length(u16::from(area.height >= least));
    let [title, tabs, body, footer] =
        Layout::vertical([fixed(3), fixed(6), Constraint::Fill(1), fixed(2)]).areas(area);
    match (&app.link, app.help) {
        (_, true) => help::draw(frame, body, app, theme),
        (ApiLink::Connecting, _) => {
            said(frame, body, theme, Tone::Dim, &format!("connecting to {}", app.target))
        }
        (ApiLink::Lost { why, .. }, _) if app.model.picture.is_none() => {
            said(frame, body, theme, Tone::Bad, &format!("{}: {why}", app.target));
        }
        _ => page(frame, body, app, theme),
    }
    // The title and tabs show the list's position, which is known only now.
    frame.render_widget(title_line(app, theme, title.width, now), title);
    frame.render_widget(tab_line(app, theme, tabs.width), tabs);
    frame.render_widget(footer_line(app, theme, footer.width), footer);
    if let Some(question) = &app.question {
        let lines = vec![
            Line::styled(question.words.clone(), theme.heading()),
            Line::styled(question.command.clone(), theme.style(Tone::Dim)),
            Line::from(vec![
                Span::styled(" y ", theme.selected()),
                Span::raw(" yes   "),
                Span::styled(" n ", theme.selected()),
                Span::raw(" no"),
            ]),
        ];
        dialog(frame, area, theme, " Change ", Text::from(lines));
    } else if let Some(Typing::Weight { server, text }) = &app.typing {
        let lines = vec![
            Line::styled(format!("Weight of {server}"), theme.heading()),
            Line::styled("0 to 256, or per cent of the initial one", theme.style(Tone::Dim)),
            Line::from(vec![Span::raw("> "), Span::raw(text.clone()), Span::styled(" ", theme.selected())]),
        ];
        dialog(frame, area, theme, " Weight ", Text::from(lines));
    }
    theme.finish(frame.buffer_mut());
}

fn page(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    if let Some(key) = &app.detail {
        match app.model.row(key) {
            Some(row) => detail::draw(frame, area, &app.model, row, theme, app.scroll),
            None => said(frame, area, theme, Tone::Warning, "it is not in the statistics any more"),
        }
        return;
    }
    match app.page {
        Page::Overview => overview::draw(frame, area, app, theme),
        Page::Errors => {
            let lower = if area.height >= 12 { area.height / 2 } else { 0 };
            let [rows, captured] =
                Layout::vertical([Constraint::Fill(1), Constraint::Length(lower)]).areas(area);
            list::draw_rows(frame, rows, app, theme);
            capture(frame, captured, app, theme);
        }
        Page::Sessions => match &app.model.streams {
            PageAnswer::Unknown => said(frame, area, theme, Tone::Dim, "asking for sessions"),
            PageAnswer::Refused(why) => said(frame, area, theme, Tone::Bad, &refused("show sess", why)),
            PageAnswer::Known { .. } => list::draw_streams(frame, area, app, theme),
        },
        _ => list::draw_rows(frame, area, app, theme),
    }
}

/// A refused command with the reason, and a hint if available.
fn refused(command: &str, why: &str) -> String {
    let hint =
        if why.starts_with("Permission denied") { " (the level of this socket is too low)" } else { "" };
    format!("'{command}' was answered: {why}{hint}")
}

/// Draws the captured protocol errors.
fn capture(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    if area.is_empty() {
        return;
    }
    let lines: Vec<Line<'_>> = match &app.model.errors {
        PageAnswer::Unknown => vec![Line::styled("asking for errors", theme.style(Tone::Dim))],
        PageAnswer::Refused(why) => vec![Line::styled(refused("show errors", why), theme.style(Tone::Bad))],
        PageAnswer::Known { value, cut } => {
            let lines = value.iter().map(|line| Line::raw(line.as_str()));
            let more = cut.then(|| Line::styled("the answer is longer", theme.style(Tone::Warning)));
            lines.chain(more).collect()
        }
    };
    let block = framed(theme, " Captured messages, [ and ] scroll ");
    let last = lines.len().saturating_sub(usize::from(area.height.saturating_sub(2))) as u16;
    let scroll = app.scroll.min(last);
    frame.render_widget(Paragraph::new(lines).block(block).scroll((scroll, 0)), area);
}

fn title_line(app: &App, theme: Theme, width: u16, now: Instant) -> Line<'static> {
    let mut left = vec![Span::styled(" weir-top ", theme.heading())];
    if let Some(picture) = &app.model.picture {
        let info = &picture.info;
        left.push(Span::raw(format!(" {}", info.program())));
        let facts = [
            ("node", info.text("node").to_owned()),
            ("pid", info.text("Pid").to_owned()),
            ("up", duration(info.count("Uptime_sec"))),
        ];
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            left.push(Span::styled(format!("  {name} "), theme.style(Tone::Dim)));
            left.push(Span::raw(value.clone()));
        }
    }
    let (sign, words, tone) = match &app.link {
        ApiLink::Connecting => ("○", "connecting".to_owned(), Tone::Warning),
        ApiLink::Lost { since, .. } => {
            ("○", format!("lost {}", duration(now.saturating_duration_since(*since).as_secs())), Tone::Bad)
        }
        ApiLink::Up if app.paused => ("○", "paused".to_owned(), Tone::Warning),
        ApiLink::Up if app.model.picture.as_ref().is_some_and(|picture| picture.info.is_stopping()) => {
            ("●", "stopping".to_owned(), Tone::Warning)
        }
        ApiLink::Up => ("●", format!("every {} s", app.interval.as_secs_f32()), Tone::Good),
    };
    let list = &app.lists[app.page as usize];
    let note = if app.help || app.detail.is_some() || app.page == Page::Overview { "" } else { &list.note };
    let right = vec![
        Span::styled(note.to_owned(), theme.style(Tone::Dim)),
        Span::styled(format!("{sign} {words} "), theme.style(tone)),
    ];
    spread(left, right, width)
}

/// A line with `left` at its left end and `right` at its right end. If both do not fit, `left` is
/// cut.
fn spread(mut left: Vec<Span<'static>>, right: Vec<Span<'static>>, width: u16) -> Line<'static> {
    let size = |spans: &[Span<'_>]| spans.iter().map(Span::width).sum::<usize>();
    let room = usize::from(width).saturating_sub(size(&right));
    while size(&left) > room {
        if left.pop().is_none() {
            break;
        }
    }
    left.push(Span::raw(" ".repeat(room.saturating_sub(size(&left)))));
    left.extend(right);
    Line::from(left)
}

fn tab_line(app: &App, theme: Theme, width: u16) -> Line<'static> {
    let filter = match app.filter.as_str() {
        "" => String::new(),
        filter => format!("names: {} ", crate::text::clean(filter, 30)),
    };
    let all: usize = Page::ALL.iter().map(|page| page.title().len() + 5).sum();
    let long = all + Span::raw(&filter).width() <= usize::from(width) + 1;
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (index, page) in Page::ALL.iter().enumerate() {
        let open = *page == app.page;
        let title = if long || open {
            format!(" {} {} ", index + 1, page.title())
        } else {
            format!(" {} ", index + 1)
        };
        spans.push(Span::styled(title, if open { theme.selected() } else { theme.style(Tone::Dim) }));
        spans.push(Span::raw(" "));
    }
    spread(spans, vec![Span::styled(filter, theme.style(Tone::Warning))], width)
}

fn footer_line(app: &App, theme: Theme, width: u16) -> Line<'static> {
    if let Some(Typing::Filter { text, .. }) = &app.typing {
        return Line::from(vec![
            Span::styled(" Show names with: ", theme.heading()),
            Span::raw(text.clone()),
            Span::styled(" ", theme.selected()),
            Span::styled("  Enter keeps, Esc undoes", theme.style(Tone::Dim)),
        ]);
    }
    if let Some(notice) = &app.notice {
        return Line::styled(format!(" {}", notice.text), theme.style(notice.tone));
    }
    if let (ApiLink::Lost { why, .. }, true) = (&app.link, app.model.picture.is_some()) {
        return Line::styled(format!(" {why}; this is the last picture"), theme.style(Tone::Bad));
    }
    let keys: &[(&str, &str)] = match (app.help, app.detail.is_some(), app.page) {
        (true, ..) => &[("Esc", "back"), ("q", "quit")],
        (_, true, _) => &[
            ("Esc", "back"),
            ("d", "drain"),
            ("e", "ready"),
            ("m", "maint"),
            ("w", "weight"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (_, _, Page::Overview) => {
            &[("1-6", "views"), ("p", "pause"), ("+/-", "pace"), ("?", "help"), ("q", "quit")]
        }
        (_, _, Page::Servers) => &[
            ("Enter", "details"),
            ("d", "drain"),
            ("e", "ready"),
            ("m", "maint"),
            ("w", "weight"),
            ("</>", "sort"),
            ("r", "turn"),
            ("/", "filter"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (_, _, Page::Backends) => &[
            ("Enter", "servers"),
            ("</>", "sort"),
            ("r", "turn"),
            ("/", "filter"),
            ("?", "help"),
            ("q", "quit"),
        ],
        (_, _, Page::Sessions) => {
            &[("</>", "sort"), ("r", "turn"), ("/", "filter"), ("p", "pause"), ("?", "help"), ("q", "quit")]
        }
        _ => &[
            ("Enter", "details"),
            ("</>", "sort"),
            ("r", "turn"),
            ("/", "filter"),
            ("?", "help"),
            ("q", "quit"),
        ],
    };
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for (at, (key, word)) in keys.iter().enumerate() {
        let size = key.len() + word.len() + 3;
        // The keys for help and quit are always shown, even if others do not fit.
        let kept: usize = keys[at + 1..]
            .iter()
            .skip_while(|(key, _)| *key != "?")
            .map(|(k, w)| k.len() + w.len() + 3)
            .sum();
        if used + size + kept <= usize::from(width) + 2 || *key == "q" || *key == "?" {
            spans.push(Span::styled(*key, theme.heading()));
            spans.push(Span::styled(format!(" {word}  "), theme.style(Tone::Dim)));
            used += size;
        }
    }
    Line::from(spans)
}

/// Draws a message in place of a page.
fn said(frame: &mut Frame<'_>, area: Rect, theme: Theme, tone: Tone, words: &str) {
    let text = Text::styled(format!("\n{words}"), theme.style(tone));
    frame.render_widget(Paragraph::new(text).centered().wrap(Wrap { trim: true }), area);
}

fn framed(theme: Theme, title: &str) -> Block<'static> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.style(Tone::Dim))
        .title(Span::styled(title.to_owned(), theme.heading()))
}

/// Draws a box in the center, over the page.
fn dialog(frame: &mut Frame<'_>, area: Rect, theme: Theme, title: &str, text: Text<'static>) {
    let width = (text.width() as u16).saturating_add(4).clamp(30, 76).min(area.width);
    let inner = usize::from(width.saturating_sub(4)).max(1);
    let lines: usize = text.lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let height = (lines as u16 + 4).min(area.height);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = framed(theme, title).padding(ratatui::widgets::Padding::symmetric(1, u16::from(height >= 7)));
    frame.render_widget(Paragraph::new(text).block(block).wrap(Wrap { trim: true }), place);
}

#[cfg(test)]
mod tests;
