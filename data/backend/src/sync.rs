//! The one façade through which this crate touches what threads share, so that loom can replace it.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Stands between a sequentially consistent write and a sequentially consistent read of something
/// else, where each side of a handshake must see the other's write or be seen.
///
/// The accesses are ordered by themselves, so this costs nothing; loom takes them for acquire and
/// release only, and needs the fence to see the order.
#[inline]
pub(crate) fn handshake_point() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Locks, and goes on with the data of a thread that panicked while it held the lock.
///
/// A panic is caught at the task (design D8) and the worker lives on; every critical section here
/// leaves the structure consistent at each step, so the poison mark carries no news.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
