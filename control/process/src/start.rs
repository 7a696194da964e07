//! How a process starts: a chain of types. Each step consumes the one before, so the compiler knows which files and sockets are opened
//! before the process changes its identity.
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
//! `doc/design/start.md` has the order of everything, with the reasons.

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
use weir_sys::signal::{self, SignalReader};

use crate::limits::Capacity;
use crate::process::{Background, Precedence, ProcessIdentity};
use crate::worker::WorkerLink;

pub use read::worker_count;

/// The command line's options for the process.
#[derive(Debug, Default)]
pub struct ProcessOptions {
    /// `-D`: go to the background, like `daemon`.
    pub daemon: bool,
    /// `-d`, `-db`: stay in the foreground, which takes precedence.
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
    /// `-sf`, `-st`: processes that this one replaces, and how they end.
    pub former: Former,
    /// `-x`: the runtime API of a process that passes its listening sockets.
    pub take_over: Option<PathBuf>,
    /// The link to the master, if one started this process.
    pub worker: Option<WorkerLink>,
    /// The process's priority before it read its configuration.
    pub precedence: Precedence,
    /// Sockets from the service manager.
    pub activated: Vec<OwnedFd>,
}

/// Processes that this one replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Former {
    pub processes: Vec<u32>,
    /// Whether they end at once (`-st`) or after their last connection (`-sf`).
    pub at_once: bool,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Done,
    /// It could not start; the reason was printed.
    Failed,
    Signal(signal::Signal),
}

/// A configuration, and the objects that its expressions refer to.
pub struct ProcessConfiguration {
    pub config: Config,
    /// The state of its servers in a former process.
    pub states: SavedStates,
    /// The sets of patterns that it loaded.
    pub patterns: Arc<PatternStore>,
    /// The public keys that it loaded.
    pub token_keys: TokenKeys,
    /// The names of its variables.
    pub variable_names: Arc<VariableNames>,
    /// The fetches that its expressions may use.
    pub registry: Arc<Registry>,
    /// The text for standard output when it serves.
    pub greeting: Option<String>,
    /// The environment after the configuration was read, `NAME=value` each.
    pub environment: Vec<String>,
}

impl Former {
    /// Sends a signal to them; false if none of them exists.
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

/// The reason why a process could not start: a text, or `None` when it was printed.
type StartFault = Option<String>;

/// The input of every step.
struct Startup {
    global: Global,
    invocation: ProcessOptions,
    /// The link to the master, if one started this process.
    link: Option<WorkerLink>,
    messages: &'static Messages,
    workers: usize,
    capacity: Capacity,
    identity: ProcessIdentity,
    greeting: Option<String>,
}

/// The links to the shell and to the kernel.
struct Outside {
    background: Option<Background>,
    signals: SignalReader,
}

fn said(what: &'static str) -> impl Fn(weir_sys::Errno) -> StartFault {
    move |errno| Some(format!("{what}: {errno}."))
}

/// Prints the faults of a configuration that could be parsed.
fn refused(faults: &[BuildError], messages: &Messages) -> StartFault {
    faults.iter().for_each(|fault| messages.alert(format!("config : {fault}")));
    Some("config : Fatal errors found in configuration.".to_owned())
}

#[cfg(test)]
mod tests;
