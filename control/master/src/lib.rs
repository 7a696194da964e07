//! The master: starts a worker early, watches it, reloads, and speaks with operators. It knows nothing of traffic.
//!
//! [`launch`] forks; the child goes on as a worker, which reads and serves the configuration, the parent becomes a
//! [`Master`]. A master has one thread and one loop: signals, what its worker says over the pair of sockets that both
//! inherited, and its own command line. A reload executes the program once more over itself; what has to outlive that is
//! in [`carried::Carried`]: the processes, their sockets, and who waits for an answer.
//!
//! The crate refuses to know what a configuration says beyond the words that discovery reads, and never opens a file that
//! a configuration names. Begin with `processes.rs` (what is known of each process, and whom a new worker replaces), then
//! `master.rs`.

pub mod carried;
pub mod cli;
pub mod launch;
pub mod master;
pub mod notify;
pub mod processes;

pub use carried::Carried;
pub use launch::{FirstStart, Setup, Side, launch};
pub use master::Master;
