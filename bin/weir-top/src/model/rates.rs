//! Rates: the growth of counters between two polls, and their history.

use std::collections::VecDeque;

/// The growth between two polls. `None` if unknown, because the counter was reset or the process was replaced.
///
/// Some counters of older versions have 32 bits. A drop from the upper half of this range to the lower half is a wraparound.
pub(crate) fn growth(before: u64, now: u64, continued: bool) -> Option<u64> {
    const WRAP: u64 = 1 << 32;
    if !continued {
        return None;
    }
    match now.checked_sub(before) {
        Some(grown) => Some(grown),
        None if (WRAP - WRAP / 4..WRAP).contains(&before) && now < WRAP / 4 => Some(now + WRAP - before),
        None => None,
    }
}

/// The counters with displayed rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RowCounters {
    pub work: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub errors: u64,
}

/// The growth of each counter per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RowRates {
    pub work: Option<f64>,
    pub bytes_in: Option<f64>,
    pub bytes_out: Option<f64>,
    pub errors: Option<f64>,
}

/// A row's last counters, its rates, and the history of its work rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowTrack {
    last: Option<RowCounters>,
    pub rates: RowRates,
    pub history: History,
}

impl RowTrack {
    /// Adds a poll, `seconds` after the last one. `continued`: the counters are from the same process.
    pub(crate) fn add(&mut self, now: RowCounters, seconds: f64, continued: bool) {
        let Some(before) = self.last.replace(now).filter(|_| seconds > 0.0) else { return };
        let rate = |before, now| growth(before, now, continued).map(|grown| grown as f64 / seconds);
        self.rates = RowRates {
            work: rate(before.work, now.work),
            bytes_in: rate(before.bytes_in, now.bytes_in),
            bytes_out: rate(before.bytes_out, now.bytes_out),
            errors: rate(before.errors, now.errors),
        };
        if let Some(work) = self.rates.work {
            self.history.push(work);
        }
    }
}

/// The newest values of a rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(VecDeque<f32>);

impl History {
    pub(crate) fn push(&mut self, value: f64) {
        if self.0.len() == LONGEST {
            self.0.pop_front();
        }
        self.0.push_back(value as f32);
    }

    pub(crate) fn most(&self) -> f64 {
        f64::from(self.0.iter().copied().fold(0.0, f32::max))
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        self.0.iter().copied().collect()
    }
}

/// Maximum number of values: as many as a wide terminal shows. More than three minutes at one per second.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(work: u64) -> RowCounters {
        RowCounters { work, ..RowCounters::default() }
    }

    #[test]
    fn growth_accounts_for_32_bit_wraps_and_cleared_counters() {
        assert_eq!(growth(5, 9, true), Some(4));
        assert_eq!(growth(9, 9, true), Some(0));
        assert_eq!(growth(u64::from(u32::MAX) - 1, 3, true), Some(5));
        assert_eq!(growth(900, 3, true), None, "'clear counters'");
        assert_eq!(growth(1 << 33, 3, true), None, "a counter of 64 bits does not wrap");
        assert_eq!(growth(5, 9, false), None, "another process");
    }

    #[test]
    fn a_rate_needs_two_readings_of_one_process() {
        let mut track = RowTrack::default();
        track.add(counters(100), 1.0, false);
        assert_eq!(track.rates, RowRates::default());
        track.add(counters(150), 2.0, true);
        assert_eq!((track.rates.work, track.rates.errors), (Some(25.0), Some(0.0)));
        track.add(counters(10), 1.0, true);
        assert_eq!(track.rates.work, None, "nothing negative after a reset");
        track.add(counters(500), 1.0, false);
        assert_eq!(track.rates.work, None, "no leap after a reload");
        track.add(counters(501), 0.0, true);
        track.add(counters(503), 1.0, true);
        assert_eq!((track.rates.work, track.history.values()), (Some(2.0), vec![25.0, 2.0]));
    }

    #[test]
    fn the_history_of_a_rate_has_a_maximum_length() {
        let mut history = History::default();
        (0..10_000).for_each(|value| history.push(f64::from(value)));
        assert_eq!((history.values().len(), history.most()), (LONGEST, 9999.0));
    }
}
