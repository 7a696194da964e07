//! Latency histograms: how long things took, kept so that any percentile can be asked for later.
//!
//! Buckets are log-linear, as in HdrHistogram: 32 equal steps in every power of two, so a reported value is at most
//! 1/32 (about 3 per cent) above the true one, from one unit up to 2^36 units (19 hours in microseconds). One worker
//! writes, with relaxed loads and stores and no read-modify-write; anybody may read at any time. Readings of several
//! workers are merged by adding them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Steps in one power of two, as a power of two itself: 32 steps keep the error of a percentile under 3.2 per cent.
const STEP_BITS: u32 = 5;

/// Values from here on are counted in the last bucket.
const VALUE_BITS: u32 = 36;

/// 1,024 buckets, 8 kB once the first value came; an object that never records costs one word.
const BUCKETS: usize = ((VALUE_BITS - STEP_BITS + 1) as usize) << STEP_BITS;

/// A distribution with one writer.
#[derive(Debug, Default)]
pub struct Histogram {
    cells: OnceLock<Box<Cells>>,
}

#[derive(Debug)]
struct Cells {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    largest: AtomicU64,
}

impl Histogram {
    /// An empty distribution. Memory for the buckets is taken with the first value.
    pub const fn new() -> Self {
        Self { cells: OnceLock::new() }
    }

    /// Counts one value. To be called by the owning worker only: two writers would lose counts.
    pub fn record(&self, value: u64) {
        let cells = self.cells.get_or_init(|| Box::new(Cells::new()));
        bump(&cells.counts[bucket_of(value)], 1);
        bump(&cells.sum, value);
        if value > cells.largest.load(Relaxed) {
            cells.largest.store(value, Relaxed);
        }
    }

    /// Forgets everything ("clear counters"). Like [`Histogram::record`], for the owner only.
    pub fn clear(&self) {
        let Some(cells) = self.cells.get() else { return };
        for count in &cells.counts {
            count.store(0, Relaxed);
        }
        cells.sum.store(0, Relaxed);
        cells.largest.store(0, Relaxed);
    }

    /// Adds what was recorded so far to `reading`. Callable from any thread.
    pub fn read_into(&self, reading: &mut HistogramReading) {
        let Some(cells) = self.cells.get() else { return };
        for (total, count) in reading.counts.iter_mut().zip(&cells.counts) {
            *total += count.load(Relaxed);
        }
        reading.sum = reading.sum.wrapping_add(cells.sum.load(Relaxed));
        reading.largest = reading.largest.max(cells.largest.load(Relaxed));
    }
}

impl Cells {
    fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            largest: AtomicU64::new(0),
        }
    }
}

/// A reading of one or several [`Histogram`]s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistogramReading {
    counts: Vec<u64>,
    sum: u64,
    largest: u64,
}

impl Default for HistogramReading {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], sum: 0, largest: 0 }
    }
}

impl HistogramReading {
    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values (wraps after 2^64 units).
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value seen, exact.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The mean, rounded down; 0 when nothing was recorded.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count()).unwrap_or(0)
    }

    /// The value that a share `quantile` (0.0 to 1.0) of all values do not exceed; 0 when nothing was recorded.
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

    /// Adds another reading to this one: the result is what one histogram fed with both would have held.
    pub fn merge(&mut self, other: &HistogramReading) {
        for (total, count) in self.counts.iter_mut().zip(&other.counts) {
            *total += count;
        }
        self.sum = self.sum.wrapping_add(other.sum);
        self.largest = self.largest.max(other.largest);
    }
}

/// The bucket that counts `value`: the position of its highest bit and the five bits after it.
fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((shift as usize) << STEP_BITS) + (value >> shift) as usize
}

/// The largest value that `bucket` counts.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    let base = bucket - (shift << STEP_BITS);
    ((base + 1) << shift) - 1
}

/// One writer: a load and a store are enough, and cheaper than an atomic addition.
fn bump(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading_of(values: &[u64]) -> HistogramReading {
        let histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        let mut reading = HistogramReading::default();
        histogram.read_into(&mut reading);
        reading
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let reading = reading_of(&[]);
        assert_eq!((reading.count(), reading.mean(), reading.quantile(0.99)), (0, 0, 0));
    }

    #[test]
    fn small_values_are_exact() {
        let reading = reading_of(&(1..=40).collect::<Vec<_>>());
        assert_eq!(reading.quantile(0.5), 20);
        assert_eq!(reading.quantile(1.0), 40);
        assert_eq!(reading.mean(), 20);
    }

    #[test]
    fn every_bucket_ends_just_below_the_next() {
        for bucket in 0..BUCKETS - 1 {
            let top = top_of(bucket);
            assert_eq!(bucket_of(top), bucket);
            assert_eq!(bucket_of(top + 1), bucket + 1);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn clear_forgets() {
        let histogram = Histogram::new();
        histogram.record(7);
        histogram.clear();
        let mut reading = HistogramReading::default();
        histogram.read_into(&mut reading);
        assert_eq!(reading, HistogramReading::default());
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_one_step_above_the_true_value(
            mut values in prop::collection::vec(0u64..1 << 30, 1..200),
            quantile in 0.0f64..=1.0,
        ) {
            let reading = reading_of(&values);
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1];
            let found = reading.quantile(quantile);
            prop_assert!(found >= exact && found <= exact + exact / 32, "{found} for {exact}");
        }

        #[test]
        fn merging_equals_recording_together(left in prop::collection::vec(any::<u32>(), 0..50),
                                             right in prop::collection::vec(any::<u32>(), 0..50)) {
            let left: Vec<u64> = left.into_iter().map(u64::from).collect();
            let right: Vec<u64> = right.into_iter().map(u64::from).collect();
            let mut merged = reading_of(&left);
            merged.merge(&reading_of(&right));
            prop_assert_eq!(merged, reading_of(&[left, right].concat()));
        }
    }
}
