//! What is known of the process beside its instance: how it was started, with what, and what only operators ask for.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_checks::Checks;
use weir_cli::{Level, SeverityOutput};
use weir_config::model::{self, Bind, Global};
use weir_events::LogSink;
use weir_expr::{PatternStore, Registry, VariableNames};
use weir_mail::Mailers;
use weir_net::ConnectionLimit;
use weir_resolvers::Resolvers;
use weir_sync::{CachePadded, Ring};
use weir_sys::Address;

use super::pulse::Pulse;
use crate::build::{CheckMeans, Events, LiveTls};
use crate::life::Life;
use crate::messages::Messages;

/// What is known of the process beside its instance. Made at start, before any worker runs, and kept for ever.
pub struct ProcessRecord {
    /// What `show version` prints.
    pub version: String,
    /// When this version was made: `2026/11/20`.
    pub release_date: String,
    /// `description` of the global section.
    pub description: Option<String>,
    /// The sets of patterns, as the configuration loaded them.
    pub patterns: Arc<PatternStore>,
    /// The names of variables, as the configuration mentioned them.
    pub variable_names: Arc<VariableNames>,
    /// The fetches that expressions may use.
    pub registry: Arc<Registry>,
    /// The environment, `NAME=value` each.
    pub environment: Vec<String>,
    /// What was said at start, and where to say what happens.
    pub messages: Option<&'static Messages>,
    /// The limits that the process was made for.
    pub limits: RecordedLimits,
    /// When the process started, in milliseconds of the workers' clock.
    pub started_ms: u64,
    /// How long it took until it was ready, in milliseconds. Set once it is.
    pub boot_ms: OnceLock<u32>,
    /// Where events end, and where rings are forwarded to.
    pub events: Events,
    /// The timeline of each worker.
    pub timelines: Vec<Arc<Ring>>,
    /// Where the global section logs to.
    pub log_sinks: Vec<Arc<LogSink>>,
    /// The sockets of the runtime API. Set once they are open.
    pub cli_sockets: OnceLock<Vec<CliSocket>>,
    /// The process while it serves: it pauses and stops frontends. Set before anything is served.
    pub life: OnceLock<&'static Life>,
    /// The checks of servers. Set before anything is served.
    pub checks: OnceLock<&'static Checks>,
    /// Who resolves names. Set before anything is served.
    pub resolvers: OnceLock<&'static Resolvers>,
    /// What checks of servers are made with.
    pub check_means: CheckMeans,
    /// Where mails about servers go, by the names of sections.
    pub mailers: HashMap<Arc<str>, Mailers>,
    /// Connections to the runtime API, and who waits for one to end.
    pub cli_connections: &'static ConnectionLimit,
    /// `stats maxconn`: how many of them there may be.
    pub cli_connections_limit: u32,
    /// Whether workers may take each other's idle connections.
    pub shares_idle: bool,
    /// What TLS is made of. Set with the instance.
    pub tls: OnceLock<LiveTls>,
    /// What each worker measures once a second.
    pub pulses: Vec<CachePadded<Pulse>>,
}

/// The limits that the process was made for. What changes at run time is in the instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedLimits {
    /// `maxconn`, configured or computed.
    pub connections: u32,
    /// The most connections that the descriptors allow.
    pub connections_hard: u32,
    /// How many descriptors the process may open.
    pub open_files: u32,
    /// How many sockets it may need at most.
    pub sockets: u32,
    /// `maxpipes`, 0 for none.
    pub pipes: u32,
    /// The most memory that it may use, in bytes; 0 for no limit.
    pub memory: u64,
}

impl ProcessRecord {
    /// A record of a process that starts now and has so many workers, with nothing else known.
    pub fn new(workers: usize) -> Self {
        ProcessRecord {
            version: format!("{}-weir{}", crate::LANGUAGE, crate::VERSION),
            release_date: crate::RELEASE_DATE.to_owned(),
            description: None,
            patterns: Arc::default(),
            variable_names: Arc::default(),
            registry: Arc::new(Registry::new(weir_stream::fetch::declarations())),
            environment: Vec::new(),
            messages: None,
            limits: RecordedLimits::default(),
            started_ms: weir_sched::now().as_ms(),
            boot_ms: OnceLock::new(),
            events: Events::default(),
            timelines: (0..workers.max(1)).map(|_| Ring::in_memory(TIMELINE_SIZE, 1)).collect(),
            log_sinks: Vec::new(),
            cli_sockets: OnceLock::new(),
            life: OnceLock::new(),
            checks: OnceLock::new(),
            resolvers: OnceLock::new(),
            check_means: CheckMeans::default(),
            mailers: HashMap::new(),
            cli_connections: Box::leak(Box::default()),
            cli_connections_limit: Global::default().stats_maxconn,
            shares_idle: true,
            tls: OnceLock::new(),
            pulses: (0..workers.max(1)).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The sockets of the runtime API.
    pub fn cli_sockets(&self) -> &[CliSocket] {
        self.cli_sockets.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The record of a whole process: it lives as long as the process.
    pub fn publish(self) -> &'static Self {
        Box::leak(Box::new(self))
    }
}

/// One socket of the runtime API.
#[derive(Debug)]
pub struct CliSocket {
    /// How it is spoken there.
    pub settings: CliSettings,
    /// Its clients, and who waits for one to leave.
    pub connections: ConnectionLimit,
}

impl CliSocket {
    /// The socket of a `stats socket` line that has this address.
    pub fn new(bind: &Bind, global: &Global, address: &Address) -> Self {
        CliSettings::new(bind, global, address).into()
    }
}

/// How the runtime API is spoken on one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSettings {
    /// What `show cli sockets` prints: `unix@/path`, `ipv4@127.0.0.1:9999`.
    pub address: String,
    /// What its clients may do.
    pub level: Level,
    /// Whether messages say their severity.
    pub severity_output: SeverityOutput,
    /// How long a client may say nothing.
    pub timeout: Duration,
    /// `maxconn` of the line.
    pub connections: Option<u32>,
    /// The longest line, in bytes.
    pub longest_line: usize,
    /// The longest payload, in bytes.
    pub longest_payload: usize,
    /// `expose-fd listeners`: its clients may have the listening sockets.
    pub exposes_listeners: bool,
}

impl From<CliSettings> for CliSocket {
    fn from(settings: CliSettings) -> Self {
        CliSocket { settings, connections: ConnectionLimit::new() }
    }
}

impl CliSettings {
    /// What a `stats socket` line says, for the socket of it that has this address.
    pub fn new(bind: &Bind, global: &Global, address: &Address) -> Self {
        CliSettings {
            address: spelled(address),
            level: match bind.options.level {
                Some(model::Level::User) => Level::User,
                Some(model::Level::Admin) => Level::Admin,
                // Without the word, a socket is an operator's (manual, "stats socket").
                Some(model::Level::Operator) | None => Level::Operator,
            },
            severity_output: match bind.options.severity_output {
                model::SeverityOutput::None => SeverityOutput::None,
                model::SeverityOutput::Number => SeverityOutput::Number,
                model::SeverityOutput::String => SeverityOutput::Text,
            },
            timeout: global.stats_timeout,
            connections: bind.options.maxconn,
            longest_line: global.tuning.buffer_size as usize,
            longest_payload: LONGEST_PAYLOAD,
            exposes_listeners: bind.options.expose_listeners,
        }
    }
}

/// An address as a configuration would write it.
pub fn spelled(address: &Address) -> String {
    match address {
        Address::Inet(SocketAddr::V4(_)) => format!("ipv4@{address}"),
        Address::Inet(SocketAddr::V6(address)) => format!("ipv6@[{}]:{}", address.ip(), address.port()),
        Address::Unix(path) => format!("unix@{}", path.display()),
        Address::Abstract(_) => address.to_string(),
        Address::Unnamed => "unknown".to_owned(),
    }
}

/// What each worker keeps of streams that ended badly or slowly: some hundreds of them.
const TIMELINE_SIZE: usize = 64 << 10;
/// The longest payload of a command: maps of that many bytes can be added at once.
pub const LONGEST_PAYLOAD: usize = 131_072;
