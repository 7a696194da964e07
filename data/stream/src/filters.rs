//! The filters on messages, each declared by a row next to its arguments and its implementation.
//!
//! A filter is a type that holds the arguments and implements [`StreamFilter`], and a row: name, arguments, example, help, and the
//! function that parses the arguments into the type. Both are in one of the files below this one. [`FILTERS`] has all rows. No other
//! code knows a filter by name: the configuration checks and the log read its [`FilterFacts`].
//!
//! For each stream a filter creates its [`FilterParts`]: a filter for each direction (`weir-mux`), and an [`Attachment`] that receives
//! the events of the stream. `filtering.rs` attaches them. A filter that needs the whole stream, as those of scripts, requests a call from its
//! transfer, and the stream makes it (`script.rs`).

mod application;
mod bandwidth;
mod compression;
mod script;
mod shared_bandwidth;
mod spoe;
#[cfg(test)]
mod tests;
mod trace;

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use weir_config::proxy::{FilterReader, FilterTable};
use weir_config::rows;
use weir_fingerprint::Canonical;
use weir_model::{FilterArguments, FilterDirection, FilterFacts, Visit};
use weir_mux::Filter;

pub(crate) use self::bandwidth::limit_bandwidth;
pub(crate) use self::compression::{response_algorithm, saved_bytes, take_saved_bytes};

use crate::instance::Proxy;
use crate::stream::Stream;
use crate::stream::attached::Attachment;

/// Every filter, in the order used in error messages.
pub(crate) static FILTERS: FilterTable = FilterTable::new(&[
    bandwidth::ROWS,
    compression::ROWS,
    trace::ROWS,
    spoe::ROWS,
    script::ROWS,
    application::ROWS,
    NOT_YET,
]);

/// The row of a filter.
type Row = rows::Row<FilterReader>;

/// Filters of HAProxy's language that are not implemented yet. Their use is an error.
const NOT_YET: &[Row] = &[
    Row::not_yet("cache", "<name>", "keep responses in a cache"),
    Row::not_yet("opentracing", "[id <id>] config <file>", "report streams to OpenTracing"),
];

/// The arguments of a filter, and its effect on a stream.
pub(crate) trait StreamFilter: Any + Debug + Canonical + Send + Sync {
    /// Whether the filter handles this direction.
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    /// Creates the filter's parts for a stream. The filter belongs to `proxy`: the stream's frontend, or the backend that was just chosen.
    fn attach(&self, stream: &Stream, proxy: &Proxy) -> FilterParts;

    /// Visits the references of every expression and format in the arguments. Names are resolved, and passwords verified ahead, through
    /// these visits.
    fn visit_references(&self, _: Visit<'_>) {}

    /// Facts about the filter for code outside the stream.
    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts::NONE
    }

    /// Converts the filter to the form in the configuration.
    fn into_arguments(self) -> Arc<dyn FilterArguments>
    where
        Self: Sized,
    {
        let filter: Box<dyn StreamFilter> = Box::new(self);
        Arc::new(filter)
    }
}

impl FilterArguments for Box<dyn StreamFilter> {
    fn sees(&self, direction: FilterDirection) -> bool {
        (**self).sees(direction)
    }

    fn facts(&self) -> FilterFacts<'_> {
        (**self).facts()
    }

    fn visit_references(&self, visit: Visit<'_>) {
        (**self).visit_references(visit);
    }
}

/// The parts of one filter on one stream.
#[derive(Default)]
pub(crate) struct FilterParts {
    pub request: Option<Box<dyn Filter>>,
    pub response: Option<Box<dyn Filter>>,
    /// Receives the events of the stream.
    pub attachment: Option<Box<dyn Attachment>>,
}

impl FilterParts {
    /// Creates the parts of a configured filter.
    pub(crate) fn of(filter: &weir_model::Filter, stream: &Stream, proxy: &Proxy) -> FilterParts {
        // Every filter declared in this crate is a [`StreamFilter`].
        stream_filter(filter).map(|filter| filter.attach(stream, proxy)).unwrap_or_default()
    }
}

/// The filter's implementation. `None` if another crate declared the filter.
fn stream_filter(filter: &weir_model::Filter) -> Option<&dyn StreamFilter> {
    filter.arguments::<Box<dyn StreamFilter>>().map(|filter| &**filter)
}

/// The arguments of a filter. `None` if the filter has another type.
fn arguments<F: StreamFilter>(filter: &weir_model::Filter) -> Option<&F> {
    let filter: &dyn Any = stream_filter(filter)?;
    filter.downcast_ref()
}
