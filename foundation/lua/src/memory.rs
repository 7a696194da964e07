//! The allocator of a state: it counts what Lua uses, and refuses more than the limit.
//!
//! A refusal raises an error in Lua, which would skip the destructors of Rust. So memory is refused only while Lua itself runs. A
//! function of Rust gets all that it needs, and fails at its end if that was too much.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// The memory of one state.
#[derive(Debug)]
pub(crate) struct Memory {
    used: Cell<usize>,
    limit: Cell<usize>,
    /// Whether the limit applies now.
    enforced: Cell<bool>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Memory { used: Cell::new(0), limit: Cell::new(usize::MAX), enforced: Cell::new(false) }
    }

    /// Bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit.get()
    }

    /// Sets whether the limit applies. Returns whether it did.
    pub(crate) fn enforce(&self, enforced: bool) -> bool {
        self.enforced.replace(enforced)
    }

    fn admits(&self, growth: usize) -> bool {
        !self.enforced.get() || self.used.get().saturating_add(growth) <= self.limit.get()
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
        }
        moved.cast()
    }
}

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
        let memory = Memory::new();
        memory.set_limit(100);
        let block = allocate(&memory, ptr::null_mut(), 5, 90);
        assert!(!block.is_null() && memory.used() == 90);
        assert!(!memory.enforce(true));
        assert!(allocate(&memory, block, 90, 101).is_null() && memory.used() == 90, "the block stays");
        let block = allocate(&memory, block, 90, 100);
        assert!(!block.is_null() && !memory.is_exceeded());
        assert!(memory.enforce(false));
        let block = allocate(&memory, block, 100, 1_000);
        assert!(!block.is_null() && memory.is_exceeded());
        // What shrinks is always granted.
        memory.enforce(true);
        let block = allocate(&memory, block, 1_000, 500);
        assert!(!block.is_null());
        assert!(allocate(&memory, block, 500, 0).is_null() && memory.used() == 0);
    }
}
