//! Log lines on their way through the process, beside its own loggers: messages that arrive, and lines for servers.
//!
//! ```text
//! senders ──► relay: `log-forward` ──► log targets
//!                                      a ring ──► forward ──► its server, over a connection
//!                                      log_backend: a backend in log mode ──► a ring, or a datagram
//! ```
//!
//! The crate refuses to know the format of syslog (`weir-syslog`), how loggers write lines (`weir-events`), and the configuration of
//! servers: a connection is described by a [`ForwardLine`](forward::ForwardLine). Begin with [`relay::Relay`] and [`forward::Forward`].

pub mod forward;
pub mod log_backend;
pub mod relay;
