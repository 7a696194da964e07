//! How many events there were in a period that ends now.
//!
//! Two counts are kept: of the current period and of the one before it. A reading adds to the current count the share of the
//! previous period that a window of one period, ending now, still covers. Three words: when the current period began
//! (the low 32 bits of milliseconds), its count, the previous one's.
//!
//! A rate that nobody touches for more than 49 days may be read as if it were recent: its entry has expired long before,
//! unless the table keeps entries forever.

/// A rate as it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rate {
    began: u32,
    current: u32,
    previous: u32,
}

/// A rate, as instances tell it to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateParts {
    /// Milliseconds since the current period began.
    pub age_ms: u32,
    /// Events since then.
    pub current: u32,
    /// Events of the period before.
    pub previous: u32,
}

impl Rate {
    /// From its words.
    #[inline]
    pub fn load(words: &[u32]) -> Rate {
        match words {
            [began, current, previous, ..] => Rate { began: *began, current: *current, previous: *previous },
            _ => Rate::default(),
        }
    }

    /// Into its words.
    #[inline]
    pub fn store(self, words: &mut [u32]) {
        if let [began, current, previous, ..] = words {
            (*began, *current, *previous) = (self.began, self.current, self.previous);
        }
    }

    /// With `events` more, now.
    #[inline]
    pub fn add(self, period_ms: u32, now: u32, events: u32) -> Rate {
        let rate = self.at(period_ms, now);
        Rate { current: rate.current.saturating_add(events), ..rate }
    }

    /// As if there had been so many events in the period that ends now, none of them in the one that begins.
    pub fn of(now: u32, events: u32) -> Rate {
        Rate { began: now, current: 0, previous: events }
    }

    /// Its parts, as others are told.
    pub fn parts(self, now: u32) -> RateParts {
        RateParts { age_ms: now.wrapping_sub(self.began), current: self.current, previous: self.previous }
    }

    /// From its parts. A period that began longer ago than the clock can tell is over, and so is the next.
    pub fn from_parts(parts: RateParts, now: u32) -> Rate {
        Rate { began: now.wrapping_sub(parts.age_ms), current: parts.current, previous: parts.previous }
    }

    /// Events in the period that ends now.
    #[inline]
    pub fn read(self, period_ms: u32, now: u32) -> u32 {
        let rate = self.at(period_ms, now);
        let left = u64::from(period_ms.saturating_sub(now.wrapping_sub(rate.began)));
        let share = u64::from(rate.previous) * left / u64::from(period_ms.max(1));
        // Less than one event is still one until the period is over: a low rate does not flap.
        if rate.current == 0 && rate.previous <= 1 {
            return rate.previous;
        }
        rate.current.saturating_add(share as u32)
    }

    /// The same counts when whole periods may have passed.
    #[inline]
    fn at(self, period_ms: u32, now: u32) -> Rate {
        let elapsed = now.wrapping_sub(self.began);
        if elapsed < period_ms {
            self
        } else if elapsed - period_ms < period_ms {
            Rate { began: self.began.wrapping_add(period_ms), current: 0, previous: self.current }
        } else {
            Rate { began: now, current: 0, previous: 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u32 = 10_000;

    #[test]
    fn a_reading_fades_over_the_next_period() {
        let rate = Rate::default().add(PERIOD, 50_000, 8);
        let readings =
            [50_000, 59_999, 60_000, 62_500, 65_000, 69_999, 70_000].map(|now| rate.read(PERIOD, now));
        assert_eq!(readings, [8, 8, 8, 6, 4, 0, 0]);
    }

    #[test]
    fn a_single_event_counts_until_its_share_is_gone() {
        let rate = Rate::default().add(PERIOD, 50_000, 1);
        assert_eq!([60_000, 69_999, 70_000].map(|now| rate.read(PERIOD, now)), [1, 1, 0]);
    }

    #[test]
    fn events_of_both_periods_add_up() {
        let rate = Rate::default().add(PERIOD, 50_000, 10).add(PERIOD, 62_000, 5);
        assert_eq!(rate.read(PERIOD, 62_000), 13);
        assert_eq!(rate.read(PERIOD, 65_000), 10);
        assert_eq!(rate.read(PERIOD, 75_000), 2, "the older events are gone");
    }

    #[test]
    fn the_clock_may_wrap() {
        let rate = Rate::default().add(PERIOD, u32::MAX - 4_999, 10);
        assert_eq!(rate.read(PERIOD, 4_000), 10);
        assert_eq!(rate.add(PERIOD, 5_000, 2).read(PERIOD, 10_000), 7);
    }
}
