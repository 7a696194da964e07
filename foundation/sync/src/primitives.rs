//! The façade for atomics and locks: the standard ones, or loom's, which try every interleaving.

#[cfg(not(loom))]
pub(crate) use crate::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Locks and ignores poisoning, since code of this crate does not panic while a value is inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a short operation of another thread. Spins at first, then yields the CPU.
pub(crate) fn spin(turns: &mut u32) {
    *turns = turns.saturating_add(1);
    if cfg!(loom) || *turns > SPINS {
        yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// About a microsecond, longer than any running thread holds a lock.
const SPINS: u32 = 64;
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;
