//! The state that survives a re-execution of the program: three environment variables, and the file descriptors listed in them.
//!
//! `HAPROXY_PROCESSES` has HAProxy's format, so that a running HAProxy master can be reloaded into weir. `WEIR_MASTER` has the
//! remaining state. Invalid records and numbers are ignored. At worst, inherited state is lost.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use weir_sys::{process, socket};

use crate::processes::{Processes, WorkerProcess, WorkerState};

/// The variable with the list of processes.
pub const PROCESSES: &str = "HAPROXY_PROCESSES";
/// The variable that marks a re-execution.
pub const REEXECUTED: &str = "HAPROXY_MWORKER_REEXEC";
/// The variable with the remaining state.
pub const MASTER: &str = "WEIR_MASTER";
/// All variables of this module. Hidden from the configuration and from workers.
pub const VARIABLES: [&str; 3] = [PROCESSES, REEXECUTED, MASTER];

/// The state of a master before its re-execution.
#[derive(Debug)]
pub struct MasterState {
    /// The processes. The reload count of each worker already includes this reload.
    pub processes: Processes,
    /// The socket pair that carries client connections waiting for the result of the reload. Receive from the first end.
    pub waiting: Option<(OwnedFd, OwnedFd)>,
    /// The listening sockets of the master CLI.
    pub sockets: Vec<OwnedFd>,
    /// Whether former workers stop immediately when the new one serves.
    pub at_once: bool,
    /// `no-exit-on-failure` of the former configuration. Applies if the new one cannot be read.
    pub stays: bool,
    /// `mworker-max-reloads` of the former configuration. Applies if the new one cannot be read.
    pub reloads_max: u32,
}

impl MasterState {
    /// Takes the state from the environment and the inherited descriptors. `None` on a first start. Call it only once.
    pub fn take(variable: impl Fn(&str) -> Option<String>, version: &str, now: u64) -> Option<MasterState> {
        variable(REEXECUTED)?;
        let mut inheritance = Inheritance::default();
        let mut processes = Processes::new(process::id(), now, version.to_owned());
        let mut given = None;
        let written = variable(PROCESSES)?;
        for record in written.split('|').filter(|record| !record.is_empty()) {
            let fields = CarriedFields(record);
            read_process(&fields, &mut processes, &mut inheritance);
            if fields.value("type") == Some("m") && given.is_none() {
                // The socket pair through which HAProxy's master passes the connections of clients that requested the reload.
                given = fields.value("cfd").zip(fields.value("fd"));
            }
        }
        let own = variable(MASTER).unwrap_or_default();
        let own = CarriedFields(&own);
        let waiting = own.value("waiting").and_then(|pair| pair.split_once(',')).or(given);
        Some(MasterState {
            processes,
            waiting: waiting.and_then(|(out, into)| Some((inheritance.take(out)?, inheritance.take(into)?))),
            sockets: own
                .value("sockets")
                .into_iter()
                .flat_map(|list| list.split(','))
                .filter_map(|number| inheritance.take(number))
                .collect(),
            at_once: own.number("at_once") == Some(1),
            stays: own.number("stays") == Some(1),
            reloads_max: own.number("reloads_max").unwrap_or(crate::launch::RELOADS_MAX),
        })
    }
}

/// The variables for the next execution, as `NAME=value`. The caller makes the descriptors inheritable.
pub fn variables(
    processes: &Processes,
    waiting: &(OwnedFd, OwnedFd),
    sockets: &[OwnedFd],
    at_once: bool,
    stays: bool,
    reloads_max: u32,
) -> [String; 3] {
    let sockets: Vec<String> = sockets.iter().map(|socket| socket.as_raw_fd().to_string()).collect();
    let own = format!(
        "waiting={},{};sockets={};at_once={};stays={};reloads_max={reloads_max}",
        waiting.0.as_raw_fd(),
        waiting.1.as_raw_fd(),
        sockets.join(","),
        u8::from(at_once),
        u8::from(stays),
    );
    [format!("{PROCESSES}={}", written(processes)), format!("{REEXECUTED}=1"), format!("{MASTER}={own}")]
}

/// The process list for the next execution, with all reload counts incremented.
fn written(processes: &Processes) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "|type=m;fd=-1;pid={};reloads={};failedreloads={};timestamp={};id=;version={}",
        processes.pid,
        processes.reloads + 1,
        processes.failed,
        processes.started,
        processes.version
    );
    for worker in &processes.workers {
        let _ = write!(
            text,
            "|type=w;fd={};pid={};reloads={};failedreloads=0;timestamp={};id=;version={};state={};told={}",
            worker.channel.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            worker.pid,
            worker.reloads + 1,
            worker.started,
            worker.version,
            if worker.state == WorkerState::Leaving { "leaving" } else { "ready" },
            u8::from(worker.stop_requested)
        );
    }
    text
}

fn read_process(fields: &CarriedFields<'_>, processes: &mut Processes, inheritance: &mut Inheritance) {
    let Some(pid) = fields.number("pid") else { return };
    let started = fields.value("timestamp").and_then(|text| text.parse().ok()).unwrap_or(processes.started);
    let reloads = fields.number("reloads").unwrap_or(0);
    match fields.value("type") {
        Some("m") => {
            processes.reloads = reloads;
            processes.failed = fields.number("failedreloads").unwrap_or(0);
            processes.started = started;
        }
        Some("w") if processes.workers.len() < MOST_WORKERS => processes.workers.push(WorkerProcess {
            pid,
            // The former master already ordered this worker to leave. It does not get the order again.
            state: if fields.value("state") == Some("leaving") {
                WorkerState::Leaving
            } else {
                WorkerState::Ready
            },
            reloads,
            started,
            version: fields.value("version").unwrap_or_default().to_owned(),
            stop_requested: fields.number("told") == Some(1),
            channel: fields.value("fd").and_then(|number| inheritance.take(number)),
        }),
        _ => {}
    }
}

/// Fields `name=value`, separated by semicolons.
struct CarriedFields<'f>(&'f str);

impl<'f> CarriedFields<'f> {
    fn value(&self, name: &str) -> Option<&'f str> {
        self.0
            .split(';')
            .find_map(|field| field.split_once('=').filter(|(known, _)| *known == name))
            .map(|f| f.1)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.value(name)?.parse().ok()
    }
}

/// File descriptors inherited by number. Each can be taken only once.
#[derive(Default)]
struct Inheritance {
    taken: BTreeSet<i32>,
}

impl Inheritance {
    fn take(&mut self, number: &str) -> Option<OwnedFd> {
        // The standard streams are never among the inherited descriptors.
        let number = number.parse().ok().filter(|&number: &i32| number > 2)?;
        if !self.taken.insert(number) {
            return None;
        }
        let descriptor = process::inherited_descriptor(number).ok()?;
        process::set_inheritable(&descriptor, false).ok()?;
        // HAProxy's master uses blocking descriptors.
        socket::set_nonblocking(&descriptor).ok()?;
        Some(descriptor)
    }
}

/// Maximum number of workers: more than any number of reloads leaves running.
const MOST_WORKERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::fd::IntoRawFd;

    fn taken(processes: &str, own: &str) -> Option<MasterState> {
        let variable = |name: &str| match name {
            PROCESSES => Some(processes.to_owned()),
            MASTER => Some(own.to_owned()),
            REEXECUTED => Some("1".to_owned()),
            _ => None,
        };
        MasterState::take(variable, "v2", 100)
    }

    #[test]
    fn r123_the_master_state_survives_a_reexecution_and_counts_the_reload() {
        let (channel, _far) = socket::stream_pair().expect("a pair");
        let waiting = socket::stream_pair().expect("a pair");
        let mut processes = Processes::new(1, 7, "v1".into());
        processes.reloads = 4;
        processes.failed = 2;
        processes.begin(11, 8, process::duplicate(&channel).expect("a descriptor"));
        processes.begin(12, 9, channel);
        processes.workers[0].state = WorkerState::Ready;
        processes.workers[1].state = WorkerState::Leaving;
        processes.workers[1].stop_requested = true;
        let texts = variables(&processes, &waiting, &[], true, true, 3);
        let value = |at: usize| texts[at].split_once('=').expect("a name").1.to_owned();
        // Inherited descriptors do not have an owner until they are taken.
        for worker in &mut processes.workers {
            worker.channel.take().map(IntoRawFd::into_raw_fd);
        }
        let _ = (waiting.0.into_raw_fd(), waiting.1.into_raw_fd());
        let carried = taken(&value(0), &value(2)).expect("a second start");
        let found = &carried.processes;
        assert_eq!((found.reloads, found.failed, found.started), (5, 2, 7));
        assert_eq!((carried.at_once, carried.stays, carried.reloads_max), (true, true, 3));
        assert!(carried.waiting.is_some() && carried.sockets.is_empty());
        let workers: Vec<_> = found
            .workers
            .iter()
            .map(|w| (w.pid, w.state, w.reloads, w.stop_requested, w.version.as_str(), w.channel.is_some()))
            .collect();
        assert_eq!(
            workers,
            [(12, WorkerState::Ready, 1, false, "v1", true), (11, WorkerState::Leaving, 1, true, "v1", true)]
        );
    }

    #[test]
    fn reads_the_process_list_in_haproxys_format() {
        let carried = taken(
            "|type=w;fd=-1;pid=26986;reloads=1;failedreloads=0;timestamp=51;id=;version=2.6.12|type=m;fd=-1;pid=26233;\
             reloads=2;failedreloads=1;timestamp=39;id=;version=(null)|type=p;pid=3",
            "",
        )
        .expect("a second start");
        assert_eq!(
            (carried.processes.reloads, carried.processes.failed, carried.processes.started),
            (2, 1, 39)
        );
        assert_eq!(carried.processes.current().map(|worker| worker.pid), Some(26986));
        assert!(carried.waiting.is_none());
        assert!(MasterState::take(|_| None, "v", 0).is_none());
        // Since HAProxy 3.1, the master's own socket pair. The connection of the client that requested the reload is received from it.
        let (out, into) = socket::stream_pair().expect("a pair");
        let (out, into) = (out.into_raw_fd(), into.into_raw_fd());
        let text = format!(
            "|type=m;fd={into};cfd={out};pid=1;reloads=1;failedreloads=0;timestamp=51;id=;version=\
             |type=w;fd=-1;cfd=-1;pid=7542;reloads=1;failedreloads=0;timestamp=51;id=;version=3.2.26-1"
        );
        let carried = taken(&text, "").expect("a second start");
        let waiting = carried.waiting.expect("both are there");
        assert_eq!((waiting.0.as_raw_fd(), waiting.1.as_raw_fd()), (out, into));
        assert_eq!(carried.processes.current().map(|worker| worker.pid), Some(7542));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_process_lists_never_panics(processes in "[|;=,a-z0-9-]{0,120}", own in "[|;=,a-z-]{0,80}") {
            // Remove the digits after `fd=`, so that no descriptor of the test process is taken.
            let processes = processes.replace("fd=", "");
            let _ = taken(&processes, &own);
        }
    }
}
