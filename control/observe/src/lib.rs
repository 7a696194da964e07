//! The live process from the operator's view: statistics, the runtime API, the statistics page, metrics.
//!
//! Everything reads a [`LiveProcess`]: the [`Instance`], used by streams, and a [`ProcessRecord`], used only by operators. A process
//! without traffic creates them on demand: [`MasterView`]. [`StatisticsPage`] serves the statistics page and Prometheus. [`LiveTarget`]
//! executes the operations of a runtime API session. [`pulse::start`] takes each worker's measurements once a second.
//!
//! The crate does not know how a process starts, listens and stops, nor how operators connect. Begin with [`LiveProcess`].

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
mod script_commands;
mod script_events;
mod script_process;
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
pub use script_process::LiveScripts;
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
    /// The state used by streams.
    pub instance: Arc<Instance>,
    /// The state used only by operators.
    pub record: Arc<ProcessRecord>,
}

/// A weak reference to the state, for objects inside the state. Avoids reference cycles.
#[derive(Clone)]
pub struct WeakLive {
    instance: Weak<Instance>,
    record: Weak<ProcessRecord>,
}

impl LiveProcess {
    /// Creates an instance and a record that refer to each other. `make` receives a weak reference for the objects inside. It returns
    /// the instance, and a function that creates the record from the shared instance.
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

    /// The state itself. `None` while something else refers to it.
    pub fn into_parts(self) -> Option<(Instance, ProcessRecord)> {
        Some((Arc::into_inner(self.instance)?, Arc::into_inner(self.record)?))
    }

    /// A weak reference to this state.
    pub fn downgrade(&self) -> WeakLive {
        WeakLive { instance: Arc::downgrade(&self.instance), record: Arc::downgrade(&self.record) }
    }
}

impl WeakLive {
    /// A strong reference. `None` if the state was dropped.
    pub fn upgrade(&self) -> Option<LiveProcess> {
        Some(LiveProcess { instance: self.instance.upgrade()?, record: self.record.upgrade()? })
    }

    /// Logs changes of servers and starts their follow-up work.
    pub fn report(&self, news: BackendNews) {
        if let Some(live) = self.upgrade() {
            notices::report(&live, news);
        }
    }
}

/// Executes the operations of one runtime API session.
pub struct LiveTarget {
    live: LiveProcess,
    /// The session's task. Woken when other workers have replied.
    task: TaskKey,
    /// The session listing in progress.
    listing: Option<SessionListing>,
    /// The descriptor listing in progress.
    descriptors: Option<Descriptors>,
    /// The shutdown of a session on another worker, in progress.
    shutdown: Option<Shutdown>,
    /// The query to all workers, in progress.
    census: Option<Census>,
    /// Set to true once the callers that allocate memory have symbol names.
    naming: Option<Arc<AtomicBool>>,
}

impl LiveTarget {
    /// The target of the session that runs in `task`.
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

/// Counts a runtime API connection.
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

/// The current time in milliseconds of the workers' clock.
fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}

/// Runs `work` on each worker, immediately on the current one. Skips a worker that has stopped or has a full queue.
fn on_every_worker(work: impl Fn() + Clone + Send + 'static) {
    for worker in 0..weir_sched::worker_count() {
        if worker == weir_sched::worker_index() {
            work();
        } else {
            let _ = weir_sched::send_to(worker, work.clone());
        }
    }
}
