//! `show latency`: latency percentiles by phase.

use std::io::Write;

use weir_events::HistogramReading;

use crate::dump::{DumpProgress, RowWalk, WritesRows, advance};
use crate::fields::StatsField;
use crate::render::{JSON, write_csv_text};
use crate::row::{LATENCY_PHASES, StatsRow};
use crate::source::{RowSelection, StatsSource};

/// The phases: queueing, connecting, waiting for the response, and the total from the first byte of the request to the end.
pub const PHASES: [&str; LATENCY_PHASES] = ["queue", "connect", "response", "total"];

/// The percentiles: column name and fraction.
pub const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// `show latency` in progress.
#[derive(Debug)]
pub struct LatencyDump {
    json: bool,
    /// Only objects with this name. `None` for all.
    object: Option<String>,
    walk: RowWalk,
}

impl LatencyDump {
    /// A dump at the first row, for all objects or those with this name.
    pub fn new(json: bool, selection: RowSelection, object: Option<String>) -> Self {
        let selection = RowSelection { latencies: true, ..selection };
        Self { json, object, walk: RowWalk::new(selection) }
    }

    /// Appends rows until `out` holds at least `enough` bytes, plus at most the rows of one object (about 1 kB and its names). Omits phases
    /// without values. `scratch` is a reusable row.
    pub fn advance(
        &mut self,
        source: &dyn StatsSource,
        scratch: &mut StatsRow,
        enough: usize,
        out: &mut Vec<u8>,
    ) -> DumpProgress {
        advance(self, source, scratch, enough, out)
    }
}

impl WritesRows for LatencyDump {
    fn walk(&mut self) -> &mut RowWalk {
        &mut self.walk
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.json {
            out.push(b'[');
        } else {
            out.extend_from_slice(b"# pxname,svname,phase,count,mean_us");
            PERCENTILES.iter().for_each(|(name, _)| _ = write!(out, ",{name}_us"));
            out.extend_from_slice(b",max_us\n");
        }
    }

    fn row(&mut self, row: &StatsRow, out: &mut Vec<u8>) {
        if self.object.as_deref().is_some_and(|name| name != row.text(StatsField::Svname)) {
            return;
        }
        let Some(latencies) = row.latencies() else { return };
        for (phase, reading) in PHASES.into_iter().zip(latencies).filter(|(_, reading)| !reading.is_empty()) {
            if self.json {
                out.extend_from_slice(if self.walk.has_written { b"," } else { b"" });
                write_json(row, phase, reading, out);
            } else {
                write_csv(row, phase, reading, out);
            }
            self.walk.has_written = true;
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.json { b"]\n" } else { b"" });
    }
}

fn write_csv(row: &StatsRow, phase: &str, reading: &HistogramReading, out: &mut Vec<u8>) {
    write_csv_text(row.text(StatsField::Pxname), out);
    out.push(b',');
    write_csv_text(row.text(StatsField::Svname), out);
    let _ = write!(out, ",{phase},{},{}", reading.count(), reading.mean());
    PERCENTILES.iter().for_each(|(_, share)| _ = write!(out, ",{}", reading.quantile(*share)));
    let _ = writeln!(out, ",{}", reading.largest());
}

fn write_json(row: &StatsRow, phase: &str, reading: &HistogramReading, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"pxname\":");
    JSON.write(row.text(StatsField::Pxname), out);
    out.extend_from_slice(b",\"svname\":");
    JSON.write(row.text(StatsField::Svname), out);
    let (count, mean) = (reading.count(), reading.mean());
    let _ = write!(out, ",\"phase\":\"{phase}\",\"count\":{count},\"mean_us\":{mean}");
    PERCENTILES
        .iter()
        .for_each(|(name, share)| _ = write!(out, ",\"{name}_us\":{}", reading.quantile(*share)));
    let _ = write!(out, ",\"max_us\":{}}}", reading.largest());
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weir_events::Histogram;

    use super::*;
    use crate::fields::StatsObject;
    use crate::info::InfoRow;
    use crate::row::{Latencies, ProxyHead};
    use crate::source::RowCursor;

    /// A frontend without traffic, and a server with some.
    struct Shop;

    impl Shop {
        fn fill(&self, object: usize, row: &mut StatsRow) -> bool {
            let head = ProxyHead {
                id: 2,
                name: "a,\"b\"",
                mode: "http",
                frontend: true,
                backend: true,
                has_servers: true,
                description: None,
            };
            let mut latencies = Latencies::default();
            match object {
                0 => row.begin(StatsObject::Frontend, &head, 0, ""),
                1 => {
                    row.begin(StatsObject::Server, &head, 1, "s1");
                    let (waits, totals) = (Histogram::default(), Histogram::default());
                    (1..=1000).for_each(|us| totals.record(us));
                    waits.record(0);
                    waits.read_into(&mut latencies[0]);
                    totals.read_into(&mut latencies[3]);
                }
                _ => return false,
            }
            row.set_latencies(latencies);
            true
        }
    }

    impl StatsSource for Shop {
        fn visit_rows(
            &self,
            cursor: &mut RowCursor,
            selection: &RowSelection,
            row: &mut StatsRow,
            visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
        ) -> ControlFlow<()> {
            assert!(selection.latencies);
            while self.fill(cursor.object, row) {
                cursor.object += 1;
                visit(row)?;
            }
            ControlFlow::Continue(())
        }

        fn info(&self, _: bool, _: &mut InfoRow) {}
    }

    fn shown(json: bool, object: Option<&str>) -> String {
        let mut dump = LatencyDump::new(json, RowSelection::default(), object.map(str::to_owned));
        let (mut row, mut out) = (StatsRow::default(), Vec::new());
        while dump.advance(&Shop, &mut row, out.len() + 1, &mut out) == DumpProgress::More {}
        String::from_utf8(out).unwrap()
    }

    const HEADER: &str = "# pxname,svname,phase,count,mean_us,p50_us,p90_us,p99_us,p99.9_us,max_us\n";

    #[test]
    fn show_latency_prints_only_phases_with_samples() {
        let want = format!(
            "{HEADER}\"a,\"\"b\"\"\",s1,queue,1,0,0,0,0,0,0\n\"a,\"\"b\"\"\",s1,total,1000,500,511,927,991,1000,1000\n"
        );
        assert_eq!(shown(false, None), want);
        assert_eq!(shown(false, Some("s1")), want);
        assert_eq!(shown(false, Some("FRONTEND")), HEADER);
    }

    #[test]
    fn show_latency_json_has_one_object_for_each_phase() {
        let values: serde_json::Value = serde_json::from_str(&shown(true, None)).unwrap();
        assert_eq!(values.as_array().map(Vec::len), Some(2));
        assert_eq!(values[1]["pxname"], "a,\"b\"");
        assert_eq!((&values[1]["phase"], &values[1]["p99.9_us"]), (&"total".into(), &1000.into()));
        assert_eq!(shown(true, Some("FRONTEND")), "[]\n");
    }
}
