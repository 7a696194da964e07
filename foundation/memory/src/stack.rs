//! The return addresses of an allocation, deep enough to reach the caller of a collection.

use std::ffi::{c_int, c_void};

/// A bounded list of return addresses, innermost first. Empty if the stack cannot be walked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    addresses: [usize; DEPTH],
    depth: usize,
}

impl Stack {
    /// The stack of the caller.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut stack = Self::of(&[]);
        let argument = std::ptr::from_mut(&mut stack).cast::<c_void>();
        // SAFETY: the function is called once a frame, during this call, with this argument.
        unsafe { _Unwind_Backtrace(note, argument) };
        stack
    }

    /// A stack of these addresses.
    pub(crate) fn of(addresses: &[usize]) -> Self {
        let mut stack = Self { addresses: [0; DEPTH], depth: 0 };
        addresses.iter().for_each(|address| stack.push(*address));
        stack
    }

    /// Whether the stack could not be walked.
    pub(crate) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// A hash of the stack. Never 0.
    pub(crate) fn hash(&self) -> u64 {
        let mixed = self.addresses[..self.depth]
            .iter()
            .fold(0_u64, |hash, address| (hash.rotate_left(5) ^ *address as u64).wrapping_mul(MULTIPLIER));
        (mixed ^ (mixed >> 32)).max(1)
    }

    /// Adds an address. Ignores null, and addresses beyond [`DEPTH`] (R80).
    fn push(&mut self, address: usize) {
        if address != 0 && self.depth < DEPTH {
            self.addresses[self.depth] = address;
            self.depth += 1;
        }
    }
}

extern "C" fn note(frame: *mut UnwindContext, argument: *mut c_void) -> c_int {
    // SAFETY: the frame is the unwinder's own, given for this call.
    let address = unsafe { _Unwind_GetIP(frame) };
    // SAFETY: `here` passes its own stack and waits for the walk to end, so it is not used elsewhere meanwhile.
    let stack = unsafe { &mut *argument.cast::<Stack>() };
    stack.push(address);
    if stack.depth < DEPTH { GO_ON } else { ENOUGH }
}

/// The unwinder's state of a frame.
#[repr(C)]
struct UnwindContext {
    _private: [u8; 0],
}

// The unwinder that panics use, which the standard library links; this is its C interface (Itanium C++ ABI, "Exception
// Handling").
unsafe extern "C" {
    fn _Unwind_Backtrace(
        trace: extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut UnwindContext) -> usize;
}

/// `_URC_NO_REASON`: continue with the next frame.
const GO_ON: c_int = 0;
/// `_URC_NORMAL_STOP`: any code but the above ends the walk.
const ENOUGH: c_int = 4;
/// Maximum depth. Enough for the frames of this crate, of a collection and of its caller, even without inlining.
const DEPTH: usize = 24;
/// An odd number with well-spread bits (the golden ratio).
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(level: usize) -> Stack {
        if level == 0 { Stack::here() } else { std::hint::black_box(deeper(level - 1)) }
    }

    #[test]
    fn stack_walks_are_limited_in_depth() {
        assert!(!Stack::here().is_empty());
        assert_eq!(deeper(100).depth, DEPTH);
        assert_ne!(Stack::of(&[1, 2]).hash(), Stack::of(&[2, 1]).hash());
    }

    /// R80, R177: a null address is not a caller.
    #[test]
    fn null_addresses_are_omitted_from_a_stack() {
        assert!(Stack::of(&[0, 0]).is_empty());
        assert_eq!(Stack::of(&[0, 7, 0]).hash(), Stack::of(&[7]).hash());
        assert_ne!(Stack::of(&[]).hash(), 0);
    }
}
