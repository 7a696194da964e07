//! What a worker keeps of its own connections: the list of them.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};

pub use crate::figures::{ProcessFigures, install, next_serial};
use crate::session::Session;

thread_local! {
    static SESSIONS: RefCell<ManuallyDrop<Vec<Weak<Session>>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    /// Where the next search in them begins.
    static NEXT_TO_LOOK_AT: Cell<usize> = const { Cell::new(0) };
}

/// Puts a session on the worker's list.
pub(crate) fn enlist(session: &Rc<Session>) {
    SESSIONS.with_borrow_mut(|sessions| {
        // The list is swept when it doubled: its length stays within twice the living.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|session| session.strong_count() > 0);
        }
        sessions.push(Rc::downgrade(session));
    });
}

/// Looks at the sessions of this worker until `is_found` says that one will do; false when none does. The next search begins
/// behind that one, so that many searches share one walk over the list.
pub(crate) fn find_session(is_found: impl Fn(&Session) -> bool) -> bool {
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

/// The living sessions of this worker.
pub fn sessions() -> Vec<Rc<Session>> {
    SESSIONS.with_borrow(|sessions| sessions.iter().filter_map(Weak::upgrade).collect())
}
