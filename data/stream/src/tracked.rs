//! A stream's and a session's references to stick-tables: tracked entries, and keys to be stored. The operations on them are
//! in `tracking.rs`.

use weir_containers::LocalArc;
use weir_expr::table::DataType;
use weir_tables::{EntryKey, Key, Row, Table};

/// A stream's use of tables, if it uses any.
#[derive(Default)]
pub(crate) struct TableUse {
    pub(crate) tracked: Tracked,
    /// Keys of the request that will be stored with its server, once that is known (`stick store-request`).
    pub(crate) stores: Vec<(LocalArc<Table>, Key)>,
}

/// Tracked entries, by the number of the counter. Dropping this ends the tracking.
#[derive(Default)]
pub(crate) struct Tracked {
    first: [Option<TrackedEntry>; USUAL],
    further: Vec<Option<TrackedEntry>>,
    /// One more than the highest counter in use.
    end: usize,
}

/// This many counters need no allocation: the default of `tune.stick-counters`.
const USUAL: usize = 3;

/// A tracked entry.
#[derive(Clone)]
pub(crate) struct TrackedEntry {
    pub(crate) table: LocalArc<Table>,
    pub(crate) entry: EntryKey,
}

impl Tracked {
    pub(crate) fn get(&self, counter: usize) -> Option<&TrackedEntry> {
        match counter.checked_sub(USUAL) {
            None => self.first[counter].as_ref(),
            Some(further) => self.further.get(further)?.as_ref(),
        }
    }

    pub(crate) fn set(&mut self, counter: usize, entry: TrackedEntry) {
        self.end = self.end.max(counter + 1);
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

    fn entries(&self) -> impl Iterator<Item = &TrackedEntry> {
        (0..self.end).filter_map(|counter| self.get(counter))
    }

    /// Counts events in all of them.
    pub(crate) fn count(&self, events: &[Event]) {
        self.entries().for_each(|entry| entry.count(events));
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        for tracked in self.entries() {
            tracked.table.untrack(tracked.entry, now_ms(), |row| {
                row.subtract_one(DataType::ConnectionsCurrent);
            });
        }
    }
}

/// Something that is counted: in which total, in which rate, how often.
pub(crate) type Event = (DataType, DataType, u64);

impl TrackedEntry {
    /// Counts events, as far as the table stores them. One that stores none of them is not locked.
    fn count(&self, events: &[Event]) {
        let layout = self.table.layout();
        if events.iter().any(|(total, rate, _)| layout.stores(*total) || layout.stores(*rate)) {
            self.look(|row| events.iter().for_each(|(total, rate, count)| row.count(*total, *rate, *count)));
        }
    }

    #[inline]
    pub(crate) fn look<R>(&self, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.table.at(self.entry, now_ms(), then)
    }
}

/// The time for tables, in milliseconds.
#[inline]
pub(crate) fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}
