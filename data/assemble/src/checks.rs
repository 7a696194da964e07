//! Builds server checks: from the configuration to check settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use weir_backend::{CheckKind, CheckRules, ObserveRules, ServerKey, TrackMember};
use weir_checks::{
    CheckLoad, CheckPlan, CheckTls, Checks, Dial, Greets, Http2Bounds, Intervals, Launcher, ProgramPlan,
    ReusePlan, Script, Timings,
};
use weir_model::{
    CheckMethod, CheckScripts, CheckTuning, Config, Host, InitialState, Mode, Observe, Protocol, SendProxy,
};
use weir_net::ConnectOptions;
use weir_stream::instance::{Instance, Proxy};
use weir_stream::server::plan;
use weir_sys::Address;

use super::milliseconds;

/// Objects shared by all checks.
#[derive(Clone, Debug, Default)]
pub struct CheckMeans {
    /// The check settings of the global section.
    pub tuning: CheckTuning,
    /// The launcher of external programs, if any check uses one.
    pub launcher: Option<Arc<Launcher>>,
    /// `healthcheck` sections, by name.
    pub sections: HashMap<Arc<str>, Arc<CheckScripts>>,
}

impl CheckMeans {
    /// Creates the objects for a configuration. Call it before the process changes its root directory and drops privileges.
    ///
    /// # Errors
    /// When the launcher cannot be started.
    pub fn new(config: &Config, environment: &[String]) -> std::io::Result<Self> {
        let uses_program =
            |proxy: &weir_model::Proxy| matches!(proxy.settings.checks.method, CheckMethod::Program);
        let launcher = if config.proxies.iter().any(uses_program) {
            let preserves = config.global.external_check.is_some_and(|said| said.preserves_environment);
            let inherited = environment.iter().filter(|_| preserves);
            let inherited = inherited.map(|variable| variable.clone().into_bytes()).collect();
            Some(Arc::new(Launcher::start(inherited)?))
        } else {
            None
        };
        let sections = config.health_checks.iter();
        let sections = sections.map(|section| (Arc::clone(&section.name), Arc::clone(&section.scripts)));
        Ok(CheckMeans { tuning: config.global.tuning.checks, launcher, sections: sections.collect() })
    }
}

/// All checks of an instance, not started.
pub fn checks(instance: &Instance, means: &CheckMeans, view: Box<dyn weir_checks::ProcessView>) -> Checks {
    let plans = instance.proxies.iter().filter(|proxy| !proxy.config.settings.disabled).flat_map(|proxy| {
        let mut shared = CheckParts::default();
        let servers = (0..).zip(&proxy.config.servers);
        servers.flat_map(move |(rank, server)| {
            plans(instance, proxy, server, ServerKey::configured(rank), means, &mut shared)
        })
    });
    let load = CheckLoad::new(instance.process_counters.len(), means.tuning.most_per_thread);
    Checks::new(plans.collect(), load, means.tuning.max_spread.map(milliseconds), view)
}

/// `rise`, `fall` and the initial state of a server with health checks.
pub(super) fn health_rules(server: &weir_model::ServerSettings) -> Option<CheckRules> {
    let said = &server.check;
    said.enabled.then_some(CheckRules { rise: said.rise, fall: said.fall, start: said.initial_state })
}

/// The rules for agent checks, if enabled: a single result changes the state.
pub(super) fn agent_rules(server: &weir_model::ServerSettings) -> Option<CheckRules> {
    let agent = server.check.agent.as_ref()?;
    agent.enabled.then_some(CheckRules { rise: 1, fall: 1, start: InitialState::FullyUp })
}

/// The observed traffic of a server (`observe`).
pub(super) fn observe_rules(server: &weir_model::ServerSettings) -> Option<ObserveRules> {
    let said = &server.check;
    let layer7 = match said.observe {
        Observe::Nothing => return None,
        Observe::Layer4 => false,
        Observe::Layer7 => true,
    };
    said.enabled.then_some(ObserveRules { layer7, limit: said.error_limit, consequence: said.on_error })
}

/// Objects shared by the checks of one backend's servers, each created on first use.
#[derive(Default)]
pub struct CheckParts {
    /// The connection settings of the last health check.
    dial: Option<Arc<Dial>>,
    /// The connection settings of the last agent check.
    agent_dial: Option<Arc<Dial>>,
    /// The check script of checks without a `healthcheck` section.
    script: Option<Option<Arc<Script>>>,
}

/// The plans of a server's checks.
pub fn plans(
    instance: &Instance,
    proxy: &Proxy,
    server: &weir_model::Server,
    key: ServerKey,
    means: &CheckMeans,
    shared: &mut CheckParts,
) -> impl Iterator<Item = CheckPlan> + use<> {
    let health = health_plan(instance, proxy, server, key, means, shared);
    let agent = agent_plan(instance, proxy, server, key, means.tuning, shared);
    [health, agent].into_iter().flatten()
}

fn health_plan(
    instance: &Instance,
    proxy: &Proxy,
    server: &weir_model::Server,
    key: ServerKey,
    means: &CheckMeans,
    shared: &mut CheckParts,
) -> Option<CheckPlan> {
    let said = &server.settings.check;
    let backend = proxy.backend.as_ref().filter(|_| said.enabled)?;
    let interval = |other: Option<Duration>| milliseconds(other.unwrap_or(said.inter)).max(1);
    let script = match said.section.as_ref().and_then(|name| means.sections.get(name)) {
        Some(section) => Script::of(section),
        None => shared.script.get_or_insert_with(|| Script::of(&proxy.config.settings.checks)).clone(),
    };
    Some(CheckPlan {
        backend: Arc::clone(backend),
        server: key,
        kind: CheckKind::Health,
        intervals: Intervals {
            usual_ms: interval(None),
            fast_ms: interval(said.fast_inter),
            down_ms: interval(said.down_inter),
            spread_percent: means.tuning.spread_percent,
        },
        timings: timings(proxy),
        dial: dial(instance, proxy, server, key).shared(&mut shared.dial),
        agent_send: None,
        reuse: reuse(proxy, server).filter(|_| script.as_ref().is_some_and(|s| s.takes_any_connection())),
        script,
        program: program_plan(proxy, server, means).map(Arc::new),
    })
}

/// How checks reuse the server's idle connections. `None` if disabled, or if the checks connect differently than requests do
/// (manual, "check-reuse-pool").
fn reuse(proxy: &Proxy, server: &weir_model::Server) -> Option<ReusePlan> {
    let (settings, said) = (&server.settings, &server.settings.check);
    let connects_otherwise = said.port.is_some()
        || said.address.is_some()
        || said.send_proxy
        || said.via_socks4
        || said.protocol.or(settings.protocol) == Some(Protocol::Fcgi)
        || settings.send_proxy.is_some()
        || settings.socks4.is_some()
        || settings.source.is_some()
        || proxy.config.settings.source.is_some();
    (said.reuses_connections && !connects_otherwise).then(|| ReusePlan {
        key: weir_stream::server::connect::key_of_check(settings, said.connection_name.as_deref()),
        // Traffic reuses a check's connection only at a server without TLS.
        leaves_own: !settings.tls.as_ref().is_some_and(|tls| tls.enabled),
    })
}

/// The external program that checks a server, if configured.
fn program_plan(proxy: &Proxy, server: &weir_model::Server, means: &CheckMeans) -> Option<ProgramPlan> {
    let said = &proxy.config.settings.checks;
    if !matches!(said.method, CheckMethod::Program) || server.settings.check.section.is_some() {
        return None;
    }
    let is_passed = |address: &&Address| matches!(address, Address::Inet(_) | Address::Unix(_));
    let listener = proxy.listeners.iter().filter_map(|listener| listener.address.as_ref()).find(is_passed);
    Some(ProgramPlan {
        launcher: means.launcher.clone()?,
        command: said.program.clone()?,
        path: said.program_path.clone().unwrap_or_default(),
        proxy_id: proxy.config.id,
        listener: listener.cloned(),
        tls: server.settings.tls.as_ref().is_some_and(|tls| tls.enabled),
        protocol: match (proxy.config.mode(), server.settings.protocol) {
            (_, Some(Protocol::H2)) => "h2",
            (_, Some(Protocol::H1)) | (Mode::Http, None) => "h1",
            (Mode::Tcp, None) | (_, Some(Protocol::None)) => "tcp",
            (Mode::Log, None) => "syslog",
            (_, Some(Protocol::Fcgi)) => "fcgi",
            (Mode::Spop, None) | (_, Some(Protocol::Spop)) => "spop",
        },
    })
}

fn agent_plan(
    instance: &Instance,
    proxy: &Proxy,
    server: &weir_model::Server,
    key: ServerKey,
    tuning: CheckTuning,
    shared: &mut CheckParts,
) -> Option<CheckPlan> {
    let said = server.settings.check.agent.as_ref().filter(|agent| agent.enabled)?;
    let backend = proxy.backend.as_ref()?;
    let interval = milliseconds(said.inter.unwrap_or(AGENT_INTERVAL)).max(1);
    let of_health = dial(instance, proxy, server, key);
    let dial = Dial {
        address: said.address.as_ref().and_then(Host::ip).or(of_health.address),
        port: said.port,
        socks4: None,
        greets: Greets::No,
        proxy_v2: None,
        // An agent is a separate service, without the server's TLS.
        tls: None,
        ..of_health
    };
    Some(CheckPlan {
        backend: Arc::clone(backend),
        server: key,
        kind: CheckKind::Agent,
        intervals: Intervals {
            usual_ms: interval,
            fast_ms: interval,
            down_ms: interval,
            spread_percent: tuning.spread_percent,
        },
        timings: timings(proxy),
        dial: dial.shared(&mut shared.agent_dial),
        agent_send: said.send.clone(),
        reuse: None,
        script: None,
        program: None,
    })
}

/// The default of `agent-inter` (manual).
const AGENT_INTERVAL: Duration = Duration::from_secs(2);

fn timings(proxy: &Proxy) -> Timings {
    let timeouts = &proxy.config.settings.timeouts;
    Timings { connect_ms: timeouts.connect.map(milliseconds), check_ms: timeouts.check.map(milliseconds) }
}

/// Makes servers with `track` follow their leaders, beginning with the current state.
pub fn follow(instance: &Instance) {
    let mut followers = Vec::new();
    for proxy in &instance.proxies {
        let Some(backend) = &proxy.backend else { continue };
        for (rank, server) in (0..).zip(&proxy.config.servers) {
            let Some((place, leader)) = server.leader else { continue };
            let of_leader = instance.proxies.get(place as usize).and_then(|proxy| proxy.backend.as_ref());
            let Some(of_leader) = of_leader else { continue };
            let key = ServerKey::configured(rank);
            let follower = TrackMember { backend: Arc::downgrade(backend), server: key };
            if of_leader.add_follower(ServerKey::configured(leader), follower) {
                followers.push((backend, key));
            }
        }
    }
    let now_ms = weir_sched::now().as_ms();
    for (backend, key) in followers {
        let mut news = backend.catch_up(key, now_ms);
        while let Some(followers) = news.later.pop() {
            news.extend(followers.go_on(now_ms));
        }
        let changed = news.batches.iter().filter_map(|end| instance.proxies.get(end.proxy)?.backend.as_ref());
        changed.for_each(|backend| backend.settle());
    }
}

/// The connection settings of a server's checks.
fn dial(instance: &Instance, proxy: &Proxy, server: &weir_model::Server, key: ServerKey) -> Dial {
    let (settings, said) = (&server.settings, &server.settings.check);
    let of_proxy = &proxy.config.settings;
    let keep_alive = of_proxy.options.server_keep_alive.then_some(&of_proxy.server_keep_alive);
    let source = settings.source.as_deref().or(of_proxy.source.as_deref());
    let source = source.map(|source| plan::source(source, 0)).unwrap_or_default();
    let options = plan::options(Some(settings), keep_alive, true);
    // A check of another address or port does not inherit the server's TLS and PROXY settings. Neither does the check of a server
    // added at run time (manual, "check").
    let elsewhere = said.port.is_some() || said.address.is_some() || !key.is_configured();
    let greets = match (settings.send_proxy, said.send_proxy) {
        (Some(SendProxy::V2), explicit) if explicit || !elsewhere => Greets::V2,
        (Some(SendProxy::V1), explicit) if explicit || !elsewhere => Greets::V1,
        (None, true) => Greets::V1,
        _ => Greets::No,
    };
    Dial {
        // Host names are already resolved.
        address: said.address.as_ref().and_then(Host::ip),
        port: said.port,
        socks4: plan::socks4(settings).filter(|_| said.via_socks4),
        server_socks4: plan::socks4(settings),
        source: source.into(),
        options: ConnectOptions {
            // The output is already sent, so a reset is safe, and the socket does not stay in TIME_WAIT.
            no_linger: true,
            delays_acknowledgement: true,
            sizes: instance.limits.server_sockets,
            multipath: options.multipath || said.multipath,
            ..options
        },
        greets,
        proxy_v2: settings.proxy_v2.clone().filter(|_| greets == Greets::V2),
        tls: proxy.server_tls(key).map(|upstream| CheckTls {
            upstream,
            is_usual: said
                .tls
                .enabled
                .unwrap_or_else(|| !elsewhere && settings.tls.as_ref().is_some_and(|tls| tls.enabled)),
            server_name: said.tls.server_name.clone(),
            protocols: said.tls.protocols.clone(),
            takes_host: !said.tls.no_automatic_name,
        }),
        protocol: said.protocol.or(settings.protocol),
        http2: Http2Bounds { limits: instance.limits.h2_server, pace: instance.limits.h2_server_pace },
    }
}
