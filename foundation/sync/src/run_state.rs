//! The state of a task that several threads may run, in one atomic word that determines the next step of each thread.
//!
//! ```text
//!             wake, kill: QUEUED            begin: RUNNING                 finish, end
//!   waiting ────────────────────► queued ─────────────────► running ──┬──────────────► ended
//!      ▲                            ▲                          │      │ killed
//!      │                            └── woken while it ran ────┤      └─ or done
//!      └──────────────────────────────── nothing happened ─────┘
//! ```
//! Every change is one read-modify-write. Only the thread that sets QUEUED on a waiting task puts it into a queue, so a
//! runnable task is in exactly one queue (R62, R63). A wake of a queued or running task still releases the waker's
//! writes to the next run. The generation invalidates stale keys.

use crate::primitives::{AtomicU64, Ordering};

/// The state of one task slot, with the generation of the task in it.
#[derive(Debug)]
pub struct RunState(AtomicU64);

/// The next step of the thread that dequeued a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Runs it, then calls [`RunState::finish`].
    Run {
        /// Woken by an event other than its deadline.
        event: bool,
        /// The flag that the task's last run stored.
        flag: bool,
    },
    /// Ends the task without running it.
    End,
}

/// The next step of the thread that ran a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Wait,
    /// Queues the task, which was woken while it ran.
    Queue,
    /// Ends the task, which was killed while it ran.
    End,
}

impl Default for RunState {
    fn default() -> Self {
        Self(AtomicU64::new(1 << 32))
    }
}

impl RunState {
    /// Takes a free slot for a task that the caller is about to queue. Returns its generation, never 0.
    pub fn occupy(&self) -> u32 {
        let before = self.0.fetch_or(OCCUPIED | QUEUED | EVENT, Ordering::Relaxed);
        debug_assert_eq!(before & STATE, 0, "only a free place is taken");
        generation(before)
    }

    /// Wakes the task of `generation`. `event` is false for its deadline. If true is returned, the caller queues the task.
    #[must_use = "when it is true the caller has to queue the task"]
    pub fn wake(&self, generation: u32, event: bool) -> bool {
        self.call(generation, if event { EVENT } else { 0 })
    }

    /// Kills the task of `generation`. If true is returned, the caller queues the task. Otherwise the task ends when it is dequeued
    /// or when its current run is over (R67, R68, R70).
    #[must_use = "when it is true the caller has to queue the task"]
    pub fn kill(&self, generation: u32) -> bool {
        self.call(generation, KILLED)
    }

    fn call(&self, wanted: u32, reason: u64) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            if generation(state) != wanted || state & OCCUPIED == 0 {
                return false;
            }
            let (bits, queues) = match state & (QUEUED | RUNNING) {
                0 => (QUEUED, true),
                RUNNING => (WOKEN, false),
                _ => (0, false),
            };
            // Store even an unchanged value, so that the next run sees the earlier writes of this thread.
            let new = state | bits | reason;
            match self.0.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return queues,
                Err(newer) => state = newer,
            }
        }
    }

    /// The caller dequeued the task.
    pub fn begin(&self) -> Begin {
        // A queued task stays queued until here, so no other thread changes these two bits.
        let before = self.0.fetch_xor(QUEUED | RUNNING, Ordering::AcqRel);
        debug_assert_eq!(before & (QUEUED | RUNNING), QUEUED, "only what is queued is begun");
        if before & KILLED != 0 {
            return Begin::End;
        }
        let before = self.0.fetch_and(!EVENT, Ordering::AcqRel);
        Begin::Run { event: before & EVENT != 0, flag: before & FLAG != 0 }
    }

    /// The run is over, and the task will continue later. `woken` means that it woke itself. `flag` is stored for its next run (R19).
    #[must_use]
    pub fn finish(&self, woken: bool, flag: bool) -> Finish {
        let mut state = self.0.load(Ordering::Relaxed);
        loop {
            debug_assert_eq!(state & (QUEUED | RUNNING), RUNNING, "only what runs is finished");
            if state & KILLED != 0 {
                return Finish::End;
            }
            let again = woken || state & WOKEN != 0;
            let next = state & !(RUNNING | WOKEN | FLAG)
                | if again { QUEUED } else { 0 }
                | if flag { FLAG } else { 0 };
            match self.0.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if again => return Finish::Queue,
                Ok(_) => return Finish::Wait,
                Err(newer) => state = newer,
            }
        }
    }

    /// The task ended after a run or a kill by the caller. Frees the slot and invalidates the key.
    pub fn end(&self) {
        let before = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(before & (OCCUPIED | RUNNING), OCCUPIED | RUNNING, "only who runs it ends it");
        let next = generation(before).wrapping_add(1).max(1);
        // A concurrent wake or kill applies to the ended task and is discarded.
        self.0.swap(u64::from(next) << 32, Ordering::AcqRel);
    }

    /// The generation of the task in the slot. `None` if the slot is free.
    pub fn occupant(&self) -> Option<u32> {
        let state = self.0.load(Ordering::Acquire);
        (state & OCCUPIED != 0).then(|| generation(state))
    }
}

fn generation(state: u64) -> u32 {
    (state >> 32) as u32
}

const OCCUPIED: u64 = 1;
const QUEUED: u64 = 1 << 1;
const RUNNING: u64 = 1 << 2;
const WOKEN: u64 = 1 << 3;
const KILLED: u64 = 1 << 4;
const EVENT: u64 = 1 << 5;
/// The application's own flag (R19).
const FLAG: u64 = 1 << 31;
/// All of the above (R17: 32 bits wide).
const STATE: u64 = u32::MAX as u64;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waiting() -> (RunState, u32) {
        let state = RunState::default();
        let generation = state.occupy();
        assert_eq!(state.begin(), Begin::Run { event: true, flag: false });
        assert_eq!(state.finish(false, false), Finish::Wait);
        (state, generation)
    }

    /// R63: only the first wake of a waiting task queues it.
    #[test]
    fn only_the_first_wake_queues_a_waiting_task() {
        let (state, generation) = waiting();
        assert!(state.wake(generation, false) && !state.wake(generation, false));
        assert_eq!(state.begin(), Begin::Run { event: false, flag: false });
        assert!(!state.wake(generation, true), "it runs");
        assert_eq!(state.finish(false, true), Finish::Queue);
        assert_eq!(state.begin(), Begin::Run { event: true, flag: true });
        assert_eq!(state.finish(true, true), Finish::Queue);
    }

    /// Waking an empty slot does nothing, even with the generation of its next task.
    #[test]
    fn waking_an_empty_task_slot_does_nothing() {
        let state = RunState::default();
        let (first, next) = (state.occupy(), generation(RunState::default().0.load(Ordering::Relaxed)));
        assert_eq!(state.begin(), Begin::Run { event: true, flag: false });
        state.end();
        for empty in [state, RunState::default()] {
            let coming = generation(empty.0.load(Ordering::Relaxed));
            for generation in [first, next, coming] {
                assert!(!empty.wake(generation, true) && !empty.kill(generation), "{generation}");
            }
        }
    }

    /// R67, R68, R70: waiting, queued (even if it never ran) and running.
    #[test]
    fn a_kill_reaches_a_task_in_every_state() {
        let (state, generation) = waiting();
        assert!(state.kill(generation), "somebody has to find it");
        assert_eq!(state.begin(), Begin::End);
        state.end();
        assert!(!state.kill(generation) && !state.wake(generation, true), "the name is stale");
        let generation = state.occupy();
        assert!(!state.kill(generation), "it never ran, and is queued");
        assert_eq!(state.begin(), Begin::End);
        state.end();
        let generation = state.occupy();
        assert_eq!(state.begin(), Begin::Run { event: true, flag: false });
        assert!(!state.kill(generation));
        assert_eq!(state.finish(true, false), Finish::End);
        state.end();
        assert_eq!(state.occupant(), None);
    }

    /// R19: the next run receives the flag stored by the previous one, and a wake causes one run.
    #[test]
    fn a_run_passes_only_its_flag_to_the_next_run() {
        let (state, generation) = waiting();
        for (flag, woken, expected) in [
            (true, false, Finish::Wait),
            (false, true, Finish::Queue),
            (false, false, Finish::Wait),
            (true, true, Finish::Queue),
        ] {
            if state.0.load(Ordering::Relaxed) & QUEUED == 0 {
                assert!(state.wake(generation, true));
            }
            assert!(matches!(state.begin(), Begin::Run { .. }));
            if woken {
                assert!(!state.wake(generation, false));
            }
            assert_eq!(state.finish(false, flag), expected);
            let left = if flag { FLAG } else { 0 } | if woken { QUEUED } else { 0 };
            assert_eq!(state.0.load(Ordering::Relaxed) & STATE, OCCUPIED | left);
        }
    }

    /// Each task of a slot has a generation of its own, never zero, also after a wrap.
    #[test]
    fn each_task_of_a_slot_has_a_distinct_nonzero_generation() {
        let state = RunState(AtomicU64::new(u64::from(u32::MAX - 1) << 32));
        let mut names = Vec::new();
        for _ in 0..4 {
            assert_eq!(state.occupant(), None);
            let name = state.occupy();
            assert_eq!(state.occupant(), Some(name));
            assert!(names.iter().all(|stale| !state.wake(*stale, true) && !state.kill(*stale)));
            assert!(matches!(state.begin(), Begin::Run { .. }));
            state.end();
            names.push(name);
        }
        assert_eq!(names, [u32::MAX - 1, u32::MAX, 1, 2]);
    }

    /// R60: debug builds notice a broken protocol.
    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "only what is queued is begun"))]
    fn begin_panics_for_a_task_that_is_not_queued() {
        let (state, _) = waiting();
        state.begin();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::primitives::{AtomicBool, AtomicU32};
    use crate::{Doorbell, SharedQueue, ThreadMask};
    use loom::cell::UnsafeCell as Watched;
    use loom::sync::Arc;

    /// Two workers and one task.
    struct TwoWorkers {
        state: RunState,
        queue: SharedQueue,
        /// The task's memory: loom reports two runs at once.
        memory: Watched<u32>,
        news: AtomicU32,
        seen: AtomicU32,
        ended: AtomicU32,
        asleep: Doorbell,
    }
    // SAFETY: for the model only; loom finds every access that races.
    unsafe impl Sync for TwoWorkers {}

    impl TwoWorkers {
        /// A task that ran once and waits.
        fn new() -> Arc<Self> {
            let world = Self {
                state: RunState::default(),
                queue: SharedQueue::new(),
                memory: Watched::new(0),
                news: AtomicU32::new(0),
                seen: AtomicU32::new(0),
                ended: AtomicU32::new(0),
                asleep: Doorbell::new(),
            };
            world.state.occupy();
            world.state.begin();
            assert_eq!(world.state.finish(false, false), Finish::Wait);
            Arc::new(world)
        }

        fn queue(&self) {
            self.queue.push(&ThreadMask::all(2), 0, 0);
        }

        /// One round of a worker.
        fn work(&self, worker: usize) {
            self.queue.pick(worker, 4, |_| match self.state.begin() {
                Begin::Run { .. } => {
                    // SAFETY: loom checks that only one thread runs it.
                    self.memory.with_mut(|memory| unsafe { *memory += 1 });
                    self.seen.store(self.news.load(Ordering::Relaxed), Ordering::Relaxed);
                    match self.state.finish(false, false) {
                        Finish::Wait => {}
                        Finish::Queue => self.queue(),
                        Finish::End => self.end(),
                    }
                }
                Begin::End => self.end(),
            });
        }

        fn end(&self) {
            // SAFETY: as above.
            self.memory.with_mut(|memory| unsafe { *memory = 0 });
            self.ended.fetch_add(1, Ordering::Relaxed);
            self.state.end();
        }
    }

    /// R62, R63: a wake during a run causes another run, which sees the waker's writes. Two runs are never concurrent.
    #[test]
    fn a_wake_during_a_run_of_a_shared_task_causes_another_run() {
        loom::model(|| {
            let world = TwoWorkers::new();
            let waker = {
                let world = world.clone();
                loom::thread::spawn(move || {
                    world.news.store(1, Ordering::Relaxed);
                    if world.state.wake(1, true) {
                        world.queue();
                    }
                    world.work(1);
                })
            };
            if world.state.wake(1, false) {
                world.queue();
            }
            world.work(0);
            waker.join().expect("the waker ends");
            world.work(0);
            world.work(0);
            assert_eq!(world.seen.load(Ordering::Relaxed), 1);
            assert!(!world.queue.has_for(0) && world.queue.len() == 0);
        });
    }

    /// R67 to R70: a kill concurrent with a wake, and possibly a run, ends the task once.
    #[test]
    fn a_killed_shared_task_ends_once() {
        loom::model(|| {
            let world = TwoWorkers::new();
            let killer = {
                let world = world.clone();
                loom::thread::spawn(move || {
                    if world.state.kill(1) {
                        world.queue();
                    }
                    world.work(1);
                })
            };
            if world.state.wake(1, true) {
                world.queue();
            }
            world.work(0);
            killer.join().expect("the killer ends");
            world.work(0);
            world.work(0);
            assert_eq!(world.ended.load(Ordering::Relaxed), 1);
            assert_eq!((world.state.occupant(), world.queue.len()), (None, 0));
        });
    }

    /// R14: shared work is never left to a sleeping worker without a wake-up.
    #[test]
    fn a_sleeping_worker_is_woken_for_shared_work() {
        loom::model(|| {
            let world = TwoWorkers::new();
            let rung = Arc::new(AtomicBool::new(false));
            let waker = {
                let (world, rung) = (world.clone(), rung.clone());
                loom::thread::spawn(move || {
                    if world.state.wake(1, true) {
                        world.queue();
                    }
                    rung.store(world.asleep.must_ring(), Ordering::Relaxed);
                })
            };
            world.asleep.mark_asleep();
            let seen = world.queue.has_for(0);
            waker.join().expect("the waker ends");
            assert!(seen || rung.load(Ordering::Relaxed));
        });
    }
}
