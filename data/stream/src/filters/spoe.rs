//! `filter spoe`: an engine that asks agents about a stream (manual, 9.3). It runs in [`crate::spoe`].

use std::sync::Arc;

use weir_config::proxy::spoe::read_engine;
use weir_config::proxy::{FilterContext, filter};
use weir_config::words::{Parsed, Words};
use weir_fingerprint::Canonical;
use weir_model::{FilterArguments, FilterFacts, SpoeEngine, Visit};

use super::{FilterParts, Row, StreamFilter};
use crate::instance::Proxy;
use crate::stream::Stream;

pub(super) const ROWS: &[Row] = &[filter(
    "SPOE",
    "spoe",
    "[engine <name>] config <file>",
    "engine check config engine.cfg",
    "offload the processing of streams to agents",
    read,
)];

/// An engine. It acts at events of the stream, and does not see bytes.
#[derive(Debug, Canonical)]
struct SpoeFilter(SpoeEngine);

fn read(context: &mut FilterContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Arc<dyn FilterArguments>> {
    Ok(SpoeFilter(read_engine(context, words)?).into_arguments())
}

impl StreamFilter for SpoeFilter {
    fn attach(&self, _: &Stream, _: &Proxy) -> FilterParts {
        FilterParts::default()
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { spoe: Some(&self.0), ..FilterFacts::NONE }
    }
}
