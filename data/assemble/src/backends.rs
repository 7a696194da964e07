//! Builds backends and servers: from the configuration to load-balancing settings.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_backend::persistence::{CookieRules, DynamicCookies};
use weir_backend::{
    Backend, BackendSettings, BalanceAlgorithm, OutlierRules, PoolSettings, ServerAddress, ServerSettings,
};
use weir_model::{BackendTarget, Host, InitialAddress, Redispatch, ServerPort, TransparentSource};

use super::{BuildError, ProcessValues, Resolver, Warning, milliseconds, shares_idle};
use super::{checks, names};

/// The default of `fullconn` per proxy: the load at which its servers reach `maxconn`. It is a tenth of the connection limits of
/// all frontends that may use the proxy (manual, "fullconn").
pub(super) fn full_connections(proxies: &[weir_model::Proxy], options: &ProcessValues<'_>) -> Vec<u32> {
    let mut totals = vec![0_u32; proxies.len()];
    for (index, frontend) in proxies.iter().enumerate().filter(|(_, proxy)| proxy.is_frontend()) {
        let limit = frontend.settings.maxconn.or(options.frontend_connections).unwrap_or(options.connections);
        for target in targets(index, frontend) {
            if let Some(total) = totals.get_mut(target) {
                *total = total.saturating_add(limit);
            }
        }
    }
    totals.into_iter().map(|total| total.div_ceil(10).max(1)).collect()
}

/// The indices of the proxies that a frontend may use, without duplicates.
fn targets(index: usize, frontend: &weir_model::Proxy) -> BTreeSet<usize> {
    let mut targets = BTreeSet::new();
    if frontend.is_backend() {
        targets.insert(index);
    }
    targets.extend(frontend.default_backend.map(|target| target.get()));
    for rule in &frontend.use_backend {
        match &rule.target {
            BackendTarget::Static(target) => {
                targets.insert(target.get());
            }
            // Backend names computed at run time are not counted (manual, "fullconn").
            BackendTarget::Dynamic(_) => {}
        }
    }
    targets
}

/// The live backend of a proxy.
pub(super) fn backend(
    place: usize,
    config: &weir_model::Proxy,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    full_connections: u32,
    errors: &mut Vec<BuildError>,
) -> Arc<Backend> {
    let settings = &config.settings;
    let backend = BackendSettings {
        name: config.name.to_string(),
        id: config.id,
        place,
        is_listen: config.is_frontend(),
        log_health_checks: settings.options.log_health_checks,
        workers: options.workers.max(1),
        algorithm: BalanceAlgorithm::new(settings.balance.word.name).with(settings.balance.number()),
        hash_type: settings.hash_type,
        hash_balance_factor: settings.hash_balance_factor,
        hash_affinity: settings.hash_preserve_affinity,
        all_backups: settings.options.all_backups,
        full_connections: settings.fullconn.unwrap_or(full_connections),
        persist: settings.options.persist,
        redispatch: redispatch(settings.options.redispatch),
        retries: settings.retries,
        http_reuse: settings.options.reuse,
        cookie: settings.cookie.as_ref().map(CookieRules::new),
        dynamic_cookies: DynamicCookies {
            enabled: settings.cookie.as_ref().is_some_and(|cookie| cookie.dynamic),
            key: settings.dynamic_cookie_key.as_ref().map(ToString::to_string),
        },
        outliers: settings.outlier_ejection.as_ref().map(outlier_rules),
        judges_responses: matches!(config.mode(), weir_model::Mode::Http | weir_model::Mode::Spop),
    };
    let servers =
        config.servers.iter().map(|known| server(&config.name, known, global, options, errors)).collect();
    let now_ms = weir_sched::now().as_ms();
    let backend = Backend::new(backend, servers, now_ms);
    for text in options.states.restore(config, &backend, now_ms) {
        (options.warn)(Warning { text, is_borne: true });
    }
    backend
}

fn outlier_rules(said: &weir_model::OutlierEjection) -> OutlierRules {
    let base_ms = milliseconds(said.base);
    OutlierRules {
        errors: said.errors,
        ratio: said.ratio,
        latency: said.latency,
        interval_ms: milliseconds(said.interval),
        base_ms,
        longest_ms: said.longest.map_or(base_ms.saturating_mul(10), milliseconds),
        at_most_percent: said.at_most,
    }
}

fn server(
    backend: &str,
    config: &weir_model::Server,
    global: &weir_model::Global,
    options: &ProcessValues<'_>,
    errors: &mut Vec<BuildError>,
) -> ServerSettings {
    let address = address(backend, config, options).unwrap_or_else(|message| {
        errors.push(BuildError { at: config.at.clone(), message });
        ServerAddress::UNKNOWN
    });
    server_settings(config, address, shares_idle(global))
}

/// The settings of a server added at run time. Its host name is not resolved.
pub(super) fn added_server(config: &weir_model::Server, shares_idle: bool) -> ServerSettings {
    let address = match &config.address {
        weir_model::ServerAddress::Inet { host, port } => inet(host.ip(), port),
        other => local(other),
    };
    server_settings(config, address, shares_idle)
}

fn server_settings(config: &weir_model::Server, address: ServerAddress, shares_idle: bool) -> ServerSettings {
    let settings = &config.settings;
    let known = !address.is_unknown();
    ServerSettings {
        name: config.name.to_string(),
        id: config.id,
        address,
        weight: u32::from(settings.weight),
        backup: settings.backup,
        disabled: settings.disabled || (!known && settings.resolution.section.is_none()),
        unresolved: !known && settings.resolution.section.is_some(),
        cookie: settings.cookie.as_ref().map(ToString::to_string),
        maximum_connections: settings.maxconn,
        minimum_connections: settings.minconn,
        maximum_queue: settings.maxqueue,
        slow_start_ms: milliseconds(settings.slowstart),
        hash_key: settings.hash_key,
        check: checks::health_rules(settings),
        agent: checks::agent_rules(settings),
        observe: checks::observe_rules(settings),
        pool: PoolSettings {
            maximum: settings.pool_max_connections,
            low: settings.pool_low_connections,
            purge_delay_ms: milliseconds(settings.pool_purge_delay),
            maximum_reuse: settings.max_reuse,
            shared: shares_idle,
            strict: settings.strict_maxconn,
        },
    }
}

fn address(
    backend: &str,
    config: &weir_model::Server,
    options: &ProcessValues<'_>,
) -> Result<ServerAddress, String> {
    match &config.address {
        weir_model::ServerAddress::Inet { host, port } => {
            let saved = options.states.address(backend, config);
            if config.settings.resolution.section.is_some()
                && let Host::Name { name, .. } = host
            {
                if weir_dns::Name::parse(name.as_bytes()).is_err() {
                    return Err(format!(
                        "'server {backend}/{}' : name servers cannot be asked for '{name}'.",
                        config.name
                    ));
                }
                // Only name servers and a previous process know the hosts of a service.
                if weir_model::is_service(host) {
                    let given = options.states.given_name(backend, config).and_then(|given| given.port);
                    let ip = saved.filter(|_| given.is_some() && begins_where_it_was(config));
                    let port = given.map_or_else(|| *port, ServerPort::Fixed);
                    return Ok(ServerAddress::Inet { ip, port });
                }
            }
            let found =
                first_address(backend, config, host, saved, options.resolver, options.ignore_unknown_names)?;
            if found.is_none() {
                without_address(backend, config, host).into_iter().for_each(options.notice);
            }
            Ok(inet(found, port))
        }
        other => Ok(local(other)),
    }
}

/// Whether `init-addr` allows a server's saved address.
fn begins_where_it_was(config: &weir_model::Server) -> bool {
    let ways = &config.settings.initial_address;
    let ways = if ways.is_empty() { &DEFAULT_WAYS[..] } else { ways };
    ways.iter().take_while(|way| **way != InitialAddress::None).any(|way| *way == InitialAddress::Last)
}

fn inet(ip: Option<IpAddr>, port: &ServerPort) -> ServerAddress {
    ServerAddress::Inet { ip, port: *port }
}

/// A server address that is not an IP address.
fn local(address: &weir_model::ServerAddress) -> ServerAddress {
    match address {
        weir_model::ServerAddress::Inet { port, .. } => inet(None, port),
        weir_model::ServerAddress::Unix(path) => ServerAddress::Unix(path.clone()),
        weir_model::ServerAddress::Abstract { name, padded } => {
            let mut name = name.to_vec();
            if *padded {
                // All of `sun_path` except its first byte is part of the name (manual, "abns@").
                name.resize(SUN_PATH - 1, 0);
            }
            ServerAddress::Abstract(name)
        }
        weir_model::ServerAddress::SocketPair(number) => ServerAddress::Pair(*number),
    }
}

/// The initial address of a server: the first result of the methods of `init-addr`, in their order. `None` if the server starts
/// without an address (manual, "init-addr").
pub(super) fn first_address(
    backend: &str,
    config: &weir_model::Server,
    host: &Host,
    saved: Option<IpAddr>,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<Option<IpAddr>, String> {
    let subject = format!("{backend}/{}", config.name);
    first_of(&subject, ways_of(config), host, saved, resolver, ignore_unknown_names)
}

/// The notice about a server that starts without an address although `init-addr` tried to resolve its name.
pub(super) fn without_address(backend: &str, config: &weir_model::Server, host: &Host) -> Option<String> {
    let Host::Name { name, .. } = host else { return None };
    let mut tried = ways_of(config).iter().take_while(|way| **way != InitialAddress::None);
    tried.any(|way| *way == InitialAddress::Libc).then(|| {
        let (at, server) = (&config.at, &config.name);
        format!(
            "[{at}] : 'server {backend}/{server}' : could not resolve address '{name}', disabling server."
        )
    })
}

/// The methods of a server's `init-addr`, or their default.
fn ways_of(config: &weir_model::Server) -> &[InitialAddress] {
    let ways = &config.settings.initial_address;
    match (ways.is_empty(), config.settings.resolution.section.is_some()) {
        // Name servers resolve the host later, so the start depends on the system's resolver only with an explicit `init-addr`.
        (true, true) => &RESOLVED_WAYS,
        (true, false) => &DEFAULT_WAYS,
        (false, _) => ways,
    }
}

/// Like [`first_address`], for an object that messages call `subject`.
pub(super) fn first_of(
    subject: &str,
    ways: &[InitialAddress],
    host: &Host,
    saved: Option<IpAddr>,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<Option<IpAddr>, String> {
    let name = match host {
        Host::Ip(address) => return Ok(Some(*address)),
        Host::Name { name, .. } => name,
    };
    let ways = if ways.is_empty() { &DEFAULT_WAYS } else { ways };
    for way in ways {
        match way {
            InitialAddress::Last => {
                if saved.is_some() {
                    return Ok(saved);
                }
            }
            InitialAddress::Libc => {
                if let Ok(found) = names::address(host, resolver) {
                    return Ok(Some(found));
                }
            }
            InitialAddress::None => return Ok(None),
            InitialAddress::Ip(address) => return Ok(Some(*address)),
        }
    }
    if ignore_unknown_names {
        return Ok(None);
    }
    let problem =
        if ways.contains(&InitialAddress::Libc) { "could not resolve" } else { "no method found to resolve" };
    Err(format!("'server {subject}' : {problem} address '{name}'."))
}

/// The default of `init-addr` (manual).
const DEFAULT_WAYS: [InitialAddress; 2] = [InitialAddress::Last, InitialAddress::Libc];

/// The default with a `resolvers` section. HAProxy 2.6 and 3.2 then start with unresolved servers in maintenance.
const RESOLVED_WAYS: [InitialAddress; 3] = [InitialAddress::Last, InitialAddress::Libc, InitialAddress::None];

/// Resolves the host names of `source` lines once, as it does for servers.
pub(super) fn resolve_sources(
    config: &mut weir_model::Proxy,
    resolver: &dyn Resolver,
    errors: &mut Vec<BuildError>,
) {
    let mut fail = |at: &weir_model::Location, message: String| {
        errors.push(BuildError { at: at.clone(), message });
    };
    if let Err(error) = resolve_source(config.settings.source.as_mut(), resolver) {
        fail(&config.at, unknown_name("source", &error));
    }
    for server in &mut config.servers {
        if let Err(message) = resolve_server(&mut server.settings, resolver) {
            fail(&server.at, message);
        }
    }
}

/// The error for an unresolved host name in this keyword.
fn unknown_name(word: &str, error: &names::UnresolvedName) -> String {
    format!("'{word}' : could not resolve address '{}'.", error.0)
}

/// The errors for unresolved host names of a `source`.
pub(super) fn unknown_sources(source: Option<&weir_model::Source>, resolver: &dyn Resolver) -> Vec<String> {
    let hosts = source.into_iter().flat_map(source_hosts);
    hosts.filter_map(|host| Some(unknown_name("source", &names::address(host, resolver).err()?))).collect()
}

/// The errors for unresolved host names in a server's line, except the server's own.
pub(super) fn unknown_names(settings: &weir_model::ServerSettings, resolver: &dyn Resolver) -> Vec<String> {
    let mut unknown = unknown_sources(settings.source.as_deref(), resolver);
    if let Some(host) = settings.check.agent.as_ref().and_then(|agent| agent.address.as_ref())
        && let Err(error) = names::address(host, resolver)
    {
        unknown.push(unknown_name("agent-addr", &error));
    }
    if let Some(host) = &settings.check.address
        && let Err(error) = names::address(host, resolver)
    {
        unknown.push(unknown_name("addr", &error));
    }
    if let Some(proxy) = &settings.socks4
        && let Err(error) = names::address(&proxy.host, resolver)
    {
        unknown.push(unknown_name("socks4", &error));
    }
    unknown
}

/// Resolves the host names in a server's line, except the server's own.
///
/// # Errors
/// The error for the first unresolved host name.
pub(super) fn resolve_server(
    settings: &mut weir_model::ServerSettings,
    resolver: &dyn Resolver,
) -> Result<(), String> {
    resolve_source(settings.source.as_mut(), resolver).map_err(|error| unknown_name("source", &error))?;
    if let Some(agent) = &mut settings.check.agent
        && let Some(host @ Host::Name { .. }) = &agent.address
    {
        let found = names::address(host, resolver).map_err(|error| unknown_name("agent-addr", &error))?;
        Arc::make_mut(agent).address = Some(Host::Ip(found));
    }
    if let Some(host @ Host::Name { .. }) = &mut settings.check.address {
        let found = names::address(host, resolver).map_err(|error| unknown_name("addr", &error))?;
        *host = Host::Ip(found);
    }
    if let Some(proxy) = &mut settings.socks4
        && matches!(proxy.host, Host::Name { .. })
    {
        let found = names::address(&proxy.host, resolver);
        let found = found.map_err(|error| unknown_name("socks4", &error))?;
        Arc::make_mut(proxy).host = Host::Ip(found);
    }
    Ok(())
}

/// The host names of a `source`.
fn source_hosts(source: &weir_model::Source) -> impl Iterator<Item = &Host> {
    let transparent = match &source.transparent {
        Some(TransparentSource::Address { host, .. }) => Some(host),
        _ => None,
    };
    std::iter::once(&source.host).chain(transparent)
}

fn resolve_source(
    source: Option<&mut Arc<weir_model::Source>>,
    resolver: &dyn Resolver,
) -> Result<(), names::UnresolvedName> {
    let Some(source) = source else { return Ok(()) };
    if matches!(source.host, Host::Name { .. }) {
        let found = names::address(&source.host, resolver)?;
        Arc::make_mut(source).host = Host::Ip(found);
    }
    if let Some(TransparentSource::Address { host: host @ Host::Name { .. }, .. }) = &source.transparent {
        let found = names::address(host, resolver)?;
        if let Some(TransparentSource::Address { host, .. }) = &mut Arc::make_mut(source).transparent {
            *host = Host::Ip(found);
        }
    }
    Ok(())
}

/// `option redispatch` as an interval: negative if it counts from the last retry, 0 if disabled.
fn redispatch(known: Redispatch) -> i32 {
    match known {
        Redispatch::Off => 0,
        Redispatch::Every(interval) => i32::try_from(interval).unwrap_or(i32::MAX),
        Redispatch::FromLast(distance) => i32::try_from(distance).map_or(i32::MIN, |distance| -distance),
    }
}

/// The size of `sun_path` on Linux.
const SUN_PATH: usize = 108;

#[cfg(test)]
mod tests {
    use weir_model::ALGORITHMS;

    /// The parser must not accept an algorithm that the backend does not implement: the program would abort at start.
    #[test]
    fn balance_keywords_equal_the_implemented_algorithms() {
        let mut written: Vec<_> = ALGORITHMS.iter().map(|word| (word.name, word.hashes())).collect();
        let mut known: Vec<_> = weir_backend::algorithms().collect();
        written.sort_unstable();
        known.sort_unstable();
        assert_eq!(written, known);
    }
}
