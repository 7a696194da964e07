//! How long the phases of exchanges took, as distributions: one writer per worker, merged when read.

use weir_events::{Histogram, HistogramPlace, HistogramReading};
use weir_sync::Counter;

use super::average::{Phase, Phases};

/// The durations of one exchange in microseconds, by [`Phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseDurations(pub [u64; Phase::COUNT]);

impl PhaseDurations {
    /// Stands for the duration of a phase that was not reached.
    pub const ABSENT: u64 = u64::MAX;

    /// The same in milliseconds, for averages; an absent phase counts as zero.
    #[inline]
    #[must_use]
    pub fn phases(&self) -> Phases {
        let [queue, connect, response, total] = self.0;
        Phases([milliseconds(queue), milliseconds(connect), milliseconds(response), milliseconds(total)])
    }
}

/// Whole milliseconds; 0 for most durations.
#[inline]
fn milliseconds(us: u64) -> u32 {
    match us {
        0..1_000 | PhaseDurations::ABSENT => 0,
        us => u32::try_from(us / 1_000).unwrap_or(u32::MAX),
    }
}

/// One worker's measurements of one object.
///
/// Each exchange has a total. Of the other phases most take no time that the clock shows, so those are not written: they are
/// the exchanges that are counted neither in the phase's distribution nor as not having reached it.
#[derive(Debug, Default)]
pub struct LatencyHistograms {
    totals: Histogram,
    /// Exchanges that no backend had a part in.
    local: Counter,
    absent: [Counter; Phase::Total as usize],
    phases: [Histogram; Phase::Total as usize],
}

impl LatencyHistograms {
    /// Records the durations of one exchange in two objects with one bucket search; only for the worker that owns them.
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

    /// Records an exchange that no backend had a part in; only for the worker that owns it.
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
            // The counts are read one after the other.
            reading.add_zeros(exchanges.saturating_sub(others));
        }
    }
}

/// The distributions of the phases of an object, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyReading([HistogramReading; Phase::COUNT]);

impl LatencyReading {
    /// The distribution of one phase.
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

    /// The distributions, by [`Phase`].
    #[must_use]
    pub fn into_phases(self) -> [HistogramReading; Phase::COUNT] {
        self.0
    }
}
