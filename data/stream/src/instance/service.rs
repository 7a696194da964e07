//! Services that answer requests in place of a server, as interfaces.

use std::sync::Arc;
use std::time::Duration;

use weir_mux::BodyProducer;

use super::Instance;

/// Makes the statistics page and the output for Prometheus. Implemented by a crate above, and set in [`Hooks::statistics`](super::Hooks::statistics).
pub trait Statistics: Send + Sync {
    /// The answer to a request for the page.
    fn page(&self, instance: &Arc<Instance>, request: &PageRequest<'_>) -> PageService;

    /// The answer to a scrape with this query and this `Accept` field; none if the query is invalid.
    fn metrics(&self, instance: &Arc<Instance>, query: &[u8], accept: &[u8]) -> Option<PageService>;
}

/// A request for the statistics page.
#[derive(Debug)]
pub struct PageRequest<'a> {
    /// The proxy that has the page.
    pub proxy: usize,
    /// The part of the request's target after the page's URI.
    pub suffix: &'a [u8],
    pub target: &'a [u8],
    /// The body of a POST; none for GET and HEAD.
    pub form: Option<&'a [u8]>,
    /// Whether the client may change states.
    pub admin: bool,
    /// The origin of the form.
    pub sender: FormSender,
}

/// The origin of a form, by the request fields that browsers add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormSender {
    Script,
    /// A page of this site.
    Page,
    /// Another site, or an unknown one.
    OtherSite,
}

/// The statistics page, or another answer of its kind.
pub struct PageService {
    pub status: u16,
    /// The content's type; empty for none.
    pub content_type: &'static str,
    /// The permissions of the page in a browser (`Content-Security-Policy`).
    pub policy: Option<&'static str>,
    /// The target of a redirect.
    pub location: Option<Vec<u8>>,
    /// How often the page reloads itself.
    pub refresh: Option<Duration>,
    /// Writes the body, if there is one. A page about thousands of servers takes a while: it is made in pieces, no faster
    /// than the client takes them.
    pub body: Option<Box<dyn BodyProducer>>,
}
