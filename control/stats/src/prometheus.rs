//! Metrics for Prometheus: the text exposition format, version 0.0.4, or messages of Protocol Buffers with native histograms.
//!
//! Dashboards and alerts for HAProxy read the names, labels and their order. A metric is a field of the dictionaries
//! ([`crate::fields`], [`crate::info`]) with HAProxy's name; a missing field omits the metric.
//!
//! ```text
//! query ── MetricsRequest::parse ──► MetricsDump ── advance ──► scope by scope, metric by metric, object by object
//! ```
//!
//! All values of one metric are adjacent. So that a scrape does not walk over thousands of servers once for each metric, it reads the
//! samples of many metrics in one pass and keeps them, in memory that all scrapes share ([`ScrapeMemory`]). `metrics=` and `scope=`
//! save work, not only lines.

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

/// The names of the metrics that a field of `show stat` or `show info` becomes, with the label of those that need one;
/// empty for a field that is not a metric.
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
    /// The stick-table with this index; `None` after the last one.
    fn table(&self, position: usize) -> Option<TableMetrics<'_>>;

    /// The name server with this index, section by section; `None` after the last one.
    fn name_server(&self, position: usize) -> Option<NameServerMetrics<'_>>;
}

/// The metrics of a stick-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMetrics<'a> {
    pub name: &'a str,
    /// The type of its keys.
    pub key_type: &'a str,
    /// The limit of its entries.
    pub size: u32,
    /// The number of its entries.
    pub used: u32,
    /// Entries that others took the place of.
    pub evicted: u64,
    /// Entries that were refused for lack of room.
    pub refused: u64,
}

/// The counters of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServerMetrics<'a> {
    /// The `resolvers` section.
    pub section: &'a str,
    pub name: &'a str,
    /// The counters, in the order of [`name_server::COUNTERS`].
    pub counters: [u64; name_server::COUNTERS.len()],
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields_have_the_names_of_their_metrics() {
        assert_eq!(super::names_of("hrsp_2xx")[0], "haproxy_frontend_http_responses_total{code=\"2xx\"}");
        assert_eq!(super::names_of("CurrConns"), ["haproxy_process_current_connections"]);
        assert!(super::names_of("check_code").iter().all(|name| name.starts_with("haproxy_server_")));
        assert!(super::names_of("pxname").is_empty());
    }
}
