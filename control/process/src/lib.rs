//! The process: how it starts, takes its identity, listens, hands its sockets over, and ends.
//!
//! [`start`] builds the live objects (`weir_assemble`), binds, confines the process and serves; [`lifecycle`] ends, pauses and reports by
//! signals; [`cli_server`] serves clients of the runtime API; [`worker`] is the link to a master.
//!
//! The crate does not know the syntax of the configuration, the meaning of messages, and the views of operators. Begin
//! with `start.rs`.

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
