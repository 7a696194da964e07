//! Names that rules ask for, as the instance has them.

use std::net::IpAddr;

/// Whoever asks name servers. It lives beside this crate, and gets in through [`Instance::names`](super::Instance::names).
pub trait Names: Send + Sync {
    /// Asks the name servers of a section for an address. The current task is woken once there is an answer.
    fn ask(&self, section: &str, name: &[u8], prefers_ipv4: bool) -> Asked;
}

/// What came of a question.
pub enum Asked {
    /// The address, or none.
    Known(Option<IpAddr>),
    /// It is asked for.
    Later(Box<dyn Asking>),
}

/// A question that waits for its answer. Dropping it gives it up.
pub trait Asking {
    /// The answer, once there is one: the address, or none.
    fn poll(&self) -> Option<Option<IpAddr>>;

    /// How long an answer takes at most, in milliseconds.
    fn limit_ms(&self) -> u64;
}
