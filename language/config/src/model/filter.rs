//! `filter` lines: what looks at the messages of a proxy's streams.

use weir_expr::Location;

use std::time::Duration;

/// One `filter` line.
#[derive(Clone, Debug)]
pub struct Filter {
    /// What it does.
    pub kind: FilterKind,
    /// Where it was written.
    pub at: Location,
}

/// What a filter does.
#[derive(Clone, Debug)]
pub enum FilterKind {
    /// `bwlim-in` and `bwlim-out`.
    Bandwidth(BandwidthFilter),
    /// `trace`.
    Trace(TraceFilter),
}

/// A limit for each stream, which `set-bandwidth-limit` enables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandwidthFilter {
    /// What rules call it.
    pub name: Box<str>,
    /// Which direction it limits.
    pub direction: FilterDirection,
    /// `default-limit`: bytes each period; never 0.
    pub limit: u64,
    /// `default-period`; never 0.
    pub period: Duration,
    /// `min-size`: at least so many bytes pass at a time, but at the end.
    pub min_size: u64,
}

/// Says on standard error what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFilter {
    /// What its lines call it.
    pub name: Box<str>,
    /// `quiet`: says nothing.
    pub quiet: bool,
    /// `random-forwarding`: lets pass a random part of what it is shown at a time.
    pub random_forwarding: bool,
    /// `max-fwd`: lets pass at most so many bytes at a time.
    pub max_forward: Option<u64>,
    /// `hexdump`: shows what passes.
    pub hexdump: bool,
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDirection {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// `filter-sequence`: the positions of the filters, in the order in which they see each direction; none for the order of
/// their lines.
#[derive(Clone, Debug, Default)]
pub struct FilterSequences {
    /// Of requests.
    pub request: Option<Box<[u16]>>,
    /// Of responses.
    pub response: Option<Box<[u16]>>,
}

impl FilterSequences {
    /// Of one direction.
    pub fn of(&self, direction: FilterDirection) -> Option<&[u16]> {
        match direction {
            FilterDirection::Request => self.request.as_deref(),
            FilterDirection::Response => self.response.as_deref(),
        }
    }
}

impl FilterKind {
    /// The word after `filter`.
    pub fn keyword(&self) -> &'static str {
        match self {
            FilterKind::Bandwidth(BandwidthFilter { direction: FilterDirection::Request, .. }) => "bwlim-in",
            FilterKind::Bandwidth(_) => "bwlim-out",
            FilterKind::Trace(_) => "trace",
        }
    }

    /// Whether it has something to do with what goes this way.
    pub fn sees(&self, direction: FilterDirection) -> bool {
        match self {
            FilterKind::Bandwidth(limit) => limit.direction == direction,
            FilterKind::Trace(_) => true,
        }
    }
}
