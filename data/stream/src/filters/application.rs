//! `filter fcgi-app`: the place of a FastCGI application among the filters of a backend (manual, 9.5).

use std::sync::Arc;

use weir_config::proxy::application::read_application_filter;
use weir_config::proxy::{FilterContext, filter};
use weir_config::words::{Parsed, Words};
use weir_fingerprint::Canonical;
use weir_model::{FilterArguments, FilterFacts};

use super::{FilterParts, Row, StreamFilter};
use crate::instance::Proxy;
use crate::stream::Stream;

pub(super) const ROWS: &[Row] = &[filter(
    "FCGI",
    "fcgi-app",
    "<name>",
    "php",
    "the place of a FastCGI application among the filters",
    read,
)];

/// The name of the application. It acts on requests and on the heads of responses, and does not see bytes.
#[derive(Debug, Canonical)]
struct ApplicationFilter(Box<str>);

fn read(context: &mut FilterContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Arc<dyn FilterArguments>> {
    Ok(ApplicationFilter(read_application_filter(context, words)?).into_arguments())
}

impl StreamFilter for ApplicationFilter {
    fn attach(&self, _: &Stream, _: &Proxy) -> FilterParts {
        FilterParts::default()
    }

    fn facts(&self) -> FilterFacts<'_> {
        FilterFacts { application: Some(&self.0), ..FilterFacts::NONE }
    }
}
