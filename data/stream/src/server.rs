//! Getting a server: which one, a slot on it, a connection to it; and what to do when that fails.
//!
//! Shared by HTTP and TCP: [`Stream::reach_server`] returns with a lease and a connection.

pub mod assign;
mod carrier;
pub mod connect;
pub mod idle;
mod pending;
pub mod plan;
pub mod retry;
mod shared;
mod websocket;

pub use retry::Failure;

use weir_backend::{Lease, Observation};
use weir_containers::PooledFuture;

use crate::ending::During;
use crate::stream::{Phase, Stream};

impl Stream {
    /// Returns once there is a server, a slot on it and a connection to it.
    pub(crate) async fn reach_server(&mut self) -> Phase {
        loop {
            if self.server.lease.is_none() && !self.backend.is_transparent() {
                self.assign().await?;
            }
            self.enter(During::Connect);
            // What an earlier attempt came to does not count for this one.
            self.timers.connect = None;
            self.timers.response = None;
            match self.connect().await {
                Ok(()) => {
                    self.entry.server_descriptor.set(self.server.descriptor());
                    self.remember_server();
                    self.observe(Some(Observation::Connected));
                    self.timers.connect = Some(self.elapsed());
                    return Ok(());
                }
                Err(connect::ConnectError::Stop(stop)) => return Err(stop),
                Err(connect::ConnectError::Failed(failure)) => {
                    PooledFuture::new(self.retry_after(failure)).await?
                }
            }
        }
    }

    /// What this stream's traffic showed of its server, where that counts as a check (`observe`).
    #[inline]
    pub(crate) fn observe(&self, observation: Option<Observation>) {
        let is_observed = |lease: &Lease| lease.server().settings().observe.is_some();
        if self.server.lease.as_ref().is_some_and(is_observed)
            && let Some(observation) = observation
        {
            self.tell_of_server(observation);
        }
    }

    #[cold]
    fn tell_of_server(&self, observation: Observation) {
        let (Some(lease), Some(backend)) = (&self.server.lease, &self.backend.backend) else { return };
        let news = backend.observe(lease.server(), observation, weir_sched::now().as_ms());
        if let (Some(news), Some(listener)) = (news, self.instance.news.get()) {
            listener(news);
        }
    }

    /// Gives up the connection to the server, without giving it to anybody else.
    pub(crate) fn close_server(&mut self) {
        if self.server.upstream.is_some() {
            self.count_bytes();
            self.server.close();
            self.entry.server_descriptor.set(-1);
        }
    }
}
