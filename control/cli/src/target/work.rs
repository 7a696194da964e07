//! The work of the workers, and its cost.

/// Operations on the workers.
pub trait WorkTarget {
    /// Counters of the workers.
    fn activity(&self) -> Activity;

    /// The tasks in the run queues. `None` while workers have not answered: call again when the session is woken.
    fn tasks(&mut self) -> Option<Tasks>;

    /// One view per worker. `None` while workers have not answered: call again when the session is woken.
    fn threads(&mut self) -> Option<Vec<ThreadView>>;

    /// The current measurements.
    fn profiling(&self) -> ProfilingState;

    /// Measures something from now on, or no longer.
    fn set_profiling(&mut self, change: ProfilingChange);

    /// The cost of the work.
    fn task_profile(&self) -> TaskProfile;

    /// Memory by caller. `None` while it is computed: the target wakes the session's task once it is there.
    fn memory_profile(&mut self) -> Option<MemoryProfile>;

    /// The contents of the workers' pools.
    fn pools(&self) -> Vec<PoolView>;

    /// Keeps the worker that answers busy for so long, without yielding.
    fn keep_busy(&mut self, milliseconds: u64);
}

/// Counters of the workers, for `show activity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of the worker that answers, from 1.
    pub thread: u32,
    /// The number of workers.
    pub threads: u32,
    /// Microseconds since the start of the process.
    pub uptime_us: u64,
    pub rows: Vec<ActivityRow>,
}

/// One counter of all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    pub name: &'static str,
    /// Its sum, or its average if a sum makes no sense.
    pub total: u64,
    /// Its value on each worker.
    pub values: Vec<u64>,
}

/// The tasks in the run queues, for `show tasks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Units of work in all run queues.
    pub running: u64,
    /// The number of workers.
    pub threads: u32,
    /// By kind of work.
    pub rows: Vec<TaskRow>,
}

/// One kind of work in the run queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub kind: String,
    /// How many units of it wait.
    pub places: u64,
    /// Their total waiting time, where it is measured.
    pub latency_ns: u64,
    /// The number of units with a measured waiting time.
    pub latencies: u64,
    /// How often these units ran while that was measured.
    pub calls: u64,
}

/// One worker, for `show threads`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadView {
    /// Its number, from 1.
    pub number: u32,
    /// Whether it is the one that answers.
    pub answering: bool,
    /// Whether it did not answer in time: the counts are the last that it published.
    pub silent: bool,
    /// Whether it is running something.
    pub active: bool,
    /// Tasks in its run queues, exactly: urgent, normal, bulk, heavy (R4).
    pub queued: [u64; 4],
    /// Timers in its wait queue.
    pub wait_queue: u64,
    /// Tasks that live on it.
    pub tasks: u64,
    /// Turns of its loop.
    pub loops: u64,
    /// Units of work that it ran.
    pub context_switches: u64,
    /// Whether its work is measured.
    pub profiled: bool,
    /// CPU time used, in nanoseconds.
    pub cpu_ns: u64,
    /// Its current work, with the position: `name@file:line`.
    pub current: Option<String>,
}

/// A memory pool, for `show pools`. Each worker has one of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    pub name: &'static str,
    /// The bytes of an object.
    pub size: u64,
    /// Its use on each worker.
    pub threads: Vec<PoolUse>,
}

/// A pool's use on one worker, as of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Objects that it has, lent or kept.
    pub allocated: u64,
    /// Objects that are lent.
    pub used: u64,
    /// The average of these.
    pub needed: u64,
    /// How often it could not provide an object.
    pub failures: u64,
}

/// Whether work is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measuring {
    /// Never.
    #[default]
    Off,
    /// Where and while it is slow.
    Auto,
    On,
}

/// The current measurements, for `show profiling status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfilingState {
    pub tasks: Measuring,
    /// Whether the worker that answers measures.
    pub running: bool,
    /// Whether memory is counted.
    pub memory: bool,
}

/// A change of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfilingChange {
    /// The work; turning it on discards earlier measurements.
    Tasks(Measuring),
    /// The time that work spends on locks, too.
    Locks(bool),
    /// The time that work spends on memory, too.
    MemoryTime(bool),
    Memory(bool),
}

/// From when to when something was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// For how many milliseconds.
    pub over_ms: u64,
    /// How many milliseconds ago that ended.
    pub ago_ms: u64,
}

/// The cost of the work, for `show profiling tasks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProfile {
    /// The period of the measurement.
    pub span: Span,
    pub lines: Vec<TaskLine>,
}

/// One kind of work, woken from one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLine {
    pub function: String,
    /// Its address, to sort by.
    pub address: usize,
    /// The waker: `place@file:line task_wakeup`.
    pub caller: Option<String>,
    /// How often it ran.
    pub calls: u64,
    /// How long it ran.
    pub cpu_ns: u64,
    /// Its waiting time, where it is measured.
    pub latency_ns: u64,
    /// The number of runs with a measured waiting time.
    pub latencies: u64,
    /// How long it waited for locks.
    pub lock_wait_ns: u64,
    /// How long it held locks.
    pub lock_held_ns: u64,
    /// How long it was occupied with memory.
    pub memory_ns: u64,
}

/// Memory by caller, for `show profiling memory`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile {
    /// The period of the measurement.
    pub span: Span,
    pub lines: Vec<MemoryLine>,
}

/// One caller that allocates or frees memory, with one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    /// `function@file:line`, or `[other]`.
    pub caller: String,
    /// Its address, to sort by; 0 for callers without one.
    pub address: usize,
    /// The kind of work that contained the call.
    pub context: Option<String>,
    /// The method: `malloc`, `realloc`, ...
    pub method: &'static str,
    /// How often it was given memory.
    pub allocations: u64,
    /// How often it gave some back.
    pub frees: u64,
    /// Bytes that it was given.
    pub allocated_bytes: u64,
    /// Bytes that it gave back.
    pub freed_bytes: u64,
}
