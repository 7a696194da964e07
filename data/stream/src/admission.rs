//! Admission of connections: the limits that a connection must fit, and the counts that it belongs to.

use std::sync::atomic::Ordering::Relaxed;

use weir_net::{ConnectionLimit, Permit};

use crate::instance::Listener;

/// The permits for one connection: it counts for the process, the frontend and the listener as long as this lives.
#[derive(Debug)]
pub struct Admission {
    process: Permit<&'static ConnectionLimit>,
    frontend: Permit<&'static ConnectionLimit>,
    listener: Permit<&'static ConnectionLimit>,
}

/// An accepted connection. Dropping it ends all its counts.
///
/// Every client has one as long as it is connected, so to stay small it stores no [`Admission`] but stands for one.
pub struct Admitted {
    listener: &'static Listener,
    worker: u32,
}

impl Admitted {
    /// The listener that accepted it.
    pub fn listener(&self) -> &'static Listener {
        self.listener
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        weir_sched::change_load(self.worker as usize, -1);
        let proxy = self.listener.proxy();
        self.listener.connections.leave();
        proxy.connections.leave();
        proxy.instance().connections.leave();
    }
}

impl Listener {
    /// The permits for one connection, or the limit that is reached.
    pub fn admit(&'static self) -> Result<Admission, &'static ConnectionLimit> {
        let proxy = self.proxy();
        let instance = proxy.instance();
        let enter = |limit: &'static ConnectionLimit, most| Permit::enter(limit, most).ok_or(limit);
        let process = enter(&instance.connections, instance.limits.connections.load(Relaxed))?;
        let frontend = enter(&proxy.connections, proxy.connections_limit.load(Relaxed))?;
        let listener = enter(&self.connections, self.bind.options.maxconn.unwrap_or(u32::MAX))?;
        Ok(Admission { process, frontend, listener })
    }
}

impl Admission {
    /// Turns the permits into a connection, which worker `worker` will serve.
    pub(crate) fn used(self, listener: &'static Listener, worker: usize) -> Admitted {
        for permit in [self.process, self.frontend, self.listener] {
            permit.keep();
            permit.count_on();
        }
        weir_sched::change_load(worker, 1);
        Admitted { listener, worker: worker as u32 }
    }
}
