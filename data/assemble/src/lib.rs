//! Builds live objects from a configuration. Every object is created once, before any worker runs.
//!
//! [`LoadedConfiguration::read`] parses the text, [`events`] creates sinks and rings for log lines, and [`instance`] creates the
//! proxies with their servers, listeners and limits. Host names are resolved and log targets opened here. The program and the
//! integration tests of `data` use it.
//!
//! The crate refuses to know the configuration syntax, the meaning of messages, and the serving process. Begin with [`instance`].

mod applications;
mod backends;
mod checks;
mod client;
mod engines;
mod events;
#[cfg(test)]
mod fixture;
mod http2;
mod links;
mod listeners;
mod log_backends;
mod logs;
mod mail;
mod names;
mod parsed;
mod peers;
mod relays;
mod resolvers;
mod rings;
mod states;
mod subjects;
mod tls;
pub mod traces;
mod verify;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use weir_backend::counters::{BackendCounters, FrontendCounters, ProcessRates};
use weir_events::LogSink;
use weir_expr::context::DetachedContext;
use weir_expr::{Context as _, SetCondition, TimeZone, Value, VariableNames, VariableStore};
use weir_http::CaseMap;
use weir_model::{ConnectionSharing, ProcessValue, RulesetKind};
use weir_net::{ConnectionLimit, SocketSizes};
use weir_stream::closing::ClosingWindow;
use weir_stream::instance::{
    AddedServers, CompressionLimits, DescriptorMarks, Hooks, Instance, InstanceIdentity, ProcessLimits, Proxy,
};
use weir_stream::variables::VariableLimits;
use weir_syntax::{Files, SharedFiles};
use weir_tables::Table;

pub use checks::CheckMeans;
pub use checks::{CheckParts, checks, follow, plans};
pub use client::ClientPlan;
pub use events::{EventSinks, RingFiles};
pub use logs::LogSinks;
pub use mail::mailers;
pub use names::{Resolver, SystemResolver, UnresolvedName, address};
pub use parsed::LoadedConfiguration;
pub use peers::{LivePeers, PeerListener, PeersPlan, peers, updates_at_once};
pub use relays::{LiveRelays, RelayListener, RelayListeners, RelayPlan, RelayWay, relays};
pub use resolvers::{LiveNames, resolvers};
pub use resolvers::{NameServersPlan, name_servers};
pub use rings::events;
pub use states::SavedStates;
pub use subjects::unknown_account;
pub use tls::{LiveTls, RenewalFault, RenewalSubject, TlsBuilder, Warning};
pub use verify::{CheckedNames, verify};

/// Values for the instance from the process, not from the configuration.
pub struct ProcessValues<'o> {
    pub workers: usize,
    /// The connection limit of the process, as computed.
    pub connections: u32,
    /// The limit of open file descriptors.
    pub open_files: u32,
    /// The limit of pipes (`maxpipes`).
    pub pipes: u32,
    /// `-N`: the default connection limit of frontends.
    pub frontend_connections: Option<u32>,
    pub events: &'o EventSinks,
    pub files: SharedFiles,
    /// The names of the configuration's variables.
    pub variable_names: Arc<VariableNames>,
    /// Resolves host names.
    pub resolver: &'o dyn Resolver,
    /// Server states saved by a previous process.
    pub states: &'o SavedStates,
    /// `-dr`: servers with unresolved names start in maintenance.
    pub ignore_unknown_names: bool,
    pub identity: InstanceIdentity,
    pub warn: &'o dyn Fn(Warning),
    /// Called with notices, which report conditions that may be intended.
    pub notice: &'o dyn Fn(String),
}

/// Why the instance could not be built.
#[derive(Debug)]
pub struct BuildError {
    /// The position of the fault in the configuration.
    pub at: weir_model::Location,
    /// The message for the operator.
    pub message: String,
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "[{}] : {}", self.at, self.message)
    }
}

/// The instance of a configuration, and related objects of the process.
pub struct BuiltInstance {
    /// The instance, without its hooks.
    pub instance: Instance,
    /// The TLS objects, for runtime commands.
    pub tls: Arc<LiveTls>,
    /// The log targets of the global section, if TLS is used. They log certificate changes.
    pub log_sinks: Vec<Arc<LogSink>>,
}

/// Builds the instance, and adds TLS settings and log targets to the plans of peers and name servers. Collects all faults.
///
/// # Errors
/// When a name is unknown or a log target cannot be opened.
pub fn instance(
    config: weir_model::Config,
    options: ProcessValues<'_>,
    peers: &mut PeersPlan,
    name_servers: &mut NameServersPlan,
) -> Result<BuiltInstance, Vec<BuildError>> {
    let mut errors = Vec::new();
    let weir_model::Config {
        global,
        proxies,
        userlists,
        tables,
        health_checks,
        certificate_stores,
        peers: sections,
        log_forwards,
        ..
    } = config;
    let names = ProxyNames::new(&proxies);
    let mut shared = SharedParts {
        sinks: LogSinks::default(),
        tls: TlsBuilder::new(&global, &health_checks, options.files.clone()),
    };
    shared.tls.load_stores(&certificate_stores);
    let full_connections = backends::full_connections(&proxies, &options);
    let mut built = Vec::with_capacity(proxies.len());
    for (index, proxy) in proxies.into_iter().enumerate() {
        built.push(make_proxy(
            index,
            proxy,
            &global,
            &options,
            full_connections[index],
            &mut shared,
            &mut errors,
        ));
    }
    let subrequests = subrequest_frontend(built.len(), &global, &options, &mut shared, &mut errors);
    options.events.secure(&mut shared.tls);
    shared.tls.other_listeners(&global.sockets, &log_forwards);
    peers.secure(&mut shared.tls);
    name_servers.secure(&mut shared.tls);
    peers.open_logs(&sections, &global, &options, &mut shared.sinks, &mut errors);
    shared.tls.prepare_client(&global);
    let mut log_sinks = Vec::new();
    let has_messages = shared.tls.speaks() || !global.scripts.files.is_empty();
    if has_messages && !global.logs.is_empty() {
        let targets = global.logs.iter();
        let at = weir_model::Location::new("global".into(), 0);
        log_sinks = logs::open_all(targets, &at, &global, &options, &mut shared.sinks, &mut errors);
    }
    std::mem::take(&mut shared.tls.warnings).into_iter().for_each(options.warn);
    errors.append(&mut shared.tls.errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let tls = Arc::new(LiveTls::new(shared.tls));
    let variables = process_variables(&global);
    let pipes = weir_mux::Pipes::new(global.tuning.pipe_size.unwrap_or(0) as usize, options.pipes as usize);
    let pipes = Arc::new(pipes);
    let tables = tables.into_iter().map(|table| {
        let made = match peers::audiences(&table, &sections) {
            Some(audiences) if table.aggregate => Table::aggregate(table.declaration, audiences),
            Some(audiences) => Table::shared(table.declaration, audiences),
            None => Table::new(table.declaration),
        };
        Arc::new(made)
    });
    let tables = tables.collect();
    let limits = limits(&global, &options);
    let refused = weir_stream::errors::RefusedMessages::new(built.len(), limits.buffer_size);
    let instance = Instance {
        limits,
        identity: options.identity,
        proxies: built,
        subrequests,
        backends: names.backends,
        frontends: names.frontends,
        process_counters: (0..options.workers.max(1)).map(|_| Arc::default()).collect(),
        rates: ProcessRates::new(options.workers),
        connections: Arc::default(),
        stopping: AtomicBool::new(false),
        closing: ClosingWindow::new(global.close_spread),
        keeps_quiet_clients: AtomicBool::new(false),
        tables,
        userlists,
        pipes,
        process_variables: RwLock::new(variables),
        variable_bytes: Arc::default(),
        refused,
        compression: CompressionLimits::new(global.tuning.compression),
        hooks: Hooks::default(),
    };
    Ok(BuiltInstance { instance, tls, log_sinks })
}

/// The indices of proxies by name.
struct ProxyNames {
    backends: HashMap<Box<str>, usize>,
    frontends: HashMap<Box<str>, usize>,
}

impl ProxyNames {
    fn new(proxies: &[weir_model::Proxy]) -> Self {
        // Requests must not be sent to a log backend, even if a rule computes its name.
        let takes_traffic =
            |proxy: &weir_model::Proxy| proxy.is_backend() && proxy.mode() != weir_model::Mode::Log;
        let of = |wanted: fn(&weir_model::Proxy) -> bool| {
            let chosen = proxies.iter().enumerate().filter(|(_, proxy)| wanted(proxy));
            chosen.map(|(index, proxy)| (Box::from(&*proxy.name), index)).collect()
        };
        ProxyNames { backends: of(takes_traffic), frontends: of(weir_model::Proxy::is_frontend) }
    }
}

/// Caches shared by proxies while they are built, so that files are opened and read once.
struct SharedParts {
    sinks: LogSinks,
    tls: TlsBuilder,
}

fn make_proxy(
    index: usize,
    mut config: weir_model::Proxy,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    full_connections: u32,
    shared: &mut SharedParts,
    errors: &mut Vec<BuildError>,
) -> Proxy {
    let workers = options.workers.max(1);
    backends::resolve_sources(&mut config, options.resolver, errors);
    let backend = config
        .is_backend()
        .then(|| backends::backend(index, &config, global, options, full_connections, errors));
    let listeners = if config.settings.disabled {
        Vec::new()
    } else {
        listeners::listeners(&config, workers, &mut shared.tls)
    };
    let configured_tls = shared.tls.servers(&config);
    let log_sinks = logs::of_proxy(&config, global, options, &mut shared.sinks, errors);
    let application = applications::of_proxy(&config, global, options, &mut shared.sinks, errors);
    let engines = engines::of_proxy(&config, global, options, &mut shared.sinks, errors);
    let frontend_limit = config.settings.maxconn.or(options.frontend_connections).filter(|limit| *limit > 0);
    let limit = frontend_limit.unwrap_or(options.connections);
    Proxy {
        index,
        backend,
        frontend_counters: FrontendCounters::new(workers),
        backend_counters: Arc::new(BackendCounters::new(workers)),
        added_servers: AddedServers::default(),
        listeners,
        configured_tls,
        log_sinks,
        log_tag: logs::tag(&config, global),
        connections: ConnectionLimit::new(),
        connections_limit: AtomicU32::new(limit),
        state: AtomicU32::new(0),
        published: AtomicBool::new(!config.unpublished),
        acceptors: Mutex::default(),
        uses_request_line: uses_request_line(&config),
        takes_fragments: config.takes_fragments(),
        used_userlists: config.used_userlists(),
        scripted: config.scripted_expressions(),
        log_timing: weir_stream::log::LogTiming::of(&config),
        timeouts: weir_stream::deadlines::StreamTimeouts::of_proxy(&config.settings.timeouts),
        engine_events: engines.iter().fold(0, |bits, engine| bits | engine.event_bits()),
        engines,
        application,
        rulesets: rulesets(&config),
        name: Arc::from(&*config.name),
        config,
    }
}

/// The frontend of sub-requests: in mode http, without timeouts, rules and logs. Its index is behind those of the other proxies.
fn subrequest_frontend(
    index: usize,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    shared: &mut SharedParts,
    errors: &mut Vec<BuildError>,
) -> Proxy {
    let at = weir_model::Location::new("".into(), 0);
    let section = weir_model::ProxySection::Frontend;
    let mut config = weir_model::Proxy::new("<SUBREQUEST>".into(), section, at.clone());
    config.settings.mode = weir_model::Mode::Http;
    config.settings.logging = weir_model::Logging::default();
    let mut proxy = make_proxy(index, config, global, options, 0, shared, errors);
    proxy.listeners.push(listeners::without_socket(at, options.workers.max(1)));
    proxy
}

fn rulesets(config: &weir_model::Proxy) -> u32 {
    let present = RulesetKind::ALL.iter().filter(|kind| config.rules(**kind).next().is_some());
    let bits = present.fold(0, |bits, kind| bits | 1 << *kind as u32);
    let adds_to_response = |rule: &weir_model::Rule| rule.action.facts().adds_to_response;
    match config.rules(RulesetKind::HttpRequest).any(adds_to_response) {
        true => bits | 1 << RulesetKind::HttpAfterResponse as u32,
        false => bits,
    }
}

/// Whether the request line may be needed after the request was sent: by response rules, `unique-id-format` or a backend.
fn uses_request_line(config: &weir_model::Proxy) -> bool {
    let late = [RulesetKind::HttpResponse, RulesetKind::HttpAfterResponse, RulesetKind::TcpResponseContent];
    late.iter().any(|kind| config.rules(*kind).next().is_some())
        || config.settings.unique_id_format.is_some()
        || config.is_backend()
}

fn limits(global: &weir_model::Global, options: &ProcessValues<'_>) -> ProcessLimits {
    let tuning = &global.tuning;
    weir_net::tls_count::limit(global.limits.tls_connections);
    ProcessLimits {
        buffer_size: tuning.buffer_size as usize,
        rewrite_reserve: tuning.rewrite_room() as usize,
        // The start line counts as one (manual, "tune.http.maxhdr").
        header_count: tuning.headers_max.saturating_sub(1),
        log_uri_length: tuning.logged_uri_max as usize,
        cookie_length: tuning.captured_cookie_max as usize,
        connections: Arc::new(AtomicU32::new(options.connections)),
        connection_rate: AtomicU32::new(global.limits.connection_rate),
        session_rate: AtomicU32::new(global.limits.session_rate),
        tls_rate: AtomicU32::new(global.limits.tls_rate),
        h1: weir_mux::HeadOptions {
            accept_payload_with_any_method: global.http1.payload_with_any_method,
            keep_insecure_transfer_encoding: global.http1.keep_on_insecure_transfer_encoding,
            ..weir_mux::HeadOptions::default()
        },
        h2_logged_errors: global.http2.logged_errors,
        h2: http2::limits(global, &global.http2.clients),
        h2_pace: http2::pace(global, &global.http2.clients),
        h2_server: http2::limits(global, &global.http2.servers),
        h2_server_pace: http2::pace(global, &global.http2.servers),
        header_case: header_case(&global.http1.adjusted_names),
        client_sockets: SocketSizes {
            receive_buffer: tuning.receive_buffers.client,
            send_buffer: tuning.send_buffers.client,
            unsent_low_mark: tuning.unsent_low_marks.client,
        },
        server_sockets: SocketSizes {
            receive_buffer: tuning.receive_buffers.server,
            send_buffer: tuning.send_buffers.server,
            unsent_low_mark: tuning.unsent_low_marks.server,
        },
        variables: VariableLimits::of(&tuning.variable_sizes),
        error_codes: global.error_codes.clone(),
        failure_codes: global.failure_codes.clone(),
        descriptors: DescriptorMarks::of(
            options.open_files,
            tuning.pool_low_descriptors,
            tuning.pool_high_descriptors,
        ),
    }
}

fn header_case(names: &[Box<str>]) -> Option<CaseMap> {
    let mut map = CaseMap::default();
    for name in names {
        map.insert(name.as_bytes());
    }
    (!map.is_empty()).then_some(map)
}

/// The process variables, with their initial values from the global section.
fn process_variables(global: &weir_model::Global) -> VariableStore {
    let limit = global.tuning.variable_sizes.process.or(global.tuning.variable_sizes.global);
    let mut context = DetachedContext {
        variables: VariableStore::with_limit(limit.map(|limit| limit as usize)),
        ..Default::default()
    };
    for variable in &global.variables {
        let value = match &variable.value {
            ProcessValue::Expression(expression) => {
                expression.evaluate(&mut context).into_owned().sample().map(|sample| sample.value)
            }
            ProcessValue::Format(format) => {
                let mut text = Vec::new();
                format.render(&mut context, &mut text);
                Some(Value::Str(text.into()))
            }
        };
        if let Some(value) = value {
            context.set_variable(variable.name, value, SetCondition::ALWAYS);
        }
    }
    context.variables
}

/// The settings of a server added at run time, for its backend.
pub fn added_server(config: &weir_model::Server, shares_idle: bool) -> weir_backend::ServerSettings {
    weir_backend::ServerSettings {
        disabled: config.settings.disabled,
        ..backends::added_server(config, shares_idle)
    }
}

/// Whether workers may share idle server connections.
pub fn shares_idle(global: &weir_model::Global) -> bool {
    global.tuning.idle_connections != ConnectionSharing::Off
}

/// The size limit of a time zone file, in bytes: many times the largest in use.
const LARGEST_TIME_ZONE: u64 = 1 << 20;

/// The local time zone, from `TZ` or `/etc/localtime`. UTC without either.
#[must_use]
pub fn local_time_zone(files: &dyn Files) -> TimeZone {
    let named = std::env::var("TZ").ok().filter(|name| !name.is_empty());
    let path = match &named {
        Some(name) => format!("/usr/share/zoneinfo/{}", name.trim_start_matches(':')),
        None => "/etc/localtime".to_owned(),
    };
    let zone = files.read(&path, LARGEST_TIME_ZONE).ok().and_then(|bytes| TimeZone::parse(&bytes));
    zone.unwrap_or_else(|| TimeZone::fixed(0, "UTC"))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The default of `log-tag`, because log processors for HAProxy expect it.
pub const DEFAULT_TAG: &str = "haproxy";

#[cfg(test)]
mod tests;
