//! A complete scrape, written in bounded pieces.

use super::MetricsSource;
use super::batch::{Means, MetricBatch};
use super::line::write_name;
use super::memory::{MemoryShare, ScrapeMemory};
use super::metrics::{DESCRIPTION, Metric, MetricPresence, MetricValues};
use super::request::{MetricScope, MetricsRequest};
use super::samples::{Samples, Title, describe, write_name_server, write_table};
use crate::dump::{DumpProgress, OBJECTS_PER_PIECE, visit_rows};
use crate::field_set::FieldSet;
use crate::fields::{StatsField, StatsObject};
use crate::info::{InfoField, InfoRow};
use crate::row::{FieldValue, StatsRow};
use crate::source::{RowCursor, RowSelection};

/// A scrape in progress.
///
/// ```text
/// next metrics ──► read objects ... ──► write metric by metric ──┐
///      ▲    └────► objects ──► lines ──► objects ... ────────────┤
///      └─────────────────────────────────────────────────────────┘──► end
/// ```
/// All samples of a metric are adjacent. To read each object once instead of once for each of 60 metrics, the samples of consecutive
/// metrics are stored in [`Sheet`](super::sheet::Sheet)s, as memory permits.
#[derive(Debug)]
pub struct MetricsDump {
    request: MetricsRequest,
    info: Option<Box<InfoRow>>,
    row: StatsRow,
    position: MetricPosition,
    /// Maximum number of metrics per batch. Reduced when the samples of a batch did not fit.
    most_metrics: usize,
    share: MemoryShare,
    current: Option<Work>,
    cursor: RowCursor,
    title: Title,
}

/// The position of a metric: index of its scope, and index within the scope.
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
    /// One metric. Each object is read and written immediately.
    Metric(CurrentMetric),
    /// Several metrics in one pass over the objects.
    Batch(MetricBatch),
}

/// The metric in progress, and the objects that may have it.
#[derive(Debug)]
struct CurrentMetric {
    samples: Samples,
    selection: RowSelection,
}

impl MetricsDump {
    /// A new scrape. Borrows memory for batches from `memory`.
    pub fn new(request: MetricsRequest, memory: &'static ScrapeMemory) -> Self {
        Self {
            request,
            info: None,
            row: StatsRow::default(),
            position: MetricPosition::default(),
            most_metrics: usize::MAX,
            share: MemoryShare::new(memory),
            current: None,
            cursor: RowCursor::default(),
            title: Title::default(),
        }
    }

    /// Appends lines until `out` holds at least `enough` bytes, plus at most the bytes of one object and metric (about 3 kB). One call
    /// visits a bounded number of objects, matching or not. The bound is lower if many fields of each are read.
    pub fn advance(&mut self, source: &dyn MetricsSource, enough: usize, out: &mut Vec<u8>) -> DumpProgress {
        let mut left = OBJECTS_PER_PIECE;
        while out.len() < enough && left > 0 {
            let Some(mut current) = self.current.take().or_else(|| self.begin()) else {
                return DumpProgress::Done;
            };
            let progress = match &mut current {
                Work::Metric(metric) => self.objects(source, metric, enough, &mut left, out),
                Work::Batch(batch) => self.batch(source, batch, enough, &mut left, out),
            };
            match progress {
                DumpProgress::More => self.current = Some(current),
                DumpProgress::Done => {
                    left = left.saturating_sub(1);
                    if let Work::Metric(metric) = &current {
                        metric.samples.lead(&mut self.title);
                    }
                }
            }
        }
        DumpProgress::More
    }

    /// Starts the next selected metric, together with following ones that can share a pass. `None` after the last metric.
    fn begin(&mut self) -> Option<Work> {
        let mut samples = self.metric_at(self.position)?;
        self.position = MetricPosition::after(&samples);
        self.cursor = RowCursor::default();
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

    /// The first selected metric at or after a position.
    fn metric_at(&self, from: MetricPosition) -> Option<Samples> {
        for (at, scope) in MetricScope::ALL.into_iter().enumerate().skip(from.scope) {
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
            || matches!(metric.values, MetricValues::Latency(_)) && !self.request.histograms;
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
    ) -> DumpProgress {
        let CurrentMetric { samples, selection } = current;
        match samples.metric.values {
            MetricValues::Process(field) => {
                self.process(source, samples, field, out);
                DumpProgress::Done
            }
            MetricValues::ProcessText(field, label) => {
                self.process_text(source, samples, field, label, out);
                DumpProgress::Done
            }
            MetricValues::TableSize
            | MetricValues::TableUsed
            | MetricValues::TableEvicted
            | MetricValues::TableRefused => {
                let Some(table) = source.table(self.cursor.object) else { return DumpProgress::Done };
                self.cursor.object += 1;
                *left -= 1;
                write_table(samples.next(out), samples.metric, table);
                DumpProgress::More
            }
            MetricValues::NameServer(counter) => {
                let Some(server) = source.name_server(self.cursor.object) else { return DumpProgress::Done };
                self.cursor.object += 1;
                *left -= 1;
                write_name_server(samples.next(out), counter, server);
                DumpProgress::More
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
    ) -> DumpProgress {
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
        // The label already contains the description.
        let descriptions = self.request.descriptions && label != DESCRIPTION;
        let info = self.info(source);
        if info.text(field).is_empty() {
            return;
        }
        let line = samples.next(out).label(label, info.text(field));
        describe(line, descriptions, Some(info.text(InfoField::Description))).number(FieldValue::U32(1));
    }

    /// The fields of `show info`, read once per scrape.
    fn info(&mut self, source: &dyn MetricsSource) -> &InfoRow {
        self.info.get_or_insert_with(|| {
            let mut info = Box::new(InfoRow::new());
            source.info(false, &mut info);
            info
        })
    }

    fn selection(&self, scope: MetricScope, metric: &Metric) -> RowSelection {
        let kind = match scope {
            MetricScope::Frontend => StatsObject::Frontend,
            MetricScope::Listener => StatsObject::Listener,
            MetricScope::Server => StatsObject::Server,
            _ => StatsObject::Backend,
        };
        // A backend is counted after its servers: they precede it.
        let counts_servers =
            matches!(metric.values, MetricValues::ServersByStatus | MetricValues::ServersByCheckStatus);
        let kinds = kind.mask() | if counts_servers { StatsObject::Server.mask() } else { 0 };
        let no_maintenance = self.request.no_maintenance && !counts_servers;
        let latencies = matches!(metric.values, MetricValues::Latency(_));
        RowSelection { kinds, no_maintenance, latencies, ..RowSelection::default() }
    }
}

/// The fields needed for some metrics. Sources skip all other fields, for each of thousands of servers.
fn fields_of(metrics: impl IntoIterator<Item = &'static Metric>, no_maintenance: bool) -> FieldSet {
    let mut fields = FieldSet::default();
    for metric in metrics {
        fields = match metric.values {
            MetricValues::Number(field) | MetricValues::Seconds(field) => fields.with(field),
            MetricValues::Status | MetricValues::ServersByStatus => fields.with(StatsField::Status),
            MetricValues::CheckStatus | MetricValues::ServersByCheckStatus => {
                fields.with(StatsField::CheckStatus)
            }
            _ => fields,
        };
        fields = match metric.presence {
            MetricPresence::Always => fields,
            MetricPresence::Checked => fields.with(StatsField::CheckStatus),
            MetricPresence::Http => fields.with(StatsField::Mode),
        };
    }
    // The health of a server, which shows maintenance, is filled together with its status.
    if no_maintenance { fields.with(StatsField::Status) } else { fields }
}
