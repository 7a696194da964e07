//! Samples as Protocol Buffers: delimited messages `io.prometheus.client.MetricFamily` (prometheus/client_model, `metrics.proto`).
//!
//! Only this format has native histograms. Each sample is a family of its own, so that no sample is held back until all objects are
//! read. A reader that merges the messages in order, as Prometheus does, gets the same result.

use weir_events::HistogramReading;

use super::line::write_name;
use super::metrics::Metric;
use super::request::MetricScope;

/// The metric family of a sample.
pub(super) struct MetricFamily {
    pub scope: MetricScope,
    pub metric: &'static Metric,
}

impl MetricFamily {
    /// Writes a sample with these labels and a number.
    pub(super) fn number(&self, labels: &[u8], value: f64, out: &mut Vec<u8>) {
        let (field, kind) = match self.metric.type_word() {
            "counter" => (METRIC_COUNTER, TYPE_COUNTER),
            _ => (METRIC_GAUGE, TYPE_GAUGE),
        };
        let mut number = Vec::new();
        double(NUMBER_VALUE, value, &mut number);
        self.write(kind, labels, field, &number, out);
    }

    /// Writes a sample with these labels and a histogram in microseconds, as a native histogram in seconds.
    pub(super) fn distribution(&self, labels: &[u8], reading: &HistogramReading, out: &mut Vec<u8>) {
        self.write(TYPE_HISTOGRAM, labels, METRIC_HISTOGRAM, &native(reading), out);
    }

    fn write(&self, kind: u64, labels: &[u8], field: u32, value: &[u8], out: &mut Vec<u8>) {
        let mut metric = labels.to_vec();
        bytes(field, value, &mut metric);
        let mut name = Vec::new();
        write_name(self.scope, self.metric.name, &mut name);
        let mut family = Vec::new();
        bytes(FAMILY_NAME, &name, &mut family);
        bytes(FAMILY_HELP, self.metric.description().as_bytes(), &mut family);
        number(FAMILY_TYPE, kind, &mut family);
        bytes(FAMILY_METRIC, &metric, &mut family);
        varint(family.len() as u64, out);
        out.extend_from_slice(&family);
    }
}

/// Appends a label in its encoding.
pub(super) fn label(name: &str, value: &str, out: &mut Vec<u8>) {
    let mut pair = Vec::new();
    bytes(1, name.as_bytes(), &mut pair);
    bytes(2, value.as_bytes(), &mut pair);
    bytes(METRIC_LABEL, &pair, out);
}

/// A native histogram with buckets of [`SCHEMA`]. Each counts the values of our buckets with their middle in it. Both kinds are
/// narrow, so the error of a value is a tenth at most.
fn native(reading: &HistogramReading) -> Vec<u8> {
    let mut zeros = 0;
    let mut buckets: Vec<(i64, u64)> = Vec::new();
    for (low, high, count) in reading.buckets() {
        if high == 0 {
            zeros = count;
            continue;
        }
        let middle = (low as f64 + high as f64) / 2e6;
        let index = (middle.log2() * f64::from(1 << SCHEMA)).ceil() as i64;
        match buckets.last_mut().filter(|(last, _)| *last == index) {
            Some((_, counted)) => *counted += count,
            None => buckets.push((index, count)),
        }
    }
    let mut out = Vec::new();
    number(HISTOGRAM_COUNT, reading.count(), &mut out);
    double(HISTOGRAM_SUM, reading.sum() as f64 / 1e6, &mut out);
    number(HISTOGRAM_SCHEMA, zigzag(SCHEMA.into()), &mut out);
    double(HISTOGRAM_ZERO_THRESHOLD, ZERO_THRESHOLD, &mut out);
    number(HISTOGRAM_ZERO_COUNT, zeros, &mut out);
    // A span is a run of adjacent buckets: its distance from the end of the previous span, and its length.
    let mut end = 0;
    for span in buckets.chunk_by(|(left, _), (right, _)| left + 1 == *right) {
        let mut message = Vec::new();
        number(SPAN_OFFSET, zigzag(span[0].0 - end), &mut message);
        number(SPAN_LENGTH, span.len() as u64, &mut message);
        bytes(HISTOGRAM_POSITIVE_SPAN, &message, &mut out);
        end = span[0].0 + span.len() as i64;
    }
    // Without any span, readers would not recognize an empty histogram as native.
    if buckets.is_empty() {
        bytes(HISTOGRAM_POSITIVE_SPAN, &[], &mut out);
    }
    let mut before = 0;
    for (_, count) in &buckets {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        number(HISTOGRAM_POSITIVE_DELTA, zigzag(count - before), &mut out);
        before = count;
    }
    out
}

fn number(field: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(field) << 3, out);
    varint(value, out);
}

fn double(field: u32, value: f64, out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn bytes(field: u32, value: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Eight buckets per power of two, each 9 per cent wide. Our own are narrower, 3 to 6 per cent.
const SCHEMA: u8 = 3;
/// Values up to this count as zero, in seconds. Our smallest non-zero value is a thousand times larger.
const ZERO_THRESHOLD: f64 = 1e-9;

const FAMILY_NAME: u32 = 1;
const FAMILY_HELP: u32 = 2;
const FAMILY_TYPE: u32 = 3;
const FAMILY_METRIC: u32 = 4;
const TYPE_COUNTER: u64 = 0;
const TYPE_GAUGE: u64 = 1;
const TYPE_HISTOGRAM: u64 = 4;
const METRIC_LABEL: u32 = 1;
const METRIC_GAUGE: u32 = 2;
const METRIC_COUNTER: u32 = 3;
const METRIC_HISTOGRAM: u32 = 7;
const NUMBER_VALUE: u32 = 1;
const HISTOGRAM_COUNT: u32 = 1;
const HISTOGRAM_SUM: u32 = 2;
const HISTOGRAM_SCHEMA: u32 = 5;
const HISTOGRAM_ZERO_THRESHOLD: u32 = 6;
const HISTOGRAM_ZERO_COUNT: u32 = 7;
const HISTOGRAM_POSITIVE_SPAN: u32 = 12;
const HISTOGRAM_POSITIVE_DELTA: u32 = 13;
const SPAN_OFFSET: u32 = 1;
const SPAN_LENGTH: u32 = 2;

#[cfg(test)]
mod tests {
    use weir_events::Histogram;

    use super::*;

    /// A native histogram of these values in microseconds, as encoded fields.
    fn histogram(values: &[u64]) -> Vec<u8> {
        let histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(*value));
        let mut reading = HistogramReading::default();
        histogram.read_into(&mut reading);
        native(&reading)
    }

    #[test]
    fn encodes_histogram_buckets_as_spans_and_deltas() {
        // 1 s is the upper boundary of bucket 0, 4 s the upper boundary of bucket 16. 0.9 s is in bucket -1.
        let found = histogram(&[0, 0, 900_000, 910_000, 1_000_000, 4_000_000]);
        let mut wanted = Vec::new();
        number(HISTOGRAM_COUNT, 6, &mut wanted);
        double(HISTOGRAM_SUM, 6.81, &mut wanted);
        number(HISTOGRAM_SCHEMA, 6, &mut wanted);
        double(HISTOGRAM_ZERO_THRESHOLD, ZERO_THRESHOLD, &mut wanted);
        number(HISTOGRAM_ZERO_COUNT, 2, &mut wanted);
        // Two buckets starting at -1, then bucket 16, after a gap of 15.
        bytes(HISTOGRAM_POSITIVE_SPAN, &[8, 1, 16, 2], &mut wanted);
        bytes(HISTOGRAM_POSITIVE_SPAN, &[8, zigzag(15) as u8, 16, 1], &mut wanted);
        for delta in [2, -1, 0] {
            number(HISTOGRAM_POSITIVE_DELTA, zigzag(delta), &mut wanted);
        }
        assert_eq!(found, wanted);
    }

    #[test]
    fn an_empty_histogram_has_an_empty_span() {
        let found = histogram(&[]);
        assert_eq!(found[found.len() - 2..], [(HISTOGRAM_POSITIVE_SPAN << 3 | 2) as u8, 0]);
    }

    #[test]
    fn encodes_varints_and_zigzag_integers() {
        let mut out = Vec::new();
        [0, 127, 128, 300, u64::MAX].iter().for_each(|value| varint(*value, &mut out));
        assert_eq!(out[..6], [0, 127, 128, 1, 172, 2]);
        assert_eq!(out.len(), 6 + 10);
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }
}
