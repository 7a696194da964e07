//! Balancing: how one of several servers is chosen.
//!
//! Each algorithm has a file in `balance/` with a row: its declaration and the function that builds its [`Structure`]. All
//! structures get the same input, [`UsableServers`]: the servers that take new visitors now, in the order of the
//! configuration. Structures are independent of locks and queues.

mod first;
mod keyed;
mod latency;
mod least;
mod map;
mod random;
mod ring;
mod sticky;
mod turns;

use std::any::Any;
use std::sync::Arc;

use crate::algorithm::{AlgorithmDecl, TurnUse};
use crate::rotation::Sequence;
use crate::server::Server;
use crate::server_key::ServerKey;
use crate::settings::{BackendSettings, BalanceAlgorithm};

/// A server that takes new visitors.
pub(crate) struct Member {
    pub(crate) server: Arc<Server>,
    /// The server's effective weight in sixteenths, never 0.
    pub(crate) weight: u32,
    /// Number of the backend change that made the server a member.
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

/// The usable servers and the inputs of their limits.
pub(crate) struct UsableServers<'a> {
    pub(crate) members: &'a [Member],
    pub(crate) backend_load: u32,
    pub(crate) full: u32,
    pub(crate) now_ms: u64,
}

impl UsableServers<'_> {
    /// Whether a slot is free and the server's queue is empty.
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

    /// Requests that the member serves.
    fn served(&self, member: usize) -> u32 {
        self.members[member].server.served()
    }

    /// Requests that the member serves or that wait for it.
    fn in_flight(&self, member: usize) -> u32 {
        load(&self.members[member].server)
    }
}

fn load(server: &Server) -> u32 {
    server.served().saturating_add(server.queued())
}

/// Per-request input to [`Structure::pick`].
pub(crate) struct BalanceRequest {
    pub(crate) hash: Option<u32>,
    pub(crate) avoid: Option<usize>,
    pub(crate) random: u64,
    /// The worker of the request.
    pub(crate) worker: usize,
}

/// The choice of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// This member, which has a free slot.
    Free(usize),
    /// Only this member, which is full: wait for it.
    Queue(usize),
    /// All members are full: wait for any of them.
    Saturated,
}

/// A row of [`ROWS`]: an algorithm.
pub(crate) struct AlgorithmRow {
    /// The algorithm's properties for the rest of the backend.
    pub(crate) decl: AlgorithmDecl,
    /// Builds the algorithm's structure, without members.
    build: fn(&BackendSettings) -> Box<dyn Structure>,
}

/// Every algorithm.
static ROWS: &[&AlgorithmRow] = &[
    &turns::ROW,
    &map::ROW,
    &least::ROW,
    &first::ROW,
    &random::ROW,
    &latency::ROW,
    &keyed::ROW,
    &sticky::ROW,
];

/// The row of a configured algorithm.
///
/// # Panics
/// If no row has the keyword. A test of `weir-assemble` checks that the language has the same keywords.
fn row(algorithm: BalanceAlgorithm) -> &'static AlgorithmRow {
    let has_word = |row: &&&AlgorithmRow| row.decl.words.contains(&algorithm.word());
    ROWS.iter().find(has_word).expect("each word of the language is one of a row")
}

/// The declaration of a configured algorithm.
pub(crate) fn declaration(algorithm: BalanceAlgorithm) -> &'static AlgorithmDecl {
    &row(algorithm).decl
}

/// The keywords of all algorithms, and whether each chooses by a key of the request.
pub fn words() -> impl Iterator<Item = (&'static str, bool)> {
    ROWS.iter().flat_map(|row| row.decl.words.iter().map(|word| (*word, row.decl.by_key)))
}

/// The operations of an algorithm on the usable servers. The default methods do nothing.
///
/// The leader is the structure under the backend's lock. Each worker has a follower.
pub(crate) trait Structure: Any + Send + Sync {
    /// Rebuilds the structure for the new usable servers.
    fn rebuild(&mut self, members: &[Member]);

    /// Chooses a member. There is at least one.
    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick;

    /// Copies from the leader the state that depends on the usable servers ([`same_kind`]). Large tables are shared. Turns are
    /// not copied, because workers draw them (`rotation.rs`). A follower is never rebuilt, so a structure that copies nothing
    /// stays empty. Its `pick` then returns [`Pick::Saturated`], and the worker chooses under the lock.
    fn follow(&mut self, leader: &dyn Structure);

    /// Computes turns in advance, for workers to draw until [`Structure::take_back`]. `None` if requests take no turns.
    fn give_ahead(&mut self) -> Option<Sequence> {
        None
    }

    /// Continues the algorithm at this index of the turns given in advance, up to which workers drew them.
    fn take_back(&mut self, _index: usize) {}

    /// The members in order of preference. `None` for the configuration's order.
    fn order(&self) -> Option<&[usize]> {
        None
    }

    /// Applies a changed number of served or queued requests. Called if the algorithm orders servers by load.
    fn load_changed(&mut self, _member: usize, _members: &[Member]) {}

    /// Removes a member that takes no more visitors, before the next rebuild. An algorithm that prefers idle members must not
    /// choose it any more.
    fn leave(&mut self, _member: usize) {}
}

/// The leader with its concrete type. The same row builds leader and follower.
fn same_kind<S: Structure>(leader: &dyn Structure) -> Option<&S> {
    (leader as &dyn Any).downcast_ref()
}

/// The structure of the configured algorithm.
pub(crate) struct Balancer {
    turns: TurnUse,
    structure: Box<dyn Structure>,
}

impl Balancer {
    pub(crate) fn new(settings: &BackendSettings) -> Self {
        let row = row(settings.algorithm);
        Self { turns: row.decl.turns, structure: (row.build)(settings) }
    }

    /// Rebuilds the structure for the new usable servers.
    pub(crate) fn rebuild(&mut self, members: &[Member]) {
        self.structure.rebuild(members);
    }

    /// Copies the state that depends on the usable servers from the backend's structure into a worker's. Both must have the same
    /// settings.
    pub(crate) fn follow(&mut self, leader: &Self) {
        self.structure.follow(&*leader.structure);
    }

    /// Whether a request with this hash, or without one, takes the next turn.
    #[inline]
    pub(crate) fn takes_turns(&self, hash: Option<u32>) -> bool {
        match self.turns {
            TurnUse::Always => true,
            TurnUse::WithoutKey => hash.is_none(),
            TurnUse::Never => false,
        }
    }

    /// Computes turns in advance, for workers to draw until [`Balancer::take_back`]. `None` if the algorithm gives no turns.
    pub(crate) fn give_ahead(&mut self) -> Option<Sequence> {
        self.structure.give_ahead()
    }

    /// Continues the algorithm after the first `taken` turns of the sequence.
    pub(crate) fn take_back(&mut self, sequence: &Sequence, taken: u32) {
        self.structure.take_back(sequence.index(taken).unwrap_or(sequence.members.len()));
    }

    /// The members in order of preference. `None` for the configuration's order.
    pub(crate) fn order(&self) -> Option<&[usize]> {
        self.structure.order()
    }

    /// Applies a changed number of served or queued requests of a member.
    pub(crate) fn load_changed(&mut self, member: usize, members: &[Member]) {
        self.structure.load_changed(member, members);
    }

    /// Removes a member that takes no more visitors, before the next rebuild.
    pub(crate) fn leave(&mut self, member: usize) {
        self.structure.leave(member);
    }

    /// Chooses a member. There is at least one.
    pub(crate) fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        self.structure.pick(servers, request)
    }
}

/// The members from `start` on, wrapping around, without the one to avoid. A single member cannot be avoided.
fn around(count: usize, start: usize, avoid: Option<usize>) -> impl Iterator<Item = usize> {
    let start = if count == 0 { 0 } else { start % count };
    let avoid = avoid.filter(|_| count > 1);
    (start..count).chain(0..start).filter(move |member| Some(*member) != avoid)
}

#[cfg(test)]
mod fixture {
    //! Usable servers for the algorithms' tests.

    use std::sync::Arc;

    use super::{BalanceRequest, Member, UsableServers};
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

    /// A request that avoids a member.
    pub(super) fn request(avoid: Option<usize>) -> BalanceRequest {
        BalanceRequest { hash: None, avoid, random: 0, worker: 0 }
    }

    pub(super) fn usable(members: &[Member]) -> UsableServers<'_> {
        UsableServers { members, backend_load: 0, full: 0, now_ms: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn around_begins_at_its_start_and_leaves_out_the_avoided_member() {
        #[track_caller]
        fn check(count: usize, start: usize, avoid: Option<usize>, expected: &[usize]) {
            assert_eq!(around(count, start, avoid).collect::<Vec<_>>(), expected);
        }
        check(3, 0, None, &[0, 1, 2]);
        check(3, 2, None, &[2, 0, 1]);
        check(3, 3, None, &[0, 1, 2]);
        check(3, 7, None, &[1, 2, 0]);
        check(3, 1, Some(2), &[1, 0]);
        check(3, 1, Some(1), &[2, 0]);
        check(1, 5, Some(0), &[0]);
        check(0, 5, None, &[]);
    }

    /// Shared counts are expensive, so only algorithms that compare loads use them.
    #[test]
    fn only_load_aware_algorithms_read_shared_load_counts() {
        #[track_caller]
        fn check(algorithm: BalanceAlgorithm, hash_balance_factor: u32, expected: bool) {
            let settings = BackendSettings { algorithm, hash_balance_factor, ..Default::default() };
            assert_eq!(declaration(algorithm).compares_load_in(&settings), expected);
        }
        check(BalanceAlgorithm::new("roundrobin"), 0, false);
        check(BalanceAlgorithm::new("source"), 0, false);
        check(BalanceAlgorithm::new("source"), 150, true);
        check(BalanceAlgorithm::new("leastconn"), 0, true);
        check(BalanceAlgorithm::new("latency"), 0, true);
        check(BalanceAlgorithm::new("random").with(Some(1)), 0, false);
        check(BalanceAlgorithm::new("random").with(Some(2)), 0, true);
        check(BalanceAlgorithm::new("random").with(Some(3)), 0, true);
        check(BalanceAlgorithm::new("random"), 0, true);
    }

    /// A follower makes its leader's choice or leaves the choice to it. Before its first `follow` it must only not panic.
    #[test]
    fn a_follower_balancer_picks_like_its_leader_or_defers_to_it() {
        let members = fixture::members(&[1, 2, 3]);
        for word in words().map(|(word, _)| word) {
            let settings = BackendSettings { algorithm: BalanceAlgorithm::new(word), ..Default::default() };
            let (mut leader, mut follower) = (Balancer::new(&settings), Balancer::new(&settings));
            let request = BalanceRequest { hash: Some(7), ..fixture::request(None) };
            match follower.pick(&fixture::usable(&members), &request) {
                Pick::Free(member) | Pick::Queue(member) => assert!(member < members.len(), "{word}: empty"),
                Pick::Saturated => {}
            }
            leader.rebuild(&members);
            follower.follow(&leader);
            let followed = follower.pick(&fixture::usable(&members), &request);
            let expected = leader.pick(&fixture::usable(&members), &request);
            assert!(
                followed == expected || followed == Pick::Saturated,
                "{word}: {followed:?}, not {expected:?}"
            );
        }
    }

    #[test]
    fn algorithm_names_are_unique() {
        let mut all: Vec<_> = words().map(|(word, _)| word).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
