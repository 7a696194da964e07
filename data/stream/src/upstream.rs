//! The server's side of a stream: the connection, and its counts.

use std::cell::Cell;
use std::ops::Deref;

use weir_backend::{IdlePools, InUse, ServerKey};
use weir_containers::LocalArc;
use weir_mux::StreamConnector;

use crate::instance::ProxyRef;

/// A connection to a server, lent to one stream.
pub struct Upstream {
    /// The connector that carries the stream.
    pub connector: StreamConnector,
    /// Whether another stream used it before.
    pub reused: bool,
    /// How many requests it served, this one included.
    pub requests: u32,
    /// Bytes received and sent that are in the counters already.
    pub counted: (u64, u64),
    /// The key that another stream must have to use it.
    pub key: u64,
    /// Whether it may only serve the client for which it was opened.
    pub private: bool,
    /// Counts the connection as used; none without a server.
    pub in_use: Option<InUse>,
}

impl Upstream {
    /// An upstream on a connection that carried `requests` requests, before its next one.
    pub(crate) fn reused(requests: u32, key: u64) -> Self {
        Upstream {
            connector: StreamConnector::CLOSED,
            reused: true,
            requests,
            counted: (0, 0),
            key,
            private: false,
            in_use: None,
        }
    }
}

/// The backend of a stream, and whether the stream is there. While it is inside, it counts as load of that backend (`scur`,
/// `fullconn`).
///
/// ```text
///   ahead ──enter──► inside ──end, drop──► over
/// ```
#[derive(Debug)]
pub struct VisitedBackend {
    proxy: ProxyRef,
    /// The worker that counts it. 16 bits are enough for every worker, as in a task's key.
    worker: u16,
    progress: VisitProgress,
}

/// How far a visit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisitProgress {
    Ahead,
    Inside,
    Over,
}

impl VisitedBackend {
    /// The backend is not chosen yet: `proxy` takes its place.
    #[inline]
    pub fn ahead_of(proxy: ProxyRef) -> Self {
        VisitedBackend { proxy, worker: 0, progress: VisitProgress::Ahead }
    }

    /// Counts a stream that enters this proxy's backend.
    pub fn enter(proxy: ProxyRef) -> Self {
        let worker = weir_sched::worker_index();
        proxy.servers().enter(worker);
        VisitedBackend { proxy, worker: worker as u16, progress: VisitProgress::Inside }
    }

    /// The proxy.
    #[inline]
    pub fn proxy(&self) -> &ProxyRef {
        &self.proxy
    }

    /// Whether a backend was chosen: it counts the stream, now or before.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.progress != VisitProgress::Ahead
    }

    /// Ends the stream's count as load of the backend.
    #[inline]
    pub fn end(&mut self) {
        if self.progress == VisitProgress::Inside {
            self.progress = VisitProgress::Over;
            self.proxy.servers().leave(usize::from(self.worker));
        }
    }
}

impl Deref for VisitedBackend {
    type Target = ProxyRef;

    #[inline]
    fn deref(&self) -> &ProxyRef {
        &self.proxy
    }
}

impl Drop for VisitedBackend {
    fn drop(&mut self) {
        self.end();
    }
}

/// A server connection that serves one client only, and waits for that client's next request.
pub struct OwnConnection {
    pub(crate) backend: usize,
    /// None without a server (`option transparent`).
    pub(crate) server: Option<ServerKey>,
    pub(crate) upstream: Upstream,
    /// Counts it as private while it waits.
    _private: Option<Private>,
    _kept: OwnKept,
}

/// Counts one of the worker's private connections until it is dropped.
struct OwnKept(());

impl OwnKept {
    fn new() -> Self {
        OWN_KEPT.set(OWN_KEPT.get() + 1);
        OwnKept(())
    }
}

impl Drop for OwnKept {
    fn drop(&mut self) {
        OWN_KEPT.set(OWN_KEPT.get() - 1);
    }
}

/// Counts a connection that waits for its only client, until it is dropped.
struct Private {
    pools: LocalArc<IdlePools>,
    worker: usize,
}

impl Private {
    fn of(pools: LocalArc<IdlePools>) -> Private {
        let worker = weir_sched::worker_index();
        pools.begin_private(worker);
        Private { pools, worker }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.pools.end_private(self.worker);
    }
}

impl OwnConnection {
    /// A connection that begins to wait; with the pools of its server, if it has one.
    pub(crate) fn new(
        backend: usize,
        server: Option<ServerKey>,
        upstream: Upstream,
        pools: Option<LocalArc<IdlePools>>,
    ) -> Self {
        OwnConnection { backend, server, upstream, _private: pools.map(Private::of), _kept: OwnKept::new() }
    }

    /// Whether this worker keeps any private connections.
    pub(crate) fn are_kept() -> bool {
        OWN_KEPT.get() > 0
    }
}

thread_local! {
    /// How many connections wait for their only client.
    static OWN_KEPT: Cell<usize> = const { Cell::new(0) };
}
