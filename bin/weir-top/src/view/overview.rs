//! The first page: the process, its work per second, the rows that need attention, and the busiest ones.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::framed;
use super::list::{fit, shortened};
use super::theme::Theme;
use crate::app::App;
use crate::columns::{DisplayedRow, Tone, kind_name, state_tone};
use crate::model::info::Info;
use crate::model::row::{ObjectRow, RowKind, RowState};
use crate::model::{Model, Series};
use crate::text::{bar, bytes, count, duration, rate, sparkline};

pub(crate) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let Some(picture) = &app.model.picture else { return };
    let facts = facts(&picture.info, &app.model);
    if area.height < LOW || area.width < WIDE && area.height < 2 * LOW {
        return draw_low(frame, area, &app.model, &facts, theme);
    }
    let upper = (facts.len() as u16 + 2).min(area.height.div_ceil(2));
    let wide = area.width >= WIDE;
    let [top, bottom] = match wide {
        true => Layout::vertical([Constraint::Length(upper), Constraint::Fill(1)]).areas(area),
        // The panels are one below the other, with the process in its shortest form.
        false => {
            Layout::vertical([Constraint::Length(area.height.div_ceil(2)), Constraint::Fill(1)]).areas(area)
        }
    };
    let halves = |area: Rect| -> [Rect; 2] {
        match wide {
            true => Layout::horizontal([Constraint::Percentage(45), Constraint::Fill(1)]).areas(area),
            false => Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(area),
        }
    };
    let [process, traffic] = halves(top);
    let [trouble, busy] = halves(bottom);
    draw_process(frame, process, &facts, theme);
    draw_traffic(frame, traffic, &app.model, theme);
    draw_trouble(frame, trouble, &app.model, theme);
    draw_busy(frame, busy, &app.model, theme);
}

/// Draws the page without frames, on a low screen.
fn draw_low(frame: &mut Frame<'_>, area: Rect, model: &Model, facts: &[Fact], theme: Theme) {
    let [top, bottom] =
        Layout::vertical([Constraint::Length(5.min(area.height)), Constraint::Fill(1)]).areas(area);
    let mut lines: Vec<Line<'_>> =
        facts.iter().take(3).map(|fact| fact_line(fact, area.width, theme)).collect();
    lines.extend(traffic_lines(model, area.width, theme).into_iter().take(2));
    frame.render_widget(Paragraph::new(lines), top);
    frame.render_widget(
        Paragraph::new(trouble_lines(model, bottom.width, usize::from(bottom.height), theme)),
        bottom,
    );
}

/// A name, its value, and the used part of a limit.
pub(crate) struct Fact {
    pub name: &'static str,
    pub value: String,
    part: Option<(u64, u64)>,
}

/// Facts about the process, the most important first. Those that do not fit are omitted.
pub(crate) fn facts(info: &Info, model: &Model) -> Vec<Fact> {
    let plain = |name, value| Fact { name, value, part: None };
    let (used, allocated) = info.memory();
    let connections = (info.count("CurrConns"), info.count("Maxconn"));
    let limit = if connections.1 > 0 { format!(" of {}", count(connections.1)) } else { String::new() };
    let mut facts = vec![
        Fact {
            name: "connections",
            value: format!("{}{limit}", count(connections.0)),
            part: Some(connections),
        },
        Fact {
            name: "load",
            value: format!("{} %", 100_u64.saturating_sub(info.count("Idle_pct"))),
            part: Some((100_u64.saturating_sub(info.count("Idle_pct")), 100)),
        },
        plain("servers", tally(model)),
        plain(
            "workers",
            format!(
                "{} threads, {} tasks, {} runnable",
                info.text("Nbthread"),
                info.text("Tasks"),
                info.text("Run_queue")
            ),
        ),
    ];
    if allocated > 0 {
        facts.push(plain("memory", format!("{}B in use, {}B pooled", bytes(used), bytes(allocated))));
    }
    if info.count("CumSslConns") > 0 {
        facts.push(plain(
            "TLS",
            format!(
                "{} open, {} handshakes/s",
                count(info.count("CurrSslConns")),
                count(info.count("SslRate"))
            ),
        ));
    }
    facts.push(plain("uptime", duration(info.count("Uptime_sec"))));
    facts.push(plain("version", info.text("Version").to_owned()));
    facts
}

/// The number of servers in each state. A draining server still serves sessions, so it does not count as in maintenance.
fn tally(model: &Model) -> String {
    let words: Vec<&str> = model.rows(RowKind::Server).map(word).collect();
    let of = |word: &str| words.iter().filter(|&&found| found == word).count();
    let named = ["up", "changing", "drain", "maint", "down"];
    let parts = named.into_iter().filter(|word| *word == "up" || of(word) > 0);
    parts.map(|word| format!("{} {word}", of(word))).collect::<Vec<_>>().join(", ")
}

/// The state of a server in one word.
fn word(row: &ObjectRow) -> &'static str {
    match row.state() {
        RowState::Good => "up",
        RowState::Changing => "changing",
        RowState::Wanted if row.status.starts_with("DRAIN") => "drain",
        RowState::Wanted => "maint",
        RowState::Down => "down",
    }
}

fn draw_process(frame: &mut Frame<'_>, area: Rect, facts: &[Fact], theme: Theme) {
    let lines: Vec<Line<'_>> =
        facts.iter().map(|fact| fact_line(fact, area.width.saturating_sub(2), theme)).collect();
    frame.render_widget(Paragraph::new(lines).block(framed(theme, " Process ")), area);
}

fn fact_line(fact: &Fact, width: u16, theme: Theme) -> Line<'static> {
    let value = fit(&fact.value, width.saturating_sub(13), true);
    let mut spans = vec![
        Span::styled(format!(" {:<12}", fact.name), theme.style(Tone::Dim)),
        Span::raw(value.trim_end().to_owned()),
    ];
    let free = usize::from(width.saturating_sub(15)).saturating_sub(fact.value.len());
    if let Some((part, whole)) = fact.part.filter(|(_, whole)| *whole > 0 && free >= 6) {
        let tone = match () {
            () if part.saturating_mul(10) >= whole.saturating_mul(9) => Tone::Bad,
            () if part.saturating_mul(10) >= whole.saturating_mul(7) => Tone::Warning,
            () => Tone::Good,
        };
        let size = free.min(20);
        spans.push(Span::raw(" ".repeat(free - size + 1)));
        spans.push(Span::styled(bar(part, whole, size), theme.style(tone)));
    }
    Line::from(spans)
}

fn draw_traffic(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let mut lines = traffic_lines(model, area.width.saturating_sub(2), theme);
    if usize::from(area.height) >= 2 + 2 * lines.len() {
        lines = lines.into_iter().flat_map(|line| [line, Line::raw("")]).collect();
    }
    frame.render_widget(Paragraph::new(lines).block(framed(theme, " Traffic ")), area);
}

/// A title, its series of values, and its formatter.
type SeriesShape<'m> = (&'static str, &'m Series, fn(f64) -> String);

fn traffic_lines(model: &Model, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let process = &model.process;
    let series: [SeriesShape<'_>; 4] = [
        ("requests/s", &process.requests, rate),
        ("connections/s", &process.connections, rate),
        ("bytes in/s", &process.bytes_in, |n| bytes(n as u64)),
        ("bytes out/s", &process.bytes_out, |n| bytes(n as u64)),
    ];
    let line = |(name, series, show): &SeriesShape<'_>| {
        let now = series.rate.map_or_else(|| "-".to_owned(), show);
        let values = series.history.values();
        let most = if values.is_empty() { "-".to_owned() } else { show(series.history.most()) };
        let most = if width < 50 { String::new() } else { format!(" most {most:>6}") };
        let room = usize::from(width).saturating_sub(23 + most.len()).min(120);
        Line::from(vec![
            Span::styled(format!(" {name:<14}"), theme.style(Tone::Dim)),
            Span::raw(format!("{now:>6} ")),
            Span::styled(sparkline(&values, room), theme.style(Tone::Accent)),
            Span::styled(most, theme.style(Tone::Dim)),
        ])
    };
    series.iter().map(line).collect()
}

fn draw_trouble(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let room = usize::from(area.height.saturating_sub(2));
    let all = model.troubles().len();
    let title = if all > room { format!(" Attention: {room} of {all} ") } else { " Attention ".to_owned() };
    let lines = trouble_lines(model, area.width.saturating_sub(2), room, theme);
    frame.render_widget(Paragraph::new(lines).block(framed(theme, &title)), area);
}

fn trouble_lines(model: &Model, width: u16, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let troubles = model.troubles();
    let longest = troubles.iter().take(room).map(|(row, ..)| row.path().len()).max().unwrap_or(0) as u16;
    let name_width = longest.min(width * 2 / 5).max(1);
    let rest = width.saturating_sub(name_width + 2);
    let line = |(row, state, why): &(&ObjectRow, RowState, String)| {
        Line::from(vec![
            Span::styled(
                format!(" {}", fit(&shortened(&row.path(), name_width), name_width, true)),
                theme.style(state_tone(*state)),
            ),
            Span::raw(format!(" {}", fit(why, rest, true))),
        ])
    };
    match troubles.is_empty() {
        true => vec![Line::styled(" all is well", theme.style(Tone::Good))],
        false => troubles.iter().take(room).map(line).collect(),
    }
}

/// The busiest proxies and servers, by work per second.
fn draw_busy(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let kinds = [RowKind::Frontend, RowKind::Backend, RowKind::Server];
    let mut rows: Vec<DisplayedRow<'_>> =
        kinds.iter().flat_map(|&kind| model.rows(kind)).map(|row| DisplayedRow::new(model, row)).collect();
    rows.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let width = area.width.saturating_sub(3);
    let name_width = width.saturating_sub(29).min(40);
    let history = usize::from(width.saturating_sub(name_width + 30)).min(100);
    let lines = rows.iter().take(usize::from(area.height.saturating_sub(2))).map(|shown| {
        let values = shown.track.map_or_else(Vec::new, |track| track.history.values());
        Line::from(vec![
            Span::raw(format!(" {}", fit(&shortened(&shown.row.path(), name_width), name_width, true))),
            Span::styled(format!(" {:<8}", kind_name(shown.row.key.kind)), theme.style(Tone::Dim)),
            Span::raw(format!(" {:>6}/s ", rate(shown.rate()))),
            Span::styled(
                format!("{:>5} open", count(shown.row.sessions.now)),
                theme.style(if shown.row.sessions.now == 0 { Tone::Dim } else { Tone::Plain }),
            ),
            Span::styled(format!(" {}", sparkline(&values, history)), theme.style(Tone::Accent)),
        ])
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(framed(theme, " Busiest ")), area);
}

/// Minimum width for blocks side by side. Narrower screens have them one below the other.
const WIDE: u16 = 76;
/// Minimum height for frames.
const LOW: u16 = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::picture;

    #[test]
    fn the_overview_counts_servers_by_state() {
        for (status, expected) in [
            ("DOWN", "1 up, 1 down"),
            ("DRAIN", "1 up, 1 drain"),
            ("DRAIN (agent)", "1 up, 1 drain"),
            ("MAINT", "1 up, 1 maint"),
            ("MAINT (resolution)", "1 up, 1 maint"),
            ("UP 1/3", "1 up, 1 changing"),
        ] {
            let mut model = Model::default();
            let mut picture = picture(1, 61, 10);
            let second = picture.rows.iter_mut().find(|row| row.key.name == "s2").expect("a server");
            second.status = status.to_owned();
            model.add(picture);
            assert_eq!(tally(&model), expected, "{status}");
        }
    }
}
