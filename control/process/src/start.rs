//! The start of a process, as a chain of types. Each step consumes the previous state, so the compiler knows which files and sockets
//! are opened before the process changes its identity.
//!
//! ```text
//! read ─► detached ─► built ─► bound ─► settled ─► confined ─► serving ─► the end
//!   │         │         │        │         │           └ workers run, the watchdog too; no process is created any more
//!   │         │         │        │         └ root directory, user, group; log sockets are probed
//!   │         │         │        └ the pid file, UNIX sockets and files of rings get their paths; former processes get the signal to end
//!   │         │         └ sockets are open; nothing of another process has changed
//!   │         └ live objects; rings in files, launched programs, the first threads
//!   └ limits, the identity looked up; then background, signals, the log connector
//! ```
//! `doc/design/start.md` explains the complete order.

mod bound;
mod built;
mod confined;
mod read;
mod serving;
mod station;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use weir_assemble::{BuildError, SavedStates};
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_model::{Config, Global};
use weir_observe::messages::Messages;
use weir_scripts::Scripts;
use weir_sys::signal::{self, SignalReader};

use crate::limits::Capacity;
use crate::process::{Background, Precedence, ProcessIdentity};
use crate::worker::WorkerLink;

pub use read::worker_count;

/// The command line's options for the process.
#[derive(Debug, Default)]
pub struct ProcessOptions {
    /// `-D`: run in the background, like `daemon`.
    pub daemon: bool,
    /// `-d`, `-db`: stay in the foreground. Takes precedence over `daemon`.
    pub foreground: bool,
    /// `-p`.
    pub pid_file: Option<PathBuf>,
    /// `-n`.
    pub maxconn: Option<u32>,
    /// `-N`.
    pub proxy_maxconn: Option<u32>,
    /// `-m`.
    pub memory_mb: Option<u64>,
    /// `-4`.
    pub ipv4_only: bool,
    /// `-dr`.
    pub ignore_unresolved: bool,
    /// `-dR`.
    pub no_reuse_port: bool,
    /// `-sf`, `-st`: the processes to replace, and how to stop them.
    pub former: Former,
    /// `-x`: the path of the runtime API from which to fetch listening sockets.
    pub take_over: Option<PathBuf>,
    /// The link to the master. `None` without a master.
    pub worker: Option<WorkerLink>,
    /// The priority of the process before it read its configuration.
    pub precedence: Precedence,
    /// Sockets passed by the service manager.
    pub activated: Vec<OwnedFd>,
}

/// The processes to replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    pub processes: Vec<u32>,
    /// Whether to stop them immediately (`-st`) or after their last connection (`-sf`).
    pub at_once: bool,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Done,
    /// The process could not start. The error has been logged.
    Failed,
    Signal(signal::Signal),
}

/// A configuration, and the objects that its expressions refer to.
pub struct ProcessConfiguration {
    pub config: Config,
    /// The servers' states, saved by a former process.
    pub states: SavedStates,
    /// The pattern sets loaded by the configuration.
    pub patterns: Arc<PatternStore>,
    /// The public keys loaded by the configuration.
    pub token_keys: TokenKeys,
    /// The scripts of the configuration, ready to run.
    pub scripts: Option<Arc<Scripts>>,
    /// The names of variables in the configuration.
    pub variable_names: Arc<VariableNames>,
    /// The available sample fetches.
    pub registry: Arc<Registry>,
    /// The text for standard output when the process is ready.
    pub greeting: Option<String>,
    /// The environment after the configuration was read, as `NAME=value`.
    pub environment: Vec<String>,
}

impl Former {
    /// Sends a signal to the former processes. False if none of them exists.
    fn send_signal(&self, signal: signal::Signal) -> bool {
        self.processes.iter().filter(|&&process| signal::send(process, signal) == Ok(true)).count() > 0
    }
}

/// Serves a configuration until the process ends.
pub fn serve(
    prepared: ProcessConfiguration,
    invocation: ProcessOptions,
    messages: &'static Messages,
) -> ProcessEnd {
    match try_serve(prepared, invocation, messages) {
        Ok(end) => end,
        Err(fault) => {
            if let Some(text) = fault {
                messages.alert(text);
            }
            ProcessEnd::Failed
        }
    }
}

fn try_serve(
    prepared: ProcessConfiguration,
    invocation: ProcessOptions,
    messages: &'static Messages,
) -> Result<ProcessEnd, StartFault> {
    let built = read::ReadProcess::new(prepared, invocation, messages)?.detach()?.build()?;
    let confined = built.bind()?.settle()?.confine()?;
    confined.serve()?.ready()?.join()
}

/// Why the process could not start. `None` if the error has been logged already.
type StartFault = Option<String>;

/// The state used by every step.
struct Startup {
    global: Global,
    invocation: ProcessOptions,
    /// The link to the master. `None` without a master.
    link: Option<WorkerLink>,
    messages: &'static Messages,
    workers: usize,
    capacity: Capacity,
    identity: ProcessIdentity,
    greeting: Option<String>,
}

/// The links to the parent process and to the kernel.
struct Outside {
    background: Option<Background>,
    signals: SignalReader,
}

fn said(what: &'static str) -> impl Fn(weir_sys::Errno) -> StartFault {
    move |errno| Some(format!("{what}: {errno}."))
}

/// Logs the faults of a configuration that was parsed successfully.
fn refused(faults: &[BuildError], messages: &Messages) -> StartFault {
    faults.iter().for_each(|fault| messages.alert(format!("config : {fault}")));
    Some("config : Fatal errors found in configuration.".to_owned())
}

#[cfg(test)]
mod tests;
