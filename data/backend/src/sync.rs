//! Wrapper around the synchronization primitives of this crate, so loom can replace them in tests.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Placed between a sequentially consistent write and a sequentially consistent read of another
/// variable. At least one side of the handshake then sees the other side's write.
///
/// The accesses are already ordered, so this is a no-op. Only loom needs the fence, because it treats
/// sequentially consistent accesses as acquire and release.
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
