//! `peers`: instances that share stick-tables.

use std::sync::Arc;

use weir_fingerprint::{Canonical, unordered};

use super::bind;
use super::{Bind, Location, LogTargets, ServerAddress, ServerSettings};

/// A `peers` section.
#[derive(Clone, Debug, Canonical)]
pub struct Peers {
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The name of this instance among its peers: `localpeer`, the command line's `-L`, or the host's name.
    pub local: Box<str>,
    /// `disabled`: nothing is shared.
    pub disabled: bool,
    /// `shards`: number of parts that keys are split into. 0 for one.
    pub shards: u32,
    /// `peer` and `server` lines, including that of this instance.
    #[canonical(with = unordered)]
    pub peers: Vec<Peer>,
    /// The listener for peers: a `bind` line, or the address of this instance's `peer` line.
    #[canonical(with = bind::encode_label)]
    pub bind: Option<Bind>,
    /// `log`: log targets for events of the listener.
    pub log_targets: LogTargets,
}

/// A peer.
#[derive(Clone, Debug, Canonical)]
pub struct Peer {
    pub name: Box<str>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The peer's address. None for this instance if a `bind` line has the address.
    pub address: Option<ServerAddress>,
    /// Settings of connections to the peer. For this instance: of connections from an old process to the new one.
    pub settings: Arc<ServerSettings>,
}

impl Peers {
    /// The other instances.
    pub fn remotes(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.name != self.local)
    }

    /// Whether the section lists this instance. Otherwise nothing is shared.
    pub fn has_local(&self) -> bool {
        self.peers.iter().any(|peer| peer.name == self.local)
    }

    /// Whether the section shares tables: it is enabled, with a local peer and its address.
    pub fn is_shared(&self) -> bool {
        !self.disabled && self.has_local() && self.bind.is_some()
    }
}
