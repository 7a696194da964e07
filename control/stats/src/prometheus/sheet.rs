//! A table of samples: filled object by object, written metric by metric.

use super::samples::{MetricSample, Samples};
use crate::row::{FieldValue, StatsRow};

/// The samples of a few objects, with their labels and one column per metric.
///
/// A sample takes 9 bytes: 6 MB for the 60 metrics of 10,000 servers. [`ScrapeMemory`] bounds the sum of all scrapes.
///
/// [`ScrapeMemory`]: super::ScrapeMemory
#[derive(Debug)]
pub(super) struct Sheet {
    /// The concatenated encoded labels of the objects.
    labels: Vec<u8>,
    /// End offset of each object's labels.
    ends: Vec<u32>,
    /// The samples, metric by metric, with [`OBJECTS_PER_SHEET`] slots per metric.
    tags: Vec<Tag>,
    values: Vec<u64>,
}

/// The kind of a sample. The value is stored separately.
#[derive(Clone, Copy, Debug)]
enum Tag {
    Absent,
    Unknown,
    Unsigned,
    Signed,
    Float,
    State,
    NoState,
}

/// Maximum number of objects per sheet. Reading them, with all fields of a server, takes about as long as writing one piece.
pub(super) const OBJECTS_PER_SHEET: usize = 32;

impl Sheet {
    /// An empty sheet for this number of metrics.
    pub(super) fn new(metrics: usize) -> Self {
        let samples = metrics * OBJECTS_PER_SHEET;
        Self {
            labels: Vec::with_capacity(OBJECTS_PER_SHEET * USUAL_LABELS),
            ends: Vec::with_capacity(OBJECTS_PER_SHEET),
            tags: vec![Tag::Absent; samples],
            values: vec![0; samples],
        }
    }

    /// Number of objects in the sheet.
    pub(super) fn objects(&self) -> usize {
        self.ends.len()
    }

    /// Whether the sheet is full.
    pub(super) fn is_full(&self) -> bool {
        self.objects() == OBJECTS_PER_SHEET
    }

    /// Memory use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.labels.capacity()
            + size_of::<u32>() * OBJECTS_PER_SHEET
            + (size_of::<u64>() + size_of::<Tag>()) * self.values.capacity()
    }

    /// Adds an object. The sheet must not be full.
    pub(super) fn read(&mut self, metrics: &[Samples], row: &StatsRow) {
        let Some(first) = metrics.first() else { return };
        let object = self.ends.len();
        first.write_labels(row, &mut self.labels);
        self.ends.push(u32::try_from(self.labels.len()).unwrap_or(u32::MAX));
        for (at, metric) in metrics.iter().enumerate() {
            let place = at * OBJECTS_PER_SHEET + object;
            (self.tags[place], self.values[place]) = packed(metric.read(row));
        }
    }

    /// Writes the samples of metric `at`, for the objects from `next` on, until `out` holds `enough` bytes.
    pub(super) fn write(
        &self,
        metric: &mut Samples,
        at: usize,
        next: &mut usize,
        enough: usize,
        out: &mut Vec<u8>,
    ) {
        let mut start = next.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        while *next < self.ends.len() && out.len() < enough {
            let place = at * OBJECTS_PER_SHEET + *next;
            let end = self.ends[*next] as usize;
            metric.write(unpacked(self.tags[place], self.values[place]), &self.labels[start..end], out);
            start = end;
            *next += 1;
        }
    }

    /// Keeps only the first `metrics` metrics.
    pub(super) fn truncate(&mut self, metrics: usize) {
        let samples = metrics * OBJECTS_PER_SHEET;
        self.tags.truncate(samples);
        self.tags.shrink_to_fit();
        self.values.truncate(samples);
        self.values.shrink_to_fit();
    }

    /// Removes all objects.
    pub(super) fn clear(&mut self) {
        self.labels.clear();
        self.ends.clear();
    }
}

/// Usual length of the labels: `{proxy="backend",server="server"`, with some reserve.
const USUAL_LABELS: usize = 48;

fn packed(sample: MetricSample) -> (Tag, u64) {
    match sample {
        MetricSample::Absent => (Tag::Absent, 0),
        MetricSample::Number(FieldValue::Empty | FieldValue::Text(_)) => (Tag::Unknown, 0),
        MetricSample::Number(FieldValue::U32(number)) => (Tag::Unsigned, number.into()),
        MetricSample::Number(FieldValue::U64(number)) => (Tag::Unsigned, number),
        MetricSample::Number(FieldValue::S32(number)) => (Tag::Signed, i64::from(number).cast_unsigned()),
        MetricSample::Number(FieldValue::Float(number)) => (Tag::Float, number.to_bits()),
        MetricSample::State(Some(state)) => (Tag::State, state.into()),
        MetricSample::State(None) => (Tag::NoState, 0),
    }
}

/// The original sample, except that an unsigned number may have another width.
#[inline]
fn unpacked(tag: Tag, value: u64) -> MetricSample {
    match tag {
        Tag::Absent => MetricSample::Absent,
        Tag::Unknown => MetricSample::Number(FieldValue::Empty),
        Tag::Unsigned => MetricSample::Number(FieldValue::U64(value)),
        Tag::Signed => MetricSample::Number(FieldValue::S32(value as i32)),
        Tag::Float => MetricSample::Number(FieldValue::Float(f64::from_bits(value))),
        Tag::State => MetricSample::State(Some(value as u8)),
        Tag::NoState => MetricSample::State(None),
    }
}
