//! The master: starts a worker early, watches it, reloads, and serves operators. It does not know traffic.
//!
//! [`launch`] forks; the child becomes a worker, which reads and serves the configuration, and the parent becomes a
//! [`Master`]. A master has one thread and one loop: signals, messages of its workers on the inherited pairs of sockets,
//! and its own command line. A reload executes the program again in the same process; the state that must outlive that
//! is in [`carried::MasterState`]: the processes, their sockets, and waiting clients.
//!
//! The crate reads only the configuration lines that discovery needs, and never opens a file that a
//! configuration names. Begin with `processes.rs` (the table of processes, and which of them a new worker replaces), then
//! `master.rs`.

pub mod carried;
pub mod cli;
pub mod launch;
pub mod master;
pub mod notify;
pub mod processes;

pub use carried::MasterState;
pub use launch::{FirstStart, ForkSide, MasterSetup, launch};
pub use master::Master;
