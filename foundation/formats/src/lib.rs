//! Text that every floor writes alike.
//!
//! - [`civil`]: dates of the calendar from seconds, and back. The names of months and weekdays.
//! - [`json`]: strings of JSON, with the escapes that HAProxy's users know.
//!
//! The crate must not know clocks, time zones, locales and files: seconds and offsets are arguments. It allocates nothing, so that
//! `proto` and `language` may import it. Begin with [`CivilTime::at`].

pub mod civil;
pub mod json;

pub use civil::{CivilTime, WallTime};
