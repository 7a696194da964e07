//! The live process as operators see and change it: statistics, the runtime API, the statistics page.
//!
//! Everything reads a [`Live`]: the [`Site`], which streams work with, and beside it a [`ProcessRecord`], which only
//! operators ask for. [`pulse::start`] keeps on each worker what has to be looked at once a second.

pub mod pulse;
pub mod record;

pub use record::{CliSettings, ProcessRecord, RecordedLimits};

use weir_stream::site::Site;

/// Everything that can be seen of the process.
#[derive(Clone, Copy)]
pub struct Live {
    /// What streams work with.
    pub site: &'static Site,
    /// What only operators ask for.
    pub record: &'static ProcessRecord,
}
