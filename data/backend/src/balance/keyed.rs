//! Algorithms that choose by the hash of a request's key: `source`, `uri`, `hdr` and similar.
//!
//! The stream hashes the key. A request without a key takes a turn.

use super::map::WeightMap;
use super::ring::HashRing;
use super::turns::TurnSchedule;
use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, same_kind};
use crate::algorithm::{AlgorithmDecl, TurnUse, WeightUse};
use crate::rotation::Sequence;
use crate::settings::BackendSettings;
use weir_model::{HashMethod, PreserveAffinity};

pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["source", "uri", "url_param", "hdr", "rdp-cookie", "hash", "log-hash"])
        .by_key()
        .turns(TurnUse::WithoutKey)
        .weights(WeightUse::AsHashType),
    build,
};

fn build(settings: &BackendSettings) -> Box<dyn Structure> {
    let affinity = settings.hash_affinity;
    match settings.hash_type.method {
        HashMethod::MapBased => Box::new(MapHash { map: WeightMap::default(), affinity }),
        HashMethod::Consistent => {
            let ring = HashRing::new(settings.hash_balance_factor);
            Box::new(RingHash { ring, turns: TurnSchedule::default(), affinity })
        }
    }
}

/// `hash-type map-based`.
struct MapHash {
    map: WeightMap,
    affinity: PreserveAffinity,
}

impl Structure for MapHash {
    fn rebuild(&mut self, members: &[Member]) {
        self.map.rebuild(members);
    }

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        match request.hash {
            Some(hash) => settle(servers, self.affinity, self.map.designated(hash, request.avoid)),
            None => self.map.pick(servers, request),
        }
    }

    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind::<Self>(leader) {
            self.map.share(&leader.map);
        }
    }

    fn give_ahead(&mut self) -> Option<Sequence> {
        self.map.give_ahead()
    }

    fn take_back(&mut self, index: usize) {
        self.map.take_back(index);
    }
}

/// `hash-type consistent`.
struct RingHash {
    ring: HashRing,
    turns: TurnSchedule,
    affinity: PreserveAffinity,
}

impl Structure for RingHash {
    fn rebuild(&mut self, members: &[Member]) {
        self.ring.rebuild(members);
        self.turns.rebuild(members);
    }

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        match request.hash {
            Some(hash) => settle(servers, self.affinity, self.ring.designated(servers, hash, request.avoid)),
            None => self.turns.pick(servers, request),
        }
    }

    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind::<Self>(leader) {
            self.ring.share(&leader.ring);
        }
    }

    fn give_ahead(&mut self) -> Option<Sequence> {
        self.turns.give_ahead()
    }

    fn take_back(&mut self, index: usize) {
        self.turns.take_back(index);
    }
}

/// The first designated member, or, as far as `hash-preserve-affinity` allows, the first of the following
/// members with a shorter wait.
fn settle(
    servers: &UsableServers<'_>,
    affinity: PreserveAffinity,
    mut designated: impl Iterator<Item = usize>,
) -> Pick {
    let Some(first) = designated.next() else { return Pick::Saturated };
    let passes = |member: &usize| match affinity {
        PreserveAffinity::Always => true,
        PreserveAffinity::MaxConn => servers.has_room(*member),
        PreserveAffinity::MaxQueue => servers.has_room(*member) || !servers.queue_is_full(*member),
    };
    let member = std::iter::once(first).chain(designated).find(passes).unwrap_or(first);
    if servers.has_room(member) { Pick::Free(member) } else { Pick::Queue(member) }
}
