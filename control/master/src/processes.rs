//! The process table: the master and its workers.
//!
//! ```text
//!            says READY             a later worker says READY
//!   init ────────────────► ready ──────────────────────────────► leaving ──► gone
//!     │                      └────────────────────────────────────────────────▲
//!     └───────────────────────────────────────────────────────────────────────┘  ends
//! ```
//!
//! The table does not send signals. It returns them as a list of [`EndOrder`]s.

use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The phase of a worker's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// The worker is reading its configuration (R134).
    Init,
    Ready,
    /// The worker serves its existing connections and accepts no new ones.
    Leaving,
}

/// One worker process, as the master knows it.
#[derive(Debug)]
pub struct WorkerProcess {
    pub pid: u32,
    pub state: WorkerState,
    /// Number of reloads since the worker started.
    pub reloads: u32,
    /// Start time, in seconds of the wall clock.
    pub started: u64,
    /// The version of weir that the worker runs.
    pub version: String,
    /// Whether the worker was ordered to stop immediately.
    pub stop_requested: bool,
    /// The master's end of the socket pair. `None` if it was lost.
    pub channel: Option<OwnedFd>,
}

/// The master and its workers, newest worker first.
#[derive(Debug)]
pub struct Processes {
    /// The master's process number.
    pub pid: u32,
    /// The master's start time, in seconds of the wall clock.
    pub started: u64,
    pub reloads: u32,
    /// Number of failed reloads since the last successful one.
    pub failed: u32,
    pub version: String,
    pub workers: Vec<WorkerProcess>,
}

/// An order to a worker to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOrder {
    /// The worker's process number.
    pub pid: u32,
    /// Whether to stop immediately or after the last connection.
    pub at_once: bool,
}

impl Processes {
    /// A master without workers.
    pub fn new(pid: u32, started: u64, version: String) -> Self {
        Processes { pid, started, reloads: 0, failed: 0, version, workers: Vec::new() }
    }

    /// Adds a newly forked worker.
    pub fn begin(&mut self, pid: u32, started: u64, channel: OwnedFd) {
        let worker = WorkerProcess {
            pid,
            state: WorkerState::Init,
            reloads: 0,
            started,
            version: self.version.clone(),
            stop_requested: false,
            channel: Some(channel),
        };
        self.workers.insert(0, worker);
    }

    /// The worker that is reading its configuration.
    pub fn starting(&self) -> Option<&WorkerProcess> {
        self.workers.iter().find(|worker| worker.state == WorkerState::Init)
    }

    /// The worker that accepts connections: the newest one in state `Ready`.
    pub fn current(&self) -> Option<&WorkerProcess> {
        self.workers.iter().find(|worker| worker.state == WorkerState::Ready)
    }

    /// The worker with this process number.
    pub fn find(&self, pid: u32) -> Option<&WorkerProcess> {
        self.workers.iter().find(|worker| worker.pid == pid)
    }

    /// Marks a starting worker as ready. Returns the orders for other workers. `None` if `pid` is not a starting worker.
    ///
    /// Two passes (R121): workers with more than `reloads_max` reloads stop immediately. Other ready workers leave, or stop
    /// immediately if `at_once`. A worker receives the order to stop immediately only once.
    pub fn ready(&mut self, pid: u32, reloads_max: u32, at_once: bool) -> Option<Vec<EndOrder>> {
        let worker = self.workers.iter_mut().find(|worker| worker.pid == pid)?;
        if worker.state != WorkerState::Init {
            return None;
        }
        worker.state = WorkerState::Ready;
        self.failed = 0;
        let mut orders = Vec::new();
        for worker in self.workers.iter_mut().filter(|worker| worker.pid != pid) {
            if worker.reloads > reloads_max && !worker.stop_requested {
                worker.state = WorkerState::Leaving;
                worker.stop_requested = true;
                orders.push(EndOrder { pid: worker.pid, at_once: true });
            }
        }
        for worker in self.workers.iter_mut().filter(|worker| worker.pid != pid && !worker.stop_requested) {
            if worker.state == WorkerState::Ready || at_once {
                worker.state = WorkerState::Leaving;
                worker.stop_requested = at_once;
                orders.push(EndOrder { pid: worker.pid, at_once });
            }
        }
        Some(orders)
    }

    /// Removes an exited process. `None` if it is not a worker.
    pub fn remove(&mut self, pid: u32) -> Option<WorkerProcess> {
        let position = self.workers.iter().position(|worker| worker.pid == pid)?;
        Some(self.workers.remove(position))
    }

    /// The output of `show proc`.
    pub fn show(&self, now: u64, debug: Option<(RawFd, RawFd)>) -> String {
        let mut text = String::new();
        let mut line =
            |pid: &str, kind: &str, reloads: &str, uptime: &str, version: &str, ends: Option<[String; 2]>| {
                let _ = write!(text, "{pid:<15} {kind:<15} {reloads:<15} {uptime:<15} {version:<15}");
                if let Some([first, second]) = ends.filter(|_| debug.is_some()) {
                    let _ = write!(text, "\t\t {first:<15} {second:<15}");
                }
                text.push('\n');
            };
        let head = Some(["<ipc_fd[0]>".to_owned(), "<ipc_fd[1]>".to_owned()]);
        line("#<PID>", "<type>", "<reloads>", "<uptime>", "<version>", head);
        let own = debug.map(|(first, second)| [first.to_string(), second.to_string()]);
        let reloads = format!("{} [failed: {}]", self.reloads, self.failed);
        line(&self.pid.to_string(), "master", &reloads, &uptime(now, self.started), &self.version, own);
        let section = |title: &str, belongs: &dyn Fn(&WorkerProcess) -> bool, always: bool| {
            let mut members = self.workers.iter().filter(|worker| belongs(worker)).peekable();
            let mut text =
                if always || members.peek().is_some() { format!("{title}\n") } else { String::new() };
            for worker in members {
                let _ = write!(
                    text,
                    "{:<15} {:<15} {:<15} {:<15} {:<15}",
                    worker.pid,
                    "worker",
                    worker.reloads,
                    uptime(now, worker.started),
                    worker.version
                );
                if debug.is_some() {
                    let channel = worker.channel.as_ref().map_or(-1, AsRawFd::as_raw_fd);
                    let _ = write!(text, "\t\t {channel:<15} {:<15}", -1);
                }
                text.push('\n');
            }
            text
        };
        let mut rest =
            section("# workers", &|worker| worker.reloads == 0 && worker.state != WorkerState::Init, true);
        rest += &section("# starting workers", &|worker| worker.state == WorkerState::Init, false);
        rest += &section("# old workers", &|worker| worker.reloads > 0, false);
        text + &rest
    }
}

fn uptime(now: u64, started: u64) -> String {
    let seconds = now.saturating_sub(started);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    format!("{days}d{hours:02}h{minutes:02}m{:02}s", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A master with workers in these states and with these reload counts, newest first.
    fn processes(workers: &[(WorkerState, u32)]) -> Processes {
        let mut processes = Processes::new(1, 0, "v".into());
        processes.workers = workers
            .iter()
            .enumerate()
            .map(|(position, &(state, reloads))| WorkerProcess {
                pid: 10 + position as u32,
                state,
                reloads,
                started: 0,
                version: "v".into(),
                stop_requested: false,
                channel: None,
            })
            .collect();
        processes
    }

    fn starting() -> WorkerProcess {
        processes(&[(WorkerState::Init, 0)]).workers.remove(0)
    }

    #[track_caller]
    fn check(workers: &[(WorkerState, u32)], reloads_max: u32, at_once: bool, expected: &[(u32, bool)]) {
        let mut processes = processes(workers);
        let orders = processes.ready(10, reloads_max, at_once).expect("the first one starts");
        let orders: Vec<_> = orders.iter().map(|order| (order.pid, order.at_once)).collect();
        assert_eq!(orders, expected);
        assert_eq!(processes.current().map(|worker| worker.pid), Some(10));
        assert!(processes.workers[1..].iter().all(|worker| worker.state == WorkerState::Leaving));
        assert_eq!(processes.ready(10, reloads_max, at_once), None);
    }

    #[test]
    fn r121_a_ready_worker_orders_older_workers_to_stop() {
        use WorkerState::{Init, Leaving, Ready};
        check(&[(Init, 0)], 50, false, &[]);
        check(&[(Init, 0), (Ready, 1)], 50, false, &[(11, false)]);
        // A worker that is already leaving does not get the order to leave again.
        check(&[(Init, 0), (Ready, 1), (Leaving, 2)], 50, false, &[(11, false)]);
        check(&[(Init, 0), (Ready, 1), (Leaving, 2), (Leaving, 3)], 2, false, &[(13, true), (11, false)]);
        check(&[(Init, 0), (Ready, 1), (Leaving, 2)], 50, true, &[(11, true), (12, true)]);
    }

    #[test]
    fn r121_a_worker_above_max_reloads_gets_one_order_to_stop_at_once() {
        use WorkerState::{Init, Ready};
        check(&[(Init, 0), (Ready, 1)], 0, false, &[(11, true)]);
        check(&[(Init, 0), (Ready, 2)], 1, true, &[(11, true)]);
        // The worker survived a failed reload and still serves, so it gets the order to leave.
        check(&[(Init, 0), (Ready, 3)], 50, false, &[(11, false)]);
    }

    /// R121: a worker that is slow to stop does not receive the order to stop immediately again.
    #[test]
    fn r121_later_reloads_do_not_repeat_an_order_to_stop_at_once() {
        use WorkerState::{Init, Ready};
        for (reloads_max, at_once) in [(1, false), (50, true)] {
            let mut processes = processes(&[(Init, 0), (Ready, 2), (WorkerState::Leaving, 3)]);
            let mut ended: Vec<u32> = Vec::new();
            for pid in [10, 20, 21, 22] {
                if pid > 10 {
                    processes.workers.iter_mut().for_each(|worker| worker.reloads += 1);
                    processes.workers.insert(0, WorkerProcess { pid, ..starting() });
                }
                let orders = processes.ready(pid, reloads_max, at_once).expect("it starts");
                ended.extend(orders.iter().filter(|order| order.at_once).map(|order| order.pid));
                if pid == 10 {
                    assert_eq!(ended, [11, 12]);
                }
            }
            let once = ended.iter().all(|pid| ended.iter().filter(|other| *other == pid).count() == 1);
            assert!(once && ended.len() >= 4, "{ended:?}");
        }
    }

    #[test]
    fn r120_r134_only_a_starting_worker_becomes_ready() {
        let mut processes = processes(&[(WorkerState::Ready, 0)]);
        assert_eq!(processes.ready(10, 1, false), None);
        assert_eq!(processes.ready(99, 1, false), None);
        assert!(processes.remove(10).is_some() && processes.remove(10).is_none());
    }

    #[test]
    fn show_proc_prints_processes_in_haproxys_layout() {
        let mut processes =
            processes(&[(WorkerState::Init, 0), (WorkerState::Ready, 0), (WorkerState::Leaving, 1)]);
        processes.reloads = 2;
        processes.failed = 1;
        assert_eq!(
            processes.show(90_061, None),
            "#<PID>          <type>          <reloads>       <uptime>        <version>      \n\
             1               master          2 [failed: 1]   1d01h01m01s     v              \n\
             # workers\n\
             11              worker          0               1d01h01m01s     v              \n\
             # starting workers\n\
             10              worker          0               1d01h01m01s     v              \n\
             # old workers\n\
             12              worker          1               1d01h01m01s     v              \n"
        );
        processes.workers.clear();
        assert_eq!(
            processes.show(0, Some((6, 7))),
            "#<PID>          <type>          <reloads>       <uptime>        <version>      \t\t <ipc_fd[0]>     \
             <ipc_fd[1]>    \n\
             1               master          2 [failed: 1]   0d00h00m00s     v              \t\t 6               7              \n\
             # workers\n"
        );
    }
}
