//! What a peer tells of its tables.

use std::sync::Arc;

use weir_expr::table::DataType;
use weir_peer_messages::definition::Fields;
use weir_peer_messages::{Definition, Entry, Fault, KeyKind, LearnedNames, Rate, Update, Value, write};
use weir_tables::{RateParts, Row};

use crate::shared_table::{SharedTable, data_of};

/// What a peer told so far.
#[derive(Debug)]
pub(crate) struct Incoming {
    tables: &'static [SharedTable],
    /// What the peer calls each of our tables, once it told.
    known: Vec<Option<Known>>,
    /// The table that its updates are about; none if we have none like it.
    current: Option<usize>,
    names: LearnedNames,
    /// Data of one entry, while it is read.
    data: Vec<Learned>,
}

/// A table as a peer defined it.
#[derive(Debug)]
struct Known {
    id: u64,
    key: KeyKind,
    key_length: u32,
    fields: Fields,
    /// The last update.
    last: u32,
    /// It was not acknowledged.
    is_news: bool,
}

/// Data of an entry that a peer told.
#[derive(Debug)]
struct Learned {
    data: DataType,
    element: u16,
    value: LearnedValue,
}

#[derive(Debug)]
enum LearnedValue {
    Number(u64),
    Rate(RateParts),
    Name(Option<Arc<str>>),
}

impl Incoming {
    pub fn new(tables: &'static [SharedTable]) -> Incoming {
        let known = tables.iter().map(|_| None).collect();
        Incoming { tables, known, current: None, names: LearnedNames::default(), data: Vec::new() }
    }

    /// The table that the next updates are about. False if we have one of that name which is not like it.
    pub fn define(&mut self, told: &Definition<'_>) -> bool {
        let found = self.tables.iter().position(|shared| shared.name.as_bytes() == told.name);
        self.current = found.filter(|position| self.tables[*position].is_like(told));
        let Some(position) = self.current else { return found.is_none() };
        let known = &mut self.known[position];
        let (last, is_news) = known.as_ref().map_or((0, false), |known| (known.last, known.is_news));
        *known = Some(Known {
            id: told.id,
            key: told.key,
            key_length: told.key_length,
            fields: told.fields.clone(),
            last,
            is_news,
        });
        true
    }

    /// The next updates are about a table that was defined before.
    pub fn switch(&mut self, id: u64) {
        self.current = self.known.iter().position(|known| known.as_ref().is_some_and(|known| known.id == id));
    }

    /// Learns what an update says. One of a table that we do not have is passed over.
    pub fn learn(&mut self, update: &Update<'_>, now_ms: u64) -> Result<(), Fault> {
        let Some(position) = self.current else { return Ok(()) };
        let (Some(known), shared) = (&mut self.known[position], &self.tables[position]) else {
            return Ok(());
        };
        known.last = update.number.unwrap_or(known.last.wrapping_add(1));
        known.is_news = true;
        let entry = Entry::read(update.body, known.key, known.key_length)?;
        self.data.clear();
        let (data, names) = (&mut self.data, &mut self.names);
        entry.read_data(&known.fields, |field, element, value| {
            // A name has its number from now on, whatever becomes of the entry.
            let value = match value {
                Value::Count(number) => LearnedValue::Number(number),
                Value::Rate(rate) => LearnedValue::Rate(parts(rate)),
                Value::Name(mention) => LearnedValue::Name(names.resolve(mention)),
            };
            if let Some(of) = data_of(field) {
                data.push(Learned { data: of, element, value });
            }
        })?;
        let Some(key) = shared.key(entry.key) else { return Ok(()) };
        // Where nothing expires, nothing is left of any time.
        let expires_in_ms = update.expires_in_ms.filter(|left| *left > 0);
        shared.table.learn(&key, now_ms, expires_in_ms, |row| {
            let learned = self.data.iter().filter(|learned| shared.receive_only || !is_local(learned.data));
            learned.for_each(|learned| learned.store(row));
        });
        if let Some(also) = shared.write_to {
            also.learn(&key, now_ms, expires_in_ms, |row| {
                self.data
                    .iter()
                    .filter(|learned| is_no_sum(learned.data))
                    .for_each(|learned| learned.store(row));
            });
        }
        Ok(())
    }

    /// Appends what was learned since the last time.
    pub fn acknowledge(&mut self, out: &mut Vec<u8>) {
        for known in self.known.iter_mut().flatten().filter(|known| known.is_news) {
            known.is_news = false;
            write::acknowledgement(known.id, known.last, out);
        }
    }
}

/// What counts here and now makes no sense anywhere else (manual, 11.1, "conn_cur").
fn is_local(data: DataType) -> bool {
    data == DataType::ConnectionsCurrent
}

/// Whether the data may be written to another table, whose own sums must not grow by what others count (manual, 11.1, "write-to").
fn is_no_sum(data: DataType) -> bool {
    matches!(data, DataType::ServerId | DataType::ServerKey | DataType::Gpt | DataType::Gpt0)
}

impl Learned {
    fn store(&self, row: &mut Row<'_>) {
        match &self.value {
            LearnedValue::Number(number) => _ = row.set(self.data, self.element, *number),
            LearnedValue::Rate(parts) => row.set_rate(self.data, self.element, *parts),
            LearnedValue::Name(Some(name)) => row.set_server_key(name),
            LearnedValue::Name(None) => {}
        }
    }
}

/// What others tell of a rate. Clocks of threads differ by a little: a period may have begun "after" now, which is told as a negative
/// number of 32 bits. One that began longer ago than can be told has no events any more.
fn parts(rate: Rate) -> RateParts {
    let age_ms = u32::try_from(rate.age_ms).map_or(rate.age_ms as i64, |age_ms| i64::from(age_ms as i32));
    if !(-CLOCKS_DIFFER_MS..=i64::from(i32::MAX)).contains(&age_ms) {
        return RateParts::default();
    }
    RateParts {
        age_ms: age_ms.max(0) as u32,
        current: rate.current.min(u32::MAX.into()) as u32,
        previous: rate.previous.min(u32::MAX.into()) as u32,
    }
}

/// A beginning that is further ahead is none.
const CLOCKS_DIFFER_MS: i64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_may_begin_a_little_after_now() {
        let age_of = |age_ms: u64| parts(Rate { age_ms, current: 7, previous: 0 });
        for (told, learned) in
            [(0, 0), (5, 5), (0xffff_ffff, 0), (u64::MAX, 0), (i32::MAX as u64, i32::MAX as u32)]
        {
            assert_eq!((age_of(told).age_ms, age_of(told).current), (learned, 7), "{told:x}");
        }
        for nonsense in [1 << 31, 1 << 32, 1 << 63, 0xffff_0000] {
            assert_eq!(age_of(nonsense).current, 0, "{nonsense:x}");
        }
    }
}
