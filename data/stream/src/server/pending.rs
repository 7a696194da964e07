//! HTTP/2 server connections that are being established, and the streams that wait to share them.
//!
//! Without this, a hundred simultaneous requests would open a hundred connections, and all but one would then stay idle.

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
    /// Number of further streams that the connection can take.
    places: u32,
    waiters: Vec<TaskKey>,
}

thread_local! {
    static ALL: RefCell<ManuallyDrop<(u64, Vec<PendingConnection>)>> =
        const { RefCell::new(ManuallyDrop::new((0, Vec::new()))) };
}

/// Registers a connection as being established. Dropped when the connection is established or has failed: this wakes the waiters.
pub(super) struct OnItsWay(u64);

impl OnItsWay {
    /// Registers a connection that can take `places` streams besides its opener's.
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

/// Joins the waiters of a connection that is being established, if it can take another stream. Returns the connection's number for
/// [`is_there`].
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

/// Whether the connection is established or has failed.
pub(super) fn is_there(number: u64) -> bool {
    ALL.with_borrow(|known| known.1.iter().all(|pending| pending.number != number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_a_pending_connection_up_to_its_stream_limit() {
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
