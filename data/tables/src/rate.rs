//! Rates: the number of events in the period that ends now.
//!
//! There are two counts: of the current and of the previous period. A reading adds to the current count the share of the
//! previous period that a window of one period, ending now, still covers. A rate has three words: the start of the current
//! period (the low 32 bits of milliseconds), the current count, and the previous count.
//!
//! A rate that was unused for more than 49 days may read as recent, because the time wraps. Its entry has expired long
//! before, unless entries of the table do not expire.

/// A rate in its stored form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoredRate {
    began: u32,
    current: u32,
    previous: u32,
}

/// A rate in the form that instances send to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateParts {
    /// Milliseconds since the current period began.
    pub age_ms: u32,
    pub current: u32,
    /// Events of the previous period.
    pub previous: u32,
}

impl StoredRate {
    /// Decodes the stored words.
    #[inline]
    pub(crate) fn load(words: &[u32]) -> StoredRate {
        match words {
            [began, current, previous, ..] => {
                StoredRate { began: *began, current: *current, previous: *previous }
            }
            _ => StoredRate::default(),
        }
    }

    /// Encodes into the stored words.
    #[inline]
    pub(crate) fn store(self, words: &mut [u32]) {
        if let [began, current, previous, ..] = words {
            (*began, *current, *previous) = (self.began, self.current, self.previous);
        }
    }

    /// Adds `events` events at time `now`.
    #[inline]
    pub(crate) fn add(self, period_ms: u32, now: u32, events: u32) -> StoredRate {
        let rate = self.at(period_ms, now);
        StoredRate { current: rate.current.saturating_add(events), ..rate }
    }

    /// A rate with this many events in the previous period, and none in the current one.
    pub(crate) fn of(now: u32, events: u32) -> StoredRate {
        StoredRate { began: now, current: 0, previous: events }
    }

    /// Merges two rates. The result currently reads as the sum of both, or one more. Its period is the one that began last.
    pub(crate) fn merged(self, other: StoredRate, period_ms: u32, now: u32) -> StoredRate {
        let (one, other) = (self.at(period_ms, now), other.at(period_ms, now));
        // If one rate is empty, the result is the other one.
        for (empty, rate) in [(one, other), (other, one)] {
            if (empty.current, empty.previous) == (0, 0) {
                return rate;
            }
        }
        let left = |rate: StoredRate| period_ms.saturating_sub(now.wrapping_sub(rate.began));
        let (newer, older) = if left(one) >= left(other) { (one, other) } else { (other, one) };
        // The remaining events of the older rate's previous period are spread over the longer rest of the newer rate's.
        let faded = (u64::from(older.previous) * u64::from(left(older))).div_ceil(left(newer).max(1).into());
        StoredRate {
            began: newer.began,
            current: newer.current.saturating_add(older.current),
            previous: newer.previous.saturating_add(faded as u32),
        }
    }

    /// The rate minus `events` of its current events. Older events are removed first.
    pub(crate) fn without(self, events: u32, period_ms: u32, now: u32) -> StoredRate {
        let rate = self.at(period_ms, now);
        let rest = self.read(period_ms, now).saturating_sub(events);
        let current = rate.current.min(rest);
        let left = period_ms.saturating_sub(now.wrapping_sub(rate.began));
        let previous = (u64::from(rest - current) * u64::from(period_ms)).div_ceil(left.max(1).into());
        StoredRate { began: rate.began, current, previous: u32::try_from(previous).unwrap_or(u32::MAX) }
    }

    /// The rate's parts, to send to other instances.
    pub(crate) fn parts(self, now: u32) -> RateParts {
        RateParts { age_ms: now.wrapping_sub(self.began), current: self.current, previous: self.previous }
    }

    /// A rate from received parts. A period that began longer ago than the clock can represent is over, and so is the next.
    pub(crate) fn from_parts(parts: RateParts, now: u32) -> StoredRate {
        StoredRate { began: now.wrapping_sub(parts.age_ms), current: parts.current, previous: parts.previous }
    }

    /// Events in the period that ends now.
    #[inline]
    pub(crate) fn read(self, period_ms: u32, now: u32) -> u32 {
        let rate = self.at(period_ms, now);
        let left = u64::from(period_ms.saturating_sub(now.wrapping_sub(rate.began)));
        let share = u64::from(rate.previous) * left / u64::from(period_ms.max(1));
        // A fraction of an event counts as one until the period is over, so a low rate does not alternate.
        if rate.current == 0 && rate.previous <= 1 {
            return rate.previous;
        }
        rate.current.saturating_add(share as u32)
    }

    /// The counts at time `now`, after any number of periods.
    #[inline]
    fn at(self, period_ms: u32, now: u32) -> StoredRate {
        let elapsed = now.wrapping_sub(self.began);
        if elapsed < period_ms {
            self
        } else if elapsed - period_ms < period_ms {
            StoredRate { began: self.began.wrapping_add(period_ms), current: 0, previous: self.current }
        } else {
            StoredRate { began: now, current: 0, previous: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u32 = 10_000;

    #[test]
    fn a_rate_decays_over_the_next_period() {
        let rate = StoredRate::default().add(PERIOD, 50_000, 8);
        let readings =
            [50_000, 59_999, 60_000, 62_500, 65_000, 69_999, 70_000].map(|now| rate.read(PERIOD, now));
        assert_eq!(readings, [8, 8, 8, 6, 4, 0, 0]);
    }

    #[test]
    fn a_single_event_counts_until_the_end_of_the_next_period() {
        let rate = StoredRate::default().add(PERIOD, 50_000, 1);
        assert_eq!([60_000, 69_999, 70_000].map(|now| rate.read(PERIOD, now)), [1, 1, 0]);
    }

    #[test]
    fn a_rate_sums_the_events_of_both_periods() {
        let rate = StoredRate::default().add(PERIOD, 50_000, 10).add(PERIOD, 62_000, 5);
        assert_eq!(rate.read(PERIOD, 62_000), 13);
        assert_eq!(rate.read(PERIOD, 65_000), 10);
        assert_eq!(rate.read(PERIOD, 75_000), 2, "the older events are gone");
    }

    #[test]
    fn a_merged_rate_reads_as_the_sum_of_two_rates() {
        let older = StoredRate::default().add(PERIOD, 50_000, 10).add(PERIOD, 61_000, 4);
        let newer = StoredRate::default().add(PERIOD, 56_000, 100).add(PERIOD, 67_000, 7);
        for now in [68_000, 69_999] {
            let sum = older.read(PERIOD, now) + newer.read(PERIOD, now);
            let merged = older.merged(newer, PERIOD, now);
            assert!((sum..=sum + 1).contains(&merged.read(PERIOD, now)), "{now}: {merged:?}");
            assert_eq!(newer.merged(older, PERIOD, now), merged, "{now}");
        }
        assert_eq!(older.merged(StoredRate::default(), PERIOD, 65_000), older);
        assert_eq!(StoredRate::default().merged(older, PERIOD, 65_000), older);
    }

    #[test]
    fn without_subtracts_the_events_of_peers_from_a_rate() {
        let rate = StoredRate::default().add(PERIOD, 50_000, 10).add(PERIOD, 62_000, 5);
        for (events, left) in [(0, 13), (1, 12), (8, 5), (10, 3), (13, 0), (100, 0)] {
            assert_eq!(rate.without(events, PERIOD, 62_000).read(PERIOD, 62_000), left, "{events}");
        }
        assert_eq!(
            rate.without(10, PERIOD, 62_000).read(PERIOD, 80_000),
            0,
            "it is forgotten as the rest is"
        );
    }

    #[test]
    fn rates_survive_a_wrap_of_the_32_bit_clock() {
        let rate = StoredRate::default().add(PERIOD, u32::MAX - 4_999, 10);
        assert_eq!(rate.read(PERIOD, 4_000), 10);
        assert_eq!(rate.add(PERIOD, 5_000, 2).read(PERIOD, 10_000), 7);
    }
}
