//! Percentiles from `show latency`, a command that only weir has.

use std::collections::HashMap;

use super::table::{PrintedRow, PrintedTable};
use crate::text::clean;

/// The phases of an exchange, in array order.
pub(crate) const PHASES: [&str; 4] = ["queue", "connect", "response", "total"];

/// The percentiles of one phase, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub count: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub most: u64,
}

/// The percentiles of one row, by phase.
pub(crate) type Latencies = [Option<Percentiles>; 4];

/// Parses `show latency`. The keys are proxy and name, as in `show stat`.
pub(crate) fn read_all(text: &str, most: usize) -> Option<HashMap<(String, String), Latencies>> {
    let table = PrintedTable::read(text)?;
    let mut found: HashMap<(String, String), Latencies> = HashMap::new();
    for line in table.lines().take(most.saturating_mul(PHASES.len())) {
        let key = (clean(line.text("pxname"), 256), clean(line.text("svname"), 256));
        if let Some(phase) = PHASES.iter().position(|&phase| phase == line.text("phase")) {
            found.entry(key).or_default()[phase] = Some(percentiles(&line));
        }
    }
    Some(found)
}

fn percentiles(line: &PrintedRow<'_>) -> Percentiles {
    let count = |column| line.number(column).unwrap_or(0);
    Percentiles {
        count: count("count"),
        p50: count("p50_us"),
        p90: count("p90_us"),
        p99: count("p99_us"),
        p999: count("p99.9_us"),
        most: count("max_us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn show_latency_lines_of_one_object_are_grouped_by_phase() {
        let text = "# pxname,svname,phase,count,mean_us,p50_us,p90_us,p99_us,p99.9_us,max_us\n\
                    app,s1,queue,6,0,0,0,0,0,0\napp,s1,total,7,303,351,426,430,440,450\napp,s1,nosuch,1,1,1,1,1,1,1\n";
        let found = read_all(text, 10).expect("a table");
        let latencies = found[&("app".to_owned(), "s1".to_owned())];
        assert_eq!(
            latencies[3],
            Some(Percentiles { count: 7, p50: 351, p90: 426, p99: 430, p999: 440, most: 450 })
        );
        assert_eq!((latencies[0].map(|p| p.count), latencies[1]), (Some(6), None));
        assert!(read_all("Unknown command: 'show latency'\n", 10).is_none());
    }
}
