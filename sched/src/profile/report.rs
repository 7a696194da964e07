//! The results of profiling, as numbers; the runtime API formats them.

use super::{Cause, ProfileMode, ProfileSettings};
use crate::shared::SharedSide;
use crate::task::WorkKind;
use std::panic::Location;
use weir_sync::atomic::Ordering::Relaxed;

/// The source location and the cause of a task's wake.
#[derive(Debug, Clone, Copy)]
pub struct WakeOrigin {
    /// The source location.
    pub place: &'static Location<'static>,
    pub cause: Cause,
}

/// One kind of work, woken from one place.
#[derive(Debug, Clone, Copy)]
pub struct ProfileLine {
    /// The kind of work that ran.
    pub kind: &'static WorkKind,
    /// The wake's origin. `None` if the wake happened before profiling began.
    pub origin: Option<WakeOrigin>,
    /// Number of runs.
    pub calls: u64,
    /// Total run time in nanoseconds.
    pub cpu_ns: u64,
    /// Number of runs with a known latency.
    pub latencies: u64,
    /// Total latency of the runs with a known latency, in nanoseconds.
    pub latency_ns: u64,
    /// Nanoseconds spent in the allocator.
    pub memory_ns: u64,
    /// Nanoseconds spent waiting for locks.
    pub lock_wait_ns: u64,
    /// Nanoseconds during which locks were held.
    pub lock_held_ns: u64,
}

/// The results of profiling on all workers of a runtime.
#[derive(Debug, Clone, Default)]
pub struct ProfileReport {
    /// The settings in effect.
    pub settings: ProfileSettings,
    /// When the measuring began, in nanoseconds of the workers' clock.
    pub since_ns: u64,
    /// When the measuring ended, or the current time.
    pub until_ns: u64,
    /// One line per kind and origin, in any order.
    pub lines: Vec<ProfileLine>,
}

/// Sums up the counters of these workers.
pub(crate) fn of_workers<'a>(workers: impl Iterator<Item = &'a SharedSide>, now_ns: u64) -> ProfileReport {
    let mut report = ProfileReport { until_ns: now_ns, since_ns: now_ns, ..ProfileReport::default() };
    for shared in workers {
        report.settings = shared.profile.settings();
        report.since_ns = shared.profiled_since_ns.load(Relaxed);
        let until_ns = shared.profiled_until_ns.load(Relaxed);
        report.until_ns = if report.settings.mode == ProfileMode::Off { until_ns } else { now_ns };
        shared.profile.lines().into_iter().for_each(|line| report.add(line));
    }
    report
}

impl ProfileReport {
    fn add(&mut self, line: ProfileLine) {
        let same = |known: &&mut ProfileLine| {
            std::ptr::eq(known.kind, line.kind)
                && match (known.origin, line.origin) {
                    (None, None) => true,
                    (Some(known), Some(new)) => known.cause == new.cause && known.place == new.place,
                    _ => false,
                }
        };
        match self.lines.iter_mut().find(same) {
            Some(known) => known.merge(&line),
            None => self.lines.push(line),
        }
    }
}

impl ProfileLine {
    /// Adds the counters of `other` to this line's.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.cpu_ns += other.cpu_ns;
        self.latencies += other.latencies;
        self.latency_ns += other.latency_ns;
        self.memory_ns += other.memory_ns;
        self.lock_wait_ns += other.lock_wait_ns;
        self.lock_held_ns += other.lock_held_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static KIND: WorkKind = WorkKind::new("test");

    #[test]
    fn profile_lines_of_one_kind_and_place_are_summed() {
        let line = |number: u64| ProfileLine {
            kind: &KIND,
            origin: None,
            calls: number,
            cpu_ns: number * 2,
            latencies: number * 3,
            latency_ns: number * 4,
            memory_ns: number * 5,
            lock_wait_ns: number * 6,
            lock_held_ns: number * 7,
        };
        let mut report = ProfileReport::default();
        report.add(line(10));
        report.add(line(5));
        let [sum] = &report.lines[..] else { panic!("{} lines", report.lines.len()) };
        let counters = [
            sum.calls,
            sum.cpu_ns,
            sum.latencies,
            sum.latency_ns,
            sum.memory_ns,
            sum.lock_wait_ns,
            sum.lock_held_ns,
        ];
        assert_eq!(counters, [15, 30, 45, 60, 75, 90, 105]);
    }
}
