//! Stick-tables, and the rules that use them.

use std::sync::Arc;

use super::names;
use weir_expr::table::Declaration;
use weir_expr::{Condition, Expr, Location, Reference};
use weir_fingerprint::Canonical;

/// A `stick-table` line, or a `table` line of a `peers` section.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct StickTable {
    /// The type, size and stored data.
    #[canonical(flat)]
    pub declaration: Declaration,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `recv-only`: only peers supply entries.
    pub receive_only: bool,
    /// `aggregate`: counts and rates are sums over all instances of the section.
    pub aggregate: bool,
    /// `write-to`: updates from peers are written to this table too.
    #[canonical(with = names::written_table)]
    pub write_to: Option<Box<str>>,
    /// `peers`: the section that shares the table.
    #[canonical(with = names::peers)]
    pub peers: Option<Box<str>>,
}

/// `track-sc0`, `track-sc1` and so on: tracks the entry of a key from now on.
#[derive(Clone, Debug, Canonical)]
pub struct Track {
    /// The number of the counter, from 0.
    pub counter: u8,
    /// The expression that yields the key.
    pub key: Arc<Expr>,
    /// The table. Without a name, the proxy's own table.
    pub table: Reference,
}

/// A `stick` line: keeps clients at servers by a table.
#[derive(Clone, Debug, Canonical)]
pub struct StickRule {
    /// When it matches and stores.
    pub kind: StickKind,
    /// The expression that yields the key.
    pub key: Arc<Expr>,
    /// The table. Without a name, the proxy's own table.
    pub table: Reference,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// When a `stick` line matches and stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum StickKind {
    /// `stick match`: looks up a server.
    Match,
    /// `stick on`: looks up a server, and stores the chosen one.
    On,
    /// `stick store-request`: stores the chosen server.
    StoreRequest,
    /// `stick store-response`: stores the server under a key from its response.
    StoreResponse,
}

impl StickKind {
    /// Whether the line looks up a server.
    pub fn matches(self) -> bool {
        matches!(self, StickKind::Match | StickKind::On)
    }

    /// Whether the line stores the server of a request.
    pub fn stores_request(self) -> bool {
        matches!(self, StickKind::On | StickKind::StoreRequest)
    }

    /// The words of the line.
    pub fn keyword(self) -> &'static str {
        match self {
            StickKind::Match => "match",
            StickKind::On => "on",
            StickKind::StoreRequest => "store-request",
            StickKind::StoreResponse => "store-response",
        }
    }
}
