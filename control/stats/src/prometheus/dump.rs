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
    /// The metric that is being written.
    current: Option<(Scope, &'static Metric)>,
    /// The next object.
    cursor: Cursor,
    /// The metric whose title was written last.
    titled: &'static str,
    /// Servers of the current backend, by state.
    servers: Tally,
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
            if self.current.is_none() {
                self.cursor = Cursor::default();
                self.current = self.next_metric(out);
                if let Some((_, metric)) = self.current {
                    self.row.fill_only(fields_of(metric, self.request.no_maintenance));
                }
            }
            let Some((scope, metric)) = self.current else { return Progress::Done };
            if !self.object(source, scope, metric, out) {
                self.current = None;
            }
        }
        Progress::More
    }

    /// Moves to the next selected metric; none after the last one. `scratch` is left unchanged.
    fn next_metric(&mut self, scratch: &mut Vec<u8>) -> Option<(Scope, &'static Metric)> {
        while let Some(&scope) = Scope::ALL.get(self.scope) {
            if self.request.wants_scope(scope) {
                while let Some(metric) = Metric::of(scope).nth(self.metric) {
                    self.metric += 1;
                    if self.wants(scope, metric, scratch) {
                        return Some((scope, metric));
                    }
                }
            }
            self.scope += 1;
            (self.metric, self.titled) = (0, "");
        }
        None
    }

    fn wants(&self, scope: Scope, metric: &Metric, scratch: &mut Vec<u8>) -> bool {
        if metric.is_extra() && !self.request.extra_counters {
            return false;
        }
        if matches!(metric.values, Values::Latency(_)) && !self.request.histograms {
            return false;
        }
        let start = scratch.len();
        write_name(scope, metric.name, scratch);
        let wanted = std::str::from_utf8(&scratch[start..]).is_ok_and(|name| self.request.wants_metric(name));
        scratch.truncate(start);
        wanted
    }

    /// Handles the next object; false if there is none.
    fn object(
        &mut self,
        source: &dyn MetricsSource,
        scope: Scope,
        metric: &'static Metric,
        out: &mut Vec<u8>,
    ) -> bool {
        match metric.values {
            Values::Process(field) => {
                self.process(source, metric, field, out);
                false
            }
            Values::ProcessText(field, label) => {
                self.process_text(source, metric, field, label, out);
                false
            }
            Values::TableSize | Values::TableUsed | Values::TableEvicted | Values::TableRefused => {
                let Some(table) = source.table(self.cursor.object) else { return false };
                self.cursor.object += 1;
                self.title(scope, metric, out);
                write_table(self.request.form, metric, table, out);
                true
            }
            Values::NameServer(figure) => {
                let Some(server) = source.name_server(self.cursor.object) else { return false };
                self.cursor.object += 1;
                self.title(scope, metric, out);
                write_name_server(self.request.form, metric, figure, server, out);
                true
            }
            _ => {
                let selection = self.selection(scope, metric);
                if !source.next_row(&mut self.cursor, &selection, &mut self.row) {
                    return false;
                }
                if selection.wants(&self.row) {
                    self.row(scope, metric, out);
                }
                true
            }
        }
    }

    fn process(
        &mut self,
        source: &dyn MetricsSource,
        metric: &'static Metric,
        field: InfoField,
        out: &mut Vec<u8>,
    ) {
        self.title(Scope::Global, metric, out);
        let (descriptions, form) = (self.request.descriptions, self.request.form);
        let info = self.info(source);
        let line = Line::new(form, Scope::Global, metric, out);
        describe(line, descriptions, Some(info.text(InfoField::Description))).number(info.value(field));
    }

    fn process_text(
        &mut self,
        source: &dyn MetricsSource,
        metric: &'static Metric,
        field: InfoField,
        label: &'static str,
        out: &mut Vec<u8>,
    ) {
        if self.info(source).text(field).is_empty() {
            return;
        }
        self.title(Scope::Global, metric, out);
        // The label is the description already.
        let descriptions = self.request.descriptions && label != DESCRIPTION;
        let form = self.request.form;
        let info = self.info(source);
        let line = Line::new(form, Scope::Global, metric, out).label(label, info.text(field));
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

    fn row(&mut self, scope: Scope, metric: &'static Metric, out: &mut Vec<u8>) {
        if !self.is_present(metric) {
            return;
        }
        match metric.values {
            Values::Number(field) => {
                self.title(scope, metric, out);
                let value = match self.row.value(field) {
                    // A check without a code has code 0, as in HAProxy.
                    Value::Empty if metric.presence == Presence::Checked => Value::U32(0),
                    value => value,
                };
                self.line(scope, metric, out).number(value);
            }
            Values::Seconds(field) => {
                self.title(scope, metric, out);
                self.line(scope, metric, out).seconds(self.row.value(field));
            }
            Values::Status => {
                let (states, state) = status(&self.row);
                self.title(scope, metric, out);
                self.states(scope, metric, states, |at| u32::from(states[at] == state), out);
            }
            Values::CheckStatus => {
                let found = checked(&self.row);
                self.title(scope, metric, out);
                self.states(scope, metric, CHECK_STATES, |at| u32::from(found == Some(at)), out);
            }
            Values::ServersByStatus => {
                self.tally(scope, metric, SERVER_STATES, |row| position(SERVER_STATES, status(row).1), out);
            }
            Values::ServersByCheckStatus => self.tally(scope, metric, CHECK_STATES, checked, out),
            Values::Latency(phase) => {
                if let Some(latencies) = self.row.latencies() {
                    let reading = latencies[phase].clone();
                    self.title(scope, metric, out);
                    self.histogram(scope, metric, &reading, out);
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
        scope: Scope,
        metric: &'static Metric,
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
            self.title(scope, metric, out);
            self.states(scope, metric, states, |at| counted.by_state[at], out);
        }
    }

    fn states(
        &self,
        scope: Scope,
        metric: &'static Metric,
        states: &[&str],
        value: impl Fn(usize) -> u32,
        out: &mut Vec<u8>,
    ) {
        for (at, state) in states.iter().enumerate() {
            self.line(scope, metric, out).label("state", state).number(Value::U32(value(at)));
        }
    }

    /// A distribution: as text in the classic form, whose borders are powers of two in microseconds, where the counts are exact.
    fn histogram(
        &self,
        scope: Scope,
        metric: &'static Metric,
        reading: &HistogramReading,
        out: &mut Vec<u8>,
    ) {
        if self.request.form == Form::Protobuf {
            return self.line(scope, metric, out).distribution(reading);
        }
        let bucket = format!("{}_bucket", metric.name);
        for bits in BORDERS {
            let border = format!("{}.{:06}", (1u64 << bits) / 1_000_000, (1u64 << bits) % 1_000_000);
            let line = self.named_line(scope, &bucket, metric, out).label("le", &border);
            line.number(Value::U64(reading.below_power_of_two(bits)));
        }
        let count = Value::U64(reading.count());
        self.named_line(scope, &bucket, metric, out).label("le", "+Inf").number(count);
        self.named_line(scope, &format!("{}_sum", metric.name), metric, out).microseconds(reading.sum());
        self.named_line(scope, &format!("{}_count", metric.name), metric, out).number(count);
    }

    /// The line of the row, up to the metric's own label.
    fn line<'o>(&self, scope: Scope, metric: &'static Metric, out: &'o mut Vec<u8>) -> Line<'o> {
        self.labelled(Line::new(self.request.form, scope, metric, out), metric)
    }

    /// The same as text under another name.
    fn named_line<'o>(&self, scope: Scope, name: &str, metric: &Metric, out: &'o mut Vec<u8>) -> Line<'o> {
        self.labelled(Line::named(scope, name, out), metric)
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
    fn title(&mut self, scope: Scope, metric: &'static Metric, out: &mut Vec<u8>) {
        // Every message of the other form has its own.
        if self.titled != metric.name && self.request.form == Form::Text {
            self.titled = metric.name;
            write_title(scope, metric.name, metric.description(), metric.type_word(), out);
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

fn write_table(form: Form, metric: &'static Metric, table: TableFigures<'_>, out: &mut Vec<u8>) {
    let value = match metric.values {
        Values::TableSize => Value::U32(table.size),
        Values::TableUsed => Value::U32(table.used),
        Values::TableEvicted => Value::U64(table.evicted),
        _ => Value::U64(table.refused),
    };
    Line::new(form, Scope::StickTable, metric, out)
        .label("name", table.name)
        .label("type", table.key_type)
        .number(value);
}

fn write_name_server(
    form: Form,
    metric: &'static Metric,
    figure: usize,
    server: NameServerFigures<'_>,
    out: &mut Vec<u8>,
) {
    Line::new(form, Scope::Resolver, metric, out)
        .label("resolver", server.section)
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
