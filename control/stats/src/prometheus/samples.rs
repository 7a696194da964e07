//! The samples of one metric, object by object.

use weir_events::HistogramReading;

use super::line::{Line, write_title};
use super::metrics::{
    CHECK_STATES, DESCRIPTION, LISTENER_STATES, Metric, PROXY_STATES, Presence, SERVER_STATES, Values,
};
use super::request::{Form, MetricsRequest, Scope};
use super::{NameServerFigures, TableFigures};
use crate::fields::{Field, Kind};
use crate::row::{Health, Row, Value};

/// A metric that is being written, and all that its samples have in common.
#[derive(Debug)]
pub(super) struct Samples {
    scope: Scope,
    pub metric: &'static Metric,
    /// Its complete name.
    name: Vec<u8>,
    form: Form,
    /// Whether descriptions are labels.
    descriptions: bool,
    /// Whether its title was written.
    pub titled: bool,
    /// The beginning of the lines that were written last.
    start: Option<LineStart>,
    /// Servers of the current backend, by state.
    servers: Tally,
}

/// The beginning of the lines of one proxy's objects of one kind: there may be thousands of servers.
#[derive(Debug)]
struct LineStart {
    /// The metric's name, the labels of the proxy, and that of the object up to its value.
    text: Vec<u8>,
    kind: Kind,
    proxy: String,
    description: String,
}

/// The number of servers in each of several states.
#[derive(Debug, Default)]
struct Tally {
    by_state: [u32; CHECK_STATES.len()],
    servers: u32,
}

/// The borders of a distribution's buckets, as powers of two in microseconds: from 64 us to 67 s.
const BORDERS: std::ops::RangeInclusive<u32> = 6..=26;

impl Samples {
    /// No samples yet of a metric with this complete name. `titled` is set if the metric before has the same title.
    pub(super) fn new(
        scope: Scope,
        metric: &'static Metric,
        name: Vec<u8>,
        request: &MetricsRequest,
        titled: bool,
    ) -> Self {
        let &MetricsRequest { form, descriptions, .. } = request;
        let (start, servers) = (None, Tally::default());
        Samples { scope, metric, name, form, descriptions, titled, start, servers }
    }

    /// Begins a sample, after the title if it is the first.
    pub(super) fn next<'o>(&mut self, out: &'o mut Vec<u8>) -> Line<'o> {
        self.title(out);
        match self.form {
            Form::Text => Line::named(&self.name, out),
            Form::Protobuf => Line::of_family(self.scope, self.metric, out),
        }
    }

    /// Writes the samples of an object.
    pub(super) fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        if !self.is_present(row) {
            return;
        }
        match self.metric.values {
            Values::Number(field) => {
                let value = match row.value(field) {
                    // A check without a code has code 0, as in HAProxy.
                    Value::Empty if self.metric.presence == Presence::Checked => Value::U32(0),
                    value => value,
                };
                self.line(row, out).number(value);
            }
            Values::Seconds(field) => self.line(row, out).seconds(row.value(field)),
            Values::Status => {
                let (states, state) = status(row);
                self.states(row, states, |at| u32::from(states[at] == state), out);
            }
            Values::CheckStatus => {
                let found = checked(row);
                self.states(row, CHECK_STATES, |at| u32::from(found == Some(at)), out);
            }
            Values::ServersByStatus => {
                self.tally(row, SERVER_STATES, |row| position(SERVER_STATES, status(row).1), out);
            }
            Values::ServersByCheckStatus => self.tally(row, CHECK_STATES, checked, out),
            Values::Latency(phase) => {
                if let Some(latencies) = row.latencies() {
                    self.histogram(row, &latencies[phase], out);
                }
            }
            _ => {}
        }
    }

    fn is_present(&self, row: &Row) -> bool {
        match self.metric.presence {
            Presence::Always => true,
            Presence::Checked => row.value(Field::CheckStatus) != Value::Empty,
            Presence::Http => row.text(Field::Mode) == "http",
        }
    }

    /// Counts a server, or writes the counts when its backend comes.
    fn tally(
        &mut self,
        row: &Row,
        states: &'static [&'static str],
        state: impl Fn(&Row) -> Option<usize>,
        out: &mut Vec<u8>,
    ) {
        if row.kind() == Kind::Server {
            self.servers.servers += 1;
            if let Some(state) = state(row) {
                self.servers.by_state[state] += 1;
            }
            return;
        }
        let counted = std::mem::take(&mut self.servers);
        if counted.servers > 0 {
            self.states(row, states, |at| counted.by_state[at], out);
        }
    }

    fn states(&mut self, row: &Row, states: &[&str], value: impl Fn(usize) -> u32, out: &mut Vec<u8>) {
        for (at, state) in states.iter().enumerate() {
            self.line(row, out).label("state", state).number(Value::U32(value(at)));
        }
    }

    /// A distribution: as text in the classic form, whose borders are powers of two in microseconds, where the counts are exact.
    fn histogram(&mut self, row: &Row, reading: &HistogramReading, out: &mut Vec<u8>) {
        if self.form == Form::Protobuf {
            return self.line(row, out).distribution(reading);
        }
        self.title(out);
        let named = |suffix: &[u8]| [&self.name, suffix].concat();
        let bucket = named(b"_bucket");
        for bits in BORDERS {
            let border = format!("{}.{:06}", (1u64 << bits) / 1_000_000, (1u64 << bits) % 1_000_000);
            let line = self.labelled(Line::named(&bucket, out), row).label("le", &border);
            line.number(Value::U64(reading.below_power_of_two(bits)));
        }
        let count = Value::U64(reading.count());
        self.labelled(Line::named(&bucket, out), row).label("le", "+Inf").number(count);
        self.labelled(Line::named(&named(b"_sum"), out), row).microseconds(reading.sum());
        self.labelled(Line::named(&named(b"_count"), out), row).number(count);
    }

    /// The line of a row, up to the metric's own label.
    fn line<'o>(&mut self, row: &Row, out: &'o mut Vec<u8>) -> Line<'o> {
        if self.form == Form::Protobuf {
            let line = self.next(out);
            return self.labelled(line, row);
        }
        self.title(out);
        if self.start.as_ref().is_none_or(|start| !start.is_of(row)) {
            self.start = Some(self.begin_proxy(row));
        }
        let start = self.start.as_ref().map(|start| &*start.text).unwrap_or_default();
        let object = object_label(row.kind()).map(|_| row.text(Field::Svname));
        Line::resumed(start, object, out).label(self.metric.label.0, self.metric.label.1)
    }

    /// The part of lines that all objects of this kind and proxy share.
    fn begin_proxy(&self, row: &Row) -> LineStart {
        let mut start = LineStart {
            text: Vec::new(),
            kind: row.kind(),
            proxy: row.text(Field::Pxname).to_owned(),
            description: row.description().unwrap_or_default().to_owned(),
        };
        let line = self.of_proxy(Line::named(&self.name, &mut start.text), row);
        if let Some(name) = object_label(row.kind()) {
            line.suspend(name);
        }
        start
    }

    fn labelled<'o>(&self, line: Line<'o>, row: &Row) -> Line<'o> {
        let line = self.of_proxy(line, row);
        let line = match object_label(row.kind()) {
            Some(name) => line.label(name, row.text(Field::Svname)),
            None => line,
        };
        line.label(self.metric.label.0, self.metric.label.1)
    }

    fn of_proxy<'o>(&self, line: Line<'o>, row: &Row) -> Line<'o> {
        describe(line.label("proxy", row.text(Field::Pxname)), self.descriptions, row.description())
    }

    /// Writes the title before the first value: metrics without values have none.
    fn title(&mut self, out: &mut Vec<u8>) {
        // Every message of the other form has its own.
        if !self.titled && self.form == Form::Text {
            self.titled = true;
            write_title(&self.name, self.metric.description(), self.metric.type_word(), out);
        }
    }
}

impl LineStart {
    fn is_of(&self, row: &Row) -> bool {
        self.kind == row.kind()
            && self.proxy == row.text(Field::Pxname)
            && self.description == row.description().unwrap_or_default()
    }
}

/// The label with the name of an object of this kind, if it has one.
fn object_label(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Server => Some("server"),
        Kind::Listener => Some("listener"),
        Kind::Frontend | Kind::Backend => None,
    }
}

pub(super) fn describe<'o>(line: Line<'o>, wanted: bool, description: Option<&str>) -> Line<'o> {
    match description.filter(|text| wanted && !text.is_empty()) {
        Some(text) => line.label(DESCRIPTION, text),
        None => line,
    }
}

pub(super) fn write_table(line: Line<'_>, metric: &Metric, table: TableFigures<'_>) {
    let value = match metric.values {
        Values::TableSize => Value::U32(table.size),
        Values::TableUsed => Value::U32(table.used),
        Values::TableEvicted => Value::U64(table.evicted),
        _ => Value::U64(table.refused),
    };
    line.label("name", table.name).label("type", table.key_type).number(value);
}

pub(super) fn write_name_server(line: Line<'_>, figure: usize, server: NameServerFigures<'_>) {
    line.label("resolver", server.section)
        .label("nameserver", server.name)
        .number(Value::U64(server.figures[figure]));
}

/// The possible states of an object of this kind, and its current one.
fn status(row: &Row) -> (&'static [&'static str], &'static str) {
    let text = row.text(Field::Status);
    match row.kind() {
        // A paused frontend counts as up: only a stopped one is down.
        Kind::Frontend => (PROXY_STATES, if text == "STOP" { "DOWN" } else { "UP" }),
        Kind::Backend => (PROXY_STATES, if text == "UP" { "UP" } else { "DOWN" }),
        Kind::Listener => {
            (LISTENER_STATES, position(LISTENER_STATES, text).map_or("", |at| LISTENER_STATES[at]))
        }
        Kind::Server => {
            let state = match row.health() {
                Health::NotChecked | Health::Up | Health::GoingDown => "UP",
                Health::Down | Health::GoingUp => "DOWN",
                Health::Maintenance => "MAINT",
                Health::Drain => "DRAIN",
                Health::NoLoadBalancing => "NOLB",
            };
            (SERVER_STATES, state)
        }
    }
}

/// The result of a server's last check, by index; none before the first check has ended, or without checks.
fn checked(row: &Row) -> Option<usize> {
    position(CHECK_STATES, row.text(Field::CheckStatus).trim_start_matches("* "))
}

fn position(states: &[&str], state: &str) -> Option<usize> {
    states.iter().position(|known| *known == state)
}
