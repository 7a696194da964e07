//! A stream's and a session's references to stick-tables: tracked entries, and keys to be stored. The operations on them are
//! in `tracking.rs`.

use weir_expr::table::DataType;
use weir_tables::{EntryKey, Key, Row, Table};

/// A stream's use of tables, if it uses any.
#[derive(Default)]
pub(crate) struct TableUse {
    pub(crate) tracked: Tracked,
    /// Keys of the request that will be stored with its server, once that is known (`stick store-request`).
    pub(crate) stores: Vec<(&'static Table, Key)>,
}

/// Tracked entries, by the number of the counter. Dropping this ends the tracking.
#[derive(Default)]
pub(crate) struct Tracked {
    first: [Option<TrackedEntry>; USUAL],
    further: Vec<Option<TrackedEntry>>,
}

/// This many counters need no allocation: the default of `tune.stick-counters`.
const USUAL: usize = 3;

/// A tracked entry.
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

/// The time for tables, in milliseconds.
#[inline]
pub(crate) fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}
