//! Prometheus metrics: the text exposition format, version 0.0.4, or Protocol Buffers messages with native histograms.
//!
//! Dashboards and alerts for HAProxy depend on the names, labels and their order. A metric is a field of the dictionaries
//! ([`crate::fields`], [`crate::info`]) with HAProxy's name. A missing field omits the metric.
//!
//! ```text
//! query ── MetricsRequest::parse ──► MetricsDump ── advance ──► scope by scope, metric by metric, object by object
//! ```
//!
//! All values of one metric are adjacent. A scrape must not visit thousands of servers once per metric. So it reads the samples of
//! many metrics in one pass, into memory shared by all scrapes ([`ScrapeMemory`]). `metrics=` and `scope=` save work, not only lines.

mod batch;
mod dump;
mod line;
mod memory;
mod metrics;
mod protobuf;
mod request;
mod samples;
mod sheet;

pub use dump::MetricsDump;
pub use memory::ScrapeMemory;
pub use request::{AnswerForm, MetricScope, MetricsRequest};

use crate::name_server;
use crate::source::StatsSource;

/// The metric names for a field of `show stat` or `show info`, with a label where needed. Empty if the field is not a metric.
pub fn names_of(field: &str) -> Vec<String> {
    let scoped = MetricScope::ALL
        .into_iter()
        .flat_map(|scope| metrics::Metric::of(scope).map(move |metric| (scope, metric)));
    let of_field = scoped.filter(|(_, metric)| metric.field() == Some(field));
    of_field
        .map(|(scope, metric)| {
            let (label, value) = metric.label;
            let label = if label.is_empty() { String::new() } else { format!("{{{label}=\"{value}\"}}") };
            format!("haproxy_{}_{}{label}", scope.prefix(), metric.name)
        })
        .collect()
}

/// The data of a scrape: the rows of the statistics, stick-tables and name servers.
pub trait MetricsSource: StatsSource {
    /// The stick-table with this index. `None` after the last one.
    fn table(&self, position: usize) -> Option<TableMetrics<'_>>;

    /// The name server with this index, section by section. `None` after the last one.
    fn name_server(&self, position: usize) -> Option<NameServerMetrics<'_>>;
}

/// The metrics of a stick-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMetrics<'a> {
    pub name: &'a str,
    pub key_type: &'a str,
    /// Maximum number of entries.
    pub size: u32,
    /// Current number of entries.
    pub used: u32,
    /// Number of entries evicted to make room for others.
    pub evicted: u64,
    /// Number of entries refused because the table was full.
    pub refused: u64,
}

/// The counters of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServerMetrics<'a> {
    /// The `resolvers` section.
    pub section: &'a str,
    pub name: &'a str,
    /// The counter values, in the order of [`name_server::COUNTERS`].
    pub counters: [u64; name_server::COUNTERS.len()],
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_statistics_field_has_prometheus_metric_names() {
        assert_eq!(super::names_of("hrsp_2xx")[0], "haproxy_frontend_http_responses_total{code=\"2xx\"}");
        assert_eq!(super::names_of("CurrConns"), ["haproxy_process_current_connections"]);
        assert!(super::names_of("check_code").iter().all(|name| name.starts_with("haproxy_server_")));
        assert!(super::names_of("pxname").is_empty());
    }
}
