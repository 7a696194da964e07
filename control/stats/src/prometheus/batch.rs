//! Consecutive metrics of one scope, read in a single pass over the objects.

use super::MetricsSource;
use super::memory::MemoryShare;
use super::samples::{Samples, Title};
use super::sheet::Sheet;
use crate::dump::{DumpProgress, visit_rows};
use crate::row::StatsRow;
use crate::source::{RowCursor, RowSelection};

/// Several metrics, with their samples in [`Sheet`]s.
///
/// ```text
///  ┌──────────────────────────── some objects are left, and one metric
///  ▼                                                                │
/// read ──► a sheet is full ──► read ──► ... ──► all are read ──► write, metric by metric ──► end
///                └──► no memory for another: half of the metrics are dropped, as long as there are two
/// ```
#[derive(Debug)]
pub(super) struct MetricBatch {
    selection: RowSelection,
    metrics: Vec<Samples>,
    /// At least one sheet. The memory share covers all but the last.
    sheets: Vec<Sheet>,
    /// Whether all objects have been read.
    is_complete: bool,
    /// The next sample to write. `None` in the reading phase.
    writing: Option<NextSample>,
}

/// The position of a sample: its metric and its object.
#[derive(Debug, Default)]
struct NextSample {
    metric: usize,
    sheet: usize,
    object: usize,
}

/// The parts of the scrape's state used by a batch.
pub(super) struct Means<'m> {
    pub source: &'m dyn MetricsSource,
    pub cursor: &'m mut RowCursor,
    pub row: &'m mut StatsRow,
    pub share: &'m mut MemoryShare,
    pub title: &'m mut Title,
    /// Number of objects that may still be visited in this piece.
    pub left: &'m mut usize,
}

impl MetricBatch {
    /// Starts a batch of metrics of one scope. `metrics` must not be empty.
    pub(super) fn new(selection: RowSelection, metrics: Vec<Samples>) -> Self {
        let sheets = vec![Sheet::new(metrics.len())];
        Self { selection, metrics, sheets, is_complete: false, writing: None }
    }

    /// The metrics of the batch. Fewer than at the start if their samples did not fit.
    pub(super) fn metrics(&self) -> &[Samples] {
        &self.metrics
    }

    /// Reads or writes until `out` holds `enough` bytes or the object budget is used up.
    pub(super) fn advance(
        &mut self,
        means: &mut Means<'_>,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> DumpProgress {
        if self.writing.is_none() {
            self.read(means);
            return DumpProgress::More;
        }
        if !self.write(means, enough, out) {
            return DumpProgress::More;
        }
        if self.is_complete {
            means.share.shrink(0);
            return DumpProgress::Done;
        }
        self.sheets.truncate(1);
        self.sheets[0].clear();
        means.share.shrink(0);
        self.writing = None;
        DumpProgress::More
    }

    /// Reads objects into the last sheet.
    fn read(&mut self, means: &mut Means<'_>) {
        let Self { selection, metrics, sheets, .. } = self;
        let Some(sheet) = sheets.last_mut() else { return };
        let price = 1 + metrics.len() / METRICS_PER_VISIT;
        let mut visits = means.left.div_ceil(price);
        let progress = visit_rows(means.source, means.cursor, selection, means.row, &mut visits, |row| {
            sheet.read(metrics, row);
            sheet.is_full()
        });
        *means.left = visits * price;
        self.is_complete = progress == DumpProgress::Done;
        if self.is_complete || sheet.is_full() && !self.extend(means.share) {
            self.writing = Some(NextSample::default());
        }
    }

    /// Adds a sheet. If memory is short, drops the last half of the metrics and retries. False with a single metric.
    fn extend(&mut self, share: &mut MemoryShare) -> bool {
        while self.metrics.len() > 1 {
            if self.sheets.last().is_some_and(|full| share.grow(full.bytes())) {
                self.sheets.push(Sheet::new(self.metrics.len()));
                return true;
            }
            self.metrics.truncate(self.metrics.len() / 2);
            self.sheets.iter_mut().for_each(|sheet| sheet.truncate(self.metrics.len()));
            let counted = self.sheets.split_last().map_or(&[][..], |(_, full)| full);
            share.shrink(counted.iter().map(Sheet::bytes).sum());
        }
        false
    }

    /// Writes the stored samples. True once all are written.
    fn write(&mut self, means: &mut Means<'_>, enough: usize, out: &mut Vec<u8>) -> bool {
        let Self { metrics, sheets, writing: Some(place), .. } = self else { return true };
        while let Some(metric) = metrics.get_mut(place.metric) {
            metric.follow(means.title);
            while let Some(sheet) = sheets.get(place.sheet) {
                if out.len() >= enough || *means.left == 0 {
                    return false;
                }
                sheet.write(metric, place.metric, &mut place.object, enough, out);
                *means.left -= 1;
                if place.object == sheet.objects() {
                    (place.sheet, place.object) = (place.sheet + 1, 0);
                }
            }
            metric.lead(means.title);
            *place = NextSample { metric: place.metric + 1, ..NextSample::default() };
        }
        true
    }
}

/// Reading this number of fields takes about as long as visiting one object.
const METRICS_PER_VISIT: usize = 8;
