//! A complete scrape, a bounded piece at a time.

use weir_events::HistogramReading;

use super::line::{Line, write_name, write_title};
use super::metrics::{
    CHECK_STATES, DESCRIPTION, LISTENER_STATES, Metric, PROXY_STATES, Presence, SERVER_STATES, Values,
};
use super::request::{Form, MetricsRequest, Scope};
use super::{MetricsSource, NameServerFigures, TableFigures};
use crate::dump::{OBJECTS_PER_PIECE, Progress};
use crate::field_set::FieldSet;
use crate::fields::{Field, Kind};
use crate::info::{InfoField, InfoRow};
use crate::row::{Health, Row, Value};
use crate::source::{Cursor, Selection};

/// A scrape in progress.
///
/// ```text
/// next metric ──► next object ──► lines ──► next object ... ──► next metric ... ──► next scope ... ──► end
/// ```
#[derive(Debug)]
pub struct MetricsDump {
    request: MetricsRequest,
    info: Option<Box<InfoRow>>,
    row: Row,
    /// The index of the scope.
    scope: usize,
    /// The index of the next metric in the scope.
    metric: usize,
    current: Option<CurrentMetric>,
    /// The next object.
    cursor: Cursor,
    /// The metric whose title was written last.
    titled: &'static str,
    /// Servers of the current backend, by state.
    servers: Tally,
}

/// The metric that is being written, and all that its lines have in common.
#[derive(Debug)]
struct CurrentMetric {
    scope: Scope,
    metric: &'static Metric,
    /// Its complete name.
    name: Vec<u8>,
    /// The objects that may have it.
    selection: Selection,
}

/// The borders of a distribution's buckets, as powers of two in microseconds: from 64 us to 67 s.
const BORDERS: std::ops::RangeInclusive<u32> = 6..=26;

/// The number of servers in each of several states.
#[derive(Debug, Default)]
struct Tally {
    by_state: [u32; CHECK_STATES.len()],
    servers: u32,
}

impl MetricsDump {
    /// A scrape of which nothing was written.
    pub fn new(request: MetricsRequest) -> Self {
        Self {
            request,
            info: None,
            row: Row::default(),
            scope: 0,
            metric: 0,
            current: None,
            cursor: Cursor::default(),
            titled: "",
            servers: Tally::default(),
        }
    }

    /// Appends lines until `out` holds at least `enough` bytes, and at most those of one object and metric more, some
    /// 3 kB. A piece visits a bounded number of objects, matching or not.
    pub fn advance(&mut self, source: &dyn MetricsSource, enough: usize, out: &mut Vec<u8>) -> Progress {
        for _ in 0..OBJECTS_PER_PIECE {
            if out.len() >= enough {
                return Progress::More;
            }
            let Some(current) = self.current.take().or_else(|| self.begin()) else { return Progress::Done };
            if self.object(source, &current, out) {
                self.current = Some(current);
            }
        }
        Progress::More
    }

    /// Begins the next selected metric; none after the last one.
    fn begin(&mut self) -> Option<CurrentMetric> {
        let (scope, metric, name) = self.next_metric()?;
        self.cursor = Cursor::default();
        self.row.fill_only(fields_of(metric, self.request.no_maintenance));
        Some(CurrentMetric { scope, metric, name, selection: self.selection(scope, metric) })
    }

    fn next_metric(&mut self) -> Option<(Scope, &'static Metric, Vec<u8>)> {
        while let Some(&scope) = Scope::ALL.get(self.scope) {
            if self.request.wants_scope(scope) {
                while let Some(metric) = Metric::of(scope).nth(self.metric) {
                    self.metric += 1;
                    let mut name = Vec::new();
                    write_name(scope, metric.name, &mut name);
                    if self.wants(metric, &name) {
                        return Some((scope, metric, name));
                    }
                }
            }
            self.scope += 1;
            (self.metric, self.titled) = (0, "");
        }
        None
    }

    fn wants(&self, metric: &Metric, name: &[u8]) -> bool {
        let is_hidden = metric.is_extra() && !self.request.extra_counters
            || matches!(metric.values, Values::Latency(_)) && !self.request.histograms;
        !is_hidden && std::str::from_utf8(name).is_ok_and(|name| self.request.wants_metric(name))
    }

    /// Handles the next object; false if there is none.
    fn object(&mut self, source: &dyn MetricsSource, current: &CurrentMetric, out: &mut Vec<u8>) -> bool {
        match current.metric.values {
            Values::Process(field) => {
                self.process(source, current, field, out);
                false
            }
            Values::ProcessText(field, label) => {
                self.process_text(source, current, field, label, out);
                false
            }
            Values::TableSize | Values::TableUsed | Values::TableEvicted | Values::TableRefused => {
                let Some(table) = source.table(self.cursor.object) else { return false };
                self.cursor.object += 1;
                self.title(current, out);
                write_table(current.line(self.request.form, out), current.metric, table);
                true
            }
            Values::NameServer(figure) => {
                let Some(server) = source.name_server(self.cursor.object) else { return false };
                self.cursor.object += 1;
                self.title(current, out);
                write_name_server(current.line(self.request.form, out), figure, server);
                true
            }
            _ => {
                if !source.next_row(&mut self.cursor, &current.selection, &mut self.row) {
                    return false;
                }
                if current.selection.wants(&self.row) {
                    self.row(current, out);
                }
                true
            }
        }
    }

    fn process(
        &mut self,
        source: &dyn MetricsSource,
        current: &CurrentMetric,
        field: InfoField,
        out: &mut Vec<u8>,
    ) {
        self.title(current, out);
        let descriptions = self.request.descriptions;
        let line = current.line(self.request.form, out);
        let info = self.info(source);
        describe(line, descriptions, Some(info.text(InfoField::Description))).number(info.value(field));
    }

    fn process_text(
        &mut self,
        source: &dyn MetricsSource,
        current: &CurrentMetric,
        field: InfoField,
        label: &'static str,
        out: &mut Vec<u8>,
    ) {
        if self.info(source).text(field).is_empty() {
            return;
        }
        self.title(current, out);
        // The label is the description already.
        let descriptions = self.request.descriptions && label != DESCRIPTION;
        let line = current.line(self.request.form, out);
        let info = self.info(source);
        let line = line.label(label, info.text(field));
        describe(line, descriptions, Some(info.text(InfoField::Description))).number(Value::U32(1));
    }

    /// The figures of the process, which stay the same for the whole scrape.
    fn info(&mut self, source: &dyn MetricsSource) -> &InfoRow {
        self.info.get_or_insert_with(|| {
            let mut info = Box::new(InfoRow::new());
            source.info(false, &mut info);
            info
        })
    }

    fn selection(&self, scope: Scope, metric: &Metric) -> Selection {
        let kind = match scope {
            Scope::Frontend => Kind::Frontend,
            Scope::Listener => Kind::Listener,
            Scope::Server => Kind::Server,
            _ => Kind::Backend,
        };
        // A backend's servers come before it.
        let counts_servers = matches!(metric.values, Values::ServersByStatus | Values::ServersByCheckStatus);
        let kinds = kind.mask() | if counts_servers { Kind::Server.mask() } else { 0 };
        let no_maintenance = self.request.no_maintenance && !counts_servers;
        let latencies = matches!(metric.values, Values::Latency(_));
        Selection { kinds, no_maintenance, latencies, ..Selection::default() }
    }

    fn row(&mut self, current: &CurrentMetric, out: &mut Vec<u8>) {
        if !self.is_present(current.metric) {
            return;
        }
        match current.metric.values {
            Values::Number(field) => {
                self.title(current, out);
                let value = match self.row.value(field) {
                    // A check without a code has code 0, as in HAProxy.
                    Value::Empty if current.metric.presence == Presence::Checked => Value::U32(0),
                    value => value,
                };
                self.line(current, out).number(value);
            }
            Values::Seconds(field) => {
                self.title(current, out);
                self.line(current, out).seconds(self.row.value(field));
            }
            Values::Status => {
                let (states, state) = status(&self.row);
                self.title(current, out);
                self.states(current, states, |at| u32::from(states[at] == state), out);
            }
            Values::CheckStatus => {
                let found = checked(&self.row);
                self.title(current, out);
                self.states(current, CHECK_STATES, |at| u32::from(found == Some(at)), out);
            }
            Values::ServersByStatus => {
                self.tally(current, SERVER_STATES, |row| position(SERVER_STATES, status(row).1), out);
            }
            Values::ServersByCheckStatus => self.tally(current, CHECK_STATES, checked, out),
            Values::Latency(phase) => {
                if let Some(latencies) = self.row.latencies() {
                    let reading = latencies[phase].clone();
                    self.title(current, out);
                    self.histogram(current, &reading, out);
                }
            }
            _ => {}
        }
    }

    fn is_present(&self, metric: &Metric) -> bool {
        match metric.presence {
            Presence::Always => true,
            Presence::Checked => self.row.value(Field::CheckStatus) != Value::Empty,
            Presence::Http => self.row.text(Field::Mode) == "http",
        }
    }

    /// Counts a server, or writes the counts when its backend comes.
    fn tally(
        &mut self,
        current: &CurrentMetric,
        states: &'static [&'static str],
        state: impl Fn(&Row) -> Option<usize>,
        out: &mut Vec<u8>,
    ) {
        if self.row.kind() == Kind::Server {
            self.servers.servers += 1;
            if let Some(state) = state(&self.row) {
                self.servers.by_state[state] += 1;
            }
            return;
        }
        let counted = std::mem::take(&mut self.servers);
        if counted.servers > 0 {
            self.title(current, out);
            self.states(current, states, |at| counted.by_state[at], out);
        }
    }

    fn states(
        &self,
        current: &CurrentMetric,
        states: &[&str],
        value: impl Fn(usize) -> u32,
        out: &mut Vec<u8>,
    ) {
        for (at, state) in states.iter().enumerate() {
            self.line(current, out).label("state", state).number(Value::U32(value(at)));
        }
    }

    /// A distribution: as text in the classic form, whose borders are powers of two in microseconds, where the counts are exact.
    fn histogram(&self, current: &CurrentMetric, reading: &HistogramReading, out: &mut Vec<u8>) {
        if self.request.form == Form::Protobuf {
            return self.line(current, out).distribution(reading);
        }
        let named = |suffix: &[u8]| [&current.name, suffix].concat();
        let bucket = named(b"_bucket");
        for bits in BORDERS {
            let border = format!("{}.{:06}", (1u64 << bits) / 1_000_000, (1u64 << bits) % 1_000_000);
            let line = self.labelled(Line::named(&bucket, out), current.metric).label("le", &border);
            line.number(Value::U64(reading.below_power_of_two(bits)));
        }
        let count = Value::U64(reading.count());
        self.labelled(Line::named(&bucket, out), current.metric).label("le", "+Inf").number(count);
        self.labelled(Line::named(&named(b"_sum"), out), current.metric).microseconds(reading.sum());
        self.labelled(Line::named(&named(b"_count"), out), current.metric).number(count);
    }

    /// The line of the row, up to the metric's own label.
    fn line<'o>(&self, current: &CurrentMetric, out: &'o mut Vec<u8>) -> Line<'o> {
        self.labelled(current.line(self.request.form, out), current.metric)
    }

    fn labelled<'o>(&self, line: Line<'o>, metric: &Metric) -> Line<'o> {
        let line = line.label("proxy", self.row.text(Field::Pxname));
        let line = describe(line, self.request.descriptions, self.row.description());
        let object = match self.row.kind() {
            Kind::Server => "server",
            Kind::Listener => "listener",
            Kind::Frontend | Kind::Backend => "",
        };
        line.label(object, self.row.text(Field::Svname)).label(metric.label.0, metric.label.1)
    }

    /// Writes the title before the first value: metrics without values have none.
    fn title(&mut self, current: &CurrentMetric, out: &mut Vec<u8>) {
        // Every message of the other form has its own.
        let metric = current.metric;
        if self.titled != metric.name && self.request.form == Form::Text {
            self.titled = metric.name;
            write_title(&current.name, metric.description(), metric.type_word(), out);
        }
    }
}

impl CurrentMetric {
    /// Begins a sample.
    fn line<'o>(&self, form: Form, out: &'o mut Vec<u8>) -> Line<'o> {
        match form {
            Form::Text => Line::named(&self.name, out),
            Form::Protobuf => Line::of_family(self.scope, self.metric, out),
        }
    }
}

/// The fields that the lines of a metric need, so that sources compute no others for each of thousands of servers.
fn fields_of(metric: &Metric, no_maintenance: bool) -> FieldSet {
    let by_value = match metric.values {
        Values::Number(field) | Values::Seconds(field) => FieldSet::of(&[field]),
        Values::Status | Values::ServersByStatus => FieldSet::of(&[Field::Status]),
        Values::CheckStatus | Values::ServersByCheckStatus => FieldSet::of(&[Field::CheckStatus]),
        _ => FieldSet::default(),
    };
    let fields = match metric.presence {
        Presence::Always => by_value,
        Presence::Checked => by_value.with(Field::CheckStatus),
        Presence::Http => by_value.with(Field::Mode),
    };
    // The health of servers in maintenance comes with their status.
    if no_maintenance { fields.with(Field::Status) } else { fields }
}

fn describe<'o>(line: Line<'o>, wanted: bool, description: Option<&str>) -> Line<'o> {
    match description.filter(|text| wanted && !text.is_empty()) {
        Some(text) => line.label(DESCRIPTION, text),
        None => line,
    }
}

fn write_table(line: Line<'_>, metric: &Metric, table: TableFigures<'_>) {
    let value = match metric.values {
        Values::TableSize => Value::U32(table.size),
        Values::TableUsed => Value::U32(table.used),
        Values::TableEvicted => Value::U64(table.evicted),
        _ => Value::U64(table.refused),
    };
    line.label("name", table.name).label("type", table.key_type).number(value);
}

fn write_name_server(line: Line<'_>, figure: usize, server: NameServerFigures<'_>) {
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
