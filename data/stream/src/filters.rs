//! The filters on the messages of streams: one row each, next to its arguments and its effect.
//!
//! A filter is a type with its arguments that implements [`StreamFilter`], and a row: name, arguments, example, help, and the
//! function that reads the arguments into the type. Both stand in one of the files below this one; [`FILTERS`] has all rows.
//! Nothing else knows a filter by its name: the checks of a configuration and the log read its [`FilterFacts`].
//!
//! For each stream a filter makes its [`FilterParts`]: a filter of each direction (`weir-mux`), and an [`Attachment`] that receives the
//! events of the stream. `filtering.rs` attaches them.

mod bandwidth;
mod shared_bandwidth;
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

use crate::instance::Proxy;
use crate::stream::Stream;
use crate::stream::attached::Attachment;

/// Every filter, in the order in which messages list them.
pub(crate) static FILTERS: FilterTable = FilterTable::new(&[bandwidth::ROWS, trace::ROWS, NOT_YET]);

/// The row of a filter.
type Row = rows::Row<FilterReader>;

/// Filters of the language that are not implemented yet: errors.
const NOT_YET: &[Row] = &[
    Row::not_yet("cache", "<name>", "keep responses in a cache"),
    Row::not_yet("comp-req", "", "compress requests"),
    Row::not_yet("comp-res", "", "compress responses"),
    Row::not_yet("compression", "", "compress messages"),
    Row::not_yet("fcgi-app", "<name>", "speak FastCGI with servers"),
    Row::not_yet("opentracing", "[id <id>] config <file>", "report streams to OpenTracing"),
    Row::not_yet("spoe", "[engine <name>] config <file>", "ask agents"),
];

/// The arguments of a filter, and its effect on a stream.
pub(crate) trait StreamFilter: Any + Debug + Canonical + Send + Sync {
    /// Whether it handles this direction.
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    /// Makes its parts of a stream. The filter belongs to `proxy`, which is the stream's frontend, or the backend that was just chosen.
    fn attach(&self, stream: &Stream, proxy: &Proxy) -> FilterParts;

    /// Visits the references of every expression and every format in the arguments: names are resolved and passwords verified
    /// through it.
    fn visit_references(&self, _: Visit<'_>) {}

    /// The facts that others than the stream need to know.
    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts::NONE
    }

    /// The filter for the configuration.
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
    /// Makes the parts of a configured filter.
    pub(crate) fn of(filter: &weir_model::Filter, stream: &Stream, proxy: &Proxy) -> FilterParts {
        // All filters of this crate's rows are of this kind.
        stream_filter(filter).map(|filter| filter.attach(stream, proxy)).unwrap_or_default()
    }
}

/// The filter, as this crate's rows make it.
fn stream_filter(filter: &weir_model::Filter) -> Option<&dyn StreamFilter> {
    filter.arguments::<Box<dyn StreamFilter>>().map(|filter| &**filter)
}

/// The arguments of a filter, if it is of this type.
fn arguments<F: StreamFilter>(filter: &weir_model::Filter) -> Option<&F> {
    let filter: &dyn Any = stream_filter(filter)?;
    filter.downcast_ref()
}
