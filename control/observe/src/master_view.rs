//! The runtime API's view of a process without traffic: a master with `mcli-debug-mode` on.
//!
//! A master does not have proxies, traffic listeners or a configuration. So its [`LiveProcess`] is built from an empty
//! configuration: commands find no server to change, and show the process's own state. It is created on first use and then kept.
//! Only the counters that must cover the time before are kept from startup on.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use weir_assemble::{BuiltInstance, NameServersPlan, PeersPlan, ProcessValues, SavedStates, SystemResolver};
use weir_model::Config;
use weir_net::{ConnectionLimit, Permit};
use weir_stream::instance::{Hooks, Instance, InstanceIdentity};
use weir_stream::worker::ProcessCounters;
use weir_sync::CachePadded;
use weir_syntax::SharedFiles;
use weir_sys::{process as system, users};

use super::record::{CliSocket, RecordedLimits};
use super::{LiveProcess, ProcessRecord, StatisticsPage, count_client, pulse, work_target};
use crate::files::SystemFiles;
use crate::messages::Messages;

/// A process without traffic, with its counters. It has one worker.
pub struct MasterView {
    began_ns: u64,
    began_wall_us: u64,
    clients: Arc<ConnectionLimit>,
    /// The counters. They move into the instance when it is created.
    counters: RefCell<Vec<Arc<CachePadded<ProcessCounters>>>>,
    /// The time from startup until the process was ready.
    boot_ms: Cell<u32>,
    live: OnceCell<LiveProcess>,
}

impl MasterView {
    /// A process that starts now.
    pub fn begin() -> Self {
        MasterView {
            began_ns: weir_sched::precise_ns(),
            began_wall_us: weir_sched::wall_us(),
            clients: Arc::default(),
            counters: RefCell::new(vec![Arc::default()]),
            boot_ms: Cell::new(0),
            live: OnceCell::new(),
        }
    }

    /// Records that the process is ready.
    pub fn ready(&self) {
        let boot_ms = weir_sched::precise_ns().saturating_sub(self.began_ns) / 1_000_000;
        self.boot_ms.set(u32::try_from(boot_ms).unwrap_or(u32::MAX));
    }

    /// Counts an operator's connection. The permit counts against the limit. `None` if the limit is reached.
    pub fn meet(&self) -> Option<Permit> {
        self.count(count_client);
        Permit::enter(Arc::clone(&self.clients), u32::MAX)
    }

    /// Counts bytes sent to operators.
    pub fn sent(&self, bytes: usize) {
        self.count(|counters| counters.bytes_out.add(bytes as u64));
    }

    fn count(&self, count: impl FnOnce(&ProcessCounters)) {
        match self.live.get() {
            Some(live) => live.instance.process_counters.first().map(|counters| count(counters)),
            None => self.counters.borrow().first().map(|counters| count(counters)),
        };
    }

    /// The state of the process. `None` before its first use.
    pub fn seen(&self) -> Option<LiveProcess> {
        self.live.get().cloned()
    }

    /// The state of the process, created on first use, with the master CLI sockets. Call it on the master's worker.
    pub fn look(
        &self,
        messages: &'static Messages,
        sockets: impl FnOnce() -> Vec<CliSocket>,
        leaves: bool,
    ) -> LiveProcess {
        let live = self.live.get_or_init(|| {
            let live = self.make(messages, sockets().into_iter().map(Arc::new).collect());
            live.instance.stopping.store(leaves, SeqCst);
            weir_memory::name_work_with(work_target::work_name);
            pulse::start_late(live.clone(), self.began_ns);
            live
        });
        live.clone()
    }

    fn make(&self, messages: &'static Messages, cli_sockets: Vec<Arc<CliSocket>>) -> LiveProcess {
        let nothing = Config::default();
        let resolver = SystemResolver::default();
        let events =
            weir_assemble::events(&nothing, &resolver, false).expect("without rings no ring has a fault");
        let open_files = system::descriptor_limit().soft.unwrap_or(u64::MAX);
        let open_files = u32::try_from(open_files).unwrap_or(u32::MAX);
        let hostname = users::host_name();
        let options = ProcessValues {
            files: SharedFiles::default(),
            variable_names: Arc::default(),
            workers: 1,
            connections: 0,
            open_files,
            pipes: 0,
            frontend_connections: None,
            events: &events,
            resolver: &resolver,
            states: &SavedStates::default(),
            ignore_unknown_names: false,
            identity: InstanceIdentity {
                node: hostname.clone(),
                hostname,
                process_id: system::id(),
                started_us: self.began_wall_us,
                time_zone: weir_assemble::local_time_zone(&SystemFiles),
            },
            warn: &|_| {},
            notice: &|_| {},
        };
        let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
        let BuiltInstance { mut instance, tls, .. } =
            weir_assemble::instance(nothing, options, &mut peers, &mut name_servers)
                .expect("without proxies no proxy has a fault");
        instance.process_counters = self.counters.take();
        LiveProcess::new(|live| {
            let hooks = Hooks { statistics: Some(Box::new(StatisticsPage::new(live))), ..Hooks::default() };
            let instance = instance.with_hooks(hooks);
            let record = |_: &Arc<Instance>| ProcessRecord {
                events,
                tls: Some(tls),
                messages: Some(messages),
                limits: RecordedLimits { open_files, sockets: open_files, ..RecordedLimits::default() },
                started_ms: self.began_ns / 1_000_000,
                boot_ms: AtomicU32::new(self.boot_ms.get()),
                cli_connections: Arc::clone(&self.clients),
                cli_sockets,
                ..ProcessRecord::new(1)
            };
            (instance, record)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::run_command;
    use super::*;

    static MESSAGES: Messages = Messages::new();

    #[track_caller]
    fn check(live: &LiveProcess, command: &str, lines: &[&str]) {
        let answer = run_command(live, command);
        for line in lines {
            assert!(answer.lines().any(|known| known == *line), "{line} in {answer}");
        }
    }

    #[test]
    fn the_master_answers_show_info_with_its_own_counters() {
        let done = weir_sched::run(async {
            let master_view = MasterView::begin();
            let (first, second) = (master_view.meet(), master_view.meet());
            master_view.sent(100);
            drop(first);
            assert!(master_view.seen().is_none());
            let live = master_view.look(&MESSAGES, Vec::new, false);
            master_view.sent(20);
            let pid = format!("Pid: {}", system::id());
            check(
                &live,
                "show info",
                &[&pid, "Nbthread: 1", "CumConns: 2", "TotalBytesOut: 120", "Jobs: 1", "Maxconn: 0"],
            );
            check(&live, "show sess", &[""]);
            check(&live, "set maxconn global 1", &["Value out of range."]);
            check(&live, "disable server b/s", &["No such backend."]);
            check(&live, "disable frontend f", &["No such frontend."]);
            drop(second);
            check(&live, "show info", &["Jobs: 0"]);
        });
        assert_eq!(done, Ok(Some(())));
    }
}
