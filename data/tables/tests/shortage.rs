//! Tables when memory is short. A single test, because the memory limit applies to the whole process.

use weir_expr::Value;
use weir_expr::table::{DataType, Declaration, KeyType, ServerKeyKind, Stored};
use weir_memory::shortage::{is_short, limit, shortages};
use weir_tables::{Key, Removal, Table};

const LIMIT: u64 = 8 << 20;
/// Maximum number of entries that fit into three quarters of the limit: 48 bytes per entry and eight for its bucket.
const MOST: u32 = (LIMIT / 4 * 3 / 56) as u32;

fn declaration(no_purge: bool) -> Declaration {
    Declaration {
        name: "test".into(),
        key: KeyType::Integer,
        size: 1 << 20,
        expire_ms: 0,
        no_purge,
        bytes_rate_factor: 1,
        server_key: ServerKeyKind::Name,
        stored: [DataType::Gpc0, DataType::RequestRate]
            .map(|data| Stored { data, elements: 1, period_ms: 1000 })
            .to_vec(),
    }
}

fn key(number: u32) -> Key {
    Key::of(Value::Int(number.into()), KeyType::Integer).expect("a number")
}

fn add(table: &Table, number: u32) -> bool {
    table.store(&key(number), u64::from(number), |row| row.add(DataType::Gpc0, 0, 1)).is_some()
}

fn has(table: &Table, number: u32) -> bool {
    table.look(&key(number), 0, |_| ()).is_some()
}

/// Removes all entries and frees their memory.
fn clear(table: &Table, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| assert_ne!(table.remove(&key(number), 0), Removal::InUse));
    while table.expire(0, 1000) {}
    assert_eq!(table.used(), 0);
}

#[test]
fn tables_stay_within_the_memory_limit_by_evicting_entries() {
    limit(LIMIT);
    let table = Table::shared(declaration(false), 3);
    for number in 0..400_000 {
        assert!(add(&table, number), "an older one made room for {number}");
        assert!(has(&table, number));
    }
    let used = table.used();
    assert!((MOST / 2..=MOST).contains(&used), "{used}");
    assert_eq!((u64::from(used) + table.evicted(), table.refused()), (400_000, 0));
    assert!(has(&table, 0) == (0..1000).all(|number| has(&table, number)), "the oldest went first");
    let first = shortages();
    // The accounting of a thread may lag behind its allocations by 32 kB.
    assert!((LIMIT / 2..=LIMIT / 4 * 3 + (32 << 10)).contains(&first.used), "{first:?}");
    assert!(first.failures > 0 && first.emergency == 0 && !is_short(), "{first:?}");

    // A table with `nopurge` cannot make room for new entries.
    let other = Table::new(declaration(true));
    let stored = (0..1000).filter(|number| add(&other, *number)).count();
    assert_eq!((stored as u32, other.refused(), other.evicted()), (other.used(), 1000 - stored as u64, 0));
    assert!(stored < 1000);

    // Tracked entries stay.
    let held: Vec<_> = (0..400_000).filter_map(|number| table.track(&key(number), 0, |_| ())).collect();
    assert!(held.len() as u32 >= used && table.refused() > 0);
    held.into_iter().for_each(|(entry, ())| table.untrack(entry, 0, |_| ()));

    clear(&table, 0..400_000);
    clear(&other, 0..1000);
    let last = shortages().used;
    assert!(last < LIMIT / 50, "{last} bytes are left");
    assert!((0..1000).all(|number| add(&other, number)), "there is memory again");
}
