//! A worker's share of the process counters, and the serial numbers of streams.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use weir_sync::CachePadded;

/// Counters of the process, one set per worker. Readers add them up.
pub struct ProcessCounters {
    pub connections: weir_sync::Counter,
    /// Requests and TCP sessions begun.
    pub requests: weir_sync::Counter,
    pub streams: weir_sync::Counter,
    pub streams_now: weir_sync::Gauge,
    /// Bytes sent to clients.
    pub bytes_out: weir_sync::Counter,
    /// Bytes that were spliced in the kernel.
    pub bytes_spliced: weir_sync::Counter,
    /// Requests that `auth-request` rules sent, or failed to send.
    pub auth_requests: weir_sync::Counter,
    /// Those without a verdict.
    pub auth_requests_failed: weir_sync::Counter,
    /// Requests that `mirror` rules sent.
    pub mirrors: weir_sync::Counter,
    /// Requests that `mirror` rules gave up: too many at a time, a body above its limit, or a loop.
    pub mirrors_dropped: weir_sync::Counter,
    /// Open connections to agents.
    pub agent_connections: weir_sync::Gauge,
    /// Answers of agents to exchanges that were given up. Their actions are dropped.
    pub late_agent_answers: weir_sync::Counter,
}

impl Default for ProcessCounters {
    fn default() -> Self {
        ProcessCounters {
            connections: weir_sync::Counter::new(),
            requests: weir_sync::Counter::new(),
            streams: weir_sync::Counter::new(),
            streams_now: weir_sync::Gauge::new(),
            bytes_out: weir_sync::Counter::new(),
            bytes_spliced: weir_sync::Counter::new(),
            auth_requests: weir_sync::Counter::new(),
            auth_requests_failed: weir_sync::Counter::new(),
            mirrors: weir_sync::Counter::new(),
            mirrors_dropped: weir_sync::Counter::new(),
            agent_connections: weir_sync::Gauge::new(),
            late_agent_answers: weir_sync::Counter::new(),
        }
    }
}

thread_local! {
    static SERIAL: Cell<u64> = const { Cell::new(0) };
    static COUNTERS: RefCell<ManuallyDrop<Option<Arc<CachePadded<ProcessCounters>>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Sets the worker's counters for the process.
pub fn install(counters: Arc<CachePadded<ProcessCounters>>) {
    COUNTERS.with_borrow_mut(|installed| drop(installed.replace(counters)));
}

/// Calls `count` with the counters of this worker. Does nothing before [`install`].
#[inline]
pub(crate) fn count(count: impl FnOnce(&ProcessCounters)) {
    COUNTERS.with_borrow(|counters| counters.as_deref().map(|counters| count(counters)));
}

/// A serial number unique in this process: the worker's own count times the number of workers, plus the worker's index.
pub fn next_serial() -> u64 {
    let serial = SERIAL.get() + 1;
    SERIAL.set(serial);
    serial * weir_sched::worker_count().max(1) as u64 + weir_sched::worker_index() as u64
}

/// The number of earlier streams, estimated from the serial number: `%rt`.
pub(crate) fn streams_before(serial: u64) -> u64 {
    serial.saturating_sub(weir_sched::worker_count().max(1) as u64)
}

/// Counts a request or a TCP session.
pub(crate) fn count_request() {
    count(|counters| {
        counters.requests.increment();
        // A connection that closes between two requests does not count as a stream, although it is handled like one.
        counters.streams.increment();
    });
}

/// Counts bytes sent to a client.
pub(crate) fn count_bytes_out(bytes: u64) {
    count(|counters| counters.bytes_out.add(bytes));
}
