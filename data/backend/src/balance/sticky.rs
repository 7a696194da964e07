//! `balance sticky`: always the same server, until it cannot serve.
//!
//! Members form a line. A server that leaves loses its position. A server that comes back joins at the end, so it does not
//! take over from the server that replaced it (manual, "balance").

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, same_kind};
use crate::algorithm::AlgorithmDecl;
use crate::server_key::ServerKey;

pub(super) static ROW: AlgorithmRow =
    AlgorithmRow { decl: AlgorithmDecl::new(&["sticky"]), build: |_| Box::new(Sticky::default()) };

/// The line of servers, and its order.
#[derive(Default)]
struct Sticky {
    line: Vec<ServerKey>,
    /// The line as positions among the members.
    order: Arc<[usize]>,
}

impl Structure for Sticky {
    fn rebuild(&mut self, members: &[Member]) {
        let keys = || members.iter().map(|member| member.server.key());
        let positions: HashMap<ServerKey, usize> = keys().zip(0..).collect();
        self.line.retain(|key| positions.contains_key(key));
        let stood: HashSet<ServerKey> = self.line.iter().copied().collect();
        self.line.extend(keys().filter(|key| !stood.contains(key)));
        self.order = self.line.iter().filter_map(|key| positions.get(key).copied()).collect();
    }

    /// Copies the order of `leader`, which knows when servers left and came back.
    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind::<Self>(leader) {
            self.order = Arc::clone(&leader.order);
        }
    }

    /// The first member, even if it is full. Another one is only used if the request must avoid the first.
    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let avoid = request.avoid;
        let others = self.order.iter().copied().filter(|member| Some(*member) != avoid);
        match others.chain(avoid).next() {
            Some(member) if servers.has_room(member) => Pick::Free(member),
            Some(member) => Pick::Queue(member),
            None => Pick::Saturated,
        }
    }

    /// Positions among the members, the one in use first.
    fn order(&self) -> Option<&[usize]> {
        Some(&self.order)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{members, request, usable};
    use super::*;

    #[test]
    fn a_returning_server_is_last_in_the_sticky_order() {
        let mut sticky = Sticky::default();
        let mut all = members(&[1, 9, 1]);
        sticky.rebuild(&all);
        assert_eq!(sticky.pick(&usable(&all), &request(None)), Pick::Free(0));
        assert_eq!(sticky.pick(&usable(&all), &request(Some(0))), Pick::Free(1));
        let first = all.remove(0);
        sticky.rebuild(&all);
        assert_eq!(sticky.pick(&usable(&all), &request(None)), Pick::Free(0), "the next one");
        all.insert(0, first);
        sticky.rebuild(&all);
        assert_eq!(sticky.order(), Some(&[1, 2, 0][..]));
        assert_eq!(sticky.pick(&usable(&all), &request(None)), Pick::Free(1), "still the same");
    }

    #[test]
    fn a_sticky_balancer_without_members_is_saturated() {
        let mut sticky = Sticky::default();
        sticky.rebuild(&[]);
        assert_eq!(sticky.pick(&usable(&[]), &request(None)), Pick::Saturated);
    }
}
