//! A live process for tests, built from a configuration, without sockets or traffic. `control/process` also includes this file.
#![allow(dead_code, reason = "each crate uses its part")]

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_assemble::{
    BuildError, BuiltInstance, EventSinks, LoadedConfiguration, NameServersPlan, PeersPlan, ProcessValues,
    Resolver, SavedStates,
};
use weir_cli::{CliSession, SessionSettings, TransportAction};
use weir_cli::{Level, SeverityOutput};
use weir_counting::CountingAllocator;
use weir_expr::{Loader, TimeZone};
use weir_model::{Config, Global};
use weir_observe::files::SystemFiles;
use weir_stream::instance::{Hooks, Instance, InstanceIdentity};
use weir_syntax::{Environment, SharedFiles, SourceMap, StaticFeatures};

use weir_observe::{CliSettings, LiveProcess, LiveTarget, ProcessRecord, StatisticsPage};

/// Counts the allocations of each test.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The configuration of most tests: a frontend with two listeners, several kinds of servers, a TCP proxy, a statistics page, patterns.
pub(crate) const CONFIGURATION: &str = "
global
    stats socket /run/weir.sock level admin
    node vm
    description a box
    set-var proc.foo str(bar)
    set-var proc.five int(5)
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend fe
    bind 127.0.0.1:18080 name main
    bind 127.0.0.1:18081
    option socket-stats
    maxconn 100
    acl blocked path /blocked
    acl listed path -f a.lst
    http-request deny if blocked
    http-request deny if listed
    http-request set-header x-m %[path,map(m.map,def)]
    stats enable
    stats uri /stats
    stats admin if TRUE
    default_backend be
backend be
    balance roundrobin
    cookie SRV insert
    server s1 127.0.0.1:18090 cookie c1 weight 10 maxconn 50
    server s2 127.0.0.1:18091 weight 20 slowstart 20s maxqueue 5
    server s3 127.0.0.1:18092 backup
    server s4 127.0.0.1:18093 disabled
    server s5 /tmp/unix.sock
backend emp
    balance leastconn
backend bs
    balance source
    server t1 127.0.0.1:18090 weight 5
    server t2 [::1]:18090
listen tcp1
    mode tcp
    bind 127.0.0.1:18082
    server x1 127.0.0.1:18090
";

struct Files;

impl Loader for Files {}

impl weir_syntax::Files for Files {
    fn read(&self, path: &str, _: u64) -> io::Result<Vec<u8>> {
        match path {
            "a.lst" => Ok(b"/x\n/y\n".to_vec()),
            "m.map" => Ok(b"/k1 v1\n/k2 v2\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

struct NoNames;

impl Resolver for NoNames {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// The live process of a configuration.
pub(crate) fn live(text: &str) -> LiveProcess {
    try_live(text, &NoNames, false).expect("a configuration without names")
}

/// The live process of a configuration, with this resolver. The error contains the faults of its start.
pub(crate) fn try_live(
    text: &str,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<LiveProcess, Vec<String>> {
    let (record, config) = read(text)?;
    let BuiltInstance { instance, tls, log_sinks } =
        built(config, &record.events, resolver, ignore_unknown_names)?;
    record.events.attach(&instance).map_err(said)?;
    Ok(LiveProcess::new(|live| {
        let hooks = Hooks { statistics: Some(Box::new(StatisticsPage::new(live))), ..Hooks::default() };
        let instance = instance.with_hooks(hooks);
        let record = |_: &Arc<Instance>| ProcessRecord { tls: Some(tls), log_sinks, ..record };
        (instance, record)
    }))
}

/// Parses a configuration.
pub(crate) fn config(text: &str) -> Result<Config, Vec<String>> {
    read(text).map(|(_, config)| config)
}

fn said(errors: Vec<BuildError>) -> Vec<String> {
    errors.into_iter().map(|error| error.message).collect()
}

fn built(
    config: Config,
    events: &EventSinks,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<BuiltInstance, Vec<String>> {
    let options = options(events, resolver, ignore_unknown_names);
    let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
    weir_assemble::instance(config, options, &mut peers, &mut name_servers).map_err(said)
}

static NO_STATES: LazyLock<SavedStates> = LazyLock::new(SavedStates::default);

/// The options for an instance with one worker.
pub(crate) fn options<'o>(
    events: &'o EventSinks,
    resolver: &'o dyn Resolver,
    ignore_unknown_names: bool,
) -> ProcessValues<'o> {
    ProcessValues {
        files: SharedFiles::new(SystemFiles),
        variable_names: Arc::default(),
        workers: 1,
        connections: 1000,
        open_files: 2000,
        pipes: 0,
        frontend_connections: None,
        events,
        resolver,
        states: &NO_STATES,
        ignore_unknown_names,
        identity: InstanceIdentity {
            hostname: "vm".to_owned(),
            node: "vm".to_owned(),
            process_id: 7,
            started_us: 1_000_000,
            time_zone: TimeZone::fixed(0, "UTC"),
        },
        warn: &|_| {},
        notice: &|_| {},
    }
}

/// The live process of a configuration, with its global section.
pub(crate) fn live_with_global(text: &str) -> (LiveProcess, Global) {
    let (_, config) = read(text).expect("rings in memory");
    (live(text), config.global)
}

/// A parsed configuration, with the record of its process.
pub(crate) fn read(text: &str) -> Result<(ProcessRecord, Config), Vec<String>> {
    let (mut record, config) = read_only(text);
    record.events = weir_assemble::events(&config, &NoNames, false).map_err(said)?;
    Ok((record, config))
}

/// A configuration without an instance.
pub(crate) fn read_only(text: &str) -> (ProcessRecord, Config) {
    let mut sources = SourceMap::new();
    sources.add("t.cfg", text.as_bytes().to_vec());
    let LoadedConfiguration { outcome, registry, patterns, token_keys, variable_names, .. } =
        LoadedConfiguration::read(&sources, Arc::new(Files), &StaticFeatures::default(), Environment::new());
    let messages: Vec<_> =
        outcome.diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&sources)).collect();
    assert!(messages.is_empty(), "{messages:?}");
    let mut record =
        ProcessRecord { registry, patterns, token_keys, variable_names, ..ProcessRecord::new(1) };
    record.limits.connections = 1000;
    record.description = outcome.config.global.description.as_deref().map(str::to_owned);
    record.environment = vec!["HOME=/root".to_owned()];
    (record, outcome.config)
}

/// The settings of a socket with level admin.
pub(crate) fn settings() -> CliSettings {
    CliSettings {
        address: "unix@/run/cli".to_owned(),
        level: Level::Admin,
        severity_output: SeverityOutput::None,
        timeout: Duration::from_secs(10),
        connections: None,
        longest_line: 16_384,
        longest_payload: 131_072,
        exposes_listeners: false,
    }
}

/// The output for an administrator's connection with this input.
pub(crate) fn run_command(live: &LiveProcess, text: &str) -> String {
    let mut target = LiveTarget::new(live, weir_sched::current());
    let mut session = CliSession::new(SessionSettings { level: Level::Admin, ..SessionSettings::default() });
    session.feed(text.as_bytes());
    session.feed(b"\n");
    session.end_of_input();
    let mut out = Vec::new();
    while session.run(&mut target, 0, usize::MAX, &mut out) != TransportAction::Close {}
    String::from_utf8(out).expect("answers are text")
}

/// Runs a test on a worker, with a backend `farm` of this many servers.
pub(crate) fn with_backend(servers: usize, test: impl FnOnce(LiveProcess) + 'static) {
    let lines: String =
        (1..=servers).map(|at| format!("    server s{at} 127.0.0.1:80 weight 10\n")).collect();
    let text = format!(
        "defaults\n    mode http\n    timeout connect 1s\n    timeout server 5s\nbackend farm\n{lines}"
    );
    let done = weir_sched::run(async move { test(live(&text)) }).expect("a worker");
    assert!(done.is_some(), "the test ends");
}

/// Runs a test on a worker, with the live process of [`CONFIGURATION`].
pub(crate) fn with_live(test: impl FnOnce(LiveProcess) + 'static) {
    let done = weir_sched::run(async move { test(live(CONFIGURATION)) }).expect("a worker");
    assert!(done.is_some(), "the test ends");
}
