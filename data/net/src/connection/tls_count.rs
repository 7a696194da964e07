//! How many sessions of TLS the process has, whoever they are with (`maxsslconn`, `show info`).
//!
//! A session counts from its first byte until its connection is closed: these are memory that the process holds, so that all of
//! them count as one, and a handshake pays for the shared counter.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

static NOW: AtomicU32 = AtomicU32::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU32 = AtomicU32::new(u32::MAX);

/// A session that is counted as long as this lives.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    /// Counts one more.
    pub fn new() -> Counted {
        NOW.fetch_add(1, Relaxed);
        TOTAL.fetch_add(1, Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        NOW.fetch_sub(1, Relaxed);
    }
}

/// So many sessions may be there at once from now on; 0 for as many as please.
pub fn limit(most: u32) {
    MOST.store(if most == 0 { u32::MAX } else { most }, Relaxed);
}

/// How many sessions may be there at once; 0 for as many as please.
pub fn most() -> u32 {
    match MOST.load(Relaxed) {
        u32::MAX => 0,
        most => most,
    }
}

/// Whether no other session may begin now.
pub fn is_full() -> bool {
    NOW.load(Relaxed) >= MOST.load(Relaxed)
}

/// How many sessions there are, and how many there were since the start.
pub fn sessions() -> (u32, u64) {
    (NOW.load(Relaxed), TOTAL.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_while_they_last() {
        let (before, total) = sessions();
        let one = Counted::new();
        limit(before + 1);
        assert_eq!((sessions(), is_full(), most()), ((before + 1, total + 1), true, before + 1));
        drop(one);
        assert_eq!((sessions().0, is_full()), (before, false));
        limit(0);
        assert_eq!((is_full(), most()), (false, 0));
    }
}
