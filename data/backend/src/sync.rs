//! The one façade through which this crate touches what threads share, so that loom can replace it.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

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

/// Raises a maximum. Rarely writes, so the cache line stays shared.
#[inline]
pub(crate) fn raise(maximum: &AtomicU32, value: u32) {
    if maximum.load(Ordering::Relaxed) < value {
        maximum.fetch_max(value, Ordering::Relaxed);
    }
}
