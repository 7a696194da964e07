//! The crate's public functions: requests of the running task to its worker.

use super::{NS_PER_MS, STAND_IN, WORKER, Worker};
use crate::commons::commons_of;
use crate::key::TaskKey;
use crate::policy::{CLASSES, Class};
use crate::profile::{Cause, ProfileReport, ProfileSettings, of_workers};
use crate::shared::{Activity, NotDelivered, WorkerRequest, owner_of};
use crate::task::{FLAG, QUEUED, WorkKind};
use crate::tick::Tick;
use weir_containers::PooledFuture;
use weir_events::WallTime;
use weir_sync::ThreadMask;
use weir_sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Starts a task on the current worker, to run in a later scheduling round. Its memory comes from the thread's free
/// lists. With four million live tasks, the future is dropped at once and the key is [`TaskKey::NONE`].
///
/// # Panics
/// Outside a worker.
#[track_caller]
pub fn spawn(kind: &'static WorkKind, class: Class, future: impl Future<Output = ()> + 'static) -> TaskKey {
    Worker::current().spawn(kind, class, PooledFuture::new(future))
}

/// Starts a task that any of `workers` may run, or any worker if none of those exists. The task's class is always normal, and its `nice`
/// value moves it in the queue. With 65,536 live shared tasks, the future is dropped at once and the key is [`TaskKey::NONE`].
///
/// # Panics
/// Outside a worker. Use [`crate::RuntimeHandle::spawn_shared`] there.
pub fn spawn_shared(
    kind: &'static WorkKind,
    workers: &ThreadMask,
    future: impl Future<Output = ()> + Send + 'static,
) -> TaskKey {
    Worker::current().commons.spawn(kind, workers, Box::pin(future))
}

/// Begins or ends a computation of the running task that has a limit of its own, as a call of a script. The watchdog has more patience
/// with it: see [`crate::Runtime::watch`]. Nothing happens outside a worker.
#[inline]
pub fn limited(begins: bool) {
    if let Some(worker) = WORKER.get() {
        worker.shared.current.limit(begins);
    }
}

/// The task that runs now; [`TaskKey::NONE`] outside one.
#[inline]
pub fn current() -> TaskKey {
    WORKER.get().map_or(TaskKey::NONE, |worker| worker.running_key.get())
}

/// Wakes a task, from any thread. Waking a task that ended or is about to run anyway does nothing.
#[inline]
#[track_caller]
pub fn wake(key: TaskKey) {
    match WORKER.get() {
        Some(worker) if worker.id == key.worker() => worker.wake(key, Cause::Wake),
        _ => wake_elsewhere(key),
    }
}

/// Wakes a task of this worker to run next in its class, while its data is still in the processor's cache. A task may
/// do this once per run, so that others do not starve.
#[inline]
#[track_caller]
pub fn wake_next(key: TaskKey) {
    match WORKER.get() {
        Some(worker) if worker.id == key.worker() => worker.wake_next(key),
        _ => wake_elsewhere(key),
    }
}

#[cold]
#[track_caller]
pub(super) fn wake_elsewhere(key: TaskKey) {
    if let Some(peer) = WORKER.get().and_then(|worker| worker.peer(key)) {
        peer.wake(key);
    } else if let Some(shared) = owner_of(key).as_deref().and_then(Option::as_ref) {
        shared.wake(key);
    } else if let Some(commons) = commons_of(key) {
        commons.wake(key);
    }
}

/// Ends a task without running it again, from any thread: at once, or after its current run (R67, R68).
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

/// The deadline of a task of the current worker; `None` if it waits for ever, or is not a task of this worker.
pub fn deadline(key: TaskKey) -> Option<Tick> {
    let worker = WORKER.get().filter(|worker| worker.id == key.worker())?;
    let task = worker.tasks.get(key.slot()).filter(|task| task.generation.get() == key.generation())?;
    Some(task.deadline.get()).filter(|deadline| !deadline.is_never())
}

/// Sets the current task's `nice`, from -1024 (earliest) to 1024 (latest). Other values are clamped.
pub fn set_nice(nice: i16) {
    Worker::current().running().nice.set(nice.clamp(-1024, 1024));
}

/// Sets the class in which the current task is queued from now on; returns the former one. Shared work is always normal.
pub fn set_class(class: Class) -> Class {
    debug_assert!(Worker::current().running_slot.get() != STAND_IN, "shared work is always normal");
    Worker::current().running().class.replace(class)
}

/// Whether the running task may compute for long now, as the heavy task of this scheduling round. True at most once a
/// round, and false while heavy tasks are queued, because they run first. On false, the task sets its class to heavy
/// and wakes itself for a later round.
///
/// # Panics
/// Outside a worker.
pub fn take_heavy_run() -> bool {
    Worker::current().take_heavy_run()
}

/// Sets or clears the current task's flag, which the scheduler stores between runs (R19).
pub fn set_flag(on: bool) {
    let task = Worker::current().running();
    let state = task.state.get();
    task.state.set(if on { state | FLAG } else { state & !FLAG });
}

/// The current task's flag ([`set_flag`]). Initially false.
pub fn flag() -> bool {
    Worker::current().running().state.get() & FLAG != 0
}

/// The monotonic time at the last return of the poller. Outside a worker, the current time.
#[inline]
pub fn now() -> Tick {
    match WORKER.get() {
        Some(worker) => worker.now(),
        None => Tick::from_ms(weir_sys::time::monotonic_ns() / NS_PER_MS),
    }
}

/// Microseconds of the monotonic clock at the last return of the poller.
#[inline]
pub fn now_us() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.now_ns.get() / 1000,
        None => weir_sys::time::monotonic_ns() / 1000,
    }
}

/// Nanoseconds of the monotonic clock, read by this call. For measurements within one scheduling round.
pub fn precise_ns() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.clock.monotonic_ns(),
        None => weir_sys::time::monotonic_ns(),
    }
}

/// Microseconds since 1970, read at most once per iteration of the event loop.
pub fn wall_us() -> u64 {
    match WORKER.get() {
        Some(worker) => worker.wall_ns() / 1000,
        None => weir_sys::time::wall_ns() / 1000,
    }
}

/// The time of [`wall_us`], as a timestamp for events.
pub fn wall_time() -> WallTime {
    WallTime::from_micros(wall_us().cast_signed())
}

/// A random number, not fit for secrets (for balancing and unique names).
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

/// Runs `work` on another worker of the runtime (or this one), between tasks.
pub fn send_to(worker: usize, work: impl FnOnce() + Send + 'static) -> std::result::Result<(), NotDelivered> {
    let peers = &Worker::current().peers;
    peers.get(worker).ok_or(NotDelivered)?.send(WorkerRequest::Run(Box::new(work)))
}

/// The published load of a worker, normally its number of connections. `u32::MAX` without such a worker.
pub fn load(worker: usize) -> u32 {
    Worker::current().peers.get(worker).map_or(u32::MAX, |shared| shared.load.load(Relaxed))
}

/// Adds `change` to the published load of a worker. The sender of a connection adds it, and the worker that closes the connection subtracts it.
pub fn change_load(worker: usize, change: i32) {
    if let Some(shared) = Worker::current().peers.get(worker) {
        // Wrapping makes a negative change a subtraction.
        shared.load.fetch_add(change as u32, Relaxed);
    }
}

/// Counts a panic of a part of the current task.
pub(crate) fn count_panic() {
    Worker::current().shared.activity.panics.increment();
}

/// Calls `look` with the counters of a worker of the current runtime.
pub fn activity<R>(worker: usize, look: impl FnOnce(&Activity) -> R) -> Option<R> {
    Worker::current().peers.get(worker).map(|shared| look(&shared.activity))
}

/// Sets the profiling settings of the workers of the current runtime. Choosing a mode, even the same one, resets the
/// counters; a change of the other settings does not.
pub fn set_profiling(settings: ProfileSettings) {
    let worker = Worker::current();
    let former = worker.shared.profile.settings();
    let same_mode = former.mode == settings.mode && former != settings;
    let number = if same_mode { worker.shared.profile.number() } else { WISHES.fetch_add(1, Relaxed) };
    let now_ns = worker.clock.monotonic_ns();
    worker.peers.iter().for_each(|shared| shared.set_profiling(settings, number, now_ns));
}

/// The requested profiling settings of the workers of the current runtime.
pub fn profiling() -> ProfileSettings {
    Worker::current().shared.profile.settings()
}

/// The kind of the task that the current worker runs; `None` outside a task.
pub fn running() -> Option<&'static WorkKind> {
    WORKER.get()?.shared.current.kind()
}

/// The profiling results of the workers of the current runtime.
pub fn profile() -> ProfileReport {
    let worker = Worker::current();
    of_workers(worker.peers.iter().map(|shared| &**shared), worker.clock.monotonic_ns())
}

/// Whether runs are measured on this worker now.
#[inline]
pub fn is_profiled() -> bool {
    Worker::current().profiler.is_on()
}

/// The queues of the current worker, exact at this moment (R4).
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

/// The queues that a worker of the current runtime last published: after a scheduling round, or when it began to run a task.
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

/// The tasks in the run queues of the current worker, by kind of work.
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

/// Stops all workers of the current runtime, each after its scheduling round; their tasks are dropped.
pub fn stop() {
    Worker::current().peers.iter().for_each(|shared| shared.request_stop());
}

/// The queued work of one worker.
#[derive(Debug, Clone, Copy)]
pub struct QueueView {
    /// Tasks in the run queues, by [`Class`].
    pub queued: [u32; CLASSES],
    /// The kind of the running task; `None` between two tasks.
    pub running: Option<&'static WorkKind>,
    /// Deadlines in the timer queue.
    pub timers: u64,
    pub tasks: u64,
    /// Whether profiling is on.
    pub profiled: bool,
    /// Processor time used, in nanoseconds.
    pub cpu_ns: u64,
    /// How many tasks ran.
    pub switches: u64,
}

/// One kind of work in the run queues.
#[derive(Debug, Clone, Copy)]
pub struct WaitingKind {
    pub kind: &'static WorkKind,
    /// Number of queued tasks of this kind.
    pub places: u64,
    /// How many of them have a known latency.
    pub latencies: u64,
    /// Sum of those latencies so far, in nanoseconds.
    pub latency_ns: u64,
    /// How often these tasks ran while they were measured.
    pub calls: u64,
}

impl WaitingKind {
    /// Adds the counters of `other` to these.
    pub fn merge(&mut self, other: &Self) {
        self.places += other.places;
        self.latencies += other.latencies;
        self.latency_ns += other.latency_ns;
        self.calls += other.calls;
    }
}

/// The next number for profiling settings; a runtime starts with 1.
static WISHES: AtomicU32 = AtomicU32::new(2);
