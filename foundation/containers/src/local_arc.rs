//! A thread's share of an object of several threads.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A share of a `T` that other threads share, too. Making the first one of a thread costs an atomic count, its copies count without.
#[derive(Debug)]
pub struct LocalArc<T: ?Sized>(Rc<Arc<T>>);

impl<T: ?Sized> LocalArc<T> {
    /// This thread's share.
    pub fn new(shared: Arc<T>) -> Self {
        LocalArc(Rc::new(shared))
    }

    /// The count of all threads.
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
    fn copies_do_not_count_for_other_threads() {
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
