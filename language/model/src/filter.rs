//! `filter` lines, as far as the configuration knows them.
//!
//! The crate that runs a filter owns its behaviour, its arguments and its row. The checks of a configuration know the [`FilterFacts`].

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use weir_expr::table::DataType;
use weir_expr::{Expr, Location, Reference};
use weir_fingerprint::Canonical;

use super::spoe::SpoeEngine;
use super::visit::Visit;

/// One `filter` line.
#[derive(Clone, Debug, Canonical)]
pub struct Filter {
    /// The word after `filter`.
    pub keyword: &'static str,
    arguments: Arc<dyn FilterArguments>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The arguments of a filter, of a type of the crate that runs it.
pub trait FilterArguments: Any + Debug + Canonical + Send + Sync {
    /// Whether the filter processes this direction.
    fn sees(&self, direction: FilterDirection) -> bool;

    /// Properties of the filter for code outside the stream.
    fn facts(&self) -> FilterFacts<'_>;

    /// Visits the references of every expression and every table in the arguments.
    fn visit_references(&self, visit: Visit<'_>);
}

impl Filter {
    /// Creates a filter from its word and its arguments.
    pub fn new(keyword: &'static str, arguments: Arc<dyn FilterArguments>, at: Location) -> Self {
        Filter { keyword, arguments, at }
    }

    /// The arguments, if they are of this type.
    #[inline]
    pub fn arguments<A: FilterArguments>(&self) -> Option<&A> {
        let arguments: &dyn Any = &*self.arguments;
        arguments.downcast_ref()
    }

    /// Whether the filter processes this direction.
    pub fn sees(&self, direction: FilterDirection) -> bool {
        self.arguments.sees(direction)
    }

    /// Properties of the filter for code outside the stream.
    pub fn facts(&self) -> FilterFacts<'_> {
        self.arguments.facts()
    }

    /// Visits the references in the arguments.
    pub fn visit_references(&self, visit: Visit<'_>) {
        self.arguments.visit_references(visit);
    }
}

/// Properties of a filter that the checks of a configuration need. Most filters set none of them.
#[derive(Clone, Copy, Debug)]
pub struct FilterFacts<'a> {
    /// `set-bandwidth-limit` enables this limit.
    pub bandwidth: Option<BandwidthFacts<'a>>,
    /// The filter compresses messages.
    pub compresses: bool,
    /// The filter sends messages to the agents of this engine.
    pub spoe: Option<&'a SpoeEngine>,
    /// The filter is the place of this FastCGI application among the filters.
    pub application: Option<&'a str>,
}

impl FilterFacts<'_> {
    /// None of the properties.
    pub const NONE: Self = FilterFacts { bandwidth: None, compresses: false, spoe: None, application: None };
}

/// A bandwidth limit.
#[derive(Clone, Copy, Debug)]
pub struct BandwidthFacts<'a> {
    /// The name of the limit in rules.
    pub name: &'a str,
    /// The rate that all streams with one key share. None if each stream has its own limit.
    pub shared: Option<SharedRate<'a>>,
}

/// The rate counter of a stick-table for a shared limit.
#[derive(Clone, Copy, Debug)]
pub struct SharedRate<'a> {
    /// The key of the table entry.
    pub key: &'a Expr,
    /// The stick-table. Without a name, the proxy's own table.
    pub table: &'a Reference,
    pub data: DataType,
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum FilterDirection {
    Request,
    Response,
}

/// `filter-sequence`: for each direction, the positions of the filters in processing order. None for the order of their
/// lines.
#[derive(Clone, Debug, Default, Canonical)]
pub struct FilterSequences {
    /// The order for requests.
    pub request: Option<Box<[u16]>>,
    /// The order for responses.
    pub response: Option<Box<[u16]>>,
}

impl FilterSequences {
    /// The order for one direction.
    pub fn of(&self, direction: FilterDirection) -> Option<&[u16]> {
        match direction {
            FilterDirection::Request => self.request.as_deref(),
            FilterDirection::Response => self.response.as_deref(),
        }
    }
}
