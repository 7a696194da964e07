//! The samples of one metric, object by object.

use weir_events::HistogramReading;

use super::line::{Line, write_label, write_title};
use super::metrics::{
    CHECK_STATES, DESCRIPTION, LISTENER_STATES, Metric, PROXY_STATES, Presence, SERVER_STATES, Values,
};
use super::request::{Form, MetricsRequest, Scope};
use super::{NameServerMetrics, TableMetrics};
use crate::fields::{Field, Kind};
use crate::row::{Health, Row, Value};

/// A metric that is being written, and all that its samples have in common.
#[derive(Debug)]
pub(super) struct Samples {
    pub scope: Scope,
    pub metric: &'static Metric,
    /// Its index among the metrics of its scope.
    pub index: usize,
    name: Vec<u8>,
    form: Form,
    /// Whether descriptions are labels.
    descriptions: bool,
    /// Whether its title was written.
    titled: bool,
    /// The encoded label of each state. Other metrics have one entry: their own label, or an empty text.
    variants: Vec<Vec<u8>>,
    /// Servers of the current backend, by state.
    servers: Tally,
}

/// The metric with the last title in the output: consecutive metrics with the same name share a title.
#[derive(Debug, Default)]
pub(super) struct Title(Option<(Scope, &'static str)>);

/// The value of one metric for one object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetricSample {
    /// The object does not have the metric: no line.
    Absent,
    /// A number; empty if it is unknown.
    Number(Value<'static>),
    /// The index of the current state; `None` for an unknown state.
    State(Option<u8>),
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
    /// No samples yet of a metric with this complete name.
    pub(super) fn new(
        scope: Scope,
        metric: &'static Metric,
        index: usize,
        name: Vec<u8>,
        request: &MetricsRequest,
    ) -> Self {
        let &MetricsRequest { form, descriptions, .. } = request;
        let variants = variants(scope, metric, form);
        let (titled, servers) = (false, Tally::default());
        Samples { scope, metric, index, name, form, descriptions, titled, variants, servers }
    }

    /// Begins after the metric with this title.
    pub(super) fn follow(&mut self, title: &Title) {
        self.titled |= title.0 == Some((self.scope, self.metric.name));
    }

    /// Ends before the metric that follows this title.
    pub(super) fn lead(&self, title: &mut Title) {
        if self.titled {
            title.0 = Some((self.scope, self.metric.name));
        }
    }

    /// Begins a sample, after the title if it is the first.
    pub(super) fn next<'o>(&mut self, out: &'o mut Vec<u8>) -> Line<'o> {
        self.title(out);
        match self.form {
            Form::Text => Line::named(&self.name, out),
            Form::Protobuf => Line::of_family(self.scope, self.metric, out),
        }
    }

    /// Reads the value for an object, if the metric [has samples](Metric::has_samples).
    pub(super) fn read(&self, row: &Row) -> MetricSample {
        if !self.is_present(row) {
            return MetricSample::Absent;
        }
        match self.metric.values {
            Values::Number(field) => MetricSample::Number(match number(row.value(field)) {
                // A check without a code has code 0, as in HAProxy.
                Value::Empty if self.metric.presence == Presence::Checked => Value::U32(0),
                value => value,
            }),
            Values::Seconds(field) => MetricSample::Number(number(row.value(field))),
            Values::Status => {
                let (states, state) = status(row);
                MetricSample::State(position(states, state).map(|at| at as u8))
            }
            Values::CheckStatus => MetricSample::State(checked(row).map(|at| at as u8)),
            _ => MetricSample::Absent,
        }
    }

    /// Writes a value for an object with these labels ([`Samples::write_labels`]).
    #[inline]
    pub(super) fn write(&mut self, sample: MetricSample, labels: &[u8], out: &mut Vec<u8>) {
        match sample {
            MetricSample::Absent => {}
            MetricSample::Number(value) => {
                let line = self.line(labels, 0, out);
                match self.metric.values {
                    Values::Seconds(_) => line.seconds(value),
                    _ => line.number(value),
                }
            }
            MetricSample::State(state) => self.states(labels, |at| u64::from(state == Some(at as u8)), out),
        }
    }

    /// Appends the labels of an object: those of its proxy, and its own name.
    pub(super) fn write_labels(&self, row: &Row, out: &mut Vec<u8>) {
        write_label(self.form, true, "proxy", row.text(Field::Pxname), out);
        if let Some(text) = row.description().filter(|text| self.descriptions && !text.is_empty()) {
            write_label(self.form, false, DESCRIPTION, text, out);
        }
        if let Some(name) = object_label(row.kind()) {
            write_label(self.form, false, name, row.text(Field::Svname), out);
        }
    }

    /// Reads and writes an object for metrics without a [`MetricSample`]: distributions, and counts of servers.
    pub(super) fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        if !self.is_present(row) {
            return;
        }
        match self.metric.values {
            Values::ServersByStatus => {
                self.tally(row, |row| position(SERVER_STATES, status(row).1), out);
            }
            Values::ServersByCheckStatus => self.tally(row, checked, out),
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
    fn tally(&mut self, row: &Row, state: impl Fn(&Row) -> Option<usize>, out: &mut Vec<u8>) {
        if row.kind() == Kind::Server {
            self.servers.servers += 1;
            if let Some(state) = state(row) {
                self.servers.by_state[state] += 1;
            }
            return;
        }
        let counted = std::mem::take(&mut self.servers);
        if counted.servers > 0 {
            self.states(&self.labels(row), |at| counted.by_state[at].into(), out);
        }
    }

    fn states(&mut self, labels: &[u8], value: impl Fn(usize) -> u64, out: &mut Vec<u8>) {
        for at in 0..self.variants.len() {
            self.line(labels, at, out).number(Value::U64(value(at)));
        }
    }

    /// A distribution: as text in the classic form, with powers of two in microseconds as borders, where the counts are
    /// exact.
    fn histogram(&mut self, row: &Row, reading: &HistogramReading, out: &mut Vec<u8>) {
        let labels = self.labels(row);
        if self.form == Form::Protobuf {
            return self.line(&labels, 0, out).distribution(reading);
        }
        self.title(out);
        let named = |suffix: &[u8]| [&self.name, suffix].concat();
        let bucket = named(b"_bucket");
        for bits in BORDERS {
            let border = format!("{}.{:06}", (1u64 << bits) / 1_000_000, (1u64 << bits) % 1_000_000);
            let line = Line::named(&bucket, out).encoded(&labels).label("le", &border);
            line.number(Value::U64(reading.below_power_of_two(bits)));
        }
        let count = Value::U64(reading.count());
        Line::named(&bucket, out).encoded(&labels).label("le", "+Inf").number(count);
        Line::named(&named(b"_sum"), out).encoded(&labels).microseconds(reading.sum());
        Line::named(&named(b"_count"), out).encoded(&labels).number(count);
    }

    /// The line of an object with these labels, up to its value.
    #[inline]
    fn line<'o>(&mut self, labels: &[u8], variant: usize, out: &'o mut Vec<u8>) -> Line<'o> {
        self.title(out);
        let line = match self.form {
            Form::Text => Line::named(&self.name, out),
            Form::Protobuf => Line::of_family(self.scope, self.metric, out),
        };
        let line = line.encoded(labels);
        let variant = &self.variants[variant];
        if variant.is_empty() { line } else { line.encoded(variant) }
    }

    fn labels(&self, row: &Row) -> Vec<u8> {
        let mut labels = Vec::new();
        self.write_labels(row, &mut labels);
        labels
    }

    /// Writes the title before the first value: metrics without values lack one.
    #[inline]
    fn title(&mut self, out: &mut Vec<u8>) {
        // Every message of the other form has its own.
        if !self.titled && self.form == Form::Text {
            self.titled = true;
            write_title(&self.name, self.metric.description(), self.metric.type_word(), out);
        }
    }
}

fn variants(scope: Scope, metric: &Metric, form: Form) -> Vec<Vec<u8>> {
    let encoded = |name: &str, value: &str| {
        let mut label = Vec::new();
        write_label(form, false, name, value, &mut label);
        label
    };
    let states = match metric.values {
        Values::Status if scope == Scope::Server => SERVER_STATES,
        Values::Status if scope == Scope::Listener => LISTENER_STATES,
        Values::Status => PROXY_STATES,
        Values::ServersByStatus => SERVER_STATES,
        Values::CheckStatus | Values::ServersByCheckStatus => CHECK_STATES,
        _ => {
            let (name, value) = metric.label;
            return vec![if name.is_empty() { Vec::new() } else { encoded(name, value) }];
        }
    };
    states.iter().map(|state| encoded("state", state)).collect()
}

/// A number; empty for a text.
fn number(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Empty | Value::Text(_) => Value::Empty,
        Value::U32(number) => Value::U32(number),
        Value::S32(number) => Value::S32(number),
        Value::U64(number) => Value::U64(number),
        Value::Float(number) => Value::Float(number),
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

pub(super) fn write_table(line: Line<'_>, metric: &Metric, table: TableMetrics<'_>) {
    let value = match metric.values {
        Values::TableSize => Value::U32(table.size),
        Values::TableUsed => Value::U32(table.used),
        Values::TableEvicted => Value::U64(table.evicted),
        _ => Value::U64(table.refused),
    };
    line.label("name", table.name).label("type", table.key_type).number(value);
}

pub(super) fn write_name_server(line: Line<'_>, counter: usize, server: NameServerMetrics<'_>) {
    line.label("resolver", server.section)
        .label("nameserver", server.name)
        .number(Value::U64(server.counters[counter]));
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

/// The result of a server's last check, by index; `None` before the first check has ended, or without checks.
fn checked(row: &Row) -> Option<usize> {
    position(CHECK_STATES, row.text(Field::CheckStatus).trim_start_matches("* "))
}

fn position(states: &[&str], state: &str) -> Option<usize> {
    states.iter().position(|known| *known == state)
}
