//! `balance random`: the least loaded of a few servers drawn by weight.
//!
//! A request that was redispatched waits for another server instead of using the failed one again, as in HAProxy.

use std::sync::Arc;

use super::ring::LoadBound;
use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, around, same_kind};
use crate::algorithm::AlgorithmDecl;
use crate::settings::DEFAULT_DRAWS;

pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["random"])
        .waits_for_others()
        .compares_load(|number| number.unwrap_or(DEFAULT_DRAWS) > 1),
    build: |settings| {
        let draws = settings.algorithm.number().unwrap_or(DEFAULT_DRAWS);
        Box::new(WeightSums::new(draws, settings.hash_balance_factor))
    },
};

/// The running sum of the weights, for drawing.
#[derive(Clone)]
pub(super) struct WeightSums {
    draws: u32,
    /// `hash-balance-factor`.
    factor: u32,
    sums: Arc<[u64]>,
}

/// The limit of draws. More draws do not improve the choice.
const DRAWS_LIMIT: u32 = 1_024;

impl WeightSums {
    pub(super) fn new(draws: u32, factor: u32) -> Self {
        Self { draws: draws.clamp(1, DRAWS_LIMIT), factor, sums: Arc::default() }
    }

    /// Draws a member by weight. `None` without members.
    pub(super) fn draw(&self, entropy: &mut u64) -> Option<usize> {
        let total = *self.sums.last()?;
        // Maps 64 random bits to 0..total without a division. The bias is below 2^-40.
        let point = (u128::from(split_mix(entropy)) * u128::from(total)) >> 64;
        Some(self.sums.partition_point(|sum| u128::from(*sum) <= point))
    }
}

impl Structure for WeightSums {
    fn rebuild(&mut self, members: &[Member]) {
        let mut sum = 0;
        let sums = members.iter().map(|member| {
            sum += u64::from(member.weight);
            sum
        });
        self.sums = sums.collect();
    }

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let mut entropy = request.random;
        let drawn = (0..self.draws).filter_map(|_| self.draw(&mut entropy));
        let wanted = drawn.filter(|member| Some(*member) != request.avoid);
        let best = wanted.reduce(|best, other| if less_loaded(servers, other, best) { other } else { best });
        let start = best.or_else(|| self.draw(&mut entropy)).unwrap_or_default();
        // If the drawn members are full, try their neighbours: no request waits while a member has room.
        let mut candidates =
            around(servers.members.len(), start, request.avoid).filter(|member| servers.has_room(*member));
        let first = candidates.next();
        let bound = LoadBound::new(servers, self.factor);
        let light = first.into_iter().chain(candidates).find(|member| bound.admits(servers, *member));
        light.or(first).map_or(Pick::Saturated, Pick::Free)
    }

    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind(leader) {
            self.clone_from(leader);
        }
    }
}

/// Whether `left` has less load relative to its weight than `right`.
fn less_loaded(servers: &UsableServers<'_>, left: usize, right: usize) -> bool {
    let weighted = |load: usize, weight: usize| {
        u64::from(servers.in_flight(load)) * u64::from(servers.members[weight].weight)
    };
    weighted(left, right) < weighted(right, left)
}

/// Sebastiano Vigna's SplitMix64: many draws from one seed.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the author's reference program for this seed.
    #[test]
    fn split_mix_equals_the_authors_reference_program() {
        let mut state = 1_234_567;
        let drawn: [u64; 4] = std::array::from_fn(|_| split_mix(&mut state));
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(drawn, expected);
    }
}
