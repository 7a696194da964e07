//! Trace sources of the scheduler: its rounds, and its poller's events.

use std::io::Write;

use weir_events::WallTime;
use weir_events::trace::{About, TraceEventKind, TraceLevel, TraceReport, TraceSource};

/// The run queues.
pub static SCHEDULER: TraceSource = TraceSource::new(
    "scheduler",
    "run queues and timers",
    &[TraceEventKind { name: "sched_turn", help: "one turn of the run queues" }],
);

/// The poller.
pub static POLLER: TraceSource = TraceSource::new(
    "poller",
    "polling of descriptors",
    &[TraceEventKind { name: "poll_wake", help: "return of the poller" }],
);

#[cold]
pub(crate) fn turned(worker: usize, wall_ns: u64, timeout_ms: Option<u64>) {
    trace(&SCHEDULER, TraceLevel::Developer, worker, wall_ns, |line| {
        // Writing to memory does not fail.
        let _ = match timeout_ms {
            Some(0) => write!(line, "more to run"),
            Some(timeout) => write!(line, "nothing to run for {timeout} ms"),
            None => write!(line, "nothing to run"),
        };
    });
}

#[cold]
pub(crate) fn polled(worker: usize, wall_ns: u64, events: usize) {
    trace(&POLLER, TraceLevel::State, worker, wall_ns, |line| {
        // Writing to memory does not fail.
        let _ = write!(line, "{events} events");
    });
}

fn trace(
    source: &TraceSource,
    level: TraceLevel,
    worker: usize,
    wall_ns: u64,
    text: impl FnOnce(&mut Vec<u8>),
) {
    let about = About { thread: worker as u64 + 1, ..About::default() };
    let time = WallTime::from_micros((wall_ns / 1000) as i64);
    source.trace(&TraceReport { event: 0, also: 0, level, about, time }, |_, line| text(line));
}
