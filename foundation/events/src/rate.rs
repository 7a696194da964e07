//! Event rates over the last second.
//!
//! A rate has two counters: events of the current one-second period, and of the previous one. A read adds to the
//! current count the share of the previous period inside the last second. So the rate changes smoothly instead of
//! dropping to zero at every full second, and costs two words.
//!
//! One worker writes, any thread reads. A reader retries if the writer is changing the period.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The window, in milliseconds.
pub const PERIOD_MS: u64 = 1000;

/// Maximum reads for a consistent view. The writer changes the period once a second, so two collisions in a row occur only in a debugger.
const READ_TRIES: usize = 4;

/// The value of `began` while the writer changes the period.
const TURNING: u64 = u64::MAX;

/// Events per second, with one writer.
#[derive(Debug, Default)]
pub struct Rate {
    /// Start of the current period, in milliseconds.
    began: AtomicU64,
    current: AtomicU32,
    previous: AtomicU32,
}

impl Rate {
    /// A rate of zero.
    pub const fn new() -> Self {
        Self { began: AtomicU64::new(0), current: AtomicU32::new(0), previous: AtomicU32::new(0) }
    }

    /// Counts `events` at `now_ms` and returns the new rate. Only for the owner. Time must not go backwards.
    pub fn add(&self, now_ms: u64, events: u32) -> u32 {
        let window = self.window().at(now_ms);
        let window = RateWindow { current: window.current.saturating_add(events), ..window };
        if window.began == self.began.load(Ordering::Relaxed) {
            self.current.store(window.current, Ordering::Release);
        } else {
            self.turn_page(window);
        }
        window.rate(now_ms)
    }

    /// The number of events in the second that ends at `now_ms`.
    pub fn read(&self, now_ms: u64) -> u32 {
        self.window().at(now_ms).rate(now_ms)
    }

    /// Number of further events allowed by `limit` per second at `now_ms`, with `pending` events already reserved.
    pub fn remaining(&self, now_ms: u64, limit: u32, pending: u32) -> u32 {
        limit.saturating_sub(self.read(now_ms).saturating_add(pending))
    }

    /// Delay in milliseconds until `limit` per second allows one more event. 0 if it is allowed now.
    pub fn delay_ms(&self, now_ms: u64, limit: u32) -> u64 {
        let window = self.window().at(now_ms);
        if limit == 0 {
            return PERIOD_MS;
        }
        let rate = window.rate(now_ms);
        if rate < limit {
            return 0;
        }
        // Within a period the rate falls linearly by `previous` per period. Wait until it is below the limit, but at
        // most until the end of the period, when the counts change.
        let rest = (window.began + PERIOD_MS).saturating_sub(now_ms).max(1);
        let excess = u64::from(rate - limit + 1);
        let falling = u64::from(window.previous);
        if falling == 0 { rest } else { (excess * PERIOD_MS).div_ceil(falling).clamp(1, rest) }
    }

    /// Resets the rate to zero. Only for the owner.
    pub fn clear(&self) {
        self.current.store(0, Ordering::Release);
        self.previous.store(0, Ordering::Release);
    }

    /// Starts a new period. Readers that see [`TURNING`] retry. Each release store publishes the previous stores.
    fn turn_page(&self, window: RateWindow) {
        self.began.store(TURNING, Ordering::Relaxed);
        self.previous.store(window.previous, Ordering::Release);
        self.current.store(window.current, Ordering::Release);
        self.began.store(window.began, Ordering::Release);
    }

    fn window(&self) -> RateWindow {
        let mut began = self.began.load(Ordering::Acquire);
        for _ in 0..READ_TRIES {
            let current = self.current.load(Ordering::Acquire);
            let previous = self.previous.load(Ordering::Acquire);
            let again = self.began.load(Ordering::Acquire);
            if again == began && began != TURNING {
                return RateWindow { began, current, previous };
            }
            began = again;
        }
        RateWindow { began: 0, current: 0, previous: 0 }
    }
}

/// One consistent view of the counters.
#[derive(Clone, Copy, Debug)]
struct RateWindow {
    began: u64,
    current: u32,
    previous: u32,
}

impl RateWindow {
    /// The counters advanced to `now_ms`, which may be one or more periods later.
    fn at(self, now_ms: u64) -> RateWindow {
        let elapsed = now_ms.saturating_sub(self.began);
        let periods = elapsed / PERIOD_MS;
        let began = self.began + periods * PERIOD_MS;
        match periods {
            0 => self,
            1 => RateWindow { began, current: 0, previous: self.current },
            _ => RateWindow { began, current: 0, previous: 0 },
        }
    }

    fn rate(self, now_ms: u64) -> u32 {
        // A single event of the previous period counts fully, because its share would flap between 1 and 0.
        if self.current == 0 && self.previous <= 1 {
            return self.previous;
        }
        let rest = (self.began + PERIOD_MS).saturating_sub(now_ms).min(PERIOD_MS);
        let overlap = u64::from(self.previous) * rest / PERIOD_MS;
        u32::try_from(u64::from(self.current) + overlap).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_of_the_previous_period_decay_linearly() {
        let rate = Rate::new();
        for at in 10_000..10_100 {
            rate.add(at, 1);
        }
        for (now, expected) in [
            (10_100, 100),
            (10_999, 100),
            (11_000, 100),
            (11_250, 75),
            (11_900, 10),
            (12_000, 0),
            (50_000, 0),
        ] {
            assert_eq!(rate.read(now), expected, "at {now}");
        }
    }

    #[test]
    fn one_event_counts_until_the_end_of_the_next_period() {
        let rate = Rate::new();
        assert_eq!(rate.add(5_400, 1), 1);
        assert_eq!(rate.read(6_999), 1);
        assert_eq!(rate.read(7_000), 0);
    }

    #[test]
    fn a_rate_limit_gives_the_remaining_events_and_the_delay() {
        let rate = Rate::new();
        rate.add(1_000, 10);
        assert_eq!(rate.remaining(1_000, 12, 1), 1);
        assert_eq!(rate.delay_ms(1_000, 12), 0);
        assert_eq!(rate.delay_ms(1_200, 10), 800);
        assert_eq!(rate.delay_ms(2_000, 10), 100);
        assert_eq!(rate.remaining(2_100, 10, 0), 1);
    }

    #[test]
    fn rate_counters_saturate() {
        let rate = Rate::new();
        rate.add(0, u32::MAX);
        assert_eq!(rate.add(1, 5), u32::MAX);
    }

    proptest! {
        #[test]
        fn after_the_announced_delay_the_rate_is_within_its_limit(steps in prop::collection::vec((0u64..700, 0u32..50), 1..40), limit in 1u32..20) {
            let rate = Rate::new();
            let mut now = 0;
            for (step, events) in steps {
                now += step;
                rate.add(now, events);
            }
            for _ in 0..4 {
                now += rate.delay_ms(now, limit);
            }
            prop_assert!(rate.read(now) <= limit);
            prop_assert_eq!(rate.delay_ms(now, limit), 0);
        }
    }
}
