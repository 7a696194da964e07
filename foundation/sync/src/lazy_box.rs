//! A value allocated on first use, with a stable address.

use std::marker::PhantomData;

use crate::primitives::{AtomicPtr, Ordering};

/// A value allocated on first use. Costs one pointer before.
///
/// Creating and reading a value are sequentially consistent. A thread that writes another atomic and then checks for the
/// value sees it, unless its creator saw that write.
#[derive(Debug)]
pub struct LazyBox<T> {
    place: AtomicPtr<T>,
    /// Marks ownership of the pointer's target.
    owned: PhantomData<T>,
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self { place: AtomicPtr::new(std::ptr::null_mut()), owned: PhantomData }
    }
}

impl<T: Default + Send + Sync> LazyBox<T> {
    /// The value, created if it does not exist.
    #[inline]
    pub fn value(&self) -> &T {
        // SAFETY: a pointer that is not null is one of `make`'s, to a value that lives until `drop`, and never changes again.
        match unsafe { self.place.load(Ordering::Acquire).as_ref() } {
            Some(value) => value,
            None => self.make(),
        }
    }

    /// The value. `None` if it was not created.
    #[inline]
    pub fn existing(&self) -> Option<&T> {
        let value = self.place.load(Ordering::SeqCst);
        // SAFETY: as in `value`.
        unsafe { value.as_ref() }
    }

    /// Creates the value, or returns the value of a thread that was faster.
    #[cold]
    fn make(&self) -> &T {
        let made = Box::into_raw(Box::default());
        match self.place.compare_exchange(std::ptr::null_mut(), made, Ordering::SeqCst, Ordering::SeqCst) {
            // SAFETY: it was made above, and only `drop` frees the target of `place`.
            Ok(_) => unsafe { &*made },
            Err(faster) => {
                // SAFETY: it was made above and never shared.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: it is not null, and so another `make`'s.
                unsafe { &*faster }
            }
        }
    }
}

impl<T> Drop for LazyBox<T> {
    fn drop(&mut self) {
        let value = self.place.load(Ordering::Relaxed);
        if !value.is_null() {
            // SAFETY: it came from `make`, only this drop frees it, and all borrows of it borrow `self`.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn the_first_use_creates_the_value() {
        let count = LazyBox::<AtomicU32>::default();
        assert!(count.existing().is_none());
        count.value().fetch_add(7, Relaxed);
        count.value().fetch_add(1, Relaxed);
        assert_eq!(count.existing().map(|count| count.load(Relaxed)), Some(8));
    }
}
