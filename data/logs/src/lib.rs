//! Log lines that other processes send (`log-forward`), and log lines for servers over connections or in log backends.
//!
//! ```text
//! senders ──► relay: `log-forward` ──► log targets
//!                                      a ring ──► forward ──► its server, over a connection
//!                                      log_backend: a backend in log mode ──► a ring, or a datagram
//! ```
//!
//! The crate refuses to know the syslog format (`weir-syslog`), how loggers write lines (`weir-events`), and the configuration of
//! servers: a [`ForwardLine`](forward::ForwardLine) describes a connection. Begin with [`relay::Relay`] and [`forward::Forward`].

pub mod forward;
pub mod log_backend;
pub mod relay;
