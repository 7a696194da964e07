//! Average durations of the phases of an exchange: one writer per worker, combined when read.

use crate::sync::{AtomicU32, AtomicU64, Ordering, raise};

/// A phase of an exchange that statistics average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting in queues: `qtime`.
    Queue,
    /// Connecting: `ctime`.
    Connect,
    /// Waiting for the response: `rtime`.
    Response,
    /// The whole session: `ttime`.
    Total,
}

impl Phase {
    pub(super) const COUNT: usize = 4;
}

/// The durations of one exchange in milliseconds, by [`Phase`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases(pub [u32; Phase::COUNT]);

/// The number of exchanges that the averages cover (manual of statistics, `qtime` and the others).
const WINDOW: u64 = 1_024;

/// A sliding average: once the window is full, each new value replaces an average one.
#[derive(Default)]
pub(super) struct Average {
    total: AtomicU64,
    samples: AtomicU32,
    longest: AtomicU32,
}

impl Average {
    /// Only for the worker that owns it.
    pub(super) fn record(&self, milliseconds: u32) {
        let total = self.total.load(Ordering::Relaxed);
        let samples = self.samples.load(Ordering::Relaxed);
        let kept = if u64::from(samples) < WINDOW {
            self.samples.store(samples + 1, Ordering::Relaxed);
            total
        } else {
            // Rounded up, so that a total of less than the window fades too.
            total - total.div_ceil(WINDOW)
        };
        self.total.store(kept + u64::from(milliseconds), Ordering::Relaxed);
        raise(&self.longest, milliseconds);
    }

    pub(super) fn longest(&self) -> u32 {
        self.longest.load(Ordering::Relaxed)
    }

    pub(super) fn clear_longest(&self) {
        self.longest.store(0, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.samples.store(0, Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
        self.clear_longest();
    }
}

/// The average of all workers' exchanges, weighted by each worker's number of samples.
pub(super) fn combined<'a>(averages: impl Iterator<Item = &'a Average>) -> u32 {
    let (total, samples) = averages.fold((0, 0), |(total, samples), average| {
        let own = u64::from(average.samples.load(Ordering::Relaxed));
        (total + average.total.load(Ordering::Relaxed), samples + own)
    });
    if samples == 0 { 0 } else { u32::try_from(total.div_ceil(samples)).unwrap_or(u32::MAX) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn few_samples_give_their_plain_average() {
        let average = Average::default();
        [10, 20, 30].into_iter().for_each(|value| average.record(value));
        assert_eq!(combined([&average].into_iter()), 20);
        assert_eq!(average.longest(), 30);
    }

    #[test]
    fn old_samples_fade_and_small_totals_reach_zero() {
        let average = Average::default();
        (0..2_000).for_each(|_| average.record(500));
        assert_eq!(combined([&average].into_iter()), 500);
        (0..20_000).for_each(|_| average.record(0));
        assert_eq!(combined([&average].into_iter()), 0);
        assert_eq!(average.longest(), 500);
    }

    #[test]
    fn what_is_cleared_begins_anew() {
        let average = Average::default();
        average.record(30);
        average.clear_longest();
        assert_eq!((average.longest(), combined([&average].into_iter())), (0, 30));
        average.record(40);
        average.clear();
        assert_eq!((average.longest(), combined([&average].into_iter())), (0, 0));
    }

    #[test]
    fn busy_workers_weigh_more() {
        let (busy, idle) = (Average::default(), Average::default());
        (0..9).for_each(|_| busy.record(10));
        idle.record(110);
        assert_eq!(combined([&busy, &idle].into_iter()), 20);
        assert_eq!(combined([].into_iter()), 0);
    }
}
