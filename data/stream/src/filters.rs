//! The filters of a stream: made of what its proxies configure, put on both of its directions.
//!
//! The frontend's come first, then the backend's; both directions pass them in that order, unless `filter-sequence` says
//! another one (manual, 9). A proxy without filters costs one branch.

mod bandwidth;
mod trace;

use weir_config::model::BandwidthFilter;

use crate::instance::Proxy;

pub(crate) use bandwidth::{Bandwidth, Limit, Rate};
pub(crate) use trace::{Label, Trace};

/// What a stream has to know of its filters.
#[derive(Default)]
pub(crate) struct Attached {
    pub(crate) limits: Vec<Handle>,
    pub(crate) traces: Vec<Label>,
}

/// How rules reach a bandwidth limit.
pub(crate) struct Handle {
    pub(crate) proxy: &'static Proxy,
    pub(crate) configured: &'static BandwidthFilter,
    pub(crate) limit: Limit,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.traces.iter().rev().for_each(Label::detached);
    }
}
