//! Trace lines of connections that carry streams (`trace fcgi`, `trace spop`).

use std::io::Write as _;

use weir_events::trace::{About, TraceLevel, TraceReport, TraceSource};

use crate::trace::ConnectionIdentity;

/// An event of a source by its index, the bit mask of further events that it counts as, and its level.
#[derive(Clone, Copy)]
pub(crate) struct ServedEvent {
    pub(crate) event: usize,
    pub(crate) also: u64,
    pub(crate) level: TraceLevel,
}

/// Writes a line about a connection to a server: the backend, and `text`. From the verbosity `minimal` on it has the state of the connection,
/// with `complete` the first bytes of the payload.
#[cold]
pub(crate) fn emit(
    source: &'static TraceSource,
    identity: &ConnectionIdentity,
    what: ServedEvent,
    text: std::fmt::Arguments<'_>,
    (state, payload): (&dyn Fn() -> String, &[u8]),
) {
    let ServedEvent { event, also, level } = what;
    let about = About { thread: weir_sched::worker_index() as u64 + 1, ..identity.about };
    let report = TraceReport { event, also, level, about, time: weir_sched::wall_time() };
    source.trace(&report, |verbosity, line| {
        // Writing to memory does not fail.
        let _ = write!(line, "be={} {text}", identity.proxy);
        if verbosity >= MINIMAL {
            let _ = write!(line, " ({})", state());
        }
        if verbosity >= COMPLETE && !payload.is_empty() {
            let _ = write!(line, " payload=\"{}\"", payload[..payload.len().min(DUMPED)].escape_ascii());
        }
    });
}

/// Minimum verbosity that shows the state. See [`weir_events::trace::VERBOSITIES`].
const MINIMAL: u8 = 2;
/// Minimum verbosity that shows the first bytes of payloads.
const COMPLETE: u8 = 5;
/// Maximum number of payload bytes shown.
const DUMPED: usize = 256;
