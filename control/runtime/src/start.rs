//! The order in which a process starts: limits, background, live objects, sockets, identity, workers.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_config::model::{
    AcceptedFamilies, Config, Global, ListenAddress, LogForward, MAX_THREADS, Proxy as ProxyConfig, Tuning,
};
use weir_events::calendar::ZoneOffset;
use weir_events::{LogIdentity, LogSink, Logger, Sinks};
use weir_expr::pattern::regex::{budget, limit};
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_logs::relay::{self, StreamAcceptor};
use weir_net::HandedOver;
use weir_peers::PeerAcceptor;
use weir_sched::Runtime;
use weir_stream::instance::{Identity, Instance, LocalInstance, ProxyRef, local};
use weir_stream::listener_handler;
use weir_syntax::SharedFiles;
use weir_sys::signal::{self, SignalReader};
use weir_sys::time::{coarse_monotonic_ns, monotonic_ns};
use weir_sys::{process as system, users};
use weir_tls::ChooseServer;

use crate::build::{
    self, ClientPlan, LivePeers, LiveRelays, LiveTls, NameServersPlan, PeersPlan, RelayPlan, RelayWay,
    SavedStates, SystemResolver,
};
use crate::cli_server::{self, CliAcceptor};
use crate::core_dump;
use crate::files::SystemFiles;
use crate::handover::{self, Giver};
use crate::lifecycle::{Lifecycle, SIGNALS};
use crate::limits::{self, Bounds, Capacity, FixedDescriptors};
use crate::listening::{BindContext, Listening, Owner, Predecessor};
use crate::log_connector;
use crate::messages::{Messages, Verbosity};
use crate::observe::{
    self, CheckedProcess, CliSocket, Live, OcspUpdates, Page, ProcessRecord, RecordedLimits, ocsp_updates,
    pattern_care, pulse,
};
use crate::privileges;
use crate::process::{self, Precedence};
use crate::tuning::{self, WorkerTuning};
use crate::watch;
use crate::worker::WorkerLink;

/// The command line's options for the process.
#[derive(Debug, Default)]
pub struct Invocation {
    /// `-D`: go to the background, like `daemon`.
    pub daemon: bool,
    /// `-d`, `-db`: stay in the foreground, which takes precedence.
    pub foreground: bool,
    /// `-p`.
    pub pid_file: Option<PathBuf>,
    /// `-n`.
    pub maxconn: Option<u32>,
    /// `-N`.
    pub proxy_maxconn: Option<u32>,
    /// `-m`.
    pub memory_mb: Option<u64>,
    /// `-4`.
    pub ipv4_only: bool,
    /// `-dr`.
    pub ignore_unresolved: bool,
    /// `-dR`.
    pub no_reuse_port: bool,
    /// `-sf`, `-st`: processes that this one replaces, and how they end.
    pub former: Former,
    /// `-x`: the runtime API of a process that passes its listening sockets.
    pub take_over: Option<PathBuf>,
    /// The link to the master, if one started this process.
    pub worker: Option<WorkerLink>,
    /// The process's priority before it read its configuration.
    pub precedence: Precedence,
    /// Sockets from the service manager.
    pub activated: Vec<OwnedFd>,
}

/// Processes that this one replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    /// Their process numbers.
    pub processes: Vec<u32>,
    /// Whether they end at once (`-st`) or after their last connection (`-sf`).
    pub at_once: bool,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Normally.
    Done,
    /// It could not start; the reason was printed.
    Failed,
    /// By a signal.
    Signal(signal::Signal),
}

/// A configuration, and the objects that its expressions refer to.
pub struct Prepared {
    /// The configuration.
    pub config: Config,
    /// What its servers had in a former process.
    pub states: SavedStates,
    /// The sets of patterns that it loaded.
    pub patterns: Arc<PatternStore>,
    /// The public keys that it loaded.
    pub token_keys: TokenKeys,
    /// The names of its variables.
    pub variable_names: Arc<VariableNames>,
    /// The fetches that its expressions may use.
    pub registry: Arc<Registry>,
    /// The text for standard output when it serves.
    pub greeting: Option<String>,
    /// The environment after the configuration was read, `NAME=value` each.
    pub environment: Vec<String>,
}

/// Serves a configuration until the process ends.
pub fn serve(prepared: Prepared, invocation: Invocation, messages: &'static Messages) -> End {
    match try_serve(prepared, invocation, messages) {
        Ok(end) => end,
        Err(fault) => {
            if let Some(text) = fault {
                messages.alert(text);
            }
            End::Failed
        }
    }
}

/// Why a process could not start: a text, or none when it was printed.
type Fault = Option<String>;

fn try_serve(
    prepared: Prepared,
    mut invocation: Invocation,
    messages: &'static Messages,
) -> Result<End, Fault> {
    let link = invocation.worker.take();
    let config = prepared.config;
    let global = config.global.clone();
    let sections = config.resolvers.clone();
    if global.quiet && messages.verbosity() == Verbosity::Normal {
        messages.set_verbosity(Verbosity::Quiet);
    }
    invocation.precedence.of_service(global.tuning.niceness.runtime, messages);
    let workers = worker_count(&global);
    let needs = privileges::needs(&config);
    let capacity = capacity(&config, &invocation, workers);
    if capacity.automatic {
        messages.notice(format!("Automatically setting global.maxconn to {}.", capacity.maxconn));
    }
    process::warn_of_few_descriptors(&capacity, &global, messages);
    warn_of_tcp_servers(&config, messages);
    if !process::raise_descriptor_limit(&capacity, &global, messages) {
        return Err(None);
    }
    let identity = process::Identity::new(&global).map_err(Some)?;
    identity.rehearse(&needs).map_err(Some)?;
    let background = (invocation.daemon || global.daemon) && !invocation.foreground && link.is_none();
    let background = background.then(process::Background::enter).transpose();
    let background = background.map_err(said("[weir.main()] Cannot fork"))?;
    // There is only the main thread yet: all later threads block the same signals.
    let signals = SignalReader::new(&SIGNALS).map_err(said("Cannot receive signals"))?;
    log_connector::start(&config, &identity, messages).map_err(said("[weir.main()] Cannot fork"))?;
    weir_events::report_outages(|text| messages.warning(text));
    // Writers of logs are the first threads.
    process::forbid_privileges(&global, messages);
    let mut events = build::events(
        &config,
        &SystemResolver { ipv4_only: invocation.ipv4_only },
        invocation.ignore_unresolved,
    )
    .map_err(|faults| refused(&faults, messages))?;
    let ring_files = events.take_files();
    let resolver = SystemResolver { ipv4_only: invocation.ipv4_only };
    let mailers =
        build::mailers(&config, &resolver, messages).map_err(|faults| refused(&faults, messages))?;
    let client = ClientPlan::new(&config, &resolver).map_err(|faults| refused(&faults, messages))?;
    let check_means = build::CheckMeans::new(&config, &prepared.environment);
    let check_means =
        check_means.map_err(|error| Some(format!("External checks cannot be started: {error}.")))?;
    let record = ProcessRecord {
        events,
        description: global.description.as_deref().map(str::to_owned),
        patterns: prepared.patterns,
        token_keys: prepared.token_keys,
        variable_names: prepared.variable_names,
        registry: prepared.registry,
        environment: prepared.environment,
        messages: Some(messages),
        limits: recorded_limits(&capacity, &invocation),
        cli_connections_limit: global.stats_maxconn,
        shares_idle: build::shares_idle(&global),
        check_means,
        mailers,
        log_tag: global.log_tag.as_deref().unwrap_or(build::DEFAULT_TAG).as_bytes().into(),
        ..ProcessRecord::new(workers)
    };
    let record = Arc::new(record);
    let (instance, plans) =
        instance(config, prepared.states, &invocation, workers, &capacity, messages, &record)?;
    let Plans { relays, peers, name_servers, states } = plans;
    record.events.attach(&instance).map_err(|faults| refused(&faults, messages))?;
    let relays = relays.publish(&instance, record.tls());
    let context = BindContext {
        global: &global,
        workers,
        reuse_port: !invocation.no_reuse_port && !global.no_reuse_port,
        resolver: &SystemResolver { ipv4_only: invocation.ipv4_only },
        messages,
    };
    process::rehearse_threads(workers).map_err(said("Cannot start the workers"))?;
    // A master writes its own number.
    let pid_file = invocation.pid_file.as_ref().or(global.pidfile.as_ref()).filter(|_| link.is_none());
    let pid_file = pid_file.map(|path| process::PidFile::check(path)).transpose().map_err(Some)?;
    let gave = handed_over(&mut invocation, link.as_ref(), messages);
    let has_predecessor = !invocation.former.processes.is_empty() || (link.is_some() && !gave.is_empty());
    let peers = peers.publish(&instance, has_predecessor, messages, &record.log_tag);
    let takeover = Takeover::new(std::mem::take(&mut invocation.former));
    let mut listening = Listening::open(&instance, &relays, &peers, &context, gave, &takeover).ok_or(None)?;
    let sockets = cli_sockets(&listening, &global, record.tls()).into_iter();
    // Set only here.
    let sockets = sockets.chain(link.as_ref().map(|link| link.socket(&global)));
    let _ = record.cli_sockets.set(sockets.map(Arc::new).collect());
    if listening.all_sockets().is_empty() {
        return Err(Some(
            "[weir.main()] No enabled listener found (check for 'bind' directives) ! Exiting.".to_owned(),
        ));
    }
    if let Some(limit) = invocation.memory_mb.filter(|_| weir_memory::shortage::is_short()) {
        return Err(Some(format!(
            "[weir.main()] {limit} MB of memory ('-m') are not enough for this configuration."
        )));
    }
    // Up to here a failing start has changed nothing of another process. What can still fail comes first.
    pid_file.map(|file| file.write()).transpose().map_err(Some)?;
    listening.put_in_place(messages).ok_or(None)?;
    ring_files.put_in_place(messages);
    takeover.finish();
    // The built-in configuration is only for trying weir, so it needs no advice.
    if prepared.greeting.is_none() {
        identity.advise(&global, messages);
    }
    core_dump::prepare(global.core_dump, messages);
    identity.assume(&global, messages).map_err(Some)?;
    let mut probed = HashSet::new();
    let sinks = all_log_sinks(&instance, &relays, &peers).chain(record.log_sinks.get().into_iter().flatten());
    sinks.filter(|sink| probed.insert(Arc::as_ptr(sink))).for_each(|sink| sink.probe());
    let lifecycle = Arc::new(Lifecycle {
        instance: Arc::clone(&instance),
        listening,
        messages,
        hard_stop_after: global.hard_stop_after,
        grace: global.grace,
        forwards: record.events.forwards.clone(),
        operators: Arc::clone(&record.cli_connections),
        relays,
        peers,
        operator_acceptors: Mutex::default(),
        ended_by: AtomicI32::new(0),
    });
    let _ = record.lifecycle.set(Arc::clone(&lifecycle));
    build::follow(&instance);
    let live = Live { instance: Arc::clone(&instance), record: Arc::clone(&record) };
    let mut families = global.accepted_families;
    if invocation.ipv4_only {
        families = AcceptedFamilies { ipv4: true, ipv6: false, ipv6_if_routed: false };
    }
    observe_servers(
        &live,
        Observers { sections: &sections, name_servers, families, states: &states, client },
    );
    drop(states);
    instance.keeps_quiet_clients.store(link.is_some(), SeqCst);
    let channel = link.as_ref().map(|link| system::duplicate(&link.channel)).transpose();
    let channel = channel.map_err(said("Cannot reach the master"))?;
    let runtime = start_workers(live.clone(), &lifecycle, &global, workers, signals, channel)
        .map_err(said("Cannot start the workers"))?;
    let boot_ms = weir_sched::now().as_ms().saturating_sub(record.started_ms);
    let _ = record.boot_ms.set(u32::try_from(boot_ms).unwrap_or(u32::MAX));
    let watchdog = watch::start(&runtime, Arc::clone(&instance), global.profiling.warn_blocked_after)
        .map_err(said("Cannot start the watchdog"))?;
    process::forbid_processes(&global, messages);
    if let Some(mut link) = link {
        if let Some(null) = link.background.take() {
            null.replace_standard_streams().map_err(said("Cannot go to the background"))?;
        }
        link.ready().map_err(|error| Some(format!("Cannot tell the master: {error}.")))?;
    }
    messages.finish_startup();
    if let Some(greeting) = &prepared.greeting {
        // If standard output is closed, there is nowhere to report that.
        let _ = writeln!(std::io::stdout(), "{greeting}");
    }
    if let Some(background) = background {
        background.ready();
    }
    let ended = runtime.join();
    drop(watchdog);
    if cfg!(feature = "lock-statistics") {
        say_what_locks_cost(workers, record.started_ms);
    }
    flush_logs(&instance, &lifecycle.relays, &lifecycle.peers, &record.events.sinks);
    // The process ends: the kernel frees its memory faster than destructors do.
    std::mem::forget(live);
    match (lifecycle.ended_by.load(SeqCst), ended) {
        (0, Ok(())) => Ok(End::Done),
        (0, Err(_)) => Err(Some("A worker has died.".to_owned())),
        (signal, _) => Ok(End::Signal(signal)),
    }
}

/// The arguments of [`observe_servers`].
struct Observers<'s> {
    sections: &'s [weir_config::model::Resolvers],
    name_servers: NameServersPlan,
    families: AcceptedFamilies,
    states: &'s SavedStates,
    client: ClientPlan,
}

/// Creates the checks, the name resolution and the OCSP updates, without starting them. The state owns them, so they report to a weak
/// reference to the state.
fn observe_servers(live: &Live, parts: Observers<'_>) {
    let Observers { sections, name_servers, families, states, client } = parts;
    let Live { instance, record } = live;
    let teller = || {
        let live = live.downgrade();
        Box::new(move |news| live.tell(news))
    };
    // Each is set only here.
    let _ = instance.news.set(teller());
    let checks = build::checks(instance, &record.check_means, Box::new(CheckedProcess::new(live)));
    let _ = record.checks.set(Arc::new(checks));
    let resolvers = build::resolvers(sections, name_servers, families, instance, states, teller());
    let resolvers = Arc::new(resolvers);
    let _ = record.resolvers.set(Arc::clone(&resolvers));
    let upstream = record.tls().and_then(LiveTls::client);
    let updates = OcspUpdates::new(&client, upstream, Arc::clone(&resolvers));
    let _ = record.ocsp_updates.set(Arc::new(updates));
    let _ = instance.names.set(Box::new(build::LiveNames(resolvers)));
}

/// Listening sockets passed to this process. A former process that passes none does not prevent the start: its addresses
/// can be shared, or it releases them when told to.
fn handed_over(
    invocation: &mut Invocation,
    link: Option<&WorkerLink>,
    messages: &Messages,
) -> Vec<HandedOver> {
    let activated = std::mem::take(&mut invocation.activated);
    let mut sockets: Vec<_> =
        activated.into_iter().flat_map(|socket| HandedOver::new(socket, None)).collect();
    let path = invocation.take_over.as_deref();
    if path == Some(Path::new("/dev/null")) {
        // `-x /dev/null` disables the transfer (manual, "-x").
        return sockets;
    }
    for giver in path.map(Giver::Path).into_iter().chain(link.and_then(WorkerLink::giver)) {
        match handover::take(&giver) {
            Ok(more) => sockets.extend(more),
            Err(fault) => messages.warning(fault),
        }
    }
    sockets
}

fn recorded_limits(capacity: &Capacity, invocation: &Invocation) -> RecordedLimits {
    RecordedLimits {
        connections: capacity.maxconn,
        connections_hard: capacity.hard_maxconn,
        open_files: capacity.open_files,
        sockets: capacity.open_files,
        pipes: capacity.pipes,
        memory: invocation.memory_mb.unwrap_or(0) << 20,
    }
}

/// The sockets of the runtime API, in the order of the listeners.
fn cli_sockets(listening: &Listening, global: &Global, tls: Option<&LiveTls>) -> Vec<CliSocket> {
    let of_operators =
        listening.all_sockets().iter().filter_map(|listener_sockets| match &listener_sockets.owner {
            Owner::Operator(line) => {
                Some(CliSocket::new(&global.sockets[*line], global, &listener_sockets.address, tls))
            }
            Owner::Frontend { .. } | Owner::Relay(_) | Owner::Peers(_) => None,
        });
    of_operators.collect()
}

/// Warns of servers with `mptcp@` that are reached by TCP, because the kernel does not speak MPTCP.
fn warn_of_tcp_servers(config: &Config, messages: &Messages) {
    let mut servers =
        config.proxies.iter().flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, server)));
    let Some((proxy, server)) = servers.find(|(_, server)| server.settings.multipath) else { return };
    if let Err(error) = weir_sys::socket::multipath_stream(weir_sys::AddressFamily::Inet) {
        messages.warning(format!(
            "[weir.main()] Servers with 'mptcp@', such as {}/{}, are reached by TCP: the kernel does not speak MPTCP ({}).",
            proxy.name,
            server.name,
            weir_sys::error_text(error)
        ));
    }
}

fn said(what: &'static str) -> impl Fn(weir_sys::Errno) -> Fault {
    move |errno| Some(format!("{what}: {errno}."))
}

/// `nbthread`, or one worker for each processor that the process may use.
pub fn worker_count(global: &Global) -> usize {
    let most = usize::from(MAX_THREADS);
    let usable = || system::processors().map_or(1, |processors| processors.len());
    global.threads.map_or_else(usable, usize::from).clamp(1, most)
}

fn capacity(config: &Config, invocation: &Invocation, workers: usize) -> Capacity {
    let global = &config.global;
    let limit = system::descriptor_limit();
    let splices = |proxy: &ProxyConfig| {
        let splice = &proxy.settings.options.splice;
        splice.auto || splice.request || splice.response
    };
    let of_peers = config.peers.iter().filter_map(|section| section.bind.as_ref());
    let of_relays = config.log_forwards.iter().flat_map(LogForward::all_binds);
    let binds = config
        .proxies
        .iter()
        .flat_map(|proxy| &proxy.binds)
        .chain(&global.sockets)
        .chain(of_relays)
        .chain(of_peers);
    let listening = binds.flat_map(|bind| &bind.addresses).map(ListenAddress::listener_count).sum();
    limits::capacity(&Bounds {
        maxconn: invocation.maxconn.or(global.limits.maxconn),
        open_files: global.limits.open_files,
        open_files_hard: global.limits.open_files_hard,
        memory_mb: invocation.memory_mb,
        pipes: global.limits.pipes,
        splices: !global.no_splice && config.proxies.iter().any(splices),
        buffer_size: global.tuning.buffer_size,
        fixed: FixedDescriptors::new(listening, workers, global.stats_maxconn),
        system_soft: limit.soft,
        system_hard: limit.hard,
    })
}

/// Objects that become live after the instance.
struct Plans {
    relays: RelayPlan,
    peers: PeersPlan,
    name_servers: NameServersPlan,
    states: SavedStates,
}

fn instance(
    config: Config,
    states: SavedStates,
    invocation: &Invocation,
    workers: usize,
    capacity: &Capacity,
    messages: &Messages,
    record: &Arc<ProcessRecord>,
) -> Result<(Arc<Instance>, Plans), Fault> {
    // Values are computed while the instance is built: variables of the process.
    weir_expr::bound::set(config.global.tuning.buffer_size as usize);
    let hostname = users::host_name();
    let identity = Identity {
        node: config.global.node.as_deref().unwrap_or(&hostname).to_owned(),
        hostname,
        process_id: system::id(),
        started_us: weir_sched::wall_us(),
        time_zone: build::local_time_zone(),
    };
    let is_strict = config.global.zero_warning;
    let resolver = &SystemResolver { ipv4_only: invocation.ipv4_only };
    let peers = build::peers(&config, resolver).map_err(|faults| refused(&faults, messages))?;
    let name_servers = build::name_servers(&config, resolver).map_err(|faults| refused(&faults, messages))?;
    let options = build::Options {
        files: SharedFiles::new(SystemFiles),
        workers,
        peers: &peers,
        name_servers: &name_servers,
        connections: capacity.maxconn,
        open_files: u64::from(capacity.open_files).min(system::descriptor_limit().soft.unwrap_or(u64::MAX))
            as u32,
        pipes: capacity.pipes,
        frontend_connections: invocation.proxy_maxconn,
        resolver,
        states: &states,
        ignore_unknown_names: invocation.ignore_unresolved,
        identity,
        events: &record.events,
        tls: &record.tls,
        global_sinks: &record.log_sinks,
        statistics: Box::new(Page::new(record)),
        warn: &|warning| match warning.is_borne && is_strict {
            true => messages.announce(format!("config : {}", warning.text)),
            false => messages.warning(format!("config : {}", warning.text)),
        },
        notice: &|notice| messages.announce(format!("config : {notice}")),
    };
    let relays = build::relays(&config, &options).map_err(|faults| refused(&faults, messages))?;
    match build::instance(config, options) {
        Ok(instance) => Ok((Arc::new(instance), Plans { relays, peers, name_servers, states })),
        Err(faults) => Err(refused(&faults, messages)),
    }
}

/// Prints the faults of a configuration that could be parsed.
fn refused(faults: &[build::BuildError], messages: &Messages) -> Fault {
    faults.iter().for_each(|fault| messages.alert(format!("config : {fault}")));
    Some("config : Fatal errors found in configuration.".to_owned())
}

fn start_workers(
    live: Live,
    lifecycle: &Arc<Lifecycle>,
    global: &Global,
    workers: usize,
    signals: SignalReader,
    channel: Option<OwnedFd>,
) -> weir_sys::Result<Runtime> {
    let settings = tuning::scheduler(global, workers);
    observe::work_target::measure(settings.profiling);
    weir_memory::name_work_with(observe::work_target::work_name);
    weir_memory::count(global.profiling.memory);
    let station = Station::new(live, lifecycle, global, workers);
    station.tuning.buffers.publish();
    let signals = Mutex::new(Some(signals));
    let channel = Mutex::new(channel);
    Runtime::start(&settings, move |worker| {
        station.set_up(worker);
        let reader = signals.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| worker == 0);
        let channel = channel.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| worker == 0);
        if let (Some(channel), Some(socket)) = (channel, station.live.record.cli_sockets().last())
            && let Err(errno) = crate::worker::attend(
                station.live.clone(),
                Arc::clone(&station.lifecycle),
                Arc::clone(socket),
                channel,
            )
        {
            station.lifecycle.messages.alert(format!("The master cannot be heard: {errno}."));
        }
        if let Some(reader) = reader
            && let Err(errno) = station.lifecycle.obey(reader)
        {
            station.lifecycle.messages.alert(format!("Signals cannot be received: {errno}."));
        }
    })
}

/// Sets the limits of regular expressions, the handling of those that exceed them, and how many results are kept.
fn bound_regular_expressions(tuning: &Tuning) {
    weir_expr::pattern::set_cache_size(tuning.pattern_cache_size as usize);
    limit::set_on_limit(tuning.regex_on_limit);
    let most = tuning.regex_request_time.map_or(0, |most| most.as_nanos().try_into().unwrap_or(u64::MAX));
    let clock_ns = if most < COARSE_BUDGET_NS { monotonic_ns } else { coarse_monotonic_ns };
    let context = budget::BudgetContext { clock_ns, owner: || weir_sched::current().to_bits() };
    budget::set_budget(most, context);
}

/// From this budget on, the coarse clock measures it: most searches end within its tick of 1 to 10 ms, and on the whole as much time is
/// counted as passes. It takes a fifth of the time of the exact clock: two readings of that one cost as much as a short search.
const COARSE_BUDGET_NS: u64 = 100_000_000;

/// The settings of each worker.
struct Station {
    live: Live,
    lifecycle: Arc<Lifecycle>,
    log_identity: Arc<LogIdentity>,
    tuning: WorkerTuning,
    /// The size limit of a sent TLS record.
    largest_record: Option<usize>,
}

impl Station {
    fn new(live: Live, lifecycle: &Arc<Lifecycle>, global: &Global, workers: usize) -> Self {
        let hostname = &lifecycle.instance.identity.hostname;
        let hostname = global.log_host_name.as_ref().map(|name| match name {
            weir_config::model::SentHostName::Own => hostname.clone(),
            weir_config::model::SentHostName::Named(name) => name.to_string(),
        });
        bound_regular_expressions(&global.tuning);
        weir_events::size_datagram_sockets(global.tuning.datagram_send_buffer.unwrap_or(0));
        if global.no_memory_trimming {
            weir_memory::keep_free_memory();
        }
        Station {
            live,
            lifecycle: Arc::clone(lifecycle),
            log_identity: Arc::new(LogIdentity { hostname, process_id: system::id() }),
            tuning: WorkerTuning::new(&global.tuning, workers),
            largest_record: global.tls.largest_record().map(|bytes| bytes as usize),
        }
    }

    /// Sets the current thread up to serve.
    ///
    /// Every thread-local value with a destructor is used here for the first time: the C library records it on the heap, and
    /// ends the process when there is no memory for that.
    fn set_up(&self, worker: usize) {
        let instance = local(&self.lifecycle.instance);
        if self.live.record.tls().is_some_and(LiveTls::speaks) {
            weir_tls::library::prepare_thread();
        }
        // Readers of published values have a thread-local slot.
        drop(weir_sync::Published::new(()).load());
        self.tuning.buffers.set_up(instance.figures.len());
        weir_containers::keep_recycled(self.tuning.hot_bytes);
        if let Some(bytes) = self.largest_record {
            weir_net::set_largest_record(bytes);
        }
        weir_stream::recycle::configure(instance.limits.header_count);
        weir_stream::worker::install(Arc::clone(&instance.figures[worker]));
        let zone = instance.identity.time_zone.clone();
        let offset: ZoneOffset = Arc::new(move |seconds| zone.at(seconds).offset);
        let logger = || Logger::new(Arc::clone(&self.log_identity), Arc::clone(&offset)).of_worker(worker);
        weir_stream::log::install(logger());
        relay::install(logger());
        let timeline = Arc::clone(&self.live.record.timelines[worker]);
        weir_stream::timeline::install(timeline, self.tuning.timeline_slow_ms);
        weir_stream::server::idle::start_keeper(Rc::clone(&instance));
        pulse::start(self.live.clone());
        if worker == 0 {
            pattern_care::start(self.live.clone());
            ocsp_updates::start(&self.live);
            crate::tables::start(Rc::clone(&instance));
            self.lifecycle.peers.sections.iter().for_each(|section| section.start());
        }
        weir_logs::forward::start(&self.live.record.events.forwards);
        if let Some(checks) = self.live.record.checks.get() {
            checks.start();
        }
        if let Some(resolvers) = self.live.record.resolvers.get() {
            resolvers.start();
        }
        self.accept(&instance);
        self.accept_operators();
        self.accept_messages();
        self.accept_peers();
    }

    fn accept(&self, instance: &LocalInstance) {
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let Owner::Frontend { proxy, listener } = listener_sockets.owner else { continue };
            let Some(frontend) = ProxyRef::at(instance, proxy) else { continue };
            let acceptor = listener_handler::ListenerHandler {
                frontend: frontend.clone(),
                listener,
                workers: Arc::clone(&listener_sockets.workers),
                spread: self.tuning.spread,
            };
            if let Some(task) = listener_sockets.accept_here(acceptor, self.tuning.accept_batch) {
                let acceptors = &frontend.acceptors;
                acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        }
    }
}

impl Station {
    fn accept_operators(&self) {
        let all_sockets = self.lifecycle.listening.all_sockets().iter();
        let of_operators =
            all_sockets.filter(|listener_sockets| matches!(listener_sockets.owner, Owner::Operator(_)));
        for (listener_sockets, socket) in of_operators.zip(self.live.record.cli_sockets()) {
            if let Some(task) = listener_sockets.accept_here(
                CliAcceptor { live: self.live.clone(), socket: Arc::clone(socket) },
                cli_server::BATCH,
            ) {
                let acceptors = &self.lifecycle.operator_acceptors;
                acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        }
    }

    /// Starts to accept connections of peers.
    fn accept_peers(&self) {
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let Owner::Peers(listener) = &listener_sockets.owner else { continue };
            let tls = listener.tls.clone().map(|tls| tls as Arc<dyn ChooseServer>);
            let acceptor = PeerAcceptor {
                section: Arc::clone(&listener.section),
                tls,
                accept_proxy: listener.bind.options.accept_proxy,
            };
            if let Some(task) = listener_sockets.accept_here(acceptor, self.tuning.accept_batch) {
                let acceptors = &self.lifecycle.operator_acceptors;
                acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        }
    }

    /// Starts to receive messages for `log-forward` sections.
    fn accept_messages(&self) {
        let relays = &self.lifecycle.relays.shared;
        for listener_sockets in self.lifecycle.listening.all_sockets() {
            let Owner::Relay(listener) = &listener_sockets.owner else { continue };
            let task = match &listener.way {
                RelayWay::Stream(way) => {
                    let acceptor = StreamAcceptor { relays: Arc::clone(relays), listener: Arc::clone(way) };
                    listener_sockets.accept_here(acceptor, self.tuning.accept_batch)
                }
                RelayWay::Datagrams(relay) => listener_sockets.receive_here(listener.number, |descriptor| {
                    relay::receive_datagrams(Arc::clone(relays), Arc::clone(relay), descriptor)
                }),
            };
            if let Some(task) = task {
                let acceptors = &self.lifecycle.operator_acceptors;
                acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
            }
        }
    }
}

/// The processes that this one replaces, while it starts. If the start fails, those that released their addresses may take
/// them back.
struct Takeover {
    former: Former,
    /// Whether they were asked to release their addresses.
    released: Cell<bool>,
}

impl Takeover {
    fn new(former: Former) -> Self {
        Takeover { former, released: Cell::new(false) }
    }

    /// Tells them to end: this process has the addresses now.
    fn finish(self) {
        self.released.set(false);
        self.former.tell(if self.former.at_once { signal::SIGTERM } else { signal::SIGUSR1 });
    }
}

impl Predecessor for Takeover {
    fn release(&self) -> bool {
        self.released.set(true);
        self.former.tell(signal::SIGTTOU)
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        if self.released.get() {
            self.former.tell(signal::SIGTTIN);
        }
    }
}

impl Former {
    /// Sends a signal to them; false if there is no such process.
    fn tell(&self, signal: signal::Signal) -> bool {
        self.processes.iter().filter(|&&process| signal::send(process, signal) == Ok(true)).count() > 0
    }
}

/// Prints the cost of each kind of lock, and its share of the workers' time (R82, R83).
fn say_what_locks_cost(workers: usize, started_ms: u64) {
    let elapsed_ns = weir_sched::now().as_ms().saturating_sub(started_ms).saturating_mul(1_000_000);
    for figures in weir_sync::lock_figures() {
        let share = figures.share_of_run_time(workers, elapsed_ns);
        // If standard error is closed, there is nowhere to report that.
        let _ = writeln!(std::io::stderr(), "{figures}\tshare of run time: {share:.3} %");
    }
}

/// The open log targets; one may come several times.
fn all_log_sinks<'s>(
    instance: &'s Instance,
    relays: &'s LiveRelays,
    peers: &'s LivePeers,
) -> impl Iterator<Item = &'s Arc<LogSink>> {
    let of_proxies = instance.proxies.iter().flat_map(|proxy| &proxy.log_sinks);
    of_proxies.chain(&relays.sinks).chain(&peers.sinks)
}

/// Waits for a limited time until pending log lines and traces are written.
fn flush_logs(instance: &Instance, relays: &LiveRelays, peers: &LivePeers, traces: &Sinks) {
    for sink in all_log_sinks(instance, relays, peers) {
        sink.flush(LAST_LOGS);
    }
    for sink in traces.all() {
        sink.flush(LAST_LOGS);
    }
}

/// How long the end of the process waits for a slow reader of its logs.
const LAST_LOGS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
