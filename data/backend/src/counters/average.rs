//! Average durations of the phases of an exchange. Each worker writes its own averages, and a read combines them.

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

/// The number of exchanges that the averages cover (management manual, `qtime` and others).
const WINDOW: u64 = 1 << WINDOW_BITS;
const WINDOW_BITS: u32 = 10;

/// Sliding averages of all phases. After the window is full, each new value replaces an average one.
#[derive(Default)]
pub(super) struct Averages {
    samples: AtomicU32,
    phases: [Average; Phase::COUNT],
}

/// The sliding average of one phase.
#[derive(Default)]
struct Average {
    total: AtomicU64,
    longest: AtomicU32,
}

impl Averages {
    /// Records the durations of an exchange. Called only by the owning worker.
    #[inline]
    pub(super) fn record(&self, phases: Phases) {
        let samples = self.samples.load(Ordering::Relaxed);
        let full = u64::from(samples) >= WINDOW;
        if !full {
            self.samples.store(samples + 1, Ordering::Relaxed);
        }
        for (average, milliseconds) in self.phases.iter().zip(phases.0) {
            average.record(milliseconds, full);
        }
    }

    pub(super) fn longest(&self, phase: Phase) -> u32 {
        self.phases[phase as usize].longest.load(Ordering::Relaxed)
    }

    pub(super) fn clear_longest(&self) {
        self.phases.iter().for_each(|average| average.longest.store(0, Ordering::Relaxed));
    }

    pub(super) fn clear(&self) {
        self.samples.store(0, Ordering::Relaxed);
        self.phases.iter().for_each(|average| average.total.store(0, Ordering::Relaxed));
        self.clear_longest();
    }
}

impl Average {
    #[inline]
    fn record(&self, milliseconds: u32, full: bool) {
        let total = self.total.load(Ordering::Relaxed);
        // Fast path: most phases take less than a millisecond.
        if total == 0 && milliseconds == 0 {
            return;
        }
        // Rounded up, so a total below the window size also decays.
        let kept = if full { total - ((total + (WINDOW - 1)) >> WINDOW_BITS) } else { total };
        self.total.store(kept + u64::from(milliseconds), Ordering::Relaxed);
        raise(&self.longest, milliseconds);
    }
}

/// The average of a phase over all workers' exchanges, weighted by each worker's number of samples.
pub(super) fn combined<'a>(averages: impl Iterator<Item = &'a Averages>, phase: Phase) -> u32 {
    let (total, samples) = averages.fold((0, 0), |(total, samples), averages| {
        let own = u64::from(averages.samples.load(Ordering::Relaxed));
        (total + averages.phases[phase as usize].total.load(Ordering::Relaxed), samples + own)
    });
    if samples == 0 { 0 } else { u32::try_from(total.div_ceil(samples)).unwrap_or(u32::MAX) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn record(averages: &Averages, milliseconds: u32) {
        averages.record(Phases([milliseconds, 0, 0, 0]));
    }

    fn shown(averages: &Averages) -> (u32, u32) {
        (averages.longest(Phase::Queue), combined([averages].into_iter(), Phase::Queue))
    }

    #[test]
    fn the_average_of_few_samples_is_their_arithmetic_mean() {
        let averages = Averages::default();
        [10, 20, 30].into_iter().for_each(|value| record(&averages, value));
        assert_eq!(shown(&averages), (30, 20));
    }

    #[test]
    fn zero_durations_count_as_samples() {
        let averages = Averages::default();
        [0, 0, 30, 10].into_iter().for_each(|value| record(&averages, value));
        assert_eq!(shown(&averages), (30, 10));
    }

    #[test]
    fn each_phase_has_its_own_average_and_maximum() {
        let averages = Averages::default();
        averages.record(Phases([1, 2, 3, 4]));
        let phases = [Phase::Queue, Phase::Connect, Phase::Response, Phase::Total];
        assert_eq!(phases.map(|phase| combined([&averages].into_iter(), phase)), [1, 2, 3, 4]);
        assert_eq!(phases.map(|phase| averages.longest(phase)), [1, 2, 3, 4]);
    }

    #[test]
    fn an_average_decays_to_zero_after_many_zero_samples() {
        let averages = Averages::default();
        (0..2_000).for_each(|_| record(&averages, 500));
        assert_eq!(shown(&averages), (500, 500));
        (0..20_000).for_each(|_| record(&averages, 0));
        assert_eq!(shown(&averages), (500, 0));
    }

    #[test]
    fn clearing_restarts_averages_and_maxima() {
        let averages = Averages::default();
        record(&averages, 30);
        averages.clear_longest();
        assert_eq!(shown(&averages), (0, 30));
        record(&averages, 40);
        averages.clear();
        assert_eq!(shown(&averages), (0, 0));
    }

    #[test]
    fn worker_averages_are_combined_by_their_number_of_samples() {
        let (busy, idle) = (Averages::default(), Averages::default());
        (0..9).for_each(|_| record(&busy, 10));
        record(&idle, 110);
        assert_eq!(combined([&busy, &idle].into_iter(), Phase::Queue), 20);
        assert_eq!(combined([].into_iter(), Phase::Queue), 0);
    }
}
