//! A slot of a server, while a request holds it.

use std::sync::Arc;

use crate::server::Server;

/// A slot of a server, released on drop at the latest.
pub struct Lease(LeaseReference);

/// The reference to the leased server, and the slot.
enum LeaseReference {
    /// A handle with a reference count that only its worker writes.
    OfWorker(Arc<ServerHandle>, CountedSlot),
    Common(Arc<Server>, CountedSlot),
}

// Every stream contains an `Option<Lease>`, so its size matters.
const _: () = assert!(size_of::<Option<Lease>>() <= 16);

struct CountedSlot {
    /// The worker that counts the slot. `None` if it is in the count shared by all workers.
    worker: Option<u16>,
    held: bool,
}

impl Lease {
    /// A lease for a slot that was counted under the lock.
    pub(crate) fn granted(server: Arc<Server>) -> Self {
        Self(LeaseReference::Common(server, CountedSlot { worker: None, held: true }))
    }

    /// A lease for a slot that was taken without the lock.
    pub(crate) fn alone(server: Arc<ServerHandle>, worker: Option<usize>) -> Self {
        Self(LeaseReference::OfWorker(
            server,
            CountedSlot { worker: worker.map(|worker| worker as u16), held: true },
        ))
    }

    /// The server, even after the slot was released.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        match &self.0 {
            LeaseReference::OfWorker(handle, _) => &handle.0,
            LeaseReference::Common(server, _) => server,
        }
    }

    /// Releases the slot now. The lease then only refers to the server.
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

/// A worker's own reference to a server. Its reference count is written by this worker only. Cloning an `Arc<Server>` for
/// each request would write to a cache line shared by all workers.
pub(crate) struct ServerHandle(pub(crate) Arc<Server>);
