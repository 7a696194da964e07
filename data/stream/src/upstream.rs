//! The server side of a stream: the connection, and its counts.

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
    /// Number of requests on this connection, including the current one.
    pub requests: u32,
    /// Bytes received and sent that are already in the counters.
    pub counted: (u64, u64),
    /// The reuse key. Only a stream with the same key may reuse the connection.
    pub key: u64,
    /// Whether only the client for which it was opened may use the connection.
    pub private: bool,
    /// Counts the connection as in use. `None` without a server (`option transparent`).
    pub in_use: Option<InUse>,
}

impl Upstream {
    /// An upstream on a new connection, without a connector.
    pub(crate) fn new(key: u64) -> Self {
        Upstream { reused: false, ..Upstream::reused(0, key) }
    }

    /// An upstream on a connection that has carried `requests` requests so far.
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

/// The backend of a stream, and the progress of the visit. While inside, the stream counts as load of the backend (`scur`, `fullconn`).
///
/// ```text
///   ahead ──enter──► inside ──end, drop──► over
/// ```
#[derive(Debug)]
pub struct VisitedBackend {
    proxy: ProxyRef,
    /// The worker that counts the stream. 16 bits are enough for every worker, as in a task's key.
    worker: u16,
    progress: VisitProgress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisitProgress {
    Ahead,
    Inside,
    Over,
}

impl VisitedBackend {
    /// A visit before the choice of the backend. `proxy` stands in for it.
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

    /// The proxy with the servers. Another one stands in for it until the backend is chosen.
    #[inline]
    pub fn proxy(&self) -> &ProxyRef {
        &self.proxy
    }

    /// Whether a backend was chosen. It counts or has counted the stream.
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

/// A server connection that serves one client only, kept for that client's next request.
pub struct OwnConnection {
    pub(crate) backend: usize,
    /// `None` without a server (`option transparent`).
    pub(crate) server: Option<ServerKey>,
    pub(crate) upstream: Upstream,
    /// Counts the connection as private while it is idle.
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

/// Counts an idle private connection until dropped.
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
    /// Keeps a connection idle for its client, counted in the pools of its server, if it has one.
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
    /// Number of idle private connections of this worker.
    static OWN_KEPT: Cell<usize> = const { Cell::new(0) };
}
