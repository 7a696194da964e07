//! Process state outside the instance: how the process was started, and state used only by operators.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use weir_assemble::{CheckMeans, EventSinks, LivePeers, LiveRelays, LiveTls};
use weir_checks::Checks;
use weir_cli::{Level, SeverityOutput};
use weir_events::LogSink;
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_mail::Mailers;
use weir_model::{Bind, Global};
use weir_net::ConnectionLimit;
use weir_resolvers::Resolvers;
use weir_scripts::Scripts;
use weir_stream::instance::Proxy;
use weir_sync::{CachePadded, Ring};
use weir_sys::Address;
use weir_tls::ChooseServer;

use super::ocsp_updates::OcspRenewals;
use super::pulse::Pulse;
use crate::messages::Messages;

/// Process state outside the instance. Created after the objects that it refers to and before any worker runs. Never freed.
pub struct ProcessRecord {
    /// The output of `show version`.
    pub version: String,
    /// The release date of this version: `2026/11/20`.
    pub release_date: String,
    /// `description` of the global section.
    pub description: Option<String>,
    /// The pattern sets loaded by the configuration.
    pub patterns: Arc<PatternStore>,
    /// The public keys loaded from files.
    pub token_keys: TokenKeys,
    /// The scripts of the configuration.
    pub scripts: Option<Arc<Scripts>>,
    /// The names of the variables in the configuration.
    pub variable_names: Arc<VariableNames>,
    /// The available sample fetches.
    pub registry: Arc<Registry>,
    /// The environment, `NAME=value` each.
    pub environment: Vec<String>,
    /// The startup messages, and the output for further messages.
    pub messages: Option<&'static Messages>,
    pub limits: RecordedLimits,
    /// Start time of the process, in milliseconds of the workers' clock.
    pub started_ms: u64,
    /// Startup time, in milliseconds. 0 until the process is ready.
    pub boot_ms: AtomicU32,
    /// The event sinks, and the servers of rings.
    pub events: EventSinks,
    /// The timeline of each worker.
    pub timelines: Vec<Arc<Ring>>,
    /// The log targets of the global section.
    pub log_sinks: Vec<Arc<LogSink>>,
    /// The tag of the global section's log lines.
    pub log_tag: Arc<[u8]>,
    /// The sockets of the runtime API.
    pub cli_sockets: Vec<Arc<CliSocket>>,
    /// Pauses and stops frontends. Like all optional fields below, `None` in a process without listening sockets.
    pub frontends: Option<Arc<dyn FrontendSwitch>>,
    /// `log-forward` sections.
    pub relays: Option<Arc<LiveRelays>>,
    pub peers: Arc<LivePeers>,
    /// The health and agent checks of servers.
    pub checks: Option<Arc<Checks>>,
    pub resolvers: Option<Arc<Resolvers>>,
    /// Objects used by health checks.
    pub check_means: CheckMeans,
    /// Mail servers by section name.
    pub mailers: HashMap<Arc<str>, Mailers>,
    /// The number of runtime API connections now, its maximum, and the tasks that wait for room.
    pub cli_connections: Arc<ConnectionLimit>,
    /// `stats maxconn`: the limit of `cli_connections`.
    pub cli_connections_limit: u32,
    /// Whether workers may use idle connections of other workers.
    pub shares_idle: bool,
    /// The secret token for forms on the statistics page.
    pub form_token: String,
    /// Renews OCSP responses and sends HTTP requests for operators.
    pub ocsp_updates: Option<Arc<OcspRenewals>>,
    pub tls: Option<Arc<LiveTls>>,
    /// The measurements of each worker.
    pub pulses: Vec<CachePadded<Pulse>>,
}

/// The limits of the process at start. The limits that can change at run time are in the instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedLimits {
    /// `maxconn`, configured or computed.
    pub connections: u32,
    /// The maximum of connections allowed by the descriptor limit.
    pub connections_hard: u32,
    /// The limit of open file descriptors.
    pub open_files: u32,
    /// The maximum number of sockets that the process may need.
    pub sockets: u32,
    /// `maxpipes`. 0 without a limit.
    pub pipes: u32,
    /// The memory limit, in bytes. 0 without one.
    pub memory: u64,
}

/// A random 128-bit number as hexadecimal digits.
fn random_token() -> String {
    let mut bytes = [0; 16];
    // The kernel waits for entropy. The call fails only for invalid pointers.
    weir_sys::random::fill(&mut bytes).expect("the kernel gives random numbers");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

impl ProcessRecord {
    /// The record of a process that starts now with this many workers. Nothing is served yet.
    pub fn new(workers: usize) -> Self {
        ProcessRecord {
            version: format!("{}-weir{}", crate::LANGUAGE, crate::VERSION),
            release_date: crate::RELEASE_DATE.to_owned(),
            description: None,
            patterns: Arc::default(),
            token_keys: TokenKeys::new(),
            scripts: None,
            variable_names: Arc::default(),
            registry: Arc::new(Registry::new(weir_vocabulary::fetch::declarations())),
            environment: Vec::new(),
            messages: None,
            limits: RecordedLimits::default(),
            started_ms: weir_sched::now().as_ms(),
            boot_ms: AtomicU32::new(0),
            events: EventSinks::default(),
            timelines: (0..workers.max(1)).map(|_| Ring::in_memory(TIMELINE_SIZE, 1)).collect(),
            log_sinks: Vec::new(),
            log_tag: weir_assemble::DEFAULT_TAG.as_bytes().into(),
            cli_sockets: Vec::new(),
            frontends: None,
            relays: None,
            peers: Arc::default(),
            checks: None,
            resolvers: None,
            check_means: CheckMeans::default(),
            mailers: HashMap::new(),
            cli_connections: Arc::default(),
            cli_connections_limit: Global::default().stats_maxconn,
            shares_idle: true,
            form_token: random_token(),
            ocsp_updates: None,
            tls: None,
            pulses: (0..workers.max(1)).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The TLS objects. `None` in a process without listening sockets.
    pub fn tls(&self) -> Option<&LiveTls> {
        self.tls.as_deref()
    }
}

/// Pauses, resumes and stops frontends. A trait, because the listening sockets belong to a higher-level crate.
pub trait FrontendSwitch: Send + Sync {
    /// `disable frontend`.
    fn pause(&self, proxy: &Proxy);

    /// `enable frontend`. `false` if another process has bound the address.
    fn resume(&self, proxy: &Proxy) -> bool;

    /// `shutdown frontend`.
    fn stop(&self, proxy: &Proxy);
}

/// One socket of the runtime API.
#[derive(Debug)]
pub struct CliSocket {
    pub settings: CliSettings,
    /// Whether every connection begins with a PROXY protocol header.
    pub accept_proxy: bool,
    /// The TLS settings. `None` for plain text. The PROXY header precedes the TLS handshake.
    pub tls: Option<Arc<dyn ChooseServer>>,
    /// The number of connections on this socket now, its maximum, and the tasks that wait for room. The limit is in
    /// `settings.connections`.
    pub connections: Arc<ConnectionLimit>,
}

impl CliSocket {
    /// The socket of a `stats socket` line, bound to this address.
    pub fn new(bind: &Bind, global: &Global, address: &Address, tls: Option<&LiveTls>) -> Self {
        let tls = tls.and_then(|tls| tls.listener(bind));
        CliSocket {
            accept_proxy: bind.options.accept_proxy,
            tls: tls.map(|listener| listener as Arc<dyn ChooseServer>),
            ..CliSettings::new(bind, global, address).into()
        }
    }
}

/// The settings of sessions on one socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CliSettings {
    /// The socket's address as in `show cli sockets`: `unix@/path`, `ipv4@127.0.0.1:9999`.
    pub address: String,
    /// The access level of clients.
    pub level: Level,
    /// Whether messages begin with their severity.
    pub severity_output: SeverityOutput,
    pub timeout: Duration,
    /// `maxconn` of the line.
    pub connections: Option<u32>,
    /// Maximum length of a command line, in bytes.
    pub longest_line: usize,
    /// Maximum length of a payload, in bytes.
    pub longest_payload: usize,
    /// `expose-fd listeners`: whether clients may receive the listening sockets.
    pub exposes_listeners: bool,
}

impl From<CliSettings> for CliSocket {
    fn from(settings: CliSettings) -> Self {
        CliSocket { settings, accept_proxy: false, tls: None, connections: Arc::default() }
    }
}

impl CliSettings {
    /// The settings of a `stats socket` line for a socket with this address.
    pub fn new(bind: &Bind, global: &Global, address: &Address) -> Self {
        CliSettings {
            address: spelled(address),
            level: match bind.options.level {
                Some(weir_model::Level::User) => Level::User,
                Some(weir_model::Level::Admin) => Level::Admin,
                // The default level is operator (manual, "stats socket").
                Some(weir_model::Level::Operator) | None => Level::Operator,
            },
            severity_output: match bind.options.severity_output {
                weir_model::SeverityOutput::None => SeverityOutput::None,
                weir_model::SeverityOutput::Number => SeverityOutput::Number,
                weir_model::SeverityOutput::String => SeverityOutput::Text,
            },
            timeout: global.stats_timeout,
            connections: bind.options.maxconn,
            longest_line: global.tuning.buffer_size as usize,
            longest_payload: LONGEST_PAYLOAD,
            exposes_listeners: bind.options.expose_listeners,
        }
    }
}

/// The address in configuration syntax.
pub fn spelled(address: &Address) -> String {
    match address {
        Address::Inet(SocketAddr::V4(_)) => format!("ipv4@{address}"),
        Address::Inet(SocketAddr::V6(address)) => format!("ipv6@[{}]:{}", address.ip(), address.port()),
        Address::Unix(path) => format!("unix@{}", path.display()),
        Address::Abstract(_) => address.to_string(),
        Address::Unnamed => "unknown".to_owned(),
    }
}

/// Size of each worker's timeline, in bytes: enough for some hundred streams.
const TIMELINE_SIZE: usize = 64 << 10;
/// Maximum length of a command's payload, in bytes. Maps of this size can be added in one command.
pub const LONGEST_PAYLOAD: usize = 131_072;
