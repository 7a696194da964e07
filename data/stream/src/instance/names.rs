//! Resolution of names for rules, as an interface.

use std::net::IpAddr;

/// Resolves names through name servers. Implemented by another crate, and set in [`Hooks::names`](super::Hooks::names).
pub trait NameResolver: Send + Sync {
    /// Queries the name servers of a section for an address. The current task is woken once there is an answer.
    fn look_up(&self, section: &str, name: &[u8], prefers_ipv4: bool) -> NameLookup;
}

/// The result of a question.
pub enum NameLookup {
    /// The address, or none.
    Known(Option<IpAddr>),
    /// The question was sent.
    Later(Box<dyn PendingLookup>),
}

/// A question that waits for its answer. Dropping it cancels it.
pub trait PendingLookup {
    /// The answer, once there is one: the address, or none.
    fn poll(&self) -> Option<Option<IpAddr>>;

    /// How long an answer takes at most, in milliseconds.
    fn limit_ms(&self) -> u64;
}
