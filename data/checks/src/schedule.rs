//! When checks run: pure arithmetic on milliseconds.

use weir_backend::Check;
use weir_sched::Tick;

/// How often a server is checked, in milliseconds each, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    /// `inter`.
    pub usual_ms: u64,
    /// `fastinter`.
    pub fast_ms: u64,
    /// `downinter`.
    pub down_ms: u64,
    /// `spread-checks`: the variation of intervals, in per cent either way.
    pub spread_percent: u8,
}

impl Intervals {
    /// The interval for a check's level (manual, "inter").
    pub fn of(&self, check: &Check) -> u64 {
        let (level, top) = (check.record().level, check.rules().top());
        if level == top {
            self.usual_ms
        } else if level == 0 {
            self.down_ms
        } else {
            self.fast_ms
        }
    }

    /// An interval with random variation; `random` is any number.
    pub fn vary(&self, interval_ms: u64, random: u64) -> u64 {
        let range = interval_ms.saturating_mul(u64::from(self.spread_percent)) / 100;
        if range == 0 {
            return interval_ms.max(1);
        }
        (interval_ms - range + random % (2 * range + 1)).max(1)
    }
}

/// The delay of the first run of check number `rank` of `count`, from the start: first runs are spread over the shortest
/// interval, or over `most_ms` if that is less.
pub fn first_delay_ms(rank: usize, count: usize, shortest_ms: u64, most_ms: Option<u64>) -> u64 {
    let window = shortest_ms.min(most_ms.unwrap_or(u64::MAX));
    let share = u128::from(window) * rank as u128 / (count.max(1) as u128);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The time of the next run of a check that was due at `last` and ended just now. Intervals are from start to start. A check
/// that took longer than its interval is followed by another at once; missed runs are not made up for.
pub(crate) fn next(last: Tick, interval_ms: u64, now: Tick) -> Tick {
    let regular = last.after(interval_ms);
    if regular.after(interval_ms) <= now { now.after(interval_ms) } else { regular.max(now.after(1)) }
}

/// When a check that is due at `at` begins. Checks that are due within a few milliseconds begin together: one wake-up and warm
/// caches serve all of them. The delay is at most a hundredth of the check's usual interval.
pub(crate) fn beginning(at: Tick, usual_ms: u64) -> Tick {
    let together = if usual_ms >= TOGETHER_MS * 100 { TOGETHER_MS } else { 1 };
    Tick::from_ms(at.as_ms().next_multiple_of(together))
}

/// A scheduler's time slice. Other tasks wait for the checks that one thread begins in this time: at 2,000 a second eight, a
/// quarter of a millisecond.
const TOGETHER_MS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_check_is_an_interval_after_the_start_of_the_last() {
        let next = |now| next(Tick::from_ms(1000), 100, Tick::from_ms(now)).as_ms();
        assert_eq!((next(1000), next(1099)), (1100, 1100));
        assert_eq!((next(1100), next(1150), next(1199)), (1101, 1151, 1200), "it took too long");
        assert_eq!((next(1200), next(9000)), (1300, 9100), "the machine slept");
    }

    #[test]
    fn checks_that_are_due_within_a_slice_begin_together() {
        let begin = |at, usual_ms| beginning(Tick::from_ms(at), usual_ms).as_ms();
        assert_eq!([2000, 2001, 2003, 2004].map(|at| begin(at, 400)), [2000, 2004, 2004, 2004]);
        assert_eq!([2001, 2003].map(|at| begin(at, 399)), [2001, 2003], "R96: short intervals are kept");
        assert_eq!(begin(3, 4), 3);
    }

    #[test]
    fn the_first_checks_are_spread_over_the_shortest_interval() {
        let delays = |count, shortest, most| -> Vec<u64> {
            (0..count).map(|rank| first_delay_ms(rank, count, shortest, most)).collect()
        };
        assert_eq!(delays(4, 500, None), [0, 125, 250, 375]);
        assert_eq!(delays(4, 500, Some(40)), [0, 10, 20, 30]);
        assert_eq!(delays(2, 10, Some(40)), [0, 5]);
        assert_eq!(first_delay_ms(0, 0, 5, None), 0);
    }

    #[test]
    fn chance_stays_within_its_bounds() {
        let intervals = Intervals { usual_ms: 1000, fast_ms: 1000, down_ms: 1000, spread_percent: 5 };
        let varied: Vec<u64> = (0..10_000).map(|random| intervals.vary(1000, random)).collect();
        assert_eq!((varied.iter().min(), varied.iter().max()), (Some(&950), Some(&1050)));
        assert_eq!(Intervals { spread_percent: 0, ..intervals }.vary(1000, 7), 1000);
        assert_eq!(intervals.vary(0, 7), 1);
    }
}
