//! Several workers in one thread: a seed determines which one runs, how much time passes and when each event arrives.
//!
//! ```text
//!            work: timers, inboxes, one round, lie down             wake up: events, or time
//!   awake ────────────────────────────────────────────► in the poller ──────────────────────► awake
//! ```
//! Other workers take steps between these two steps of a worker, so interactions meet a worker in every state, asleep
//! included. Nothing depends on the kernel: two runs with one seed are identical. Interleavings within a step are
//! tested with loom.

use super::random::SeededRandom;
use crate::driver::{Clock, Poller, WorkerBell};
use crate::policy::SchedulerTuning;
use crate::runtime::{Sides, shared_sides};
use crate::shared::SharedSide;
use crate::worker::{Worker, WorkerParts};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use weir_sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sys::poll::Readiness;
use weir_sys::{Errno, Result};

/// Workers on virtual time, moved step by step.
pub struct SimulatedWorld {
    workers: Vec<SimulatedWorker>,
    time: Rc<Cell<u64>>,
    random: SeededRandom,
    faults: Faults,
}

/// Faults to inject. A value `n` means once in `n` chances; 0 is never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// An event is reported by the next poll instead.
    pub late: u32,
    /// An event is reported twice.
    pub twice: u32,
    /// A worker's poller returns although nothing happened.
    pub spurious: u32,
    /// The poller fails, as when a signal interrupts it.
    pub failing: u32,
    /// Some milliseconds pass between two steps.
    pub slow: u32,
}

impl Faults {
    /// Many faults of every kind.
    pub const MANY: Self = Self { late: 4, twice: 8, spurious: 10, failing: 20, slow: 3 };
}

struct SimulatedWorker {
    worker: NonNull<Worker>,
    shared: Arc<SharedSide>,
    events: Rc<PollerEvents>,
    /// While the worker is in the poller: the timeout in milliseconds, and the start in nanoseconds.
    waits: Cell<Option<(Option<u64>, u64)>>,
}

impl SimulatedWorld {
    /// A world of `workers` workers.
    pub fn new(seed: u64, workers: usize, tuning: SchedulerTuning, faults: Faults) -> Result<Self> {
        let time = Rc::new(Cell::new(super::START_NS));
        let mut random = SeededRandom::new(seed);
        let (peers, commons, memberships): Sides =
            shared_sides(workers, tuning, || Ok(WorkerBell::Simulated(AtomicBool::new(false))))?;
        let mut world =
            Self { workers: Vec::new(), time: time.clone(), random: SeededRandom::new(0), faults };
        for (index, membership) in memberships.into_iter().enumerate() {
            let events = Rc::new(PollerEvents::default());
            let poller =
                SimulatedPoller { events: events.clone(), random: SeededRandom::new(random.next()), faults };
            let parts = WorkerParts {
                index,
                peers: peers.clone(),
                commons: commons.clone(),
                membership,
                tuning,
                poller: Box::new(poller),
                network: None,
                clock: Box::new(WorldClock { time: time.clone() }),
                seed: random.next(),
            };
            let worker = NonNull::from(Box::leak(Worker::build(parts)?));
            let shared = peers[index].clone();
            world.workers.push(SimulatedWorker { worker, shared, events, waits: Cell::new(None) });
        }
        world.random = random;
        Ok(world)
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// A seeded random number below `bound`, which is at least 1.
    pub fn random(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Runs `act` as a worker, between its tasks. A worker that waits in its poller returns first.
    ///
    /// # Panics
    /// Without such a worker.
    pub fn on<R>(&self, worker: usize, act: impl FnOnce() -> R) -> R {
        if self.workers[worker].waits.get().is_some() {
            self.workers[worker].step();
        }
        self.workers[worker].get().act(act)
    }

    /// Runs `look` as a worker, without ending its wait: it must not change anything.
    ///
    /// # Panics
    /// Without such a worker.
    pub fn look<R>(&self, worker: usize, look: impl FnOnce() -> R) -> R {
        self.workers[worker].get().act(look)
    }

    /// Makes a worker's poller report `readiness` on the descriptor that the worker registered as number `which`
    /// (modulo their count). False if the worker has not registered any.
    pub fn report(&self, worker: usize, which: usize, readiness: Readiness) -> bool {
        self.workers.get(worker).is_some_and(|simulated| simulated.events.report(which, readiness))
    }

    /// One step of one worker, or of the clock. False when nothing can ever happen again.
    pub fn step(&mut self) -> bool {
        if self.random.once_in(self.faults.slow) {
            let passed_ms = self.random.below(4);
            self.pass_time(passed_ms);
        }
        let ready: Vec<usize> =
            (0..self.workers.len()).filter(|&worker| self.is_ready(worker) || self.startles()).collect();
        if ready.is_empty() {
            return self.jump();
        }
        let chosen = ready[self.random.below(ready.len() as u64) as usize];
        self.workers[chosen].step();
        true
    }

    /// Steps until nothing can happen any more; false when that takes more than `most` steps.
    pub fn settle(&mut self, most: usize) -> bool {
        (0..most).any(|_| !self.step())
    }

    /// Whether a worker can take a step: it is awake, rung, has events, or its timeout expired.
    fn is_ready(&self, worker: usize) -> bool {
        let simulated = &self.workers[worker];
        match simulated.waits.get() {
            None => true,
            Some((timeout, since)) => {
                simulated.is_rung()
                    || simulated.events.are_there()
                    || timeout.is_some_and(|timeout| self.time.get() >= since + timeout * NS_PER_MS)
            }
        }
    }

    fn startles(&mut self) -> bool {
        self.random.once_in(self.faults.spurious.saturating_mul(self.workers.len() as u32))
    }

    fn pass_time(&self, milliseconds: u64) {
        self.time.set(self.time.get() + milliseconds * NS_PER_MS);
    }

    /// Moves the clock to the first timeout while all workers wait. False if none of them has a timeout.
    fn jump(&self) -> bool {
        let ends = self.workers.iter().filter_map(|simulated| {
            let (timeout, since) = simulated.waits.get()?;
            timeout.map(|timeout| since + timeout * NS_PER_MS)
        });
        match ends.min() {
            Some(end) => {
                self.time.set(self.time.get().max(end));
                true
            }
            None => false,
        }
    }
}

impl Drop for SimulatedWorld {
    fn drop(&mut self) {
        for simulated in &self.workers {
            let worker = simulated.get();
            worker.act(|| worker.uninstall());
        }
        for simulated in self.workers.drain(..) {
            // SAFETY: the pointer came from a box that was leaked for this world alone. `uninstall` took the worker off
            // this thread; this crate lends references into a worker only for the time of one call.
            drop(unsafe { Box::from_raw(simulated.worker.as_ptr()) });
        }
    }
}

impl std::fmt::Debug for SimulatedWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({} workers)", self.workers.len())
    }
}

impl SimulatedWorker {
    fn get(&self) -> &'static Worker {
        // SAFETY: the worker lives until the world is dropped, and the world hands out no reference to it.
        unsafe { self.worker.as_ref() }
    }

    fn is_rung(&self) -> bool {
        matches!(&self.shared.bell, WorkerBell::Simulated(rung) if rung.load(Relaxed))
    }

    fn step(&self) {
        let worker = self.get();
        match self.waits.take() {
            None => {
                let timeout = worker.act(|| worker.work());
                let since = worker.act(crate::precise_ns);
                self.waits.set(Some((timeout, since)));
            }
            Some((timeout, _)) => {
                if let WorkerBell::Simulated(rung) = &self.shared.bell {
                    rung.store(false, Relaxed);
                }
                worker.act(|| worker.poll(timeout));
            }
        }
    }
}

/// The state of one poller: watched descriptors and events to report.
#[derive(Default)]
struct PollerEvents {
    watched: RefCell<Vec<(i32, u64)>>,
    pending: RefCell<VecDeque<(u64, Readiness)>>,
}

impl PollerEvents {
    fn report(&self, which: usize, readiness: Readiness) -> bool {
        let watched = self.watched.borrow();
        let Some((_, token)) = watched.get(which % watched.len().max(1)) else { return false };
        self.pending.borrow_mut().push_back((*token, readiness));
        true
    }

    fn are_there(&self) -> bool {
        !self.pending.borrow().is_empty()
    }
}

struct SimulatedPoller {
    events: Rc<PollerEvents>,
    random: SeededRandom,
    faults: Faults,
}

impl Poller for SimulatedPoller {
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        // A closed descriptor is forgotten when its slot in the worker's table is reused: forgetting it now would make
        // the run depend on descriptor numbers, and so on other threads of the process. Until then it may be reported,
        // and that must be harmless.
        let mut watched = self.events.watched.borrow_mut();
        watched.retain(|(_, known)| *known as u32 != token as u32);
        watched.push((descriptor.as_raw_fd(), token));
        Ok(())
    }

    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.watch(descriptor, token)
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()> {
        self.events.watched.borrow_mut().retain(|(number, _)| *number != descriptor.as_raw_fd());
        Ok(())
    }

    fn wait(&mut self, _: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
        if self.random.once_in(self.faults.failing) {
            return Err(Errno::INTR);
        }
        let mut events: Vec<_> = self.events.pending.borrow_mut().drain(..).collect();
        let mut count = 0;
        // The kernel promises no order.
        while !events.is_empty() {
            let (token, readiness) = events.swap_remove(self.random.below(events.len() as u64) as usize);
            if self.random.once_in(self.faults.late) {
                self.events.pending.borrow_mut().push_back((token, readiness));
                continue;
            }
            report(token, readiness);
            count += 1;
            if self.random.once_in(self.faults.twice) {
                report(token, readiness);
                count += 1;
            }
        }
        Ok(count)
    }
}

struct WorldClock {
    time: Rc<Cell<u64>>,
}

impl Clock for WorldClock {
    fn monotonic_ns(&self) -> u64 {
        self.time.get()
    }

    fn wall_ns(&self) -> u64 {
        self.time.get() + super::WALL_OFFSET_NS
    }
}

const NS_PER_MS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Cause, ProfileMode, ProfileSettings};
    use crate::task::WorkKind;
    use crate::{Class, TaskKey, Tick, kill, profile, set_profiling, spawn, wait, wake};

    static KIND: WorkKind = WorkKind::new("world");

    fn world(workers: usize) -> SimulatedWorld {
        SimulatedWorld::new(1, workers, SchedulerTuning::default(), Faults::default()).expect("a world")
    }

    /// A task of that worker that waits for ever, again and again.
    fn waiter(world: &SimulatedWorld, worker: usize) -> TaskKey {
        world.on(worker, || {
            spawn(&KIND, Class::Normal, async {
                loop {
                    wait(Tick::NEVER).await;
                }
            })
        })
    }

    /// R3, R14, R85: a worker's changes to its own tasks ring no bell, wake no other worker and write nothing that
    /// others read except the counts of spawned tasks; only work for another worker rings, and only that worker.
    #[test]
    fn a_local_wake_neither_wakes_nor_writes_to_other_workers() {
        let mut world = world(3);
        let (own, mortal, other) = (waiter(&world, 0), waiter(&world, 0), waiter(&world, 1));
        assert!(world.settle(100), "all of them sleep");
        let rung = |world: &SimulatedWorld| -> Vec<bool> {
            world.workers.iter().map(SimulatedWorker::is_rung).collect()
        };
        let asleep = |world: &SimulatedWorld| {
            world.workers.iter().all(|worker| worker.shared.wake_side.doorbell.is_asleep())
        };
        let counters = |world: &SimulatedWorld| format!("{:?}", world.workers[0].shared.activity);
        let before = counters(&world);
        world.look(0, || {
            for _ in 0..100 {
                wake(own);
            }
            kill(mortal);
        });
        assert_eq!((rung(&world), asleep(&world)), (vec![false; 3], true));
        assert_eq!(counters(&world), before);
        world.look(0, || spawn(&KIND, Class::Urgent, async {}));
        assert_eq!((rung(&world), asleep(&world)), (vec![false; 3], true));
        world.look(0, || wake(other));
        assert_eq!((rung(&world), asleep(&world)), (vec![false, true, false], false));
    }

    /// R15: the task's class chooses its queue, not the cause of its wake.
    #[test]
    fn a_woken_task_is_queued_by_its_class_for_any_cause() {
        for class in [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy] {
            for cause in [Cause::Wake, Cause::Event, Cause::Deadline] {
                let mut world = world(1);
                let key = world.on(0, || {
                    spawn(&KIND, class, async {
                        wait(Tick::NEVER).await;
                    })
                });
                assert!(world.settle(100));
                let queued = world.look(0, || {
                    Worker::current().wake(key, cause);
                    crate::queues().queued
                });
                let mut expected = [0; 4];
                expected[class as usize] = 1;
                assert_eq!(queued, expected, "{class:?}, {cause:?}");
            }
        }
    }

    /// A world with workers that measure, and a task made by `make`, which sleeps.
    fn measured(make: impl FnOnce(&SimulatedWorld) -> TaskKey) -> (SimulatedWorld, TaskKey) {
        let mut world = world(2);
        let key = make(&world);
        let settings = ProfileSettings { mode: ProfileMode::On, ..ProfileSettings::default() };
        world.on(1, || set_profiling(settings));
        assert!(world.settle(100));
        // A worker adopts the settings at the end of a loop.
        world.on(1, || wake(key));
        assert!(world.settle(100));
        (world, key)
    }

    /// How many runs were woken in that line, and how long they waited together.
    fn latency(world: &SimulatedWorld, woken_at: u32) -> (u64, u64) {
        let report = world.look(1, profile);
        let from_there = |line: &&crate::ProfileLine| {
            line.origin.is_some_and(|origin| origin.cause == Cause::Wake && origin.place.line() == woken_at)
        };
        let line = report.lines.iter().find(from_there).expect("it ran, and was measured");
        (line.latencies, line.latency_ns)
    }

    /// R66, R81: a wake from another worker is dated when it is sent, however late it is taken.
    #[test]
    fn the_latency_of_a_remote_wake_counts_from_the_first_wake() {
        let (mut world, sleeper) = measured(|world| waiter(world, 1));
        let sent_at = world.look(0, || {
            // The recorded location is the caller's; no closure on the way may hide it.
            wake(sleeper);
            line!() - 1
        });
        world.pass_time(5);
        // It is listed already: this wake does not make it younger.
        world.look(0, || wake(sleeper));
        world.pass_time(2);
        assert!(world.settle(100));
        assert_eq!(latency(&world, sent_at), (1, 7 * NS_PER_MS));
    }

    /// R66, R81: a second wake of a queued task leaves the date, the cause and the place of the first.
    #[test]
    fn the_latency_of_a_local_wake_counts_from_the_first_wake() {
        let (mut world, sleeper) = measured(|world| waiter(world, 1));
        let sent_at = world.on(1, || {
            wake(sleeper);
            line!() - 1
        });
        world.pass_time(5);
        world.look(1, || wake(sleeper));
        world.pass_time(2);
        assert!(world.settle(100));
        assert_eq!(latency(&world, sent_at), (1, 7 * NS_PER_MS));
    }

    /// R78, R81: a task that was queued before the measuring began is counted without a latency, also if it is woken once more.
    #[test]
    fn a_wake_of_an_already_queued_task_gives_it_no_latency() {
        let tuning = SchedulerTuning { runqueue_depth: 1, ..SchedulerTuning::default() };
        let mut world = SimulatedWorld::new(1, 1, tuning, Faults::default()).expect("a world");
        let keys = [waiter(&world, 0), waiter(&world, 0)];
        assert!(world.settle(100));
        world.on(0, || {
            set_profiling(ProfileSettings { mode: ProfileMode::On, ..ProfileSettings::default() });
            keys.into_iter().for_each(wake);
        });
        // A scheduling round, in which one of them runs, and the end of the loop, when the worker begins to measure.
        assert!(world.step() && world.step());
        world.pass_time(5);
        let (queued, is_on) = world.look(0, || (crate::queues().queued, crate::queues().profiled));
        assert_eq!((queued, is_on), ([0, 1, 0, 0], true));
        world.look(0, || keys.into_iter().for_each(wake));
        world.pass_time(2);
        assert!(world.settle(100));
        let report = world.look(0, profile);
        let counts = report.lines.iter().map(|line| (line.calls, line.latencies, line.latency_ns));
        let mut counts: Vec<_> = counts.collect();
        counts.sort_unstable();
        assert_eq!(counts, [(1, 0, 0), (1, 1, 2 * NS_PER_MS)]);
    }

    /// R75: shared work is measured from its wake, too.
    #[test]
    fn the_latency_of_shared_work_counts_from_its_wake() {
        let (mut world, shared) = measured(|world| {
            world.on(1, || {
                crate::spawn_shared(&KIND, &weir_sync::ThreadMask::one(1), async {
                    loop {
                        wait(Tick::NEVER).await;
                    }
                })
            })
        });
        let sent_at = world.look(0, || {
            wake(shared);
            line!() - 1
        });
        world.pass_time(7);
        assert!(world.settle(100));
        assert_eq!(latency(&world, sent_at), (1, 7 * NS_PER_MS));
    }

    /// R84, R86: shared fields begin on cache lines of their own, wherever the allocator puts the worker.
    #[test]
    fn workers_and_their_shared_fields_are_cache_line_aligned() {
        let world = world(3);
        let apart = align_of::<weir_sync::CachePadded<u8>>();
        for simulated in &world.workers {
            assert_eq!(simulated.worker.as_ptr() as usize % 128, 0);
            assert_eq!(Arc::as_ptr(&simulated.shared) as usize % apart, 0);
        }
    }
}
