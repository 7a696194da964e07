//! What a worker keeps for its own streams: numbers, figures of the process, the list of its connections.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::session::Session;

/// Figures that each worker counts for the whole process, summed by readers.
pub struct ProcessFigures {
    /// Connections accepted.
    pub connections: weir_sync::Counter,
    /// Requests and TCP sessions begun.
    pub requests: weir_sync::Counter,
    /// Streams begun.
    pub streams: weir_sync::Counter,
    /// Streams in progress.
    pub streams_now: weir_sync::Gauge,
    /// Bytes sent to clients.
    pub bytes_out: weir_sync::Counter,
    /// Bytes that went through the kernel only.
    pub bytes_spliced: weir_sync::Counter,
}

impl Default for ProcessFigures {
    fn default() -> Self {
        ProcessFigures {
            connections: weir_sync::Counter::new(),
            requests: weir_sync::Counter::new(),
            streams: weir_sync::Counter::new(),
            streams_now: weir_sync::Gauge::new(),
            bytes_out: weir_sync::Counter::new(),
            bytes_spliced: weir_sync::Counter::new(),
        }
    }
}

thread_local! {
    static SERIAL: Cell<u64> = const { Cell::new(0) };
    static SESSIONS: RefCell<Vec<Weak<Session>>> = const { RefCell::new(Vec::new()) };
    /// Where the next search in them begins.
    static NEXT_TO_LOOK_AT: Cell<usize> = const { Cell::new(0) };
    static FIGURES: Cell<Option<&'static ProcessFigures>> = const { Cell::new(None) };
}

/// Tells the worker where it counts for the process.
pub fn install(figures: &'static ProcessFigures) {
    FIGURES.set(Some(figures));
}

/// The figures of this worker.
#[inline]
pub(crate) fn figures() -> Option<&'static ProcessFigures> {
    FIGURES.get()
}

/// A number that no other stream of this process has: the worker's own count, above the worker's number.
pub fn next_serial() -> u64 {
    let serial = SERIAL.get() + 1;
    SERIAL.set(serial);
    serial * weir_sched::worker_count().max(1) as u64 + weir_sched::worker_index() as u64
}

/// How many streams had a number before the stream with this one: what `%rt` counts.
pub(crate) fn streams_before(serial: u64) -> u64 {
    serial.saturating_sub(weir_sched::worker_count().max(1) as u64)
}

/// A request or a TCP session began.
pub(crate) fn count_request() {
    if let Some(figures) = figures() {
        figures.requests.increment();
        // A connection that ends between two requests is no stream, though its end is looked at like one.
        figures.streams.increment();
    }
}

/// Bytes left for a client.
pub(crate) fn count_bytes_out(bytes: u64) {
    if let Some(figures) = figures() {
        figures.bytes_out.add(bytes);
    }
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
