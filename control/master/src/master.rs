//! The master's loop: signals, workers, reloads.
//!
//! ```text
//!                      a worker says READY
//!            ┌──────────────────────────────────► at rest ──┐
//!         loading                                           │ a reload: executes itself, and is
//!            └──────────────────────────────────► failed  ──┘ loading again, one worker later
//!                      the worker ended before
//! ```
//!
//! A reload requested during a load starts after that load. Several pending requests become one reload.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;

use weir_net::{Connection, Permit};
use weir_observe::messages::Messages;
use weir_observe::{LiveProcess, MasterView};
use weir_process::process::PidFile;
use weir_sched::{Class, Descriptor, Signals, Tick, WorkKind, wait};
use weir_sys::child::{self, Exit};
use weir_sys::signal::{self, Signal, SignalReader};
use weir_sys::{Errno, pass, process};

use crate::carried::{self, MasterState};
use crate::cli::{self, CliClient, MasterSocket, MasterSockets};
use crate::launch::{FirstStart, MasterSetup, wall_seconds};
use crate::processes::{EndOrder, Processes, WorkerProcess};

/// The master process. It starts, watches and replaces the workers.
pub struct Master {
    pub(crate) setup: MasterSetup,
    pub(crate) messages: &'static Messages,
    pub(crate) processes: RefCell<Processes>,
    pub(crate) loading: Cell<Loading>,
    /// The sockets of the master CLI (`-S`).
    pub(crate) sockets: MasterSockets,
    /// The master's own state for `show` commands, since this execution.
    pub(crate) own: MasterView,
    /// A socket pair that carries client connections waiting for the result of this load. Receive from the first end.
    waiting: (OwnedFd, OwnedFd),
    /// The pending reload, if one was requested.
    next: RefCell<PendingReload>,
    at_once: bool,
    /// The remaining steps of a first start.
    start: Cell<Option<FirstStart>>,
    signals: Cell<Option<SignalReader>>,
    /// Whether the workers were ordered to stop. The master exits after the last of them.
    ending: Cell<bool>,
    status: Cell<i32>,
}

/// The state of the load that this execution started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loading {
    /// A worker is reading its configuration.
    UnderWay,
    Done,
    Failed,
}

/// A reload that starts after the current load.
#[derive(Default)]
struct PendingReload {
    wanted: Option<WorkerEnd>,
    /// Connections of the clients that requested the reload.
    clients: Vec<OwnedFd>,
}

/// How former workers are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerEnd {
    /// They end after their last connection.
    Soft,
    Hard,
}

impl Master {
    pub(crate) fn new(
        setup: MasterSetup,
        carried: MasterState,
        start: Option<FirstStart>,
        sockets: MasterSockets,
        signals: SignalReader,
        messages: &'static Messages,
    ) -> Self {
        let waiting = carried.waiting.or_else(|| weir_sys::socket::stream_pair().ok());
        Master {
            setup,
            messages,
            processes: RefCell::new(carried.processes),
            loading: Cell::new(Loading::UnderWay),
            sockets,
            own: MasterView::begin(),
            waiting: waiting.expect("a process that just started has descriptors left"),
            next: RefCell::default(),
            at_once: carried.at_once,
            start: Cell::new(start),
            signals: Cell::new(Some(signals)),
            ending: Cell::new(false),
            status: Cell::new(0),
        }
    }

    /// Runs until the last worker has exited. Returns the exit status.
    pub fn run(self) -> i32 {
        let master = Rc::new(self);
        let running = master.clone();
        // The future never completes. `stop` ends the run without a result.
        let result = weir_sched::run(async move { running.live().await });
        if let Err(errno) = result {
            master.messages.alert(format!("The master cannot watch its worker: {errno}."));
            master.signal_all(signal::SIGTERM);
            return 1;
        }
        master.status.get()
    }

    async fn live(self: Rc<Self>) {
        let Some(signals) = self.signals.take().and_then(|reader| Signals::new(reader).ok()) else { return };
        for worker in &self.processes.borrow().workers {
            self.clone().listen_to(worker);
        }
        for (position, socket) in self.sockets.list().iter().enumerate() {
            if let Err(errno) = socket.open(&self, position) {
                self.messages.alert(format!("The master's command line cannot be reached: {errno}."));
            }
        }
        if self.processes.borrow().starting().is_none() {
            self.load_failed();
        }
        weir_sched::spawn(&TIDYING, Class::Normal, give_memory_back());
        self.own.ready();
        // Reap workers that exited before signals were handled.
        self.reap();
        while let Ok(signal) = signals.next().await {
            self.obey(signal);
        }
    }

    fn obey(self: &Rc<Self>, signal: Signal) {
        match signal {
            signal::SIGCHLD => self.reap(),
            signal::SIGUSR2 | signal::SIGHUP => self.reload(WorkerEnd::Soft, None),
            signal::SIGTERM | signal::SIGINT | signal::SIGUSR1 => self.end(signal),
            other => self.signal_all(other),
        }
    }

    /// Stops all workers and then the master: immediately, or each worker after its last connection.
    fn end(&self, signal: Signal) {
        self.messages.warning("Exiting Master process...");
        self.setup.service.stopping();
        self.begin_to_end();
        self.signal_all(signal);
        if self.processes.borrow().workers.is_empty() {
            self.finish();
        }
    }

    fn begin_to_end(&self) {
        self.ending.set(true);
        if let Some(live) = self.own.seen() {
            live.instance.stopping.store(true, SeqCst);
        }
    }

    /// The master's own state, for worker commands that run on the master.
    pub(crate) fn look(&self) -> LiveProcess {
        let sockets = || self.sockets.list().iter().map(MasterSocket::as_operators_see_it).collect();
        self.own.look(self.messages, sockets, self.ending.get())
    }

    fn signal_all(&self, signal: Signal) {
        for worker in &self.processes.borrow().workers {
            // If the worker has already exited, it will be reaped.
            let _ = signal::send(worker.pid, signal);
        }
    }

    fn carry_out(&self, orders: &[EndOrder]) {
        for order in orders {
            let signal = if order.at_once { signal::SIGTERM } else { signal::SIGUSR1 };
            // If the worker has already exited, it will be reaped.
            let _ = signal::send(order.pid, signal);
        }
    }

    /// Handles a worker's report that it is ready (R119 to R121).
    pub(crate) fn worker_is_ready(self: &Rc<Self>, pid: u32) {
        let reloads_max = self.setup.reloads_max;
        let Some(orders) = self.processes.borrow_mut().ready(pid, reloads_max, self.at_once) else { return };
        let start = self.start.take();
        let pid_file = start.as_ref().and_then(|start| start.pid_file.as_ref());
        let placed = pid_file.map_or(Ok(()), PidFile::write).and_then(|()| self.sockets.put_in_place());
        if let Err(text) = placed {
            self.messages.alert(text);
            self.status.set(1);
            self.begin_to_end();
            self.signal_all(signal::SIGTERM);
            return;
        }
        self.messages.announce("Loading success.");
        self.carry_out(&orders);
        self.setup.service.ready();
        if let Some(background) = start.and_then(|start| start.background) {
            background.ready();
        }
        self.loaded(Loading::Done);
    }

    /// Handles a failed load: the new worker exited early or could not be started (R124, R126).
    fn load_failed(self: &Rc<Self>) {
        self.processes.borrow_mut().failed += 1;
        if self.start.take().is_some() {
            // The service will not become ready.
            self.setup.service.start_failed();
        } else {
            self.setup.service.reload_failed();
        }
        self.loaded(Loading::Failed);
    }

    fn loaded(self: &Rc<Self>, result: Loading) {
        self.loading.set(result);
        self.answer_waiting();
        let wanted = self.next.borrow_mut().wanted.take();
        if let Some(how) = wanted {
            self.execute(how);
        }
    }

    /// Sends the result of this load to the waiting clients.
    fn answer_waiting(self: &Rc<Self>) {
        let text = self.load_status();
        while let Ok((_, clients)) = pass::receive_descriptors(&self.waiting.0, &mut [0]) {
            if clients.is_empty() {
                return;
            }
            for client in clients {
                cli::answer(self.clone(), client, text.clone());
            }
        }
    }

    /// The answer to `_loadstatus` and `reload`.
    pub(crate) fn load_status(&self) -> String {
        let success = u8::from(self.loading.get() == Loading::Done);
        format!("Success={success}\n--\n{}", self.messages.startup_logs())
    }

    /// Reaps exited workers.
    fn reap(self: &Rc<Self>) {
        while let Ok(Some((pid, exit))) = child::reap() {
            let known = self.processes.borrow().find(pid).map(|worker| worker.state);
            let was_current = self.processes.borrow().current().is_some_and(|worker| worker.pid == pid);
            match known {
                Some(crate::processes::WorkerState::Init) => self.failed_worker(pid, exit),
                Some(_) => self.former_or_current(pid, exit, was_current),
                // A child of the program that ran in this process before, not a worker.
                None => {}
            }
        }
    }

    fn failed_worker(self: &Rc<Self>, pid: u32, exit: Exit) {
        self.messages
            .warning(format!("Failed to load worker ({pid}) exited with code {} ({exit})", exit.status()));
        // The operator gets the result before any cleanup (R126).
        if self.ending.get() {
            self.loading.set(Loading::Failed);
            self.answer_waiting();
        } else {
            self.load_failed();
        }
        self.forget(pid);
        if self.processes.borrow().workers.is_empty() {
            // The first start failed (R127).
            if !self.ending.get() {
                self.status.set(exit.status().max(1));
            }
            self.finish();
        }
    }

    fn former_or_current(self: &Rc<Self>, pid: u32, exit: Exit, was_current: bool) {
        let status = exit.status();
        let expected = matches!(status, 0 | INTERRUPTED | TERMINATED);
        let text = |which: &str| format!("{which} worker ({pid}) exited with code {status} ({exit})");
        self.forget(pid);
        if !was_current {
            self.messages.warning(text("Former"));
        } else if status == 0 {
            self.messages.warning(text("Current"));
        } else {
            self.messages.alert(text("Current"));
        }
        if was_current && status == INTERRUPTED {
            // If SIGINT from the terminal stopped the program, the exit status must show it.
            self.status.set(status);
        }
        if was_current && !expected && !self.ending.get() {
            self.status.set(status);
            if !self.setup.stays {
                self.messages.alert("exit-on-failure: killing every processes with SIGTERM");
                self.begin_to_end();
                self.signal_all(signal::SIGTERM);
            }
        }
        if self.processes.borrow().workers.is_empty() {
            self.finish();
        }
    }

    /// Removes an exited worker with its channel (R125).
    fn forget(&self, pid: u32) {
        drop(self.processes.borrow_mut().remove(pid));
    }

    fn finish(&self) {
        // Removes the socket paths of a failed first start. The list is empty after `put_in_place`, and in a reload.
        self.sockets.withdraw();
        self.messages.warning(format!("All workers exited. Exiting... ({})", self.status.get()));
        weir_sched::stop();
    }

    /// Reloads now, or after the current load. `client` receives the result.
    pub(crate) fn reload(self: &Rc<Self>, how: WorkerEnd, client: Option<OwnedFd>) {
        if self.ending.get() {
            if let Some(client) = client {
                cli::answer(self.clone(), client, "Success=0\n--\nThe master is ending.\n".to_owned());
            }
            return;
        }
        let mut next = self.next.borrow_mut();
        if next.clients.len() < MOST_WAITING {
            next.clients.extend(client);
        }
        if self.loading.get() == Loading::UnderWay {
            next.wanted = Some(if next.wanted == Some(WorkerEnd::Hard) { WorkerEnd::Hard } else { how });
            return;
        }
        drop(next);
        self.execute(how);
    }

    /// Re-executes the program in this process (R118, R146). Returns only on failure. The state is then unchanged.
    fn execute(self: &Rc<Self>, how: WorkerEnd) {
        self.messages.announce("Reloading weir");
        self.setup.service.reloading();
        let clients = std::mem::take(&mut self.next.borrow_mut().clients);
        for client in &clients {
            // If a client's connection cannot be passed on, it is closed.
            let _ = pass::send_descriptors(&self.waiting.1, b"c", &[client.as_fd()]);
        }
        drop(clients);
        let sockets: Vec<OwnedFd> = self.sockets.list().iter().filter_map(MasterSocket::to_keep).collect();
        let processes = self.processes.borrow();
        let variables = carried::variables(
            &processes,
            &self.waiting,
            &sockets,
            how == WorkerEnd::Hard,
            self.setup.stays,
            self.setup.reloads_max,
        );
        let environment = self.setup.environment.iter().cloned();
        let environment: Vec<Vec<u8>> = environment.chain(variables.map(String::into_bytes)).collect();
        let channels = processes.workers.iter().filter_map(|worker| worker.channel.as_ref());
        let kept: Vec<_> = channels.chain(&sockets).chain([&self.waiting.0, &self.waiting.1]).collect();
        let keep = |inheritable| kept.iter().try_for_each(|one| process::set_inheritable(one, inheritable));
        let folder = process::current_directory();
        let error = match keep(true).and_then(|()| process::return_to(&self.setup.folder)) {
            Ok(()) => child::execute(&self.setup.program, &self.setup.words, &environment),
            Err(errno) => errno,
        };
        // The execution failed and this process continues. A descriptor left inheritable would be adopted by the next execution.
        let _ = keep(false);
        if let Ok(folder) = folder {
            let _ = process::return_to(folder);
        }
        drop(processes);
        let program = String::from_utf8_lossy(&self.setup.program);
        self.messages.alert(format!("Failed to reexecute the master process ({program}): {error}"));
        self.load_failed();
    }

    /// Handles messages from a worker on its socket pair.
    fn listen_to(self: Rc<Self>, worker: &WorkerProcess) {
        let pid = worker.pid;
        let own = worker.channel.as_ref().map(process::duplicate);
        let Some(Ok(channel)) = own else { return };
        let address = format!("sockpair@{}", channel.as_raw_fd());
        let Ok(channel) = Descriptor::register(channel) else { return };
        weir_sched::spawn(&CHANNEL, Class::Urgent, async move {
            channel.set_owner(weir_sched::current());
            loop {
                match pass::receive_descriptors(&channel, &mut [0; 64]) {
                    Ok((0, _)) => break,
                    Ok((_, clients)) => {
                        for client in clients {
                            self.clone().hear(CliClient::of_worker(pid, &address), client, None);
                        }
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {
                        channel.clear_readable();
                        wait(Tick::NEVER).await;
                    }
                    Err(_) => break,
                }
            }
            // Deregister from the poller, then close. The process table holds another descriptor of the same socket (R129).
            drop(channel.into_fd());
        });
    }

    /// Serves a client of the master CLI.
    pub(crate) fn hear(self: Rc<Self>, client: CliClient, socket: OwnedFd, place: Option<Permit>) {
        let Ok(descriptor) = Descriptor::register(socket) else { return };
        weir_sched::spawn(&SESSION, Class::Urgent, async move {
            let _counted = (place, self.own.meet());
            descriptor.set_owner(weir_sched::current());
            cli::converse(self, client, Connection::new(descriptor)).await;
        });
    }

    /// The output of `show proc`.
    pub(crate) fn show_processes(&self, debug: bool) -> String {
        let own: (RawFd, RawFd) = (self.waiting.0.as_raw_fd(), self.waiting.1.as_raw_fd());
        self.processes.borrow().show(wall_seconds(), debug.then_some(own))
    }
}

/// Returns the freed memory of the configuration to the system. The allocator does so only after large blocks are allocated and
/// freed. Nothing else in the master does that, so this function allocates a few.
async fn give_memory_back() {
    for _ in 0..TIDYINGS {
        weir_sched::sleep_until(weir_sched::now().after(TIDYING_MS)).await;
        // Never touched, so the block costs only address space.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
    }
}

static TIDYING: WorkKind = WorkKind::new("memory to give back");
/// Number of repetitions.
const TIDYINGS: u32 = 4;
/// Longer than the allocator caches free memory, in milliseconds.
const TIDYING_MS: u64 = 250;
/// Larger than the free memory that the allocator caches, in bytes.
const LARGE: usize = 8 << 20;
static CHANNEL: WorkKind = WorkKind::new("channel of a worker");
static SESSION: WorkKind = WorkKind::new("master cli session");
/// Exit status of a worker stopped by SIGINT.
const INTERRUPTED: i32 = 128 + signal::SIGINT;
/// Exit status of a worker stopped by SIGTERM.
const TERMINATED: i32 = 128 + signal::SIGTERM;
/// Maximum number of clients waiting for the result of one reload.
const MOST_WAITING: usize = 64;
