//! Per-worker pools of heads and byte buffers. A returned value keeps its allocation for the next stream.

// The boxes themselves are recycled: unboxing would move a large head at each loan.
#![allow(clippy::vec_box)]

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use weir_mux::Message;

/// A value that can be reused.
pub trait Recycle: Sized + 'static {
    /// Empties the value but keeps its memory.
    fn renew(&mut self);
    /// Size of the memory that the value holds, in bytes.
    fn kept_bytes(&self) -> usize;
    /// A shared empty value.
    fn empty() -> &'static Self;
    /// Calls `then` with the thread's store.
    fn with_store<R>(then: impl FnOnce(&RefCell<ManuallyDrop<Vec<Box<Self>>>>) -> R) -> R;
    /// Creates a value.
    fn create() -> Self;
}

/// A value from the worker's store. Fetched at the first mutable access, returned on drop.
#[derive(Debug)]
pub struct Loan<T: Recycle>(Option<Box<T>>);

impl<T: Recycle> Loan<T> {
    /// Returns the value to the store. The loan is then empty.
    #[inline]
    pub fn reset(&mut self) {
        if self.0.is_some() {
            *self = Loan(None);
        }
    }

    #[cold]
    fn fetch() -> Box<T> {
        let kept = T::with_store(|store| store.borrow_mut().pop());
        kept.unwrap_or_else(|| Box::new(T::create()))
    }
}

impl<T: Recycle> Deref for Loan<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => T::empty(),
        }
    }
}

impl<T: Recycle> DerefMut for Loan<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // Usually the value is already fetched. Only that check is inlined in the many callers.
        if self.0.is_none() {
            self.0 = Some(Self::fetch());
        }
        match &mut self.0 {
            Some(value) => value,
            None => unreachable!("a value was just put there"),
        }
    }
}

impl<T: Recycle> Drop for Loan<T> {
    fn drop(&mut self) {
        let Some(mut value) = self.0.take() else { return };
        value.renew();
        T::with_store(|store| {
            let mut store = store.borrow_mut();
            let most = if value.kept_bytes() > LARGE { KEPT_LARGE } else { KEPT };
            if store.len() < most {
                store.push(value);
            }
        });
    }
}

/// An empty message.
pub fn message() -> Loan<Message> {
    Loan(None)
}

/// An empty byte buffer.
pub fn bytes() -> Loan<Vec<u8>> {
    Loan(None)
}

/// Frees the values that the worker keeps.
pub fn trim() {
    Message::with_store(|store| **store.borrow_mut() = Vec::new());
    <Vec<u8>>::with_store(|store| **store.borrow_mut() = Vec::new());
    weir_mux::trim();
}

/// Sets the number of fields of this worker's heads (`tune.http.maxhdr`).
pub fn configure(header_count: u16) {
    HEADER_COUNT.set(header_count);
}

/// Maximum number of stored values of each type. With more concurrent streams than that, memory is freed.
const KEPT: usize = 1024;
/// The initial capacity of a byte buffer, in bytes. Enough for most log lines: smaller buffers would reallocate at each line a few
/// digits longer than those before.
const FIRST_CAPACITY: usize = 512;
/// Values with more bytes than this are kept only while the store is short, so that a burst of long heads does not keep its memory.
pub(crate) const LARGE: usize = 2 * 1024;
/// Maximum length of the store at which a large value is still kept.
const KEPT_LARGE: usize = 32;

thread_local! {
    static HEADER_COUNT: std::cell::Cell<u16> = const { std::cell::Cell::new(weir_http::Head::DEFAULT_MAX_FIELDS) };
    static MESSAGES: RefCell<ManuallyDrop<Vec<Box<Message>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static BYTES: RefCell<ManuallyDrop<Vec<Box<Vec<u8>>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

impl Recycle for Message {
    fn renew(&mut self) {
        self.clear();
    }

    fn kept_bytes(&self) -> usize {
        self.capacity()
    }

    fn empty() -> &'static Self {
        static EMPTY: LazyLock<Message> = LazyLock::new(Message::default);
        &EMPTY
    }

    fn with_store<R>(then: impl FnOnce(&RefCell<ManuallyDrop<Vec<Box<Self>>>>) -> R) -> R {
        MESSAGES.with(then)
    }

    fn create() -> Self {
        Message::new(HEADER_COUNT.get())
    }
}

impl Recycle for Vec<u8> {
    fn renew(&mut self) {
        self.clear();
    }

    fn kept_bytes(&self) -> usize {
        self.capacity()
    }

    fn empty() -> &'static Self {
        static EMPTY: Vec<u8> = Vec::new();
        &EMPTY
    }

    fn with_store<R>(then: impl FnOnce(&RefCell<ManuallyDrop<Vec<Box<Self>>>>) -> R) -> R {
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
    fn recycled_buffers_are_empty_and_keep_their_memory() {
        let mut first = bytes();
        first.extend_from_slice(b"something");
        let place = first.as_ptr();
        drop(first);
        let second = bytes();
        assert!(second.is_empty());
        let mut second = second;
        second.push(b'x');
        assert_eq!(second.as_ptr(), place);
    }

    #[test]
    fn reading_an_empty_buffer_does_not_allocate() {
        let (head, text) = (message(), bytes());
        assert!(head.bytes().is_empty() && text.is_empty());
        assert!(head.0.is_none() && text.0.is_none());
    }

    #[test]
    fn keeps_few_long_buffers_after_a_burst() {
        let mut many: Vec<_> = (0..200).map(|_| bytes()).collect();
        many.iter_mut().for_each(|one| one.resize(LARGE + 1, 0));
        drop(many);
        assert_eq!(BYTES.with_borrow(|bytes| bytes.len()), KEPT_LARGE);
        let mut many: Vec<_> = (0..2 * KEPT).map(|_| bytes()).collect();
        many.iter_mut().for_each(|one| one.push(0));
        drop(many);
        assert_eq!(BYTES.with_borrow(|bytes| bytes.len()), KEPT);
    }
}
