//! `filter bwlim-in` and `filter bwlim-out` with a key: all streams of one key share a limit per period of a stick-table's rate
//! (manual, 9.7).
//!
//! The key's entry counts the bytes of all its streams on all workers. Bytes pass up to the limit for the period ending now. Nothing is
//! reserved: a stream reads the remainder and counts its bytes in one access to the entry. A stream that may not send tries again
//! within [`GRAIN_MS`], so that streams of one key alternate.

use std::cell::RefCell;
use std::rc::Rc;

use weir_containers::LocalArc;
use weir_expr::table::DataType;
use weir_mux::{Failed, Filter, FilterOutput, More, Passed};
use weir_sched::Tick;
use weir_tables::{Key, Table};

use weir_vocabulary::tracked::{TrackedEntry, now_ms};

/// The tracked entry of the key. `None` until a rule enables the filter. A tracked entry does not expire and is not purged.
#[derive(Default)]
pub(super) struct SharedEntry(RefCell<Option<TrackedEntry>>);

impl SharedEntry {
    /// Tracks this key. All streams of the key share the limit. If the table is full, nothing changes.
    pub(super) fn set(&self, table: &LocalArc<Table>, key: &Key) {
        if let Some((entry, ())) = table.track(key, now_ms(), |_| ()) {
            self.leave();
            self.0.replace(Some(TrackedEntry { table: table.clone(), entry }));
        }
    }

    fn leave(&self) {
        if let Some(TrackedEntry { table, entry }) = self.0.take() {
            table.untrack(entry, now_ms(), |_| ());
        }
    }
}

impl Drop for SharedEntry {
    fn drop(&mut self) {
        self.leave();
    }
}

/// One direction's limit.
pub(super) struct SharedBandwidth {
    entry: Rc<SharedEntry>,
    /// The counted rate: bytes from clients, or bytes to clients.
    data: DataType,
    /// Bytes per period. Never 0.
    limit: u64,
    min_size: u64,
}

impl SharedBandwidth {
    /// A limit that rules enable. Forwards at least `min_size` bytes at a time, or all available bytes if fewer.
    pub(super) fn new(entry: Rc<SharedEntry>, data: DataType, limit: u64, min_size: u64) -> Self {
        SharedBandwidth { entry, data, limit, min_size }
    }

    /// Minimum bytes forwarded at a time, if available, to avoid tiny sends.
    fn slice(&self, period_ms: u64, streams: u64) -> u64 {
        let all = u128::from(self.limit) * u128::from(GRAIN_MS) / u128::from(period_ms);
        let slice = u64::try_from(all).unwrap_or(u64::MAX).min(self.limit) / streams;
        slice.max(self.min_size).max(1)
    }
}

impl Filter for SharedBandwidth {
    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        Ok(self.admit(bytes, now))
    }
}

impl SharedBandwidth {
    fn admit(&self, bytes: &[u8], now: Tick) -> Passed {
        let entry = self.entry.0.borrow();
        let Some(TrackedEntry { table, entry }) = &*entry else { return Passed::all(bytes) };
        let there = bytes.len() as u64;
        let period_ms = u64::from(table.layout().period_ms(self.data)).max(1);
        let counted = table.at(*entry, now.as_ms(), |row| {
            let streams = u64::from(row.trackers()).max(1);
            let slice = self.slice(period_ms, streams);
            let left = self.limit.saturating_sub(row.get(self.data, 0).unwrap_or_default());
            // A `min-size` above the limit is satisfied once the whole limit is available.
            let is_enough = left >= slice.min(there).min(self.limit);
            let fair = (left / streams).max(slice.min(left)).max(self.min_size);
            let allowed = if is_enough { fair.min(there) } else { 0 };
            row.add(self.data, 0, allowed);
            // A stream that just sent a slice waits until each of the others can send one.
            let turns = if allowed > 0 { streams } else { 1 };
            let missing = u128::from((there - allowed).min(slice)) * u128::from(turns);
            (allowed, missing * u128::from(period_ms) / u128::from(self.limit))
        });
        // A tracked entry always exists, so the fallback is not used.
        let (allowed, wait) = counted.unwrap_or((there, 0));
        if allowed == there {
            return Passed::all(bytes);
        }
        let wait = u64::try_from(wait).unwrap_or(u64::MAX).clamp(1, GRAIN_MS);
        // The cast is exact: `allowed` is at most the length of the offered bytes.
        Passed { count: allowed as usize, replaced: false, until: now.after(wait) }
    }
}

/// In milliseconds. A stream forwards at least its share of the limit for this time at once, and never waits longer before the next
/// try.
const GRAIN_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_expr::Value;
    use weir_expr::table::{Declaration, KeyType, ServerKeyKind, Stored};

    use super::*;

    fn table(period_ms: u32) -> LocalArc<Table> {
        let stored = vec![Stored { data: DataType::BytesOutRate, elements: 1, period_ms }];
        LocalArc::new(Arc::new(Table::new(Declaration {
            name: "t".into(),
            key: KeyType::Integer,
            size: 10,
            expire_ms: 0,
            no_purge: false,
            bytes_rate_factor: 1,
            server_key: ServerKeyKind::Name,
            stored,
        })))
    }

    fn key(number: i64) -> Key {
        Key::of(Value::Int(number), KeyType::Integer).expect("a key")
    }

    fn filter(table: &LocalArc<Table>, limit: u64, min_size: u64) -> SharedBandwidth {
        let entry = Rc::new(SharedEntry::default());
        let (entry_key, ()) = table.track(&key(1), 0, |_| ()).expect("room");
        entry.0.replace(Some(TrackedEntry { table: table.clone(), entry: entry_key }));
        SharedBandwidth::new(entry, DataType::BytesOutRate, limit, min_size)
    }

    /// Runs streams that always have `piece` more bytes. Returns how many bytes each passed until `until_ms`.
    fn run(filters: &mut [SharedBandwidth], piece: usize, until_ms: u64) -> Vec<u64> {
        let bytes = vec![0; piece];
        let mut next = vec![1_000_000; filters.len()];
        let mut passed = vec![0; filters.len()];
        for now in 1_000_000..1_000_000 + until_ms {
            for (at, filter) in filters.iter_mut().enumerate() {
                while next[at] <= now {
                    let answer = filter.admit(&bytes, Tick::from_ms(now));
                    passed[at] += answer.count as u64;
                    if answer.count < piece {
                        assert!(answer.until > Tick::from_ms(now), "who holds back says until when");
                        next[at] = answer.until.as_ms();
                    }
                }
            }
        }
        filters.iter().for_each(|filter| std::mem::forget(Rc::clone(&filter.entry)));
        passed
    }

    #[test]
    fn streams_with_one_key_share_the_bandwidth_limit() {
        let table = table(1000);
        let mut filters =
            [filter(&table, 100_000, 0), filter(&table, 100_000, 0), filter(&table, 100_000, 0)];
        let passed = run(&mut filters, 4000, 5000);
        let total: u64 = passed.iter().sum();
        // The first period's bytes pass at once, as the table has counted nothing before.
        assert!((480_000..=600_000).contains(&total), "{passed:?}");
        assert!(passed.iter().all(|share| *share * 6 > total), "each of three has a share: {passed:?}");
    }

    #[test]
    fn a_shared_bandwidth_limit_is_never_exceeded_in_a_period() {
        for (limit, period, piece) in [(1000, 1000, 16_384), (100_000, 10_000, 1460), (7, 100, 100)] {
            let mut filters = [filter(&table(period), limit, 0)];
            let (short, long) = (u64::from(period), u64::from(period) * 3);
            assert!(run(&mut filters, piece, short).iter().sum::<u64>() <= limit, "{limit} {period}");
            let mut filters = [filter(&table(period), limit, 0)];
            let passed: u64 = run(&mut filters, piece, long).iter().sum();
            assert!(passed <= limit * 3 + limit / 20 && passed >= limit * 2, "{limit} {period}: {passed}");
        }
    }

    #[test]
    fn a_min_size_above_the_shared_limit_is_passed() {
        let mut filters = [filter(&table(1000), 1000, 3000)];
        let passed = run(&mut filters, 10_000, 10_000);
        assert!(passed[0] >= 3000 && passed[0].is_multiple_of(3000), "{passed:?}");
    }

    #[test]
    fn a_shared_bandwidth_filter_without_a_rule_does_not_delay_bytes() {
        let filter = SharedBandwidth::new(Rc::default(), DataType::BytesOutRate, 1, 0);
        let passed = filter.admit(&[0; 9000], Tick::from_ms(1));
        assert_eq!(passed.count, 9000);
    }
}
