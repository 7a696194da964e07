//! `balance first`: the first server, by identifier, that has a free slot.

use std::sync::Arc;

use super::{Farm, Member, Pick};

/// The members by ascending identifier.
#[derive(Clone, Default)]
pub(crate) struct First {
    order: Arc<[usize]>,
}

impl First {
    pub(super) fn rebuild(&mut self, members: &[Member]) {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|member| members[*member].server.id());
        self.order = order.into();
    }

    pub(super) fn pick(&self, farm: &Farm<'_>, avoid: Option<usize>) -> Pick {
        let others = self.order.iter().copied().filter(|member| Some(*member) != avoid);
        let member = others.chain(avoid).find(|member| farm.has_room(*member));
        member.map_or(Pick::Saturated, Pick::Free)
    }
}
