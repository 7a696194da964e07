//! One worker: a thread's tasks, queues, timers and descriptors, and the loop that moves them.
//!
//! The worker of the current thread is found through a thread-local word; it is leaked, once a thread, so that
//! the word can be copied freely. Everything in it is a `Cell` or a briefly borrowed `RefCell`: nothing here is
//! atomic. What other threads may touch is in [`crate::shared`].

use crate::commons::{Commons, Membership, SharedFuture, commons_of};
use crate::descriptor::DescriptorTable;
use crate::driver::{Bell, Clock, Poller};
use crate::key::TaskKey;
use crate::policy::{CLASSES, Class, Load, Tuning, turn};
use crate::profile::{Cause, ProfileReport, ProfileSettings, Profiler, of_workers};
use crate::queues::Queues;
use crate::shared::{Activity, Message, NotDelivered, Shared, owner_of};
use crate::task::{EVENT, FLAG, KILLED, Kind, NO_SLOT, OCCUPIED, QUEUED, RUNNING, Task, WOKEN};
use crate::tick::Tick;
use crate::trace;
use crate::waker::waker;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Context;
use weir_containers::{Arena, PooledFuture, TimerQueue};
use weir_sync::{Begin, Finish, ThreadSet};
use weir_sys::Result;

/// Starts a task on the current worker; it runs in a later turn. Its memory comes from the thread's free lists.
/// With four million tasks alive it is dropped at once, and the key names nothing.
///
/// # Panics
/// Outside a worker.
#[track_caller]
pub fn spawn(kind: &'static Kind, class: Class, future: impl Future<Output = ()> + 'static) -> TaskKey {
    Worker::current().spawn(kind, class, PooledFuture::new(future))
}

/// Starts work that any of `workers` may run (all of them, if none of those exists): always as normal work, in order of
/// its `nice`, when one of them is free. With 65,536 such tasks alive it is dropped at once, and the key names nothing.
///
/// # Panics
/// Outside a worker; there, see [`crate::Handle::spawn_shared`].
pub fn spawn_shared(
    kind: &'static Kind,
    workers: &ThreadSet,
    future: impl Future<Output = ()> + Send + 'static,
) -> TaskKey {
    Worker::current().commons.spawn(kind, workers, Box::pin(future))
}

/// The task that runs now; [`TaskKey::NONE`] outside one.
#[inline]
pub fn current() -> TaskKey {
    WORKER.get().map_or(TaskKey::NONE, |worker| worker.running_key.get())
}

/// Wakes a task, from any thread. A task that ended or is about to run anyway is no mistake.
#[inline]
#[track_caller]
pub fn wake(key: TaskKey) {
    match WORKER.get() {
        Some(worker) if worker.id == key.worker() => worker.wake(key, Cause::Wake),
        _ => wake_elsewhere(key),
    }
}

#[cold]
#[track_caller]
fn wake_elsewhere(key: TaskKey) {
    if let Some(peer) = WORKER.get().and_then(|worker| worker.peer(key)) {
        peer.wake(key);
    } else if let Some(shared) = owner_of(key).as_deref().and_then(Option::as_ref) {
        shared.wake(key);
    } else if let Some(commons) = commons_of(key) {
        commons.wake(key);
    }
}

/// Ends a task without running it again, from any thread: at once, or after the run that it is in (R67, R68).
#[track_caller]
pub fn kill(key: TaskKey) {
    match WORKER.get() {
        Some(worker) if worker.id == key.worker() => worker.kill(key),
        _ => kill_elsewhere(key),
    }
}

#[cold]
#[track_caller]
fn kill_elsewhere(key: TaskKey) {
    if let Some(shared) = owner_of(key).as_deref().and_then(Option::as_ref) {
        shared.kill(key);
    } else if let Some(commons) = commons_of(key) {
        commons.kill(key);
    }
}

/// When a task of the current worker is woken though nothing happens; none when it waits for ever, or is no task of this
/// worker.
pub fn deadline(key: TaskKey) -> Option<Tick> {
    let worker = WORKER.get().filter(|worker| worker.id == key.worker())?;
    let task = worker.tasks.get(key.slot()).filter(|task| task.generation.get() == key.generation())?;
    Some(task.deadline.get()).filter(|deadline| !deadline.is_never())
}

/// Sets the current task's `nice`: -1024 runs earlier than others, 1024 later.
pub fn set_nice(nice: i16) {
    Worker::current().running().nice.set(nice.clamp(-1024, 1024));
}

/// Sets the class in which the current task is queued from now on. Shared work is always normal.
pub fn set_class(class: Class) {
    debug_assert!(Worker::current().running_slot.get() != STAND_IN, "shared work is always normal");
    Worker::current().running().class.set(class);
}

/// Sets or clears a flag that is the current task's own: the scheduler keeps it from run to run (R19).
pub fn set_flag(on: bool) {
    let task = Worker::current().running();
    let state = task.state.get();
    task.state.set(if on { state | FLAG } else { state & !FLAG });
}

/// The current task's own flag; not set when the task begins.
pub fn flag() -> bool {
    Worker::current().running().state.get() & FLAG != 0
}

/// The time, as of the last look at the poller; outside a worker, as of now.
#[inline]
pub fn now() -> Tick {
    match WORKER.get() {
        Some(worker) => worker.now(),
        None => Tick::from_ms(weir_sys::time::monotonic_ns() / NS_PER_MS),
    }
}

/// Microseconds of the monotonic clock, as of the last look at the poller.
#[inline]
pub fn now_us() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.now_ns.get() / 1000,
        None => weir_sys::time::monotonic_ns() / 1000,
    }
}

/// Nanoseconds of the monotonic clock, as of this call: for measuring what runs within one turn.
pub fn precise_ns() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.clock.monotonic_ns(),
        None => weir_sys::time::monotonic_ns(),
    }
}

/// Microseconds since 1970, read at most once a loop.
pub fn wall_us() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.wall_ns() / 1000,
        None => weir_sys::time::wall_ns() / 1000,
    }
}

/// A number that is hard to guess but no secret (for balancing and unique names).
pub fn random() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.random(),
        None => weir_sys::random::number().unwrap_or_else(|_| weir_sys::time::monotonic_ns()),
    }
}

/// The number of the current worker in its runtime, from 0.
///
/// # Panics
/// Outside a worker.
pub fn worker_index() -> usize {
    Worker::current().index
}

/// How many workers the current runtime has; 1 outside one.
pub fn worker_count() -> usize {
    WORKER.get().map_or(1, |worker| worker.peers.len())
}

/// How many tasks live on the current worker.
pub fn task_count() -> u64 {
    WORKER.get().map_or(0, |worker| {
        let activity = &worker.shared.activity;
        activity.spawned.value() - activity.ended.value()
    })
}

/// How many shared tasks live in the current runtime, and how many of them wait to run.
pub fn shared_tasks() -> (u32, u32) {
    WORKER.get().map_or((0, 0), |worker| (worker.commons.live(), worker.commons.waiting()))
}

/// Has `work` run on another worker of the runtime (or this one), between tasks.
pub fn send_to(worker: usize, work: impl FnOnce() + Send + 'static) -> std::result::Result<(), NotDelivered> {
    let peers = &Worker::current().peers;
    peers.get(worker).ok_or(NotDelivered)?.send(Message::Run(Box::new(work)))
}

/// The published load of a worker: whatever its owner counts there, normally connections.
pub fn load(worker: usize) -> u32 {
    Worker::current().peers.get(worker).map_or(u32::MAX, |shared| shared.load.load(Relaxed))
}

/// Adds to the published load of a worker. Who hands a connection over adds it, the worker that ends it takes it away.
pub fn change_load(worker: usize, change: i32) {
    if let Some(shared) = Worker::current().peers.get(worker) {
        // Wrapping makes a negative change a subtraction.
        shared.load.fetch_add(change as u32, Relaxed);
    }
}

/// Shows `look` the figures of a worker of the current runtime.
pub fn activity<R>(worker: usize, look: impl FnOnce(&Activity) -> R) -> Option<R> {
    Worker::current().peers.get(worker).map(|shared| look(&shared.activity))
}

/// Has the workers of the current runtime measure what their tasks cost. Choosing a mode, even the same one, forgets what
/// was measured before; a change of what is measured besides does not.
pub fn set_profiling(settings: ProfileSettings) {
    let worker = Worker::current();
    let former = worker.shared.profile.settings();
    let same_mode = former.mode == settings.mode && former != settings;
    let number = if same_mode { worker.shared.profile.number() } else { WISHES.fetch_add(1, Relaxed) };
    let now_ns = worker.clock.monotonic_ns();
    worker.peers.iter().for_each(|shared| shared.set_profiling(settings, number, now_ns));
}

/// What the workers of the current runtime are asked to measure.
pub fn profiling() -> ProfileSettings {
    Worker::current().shared.profile.settings()
}

/// What the current worker runs; none outside a task.
pub fn running() -> Option<&'static Kind> {
    WORKER.get()?.shared.current.kind()
}

/// What the workers of the current runtime measured.
pub fn profile() -> ProfileReport {
    let worker = Worker::current();
    of_workers(worker.peers.iter().map(|shared| &**shared), worker.clock.monotonic_ns())
}

/// What waits on the current worker, exactly as it is now (R4).
pub fn queues() -> QueueView {
    let worker = Worker::current();
    let mut queued = worker.queues.load().queued;
    queued[Class::Bulk as usize] += worker.queues.deferred();
    QueueView {
        queued,
        running: worker.shared.current.kind(),
        timers: worker.timers.borrow().len() as u64,
        tasks: task_count(),
        profiled: worker.profiler.is_on(),
        cpu_ns: worker.shared.current.cpu_ns().unwrap_or(0),
        switches: worker.shared.current.switches(),
    }
}

/// What a worker of the current runtime published about itself last: after a turn, or when it began to run something.
pub fn published(worker: usize) -> Option<QueueView> {
    let shared = Worker::current().peers.get(worker)?;
    let activity = &shared.activity;
    Some(QueueView {
        queued: std::array::from_fn(|class| activity.waiting[class].load(Relaxed)),
        running: shared.current.kind(),
        timers: u64::from(activity.armed.load(Relaxed)),
        tasks: activity.spawned.value().saturating_sub(activity.ended.value()),
        profiled: shared.profile.is_on(),
        cpu_ns: shared.current.cpu_ns().unwrap_or(0),
        switches: shared.current.switches(),
    })
}

/// What waits in the run queues of the current worker, by kind of work.
pub fn waiting() -> Vec<WaitingKind> {
    let worker = Worker::current();
    let now_ns = worker.clock.monotonic_ns();
    let mut kinds: Vec<WaitingKind> = Vec::new();
    for slot in 0..worker.tasks.len() {
        let Some(task) = worker.tasks.get(slot).filter(|task| task.state.get() & QUEUED != 0) else {
            continue;
        };
        let Some(kind) = task.kind.get() else { continue };
        let (calls, since_ns) = worker.profiler.waiting(slot);
        let waited_ns = since_ns.map(|since_ns| now_ns.saturating_sub(since_ns));
        let one = WaitingKind {
            kind,
            places: 1,
            latencies: u64::from(waited_ns.is_some()),
            latency_ns: waited_ns.unwrap_or(0),
            calls,
        };
        match kinds.iter_mut().find(|known| std::ptr::eq(known.kind, kind)) {
            Some(known) => known.merge(&one),
            None => kinds.push(one),
        }
    }
    kinds
}

/// Stops all workers of the current runtime, each after its turn; their tasks are dropped.
pub fn stop() {
    Worker::current().peers.iter().for_each(|shared| shared.request_stop());
}

/// What waits on one worker.
#[derive(Debug, Clone, Copy)]
pub struct QueueView {
    /// Tasks in the run queues, by [`Class`].
    pub queued: [u32; CLASSES],
    /// What runs; none between two tasks.
    pub running: Option<&'static Kind>,
    /// Deadlines in the timer queue.
    pub timers: u64,
    /// Tasks that live.
    pub tasks: u64,
    /// Whether tasks are measured.
    pub profiled: bool,
    /// Processor time used, in nanoseconds.
    pub cpu_ns: u64,
    /// How many tasks ran.
    pub switches: u64,
}

/// One kind of work in the run queues.
#[derive(Debug, Clone, Copy)]
pub struct WaitingKind {
    /// Which.
    pub kind: &'static Kind,
    /// How many tasks of it wait.
    pub places: u64,
    /// Of how many it is known for how long.
    pub latencies: u64,
    /// For how long those wait, in all.
    pub latency_ns: u64,
    /// How often these tasks ran while they were measured.
    pub calls: u64,
}

impl WaitingKind {
    /// Adds the figures of `other` to these.
    pub fn merge(&mut self, other: &Self) {
        self.places += other.places;
        self.latencies += other.latencies;
        self.latency_ns += other.latency_ns;
        self.calls += other.calls;
    }
}

/// The scheduler of one thread, on cache lines of its own. No other thread reads or writes any of it: what they may touch
/// is in [`Shared`] and in [`Commons`], on other lines (R84).
#[repr(C, align(128))]
pub(crate) struct Worker {
    // What every wake, run and wait touches.
    queues: Queues,
    now: Cell<Tick>,
    now_ns: Cell<u64>,
    running_key: Cell<TaskKey>,
    /// The slot's place, so that what runs is found without looking it up: twice for each wait.
    running_task: Cell<Option<NonNull<Task>>>,
    running_slot: Cell<u32>,
    free: Cell<u32>,
    running_event: Cell<bool>,
    id: u16,
    tuning: Tuning,
    pub(crate) shared: Arc<Shared>,
    commons: Arc<Commons>,
    // What some of them touch.
    tasks: Arena<Task>,
    timers: RefCell<TimerQueue>,
    profiler: Profiler,
    pub(crate) descriptors: DescriptorTable,
    poller: RefCell<Box<dyn Poller>>,
    clock: Box<dyn Clock>,
    wall_ns: Cell<u64>,
    random_state: Cell<u64>,
    index: usize,
    peers: Arc<[Arc<Shared>]>,
    membership: Cell<Option<Membership>>,
}

// R84, R86: what is touched most fills the first 256 bytes, whole cache lines whatever the allocator does.
const _: () = {
    assert!(align_of::<Worker>() == 128 && size_of::<Worker>().is_multiple_of(128));
    assert!(std::mem::offset_of!(Worker, queues) == 0 && std::mem::offset_of!(Worker, tasks) <= 256);
};

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) index: usize,
    pub(crate) peers: Arc<[Arc<Shared>]>,
    pub(crate) commons: Arc<Commons>,
    pub(crate) membership: Membership,
    pub(crate) tuning: Tuning,
    pub(crate) poller: Box<dyn Poller>,
    pub(crate) clock: Box<dyn Clock>,
    pub(crate) seed: u64,
}

impl Worker {
    /// Makes the current thread a worker.
    ///
    /// # Panics
    /// When it is one already.
    pub(crate) fn install(parts: Parts) -> Result<&'static Self> {
        assert!(WORKER.get().is_none(), "a thread is one worker");
        let worker: &'static Self = Box::leak(Self::build(parts)?);
        WORKER.set(Some(worker));
        Ok(worker)
    }

    /// A worker that no thread is yet.
    pub(crate) fn build(mut parts: Parts) -> Result<Box<Self>> {
        let shared = parts.peers[parts.index].clone();
        if let Bell::Kernel(wakener) = &shared.bell {
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
            free: Cell::new(NO_SLOT),
            queues: Queues::new(),
            tasks: Arena::new(),
            timers: RefCell::new(TimerQueue::new()),
            descriptors: DescriptorTable::new(),
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

    /// Lets this worker act on the current thread, which simulates several.
    pub(crate) fn act<R>(&'static self, act: impl FnOnce() -> R) -> R {
        struct Restore(Option<&'static Worker>);
        impl Drop for Restore {
            fn drop(&mut self) {
                WORKER.set(self.0);
            }
        }
        let _restore = Restore(WORKER.replace(Some(self)));
        act()
    }

    /// The worker of this thread.
    ///
    /// # Panics
    /// When the thread is none.
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
        // A destructor may spawn: what it spawned is dropped in the next round.
        for _ in 0..SHUTDOWN_ROUNDS {
            if task_count() == 0 {
                break;
            }
            self.end_all();
        }
        // Work that arrived too late is dropped here, while its destructors still find a worker.
        self.shared.inbox.drain(|message| dispose(Some(message)));
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

    /// Runs until somebody asks to stop.
    pub(crate) fn run(&self) {
        self.shared.current.introduce();
        // What is asked for from the start is measured from the first loop on.
        self.profiler.end_loop(&self.shared.profile, self.tasks.len(), 0);
        while !self.shared.stop.load(Relaxed) {
            self.pass();
        }
    }

    /// Once round the loop.
    #[inline]
    pub(crate) fn pass(&self) {
        let timeout = self.work();
        if trace::SCHEDULER.is_active() {
            trace::turned(worker_index(), self.wall_ns(), timeout);
        }
        self.poll(timeout);
    }

    /// Does what can be done, and decides how long the poller may wait. Whoever leaves something from here on sees that
    /// the worker sleeps, if it does.
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

    /// The worker of this runtime that `key` belongs to, found without asking the whole process: the workers of a runtime
    /// are numbered in a row, nearly always.
    #[inline]
    fn peer(&self, key: TaskKey) -> Option<&Shared> {
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

    /// Has `task` woken at `deadline` at the latest. A later deadline than the one in the timer queue is only noted:
    /// most waits end before, and the queue is touched when the earlier one comes up.
    #[inline]
    pub(crate) fn set_deadline(&self, task: &Task, deadline: Tick) {
        if deadline >= task.deadline.get() {
            return;
        }
        task.deadline.set(deadline);
        if deadline < task.timer.get() {
            // R60: a shared task's deadline belongs to the global wait queue.
            debug_assert_ne!(
                self.running_slot.get(),
                STAND_IN,
                "a timer of this worker is for its own tasks"
            );
            task.timer.set(deadline);
            self.timers.borrow_mut().set(self.running_slot.get(), deadline.as_ms());
        }
    }

    #[track_caller]
    fn spawn(&self, kind: &'static Kind, class: Class, future: PooledFuture<'static>) -> TaskKey {
        let Some((slot, task)) = self.take_slot() else {
            self.shared.activity.refused.increment();
            return TaskKey::NONE;
        };
        task.future.set(Some(future));
        task.kind.set(Some(kind));
        task.class.set(class);
        task.nice.set(0);
        task.state.set(OCCUPIED);
        self.shared.activity.spawned.increment();
        if self.profiler.is_on() {
            self.profiler.begin_task(slot);
        }
        self.enqueue(slot, task, Cause::Spawn);
        TaskKey::new(self.id, slot, task.generation.get())
    }

    fn take_slot(&self) -> Option<(u32, &Task)> {
        let slot = match self.free.get() {
            NO_SLOT => self.tasks.push_default()?,
            slot => slot,
        };
        let task = self.tasks.get(slot)?;
        if slot == self.free.get() {
            self.free.set(task.next.get());
        }
        Some((slot, task))
    }

    /// Wakes a task of this worker.
    #[inline]
    #[track_caller]
    pub(crate) fn wake(&self, key: TaskKey, cause: Cause) {
        let slot = key.slot();
        match self.tasks.get(slot) {
            Some(task) if task.generation.get() == key.generation() => self.wake_task(slot, task, cause),
            _ => {}
        }
    }

    #[inline]
    #[track_caller]
    fn wake_task(&self, slot: u32, task: &Task, cause: Cause) {
        let state = task.state.get();
        if state & (QUEUED | RUNNING) == 0 && state & OCCUPIED != 0 {
            return self.enqueue(slot, task, cause);
        }
        let again = if state & RUNNING != 0 { WOKEN } else { 0 };
        task.state.set(state | reason(cause) | again);
        if again != 0 && self.profiler.is_on() {
            self.note(slot, cause);
        }
    }

    #[inline]
    #[track_caller]
    fn enqueue(&self, slot: u32, task: &Task, cause: Cause) {
        task.state.set(task.state.get() | QUEUED | reason(cause));
        self.queues.push(&self.tasks, slot, task, task.class.get(), self.tuning.runqueue_depth);
        if self.profiler.is_on() {
            self.note(slot, cause);
        }
    }

    /// Notes when and where a task was woken. What the poller and the timers wake was due when the loop began.
    #[cold]
    #[track_caller]
    fn note(&self, slot: u32, cause: Cause) {
        let date_ns = match cause {
            Cause::Event | Cause::Deadline => self.now_ns.get(),
            _ => self.clock.monotonic_ns(),
        };
        self.profiler.note(slot, date_ns, cause, Location::caller());
    }

    #[track_caller]
    fn kill(&self, key: TaskKey) {
        let slot = key.slot();
        match self.tasks.get(slot) {
            Some(task) if task.generation.get() == key.generation() => self.kill_task(slot, task),
            _ => {}
        }
    }

    /// What is queued or runs is only marked; what waits goes straight to the urgent work, where it ends.
    #[track_caller]
    fn kill_task(&self, slot: u32, task: &Task) {
        let state = task.state.get();
        if state & OCCUPIED == 0 {
            return;
        }
        task.state.set(state | KILLED);
        if state & (QUEUED | RUNNING) == 0 {
            task.state.set(state | KILLED | QUEUED);
            self.queues.push(&self.tasks, slot, task, Class::Urgent, self.tuning.runqueue_depth);
            if self.profiler.is_on() {
                self.note(slot, Cause::Kill);
            }
        }
    }

    /// Wakes the tasks whose deadline passed, at most a run queue's depth of them, those of this worker and shared ones
    /// together: who has many of its own leaves the others to the others (R56).
    fn expire_timers(&self) {
        let budget = self.tuning.runqueue_depth.max(1);
        let mut handled = self.expire_own(budget);
        handled += self.commons.expire(self.now.get(), budget - handled);
        if handled > 0 {
            self.shared.activity.timers.add(u64::from(handled));
        }
    }

    fn expire_own(&self, budget: u32) -> u32 {
        let mut timers = self.timers.borrow_mut();
        let now = self.now.get();
        let mut handled = 0;
        while handled < budget {
            let Some((due, slot)) = timers.first().filter(|(due, _)| *due <= now.as_ms()) else { break };
            handled += 1;
            let task = self.tasks.get(slot).expect("a timer belongs to a slot");
            debug_assert_eq!(task.timer.get().as_ms(), due);
            let deadline = task.deadline.get();
            if deadline > now && !deadline.is_never() {
                // It moved further away meanwhile: back to the same queue (R58).
                task.timer.set(deadline);
                timers.set(slot, deadline.as_ms());
                continue;
            }
            task.timer.set(Tick::NEVER);
            timers.remove(slot);
            if deadline <= now {
                self.wake_task(slot, task, Cause::Deadline);
            }
        }
        handled
    }

    /// Takes what other threads left.
    fn drain_inboxes(&self) {
        let woken = self.shared.door.wakes.drain(|listed| {
            let slot = listed.number;
            if let Some(task) = self.tasks.get(slot) {
                if self.profiler.is_on() {
                    self.profiler.note_stamp(slot, listed.stamp);
                }
                match listed.doomed.filter(|&generation| generation == task.generation.get()) {
                    Some(_) => self.kill_task(slot, task),
                    None => self.wake_task(slot, task, Cause::Wake),
                }
            }
        });
        let messages = self.shared.inbox.drain(|Message::Run(work)| {
            self.shared.current.enter(&MESSAGE);
            self.guard(work);
        });
        if woken + messages > 0 {
            self.shared.activity.remote_wakes.add(woken as u64);
            self.shared.activity.messages.add(messages as u64);
        }
    }

    /// Runs the queues within the budget of one turn.
    fn run_turn(&self) {
        self.queues.begin_turn(&self.tasks);
        self.profiler.interrupt();
        let mut load = self.queues.load();
        self.publish(&load);
        let (own, shared_waiting) = (load.queued[NORMAL], self.commons.waiting());
        load.queued[NORMAL] = own.saturating_add(shared_waiting);
        let mut left = turn(&load, &self.tuning).runs;
        let mut granted = left;
        let shared_room = shared_room(granted[NORMAL], own, shared_waiting);
        if self.tuning.low_latency {
            self.run_by_rank(&mut left, shared_room);
        } else {
            self.run_by_class(&mut left, shared_room);
            while let Some(more) = self.more(&left) {
                for class in 0..HEAVY {
                    granted[class] = granted[class] - left[class] + more[class];
                    left[class] = more[class];
                }
                self.run_by_class(&mut left, 0);
                if left == more {
                    break;
                }
            }
        }
        let activity = &self.shared.activity;
        activity.queued.set(u64::from(self.queues.len()));
        for class in 0..CLASSES {
            if granted[class] > left[class] {
                activity.runs[class].add(u64::from(granted[class] - left[class]));
            }
        }
    }

    /// Runs each class within its budget, the most urgent first.
    #[inline]
    fn run_by_class(&self, left: &mut [u32; CLASSES], shared_room: u32) {
        for class in 0..CLASSES {
            if class == NORMAL && shared_room > 0 {
                left[NORMAL] -= self.run_shared(shared_room);
            }
            while left[class] > 0 {
                let Some((slot, task)) = self.queues.pop(&self.tasks, class) else { break };
                left[class] -= 1;
                self.run_task(slot, task);
            }
        }
    }

    /// What classes could not use of a turn, for those that were given more work meanwhile: a turn looks at the poller
    /// when its depth is used up, not when one class has used up its share of it.
    #[inline]
    fn more(&self, left: &[u32; CLASSES]) -> Option<[u32; CLASSES]> {
        let spare: u32 = left[..HEAVY].iter().sum();
        if spare == 0 || (0..HEAVY).all(|class| !self.queues.has(class)) {
            return None;
        }
        let mut more = turn(&self.queues.load(), &Tuning { runqueue_depth: spare, ..self.tuning }).runs;
        more[HEAVY] = left[HEAVY];
        Some(more)
    }

    /// Shows what waits now: all that others see of a worker that gets stuck in its turn.
    #[inline]
    fn publish(&self, load: &Load) {
        let activity = &self.shared.activity;
        let mut total = 0_u32;
        for (place, queued) in activity.waiting.iter().zip(load.queued) {
            place.store(queued, Relaxed);
            total = total.saturating_add(queued);
        }
        activity.armed.store(self.timers.borrow().len() as u32, Relaxed);
        if total == 0 {
            activity.empty_turns.increment();
        } else if total > self.tuning.runqueue_depth {
            activity.long_turns.increment();
        }
    }

    /// Runs the highest class that has entries and budget, looked up anew after each; ends early when other threads
    /// left something (R39).
    fn run_by_rank(&self, left: &mut [u32; CLASSES], mut shared_room: u32) {
        let nothing_shared = shared_room == 0;
        let has = |class, shared_room| self.queues.has(class) || class == NORMAL && shared_room > 0;
        while let Some(class) = (0..CLASSES).find(|&class| left[class] > 0 && has(class, shared_room)) {
            if class == NORMAL && shared_room > 0 {
                let ran = self.run_shared(1);
                // Another worker may have taken the rest.
                shared_room = if ran == 0 { 0 } else { shared_room - 1 };
                left[class] -= ran;
                continue;
            }
            // A class that turns out to be empty is not found again.
            let Some((slot, task)) = self.queues.pop(&self.tasks, class) else { continue };
            left[class] -= 1;
            self.run_task(slot, task);
            let new_shared = nothing_shared && self.commons.waiting() > 0;
            if !self.shared.door.wakes.is_empty() || !self.shared.inbox.is_empty() || new_shared {
                break;
            }
        }
    }

    /// Runs at most `room` shared tasks; returns how many it found.
    #[cold]
    fn run_shared(&self, room: u32) -> u32 {
        self.commons.pick(self.index, room, |slot| self.run_shared_task(slot))
    }

    fn run_shared_task(&self, slot: u32) {
        if let Some(kind) = self.commons.kind(slot) {
            self.shared.current.enter(kind);
            if self.profiler.is_on() {
                self.profiler.make_room(STAND_IN + 1);
                self.profiler.note_stamp(STAND_IN, self.commons.take_stamp(slot));
                let board = &self.shared.profile;
                self.shared.current.woken_at(self.profiler.place(STAND_IN));
                let measured = self.profiler.begin(board, STAND_IN, kind, || self.clock.monotonic_ns());
                self.poll_shared(slot);
                return self.profiler.end(board, measured, self.clock.monotonic_ns());
            }
        }
        self.poll_shared(slot);
    }

    /// Runs a shared task. While it does, the worker's first slot stands in for it: what the task asks of the scheduler is
    /// noted there, by code that need not know the difference.
    fn poll_shared(&self, slot: u32) {
        let (commons, key) = (&*self.commons, self.commons.key(slot));
        let shared_task = commons.task(slot);
        let begin = shared_task.state.begin();
        let (Begin::Run { event, flag }, Some(mut future)) = (begin, commons.take_future(slot)) else {
            return self.end_shared(slot, None);
        };
        let stand_in = self.tasks.get(STAND_IN).expect("made with the worker");
        stand_in.state.set(OCCUPIED | RUNNING | if flag { FLAG } else { 0 });
        stand_in.deadline.set(Tick::from_ms(shared_task.deadline.get()));
        // No deadline is earlier, so none enters this worker's own timers.
        stand_in.timer.set(Tick::from_ms(0));
        stand_in.nice.set(shared_task.nice.load(Relaxed) as i16);
        self.running_key.set(key);
        self.running_task.set(Some(NonNull::from(stand_in)));
        self.running_slot.set(STAND_IN);
        self.running_event.set(event);
        let waker = waker(key);
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let state = stand_in.state.replace(0);
        if !matches!(outcome, Ok(std::task::Poll::Pending)) {
            if outcome.is_err() {
                self.shared.activity.panics.increment();
            }
            return self.end_shared(slot, Some(future));
        }
        self.leave();
        // All of it before the task is finished: then another worker may run it.
        commons.give_future_back(slot, future);
        shared_task.nice.store(i32::from(stand_in.nice.get()), Relaxed);
        commons.set_deadline(slot, stand_in.deadline.get());
        match shared_task.state.finish(state & WOKEN != 0, state & FLAG != 0) {
            Finish::Wait => {}
            Finish::Queue => commons.enqueue(slot),
            Finish::End => self.end_shared(slot, None),
        }
    }

    fn end_shared(&self, slot: u32, future: Option<SharedFuture>) {
        dispose(future.or_else(|| self.commons.take_future(slot)));
        self.leave();
        self.commons.end(slot);
    }

    #[inline]
    fn run_task(&self, slot: u32, task: &Task) {
        let Some(kind) = task.kind.get() else { return };
        self.shared.current.enter(kind);
        if self.profiler.is_on() {
            return self.run_measured(slot, task, kind);
        }
        self.poll_task(slot, task);
    }

    #[cold]
    #[inline(never)]
    fn run_measured(&self, slot: u32, task: &Task, kind: &'static Kind) {
        let board = &self.shared.profile;
        self.shared.current.woken_at(self.profiler.place(slot));
        let measured = self.profiler.begin(board, slot, kind, || self.clock.monotonic_ns());
        self.poll_task(slot, task);
        self.profiler.end(board, measured, self.clock.monotonic_ns());
    }

    // One copy for runs that are measured, one in the loop for those that are not: a call less for each of these.
    #[inline(always)]
    fn poll_task(&self, slot: u32, task: &Task) {
        let state = task.state.get();
        let Some(mut future) = task.future.take() else { return };
        if state & KILLED != 0 {
            return self.end(slot, task, Some(future));
        }
        task.state.set(state & FLAG | OCCUPIED | RUNNING);
        let key = TaskKey::new(self.id, slot, task.generation.get());
        self.running_key.set(key);
        self.running_task.set(Some(NonNull::from(task)));
        self.running_slot.set(slot);
        self.running_event.set(state & EVENT != 0);
        let waker = waker(key);
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut context)));
        let state = task.state.get();
        if matches!(outcome, Ok(std::task::Poll::Pending)) && state & KILLED == 0 {
            self.leave();
            task.future.set(Some(future));
            task.state.set(state & FLAG | OCCUPIED);
            if state & WOKEN != 0 {
                self.requeue(slot, task, state & EVENT);
            }
            return;
        }
        if outcome.is_err() {
            self.shared.activity.panics.increment();
        }
        self.end(slot, task, Some(future));
    }

    #[inline]
    fn leave(&self) {
        self.running_key.set(TaskKey::NONE);
        self.running_task.set(None);
        self.running_slot.set(NO_SLOT);
    }

    /// Queues a task that woke itself: as bulk, for the next turn. Heavy work stays heavy.
    fn requeue(&self, slot: u32, task: &Task, reason: u32) {
        task.state.set(task.state.get() | QUEUED | reason);
        if task.class.get() == Class::Heavy {
            self.queues.push(&self.tasks, slot, task, Class::Heavy, self.tuning.runqueue_depth);
        } else {
            self.queues.defer(&self.tasks, slot, task);
        }
        if self.profiler.is_on() {
            // Whoever woke it while it ran has left a note already; otherwise it gave up its turn by itself.
            self.note(slot, Cause::Yield);
        }
    }

    /// Drops what is left of a task and frees its slot.
    fn end(&self, slot: u32, task: &Task, future: Option<PooledFuture<'static>>) {
        // Wakes that the destructors send to this very task must not queue it again.
        task.state.set(OCCUPIED | RUNNING);
        dispose(future);
        self.leave();
        if !task.timer.get().is_never() {
            self.timers.borrow_mut().remove(slot);
            task.timer.set(Tick::NEVER);
        }
        task.deadline.set(Tick::NEVER);
        task.kind.set(None);
        task.state.set(0);
        // Zero is no generation: it would let a key be `NONE`.
        task.generation.set(task.generation.get().wrapping_add(1).max(1));
        task.next.set(self.free.replace(slot));
        self.shared.activity.ended.increment();
    }

    /// Runs work of another thread; a panic in it ends the work and nothing else.
    fn guard(&self, work: Box<dyn FnOnce() + Send>) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.shared.activity.panics.increment();
        }
    }

    #[inline]
    fn prepare_to_wait(&self) -> Option<u64> {
        let mut timeout = self.timeout();
        if timeout != Some(0) {
            let shared = &self.shared;
            shared.door.doorbell.lie_down();
            let stops = shared.stop.load(Relaxed);
            if !shared.door.wakes.is_empty()
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
        // The date of the events is that of the poller's return, so it is looked up before they are handed out.
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
        // The poller fails only when its own descriptor is broken: then nothing arrives, and timers go on.
        self.shared.current.wait();
        let events = self.poller.borrow_mut().wait(timeout, &mut report).unwrap_or(0);
        self.shared.current.resume();
        self.shared.door.doorbell.rise();
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

    /// Wakes a descriptor's owner, which may by exception be a task of another worker.
    #[inline]
    fn wake_owner(&self, owner: TaskKey) {
        if owner.worker() == self.id {
            self.wake(owner, Cause::Event);
        } else {
            wake_elsewhere(owner);
        }
    }

    /// How long the poller may wait: not at all while something can run.
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

/// What a cause leaves in the task's state.
#[inline]
fn reason(cause: Cause) -> u32 {
    if cause == Cause::Deadline { 0 } else { EVENT }
}

/// How many of a turn's `granted` normal runs may go to shared tasks: half of them, and what the worker's `own` leave.
fn shared_room(granted: u32, own: u32, waiting: u32) -> u32 {
    waiting.min(granted.div_ceil(2).max(granted.saturating_sub(own)))
}

/// Drops a value; a panic of a destructor is the value's own affair.
pub(crate) fn dispose<T>(value: Option<T>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// What others sent here to be run between tasks.
static MESSAGE: Kind = Kind::new("message");
/// Tells one wish for profiling from the next; a runtime starts with the first.
static WISHES: AtomicU32 = AtomicU32::new(2);
const NORMAL: usize = Class::Normal as usize;
const HEAVY: usize = Class::Heavy as usize;
/// The slot that stands in for a shared task while it runs here; no task of the worker has it.
const STAND_IN: u32 = 0;
/// How often destructors may spawn more tasks while the worker ends; what is left then is leaked.
const SHUTDOWN_ROUNDS: u32 = 8;
const NS_PER_MS: u64 = 1_000_000;
/// No wait is longer, so that a clock that jumps (a suspended machine) does no lasting harm.
const LONGEST_WAIT_MS: u64 = 60_000;
/// The token of the worker's own event counter; no descriptor has it.
const WAKENER_TOKEN: u64 = u64::MAX;

thread_local! {
    static WORKER: Cell<Option<&'static Worker>> = const { Cell::new(None) };
}
