//! `balance first`: the first server, by identifier, that has a free slot.

use std::sync::Arc;

use super::{AlgorithmRow, BalanceRequest, Member, Pick, Structure, UsableServers, same_kind};
use crate::algorithm::AlgorithmDecl;

pub(super) static ROW: AlgorithmRow =
    AlgorithmRow { decl: AlgorithmDecl::new(&["first"]), build: |_| Box::new(First::default()) };

/// The members by ascending identifier.
#[derive(Clone, Default)]
struct First {
    order: Arc<[usize]>,
}

impl Structure for First {
    fn rebuild(&mut self, members: &[Member]) {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|member| members[*member].server.id());
        self.order = order.into();
    }

    fn pick(&mut self, servers: &UsableServers<'_>, request: &BalanceRequest) -> Pick {
        let avoid = request.avoid;
        let others = self.order.iter().copied().filter(|member| Some(*member) != avoid);
        let member = others.chain(avoid).find(|member| servers.has_room(*member));
        member.map_or(Pick::Saturated, Pick::Free)
    }

    fn follow(&mut self, leader: &dyn Structure) {
        if let Some(leader) = same_kind(leader) {
            self.clone_from(leader);
        }
    }
}
