//! Text formats shared by all crates.
//!
//! - [`civil`]: dates of the calendar from seconds, and back. The names of months and weekdays.
//! - [`json`]: JSON strings, with HAProxy's variants of escaping.
//!
//! The crate must not know clocks, time zones, locales and files. Seconds and offsets are arguments. It does not allocate, so
//! that `proto` and `language` may import it. Begin with [`CivilTime::at`].

pub mod civil;
pub mod json;

pub use civil::{CivilTime, WallTime};
