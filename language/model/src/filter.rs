//! `filter` lines: filters on the messages of a proxy's streams.

use weir_expr::table::DataType;
use weir_expr::{Expr, Location, Reference};
use weir_fingerprint::Canonical;

use std::sync::Arc;
use std::time::Duration;

/// One `filter` line.
#[derive(Clone, Debug, Canonical)]
pub struct Filter {
    /// The kind, with its settings.
    pub kind: FilterKind,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The kinds of filters.
#[derive(Clone, Debug, Canonical)]
pub enum FilterKind {
    /// `bwlim-in` and `bwlim-out`.
    Bandwidth(BandwidthFilter),
    /// `trace`.
    Trace(TraceFilter),
}

/// A bandwidth limit for each stream, or for all streams of one key, which `set-bandwidth-limit` enables.
#[derive(Clone, Debug, Canonical)]
pub struct BandwidthFilter {
    /// Its name in rules.
    pub name: Box<str>,
    /// Which direction it limits.
    pub direction: FilterDirection,
    /// `default-limit`, or `limit` of a shared one: bytes per period; never 0.
    pub limit: u64,
    /// `default-period`; 0 only for a shared limit, where the table holds the period.
    pub period: Duration,
    /// `min-size`: the least bytes that pass at a time, except at the end.
    pub min_size: u64,
    /// `key`: the streams of one key share the limit. None for each stream alone.
    pub shared: Option<Box<SharedBandwidth>>,
}

/// The key and the table of a shared limit.
#[derive(Clone, Debug, Canonical)]
pub struct SharedBandwidth {
    /// `key`: the key of the table entry, evaluated when a rule enables the filter.
    pub key: Arc<Expr>,
    /// `table`, or the proxy's own: its entries count the bytes.
    pub table: Reference,
}

impl FilterDirection {
    /// The data of a table that limits this direction.
    pub fn bytes_rate(self) -> DataType {
        match self {
            FilterDirection::Request => DataType::BytesInRate,
            FilterDirection::Response => DataType::BytesOutRate,
        }
    }
}

/// Writes the filtered traffic to standard error.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct TraceFilter {
    /// Its name in its output.
    pub name: Box<str>,
    /// `quiet`: no output.
    pub quiet: bool,
    /// `random-forwarding`: forwards a random part of the bytes at a time.
    pub random_forwarding: bool,
    /// `max-fwd`: forwards at most this many bytes at a time.
    pub max_forward: Option<u64>,
    /// `hexdump`: dumps the forwarded bytes.
    pub hexdump: bool,
}

/// A direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum FilterDirection {
    Request,
    Response,
}

/// `filter-sequence`: the positions of the filters, in the order in which they see each direction; none for the order of
/// their lines.
#[derive(Clone, Debug, Default, Canonical)]
pub struct FilterSequences {
    /// The order for requests.
    pub request: Option<Box<[u16]>>,
    /// The order for responses.
    pub response: Option<Box<[u16]>>,
}

impl FilterSequences {
    /// The order for one direction.
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

    /// Whether it handles this direction.
    pub fn sees(&self, direction: FilterDirection) -> bool {
        match self {
            FilterKind::Bandwidth(limit) => limit.direction == direction,
            FilterKind::Trace(_) => true,
        }
    }
}
