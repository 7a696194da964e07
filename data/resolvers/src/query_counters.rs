//! The counters of each name server (management manual, "show resolvers").

use weir_sync::Counter;

/// The counters, in the order of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryCounter {
    /// Queries that were sent.
    Sent,
    /// Queries that could not be sent.
    SendErrors,
    Valid,
    /// Responses that changed a server's address.
    Updates,
    /// Responses with aliases but without an address.
    Aliases,
    /// Responses with aliases that cannot be followed, such as loops.
    AliasErrors,
    Empty,
    /// The name does not exist.
    NoSuchName,
    /// No response in time.
    Timeouts,
    /// The server refused to answer.
    Refused,
    /// Any other error code of the server.
    Other,
    /// Messages that do not match the query.
    Invalid,
    /// Responses larger than the announced size.
    TooBig,
    Truncated,
    /// Responses received after another server's response was taken.
    Outdated,
}

impl QueryCounter {
    /// All counters, in the order of the statistics.
    pub const ALL: [QueryCounter; 15] = [
        QueryCounter::Sent,
        QueryCounter::SendErrors,
        QueryCounter::Valid,
        QueryCounter::Updates,
        QueryCounter::Aliases,
        QueryCounter::AliasErrors,
        QueryCounter::Empty,
        QueryCounter::NoSuchName,
        QueryCounter::Timeouts,
        QueryCounter::Refused,
        QueryCounter::Other,
        QueryCounter::Invalid,
        QueryCounter::TooBig,
        QueryCounter::Truncated,
        QueryCounter::Outdated,
    ];
}

/// The counters of one name server. Only the section's worker writes them.
#[derive(Debug, Default)]
pub struct NameServerCounters([Counter; QueryCounter::ALL.len()]);

impl NameServerCounters {
    /// Increments a counter.
    pub(crate) fn count(&self, counter: QueryCounter) {
        self.0[counter as usize].increment();
    }

    /// The value of a counter. Any thread may read it.
    #[must_use]
    pub fn value(&self, counter: QueryCounter) -> u64 {
        self.0[counter as usize].value()
    }
}
