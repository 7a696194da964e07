//! Builds DNS resolution at run time: sections, and the servers that follow them.

use std::net::IpAddr;
use std::sync::Arc;

use weir_backend::{BackendNews, ServerKey};
use weir_dns::Name;
use weir_model::{AcceptedFamilies, Config, Host};
use weir_resolvers::{
    Families, HoldTimes, NameFollower, NameServer, ResolveQuestion, ResolveReply, Resolvers,
    ResolversSection, SectionSettings,
};
use weir_stream::instance::names::{NameLookup, NameResolver, PendingLookup};
use weir_stream::instance::{Instance, Proxy};
use weir_sys::Address;

use super::links::PlannedLink;
use super::{BuildError, Resolver, SavedStates, TlsBuilder, subjects};
use super::{backends, milliseconds};

/// Planned connections to the name servers of all sections.
#[derive(Debug, Default)]
pub struct NameServersPlan(Vec<Vec<PlannedLink>>);

impl NameServersPlan {
    /// Builds the TLS settings and records their faults.
    pub(super) fn secure(&mut self, tls: &mut TlsBuilder) {
        self.0.iter_mut().flatten().for_each(|link| link.secure(tls));
    }
}

/// Plans the connections to name servers.
///
/// # Errors
/// When a host name in their lines does not resolve. All faults are collected.
pub fn name_servers(config: &Config, resolver: &dyn Resolver) -> Result<NameServersPlan, Vec<BuildError>> {
    let mut errors = Vec::new();
    let mut plan = |section: &weir_model::Resolvers, server: &weir_model::NameServer| {
        let mut settings = Arc::clone(&server.settings);
        // Most lines do not set options, so they share the default settings.
        if settings.socks4.is_some() || settings.source.is_some() {
            let resolved = backends::resolve_server(Arc::make_mut(&mut settings), resolver);
            if let Err(message) = resolved {
                errors.push(BuildError { at: server.at.clone(), message });
            }
        }
        PlannedLink::new(
            subjects::name_server(section, server),
            &server.at,
            Address::Inet(server.address),
            &settings,
        )
    };
    let sections = config.resolvers.iter();
    let links = sections
        .map(|section| section.name_servers.iter().map(|server| plan(section, server)).collect())
        .collect();
    if errors.is_empty() { Ok(NameServersPlan(links)) } else { Err(errors) }
}

/// Checks the host names in the lines of name servers.
pub(super) fn verify(config: &Config, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    if let Err(faults) = name_servers(config, resolver) {
        errors.extend(faults);
    }
}

/// Builds all sections of an instance, with the servers that they resolve. A server's host name comes from the configuration or
/// from the state file. The sections are not started.
pub fn resolvers(
    sections: &[weir_model::Resolvers],
    links: NameServersPlan,
    families: AcceptedFamilies,
    instance: &Instance,
    states: &SavedStates,
    report: Box<dyn Fn(BackendNews) + Send + Sync>,
) -> Resolvers {
    let families =
        Families { ipv4: families.ipv4, ipv6: families.ipv6, ipv6_if_routed: families.ipv6_if_routed };
    let live = sections.iter().zip(links.0).map(|(section, links)| {
        let followers = instance
            .proxies
            .iter()
            .filter(|proxy| !proxy.config.settings.disabled)
            .flat_map(|proxy| followers(proxy, &section.name, states))
            .collect();
        let name_servers = section
            .name_servers
            .iter()
            .zip(links)
            .map(|(known, link)| {
                let most = known.most_connections;
                NameServer::new(&known.name, known.address, known.over_tcp, most).through(link.publish())
            })
            .collect();
        ResolversSection::new(settings(section), name_servers, families, followers)
    });
    Resolvers::new(live.collect(), report)
}

fn settings(section: &weir_model::Resolvers) -> SectionSettings {
    let hold = &section.hold;
    SectionSettings {
        name: Arc::clone(&section.name),
        payload_size: section.payload_size,
        retries: section.retries,
        resolve_ms: milliseconds(section.resolve_timeout),
        retry_ms: milliseconds(section.retry_timeout),
        hold: HoldTimes {
            valid_ms: milliseconds(hold.valid),
            obsolete_ms: milliseconds(hold.obsolete),
            no_such_name_ms: milliseconds(hold.no_such_name),
            refused_ms: milliseconds(hold.refused),
            timeout_ms: milliseconds(hold.timeout),
            other_ms: milliseconds(hold.other),
        },
    }
}

/// The servers of a proxy that a section resolves, including those without a host name: an operator may set one.
fn followers<'p>(
    proxy: &'p Proxy,
    section: &'p str,
    states: &'p SavedStates,
) -> impl Iterator<Item = NameFollower> + 'p {
    let backend = proxy.backend.as_ref();
    (0..).zip(&proxy.config.servers).filter_map(move |(rank, server)| {
        let resolution = &server.settings.resolution;
        let weir_model::ServerAddress::Inet { host, .. } = &server.address else { return None };
        if resolution.section.as_deref() != Some(section) {
            return None;
        }
        let name = match host {
            Host::Ip(_) => None,
            Host::Name { name, .. } => Name::parse(name.as_bytes()).ok(),
        };
        let is_service = weir_model::is_service(host);
        let (service, name) = if is_service { (name, None) } else { (None, name) };
        let given = states.given_name(proxy.name(), server);
        let service_port = given.as_ref().and_then(|given| given.port).unwrap_or(0);
        let name = given.map(|given| given.name).or(name);
        Some(NameFollower {
            backend: Arc::clone(backend?),
            server: ServerKey::configured(rank),
            name,
            service,
            service_port,
            prefers_ipv4: resolution.prefers_ipv4,
            networks: Arc::clone(&resolution.networks),
            allows_duplicates: resolution.allows_duplicates,
            ignores_weight: resolution.ignores_weight,
            is_given: false,
        })
    })
}

/// The resolvers as seen by rules.
pub struct LiveNames(pub Arc<Resolvers>);

/// A pending DNS query of a rule.
struct LiveQuestion {
    question: Arc<ResolveQuestion>,
    limit_ms: u64,
}

impl NameResolver for LiveNames {
    fn look_up(&self, section: &str, name: &[u8], prefers_ipv4: bool) -> NameLookup {
        // An invalid name cannot be resolved.
        let Ok(name) = Name::parse(name) else { return NameLookup::Known(None) };
        match self.0.look_up(section, name, prefers_ipv4) {
            ResolveReply::Known(address) => NameLookup::Known(address),
            ResolveReply::Later { question, limit_ms } => {
                NameLookup::Later(Box::new(LiveQuestion { question, limit_ms }))
            }
        }
    }
}

impl PendingLookup for LiveQuestion {
    fn poll(&self) -> Option<Option<IpAddr>> {
        self.question.answer()
    }

    fn limit_ms(&self) -> u64 {
        self.limit_ms
    }
}
