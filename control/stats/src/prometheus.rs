//! Figures as Prometheus scrapes them: the text exposition format, version 0.0.4.
//!
//! Names, labels and their order are what dashboards and alerts of the reference read. A metric is a figure of the
//! dictionaries ([`crate::fields`], [`crate::info`]) under the name that it has there; what has no figure is no metric.
//!
//! ```text
//! query ── MetricsRequest::parse ──► MetricsDump ── advance ──► scope by scope, metric by metric, object by object
//! ```
//!
//! All values of one metric stand together, so each metric is a pass over the objects. That is dear with thousands of
//! servers; `metrics=` and `scope=` leave out passes, not only lines.

mod dump;
mod line;
mod metrics;
mod request;

pub use dump::MetricsDump;
pub use metrics::NAME_SERVER_FIGURES;
pub use request::{MetricsRequest, Scope};

use crate::source::StatsSource;

/// The `Content-Type` of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// What a scrape reads: the rows of the statistics, stick-tables and name servers.
pub trait MetricsSource: StatsSource {
    /// The stick-table at this position; none behind the last one.
    fn table(&self, position: usize) -> Option<TableFigures<'_>>;

    /// The name server at this position, section by section; none behind the last one.
    fn name_server(&self, position: usize) -> Option<NameServerFigures<'_>>;
}

/// What is known of a stick-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFigures<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type of its keys.
    pub key_type: &'a str,
    /// How many entries it may have.
    pub size: u32,
    /// How many it has.
    pub used: u32,
}

/// What is counted of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServerFigures<'a> {
    /// The `resolvers` section.
    pub section: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The counters, in the order of [`NAME_SERVER_FIGURES`].
    pub figures: [u64; NAME_SERVER_FIGURES.len()],
}
