//! A shared atomic reference to a static value: a name, a source location, a kind of work.
//!
//! Replacing it is one store, reading it one load. A `'static` target needs no reference count.

use crate::atomic::{AtomicPtr, Ordering};

/// An optional `&'static T` that threads share.
#[derive(Debug)]
pub struct StaticRef<T: Sync + 'static>(AtomicPtr<T>);

impl<T: Sync + 'static> StaticRef<T> {
    /// An empty reference.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Replaces the reference. A thread that reads the new one also sees the earlier writes of this thread.
    #[inline]
    pub fn set(&self, value: Option<&'static T>) {
        let pointer = value.map_or(std::ptr::null_mut(), |value| std::ptr::from_ref(value).cast_mut());
        self.0.store(pointer, Ordering::Release);
    }

    /// The current reference.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        let pointer = self.0.load(Ordering::Acquire);
        // SAFETY: only `set` stores here, and it stores null or a reference that is valid for ever; nothing is ever
        // written through it.
        unsafe { pointer.cast_const().as_ref() }
    }

    /// Whether the reference points to `value` (pointer equality).
    #[inline]
    pub fn is(&self, value: &'static T) -> bool {
        std::ptr::eq(self.0.load(Ordering::Relaxed), value)
    }
}

impl<T: Sync + 'static> Default for StaticRef<T> {
    fn default() -> Self {
        Self::none()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_static_ref_returns_the_last_reference_that_was_set() {
        static ONE: u8 = 1;
        static OTHER: u8 = 1;
        let place = StaticRef::none();
        assert_eq!(place.get(), None);
        place.set(Some(&ONE));
        assert_eq!(place.get(), Some(&1));
        assert!(place.is(&ONE) && !place.is(&OTHER));
        place.set(None);
        assert_eq!(place.get(), None);
    }
}
