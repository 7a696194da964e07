//! Services that answer requests in place of a server, as the instance has them.

use std::time::Duration;

use weir_mux::Service;

use super::Instance;

/// Whoever makes the statistics page and what Prometheus scrapes. It lives above this crate, and gets in through [`Instance::statistics`].
pub trait Statistics: Send + Sync {
    /// The answer to a request for the page.
    fn page(&self, instance: &'static Instance, request: &PageRequest<'_>) -> Page;

    /// The answer to a scrape with this query; none if the query is broken.
    fn metrics(&self, instance: &'static Instance, query: &[u8]) -> Option<Page>;
}

/// A request for the statistics page.
#[derive(Debug)]
pub struct PageRequest<'a> {
    /// The proxy that has the page.
    pub proxy: usize,
    /// What follows the page's URI in the request's target.
    pub suffix: &'a [u8],
    /// The whole target.
    pub target: &'a [u8],
    /// The body of a POST; none for GET and HEAD.
    pub form: Option<&'a [u8]>,
    /// Whether the client may change states.
    pub admin: bool,
}

/// The statistics page, or another answer of its kind.
pub struct Page {
    /// The status.
    pub status: u16,
    /// The content's type; empty for none.
    pub content_type: &'static str,
    /// Where to go, for a redirect.
    pub location: Option<Vec<u8>>,
    /// How often the page reloads itself.
    pub refresh: Option<Duration>,
    /// Who writes the body, if there is one. A page about thousands of servers takes a while: it is made in pieces, no faster
    /// than the client takes them.
    pub body: Option<Box<dyn Service>>,
}
