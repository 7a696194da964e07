//! The process: its figures, limits, environment, variables, workers.

use weir_events::{CivilTime, Sinks, WallTime};
use weir_stats::StatsSource;
use weir_sync::ring::Wake;

use crate::outcome::Level;

/// What commands ask of the process as a whole.
pub trait ProcessTarget {
    /// Where `show stat` and `show info` read.
    fn stats(&self) -> &dyn StatsSource;

    /// The version, as `show version` prints it.
    fn version(&self) -> String;

    /// The wall clock now.
    fn wall_time(&self) -> WallTime;

    /// A time as a local date.
    fn local_date(&self, time: WallTime) -> CivilTime;

    /// The sockets that the runtime API listens on.
    fn cli_sockets(&self) -> Vec<CliSocket>;

    /// The environment, `NAME=value` each, sorted or not.
    fn environment(&self) -> Vec<String>;

    /// What was logged at start.
    fn startup_logs(&self) -> String;

    /// Where events end.
    fn sinks(&self) -> &Sinks;

    /// What wakes the session's task.
    fn waker(&self) -> Wake;

    /// Counters of the workers.
    fn activity(&self) -> Activity;

    /// What waits in the run queues.
    fn tasks(&self) -> Tasks;

    /// One view per worker.
    fn threads(&self) -> Vec<ThreadView>;

    /// Changes a limit of the process. `Maxconn` 0 restores the configured one; false when it is above the configured
    /// one, which sized the process.
    fn set_limit(&mut self, limit: Limit, value: u32) -> bool;

    /// `clear counters`: the maxima, or everything with `all`.
    fn clear_counters(&mut self, all: bool);

    /// Type and value of a variable of scope `proc`, as text: `("sint", "5")`. `None` when it does not exist.
    fn variable(&self, name: &str) -> Option<(String, String)>;

    /// Sets a variable of scope `proc`. The error is a text for the operator, without newline.
    fn set_variable(&mut self, name: &str, source: VariableSource<'_>) -> Result<(), String>;
}

/// A socket of the runtime API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSocket {
    /// `unix@/path`, `ipv4@127.0.0.1:9999`, ...
    pub address: String,
    /// What its sessions may do.
    pub level: Level,
}

/// A limit of the process that can change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Connections at a time.
    Maxconn,
    /// Connections a second; 0 for no limit.
    ConnectionRate,
    /// Sessions a second; 0 for no limit.
    SessionRate,
}

/// What a variable is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableSource<'a> {
    /// The result of a sample expression.
    Expression(&'a str),
    /// The result of a log-format string.
    Format(&'a str),
}

/// Counters of the workers, for `show activity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The number of the worker that answers, from 1.
    pub thread: u32,
    /// How many workers there are.
    pub threads: u32,
    /// Microseconds since the start of the process.
    pub uptime_us: u64,
    /// One counter each.
    pub rows: Vec<ActivityRow>,
}

/// One counter of all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityRow {
    /// Its name.
    pub name: &'static str,
    /// Its sum, or its average if a sum makes no sense.
    pub total: u64,
    /// Its value on each worker.
    pub values: Vec<u64>,
}

/// What waits in the run queues, for `show tasks`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Units of work in all run queues.
    pub running: u64,
    /// How many workers there are.
    pub threads: u32,
    /// By kind of work.
    pub rows: Vec<TaskRow>,
}

/// One kind of work in the run queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Its name.
    pub kind: String,
    /// How many units of it wait.
    pub places: u64,
    /// How often its units ran in all.
    pub calls: u64,
}

/// One worker, for `show threads`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadView {
    /// Its number, from 1.
    pub number: u32,
    /// Whether it is the one that answers.
    pub answering: bool,
    /// Whether it is running something.
    pub active: bool,
    /// Tasks and tasklets in its run queue, exactly (R4).
    pub run_queue: u64,
    /// Timers in its wait queue.
    pub wait_queue: u64,
    /// Turns of its loop.
    pub loops: u64,
    /// Units of work that it ran.
    pub context_switches: u64,
    /// CPU time used, in nanoseconds.
    pub cpu_ns: u64,
}
