//! References to parts of the content of an `Rc`.
//!
//! The tasks of a thread share large objects, and most tasks use only one part. A task cannot store a borrow, and an `Rc` per
//! part would cost an allocation per part. An [`RcRef`] owns an `Rc` of the whole object and the address of the part.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

/// A reference to a `T` inside of the content of an `Rc<O>`, which keeps the `Rc` alive. Two words.
///
/// Reading the part costs one load, like a plain reference. Cloning and dropping update a non-atomic count.
pub struct RcRef<O: 'static, T: ?Sized + 'static> {
    part: NonNull<T>,
    owner: Rc<O>,
}

impl<O, T: ?Sized> RcRef<O, T> {
    /// A reference to the part of `owner` returned by `find`.
    #[inline]
    pub fn new(owner: Rc<O>, find: impl for<'o> FnOnce(&'o O) -> &'o T) -> Self {
        let part = NonNull::from(find(&owner));
        RcRef { part, owner }
    }

    /// A reference to the part of `owner` returned by `find`, if any.
    #[inline]
    pub fn find(owner: &Rc<O>, find: impl for<'o> FnOnce(&'o O) -> Option<&'o T>) -> Option<Self> {
        let part = NonNull::from(find(owner)?);
        Some(RcRef { part, owner: Rc::clone(owner) })
    }

    /// A part of this part.
    #[inline]
    pub fn map<U: ?Sized>(&self, find: impl for<'o> FnOnce(&'o T) -> &'o U) -> RcRef<O, U> {
        RcRef { part: NonNull::from(find(self)), owner: Rc::clone(&self.owner) }
    }

    /// A part of this part, if `find` returns one.
    #[inline]
    pub fn find_part<U: ?Sized>(
        &self,
        find: impl for<'o> FnOnce(&'o T) -> Option<&'o U>,
    ) -> Option<RcRef<O, U>> {
        Some(RcRef { part: NonNull::from(find(self)?), owner: Rc::clone(&self.owner) })
    }

    /// The owner of the part.
    #[inline]
    pub fn owner(&self) -> &Rc<O> {
        &self.owner
    }

    /// Whether both are the same part (pointer equality).
    #[inline]
    pub fn is(&self, other: &T) -> bool {
        std::ptr::addr_eq(self.part.as_ptr(), other)
    }
}

impl<O, T: ?Sized> Deref for RcRef<O, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `part` came from a shared borrow of the content of `owner`, by a function that takes a borrow of any length: so
        // it is valid as long as that content is neither moved nor borrowed exclusively. An `Rc` never moves its content, and
        // lends it exclusively, or gives it away, only while there is one share: this value has a share and never lends it mutably.
        unsafe { self.part.as_ref() }
    }
}

impl<O, T: ?Sized> Clone for RcRef<O, T> {
    #[inline]
    fn clone(&self) -> Self {
        RcRef { part: self.part, owner: Rc::clone(&self.owner) }
    }
}

impl<O, T: ?Sized + fmt::Debug> fmt::Debug for RcRef<O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OwnedParts {
        parts: Vec<String>,
        dropped: Rc<std::cell::Cell<bool>>,
    }

    impl Drop for OwnedParts {
        fn drop(&mut self) {
            self.dropped.set(true);
        }
    }

    fn owner() -> (Rc<OwnedParts>, Rc<std::cell::Cell<bool>>) {
        let dropped = Rc::default();
        let parts = vec!["one".to_owned(), "two".to_owned()];
        (Rc::new(OwnedParts { parts, dropped: Rc::clone(&dropped) }), dropped)
    }

    #[test]
    fn a_reference_to_a_part_keeps_its_owner_alive() {
        let (owner, dropped) = owner();
        let part = RcRef::new(owner, |owner| &*owner.parts[1]);
        let first = RcRef::find(part.owner(), |owner| owner.parts.first()).expect("there");
        assert_eq!((&*part, &**first), ("two", "one"));
        let letters = first.map(|word| &word.as_bytes()[1..]);
        drop((part, first));
        assert!(!dropped.get());
        assert_eq!(&*letters, b"ne");
        drop(letters);
        assert!(dropped.get());
    }

    #[test]
    fn the_owner_is_immutable_while_a_part_is_referenced() {
        let (mut owner, dropped) = owner();
        let part = RcRef::find(&owner, |owner| owner.parts.first()).expect("there");
        assert!(Rc::get_mut(&mut owner).is_none());
        let copy = part.clone();
        drop(part);
        let owner = Rc::try_unwrap(owner).err().expect("the copy has a share");
        drop(owner);
        assert!(!dropped.get() && *copy == "one");
    }

    #[test]
    fn finding_a_missing_part_does_not_change_the_reference_count() {
        let (owner, _) = owner();
        assert!(RcRef::find(&owner, |owner| owner.parts.get(2)).is_none());
        assert_eq!(Rc::strong_count(&owner), 1);
    }

    #[test]
    fn parts_are_compared_by_address() {
        let (owner, _) = owner();
        let first = RcRef::find(&owner, |owner| owner.parts.first()).expect("there");
        assert!(first.is(&owner.parts[0]) && first.clone().is(&first));
        assert!(!first.is(&owner.parts[1]) && !first.is(&"one".to_owned()));
    }
}
