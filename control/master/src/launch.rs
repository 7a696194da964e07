//! The start of a master, and the second half of each reload: creates the socket pair, forks, and continues on both sides.

use std::fs::File;
use std::os::fd::OwnedFd;

use weir_observe::messages::Messages;
use weir_process::process::{Background, PidFile, wait_for_byte};
use weir_process::worker::WorkerLink;
use weir_sys::process::{self, Fork};
use weir_sys::signal::{self, Signal, SignalReader};
use weir_sys::{child, socket};

use crate::carried::MasterState;
use crate::cli::MasterSockets;
use crate::master::Master;
use crate::notify::Supervisor;
use crate::processes::Processes;

/// The settings of a master, kept for its next execution in a reload.
pub struct MasterSetup {
    /// The path of the program, for re-execution.
    pub program: Vec<u8>,
    /// Its command line, without the options that only a first start needs.
    pub words: Vec<Vec<u8>>,
    /// Its original environment, `NAME=value` each.
    pub environment: Vec<Vec<u8>>,
    /// Its original working directory.
    pub folder: OwnedFd,
    /// `no-exit-on-failure`.
    pub stays: bool,
    /// `mworker-max-reloads`.
    pub reloads_max: u32,
    /// The output of `show env`.
    pub shown_environment: Vec<String>,
    /// The text for `show version`.
    pub version: String,
    /// The service manager to notify (`-Ws`).
    pub service: Supervisor,
    /// Whether the configuration was readable. If not, the error has been logged.
    pub readable: bool,
}

/// The remaining steps of a first start, done when the first worker is ready. A failed start skips them.
#[derive(Default)]
pub struct FirstStart {
    /// The link to the parent process, which waits for the start, if the master runs in the background.
    pub background: Option<Background>,
    pub pid_file: Option<PidFile>,
}

/// The two sides of the fork.
pub enum ForkSide {
    /// A worker, which reads the configuration and serves.
    Worker(WorkerLink),
    Master(Box<Master>),
}

/// Forks a worker. `None` if a first start failed. The error has been logged.
///
/// The process must have only one thread.
pub fn launch(
    setup: MasterSetup,
    carried: Option<MasterState>,
    start: FirstStart,
    mut sockets: MasterSockets,
    messages: &'static Messages,
) -> Option<ForkSide> {
    let first = carried.is_none();
    let now = wall_seconds();
    let carried = carried.map_or_else(|| fresh(&setup, now), Ok);
    let mut carried =
        carried.map_err(|errno| messages.alert(format!("Cannot start a master: {errno}."))).ok()?;
    if let Ok(file) = child::memory_file("weir-startup-logs") {
        messages.share(File::from(file));
    }
    // From here on, no signal and no exit of a worker is missed.
    let signals = SignalReader::new(&SIGNALS);
    let signals =
        signals.map_err(|errno| messages.alert(format!("Cannot receive signals: {errno}."))).ok()?;
    let started = if setup.readable { fork(&mut carried, now, messages) } else { Ok(None) };
    match started {
        Ok(Some(mut link)) => {
            link.background = start.background.map(Background::into_null_device);
            sockets.leave_to_the_master();
            drop((signals, carried, sockets));
            return Some(ForkSide::Worker(link));
        }
        Ok(None) => {}
        Err(errno) => messages.alert(format!("[weir.main()] Cannot fork: {errno}")),
    }
    if first && carried.processes.starting().is_none() {
        return None;
    }
    Some(ForkSide::Master(Box::new(Master::new(
        setup,
        carried,
        first.then_some(start),
        sockets,
        signals,
        messages,
    ))))
}

fn fresh(setup: &MasterSetup, now: u64) -> weir_sys::Result<MasterState> {
    Ok(MasterState {
        processes: Processes::new(process::id(), now, setup.version.clone()),
        waiting: Some(socket::stream_pair()?),
        sockets: Vec::new(),
        at_once: false,
        stays: setup.stays,
        reloads_max: setup.reloads_max,
    })
}

/// Forks. `Some` in the worker.
fn fork(carried: &mut MasterState, now: u64, messages: &Messages) -> weir_sys::Result<Option<WorkerLink>> {
    let (ours, theirs) = socket::stream_pair()?;
    let current = carried.processes.current().and_then(|worker| worker.channel.as_ref());
    // Without this socket, the worker binds the addresses anew, which leaves a short gap.
    let former = current.and_then(|channel| process::duplicate(channel).ok());
    match process::fork()? {
        Fork::Child => {
            drop(ours);
            // Allow signals to stop the worker while it reads its configuration.
            signal::unblock_all()?;
            // Wait until the master has recorded the worker.
            if !wait_for_byte(&theirs) {
                process::end(1);
            }
            Ok(Some(WorkerLink { channel: theirs, former, background: None }))
        }
        Fork::Parent(pid) => {
            drop(theirs);
            messages.announce(format!("Initializing new worker ({pid})"));
            // If the worker has already exited, it is reaped like any other.
            let _ = socket::send(&ours, b"g", false);
            carried.processes.begin(pid, now, ours);
            Ok(None)
        }
    }
}

/// Current time of the wall clock, in seconds.
pub(crate) fn wall_seconds() -> u64 {
    weir_sys::time::wall_ns() / 1_000_000_000
}

/// The signals that a master handles.
const SIGNALS: [Signal; 9] = [
    signal::SIGCHLD,
    signal::SIGUSR2,
    signal::SIGHUP,
    signal::SIGUSR1,
    signal::SIGTERM,
    signal::SIGINT,
    signal::SIGTTOU,
    signal::SIGTTIN,
    signal::SIGQUIT,
];
/// The default of `mworker-max-reloads`.
pub const RELOADS_MAX: u32 = 50;

#[cfg(test)]
mod tests {
    use weir_config::StreamKeywords;
    use weir_config::proxy::FilterTable;
    use weir_config::rules::ActionTable;
    use weir_config::vocabulary::{DefaultValue, words};

    use super::*;

    static ACTIONS: ActionTable = ActionTable::new(&[]);
    static FILTERS: FilterTable = FilterTable::new(&[]);
    static KEYWORDS: StreamKeywords = StreamKeywords::new(&ACTIONS, &FILTERS);

    #[test]
    fn the_default_of_mworker_max_reloads_equals_the_manuals() {
        let words = words(&KEYWORDS);
        let word = words.iter().find(|word| word.name == "mworker-max-reloads").expect("a word");
        let Some(DefaultValue::Described(text)) = word.default else { panic!("{:?}", word.default) };
        assert_eq!(text, format!("`{RELOADS_MAX}`"));
    }
}
