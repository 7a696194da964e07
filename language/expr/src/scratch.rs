//! Recycled byte buffers for values that had to be computed.
//!
//! A converter that builds a new string takes a buffer here, and whoever consumes the sample gives it back, so
//! that evaluating expressions settles without allocating. Forgetting to give one back costs an allocation later,
//! nothing else.

use std::borrow::Cow;
use std::cell::RefCell;

use crate::sample::Value;

/// How many buffers one thread keeps: an expression rarely has more than two alive.
const KEPT: usize = 16;

/// A buffer larger than this is freed rather than kept.
const KEPT_CAPACITY: usize = 64 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with capacity if one was given back before.
pub fn take() -> Vec<u8> {
    BUFFERS.with_borrow_mut(|buffers| buffers.pop()).unwrap_or_default()
}

/// Gives a buffer back.
pub fn give(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > KEPT_CAPACITY {
        return;
    }
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < KEPT {
            buffer.clear();
            buffers.push(buffer);
        }
    });
}

/// Gives back the buffer of a value that is no longer needed.
pub fn recycle(value: Value<'_>) {
    if let Value::Str(Cow::Owned(buffer))
    | Value::Bin(Cow::Owned(buffer))
    | Value::Method(Cow::Owned(buffer)) = value
    {
        give(buffer);
    }
}
