//! The interface of services that respond in place of a server.

use std::sync::Arc;
use std::time::Duration;

use weir_mux::BodyProducer;

use super::Instance;

/// Produces the statistics page and the Prometheus output. Implemented by a higher-level crate. Set in
/// [`Hooks::statistics`](super::Hooks::statistics).
pub trait Statistics: Send + Sync {
    /// The response to a request for the statistics page.
    fn page(&self, instance: &Arc<Instance>, request: &PageRequest<'_>) -> PageService;

    /// The response to a scrape with this query string and `Accept` field. `None` if the query is invalid.
    fn metrics(&self, instance: &Arc<Instance>, query: &[u8], accept: &[u8]) -> Option<PageService>;
}

/// A request for the statistics page.
#[derive(Debug)]
pub struct PageRequest<'a> {
    /// Index of the proxy with the `stats` configuration.
    pub proxy: usize,
    /// The part of the request's target after the page's URI.
    pub suffix: &'a [u8],
    pub target: &'a [u8],
    /// The body of a POST. `None` for GET and HEAD.
    pub form: Option<&'a [u8]>,
    /// Whether the client may change server states (`stats admin`).
    pub admin: bool,
    /// The origin of the form.
    pub sender: FormSender,
}

/// The origin of a form, derived from request fields that browsers add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormSender {
    Script,
    /// A page of this site (same origin).
    Page,
    /// Another or an unknown site.
    OtherSite,
}

/// A service's response: the statistics page, a redirect, or Prometheus metrics.
pub struct PageService {
    pub status: u16,
    /// The value of `Content-Type`. Empty for none.
    pub content_type: &'static str,
    /// The permissions of the page in a browser (`Content-Security-Policy`).
    pub policy: Option<&'static str>,
    /// The target of a redirect.
    pub location: Option<Vec<u8>>,
    /// The reload interval of the page.
    pub refresh: Option<Duration>,
    /// Writes the body. `None` without a body. A page with thousands of servers takes a while, so it is produced in pieces at the client's
    /// pace.
    pub body: Option<Box<dyn BodyProducer>>,
}
