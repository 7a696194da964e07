//! The number of checks per worker, and the choice of a worker for a check.
//!
//! A check that wakes up compares its worker with a random other one. If that worker runs less than half as many checks, the
//! check moves there and runs there (R88, R89). So checks that started together spread out, and no thread scans all others.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_sched::{TaskKey, Tick, now, wait, yield_now};
use weir_sync::CachePadded;

/// One worker's counts of checks. Only this worker writes them, except for checks that move to it.
#[derive(Debug, Default)]
pub struct CheckCounts {
    /// Checks run since the process started.
    pub started: AtomicU64,
    /// Checks that run or wait for their turn.
    pub active: AtomicU32,
    pub running: AtomicU32,
    /// Checks moved here from other workers since the process started.
    pub adopted: AtomicU64,
}

/// The check counts of all workers.
#[derive(Debug)]
pub struct CheckLoad {
    workers: Box<[CachePadded<CheckCounts>]>,
    /// `tune.max-checks-per-thread`. 0 is unlimited.
    most: u32,
}

impl CheckLoad {
    /// Zero counts.
    pub fn new(workers: usize, most: u32) -> Self {
        CheckLoad { workers: (0..workers.max(1)).map(|_| CachePadded::default()).collect(), most }
    }

    /// The counts of a worker. `None` beyond the last worker.
    pub fn of(&self, worker: usize) -> Option<&CheckCounts> {
        self.workers.get(worker).map(|counts| &**counts)
    }

    /// The worker to which a check that woke on `own` should move, if any. `random` is any number.
    pub(crate) fn better_place(&self, own: usize, random: u64) -> Option<usize> {
        let others = self.workers.len() - 1;
        if others == 0 {
            return None;
        }
        let drawn = (random % others as u64) as usize;
        let other = if drawn >= own { drawn + 1 } else { drawn };
        let active = |worker: usize| self.of(worker).map_or(0, |counts| counts.active.load(Relaxed));
        attracts(active(own), active(other)).then_some(other)
    }

    /// Waits for a turn on the current worker. The check counts as running until the turn is dropped.
    pub(crate) async fn turn(&self, worker: usize) -> CheckTurn<'_> {
        let counts = &self.workers[worker];
        counts.active.fetch_add(1, Relaxed);
        let mut turn = CheckTurn { counts, runs: false };
        let is_full = || self.most > 0 && counts.running.load(Relaxed) >= self.most;
        while is_full() {
            let task = weir_sched::current();
            QUEUE.with_borrow_mut(|queue| queue.push_back(task));
            wait(Tick::NEVER).await;
        }
        turn.runs = true;
        counts.running.fetch_add(1, Relaxed);
        counts.started.fetch_add(1, Relaxed);
        turn
    }
}

/// Whether a check moves from a worker with `own` other checks to one with `other`: if `other` is less than half of `own`.
/// Halves are not rounded: a check moves from 2 to 0, 3 to 1 and 1 to 0, but not from 2 to 1.
fn attracts(own: u32, other: u32) -> bool {
    u64::from(other) * 2 < u64::from(own)
}

thread_local! {
    /// The checks of this worker that wait for their turn.
    static QUEUE: RefCell<ManuallyDrop<VecDeque<TaskKey>>> = const { RefCell::new(ManuallyDrop::new(VecDeque::new())) };
}

/// A step of a check, which runs without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckStep {
    /// The check connects and may send.
    Begin,
    /// The check processes received bytes.
    GoOn,
}

/// Waits, at most until `until`, for a scheduler loop of this worker in which no other check took such a step. Otherwise a
/// request that arrives while many checks are due or get responses would wait for all of them. So it waits for one.
pub(crate) async fn take_apart(step: CheckStep, until: Tick) {
    if with_waiting(step, |queue| queue.is_empty()) && is_first_of_loop(step) {
        return;
    }
    let place = StepPermit::take(step);
    while !place.is_first() && now() < until {
        wait(until).await;
    }
    // After `until`, loops are so long that another check per loop makes no difference.
    while !is_first_of_loop(step) && now() < until {
        yield_now().await;
    }
}

/// Whether this is the first such step in the worker's current loop. Records the step.
fn is_first_of_loop(step: CheckStep) -> bool {
    let worker = weir_sched::worker_index();
    let loops = weir_sched::activity(worker, |activity| activity.loops.value()).unwrap_or_default();
    LAST_LOOPS.with(|last| last[step as usize].replace(Some(loops))) != Some(loops)
}

fn with_waiting<R>(step: CheckStep, look: impl FnOnce(&mut VecDeque<TaskKey>) -> R) -> R {
    WAITING.with_borrow_mut(|queues| look(&mut queues[step as usize]))
}

thread_local! {
    /// The checks of this worker that wait to take a step, the next one first, by step.
    static WAITING: RefCell<ManuallyDrop<[VecDeque<TaskKey>; 2]>> =
        const { RefCell::new(ManuallyDrop::new([const { VecDeque::new() }; 2])) };
    /// The last loop of this worker in which a check took a step, by step.
    static LAST_LOOPS: [Cell<Option<u64>>; 2] = const { [const { Cell::new(None) }; 2] };
}

/// A position in the queue of checks that take a step one by one. Drop wakes the next check.
#[derive(Debug)]
struct StepPermit(CheckStep, TaskKey);

impl StepPermit {
    /// Appends the current task to the queue.
    fn take(step: CheckStep) -> Self {
        let task = weir_sched::current();
        with_waiting(step, |queue| queue.push_back(task));
        StepPermit(step, task)
    }

    fn is_first(&self) -> bool {
        with_waiting(self.0, |queue| queue.front() == Some(&self.1))
    }
}

impl Drop for StepPermit {
    fn drop(&mut self) {
        let next = with_waiting(self.0, |queue| {
            match queue.front() == Some(&self.1) {
                true => drop(queue.pop_front()),
                false => queue.retain(|task| *task != self.1),
            }
            queue.front().copied()
        });
        if let Some(next) = next {
            weir_sched::wake(next);
        }
    }
}

/// A check that runs or waits to run.
#[derive(Debug)]
pub(crate) struct CheckTurn<'l> {
    counts: &'l CheckCounts,
    runs: bool,
}

impl Drop for CheckTurn<'_> {
    fn drop(&mut self) {
        self.counts.active.fetch_sub(1, Relaxed);
        if self.runs {
            self.counts.running.fetch_sub(1, Relaxed);
        }
        // The next check then tests again whether it may run.
        if let Some(next) = QUEUE.with_borrow_mut(|queue| queue.pop_front()) {
            weir_sched::wake(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_moves_to_a_worker_with_less_than_half_r88() {
        let decisions = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 1), (3, 2), (u32::MAX, u32::MAX)]
            .map(|(own, other)| attracts(own, other));
        assert_eq!(decisions, [false, true, false, true, false, true, false, false]);
    }

    #[test]
    fn a_check_draws_any_worker_except_its_own() {
        let load = CheckLoad::new(4, 0);
        load.workers[2].active.store(3, Relaxed);
        let mut places: Vec<_> = (0..3).filter_map(|random| load.better_place(2, random)).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 3]);
        assert_eq!(load.better_place(1, 0), None);
        assert_eq!(CheckLoad::new(1, 0).better_place(0, 5), None);
    }

    /// For any initial distribution, after a few wake-ups the check counts of any two workers differ by at most one (R90).
    #[test]
    fn repeated_wake_ups_spread_checks_evenly_over_workers_r90() {
        for seed in 0..200_u64 {
            let workers = 8;
            let load = CheckLoad::new(workers, 0);
            let mut places = vec![0_usize; workers];
            load.workers[0].active.store(workers as u32, Relaxed);
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for _ in 0..40 {
                for place in &mut places {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    load.workers[*place].active.fetch_sub(1, Relaxed);
                    *place = load.better_place(*place, random >> 33).unwrap_or(*place);
                    load.workers[*place].active.fetch_add(1, Relaxed);
                }
            }
            let loads: Vec<u32> = load.workers.iter().map(|counts| counts.active.load(Relaxed)).collect();
            assert_eq!(loads, vec![1; workers], "seed {seed}");
        }
    }
}
