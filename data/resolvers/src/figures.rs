//! What is counted of each name server (management manual, "show resolvers").

use weir_sync::Counter;

/// What is counted, in the order of the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Queries that were sent.
    Sent,
    /// Queries that could not be sent.
    SendErrors,
    /// Valid answers.
    Valid,
    /// Answers that gave a server another address.
    Updates,
    /// Answers with aliases that lead nowhere yet: there was no address with them.
    Aliases,
    /// Answers whose aliases cannot be followed.
    AliasErrors,
    /// Answers with nothing in them.
    Empty,
    /// There is no such name.
    NoSuchName,
    /// No answer in time.
    Timeouts,
    /// The server did not want to answer.
    Refused,
    /// Any other failure that the server told.
    Other,
    /// Messages that were no answer to the question.
    Invalid,
    /// Answers larger than the announced size.
    TooBig,
    /// Answers that did not fit.
    Truncated,
    /// Answers that came when another server's was taken already.
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

/// The figures of one name server. The section's worker writes them.
#[derive(Debug, Default)]
pub struct NameServerFigures([Counter; Figure::ALL.len()]);

impl NameServerFigures {
    /// One more.
    pub(crate) fn count(&self, figure: Figure) {
        self.0[figure as usize].increment();
    }

    /// How many there were.
    #[must_use]
    pub fn value(&self, figure: Figure) -> u64 {
        self.0[figure as usize].value()
    }
}
