//! `tune.vars.*`: size limits of variables, in bytes. A scope's variables also count for the enclosing scopes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_containers::LocalArc;
use weir_model::VariableSizes;

/// The size limit of each scope's variables, including those of the scopes inside it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableLimits {
    pub(crate) process: usize,
    pub(crate) session: usize,
    pub(crate) transaction: usize,
    pub(crate) message: usize,
    check: usize,
}

impl VariableLimits {
    /// The configured limits.
    pub fn of(sizes: &VariableSizes) -> Self {
        let limit = |size: Option<u32>| size.map_or(NONE, |size| size as usize);
        VariableLimits {
            process: limit(sizes.process).min(limit(sizes.global)),
            session: limit(sizes.session),
            transaction: limit(sizes.transaction),
            message: limit(sizes.request),
            check: limit(sizes.check),
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.process == NONE && self.session == NONE && self.transaction == NONE && self.message == NONE
    }

    pub(crate) fn counts_all(&self) -> bool {
        self.process != NONE
    }

    /// Bytes left for a check's variables, which take `own` bytes. Variables of all scopes take `all` bytes.
    pub(crate) fn room_of_check(&self, own: usize, all: usize) -> usize {
        let own_room = self.check.min(self.session).saturating_sub(own);
        if self.counts_all() { own_room.min(self.process.saturating_sub(all)) } else { own_room }
    }
}

pub(crate) const NONE: usize = usize::MAX;

/// Bytes of variables charged to the process until dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    total: Option<LocalArc<AtomicUsize>>,
    bytes: usize,
}

impl Charge {
    pub(crate) fn set(&mut self, total: &LocalArc<AtomicUsize>, bytes: usize) {
        total.fetch_add(bytes.wrapping_sub(self.bytes), Relaxed);
        self.total.get_or_insert_with(|| total.clone());
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(total) = self.total.take() {
            total.fetch_sub(self.bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn check_variables_have_a_limit_within_the_process_limit() {
        let sizes = VariableSizes { check: Some(100), session: Some(300), ..VariableSizes::default() };
        let room = |sizes: &VariableSizes| {
            let limits = VariableLimits::of(sizes);
            [(0, 0), (60, 60), (120, 120), (60, 990)].map(|(own, all)| limits.room_of_check(own, all))
        };
        assert_eq!(room(&sizes), [100, 40, 0, 40]);
        assert_eq!(room(&VariableSizes { global: Some(1000), ..sizes }), [100, 40, 0, 10]);
        assert_eq!(room(&VariableSizes { session: Some(80), ..sizes }), [80, 20, 0, 20]);
        assert_eq!(room(&VariableSizes::default()), [NONE, NONE - 60, NONE - 120, NONE - 60]);
    }

    #[test]
    fn a_memory_charge_counts_until_it_is_dropped() {
        let total = LocalArc::new(Arc::new(AtomicUsize::new(0)));
        let (mut one, mut other) = (Charge::default(), Charge::default());
        one.set(&total, 10);
        other.set(&total, 5);
        one.set(&total, 3);
        assert_eq!(total.load(Relaxed), 8);
        drop(one);
        assert_eq!(total.load(Relaxed), 5);
        drop(other);
        assert_eq!(total.load(Relaxed), 0);
    }
}
