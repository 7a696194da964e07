//! The samples of one metric, one object at a time.

use weir_events::HistogramReading;

use super::line::{SampleLine, write_label, write_title};
use super::metrics::{
    CHECK_STATES, DESCRIPTION, LISTENER_STATES, Metric, MetricPresence, MetricValues, PROXY_STATES,
    SERVER_STATES,
};
use super::request::{AnswerForm, MetricScope, MetricsRequest};
use super::{NameServerMetrics, TableMetrics};
use crate::fields::{StatsField, StatsObject};
use crate::row::{FieldValue, Health, StatsRow};

/// A metric in progress, with the properties that all its samples share.
#[derive(Debug)]
pub(super) struct Samples {
    pub scope: MetricScope,
    pub metric: &'static Metric,
    /// The metric's index within its scope.
    pub index: usize,
    name: Vec<u8>,
    form: AnswerForm,
    /// Whether to write descriptions as labels.
    descriptions: bool,
    /// Whether the `# HELP` and `# TYPE` lines were written.
    titled: bool,
    /// The encoded label of each state. Metrics without states have one entry: their own label or an empty string.
    variants: Vec<Vec<u8>>,
    /// Servers of the current backend, by state.
    servers: StateTally,
}

/// The metric of the last `# HELP` and `# TYPE` lines. Consecutive metrics with the same name share these lines.
#[derive(Debug, Default)]
pub(super) struct Title(Option<(MetricScope, &'static str)>);

/// The value of one metric for one object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetricSample {
    /// The object does not have the metric. No line is written.
    Absent,
    /// A number. Empty if unknown.
    Number(FieldValue<'static>),
    /// The index of the current state. `None` if unknown.
    State(Option<u8>),
}

/// Number of servers by state.
#[derive(Debug, Default)]
struct StateTally {
    by_state: [u32; CHECK_STATES.len()],
    servers: u32,
}

/// Bucket boundaries of histograms, as powers of two in microseconds: from 64 us to 67 s.
const BORDERS: std::ops::RangeInclusive<u32> = 6..=26;

impl Samples {
    /// A metric with this complete name, without samples.
    pub(super) fn new(
        scope: MetricScope,
        metric: &'static Metric,
        index: usize,
        name: Vec<u8>,
        request: &MetricsRequest,
    ) -> Self {
        let &MetricsRequest { form, descriptions, .. } = request;
        let variants = variants(scope, metric, form);
        let (titled, servers) = (false, StateTally::default());
        Samples { scope, metric, index, name, form, descriptions, titled, variants, servers }
    }

    /// Continues after the metric with this title.
    pub(super) fn follow(&mut self, title: &Title) {
        self.titled |= title.0 == Some((self.scope, self.metric.name));
    }

    /// Passes the title on to the next metric.
    pub(super) fn lead(&self, title: &mut Title) {
        if self.titled {
            title.0 = Some((self.scope, self.metric.name));
        }
    }

    /// Starts a sample. Writes the title first if it is still missing.
    pub(super) fn next<'o>(&mut self, out: &'o mut Vec<u8>) -> SampleLine<'o> {
        self.title(out);
        match self.form {
            AnswerForm::Text => SampleLine::named(&self.name, out),
            AnswerForm::Protobuf => SampleLine::of_family(self.scope, self.metric, out),
        }
    }

    /// Reads the value of an object. The metric must [have samples](Metric::has_samples).
    pub(super) fn read(&self, row: &StatsRow) -> MetricSample {
        if !self.is_present(row) {
            return MetricSample::Absent;
        }
        match self.metric.values {
            MetricValues::Number(field) => MetricSample::Number(match number(row.value(field)) {
                // A check without a code has code 0, as in HAProxy.
                FieldValue::Empty if self.metric.presence == MetricPresence::Checked => FieldValue::U32(0),
                value => value,
            }),
            MetricValues::Seconds(field) => MetricSample::Number(number(row.value(field))),
            MetricValues::Status => {
                let (states, state) = status(row);
                MetricSample::State(position(states, state).map(|at| at as u8))
            }
            MetricValues::CheckStatus => MetricSample::State(checked(row).map(|at| at as u8)),
            _ => MetricSample::Absent,
        }
    }

    /// Writes the value of an object with these encoded labels ([`Samples::write_labels`]).
    #[inline]
    pub(super) fn write(&mut self, sample: MetricSample, labels: &[u8], out: &mut Vec<u8>) {
        match sample {
            MetricSample::Absent => {}
            MetricSample::Number(value) => {
                let line = self.line(labels, 0, out);
                match self.metric.values {
                    MetricValues::Seconds(_) => line.seconds(value),
                    _ => line.number(value),
                }
            }
            MetricSample::State(state) => self.states(labels, |at| u64::from(state == Some(at as u8)), out),
        }
    }

    /// Appends the labels of an object: its proxy and its own name.
    pub(super) fn write_labels(&self, row: &StatsRow, out: &mut Vec<u8>) {
        write_label(self.form, true, "proxy", row.text(StatsField::Pxname), out);
        if let Some(text) = row.description().filter(|text| self.descriptions && !text.is_empty()) {
            write_label(self.form, false, DESCRIPTION, text, out);
        }
        if let Some(name) = object_label(row.kind()) {
            write_label(self.form, false, name, row.text(StatsField::Svname), out);
        }
    }

    /// Reads and writes an object for metrics without a [`MetricSample`]: histograms and server counts.
    pub(super) fn row(&mut self, row: &StatsRow, out: &mut Vec<u8>) {
        if !self.is_present(row) {
            return;
        }
        match self.metric.values {
            MetricValues::ServersByStatus => {
                self.tally(row, |row| position(SERVER_STATES, status(row).1), out);
            }
            MetricValues::ServersByCheckStatus => self.tally(row, checked, out),
            MetricValues::Latency(phase) => {
                if let Some(latencies) = row.latencies() {
                    self.histogram(row, &latencies[phase], out);
                }
            }
            _ => {}
        }
    }

    fn is_present(&self, row: &StatsRow) -> bool {
        match self.metric.presence {
            MetricPresence::Always => true,
            MetricPresence::Checked => row.value(StatsField::CheckStatus) != FieldValue::Empty,
            MetricPresence::Http => row.text(StatsField::Mode) == "http",
        }
    }

    /// Counts a server. At the row of its backend, writes the counts.
    fn tally(&mut self, row: &StatsRow, state: impl Fn(&StatsRow) -> Option<usize>, out: &mut Vec<u8>) {
        if row.kind() == StatsObject::Server {
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
            self.line(labels, at, out).number(FieldValue::U64(value(at)));
        }
    }

    /// Writes a histogram. The text format has powers of two in microseconds as bucket boundaries, where the counts are exact.
    fn histogram(&mut self, row: &StatsRow, reading: &HistogramReading, out: &mut Vec<u8>) {
        let labels = self.labels(row);
        if self.form == AnswerForm::Protobuf {
            return self.line(&labels, 0, out).distribution(reading);
        }
        self.title(out);
        let named = |suffix: &[u8]| [&self.name, suffix].concat();
        let bucket = named(b"_bucket");
        for bits in BORDERS {
            let border = format!("{}.{:06}", (1u64 << bits) / 1_000_000, (1u64 << bits) % 1_000_000);
            let line = SampleLine::named(&bucket, out).encoded(&labels).label("le", &border);
            line.number(FieldValue::U64(reading.below_power_of_two(bits)));
        }
        let count = FieldValue::U64(reading.count());
        SampleLine::named(&bucket, out).encoded(&labels).label("le", "+Inf").number(count);
        SampleLine::named(&named(b"_sum"), out).encoded(&labels).microseconds(reading.sum());
        SampleLine::named(&named(b"_count"), out).encoded(&labels).number(count);
    }

    /// Starts the line of an object with these labels, up to its value.
    #[inline]
    fn line<'o>(&mut self, labels: &[u8], variant: usize, out: &'o mut Vec<u8>) -> SampleLine<'o> {
        self.title(out);
        let line = match self.form {
            AnswerForm::Text => SampleLine::named(&self.name, out),
            AnswerForm::Protobuf => SampleLine::of_family(self.scope, self.metric, out),
        };
        let line = line.encoded(labels);
        let variant = &self.variants[variant];
        if variant.is_empty() { line } else { line.encoded(variant) }
    }

    fn labels(&self, row: &StatsRow) -> Vec<u8> {
        let mut labels = Vec::new();
        self.write_labels(row, &mut labels);
        labels
    }

    /// Writes the title before the first value. A metric without values does not get a title.
    #[inline]
    fn title(&mut self, out: &mut Vec<u8>) {
        // In the other format, every message contains its own title.
        if !self.titled && self.form == AnswerForm::Text {
            self.titled = true;
            write_title(&self.name, self.metric.description(), self.metric.type_word(), out);
        }
    }
}

fn variants(scope: MetricScope, metric: &Metric, form: AnswerForm) -> Vec<Vec<u8>> {
    let encoded = |name: &str, value: &str| {
        let mut label = Vec::new();
        write_label(form, false, name, value, &mut label);
        label
    };
    let states = match metric.values {
        MetricValues::Status if scope == MetricScope::Server => SERVER_STATES,
        MetricValues::Status if scope == MetricScope::Listener => LISTENER_STATES,
        MetricValues::Status => PROXY_STATES,
        MetricValues::ServersByStatus => SERVER_STATES,
        MetricValues::CheckStatus | MetricValues::ServersByCheckStatus => CHECK_STATES,
        _ => {
            let (name, value) = metric.label;
            return vec![if name.is_empty() { Vec::new() } else { encoded(name, value) }];
        }
    };
    states.iter().map(|state| encoded("state", state)).collect()
}

/// The value if it is a number. Empty for text.
fn number(value: FieldValue<'_>) -> FieldValue<'static> {
    match value {
        FieldValue::Empty | FieldValue::Text(_) => FieldValue::Empty,
        FieldValue::U32(number) => FieldValue::U32(number),
        FieldValue::S32(number) => FieldValue::S32(number),
        FieldValue::U64(number) => FieldValue::U64(number),
        FieldValue::Float(number) => FieldValue::Float(number),
    }
}

/// The label name for an object of this kind. `None` for frontends and backends.
fn object_label(kind: StatsObject) -> Option<&'static str> {
    match kind {
        StatsObject::Server => Some("server"),
        StatsObject::Listener => Some("listener"),
        StatsObject::Frontend | StatsObject::Backend => None,
    }
}

pub(super) fn describe<'o>(line: SampleLine<'o>, wanted: bool, description: Option<&str>) -> SampleLine<'o> {
    match description.filter(|text| wanted && !text.is_empty()) {
        Some(text) => line.label(DESCRIPTION, text),
        None => line,
    }
}

pub(super) fn write_table(line: SampleLine<'_>, metric: &Metric, table: TableMetrics<'_>) {
    let value = match metric.values {
        MetricValues::TableSize => FieldValue::U32(table.size),
        MetricValues::TableUsed => FieldValue::U32(table.used),
        MetricValues::TableEvicted => FieldValue::U64(table.evicted),
        _ => FieldValue::U64(table.refused),
    };
    line.label("name", table.name).label("type", table.key_type).number(value);
}

pub(super) fn write_name_server(line: SampleLine<'_>, counter: usize, server: NameServerMetrics<'_>) {
    line.label("resolver", server.section)
        .label("nameserver", server.name)
        .number(FieldValue::U64(server.counters[counter]));
}

/// The possible states of an object, and its current state.
fn status(row: &StatsRow) -> (&'static [&'static str], &'static str) {
    let text = row.text(StatsField::Status);
    match row.kind() {
        // A paused frontend counts as up: only a stopped one is down.
        StatsObject::Frontend => (PROXY_STATES, if text == "STOP" { "DOWN" } else { "UP" }),
        StatsObject::Backend => (PROXY_STATES, if text == "UP" { "UP" } else { "DOWN" }),
        StatsObject::Listener => {
            (LISTENER_STATES, position(LISTENER_STATES, text).map_or("", |at| LISTENER_STATES[at]))
        }
        StatsObject::Server => {
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

/// Index of the last check's result. `None` before the end of the first check, or without checks.
fn checked(row: &StatsRow) -> Option<usize> {
    position(CHECK_STATES, row.text(StatsField::CheckStatus).trim_start_matches("* "))
}

fn position(states: &[&str], state: &str) -> Option<usize> {
    states.iter().position(|known| *known == state)
}
