//! The counters of each name server (management manual, "show resolvers").

use weir_sync::Counter;

/// The counters, in the order of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Queries that were sent.
    Sent,
    /// Queries that could not be sent.
    SendErrors,
    Valid,
    /// Answers that changed a server's address.
    Updates,
    /// Answers with aliases but without an address.
    Aliases,
    /// Answers with aliases that cannot be followed, such as loops.
    AliasErrors,
    Empty,
    /// The name does not exist.
    NoSuchName,
    /// No answer in time.
    Timeouts,
    /// The server refused to answer.
    Refused,
    /// Any other error code of the server.
    Other,
    /// Messages that do not answer the question.
    Invalid,
    /// Answers larger than the announced size.
    TooBig,
    Truncated,
    /// Answers that came after another server's was taken.
    Outdated,
}

impl Figure {
    /// All of them, in the order of the statistics.
    pub const ALL: [Figure; 15] = [
        Figure::Sent,
        Figure::SendErrors,
        Figure::Valid,
        Figure::Updates,
        Figure::Aliases,
        Figure::AliasErrors,
        Figure::Empty,
        Figure::NoSuchName,
        Figure::Timeouts,
        Figure::Refused,
        Figure::Other,
        Figure::Invalid,
        Figure::TooBig,
        Figure::Truncated,
        Figure::Outdated,
    ];
}

/// The counters of one name server. Only the section's worker writes them.
#[derive(Debug, Default)]
pub struct NameServerFigures([Counter; Figure::ALL.len()]);

impl NameServerFigures {
    /// Counts one.
    pub(crate) fn count(&self, figure: Figure) {
        self.0[figure as usize].increment();
    }

    /// The value of a counter.
    #[must_use]
    pub fn value(&self, figure: Figure) -> u64 {
        self.0[figure as usize].value()
    }
}
