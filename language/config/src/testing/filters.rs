//! A few filters for tests of the code that all filters share. The real rows are in the crate that runs them.

use std::sync::Arc;

use weir_fingerprint::Canonical;

use crate::proxy::spoe::read_engine;
use crate::proxy::{FilterTable, filter};
use crate::rows::Row;
use weir_model::{BandwidthFacts, FilterArguments, FilterDirection, FilterFacts, SpoeEngine, Visit};

pub(crate) static FILTERS: FilterTable = FilterTable::new(&[&[
    filter("BWLIM", "bwlim-in", "<name>", "a", "limit requests", |_, words| {
        Ok(Arc::new(Limit { name: words.expect("a name is expected")?.text().into() }))
    }),
    filter("TRACE", "trace", "[word*]", "name a", "see both directions", |_, words| {
        while words.take().is_some() {}
        Ok(Arc::new(Both))
    }),
    filter(
        "SPOE",
        "spoe",
        "[engine <name>] config <file>",
        "config e.spoe",
        "send messages",
        |context, words| Ok(Arc::new(Engine(read_engine(context, words)?))),
    ),
    Row::not_yet("later", "", "a filter that is not implemented yet"),
]]);

/// A limit of requests.
#[derive(Debug, Canonical)]
struct Limit {
    name: Box<str>,
}

impl FilterArguments for Limit {
    fn sees(&self, direction: FilterDirection) -> bool {
        direction == FilterDirection::Request
    }

    fn facts(&self) -> FilterFacts<'_> {
        let bandwidth = Some(BandwidthFacts { name: &self.name, shared: None });
        FilterFacts { bandwidth, ..FilterFacts::NONE }
    }

    fn visit_references(&self, _: Visit<'_>) {}
}

/// A filter of both directions.
#[derive(Debug, Canonical)]
struct Both;

impl FilterArguments for Both {
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts::NONE
    }

    fn visit_references(&self, _: Visit<'_>) {}
}

/// An engine, as in the crate that runs it.
#[derive(Debug, Canonical)]
struct Engine(SpoeEngine);

impl FilterArguments for Engine {
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { spoe: Some(&self.0), ..FilterFacts::NONE }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}
