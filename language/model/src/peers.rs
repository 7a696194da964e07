//! `peers`: instances that share stick-tables.

use std::sync::Arc;

use weir_fingerprint::{Canonical, unordered};

use super::bind;
use super::{Bind, Location, LogTargets, ServerAddress, ServerSettings};

/// A `peers` section.
#[derive(Clone, Debug, Canonical)]
pub struct Peers {
    pub name: Arc<str>,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The name of this instance among its peers: `localpeer`, the command line's `-L`, or the host's name.
    pub local: Box<str>,
    /// `disabled`: nothing is shared.
    pub disabled: bool,
    /// `shards`: into how many parts keys are split; 0 for one.
    pub shards: u32,
    /// `peer` and `server` lines, this instance's own among them.
    #[canonical(with = unordered)]
    pub peers: Vec<Peer>,
    /// Where peers connect to this instance: a `bind` line, or the address of its own `peer` line.
    #[canonical(with = bind::encode_label)]
    pub bind: Option<Bind>,
    /// `log`: where the events of its listener are logged.
    pub log_targets: LogTargets,
}

/// A peer.
#[derive(Clone, Debug, Canonical)]
pub struct Peer {
    pub name: Box<str>,
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// Its address; none for this instance with a `bind` line.
    pub address: Option<ServerAddress>,
    /// How connections to it are made; for this instance, those from an old process to the new one.
    pub settings: Arc<ServerSettings>,
}

impl Peers {
    /// The other instances.
    pub fn remotes(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(|peer| peer.name != self.local)
    }

    /// Whether this instance is among them; otherwise nothing is shared.
    pub fn has_local(&self) -> bool {
        self.peers.iter().any(|peer| peer.name == self.local)
    }

    /// Whether the section shares tables: it is enabled, with a local peer and its address.
    pub fn is_shared(&self) -> bool {
        !self.disabled && self.has_local() && self.bind.is_some()
    }
}
