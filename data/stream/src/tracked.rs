//! What streams and sessions hold of stick-tables: entries that they track, and what is to be remembered. What they do with it
//! is in `tracking.rs`.

use weir_expr::table::DataType;
use weir_tables::{EntryKey, Key, Row, Table};

/// What a stream uses of tables, where it uses any.
#[derive(Default)]
pub(crate) struct TableUse {
    pub(crate) tracked: Tracked,
    /// What of the request will name its server, once there is one (`stick store-request`).
    pub(crate) stores: Vec<(&'static Table, Key)>,
}

/// Entries that are tracked, by the number of the counter. They are left when this goes.
#[derive(Default)]
pub(crate) struct Tracked {
    first: [Option<TrackedEntry>; USUAL],
    further: Vec<Option<TrackedEntry>>,
}

/// So many counters need no memory of their own: what `tune.stick-counters` is unless it is written.
const USUAL: usize = 3;

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct TrackedEntry {
    pub(crate) table: &'static Table,
    pub(crate) entry: EntryKey,
}

impl Tracked {
    pub(crate) fn get(&self, counter: usize) -> Option<TrackedEntry> {
        match counter.checked_sub(USUAL) {
            None => self.first[counter],
            Some(further) => self.further.get(further).copied().flatten(),
        }
    }

    pub(crate) fn set(&mut self, counter: usize, entry: TrackedEntry) {
        match counter.checked_sub(USUAL) {
            None => self.first[counter] = Some(entry),
            Some(further) => {
                if further >= self.further.len() {
                    self.further.resize(further + 1, None);
                }
                self.further[further] = Some(entry);
            }
        }
    }

    /// One more than the highest counter that may be in use.
    pub(crate) fn end(&self) -> usize {
        USUAL + self.further.len()
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        for tracked in self.first.iter().chain(&self.further).flatten() {
            tracked.table.untrack(tracked.entry, now_ms(), |row| {
                row.subtract_one(DataType::ConnectionsCurrent);
            });
        }
    }
}

impl TrackedEntry {
    #[inline]
    pub(crate) fn look<R>(self, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.table.at(self.entry, now_ms(), then)
    }
}

/// The clock of tables.
#[inline]
pub(crate) fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}
