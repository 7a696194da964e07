//! The static map: each server as often as its weight says, well mixed.
//!
//! `static-rr` walks over it; map-based hashing indexes it with the hash modulo its length. Its
//! order is that of HAProxy, found by watching it: for each position everybody earns its weight, then
//! the server that can pay the total weight most often wins (the first one among equals) and pays it.

use std::sync::Arc;

use super::{Farm, Member, Pick, around};
use crate::rotation::Sequence;
use crate::server::weight::displayed;

/// The map, and where `static-rr` stands in it.
#[derive(Default)]
pub(crate) struct Map {
    slots: Arc<[u32]>,
    next: usize,
}

impl Map {
    pub(super) fn rebuild(&mut self, members: &[Member]) {
        let weights: Vec<u32> = members.iter().map(|member| displayed(member.weight)).collect();
        let slots = interleave(&weights);
        if *slots != *self.slots {
            self.slots = slots.into();
            self.next = 0;
        }
    }

    /// Has the same map as `leader`, in the same memory.
    pub(super) fn follow(&mut self, leader: &Self) {
        self.slots = Arc::clone(&leader.slots);
    }

    /// The turns to come: the map, around and around.
    pub(super) fn give_ahead(&self) -> Sequence {
        Sequence { members: Arc::clone(&self.slots), first: self.next, repeats_from: Some(0) }
    }

    /// The next turn is that of a slot.
    pub(super) fn take_back(&mut self, slot: usize) {
        self.next = slot;
    }

    /// The next in turn that has room.
    pub(super) fn next(&mut self, farm: &Farm<'_>, avoid: Option<usize>) -> Pick {
        let mut fallback = None;
        for position in around(self.slots.len(), self.next, None) {
            let member = self.slots[position] as usize;
            if !farm.has_room(member) {
                continue;
            }
            if Some(member) == avoid {
                fallback = Some(position);
                continue;
            }
            return self.advance(position);
        }
        fallback.map_or(Pick::Saturated, |position| self.advance(position))
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

/// Positions for each weight, spread as evenly as may be.
fn interleave(weights: &[u32]) -> Vec<u32> {
    let divisor = weights.iter().copied().fold(0, greatest_common_divisor).max(1);
    let weights: Vec<i64> = weights.iter().map(|weight| i64::from(weight / divisor)).collect();
    let total: i64 = weights.iter().sum();
    let mut credits = vec![0i64; weights.len()];
    (0..total).map(|_| next_slot(&weights, total, &mut credits)).collect()
}

fn next_slot(weights: &[i64], total: i64, credits: &mut [i64]) -> u32 {
    let mut best = (0, i64::MIN);
    for (member, (credit, weight)) in credits.iter_mut().zip(weights).enumerate() {
        *credit += weight;
        let payments = credit.div_euclid(total);
        if payments > best.1 {
            best = (member, payments);
        }
    }
    credits[best.0] -= total;
    u32::try_from(best.0).unwrap_or_default()
}

fn greatest_common_divisor(left: u32, right: u32) -> u32 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_haproxy() {
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
}
