//! The serving process, until it stops.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use weir_observe::LiveProcess;
use weir_sched::{Runtime, Watchdog};

use super::confined::all_log_sinks;
use super::{ProcessEnd, StartFault, Startup, said};
use crate::lifecycle::{Lifecycle, ServedParts};
use crate::process::Background;

/// A process with running workers.
pub(super) struct ServingProcess {
    pub start: Startup,
    pub live: LiveProcess,
    pub lifecycle: Arc<Lifecycle>,
    pub runtime: Runtime,
    pub watchdog: Watchdog,
    pub background: Option<Background>,
}

impl ServingProcess {
    /// Reports to master, shell and operator that the process is ready.
    pub(super) fn ready(mut self) -> Result<ServingProcess, StartFault> {
        if let Some(mut link) = self.start.link.take() {
            if let Some(null) = link.background.take() {
                null.replace_standard_streams().map_err(said("Cannot go to the background"))?;
            }
            link.ready().map_err(|error| Some(format!("Cannot notify the master: {error}.")))?;
        }
        self.start.messages.finish_startup();
        if let Some(greeting) = &self.start.greeting {
            // If standard output is closed, the failure cannot be reported anywhere.
            let _ = writeln!(std::io::stdout(), "{greeting}");
        }
        if let Some(background) = self.background.take() {
            background.ready();
        }
        Ok(self)
    }

    /// Waits for the end of the process.
    pub(super) fn join(self) -> Result<ProcessEnd, StartFault> {
        let ServingProcess { start, live, lifecycle, runtime, watchdog, .. } = self;
        let ended = runtime.join();
        drop(watchdog);
        if cfg!(feature = "lock-statistics") {
            say_what_locks_cost(start.workers, live.record.started_ms);
        }
        flush_logs(lifecycle.parts(), &live);
        // The kernel frees the memory of the exiting process faster than destructors.
        std::mem::forget(live);
        match (lifecycle.ended_by(), ended) {
            (0, Ok(())) => Ok(ProcessEnd::Done),
            (0, Err(_)) => Err(Some("A worker has died.".to_owned())),
            (signal, _) => Ok(ProcessEnd::Signal(signal)),
        }
    }
}

/// Prints the cost of each kind of lock, and its share of the workers' time (R82, R83).
fn say_what_locks_cost(workers: usize, started_ms: u64) {
    let elapsed_ns = weir_sched::now().as_ms().saturating_sub(started_ms).saturating_mul(1_000_000);
    for counters in weir_sync::lock_counters() {
        let share = counters.share_of_run_time(workers, elapsed_ns);
        // If standard error is closed, the failure cannot be reported anywhere.
        let _ = writeln!(std::io::stderr(), "{counters}\tshare of run time: {share:.3} %");
    }
}

/// Waits a limited time for pending log messages and traces to be written.
fn flush_logs(served: &ServedParts, live: &LiveProcess) {
    for sink in all_log_sinks(&served.instance, &served.relays.sinks, &served.peers.sinks) {
        sink.flush(LAST_LOGS);
    }
    for sink in live.record.events.sinks.all() {
        sink.flush(LAST_LOGS);
    }
}

/// How long an exiting process waits for a slow reader of its logs.
const LAST_LOGS: Duration = Duration::from_secs(1);
