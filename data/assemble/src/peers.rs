//! Builds table synchronization from `peers` sections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_events::{Level, LogSink};
use weir_expr::TimeZone;
use weir_model::{
    Bind, Config, Host, ListenAddress, ServerAddress, ServerPort, ThreadRange, ThreadSet, Tuning,
};
use weir_net::endpoint::padded_abstract_name;
use weir_peers::{ListenerEvent, Peer, PeersSection, SharedTable};
use weir_stream::instance::Instance;
use weir_sys::Address;
use weir_tls::LiveListener;

use super::TlsBuilder;
use super::links::PlannedLink;
use super::logs::{self, LogSinks};
use super::names::{UnresolvedName, socket_address};
use super::{BuildError, ProcessValues, Resolver, listeners, subjects};

/// All `peers` sections of the process that share tables.
#[derive(Debug, Default)]
pub struct LivePeers {
    pub sections: Vec<Arc<PeersSection>>,
    /// The listeners for connections from peers.
    pub listeners: Vec<Arc<PeerListener>>,
    /// The log targets of the sections.
    pub sinks: Vec<Arc<LogSink>>,
}

/// A listening address of a `peers` section.
#[derive(Debug)]
pub struct PeerListener {
    /// The `bind` line with a single address.
    pub bind: Bind,
    pub section: Arc<PeersSection>,
    /// The certificates of the listener, if it uses TLS.
    pub tls: Option<Arc<LiveListener>>,
}

/// The number of a section's listener in log lines.
const FIRST_LISTENER: u32 = 1;

/// `peers` sections before they are live.
#[derive(Debug, Default)]
pub struct PeersPlan(Vec<PlannedSection>);

#[derive(Debug)]
struct PlannedSection {
    name: Arc<str>,
    local: Box<str>,
    local_position: usize,
    bind: Bind,
    own: Option<PlannedLink>,
    peers: Vec<PlannedPeer>,
    shards: u32,
    /// The certificates of the listener, if it uses TLS.
    tls: Option<Arc<LiveListener>>,
    tables: Vec<PlannedTable>,
    updates_at_once: usize,
    /// The targets of `log` lines.
    log: Vec<Arc<LogSink>>,
}

/// A remote peer.
#[derive(Debug)]
struct PlannedPeer {
    name: Box<str>,
    link: PlannedLink,
}

fn link(section: &weir_model::Peers, peer: &weir_model::Peer, address: Address) -> PlannedLink {
    PlannedLink::new(subjects::peer(section, peer), &peer.at, address, &peer.settings)
}

impl PeersPlan {
    /// Builds the TLS settings and records their faults.
    pub(super) fn secure(&mut self, tls: &mut TlsBuilder) {
        for section in &mut self.0 {
            section.tls = tls.listener(&section.name, &section.bind, false);
            for link in section.own.iter_mut().chain(section.peers.iter_mut().map(|peer| &mut peer.link)) {
                link.secure(tls);
            }
        }
    }
}

impl PeersPlan {
    /// Opens the log targets of all sections and records their faults.
    pub(super) fn open_logs(
        &mut self,
        sections: &[weir_model::Peers],
        global: &weir_model::Global,
        options: &ProcessValues<'_>,
        sinks: &mut LogSinks,
        errors: &mut Vec<BuildError>,
    ) {
        for planned in &mut self.0 {
            let Some(section) = sections.iter().find(|section| section.name == planned.name) else {
                continue;
            };
            let targets = section.log_targets.iter();
            planned.log = logs::open_all(targets, &section.at, global, options, sinks, errors);
        }
    }
}

/// Logs an event of a peers listener, in the format of connections without a stream (manual, 8.2.5).
fn log_event(place: &str, sinks: &[Arc<LogSink>], tag: &[u8], zone: &TimeZone, event: &ListenerEvent<'_>) {
    let time = weir_sched::wall_time();
    let mut line = format!("{} [", event.source).into_bytes();
    weir_expr::time::format(b"%d/%b/%Y:%H:%M:%S", time, zone, &mut line);
    line.extend_from_slice(format!(".{:03}] {place}: {}", time.micros / 1000, event.what).as_bytes());
    let level = if event.is_error { Level::Error } else { Level::Info };
    weir_stream::log::send_line(sinks, tag, level, &line);
}

/// A table that a section synchronizes, by its index among all tables.
#[derive(Debug)]
struct PlannedTable {
    position: usize,
    name: Box<str>,
    receive_only: bool,
    write_to: Option<usize>,
}

/// The number of peers that receive a table: the remote peers of its section. `None` if the table is not shared.
pub(super) fn audiences(table: &weir_model::StickTable, sections: &[weir_model::Peers]) -> Option<usize> {
    let section = sections.iter().find(|section| Some(&*section.name) == table.peers.as_deref())?;
    section.is_shared().then(|| section.remotes().count())
}

/// The limit of stick-table entries sent to a peer before other tasks run.
pub fn updates_at_once(tuning: &Tuning) -> usize {
    tuning.peer_updates_max.map_or(weir_peers::UPDATES_AT_ONCE, |updates| updates as usize)
}

/// Resolves the peers of all sections.
///
/// # Errors
/// When a name is unknown. All faults are collected.
pub fn peers(config: &Config, resolver: &dyn Resolver) -> Result<PeersPlan, Vec<BuildError>> {
    let (mut plan, mut errors) = (PeersPlan::default(), Vec::new());
    for section in config.peers.iter().filter(|section| section.is_shared()) {
        let Some(bind) = &section.bind else { continue };
        let mut peers = Vec::new();
        for peer in section.remotes() {
            match peer.address.as_ref().map(|address| of_peer(address, resolver)) {
                Some(Ok(address)) => {
                    let link = link(section, peer, address);
                    peers.push(PlannedPeer { name: peer.name.clone(), link });
                }
                Some(Err(unknown)) => {
                    let message = format!("'peer {}' : invalid address: '{}'", peer.name, unknown.0);
                    errors.push(BuildError { at: peer.at.clone(), message });
                }
                // Only the local peer may lack an address.
                None => {}
            }
        }
        plan.0.push(PlannedSection {
            name: Arc::clone(&section.name),
            local: section.local.clone(),
            local_position: section.peers.iter().position(|peer| peer.name == section.local).unwrap_or(0),
            bind: bind.clone(),
            own: own_link(section, bind, resolver),
            shards: section.shards,
            tls: None,
            peers,
            tables: tables(config, section),
            updates_at_once: updates_at_once(&config.global.tuning),
            log: Vec::new(),
        });
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// Checks the host names of peers.
pub(super) fn verify(config: &Config, resolver: &dyn Resolver, errors: &mut Vec<BuildError>) {
    if let Err(faults) = peers(config, resolver) {
        errors.extend(faults);
    }
}

fn tables(config: &Config, section: &weir_model::Peers) -> Vec<PlannedTable> {
    let all = config.tables.iter().enumerate();
    let own = all.filter(|(_, table)| table.peers.as_deref() == Some(&*section.name));
    own.map(|(position, table)| {
        let whole = &table.declaration.name;
        // The name of a table in a `peers` section is sent without the section's name (manual, 11.2, "table").
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

fn of_peer(address: &ServerAddress, resolver: &dyn Resolver) -> Result<Address, UnresolvedName> {
    Ok(match address {
        ServerAddress::Inet { host, port } => {
            let port = match port {
                ServerPort::Fixed(port) => *port,
                // A peer's line always has a port (language/config/src/peers.rs).
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

fn own_link(section: &weir_model::Peers, bind: &Bind, resolver: &dyn Resolver) -> Option<PlannedLink> {
    let address = own_address(bind.addresses.first()?, resolver)?;
    let own = section.peers.iter().find(|peer| peer.name == section.local)?;
    Some(link(section, own, address))
}

/// The address on which the next process of this instance listens. `None` if unknown.
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
    /// Makes the sections live. `has_predecessor`: a previous process may exist and teach its tables. `report` is called with
    /// messages for operators.
    pub fn publish(
        self,
        instance: &Instance,
        has_predecessor: bool,
        report: impl Fn(&str) + Clone + Send + Sync + 'static,
        log_tag: &Arc<[u8]>,
    ) -> LivePeers {
        let mut live = LivePeers::default();
        for planned in self.0 {
            let table = |position: usize| instance.tables.get(position).cloned();
            let shared = planned.tables.iter().filter_map(|own| {
                let target = own.write_to.and_then(table);
                Some(SharedTable::new(table(own.position)?, &own.name, own.receive_only, target))
            });
            let shards = planned.shards;
            let peers = planned.peers.into_iter().map(|PlannedPeer { name, link }| {
                let shard = Some(link.settings.shard).filter(|shard| (1..=shards).contains(shard));
                let mut peer = Peer::new(&name, link.publish());
                peer.shard = shard;
                peer
            });
            let mut section =
                PeersSection::new(&planned.name, &planned.local, shared.collect(), peers.collect());
            section.local_position = planned.local_position;
            section.own_link = planned.own.map(PlannedLink::publish);
            // The next process has the same `bind` line as this one.
            let bare = section.own_link.as_mut().filter(|link| link.header.is_empty());
            if let Some(link) = bare.filter(|_| planned.bind.options.accept_proxy) {
                link.header = (*b"PROXY UNKNOWN\r\n").into();
            }
            section.shards = shards;
            section.updates_at_once = planned.updates_at_once;
            section.has_predecessor = has_predecessor;
            section.report = Box::new(report.clone());
            let sinks = planned.log;
            live.sinks.extend(sinks.iter().cloned());
            if !sinks.is_empty() {
                let place = match &planned.bind.name {
                    Some(name) => format!("{}/{name}", planned.name),
                    None => format!("{}/{FIRST_LISTENER}", planned.name),
                };
                let (tag, zone) = (Arc::clone(log_tag), instance.identity.time_zone.clone());
                section.log = Box::new(move |event| log_event(&place, &sinks, &tag, &zone, event));
            }
            let section = Arc::new(section);
            for mut bind in listeners::single(&planned.bind) {
                // A section runs on the first worker only.
                let first = ThreadRange { group: None, first: 1, last: 1 };
                bind.options.threads = Some(ThreadSet::Ranges(vec![first]));
                let tls = planned.tls.clone();
                let section = Arc::clone(&section);
                live.listeners.push(Arc::new(PeerListener { bind, section, tls }));
            }
            live.sections.push(section);
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemResolver;

    fn config(text: &str) -> Config {
        crate::fixture::config(text)
    }

    #[test]
    fn each_shared_table_has_an_update_list_for_each_remote_peer() {
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
    fn a_disabled_peers_section_shares_no_tables() {
        let config = config(
            "global\n localpeer A\npeers p\n disabled\n peer A 127.0.0.1:1\n peer B 127.0.0.1:2\n table t type ip size 1\n",
        );
        assert_eq!(audiences(&config.tables[0], &config.peers), None);
        assert!(peers(&config, &SystemResolver::default()).expect("addresses").0.is_empty());
    }

    #[test]
    fn the_old_process_connects_to_the_address_of_the_local_peer() {
        let found = |text: &str| {
            let config =
                config(&format!("global\n localpeer A\npeers p\n peer A {text}\n peer B 127.0.0.1:2\n"));
            peers(&config, &SystemResolver::default())
                .expect("addresses")
                .0
                .remove(0)
                .own
                .map(|own| own.address)
        };
        assert_eq!(found("0.0.0.0:7"), Some(Address::Inet(([127, 0, 0, 1], 7).into())));
        assert_eq!(found("127.0.0.2:7"), Some(Address::Inet(([127, 0, 0, 2], 7).into())));
        assert_eq!(found("/run/a"), Some(Address::Unix("/run/a".into())));
    }
}
