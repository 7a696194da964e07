//! The allocator of a state: it counts what Lua uses, and refuses more than the limit of the process.
//!
//! States take memory from a common budget in batches, so most allocations touch nothing that threads share.
//!
//! A refusal raises an error in Lua, which would skip the destructors of Rust. So memory is refused only while Lua itself runs. A
//! function of Rust gets all that it needs, and fails at its end if that was too much.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory that several states may use together.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicUsize,
    /// Bytes that states have taken. Functions of Rust may take more than the limit, until they end.
    taken: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        MemoryBudget { limit: AtomicUsize::new(limit), taken: AtomicUsize::new(0) }
    }

    /// A budget without a limit.
    pub fn unlimited() -> Self {
        MemoryBudget::new(usize::MAX)
    }

    /// Changes the limit. States that use more keep it.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes that states use or have in reserve, at most 32 kB in each state.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn is_exceeded(&self) -> bool {
        self.taken() > self.limit.load(Ordering::Relaxed)
    }

    /// Takes bytes. False if that would exceed the limit.
    pub fn take(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let admit = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= limit);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit).is_ok()
    }

    fn take_always(&self, bytes: usize) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives back bytes that were taken.
    pub fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The memory of one state.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: Arc<MemoryBudget>,
    used: Cell<usize>,
    /// Bytes taken from the budget. At least `used`.
    taken: Cell<usize>,
    /// Bytes that were allocated so far, also those that were freed again.
    allocated: Cell<u64>,
    /// Whether the limit applies now.
    enforced: Cell<bool>,
    /// Whether memory was taken while the limit did not apply.
    is_forced: Cell<bool>,
    /// Whether memory was refused: the garbage of the run that failed has to go.
    is_short: Cell<bool>,
}

impl Memory {
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Memory {
            budget,
            used: Cell::new(0),
            taken: Cell::new(0),
            allocated: Cell::new(0),
            enforced: Cell::new(false),
            is_forced: Cell::new(false),
            is_short: Cell::new(false),
        }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes that were allocated so far.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated.get()
    }

    /// Whether memory was taken beyond the limit, while it did not apply, since the last call.
    pub(crate) fn has_exceeded(&self) -> bool {
        self.is_forced.take() && self.is_beyond()
    }

    /// Whether all states use more than the limit.
    pub(crate) fn is_beyond(&self) -> bool {
        self.budget.is_exceeded()
    }

    /// Notes that a run failed for lack of memory.
    pub(crate) fn note_shortage(&self) {
        self.is_short.set(true);
    }

    /// Whether a run failed for lack of memory since the last call.
    pub(crate) fn take_shortage(&self) -> bool {
        self.is_short.take()
    }

    /// Sets whether the limit applies. Returns whether it did.
    pub(crate) fn enforce(&self, enforced: bool) -> bool {
        self.enforced.replace(enforced)
    }

    /// Makes sure that the state has taken `growth` bytes more than it uses.
    #[inline]
    fn admits(&self, growth: usize) -> bool {
        self.used.get().checked_add(growth).is_some_and(|used| used <= self.taken.get() || self.take(used))
    }

    #[cold]
    fn take(&self, used: usize) -> bool {
        let missing = used - self.taken.get();
        let batch = missing.max(BATCH);
        let taken = match self.budget.take(batch) {
            true => batch,
            // The last bytes of the budget are taken one by one.
            false if self.budget.take(missing) => missing,
            false if self.enforced.get() => {
                self.is_short.set(true);
                return false;
            }
            false => {
                self.budget.take_always(missing);
                self.is_forced.set(true);
                missing
            }
        };
        self.taken.set(self.taken.get() + taken);
        true
    }

    /// Gives the reserve back if it is large.
    #[inline]
    fn shrink(&self) {
        let reserve = self.taken.get() - self.used.get();
        if reserve > 2 * BATCH {
            self.budget.give_back(reserve - BATCH);
            self.taken.set(self.used.get() + BATCH);
        }
    }

    /// Lua's allocator function. `data` is the [`Memory`] of the state.
    pub(crate) unsafe extern "C" fn allocate(
        data: *mut c_void,
        block: *mut c_void,
        old: usize,
        new: usize,
    ) -> *mut c_void {
        // SAFETY: the state was made with its memory, which lives longer.
        let memory = unsafe { &*data.cast::<Memory>() };
        // For a new block, the old size is a type.
        let old = if block.is_null() { 0 } else { old };
        let (Ok(before), Ok(after)) =
            (Layout::from_size_align(old, ALIGNMENT), Layout::from_size_align(new, ALIGNMENT))
        else {
            return ptr::null_mut();
        };
        if new > old && !memory.admits(new - old) {
            return ptr::null_mut();
        }
        let moved = match (old, new) {
            (0, 0) => return ptr::null_mut(),
            // SAFETY: the size is not 0.
            (0, _) => unsafe { alloc(after) },
            (_, 0) => {
                // SAFETY: Lua gives back a block of this size.
                unsafe { dealloc(block.cast(), before) };
                ptr::null_mut()
            }
            // SAFETY: Lua gives a block of this size, and the new size is not 0.
            _ => unsafe { realloc(block.cast(), before, new) },
        };
        if new == 0 || !moved.is_null() {
            memory.used.set(memory.used.get() + new - old);
            memory.allocated.set(memory.allocated.get() + new.saturating_sub(old) as u64);
        }
        memory.shrink();
        moved.cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.give_back(self.taken.get());
    }
}

/// Bytes that a state takes from the budget at once.
const BATCH: usize = 16 << 10;
/// The alignment of blocks, in bytes: that of every type of Lua.
const ALIGNMENT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(memory: &Memory, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let data = ptr::from_ref(memory).cast_mut().cast();
        // SAFETY: the block is one of this memory, with its size, or null.
        unsafe { Memory::allocate(data, block, old, new) }
    }

    #[test]
    fn the_limit_applies_only_while_it_is_enforced() {
        let budget = Arc::new(MemoryBudget::new(100));
        let memory = Memory::new(Arc::clone(&budget));
        let block = allocate(&memory, ptr::null_mut(), 5, 90);
        assert!(!block.is_null() && memory.used() == 90);
        assert!(!memory.enforce(true));
        assert!(allocate(&memory, block, 90, 101).is_null() && memory.used() == 90, "the block stays");
        let block = allocate(&memory, block, 90, 100);
        assert!(!block.is_null() && !memory.has_exceeded());
        assert!(memory.enforce(false));
        let block = allocate(&memory, block, 100, 1_000);
        assert!(!block.is_null() && memory.has_exceeded() && !memory.has_exceeded());
        // What shrinks is always granted.
        memory.enforce(true);
        let block = allocate(&memory, block, 1_000, 500);
        assert!(!block.is_null());
        assert!(allocate(&memory, block, 500, 0).is_null() && memory.used() == 0);
        drop(memory);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn states_share_a_budget() {
        const LIMIT: usize = 1 << 20;
        let budget = Arc::new(MemoryBudget::new(LIMIT));
        let states = [(); 4].map(|()| Memory::new(Arc::clone(&budget)));
        for state in &states {
            state.enforce(true);
        }
        let mut blocks = Vec::new();
        // They take turns until all are refused.
        let mut all_had = 1;
        while all_had > 0 {
            all_had = 0;
            for state in &states {
                let block = allocate(state, ptr::null_mut(), 0, 1_000);
                if !block.is_null() {
                    blocks.push((state, block));
                    all_had += 1;
                }
                assert!(budget.taken() <= LIMIT);
            }
        }
        let used: usize = states.iter().map(Memory::used).sum();
        assert!(used > LIMIT - states.len() * 1_000, "{used}: nothing is left in reserve");
        // A state that frees gives back, so that another one has it.
        let (first, rest): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|(state, _)| ptr::eq(*state, &states[0]));
        for (state, block) in first {
            allocate(state, block, 1_000, 0);
        }
        assert!(states[0].used() == 0 && budget.taken() <= LIMIT - 200_000);
        let large = allocate(&states[1], ptr::null_mut(), 0, 200_000);
        assert!(!large.is_null());
        allocate(&states[1], large, 200_000, 0);
        for (state, block) in rest {
            allocate(state, block, 1_000, 0);
        }
        drop(states);
        assert_eq!(budget.taken(), 0);
    }
}
