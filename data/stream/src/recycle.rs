//! Memory that streams lend from their worker: heads and byte buffers that keep what they once allocated.

// The boxes are what is recycled: unboxing would move a large head at each loan.
#![allow(clippy::vec_box)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

use weir_mux::Message;

/// Something that can be used again.
pub trait Recycle: Sized + 'static {
    /// Makes it as new; false if it grew too large to keep.
    fn renew(&mut self) -> bool;
    /// Calls `then` with the thread's store.
    fn with_store<R>(then: impl FnOnce(&RefCell<Vec<Box<Self>>>) -> R) -> R;
    /// A new one.
    fn create() -> Self;
}

/// Lent from the worker's store; goes back when dropped.
#[derive(Debug)]
pub struct Lent<T: Recycle>(Option<Box<T>>);

impl<T: Recycle> Lent<T> {
    fn take() -> Self {
        let kept = T::with_store(|store| store.borrow_mut().pop());
        Lent(Some(kept.unwrap_or_else(|| Box::new(T::create()))))
    }
}

impl<T: Recycle> Deref for Lent<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only dropping empties it")
    }
}

impl<T: Recycle> DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only dropping empties it")
    }
}

impl<T: Recycle> Drop for Lent<T> {
    fn drop(&mut self) {
        let Some(mut value) = self.0.take() else { return };
        if !value.renew() {
            return;
        }
        T::with_store(|store| {
            let mut store = store.borrow_mut();
            if store.len() < KEPT {
                store.push(value);
            }
        });
    }
}

/// A head to fill.
pub fn message() -> Lent<Message> {
    Lent::take()
}

/// An empty byte buffer.
pub fn bytes() -> Lent<Vec<u8>> {
    Lent::take()
}

/// Sets how many fields a head of this worker may have (`tune.http.maxhdr`).
pub fn configure(header_count: u16) {
    HEADER_COUNT.set(header_count);
}

/// How many of each kind a worker keeps: more than that many concurrent streams go back to the allocator.
const KEPT: usize = 1024;
/// What a byte buffer has room for from the start: most log lines, which would otherwise grow it now and then, whenever one
/// is a few digits longer than those before.
const FIRST_CAPACITY: usize = 512;
/// What grew beyond this is not kept.
const KEPT_CAPACITY: usize = 64 * 1024;

thread_local! {
    static HEADER_COUNT: std::cell::Cell<u16> = const { std::cell::Cell::new(weir_http::Head::DEFAULT_MAX_FIELDS) };
    static MESSAGES: RefCell<Vec<Box<Message>>> = const { RefCell::new(Vec::new()) };
    static BYTES: RefCell<Vec<Box<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

impl Recycle for Message {
    fn renew(&mut self) -> bool {
        self.clear();
        true
    }

    fn with_store<R>(then: impl FnOnce(&RefCell<Vec<Box<Self>>>) -> R) -> R {
        MESSAGES.with(then)
    }

    fn create() -> Self {
        Message::new(HEADER_COUNT.get())
    }
}

impl Recycle for Vec<u8> {
    fn renew(&mut self) -> bool {
        self.clear();
        self.capacity() <= KEPT_CAPACITY
    }

    fn with_store<R>(then: impl FnOnce(&RefCell<Vec<Box<Self>>>) -> R) -> R {
        BYTES.with(then)
    }

    fn create() -> Self {
        Vec::with_capacity(FIRST_CAPACITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lent_comes_back_empty_with_its_memory() {
        let mut first = bytes();
        first.extend_from_slice(b"something");
        let place = first.as_ptr();
        drop(first);
        let second = bytes();
        assert!(second.is_empty());
        assert_eq!(second.as_ptr(), place);
    }
}
