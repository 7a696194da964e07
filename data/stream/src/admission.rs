//! Admission of connections: the connection limits, and the counts of a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_containers::RcRef;
use weir_net::{ConnectionLimit, Permit};
use weir_sys::Address;

use crate::instance::{Instance, Listener, Proxy, ProxyRef, WorkerInstance};

/// A connection's share of the limits. Until dropped, it counts for the process, the frontend and the listener. It also counts as load
/// of a worker once assigned to one.
///
/// ```text
///   admit ──► Tried ──serve_on──► Served ──leave──► Transit ──arrive──► Served ──drop──► over
///               └──drop──► over                        └──drop──► over
/// ```
///
/// Every connected client has one, so the type is small.
pub struct Admission {
    frontend: ProxyRef,
    /// The listener's position among the frontend's listeners.
    listener: u32,
    progress: CountsOwner,
}

/// The owner of a connection's counts.
#[derive(Clone, Copy)]
enum CountsOwner {
    Tried,
    /// Counts in the limits, and as load of this worker.
    Served(u16),
    /// The counts belong to a [`Transit`].
    Left,
    /// Not a connection but a sub-request, which no limit counts. Sub-requests of clients have depth 1, theirs have depth 2.
    Subrequest(u16),
}

/// An [`Admission`] in transit to the worker that will serve the connection.
pub(crate) struct Transit {
    instance: Arc<Instance>,
    frontend: usize,
    listener: u32,
    /// The destination worker. `None` after arrival.
    worker: Option<u16>,
}

impl Admission {
    /// Counts one more connection at this listener of `frontend`, or returns the limit that is reached.
    pub(crate) fn new(frontend: &ProxyRef, listener: u32) -> Result<Self, &ConnectionLimit> {
        let instance = frontend.instance();
        let of_process = enter(&instance.connections, instance.limits.connections.load(Relaxed))?;
        let of_frontend = enter(&frontend.connections, frontend.connections_limit.load(Relaxed))?;
        let at = frontend.listener(listener);
        let of_listener = enter(&at.connections, at.bind.options.maxconn.unwrap_or(u32::MAX))?;
        for permit in [of_process, of_frontend, of_listener] {
            permit.count_on();
        }
        Ok(Admission { frontend: frontend.clone(), listener, progress: CountsOwner::Tried })
    }

    /// The stand-in for a connection of a sub-request. It does not count.
    pub(crate) fn of_subrequest(frontend: ProxyRef, depth: u16) -> Self {
        Admission { frontend, listener: 0, progress: CountsOwner::Subrequest(depth) }
    }

    /// The depth of a sub-request. 0 for a connection.
    pub(crate) fn subrequest_depth(&self) -> u16 {
        match self.progress {
            CountsOwner::Subrequest(depth) => depth,
            CountsOwner::Tried | CountsOwner::Served(_) | CountsOwner::Left => 0,
        }
    }

    /// The proxy that accepted the connection.
    #[inline]
    pub fn frontend(&self) -> &ProxyRef {
        &self.frontend
    }

    /// The listener that accepted the connection.
    #[inline]
    pub fn listener(&self) -> &Listener {
        self.frontend.listener(self.listener)
    }

    /// The destination address of every connection to the listener. `None` if the address is a wildcard.
    pub(crate) fn only_address(&self) -> Option<RcRef<WorkerInstance, Address>> {
        self.frontend.find_part(|frontend| frontend.listener(self.listener).only_address())
    }

    /// Assigns the connection to worker `worker` and counts it as load of that worker.
    pub(crate) fn serve_on(&mut self, worker: usize) {
        for limit in limits(self.frontend.instance(), &self.frontend, self.listener()) {
            limit.note_maximum();
        }
        weir_sched::change_load(worker, 1);
        self.progress = CountsOwner::Served(worker as u16);
    }

    /// Prepares the move to the worker chosen by [`Admission::serve_on`].
    pub(crate) fn leave(mut self) -> Transit {
        let worker = match std::mem::replace(&mut self.progress, CountsOwner::Left) {
            CountsOwner::Served(worker) => Some(worker),
            CountsOwner::Tried | CountsOwner::Left | CountsOwner::Subrequest(_) => None,
        };
        Transit {
            instance: Arc::clone(self.frontend.instance().shared()),
            frontend: self.frontend.index,
            listener: self.listener,
            worker,
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let worker = match self.progress {
            CountsOwner::Tried => None,
            CountsOwner::Served(worker) => Some(worker),
            CountsOwner::Left | CountsOwner::Subrequest(_) => return,
        };
        end(self.frontend.instance(), &self.frontend, self.listener(), worker);
    }
}

impl Transit {
    /// Restores the admission on the worker that serves the connection.
    pub(crate) fn arrive(mut self) -> Option<Admission> {
        let instance = crate::instance::local(&self.instance);
        let frontend = ProxyRef::at(&instance, self.frontend)?;
        let progress = CountsOwner::Served(self.worker.take()?);
        Some(Admission { frontend, listener: self.listener, progress })
    }
}

impl Drop for Transit {
    fn drop(&mut self) {
        let Some(worker) = self.worker else { return };
        if let Some(frontend) = self.instance.proxies.get(self.frontend) {
            end(&self.instance, frontend, frontend.listener(self.listener), Some(worker));
        }
    }
}

/// The limits that count a connection, from widest to narrowest.
fn limits<'i>(
    instance: &'i Instance,
    frontend: &'i Proxy,
    listener: &'i Listener,
) -> [&'i ConnectionLimit; 3] {
    [&instance.connections, &frontend.connections, &listener.connections]
}

/// Releases the limits of a connection, and the load of `worker`.
fn end(instance: &Instance, frontend: &Proxy, listener: &Listener, worker: Option<u16>) {
    if let Some(worker) = worker {
        weir_sched::change_load(usize::from(worker), -1);
    }
    // Wake the waiters for the narrowest limit first.
    limits(instance, frontend, listener).into_iter().rev().for_each(ConnectionLimit::leave);
}

fn enter(limit: &ConnectionLimit, most: u32) -> Result<Permit<&ConnectionLimit>, &ConnectionLimit> {
    Permit::enter(limit, most).ok_or(limit)
}
