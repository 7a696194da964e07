//! The number of TLS sessions of the process, with clients and servers (`maxsslconn`, `show info`).
//!
//! A session counts from its first byte until its connection is closed, because it takes memory of the process. The shared
//! counter costs little beside a handshake.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

static NOW: AtomicU32 = AtomicU32::new(0);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static MOST: AtomicU32 = AtomicU32::new(u32::MAX);

/// A session's slot within `maxsslconn`. Dropping it frees the slot.
#[derive(Debug)]
pub struct SessionPlace(());

impl SessionPlace {
    /// The slot of a new session, and whether the limit admits it.
    pub(super) fn of_session() -> (SessionPlace, bool) {
        TOTAL.fetch_add(1, Relaxed);
        SessionPlace::take()
    }

    /// The slot of a session that begins later on an accepted connection (`accept-proxy`). `None` at the limit.
    pub fn in_advance() -> Option<SessionPlace> {
        let (place, fits) = SessionPlace::take();
        fits.then_some(place)
    }

    /// Counts and compares atomically, so that two workers cannot both take the last slot.
    fn take() -> (SessionPlace, bool) {
        let before = NOW.fetch_add(1, Relaxed);
        (SessionPlace(()), before < MOST.load(Relaxed))
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        NOW.fetch_sub(1, Relaxed);
    }
}

/// Sets the limit of concurrent sessions. 0 for no limit.
pub fn limit(most: u32) {
    MOST.store(if most == 0 { u32::MAX } else { most }, Relaxed);
}

/// The limit of concurrent sessions. 0 for no limit.
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

/// The number of current sessions, and of all sessions since startup.
pub fn sessions() -> (u32, u64) {
    (NOW.load(Relaxed), TOTAL.load(Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_sessions_are_counted_and_limited_while_they_exist() {
        let (before, total) = sessions();
        let (one, fits) = SessionPlace::of_session();
        assert!(fits);
        limit(before + 1);
        assert!(!SessionPlace::of_session().1 && SessionPlace::in_advance().is_none());
        assert_eq!((sessions(), is_full(), most()), ((before + 1, total + 2), true, before + 1));
        drop(one);
        let reserved = SessionPlace::in_advance();
        assert_eq!((reserved.is_some(), is_full(), sessions().1), (true, true, total + 2));
        drop(reserved);
        assert_eq!((sessions().0, is_full()), (before, false));
        limit(0);
        assert_eq!((is_full(), most()), (false, 0));
    }
}
