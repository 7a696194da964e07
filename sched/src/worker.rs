//! One worker: a thread's tasks, queues, timers and descriptors, and the loop that moves them.
//!
//! A thread-local pointer refers to the worker of the current thread. The worker is leaked, once per thread, so that
//! the pointer can be copied freely. Mutable fields are `Cell`s or briefly borrowed `RefCell`s: nothing here is atomic.
//! The fields that other threads may touch are in [`crate::shared`].
//!
//! This file has the worker and its event loop. `current` has the public functions, `tasks` the life of a task, `turn`
//! one scheduling round, `run` one run of a task.

mod current;
mod run;
mod tasks;
mod turn;

pub use current::*;
pub(crate) use tasks::dispose;

use crate::commons::{Commons, Membership};
use crate::descriptor::DescriptorTable;
use crate::driver::{Clock, Network, Poller, WorkerBell};
use crate::key::TaskKey;
use crate::policy::SchedulerTuning;
use crate::profile::{Cause, Profiler};
use crate::queues::RunQueues;
use crate::shared::SharedSide;
use crate::task::{NO_SLOT, OCCUPIED, Task};
use crate::tick::Tick;
use crate::trace;
use current::wake_elsewhere;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use weir_containers::{Arena, TimerQueue};
use weir_sync::atomic::Ordering::Relaxed;
use weir_sys::Result;

/// The scheduler of one thread, on cache lines of its own. No other thread reads or writes any of it: the fields they
/// may touch are in [`SharedSide`] and in [`Commons`], on other cache lines (R84).
#[repr(C, align(128))]
pub(crate) struct Worker {
    // Fields that every wake, run and wait touches.
    queues: RunQueues,
    now: Cell<Tick>,
    now_ns: Cell<u64>,
    running_key: Cell<TaskKey>,
    /// The running task. Saves two look-ups for each wait.
    running_task: Cell<Option<NonNull<Task>>>,
    running_slot: Cell<u32>,
    free: Cell<u32>,
    running_event: Cell<bool>,
    /// Whether the heavy run of this scheduling round was granted.
    heavy_spent: Cell<bool>,
    id: u16,
    tuning: SchedulerTuning,
    pub(crate) shared: Arc<SharedSide>,
    commons: Arc<Commons>,
    // Fields that only some of those operations touch.
    tasks: Arena<Task>,
    timers: RefCell<TimerQueue>,
    profiler: Profiler,
    pub(crate) descriptors: DescriptorTable,
    /// The simulated network, if the kernel is not used.
    pub(crate) network: Option<Rc<dyn Network>>,
    poller: RefCell<Box<dyn Poller>>,
    clock: Box<dyn Clock>,
    wall_ns: Cell<u64>,
    random_state: Cell<u64>,
    index: usize,
    peers: Arc<[Arc<SharedSide>]>,
    membership: Cell<Option<Membership>>,
}

// R84, R86: the fields that every wake, run and wait touches fill the first 256 bytes, and no others lie there: whole cache lines
// whatever the allocator does.
const _: () = {
    use std::mem::offset_of;
    assert!(align_of::<Worker>() == 128 && size_of::<Worker>().is_multiple_of(128));
    let hot = [
        offset_of!(Worker, queues) + size_of::<RunQueues>(),
        offset_of!(Worker, now),
        offset_of!(Worker, now_ns),
        offset_of!(Worker, running_key),
        offset_of!(Worker, running_task),
        offset_of!(Worker, running_slot),
        offset_of!(Worker, free),
        offset_of!(Worker, running_event),
        offset_of!(Worker, heavy_spent),
        offset_of!(Worker, id),
        offset_of!(Worker, tuning),
        offset_of!(Worker, shared),
        offset_of!(Worker, commons),
    ];
    let first_cold = offset_of!(Worker, tasks);
    let cold = [
        offset_of!(Worker, timers),
        offset_of!(Worker, profiler),
        offset_of!(Worker, descriptors),
        offset_of!(Worker, network),
        offset_of!(Worker, poller),
        offset_of!(Worker, clock),
        offset_of!(Worker, wall_ns),
        offset_of!(Worker, random_state),
        offset_of!(Worker, index),
        offset_of!(Worker, peers),
        offset_of!(Worker, membership),
    ];
    let mut at = 0;
    while at < hot.len() {
        assert!(hot[at] < first_cold && first_cold <= 256);
        at += 1;
    }
    at = 0;
    while at < cold.len() {
        assert!(cold[at] > first_cold);
        at += 1;
    }
};

/// The parts of a new worker.
pub(crate) struct WorkerParts {
    pub(crate) index: usize,
    pub(crate) peers: Arc<[Arc<SharedSide>]>,
    pub(crate) commons: Arc<Commons>,
    pub(crate) membership: Membership,
    pub(crate) tuning: SchedulerTuning,
    pub(crate) poller: Box<dyn Poller>,
    pub(crate) network: Option<Rc<dyn Network>>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) seed: u64,
}

impl Worker {
    /// Makes the current thread a worker.
    ///
    /// # Panics
    /// When it is one already.
    pub(crate) fn install(parts: WorkerParts) -> Result<&'static Self> {
        assert!(WORKER.get().is_none(), "a thread is one worker");
        let worker: &'static Self = Box::leak(Self::build(parts)?);
        WORKER.set(Some(worker));
        Ok(worker)
    }

    /// Builds a worker without installing it on a thread.
    pub(crate) fn build(mut parts: WorkerParts) -> Result<Box<Self>> {
        let shared = parts.peers[parts.index].clone();
        if let WorkerBell::Kernel(wakener) = &shared.bell {
            // Each write is an edge of its own, so the counter is never read back.
            parts.poller.watch(std::os::fd::AsFd::as_fd(wakener), WAKENER_TOKEN)?;
        }
        let worker = Box::new(Self {
            id: shared.id,
            index: parts.index,
            tuning: parts.tuning,
            now: Cell::new(Tick::from_ms(0)),
            now_ns: Cell::new(0),
            running_key: Cell::new(TaskKey::NONE),
            running_task: Cell::new(None),
            running_slot: Cell::new(NO_SLOT),
            running_event: Cell::new(false),
            heavy_spent: Cell::new(false),
            free: Cell::new(NO_SLOT),
            queues: RunQueues::new(),
            tasks: Arena::new(),
            timers: RefCell::new(TimerQueue::new()),
            descriptors: DescriptorTable::new(),
            network: parts.network,
            poller: RefCell::new(parts.poller),
            clock: parts.clock,
            wall_ns: Cell::new(0),
            random_state: Cell::new(parts.seed),
            profiler: Profiler::new(),
            shared,
            peers: parts.peers,
            commons: parts.commons,
            membership: Cell::new(Some(parts.membership)),
        });
        let stand_in = worker.tasks.push_default();
        debug_assert_eq!(stand_in, Some(STAND_IN));
        worker.refresh_clock();
        Ok(worker)
    }

    /// Runs `act` as this worker, on a thread that simulates several workers.
    pub(crate) fn act<R>(&'static self, act: impl FnOnce() -> R) -> R {
        struct RestoreWorker(Option<&'static Worker>);
        impl Drop for RestoreWorker {
            fn drop(&mut self) {
                WORKER.set(self.0);
            }
        }
        let _restore = RestoreWorker(WORKER.replace(Some(self)));
        act()
    }

    /// The worker of this thread.
    ///
    /// # Panics
    /// When the thread is not a worker.
    #[inline]
    pub(crate) fn current() -> &'static Self {
        Self::try_current().expect("the scheduler is used on its workers only")
    }

    #[inline]
    pub(crate) fn try_current() -> Option<&'static Self> {
        WORKER.get()
    }

    /// Drops all tasks and makes the thread an ordinary one.
    pub(crate) fn uninstall(&self) {
        // A destructor may spawn tasks: the next round drops them.
        for _ in 0..SHUTDOWN_ROUNDS {
            if task_count() == 0 {
                break;
            }
            self.end_all();
        }
        // Messages that arrived too late are dropped here, while their destructors still find a worker.
        self.shared.inbox.drain(|message| dispose(Some(message)));
        self.descriptors.close_kept();
        drop(self.membership.take());
        self.shared.retire();
        WORKER.set(None);
    }

    fn end_all(&self) {
        for slot in 0..self.tasks.len() {
            if let Some(task) = self.tasks.get(slot).filter(|task| task.state.get() & OCCUPIED != 0) {
                self.end(slot, task, task.future.take());
            }
        }
    }

    /// Runs the event loop until the worker is stopped.
    pub(crate) fn run(&self) {
        self.shared.current.introduce();
        // Settings given at startup take effect from the first loop on.
        self.profiler.end_loop(&self.shared.profile, self.tasks.len(), 0);
        while !self.shared.stop.load(Relaxed) {
            self.pass();
        }
    }

    /// One pass of the loop.
    #[inline]
    pub(crate) fn pass(&self) {
        let timeout = self.work();
        if trace::SCHEDULER.is_active() {
            trace::turned(worker_index(), self.wall_ns(), timeout);
        }
        self.poll(timeout);
    }

    /// Runs the runnable tasks. Returns the poll timeout in milliseconds, `None` without a limit. On return, other
    /// threads see whether the worker sleeps.
    #[inline]
    pub(crate) fn work(&self) -> Option<u64> {
        self.expire_timers();
        self.drain_inboxes();
        self.run_turn();
        self.prepare_to_wait()
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        self.now.get()
    }

    /// The worker of this runtime that `key` belongs to. Avoids the process-wide table, because the workers of a
    /// runtime nearly always have consecutive numbers.
    #[inline]
    fn peer(&self, key: TaskKey) -> Option<&SharedSide> {
        let place = key.worker().wrapping_sub(self.peers[0].id);
        self.peers.get(usize::from(place)).filter(|peer| peer.id == key.worker()).map(|peer| &**peer)
    }

    /// The task that runs now.
    ///
    /// # Panics
    /// Outside a task: only tasks wait.
    #[inline]
    pub(crate) fn running(&self) -> &Task {
        let task = self.running_task.get().expect("only tasks wait");
        // SAFETY: it was made from a reference to a slot of `tasks`. Slots never move and live as long as the worker,
        // which outlives the reference that is returned; all access to them is shared.
        unsafe { task.as_ref() }
    }

    /// Whether the running task was woken by something else than its deadline.
    #[inline]
    pub(crate) fn woken_by_event(&self) -> bool {
        self.running_event.get()
    }

    #[inline]
    fn prepare_to_wait(&self) -> Option<u64> {
        let mut timeout = self.timeout();
        if timeout != Some(0) {
            let shared = &self.shared;
            shared.wake_side.doorbell.mark_asleep();
            let stops = shared.stop.load(Relaxed);
            if !shared.wake_side.wakes.is_empty()
                || !shared.inbox.is_empty()
                || stops
                || self.commons.has_for(self.index)
            {
                timeout = Some(0);
            }
        }
        timeout
    }

    /// Waits for events and hands them to the descriptors' owners.
    pub(crate) fn poll(&self, timeout: Option<u64>) {
        if timeout == Some(0) {
            self.shared.activity.busy_polls.increment();
        }
        let began_ns = self.now_ns.get();
        let before = if timeout == Some(0) { began_ns } else { self.clock.monotonic_ns() };
        // Events are dated with the time at which the poller returned, so the clock is read before they are delivered.
        let mut is_fresh = false;
        let mut report = |token, readiness| {
            if !is_fresh && self.profiler.is_on() {
                is_fresh = true;
                self.refresh_clock();
            }
            if token == WAKENER_TOKEN {
                return;
            }
            if let Some(owner) = self.descriptors.note(token, readiness) {
                self.wake_owner(owner);
            }
        };
        // The poller fails only when its own descriptor is broken: then no events arrive, but timers still run.
        self.shared.current.wait();
        let events = self.poller.borrow_mut().wait(timeout, &mut report).unwrap_or(0);
        self.shared.current.resume();
        self.shared.wake_side.doorbell.mark_awake();
        if !is_fresh {
            self.refresh_clock();
        }
        if trace::POLLER.is_active() {
            trace::polled(worker_index(), self.wall_ns(), events);
        }
        let activity = &self.shared.activity;
        activity.events.add(events as u64);
        let waited_ns = self.now_ns.get().saturating_sub(before);
        let busy_ns = if timeout == Some(0) {
            waited_ns
        } else {
            activity.idle_ns.add(waited_ns);
            before.saturating_sub(began_ns)
        };
        let average_ns = self.profiler.end_loop(&self.shared.profile, self.tasks.len(), busy_ns);
        activity.loop_ns.set(average_ns);
        activity.loops.increment();
    }

    /// Wakes a descriptor's owner, which in rare cases is a task of another worker.
    #[inline]
    fn wake_owner(&self, owner: TaskKey) {
        if owner.worker() == self.id {
            self.wake(owner, Cause::Event);
        } else {
            wake_elsewhere(owner);
        }
    }

    /// The poll timeout in milliseconds: 0 while a task is runnable, `None` without a deadline.
    fn timeout(&self) -> Option<u64> {
        if !self.queues.is_empty() {
            return Some(0);
        }
        let own = self.timers.borrow().first().map(|(due, _)| due);
        let due = [own, self.commons.next_due()].into_iter().flatten().min()?;
        Some(due.saturating_sub(self.now.get().as_ms()).min(LONGEST_WAIT_MS))
    }

    fn refresh_clock(&self) {
        let now_ns = self.clock.monotonic_ns();
        self.now_ns.set(now_ns);
        self.now.set(Tick::from_ms(now_ns / NS_PER_MS));
        self.wall_ns.set(0);
    }

    fn wall_ns(&self) -> u64 {
        if self.wall_ns.get() == 0 {
            self.wall_ns.set(self.clock.wall_ns());
        }
        self.wall_ns.get()
    }

    /// SplitMix64: short, and good enough for balancing.
    fn random(&self) -> u64 {
        let state = self.random_state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random_state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn with_poller<R>(&self, work: impl FnOnce(&mut dyn Poller) -> R) -> R {
        work(&mut **self.poller.borrow_mut())
    }
}

/// The slot that stands in for a shared task while it runs here; no task of the worker has it.
const STAND_IN: u32 = 0;
/// How often destructors may spawn more tasks while the worker ends; tasks left after that are leaked.
const SHUTDOWN_ROUNDS: u32 = 8;
const NS_PER_MS: u64 = 1_000_000;
/// Limit of the poll timeout in milliseconds, so that a clock jump (a suspended machine) does no lasting harm.
const LONGEST_WAIT_MS: u64 = 60_000;
/// The token of the worker's own event counter; no descriptor has it.
const WAKENER_TOKEN: u64 = u64::MAX;

thread_local! {
    static WORKER: Cell<Option<&'static Worker>> = const { Cell::new(None) };
}
