//! Counts and rates that are sums: this instance's own counts plus the counts that every other instance reports
//! (`aggregate`).
//!
//! ```text
//!  header │ key │ tags, servers │ own │ peer 0 │ peer 1 │ … │ former
//!                                └──── the sum is over these ───────┘
//! ```
//!
//! An instance changes only its own share. Each report of another instance overwrites that instance's share. So repeated
//! reports are not counted twice, and no instance overwrites the counts of another. The last share holds this instance's
//! counts from before its restart, as reported by other instances.
//!
//! A sum can also be set. The own share then becomes the difference, which may be negative. So 32-bit counts are signed in
//! a share and limited to 2^31 there.

use weir_expr::table::{DataKind, DataType};

use crate::rate::{RateParts, StoredRate};
use crate::row::LockedEntry;

/// The instance that counted the events of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The counts of this instance, from this process and previous ones.
    Own,
    /// The counts of another instance, given by its audience number.
    Peer(usize),
    /// The counts of this instance before its restart.
    Former,
}

/// A count or a rate of one share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareValue {
    Count(u64),
    Rate(RateParts),
}

impl LockedEntry<'_> {
    /// The number of a share in the entry. `None` if the entry does not have it.
    fn share_number(&self, share: Share) -> Option<usize> {
        let former = self.layout.shares;
        match share {
            Share::Own => Some(0),
            Share::Peer(audience) => Some(audience + 1).filter(|number| *number < former),
            Share::Former => Some(former).filter(|number| *number > 0),
        }
    }

    /// The words of one element in a share. `at` is their offset in the own share.
    fn in_share(&self, at: usize, number: usize) -> &[u32] {
        &self.words[at + number * self.layout.share_words..]
    }

    fn count_in(&self, data: DataType, at: usize, number: usize) -> i64 {
        let words = self.in_share(at, number);
        match data.kind() {
            DataKind::LongCount => (u64::from(words[0]) | u64::from(words[1]) << 32) as i64,
            _ => i64::from(words[0] as i32),
        }
    }

    fn put_count(&mut self, data: DataType, at: usize, number: usize, count: i64) {
        let words = &mut self.words[at + number * self.layout.share_words..];
        match data.kind() {
            DataKind::LongCount => (words[0], words[1]) = (count as u32, (count >> 32) as u32),
            _ => words[0] = count.clamp(i32::MIN.into(), i32::MAX.into()) as i32 as u32,
        }
    }

    /// The sum of all shares except `without`.
    fn sum_without(&self, data: DataType, at: usize, period_ms: u32, without: Option<usize>) -> i64 {
        let numbers = (0..=self.layout.shares).filter(|number| Some(*number) != without);
        let values = numbers.map(|number| match data.kind() {
            DataKind::Rate => StoredRate::load(self.in_share(at, number)).read(period_ms, self.now).into(),
            _ => self.count_in(data, at, number),
        });
        values.fold(0, i64::saturating_add)
    }

    /// The rates of all shares except `without`, as one.
    pub(crate) fn merged_rate(&self, at: usize, period_ms: u32, without: Option<usize>) -> StoredRate {
        let numbers = (0..=self.layout.shares).filter(|number| Some(*number) != without);
        let rates = numbers.map(|number| StoredRate::load(self.in_share(at, number)));
        rates.fold(StoredRate::default(), |all, rate| all.merged(rate, period_ms, self.now))
    }

    /// The sum of all shares, at least 0.
    #[cold]
    pub(crate) fn sum(&self, data: DataType, at: usize, period_ms: u32) -> u64 {
        let sum = self.sum_without(data, at, period_ms, None).max(0) as u64;
        if data.kind() == DataKind::LongCount { sum } else { sum.min(u32::MAX.into()) }
    }

    /// Sets one share to the difference between a sum and the other shares. Rates cannot be negative.
    #[cold]
    pub(crate) fn set_sum(&mut self, data: DataType, at: usize, period_ms: u32, value: u64, number: usize) {
        let others = self.sum_without(data, at, period_ms, Some(number));
        let missing = i64::try_from(value).unwrap_or(i64::MAX).saturating_sub(others);
        if data.kind() == DataKind::Rate {
            let rate = StoredRate::of(self.now, u32::try_from(missing.max(0)).unwrap_or(u32::MAX));
            rate.store(&mut self.words[at + number * self.layout.share_words..]);
        } else {
            self.put_count(data, at, number, missing);
        }
    }

    /// Adds to the count in the own share.
    #[cold]
    pub(crate) fn add_to_own(&mut self, data: DataType, at: usize, amount: u64) {
        let amount = i64::try_from(amount).unwrap_or(i64::MAX);
        let count = self.count_in(data, at, 0).saturating_add(amount);
        self.put_count(data, at, 0, count);
    }

    /// Whether all counts in a share are 0.
    pub fn is_empty_share(&self, share: Share) -> bool {
        let is_empty = |number| self.words[self.layout.share(number)].iter().all(|word| *word == 0);
        match share {
            Share::Own => is_empty(0) && is_empty(self.layout.shares),
            Share::Peer(_) | Share::Former => self.share_number(share).is_none_or(is_empty),
        }
    }

    /// The value of some data in a share. `None` if it is not stored or not a sum.
    pub fn share(&self, share: Share, data: DataType, element: u16) -> Option<ShareValue> {
        let (at, period_ms) = self.layout.slot(data, element).filter(|_| data.is_sum())?;
        let number = self.share_number(share)?;
        let former = (share == Share::Own).then_some(self.layout.shares);
        Some(match data.kind() {
            DataKind::Rate => {
                let rate = |number| StoredRate::load(self.in_share(at, number));
                let own = rate(number);
                let both = former.map_or(own, |former| own.merged(rate(former), period_ms, self.now));
                ShareValue::Rate(both.parts(self.now))
            }
            _ => {
                let former = former.map_or(0, |former| self.count_in(data, at, former));
                let count = self.count_in(data, at, number).saturating_add(former);
                ShareValue::Count(if data.kind() == DataKind::LongCount {
                    count as u64
                } else {
                    (count as u32).into()
                })
            }
        })
    }

    /// Sets the value of some data in a share, as its owner reported it.
    pub fn set_share(&mut self, share: Share, data: DataType, element: u16, value: ShareValue) {
        let Some((at, _)) = self.layout.slot(data, element).filter(|_| data.is_sum()) else { return };
        let Some(number) = self.share_number(share) else { return };
        match (data.kind(), value) {
            (DataKind::Rate, ShareValue::Rate(parts)) => {
                let rate = StoredRate::from_parts(parts, self.now);
                rate.store(&mut self.words[at + number * self.layout.share_words..]);
            }
            (DataKind::LongCount, ShareValue::Count(count)) => self.put_count(data, at, number, count as i64),
            (DataKind::Count, ShareValue::Count(count)) => {
                self.put_count(data, at, number, (count as u32 as i32).into());
            }
            // A value of the wrong kind is ignored.
            _ => {}
        }
    }

    /// Applies the report of an instance that sends sums instead of shares. Its share becomes the reported sum minus all other
    /// shares, at least 0, because the report may lack recent counts of this instance.
    pub fn set_rest(&mut self, share: Share, data: DataType, element: u16, value: ShareValue) {
        let Some((at, period_ms)) = self.layout.slot(data, element).filter(|_| data.is_sum()) else { return };
        let Some(number) = self.share_number(share) else { return };
        let others = self.sum_without(data, at, period_ms, Some(number)).max(0) as u64;
        match (data.kind(), value) {
            (DataKind::Count | DataKind::LongCount, ShareValue::Count(value)) => {
                self.set_sum(data, at, period_ms, value.max(others), number);
            }
            (DataKind::Rate, ShareValue::Rate(parts)) => {
                let stored = StoredRate::from_parts(parts, self.now);
                let rest = stored.without(u32::try_from(others).unwrap_or(u32::MAX), period_ms, self.now);
                rest.store(&mut self.words[at + number * self.layout.share_words..]);
            }
            // A value of the wrong kind is ignored.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_expr::Value;
    use weir_expr::table::{Declaration, KeyType, Stored};

    use super::*;
    use crate::fixture::declaration;
    use crate::{Key, Table};

    const COUNT: DataType = DataType::Gpc0;
    const BYTES: DataType = DataType::BytesInCount;
    const RATE: DataType = DataType::RequestRate;

    /// Runs `then` on an entry of a table aggregated with two other instances.
    fn with_row<R>(then: impl FnOnce(&mut LockedEntry<'_>) -> R) -> R {
        let mut declaration: Declaration = declaration(10, 60_000);
        let stored = |data| Stored { data, elements: 1, period_ms: 0 };
        declaration.stored.extend([
            stored(BYTES),
            stored(DataType::Gpt0),
            stored(DataType::ConnectionsCurrent),
        ]);
        let table = Table::aggregate(declaration, 2);
        let key = Key::of(Value::Int(1), KeyType::Ipv4).expect("a key");
        table.store(&key, 20_000, then).expect("room")
    }

    fn rate(current: u32) -> ShareValue {
        ShareValue::Rate(RateParts { age_ms: 0, current, previous: 0 })
    }

    #[test]
    fn a_row_reads_the_sum_of_shares_and_reports_its_own() {
        with_row(|row| {
            assert_eq!(row.add(COUNT, 0, 5), Some(5));
            row.set_share(Share::Peer(0), COUNT, 0, ShareValue::Count(10));
            row.set_share(Share::Peer(1), COUNT, 0, ShareValue::Count(20));
            assert_eq!(row.add(COUNT, 0, 1), Some(36), "who counts hears the sum");
            assert_eq!(row.get(COUNT, 0), Some(36));
            assert_eq!(row.share(Share::Own, COUNT, 0), Some(ShareValue::Count(6)));
            row.set_share(Share::Peer(1), COUNT, 0, ShareValue::Count(21));
            assert_eq!(row.get(COUNT, 0), Some(37), "a share takes the place of the one before");
            row.add(BYTES, 0, 1 << 40);
            row.set_share(Share::Peer(1), BYTES, 0, ShareValue::Count(1 << 41));
            assert_eq!(row.get(BYTES, 0), Some(3 << 40));
            row.add(RATE, 0, 3);
            row.set_share(Share::Peer(0), RATE, 0, rate(4));
            assert_eq!(row.add(RATE, 0, 1), Some(8));
            assert_eq!(row.share(Share::Own, RATE, 0), Some(rate(4)));
            assert_eq!(row.share(Share::Peer(2), COUNT, 0), None, "there is no third one");
        });
    }

    #[test]
    fn setting_a_sum_adjusts_the_local_share() {
        with_row(|row| {
            row.add(COUNT, 0, 5);
            row.set_share(Share::Peer(0), COUNT, 0, ShareValue::Count(10));
            for value in [0, 7, 100] {
                row.set(COUNT, 0, value);
                assert_eq!(row.get(COUNT, 0), Some(value));
            }
            row.set(COUNT, 0, 0);
            // The other instance lost its counts. A negative sum reads as 0.
            row.set_share(Share::Peer(0), COUNT, 0, ShareValue::Count(0));
            assert_eq!(row.get(COUNT, 0), Some(0));
            // A reported share, even a negative one, can be set unchanged as a peer's share.
            let stored = row.share(Share::Own, COUNT, 0).expect("stored");
            row.set_share(Share::Peer(1), COUNT, 0, stored);
            row.set_share(Share::Peer(0), COUNT, 0, ShareValue::Count(25));
            assert_eq!(row.get(COUNT, 0), Some(5));
            row.set_share(Share::Peer(0), RATE, 0, rate(4));
            row.set(RATE, 0, 9);
            assert_eq!((row.get(RATE, 0), row.share(Share::Peer(0), RATE, 0)), (Some(9), Some(rate(4))));
        });
    }

    #[test]
    fn counts_of_the_previous_process_belong_to_the_local_share() {
        with_row(|row| {
            assert!(row.is_empty_share(Share::Own) && row.is_empty_share(Share::Peer(0)));
            row.add(COUNT, 0, 5);
            row.add(RATE, 0, 2);
            for _ in 0..2 {
                row.set_share(Share::Former, COUNT, 0, ShareValue::Count(100));
                row.set_share(Share::Former, RATE, 0, rate(30));
            }
            assert_eq!((row.get(COUNT, 0), row.get(RATE, 0)), (Some(105), Some(32)));
            assert_eq!(row.share(Share::Own, COUNT, 0), Some(ShareValue::Count(105)));
            assert_eq!(row.share(Share::Own, RATE, 0), Some(rate(32)));
            assert!(!row.is_empty_share(Share::Own) && row.is_empty_share(Share::Peer(0)));
        });
    }

    #[test]
    fn a_peer_without_shares_gets_the_difference_of_its_total() {
        with_row(|row| {
            row.add(COUNT, 0, 5);
            row.add(RATE, 0, 5);
            row.set_rest(Share::Peer(0), COUNT, 0, ShareValue::Count(8));
            row.set_rest(Share::Peer(0), RATE, 0, rate(8));
            assert_eq!(row.share(Share::Peer(0), COUNT, 0), Some(ShareValue::Count(3)));
            assert_eq!((row.get(COUNT, 0), row.get(RATE, 0)), (Some(8), Some(8)));
            // The report is older than the last counts of this instance.
            row.add(COUNT, 0, 10);
            row.set_rest(Share::Peer(0), COUNT, 0, ShareValue::Count(8));
            assert_eq!(row.get(COUNT, 0), Some(15));
            assert_eq!(row.rate(RATE, 0), Some(RateParts { age_ms: 0, current: 8, previous: 0 }));
        });
    }

    #[test]
    fn gpt_tags_and_conn_cur_are_not_split_into_shares() {
        with_row(|row| {
            row.set(DataType::Gpt0, 0, 7);
            row.add(DataType::ConnectionsCurrent, 0, 1);
            row.set_share(Share::Peer(0), DataType::Gpt0, 0, ShareValue::Count(1));
            assert_eq!(row.share(Share::Own, DataType::Gpt0, 0), None);
            assert_eq!(
                (row.get(DataType::Gpt0, 0), row.get(DataType::ConnectionsCurrent, 0)),
                (Some(7), Some(1))
            );
        });
    }
}
