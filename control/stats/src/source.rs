//! The source of statistics rows, and the selection of rows.

use std::ops::ControlFlow;

use crate::fields::{StatsField, StatsObject};
use crate::info::InfoRow;
use crate::row::{Health, StatsRow};

/// Access to the statistics of the live objects. `control/observe` implements it.
///
/// ```text
/// cursor 0 ── visit_rows ──► row, row, row, enough: cursor 3 ── visit_rows ──► row, row, end
/// ```
///
/// Objects may be added or removed between two calls. The cursor holds the position.
pub trait StatsSource {
    /// Fills `row` with the next matching object and calls `visit`, starting at the cursor, until `visit` breaks. The cursor is then
    /// after the last visited object.
    ///
    /// Order: proxies in configuration order. Within a proxy its frontend, listeners (with `option socket-stats`), servers and
    /// backend. Disabled proxies are omitted. The source may skip rows that do not match `selection`, but need not. The caller
    /// checks each row again.
    fn visit_rows(
        &self,
        cursor: &mut RowCursor,
        selection: &RowSelection,
        row: &mut StatsRow,
        visit: &mut dyn FnMut(&StatsRow) -> ControlFlow<()>,
    ) -> ControlFlow<()>;

    /// Fills the fields of `show info`. With `float`, rates and ages may have a fraction.
    fn info(&self, float: bool, info: &mut InfoRow);
}

/// A position between two rows. All zeros is the start. The source defines the meaning of the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCursor {
    pub proxy: usize,
    /// The part of the proxy: frontend, listeners, servers or backend.
    pub part: u8,
    /// The object's index in that part.
    pub object: usize,
}

/// The rows that a dump includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSelection {
    /// Only this proxy, by `id`.
    pub proxy_id: Option<u32>,
    /// Only these kinds: a sum of [`StatsObject::mask`].
    pub kinds: u32,
    /// Only the server (or listener) with this `id`.
    pub object_id: Option<u32>,
    /// Omit servers that are not up (`up`).
    pub only_up: bool,
    /// Omit servers in maintenance (`no-maint`).
    pub no_maintenance: bool,
    /// Only proxies with this substring in their names (the page's `scope` field).
    pub scope: Option<String>,
    /// Only proxies with these names (`stats scope`). Empty for all.
    pub proxies: Vec<String>,
    /// Whether to read the latency histograms, which cost extra time.
    pub latencies: bool,
}

impl Default for RowSelection {
    fn default() -> Self {
        Self {
            proxy_id: None,
            kinds: u32::MAX,
            object_id: None,
            only_up: false,
            no_maintenance: false,
            scope: None,
            proxies: Vec::new(),
            latencies: false,
        }
    }
}

impl RowSelection {
    /// Whether a row of this proxy can match. Allows a source to skip the whole proxy.
    pub fn wants_proxy(&self, id: u32, name: &str) -> bool {
        self.proxy_id.is_none_or(|wanted| wanted == id)
            && self.scope.as_deref().is_none_or(|part| name.contains(part))
            && (self.proxies.is_empty() || self.proxies.iter().any(|known| known == name))
    }

    /// Whether this row matches.
    pub fn wants(&self, row: &StatsRow) -> bool {
        // Most selections include all names. Then skip the comparison, which would be made for each of thousands of servers.
        let is_by_name = self.scope.is_some() || !self.proxies.is_empty();
        let name = if is_by_name { row.text(StatsField::Pxname) } else { "" };
        self.wants_proxy(row.proxy_id(), name)
            && self.kinds & row.kind().mask() != 0
            && self.wants_object(row)
            && self.wants_health(row)
    }

    fn wants_object(&self, row: &StatsRow) -> bool {
        let has_id = matches!(row.kind(), StatsObject::Server | StatsObject::Listener);
        !has_id || self.object_id.is_none_or(|wanted| wanted == row.object_id())
    }

    fn wants_health(&self, row: &StatsRow) -> bool {
        if row.kind() != StatsObject::Server {
            return true;
        }
        match row.health() {
            Health::Maintenance => !self.only_up && !self.no_maintenance,
            Health::Down | Health::GoingUp => !self.only_up,
            Health::NotChecked | Health::Up | Health::GoingDown | Health::NoLoadBalancing | Health::Drain => {
                true
            }
        }
    }
}
