//! Timeouts that make each other ineffective. The deadline table of `data/stream` documents when each timeout applies.

use std::collections::HashSet;
use std::time::Duration;

use weir_model::{BackendTarget, Config, ConnectionMode, Mode, Proxy};

use super::finding_at;
use crate::findings::Finding;

/// Contradictory timeouts in each proxy, and between frontends and their backends.
pub(super) fn contradictions(config: &Config) -> Vec<Finding> {
    let mut found = Vec::new();
    for proxy in config.proxies.iter().filter(|proxy| !proxy.settings.disabled) {
        let own = own(proxy);
        found.extend(
            own.into_iter().map(|text| finding_at(CODE, &proxy.at, format!("'{}': {text}", proxy.name))),
        );
        found.extend(backends(config, proxy).into_iter().filter_map(|backend| between(proxy, backend)));
    }
    found
}

fn own(proxy: &Proxy) -> Vec<String> {
    let timeouts = &proxy.settings.timeouts;
    let mut found = Vec::new();
    let mut longer = |one: NamedTimeout, other: NamedTimeout, why: &str| {
        if let (Some(first), Some(second)) = (one.1, other.1)
            && first > second
        {
            found.push(format!(
                "'timeout {}' ({}) is longer than 'timeout {}' ({}): {why}.",
                one.0,
                shown(first),
                other.0,
                shown(second)
            ));
        }
    };
    let client = NamedTimeout("client", timeouts.tunnel.or(timeouts.client));
    let server = NamedTimeout("server", timeouts.tunnel.or(timeouts.server));
    let half_closed = "a connection that is half closed would live longer than one that is open";
    if proxy.is_frontend() && timeouts.tunnel.is_none() {
        longer(NamedTimeout("client-fin", timeouts.client_fin), client, half_closed);
    }
    if proxy.is_backend() && timeouts.tunnel.is_none() {
        longer(NamedTimeout("server-fin", timeouts.server_fin), server, half_closed);
    }
    let tunnel = NamedTimeout("tunnel", timeouts.tunnel.filter(|_| proxy.mode() == Mode::Http));
    let sooner = "a WebSocket that is quiet would be closed sooner than a request that waits";
    if proxy.is_frontend() {
        longer(NamedTimeout("client", timeouts.client), tunnel, sooner);
    }
    if proxy.is_backend() {
        longer(NamedTimeout("server", timeouts.server), tunnel, sooner);
    }
    let closes = proxy.settings.options.connection_mode == Some(ConnectionMode::Close);
    if closes && proxy.is_frontend() && timeouts.http_keep_alive.is_some() {
        found.push("'timeout http-keep-alive' never runs with 'option httpclose'.".to_owned());
    }
    found
}

/// A timeout with its keyword.
#[derive(Clone, Copy)]
struct NamedTimeout(&'static str, Option<Duration>);

/// TCP: the longer of the two timeouts never expires, because the shorter one closes both sides first.
fn between(frontend: &Proxy, backend: &Proxy) -> Option<Finding> {
    let (front, back) = (&frontend.settings.timeouts, &backend.settings.timeouts);
    let tunnel = front.tunnel.or(back.tunnel);
    let (client, server) = (front.client?, back.server?);
    if frontend.mode() != Mode::Tcp || tunnel.is_some() || client == server {
        return None;
    }
    let message = format!(
        "'{}': 'timeout client' ({}) and 'timeout server' of '{}' ({}) differ: in TCP the shorter one ends the session.",
        frontend.name,
        shown(client),
        backend.name,
        shown(server)
    );
    Some(finding_at(CODE, &frontend.at, message))
}

/// The backends named by a frontend. For a `listen` section with servers, the section itself.
fn backends<'c>(config: &'c Config, proxy: &'c Proxy) -> Vec<&'c Proxy> {
    if !proxy.is_frontend() {
        return Vec::new();
    }
    let fixed = proxy.use_backend.iter().filter_map(|rule| match &rule.target {
        BackendTarget::Static(index) => Some(index.get()),
        BackendTarget::Dynamic(_) => None,
    });
    let mut seen = HashSet::new();
    let named = proxy.default_backend.map(|index| index.get()).into_iter().chain(fixed);
    let named = named.filter(|index| seen.insert(*index)).filter_map(|index| config.proxies.get(index));
    named.chain((proxy.is_backend() && !proxy.servers.is_empty()).then_some(proxy)).collect()
}

/// A duration in configuration syntax.
fn shown(time: Duration) -> String {
    let milliseconds = time.as_millis();
    match milliseconds % 1000 {
        0 => format!("{}s", milliseconds / 1000),
        _ => format!("{milliseconds}ms"),
    }
}

const CODE: &str = "C704";
