//! From `peers` sections to instances that share tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_config::model::{
    self, Bind, Config, Host, ListenAddress, ServerAddress, ServerPort, ThreadRange, ThreadSet,
};
use weir_net::endpoint::padded_abstract_name;
use weir_peers::{Peer, Section, SharedTable};
use weir_stream::instance::Instance;
use weir_sys::Address;

use super::names::{NameError, socket_address};
use super::{BuildError, Resolver, listeners};
use crate::messages::Messages;
use crate::tuning::updates_at_once;

/// Every `peers` section of the process that shares something.
#[derive(Debug, Default)]
pub struct LivePeers {
    /// The sections.
    pub sections: Vec<&'static Section>,
    /// Where peers connect to this instance.
    pub listeners: Vec<PeerListener>,
}

/// An address where peers connect.
#[derive(Debug)]
pub struct PeerListener {
    /// The line, with this address alone.
    pub bind: Bind,
    /// The section.
    pub section: &'static Section,
}

/// Sections that are not live yet.
#[derive(Debug, Default)]
pub struct PeersPlan(Vec<PlannedSection>);

#[derive(Debug)]
struct PlannedSection {
    name: Arc<str>,
    local: Box<str>,
    bind: Bind,
    own_address: Option<Address>,
    peers: Vec<(Box<str>, Address)>,
    tables: Vec<PlannedTable>,
    updates_at_once: usize,
}

/// A table that a section shares, by its position among all.
#[derive(Debug)]
struct PlannedTable {
    position: usize,
    name: Box<str>,
    receive_only: bool,
    write_to: Option<usize>,
}

/// How many audiences each table has: the other peers of its section. None for a table that is not shared.
pub(super) fn audiences(table: &model::StickTable, sections: &[model::Peers]) -> Option<usize> {
    let section = sections.iter().find(|section| Some(&*section.name) == table.peers.as_deref())?;
    shares(section).then(|| section.remotes().count())
}

/// Whether anything is shared with anybody.
fn shares(section: &model::Peers) -> bool {
    !section.disabled && section.has_local() && section.bind.is_some()
}

/// Looks up the peers of all sections.
///
/// # Errors
/// When a name is unknown. All faults are collected.
pub fn peers(config: &Config, resolver: &dyn Resolver) -> Result<PeersPlan, Vec<BuildError>> {
    let (mut plan, mut errors) = (PeersPlan::default(), Vec::new());
    for section in config.peers.iter().filter(|section| shares(section)) {
        let Some(bind) = &section.bind else { continue };
        let mut peers = Vec::new();
        for peer in section.remotes() {
            match peer.address.as_ref().map(|address| of_peer(address, resolver)) {
                Some(Ok(address)) => peers.push((peer.name.clone(), address)),
                Some(Err(unknown)) => {
                    let message = format!("'peer {}' : invalid address: '{}'", peer.name, unknown.0);
                    errors.push(BuildError { at: peer.at.clone(), message });
                }
                // Only the local peer may be without one.
                None => {}
            }
        }
        plan.0.push(PlannedSection {
            name: Arc::clone(&section.name),
            local: section.local.clone(),
            bind: bind.clone(),
            own_address: bind.addresses.first().and_then(|address| own_address(address, resolver)),
            peers,
            tables: tables(config, section),
            updates_at_once: updates_at_once(&config.global.tuning),
        });
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// What is wrong with the names of peers.
pub(super) fn verify(config: &Config, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    if let Err(faults) = peers(config, resolver) {
        errors.extend(faults);
    }
}

fn tables(config: &Config, section: &model::Peers) -> Vec<PlannedTable> {
    let all = config.tables.iter().enumerate();
    let own = all.filter(|(_, table)| table.peers.as_deref() == Some(&*section.name));
    own.map(|(position, table)| {
        let whole = &table.declaration.name;
        // The section's own tables have no name of a proxy (manual, 11.2, "table").
        let name = match whole.strip_prefix(&*section.name).filter(|rest| rest.starts_with('/')) {
            Some(rest) => rest.into(),
            None => whole.clone(),
        };
        let write_to = table
            .write_to
            .as_ref()
            .and_then(|target| config.tables.iter().position(|other| other.declaration.name == *target));
        PlannedTable { position, name, receive_only: table.receive_only, write_to }
    })
    .collect()
}

fn of_peer(address: &ServerAddress, resolver: &dyn Resolver) -> Result<Address, NameError> {
    Ok(match address {
        ServerAddress::Inet { host, port } => {
            let port = match port {
                ServerPort::Fixed(port) => *port,
                // A peer's line has a port (language/config/src/peers.rs).
                ServerPort::Mapped(_) => 0,
            };
            Address::Inet(socket_address(host, port, resolver)?)
        }
        ServerAddress::Unix(path) => Address::Unix(path.clone()),
        ServerAddress::Abstract { name, padded: true } => Address::Abstract(padded_abstract_name(name)),
        ServerAddress::Abstract { name, padded: false } => Address::Abstract(name.clone()),
        ServerAddress::SocketPair(_) => Address::Unnamed,
    })
}

/// Where the next process of this instance is found. None where that cannot be told.
fn own_address(address: &ListenAddress, resolver: &dyn Resolver) -> Option<Address> {
    match address {
        ListenAddress::Inet { host, first_port, .. } => {
            let host = match host {
                Host::Ip(IpAddr::V4(ip)) if ip.is_unspecified() => Host::Ip(Ipv4Addr::LOCALHOST.into()),
                Host::Ip(IpAddr::V6(ip)) if ip.is_unspecified() => Host::Ip(Ipv6Addr::LOCALHOST.into()),
                other => other.clone(),
            };
            socket_address(&host, *first_port, resolver).ok().map(Address::Inet)
        }
        ListenAddress::Unix(path) => Some(Address::Unix(path.clone())),
        ListenAddress::Abstract { name, padded: true } => Some(Address::Abstract(padded_abstract_name(name))),
        ListenAddress::Abstract { name, padded: false } => Some(Address::Abstract(name.clone())),
        ListenAddress::Descriptor(_) | ListenAddress::SocketPair(_) => None,
    }
}

impl PeersPlan {
    /// Makes the sections live, for the life of the process. `has_predecessor` says whether a former process may teach them.
    pub fn publish(
        self,
        instance: &'static Instance,
        has_predecessor: bool,
        messages: &'static Messages,
    ) -> &'static LivePeers {
        let mut live = LivePeers::default();
        for planned in self.0 {
            let table = |position: usize| instance.tables.get(position).copied();
            let shared = planned.tables.iter().filter_map(|own| {
                let target = own.write_to.and_then(table);
                Some(SharedTable::new(table(own.position)?, &own.name, own.receive_only, target))
            });
            let peers = planned.peers.iter().map(|(name, address)| Peer::new(name, address.clone()));
            let mut section = Section::new(&planned.name, &planned.local, shared.collect(), peers.collect());
            section.own_address = planned.own_address;
            section.updates_at_once = planned.updates_at_once;
            section.has_predecessor = has_predecessor;
            section.report = Box::new(|text| messages.warning(text));
            let section: &'static Section = Box::leak(Box::new(section));
            for mut bind in listeners::single(&planned.bind) {
                // All of a section happens on the first worker.
                let first = ThreadRange { group: None, first: 1, last: 1 };
                bind.options.threads = Some(ThreadSet::Ranges(vec![first]));
                live.listeners.push(PeerListener { bind, section });
            }
            live.sections.push(section);
        }
        Box::leak(Box::new(live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::SystemResolver;

    fn config(text: &str) -> Config {
        crate::observe::fixture::config(text).expect("a configuration")
    }

    #[test]
    fn tables_have_an_audience_for_each_other_peer() {
        let config = config(
            "global\n localpeer A\npeers p\n peer A 127.0.0.1:1\n peer B 127.0.0.1:2\n peer C 127.0.0.1:3\n table t type ip size 1\nbackend b\n \
             stick-table type ip size 1 peers p\nbackend c\n stick-table type ip size 1\n",
        );
        let audiences: Vec<_> = config.tables.iter().map(|table| audiences(table, &config.peers)).collect();
        assert_eq!(audiences, [Some(2), None, Some(2)]);
        let plan = peers(&config, &SystemResolver::default()).expect("addresses");
        let names: Vec<_> = plan.0[0].tables.iter().map(|table| (table.position, &*table.name)).collect();
        assert_eq!(names, [(0, "b"), (2, "/t")]);
    }

    #[test]
    fn a_section_that_is_disabled_shares_nothing() {
        let config = config(
            "global\n localpeer A\npeers p\n disabled\n peer A 127.0.0.1:1\n peer B 127.0.0.1:2\n table t type ip size 1\n",
        );
        assert_eq!(audiences(&config.tables[0], &config.peers), None);
        assert!(peers(&config, &SystemResolver::default()).expect("addresses").0.is_empty());
    }

    #[test]
    fn a_process_finds_the_next_one_where_it_listens() {
        let found = |text: &str| {
            let config =
                config(&format!("global\n localpeer A\npeers p\n peer A {text}\n peer B 127.0.0.1:2\n"));
            peers(&config, &SystemResolver::default()).expect("addresses").0.remove(0).own_address
        };
        assert_eq!(found("0.0.0.0:7"), Some(Address::Inet(([127, 0, 0, 1], 7).into())));
        assert_eq!(found("127.0.0.2:7"), Some(Address::Inet(([127, 0, 0, 2], 7).into())));
        assert_eq!(found("/run/a"), Some(Address::Unix("/run/a".into())));
    }
}
