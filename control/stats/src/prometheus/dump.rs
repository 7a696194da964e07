//! A complete scrape, a bounded piece at a time.

use super::MetricsSource;
use super::batch::{Means, MetricBatch};
use super::line::write_name;
use super::memory::{MemoryShare, ScrapeMemory};
use super::metrics::{DESCRIPTION, Metric, Presence, Values};
use super::request::{MetricsRequest, Scope};
use super::samples::{Samples, Title, describe, write_name_server, write_table};
use crate::dump::{OBJECTS_PER_PIECE, Progress, visit_rows};
use crate::field_set::FieldSet;
use crate::fields::{Field, Kind};
use crate::info::{InfoField, InfoRow};
use crate::row::{Row, Value};
use crate::source::{Cursor, Selection};

/// A scrape in progress.
///
/// ```text
/// next metrics ──► read objects ... ──► write metric by metric ──┐
///      ▲    └────► objects ──► lines ──► objects ... ────────────┤
///      └─────────────────────────────────────────────────────────┘──► end
/// ```
/// All samples of a metric are adjacent. To read each object once and not once for each of 60 metrics, the samples of consecutive
/// metrics are kept in [`Sheet`](super::sheet::Sheet)s, as far as there is memory.
#[derive(Debug)]
pub struct MetricsDump {
    request: MetricsRequest,
    info: Option<Box<InfoRow>>,
    row: Row,
    position: MetricPosition,
    /// The most metrics of a batch: fewer once their samples did not fit.
    most_metrics: usize,
    share: MemoryShare,
    current: Option<Work>,
    cursor: Cursor,
    title: Title,
}

/// A metric, by the index of its scope and its own in that.
#[derive(Clone, Copy, Debug, Default)]
struct MetricPosition {
    scope: usize,
    metric: usize,
}

impl MetricPosition {
    fn after(samples: &Samples) -> Self {
        Self { scope: samples.scope as usize, metric: samples.index + 1 }
    }
}

/// The current step of a scrape.
#[derive(Debug)]
enum Work {
    /// One metric: each object is read and written at once.
    Metric(CurrentMetric),
    /// Several metrics with one pass over the objects.
    Batch(MetricBatch),
}

/// The metric that is being written, and the objects that may have it.
#[derive(Debug)]
struct CurrentMetric {
    samples: Samples,
    selection: Selection,
}

impl MetricsDump {
    /// A new scrape. It borrows from `memory` for the samples of a batch.
    pub fn new(request: MetricsRequest, memory: &'static ScrapeMemory) -> Self {
        Self {
            request,
            info: None,
            row: Row::default(),
            position: MetricPosition::default(),
            most_metrics: usize::MAX,
            share: MemoryShare::new(memory),
            current: None,
            cursor: Cursor::default(),
            title: Title::default(),
        }
    }

    /// Appends lines until `out` holds at least `enough` bytes, and at most those of one object and metric more, some
    /// 3 kB. A piece visits a bounded number of objects, matching or not: fewer if it reads many fields of each.
    pub fn advance(&mut self, source: &dyn MetricsSource, enough: usize, out: &mut Vec<u8>) -> Progress {
        let mut left = OBJECTS_PER_PIECE;
        while out.len() < enough && left > 0 {
            let Some(mut current) = self.current.take().or_else(|| self.begin()) else {
                return Progress::Done;
            };
            let progress = match &mut current {
                Work::Metric(metric) => self.objects(source, metric, enough, &mut left, out),
                Work::Batch(batch) => self.batch(source, batch, enough, &mut left, out),
            };
            match progress {
                Progress::More => self.current = Some(current),
                Progress::Done => {
                    left = left.saturating_sub(1);
                    if let Work::Metric(metric) = &current {
                        metric.samples.lead(&mut self.title);
                    }
                }
            }
        }
        Progress::More
    }

    /// Begins the next selected metric, with those after it that can be read together; `None` after the last one.
    fn begin(&mut self) -> Option<Work> {
        let mut samples = self.metric_at(self.position)?;
        self.position = MetricPosition::after(&samples);
        self.cursor = Cursor::default();
        let selection = self.selection(samples.scope, samples.metric);
        let no_maintenance = self.request.no_maintenance;
        if !samples.metric.has_samples() {
            self.row.fill_only(fields_of([samples.metric], no_maintenance));
            samples.follow(&self.title);
            return Some(Work::Metric(CurrentMetric { samples, selection }));
        }
        let mut metrics = vec![samples];
        while metrics.len() < self.most_metrics
            && let Some(samples) = self.metric_at(self.position)
            && samples.metric.has_samples()
            && samples.scope == metrics[0].scope
        {
            self.position = MetricPosition::after(&samples);
            metrics.push(samples);
        }
        self.row.fill_only(fields_of(metrics.iter().map(|samples| samples.metric), no_maintenance));
        Some(Work::Batch(MetricBatch::new(selection, metrics)))
    }

    /// The first selected metric from a position on.
    fn metric_at(&self, from: MetricPosition) -> Option<Samples> {
        for (at, scope) in Scope::ALL.into_iter().enumerate().skip(from.scope) {
            if !self.request.wants_scope(scope) {
                continue;
            }
            let first = if at == from.scope { from.metric } else { 0 };
            for (index, metric) in Metric::of(scope).enumerate().skip(first) {
                let mut name = Vec::new();
                write_name(scope, metric.name, &mut name);
                if self.wants(metric, &name) {
                    return Some(Samples::new(scope, metric, index, name, &self.request));
                }
            }
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
            Values::NameServer(counter) => {
                let Some(server) = source.name_server(self.cursor.object) else { return Progress::Done };
                self.cursor.object += 1;
                *left -= 1;
                write_name_server(samples.next(out), counter, server);
                Progress::More
            }
            _ => visit_rows(source, &mut self.cursor, selection, &mut self.row, left, |row| {
                samples.row(row, out);
                out.len() >= enough
            }),
        }
    }

    /// Reads or writes the samples of several metrics.
    fn batch(
        &mut self,
        source: &dyn MetricsSource,
        batch: &mut MetricBatch,
        enough: usize,
        left: &mut usize,
        out: &mut Vec<u8>,
    ) -> Progress {
        let Self { cursor, row, share, title, .. } = self;
        let begun = batch.metrics().len();
        let progress = batch.advance(&mut Means { source, cursor, row, share, title, left }, enough, out);
        let kept = batch.metrics();
        if let Some(last) = kept.last().filter(|_| kept.len() < begun) {
            self.position = MetricPosition::after(last);
            self.most_metrics = kept.len();
            let metrics = kept.iter().map(|samples| samples.metric);
            self.row.fill_only(fields_of(metrics, self.request.no_maintenance));
        }
        progress
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

    /// The fields of the process, which stay the same for the whole scrape.
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

/// The fields that the lines of some metrics need, so that sources compute no others for each of thousands of servers.
fn fields_of(metrics: impl IntoIterator<Item = &'static Metric>, no_maintenance: bool) -> FieldSet {
    let mut fields = FieldSet::default();
    for metric in metrics {
        fields = match metric.values {
            Values::Number(field) | Values::Seconds(field) => fields.with(field),
            Values::Status | Values::ServersByStatus => fields.with(Field::Status),
            Values::CheckStatus | Values::ServersByCheckStatus => fields.with(Field::CheckStatus),
            _ => fields,
        };
        fields = match metric.presence {
            Presence::Always => fields,
            Presence::Checked => fields.with(Field::CheckStatus),
            Presence::Http => fields.with(Field::Mode),
        };
    }
    // The health of servers in maintenance comes with their status.
    if no_maintenance { fields.with(Field::Status) } else { fields }
}
