//! Latency histograms. Any percentile can be computed from the recorded durations.
//!
//! Buckets are log-linear, as in HdrHistogram: 16 equal steps in every power of two, so a reported value is at most
//! 1/16 (about 6 per cent) above the true one, from one unit up to 2^36 units (19 hours in microseconds). One worker
//! writes, with relaxed loads and stores and no read-modify-write; any thread may read at any time. Readings of several
//! workers are merged by adding them.
//!
//! Memory depends on the recorded values. A histogram with only zeros (an idle queue) takes two words. Other values add
//! 16 counters for each power of two that occurred: about 0.8 kB for response times between 1 and 16 ms, 4.5 kB at
//! most.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_sync::LazyBox;

/// log2 of [`STEPS`].
const STEP_BITS: u32 = 4;

/// Buckets per power of two.
const STEPS: usize = 1 << STEP_BITS;

/// Values from 2^36 on are counted in the last bucket.
const VALUE_BITS: u32 = 36;

/// Number of octaves. The first counts 0 to 15, each of the others one power of two.
const OCTAVES: usize = (VALUE_BITS - STEP_BITS + 1) as usize;

/// Number of buckets.
const BUCKETS: usize = OCTAVES << STEP_BITS;

/// A distribution with one writer.
#[derive(Debug, Default)]
pub struct Histogram {
    zeros: AtomicU64,
    cells: LazyBox<HistogramCells>,
}

/// The counters of values above zero.
#[derive(Debug)]
struct HistogramCells {
    sum: AtomicU64,
    largest: AtomicU64,
    octaves: [LazyBox<[AtomicU64; STEPS]>; OCTAVES],
}

impl Histogram {
    /// Counts one value. Only for the owning worker, because concurrent writers would lose counts.
    #[inline]
    pub fn record(&self, value: u64) {
        self.record_place(value, HistogramPlace::of(value));
    }

    /// Like [`Histogram::record`], with a bucket computed once for several histograms. `place` must belong to `value`.
    #[inline]
    pub fn record_place(&self, value: u64, place: HistogramPlace) {
        if value == 0 {
            return bump(&self.zeros, 1);
        }
        let cells = self.cells.value();
        bump(&cells.octaves[place.octave()].value()[place.step()], 1);
        bump(&cells.sum, value);
        if value > cells.largest.load(Relaxed) {
            cells.largest.store(value, Relaxed);
        }
    }

    /// Resets all counts (`clear counters`). Only for the owning worker.
    pub fn clear(&self) {
        self.zeros.store(0, Relaxed);
        let Some(cells) = self.cells.existing() else { return };
        for count in cells.octaves.iter().filter_map(LazyBox::existing).flatten() {
            count.store(0, Relaxed);
        }
        cells.sum.store(0, Relaxed);
        cells.largest.store(0, Relaxed);
    }

    /// Adds the values recorded so far to `reading`. Callable from any thread.
    pub fn read_into(&self, reading: &mut HistogramReading) {
        reading.add_zeros(self.zeros.load(Relaxed));
        let Some(cells) = self.cells.existing() else { return };
        for (totals, octave) in reading.buckets_mut().chunks_exact_mut(STEPS).zip(&cells.octaves) {
            let Some(octave) = octave.existing() else { continue };
            for (total, count) in totals.iter_mut().zip(octave) {
                *total += count.load(Relaxed);
            }
        }
        reading.sum = reading.sum.wrapping_add(cells.sum.load(Relaxed));
        reading.largest = reading.largest.max(cells.largest.load(Relaxed));
    }
}

impl Default for HistogramCells {
    fn default() -> Self {
        Self {
            sum: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            octaves: std::array::from_fn(|_| LazyBox::default()),
        }
    }
}

/// The bucket of a value, the same in all histograms.
#[derive(Clone, Copy, Debug)]
pub struct HistogramPlace(u32);

impl HistogramPlace {
    /// The bucket of `value`.
    #[inline]
    pub fn of(value: u64) -> Self {
        HistogramPlace(bucket_of(value) as u32)
    }

    #[inline]
    fn octave(self) -> usize {
        (self.0 >> STEP_BITS) as usize
    }

    #[inline]
    fn step(self) -> usize {
        self.0 as usize % STEPS
    }
}

/// The sum of one or several [`Histogram`]s. Allocates only for the first value, because statistics read thousands of idle servers.
#[derive(Clone, Debug, Default)]
pub struct HistogramReading {
    /// All buckets; empty before the first value.
    counts: Vec<u64>,
    sum: u64,
    largest: u64,
}

impl PartialEq for HistogramReading {
    fn eq(&self, other: &Self) -> bool {
        (self.sum, self.largest) == (other.sum, other.largest) && self.buckets().eq(other.buckets())
    }
}

impl Eq for HistogramReading {}

impl HistogramReading {
    /// The counts, allocated on first use.
    fn buckets_mut(&mut self) -> &mut [u64] {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS];
        }
        &mut self.counts
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds `count` values of zero.
    pub fn add_zeros(&mut self, count: u64) {
        if count > 0 {
            self.buckets_mut()[0] += count;
        }
    }

    /// Sum of all values, modulo 2^64.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest recorded value, exact.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The mean, rounded down. 0 without values.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// The quantile `quantile` (0.0 to 1.0), rounded up to the end of its bucket, at most the largest value. 0 without values.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let count = self.count();
        let wanted = ((quantile.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, amount) in self.counts.iter().enumerate() {
            seen += amount;
            if seen >= wanted {
                return top_of(bucket).min(self.largest);
            }
        }
        self.largest
    }

    /// Number of values below `2^bits`. Exact, because a power of two is a bucket boundary. From 2^36 on, the number of all values.
    pub fn below_power_of_two(&self, bits: u32) -> u64 {
        let borders = if bits < VALUE_BITS { bucket_of(1 << bits) } else { BUCKETS };
        self.counts.iter().take(borders).sum()
    }

    /// The non-empty buckets in ascending order: smallest value, largest value, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let bottom_of = |bucket: usize| bucket.checked_sub(1).map_or(0, |before| top_of(before) + 1);
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(move |(bucket, count)| (bottom_of(bucket), top_of(bucket), *count))
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }

    /// Adds another reading to this one. The result equals a reading of one histogram with the values of both.
    pub fn merge(&mut self, other: &HistogramReading) {
        if !other.counts.is_empty() {
            self.buckets_mut().iter_mut().zip(&other.counts).for_each(|(total, count)| *total += count);
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.largest = self.largest.max(other.largest);
    }
}

/// The bucket of `value`: the position of the highest bit, and the four bits after it.
#[inline]
fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((shift as usize) << STEP_BITS) + (value >> shift) as usize
}

/// The largest value of `bucket`.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    let base = bucket - (shift << STEP_BITS);
    ((base + 1) << shift) - 1
}

/// Adds to a counter. With one writer, a load and a store suffice and are cheaper than an atomic addition.
#[inline]
fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading_of(values: &[u64]) -> HistogramReading {
        let histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        let mut reading = HistogramReading::default();
        histogram.read_into(&mut reading);
        reading
    }

    #[test]
    fn an_empty_histogram_reads_as_zero() {
        let reading = reading_of(&[]);
        assert_eq!((reading.count(), reading.mean(), reading.quantile(0.99)), (0, 0, 0));
    }

    #[test]
    fn a_histogram_reading_allocates_with_its_first_value() {
        let mut reading = reading_of(&[]);
        reading.add_zeros(0);
        reading.merge(&HistogramReading::default());
        assert_eq!(
            (reading.counts.capacity(), reading.is_empty(), reading.below_power_of_two(36)),
            (0, true, 0)
        );
        reading.add_zeros(2);
        assert_eq!((reading.count(), reading.is_empty()), (2, false));
    }

    #[test]
    fn small_values_are_recorded_exactly() {
        let reading = reading_of(&(0..=30).collect::<Vec<_>>());
        assert_eq!(reading.quantile(0.5), 15);
        assert_eq!(reading.quantile(1.0), 30);
        assert_eq!((reading.mean(), reading.count(), reading.sum()), (15, 31, 465));
    }

    #[test]
    fn every_histogram_bucket_ends_just_below_the_next_one() {
        for bucket in 0..BUCKETS - 1 {
            let top = top_of(bucket);
            assert_eq!(bucket_of(top), bucket);
            assert_eq!(bucket_of(top + 1), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_are_listed_with_their_bounds() {
        let buckets: Vec<_> = reading_of(&[0, 7, 7, 33, 1 << 40]).buckets().collect();
        let last = (top_of(BUCKETS - 2) + 1, top_of(BUCKETS - 1), 1);
        assert_eq!(buckets, [(0, 0, 1), (7, 7, 2), (32, 33, 1), last]);
    }

    #[test]
    fn powers_of_two_are_exact_bucket_bounds() {
        let values = [0, 0, 1, 15, 16, 1023, 1024, 1025, u64::MAX];
        let reading = reading_of(&values);
        for bits in 0..=40 {
            let below = values.iter().filter(|&&value| bits >= 36 || value < 1 << bits).count();
            assert_eq!(reading.below_power_of_two(bits), below as u64, "{bits}");
        }
    }

    #[test]
    fn allocates_counters_only_for_recorded_powers_of_two() {
        let histogram = Histogram::default();
        histogram.record(0);
        assert!(histogram.cells.existing().is_none());
        (1_000..16_000).for_each(|value| histogram.record(value));
        let octaves =
            histogram.cells.value().octaves.iter().filter(|octave| octave.existing().is_some()).count();
        assert_eq!(octaves, 5);
    }

    #[test]
    fn clear_resets_a_histogram() {
        let histogram = Histogram::default();
        histogram.record(0);
        histogram.record(7);
        histogram.clear();
        let mut reading = HistogramReading::default();
        histogram.read_into(&mut reading);
        assert_eq!(reading, HistogramReading::default());
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_one_sixteenth_above_the_true_value(
            mut values in prop::collection::vec(0u64..1 << 30, 1..200),
            quantile in 0.0f64..=1.0,
        ) {
            let reading = reading_of(&values);
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let found = reading.quantile(quantile);
            prop_assert!(found >= exact && found <= exact + exact / 16, "{found} for {exact}");
        }

        #[test]
        fn merging_readings_equals_recording_into_one_histogram(left in prop::collection::vec(any::<u32>(), 0..50),
                                             right in prop::collection::vec(any::<u32>(), 0..50)) {
            let left: Vec<u64> = left.into_iter().map(u64::from).collect();
            let right: Vec<u64> = right.into_iter().map(u64::from).collect();
            let mut merged = reading_of(&left);
            merged.merge(&reading_of(&right));
            prop_assert_eq!(merged, reading_of(&[left, right].concat()));
        }
    }
}
