//! When checks run: pure arithmetic on milliseconds.

use weir_backend::ServerCheck;
use weir_sched::Tick;

/// The check intervals of a server, in milliseconds, each at least 1.
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
    pub fn of(&self, check: &ServerCheck) -> u64 {
        let (level, top) = (check.record().level, check.rules().top());
        if level == top {
            self.usual_ms
        } else if level == 0 {
            self.down_ms
        } else {
            self.fast_ms
        }
    }

    /// An interval with random variation. `random` is any number.
    pub fn vary(&self, interval_ms: u64, random: u64) -> u64 {
        let range = interval_ms.saturating_mul(u64::from(self.spread_percent)) / 100;
        if range == 0 {
            return interval_ms.max(1);
        }
        (interval_ms - range).saturating_add(random % (2 * range + 1)).max(1)
    }
}

/// The delay after startup of the first run of check number `rank` of `count`. First runs are spread over the shortest
/// interval, or over `most_ms` if that is less.
pub fn first_delay_ms(rank: usize, count: usize, shortest_ms: u64, most_ms: Option<u64>) -> u64 {
    let window = shortest_ms.min(most_ms.unwrap_or(u64::MAX));
    let share = u128::from(window) * rank as u128 / (count.max(1) as u128);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// The time of the next run of a check that was due at `last` and ended at `now`. Intervals are from start to start, so they
/// do not drift. After a check that took longer than its interval the next one runs at once. Missed runs are skipped.
pub(crate) fn next(last: Tick, interval_ms: u64, now: Tick) -> Tick {
    let regular = last.after(interval_ms);
    if regular.after(interval_ms) <= now {
        in_phase(last, interval_ms, now)
    } else {
        regular.max(now.after(1))
    }
}

/// Whether a check that was due at `at` is so late that it waits for its next time, because the process or machine was
/// suspended. Many other checks are then due too, and the next time is nearer than the missed one.
pub(crate) fn is_missed(at: Tick, interval_ms: u64, now: Tick) -> bool {
    now.since(at) > (interval_ms / 2).max(MOST_LATE_MS)
}

/// The first time after `now` that is a whole number of intervals after `at`. Keeps missed checks spread out.
pub(crate) fn in_phase(at: Tick, interval_ms: u64, now: Tick) -> Tick {
    let interval_ms = interval_ms.max(1);
    let passed = now.since(at) / interval_ms;
    at.after(passed.saturating_add(1).saturating_mul(interval_ms))
}

/// The first tick at least `ms` after `began_us`, a time on the clock of ticks in microseconds. The current tick does not
/// count, because it is partly over and a timeout of a millisecond would expire at once.
pub(crate) fn deadline(began_us: u64, ms: u64) -> Tick {
    Tick::from_ms(began_us.div_ceil(1000)).after(ms)
}

/// When a check that is due at `at` begins. Checks due within a few milliseconds begin together, to share one wake-up and
/// warm caches. The delay is at most a hundredth of the check's usual interval.
pub(crate) fn beginning(at: Tick, usual_ms: u64) -> Tick {
    at.as_ms().checked_next_multiple_of(together_ms(usual_ms)).map_or(Tick::NEVER, Tick::from_ms)
}

/// Window in milliseconds in which checks with this interval begin together.
fn together_ms(usual_ms: u64) -> u64 {
    if usual_ms >= TOGETHER_MS * 100 { TOGETHER_MS } else { 1 }
}

/// How long a due check with this interval waits for others to begin: a twentieth of the interval. A worker that could not
/// run for some milliseconds has many checks to begin.
pub(crate) fn patience(now: Tick, usual_ms: u64) -> Tick {
    now.after((usual_ms / 20).clamp(1, MOST_PATIENCE_MS))
}

/// Tolerated delay of a check, in milliseconds. A busy worker is late by some milliseconds.
pub(crate) const MOST_LATE_MS: u64 = 250;

/// Limit of [`patience`], in milliseconds. An otherwise idle worker begins four thousand checks in this time.
const MOST_PATIENCE_MS: u64 = 100;

/// About a kernel scheduler's time slice, in milliseconds. At 2,000 checks a second a thread wakes once for eight checks.
/// Other tasks run between them.
const TOGETHER_MS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_check_starts_one_interval_after_the_start_of_the_last() {
        let next = |now| next(Tick::from_ms(1000), 100, Tick::from_ms(now)).as_ms();
        assert_eq!((next(1000), next(1099)), (1100, 1100));
        assert_eq!((next(1100), next(1150), next(1199)), (1101, 1151, 1200), "it took too long");
        assert_eq!((next(1200), next(9000), next(9050)), (1300, 9100, 9100), "the machine slept");
    }

    #[test]
    fn check_intervals_do_not_drift() {
        for interval in [1, 2, 3, 7, 250, 399, 400, 401, 1_000, 86_400_000] {
            let (began, mut at) = (1_000_003, 1_000_003);
            for count in 0..1_000 {
                let begins = beginning(Tick::from_ms(at), interval).as_ms();
                assert_eq!(at, began + count * interval);
                assert!(begins >= at && begins - at <= interval / 100, "{interval}: {at} begins at {begins}");
                // The check ends before it is due again.
                let ends = Tick::from_ms(begins + count % (interval - (begins - at)).max(1));
                at = next(Tick::from_ms(at), interval, ends).as_ms();
            }
        }
    }

    #[test]
    fn missed_checks_keep_their_phase() {
        let hour = 3_600_000;
        for interval in [1, 2, 3, 400, 1_000, 7_001] {
            for at in 1_000..1_000 + interval.min(50) {
                let (now, due) = (Tick::from_ms(hour), Tick::from_ms(at));
                assert!(is_missed(due, interval, now));
                let later = in_phase(due, interval, now).as_ms();
                assert_eq!((later - at) % interval, 0);
                assert!((1..=interval).contains(&(later - hour)), "{interval}: {later}");
            }
        }
        let is_missed = |late: u64, interval| is_missed(Tick::from_ms(9), interval, Tick::from_ms(9 + late));
        assert!(!is_missed(500, 1_000) && is_missed(501, 1_000), "half an interval");
        assert!(!is_missed(250, 1) && is_missed(251, 1), "a worker that is busy");
    }

    #[test]
    fn a_deadline_is_rounded_up_to_the_next_tick() {
        let deadline = |began_us, ms| deadline(began_us, ms).as_ms();
        assert_eq!([0, 1, 999, 1_000, 1_001].map(|began_us| deadline(began_us, 5)), [5, 6, 6, 6, 7]);
        assert_eq!([4_999, 5_000, 5_001].map(|began_us| deadline(began_us, 0)), [5, 5, 6]);
        for began_us in 1_000_000..1_003_000 {
            for ms in [0, 1, 2, 3, 1_000, 1_001] {
                let (due_us, end_us) = (deadline(began_us, ms) * 1_000, began_us + ms * 1_000);
                assert!((end_us..end_us + 1_000).contains(&due_us), "{began_us} + {ms}: {due_us}");
            }
        }
    }

    #[test]
    fn schedules_do_not_overflow_at_the_largest_times() {
        let (far, never) = (u64::MAX - 1, Tick::NEVER);
        assert!([1, 399, 400, u64::MAX].into_iter().all(|usual| beginning(never, usual).is_never()));
        assert!(beginning(Tick::from_ms(far), 1_000).is_never());
        assert!(deadline(u64::MAX, u64::MAX).is_never() && deadline(1, u64::MAX).is_never());
        assert!(next(Tick::from_ms(5), u64::MAX, Tick::from_ms(9)).is_never());
        assert!(in_phase(Tick::from_ms(5), u64::MAX, Tick::from_ms(9)).is_never());
        assert_eq!(in_phase(Tick::from_ms(5), 0, Tick::from_ms(9)).as_ms(), 10);
        let most = Intervals { usual_ms: u64::MAX, fast_ms: 1, down_ms: 1, spread_percent: 50 };
        assert!(most.vary(u64::MAX, u64::MAX) > u64::MAX / 2);
    }

    #[test]
    fn checks_due_within_one_time_slice_start_together() {
        let begin = |at, usual_ms| beginning(Tick::from_ms(at), usual_ms).as_ms();
        assert_eq!([2000, 2001, 2003, 2004].map(|at| begin(at, 400)), [2000, 2004, 2004, 2004]);
        assert_eq!([2001, 2003].map(|at| begin(at, 399)), [2001, 2003], "R96: short intervals are kept");
        assert_eq!(begin(3, 4), 3);
    }

    #[test]
    fn first_checks_are_spread_over_the_shortest_interval() {
        let delays = |count, shortest, most| -> Vec<u64> {
            (0..count).map(|rank| first_delay_ms(rank, count, shortest, most)).collect()
        };
        assert_eq!(delays(4, 500, None), [0, 125, 250, 375]);
        assert_eq!(delays(4, 500, Some(40)), [0, 10, 20, 30]);
        assert_eq!(delays(2, 10, Some(40)), [0, 5]);
        assert_eq!(first_delay_ms(0, 0, 5, None), 0);
    }

    #[test]
    fn spread_checks_varies_intervals_within_its_percentage() {
        let intervals = Intervals { usual_ms: 1000, fast_ms: 1000, down_ms: 1000, spread_percent: 5 };
        let varied: Vec<u64> = (0..10_000).map(|random| intervals.vary(1000, random)).collect();
        assert_eq!((varied.iter().min(), varied.iter().max()), (Some(&950), Some(&1050)));
        assert_eq!(Intervals { spread_percent: 0, ..intervals }.vary(1000, 7), 1000);
        assert_eq!(intervals.vary(0, 7), 1);
    }
}
