//! A value per worker, written only by that worker and read by all, created on its first write.

use crossbeam_utils::CachePadded;

use crate::lazy_box::LazyBox;

/// A value per worker on separate cache lines. Costs one pointer until the worker first uses it, because each worker uses
/// only some of many thousand servers.
///
/// Creating a value and reading other workers' values are sequentially consistent, as in [`LazyBox`].
#[derive(Debug)]
pub struct LazyPerWorker<T> {
    values: Box<[LazyBox<CachePadded<T>>]>,
}

impl<T: Default + Send + Sync> LazyPerWorker<T> {
    /// Space for `workers` workers (at least one), without values.
    pub fn new(workers: usize) -> Self {
        Self { values: (0..workers.max(1)).map(|_| LazyBox::default()).collect() }
    }

    /// The value of a worker, created if it does not exist. For an unknown worker, the first worker's value.
    #[inline]
    pub fn of(&self, worker: usize) -> &T {
        debug_assert!(worker < self.values.len(), "there is no worker {worker}");
        match self.values.get(worker) {
            Some(place) => place.value(),
            None => self.values[0].value(),
        }
    }

    /// The value of a worker. `None` if it was not created.
    #[inline]
    pub fn existing(&self, worker: usize) -> Option<&T> {
        self.values.get(worker)?.existing().map(|value| &**value)
    }

    /// All existing values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.values.len()).filter_map(|worker| self.existing(worker))
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.values.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[test]
    fn the_first_use_creates_a_workers_value() {
        let counts = LazyPerWorker::<AtomicU32>::new(3);
        assert_eq!((counts.iter().count(), counts.workers()), (0, 3));
        assert!(counts.existing(1).is_none());
        counts.of(1).store(7, Relaxed);
        counts.of(1).fetch_add(1, Relaxed);
        assert_eq!(counts.existing(1).map(|count| count.load(Relaxed)), Some(8));
        counts.of(2).store(2, Relaxed);
        assert_eq!(counts.iter().map(|count| count.load(Relaxed)).sum::<u32>(), 10);
        assert!(counts.existing(0).is_none() && counts.existing(9).is_none());
    }

    /// Dropping the container drops each value once, including values of other threads.
    #[test]
    fn dropping_the_container_drops_each_value_once() {
        static LIVE: AtomicU32 = AtomicU32::new(0);
        struct LiveCounter;
        impl Default for LiveCounter {
            fn default() -> Self {
                LIVE.fetch_add(1, Relaxed);
                Self
            }
        }
        impl Drop for LiveCounter {
            fn drop(&mut self) {
                LIVE.fetch_sub(1, Relaxed);
            }
        }
        let values = LazyPerWorker::<LiveCounter>::new(8);
        std::thread::scope(|scope| {
            for first in 0..4 {
                let values = &values;
                scope.spawn(move || (0..8).for_each(|worker| _ = values.of((worker + first) % 8)));
            }
        });
        assert_eq!(LIVE.load(Relaxed), 8);
        drop(values);
        assert_eq!(LIVE.load(Relaxed), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering::SeqCst, fence};
    use loom::thread;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    /// Two threads that create the same value concurrently get the same one.
    #[test]
    fn loom_concurrent_first_uses_create_one_value() {
        loom::model(|| {
            let counts = Arc::new(LazyPerWorker::<Count>::new(1));
            let other = Arc::clone(&counts);
            let adding = thread::spawn(move || other.of(0).0.fetch_add(1, SeqCst));
            counts.of(0).0.fetch_add(1, SeqCst);
            adding.join().unwrap();
            assert_eq!(counts.of(0).0.load(SeqCst), 2);
        });
    }

    /// A thread that writes another atomic and then checks for values sees each one with a creator that did not see the write.
    #[test]
    fn loom_the_creator_or_a_concurrent_writer_sees_the_write_of_its_peer() {
        loom::model(|| {
            let counts = Arc::new(LazyPerWorker::<Count>::new(1));
            let version = Arc::new(AtomicU32::new(0));
            let (others, changing) = (Arc::clone(&counts), Arc::clone(&version));
            let change = thread::spawn(move || {
                changing.store(1, SeqCst);
                fence(SeqCst);
                others.existing(0).map_or(0, |count| count.0.load(SeqCst))
            });
            counts.of(0).0.fetch_add(1, SeqCst);
            fence(SeqCst);
            let saw_change = version.load(SeqCst) == 1;
            assert!(change.join().unwrap() == 1 || saw_change);
        });
    }
}
