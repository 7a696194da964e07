//! The static map: each server appears as often as its weight, evenly spread.
//!
//! `static-rr` iterates over the map. Map-based hashing indexes it with the hash modulo its length. Its
//! order equals HAProxy's, determined by observation: for each position every server earns its weight, then
//! the server that can pay the total weight most often (the first among equals) gets the position and pays.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, around};
use crate::algorithm::{AlgorithmDecl, TurnUse, WeightUse};
use crate::rotation::Sequence;
use crate::server::weight::displayed;

pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["static-rr"]).turns(TurnUse::Always).weights(WeightUse::Fixed),
    build: |_| Box::new(WeightMap::default()),
};

/// The map, and the position of `static-rr` in it.
#[derive(Default)]
pub(super) struct WeightMap {
    slots: Arc<[u32]>,
    next: usize,
}

impl WeightMap {
    /// Shares the map of `leader`.
    pub(super) fn share(&mut self, leader: &Self) {
        self.slots = Arc::clone(&leader.slots);
    }

    fn advance(&mut self, position: usize) -> Pick {
        self.next = position + 1;
        Pick::Free(self.slots[position] as usize)
    }

    /// The member that a hash designates, then the following ones.
    pub(super) fn designated(&self, hash: u32, avoid: Option<usize>) -> impl Iterator<Item = usize> {
        let length = self.slots.len().max(1);
        let start = hash as usize % length;
        let others = around(self.slots.len(), start, None).map(|position| self.slots[position] as usize);
        others.filter(move |member| Some(*member) != avoid).chain(avoid)
    }
}

impl Structure for WeightMap {
    fn rebuild(&mut self, members: &[Member]) {
        let weights: Vec<u32> = members.iter().map(|member| displayed(member.weight)).collect();
        let slots = interleave(&weights);
        if *slots != *self.slots {
            self.slots = slots.into();
            self.next = 0;
        }
    }

    /// The next turns: the map, repeated endlessly.
    fn give_ahead(&mut self) -> Option<Sequence> {
        Some(Sequence { members: Arc::clone(&self.slots), first: self.next, repeats_from: Some(0) })
    }

    /// Sets the position of the next turn.
    fn take_back(&mut self, slot: usize) {
        self.next = slot;
    }

    /// Copies nothing: workers draw the turns that the leader gives in advance.
    fn follow(&mut self, _leader: &dyn Structure) {}

    /// The next member in turn with a free slot.
    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let mut fallback = None;
        for position in around(self.slots.len(), self.next, None) {
            let member = self.slots[position] as usize;
            if !servers.has_room(member) {
                continue;
            }
            if Some(member) == request.avoid {
                fallback = Some(position);
                continue;
            }
            return self.advance(position);
        }
        fallback.map_or(Pick::Saturated, |position| self.advance(position))
    }
}

/// Positions for each weight, spread as evenly as possible.
///
/// A server with `credit` can pay `credit / total` times, rounded down. That number rises by one when its earnings pass a
/// multiple of the total, which happens once per position overall. So one step need not compare all servers.
fn interleave(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<u64> = weights.iter().map(|weight| u64::from(weight / divisor)).collect();
    let total: u64 = weights.iter().sum();
    if weights.iter().all(|weight| *weight == 1) {
        return (0..u32::try_from(weights.len()).unwrap_or(u32::MAX)).collect();
    }
    let rises_at = |member: usize, times: u64| (times * total).div_ceil(weights[member]);
    let earning = || (0..weights.len()).filter(|member| weights[*member] > 0);
    // The position at which each server can pay once more, and its total number of possible payments then.
    let mut rises: BinaryHeap<_> =
        earning().map(|member| Reverse((rises_at(member, 1), member, 1))).collect();
    let mut payments = vec![0_i64; weights.len()];
    let mut order: BTreeSet<_> = (0..weights.len()).map(|member| (Reverse(0), member)).collect();
    let change = |order: &mut BTreeSet<_>, payments: &mut [i64], member: usize, by: i64| {
        order.remove(&(Reverse(payments[member]), member));
        payments[member] += by;
        order.insert((Reverse(payments[member]), member));
    };
    let mut slots = Vec::with_capacity(usize::try_from(total).unwrap_or(0));
    for position in 1..=total {
        while let Some(Reverse((at, member, times))) =
            rises.peek().copied().filter(|rise| rise.0.0 <= position)
        {
            debug_assert_eq!(at, position, "nothing rises between two positions");
            rises.pop();
            rises.push(Reverse((rises_at(member, times + 1), member, times + 1)));
            change(&mut order, &mut payments, member, 1);
        }
        let Some((_, best)) = order.first().copied() else { break };
        change(&mut order, &mut payments, best, -1);
        slots.push(u32::try_from(best).unwrap_or_default());
    }
    slots
}

fn greatest_common_divisor(left: u32, right: u32) -> u32 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_map_has_haproxys_order() {
        #[track_caller]
        fn check(weights: &[u32], expected: &str) {
            let order: String =
                interleave(weights).iter().map(|member| char::from(b'a' + *member as u8)).collect();
            assert_eq!(order, expected);
        }
        check(&[1, 1, 1], "abc");
        check(&[1, 2], "abb");
        check(&[2, 1], "aab");
        check(&[1, 2, 3], "acbcbc");
        check(&[10, 20, 30], "acbcbc");
        check(&[5, 1, 1], "aaabaac");
        check(&[1, 1, 5], "accbccc");
        check(&[3, 3, 2], "abacbabc");
        check(&[7, 5, 3, 1], "ababacabcababacd");
        check(&[4, 2, 1, 1], "aababacd");
        check(&[50, 50, 100], "acbc");
        check(&[], "");
    }

    /// The algorithm as observed, which compares all servers for each position.
    fn interleave_slowly(weights: &[u32]) -> Vec<u32> {
        let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
        let mut credits = vec![0_i64; weights.len()];
        let next = |_| {
            let mut best = (0, i64::MIN);
            for (member, credit) in credits.iter_mut().enumerate() {
                *credit += i64::from(weights[member]);
                let payments = credit.div_euclid(total);
                if payments > best.1 {
                    best = (member, payments);
                }
            }
            credits[best.0] -= total;
            best.0 as u32
        };
        (0..total).map(next).collect()
    }

    #[test]
    fn interleave_equals_a_slow_reference_computation() {
        let mut random = 1_u64;
        for _ in 0..500 {
            let mut draw = |bound: u64| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % bound
            };
            // The last weight is 1, so the weights share no divisor.
            let count = draw(20);
            let weights: Vec<u32> = (0..count).map(|_| draw(256) as u32 + 1).chain([1]).collect();
            assert_eq!(interleave(&weights), interleave_slowly(&weights), "{weights:?}");
        }
    }

    #[test]
    fn interleave_handles_thousands_of_members() {
        let many = interleave(&vec![7; 100_000]);
        assert!((0..100_000).eq(many.iter().copied()));
        assert_eq!(interleave(&[vec![1; 5_000], vec![256; 5_000]].concat()).len(), 5_000 * 257);
    }
}
