//! The process: its start, identity, listening sockets, handover to the next process, and stop.
//!
//! [`start`] builds the live objects (`weir_assemble`), binds the sockets, confines the process and serves. [`lifecycle`] handles stop,
//! pause and report signals. [`cli_server`] serves clients of the runtime API. [`worker`] is the link to the master.
//!
//! The crate does not know the configuration syntax, the protocols of traffic, or the output of operators' commands. Begin with
//! `start.rs`.

pub mod cli_server;
pub mod core_dump;
#[cfg(test)]
#[path = "../../observe/src/fixture.rs"]
mod fixture;
pub mod handover;
pub mod lifecycle;
pub mod limits;
pub mod listening;
mod log_connector;
mod privileges;
pub mod process;
pub mod start;
mod tables;
mod tuning;
mod watch;
pub mod worker;
