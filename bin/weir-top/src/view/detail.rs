//! All data of one row.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::framed;
use super::theme::Theme;
use crate::columns::{DisplayedRow, Tone, kind_name, state_tone};
use crate::model::Model;
use crate::model::latency::PHASES;
use crate::model::row::{ObjectRow, RowGauge, RowKind};
use crate::text::{bar, bytes, count, duration, micros, rate, sparkline};

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    model: &Model,
    row: &ObjectRow,
    theme: Theme,
    scroll: u16,
) {
    let shown = DisplayedRow::new(model, row);
    let width = usize::from(area.width.saturating_sub(4));
    let mut lines = facts(&shown, theme, width);
    lines.extend(history(&shown, theme, width));
    lines.extend(times(&shown, theme));
    lines.extend(codes(row, theme, width));
    let title = format!(" {} {} ", kind_name(row.key.kind), row.path());
    let last = lines.len().saturating_sub(usize::from(area.height.saturating_sub(2))) as u16;
    let block = framed(theme, &title).padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).block(block).scroll((scroll.min(last), 0)), area);
}

/// The facts about a row, in as many columns as fit.
fn facts(shown: &DisplayedRow<'_>, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let row = shown.row;
    let mut facts: Vec<(&str, String, Tone)> = Vec::new();
    let mut add = |name, value: String, tone| {
        if !value.is_empty() {
            facts.push((name, value, tone));
        }
    };
    let since = row.since_change.map_or_else(String::new, |seconds| format!(" for {}", duration(seconds)));
    add("state", format!("{}{since}", row.status), state_tone(row.state()));
    add("rate", format!("{}/s", rate(shown.rate())), Tone::Plain);
    add("sessions", gauge(row.sessions), Tone::Plain);
    if row.key.kind != RowKind::Frontend {
        add("queue", gauge(row.queue), if row.queue.now > 0 { Tone::Warning } else { Tone::Plain });
    }
    if row.key.kind == RowKind::Server {
        let initial = row.initial_weight.filter(|weight| row.weight != Some(*weight));
        let initial = initial.map_or_else(String::new, |weight| format!(" (configured {weight})"));
        add("weight", format!("{}{initial}", row.weight.unwrap_or(0)), Tone::Plain);
        add("role", if row.backup > 0 { "backup".to_owned() } else { "active".to_owned() }, Tone::Plain);
    } else if row.key.kind == RowKind::Backend {
        add("servers", format!("{} active, {} backup", row.active, row.backup), Tone::Plain);
    }
    add("total", count(row.sessions_total), Tone::Plain);
    add("bytes in", format!("{}B", bytes(row.bytes_in)), Tone::Plain);
    add("bytes out", format!("{}B", bytes(row.bytes_out)), Tone::Plain);
    add("address", row.address.clone(), Tone::Plain);
    add("mode", format!("{} {}", row.mode, row.algorithm).trim().to_owned(), Tone::Plain);
    add("cookie", row.cookie.clone(), Tone::Plain);
    let check = [&row.check.status, &row.check.code].map(String::as_str).join(" ");
    let took = row.check.duration_ms.map_or_else(String::new, |ms| format!(" in {ms} ms"));
    if !row.check.status.is_empty() {
        add("check", format!("{}{took}", check.trim()), state_tone(row.state()));
        add("last check", row.check.last.clone(), Tone::Plain);
        let failed =
            format!("{}, down {} times", row.check.failed.unwrap_or(0), row.check.downs.unwrap_or(0));
        add("failed", failed, Tone::Plain);
        add("downtime", duration(row.downtime.unwrap_or(0)), Tone::Plain);
    }
    add("agent", row.check.agent.clone(), Tone::Plain);
    let errors = &row.errors;
    let bad = |number| if number > 0 { Tone::Bad } else { Tone::Dim };
    add("errors", count(errors.sum()), bad(errors.sum()));
    add("denied", count(errors.denied()), bad(errors.denied()));
    add(
        "retries",
        format!("{}, elsewhere {}", count(errors.retries), count(errors.redispatches)),
        bad(errors.retries),
    );
    let aborts = format!("client {}, server {}", count(errors.client_aborts), count(errors.server_aborts));
    add("aborts", aborts, bad(errors.client_aborts.saturating_add(errors.server_aborts)));
    if let (Some(used), Some(idle)) = (row.connections_used, row.connections_idle) {
        add("connections", format!("{} used, {} idle", count(used), count(idle)), Tone::Plain);
    }
    if let Some(throttle) = row.throttle.filter(|&throttle| throttle < 100) {
        add("slow start", format!("{throttle} %"), Tone::Warning);
    }
    if let Some(seconds) = row.last_session {
        add("last used", format!("{} ago", duration(seconds)), Tone::Plain);
    }
    let columns = (width / FACT).clamp(1, 3);
    let rows = facts.len().div_ceil(columns);
    let place = width / columns;
    let line = |y: usize| {
        let cells = (0..columns).filter_map(|x| facts.get(x * rows + y)).flat_map(|(name, value, tone)| {
            let value = super::list::fit(value, place.saturating_sub(13).max(1) as u16, true);
            [
                Span::styled(format!("{name:<12}"), theme.style(Tone::Dim)),
                Span::styled(value, theme.style(*tone)),
                Span::raw(" "),
            ]
        });
        cells.collect()
    };
    (0..rows).map(line).collect()
}

fn gauge(gauge: RowGauge) -> String {
    let limit = gauge
        .limit
        .filter(|&limit| limit > 0)
        .map_or_else(String::new, |limit| format!(", limit {}", count(limit)));
    format!("{}, most {}{limit}", count(gauge.now), count(gauge.most))
}

fn history(shown: &DisplayedRow<'_>, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Some(track) = shown.track else { return Vec::new() };
    let most = format!(" most {}/s", rate(track.history.most()));
    let line = sparkline(&track.history.values(), width.saturating_sub(most.len()).min(200));
    let spans =
        vec![Span::styled(line, theme.style(Tone::Accent)), Span::styled(most, theme.style(Tone::Dim))];
    vec![Line::raw(""), Line::from(spans)]
}

/// Percentiles if the process reports them, and always means and maxima.
fn times(shown: &DisplayedRow<'_>, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw("")];
    if let Some(latencies) = shown.latencies {
        lines.push(Line::styled(
            format!("{:<10}{:>8}{:>8}{:>8}{:>8}{:>8}", "TIME", "p50", "p90", "p99", "p99.9", "most"),
            theme.heading(),
        ));
        for (phase, found) in PHASES.iter().zip(latencies) {
            let numbers = found.filter(|found| found.count > 0).map_or_else(
                || format!("{:>8}", "-"),
                |p| [p.p50, p.p90, p.p99, p.p999, p.most].map(|n| format!("{:>8}", micros(n))).concat(),
            );
            lines.push(Line::from(vec![
                Span::styled(format!("{phase:<10}"), theme.style(Tone::Dim)),
                Span::raw(numbers),
            ]));
        }
        return lines;
    }
    if shown.row.means_ms.iter().all(Option::is_none) {
        return Vec::new();
    }
    lines.push(Line::styled(format!("{:<10}{:>10}{:>10}", "TIME", "average", "most"), theme.heading()));
    for (phase, (mean, worst)) in PHASES.iter().zip(shown.row.means_ms.iter().zip(shown.row.worst_ms)) {
        let show = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| micros(ms.saturating_mul(1000)));
        let numbers = format!("{:>10}{:>10}", show(*mean), show(worst));
        lines.push(Line::from(vec![
            Span::styled(format!("{phase:<10}"), theme.style(Tone::Dim)),
            Span::raw(numbers),
        ]));
    }
    lines
}

fn codes(row: &ObjectRow, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Some(codes) = row.codes else { return Vec::new() };
    let all = codes.iter().fold(0, |sum: u64, &code| sum.saturating_add(code));
    let mut lines = vec![Line::raw(""), Line::styled("RESPONSES", theme.heading())];
    for (name, number) in ["1xx", "2xx", "3xx", "4xx", "5xx", "other"].into_iter().zip(codes) {
        let tone = match name {
            _ if number == 0 => Tone::Dim,
            "4xx" => Tone::Warning,
            "5xx" => Tone::Bad,
            _ => Tone::Good,
        };
        lines.push(Line::from(vec![
            Span::styled(format!("{name:<6}"), theme.style(Tone::Dim)),
            Span::raw(format!("{:>7} ", count(number))),
            Span::styled(bar(number, all, width.saturating_sub(15).min(40)), theme.style(tone)),
        ]));
    }
    lines
}

/// The width of one fact.
const FACT: usize = 38;
