//! HTTP/2 connections to servers that are being established, and the streams that wait for a place on them.
//!
//! Without this, each of a hundred simultaneous requests would open a connection, and all but one of those would be idle ever
//! after.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_backend::ServerKey;
use weir_sched::TaskKey;

/// A connection that is being established: its server, its key, and its waiters.
struct PendingConnection {
    number: u64,
    proxy: usize,
    server: ServerKey,
    key: u64,
    /// How many places are left on it.
    places: u32,
    waiters: Vec<TaskKey>,
}

thread_local! {
    static ALL: RefCell<ManuallyDrop<(u64, Vec<PendingConnection>)>> =
        const { RefCell::new(ManuallyDrop::new((0, Vec::new()))) };
}

/// Registers a connection as being established. Dropping it means that it is established or failed, and wakes the waiters.
pub(super) struct OnItsWay(u64);

impl OnItsWay {
    /// Registers a connection with this many places besides its opener's.
    pub(super) fn begin(proxy: usize, server: ServerKey, key: u64, places: u32) -> OnItsWay {
        ALL.with_borrow_mut(|known| {
            let (next, all) = &mut **known;
            *next += 1;
            all.push(PendingConnection { number: *next, proxy, server, key, places, waiters: Vec::new() });
            OnItsWay(*next)
        })
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let waiters = ALL.with_borrow_mut(|known| {
            let all = &mut known.1;
            let at = all.iter().position(|pending| pending.number == self.0)?;
            Some(all.swap_remove(at).waiters)
        });
        waiters.into_iter().flatten().for_each(weir_sched::wake);
    }
}

/// Joins the wait for a connection that is being established, if one has a place left; [`is_there`] returns true when
/// that is over.
pub(super) fn join(proxy: usize, server: ServerKey, key: u64) -> Option<u64> {
    ALL.with_borrow_mut(|known| {
        let all = &mut known.1;
        let fits = |pending: &&mut PendingConnection| {
            pending.proxy == proxy && pending.server == server && pending.key == key && pending.places > 0
        };
        let pending = all.iter_mut().find(fits)?;
        pending.places -= 1;
        pending.waiters.push(weir_sched::current());
        Some(pending.number)
    })
}

/// Whether the connection is not being established any more.
pub(super) fn is_there(number: u64) -> bool {
    ALL.with_borrow(|known| known.1.iter().all(|pending| pending.number != number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_a_pending_connection_while_it_has_places() {
        let server = ServerKey::configured(3);
        let on_its_way = OnItsWay::begin(1, server, 7, 2);
        assert_eq!(join(1, server, 8), None, "another name");
        assert_eq!(join(2, server, 7), None, "another proxy");
        assert_eq!(join(1, ServerKey::configured(4), 7), None, "another server");
        let first = join(1, server, 7).expect("a place");
        assert_eq!(join(1, server, 7), Some(first));
        assert_eq!(join(1, server, 7), None, "no place is left");
        assert!(!is_there(first));
        drop(on_its_way);
        assert!(is_there(first));
    }
}
