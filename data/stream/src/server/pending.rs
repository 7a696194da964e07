//! Connections to servers of HTTP/2 that are on their way, and the streams that wait for a place on them.
//!
//! Without this, each of a hundred requests that come at once would open a connection, and all but one of those would be idle
//! ever after.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_backend::ServerKey;
use weir_sched::TaskKey;

/// One that is on its way: its server, what tells it from others, and who waits for it.
struct Pending {
    number: u64,
    proxy: usize,
    server: ServerKey,
    key: u64,
    /// How many places are left on it.
    places: u32,
    waiters: Vec<TaskKey>,
}

thread_local! {
    static ALL: RefCell<ManuallyDrop<(u64, Vec<Pending>)>> =
        const { RefCell::new(ManuallyDrop::new((0, Vec::new()))) };
}

/// Keeps a connection known as on its way. When this is dropped, it stands or failed, and who waits looks again.
pub(super) struct OnItsWay(u64);

impl OnItsWay {
    /// A connection is opened that will have so many places beside its opener's.
    pub(super) fn begin(proxy: usize, server: ServerKey, key: u64, places: u32) -> OnItsWay {
        ALL.with_borrow_mut(|known| {
            let (next, all) = &mut **known;
            *next += 1;
            all.push(Pending { number: *next, proxy, server, key, places, waiters: Vec::new() });
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

/// Waits for a connection that is on its way; [`is_there`] tells when it is not any more. None if there is none with a place left.
pub(super) fn join(proxy: usize, server: ServerKey, key: u64) -> Option<u64> {
    ALL.with_borrow_mut(|known| {
        let all = &mut known.1;
        let fits = |pending: &&mut Pending| {
            pending.proxy == proxy && pending.server == server && pending.key == key && pending.places > 0
        };
        let pending = all.iter_mut().find(fits)?;
        pending.places -= 1;
        pending.waiters.push(weir_sched::current());
        Some(pending.number)
    })
}

/// Whether the connection is on its way no more.
pub(super) fn is_there(number: u64) -> bool {
    ALL.with_borrow(|known| known.1.iter().all(|pending| pending.number != number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_fit_wait_for_one_as_long_as_there_are_places() {
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
