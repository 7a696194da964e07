//! The one door to atomics: the standard ones, or loom's, which try every interleaving.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// Lets others go on: the next try of a short wait.
pub(crate) fn relax(tries: u32) {
    #[cfg(loom)]
    {
        let _ = tries;
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    if tries < SPINS {
        std::hint::spin_loop();
    } else {
        // Whoever is waited for may have been taken off its processor.
        std::thread::yield_now();
    }
}

/// Tries after which a short wait gives its processor away: about as long as another thread needs to copy a message.
#[cfg(not(loom))]
const SPINS: u32 = 128;

/// Locks; what a panicking holder left behind is whole, because nothing here panics half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Passes the time while another thread is about to finish: a moment on the processor, later off it.
pub(crate) fn spin(turns: &mut u32) {
    *turns = turns.saturating_add(1);
    if cfg!(loom) || *turns > SPINS {
        yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// About a microsecond: longer than any hold of a lock by a thread that runs.
const SPINS: u32 = 64;
#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::thread::yield_now;
