//! Process-wide state: counters, limits, environment, variables, workers.

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
    /// The source of `show stat` and `show info`.
    fn stats(&self) -> &dyn StatsSource;

    /// The output of `show version`.
    fn version(&self) -> String;

    /// Seconds since the process started.
    fn uptime_s(&self) -> u64;

    /// The current time of the wall clock.
    fn wall_time(&self) -> WallTime;

    /// Converts a time to the local date.
    fn local_date(&self, time: WallTime) -> CivilTime;

    /// The sockets of the runtime API.
    fn cli_sockets(&self) -> Vec<CliSocket>;

    /// The environment as `NAME=value`, in any order.
    fn environment(&self) -> Vec<String>;

    /// The messages logged during startup.
    fn startup_logs(&self) -> String;

    /// The event sinks.
    fn sinks(&self) -> &Sinks;

    /// The trace sources.
    fn traces(&self) -> Traces<'_>;

    /// The workers' timelines of failed or slow streams.
    fn timelines(&self) -> &[Arc<Ring>];

    /// Wakes the session's task on new events.
    fn waker(&self) -> WakeReader;

    /// The `resolvers` sections with their name servers, in configuration order.
    fn resolvers(&self) -> Vec<(String, Vec<NameServerView>)>;

    /// Changes a process limit. `Maxconn` 0 restores the configured value. False if the value exceeds the configured one, for which
    /// the process was dimensioned.
    fn set_limit(&mut self, limit: Limit, value: u32) -> bool;

    /// `clear counters`: resets the maxima, or all counters with `all`.
    fn clear_counters(&mut self, all: bool);

    /// Type and value of a variable of scope `proc`, as text: `("sint", "5")`. `None` if it does not exist.
    fn variable(&self, name: &str) -> Option<(String, String)>;

    /// Sets a variable of scope `proc`. The error is a message for the operator, without a newline.
    fn set_variable(&mut self, name: &str, source: VariableSource<'_>) -> Result<(), String>;
}

/// The counters of a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServerView {
    pub name: String,
    /// The counter values, in the order of [`COUNTERS`].
    pub counters: [u64; COUNTERS.len()],
}

/// A socket of the runtime API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSocket {
    /// `unix@/path`, `ipv4@127.0.0.1:9999`, ...
    pub address: String,
    /// The access level of the socket.
    pub level: Level,
}

/// A process limit that can change at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Concurrent connections.
    Maxconn,
    /// Connections per second. 0 for no limit.
    ConnectionRate,
    /// Sessions per second. 0 for no limit.
    SessionRate,
    /// Client TLS connections per second. 0 for no limit.
    TlsRate,
    /// `maxcomprate`, in kilobytes per second.
    CompressionRate,
}

/// The source of a variable's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableSource<'a> {
    /// The result of a sample expression.
    Expression(&'a str),
    /// The result of a log-format string.
    Format(&'a str),
}
