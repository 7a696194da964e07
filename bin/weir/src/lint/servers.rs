//! Servers that traffic cannot reach: missing servers, loops to a listener of this process, cookies that never stick.

use std::collections::HashSet;

use weir_model::{
    BackendTarget, Bind, Chroot, CookieMode, Host, ListenAddress, Mode, Proxy, Rule, RulesetKind, Server,
    ServerAddress, ServerPort,
};

use super::{LintSubject, finding_at};
use crate::findings::Finding;

/// The findings about the servers of each backend.
pub(super) fn misused(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let chosen = chosen(subject);
    for (index, proxy) in subject.config.proxies.iter().enumerate() {
        if !proxy.is_backend() || proxy.settings.disabled {
            continue;
        }
        found.extend(without_servers(proxy, chosen.contains(&index)));
        found.extend(without_cookies(proxy));
        found.extend(loops(subject, index, proxy));
        found.extend(outside_root(subject, proxy));
    }
    found.extend(shared_ports(subject));
    found
}

/// The indexes of all backends named by frontends.
fn chosen(subject: &LintSubject<'_>) -> HashSet<usize> {
    let proxies = &subject.config.proxies;
    proxies.iter().filter(|proxy| proxy.is_frontend()).flat_map(targets).collect()
}

/// The indexes of the backends named by a frontend.
fn targets(proxy: &Proxy) -> Vec<usize> {
    let rules = proxy.use_backend.iter().filter_map(|rule| match &rule.target {
        BackendTarget::Static(index) => Some(index.get()),
        BackendTarget::Dynamic(_) => None,
    });
    rules.chain(proxy.default_backend.map(|index| index.get())).collect()
}

/// Whether a rule sends a response, or rejects all requests. After a conditional rejection, other requests lack a response.
fn answers_or_ends(rule: &Rule) -> bool {
    let facts = rule.action.facts();
    facts.answers || (facts.is_final && rule.condition.is_none())
}

/// Whether a frontend selects backends with a log-format expression.
fn names_by_format(proxy: &Proxy) -> bool {
    proxy.use_backend.iter().any(|rule| matches!(rule.target, BackendTarget::Dynamic(_)))
}

/// A backend that receives traffic but can only respond with 503.
fn without_servers(proxy: &Proxy, is_chosen: bool) -> Option<Finding> {
    let settings = &proxy.settings;
    let answers = settings.stats.is_some()
        // A file for status 503 is a static page.
        || settings.errors.get(503).is_some()
        || RulesetKind::ALL.into_iter().any(|kind| proxy.rules(kind).any(answers_or_ends))
        || !proxy.redirects.is_empty();
    // A backend may exist only for its stick-table.
    let serves = match proxy.is_frontend() {
        true => targets(proxy).is_empty() && !names_by_format(proxy),
        false => is_chosen || proxy.table.is_none(),
    };
    if !proxy.servers.is_empty() || answers || !serves {
        return None;
    }
    let message = format!(
        "'{}' is without servers and without a rule that answers: all its traffic gets 503.",
        proxy.name
    );
    Some(finding_at(NO_SERVER, &proxy.at, message))
}

/// A backend with `cookie`, but without `cookie` on its servers.
fn without_cookies(proxy: &Proxy) -> Vec<Finding> {
    let Some(cookie) = &proxy.settings.cookie else { return Vec::new() };
    let has_value = |server: &Server| server.settings.cookie.is_some();
    let counts = |server: &&Server| !server.settings.backup && !has_value(server);
    if cookie.dynamic || cookie.mode == CookieMode::Passive || proxy.mode() != Mode::Http {
        return Vec::new();
    }
    proxy
        .servers
        .iter()
        .filter(counts)
        .map(|server| {
            let message = format!(
                "'cookie {}' does not keep clients at server '{}': its line does not have a 'cookie' value.",
                cookie.name, server.name
            );
            finding_at(COOKIE, &server.at, message)
        })
        .collect()
}

/// A server with the address of a listener that routes to the same server.
fn loops(subject: &LintSubject<'_>, index: usize, proxy: &Proxy) -> Vec<Finding> {
    let proxies = subject.config.proxies.iter().enumerate();
    let leads_here = |(position, frontend): &(usize, &Proxy)| {
        frontend.is_frontend() && (*position == index || targets(frontend).contains(&index))
    };
    let binds: Vec<&Bind> = proxies.filter(leads_here).flat_map(|(_, frontend)| &frontend.binds).collect();
    let is_own =
        |server: &&Server| binds.iter().any(|bind| bind.addresses.iter().any(|own| reaches(server, own)));
    proxy
        .servers
        .iter()
        .filter(is_own)
        .map(|server| {
            let message = format!(
                "server '{}' is the listener that leads to it: each request loops until a limit ends it. Give it the \
                 server's own port.",
                server.name
            );
            finding_at(LOOP, &server.at, message)
        })
        .collect()
}

/// Whether connections to a server arrive at this listener.
fn reaches(server: &Server, listener: &ListenAddress) -> bool {
    let ServerAddress::Inet { host: Host::Ip(to), port } = &server.address else { return false };
    let ListenAddress::Inet { host: Host::Ip(own), first_port, last_port, .. } = listener else {
        return false;
    };
    let port_is_own = match port {
        ServerPort::Fixed(port) => (*first_port..=*last_port).contains(port),
        ServerPort::Mapped(offset) => *offset == 0,
    };
    // The unspecified address of a server means the client's destination address.
    let address_is_own =
        to == own || (own.is_unspecified() && to.is_loopback() && (to.is_ipv4() || own.is_ipv6()));
    port_is_own && address_is_own && !to.is_unspecified()
}

/// UNIX sockets of servers that are outside the new root directory. Their paths are relative to it.
fn outside_root(subject: &LintSubject<'_>, proxy: &Proxy) -> Vec<Finding> {
    let inside = |path: &std::path::Path| match &subject.config.global.chroot {
        None => true,
        Some(Chroot::Auto) => false,
        Some(Chroot::Folder(folder)) => path.strip_prefix("/").is_ok_and(|path| folder.join(path).exists()),
    };
    // Log backends reach their sockets outside the root directory.
    let streams = proxy.servers.iter().filter(|server| !server.datagrams);
    let lost = streams.filter_map(|server| match &server.address {
        ServerAddress::Unix(path) if !inside(path) => Some((server, path)),
        _ => None,
    });
    lost.map(|(server, path)| {
        let message = format!(
            "server '{}' cannot be reached: with 'chroot', {} is looked up in the new root directory.",
            server.name,
            path.display()
        );
        finding_at(OUTSIDE, &server.at, message)
    })
    .collect()
}

/// Addresses shared by `bind` lines of different proxies. The kernel distributes the connections at random.
fn shared_ports(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut seen: Vec<(&ListenAddress, &Bind, &Proxy)> = Vec::new();
    let mut found = Vec::new();
    for proxy in subject.config.proxies.iter().filter(|proxy| !proxy.settings.disabled) {
        for bind in &proxy.binds {
            for address in &bind.addresses {
                let is_same = |(known, other, owner): &&(&ListenAddress, &Bind, &Proxy)| {
                    overlaps(known, address)
                        && owner.name != proxy.name
                        && other.options.interface == bind.options.interface
                };
                if let Some((_, other, owner)) = seen.iter().find(is_same) {
                    let message = format!(
                        "'{}' listens on the same address and port ({}): the kernel gives each connection to one of the two.",
                        owner.name, other.at
                    );
                    found.push(finding_at(SHARED, &bind.at, message));
                }
                seen.push((address, bind, proxy));
            }
        }
    }
    found
}

fn overlaps(one: &ListenAddress, other: &ListenAddress) -> bool {
    let (
        ListenAddress::Inet { host, first_port, last_port, .. },
        ListenAddress::Inet { host: other_host, first_port: other_first, last_port: other_last, .. },
    ) = (one, other)
    else {
        return false;
    };
    host == other_host && *first_port != 0 && first_port <= other_last && other_first <= last_port
}

const NO_SERVER: &str = "C711";
const COOKIE: &str = "C712";
const LOOP: &str = "C713";
const OUTSIDE: &str = "C714";
const SHARED: &str = "C715";
