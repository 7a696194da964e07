//! A single-threaded reference count on top of an `Arc`.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A reference to a `T` shared with other threads. The first one of a thread owns an `Arc`. Its clones count without atomics.
#[derive(Debug)]
pub struct LocalArc<T: ?Sized>(Rc<Arc<T>>);

impl<T: ?Sized> LocalArc<T> {
    /// Wraps an `Arc` for this thread.
    pub fn new(shared: Arc<T>) -> Self {
        LocalArc(Rc::new(shared))
    }

    /// The underlying `Arc`.
    #[inline]
    pub fn shared(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: ?Sized> Clone for LocalArc<T> {
    #[inline]
    fn clone(&self) -> Self {
        LocalArc(Rc::clone(&self.0))
    }
}

impl<T: ?Sized> Deref for LocalArc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_copies_do_not_change_the_shared_reference_count() {
        let shared = Arc::new(7);
        let local = LocalArc::new(Arc::clone(&shared));
        let copies = [local.clone(), local.clone()];
        assert_eq!(Arc::strong_count(&shared), 2);
        drop(local);
        assert_eq!((*copies[1], Arc::strong_count(copies[0].shared())), (7, 2));
        drop(copies);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
