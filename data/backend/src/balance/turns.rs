//! `balance roundrobin`: each server in turn, by weight, as evenly as possible.
//!
//! A clock counts the turns given. A server with a turn is due again after total weight / own weight
//! turns. A turn goes to a server that is due, the earliest first and the heaviest among equals. Otherwise it
//! goes to a server without a rank, the heaviest first, or else to the server that is due next. So new servers
//! fill the gaps they cause, and the servers of a new backend spread over its first round. Weights may change
//! between any two turns (slow start). The sequences equal those observed on HAProxy.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers};
use crate::algorithm::{AlgorithmDecl, TurnUse};
use crate::rotation::Sequence;
use crate::server_key::ServerKey;

pub(super) static ROW: AlgorithmRow = AlgorithmRow {
    decl: AlgorithmDecl::new(&["roundrobin"]).turns(TurnUse::Always),
    build: |_| Box::new(TurnSchedule::default()),
};

/// The members by the turn at which they are due.
#[derive(Default)]
pub(super) struct TurnSchedule {
    entries: Vec<TurnMember>,
    /// Members with a rank.
    ranked: BTreeSet<Rank>,
    /// Members without a rank yet, in the order of introduction.
    newcomers: VecDeque<usize>,
    total: u64,
    clock: u64,
    arrivals: u64,
    /// Turns given in advance, with the state to undo each if no request took it.
    ahead: Vec<GrantedTurn>,
}

struct TurnMember {
    key: ServerKey,
    since: u64,
    weight: u32,
    /// The moment when the member is due, and its rank. `None` for a newcomer.
    due: Option<(TurnMoment, Rank)>,
}

/// A moment of the clock: whole turns, and a remainder in units of 1/weight, so rounding errors do not add up.
#[derive(Clone, Copy)]
struct TurnMoment {
    turn: u64,
    rest: u64,
}

impl TurnMoment {
    /// The rank of a member: by turn, then the heaviest with the smallest remainder, then by `arrival`.
    fn rank(self, weight: u32, arrival: u64, member: usize) -> Rank {
        let credit = u64::from(weight).saturating_sub(self.rest);
        Rank { turn: self.turn, credit: Reverse(credit), arrival, member }
    }

    /// The moment `total / weight` turns later.
    fn after(self, total: u64, weight: u32) -> Self {
        let weight = u64::from(weight);
        let rest = self.rest + total % weight;
        Self { turn: self.turn + total / weight + rest / weight, rest: rest % weight }
    }
}

/// A position in the order of turns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    turn: u64,
    credit: Reverse<u64>,
    arrival: u64,
    member: usize,
}

/// A turn that was given, and the previous state of the member.
struct GrantedTurn {
    member: usize,
    before: Before,
}

enum Before {
    Ranked(TurnMoment, Rank),
    /// The member's index among the newcomers.
    Newcomer(usize),
}

/// Maximum number of turns computed in advance: a round of most backends, in a short time under the lock.
const AHEAD_LIMIT: usize = 1_024;

impl Structure for TurnSchedule {
    fn rebuild(&mut self, members: &[Member]) {
        self.ahead.clear();
        if self.entries.len() == 1 && self.ranked.is_empty() {
            // Requests choose a single member without taking turns, so its turn is given here.
            self.give(0);
        }
        let mut before = std::mem::take(&mut self.entries);
        before.sort_by_key(|entry| entry.key);
        self.total = members.iter().map(|member| u64::from(member.weight)).sum();
        self.newcomers.clear();
        let mut ranks = Vec::with_capacity(members.len());
        for (position, member) in members.iter().enumerate() {
            let (key, weight) = (member.server.key(), member.weight);
            // A member that left and returned is a newcomer, even if no request arrived meanwhile.
            let known = before.binary_search_by_key(&key, |entry| entry.key).ok();
            let known = known.filter(|entry| before[*entry].since == member.since);
            // The member keeps its position. If its weight increased, it is due after at most one stride of the new weight.
            let latest = TurnMoment { turn: self.clock, rest: 0 }.after(self.total, weight);
            let due = known
                .and_then(|entry| before[entry].due)
                .map(|(due, _)| if due.turn < latest.turn { TurnMoment { rest: 0, ..due } } else { latest });
            let due = due.map(|due| {
                self.arrivals += 1;
                (due, due.rank(weight, self.arrivals, position))
            });
            match due {
                Some((_, rank)) => ranks.push(rank),
                None => self.newcomers.push_back(position),
            }
            self.entries.push(TurnMember { key, since: member.since, weight, due });
        }
        // Built in bulk: with thousands of members much faster than single insertions.
        self.ranked = ranks.into_iter().collect();
        self.newcomers.make_contiguous().sort_by_key(|position| Reverse(self.entries[*position].weight));
    }

    /// Workers draw the turns that the leader gives ahead.
    fn follow(&mut self, _leader: &dyn Structure) {}

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let Some(member) = self.next(|member| servers.has_room(member), request.avoid) else {
            return Pick::Saturated;
        };
        // A single member takes no turns, with and without the lock.
        if self.entries.len() == 1 {
            return Pick::Free(member);
        }
        let is_passed_over = |rank: &Rank| rank.turn <= self.clock && !servers.has_room(rank.member);
        if let Some((due, _)) = self.entries[member].due
            && due.turn > self.clock
            && self.ranked.first().is_some_and(is_passed_over)
        {
            // Others take the turns of a full member before they are due themselves. The clock advances with them. Otherwise, once
            // the full member has a free slot, they would not be chosen until it has caught up on these turns.
            self.clock = due.turn;
        }
        self.give(member);
        Pick::Free(member)
    }

    /// Computes the next turns in advance until they repeat, in most backends after a round or two, or up to the limit.
    fn give_ahead(&mut self) -> Option<Sequence> {
        let divisor =
            self.entries.iter().map(|entry| u64::from(entry.weight)).fold(0, greatest_common_divisor);
        let round = usize::try_from(self.total / divisor.max(1)).unwrap_or(usize::MAX);
        let mut ahead = Vec::new();
        let mut repeats_from = None;
        while repeats_from.is_none() && round <= AHEAD_LIMIT - ahead.len() {
            let (start, standing) = (ahead.len(), self.standing());
            self.give_next(round, &mut ahead);
            repeats_from = (standing.is_some() && standing == self.standing()).then_some(start);
        }
        if repeats_from.is_none() {
            self.give_next(AHEAD_LIMIT - ahead.len(), &mut ahead);
        }
        let members = ahead.iter().map(|given| u32::try_from(given.member).unwrap_or(u32::MAX)).collect();
        self.ahead = ahead;
        Some(Sequence { members, first: 0, repeats_from })
    }

    /// Undoes the turns given in advance, from index `from` on.
    fn take_back(&mut self, from: usize) {
        while self.ahead.len() > from {
            let Some(GrantedTurn { member, before }) = self.ahead.pop() else { return };
            let entry = &mut self.entries[member];
            if let Some((_, rank)) = entry.due.take() {
                self.ranked.remove(&rank);
            }
            match before {
                Before::Ranked(due, rank) => {
                    entry.due = Some((due, rank));
                    self.ranked.insert(rank);
                }
                Before::Newcomer(place) => self.newcomers.insert(place, member),
            }
            self.clock -= 1;
        }
        self.ahead.clear();
    }
}

impl TurnSchedule {
    fn give_next(&mut self, count: usize, given: &mut Vec<GrantedTurn>) {
        for _ in 0..count {
            let Some(member) = self.next(|_| true, None) else { return };
            given.push(self.give(member));
        }
    }

    /// The state that determines all following turns, relative to the clock. `None` while there are newcomers.
    fn standing(&self) -> Option<Vec<(u64, u64, usize)>> {
        let relative = |rank: &Rank| {
            let rest = self.entries[rank.member].due.map_or(0, |(due, _)| due.rest);
            (rank.turn.wrapping_sub(self.clock), rest, rank.member)
        };
        self.newcomers.is_empty().then(|| self.ranked.iter().map(relative).collect())
    }

    fn next(&self, accepts: impl Fn(usize) -> bool, avoid: Option<usize>) -> Option<usize> {
        let not_due = Rank { turn: self.clock + 1, credit: Reverse(u64::MAX), arrival: 0, member: 0 };
        let due = self.ranked.range(..not_due).map(|rank| rank.member);
        let later = self.ranked.range(not_due..).map(|rank| rank.member);
        let order = due.chain(self.newcomers.iter().copied()).chain(later);
        let mut last_resort = None;
        for member in order.filter(|member| accepts(*member)) {
            if Some(member) != avoid {
                return Some(member);
            }
            last_resort = Some(member);
        }
        last_resort
    }

    /// Gives the current turn to a member and computes its next rank.
    fn give(&mut self, member: usize) -> GrantedTurn {
        let TurnMember { weight, due, .. } = self.entries[member];
        let (now, before) = match due {
            Some((due, rank)) => {
                self.ranked.remove(&rank);
                // A member that was skipped because it was full does not accumulate turns.
                let earliest = self.clock.saturating_sub(self.total / u64::from(weight));
                let now = if due.turn < earliest { TurnMoment { turn: earliest, rest: 0 } } else { due };
                (now, Before::Ranked(due, rank))
            }
            None => {
                let place = self.newcomers.iter().position(|newcomer| *newcomer == member);
                let place = place.unwrap_or_default();
                self.newcomers.remove(place);
                (TurnMoment { turn: self.clock, rest: 0 }, Before::Newcomer(place))
            }
        };
        self.rank(member, now.after(self.total, weight));
        self.clock += 1;
        GrantedTurn { member, before }
    }

    fn rank(&mut self, member: usize, due: TurnMoment) {
        self.arrivals += 1;
        let rank = due.rank(self.entries[member].weight, self.arrivals, member);
        self.entries[member].due = Some((due, rank));
        self.ranked.insert(rank);
    }
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::balance::fixture::{members, members_with, request, usable};
    use crate::settings::ServerSettings;

    fn turns(members: &[Member]) -> TurnSchedule {
        let mut turns = TurnSchedule::default();
        turns.rebuild(members);
        turns
    }

    fn picks(turns: &mut TurnSchedule, members: &[Member], count: usize) -> Vec<u32> {
        let pick = |turns: &mut TurnSchedule| match turns.pick(&usable(members), &request(None)) {
            Pick::Free(member) => member as u32,
            other => panic!("{other:?}"),
        };
        (0..count).map(|_| pick(turns)).collect()
    }

    proptest! {
        /// Turns given in advance equal those given one by one. A turn that no request took is given again.
        #[test]
        fn turns_computed_in_advance_equal_those_given_one_by_one(
            weights in prop::collection::vec(1u32..40, 2..6),
            first in 0usize..9,
            taken in 0u32..3_000,
        ) {
            let members = members(&weights);
            let (mut ahead, mut single) = (turns(&members), turns(&members));
            prop_assert_eq!(picks(&mut ahead, &members, first), picks(&mut single, &members, first));
            let sequence = ahead.give_ahead().unwrap();
            let end = (0..taken).find(|turn| sequence.index(*turn).is_none()).unwrap_or(taken);
            let given: Vec<u32> =
                (0..end).map(|turn| sequence.members[sequence.index(turn).unwrap()]).collect();
            prop_assert_eq!(given, picks(&mut single, &members, end as usize));
            ahead.take_back(sequence.index(end).unwrap_or(sequence.members.len()));
            prop_assert_eq!(picks(&mut ahead, &members, 200), picks(&mut single, &members, 200));
        }
    }

    /// Most backends' turns soon repeat, so the next ones never have to be computed.
    #[test]
    fn the_turn_sequence_repeats_after_the_sum_of_weights() {
        #[track_caller]
        fn check(weights: &[u32], expected: Option<usize>) {
            let members = members(weights);
            let sequence = turns(&members).give_ahead().unwrap();
            assert_eq!(sequence.repeats_from.map(|from| sequence.members.len() - from), expected);
        }
        check(&[1, 1], Some(2));
        check(&[100, 100, 100], Some(3));
        check(&[1, 2, 3], Some(6));
        check(&[100, 99, 98], Some(297));
        check(&[256, 1, 77, 3], Some(337));
        check(&[1; 300], Some(300));
        check(&[1; 1_100], None);
    }

    #[test]
    fn the_round_continues_at_its_position_when_a_server_is_removed() {
        let mut members = members(&[1, 1, 1, 1]);
        let mut turns = turns(&members);
        assert_eq!(picks(&mut turns, &members, 3), [0, 1, 2]);
        members.remove(0);
        turns.rebuild(&members);
        assert_eq!(picks(&mut turns, &members, 1), [2], "the fourth follows the third");
    }

    /// A remainder is in units of 1/weight, so a new weight discards it.
    #[test]
    fn a_new_weight_discards_the_remainder_of_a_turn() {
        let mut members = members(&[1, 1]);
        (members[0].weight, members[1].weight) = (5, 2);
        let mut turns = turns(&members);
        assert_eq!(picks(&mut turns, &members, 1), [0]);
        members[0].weight = 1;
        turns.rebuild(&members);
        assert_eq!(
            picks(&mut turns, &members, 7),
            [0, 1, 1, 0, 1, 1, 0],
            "two fifths of a turn are not two turns"
        );
    }

    #[test]
    fn a_full_server_does_not_accumulate_turns() {
        let full = ServerSettings { maximum_connections: 1, ..Default::default() };
        let members = members_with([full, ServerSettings::default()]);
        let mut turns = turns(&members);
        assert_eq!(picks(&mut turns, &members, 2), [0, 1]);
        members[0].server.occupy();
        assert_eq!(picks(&mut turns, &members, 9), [1; 9]);
        members[0].server.release(None);
        let of_first = picks(&mut turns, &members, 8).iter().filter(|member| **member == 0).count();
        assert!(of_first <= 5, "{of_first} of 8 turns");
    }

    #[test]
    fn servers_with_room_share_the_turns_of_full_ones_by_weight() {
        let weights = [3, 2, 1].map(|weight| ServerSettings { weight, ..Default::default() });
        let mut settings = weights.to_vec();
        settings[0].maximum_connections = 1;
        let members = members_with(settings);
        let mut turns = turns(&members);
        members[0].server.occupy();
        let taken = picks(&mut turns, &members, 300);
        let of_second = taken.iter().filter(|member| **member == 1).count();
        assert!((199..=201).contains(&of_second), "{of_second} of 300 turns");
    }

    /// The sequence of HAProxy 2.6 for two rounds.
    #[test]
    fn roundrobin_gives_haproxys_sequence() {
        #[track_caller]
        fn check(weights: &[u32], expected: &str) {
            let members = members(weights);
            let mut turns = TurnSchedule::default();
            turns.rebuild(&members);
            let sequence: String = (0..expected.len())
                .map(|_| match turns.pick(&usable(&members), &request(None)) {
                    Pick::Free(member) => char::from(b'a' + member as u8),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(sequence, expected, "{weights:?}");
        }
        check(&[1, 1, 1], "abcabc");
        check(&[1, 2], "bbabba");
        check(&[2, 1], "aabaab");
        check(&[1, 2, 3], "cbcacbcbcacb");
        check(&[5, 1, 1], "aaabaacaaabaac");
        check(&[1, 1, 5], "cccaccbcccaccb");
        check(&[10, 20, 30], "cbcacbcbcacb");
        check(&[3, 3, 2], "ababcabacbabcaba");
        check(&[7, 5, 3, 1], "abacbaabcabadacbabacbaabcabadacb");
        check(&[4, 2, 1, 1], "abacabadabacabad");
        check(&[50, 50, 100], "cacbcacbcacb");
        check(&[16, 1], "aaaaaaaaaaaaaaaabaaaaaaaaaaaaaaaab");
        check(&[3, 2], "aababaabab");
        check(&[2, 2, 1], "ababcababc");
        check(&[3, 3, 1], "abababcabababc");
        check(&[5, 3], "aababaabaababaab");
        check(&[5, 2], "aaabaabaaabaab");
        check(&[7, 3], "aaabaabaabaaabaabaab");
        check(&[9, 4, 2], "aabacabaabaacabaabacabaabaacab");
        check(&[100, 99, 98], "abacbacbacbacbacbacbacbacbacbacbacbacbacbacbacbacbacbacbacba");
        check(&[8, 1, 1, 1, 1], "aabaacaadaaeaabaacaadaae");
        check(&[1, 2, 3, 4], "dcdbcdadcbdcdbcdadcb");
        check(&[4, 3, 2, 1], "abacbadabcabacbadabc");
    }
}
