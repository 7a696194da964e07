//! Acceptance of client connections: limits, counts, and the choice of a worker.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_backend::{FrontendRate, ProcessCounter, ProcessRate};
use weir_events::Level;
use weir_net::{Acceptor, AcceptorState, ConnectionLimit, DescriptorRoom};
use weir_sched::{Class, Tick, WorkKind};
use weir_sys::{Address, Errno};

use crate::admission::Admission;
use crate::connection_task::ConnectionTask;
use crate::instance::{Instance, Listener, Proxy, ProxyRef, ProxyState};
use crate::server::idle;

/// The handler of a listener, on each worker that accepts from it.
#[derive(Clone)]
pub struct ListenerHandler {
    /// The proxy with the listener.
    pub frontend: ProxyRef,
    /// The listener's position among the proxy's listeners.
    pub listener: u32,
    /// The workers that may serve the listener's connections.
    pub workers: Arc<[usize]>,
    /// How connections are distributed over the workers.
    pub spread: Spread,
}

/// How connections are distributed over workers (`tune.listener.multi-queue`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// `off`: the worker that accepts a connection keeps it.
    Keep,
    /// `on`: to the less loaded of two workers.
    #[default]
    LessLoaded,
    /// `fair`: round robin over the workers.
    InTurn,
}

impl Spread {
    /// The worker to serve a connection that this worker accepted.
    fn choose(self, workers: &[usize]) -> usize {
        match self {
            Spread::Keep => weir_sched::worker_index(),
            Spread::LessLoaded => weir_net::listener::less_loaded(workers),
            Spread::InTurn => {
                let turn = TURN.get();
                TURN.set(turn.wrapping_add(1));
                workers.get(turn % workers.len().max(1)).copied().unwrap_or_else(weir_sched::worker_index)
            }
        }
    }
}

thread_local! {
    /// The round-robin position for connections accepted by this worker.
    static TURN: Cell<usize> = const { Cell::new(0) };
}

impl ListenerHandler {
    fn listener(&self) -> &Listener {
        self.frontend.listener(self.listener)
    }
}

/// Starts the task of a connection on this worker.
fn serve(admission: Admission, socket: OwnedFd, peer: Address) {
    weir_sched::spawn(&CONNECTION, Class::Normal, ConnectionTask::new(admission, socket, peer));
}

impl Acceptor for ListenerHandler {
    type Ticket = Admission;

    fn state(&self) -> AcceptorState {
        match self.frontend.state() {
            ProxyState::Open => AcceptorState::Open,
            ProxyState::Paused => AcceptorState::Paused,
            ProxyState::Stopped => AcceptorState::Stopped,
        }
    }

    fn too_fast(&self) -> Option<Tick> {
        let instance = self.frontend.instance();
        let of_tls = || self.listener().tls.as_ref().and_then(|_| instance.too_much_tls());
        instance.too_fast().or_else(|| self.frontend.too_fast()).or_else(of_tls)
    }

    fn admit(&self) -> Result<Admission, &ConnectionLimit> {
        Admission::new(&self.frontend, self.listener)
    }

    fn give_way(&self) {
        self.frontend.instance().connections.offer();
        self.frontend.connections.offer();
        self.listener().connections.offer();
    }

    fn enter(&self, mut ticket: Admission, socket: OwnedFd, peer: Address) {
        let own = weir_sched::worker_index();
        let worker = self.spread.choose(&self.workers);
        let instance = self.frontend.instance();
        self.frontend.count_connection();
        instance.count_connection();
        idle::accepted(&instance.limits, &socket);
        if self.listener().tls.is_some() {
            instance.rates.event(own, ProcessRate::TlsConnections, weir_sched::now().as_ms());
        }
        ticket.serve_on(worker);
        if worker == own {
            serve(ticket, socket, peer);
            return;
        }
        let transit = ticket.leave();
        let serve = move || {
            if let Some(admission) = transit.arrive() {
                serve(admission, socket, peer);
            }
        };
        if weir_sched::send_to(worker, serve).is_err() {
            // The chosen worker's queue is full. Dropping the message closed the connection.
            self.frontend.frontend_counters.increment(own, weir_backend::FrontendCounter::InternalErrors);
        }
    }

    fn make_room(&self) -> DescriptorRoom {
        idle::request_room()
    }

    fn exhausted(&self, errno: Errno) {
        let name = self.frontend.name();
        let text = match errno {
            Errno::MFILE => format!(
                "Proxy {name} reached the limit of open files of the process. Please check 'ulimit-n' and restart."
            ),
            Errno::NFILE => format!(
                "Proxy {name} reached the limit of open files of the system. Please check the system's tunables."
            ),
            Errno::NOBUFS | Errno::NOMEM => format!(
                "Proxy {name} found no memory for connections. They wait. Please check '-m' and the system's tunables."
            ),
            errno => format!("Proxy {name} cannot accept connections: {errno}."),
        };
        crate::log::announce(&self.frontend, Level::Emergency, text.as_bytes());
    }
}

impl Instance {
    /// End of the pause of accepting in the process (`maxconnrate`, `maxsessrate`). `None` below the limits.
    fn too_fast(&self) -> Option<Tick> {
        let now = weir_sched::now();
        let limits = &self.limits;
        let rules = [
            (ProcessRate::Connections, limits.connection_rate.load(Relaxed)),
            (ProcessRate::Sessions, limits.session_rate.load(Relaxed)),
        ];
        rules
            .into_iter()
            .filter(|(_, limit)| *limit > 0)
            .find_map(|(rate, limit)| until_below(limit, self.rates.rate(rate, now.as_ms()), now))
    }

    /// End of the pause of accepting TLS connections in the process (`maxsslrate`, `maxsslconn`). `None` below the limits.
    fn too_much_tls(&self) -> Option<Tick> {
        let now = weir_sched::now();
        let limit = self.limits.tls_rate.load(Relaxed);
        if limit > 0
            && let Some(until) =
                until_below(limit, self.rates.rate(ProcessRate::TlsConnections, now.as_ms()), now)
        {
            return Some(until);
        }
        weir_net::tls_count::is_full().then(|| now.after(FULL_PAUSE_MS))
    }

    /// Counts an accepted connection.
    fn count_connection(&self) {
        crate::process_counters::count(|counters| counters.connections.increment());
        let worker = weir_sched::worker_index();
        self.rates.event(worker, ProcessRate::Connections, weir_sched::now().as_ms());
        if self.connections.inside() >= self.limits.connections.load(Relaxed) {
            self.rates.increment(worker, ProcessCounter::LimitReached);
        }
    }
}

impl Proxy {
    /// End of the pause of accepting in the frontend (`rate-limit sessions`). `None` below the limit.
    fn too_fast(&self) -> Option<Tick> {
        let limit = self.config.settings.session_rate_limit;
        if limit == 0 {
            return None;
        }
        let now = weir_sched::now();
        until_below(limit, self.frontend_counters.rate(FrontendRate::Sessions, now.as_ms()), now)
    }
}

/// When to check again a rate at its limit: after the time of one event at that rate. `None` below the limit.
fn until_below(limit: u32, rate: u32, now: Tick) -> Option<Tick> {
    (rate >= limit).then(|| now.after(u64::from(1000 / limit.max(1)).clamp(1, LONGEST_PAUSE_MS)))
}

static CONNECTION: WorkKind = WorkKind::new("connection");
/// Interval of the check for a free TLS session at the limit, in milliseconds.
const FULL_PAUSE_MS: u64 = 10;
/// Maximum pause at a low rate limit, in milliseconds. The rate is measured over a sliding second, so it can fall earlier.
const LONGEST_PAUSE_MS: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_are_distributed_over_workers_in_turn() {
        let chosen: Vec<usize> = (0..5).map(|_| Spread::InTurn.choose(&[3, 5])).collect();
        assert_eq!(chosen, [3, 5, 3, 5, 3]);
    }

    #[track_caller]
    fn check(limit: u32, rate: u32, expected_ms: Option<u64>) {
        let now = Tick::from_ms(5_000);
        assert_eq!(until_below(limit, rate, now).map(|until| until.since(now)), expected_ms);
    }

    #[test]
    fn accepting_pauses_for_one_session_interval_of_the_rate_limit() {
        check(100, 99, None);
        check(100, 100, Some(10));
        check(5_000, 9_000, Some(1));
        check(1, 1, Some(100));
    }
}
