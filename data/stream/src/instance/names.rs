//! The interface for DNS resolution in rules.

use std::net::IpAddr;

/// Resolves names through name servers. Implemented by another crate. Set in [`Hooks::names`](super::Hooks::names).
pub trait NameResolver: Send + Sync {
    /// Queries the name servers of a `resolvers` section for an address. The current task is woken when the result is available.
    fn look_up(&self, section: &str, name: &[u8], prefers_ipv4: bool) -> NameLookup;
}

/// The immediate result of looking up a host name.
pub enum NameLookup {
    /// The address. `None` if the name does not resolve.
    Known(Option<IpAddr>),
    /// The query was sent. The result comes later.
    Later(Box<dyn PendingLookup>),
}

/// A query in progress. Dropping it cancels the query.
pub trait PendingLookup {
    /// The result: the address, or `Some(None)` without one. `None` while the query is in progress.
    fn poll(&self) -> Option<Option<IpAddr>>;

    /// Maximum duration of the query, in milliseconds.
    fn limit_ms(&self) -> u64;
}
