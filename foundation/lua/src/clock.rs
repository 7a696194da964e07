//! The time that a run computes.
//!
//! It is CPU time: a thread that waits, or does not get a processor, computes nothing. Reading that clock is a system call, so short runs read
//! the monotonic clock, which never shows less, and the first event of a run that computes for longer reads both.

use std::cell::Cell;
use std::time::{Duration, Instant};

use weir_sys::time::thread_cpu_ns;

/// The clock of a run.
#[derive(Debug)]
pub(crate) struct RunClock {
    began: Cell<Option<Instant>>,
    /// The thread's CPU time when the run began, once the run has been observed.
    cpu_began_ns: Cell<Option<u64>>,
    limit: Cell<Option<Duration>>,
}

impl RunClock {
    pub(crate) fn new() -> Self {
        RunClock { began: Cell::new(None), cpu_began_ns: Cell::new(None), limit: Cell::new(None) }
    }

    /// Begins to measure a run that may compute for `limit`.
    pub(crate) fn start(&self, limit: Option<Duration>) {
        self.began.set(Some(Instant::now()));
        self.cpu_began_ns.set(None);
        self.limit.set(limit);
    }

    /// Whether the run has computed for longer than it may. It is called at least once in each slice.
    pub(crate) fn is_late(&self) -> bool {
        let (Some(began), Some(limit)) = (self.began.get(), self.limit.get()) else { return false };
        let elapsed = began.elapsed();
        let cpu_began = self.cpu_began_ns.get().unwrap_or_else(|| {
            let began = thread_cpu_ns().saturating_sub(as_ns(elapsed.min(UNOBSERVED)));
            self.cpu_began_ns.set(Some(began));
            began
        });
        elapsed >= limit && thread_cpu_ns().saturating_sub(cpu_began) >= as_ns(limit)
    }

    /// How long the run has computed.
    pub(crate) fn computed(&self) -> Duration {
        let elapsed = self.began.get().map_or(Duration::ZERO, |began| began.elapsed());
        match self.cpu_began_ns.get() {
            Some(began) => Duration::from_nanos(thread_cpu_ns().saturating_sub(began)).min(elapsed),
            None => elapsed.min(UNOBSERVED),
        }
    }
}

fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The CPU time that a run has at most used when it is first observed: a slice and a tick of the kernel.
const UNOBSERVED: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(time: Duration) {
        let began = thread_cpu_ns();
        while thread_cpu_ns() - began < as_ns(time) {}
    }

    #[test]
    fn waits_are_not_computation() {
        let clock = RunClock::new();
        clock.start(Some(Duration::from_millis(30)));
        assert!(!clock.is_late());
        std::thread::sleep(Duration::from_millis(60));
        assert!(!clock.is_late() && clock.computed() < Duration::from_millis(20));
        compute(Duration::from_millis(30));
        assert!(clock.is_late() && clock.computed() >= Duration::from_millis(30));
    }

    #[test]
    fn a_run_that_was_not_observed_counts_for_little() {
        let clock = RunClock::new();
        clock.start(None);
        std::thread::sleep(Duration::from_millis(30));
        assert!(!clock.is_late() && clock.computed() <= UNOBSERVED);
    }
}
