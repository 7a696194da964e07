//! A complete scrape, a bounded piece at a time.

use super::MetricsSource;
use super::line::write_name;
use super::metrics::{DESCRIPTION, Metric, Presence, Values};
use super::request::{MetricsRequest, Scope};
use super::samples::{Samples, describe, write_name_server, write_table};
use crate::dump::{OBJECTS_PER_PIECE, Progress, visit_rows};
use crate::field_set::FieldSet;
use crate::fields::{Field, Kind};
use crate::info::{InfoField, InfoRow};
use crate::row::{Row, Value};
use crate::source::{Cursor, Selection};

/// A scrape in progress.
///
/// ```text
/// next metric ──► objects ──► lines ──► objects ... ──► next metric ... ──► next scope ... ──► end
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
}

/// The metric that is being written, and the objects that may have it.
#[derive(Debug)]
struct CurrentMetric {
    samples: Samples,
    selection: Selection,
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
        }
    }

    /// Appends lines until `out` holds at least `enough` bytes, and at most those of one object and metric more, some
    /// 3 kB. A piece visits a bounded number of objects, matching or not.
    pub fn advance(&mut self, source: &dyn MetricsSource, enough: usize, out: &mut Vec<u8>) -> Progress {
        let mut left = OBJECTS_PER_PIECE;
        while out.len() < enough && left > 0 {
            let Some(mut current) = self.current.take().or_else(|| self.begin()) else {
                return Progress::Done;
            };
            match self.objects(source, &mut current, enough, &mut left, out) {
                Progress::More => self.current = Some(current),
                Progress::Done => {
                    left = left.saturating_sub(1);
                    if current.samples.titled {
                        self.titled = current.samples.metric.name;
                    }
                }
            }
        }
        Progress::More
    }

    /// Begins the next selected metric; none after the last one.
    fn begin(&mut self) -> Option<CurrentMetric> {
        let (scope, metric, name) = self.next_metric()?;
        self.cursor = Cursor::default();
        self.row.fill_only(fields_of(metric, self.request.no_maintenance));
        let titled = self.titled == metric.name;
        let samples = Samples::new(scope, metric, name, &self.request, titled);
        Some(CurrentMetric { samples, selection: self.selection(scope, metric) })
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

    /// Writes the samples of the next objects.
    fn objects(
        &mut self,
        source: &dyn MetricsSource,
        current: &mut CurrentMetric,
        enough: usize,
        left: &mut usize,
        out: &mut Vec<u8>,
    ) -> Progress {
        let CurrentMetric { samples, selection } = current;
        match samples.metric.values {
            Values::Process(field) => {
                self.process(source, samples, field, out);
                Progress::Done
            }
            Values::ProcessText(field, label) => {
                self.process_text(source, samples, field, label, out);
                Progress::Done
            }
            Values::TableSize | Values::TableUsed | Values::TableEvicted | Values::TableRefused => {
                let Some(table) = source.table(self.cursor.object) else { return Progress::Done };
                self.cursor.object += 1;
                *left -= 1;
                write_table(samples.next(out), samples.metric, table);
                Progress::More
            }
            Values::NameServer(figure) => {
                let Some(server) = source.name_server(self.cursor.object) else { return Progress::Done };
                self.cursor.object += 1;
                *left -= 1;
                write_name_server(samples.next(out), figure, server);
                Progress::More
            }
            _ => visit_rows(source, &mut self.cursor, selection, &mut self.row, left, |row| {
                samples.row(row, out);
                out.len() >= enough
            }),
        }
    }

    fn process(
        &mut self,
        source: &dyn MetricsSource,
        samples: &mut Samples,
        field: InfoField,
        out: &mut Vec<u8>,
    ) {
        let descriptions = self.request.descriptions;
        let info = self.info(source);
        let line = samples.next(out);
        describe(line, descriptions, Some(info.text(InfoField::Description))).number(info.value(field));
    }

    fn process_text(
        &mut self,
        source: &dyn MetricsSource,
        samples: &mut Samples,
        field: InfoField,
        label: &'static str,
        out: &mut Vec<u8>,
    ) {
        // The label is the description already.
        let descriptions = self.request.descriptions && label != DESCRIPTION;
        let info = self.info(source);
        if info.text(field).is_empty() {
            return;
        }
        let line = samples.next(out).label(label, info.text(field));
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
