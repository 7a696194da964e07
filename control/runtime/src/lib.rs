//! Live objects made from a configuration, and the process around them.
//!
//! [`build::instance`] turns a typed configuration into a [`weir_stream::instance::Instance`]: proxies, servers, listeners, log
//! targets, limits. Names are resolved and log targets opened here, once, before any worker starts.
//!
//! [`observe`] shows and changes live objects: statistics, the runtime API, the statistics page; [`cli_server`] serves clients of the
//! runtime API.
//!
//! The crate refuses to know how the configuration is written and what a message means. Begin with `build.rs`.

pub mod build;
pub mod cli_server;
pub mod core_dump;
pub mod files;
pub mod handover;
pub mod lifecycle;
pub mod limits;
pub mod listening;
mod log_connector;
pub mod messages;
pub mod observe;
mod privileges;
pub mod process;
pub mod start;
mod tables;
pub mod traces;
mod tuning;
mod watch;
pub mod worker;

/// The version of weir.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of the configuration language.
pub const LANGUAGE: &str = "3.5.0";
/// The release date of this version.
pub const RELEASE_DATE: &str = "2026/11/20";
