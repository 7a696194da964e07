//! One sample: a text line, `haproxy_server_status{proxy="be",server="s1",state="UP"} 1`, or a Protocol Buffers message.

use std::io::Write;

use weir_events::HistogramReading;

use super::metrics::Metric;
use super::protobuf;
use super::request::{AnswerForm, MetricScope};
use crate::render::{write_float, write_number};
use crate::row::FieldValue;

/// A sample in progress. Writing its value completes it.
pub(super) struct SampleLine<'o> {
    out: &'o mut Vec<u8>,
    form: SampleProgress,
}

/// The parts of the sample so far.
enum SampleProgress {
    /// The name, and possibly labels, have been written.
    Text { labelled: bool },
    /// The metric family, and the encoded labels.
    Protobuf { family: protobuf::MetricFamily, labels: Vec<u8> },
}

impl<'o> SampleLine<'o> {
    /// Starts the text line of a metric with this complete name.
    #[inline]
    pub(super) fn named(name: &[u8], out: &'o mut Vec<u8>) -> Self {
        out.extend_from_slice(name);
        SampleLine { out, form: SampleProgress::Text { labelled: false } }
    }

    /// Starts the message of a metric.
    pub(super) fn of_family(scope: MetricScope, metric: &'static Metric, out: &'o mut Vec<u8>) -> Self {
        let family = protobuf::MetricFamily { scope, metric };
        SampleLine { out, form: SampleProgress::Protobuf { family, labels: Vec::new() } }
    }

    /// Adds labels encoded by [`write_label`] for the same format. Labels encoded as the first must precede all others.
    #[inline]
    pub(super) fn encoded(mut self, encoded: &[u8]) -> Self {
        match &mut self.form {
            SampleProgress::Text { labelled } => {
                *labelled |= !encoded.is_empty();
                self.out.extend_from_slice(encoded);
            }
            SampleProgress::Protobuf { labels, .. } => labels.extend_from_slice(encoded),
        }
        self
    }

    /// Adds a label.
    pub(super) fn label(mut self, name: &str, value: &str) -> Self {
        match &mut self.form {
            SampleProgress::Text { labelled } => {
                write_label(AnswerForm::Text, !*labelled, name, value, self.out);
                *labelled = true;
            }
            SampleProgress::Protobuf { labels, .. } => protobuf::label(name, value, labels),
        }
        self
    }

    /// Completes the sample with a number. An unknown value is `NaN`.
    #[inline]
    pub(super) fn number(self, value: FieldValue<'_>) {
        if let FieldValue::U64(digit @ 0..=9) = value
            && let SampleProgress::Text { labelled: true } = self.form
        {
            // A fast path: most samples of a scrape are single digits.
            return self.out.extend_from_slice(&[b'}', b' ', b'0' + digit as u8, b'\n']);
        }
        self.write(
            || value_of(value),
            |out| match value {
                FieldValue::Empty | FieldValue::Text(_) => out.extend_from_slice(b"NaN"),
                FieldValue::Float(number) => write_float(number, out),
                whole => write_number(whole, out),
            },
        );
    }

    /// Completes the sample with a time in milliseconds, written in seconds.
    #[inline]
    pub(super) fn seconds(self, value: FieldValue<'_>) {
        let milliseconds = match value {
            FieldValue::U32(number) => u64::from(number),
            FieldValue::U64(number) => number,
            other => return self.number(other),
        };
        self.write(
            || milliseconds as f64 / 1e3,
            |out| {
                write_number(FieldValue::U64(milliseconds / 1000), out);
                let digit = |unit: u64| b'0' + (milliseconds / unit % 10) as u8;
                out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'0', b'0', b'0']);
            },
        );
    }

    /// Completes the sample with a time in microseconds, written in seconds.
    pub(super) fn microseconds(self, microseconds: u64) {
        self.write(
            || microseconds as f64 / 1e6,
            |out| {
                // Writing to a vector does not fail.
                let _ = write!(out, "{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000);
            },
        );
    }

    /// Completes the sample with a histogram in microseconds. No effect in the text format, where a histogram is several samples.
    pub(super) fn distribution(self, reading: &HistogramReading) {
        if let SampleProgress::Protobuf { family, labels } = self.form {
            family.distribution(&labels, reading, self.out);
        }
    }

    /// Completes the sample with a value, encoded for the format.
    #[inline]
    fn write(self, value: impl FnOnce() -> f64, write_text: impl FnOnce(&mut Vec<u8>)) {
        match self.form {
            SampleProgress::Text { labelled } => {
                self.out.extend_from_slice(if labelled { b"} " } else { b" " });
                write_text(self.out);
                self.out.push(b'\n');
            }
            SampleProgress::Protobuf { family, labels } => family.number(&labels, value(), self.out),
        }
    }
}

fn value_of(value: FieldValue<'_>) -> f64 {
    match value {
        FieldValue::Empty | FieldValue::Text(_) => f64::NAN,
        FieldValue::U32(number) => number.into(),
        FieldValue::S32(number) => number.into(),
        FieldValue::U64(number) => number as f64,
        FieldValue::Float(number) => number,
    }
}

/// Appends a label in the encoding of `form`.
pub(super) fn write_label(form: AnswerForm, is_first: bool, name: &str, value: &str, out: &mut Vec<u8>) {
    match form {
        AnswerForm::Text => {
            out.push(if is_first { b'{' } else { b',' });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"=\"");
            write_escaped(value, out);
            out.push(b'"');
        }
        AnswerForm::Protobuf => protobuf::label(name, value, out),
    }
}

/// The `# HELP` and `# TYPE` lines before the first value of a metric.
pub(super) fn write_title(name: &[u8], help: &str, type_: &str, out: &mut Vec<u8>) {
    for part in [b"# HELP ", name, b" ", help.as_bytes(), b"\n# TYPE ", name, b" ", type_.as_bytes(), b"\n"] {
        out.extend_from_slice(part);
    }
}

/// The complete name of a metric.
pub(super) fn write_name(scope: MetricScope, name: &str, out: &mut Vec<u8>) {
    for part in ["haproxy_", scope.prefix(), "_", name] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Writes a label value with backslash, quote and newline escaped. HAProxy leaves them unescaped, which scrapers cannot parse.
fn write_escaped(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(SampleLine<'_>), want: &str) {
        let mut out = Vec::new();
        write(SampleLine::named(b"haproxy_server_x", &mut out));
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn writes_the_metric_name_labels_and_value() {
        check(|line| line.number(FieldValue::U32(7)), "haproxy_server_x 7\n");
        check(|line| line.label("a", "b").number(FieldValue::S32(-1)), "haproxy_server_x{a=\"b\"} -1\n");
        check(
            |line| line.label("a", "b").encoded(b",c=\"d\"").number(FieldValue::Empty),
            "haproxy_server_x{a=\"b\",c=\"d\"} NaN\n",
        );
    }

    #[test]
    fn label_values_are_escaped() {
        check(
            |line| line.label("a", "q\"b\\n\nö").number(FieldValue::U64(1)),
            "haproxy_server_x{a=\"q\\\"b\\\\n\\nö\"} 1\n",
        );
    }

    #[test]
    fn millisecond_fields_are_written_in_seconds() {
        check(|line| line.seconds(FieldValue::U32(0)), "haproxy_server_x 0.000000\n");
        check(|line| line.seconds(FieldValue::U64(12_045)), "haproxy_server_x 12.045000\n");
        check(|line| line.seconds(FieldValue::Empty), "haproxy_server_x NaN\n");
    }
}
