//! Metrics for Prometheus: the text exposition format, version 0.0.4.
//!
//! Dashboards and alerts for HAProxy read the names, labels and their order. A metric is a figure of the dictionaries
//! ([`crate::fields`], [`crate::info`]) with HAProxy's name; without a figure there is no metric.
//!
//! ```text
//! query ── MetricsRequest::parse ──► MetricsDump ── advance ──► scope by scope, metric by metric, object by object
//! ```
//!
//! All values of one metric are adjacent, so each metric is a pass over the objects. That is expensive with thousands
//! of servers; `metrics=` and `scope=` save passes, not only lines.

mod dump;
mod line;
mod metrics;
mod request;

pub use dump::MetricsDump;
pub use request::{MetricsRequest, Scope};

use crate::name_server;
use crate::source::StatsSource;

/// The `Content-Type` of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// The data of a scrape: the rows of the statistics, stick-tables and name servers.
pub trait MetricsSource: StatsSource {
    /// The stick-table with this index; none after the last one.
    fn table(&self, position: usize) -> Option<TableFigures<'_>>;

    /// The name server with this index, section by section; none after the last one.
    fn name_server(&self, position: usize) -> Option<NameServerFigures<'_>>;
}

/// The figures of a stick-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFigures<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type of its keys.
    pub key_type: &'a str,
    /// The limit of its entries.
    pub size: u32,
    /// The number of its entries.
    pub used: u32,
}

/// The counters of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServerFigures<'a> {
    /// The `resolvers` section.
    pub section: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The counters, in the order of [`name_server::FIGURES`].
    pub figures: [u64; name_server::FIGURES.len()],
}
