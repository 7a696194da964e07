//! The columns of the views: each is a row with its title, width, rank, cell and sort key.

use std::cmp::Ordering;

use crate::model::Model;
use crate::model::latency::{Latencies, Percentiles};
use crate::model::rates::RowTrack;
use crate::model::row::{ObjectRow, RowKind, RowState};
use crate::model::sessions::{StreamRow, seconds};
use crate::page::Page;
use crate::text::{bytes, count, duration, micros, rate, sparkline};

/// A column for rows of type `R`.
pub(crate) struct Column<R> {
    pub title: &'static str,
    pub width: u16,
    /// Priority: 0 is always shown. On a narrow screen, the column with the highest rank is dropped first.
    pub rank: u8,
    value: ColumnValue<R>,
}

enum ColumnValue<R> {
    /// Right-aligned. The value is the sort key.
    Number {
        choose: fn(&R) -> Option<f64>,
        show: fn(f64) -> String,
        tone: Tone,
    },
    Count {
        choose: fn(&R) -> Option<u64>,
        show: fn(u64) -> String,
        tone: Tone,
    },
    /// Left-aligned. Sorted alphabetically.
    Words {
        choose: fn(&R) -> String,
        tone: fn(&R) -> Tone,
    },
    /// A cell with a separate sort key.
    Other {
        cell: fn(&R) -> Cell,
        key: fn(&R) -> SortKey,
        left: bool,
    },
}

impl<R> Column<R> {
    pub(crate) fn is_left(&self) -> bool {
        matches!(self.value, ColumnValue::Words { .. } | ColumnValue::Other { left: true, .. })
    }

    pub(crate) fn cell(&self, row: &R) -> Cell {
        match &self.value {
            ColumnValue::Number { choose, show, tone } => match choose(row) {
                None => Cell::new("-", Tone::Dim),
                Some(number) => Cell::new(show(number), if number == 0.0 { Tone::Dim } else { *tone }),
            },
            ColumnValue::Count { choose, show, tone } => match choose(row) {
                None => Cell::new("-", Tone::Dim),
                Some(number) => Cell::new(show(number), if number == 0 { Tone::Dim } else { *tone }),
            },
            ColumnValue::Words { choose, tone } => Cell::new(choose(row), tone(row)),
            ColumnValue::Other { cell, .. } => cell(row),
        }
    }

    pub(crate) fn key(&self, row: &R) -> SortKey {
        match &self.value {
            ColumnValue::Number { choose, .. } => choose(row).map_or(SortKey::Nothing, SortKey::Number),
            ColumnValue::Count { choose, .. } => {
                choose(row).map_or(SortKey::Nothing, |number| SortKey::Number(number as f64))
            }
            ColumnValue::Words { choose, .. } => SortKey::Text(choose(row)),
            ColumnValue::Other { key, .. } => key(row),
        }
    }
}

/// The content of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub text: String,
    pub tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

/// The meaning of a cell, shown by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
    Accent,
}

/// A sort key. Missing values come last in both orders.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SortKey {
    Number(f64),
    Text(String),
    Nothing,
}

impl SortKey {
    pub(crate) fn compare(&self, other: &SortKey, descending: bool) -> Ordering {
        let turned = |order: Ordering| if descending { order.reverse() } else { order };
        match (self, other) {
            (SortKey::Nothing, SortKey::Nothing) => Ordering::Equal,
            (SortKey::Nothing, _) => Ordering::Greater,
            (_, SortKey::Nothing) => Ordering::Less,
            (SortKey::Number(a), SortKey::Number(b)) => turned(a.total_cmp(b)),
            // With the largest numbers first, text is still in alphabetical order.
            (SortKey::Text(a), SortKey::Text(b)) => turned(b.cmp(a)),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
        }
    }
}

/// A row with its latencies and rates.
pub(crate) struct DisplayedRow<'m> {
    pub row: &'m ObjectRow,
    pub track: Option<&'m RowTrack>,
    pub latencies: Option<&'m Latencies>,
}

impl<'m> DisplayedRow<'m> {
    pub(crate) fn new(model: &'m Model, row: &'m ObjectRow) -> DisplayedRow<'m> {
        DisplayedRow { row, track: model.track(&row.key), latencies: model.latencies(&row.key) }
    }

    /// Work per second. Before the second poll, the rate reported by the process itself.
    pub(crate) fn rate(&self) -> f64 {
        self.track.and_then(|track| track.rates.work).unwrap_or(self.row.reported_rate as f64)
    }

    fn rates(&self, choose: fn(&RowTrack) -> Option<f64>) -> Option<f64> {
        self.track.and_then(choose)
    }

    fn percentile(&self, phase: usize, choose: fn(&Percentiles) -> u64) -> Option<u64> {
        self.latencies?[phase].filter(|percentiles| percentiles.count > 0).as_ref().map(choose)
    }

    /// The tone of the session count, relative to its limit if there is one.
    fn fullness(&self) -> Tone {
        match self.row.sessions.limit {
            Some(limit) if limit > 0 && self.row.sessions.now >= limit => Tone::Bad,
            Some(limit) if limit > 0 && self.row.sessions.now >= limit - limit / 5 => Tone::Warning,
            _ if self.row.sessions.now == 0 => Tone::Dim,
            _ => Tone::Plain,
        }
    }
}

/// The columns of a page, from left to right. `latencies`: whether the process reports percentiles.
pub(crate) fn of_page<'m>(page: Page, latencies: bool) -> Vec<Column<DisplayedRow<'m>>> {
    let mut columns = match page {
        Page::Frontends => frontends(),
        Page::Backends => backends(),
        Page::Errors => errors(),
        _ => servers(),
    };
    columns.retain(|column| latencies || !is_percentile(column.title));
    columns
}

fn is_percentile(title: &str) -> bool {
    title.contains("p50") || title.contains("p99")
}

type OfRow<'m> = Column<DisplayedRow<'m>>;

fn frontends<'m>() -> Vec<OfRow<'m>> {
    let mut columns = vec![name("FRONTEND"), state(), mode(), sessions(), limit()];
    columns.extend(traffic());
    columns.push(count_of("DENIED", 6, Tone::Warning, |s| Some(s.row.errors.denied())));
    columns.extend(outcomes());
    columns.push(count_of("1xx", 9, Tone::Plain, |s| s.row.codes.map(|codes| codes[0])));
    columns
}

fn backends<'m>() -> Vec<OfRow<'m>> {
    let servers = ColumnValue::Other {
        cell: |s: &DisplayedRow<'m>| {
            let tone = if s.row.active + s.row.backup == 0 { Tone::Bad } else { Tone::Plain };
            let backup = if s.row.backup > 0 { format!("+{}", s.row.backup) } else { String::new() };
            Cell::new(format!("{}{backup}", s.row.active), tone)
        },
        key: |s| SortKey::Number((s.row.active + s.row.backup) as f64),
        left: false,
    };
    let servers = Column { title: "SERVERS", width: 7, rank: 2, value: servers };
    let mut columns = vec![name("BACKEND"), state(), mode(), servers, sessions(), queue()];
    columns.extend(traffic());
    columns.extend(outcomes());
    columns.extend([
        retries(),
        average(),
        since(),
        limit(),
        words("BALANCE", 12, 8, |s| s.row.algorithm.clone()),
    ]);
    columns
}

fn servers<'m>() -> Vec<OfRow<'m>> {
    let weight = count_of("WEIGHT", 2, Tone::Plain, |s| s.row.weight);
    let mut columns = vec![name("SERVER"), state(), weight, sessions(), limit(), queue()];
    columns.extend(traffic());
    columns.extend(outcomes());
    columns.extend([
        retries(),
        average(),
        time("queue p99", 9, |s| s.percentile(0, |p| p.p99)),
        time("conn p99", 8, |s| s.percentile(1, |p| p.p99)),
        time("resp p99", 8, |s| s.percentile(2, |p| p.p99)),
        words("CHECK", 7, 7, |s| s.row.check.status.clone()),
        since(),
        count_of("FAILED", 10, Tone::Warning, |s| s.row.check.failed),
        words("ADDRESS", 21, 8, |s| s.row.address.clone()),
    ]);
    columns
}

fn errors<'m>() -> Vec<OfRow<'m>> {
    vec![
        name("NAME"),
        words("KIND", 8, 5, |s| kind_name(s.row.key.kind).to_owned()),
        state(),
        error_rate(),
        count_of("ERRORS", 0, Tone::Bad, |s| Some(s.row.errors.sum())),
        count_of("REQUEST", 3, Tone::Bad, |s| Some(s.row.errors.requests)),
        count_of("CONNECT", 2, Tone::Bad, |s| Some(s.row.errors.connects)),
        count_of("ANSWER", 2, Tone::Bad, |s| Some(s.row.errors.responses)),
        count_of("4xx", 4, Tone::Warning, |s| s.row.codes.map(|codes| codes[3])),
        count_of("5xx", 1, Tone::Bad, |s| s.row.codes.map(|codes| codes[4])),
        count_of("RETRY", 4, Tone::Warning, |s| Some(s.row.errors.retries)),
        count_of("REDISP", 6, Tone::Warning, |s| Some(s.row.errors.redispatches)),
        count_of("DENIED", 5, Tone::Warning, |s| Some(s.row.errors.denied())),
        count_of("C-ABORT", 7, Tone::Warning, |s| Some(s.row.errors.client_aborts)),
        count_of("S-ABORT", 6, Tone::Warning, |s| Some(s.row.errors.server_aborts)),
        count_of("CHECKS", 7, Tone::Warning, |s| s.row.check.failed),
        count_of("DOWNS", 7, Tone::Warning, |s| s.row.check.downs),
    ]
}

/// The columns of the list of streams.
pub(crate) fn streams() -> Vec<Column<StreamRow>> {
    let words = |title, width, rank, choose| Column {
        title,
        width,
        rank,
        value: ColumnValue::Words { choose, tone: |_| Tone::Plain },
    };
    let age = ColumnValue::Other {
        cell: |s: &StreamRow| Cell::new(s.age.clone(), Tone::Plain),
        key: |s| SortKey::Number(seconds(&s.age) as f64),
        left: false,
    };
    let calls = ColumnValue::Number {
        choose: |s: &StreamRow| Some(s.calls as f64),
        show: |n| count(n as u64),
        tone: Tone::Plain,
    };
    vec![
        words("SOURCE", 22, 0, |s: &StreamRow| s.source.clone()),
        words("PROTO", 11, 4, |s| s.protocol.clone()),
        words("FRONTEND", 14, 1, |s| s.frontend.clone()),
        words("BACKEND", 14, 2, |s| s.backend.clone()),
        words("SERVER", 12, 1, |s| s.server.clone()),
        Column { title: "AGE", width: 8, rank: 0, value: age },
        Column { title: "CALLS", width: 7, rank: 5, value: calls },
        words("ID", 18, 6, |s| s.id.clone()),
    ]
}

pub(crate) fn kind_name(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Frontend => "frontend",
        RowKind::Backend => "backend",
        RowKind::Server => "server",
        RowKind::Listener => "listener",
    }
}

pub(crate) fn state_tone(state: RowState) -> Tone {
    match state {
        RowState::Good => Tone::Good,
        RowState::Changing => Tone::Warning,
        RowState::Wanted => Tone::Accent,
        RowState::Down => Tone::Bad,
    }
}

/// The traffic columns of every proxy and server: rate and bytes.
fn traffic<'m>() -> [OfRow<'m>; 4] {
    let history = ColumnValue::Other {
        cell: |s: &DisplayedRow<'m>| {
            let values = s.track.map_or_else(Vec::new, |track| track.history.values());
            Cell::new(sparkline(&values, 12), Tone::Accent)
        },
        key: |s| s.track.map_or(SortKey::Nothing, |track| SortKey::Number(track.history.most())),
        left: true,
    };
    let by_bytes = |choose: fn(&DisplayedRow<'m>) -> Option<f64>| ColumnValue::Number {
        choose,
        show: |n| bytes(n as u64),
        tone: Tone::Plain,
    };
    [
        Column {
            title: "RATE",
            width: 6,
            rank: 0,
            value: ColumnValue::Number { choose: |s| Some(s.rate()), show: rate, tone: Tone::Plain },
        },
        Column { title: "HISTORY", width: 12, rank: 5, value: history },
        Column { title: "IN/s", width: 6, rank: 4, value: by_bytes(|s| s.rates(|t| t.rates.bytes_in)) },
        Column { title: "OUT/s", width: 6, rank: 4, value: by_bytes(|s| s.rates(|t| t.rates.bytes_out)) },
    ]
}

/// The outcome columns: status codes, errors, times.
fn outcomes<'m>() -> [OfRow<'m>; 8] {
    [
        count_of("2xx", 5, Tone::Plain, |s| s.row.codes.map(|codes| codes[1])),
        count_of("3xx", 8, Tone::Plain, |s| s.row.codes.map(|codes| codes[2])),
        count_of("4xx", 4, Tone::Warning, |s| s.row.codes.map(|codes| codes[3])),
        count_of("5xx", 2, Tone::Bad, |s| s.row.codes.map(|codes| codes[4])),
        count_of("ERRORS", 2, Tone::Bad, |s| Some(s.row.errors.sum())),
        error_rate(),
        Column { rank: 3, ..time("p50", 6, |s| s.percentile(3, |p| p.p50)) },
        Column { rank: 1, ..time("p99", 6, |s| s.percentile(3, |p| p.p99)) },
    ]
}

fn name<'m>(title: &'static str) -> OfRow<'m> {
    words(title, 18, 0, |s| s.row.path())
}

fn words<'m>(
    title: &'static str,
    width: u16,
    rank: u8,
    choose: fn(&DisplayedRow<'m>) -> String,
) -> OfRow<'m> {
    Column { title, width, rank, value: ColumnValue::Words { choose, tone: |_| Tone::Plain } }
}

fn state<'m>() -> OfRow<'m> {
    let value = ColumnValue::Words {
        choose: |s: &DisplayedRow<'m>| s.row.status.clone(),
        tone: |s| state_tone(s.row.state()),
    };
    Column { title: "STATE", width: 9, rank: 0, value }
}

fn mode<'m>() -> OfRow<'m> {
    words("MODE", 4, 6, |s| s.row.mode.clone())
}

fn sessions<'m>() -> OfRow<'m> {
    let value = ColumnValue::Other {
        cell: |s: &DisplayedRow<'m>| Cell::new(count(s.row.sessions.now), s.fullness()),
        key: |s| SortKey::Number(s.row.sessions.now as f64),
        left: false,
    };
    Column { title: "SESS", width: 6, rank: 1, value }
}

fn count_of<'m>(
    title: &'static str,
    rank: u8,
    tone: Tone,
    choose: fn(&DisplayedRow<'m>) -> Option<u64>,
) -> OfRow<'m> {
    let value = ColumnValue::Count { choose, show: count, tone };
    Column { title, width: (title.len() as u16).max(6), rank, value }
}

/// A column for a time in microseconds.
fn time<'m>(title: &'static str, width: u16, choose: fn(&DisplayedRow<'m>) -> Option<u64>) -> OfRow<'m> {
    Column { title, width, rank: 6, value: ColumnValue::Count { choose, show: micros, tone: Tone::Plain } }
}

fn limit<'m>() -> OfRow<'m> {
    count_of("LIMIT", 7, Tone::Dim, |s| s.row.sessions.limit)
}

fn queue<'m>() -> OfRow<'m> {
    Column { rank: 1, ..count_of("QUEUE", 1, Tone::Warning, |s| Some(s.row.queue.now)) }
}

fn retries<'m>() -> OfRow<'m> {
    count_of("RETRY", 7, Tone::Warning, |s| Some(s.row.errors.retries))
}

fn error_rate<'m>() -> OfRow<'m> {
    let value = ColumnValue::Number {
        choose: |s: &DisplayedRow<'m>| s.rates(|t| t.rates.errors),
        show: rate,
        tone: Tone::Bad,
    };
    Column { title: "ERR/s", width: 6, rank: 3, value }
}

/// The mean total time, reported by every version.
fn average<'m>() -> OfRow<'m> {
    time("AVERAGE", 7, |s| s.row.means_ms[3].map(|ms| ms.saturating_mul(1000)))
}

fn since<'m>() -> OfRow<'m> {
    Column {
        title: "SINCE",
        width: 7,
        rank: 7,
        value: ColumnValue::Count { choose: |s| s.row.since_change, show: duration, tone: Tone::Dim },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::picture;

    #[test]
    fn missing_values_sort_last_in_ascending_and_descending_order() {
        let sorted = |descending| {
            let mut keys =
                vec![SortKey::Number(1.0), SortKey::Nothing, SortKey::Number(3.0), SortKey::Number(2.0)];
            keys.sort_by(|a, b| a.compare(b, descending));
            keys
        };
        let [one, two, three] = [1.0, 2.0, 3.0].map(SortKey::Number);
        assert_eq!(sorted(true), [three.clone(), two.clone(), one.clone(), SortKey::Nothing]);
        assert_eq!(sorted(false), [one, two, three, SortKey::Nothing]);
        assert_eq!(SortKey::Text("a".into()).compare(&SortKey::Text("b".into()), true), Ordering::Less);
    }

    #[test]
    fn column_titles_are_unique_and_fit_their_widths() {
        for page in [Page::Frontends, Page::Backends, Page::Servers, Page::Errors] {
            let columns = of_page(page, true);
            let mut titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
            assert!(columns.iter().all(|column| column.title.len() <= usize::from(column.width)), "{page:?}");
            titles.sort_unstable();
            titles.dedup();
            assert_eq!(titles.len(), columns.len(), "{page:?}");
        }
    }

    #[test]
    fn percentile_columns_appear_only_if_the_process_reports_latencies() {
        let titles = |latencies| {
            of_page(Page::Servers, latencies).iter().map(|column| column.title).collect::<Vec<_>>()
        };
        assert!(
            titles(true).contains(&"p99")
                && !titles(false).contains(&"p99")
                && titles(false).contains(&"AVERAGE")
        );
    }

    #[test]
    fn each_column_shows_its_value_of_the_row() {
        let mut model = Model::default();
        model.add(picture(1, 1, 10));
        model.add(picture(1, 2, 20));
        model.add_latencies("# pxname,svname,phase,count,mean_us,p50_us,p90_us,p99_us,p99.9_us,max_us\napp,s1,total,9,1,2000,3,40000,5,6\n");
        let shown = |name: &str| {
            let row = model.rows(RowKind::Server).find(|row| row.key.name == name).expect("a server");
            let shown = DisplayedRow::new(&model, row);
            of_page(Page::Servers, true)
                .iter()
                .map(|column| (column.title, column.cell(&shown)))
                .collect::<Vec<_>>()
        };
        for (name, title, text, tone) in [
            ("s1", "SERVER", "app/s1", Tone::Plain),
            ("s1", "STATE", "UP", Tone::Good),
            ("s1", "RATE", "10", Tone::Plain),
            ("s1", "p50", "2.0ms", Tone::Plain),
            ("s1", "p99", "40ms", Tone::Plain),
            ("s1", "queue p99", "-", Tone::Dim),
            ("s1", "5xx", "2", Tone::Bad),
            ("s1", "SINCE", "1m00s", Tone::Dim),
            ("s1", "OUT/s", "100", Tone::Plain),
            ("s2", "STATE", "DOWN", Tone::Bad),
            ("s2", "p99", "-", Tone::Dim),
            ("s2", "ERRORS", "20", Tone::Bad),
            ("s2", "ERR/s", "10", Tone::Bad),
            ("s2", "SESS", "0", Tone::Dim),
            ("s2", "LIMIT", "-", Tone::Dim),
        ] {
            let cells = shown(name);
            let (_, cell) = cells.iter().find(|(found, _)| *found == title).expect("a column");
            assert_eq!(*cell, Cell::new(text, tone), "{name} {title}");
        }
    }
}
