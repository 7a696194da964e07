//! Histograms of the durations of the phases of exchanges. Each worker writes its own, and a read merges them.

use weir_events::{Histogram, HistogramPlace, HistogramReading};
use weir_sync::Counter;

use super::average::{Phase, Phases};

/// The durations of one exchange in microseconds, by [`Phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseDurations(pub [u64; Phase::COUNT]);

impl PhaseDurations {
    /// The duration of a phase that was not reached.
    pub const ABSENT: u64 = u64::MAX;

    /// The durations in milliseconds, for averages. An absent phase counts as zero.
    #[inline]
    #[must_use]
    pub fn phases(&self) -> Phases {
        let [queue, connect, response, total] = self.0;
        Phases([milliseconds(queue), milliseconds(connect), milliseconds(response), milliseconds(total)])
    }
}

/// Whole milliseconds. 0 for most durations.
#[inline]
fn milliseconds(us: u64) -> u32 {
    match us {
        0..1_000 | PhaseDurations::ABSENT => 0,
        us => u32::try_from(us / 1_000).unwrap_or(u32::MAX),
    }
}

/// One worker's measurements of one object.
///
/// Each exchange has a total. Most other phases last 0 microseconds by the clock, and these are not recorded. Their number
/// is the number of exchanges that are neither in the phase's histogram nor counted as absent.
#[derive(Debug, Default)]
pub struct LatencyHistograms {
    totals: Histogram,
    /// Number of exchanges without a backend.
    local: Counter,
    absent: [Counter; Phase::Total as usize],
    phases: [Histogram; Phase::Total as usize],
}

impl LatencyHistograms {
    /// Records the durations of one exchange in two objects with one bucket search. Call it only on the worker that owns both.
    #[inline]
    pub fn record_in_both(first: &Self, second: &Self, latencies: &PhaseDurations) {
        for (phase, &us) in latencies.0[..Phase::Total as usize].iter().enumerate() {
            if us == 0 {
                continue;
            }
            if us == PhaseDurations::ABSENT {
                first.absent[phase].increment();
                second.absent[phase].increment();
                continue;
            }
            let place = HistogramPlace::of(us);
            first.phases[phase].record_place(us, place);
            second.phases[phase].record_place(us, place);
        }
        let total = latencies.0[Phase::Total as usize];
        let place = HistogramPlace::of(total);
        first.totals.record_place(total, place);
        second.totals.record_place(total, place);
    }

    /// Records an exchange without a backend. Call it only on the owning worker.
    #[inline]
    pub fn record_local(&self, total_us: u64) {
        self.local.increment();
        self.totals.record(total_us);
    }

    pub(super) fn clear(&self) {
        self.local.reset();
        self.absent.iter().for_each(Counter::reset);
        self.phases.iter().for_each(Histogram::clear);
        self.totals.clear();
    }

    pub(super) fn read_into(&self, reading: &mut LatencyReading) {
        let mut totals = HistogramReading::default();
        self.totals.read_into(&mut totals);
        let exchanges = totals.count().saturating_sub(self.local.value());
        reading.0[Phase::Total as usize].merge(&totals);
        for ((histogram, absent), reading) in self.phases.iter().zip(&self.absent).zip(&mut reading.0) {
            let before = reading.count();
            histogram.read_into(reading);
            let others = reading.count().saturating_sub(before).saturating_add(absent.value());
            // The counts are not read atomically, so the difference is clamped at 0.
            reading.add_zeros(exchanges.saturating_sub(others));
        }
    }
}

/// The histograms of the phases of an object, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyReading([HistogramReading; Phase::COUNT]);

impl LatencyReading {
    /// The histogram of one phase, in microseconds.
    #[must_use]
    pub fn of(&self, phase: Phase) -> &HistogramReading {
        &self.0[phase as usize]
    }

    /// Adds another reading to this one.
    pub fn merge(&mut self, other: &LatencyReading) {
        for (reading, other) in self.0.iter_mut().zip(&other.0) {
            reading.merge(other);
        }
    }

    /// The histograms, by [`Phase`].
    #[must_use]
    pub fn into_phases(self) -> [HistogramReading; Phase::COUNT] {
        self.0
    }
}
