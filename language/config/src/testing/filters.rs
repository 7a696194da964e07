//! A few filters for tests of the code that all filters share. The real rows are in the crate that runs them.

use std::sync::Arc;

use weir_fingerprint::Canonical;

use crate::proxy::application::read_application_filter;
use crate::proxy::spoe::read_engine;
use crate::proxy::{FilterTable, filter, implied_filter};
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
    filter("FCGI", "fcgi-app", "<name>", "php", "the place of a FastCGI application", |context, words| {
        Ok(Arc::new(ApplicationPlace(read_application_filter(context, words)?)))
    }),
    implied_filter(
        "COMP",
        "compression",
        "compress",
        |_, _| Ok(Arc::new(Compressor)),
        || Arc::new(Compressor),
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

/// The place of a FastCGI application, as in the crate that runs it.
#[derive(Debug, Canonical)]
struct ApplicationPlace(Box<str>);

impl FilterArguments for ApplicationPlace {
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { application: Some(&self.0), ..FilterFacts::NONE }
    }

    fn visit_references(&self, _: Visit<'_>) {}
}

/// A filter that compresses.
#[derive(Debug, Canonical)]
struct Compressor;

impl FilterArguments for Compressor {
    fn sees(&self, _: FilterDirection) -> bool {
        true
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { compresses: true, ..FilterFacts::NONE }
    }

    fn visit_references(&self, _: Visit<'_>) {}
}
