//! Random histories of a backend: after every step no request waits that could be served, and all counts are correct (R167
//! to R169). Steps include operators, checks, draining agents, ejections, changing limits and weights of 0.
#![cfg(not(loom))]

#[path = "fixture/ejection.rs"]
mod ejection;
mod fixture;

use ejection::EJECTION;
use fixture::*;
use proptest::prelude::*;
use std::sync::Arc;
use weir_backend::*;
use weir_model::{HashMethod, HashType, InitialState};

#[derive(Clone, Debug)]
enum Step {
    Choose {
        hash: Option<u32>,
        avoid: Option<u32>,
        class: i64,
    },
    Take {
        server: u32,
        sticky: bool,
    },
    Release(usize),
    Quit(usize),
    Poll(usize),
    State {
        server: u32,
        state: RequestedState,
    },
    Weight {
        server: u32,
        weight: u32,
    },
    Limit {
        server: u32,
        limit: u32,
    },
    /// A check passes or fails.
    Check {
        server: u32,
        is_well: bool,
    },
    /// The agent sets or ends drain mode.
    Agent {
        server: u32,
        drains: bool,
    },
    /// A failed response, after which the server is ejected.
    Fail {
        server: u32,
    },
    Enter,
    Leave,
    Pass(u64),
}

const SERVERS: u32 = 3;

fn step() -> impl Strategy<Value = Step> {
    let server = 0..SERVERS;
    let state = prop_oneof![
        3 => Just(RequestedState::Ready),
        1 => Just(RequestedState::Drain),
        2 => Just(RequestedState::Maintenance)
    ];
    prop_oneof![
        8 => (prop::option::of(0..7u32), prop::option::of(0..SERVERS), -1..2i64)
            .prop_map(|(hash, avoid, class)| Step::Choose { hash, avoid, class }),
        3 => (server.clone(), any::<bool>()).prop_map(|(server, sticky)| Step::Take { server, sticky }),
        6 => (0..8usize).prop_map(Step::Release),
        2 => (0..8usize).prop_map(Step::Quit),
        3 => (0..8usize).prop_map(Step::Poll),
        2 => (server.clone(), state).prop_map(|(server, state)| Step::State { server, state }),
        1 => (server.clone(), 0..3u32).prop_map(|(server, weight)| Step::Weight { server, weight }),
        1 => (server.clone(), 0..4u32).prop_map(|(server, limit)| Step::Limit { server, limit }),
        2 => (server.clone(), any::<bool>()).prop_map(|(server, is_well)| Step::Check { server, is_well }),
        2 => (server.clone(), any::<bool>()).prop_map(|(server, drains)| Step::Agent { server, drains }),
        1 => server.prop_map(|server| Step::Fail { server }),
        1 => Just(Step::Enter),
        1 => Just(Step::Leave),
        1 => (1..400u64).prop_map(Step::Pass),
    ]
}

fn algorithm() -> impl Strategy<Value = BalanceAlgorithm> {
    prop_oneof![
        Just(BalanceAlgorithm::new("roundrobin")),
        Just(BalanceAlgorithm::new("static-rr")),
        Just(BalanceAlgorithm::new("leastconn")),
        Just(BalanceAlgorithm::new("first")),
        Just(BalanceAlgorithm::new("random").with(Some(2))),
        Just(BalanceAlgorithm::new("latency")),
        Just(BalanceAlgorithm::new("source")),
    ]
}

struct World {
    backend: Arc<Backend>,
    leases: Vec<Lease>,
    waiters: Vec<QueuedRequest>,
    now_ms: u64,
    keys: Vec<ServerKey>,
    is_large: bool,
    /// Whether requests wait for other servers than the one to avoid.
    waits_for_others: bool,
}

/// A request in a queue.
struct QueuedRequest {
    entry: QueueEntry,
    /// The server that must not serve it while there are others.
    avoid: Option<ServerKey>,
}

/// With this many servers, changes are batched.
const LARGE_BACKEND: usize = 256;

impl World {
    fn new(algorithm: BalanceAlgorithm, method: HashMethod, limits: [u32; 3], is_large: bool) -> Self {
        let line = |(name, limit)| ServerSettings {
            slow_start_ms: 500,
            maximum_queue: limit / 2,
            check: Some(CheckRules { rise: 1, fall: 1, start: InitialState::FullyUp }),
            ..limited(name, limit)
        };
        let mut servers: Vec<_> = ["a", "b", "c"].into_iter().zip(limits).map(line).collect();
        servers[1].minimum_connections = 1;
        servers[2].backup = true;
        if is_large {
            // Servers that take no visitors.
            let idle = |rank| ServerSettings { weight: 0, ..server(&format!("idle{rank}")) };
            servers.extend((0..LARGE_BACKEND).map(idle));
        }
        let hash_type = HashType { method, ..HashType::default() };
        let outliers = Some(EJECTION);
        let settings =
            BackendSettings { algorithm, hash_type, full_connections: 4, outliers, ..Default::default() };
        let backend = with(settings, servers);
        let waits_for_others = ["random", "latency"].contains(&backend.settings().algorithm.word());
        let keys = backend.servers().iter().take(SERVERS as usize).map(|server| server.key()).collect();
        Self { backend, leases: Vec::new(), waiters: Vec::new(), now_ms: 0, keys, is_large, waits_for_others }
    }

    fn run(&mut self, step: &Step) {
        let backend = Arc::clone(&self.backend);
        let wake = || Bell::default().wake();
        let key = |server: u32| self.keys[server as usize];
        let input = at(self.now_ms);
        match *step {
            Step::Choose { hash, avoid, class } => {
                let priority = Priority::new(class, 0);
                let input =
                    ChooseInput { hash, avoid: avoid.map(key), priority, random: self.now_ms * 31, ..input };
                let choice = backend.choose(&input, wake);
                self.note(choice, input.avoid.filter(|_| self.waits_for_others));
            }
            Step::Take { server, sticky } => {
                let choice = backend.take(key(server), sticky, &input, wake);
                self.note(choice, None);
            }
            Step::Release(index) if index < self.leases.len() => drop(self.leases.swap_remove(index)),
            Step::Quit(index) if index < self.waiters.len() => drop(self.waiters.swap_remove(index)),
            Step::Poll(index) if index < self.waiters.len() => self.poll(index),
            Step::State { server, state } => self.change(key(server), ServerChange::State(state)),
            Step::Weight { server, weight } => {
                self.change(key(server), ServerChange::Weight(WeightChange::Absolute(weight)));
            }
            Step::Limit { server, limit } => {
                self.change(key(server), ServerChange::MaximumConnections(limit))
            }
            Step::Check { server, is_well } => {
                let status = if is_well { CheckStatus::L4Ok } else { CheckStatus::L4Timeout };
                drop(backend.report(key(server), CheckKind::Health, CheckFinding::new(status), self.now_ms));
            }
            Step::Agent { server, drains } => {
                let (on, off) = (AdminState::FORCED_DRAIN, AdminState::READY);
                let (set, clear) = if drains { (on, off) } else { (off, on) };
                self.change(key(server), ServerChange::Admin { set, clear });
            }
            Step::Fail { server } => {
                let seen = TrafficSample { observation: Observation::WrongStatus, worker: 0, took_ms: 1 };
                let server = backend.server(key(server)).expect("it stays");
                drop(backend.observe(&server, seen, self.now_ms));
            }
            Step::Enter => backend.enter(0),
            Step::Leave if backend.sessions() > 0 => backend.leave(0),
            Step::Pass(milliseconds) => {
                self.now_ms += milliseconds;
                drop(backend.end_ejections(self.now_ms));
                backend.tick(self.now_ms);
            }
            _ => {}
        }
    }

    fn change(&self, key: ServerKey, change: ServerChange) {
        match self.backend.change(key, change, self.now_ms) {
            Ok(()) | Err(ChangeError::StaticAlgorithm) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn note(&mut self, choice: Choice, avoid: Option<ServerKey>) {
        match choice {
            Choice::Server(lease) => self.leases.push(lease),
            Choice::Wait(entry) => self.waiters.push(QueuedRequest { entry, avoid }),
            Choice::Full | Choice::None => {}
        }
    }

    fn poll(&mut self, index: usize) {
        match self.waiters[index].entry.poll() {
            None => {}
            Some(outcome) => {
                drop(self.waiters.swap_remove(index));
                if let WaitOutcome::Granted(granted) = outcome {
                    self.leases.push(granted.lease);
                }
            }
        }
    }

    fn settle(&mut self) {
        (0..self.waiters.len()).rev().for_each(|index| self.poll(index));
    }

    /// Dynamic limits follow the load. The next request to arrive or end, or the next tick, applies them.
    fn check(&mut self) {
        if self.is_large {
            // In a large backend, ticks are some milliseconds apart.
            self.now_ms += 4;
        }
        self.backend.tick(self.now_ms);
        self.settle();
        let queued: u32 = self.backend.servers().iter().map(|server| server.queued()).sum();
        assert_eq!(queued + self.backend.queued(), self.waiters.len() as u32);
        for server in self.backend.servers().iter() {
            let held = self.leases.iter().filter(|lease| lease.server().key() == server.key()).count();
            assert_eq!(server.served(), held as u32);
            if server.is_up() && server.served() == 0 {
                assert_eq!(server.queued(), 0, "an idle server lets somebody wait");
                if self.is_usable(server) {
                    assert!(
                        self.is_avoided_by_all(server),
                        "an idle server leaves the backend's queue alone"
                    );
                }
            }
        }
        if self.backend.usable_servers() == 0 {
            assert_eq!(self.backend.queued(), 0, "somebody waits for nobody (R169)");
        }
    }

    /// Whether the backend's queue has only requests that wait for another usable server.
    fn is_avoided_by_all(&self, server: &Server) -> bool {
        let mut queued = self.waiters.iter().filter(|request| request.entry.server().is_none());
        queued.all(|request| request.avoid == Some(server.key()) && self.backend.usable_servers() > 1)
    }

    fn is_usable(&self, server: &Server) -> bool {
        let status = self.backend.status(self.now_ms);
        server.effective_weight(self.now_ms) > 0 && (!server.settings().backup || status.active == 0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn requests_do_not_stay_queued_while_a_slot_is_free(
        is_large in prop::bool::weighted(0.2),
        algorithm in algorithm(),
        ring in any::<bool>(),
        limits in [0..3u32, 0..3u32, 0..3u32],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let method = if ring { HashMethod::Consistent } else { HashMethod::MapBased };
        let mut world = World::new(algorithm, method, limits, is_large);
        for step in &steps {
            world.run(step);
            world.check();
        }
        // When every request ends and every server is up, each waiter is served.
        for key in world.keys.clone() {
            world.change(key, ServerChange::State(RequestedState::Ready));
            world.run(&Step::Check { server: key.index() as u32, is_well: true });
            world.change(key, ServerChange::Weight(WeightChange::Percentage(100)));
        }
        let mut rounds = 0;
        while !world.waiters.is_empty() {
            world.leases.clear();
            world.check();
            rounds += 1;
            prop_assert!(rounds <= steps.len() + 1, "waiters remain");
        }
        world.leases.clear();
        world.check();
    }
}
