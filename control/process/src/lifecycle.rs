//! The lifecycle of the process: soft stop, hard stop, pause and reports on signals.
//!
//! ```text
//!             SIGUSR1                       last connection gone
//!   serving ───────────► leaving ─────────────────────────────────► the end, status 0
//!      │                   │  hard-stop-after
//!      │                   └────────────────────────────────────────► the end, status 0
//!      └── SIGTERM, SIGINT ─────────────────────────────────────────► the end, by that signal
//! ```

use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_assemble::{LivePeers, LiveRelays};
use weir_backend::{BackendCounter, FrontendCounter};
use weir_events::Level;
use weir_logs::forward::Forward;
use weir_model::{CloseSpread, Global};
use weir_net::ConnectionLimit;
use weir_observe::messages::Messages;
use weir_observe::{FrontendSwitch, pulse};
use weir_sched::{Class, Signals, TaskKey, Tick, WorkKind, WorkerSet, sleep_until};
use weir_stream::instance::{Instance, Proxy, ProxyState};
use weir_sys::signal::{self, Signal, SignalReader};

use crate::listening::ListeningSockets;

/// The serving process.
pub struct Lifecycle {
    parts: ServedParts,
    pub listening: ListeningSockets,
    pub messages: &'static Messages,
    hard_stop_after: Option<Duration>,
    grace: Option<Duration>,
    /// The tasks that accept runtime API clients or receive `log-forward` messages.
    operator_acceptors: Mutex<Vec<TaskKey>>,
    /// The signal that stopped the process. 0 without one.
    ended_by: AtomicI32,
}

/// The live objects of a serving process.
#[derive(Clone)]
pub struct ServedParts {
    pub instance: Arc<Instance>,
    /// `log-forward` sections.
    pub relays: Arc<LiveRelays>,
    /// `peers` sections.
    pub peers: Arc<LivePeers>,
    /// Forwarding of ring contents to log servers.
    pub forwards: Vec<Arc<Forward>>,
    /// The current connections that are not streams: clients of the runtime API.
    pub operators: Arc<ConnectionLimit>,
}

/// The signals that the process handles.
pub const SIGNALS: [Signal; 8] = [
    signal::SIGUSR1,
    signal::SIGUSR2,
    signal::SIGTERM,
    signal::SIGINT,
    signal::SIGHUP,
    signal::SIGQUIT,
    signal::SIGTTOU,
    signal::SIGTTIN,
];

impl Lifecycle {
    /// The lifecycle of a process with these live objects and the settings of the global section.
    pub fn new(
        parts: ServedParts,
        listening: ListeningSockets,
        global: &Global,
        messages: &'static Messages,
    ) -> Lifecycle {
        Lifecycle {
            parts,
            listening,
            messages,
            hard_stop_after: global.hard_stop_after,
            grace: global.grace,
            operator_acceptors: Mutex::default(),
            ended_by: AtomicI32::new(0),
        }
    }

    /// The live objects of the process.
    pub fn parts(&self) -> &ServedParts {
        &self.parts
    }

    /// The signal that stopped the process. 0 without one.
    pub fn ended_by(&self) -> Signal {
        self.ended_by.load(SeqCst)
    }

    /// Registers a task that accepts runtime API clients or receives messages.
    pub fn add_acceptor(&self, task: TaskKey) {
        self.operator_acceptors.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Starts to handle signals, on the current worker.
    pub fn obey(self: &Arc<Self>, reader: SignalReader) -> weir_sys::Result<()> {
        let signals = Signals::new(reader)?;
        let lifecycle = Arc::clone(self);
        weir_sched::spawn(&SIGNAL, Class::Urgent, async move {
            // If signals cannot be read, the process continues without them.
            while let Ok(signal) = signals.next().await {
                let mut together = vec![signal];
                while together.len() < SIGNALS.len()
                    && let Ok(Some(signal)) = signals.arrived()
                {
                    together.push(signal);
                }
                put_in_order(&mut together);
                together.into_iter().for_each(|signal| lifecycle.handle(signal));
            }
        });
        Ok(())
    }

    fn handle(self: &Arc<Self>, signal: Signal) {
        match signal {
            signal::SIGUSR1 => self.leave(),
            signal::SIGTERM | signal::SIGINT => {
                self.ended_by.store(signal, SeqCst);
                weir_sched::stop();
            }
            signal::SIGTTOU => self.pause_all(),
            signal::SIGTTIN => self.resume_all(),
            signal::SIGHUP => self.report(),
            signal::SIGQUIT => self.report_memory(),
            _ => {}
        }
    }

    /// Soft stop: closes the listeners. The process exits after its last connection.
    pub fn leave(self: &Arc<Self>) {
        if self.parts.instance.stopping.load(SeqCst) {
            return;
        }
        // Any worker may run this task. The exit, especially by `hard-stop-after`, must not depend on one busy worker.
        let every_worker = WorkerSet::all(weir_sched::worker_count());
        weir_sched::spawn_shared(&LEAVING, &every_worker, Arc::clone(self).end(every_worker));
    }

    async fn end(self: Arc<Self>, every_worker: WorkerSet) {
        if let Some(grace) = self.grace {
            sleep_until(after(grace)).await;
        }
        if self.parts.instance.stopping.swap(true, SeqCst) {
            return;
        }
        self.stop_listening();
        self.parts.instance.closing.begin(weir_sched::now().as_ms());
        wake_sessions();
        // Return unused memory to the system for the next process.
        for worker in 0..weir_sched::worker_count() {
            let _ = weir_sched::send_to(worker, pulse::reclaim_memory);
        }
        if let CloseSpread::Over(window) = self.parts.instance.closing.spread {
            weir_sched::spawn_shared(&CLOSING, &every_worker, wake_sessions_for(window));
        }
        self.wait_for_the_last().await;
        self.dismiss_agents().await;
        weir_logs::forward::drain(&self.parts.forwards).await;
        weir_sched::stop();
    }

    fn stop_listening(&self) {
        for proxy in &self.parts.instance.proxies {
            if proxy.config.settings.disabled {
                continue;
            }
            if proxy.config.is_frontend() {
                self.listening.close(proxy);
                proxy.set_state(ProxyState::Stopped);
            }
            self.announce(proxy, Level::Warning, &stopped(proxy));
        }
        self.parts.relays.shared.stop();
        self.parts.peers.sections.iter().for_each(|section| section.leave());
        self.listening.close_others();
        self.wake_acceptors();
    }

    /// Wakes the accept tasks of the runtime API and of `log-forward`, so that they notice the stop.
    fn wake_acceptors(&self) {
        let acceptors = self.operator_acceptors.lock().unwrap_or_else(PoisonError::into_inner);
        acceptors.iter().for_each(|task| weir_sched::wake(*task));
    }

    async fn wait_for_the_last(&self) {
        let deadline = self.hard_stop_after.map_or(Tick::NEVER, after);
        let task = weir_sched::current();
        let gates = [&self.parts.instance.connections, &*self.parts.operators];
        loop {
            // Enlist before the check, see `ConnectionLimit`. A process with idle connections can then sleep for hours.
            gates.iter().for_each(|gate| gate.enlist(task));
            let accepting = self.listening.is_accepting() || self.is_teaching();
            if accepting || gates.iter().any(|gate| gate.inside() > 0) {
                let look_ms = if accepting { ACCEPTING_MS } else { LOOK_MS };
                weir_sched::wait(weir_sched::now().after(look_ms).min(deadline)).await;
            }
            for gate in gates {
                if !gate.withdraw(task) {
                    // The offer was meant for a waiting task. Pass it on.
                    gate.offer();
                }
            }
            if !self.listening.is_accepting()
                && !self.is_teaching()
                && gates.iter().all(|gate| gate.inside() == 0)
            {
                return;
            }
            if weir_sched::now() >= deadline {
                self.messages.warning("soft-stop running for too long, performing a hard-stop.");
                return;
            }
        }
    }

    /// Tells agents that the process leaves, and gives them a moment to answer.
    async fn dismiss_agents(&self) {
        let deadline = after(FAREWELL);
        let instance = &self.parts.instance;
        for worker in 0..weir_sched::worker_count() {
            let of_worker = Arc::clone(instance);
            let _ = weir_sched::send_to(worker, move || weir_stream::spoe::dismiss_agents(&of_worker));
        }
        while weir_stream::spoe::open_agents(instance) > 0 && weir_sched::now() < deadline {
            sleep_until(weir_sched::now().after(FAREWELL_STEP_MS)).await;
        }
    }

    /// Whether a peers session is still sending stick-tables to the next process.
    fn is_teaching(&self) -> bool {
        self.parts.peers.sections.iter().any(|section| section.is_teaching())
    }

    fn pause_all(&self) {
        for proxy in self.parts.instance.proxies.iter().filter(|proxy| proxy.state() == ProxyState::Open) {
            if proxy.config.is_frontend() && !proxy.listeners.is_empty() {
                FrontendSwitch::pause(self, proxy);
                self.announce(
                    proxy,
                    Level::Warning,
                    &format!("Paused {} {}.", proxy.config.section.name(), proxy.name()),
                );
            }
        }
        self.parts.relays.shared.pause();
        self.listening.pause_relays();
        self.wake_acceptors();
    }

    fn resume_all(&self) {
        if self.listening.resume_relays() {
            self.parts.relays.shared.resume();
            self.wake_acceptors();
        } else {
            self.messages.warning("Failed to resume a log-forward section: its address is taken.");
        }
        for proxy in self.parts.instance.proxies.iter().filter(|proxy| proxy.state() == ProxyState::Paused) {
            let (kind, name) = (proxy.config.section.name(), proxy.name());
            if FrontendSwitch::resume(self, proxy) {
                self.announce(proxy, Level::Warning, &format!("Resumed {kind} {name}."));
            } else {
                self.announce(
                    proxy,
                    Level::Warning,
                    &format!("Failed to resume {kind} {name}: its address is taken."),
                );
            }
        }
    }

    /// SIGHUP: logs the state of every server and proxy.
    fn report(&self) {
        self.messages.warning("SIGHUP received, dumping servers states.");
        for proxy in &self.parts.instance.proxies {
            // This line goes only to the proxy's own logs.
            let begin = format!("SIGHUP received, dumping servers states for proxy {}.", proxy.name());
            weir_stream::log::announce(proxy, Level::Notice, begin.as_bytes());
            for line in report_of(proxy) {
                self.announce(proxy, Level::Notice, &format!("SIGHUP: {line}"));
            }
        }
    }

    /// SIGQUIT: logs the buffer memory of each worker and frees unused buffers.
    fn report_memory(&self) {
        self.messages.warning("SIGQUIT received, dumping memory usage.");
        for worker in 0..weir_sched::worker_count() {
            let messages = self.messages;
            // Fails only if the worker is stopping or its inbox is full.
            let _ = weir_sched::send_to(worker, move || {
                let buffers = weir_containers::BufferPool::statistics();
                messages.warning(format!(
                    "SIGQUIT: worker {}: {} buffers of {} bytes in use, {} free, {} tasks.",
                    worker + 1,
                    buffers.used,
                    weir_containers::BufferPool::buffer_size(),
                    buffers.free,
                    weir_sched::task_count()
                ));
                pulse::trim_memory();
            });
        }
    }

    /// Writes to standard error and to the proxy's own logs.
    fn announce(&self, proxy: &Proxy, level: Level, text: &str) {
        self.messages.warning(text);
        weir_stream::log::announce(proxy, level, text.as_bytes());
    }
}

impl FrontendSwitch for Lifecycle {
    fn pause(&self, proxy: &Proxy) {
        proxy.set_state(ProxyState::Paused);
        self.listening.pause(proxy);
    }

    fn resume(&self, proxy: &Proxy) -> bool {
        let resumed = self.listening.resume(proxy);
        if resumed {
            proxy.set_state(ProxyState::Open);
        }
        resumed
    }

    fn stop(&self, proxy: &Proxy) {
        self.listening.close(proxy);
        proxy.set_state(ProxyState::Stopped);
        self.announce(proxy, Level::Warning, &stopped(proxy));
    }
}

/// A process that takes over the addresses and then returns them sends SIGTTOU, then SIGTTIN. If both are pending, the kernel
/// delivers SIGTTIN first. Handled in that order, the signals would leave this process paused forever.
fn put_in_order(together: &mut [Signal]) {
    together.sort_by_key(|&signal| signal == signal::SIGTTIN);
}

fn stopped(proxy: &Proxy) -> String {
    format!(
        "Proxy {} stopped (cumulated conns: FE: {}, BE: {}).",
        proxy.name(),
        proxy.frontend_counters.sum(FrontendCounter::Connections),
        proxy.backend_counters.sum(BackendCounter::Sessions)
    )
}

fn report_of(proxy: &Proxy) -> Vec<String> {
    let name = proxy.name();
    let mut lines = Vec::new();
    let (frontend_now, frontend_total) =
        (proxy.connections.inside(), proxy.frontend_counters.sum(FrontendCounter::Connections));
    let backend_total = proxy.backend_counters.sum(BackendCounter::Sessions);
    let Some(backend) = proxy.backend.as_ref().filter(|backend| !backend.servers().is_empty()) else {
        lines.push(format!(
            "Proxy {name} has no servers. Conn: act(FE+BE): {frontend_now}+0, 0 pend (0 unass), tot(FE+BE): \
             {frontend_total}+{backend_total}."
        ));
        return lines;
    };
    let mut waiting = backend.queued();
    for server in backend.servers().iter() {
        waiting += server.queued();
        lines.push(format!(
            "Server {name}/{} is {}. Conn: {} act, {} pend, {} tot.",
            server.name(),
            if server.is_up() { "UP" } else { "DOWN" },
            server.served(),
            server.queued(),
            server.counters().sum(weir_backend::ServerCounter::Sessions)
        ));
    }
    let status = backend.status(weir_sched::now().as_ms());
    let connections = format!(
        "Conn: act(FE+BE): {frontend_now}+{}, {waiting} pend ({} unass), tot(FE+BE): {frontend_total}+{backend_total}.",
        backend.sessions(),
        backend.queued()
    );
    lines.push(match (status.active, status.backup) {
        (0, 0) => format!("Proxy {name} has no server available ! {connections}"),
        (0, backup) => format!("Proxy {name} is running on {backup} backup servers. {connections}"),
        (active, backup) => {
            format!("Proxy {name} has {active} active servers and {backup} backup servers available. {connections}")
        }
    });
    lines
}

/// Wakes idle client connections, so that they notice the stop.
fn wake_sessions() {
    for worker in 0..weir_sched::worker_count() {
        // Fails only if the worker is stopping or its inbox is full.
        let _ = weir_sched::send_to(worker, || {
            weir_stream::worker::sessions().iter().for_each(|session| weir_sched::wake(session.task.get()));
            weir_logs::relay::wake_sessions();
        });
    }
}

/// Wakes idle client connections repeatedly during the window, so that they close one after another.
async fn wake_sessions_for(window: Duration) {
    let end = after(window);
    while weir_sched::now() < end {
        sleep_until(weir_sched::now().after(CLOSING_MS).min(end)).await;
        wake_sessions();
    }
}

fn after(duration: Duration) -> Tick {
    weir_sched::now().after(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

static SIGNAL: WorkKind = WorkKind::new("signals");
static LEAVING: WorkKind = WorkKind::new("soft stop");
static CLOSING: WorkKind = WorkKind::new("connections to close");
/// How often a stopping process checks whether its accept tasks have ended, in milliseconds.
const ACCEPTING_MS: u64 = 10;
/// How often a stopping process checks whether the last connection has closed, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// How long agents may take to answer the farewell.
const FAREWELL: Duration = Duration::from_millis(500);
/// Interval of the check whether they have.
const FAREWELL_STEP_MS: u64 = 10;
/// How often idle connections check whether they are due to close, in milliseconds.
const CLOSING_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use signal::{SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1};

    #[test]
    fn pending_pause_signals_are_handled_before_resume_signals() {
        for (read, obeyed) in [
            (vec![SIGTTIN, SIGTTOU], vec![SIGTTOU, SIGTTIN]),
            (vec![SIGUSR1, SIGTERM, SIGTTIN, SIGTTOU], vec![SIGUSR1, SIGTERM, SIGTTOU, SIGTTIN]),
            (vec![SIGTTIN, SIGTTOU, SIGTTIN], vec![SIGTTOU, SIGTTIN, SIGTTIN]),
        ] {
            let mut together = read;
            put_in_order(&mut together);
            assert_eq!(together, obeyed);
        }
    }
}
