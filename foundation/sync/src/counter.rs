//! Counters and gauges with one writer and any number of readers (design D9). An update is a load and a store, without
//! a locked instruction.
//!
//! The writer is the worker that owns the counter. Concurrent writers would only lose counts. Group the counters of one
//! worker in a [`crate::CachePadded`] block.

use crate::atomic::{AtomicU64, Ordering::Relaxed};

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `amount`. Only for the owner.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one; only for the owner.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The current value. On other threads it may be slightly outdated.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Resets the counter to zero (`clear counters all`). A concurrent addition of the owner may undo the reset.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A gauge with its highest value.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicU64,
    highest: AtomicU64,
}

impl Gauge {
    /// A gauge at zero.
    pub const fn new() -> Self {
        Self { now: AtomicU64::new(0), highest: AtomicU64::new(0) }
    }

    /// Adds one; only for the owner.
    #[inline]
    pub fn increment(&self) {
        self.set(self.value() + 1);
    }

    /// Subtracts one, but not below zero. Only for the owner.
    #[inline]
    pub fn decrement(&self) {
        self.now.store(self.value().saturating_sub(1), Relaxed);
    }

    /// Sets the value. Only for the owner.
    #[inline]
    pub fn set(&self, value: u64) {
        self.now.store(value, Relaxed);
        if value > self.highest.load(Relaxed) {
            self.highest.store(value, Relaxed);
        }
    }

    /// The current value. On other threads it may be slightly outdated.
    #[inline]
    pub fn value(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// The highest value since startup or the last [`Gauge::reset_highest`].
    pub fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    /// Resets the highest value to the current one.
    pub fn reset_highest(&self) {
        self.highest.store(self.value(), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds_and_resets() {
        let counter = Counter::new();
        counter.add(41);
        counter.increment();
        assert_eq!(counter.value(), 42);
        counter.reset();
        assert_eq!(counter.value(), 0);
    }

    /// R25: our helpers do not return a value, so callers cannot confuse the old value with the new one.
    #[test]
    fn counter_and_gauge_updates_return_no_value() {
        let _: [fn(&Counter); 2] = [Counter::increment, Counter::reset];
        let _: fn(&Counter, u64) = Counter::add;
        let _: [fn(&Gauge); 3] = [Gauge::increment, Gauge::decrement, Gauge::reset_highest];
        let _: fn(&Gauge, u64) = Gauge::set;
        let counter = Counter::new();
        counter.add(u64::MAX);
        counter.add(3);
        assert_eq!(counter.value(), 2, "it goes round");
    }

    #[test]
    fn a_gauge_remembers_its_highest_value() {
        let gauge = Gauge::new();
        gauge.increment();
        gauge.increment();
        gauge.decrement();
        assert_eq!((gauge.value(), gauge.highest()), (1, 2));
        gauge.reset_highest();
        gauge.decrement();
        gauge.decrement();
        assert_eq!((gauge.value(), gauge.highest()), (0, 1));
    }

    /// R24, R85: counters with one writer need no read-modify-write.
    #[cfg(debug_assertions)]
    #[test]
    fn counters_and_gauges_need_no_read_modify_write() {
        let (counter, gauge) = (Counter::new(), Gauge::new());
        let before = crate::atomic::operations();
        counter.add(3);
        counter.increment();
        gauge.increment();
        gauge.set(9);
        gauge.decrement();
        assert_eq!(crate::atomic::operations(), before);
        assert_eq!((counter.value(), gauge.value()), (4, 8));
    }
}
