//! `balance leastconn`: the server with the least load relative to its weight. Equal servers take turns.

use std::collections::BTreeSet;

use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, load};
use crate::algorithm::AlgorithmDecl;

// Only the leader orders servers, by the load of all workers. A follower copies nothing.
pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["leastconn"]).orders_by_load().compares_load(|_| true),
    build: |_| Box::new(LeastLoaded::default()),
};

/// The members by load.
#[derive(Default)]
struct LeastLoaded {
    /// Relative load, turn and member, ascending.
    order: BTreeSet<(u64, u64, usize)>,
    /// The relative load and turn of each member.
    places: Vec<(u64, u64)>,
    turn: u64,
}

impl Structure for LeastLoaded {
    fn rebuild(&mut self, members: &[Member]) {
        self.places = members.iter().map(|member| (relative_load(member), self.turn)).collect();
        self.order = (0..).zip(&self.places).map(|(member, (load, turn))| (*load, *turn, member)).collect();
    }

    /// Removes a member that takes no more visitors until its load or the backend changes.
    fn leave(&mut self, member: usize) {
        let (load, turn) = self.places[member];
        self.order.remove(&(load, turn, member));
    }

    /// Moves a member to the position of its load, after members of equal load.
    fn load_changed(&mut self, member: usize, members: &[Member]) {
        let (load, turn) = self.places[member];
        let now = relative_load(&members[member]);
        if now == load {
            return;
        }
        self.order.remove(&(load, turn, member));
        self.turn += 1;
        self.places[member] = (now, self.turn);
        self.order.insert((now, self.turn, member));
    }

    /// Copies nothing: only the leader knows the loads of all workers, so workers choose under the lock.
    fn follow(&mut self, _leader: &dyn Structure) {}

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let avoid = request.avoid;
        let others = self.order.iter().map(|(_, _, member)| *member).filter(|member| Some(*member) != avoid);
        let accepts = |member: &usize| servers.has_room(*member) || accepts_waiter(servers, *member);
        match others.chain(avoid).find(accepts) {
            Some(member) if servers.has_room(member) => Pick::Free(member),
            Some(member) => Pick::Queue(member),
            None => Pick::Saturated,
        }
    }
}

/// With an explicit `maxqueue`, requests wait at the least loaded server instead of in the backend.
fn accepts_waiter(servers: &UsableServers<'_>, member: usize) -> bool {
    servers.members[member].server.settings().maximum_queue > 0 && !servers.queue_is_full(member)
}

/// Load per weight in a common unit. Idle servers are equal regardless of weight.
fn relative_load(member: &Member) -> u64 {
    let load = u64::from(load(&member.server));
    if load == 0 { 0 } else { (load + 1) * SCALE / u64::from(member.weight) }
}

/// Larger than any weight squared, so different ratios stay different.
const SCALE: u64 = 1 << 32;
