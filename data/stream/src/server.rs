//! Reaches a server: choice, slot, connection, retries.
//!
//! Shared by HTTP and TCP: [`Stream::reach_server`] returns with a lease and a connection.

mod agents;
pub mod applications;
pub mod assign;
mod carrier;
pub mod connect;
pub mod idle;
mod key;
mod pending;
pub mod plan;
pub mod retry;
mod served;
mod shared;
mod websocket;

pub use retry::AttemptFailure;

use weir_backend::{Lease, Observation, TrafficSample};
use weir_containers::PooledFuture;

use crate::ending::During;
use crate::entry::StreamSide;
use crate::stream::PhaseResult;
use crate::stream::engines;
use crate::stream::phases::ServerPhase;

impl ServerPhase {
    /// Returns once the stream has a server, a slot on it and a connection to it.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub(crate) fn reach_server(&mut self) -> impl Future<Output = PhaseResult> {
        async move {
            loop {
                if self.stream.server.lease.is_none() && !self.stream.backend.is_transparent() {
                    self.stream.choice_phase().assign().await?;
                }
                self.stream.enter(During::Connect);
                // Clears the times of an earlier attempt.
                self.stream.timers.connect = None;
                self.stream.timers.response = None;
                match self.connect().await {
                    Ok(()) => {
                        self.stream.entry.server_descriptor.set(self.stream.server.descriptor());
                        if let Some(upstream) = &self.stream.server.upstream {
                            self.stream.entry.note_carrier(StreamSide::Server, &upstream.connector);
                        }
                        self.stream.tracking_mut().remember_server();
                        self.observe(Some(Observation::Connected));
                        self.stream.timers.connect = Some(self.stream.elapsed());
                        if engines::has_events(&self.stream, engines::SERVER_SESSION) {
                            PooledFuture::new(self.stream.engine_phase().begin_server_session()).await?;
                        }
                        return Ok(());
                    }
                    Err(connect::ServerConnectError::Stop(stop)) => return Err(stop),
                    Err(connect::ServerConnectError::Failed(failure)) => {
                        PooledFuture::new(self.retry_after(failure)).await?
                    }
                }
            }
        }
    }

    /// Reports an observation of the stream's server, if a setting uses it (`observe`, `outlier-ejection`, `balance latency`).
    #[inline]
    pub(crate) fn observe(&self, observation: Option<Observation>) {
        let is_observed = |lease: &Lease| lease.server().is_observed();
        if self.stream.server.lease.as_ref().is_some_and(is_observed)
            && let Some(observation) = observation
        {
            self.report_observation(observation);
        }
    }

    #[cold]
    fn report_observation(&self, observation: Observation) {
        let (Some(lease), Some(backend)) = (&self.stream.server.lease, &self.stream.backend.backend) else {
            return;
        };
        // The measured time starts with the connection attempt, or with the wait for the response.
        let began = match observation {
            Observation::Connected => self.stream.timers.queue,
            _ => self.stream.timers.connect,
        };
        let took_ms = began.map_or(0, |began| self.stream.elapsed().ms().saturating_sub(began.ms()));
        let seen = TrafficSample { observation, worker: weir_sched::worker_index(), took_ms };
        let news = backend.observe(lease.server(), seen, weir_sched::now().as_ms());
        if let (Some(news), Some(listener)) = (news, &self.stream.frontend.instance().hooks.news) {
            listener(news);
        }
    }

    /// Closes the connection to the server, so that no other stream uses it.
    pub(crate) fn close_server(&mut self) {
        if self.stream.server.upstream.is_some() {
            self.stream.counts_mut().count_bytes();
            self.stream.server.close();
            self.stream.entry.server_descriptor.set(-1);
        }
    }
}
