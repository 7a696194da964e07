//! `balance roundrobin`: each server in turn, by weight, as smoothly as may be.
//!
//! Stride scheduling: each server has a time at which its next turn is due; being chosen moves it by
//! a stride inversely proportional to its weight. A changed weight changes the stride from the next
//! turn on, so weights may change with every request (slow start).

use std::collections::BTreeSet;

use super::{Farm, Member, Pick};
use crate::server::ServerKey;

/// Who is due when.
#[derive(Default)]
pub(crate) struct Turns {
    /// Due time, tie-break, member; ascending.
    due: BTreeSet<(u64, u32, usize)>,
    /// The same by member.
    times: Vec<(ServerKey, u64, u32)>,
    now: u64,
}

/// The stride of weight 1/16 and so the resolution of time: every weight up to 4096 divides it
/// with an error below one in a million.
const FULL_STRIDE: u64 = 1 << 32;

impl Turns {
    pub(super) fn rebuild(&mut self, members: &[Member]) {
        let before = std::mem::take(&mut self.times);
        self.due.clear();
        for (member, Member { server, weight }) in members.iter().enumerate() {
            let known = before.iter().find(|(key, ..)| *key == server.key());
            let stride = FULL_STRIDE / u64::from(*weight);
            // A known server keeps its place but never waits for longer than a stride of its own.
            let due = known.map_or(self.now + stride, |(_, due, _)| (*due).min(self.now + stride));
            self.times.push((server.key(), due, member as u32));
            self.due.insert((due, member as u32, member));
        }
    }

    pub(super) fn pick(&mut self, farm: &Farm<'_>, avoid: Option<usize>) -> Pick {
        let in_order = || self.due.iter().map(|(_, _, member)| *member);
        let others = in_order().filter(|member| Some(*member) != avoid);
        let Some(member) = others.chain(avoid).find(|member| farm.has_room(*member)) else {
            return Pick::Saturated;
        };
        self.advance(member, farm.members[member].weight);
        Pick::Free(member)
    }

    fn advance(&mut self, member: usize, weight: u32) {
        let (_, due, tie) = self.times[member];
        self.due.remove(&(due, tie, member));
        self.now = self.now.max(due);
        // A server that was passed over does not save up turns for later.
        let next = due.max(self.now.saturating_sub(FULL_STRIDE / u64::from(weight)))
            + FULL_STRIDE / u64::from(weight);
        self.times[member].1 = next;
        self.due.insert((next, tie, member));
    }
}
