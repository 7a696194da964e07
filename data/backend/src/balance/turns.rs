//! `balance roundrobin`: each server in turn, by weight, as smoothly as may be.
//!
//! A clock counts the turns given out. A server that got one is due again after total weight / own
//! weight turns. A turn goes to who is due, the earliest first and the heaviest among those; when
//! nobody is, to a server that has no place yet, the heaviest first; when there is none either, to
//! whoever will be due next. So newcomers slip into the gaps that they cause, and the servers of a
//! whole farm spread over its first round. Weights may change between any two turns (slow start).
//! The sequences equal those that HAProxy was seen to give.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Farm, Member, Pick, Share};
use crate::server::ServerKey;

/// Who is due when.
#[derive(Default)]
pub(crate) struct Turns {
    seats: Vec<Seat>,
    /// Those who have a place.
    placed: BTreeSet<Place>,
    /// Those who have none yet, in the order of introduction.
    newcomers: Vec<usize>,
    total: u64,
    clock: u64,
    arrivals: u64,
}

struct Seat {
    key: ServerKey,
    since: u64,
    weight: u32,
    /// When it is due, and its place in the order, if it has one.
    due: Option<(Due, Place)>,
}

/// A moment of the clock: whole turns, and a rest in units of 1/weight, so that nothing drifts.
#[derive(Clone, Copy)]
struct Due {
    turn: u64,
    rest: u64,
}

impl Due {
    /// Where it stands among others: by turn, then the heaviest with the smallest rest, then by `arrival`.
    fn place(self, weight: u32, arrival: u64, member: usize) -> Place {
        let credit = u64::from(weight).saturating_sub(self.rest);
        Place { turn: self.turn, credit: Reverse(credit), arrival, member }
    }

    /// A stride of `total / weight` turns later.
    fn after(self, total: u64, weight: u32) -> Self {
        let weight = u64::from(weight);
        let rest = self.rest + total % weight;
        Self { turn: self.turn + total / weight + rest / weight, rest: rest % weight }
    }
}

/// An entry of the order of turns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    turn: u64,
    credit: Reverse<u64>,
    arrival: u64,
    member: usize,
}

/// Workers begin at most this many turns apart: what they skip is computed.
const STRIDE_LIMIT: u64 = 64;

impl Turns {
    pub(super) fn rebuild(&mut self, members: &[Member]) {
        let mut before = std::mem::take(&mut self.seats);
        before.sort_by_key(|seat| seat.key);
        self.total = members.iter().map(|member| u64::from(member.weight)).sum();
        self.placed.clear();
        self.newcomers.clear();
        for (position, member) in members.iter().enumerate() {
            let (key, weight) = (member.server.key(), member.weight);
            // Who was away in between is a newcomer, also where nobody chose meanwhile.
            let known = before.binary_search_by_key(&key, |seat| seat.key).ok();
            let known = known.filter(|seat| before[*seat].since == member.since);
            // Its place stays, but with more weight than before it need not wait a long stride's rest.
            let latest = Due { turn: self.clock, rest: 0 }.after(self.total, weight);
            self.seats.push(Seat { key, since: member.since, weight, due: None });
            match known.and_then(|seat| before[seat].due) {
                Some((due, _)) if due.turn < latest.turn => self.place(position, Due { rest: 0, ..due }),
                Some(_) => self.place(position, latest),
                None => self.newcomers.push(position),
            }
        }
        self.newcomers.sort_by_key(|position| Reverse(self.seats[*position].weight));
    }

    /// The same for one worker of several that each give out turns on their own: who begins, does so at its
    /// share of a round, or all of them would start with the same server.
    pub(super) fn rebuild_share(&mut self, members: &[Member], share: Share) {
        self.rebuild(members);
        if !self.placed.is_empty() {
            return;
        }
        let weights = || self.seats.iter().map(|seat| u64::from(seat.weight));
        let round = self.total / weights().fold(0, greatest_common_divisor).max(1);
        for _ in 0..share.of(round.min(share.workers as u64 * STRIDE_LIMIT)) {
            if let Some(member) = self.next(|_| true, None) {
                self.seat(member);
            }
        }
    }

    pub(super) fn pick(&mut self, farm: &Farm<'_>, avoid: Option<usize>) -> Pick {
        let Some(member) = self.next(|member| farm.has_room(member), avoid) else { return Pick::Saturated };
        self.seat(member);
        Pick::Free(member)
    }

    fn next(&self, accepts: impl Fn(usize) -> bool, avoid: Option<usize>) -> Option<usize> {
        let not_due = Place { turn: self.clock + 1, credit: Reverse(u64::MAX), arrival: 0, member: 0 };
        let due = self.placed.range(..not_due).map(|place| place.member);
        let later = self.placed.range(not_due..).map(|place| place.member);
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

    /// Gives the current turn to a member and finds it its next place.
    fn seat(&mut self, member: usize) {
        let Seat { weight, due, .. } = self.seats[member];
        let now = match due {
            Some((due, place)) => {
                self.placed.remove(&place);
                // Who was passed over for lack of room does not save up turns for later.
                let earliest = self.clock.saturating_sub(self.total / u64::from(weight));
                if due.turn < earliest { Due { turn: earliest, rest: 0 } } else { due }
            }
            None => {
                self.newcomers.retain(|newcomer| *newcomer != member);
                Due { turn: self.clock, rest: 0 }
            }
        };
        self.place(member, now.after(self.total, weight));
        self.clock += 1;
    }

    fn place(&mut self, member: usize, due: Due) {
        self.arrivals += 1;
        let place = due.place(self.seats[member].weight, self.arrivals, member);
        self.seats[member].due = Some((due, place));
        self.placed.insert(place);
    }
}

fn greatest_common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::fixture::{farm, members};

    /// Each worker's sequence is a part of the one that a single worker gives.
    #[test]
    fn workers_begin_at_different_turns() {
        #[track_caller]
        fn check(weights: &[u32], workers: usize, expected: &[&str]) {
            let members = members(weights);
            for (worker, expected) in expected.iter().enumerate() {
                let mut turns = Turns::default();
                turns.rebuild_share(&members, Share { worker, workers });
                let mut take = || match turns.pick(&farm(&members), None) {
                    Pick::Free(member) => char::from(b'a' + member as u8),
                    other => panic!("{other:?}"),
                };
                let sequence: String = expected.chars().map(|_| take()).collect();
                assert_eq!(sequence, *expected, "{weights:?}, worker {worker}");
            }
        }
        check(&[1, 1, 1, 1], 4, &["abcdabcd", "bcdabcda", "cdabcdab", "dabcdabc"]);
        check(&[1, 1], 4, &["abab", "abab", "baba", "baba"]);
        check(&[1, 2, 3], 2, &["cbcacbcbcacb", "acbcbcacbcbc"]);
    }

    #[test]
    fn who_loses_a_server_keeps_its_place_in_the_round() {
        let mut members = members(&[1, 1, 1, 1]);
        let mut turns = Turns::default();
        let share = Share { worker: 1, workers: 2 };
        turns.rebuild_share(&members, share);
        assert_eq!(turns.pick(&farm(&members), None), Pick::Free(2));
        members.remove(0);
        turns.rebuild_share(&members, share);
        assert_eq!(turns.pick(&farm(&members), None), Pick::Free(2), "the fourth follows the third");
    }

    /// What HAProxy 2.6 gives for two rounds.
    #[test]
    fn the_sequence_is_that_of_haproxy() {
        #[track_caller]
        fn check(weights: &[u32], expected: &str) {
            let members = members(weights);
            let mut turns = Turns::default();
            turns.rebuild(&members);
            let sequence: String = (0..expected.len())
                .map(|_| match turns.pick(&farm(&members), None) {
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
