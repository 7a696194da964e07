//! Live objects made from a configuration, and the process around them.
//!
//! [`build::instance`] turns a typed configuration into a [`weir_stream::instance::Instance`]: proxies, servers, listeners, log
//! targets, limits. Names are resolved and log targets opened here, once, before any worker starts.
//!
//! [`observe`] shows and changes what lives: statistics, the runtime API, the statistics page; [`cli_server`] speaks with
//! clients of the runtime API; [`forward`] sends what is written to rings to log servers, [`log_farm`] shares lines among those of a log backend.
//!
//! The crate refuses to know how the configuration is written and what a message means. Begin with `build.rs`.

pub mod build;
pub mod cli_server;
pub mod core_dump;
pub mod forward;
pub mod handover;
pub mod life;
pub mod limits;
pub mod listening;
pub mod log_farm;
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
/// The version of the language that weir speaks.
pub const LANGUAGE: &str = "3.5.0";
/// When this version was made.
pub const RELEASE_DATE: &str = "2026/11/20";
