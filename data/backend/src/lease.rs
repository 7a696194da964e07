//! A slot of a server, while a request holds it.

use std::sync::Arc;

use crate::server::Server;

/// A slot of a server, given back on drop at the latest.
pub struct Lease(LeaseReference);

/// The reference to the leased server, and the slot.
enum LeaseReference {
    /// One that only its worker counts.
    OfWorker(Arc<ServerHandle>, CountedSlot),
    Common(Arc<Server>, CountedSlot),
}

// Every stream has the place for one.
const _: () = assert!(size_of::<Option<Lease>>() <= 16);

struct CountedSlot {
    /// The worker that counts it; `None` if it is in the count that all workers share.
    worker: Option<u16>,
    held: bool,
}

impl Lease {
    /// For a slot that was counted under the lock.
    pub(crate) fn granted(server: Arc<Server>) -> Self {
        Self(LeaseReference::Common(server, CountedSlot { worker: None, held: true }))
    }

    /// For a slot that was taken and counted without the lock.
    pub(crate) fn alone(server: Arc<ServerHandle>, worker: Option<usize>) -> Self {
        Self(LeaseReference::OfWorker(
            server,
            CountedSlot { worker: worker.map(|worker| worker as u16), held: true },
        ))
    }

    /// The server, even after the slot was given back.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        match &self.0 {
            LeaseReference::OfWorker(handle, _) => &handle.0,
            LeaseReference::Common(server, _) => server,
        }
    }

    /// Gives the slot back now; the lease then only names the server.
    pub fn give_back(&mut self) {
        let (LeaseReference::OfWorker(_, slot) | LeaseReference::Common(_, slot)) = &mut self.0;
        if std::mem::take(&mut slot.held) {
            let worker = slot.worker.map(usize::from);
            self.server().release(worker);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Lease").field(&self.server().name()).finish()
    }
}

/// A worker's own reference to a server, counted by this worker only. Cloning an `Arc<Server>` for each request would write
/// to a cache line that all workers write to.
pub(crate) struct ServerHandle(pub(crate) Arc<Server>);
