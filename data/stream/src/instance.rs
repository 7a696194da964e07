//! The state shared by all workers: the proxies with their live state, and the global settings.
//!
//! Workers refer to an instance by the types of `references.rs`.

pub mod application;
pub mod engine;
pub mod names;
mod references;
pub mod service;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use weir_backend::counters::{BackendCounters, FrontendCounters, ListenerCounters, ProcessRates};
use weir_backend::{Backend, ServerKey};
use weir_compression::EncoderMemory;
use weir_events::LogSink;
use weir_expr::{ObjectLookup, ProcessFacts, TimeZone, Value, VariableStore};
use weir_model::{
    Bind, CompressionTuning, LoggedErrors, Mode, Proxy as ProxyConfig, RulesetKind, Server as ServerConfig,
    StatusCodes, Userlist,
};
use weir_net::{ConnectionLimit, SocketSizes};
use weir_sched::TaskKey;
use weir_tables::Table;
use weir_vocabulary::{Objects, ViewedProxy, server_by_name};

use crate::closing::ClosingWindow;
use crate::process_counters::ProcessCounters;
use crate::variables::VariableLimits;
use application::Application;
use engine::AgentEngine;
pub use references::{LocalInstance, ProxyRef, WorkerInstance, local};
use service::Statistics;

/// The state shared by all workers.
pub struct Instance {
    /// The limits of the global section.
    pub limits: ProcessLimits,
    /// Facts about the process that logs and samples show.
    pub identity: InstanceIdentity,
    /// All proxies, in the order of the configuration.
    pub proxies: Vec<Proxy>,
    /// The frontend of sub-requests, which is not one of `proxies`. It accepts no connections and has one listener without a socket.
    pub subrequests: Proxy,
    /// Index in `proxies` of each proxy with a backend side, by name.
    pub backends: HashMap<Box<str>, usize>,
    /// Index in `proxies` of each proxy with a frontend side, by name.
    pub frontends: HashMap<Box<str>, usize>,
    /// The process-wide counters, one set per worker.
    pub process_counters: Vec<Arc<weir_sync::CachePadded<ProcessCounters>>>,
    /// The rates of connections and sessions of the process.
    pub rates: ProcessRates,
    /// The number of client connections of all frontends now, its maximum, and the tasks that wait for room.
    pub connections: Arc<ConnectionLimit>,
    /// A soft stop is in progress. Connections close after the current response.
    pub stopping: AtomicBool,
    /// When connections close during a soft stop.
    pub closing: ClosingWindow,
    /// During a soft stop, an idle client keeps its connection until its next request is answered. Set when another process accepts new
    /// connections meanwhile, and nothing waits for this process to exit.
    pub keeps_quiet_clients: AtomicBool,
    /// Stick-tables, in the order of the configuration.
    pub tables: Vec<Arc<Table>>,
    /// Userlists, in the order of the configuration.
    pub userlists: Vec<Userlist>,
    /// Pipes for bodies (`tune.pipesize`, `maxpipes`).
    pub pipes: Arc<weir_mux::Pipes>,
    /// Variables of scope `proc`.
    pub process_variables: RwLock<VariableStore>,
    /// Size of the variables of all sessions, in bytes. Counted only with a limit for the process.
    pub variable_bytes: Arc<AtomicUsize>,
    /// Refused messages, for `show errors`.
    pub refused: crate::errors::RefusedMessages,
    /// The settings and limits of compression.
    pub compression: CompressionLimits,
    /// Functions of higher-level crates, called by streams.
    pub hooks: Hooks,
}

/// The settings of compression, and its limits over all workers.
#[derive(Debug)]
pub struct CompressionLimits {
    /// The settings of the global section.
    pub tuning: CompressionTuning,
    /// `maxcomprate` in kilobytes per second, 0 for none. The runtime API can change it.
    pub rate_limit: AtomicU32,
    /// `maxzlibmem`.
    pub memory: Arc<EncoderMemory>,
}

impl CompressionLimits {
    /// The limits of these settings.
    pub fn new(tuning: CompressionTuning) -> Self {
        let bytes = usize::try_from(u64::from(tuning.memory_limit) << 20).unwrap_or(usize::MAX);
        CompressionLimits {
            tuning,
            rate_limit: AtomicU32::new(tuning.rate_limit),
            memory: Arc::new(EncoderMemory::new(bytes)),
        }
    }
}

/// Functions of higher-level crates, called by streams. All are optional.
#[derive(Default)]
pub struct Hooks {
    /// Serves the statistics page and the Prometheus exporter.
    pub statistics: Option<Box<dyn Statistics>>,
    /// Called when traffic changes the state of a server.
    pub news: Option<NewsListener>,
    /// Resolves names for rules.
    pub names: Option<Box<dyn names::NameResolver>>,
    /// The scripts of the configuration.
    pub scripts: Option<Arc<weir_scripts::Scripts>>,
}

impl Instance {
    /// Sets the hooks, before the instance is shared.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Hooks) -> Instance {
        self.hooks = hooks;
        self
    }
}

impl Objects for Instance {
    fn connections(&self) -> u32 {
        self.connections.inside()
    }

    fn buffer_size(&self) -> usize {
        self.limits.buffer_size
    }

    fn proxy(&self, position: usize) -> Option<ViewedProxy<'_>> {
        self.proxies.get(position).map(Proxy::viewed)
    }

    fn backend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>> {
        Instance::backend_by_name(self, name).map(Proxy::viewed)
    }

    fn frontend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>> {
        Instance::frontend_by_name(self, name).map(Proxy::viewed)
    }

    fn table(&self, position: u32) -> Option<&Table> {
        self.tables.get(position as usize).map(|table| &**table)
    }

    fn userlist(&self, position: u32) -> Option<&Userlist> {
        self.userlists.get(position as usize)
    }
}

/// Called with each change of a server's state.
pub type NewsListener = Box<dyn Fn(weir_backend::BackendNews) + Send + Sync>;

/// The limits of the global section. Limits that the runtime API can change are atomic.
#[derive(Debug)]
pub struct ProcessLimits {
    /// `tune.bufsize`.
    pub buffer_size: usize,
    /// `tune.maxrewrite`: this many bytes of a buffer are reserved for edits.
    pub rewrite_reserve: usize,
    /// `tune.http.maxhdr`.
    pub header_count: u16,
    /// `tune.http.logurilen`.
    pub log_uri_length: usize,
    /// `tune.http.cookielen`.
    pub cookie_length: usize,
    /// `maxconn` of the process.
    pub connections: Arc<AtomicU32>,
    /// `maxconnrate`, 0 for none.
    pub connection_rate: AtomicU32,
    /// `maxsessrate`, 0 for none.
    pub session_rate: AtomicU32,
    /// `maxsslrate`, 0 for none.
    pub tls_rate: AtomicU32,
    /// `h1-accept-payload-with-any-method` and relatives.
    pub h1: weir_mux::HeadOptions,
    /// `tune.h2.*`: limits of clients' HTTP/2 connections.
    pub h2: weir_mux::ConnectionLimits,
    /// Limits on the work of a client's HTTP/2 connection per scheduling round.
    pub h2_pace: weir_mux::Pace,
    /// The errors of clients' HTTP/2 connections that are logged.
    pub h2_logged_errors: LoggedErrors,
    /// Limits of HTTP/2 connections to servers.
    pub h2_server: weir_mux::ConnectionLimits,
    /// Limits on the work of a server's HTTP/2 connection per scheduling round.
    pub h2_server_pace: weir_mux::Pace,
    /// `h1-case-adjust`: the case of field names for non-compliant peers.
    pub header_case: Option<weir_http::CaseMap>,
    /// `tune.*.server`: sizes of the kernel's buffers for connections to servers.
    pub server_sockets: SocketSizes,
    /// Kernel buffer sizes of client sockets. Connections inherit them from their listener, except UNIX sockets and sockets opened by
    /// another process.
    pub client_sockets: SocketSizes,
    /// `tune.vars.*`.
    pub variables: VariableLimits,
    /// `http-err-codes`: statuses that count as errors of clients.
    pub error_codes: StatusCodes,
    /// `http-fail-codes`: statuses that count as failures of servers.
    pub failure_codes: StatusCodes,
    /// Descriptor counts above which idle server connections are closed.
    pub descriptors: DescriptorMarks,
}

/// Numbers of descriptors in use above which idle server connections are closed.
///
/// The kernel assigns the lowest free descriptor number. So the number of a new descriptor shows how many are in use, without a system
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorMarks {
    /// Above this, a connection is not kept idle (`tune.pool-low-fd-ratio`).
    pub low: u32,
    /// Above this, each new connection closes an idle one (`tune.pool-high-fd-ratio`).
    pub high: u32,
    /// Above this, each accepted client closes an idle server connection.
    pub short: u32,
}

/// Above this percentage, descriptors are short. The rest is for checks, logs, operators and files.
const SHORT_PERCENT: u8 = 95;

impl DescriptorMarks {
    /// The marks at these percentages of `all` descriptors.
    pub fn of(all: u32, low_percent: u8, high_percent: u8) -> Self {
        let part = |percent: u8| (u64::from(all) * u64::from(percent) / 100) as u32;
        DescriptorMarks { low: part(low_percent), high: part(high_percent), short: part(SHORT_PERCENT) }
    }
}

impl ProcessLimits {
    /// The HTTP/1 parser options.
    #[inline]
    pub fn h1_options(&self, accept_unsafe_violations: bool) -> weir_mux::HeadOptions {
        weir_mux::HeadOptions { accept_unsafe_violations, ..self.h1 }
    }

    /// The size limit of a message head, in bytes.
    #[inline]
    pub fn head_limit(&self) -> usize {
        self.buffer_size.saturating_sub(self.rewrite_reserve)
    }

    /// Maximum bytes of a body held after its head, for rules that examine it.
    pub fn body_limit(&self, head: &weir_http::Head) -> usize {
        self.head_limit().saturating_sub(head.end()).max(1)
    }
}

/// Facts about the process that logs and samples show.
#[derive(Debug)]
pub struct InstanceIdentity {
    pub hostname: String,
    /// `node`, or the host's name.
    pub node: String,
    pub process_id: u32,
    /// When the process started, in microseconds since the epoch.
    pub started_us: u64,
    /// The local time zone.
    pub time_zone: TimeZone,
}

/// A proxy with its live state.
pub struct Proxy {
    /// Index of the proxy in [`Instance::proxies`].
    pub index: usize,
    /// The proxy's name, shared with holders that outlive a borrow of the proxy.
    pub name: Arc<str>,
    pub config: ProxyConfig,
    /// The servers. `None` without a backend side.
    pub backend: Option<Arc<Backend>>,
    pub frontend_counters: FrontendCounters,
    pub backend_counters: Arc<BackendCounters>,
    /// The settings of servers that were added at run time.
    pub added_servers: AddedServers,
    /// TLS settings of the configured servers, in their order. Empty if no server uses TLS.
    pub configured_tls: Vec<Option<Arc<weir_tls::LiveUpstream>>>,
    pub listeners: Vec<Listener>,
    pub log_sinks: Vec<Arc<LogSink>>,
    /// The tag of the proxy's log lines.
    pub log_tag: Box<[u8]>,
    /// The number of the frontend's client connections now, its maximum, and the tasks that wait for room.
    pub connections: ConnectionLimit,
    /// `maxconn`. The runtime API can change it.
    pub connections_limit: AtomicU32,
    /// The [`ProxyState`]: `disable frontend`, `shutdown frontend`, soft stop. Changed by [`Proxy::set_state`].
    pub state: AtomicU32,
    /// Whether frontends may route requests to this backend: `be-unpublished`, `publish backend`, `unpublish backend`.
    pub published: AtomicBool,
    /// The tasks that accept the frontend's connections. They are woken when the state changes.
    pub acceptors: Mutex<Vec<TaskKey>>,
    /// Whether a rule or a format uses the request line after the request was sent.
    pub uses_request_line: bool,
    /// Whether rules handle a fragment in a request's target. Otherwise such a request is refused.
    pub takes_fragments: bool,
    /// The userlists that the proxy's expressions use.
    pub used_userlists: weir_model::UsedUserlists,
    /// The expressions that call functions of scripts.
    pub scripted: weir_model::ScriptedExpressions,
    /// When the log lines of the proxy's streams are written.
    pub log_timing: crate::log_timing::LogTiming,
    /// The proxy's timeouts in the compact form of streams.
    pub timeouts: crate::deadlines::StreamTimeouts,
    /// The engines that ask agents, in the order of their filters.
    pub engines: Vec<AgentEngine>,
    /// The FastCGI application of the backend's servers.
    pub application: Option<Arc<Application>>,
    /// Bit set of the [`SpoeEvent`](weir_model::SpoeEvent)s for which an engine has messages.
    pub engine_events: u8,
    /// Bit set of the [`RulesetKind`]s for which the proxy has rules.
    pub rulesets: u32,
}

/// Whether a frontend accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProxyState {
    Open,
    /// `disable frontend`: can be enabled again.
    Paused,
    Stopped,
}

/// The settings of servers that were added at run time, by key.
#[derive(Debug, Default)]
pub struct AddedServers(RwLock<HashMap<ServerKey, AddedServer>>);

/// A server that was added at run time.
#[derive(Debug)]
pub struct AddedServer {
    pub said: Arc<ServerConfig>,
    /// The server's TLS settings. `None` without TLS.
    pub tls: Option<Arc<weir_tls::LiveUpstream>>,
}

impl AddedServers {
    /// Adds a server's settings.
    pub fn insert(&self, key: ServerKey, server: AddedServer) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(key, server);
    }

    /// Removes the settings of a server.
    pub fn remove(&self, key: ServerKey) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    fn get(&self, key: ServerKey) -> Option<Arc<ServerConfig>> {
        let servers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        servers.get(&key).map(|server| Arc::clone(&server.said))
    }

    fn tls(&self, key: ServerKey) -> Option<Arc<weir_tls::LiveUpstream>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key)?.tls.clone()
    }
}

/// The settings of a server, from the configuration or from `add server`.
#[derive(Clone, Debug)]
pub enum KnownServer<'p> {
    Configured(&'p ServerConfig),
    /// From `add server`. The server may be removed while the settings are in use.
    Added(Arc<ServerConfig>),
}

impl std::ops::Deref for KnownServer<'_> {
    type Target = ServerConfig;

    #[inline]
    fn deref(&self) -> &ServerConfig {
        match self {
            KnownServer::Configured(server) => server,
            KnownServer::Added(server) => server,
        }
    }
}

/// A listening socket of a frontend, or several that share an address.
pub struct Listener {
    pub bind: Bind,
    /// The listener's name in statistics: `name`, or `sock-N`.
    pub name: Box<str>,
    pub id: u32,
    /// The bound address. `None` before the bind.
    pub address: Option<weir_sys::Address>,
    pub counters: ListenerCounters,
    /// The number of the listener's connections now, its maximum, and the tasks that wait for room.
    pub connections: ConnectionLimit,
    /// The listener's certificates, with `ssl`.
    pub tls: Option<Arc<dyn weir_tls::ChooseServer>>,
}

impl Listener {
    /// The destination address of every connection to this listener. `None` if the address is a wildcard.
    #[inline]
    pub fn only_address(&self) -> Option<&weir_sys::Address> {
        self.address.as_ref().filter(|address| address.ip().is_none_or(|ip| !ip.is_unspecified()))
    }
}

impl Proxy {
    /// The parts of the proxy that expressions can read.
    #[inline]
    pub(crate) fn viewed(&self) -> ViewedProxy<'_> {
        ViewedProxy {
            config: &self.config,
            backend: self.backend.as_deref(),
            frontend_counters: &self.frontend_counters,
            backend_counters: &self.backend_counters,
            connections: &self.connections,
        }
    }

    /// The proxy's listener at this index.
    #[inline]
    pub fn listener(&self, position: u32) -> &Listener {
        &self.listeners[position as usize]
    }

    /// The name of the proxy's section.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Whether the proxy is in HTTP mode.
    #[inline]
    pub fn is_http(&self) -> bool {
        self.config.settings.mode == Mode::Http
    }

    /// Whether the servers are agents.
    #[inline]
    pub fn is_spop(&self) -> bool {
        self.config.settings.mode == Mode::Spop
    }

    /// Whether streams connect to the client's original destination: `option transparent` without servers.
    pub fn is_transparent(&self) -> bool {
        self.config.settings.options.transparent && self.config.servers.is_empty()
    }

    /// The proxy's servers. Panics if the proxy does not have a backend side.
    #[inline]
    pub fn servers(&self) -> &Backend {
        self.backend.as_ref().expect("streams are routed to proxies with a backend side only")
    }

    /// Whether frontends may route requests to this backend.
    #[inline]
    pub fn is_published(&self) -> bool {
        self.published.load(Ordering::Relaxed)
    }

    /// The settings of a server, from the configuration or from `add server`. `None` if the server is unknown.
    #[inline]
    pub fn known_server(&self, key: ServerKey) -> Option<KnownServer<'_>> {
        if key.is_configured() {
            return self.config.servers.get(key.index()).map(KnownServer::Configured);
        }
        self.added_servers.get(key).map(KnownServer::Added)
    }

    /// The TLS settings of a server. `None` if neither traffic nor health checks use TLS.
    pub fn server_tls(&self, key: ServerKey) -> Option<Arc<weir_tls::LiveUpstream>> {
        if key.is_configured() {
            return self.configured_tls.get(key.index())?.clone();
        }
        self.added_servers.tls(key)
    }

    /// Whether the proxy has rules of this kind.
    #[inline]
    pub fn has_rules(&self, kind: RulesetKind) -> bool {
        self.rulesets & (1 << kind as u32) != 0
    }

    /// Whether the frontend is open, paused or stopped.
    pub fn state(&self) -> ProxyState {
        match self.state.load(Ordering::SeqCst) {
            0 => ProxyState::Open,
            1 => ProxyState::Paused,
            _ => ProxyState::Stopped,
        }
    }

    /// Opens, pauses or stops the frontend, and wakes its accept tasks. A stopped proxy stays stopped.
    pub fn set_state(&self, state: ProxyState) {
        if self.state() != ProxyState::Stopped {
            self.state.store(state as u32, Ordering::SeqCst);
            let acceptors = self.acceptors.lock().unwrap_or_else(PoisonError::into_inner);
            acceptors.iter().for_each(|task| weir_sched::wake(*task));
        }
    }
}

impl Instance {
    /// Facts about the process, for expressions on the current worker.
    pub fn facts(&self) -> ProcessFacts<'_> {
        let identity = &self.identity;
        ProcessFacts {
            hostname: &identity.hostname,
            pid: identity.process_id,
            thread: weir_sched::worker_index() as u32,
            thread_group: 1,
            uptime: weir_sched::wall_us().saturating_sub(identity.started_us) / 1_000_000,
            stopping: self.is_stopping(),
        }
    }

    /// Whether a soft stop is in progress.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// The proxy with this name and a backend side.
    pub fn backend_by_name(&self, name: &str) -> Option<&Proxy> {
        self.proxies.get(*self.backends.get(name)?)
    }

    /// The proxy with this name and a frontend side.
    pub fn frontend_by_name(&self, name: &str) -> Option<&Proxy> {
        self.proxies.get(*self.frontends.get(name)?)
    }

    /// The process's variables, to read.
    pub fn variables(&self) -> RwLockReadGuard<'_, VariableStore> {
        self.process_variables.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process's variables, to change.
    pub fn variables_mut(&self) -> RwLockWriteGuard<'_, VariableStore> {
        self.process_variables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lookups of backends, servers and frontends by name, for a few converters. `None` if the object does not exist.
    pub fn lookup(&self, own: &Proxy, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>> {
        let text = std::str::from_utf8(name).ok()?;
        Some(match lookup {
            ObjectLookup::UsableServers => {
                let status = self.backend_by_name(text)?.backend.as_ref()?.status(weir_sched::now().as_ms());
                Value::Int(i64::from(if status.active > 0 { status.active } else { status.backup }))
            }
            ObjectLookup::ServerQueue => {
                Value::Int(i64::from(server_by_name(self, Some(own.viewed()), name)?.1.queued()))
            }
            ObjectLookup::ServerIsUp => {
                Value::Bool(server_by_name(self, Some(own.viewed()), name)?.1.is_up())
            }
            ObjectLookup::FrontendExists => Value::Bool(self.frontends.contains_key(text)),
        })
    }
}
