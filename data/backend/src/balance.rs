//! How one of several servers is chosen.
//!
//! Each algorithm is a small structure over the same view: the [`Farm`], the servers that take new
//! visitors now, in the order of the configuration. It is rebuilt when the farm changes, told when a
//! server's load changes, and asked to [`Balancer::pick`]. None of them knows locks or queues.

mod first;
mod latency;
mod least;
mod map;
mod random;
mod ring;
mod sticky;
mod turns;

use std::sync::Arc;

use crate::rotation::Sequence;
use crate::server::Server;
use crate::server_key::ServerKey;
use crate::settings::{Algorithm, BackendSettings, HashAffinity, HashMethod};

/// A server that takes new visitors.
pub(crate) struct Member {
    pub(crate) server: Arc<Server>,
    /// Its effective weight in sixteenths, never 0.
    pub(crate) weight: u32,
    /// The number of the change of the farm that added it.
    pub(crate) since: u64,
}

/// All members, and the position of each.
pub(crate) struct Members {
    pub(crate) list: Box<[Member]>,
    by_place: Box<[Option<usize>]>,
}

impl Members {
    pub(crate) fn new(list: Vec<Member>) -> Self {
        let places = list.iter().map(|member| member.server.key().index() + 1).max().unwrap_or(0);
        let mut by_place = vec![None; places];
        for (position, member) in list.iter().enumerate() {
            by_place[member.server.key().index()] = Some(position);
        }
        Self { list: list.into(), by_place: by_place.into() }
    }

    /// The position of a server among the members, if it is one.
    pub(crate) fn position(&self, key: ServerKey) -> Option<usize> {
        let position = (*self.by_place.get(key.index())?)?;
        (self.list[position].server.key() == key).then_some(position)
    }
}

/// The usable servers and what their limits depend on.
pub(crate) struct Farm<'a> {
    pub(crate) members: &'a [Member],
    pub(crate) backend_load: u32,
    pub(crate) full: u32,
    pub(crate) now_ms: u64,
}

impl Farm<'_> {
    /// Whether a slot is free and nobody waits for this server.
    fn has_room(&self, member: usize) -> bool {
        let server = &self.members[member].server;
        let limit = server.slot_limit(self.backend_load, self.full, self.now_ms);
        limit == u32::MAX || (server.queued() == 0 && server.served() < limit)
    }

    /// Whether the server's queue is bounded and full.
    fn queue_is_full(&self, member: usize) -> bool {
        let server = &self.members[member].server;
        let maximum = server.settings().maximum_queue;
        maximum > 0 && server.queued() >= maximum
    }

    /// Requests that it serves.
    fn served(&self, member: usize) -> u32 {
        self.members[member].server.served()
    }

    /// Requests that it serves or that wait for it.
    fn in_flight(&self, member: usize) -> u32 {
        load(&self.members[member].server)
    }
}

fn load(server: &Server) -> u32 {
    server.served().saturating_add(server.queued())
}

/// What a choice depends on besides the farm.
pub(crate) struct Request {
    pub(crate) hash: Option<u32>,
    pub(crate) avoid: Option<usize>,
    pub(crate) random: u64,
    /// The worker that makes the request.
    pub(crate) worker: usize,
}

/// The choice of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// This member, which has room.
    Free(usize),
    /// This member and no other, though it has no room: wait for it.
    Queue(usize),
    /// Nobody has room: wait for anybody.
    Saturated,
}

/// The structure of the configured algorithm.
pub(crate) enum Balancer {
    Turns(turns::Turns),
    Least(least::LeastLoaded),
    First(first::First),
    Random(random::Random),
    Latency(latency::Latency),
    Map(map::Map),
    Sticky(sticky::Sticky),
    HashMap { map: map::Map, affinity: HashAffinity },
    HashRing { ring: ring::Ring, turns: turns::Turns, affinity: HashAffinity },
}

impl Balancer {
    pub(crate) fn new(settings: &BackendSettings) -> Self {
        let affinity = settings.hash_affinity;
        let factor = settings.hash_balance_factor;
        match settings.algorithm {
            Algorithm::RoundRobin => Self::Turns(turns::Turns::default()),
            Algorithm::StaticRoundRobin => Self::Map(map::Map::default()),
            Algorithm::LeastConnections => Self::Least(least::LeastLoaded::default()),
            Algorithm::First => Self::First(first::First::default()),
            Algorithm::Random { draws } => Self::Random(random::Random::new(draws, factor)),
            Algorithm::Latency => Self::Latency(latency::Latency::new()),
            Algorithm::Sticky => Self::Sticky(sticky::Sticky::default()),
            Algorithm::Source
            | Algorithm::Uri(_)
            | Algorithm::UrlParameter { .. }
            | Algorithm::Header { .. }
            | Algorithm::Expression
            | Algorithm::LogMessage => match settings.hash_type.method {
                HashMethod::MapBased => Self::HashMap { map: map::Map::default(), affinity },
                HashMethod::Consistent => {
                    Self::HashRing { ring: ring::Ring::new(factor), turns: turns::Turns::default(), affinity }
                }
            },
        }
    }

    /// The farm changed.
    pub(crate) fn rebuild(&mut self, members: &[Member]) {
        match self {
            Self::Turns(turns) => turns.rebuild(members),
            Self::Least(least) => least.rebuild(members),
            Self::First(first) => first.rebuild(members),
            Self::Random(random) => random.rebuild(members),
            Self::Latency(latency) => latency.rebuild(members),
            Self::Map(map) | Self::HashMap { map, .. } => map.rebuild(members),
            Self::Sticky(sticky) => sticky.rebuild(members),
            Self::HashRing { ring, turns, .. } => {
                ring.rebuild(members);
                turns.rebuild(members);
            }
        }
    }

    /// Copies from the backend's structure what the farm determines into a worker's; large tables are shared. Both
    /// must have the same settings. Turns are not copied: workers draw them (`rotation.rs`).
    pub(crate) fn follow(&mut self, leader: &Self) {
        match (self, leader) {
            (Self::First(first), Self::First(leader)) => first.clone_from(leader),
            (Self::Random(random), Self::Random(leader)) => random.clone_from(leader),
            (Self::Latency(latency), Self::Latency(leader)) => latency.clone_from(leader),
            (Self::Sticky(sticky), Self::Sticky(leader)) => sticky.follow(leader),
            (Self::HashMap { map, .. }, Self::HashMap { map: leader, .. }) => map.follow(leader),
            (Self::HashRing { ring, .. }, Self::HashRing { ring: leader, .. }) => ring.follow(leader),
            // `leastconn` orders servers by the load of all.
            _ => {}
        }
    }

    /// Whether a request with that hash, or with none, takes the next turn.
    #[inline]
    pub(crate) fn takes_turns(&self, hash: Option<u32>) -> bool {
        match self {
            Self::Turns(_) | Self::Map(_) => true,
            Self::HashMap { .. } | Self::HashRing { .. } => hash.is_none(),
            Self::Least(_) | Self::First(_) | Self::Random(_) | Self::Latency(_) | Self::Sticky(_) => false,
        }
    }

    /// Computes turns in advance, where the algorithm can: workers draw them until [`Balancer::take_back`].
    pub(crate) fn give_ahead(&mut self) -> Option<Sequence> {
        match self {
            Self::Turns(turns) | Self::HashRing { turns, .. } => Some(turns.give_ahead()),
            Self::Map(map) | Self::HashMap { map, .. } => Some(map.give_ahead()),
            Self::Least(_) | Self::First(_) | Self::Random(_) | Self::Latency(_) | Self::Sticky(_) => None,
        }
    }

    /// `taken` turns of the sequence were drawn: the algorithm continues after them.
    pub(crate) fn take_back(&mut self, sequence: &Sequence, taken: u32) {
        let index = sequence.index(taken).unwrap_or(sequence.members.len());
        match self {
            Self::Turns(turns) | Self::HashRing { turns, .. } => turns.take_back(index),
            Self::Map(map) | Self::HashMap { map, .. } => map.take_back(index),
            Self::Least(_) | Self::First(_) | Self::Random(_) | Self::Latency(_) | Self::Sticky(_) => {}
        }
    }

    /// The members in order of preference, where that is not the configuration's order.
    pub(crate) fn order(&self) -> Option<&[usize]> {
        match self {
            Self::Sticky(sticky) => Some(sticky.order()),
            _ => None,
        }
    }

    /// A member's number of served or queued requests changed.
    pub(crate) fn load_changed(&mut self, member: usize, members: &[Member]) {
        if let Self::Least(least) = self {
            least.load_changed(member, members);
        }
    }

    /// A member takes no more visitors, before the farm is rebuilt: an algorithm that prefers idle members must not choose it any more.
    pub(crate) fn leave(&mut self, member: usize) {
        if let Self::Least(least) = self {
            least.leave(member);
        }
    }

    /// Chooses. The farm has at least one member.
    pub(crate) fn pick(&mut self, farm: &Farm<'_>, request: &Request) -> Pick {
        match self {
            Self::Turns(turns) => turns.pick(farm, request.avoid),
            Self::Least(least) => least.pick(farm, request.avoid),
            Self::First(first) => first.pick(farm, request.avoid),
            Self::Random(random) => random.pick(farm, request),
            Self::Latency(latency) => latency.pick(farm, request),
            Self::Map(map) => map.next(farm, request.avoid),
            Self::Sticky(sticky) => sticky.pick(farm, request.avoid),
            Self::HashMap { map, affinity } => match request.hash {
                Some(hash) => settle(farm, *affinity, map.designated(hash, request.avoid)),
                None => map.next(farm, request.avoid),
            },
            Self::HashRing { ring, turns, affinity } => match request.hash {
                Some(hash) => settle(farm, *affinity, ring.designated(farm, hash, request.avoid)),
                None => turns.pick(farm, request.avoid),
            },
        }
    }
}

/// The first designated member, or the first of the following ones that makes the request wait less, as far
/// as `hash-preserve-affinity` allows.
fn settle(farm: &Farm<'_>, affinity: HashAffinity, mut designated: impl Iterator<Item = usize>) -> Pick {
    let Some(first) = designated.next() else { return Pick::Saturated };
    let passes = |member: &usize| match affinity {
        HashAffinity::Always => true,
        HashAffinity::MaximumConnections => farm.has_room(*member),
        HashAffinity::MaximumQueue => farm.has_room(*member) || !farm.queue_is_full(*member),
    };
    let member = std::iter::once(first).chain(designated).find(passes).unwrap_or(first);
    if farm.has_room(member) { Pick::Free(member) } else { Pick::Queue(member) }
}

/// The members after `start`, around the ring, the one to avoid last.
fn around(count: usize, start: usize, avoid: Option<usize>) -> impl Iterator<Item = usize> {
    let start = if count == 0 { 0 } else { start % count };
    (start..count).chain(0..start).filter(move |member| Some(*member) != avoid).chain(avoid)
}

#[cfg(test)]
mod fixture {
    //! Farms for the algorithms' tests.

    use std::sync::Arc;

    use super::{Farm, Member};
    use crate::idle::IdlePools;
    use crate::server::Server;
    use crate::server::weight::WEIGHT_SCALE;
    use crate::server_key::ServerKey;
    use crate::settings::ServerSettings;
    use crate::shared::Home;

    /// Servers with these settings, all members.
    pub(super) fn members_with(settings: impl IntoIterator<Item = ServerSettings>) -> Vec<Member> {
        (0u32..)
            .zip(settings)
            .map(|(key, settings)| {
                let weight = settings.weight * WEIGHT_SCALE;
                let settings = ServerSettings { id: settings.id.max(key + 1), ..settings };
                let (key, pools) = (ServerKey::configured(key), Arc::new(IdlePools::new(1)));
                let server = Arc::new(Server::new(key, settings, pools, Home::nowhere(), 0));
                Member { server, weight, since: 0 }
            })
            .collect()
    }

    /// Servers with these weights, all members.
    pub(super) fn members(weights: &[u32]) -> Vec<Member> {
        members_with(weights.iter().map(|weight| ServerSettings { weight: *weight, ..Default::default() }))
    }

    pub(super) fn farm(members: &[Member]) -> Farm<'_> {
        Farm { members, backend_load: 0, full: 0, now_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_begins_at_its_start_and_ends_with_the_one_to_avoid() {
        #[track_caller]
        fn check(count: usize, start: usize, avoid: Option<usize>, expected: &[usize]) {
            assert_eq!(around(count, start, avoid).collect::<Vec<_>>(), expected);
        }
        check(3, 0, None, &[0, 1, 2]);
        check(3, 2, None, &[2, 0, 1]);
        check(3, 3, None, &[0, 1, 2]);
        check(3, 7, None, &[1, 2, 0]);
        check(3, 1, Some(2), &[1, 0, 2]);
        check(3, 1, Some(1), &[2, 0, 1]);
        check(1, 5, Some(0), &[0]);
        check(0, 5, None, &[]);
    }
}
