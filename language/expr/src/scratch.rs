//! Recycled byte buffers for computed values.
//!
//! A converter that builds a new string takes a buffer here. The consumer of the sample gives it back, so that evaluation stops allocating
//! after a while. A buffer that is not given back only costs a later allocation.

use std::borrow::Cow;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::sample::Value;

/// A byte buffer that returns to the thread's list on drop.
#[derive(Debug, Default)]
pub struct Scratch(Vec<u8>);

impl Scratch {
    /// An empty buffer.
    pub fn take() -> Scratch {
        Scratch(take())
    }

    /// A buffer with a copy of these bytes.
    pub fn copied(bytes: &[u8]) -> Scratch {
        let mut scratch = Scratch::take();
        scratch.extend_from_slice(bytes);
        scratch
    }

    /// Takes the buffer out of recycling.
    pub fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

impl From<Vec<u8>> for Scratch {
    fn from(buffer: Vec<u8>) -> Scratch {
        Scratch(buffer)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.0));
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// The limit of buffers that one thread keeps: an expression rarely uses more than two at once.
const KEPT: usize = 16;

/// A larger buffer is freed instead of kept.
const KEPT_CAPACITY: usize = 64 * 1024;

thread_local! {
    static BUFFERS: RefCell<ManuallyDrop<Vec<Vec<u8>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// An empty buffer. It has capacity if it was recycled.
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

/// Recycles the buffer of an unused value.
pub fn recycle(value: Value<'_>) {
    if let Value::Str(Cow::Owned(buffer))
    | Value::Bin(Cow::Owned(buffer))
    | Value::Method(Cow::Owned(buffer)) = value
    {
        give(buffer);
    }
}
