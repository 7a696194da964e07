//! Results of an expression's queries about an entry.

use weir_expr::table::{DataType, TableQuestion};

use crate::key::Key;
use crate::row::LockedEntry;
use crate::table::Table;

/// The result of a [`TableQuestion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableAnswer {
    Value(u64),
    /// The table does not store the data type.
    NotStored,
    /// The entry does not exist.
    NoEntry,
}

impl From<Option<u64>> for TableAnswer {
    fn from(value: Option<u64>) -> TableAnswer {
        value.map_or(TableAnswer::NotStored, TableAnswer::Value)
    }
}

impl Table {
    /// Runs a query on the entry of a key. A query that changes a counter refreshes the entry's expiry and creates a missing
    /// entry, even if the counter is not stored (as HAProxy does). Other queries do neither.
    pub fn query(&self, key: &Key, question: TableQuestion, now_ms: u64) -> TableAnswer {
        let answer = match question {
            TableQuestion::Increment(..) | TableQuestion::Clear(..) => {
                self.store(key, now_ms, |row| row.query(question))
            }
            _ => self.look(key, now_ms, |row| row.query(question)),
        };
        answer.unwrap_or(TableAnswer::NoEntry)
    }
}

impl LockedEntry<'_> {
    /// Runs a query on the entry.
    pub fn query(&mut self, question: TableQuestion) -> TableAnswer {
        match question {
            TableQuestion::Exists => TableAnswer::Value(1),
            TableQuestion::Data(data, element) => self.get(data, element).into(),
            TableQuestion::Kilobytes(data) => self.get(data, 0).map(|bytes| bytes >> 10).into(),
            TableQuestion::Increment(DataType::ConnectionCount, _) => {
                self.add(DataType::ConnectionCount, 0, 1).into()
            }
            TableQuestion::Increment(data, element) => TableAnswer::Value(self.grow(data, element, 1)),
            TableQuestion::Clear(data, element) => {
                let former = self.get(data, element);
                self.set(data, element, 0);
                former.into()
            }
            TableQuestion::Expires => TableAnswer::Value(self.expires_in_ms().into()),
            TableQuestion::Idle => TableAnswer::Value(self.idle_ms().into()),
            TableQuestion::Trackers => TableAnswer::Value(self.trackers().into()),
        }
    }

    /// Adds to a general purpose counter and to its rate, if stored. Returns the new counter, or the new rate if only the
    /// rate is stored.
    pub fn grow(&mut self, counter: DataType, element: u16, amount: u32) -> u64 {
        let rate = counter.rate().and_then(|rate| self.add(rate, element, amount.into()));
        self.add(counter, element, amount.into()).or(rate).unwrap_or_default()
    }

    /// Milliseconds since the entry was used. 0 if the entry does not expire.
    fn idle_ms(&self) -> u32 {
        if self.expire_ms == 0 { 0 } else { self.expire_ms.saturating_sub(self.expires_in_ms()) }
    }
}

#[cfg(test)]
mod tests {
    use weir_expr::Value;
    use weir_expr::table::KeyType;

    use super::*;
    use crate::fixture::declaration;

    const GPC0: DataType = DataType::Gpc0;

    #[test]
    fn incrementing_a_counter_creates_the_table_entry() {
        let table = Table::new(declaration(10, 1000));
        let key = Key::of(Value::Int(1), KeyType::Ipv4).expect("a key");
        let query = |question, now| table.query(&key, question, now);
        assert_eq!(query(TableQuestion::Data(GPC0, 0), 0), TableAnswer::NoEntry);
        assert_eq!(query(TableQuestion::Increment(DataType::Gpc1, 0), 0), TableAnswer::Value(0));
        assert_eq!(table.used(), 1, "an entry, although there is nothing to count");
        assert_eq!(query(TableQuestion::Clear(DataType::Gpc1, 0), 0), TableAnswer::NotStored);
        assert_eq!(query(TableQuestion::Increment(DataType::ConnectionCount, 0), 0), TableAnswer::NotStored);
        assert_eq!(query(TableQuestion::Increment(GPC0, 0), 0), TableAnswer::Value(1));
        assert_eq!(query(TableQuestion::Increment(GPC0, 0), 0), TableAnswer::Value(2));
        assert_eq!(query(TableQuestion::Clear(GPC0, 0), 0), TableAnswer::Value(2));
        assert_eq!(query(TableQuestion::Data(GPC0, 0), 0), TableAnswer::Value(0));
        assert_eq!(query(TableQuestion::Data(DataType::SessionCount, 0), 0), TableAnswer::NotStored);
        assert_eq!(query(TableQuestion::Expires, 400), TableAnswer::Value(600));
        assert_eq!(query(TableQuestion::Idle, 400), TableAnswer::Value(400));
        assert_eq!(query(TableQuestion::Trackers, 400), TableAnswer::Value(0));
        assert_eq!(query(TableQuestion::Expires, 1000), TableAnswer::NoEntry);
    }
}
