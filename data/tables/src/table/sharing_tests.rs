//! Tables that several instances share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use weir_expr::Value;
use weir_expr::table::DataType;

use super::*;
use crate::RateParts;
use crate::fixture::declaration;

fn key(number: u32) -> Key {
    Key::of(Value::Ipv4(number.into()), crate::KeyType::Ipv4).expect("an address")
}

fn sent(table: &Table, audience: usize) -> Vec<(u32, u64)> {
    let (mut sent, mut from) = (Vec::new(), Some(0));
    while let Some(shard) = from {
        from = table.send_changes(audience, shard, 7, 0, |_, row| {
            let Value::Ipv4(address) = row.key() else { panic!("an address") };
            sent.push((address.into(), row.get(DataType::Gpc0, 0).expect("stored")));
        });
    }
    sent.sort_unstable();
    sent
}

fn add(table: &Table, number: u32) {
    table.store(&key(number), 0, |row| row.add(DataType::Gpc0, 0, 1)).expect("room");
}

#[test]
fn a_local_change_is_sent_to_each_peer_once() {
    let table = Table::shared(declaration(100_000, 0), 2);
    (0..500).for_each(|number| add(&table, number));
    add(&table, 7);
    let all: Vec<_> = (0..500).map(|number| (number, if number == 7 { 2 } else { 1 })).collect();
    assert_eq!(sent(&table, 0), all);
    assert_eq!(sent(&table, 0), []);
    add(&table, 9);
    assert_eq!(sent(&table, 0), [(9, 2)]);
    assert_eq!(sent(&table, 1).len(), 500);
}

#[test]
fn storing_and_tracking_an_entry_are_changes_but_reading_is_not() {
    let table = Table::shared(declaration(10, 0), 1);
    let check_sent = |what: &str, expected| assert_eq!(sent(&table, 0).len(), expected, "{what}");
    add(&table, 1);
    check_sent("store", 1);
    table.refresh(&key(1), 0, |_| ());
    check_sent("refresh", 1);
    let (entry, ()) = table.track(&key(1), 0, |_| ()).expect("room");
    check_sent("track", 1);
    table.at(entry, 0, |row| row.get(DataType::Gpc0, 0));
    table.look(&key(1), 0, |row| row.get(DataType::Gpc0, 0));
    check_sent("look", 0);
    table.at(entry, 0, |row| row.add(DataType::RequestRate, 0, 1));
    check_sent("count", 1);
    table.look(&key(1), 0, |row| row.set(DataType::Gpc0, 0, 7));
    check_sent("set", 1);
    table.untrack(entry, 0, |_| ());
    check_sent("untrack", 1);
    add(&table, 2);
    table.remove(&key(2), 0);
    check_sent("one that is gone", 0);
}

#[test]
fn learned_entries_are_not_forwarded_to_peers() {
    let table = Table::shared(declaration(10, 1000), 1);
    table.learn(&key(1), 0, Some(300), |row| row.set(DataType::Gpc0, 0, 5)).expect("room");
    table.learn(&key(2), 0, Some(5000), |row| row.set(DataType::Gpc0, 0, 6)).expect("room");
    assert_eq!(sent(&table, 0), []);
    let count = |number, now_ms| table.look(&key(number), now_ms, |row| row.get(DataType::Gpc0, 0)).flatten();
    assert_eq!((count(1, 299), count(1, 300)), (Some(5), None), "it expires where it came from");
    assert_eq!((count(2, 999), count(2, 1000)), (Some(6), None), "and never lives longer than others");
    table.check_invariants();
}

#[test]
fn a_tracked_entry_learns_values_and_does_not_expire() {
    let table = Table::shared(declaration(10, 1000), 1);
    let counters = |entry, now_ms| {
        table.at(entry, now_ms, |row| (row.get(DataType::Gpc0, 0), row.trackers(), row.expires_in_ms()))
    };
    let (entry, _) = table.track(&key(1), 0, |row| row.add(DataType::Gpc0, 0, 1)).expect("room");
    assert_eq!(sent(&table, 0), [(1, 1)]);
    // Another instance has a higher count and an earlier expiry.
    table.learn(&key(1), 100, Some(50), |row| row.set(DataType::Gpc0, 0, 7)).expect("it is there");
    assert_eq!(sent(&table, 0), []);
    assert_eq!(counters(entry, 100), Some((Some(7), 1, 50)));
    // The entry does not expire while it is tracked.
    while table.expire(5000, 100) {}
    assert_eq!(table.remove(&key(1), 5000), Removal::InUse);
    table.at(entry, 5000, |row| row.add(DataType::Gpc0, 0, 1));
    assert_eq!(counters(entry, 5000), Some((Some(8), 1, 0)));
    assert_eq!(sent(&table, 0), [(1, 8)]);
    // Untracking restores the full lifetime. Afterwards the entry can expire.
    table.untrack(entry, 5000, |_| ());
    assert_eq!(counters(entry, 5999), Some((Some(8), 0, 1)));
    table.learn(&key(1), 5999, None, |row| row.set(DataType::Gpc0, 0, 9)).expect("it is there");
    assert_eq!(table.remove(&key(1), 6000), Removal::Gone);
    assert_eq!(counters(entry, 6000), None);
    // The key then has a new entry.
    table.learn(&key(1), 6000, None, |row| row.add(DataType::Gpc0, 0, 3)).expect("room");
    assert_eq!((counters(entry, 6000), table.used()), (None, 1));
    table.check_invariants();
}

#[test]
fn unacknowledged_table_changes_are_sent_again() {
    let table = Table::shared(declaration(10, 0), 1);
    add(&table, 1);
    let mut positions = Vec::new();
    table.send_changes(0, 0, 10, 0, |position, _| positions.push(position));
    table.mark_unsent(0, positions);
    assert_eq!(sent(&table, 0), [(1, 1)]);
    add(&table, 2);
    table.forget_changes(0);
    assert_eq!(sent(&table, 0), []);
}

#[test]
fn a_table_change_is_announced_once_until_changes_are_taken() {
    let table = Table::shared(declaration(10, 0), 1);
    let announced = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&announced);
    table.on_change(move || {
        count.fetch_add(1, Relaxed);
    });
    add(&table, 1);
    add(&table, 2);
    assert_eq!(announced.load(Relaxed), 1);
    sent(&table, 0);
    add(&table, 1);
    assert_eq!(announced.load(Relaxed), 2);
}

#[test]
fn a_learned_rate_decays_like_the_original() {
    let (here, there) = (Table::new(declaration(10, 0)), Table::new(declaration(10, 0)));
    let rate = |table: &Table, now_ms| {
        table.look(&key(1), now_ms, |row| row.get(DataType::RequestRate, 0)).flatten()
    };
    here.store(&key(1), 50_000, |row| row.add(DataType::RequestRate, 0, 8));
    here.store(&key(1), 61_000, |row| row.add(DataType::RequestRate, 0, 3));
    let parts = here.look(&key(1), 63_000, |row| row.rate(DataType::RequestRate, 0)).flatten();
    assert_eq!(parts, Some(RateParts { age_ms: 3000, current: 3, previous: 8 }));
    // The other instance's clock differs.
    there
        .learn(&key(1), 7_000, None, |row| row.set_rate(DataType::RequestRate, 0, parts.unwrap_or_default()));
    for after in [0, 1000, 5000, 12_000, 30_000] {
        assert_eq!(rate(&there, 7_000 + after), rate(&here, 63_000 + after), "after {after} ms");
    }
}

#[test]
fn a_shrunk_table_frees_the_memory_of_its_changes() {
    let table = Table::shared(declaration(100_000, 0), 2);
    (0..50_000).for_each(|number| add(&table, number));
    assert!(table.room_for_changes() >= 3 * 50_000);
    for number in 100..50_000 {
        assert_eq!(table.remove(&key(number), 0), Removal::Gone);
    }
    while table.expire(0, 1000) {}
    assert!((0..100).all(|number| table.look(&key(number), 0, |_| ()).is_some()));
    assert_eq!(sent(&table, 0).len(), 100, "existing entries are sent");
    for number in 0..100 {
        table.remove(&key(number), 0);
    }
    while table.expire(0, 1000) {}
    assert_eq!(table.room_for_changes(), 0);
    add(&table, 1);
    table.check_invariants();
}
