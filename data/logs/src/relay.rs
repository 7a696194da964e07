//! `log-forward` sections: receive log messages and send them to log targets.
//!
//! ```text
//! connection ──► Framer ──┐
//!                         ├──► Message ──► RelayedMessage ──► each target, at once or not at all
//! datagram ───────────────┘
//! ```
//! Relays do not queue: a complete message is sent to every target before the next one is parsed. A target drops and counts
//! messages that it cannot accept, so a slow target delays no sender. A connection holds at most one buffer, and only while the
//! buffer contains part of a message. A datagram socket holds none. The tasks have bulk priority, below traffic.

mod datagrams;
mod delivery;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use weir_events::LogSink;
use weir_model::HostStrategy;
use weir_net::{AcceptorState, ConnectionLimit};
use weir_sync::{CachePadded, Counter};
use weir_tls::{ChooseServer, Facts};

pub use datagrams::receive_datagrams;
pub use delivery::{install, relayed};
pub use stream::{StreamAcceptor, wake_sessions};

/// A live `log-forward` section.
#[derive(Debug)]
pub struct Relay {
    pub name: Arc<str>,
    pub sinks: Vec<Arc<LogSink>>,
    /// Whether messages are forwarded unparsed (`option dont-parse-log`).
    pub unparsed: bool,
    /// Whether messages on connections are newline-delimited even if they begin with an octet count.
    pub lines_only: bool,
    /// How the host field of a message is chosen.
    pub host: HostStrategy,
    /// The idle timeout of connections.
    pub client_timeout: Option<Duration>,
    pub connections: Arc<ConnectionLimit>,
    /// The limit of `connections`.
    pub connections_limit: u32,
}

/// A `bind` line of a section.
#[derive(Debug)]
pub struct ForwardListener {
    pub relay: Arc<Relay>,
    /// Whether every connection begins with a PROXY protocol header.
    pub accept_proxy: bool,
    /// The TLS settings, if connections use TLS. The TLS handshake follows the PROXY header.
    pub tls: Option<Arc<dyn ChooseServer>>,
    pub connections: Arc<ConnectionLimit>,
    /// The limit of `connections`.
    pub connections_limit: u32,
}

/// State shared by all `log-forward` sections.
pub struct Relays {
    state: AtomicU8,
    /// The number of received messages, per worker.
    received: Box<[CachePadded<Counter>]>,
    /// Counts all connections of the process.
    pub connections: Arc<ConnectionLimit>,
    /// The limit of `connections`.
    pub connections_limit: Arc<AtomicU32>,
    /// Called for each connection, on the worker that serves it.
    pub on_connection: Box<dyn Fn() + Send + Sync>,
    /// Called for each established TLS session, on the worker that serves it.
    pub on_secured: Box<dyn Fn(&Facts) + Send + Sync>,
}

impl Relays {
    /// Creates the shared state for `workers` workers. `connections` counts their connections.
    pub fn new(
        workers: usize,
        connections: Arc<ConnectionLimit>,
        connections_limit: Arc<AtomicU32>,
        on_connection: Box<dyn Fn() + Send + Sync>,
        on_secured: Box<dyn Fn(&Facts) + Send + Sync>,
    ) -> Self {
        Relays {
            state: AtomicU8::new(OPEN),
            received: (0..workers.max(1)).map(|_| CachePadded::default()).collect(),
            connections,
            connections_limit,
            on_connection,
            on_secured,
        }
    }

    /// The number of received messages, delivered or not.
    pub fn received(&self) -> u64 {
        self.received.iter().map(|counter| counter.value()).fold(0, u64::wrapping_add)
    }

    /// Whether connections and datagrams are accepted.
    pub fn state(&self) -> AcceptorState {
        match self.state.load(SeqCst) {
            OPEN => AcceptorState::Open,
            PAUSED => AcceptorState::Paused,
            _ => AcceptorState::Stopped,
        }
    }

    /// Accepts no connections until [`Relays::resume`]. The caller wakes the accept tasks.
    pub fn pause(&self) {
        let _ = self.state.compare_exchange(OPEN, PAUSED, SeqCst, SeqCst);
    }

    /// Undoes [`Relays::pause`].
    pub fn resume(&self) {
        let _ = self.state.compare_exchange(PAUSED, OPEN, SeqCst, SeqCst);
    }

    /// Stops accepting. Messages that have already arrived are still delivered. The caller wakes the tasks.
    pub fn stop(&self) {
        self.state.store(STOPPED, SeqCst);
    }

    /// Counts a message received by this worker.
    fn count(&self) {
        if let Some(counter) = self.received.get(weir_sched::worker_index()) {
            counter.increment();
        }
    }

    fn may_hold(&self) -> u32 {
        self.connections_limit.load(Relaxed)
    }
}

impl std::fmt::Debug for Relays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Relays({:?}, {} received)", self.state(), self.received())
    }
}

const OPEN: u8 = 0;
const PAUSED: u8 = 1;
const STOPPED: u8 = 2;

#[cfg(test)]
mod tests;
