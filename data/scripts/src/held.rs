//! The bytes of peers that wait for scripts.

use std::cell::Cell;
use std::sync::Arc;

use weir_client::ByteBudget;
use weir_lua::MemoryBudget;

/// Bytes that are held for a script, in a budget of all scripts. They are outside of the memory of Lua.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    budget: Arc<MemoryBudget>,
    bytes: Cell<usize>,
}

impl HeldBytes {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        HeldBytes { budget, bytes: Cell::new(0) }
    }

    /// Holds so many bytes in total. False if the budget is used up.
    pub(crate) fn grow_to(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes.get());
        more == 0 || self.grow(more)
    }

    /// Holds nothing any more.
    pub(crate) fn release(&self) {
        self.budget.give_back(self.bytes.take());
    }
}

impl ByteBudget for HeldBytes {
    fn grow(&self, bytes: usize) -> bool {
        let admitted = self.budget.take(bytes);
        if admitted {
            self.bytes.set(self.bytes.get() + bytes);
        }
        admitted
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.release();
    }
}

/// The memory that scripts may use.
#[derive(Debug)]
pub(crate) struct ScriptMemory {
    /// Of all states (`tune.lua.maxmem`).
    pub states: Arc<MemoryBudget>,
    /// Of the bytes of peers that wait for scripts.
    pub held: Arc<MemoryBudget>,
    /// The tasks that run.
    pub tasks: Arc<MemoryBudget>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_all_scripts_have_one_budget() {
        let budget = Arc::new(MemoryBudget::new(100));
        let [one, two] = [(); 2].map(|()| HeldBytes::new(Arc::clone(&budget)));
        assert!(one.grow_to(60) && one.grow_to(50) && !two.grow_to(41) && two.grow_to(40));
        assert!(!one.grow(1));
        drop(two);
        assert!(one.grow_to(100));
        one.release();
        assert_eq!(budget.taken(), 0);
    }
}
