//! Expiry of stick-table entries: one worker removes expired entries, a few at a time, and frees empty memory.
//!
//! Lookups never return an expired entry, even before its removal. The removal only frees memory. The task sleeps until the first
//! entry of any table may expire.

use std::sync::Arc;

use weir_sched::{Class, Tick, WorkKind};
use weir_stream::instance::LocalInstance;
use weir_tables::Table;

/// Starts the expiry task. Call it on one worker only.
pub(crate) fn start(instance: LocalInstance) {
    if instance.tables.is_empty() {
        return;
    }
    weir_sched::spawn(&EXPIRY, Class::Bulk, async move {
        let task = weir_sched::current();
        instance.tables.iter().for_each(|table| table.on_due(move || weir_sched::wake(task)));
        let mut turns = TableTurns::default();
        loop {
            let now = weir_sched::now();
            let more = turns.take(&instance.tables, now.as_ms());
            weir_sched::sleep_until(now.after(if more { SHORT_PAUSE_MS } else { PAUSE_MS })).await;
            let due = instance.tables.iter().map(|table| table.due_at()).min().unwrap_or(u64::MAX);
            if due > weir_sched::now().as_ms() {
                weir_sched::wait(if due == u64::MAX { Tick::NEVER } else { Tick::from_ms(due) }).await;
            }
        }
    });
}

/// A round-robin over the tables: the next step starts with table `first`.
#[derive(Default)]
struct TableTurns {
    first: usize,
}

impl TableTurns {
    /// Removes at most [`AT_ONCE`] expired entries over all tables. Returns whether there are more. A table with more comes last in the
    /// next step.
    fn take(&mut self, tables: &[Arc<Table>], now_ms: u64) -> bool {
        let mut budget = AT_ONCE;
        for step in 0..tables.len() {
            let number = (self.first + step) % tables.len();
            if tables[number].expire_due(now_ms, &mut budget).is_none() {
                self.first = number + 1;
                return true;
            }
        }
        false
    }
}

static EXPIRY: WorkKind = WorkKind::new("table expiry");
/// How long an expired entry stays in memory, at most, in milliseconds (approximate).
const PAUSE_MS: u64 = 200;
/// The pause between two steps, for traffic, in milliseconds.
const SHORT_PAUSE_MS: u64 = 1;
/// Maximum number of entries removed per step. With ten million entries, which no cache holds, a step takes 50 microseconds.
const AT_ONCE: u32 = 500;

#[cfg(test)]
mod tests {
    use weir_expr::Value;
    use weir_expr::table::{Declaration, KeyType, ServerKeyKind};
    use weir_tables::Key;

    use super::*;

    fn table(entries: u32) -> Arc<Table> {
        let table = Table::new(Declaration {
            name: "t".into(),
            key: KeyType::Integer,
            size: entries,
            expire_ms: 1000,
            no_purge: false,
            bytes_rate_factor: 1,
            server_key: ServerKeyKind::Name,
            stored: Vec::new(),
        });
        for number in 0..i64::from(entries) {
            table.store(&Key::of(Value::Int(number), KeyType::Integer).expect("a key"), 0, |_| ());
        }
        Arc::new(table)
    }

    #[test]
    fn a_turn_of_table_expiry_visits_a_bounded_number_of_entries() {
        let large = std::iter::once(table(200 * AT_ONCE));
        let tables: Vec<Arc<Table>> = large.chain((0..50).map(|_| table(AT_ONCE - 10))).collect();
        let used = || tables.iter().map(|table| table.used()).sum::<u32>();
        let mut turns = TableTurns::default();
        for _ in 0..150 {
            let before = used();
            assert!(turns.take(&tables, 1000), "there is more");
            assert!(before - used() <= AT_ONCE, "{} in one turn", before - used());
        }
        assert_eq!(used(), tables[0].used(), "the large one does not delay the others");
        while turns.take(&tables, 1000) {}
        assert_eq!(used(), 0);
    }
}
