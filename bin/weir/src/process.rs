//! Selects the role of the process: standalone, master, or worker of a master. Contains all steps before the full configuration is
//! read, in this order: discovery, master CLI, background, pid file, fork.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use weir_master::notify::Supervisor;
use weir_master::{FirstStart, ForkSide, MasterSetup, MasterState, cli, launch};
use weir_observe::messages::{Messages, Verbosity};
use weir_process::process::{Background, PidFile, Precedence};
use weir_process::start::{Former, ProcessOptions};
use weir_syntax::SourceMap;
use weir_sys::{process as system, signal};

use crate::arguments::{self, Arguments};
use crate::{configuration, version};

/// The next task of the process.
pub(crate) enum ProcessRole {
    /// Serve these files. The text is the address of the master CLI. `None` without a master.
    Serve(SourceMap, Box<ProcessOptions>, Option<String>),
    /// Exit with this status.
    End(u8),
}

/// The original command line and working directory, for a re-execution.
pub(crate) struct StartOrigin {
    words: Vec<Vec<u8>>,
    folder: Option<OwnedFd>,
}

impl StartOrigin {
    /// Call it before the process changes its working directory.
    pub(crate) fn new(words: &[Vec<u8>]) -> Self {
        StartOrigin { words: words.to_vec(), folder: system::current_directory().ok() }
    }
}

/// Runs the role selected by command line and configuration. In a master, returns when the master is about to exit.
pub(crate) fn run_role(
    origin: StartOrigin,
    arguments: &Arguments,
    messages: &'static Messages,
) -> ProcessRole {
    // With the standard library's stack overflow handlers, the process would survive the first SIGSEGV or SIGBUS sent from
    // outside. The master and the service manager must see the process die.
    for crash in [signal::SIGSEGV, signal::SIGBUS] {
        let _ = signal::restore_default(crash);
    }
    let carried = MasterState::take(|name| std::env::var(name).ok(), &own_version(), now());
    if carried.is_none() {
        // A background shell, nohup or a test runner may have ignored or blocked signals. A master that ignores SIGCHLD would never
        // notice exits of its children. A reload keeps its mask, since signals may be pending.
        for listened in [signal::SIGCHLD].iter().chain(&weir_process::lifecycle::SIGNALS) {
            let _ = signal::restore_default(*listened);
        }
        let _ = signal::unblock_all();
    }
    let sources = configuration::read(arguments, carried.is_some(), messages);
    if arguments.check {
        return sources
            .map_or(ProcessRole::End(1), |sources| ProcessRole::Serve(sources, Box::default(), None));
    }
    if sources.is_none() && carried.is_none() {
        return ProcessRole::End(1);
    }
    let found = sources.as_ref().map(|sources| configuration::discover(sources, arguments));
    let global = found.as_ref().map(|found| &found.global);
    let niceness = global.and_then(|global| global.tuning.niceness.startup);
    if global.is_some_and(|global| global.quiet) && messages.verbosity() == Verbosity::Normal {
        messages.set_verbosity(Verbosity::Quiet);
    }
    let wanted = arguments.master || global.is_some_and(|global| global.master_worker.is_some());
    if !wanted && carried.is_none() {
        if !arguments.master_sockets.is_empty() {
            messages.warning(
                "config : a master CLI socket was defined, but master-worker mode (-W) is not enabled.",
            );
        }
        let sources = sources.expect("without them it ended above");
        let precedence = Precedence::of_start(niceness, messages);
        return ProcessRole::Serve(
            sources,
            Box::new(ProcessOptions { precedence, ..invocation(arguments) }),
            None,
        );
    }
    let Some(folder) = origin.folder else {
        messages.alert("The current directory cannot be opened.");
        return ProcessRole::End(1);
    };
    let mut setup = MasterSetup {
        program: origin.words.first().cloned().unwrap_or_default(),
        words: arguments::without_former(&origin.words),
        environment: own_environment(),
        folder,
        stays: match global {
            Some(global) => global.master_worker.is_some_and(|master| master.stays),
            None => carried.as_ref().is_some_and(|carried| carried.stays),
        },
        reloads_max: match global {
            Some(global) => global.reloads_max.unwrap_or(launch::RELOADS_MAX),
            None => carried.as_ref().map_or(launch::RELOADS_MAX, |carried| carried.reloads_max),
        },
        shown_environment: found.as_ref().map(|found| shown(&found.environment)).unwrap_or_default(),
        version: own_version(),
        service: Supervisor::new(
            arguments.notify.then(|| std::env::var_os("NOTIFY_SOCKET")).flatten().as_deref(),
        ),
        readable: sources.is_some(),
    };
    // With notification (`-Ws`) the service manager tracks the process that it started. So `daemon` in the configuration, as
    // shipped by distributions, is ignored. `-D` is not, as in HAProxy.
    let daemon = arguments.daemon || (!arguments.notify && global.is_some_and(|global| global.daemon));
    let pid_file = arguments.pid_file.clone().or_else(|| global.and_then(|global| global.pidfile.clone()));
    let mut master = Start { arguments, messages, carried, daemon: daemon && !arguments.foreground };
    let Some((master_sockets, first)) = master.prepare(pid_file.as_deref()) else {
        return ProcessRole::End(1);
    };
    let own = |(name, value): (&str, &str)| format!("{name}={value}");
    setup.shown_environment.extend(configuration::of_a_master(&master_sockets.spelling()).map(own));
    let (reached, reexecuted) = (master_sockets.spelling(), master.carried.is_some());
    match launch(setup, master.carried, first, master_sockets, messages) {
        Some(ForkSide::Worker(link)) => {
            let precedence = Precedence::of_start(niceness, messages);
            let mut invocation = ProcessOptions { worker: Some(link), precedence, ..invocation(arguments) };
            if reexecuted {
                // HAProxy's master passes the former workers with `-sf`. This master has their list, and stops them later.
                invocation.former = Former::default();
                invocation.take_over =
                    invocation.take_over.filter(|path| !path.to_string_lossy().starts_with("sockpair@"));
            }
            // Fork a worker only if the files were readable.
            sources.map_or(ProcessRole::End(1), |sources| {
                ProcessRole::Serve(sources, Box::new(invocation), Some(reached))
            })
        }
        Some(ForkSide::Master(master)) => {
            // The master does not keep the configuration (R117).
            drop((sources, found));
            ProcessRole::End(u8::try_from(master.run()).unwrap_or(1))
        }
        None => ProcessRole::End(1),
    }
}

/// The steps before the fork.
struct Start<'a> {
    arguments: &'a Arguments,
    messages: &'static Messages,
    carried: Option<MasterState>,
    daemon: bool,
}

impl Start<'_> {
    /// On a first start, not on a reload: opens the master CLI, goes to the background (R156) and checks that the pid file is writable
    /// (R157). `None` if the process must not start. The error has been logged.
    fn prepare(&mut self, pid_file: Option<&std::path::Path>) -> Option<(cli::MasterSockets, FirstStart)> {
        let first = self.carried.is_none();
        let binds = configuration::master_sockets(self.arguments, self.messages)?;
        let sockets = self.carried.as_mut().map(|carried| std::mem::take(&mut carried.sockets));
        let pid_file = pid_file.filter(|_| first).map(PidFile::check).transpose();
        let pid_file = pid_file.map_err(|text| self.messages.alert(text)).ok()?;
        let master_sockets = cli::MasterSockets::open(&binds, sockets, self.messages);
        let master_sockets = match master_sockets {
            // Without its CLI, a reloaded master continues, but a new master must not start.
            None if first => return None,
            master_sockets => master_sockets.unwrap_or_default(),
        };
        let background = (first && self.daemon).then(Background::enter).transpose();
        let background = match background {
            Ok(background) => background,
            Err(errno) => {
                self.messages.alert(format!("[weir.main()] Cannot fork: {errno}."));
                return None;
            }
        };
        Some((master_sockets, FirstStart { background, pid_file }))
    }
}

fn invocation(arguments: &Arguments) -> ProcessOptions {
    ProcessOptions {
        daemon: arguments.daemon,
        foreground: arguments.foreground,
        pid_file: arguments.pid_file.clone(),
        maxconn: arguments.maxconn,
        proxy_maxconn: arguments.proxy_maxconn,
        memory_mb: arguments.memory_mb,
        ipv4_only: arguments.ipv4_only,
        ignore_unresolved: arguments.ignore_unresolved,
        no_reuse_port: arguments.no_reuse_port,
        former: arguments.former.clone(),
        take_over: arguments.take_over.clone(),
        worker: None,
        precedence: Precedence::default(),
        activated: system::activated_sockets(|name| std::env::var(name).ok()),
    }
}

/// The original environment of the process, without the variables added by a former execution. For the next execution.
fn own_environment() -> Vec<Vec<u8>> {
    let ours = |name: &OsString| weir_master::carried::VARIABLES.iter().any(|known| name == known);
    let variables = std::env::vars_os().filter(|(name, _)| !ours(name));
    variables.map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'=')).collect()
}

fn shown(environment: &weir_syntax::Environment) -> Vec<String> {
    let pair = |(name, value): (&[u8], &[u8])| {
        format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    environment.iter().map(pair).collect()
}

fn own_version() -> String {
    version::text(arguments::VersionForm::Version).trim().to_owned()
}

fn now() -> u64 {
    weir_sys::time::wall_ns() / 1_000_000_000
}
