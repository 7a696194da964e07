//! A private value per worker, inside a shared object.

use crossbeam_utils::CachePadded;

use crate::primitives::{Mutex, MutexGuard};

/// A value per worker on separate cache lines, used by that worker only.
///
/// Callers must pass their own number. A wrong number is safe: while another thread uses the value, the caller gets
/// `None` and never blocks.
#[derive(Debug)]
pub struct PerWorker<T>(Box<[CachePadded<Mutex<T>>]>);

impl<T> PerWorker<T> {
    /// Creates a value for each of `workers` workers (at least one) from its number.
    pub fn new(workers: usize, mut make: impl FnMut(usize) -> T) -> Self {
        Self((0..workers.max(1)).map(|worker| CachePadded::new(Mutex::new(make(worker)))).collect())
    }

    /// The worker's value. `None` while another thread uses it, and for an unknown worker.
    #[inline]
    pub fn of(&self, worker: usize) -> Option<MutexGuard<'_, T>> {
        match self.0.get(worker)?.try_lock() {
            Ok(value) => Some(value),
            // Poisoning is ignored: users leave the value consistent at each step.
            Err(std::sync::TryLockError::Poisoned(left)) => Some(left.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_worker_gets_its_own_value() {
        let parts = PerWorker::new(2, |worker| worker * 10);
        *parts.of(1).expect("free") += 1;
        assert_eq!([0, 1].map(|worker| *parts.of(worker).expect("free")), [0, 11]);
        assert!(parts.of(2).is_none());
    }

    #[test]
    fn a_workers_value_in_use_is_not_returned_twice() {
        let parts = PerWorker::new(1, |_| ());
        let first = parts.of(0).expect("free");
        assert!(parts.of(0).is_none());
        drop(first);
        assert!(parts.of(0).is_some());
    }

    #[test]
    fn a_panic_releases_a_workers_value() {
        let parts = PerWorker::new(1, |_| 7);
        let broken = std::panic::catch_unwind(|| {
            let _value = parts.of(0);
            panic!("on purpose");
        });
        assert!(broken.is_err());
        assert_eq!(parts.of(0).as_deref(), Some(&7));
    }
}
