//! A lock with a mode between reading and writing: one thread *seeks* while others read.
//!
//! ```text
//!              read: any number        seek: one, beside readers        write: one, alone
//!   free ───────► reading ──try_seek──► seeking ────upgrade────────────► writing
//!     │                                    ▲ │ ◄───────downgrade────────────┤
//!     └───────────────try_seek─────────────┘ └─► free                       └─► free
//! ```
//! A thread that scans a queue seeks. Readers continue concurrently, and a second scanner is refused at once instead of
//! waiting for the first (R54). The scanner upgrades to a writer only to remove an element. A waiting thread spins, because
//! a writer holds the lock for one insertion or removal, and later yields its CPU.

use crate::lock_label::{LockLabel, LockMode};
use crate::primitives::{AtomicU32, Ordering, spin};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A value with many concurrent readers, at most one seeker, and an exclusive writer.
#[derive(Debug)]
pub struct SeekLock<T> {
    /// Number of readers, and the bits [`SEEKING`] and [`WRITING`].
    state: AtomicU32,
    label: &'static LockLabel,
    value: UnsafeCell<T>,
}

impl<T: Default> Default for SeekLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

// SAFETY: the lock owns its value, which moves with it.
unsafe impl<T: Send> Send for SeekLock<T> {}
// SAFETY: shared references to the value exist in several threads at once (so `T: Sync`), a unique one in a single thread
// that may take the value out (so `T: Send`).
unsafe impl<T: Send + Sync> Sync for SeekLock<T> {}

impl<T> SeekLock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self::labelled(value, &OTHER)
    }

    /// A free lock that is counted under `label`.
    pub fn labelled(value: T, label: &'static LockLabel) -> Self {
        Self { state: AtomicU32::new(0), label, value: UnsafeCell::new(value) }
    }

    /// Locks for reading. Waits only for a writer.
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.label.acquire(LockMode::Read, || self.wait_to_read())
    }

    fn wait_to_read(&self) -> ReadGuard<'_, T> {
        let mut turns = 0;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & WRITING == 0 && self.replace(state, state + 1) {
                return ReadGuard { lock: self };
            }
            spin(&mut turns);
        }
    }

    /// Locks for seeking. `None` if another thread seeks or writes.
    pub fn try_seek(&self) -> Option<SeekGuard<'_, T>> {
        let seeking = self.begin_to_seek();
        if seeking.is_some() {
            self.label.acquired_at_once(LockMode::Seek);
        }
        seeking
    }

    fn begin_to_seek(&self) -> Option<SeekGuard<'_, T>> {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & (SEEKING | WRITING) == 0 {
            if self.replace(state, state | SEEKING) {
                return Some(SeekGuard { lock: self });
            }
            state = self.state.load(Ordering::Relaxed);
        }
        None
    }

    /// Locks for writing. Waits for all other holders.
    pub fn write(&self) -> WriteGuard<'_, T> {
        self.label.acquire(LockMode::Write, || self.wait_to_write())
    }

    fn wait_to_write(&self) -> WriteGuard<'_, T> {
        let mut turns = 0;
        loop {
            if let Some(seeking) = self.begin_to_seek() {
                return seeking.become_writer();
            }
            spin(&mut turns);
        }
    }

    fn replace(&self, state: u32, by: u32) -> bool {
        self.state.compare_exchange_weak(state, by, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// Read access, shared with other readers and one seeker.
#[derive(Debug)]
#[must_use = "a guard that is dropped guards nothing"]
pub struct ReadGuard<'a, T> {
    lock: &'a SeekLock<T>,
}

/// Read access, shared with readers only. Can be upgraded to write access.
#[derive(Debug)]
#[must_use = "a guard that is dropped guards nothing"]
pub struct SeekGuard<'a, T> {
    lock: &'a SeekLock<T>,
}

/// Exclusive write access.
#[derive(Debug)]
#[must_use = "a guard that is dropped guards nothing"]
pub struct WriteGuard<'a, T> {
    lock: &'a SeekLock<T>,
}

impl<'a, T> ReadGuard<'a, T> {
    /// Converts the read lock to a seek lock. Returns the read lock if another thread seeks or a writer waits.
    pub fn try_seek(self) -> Result<SeekGuard<'a, T>, Self> {
        let lock = self.lock;
        let mut state = lock.state.load(Ordering::Relaxed);
        while state & (SEEKING | WRITING) == 0 {
            if lock.replace(state, (state - 1) | SEEKING) {
                // The exchange already decremented the number of readers.
                std::mem::forget(self);
                lock.label.change(LockMode::Read, LockMode::Seek, || ());
                return Ok(SeekGuard { lock });
            }
            state = lock.state.load(Ordering::Relaxed);
        }
        Err(self)
    }
}

impl<'a, T> SeekGuard<'a, T> {
    /// Converts to a write lock. Waits for all readers, and blocks new ones.
    pub fn upgrade(self) -> WriteGuard<'a, T> {
        self.lock.label.change(LockMode::Seek, LockMode::Write, || self.become_writer())
    }

    fn become_writer(self) -> WriteGuard<'a, T> {
        let lock = self.lock;
        std::mem::forget(self);
        let mut state = lock.state.fetch_or(WRITING, Ordering::Acquire);
        let mut turns = 0;
        while state & READERS != 0 {
            spin(&mut turns);
            state = lock.state.load(Ordering::Acquire);
        }
        WriteGuard { lock }
    }
}

impl<'a, T> WriteGuard<'a, T> {
    /// Converts to a seek lock. Admits readers again.
    pub fn downgrade(self) -> SeekGuard<'a, T> {
        let lock = self.lock;
        std::mem::forget(self);
        lock.label
            .change(LockMode::Write, LockMode::Seek, || lock.state.fetch_and(!WRITING, Ordering::Release));
        SeekGuard { lock }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: while this guard counts among the readers, `upgrade` never gives unique access.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for SeekGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: only the one that seeks becomes a writer, and this guard is it.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard alone has access.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard was made when the last reader had left; no reader or seeker enters while it lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_sub(1, Ordering::Release);
        self.lock.label.released(LockMode::Read);
    }
}

impl<T> Drop for SeekGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_and(!SEEKING, Ordering::Release);
        self.lock.label.released(LockMode::Seek);
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.state.fetch_and(!(SEEKING | WRITING), Ordering::Release);
        self.lock.label.released(LockMode::Write);
    }
}

/// The label of locks without a label of their own.
static OTHER: LockLabel = LockLabel::new("OTHER");
const SEEKING: u32 = 1 << 31;
const WRITING: u32 = 1 << 30;
const READERS: u32 = WRITING - 1;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// R54: readers are concurrent with the seeker. A second seeker is refused. A writer is exclusive.
    #[test]
    fn one_seeker_and_readers_hold_the_lock_concurrently() {
        let lock = SeekLock::new(1);
        let reading = lock.read();
        let seeking = lock.try_seek().expect("nobody seeks");
        assert!(lock.try_seek().is_none());
        let reading_too = lock.read();
        assert_eq!((*reading, *seeking, *reading_too), (1, 1, 1));
        let reading_too = reading_too.try_seek().expect_err("one seeks already");
        drop((reading, reading_too));
        let mut writing = seeking.upgrade();
        *writing = 2;
        assert!(lock.try_seek().is_none());
        let seeking = writing.downgrade();
        assert_eq!((*lock.read(), *seeking), (2, 2));
        drop(seeking);
        let seeking = lock.read().try_seek().expect("the last one seeks no more");
        drop(seeking);
        *lock.write() += 1;
        assert_eq!(*lock.read(), 3);
    }

    /// R54: many threads that find the same elements take each of them once, and readers see only consistent states.
    #[test]
    fn concurrent_scanners_take_each_element_once() {
        const ELEMENTS: u32 = 20_000;
        let lock = SeekLock::new((0..ELEMENTS).collect::<Vec<_>>());
        let taken = crate::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !lock.read().is_empty() {
                        let Ok(mut seeking) = lock.read().try_seek() else { continue };
                        for _ in 0..50 {
                            if seeking.is_empty() {
                                break;
                            }
                            let mut writing = seeking.upgrade();
                            writing.pop();
                            taken.fetch_add(1, Ordering::Relaxed);
                            seeking = writing.downgrade();
                        }
                    }
                });
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), ELEMENTS);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell as Watched;
    use loom::sync::Arc;

    /// Loom reports any access to the value concurrent with a writer's.
    struct WatchedValue(Watched<u32>);
    // SAFETY: for the model only; loom finds every access that races.
    unsafe impl Sync for WatchedValue {}

    fn get(value: &WatchedValue) -> u32 {
        // SAFETY: loom checks that no thread writes meanwhile.
        value.0.with(|value| unsafe { *value })
    }

    fn add(value: &WatchedValue) {
        // SAFETY: loom checks that no other thread reads or writes meanwhile.
        value.0.with_mut(|value| unsafe { *value += 1 });
    }

    /// R54: two scanners and a reader: a refused scanner leaves the work to the seeker.
    #[test]
    fn one_of_two_scanners_wins_and_readers_see_consistent_states() {
        loom::model(|| {
            let lock = Arc::new(SeekLock::new(WatchedValue(Watched::new(0))));
            let scanner = {
                let lock = lock.clone();
                loom::thread::spawn(move || match lock.read().try_seek() {
                    Ok(seeking) => {
                        let before = get(&seeking);
                        let writing = seeking.upgrade();
                        add(&writing);
                        let seeking = writing.downgrade();
                        assert_eq!(get(&seeking), before + 1, "nobody writes between two modes of one guard");
                        1
                    }
                    Err(reading) => {
                        get(&reading);
                        0
                    }
                })
            };
            let mut added = 0;
            if let Some(seeking) = lock.try_seek() {
                add(&seeking.upgrade());
                added = 1;
            }
            added += scanner.join().expect("the scanner ends");
            assert!(added > 0, "one of them is let in");
            assert_eq!(get(&lock.read()), added);
        });
    }

    /// R54: a writer waits for a seeker that reads, and later holders see all its writes.
    #[test]
    fn a_writer_excludes_a_seeker() {
        loom::model(|| {
            let lock = Arc::new(SeekLock::new(WatchedValue(Watched::new(0))));
            let writer = {
                let lock = lock.clone();
                loom::thread::spawn(move || add(&lock.write()))
            };
            let seen = lock.try_seek().map(|seeking| get(&seeking));
            writer.join().expect("the writer ends");
            assert!(seen.is_none_or(|seen| seen <= 1));
            assert_eq!(get(&lock.read()), 1);
        });
    }
}
