//! The process: its counters, limits, environment, variables, workers.

use std::sync::Arc;

use weir_events::trace::commands::Traces;
use weir_events::{Sinks, WallTime};
use weir_formats::CivilTime;
use weir_stats::StatsSource;
use weir_stats::name_server::COUNTERS;
use weir_sync::Ring;
use weir_sync::ring::WakeReader;

use crate::level::Level;

/// Process-wide operations of the runtime API.
pub trait ProcessTarget {
    /// Where `show stat` and `show info` read.
    fn stats(&self) -> &dyn StatsSource;

    /// The version, as `show version` prints it.
    fn version(&self) -> String;

    /// How many seconds the process has been running.
    fn uptime_s(&self) -> u64;

    /// The wall clock now.
    fn wall_time(&self) -> WallTime;

    /// A time as a local date.
    fn local_date(&self, time: WallTime) -> CivilTime;

    /// The sockets that the runtime API listens on.
    fn cli_sockets(&self) -> Vec<CliSocket>;

    /// The environment, `NAME=value` each, sorted or not.
    fn environment(&self) -> Vec<String>;

    /// The log messages of the start.
    fn startup_logs(&self) -> String;

    /// Where events end.
    fn sinks(&self) -> &Sinks;

    /// The trace sources.
    fn traces(&self) -> Traces<'_>;

    /// The timelines of the workers: streams that ended badly or slowly.
    fn timelines(&self) -> &[Arc<Ring>];

    /// The waker of the session's task.
    fn waker(&self) -> WakeReader;

    /// The `resolvers` sections, each with its name servers, in the order of the configuration.
    fn resolvers(&self) -> Vec<(String, Vec<NameServerView>)>;

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

/// The counters of a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServerView {
    pub name: String,
    /// Their values, in the order of [`COUNTERS`].
    pub counters: [u64; COUNTERS.len()],
}

/// A socket of the runtime API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSocket {
    /// `unix@/path`, `ipv4@127.0.0.1:9999`, ...
    pub address: String,
    /// The level of its sessions.
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
    /// TLS connections of clients per second; 0 for no limit.
    TlsRate,
}

/// The source of a variable's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableSource<'a> {
    /// The result of a sample expression.
    Expression(&'a str),
    /// The result of a log-format string.
    Format(&'a str),
}
