//! Statistics: the counters of every object as CSV, typed lines, JSON, Prometheus metrics, and HTML page.
//!
//! The crate knows the dictionary of fields ([`fields`], [`info`]) and the output formats. It does not know the origin of the values: a
//! [`StatsSource`] fills one [`StatsRow`] per object, and the formats are written from these rows in bounded pieces. So a page about
//! thousands of servers neither blocks a worker nor fills its memory.
//!
//! Begin with [`StatsSource`] and [`StatsDump`]. HTTP uses [`StatsRequest`], [`StatsAnswer`] and [`admin::post`], Prometheus
//! [`MetricsDump`], and latency percentiles [`LatencyDump`].

pub mod admin;
pub mod answer;
pub mod dump;
mod field_set;
pub mod fields;
pub mod info;
pub mod latency;
pub mod name_server;
pub mod page;
pub mod prometheus;
pub mod render;
pub mod row;
pub mod schema;
pub mod source;
pub mod uri;

pub use answer::StatsAnswer;
pub use dump::{DumpProgress, StatsDump};
pub use field_set::FieldSet;
pub use fields::{FIELD_COUNT, StatsField, StatsObject};
pub use info::{InfoField, InfoRow};
pub use latency::LatencyDump;
pub use page::{PageDump, PageSettings};
pub use prometheus::{MetricsDump, MetricsRequest, MetricsSource};
pub use render::Format;
pub use row::{FieldValue, Health, Latencies, ProxyHead, StatsRow};
pub use source::{RowCursor, RowSelection, StatsSource};
pub use uri::{FormStatus, StatsRequest, What};
