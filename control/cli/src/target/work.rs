//! Scheduling, memory and profiling statistics of the workers.

/// Operations on the workers.
pub trait WorkTarget {
    /// Counters of the workers.
    fn activity(&self) -> Activity;

    /// The tasks in the run queues. `None` until all workers have replied: call again when the session's task is woken.
    fn tasks(&mut self) -> Option<Tasks>;

    /// One view per worker. `None` until all workers have replied: call again when the session's task is woken.
    fn threads(&mut self) -> Option<Vec<ThreadView>>;

    /// The current profiling settings.
    fn profiling(&self) -> ProfilingState;

    /// Starts or stops a kind of profiling.
    fn set_profiling(&mut self, change: ProfilingChange);

    /// The CPU and waiting time by kind of task.
    fn task_profile(&self) -> TaskProfile;

    /// The costs of scripts, over the period of the task profile.
    fn script_profile(&self) -> ScriptProfile;

    /// Memory use by caller. `None` while it is computed. The target wakes the session's task when it is ready.
    fn memory_profile(&mut self) -> Option<MemoryProfile>;

    /// The contents of the workers' pools.
    fn pools(&self) -> Vec<PoolView>;

    /// Blocks the current worker for this time, without yielding.
    fn keep_busy(&mut self, milliseconds: u64);
}

/// Counters of the workers, for `show activity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of the worker that runs the command, from 1.
    pub thread: u32,
    /// The number of workers.
    pub threads: u32,
    /// Microseconds since the process started.
    pub uptime_us: u64,
    pub rows: Vec<ActivityRow>,
}

/// One counter, over all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    pub name: &'static str,
    /// The sum over all workers, or the average where a sum is meaningless.
    pub total: u64,
    /// The value on each worker.
    pub values: Vec<u64>,
}

/// The tasks in the run queues, for `show tasks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Tasks in all run queues.
    pub running: u64,
    /// The number of workers.
    pub threads: u32,
    /// The tasks by kind.
    pub rows: Vec<TaskRow>,
}

/// The queued tasks of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub kind: String,
    /// Number of queued tasks.
    pub places: u64,
    /// Total queueing delay of the measured tasks, in nanoseconds.
    pub latency_ns: u64,
    /// Number of tasks with a measured queueing delay.
    pub latencies: u64,
    /// How often these tasks ran while profiling was on.
    pub calls: u64,
}

/// One worker, for `show threads`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadView {
    /// The worker's number, from 1.
    pub number: u32,
    /// Whether this worker runs the command.
    pub answering: bool,
    /// Whether the worker did not reply in time. The counts are then those last published.
    pub silent: bool,
    /// Whether the worker is running a task.
    pub active: bool,
    /// Exact lengths of the run queues: urgent, normal, bulk, heavy (R4).
    pub queued: [u64; 4],
    /// Timers in the worker's wait queue.
    pub wait_queue: u64,
    /// Tasks that belong to the worker.
    pub tasks: u64,
    /// Iterations of the worker's event loop.
    pub loops: u64,
    /// Task runs on the worker.
    pub context_switches: u64,
    /// Whether task profiling is active on the worker.
    pub profiled: bool,
    /// CPU time used, in nanoseconds.
    pub cpu_ns: u64,
    /// The running task with its source position: `name@file:line`.
    pub current: Option<String>,
}

/// A memory pool, for `show pools`. Each worker has its own instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolView {
    pub name: &'static str,
    /// Size of one object, in bytes.
    pub size: u64,
    /// The pool's use on each worker.
    pub threads: Vec<PoolUse>,
}

/// A pool's use on one worker, at most one second old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Allocated objects: in use or cached.
    pub allocated: u64,
    /// Objects in use.
    pub used: u64,
    /// Moving average of the objects in use.
    pub needed: u64,
    /// Number of failed allocations.
    pub failures: u64,
}

/// When tasks are profiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measuring {
    /// Never.
    #[default]
    Off,
    /// On each worker, only while that worker is slow.
    Auto,
    On,
}

/// The current measurements, for `show profiling status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfilingState {
    pub tasks: Measuring,
    /// Whether profiling is active on the current worker.
    pub running: bool,
    /// Whether memory profiling is on.
    pub memory: bool,
}

/// A change of the profiling settings (`set profiling`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfilingChange {
    /// Task profiling. Turning it on discards earlier results.
    Tasks(Measuring),
    /// Whether to measure the time that tasks spend on locks.
    Locks(bool),
    /// Whether to measure the time that tasks spend on memory allocation.
    MemoryTime(bool),
    Memory(bool),
}

/// The period of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Length, in milliseconds.
    pub over_ms: u64,
    /// Time since its end, in milliseconds.
    pub ago_ms: u64,
}

/// CPU and waiting time by kind of task, for `show profiling tasks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProfile {
    /// The period of the measurement.
    pub span: Span,
    pub lines: Vec<TaskLine>,
}

/// The runs of one kind of task with the same waker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskLine {
    pub function: String,
    /// The function's address, as a sort key.
    pub address: usize,
    /// The waker: `place@file:line task_wakeup`.
    pub caller: Option<String>,
    /// Number of runs.
    pub calls: u64,
    /// CPU time of the runs, in nanoseconds.
    pub cpu_ns: u64,
    /// Measured queueing delay, in nanoseconds.
    pub latency_ns: u64,
    /// Number of runs with a measured queueing delay.
    pub latencies: u64,
    /// Time spent waiting for locks, in nanoseconds.
    pub lock_wait_ns: u64,
    /// Time during which locks were held, in nanoseconds.
    pub lock_held_ns: u64,
    /// Time spent on memory allocation, in nanoseconds.
    pub memory_ns: u64,
}

/// The costs of scripts, for `show profiling tasks`. Those of the longest time come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptProfile {
    /// Runs of functions, by name and by the place of the function.
    pub functions: Vec<ScriptCostLine>,
    /// Samples of CPU time by the line that ran. Without names.
    pub lines: Vec<ScriptCostLine>,
    /// Calls that blocked their thread, by function and by the line that called.
    pub blocking: Vec<ScriptCostLine>,
}

/// The sum of the costs of one name at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCostLine {
    pub name: String,
    /// `file:line`
    pub place: String,
    /// Calls, samples, or parts of runs between two waits.
    pub calls: u64,
    pub time_ns: u64,
    /// Time spent waiting for a state that other threads used, in nanoseconds.
    pub waited_ns: u64,
    /// Bytes that runs allocated in Lua, also those that were freed again.
    pub allocated: u64,
}

/// Memory use by caller, for `show profiling memory`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile {
    /// The period of the measurement.
    pub span: Span,
    pub lines: Vec<MemoryLine>,
}

/// One caller of one allocation or free method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    /// `function@file:line`, or `[other]`.
    pub caller: String,
    /// The caller's address, as a sort key. 0 if unknown.
    pub address: usize,
    /// The kind of task in which the call was made.
    pub context: Option<String>,
    /// The method: `malloc`, `realloc`, ...
    pub method: &'static str,
    pub allocations: u64,
    pub frees: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
}
