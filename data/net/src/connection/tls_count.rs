//! The number of TLS sessions of the process, with clients and servers (`maxsslconn`, `show info`).
//!
//! A session counts from its first byte until its connection is closed, because it takes memory of the process. The shared
//! counter costs little beside a handshake.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

static NOW: AtomicU32 = AtomicU32::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU32 = AtomicU32::new(u32::MAX);

/// A session, counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    /// Counts one more session; the flag says whether the limit admits it. One operation, so that two workers do not share the last place.
    pub fn new() -> (Counted, bool) {
        let before = NOW.fetch_add(1, Relaxed);
        TOTAL.fetch_add(1, Relaxed);
        (Counted(()), before < MOST.load(Relaxed))
    }
}

/// The place of a session that will begin, from the acceptance of its connection until then (`accept-proxy`).
#[derive(Debug)]
pub struct PendingSession(());

impl PendingSession {
    /// Takes a place; none when the limit is reached.
    pub fn new() -> Option<PendingSession> {
        let before = NOW.fetch_add(1, Relaxed);
        let reserved = PendingSession(());
        (before < MOST.load(Relaxed)).then_some(reserved)
    }
}

impl Drop for PendingSession {
    fn drop(&mut self) {
        NOW.fetch_sub(1, Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        NOW.fetch_sub(1, Relaxed);
    }
}

/// Sets the limit of concurrent sessions; 0 for no limit.
pub fn limit(most: u32) {
    MOST.store(if most == 0 { u32::MAX } else { most }, Relaxed);
}

/// The limit of concurrent sessions; 0 for no limit.
pub fn most() -> u32 {
    match MOST.load(Relaxed) {
        u32::MAX => 0,
        most => most,
    }
}

/// Whether the limit is reached.
pub fn is_full() -> bool {
    NOW.load(Relaxed) >= MOST.load(Relaxed)
}

/// The number of current sessions, and of all since the start.
pub fn sessions() -> (u32, u64) {
    (NOW.load(Relaxed), TOTAL.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_while_they_last() {
        let (before, total) = sessions();
        let (one, fits) = Counted::new();
        assert!(fits);
        limit(before + 1);
        assert!(!Counted::new().1 && PendingSession::new().is_none());
        assert_eq!((sessions(), is_full(), most()), ((before + 1, total + 2), true, before + 1));
        drop(one);
        let reserved = PendingSession::new();
        assert_eq!((reserved.is_some(), is_full(), sessions().1), (true, true, total + 2));
        drop(reserved);
        assert_eq!((sessions().0, is_full()), (before, false));
        limit(0);
        assert_eq!((is_full(), most()), (false, 0));
    }
}
