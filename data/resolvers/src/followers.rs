//! Servers that follow names: which address each server gets, and the state of servers without an address.
//!
//! Nothing here waits or sends queries. The cached records are an argument, and servers are changed through
//! [`Backend::change_for`].

use std::net::IpAddr;
use std::sync::Arc;
use weir_model::ServerPort;

use weir_backend::server::weight::WeightChange;
use weir_backend::{
    AdminState, Backend, BackendNews, BackendNotice, Reason, Server, ServerAddress, ServerChange, ServerKey,
    Urgency,
};
use weir_dns::{Name, RecordKind, ServiceLocation};
use weir_model::IpNetwork;

use crate::course::ResolutionFailure;
use crate::knowledge::Knowledge;

/// A server that gets its address from a name.
#[derive(Clone, Debug)]
pub struct NameFollower {
    pub backend: Arc<Backend>,
    pub server: ServerKey,
    /// The server's host name. `None` while its service lacks a host for it.
    pub name: Option<Name>,
    /// The service (SRV) that the server follows, if any. It gets one of the service's hosts and ports.
    pub service: Option<Name>,
    /// The port of the server's SRV record, 0 without one. Connections use the port in the server's address.
    pub service_port: u16,
    /// Whether IPv4 addresses are queried first.
    pub prefers_ipv4: bool,
    /// Addresses in these networks are preferred.
    pub networks: Arc<[IpNetwork]>,
    /// Whether the server may have the same address as another server of its backend.
    pub allows_duplicates: bool,
    /// Whether weights of SRV records are ignored.
    pub ignores_weight: bool,
    /// Whether the SRV response included the host's addresses. They are then not queried.
    pub is_given: bool,
}

/// A name to resolve, and the preferred record type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FollowerLookup {
    pub(crate) name: Name,
    pub(crate) first: RecordKind,
}

/// The effects of a response on servers.
#[derive(Default)]
pub(crate) struct AnswerEffects {
    pub(crate) news: Vec<BackendNews>,
    /// How many servers got another address from this response.
    pub(crate) updates: u64,
}

impl NameFollower {
    /// The look-ups that the server needs.
    pub(crate) fn wants(&self) -> impl Iterator<Item = FollowerLookup> {
        // A removed server needs no look-ups.
        let is_here = !self.has_left();
        let service = self
            .service
            .clone()
            .filter(|_| is_here)
            .map(|name| FollowerLookup { name, first: RecordKind::Srv });
        let host = self.name.clone().filter(|_| is_here && !self.is_given);
        service.into_iter().chain(host.map(|name| FollowerLookup { name, first: self.first_kind() }))
    }

    pub(crate) fn is(&self, backend: &Arc<Backend>, server: ServerKey) -> bool {
        self.server == server && Arc::ptr_eq(&self.backend, backend)
    }

    fn first_kind(&self) -> RecordKind {
        if self.prefers_ipv4 { RecordKind::A } else { RecordKind::Aaaa }
    }

    fn follows(&self, lookup: &FollowerLookup) -> bool {
        !self.is_given && self.first_kind() == lookup.first && self.name.as_ref() == Some(&lookup.name)
    }

    fn live(&self) -> Option<Arc<Server>> {
        self.backend.server(self.server)
    }

    fn address(&self) -> Option<IpAddr> {
        self.live()?.address().ip()
    }

    fn port(&self) -> Option<ServerPort> {
        self.live()?.address().port()
    }

    /// The best of these addresses for the server: the current one, unless another is in a preferred family or network.
    fn best(&self, found: impl Iterator<Item = IpAddr>, taken: &[IpAddr]) -> Option<IpAddr> {
        let own = self.address();
        let rank = |address: &IpAddr| {
            let is_local = self.networks.iter().any(|network| contains(network, *address));
            (address.is_ipv4() == self.prefers_ipv4, is_local, own == Some(*address))
        };
        let free =
            |address: &IpAddr| own == Some(*address) || self.allows_duplicates || !taken.contains(address);
        let mut best: Option<IpAddr> = None;
        for address in found.filter(free) {
            // The first of equally ranked addresses is taken.
            if best.is_none_or(|best| rank(&address) > rank(&best)) {
                best = Some(address);
            }
        }
        best
    }

    /// Sets the server's address, and its port if the response has one.
    fn settle(&self, found: ServerPlace, by: &str, now_ms: u64, followed: &mut AnswerEffects) -> bool {
        let Some(server) = self.live() else { return false };
        let changes = found.changes_of(&server.address());
        let is_out = server.admin_state().contains(AdminState::RESOLUTION_MAINTENANCE);
        if changes.is_empty() && !is_out {
            return false;
        }
        let has_moved = server.address().ip() != Some(found.ip);
        if !changes.is_empty() {
            let changes = changes.join(", ");
            let text = format!("{}/{}: {changes} by '{by}'.", self.backend.name(), server.name());
            followed.news.push(self.remark(text));
        }
        let host = self.name.as_ref().map(ToString::to_string).unwrap_or_default();
        let change = ServerChange::Resolved { ip: found.ip, port: found.port };
        self.change(change, Reason::Resolves(host), now_ms, followed);
        has_moved
    }

    fn remark(&self, text: String) -> BackendNews {
        let notice = BackendNotice {
            proxy: self.backend.settings().place,
            urgency: Urgency::Notice,
            text,
            mail: None,
        };
        BackendNews { notices: vec![notice], ..BackendNews::default() }
    }

    /// Removes the server's address. Its port remains.
    fn unsettle(&self, why: &'static str, now_ms: u64, followed: &mut AnswerEffects) {
        let Some(server) = self.live() else { return };
        let is_out = server.admin_state().contains(AdminState::RESOLUTION_MAINTENANCE);
        if !is_out || self.address().is_some() {
            self.change(ServerChange::Unresolved { port: None }, Reason::Unresolved(why), now_ms, followed);
        }
    }

    /// Clears the host and the port after the SRV record was removed.
    fn release(&mut self, now_ms: u64, followed: &mut AnswerEffects) {
        let change = ServerChange::Unresolved { port: Some(ServerPort::Fixed(0)) };
        self.change(change, Reason::Unresolved(REMOVED), now_ms, followed);
        (self.name, self.service_port, self.is_given) = (None, 0, false);
    }

    fn change(&self, change: ServerChange, reason: Reason, now_ms: u64, followed: &mut AnswerEffects) {
        // The change fails only for a removed server, which is ignored.
        if let Ok(news) = self.backend.change_for(self.server, change, reason, now_ms) {
            followed.news.push(news);
        }
    }

    fn is_host_of(&self, service: &ServiceLocation) -> bool {
        self.name.as_ref() == Some(&service.target) && self.service_port == service.port
    }

    fn has_left(&self) -> bool {
        self.live().is_none()
    }

    /// Assigns a host of the service to the server.
    fn take_over(&mut self, service: &ServiceLocation, now_ms: u64, followed: &mut AnswerEffects) {
        let Some(server) = self.live() else { return };
        self.name = Some(service.target.clone());
        self.service_port = service.port;
        let text = format!(
            "{}/{} changed its FQDN from (null) to {} by 'SRV record'",
            self.backend.name(),
            server.name(),
            service.target
        );
        followed.news.push(self.remark(text));
        let change = ServerChange::Admin { set: AdminState::FQDN_CHANGED, clear: AdminState::READY };
        self.change(change, Reason::Operator, now_ms, followed);
    }

    /// Applies the port, the weight and, if they were included, the addresses of an SRV record.
    fn follow_service(&mut self, service: &ServiceLocation, now_ms: u64, followed: &mut AnswerEffects) {
        let weight = weight_of(service);
        if !self.ignores_weight && self.live().is_some_and(|server| server.user_weight() != weight) {
            // Static algorithms reject the weight.
            self.change(
                ServerChange::Weight(WeightChange::Absolute(weight)),
                Reason::Operator,
                now_ms,
                followed,
            );
        }
        self.is_given = !service.addresses.is_empty();
        let port = Some(ServerPort::Fixed(service.port));
        if self.is_given {
            // Each record of a service has its own server, even if records of two services are equal.
            match self.best(service.addresses.iter().copied(), &[]) {
                Some(ip) => {
                    _ = self.settle(ServerPlace { ip, port }, "DNS additional record", now_ms, followed)
                }
                None => self.unsettle(NO_ADDRESS, now_ms, followed),
            }
        } else if self.port() != port {
            self.change(ServerChange::Address { ip: None, port }, Reason::Operator, now_ms, followed);
        }
    }
}

/// The part of a response that a server uses.
#[derive(Clone, Copy)]
struct ServerPlace {
    ip: IpAddr,
    /// The port of the SRV record, if it was included with the address.
    port: Option<ServerPort>,
}

impl ServerPlace {
    /// The differences to a server's address, for the logs.
    fn changes_of(self, old: &ServerAddress) -> Vec<String> {
        let mut changes = Vec::new();
        if old.ip() != Some(self.ip) {
            let was = old.ip().map_or_else(|| "(none)".to_owned(), |old| old.to_string());
            changes.push(format!("IP changed from '{was}' to '{}'", self.ip));
        }
        if let (Some(was), Some(port)) = (old.port(), self.port)
            && was != port
        {
            changes.push(format!("port changed from '{was}' to '{port}'"));
        }
        changes
    }
}

/// The weight of an SRV record as a server weight: 0 to 65535 maps to 0 to 256, and a weight above 0 stays above 0.
fn weight_of(service: &ServiceLocation) -> u32 {
    u32::from(service.weight).div_ceil(256)
}

fn contains(network: &IpNetwork, address: IpAddr) -> bool {
    let (bits, network_bits, width) = match (address, network.address) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (u128::from(address.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let host_bits = width - u32::from(network.prefix_length).min(width);
    (bits ^ network_bits).checked_shr(host_bits).unwrap_or(0) == 0
}

/// The log text for a server without an address.
const NO_ADDRESS: &str = "No IP for server ";
/// The log text for a server without an SRV record.
const REMOVED: &str = "entry removed from SRV record";

/// The log text for a server with an unresolved name.
fn failed(failure: Option<ResolutionFailure>) -> &'static str {
    match failure {
        Some(ResolutionFailure::NoSuchName) => "DNS NX status",
        Some(ResolutionFailure::Refused) => "DNS refused status",
        Some(ResolutionFailure::Timeout) => "DNS timeout status",
        Some(ResolutionFailure::Other | ResolutionFailure::NotSent) | None => "unspecified DNS error",
    }
}

/// The addresses of other servers in a follower's backend with the same name. A service may have several ports on one host,
/// so if one of two servers follows a service, addresses are equal only with the same port.
fn taken(followers: &[NameFollower], index: usize) -> Vec<IpAddr> {
    let own = &followers[index];
    let others = followers.iter().enumerate().filter(|(other, follower)| {
        *other != index
            && follower.name == own.name
            && Arc::ptr_eq(&follower.backend, &own.backend)
            && (follower.service.is_none() && own.service.is_none() || follower.port() == own.port())
    });
    others.filter_map(|(_, follower)| follower.address()).collect()
}

/// Updates the addresses of a name's followers. `by` is the source of the records.
pub(crate) fn follow_addresses(
    followers: &mut [NameFollower],
    lookup: &FollowerLookup,
    known: &Knowledge,
    by: &str,
    now_ms: u64,
) -> AnswerEffects {
    let mut followed = AnswerEffects::default();
    if known.is_unanswered() {
        return followed;
    }
    let (mut keepers, mut others) = (Vec::new(), Vec::new());
    for (index, follower) in followers.iter_mut().enumerate().filter(|(_, follower)| follower.follows(lookup))
    {
        if !known.holds() {
            follower.unsettle(failed(known.failure()), now_ms, &mut followed);
        } else if follower.address().is_some_and(|own| known.addresses().any(|found| found == own)) {
            keepers.push(index);
        } else {
            others.push(index);
        }
    }
    for index in keepers.into_iter().chain(others) {
        let taken = taken(followers, index);
        let follower = &followers[index];
        match follower.best(known.addresses(), &taken) {
            Some(address) => {
                let by = if followed.updates == 0 { by } else { "DNS cache" };
                if follower.settle(ServerPlace { ip: address, port: None }, by, now_ms, &mut followed) {
                    followed.updates += 1;
                }
            }
            None => follower.unsettle(NO_ADDRESS, now_ms, &mut followed),
        }
    }
    followed.updates = followed.updates.min(1);
    followed
}

/// Assigns the hosts of a service to its followers.
pub(crate) fn follow_services(
    followers: &mut [NameFollower],
    label: &Name,
    known: &Knowledge,
    now_ms: u64,
) -> AnswerEffects {
    let mut followed = AnswerEffects::default();
    if known.is_unanswered() {
        return followed;
    }
    let members: Vec<usize> = (0..followers.len())
        .filter(|index| followers[*index].service.as_ref() == Some(label) && !followers[*index].has_left())
        .collect();
    for index in &members {
        let follower = &mut followers[*index];
        if follower.name.is_some() && !known.services().any(|service| follower.is_host_of(service)) {
            follower.release(now_ms, &mut followed);
        }
    }
    let mut done = vec![false; followers.len()];
    for first in &members {
        if done[*first] {
            continue;
        }
        let backend = Arc::clone(&followers[*first].backend);
        let of_backend: Vec<usize> = members
            .iter()
            .copied()
            .filter(|index| Arc::ptr_eq(&followers[*index].backend, &backend))
            .collect();
        of_backend.iter().for_each(|index| done[*index] = true);
        for service in known.services() {
            let has = |wants: &dyn Fn(&NameFollower) -> bool| {
                of_backend.iter().copied().find(|index| wants(&followers[*index]))
            };
            let (index, is_new) = match has(&|follower| follower.is_host_of(service)) {
                Some(index) => (index, false),
                None => match has(&|follower| follower.name.is_none()) {
                    Some(index) => (index, true),
                    // There are more hosts than servers.
                    None => continue,
                },
            };
            if is_new {
                followers[index].take_over(service, now_ms, &mut followed);
            }
            followers[index].follow_service(service, now_ms, &mut followed);
        }
    }
    followed
}
