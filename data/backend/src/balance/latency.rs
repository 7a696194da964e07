//! `balance latency`: of two servers drawn by weight, the one with the shorter expected wait.
//!
//! The expected wait is the recent average response time times the number of current requests, including the new one. Each
//! worker has its own average. Errors count as slow responses (`traffic.rs`).

use super::random::WeightSums;
use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, around, same_kind};
use crate::algorithm::AlgorithmDecl;

pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["latency"]).weighs_traffic().waits_for_others().compares_load(|_| true),
    build: |_| Box::new(Latency::new()),
};

/// The structure of `balance latency`, which draws two members.
#[derive(Clone)]
struct Latency {
    random: WeightSums,
}

/// How often the second draw is repeated while it returns the first member again.
const REDRAWS: usize = 4;

impl Latency {
    fn new() -> Self {
        Self { random: WeightSums::new(2, 0) }
    }
}

impl Structure for Latency {
    fn rebuild(&mut self, members: &[Member]) {
        self.random.rebuild(members);
    }

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let mut entropy = request.random;
        let draw = |entropy: &mut u64, not: Option<usize>| {
            (0..REDRAWS)
                .filter_map(|_| self.random.draw(entropy))
                .find(|member| Some(*member) != not && Some(*member) != request.avoid)
        };
        let one = draw(&mut entropy, None);
        let other = draw(&mut entropy, one);
        let best = match (one, other) {
            (Some(one), Some(other)) if is_better(servers, request.worker, other, one) => other,
            (Some(one), _) => one,
            (None, other) => other.unwrap_or_default(),
        };
        // If the drawn members are full, try their neighbours: no request waits while a member has room.
        let mut candidates = around(servers.members.len(), best, request.avoid);
        candidates.find(|member| servers.has_room(*member)).map_or(Pick::Saturated, Pick::Free)
    }

    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind(leader) {
            self.clone_from(leader);
        }
    }
}

/// Whether the expected wait is shorter at `left`. If an average is unknown, compares only the numbers of requests.
fn is_better(servers: &UsableServers<'_>, worker: usize, left: usize, right: usize) -> bool {
    let pace = |member: usize| servers.members[member].server.pace(worker, servers.now_ms);
    let (left_pace, right_pace) = match (pace(left), pace(right)) {
        (Some(left), Some(right)) => (left.max(LEAST), right.max(LEAST)),
        _ => (1, 1),
    };
    let expected = |member: usize, pace: u64, other: usize| {
        u128::from(pace)
            * u128::from(servers.in_flight(member).saturating_add(1))
            * u128::from(servers.members[other].weight)
    };
    expected(left, left_pace, right) < expected(right, right_pace, left)
}

/// Smallest average, in 1/1024 ms. Times have a resolution of one millisecond.
const LEAST: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::super::fixture::{members, usable};
    use super::*;

    fn request(random: u64, avoid: Option<usize>) -> BalanceRequest {
        BalanceRequest { hash: None, avoid, random, worker: 0 }
    }

    #[test]
    fn latency_draws_every_member_except_the_avoided_one() {
        let members = members(&[1, 1, 1]);
        let mut latency = Latency::new();
        latency.rebuild(&members);
        let mut picks = |avoid| {
            let mut counts = [0; 3];
            for random in 0..3_000 {
                match latency.pick(&usable(&members), &request(random, avoid)) {
                    Pick::Free(member) => counts[member] += 1,
                    other => panic!("{other:?}"),
                }
            }
            counts
        };
        assert!(picks(None).iter().all(|count| (800..1200).contains(count)), "{:?}", picks(None));
        let without = picks(Some(1));
        // All draws may return the server to avoid. Then its neighbour is used.
        assert!(without[1] == 0 && without[0] > 1000 && without[2] > 1000, "{without:?}");
    }

    #[test]
    fn load_and_weight_decide_while_response_times_are_unknown() {
        let members = members(&[1, 4]);
        members[1].server.occupy();
        assert!(is_better(&usable(&members), 0, 1, 0), "two fourths are less than one");
        (0..3).for_each(|_| members[1].server.occupy());
        assert!(!is_better(&usable(&members), 0, 1, 0), "five fourths are more than one");
    }
}
