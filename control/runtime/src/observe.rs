//! The live process as operators see and change it: statistics, the runtime API, the statistics page, metrics.
//!
//! Everything reads a [`Live`]: the [`Instance`], which streams work with, and beside it a [`ProcessRecord`], which only
//! operators ask for. A process that serves nothing has them once somebody looks: [`MasterView`]. [`Page`] answers for the
//! statistics page and to Prometheus; [`LiveTarget`] is what a session of the runtime API acts on; [`pulse::start`] keeps on each worker what
//! has to be looked at once a second.

mod activity;
mod added_servers;
mod admin;
mod checks;
mod columns;
#[cfg(test)]
pub(crate) mod fixture;
mod mail;
mod master_view;
mod metrics;
mod names;
mod notices;
pub(crate) mod operators;
pub(crate) mod pattern_care;
mod pattern_target;
mod process_figures;
mod process_target;
mod proxy_target;
pub mod pulse;
pub mod record;
mod session_target;
mod statistics_page;
mod statistics_source;
mod table_target;
mod tls_target;
pub(crate) mod work_target;

pub use master_view::MasterView;
pub use record::{CliSettings, CliSocket, ProcessRecord, RecordedLimits};
pub use statistics_page::Page;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_sched::TaskKey;
use weir_stream::instance::Instance;

use session_target::{Listing, Shutdown};
use work_target::Census;

/// Everything that can be seen of the process.
#[derive(Clone, Copy)]
pub struct Live {
    /// What streams work with.
    pub instance: &'static Instance,
    /// What only operators ask for.
    pub record: &'static ProcessRecord,
}

/// What one session of the runtime API acts on.
pub struct LiveTarget {
    live: Live,
    /// The session's task: it is woken when other workers have answered.
    task: TaskKey,
    /// The listing of sessions in progress.
    listing: Option<Listing>,
    /// The end of a session that another worker was asked for.
    shutdown: Option<Shutdown>,
    /// The question to all workers that is being answered.
    census: Option<Census>,
    /// Set once the places that asked for memory have names.
    naming: Option<Arc<AtomicBool>>,
}

impl LiveTarget {
    /// What a session acts on that runs in the task `task`.
    pub fn new(live: Live, task: TaskKey) -> Self {
        LiveTarget { live, task, listing: None, shutdown: None, census: None, naming: None }
    }
}

/// Now, in milliseconds of the workers' clock.
fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}

/// Has each worker do something, this one at once. A worker that takes no messages is drowning or gone, and does not.
fn on_every_worker(work: impl Fn() + Copy + Send + 'static) {
    for worker in 0..weir_sched::worker_count() {
        if worker == weir_sched::worker_index() {
            work();
        } else {
            let _ = weir_sched::send_to(worker, work);
        }
    }
}
