//! Log messages of others: `log-forward` sections, from the sockets that messages come in by to the targets that they leave
//! for.
//!
//! ```text
//! connection ──► Framer ──┐
//!                         ├──► Message ──► Relayed ──► each target, at once or not at all
//! datagram ───────────────┘
//! ```
//! There is no queue here: a message that is whole leaves for every target before the next one is looked at, and what a
//! target cannot take is dropped and counted there. So a connection holds one buffer at most, and only while part of a
//! message is in it, a datagram socket none, and no target delays a sender. The tasks are bulk work: traffic goes first.
//!
//! The crate refuses to know what syslog looks like (`weir-syslog`) and how lines leave (`weir-events`). Begin with
//! [`Relay`].

#![forbid(unsafe_code)]

mod datagrams;
mod delivery;
mod stream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use weir_config::model::HostStrategy;
use weir_events::LogSink;
use weir_net::{AcceptorState, ConnectionLimit};
use weir_sync::{CachePadded, Counter};

pub use datagrams::receive_datagrams;
pub use delivery::{install, relayed};
pub use stream::{StreamAcceptor, wake_sessions};

/// A `log-forward` section, live.
#[derive(Debug)]
pub struct Relay {
    /// Its name.
    pub name: Arc<str>,
    /// Where messages go.
    pub sinks: Vec<Arc<LogSink>>,
    /// Messages are text, whatever they begin with.
    pub unparsed: bool,
    /// A message of a connection is a line, whatever it begins with.
    pub lines_only: bool,
    /// What is said about the host that a message is from.
    pub host: HostStrategy,
    /// How long a sender may say nothing.
    pub client_timeout: Option<Duration>,
    /// Its connections.
    pub connections: ConnectionLimit,
    /// How many of them there may be.
    pub connections_limit: u32,
}

/// A `bind` line of a section.
#[derive(Debug)]
pub struct ForwardListener {
    /// The section.
    pub relay: &'static Relay,
    /// Every connection begins with a PROXY protocol header.
    pub accept_proxy: bool,
    /// Its connections.
    pub connections: ConnectionLimit,
    /// How many of them there may be.
    pub connections_limit: u32,
}

/// What the sections of a process share.
pub struct Relays {
    state: AtomicU8,
    /// Messages that came, for each worker.
    received: Box<[CachePadded<Counter>]>,
    /// All connections of the process.
    pub connections: &'static ConnectionLimit,
    /// How many of them there may be.
    pub connections_limit: &'static AtomicU32,
    /// Called for each connection, on the worker that serves it.
    pub on_connection: Box<dyn Fn() + Send + Sync>,
}

impl Relays {
    /// What is shared by the sections of a process with so many workers, whose connections count with `connections`.
    pub fn new(
        workers: usize,
        connections: &'static ConnectionLimit,
        connections_limit: &'static AtomicU32,
        on_connection: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        Relays {
            state: AtomicU8::new(OPEN),
            received: (0..workers.max(1)).map(|_| CachePadded::default()).collect(),
            connections,
            connections_limit,
            on_connection,
        }
    }

    /// How many messages came, whatever became of them.
    pub fn received(&self) -> u64 {
        self.received.iter().map(|counter| counter.value()).fold(0, u64::wrapping_add)
    }

    /// Whether messages are taken.
    pub fn state(&self) -> AcceptorState {
        match self.state.load(SeqCst) {
            OPEN => AcceptorState::Open,
            PAUSED => AcceptorState::Paused,
            _ => AcceptorState::Stopped,
        }
    }

    /// No connections are accepted until [`Relays::resume`]. Whoever pauses wakes the tasks.
    pub fn pause(&self) {
        let _ = self.state.compare_exchange(OPEN, PAUSED, SeqCst, SeqCst);
    }

    /// Undoes [`Relays::pause`].
    pub fn resume(&self) {
        let _ = self.state.compare_exchange(PAUSED, OPEN, SeqCst, SeqCst);
    }

    /// Nothing is taken any more, but for what has arrived already. Whoever stops wakes the tasks.
    pub fn stop(&self) {
        self.state.store(STOPPED, SeqCst);
    }

    /// One more message came to this worker.
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
