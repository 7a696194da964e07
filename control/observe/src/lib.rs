//! The live process as operators see and change it: statistics, the runtime API, the statistics page, metrics.
//!
//! Everything reads a [`LiveProcess`]: the [`Instance`], which streams use, and a [`ProcessRecord`], which only operators need. A process
//! that serves nothing creates them on demand: [`MasterView`]. [`StatisticsPage`] serves the statistics page and Prometheus; [`LiveTarget`]
//! is the target of a session of the runtime API; [`pulse::start`] takes the measurements of each worker once a second.
//!
//! The crate does not know how a process starts, listens and ends, and how operators reach it. Begin with [`LiveProcess`].

#[cfg(test)]
extern crate self as weir_observe;

mod activity;
mod added_servers;
mod admin;
mod checks;
mod columns;
mod descriptor_target;
pub mod files;
#[cfg(test)]
mod fixture;
mod mail;
mod master_view;
pub mod messages;
mod metrics;
mod names;
mod notices;
pub mod ocsp_updates;
pub mod operators;
pub mod pattern_care;
mod pattern_target;
mod process_metrics;
mod process_target;
mod proxy_target;
pub mod pulse;
pub mod record;
mod session_target;
mod statistics_page;
mod statistics_source;
mod table_target;
mod tls_target;
pub mod work_target;

pub use checks::CheckedProcess;
pub use master_view::MasterView;
pub use ocsp_updates::OcspRenewals;
pub use record::{CliSettings, CliSocket, FrontendSwitch, ProcessRecord, RecordedLimits};
pub use statistics_page::StatisticsPage;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use weir_backend::BackendNews;
use weir_sched::TaskKey;
use weir_stream::instance::Instance;
use weir_stream::worker::ProcessCounters;

use descriptor_target::Descriptors;
use session_target::{SessionListing, Shutdown};
use work_target::Census;

/// The observable state of the process.
#[derive(Clone)]
pub struct LiveProcess {
    /// The state that streams use.
    pub instance: Arc<Instance>,
    /// The state that only operators need.
    pub record: Arc<ProcessRecord>,
}

/// A reference to the state for objects inside the state. It is weak to avoid reference cycles.
#[derive(Clone)]
pub struct WeakLive {
    instance: Weak<Instance>,
    record: Weak<ProcessRecord>,
}

impl LiveProcess {
    /// An instance and a record that refer to each other. `make` gets a reference for the objects inside, and returns the instance and
    /// a function that makes the record once the instance is shared.
    pub fn new<R>(make: impl FnOnce(&WeakLive) -> (Instance, R)) -> LiveProcess
    where
        R: FnOnce(&Arc<Instance>) -> ProcessRecord,
    {
        let mut shared = None;
        let record = Arc::new_cyclic(|record| {
            let mut rest = None;
            let instance = Arc::new_cyclic(|instance| {
                let (made, make_record) =
                    make(&WeakLive { instance: Weak::clone(instance), record: Weak::clone(record) });
                rest = Some(make_record);
                made
            });
            let make_record = rest.expect("it was made with the instance");
            let record = make_record(&instance);
            shared = Some(instance);
            record
        });
        LiveProcess { instance: shared.expect("it was made with the record"), record }
    }

    /// A weak reference to this state.
    pub fn downgrade(&self) -> WeakLive {
        WeakLive { instance: Arc::downgrade(&self.instance), record: Arc::downgrade(&self.record) }
    }
}

impl WeakLive {
    /// The state; `None` once its owners dropped it.
    pub fn upgrade(&self) -> Option<LiveProcess> {
        Some(LiveProcess { instance: self.instance.upgrade()?, record: self.record.upgrade()? })
    }

    /// Logs the changes of servers, and starts the work that follows from them.
    pub fn report(&self, news: BackendNews) {
        if let Some(live) = self.upgrade() {
            notices::report(&live, news);
        }
    }
}

/// The target of one session of the runtime API.
pub struct LiveTarget {
    live: LiveProcess,
    /// The session's task: it is woken when other workers have answered.
    task: TaskKey,
    /// The listing of sessions in progress.
    listing: Option<SessionListing>,
    /// The listing of descriptors in progress.
    descriptors: Option<Descriptors>,
    /// The end of a session on another worker, in progress.
    shutdown: Option<Shutdown>,
    /// The question to all workers, in progress.
    census: Option<Census>,
    /// Set once the places that allocate memory have names.
    naming: Option<Arc<AtomicBool>>,
}

impl LiveTarget {
    /// The target of a session that runs in the task `task`.
    pub fn new(live: &LiveProcess, task: TaskKey) -> Self {
        LiveTarget {
            live: live.clone(),
            task,
            listing: None,
            descriptors: None,
            shutdown: None,
            census: None,
            naming: None,
        }
    }
}

/// Counts a client of the runtime API.
pub fn count_client(counters: &ProcessCounters) {
    counters.connections.increment();
    counters.requests.increment();
    counters.streams.increment();
}

/// The version of weir.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version of the configuration language.
pub const LANGUAGE: &str = "3.5.0";
/// The release date of this version.
pub const RELEASE_DATE: &str = "2026/11/20";

/// The time in milliseconds of the workers' clock.
fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}

/// Runs `work` on each worker, on this one at once. A worker with a full queue, or that has ended, is skipped.
fn on_every_worker(work: impl Fn() + Clone + Send + 'static) {
    for worker in 0..weir_sched::worker_count() {
        if worker == weir_sched::worker_index() {
            work();
        } else {
            let _ = weir_sched::send_to(worker, work.clone());
        }
    }
}
