//! The filters of a stream: created from the configuration of its proxies, for both of its directions.
//!
//! The frontend's come first, then the backend's, in both directions, unless `filter-sequence` sets another order
//! (manual, 9). A proxy without filters costs one branch.

mod bandwidth;
mod shared_bandwidth;
mod trace;

use std::rc::Rc;

use weir_model::BandwidthFilter;
use weir_mux::Filter;

pub(crate) use bandwidth::Rate;
use bandwidth::{Bandwidth, Limit};
use shared_bandwidth::{SharedBandwidth, SharedEntry};
pub(crate) use trace::{Label, Trace};

/// A stream's record of its filters.
#[derive(Default)]
pub(crate) struct Attached {
    pub(crate) limits: Vec<Handle>,
    pub(crate) traces: Vec<Label>,
}

/// A rule's access to a bandwidth limit.
pub(crate) struct Handle {
    /// The index of the proxy that has the filter.
    pub(crate) proxy: usize,
    /// The filter's position among those of the proxy.
    pub(crate) position: usize,
    pub(crate) bound: Bound,
}

/// The limit that rules set, for the filters of both directions.
#[derive(Clone)]
pub(crate) enum Bound {
    /// The stream's own rate.
    Own(Limit),
    /// The entry of the key; all its streams share the limit.
    Shared(Rc<SharedEntry>),
}

impl Bound {
    pub(crate) fn of(configured: &BandwidthFilter) -> Bound {
        match configured.shared {
            Some(_) => Bound::Shared(Rc::default()),
            None => Bound::Own(Rc::default()),
        }
    }

    /// The filter of one direction.
    pub(crate) fn filter(&self, configured: &BandwidthFilter) -> Box<dyn Filter> {
        match self {
            Bound::Own(limit) => Box::new(Bandwidth::new(Rc::clone(limit), configured.min_size)),
            Bound::Shared(entry) => {
                let data = configured.direction.bytes_rate();
                Box::new(SharedBandwidth::new(Rc::clone(entry), data, configured.limit, configured.min_size))
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.traces.iter().rev().for_each(Label::detached);
    }
}
