//! Tables through their public interface.

use std::sync::atomic::AtomicU32;

use proptest::prelude::*;
use weir_expr::Value;
use weir_expr::table::DataType;

use super::*;
use crate::fixture::declaration;

fn key(number: u32) -> Key {
    Key::of(Value::Ipv4(number.into()), crate::KeyType::Ipv4).expect("an address")
}

fn count(table: &Table, number: u32, now_ms: u64) -> Option<u64> {
    table.look(&key(number), now_ms, |row| row.get(DataType::Gpc0, 0)).flatten()
}

fn add(table: &Table, number: u32, now_ms: u64) -> Option<u64> {
    table.store(&key(number), now_ms, |row| row.add(DataType::Gpc0, 0, 1)).flatten()
}

#[test]
fn a_table_entry_is_found_until_it_expires() {
    let table = Table::new(declaration(10, 1000));
    assert_eq!(count(&table, 1, 0), None);
    assert_eq!(add(&table, 1, 0), Some(1));
    assert_eq!(add(&table, 1, 500), Some(2));
    assert_eq!(count(&table, 1, 1499), Some(2), "storing puts the end off");
    assert_eq!(count(&table, 1, 1500), None, "looking does not");
    assert_eq!(table.used(), 0);
    table.check_invariants();
}

#[test]
fn entries_of_a_table_without_expire_do_not_expire() {
    let table = Table::new(declaration(10, 0));
    add(&table, 1, 0);
    assert!(!table.expire(u64::from(u32::MAX), 10));
    assert_eq!(count(&table, 1, u64::from(u32::MAX)), Some(1));
}

#[test]
fn a_full_table_purges_its_oldest_untracked_entry() {
    let table = Table::new(declaration(3, 0));
    let (tracked, ()) = table.track(&key(1), 0, |_| ()).expect("room");
    add(&table, 2, 1);
    add(&table, 3, 2);
    add(&table, 2, 3);
    add(&table, 4, 4);
    let there = [1, 2, 3, 4].map(|number| count(&table, number, 4).is_some());
    assert_eq!(there, [true, true, false, true]);
    assert_eq!((table.used(), table.evicted()), (3, 1));
    table.untrack(tracked, 5, |_| ());
    table.check_invariants();
}

#[test]
fn a_full_table_of_tracked_entries_refuses_new_ones() {
    let table = Table::new(declaration(1, 0));
    let (tracked, ()) = table.track(&key(1), 0, |_| ()).expect("room");
    assert_eq!(add(&table, 2, 1), None);
    assert_eq!(table.refused(), 1);
    table.untrack(tracked, 2, |_| ());
    assert_eq!(add(&table, 2, 3), Some(1));
}

#[test]
fn nopurge_refuses_new_entries_until_one_expires() {
    let table = Table::new(Declaration { no_purge: true, ..declaration(1, 1000) });
    add(&table, 1, 0);
    assert_eq!(add(&table, 2, 999), None);
    assert_eq!((table.refused(), table.evicted()), (1, 0));
    assert_eq!(add(&table, 2, 1000), Some(1));
    assert_eq!((table.used(), table.evicted()), (1, 0));
}

#[test]
fn a_tracked_entry_stays_and_restarts_its_expiry_when_untracked() {
    let table = Table::new(declaration(10, 1000));
    let (entry, _) = table.track(&key(1), 0, |row| row.add(DataType::Gpc0, 0, 7)).expect("room");
    assert_eq!(count(&table, 1, 5000), Some(7));
    assert_eq!(table.remove(&key(1), 5000), Removal::InUse);
    table.untrack(entry, 5000, |_| ());
    assert_eq!(count(&table, 1, 5999), Some(7));
    assert_eq!(table.remove(&key(1), 5999), Removal::Gone);
    assert_eq!(table.remove(&key(1), 5999), Removal::Missing);
    table.check_invariants();
}

#[test]
fn entries_survive_a_wrap_and_jumps_of_the_32_bit_clock() {
    // Entries store the low 32 bits of milliseconds, which wrap every 49 days.
    let wraps = 1_u64 << 32;
    let table = Table::new(declaration(2000, 1000));
    (0..100).for_each(|number| _ = add(&table, number, wraps - 500));
    assert_eq!(count(&table, 1, wraps + 499), Some(1));
    assert_eq!(count(&table, 1, wraps + 500), None);
    assert_eq!(add(&table, 2, wraps + 499), Some(2));
    while table.expire(wraps + 500, 10) {}
    assert_eq!(table.used(), 1, "the one that was used");
    assert_eq!(count(&table, 2, wraps + 1498), Some(2));
    // After the process slept for three weeks, all entries have expired and are removed.
    (100..200).for_each(|number| _ = add(&table, number, wraps + 1000));
    let later = wraps + 21 * 86_400_000;
    assert_eq!(count(&table, 150, later), None);
    let steps = (0..).take_while(|_| table.expire(later, 10)).count();
    assert_eq!((table.used(), steps), (0, 10));
    assert_eq!(add(&table, 2, later), Some(1));
    table.check_invariants();
}

#[test]
fn the_number_of_a_removed_entry_does_not_find_its_successor() {
    let table = Table::new(declaration(10, 1000));
    let (entry, ()) = table.track(&key(1), 0, |_| ()).expect("room");
    table.untrack(entry, 0, |_| ());
    assert_eq!(EntryKey::from_number(entry.number()), entry);
    assert_eq!(table.remove_entry(entry), Removal::Gone);
    add(&table, 2, 0);
    assert_eq!(table.at(entry, 0, |_| ()), None, "though the slot is used again");
    assert_eq!(table.remove_entry(entry), Removal::Missing);
}

#[test]
fn expiry_removes_a_bounded_number_of_entries_per_step() {
    let table = Table::new(declaration(100_000, 1000));
    (0..5000).for_each(|number| {
        add(&table, number, 0);
    });
    assert_eq!(table.used(), 5000);
    assert!(table.expire(1000, 1000), "there is more");
    assert_eq!(table.used(), 4000);
    while table.expire(1000, 1000) {}
    assert_eq!(table.used(), 0);
    table.check_invariants();
}

/// Expires entries at `now_ms` until nothing is left to do.
fn steps(table: &Table, now_ms: u64) -> usize {
    (0..).take_while(|_| table.expire(now_ms, 100_000)).count()
}

#[test]
fn table_memory_is_freed_in_steps_and_reused() {
    const ENTRIES: u32 = 130_000;
    for expire_ms in [0, 1000] {
        let table = Table::new(declaration(ENTRIES, expire_ms));
        for round in 0..2 {
            (0..ENTRIES).for_each(|number| _ = add(&table, number, 0));
            assert_eq!(steps(&table, 1), 0, "nothing to give back, round {round}");
            let room = table.room();
            assert!((ENTRIES as usize..ENTRIES as usize * 3 / 2).contains(&room), "{room}");
            (0..ENTRIES).for_each(|number| assert_eq!(table.remove(&key(number), 1), Removal::Gone));
            assert_eq!(table.room(), room, "it is given back in steps");
            // Without expiry steps in between, the next entries reuse the same memory and begin empty.
            (0..ENTRIES).for_each(|number| assert_eq!(add(&table, number, 1), Some(1)));
            assert_eq!(steps(&table, 1), 0, "all of it is used, round {round}");
            (0..ENTRIES).for_each(|number| assert_eq!(table.remove(&key(number), 1), Removal::Gone));
            // A block has 1024 entries, or 1024 buckets.
            let blocks = (ENTRIES as usize / 1024) * 2;
            assert!(steps(&table, 1) >= blocks / GIVEN_AT_ONCE, "round {round}");
            assert_eq!(table.room(), 0);
            table.check_invariants();
        }
    }
}

#[test]
fn table_memory_around_remaining_entries_is_freed() {
    const ENTRIES: u32 = 200_000;
    let table = Table::new(declaration(ENTRIES, 1000));
    // The entries in constant use were added before the others or among them.
    let stays = |number: u32| number < 1000 || (50_000..51_000).contains(&number);
    (0..ENTRIES).for_each(|number| _ = add(&table, number, 0));
    let (tracked, ()) = table.track(&key(500), 0, |_| ()).expect("room");
    (0..ENTRIES).filter(|number| stays(*number)).for_each(|number| _ = add(&table, number, 900));
    steps(&table, 1000);
    assert_eq!(table.used(), 2000);
    table.check_invariants();
    // In each of 64 shards, the block of the first entries and the block of the later ones remain.
    assert!(table.room() <= 64 * 2 * 1024, "{}", table.room());
    for number in (0..ENTRIES).filter(|number| stays(*number)) {
        assert_eq!(count(&table, number, 1000), Some(2), "{number}");
    }
    assert_eq!(table.at(tracked, 1000, |row| row.trackers()), Some(1));
    let mut walked = 0;
    let mut cursor = Some(TableCursor::default());
    while let Some(at) = cursor {
        cursor = table.walk(at, HELD_ENTRIES, 1000, |_, _| walked += 1);
    }
    assert_eq!(walked, 2000);
    // New entries use allocated memory before they allocate more.
    let room = table.room();
    (ENTRIES..ENTRIES + 50_000).for_each(|number| assert_eq!(add(&table, number, 1000), Some(1)));
    assert_eq!(table.room(), room);
    table.check_invariants();
    table.untrack(tracked, 1000, |_| ());
    steps(&table, 5000);
    assert_eq!((table.used(), table.room()), (0, 0));
    table.check_invariants();
}

#[test]
fn a_table_of_many_shards_stores_exactly_its_declared_size() {
    let size = 70_000;
    let table = Table::new(declaration(size, 0));
    (0..size * 2).for_each(|number| {
        assert_eq!(add(&table, number, 0), Some(1));
    });
    assert_eq!(u64::from(size), table.evicted());
    assert_eq!(table.used(), size);
    table.check_invariants();
}

#[test]
fn walking_a_table_in_steps_shows_every_entry_once() {
    let table = Table::new(declaration(5000, 0));
    (0..5000).for_each(|number| {
        add(&table, number, 0);
    });
    let mut seen = Vec::new();
    let mut cursor = Some(TableCursor::default());
    while let Some(at) = cursor {
        let before = seen.len();
        cursor = table.walk(at, 16, 0, |_, row| match row.key() {
            Value::Ipv4(address) => seen.push(u32::from(address)),
            other => panic!("{other:?}"),
        });
        assert!(seen.len() - before <= 16);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..5000).collect::<Vec<_>>());
}

#[test]
fn entries_store_servers_by_name() {
    let mut declared = declaration(10, 0);
    declared.stored.push(crate::Stored { data: DataType::ServerKey, elements: 1, period_ms: 0 });
    let table = Table::new(declared);
    table.store(&key(1), 0, |row| row.set_server_key("one"));
    table.store(&key(2), 0, |row| row.set_server_key("two"));
    assert_eq!(table.look(&key(1), 0, |row| row.server_key()).flatten().as_deref(), Some("one"));
    assert_eq!(table.look(&key(2), 0, |row| row.server_key()).flatten().as_deref(), Some("two"));
}

#[test]
fn concurrent_table_updates_lose_no_counts() {
    let table = Table::new(declaration(10_000, 0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..10_000 {
                    add(&table, number % 100, 0);
                }
            });
        }
    });
    let total: u64 = (0..100).filter_map(|number| count(&table, number, 0)).sum();
    assert_eq!(total, 40_000);
    table.check_invariants();
}

/// An operation on a table, with one of a few keys.
#[derive(Debug, Clone)]
enum Deed {
    Store(u32),
    Track(u32),
    Untrack(usize),
    Remove(u32),
    Pass(u64),
    Expire(u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        (0_u32..40).prop_map(Deed::Store),
        (0_u32..40).prop_map(Deed::Track),
        any::<usize>().prop_map(Deed::Untrack),
        (0_u32..40).prop_map(Deed::Remove),
        (0_u64..400).prop_map(Deed::Pass),
        (0_u32..10).prop_map(Deed::Expire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_table_operations_keep_the_invariants(deeds in prop::collection::vec(deed(), 0..400)) {
        let table = Table::new(declaration(20, 1000));
        let (mut now, mut tracked) = (u64::from(u32::MAX) - 2000, Vec::new());
        for deed in deeds {
            match deed {
                Deed::Store(number) => drop(table.store(&key(number), now, |row| row.add(DataType::Gpc0, 0, 1))),
                Deed::Track(number) => tracked.extend(table.track(&key(number), now, |_| ()).map(|(entry, ())| (entry, number))),
                Deed::Untrack(which) if !tracked.is_empty() => {
                    let (entry, _) = tracked.swap_remove(which % tracked.len());
                    table.untrack(entry, now, |_| ());
                }
                Deed::Untrack(_) => {}
                Deed::Remove(number) => {
                    let is_tracked = tracked.iter().any(|(_, other)| *other == number);
                    prop_assert_eq!(table.remove(&key(number), now) == Removal::InUse, is_tracked);
                }
                Deed::Pass(time) => now += time,
                Deed::Expire(budget) => drop(table.expire(now, budget)),
            }
            prop_assert!(table.used() <= 20);
            for (entry, number) in &tracked {
                let shown = table.at(*entry, now, |row| row.key());
                prop_assert_eq!(shown, Some(Value::Ipv4((*number).into())));
            }
            table.check_invariants();
        }
    }
}

#[test]
fn expire_due_does_not_lock_shards_before_the_first_expiry() {
    let table = Table::new(declaration(10_000, 10_000));
    let expire_ms = u64::from(table.declaration().expire_ms);
    let entry = |number, now| table.store(&key(number), now, |_| ()).expect("room");
    assert_eq!(
        table.expire_due(1_000, &mut 10),
        Some(1_000 + expire_ms),
        "what comes next lives for the whole time"
    );
    entry(1, 1_500);
    let locked: Vec<_> = table.shards.iter().map(|shard| shard.lock()).collect();
    // This thread holds a shard's lock, so taking the lock here would deadlock.
    assert_eq!(table.expire_due(900 + expire_ms, &mut 10), Some(1_000 + expire_ms));
    drop(locked);
    assert_eq!(table.expire_due(1_000 + expire_ms, &mut 10), Some(1_500 + expire_ms), "the oldest one");
    assert_eq!(table.used(), 1);
    assert_eq!(table.expire_due(1_500 + expire_ms, &mut 10), Some(0), "its memory waits to be given back");
    assert_eq!(table.used(), 0);
    let end = 1_600 + expire_ms;
    assert_eq!(table.expire_due(end, &mut 10), Some(end + expire_ms));
}

#[test]
fn the_expiry_task_is_woken_for_earlier_entries() {
    let woken = Arc::new(AtomicU32::new(0));
    let table = Table::new(declaration(10_000, 10_000));
    let counted = Arc::clone(&woken);
    table.on_due(move || _ = counted.fetch_add(1, Relaxed));
    let expire_ms = table.declaration().expire_ms;
    table.expire_due(1_000, &mut 10).expect("nothing to do");
    table.store(&key(1), 1_000, |_| ()).expect("room");
    assert_eq!(woken.load(Relaxed), 0, "an entry lives for the whole time");
    table.learn(&key(2), 1_000, Some(expire_ms / 2), |_| ()).expect("room");
    assert_eq!((woken.load(Relaxed), table.due_at()), (1, 1_000 + u64::from(expire_ms) / 2));
    table.remove(&key(1), 1_000);
    table.remove(&key(2), 1_000);
    assert_eq!((woken.load(Relaxed), table.due_at()), (2, 0), "memory waits");
}

/// Bounds the number of entries read during one lock of a shard. The bound must not depend on the table's size.
#[test]
fn table_operations_lock_a_shard_for_few_entries_at_a_time() {
    const ENTRIES: u32 = 100_000;
    let everything = || {
        let table = Table::shared(declaration(ENTRIES, 1000), 2);
        (0..ENTRIES).for_each(|number| _ = add(&table, number, 0));
        assert_eq!(table.used(), ENTRIES);
        table
    };
    let holds = |table: &Table| table.longest_hold();
    // 64 entries, each with a few accesses, including its neighbours by age and in its bucket.
    let limit = 64 * 12;

    let table = everything();
    assert!(holds(&table) < 100, "{} while it grew", holds(&table));
    let mut from = 0;
    while let Some(next) = table.send_changes(0, from, 10_000, 1, |_, _| ()) {
        from = next;
    }
    assert!(holds(&table) <= limit, "{} while others were sent", holds(&table));
    table.mark_all_unsent(1);
    table.forget_changes(0);
    for number in 0..1000 {
        table.learn(&key(number + ENTRIES), 1, Some(10), |_| ());
    }
    let mut cursor = Some(TableCursor::default());
    while let Some(at) = cursor {
        let mut found = Vec::new();
        cursor = table.walk(at, HELD_ENTRIES, 1, |entry, _| found.push(entry));
        found.into_iter().for_each(|entry| _ = table.remove_entry(entry));
    }
    assert_eq!(table.used(), 0);
    while table.expire(1, ENTRIES) {}
    assert!(holds(&table) <= limit, "{} while it was cleared", holds(&table));

    let table = everything();
    while table.expire(1000, ENTRIES) {}
    assert_eq!(table.used(), 0);
    assert!(holds(&table) <= limit, "{} while everything expired", holds(&table));

    let table = everything();
    assert_eq!(add(&table, ENTRIES, 1000), Some(1), "there is room again");
    assert!(holds(&table) <= limit, "{} while one came and the others had expired", holds(&table));
}

#[test]
fn tables_share_one_expiry_budget() {
    let tables: Vec<Table> = (0..3).map(|_| Table::new(declaration(10_000, 1000))).collect();
    for table in &tables {
        (0..100).for_each(|number| _ = add(table, number, 0));
    }
    let mut budget = 150;
    let done: Vec<bool> = tables.iter().map(|table| table.expire_due(1000, &mut budget).is_some()).collect();
    assert_eq!((done, budget), (vec![true, false, false], 0));
    assert_eq!(tables.iter().map(Table::used).collect::<Vec<_>>(), [0, 50, 100]);
}
