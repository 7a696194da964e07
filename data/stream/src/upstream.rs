//! The server's side of a stream: the connection, and what it counts as.

use std::cell::Cell;

use weir_backend::{Backend, IdlePools, InUse, ServerKey};
use weir_mux::StreamConnector;
use weir_net::Fault;
use weir_sys::Address;

/// A connection to a server, lent to one stream.
pub struct Upstream {
    /// What carries the stream to it.
    pub connector: StreamConnector,
    /// Whether another stream used it before.
    pub reused: bool,
    /// How many requests it served, this one included.
    pub requests: u32,
    /// The bytes received and sent that are in the figures already.
    pub counted: (u64, u64),
    /// What has to be equal for another stream to use it.
    pub key: u64,
    /// It may only serve the client that it was opened for.
    pub private: bool,
    /// Counts as long as it is used; none without a server.
    pub in_use: Option<InUse>,
}

impl Upstream {
    /// Nothing yet of a connection that carried so many requests.
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

/// What is left to say of a server connection once it is closed.
#[derive(Clone, Debug)]
pub struct PastConnection {
    /// The address that it came from.
    pub own_address: Option<Address>,
    /// Whether it ever stood.
    pub stood: bool,
    /// Whether another stream had used it before.
    pub reused: bool,
    /// Whether it spoke HTTP/2.
    pub http2: bool,
    /// What broke it, or kept it from standing.
    pub fault: Option<Fault>,
}

impl PastConnection {
    /// What is to be remembered of a connection.
    pub fn of(connector: &StreamConnector, stood: bool, reused: bool) -> Self {
        let (own_address, fault) = (connector.local_address(), connector.fault());
        PastConnection { own_address, stood, reused, http2: connector.shared().is_some(), fault }
    }
}

/// A stream's time at its backend.
#[derive(Debug)]
pub enum BackendVisit {
    /// No backend was chosen.
    Ahead,
    /// The stream counts as the backend's load.
    Inside(Inside),
    /// It was, and left.
    Over,
}

impl BackendVisit {
    /// Whether a backend was chosen: it counts the stream, now or before.
    #[inline]
    pub fn has_begun(&self) -> bool {
        !matches!(self, BackendVisit::Ahead)
    }

    /// The stream is the backend's load no longer.
    #[inline]
    pub fn end(&mut self) {
        if self.has_begun() {
            *self = BackendVisit::Over;
        }
    }
}

/// Counts as load of a backend (`scur`, `fullconn`) as long as it lives.
#[derive(Debug)]
pub struct Inside {
    backend: &'static Backend,
    worker: usize,
}

impl Inside {
    /// A stream enters.
    pub fn enter(backend: &'static Backend) -> Self {
        let worker = weir_sched::worker_index();
        backend.enter(worker);
        Inside { backend, worker }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.backend.leave(self.worker);
    }
}

/// A server connection that serves one client only, and waits for that client's next request.
pub struct OwnConnection {
    /// The backend's index.
    pub(crate) backend: usize,
    /// None without a server (`option transparent`).
    pub(crate) server: Option<ServerKey>,
    /// The connection.
    pub(crate) upstream: Upstream,
    /// It counts as private while it waits.
    _private: Option<Private>,
    _kept: OwnKept,
}

/// Counts among those of the worker as long as it lives.
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

/// Counts as a connection that waits for its only client, as long as it lives.
struct Private {
    pools: &'static IdlePools,
    worker: usize,
}

impl Private {
    fn of(pools: &'static IdlePools) -> Private {
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
    /// A connection that waits from now on; to a server with these pools, if it is one's.
    pub(crate) fn new(
        backend: usize,
        server: Option<ServerKey>,
        upstream: Upstream,
        pools: Option<&'static IdlePools>,
    ) -> Self {
        OwnConnection { backend, server, upstream, _private: pools.map(Private::of), _kept: OwnKept::new() }
    }

    /// Whether this worker keeps any.
    pub(crate) fn are_kept() -> bool {
        OWN_KEPT.get() > 0
    }
}

thread_local! {
    /// How many connections wait for their only client.
    static OWN_KEPT: Cell<usize> = const { Cell::new(0) };
}
