//! The stick-table entries that a stream and its session track, and lookups in them.

use weir_containers::LocalArc;
use weir_expr::Value;
use weir_expr::table::{DataType, TableQuestion};
use weir_tables::{EntryKey, Key, LockedEntry, Table, TableAnswer};

/// Tracked entries, by counter index. Dropping this ends the tracking.
#[derive(Default)]
pub struct TrackedEntries {
    first: [Option<TrackedEntry>; USUAL],
    further: Vec<Option<TrackedEntry>>,
    /// The highest counter index in use, plus one.
    end: usize,
}

/// The number of counters stored without allocation: the default of `tune.stick-counters`.
const USUAL: usize = 3;

/// A stick-table entry that a stream or session tracks.
#[derive(Clone)]
pub struct TrackedEntry {
    pub table: LocalArc<Table>,
    /// The key of the entry's slot in the table.
    pub entry: EntryKey,
}

impl TrackedEntries {
    /// The entry that stick counter `counter` tracks.
    pub fn get(&self, counter: usize) -> Option<&TrackedEntry> {
        match counter.checked_sub(USUAL) {
            None => self.first[counter].as_ref(),
            Some(further) => self.further.get(further)?.as_ref(),
        }
    }

    /// Tracks `entry` with stick counter `counter`. Replaces the former entry without untracking it.
    pub fn set(&mut self, counter: usize, entry: TrackedEntry) {
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

    /// Counts events in all tracked entries.
    pub fn count(&self, events: &[TrackedEvent]) {
        self.entries().for_each(|entry| entry.count(events));
    }
}

impl Drop for TrackedEntries {
    fn drop(&mut self) {
        for tracked in self.entries() {
            tracked.table.untrack(tracked.entry, now_ms(), |row| {
                row.subtract_one(DataType::ConnectionsCurrent);
            });
        }
    }
}

/// An event: the data types of its total and of its rate, and the amount.
pub type TrackedEvent = (DataType, DataType, u64);

impl TrackedEntry {
    /// Counts the events that the table stores data types for. A table without any of them is not locked.
    fn count(&self, events: &[TrackedEvent]) {
        let layout = self.table.layout();
        if events.iter().any(|(total, rate, _)| layout.stores(*total) || layout.stores(*rate)) {
            self.look(|row| events.iter().for_each(|(total, rate, count)| row.count(*total, *rate, *count)));
        }
    }

    /// A value of the entry. With another table, a value of the entry with the same key there: 0 if it does not exist, and it is
    /// not created. `None` if the data type is not stored or the key types differ.
    pub fn query(&self, other: Option<&Table>, question: TableQuestion) -> Option<u64> {
        let answer = match other.filter(|other| !std::ptr::eq(*other, &*self.table)) {
            None => self.look(|row| row.query(question))?,
            Some(other) => {
                if !self.has_keys_of(other) {
                    return None;
                }
                let key = Key::of(self.look(|row| row.key())?, other.declaration().key)?;
                other.look(&key, now_ms(), |row| row.query(question)).unwrap_or(TableAnswer::NoEntry)
            }
        };
        match answer {
            TableAnswer::Value(value) => Some(value),
            TableAnswer::NoEntry => Some(0),
            TableAnswer::NotStored => None,
        }
    }

    /// Whether the keys of `other` have the same type.
    pub fn has_keys_of(&self, other: &Table) -> bool {
        self.table.declaration().key.sample_type() == other.declaration().key.sample_type()
    }

    /// Calls `then` with the entry's row. `None` if the entry was removed.
    #[inline]
    pub fn look<R>(&self, then: impl FnOnce(&mut LockedEntry<'_>) -> R) -> Option<R> {
        self.table.at(self.entry, now_ms(), then)
    }
}

/// The worker's clock for tables, in milliseconds.
#[inline]
pub fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}

/// A value of a key's entry, see [`weir_expr::Context::table`].
pub fn query_table(
    table: &Table,
    key: Value<'_>,
    question: TableQuestion,
    default: Option<i64>,
) -> Option<i64> {
    let answer = match Key::of(key, table.declaration().key) {
        Some(key) => table.query(&key, question, now_ms()),
        None => TableAnswer::NoEntry,
    };
    match (answer, question) {
        (TableAnswer::Value(value), _) => Some(i64::try_from(value).unwrap_or(i64::MAX)),
        (TableAnswer::NotStored, _) => None,
        (TableAnswer::NoEntry, TableQuestion::Expires | TableQuestion::Idle) => default,
        (TableAnswer::NoEntry, _) => Some(0),
    }
}
