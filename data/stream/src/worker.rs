//! The list of a worker's sessions.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};

pub use crate::process_counters::{ProcessCounters, install, next_serial};
use crate::session::ClientSession;

thread_local! {
    static SESSIONS: RefCell<ManuallyDrop<Vec<Weak<ClientSession>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Index in `SESSIONS` at which the next search begins.
    static NEXT_TO_LOOK_AT: Cell<usize> = const { Cell::new(0) };
}

/// Adds a session to the worker's list.
pub(crate) fn enlist(session: &Rc<ClientSession>) {
    SESSIONS.with_borrow_mut(|sessions| {
        // Dead sessions are removed when the list is full. So its length stays within twice the number of live sessions.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|session| session.strong_count() > 0);
        }
        sessions.push(Rc::downgrade(session));
    });
}

/// Calls `is_found` with each session of this worker until it returns true. Returns false if it never does. The next search begins
/// after the found session, so that repeated searches share one walk over the list.
pub(crate) fn find_session(is_found: impl Fn(&ClientSession) -> bool) -> bool {
    SESSIONS.with_borrow(|sessions| {
        let count = sessions.len();
        let first = NEXT_TO_LOOK_AT.get();
        let fits = |at: &usize| sessions[*at].upgrade().is_some_and(|session| is_found(&session));
        let found = (0..count).map(|step| (first + step) % count).find(fits);
        found.is_some_and(|at| {
            NEXT_TO_LOOK_AT.set(at + 1);
            true
        })
    })
}

/// The live sessions of this worker.
pub fn sessions() -> Vec<Rc<ClientSession>> {
    SESSIONS.with_borrow(|sessions| sessions.iter().filter_map(Weak::upgrade).collect())
}
