//! The master: starts a worker, supervises it, reloads, and serves operators. It does not handle traffic.
//!
//! [`launch`] forks. The child becomes a worker, which reads and serves the configuration. The parent becomes a [`Master`], with one
//! thread and one event loop: signals, messages of its workers on the inherited socket pairs, and the master CLI. A reload re-executes
//! the program in the same process. [`carried::MasterState`] holds the state that must survive: processes, their sockets, and waiting
//! clients.
//!
//! The crate reads only the configuration lines needed for discovery, and never opens a file named in a configuration. Begin with
//! `processes.rs` (the process table, and which workers a new one replaces), then `master.rs`.

pub mod carried;
pub mod cli;
pub mod launch;
pub mod master;
pub mod notify;
pub mod processes;

pub use carried::MasterState;
pub use launch::{FirstStart, ForkSide, MasterSetup, launch};
pub use master::Master;
