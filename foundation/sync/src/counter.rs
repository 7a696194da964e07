//! Counters and gauges with one writer (design D9): a load and a store, no locked instruction, readable by anyone.
//!
//! The writer is the worker that owns the block the counter lies in. Two writers would lose counts but break
//! nothing else. Group counters of one worker in a [`crate::CachePadded`] block.

use crate::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `amount`; only for the owner.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one; only for the owner.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// The value now, or a moment ago on another thread.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Starts over at zero (`clear counters all`). A concurrent addition of the owner may undo it.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// A number that goes up and down and remembers its highest value.
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

    /// Takes one away; only for the owner. Stops at zero.
    #[inline]
    pub fn decrement(&self) {
        self.now.store(self.value().saturating_sub(1), Relaxed);
    }

    /// Replaces the value; only for the owner.
    #[inline]
    pub fn set(&self, value: u64) {
        self.now.store(value, Relaxed);
        if value > self.highest.load(Relaxed) {
            self.highest.store(value, Relaxed);
        }
    }

    /// The value now, or a moment ago on another thread.
    #[inline]
    pub fn value(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// The highest value since the start or the last [`Gauge::reset_highest`].
    pub fn highest(&self) -> u64 {
        self.highest.load(Relaxed)
    }

    /// Forgets the highest value.
    pub fn reset_highest(&self) {
        self.highest.store(self.value(), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_counter_adds() {
        let counter = Counter::new();
        counter.add(41);
        counter.increment();
        assert_eq!(counter.value(), 42);
        counter.reset();
        assert_eq!(counter.value(), 0);
    }

    /// R25: our own helpers return nothing, so callers cannot confuse the value before with the value after.
    #[test]
    fn adding_returns_nothing() {
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
    fn a_gauge_remembers_its_highest() {
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
    fn counters_and_gauges_load_and_store() {
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
