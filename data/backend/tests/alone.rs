//! Workers that choose without the lock: which operations take no lock, and the fairness of all choices together.
#![cfg(not(loom))]

mod fixture;

use std::sync::{Arc, Mutex, PoisonError};
use weir_model::HashType;

use fixture::*;
use proptest::prelude::*;
use weir_backend::*;

fn shared_by(workers: usize, algorithm: BalanceAlgorithm, servers: Vec<ServerSettings>) -> Arc<Backend> {
    with(BackendSettings { workers, algorithm, ..Default::default() }, servers)
}

fn weighted(weights: &[u32]) -> Vec<ServerSettings> {
    let names = weights.iter().enumerate().map(|(place, weight)| (place.to_string(), *weight));
    names.map(|(name, weight)| ServerSettings { weight, ..server(&name) }).collect()
}

/// How often backends are locked while `work` runs. The count covers all threads, so measurements run one at a time.
fn locks_of(work: impl FnOnce()) -> u64 {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let count = || {
        let counters = weir_sync::lock_counters().into_iter().filter(|counters| counters.name == "BACKEND");
        counters.flat_map(|counters| counters.modes).map(|mode| mode.locks).sum::<u64>()
    };
    let before = count();
    weir_sync::measure_locks(true);
    work();
    weir_sync::measure_locks(false);
    count() - before
}

/// Covers all steps of a request: enter, choose or take, leave. Only algorithms over the load of all workers need the lock.
#[test]
fn only_load_aware_algorithms_lock_the_backend_for_a_request() {
    const REQUESTS: u32 = 1_000;
    let cases = [
        (BalanceAlgorithm::new("roundrobin"), 0, false),
        (BalanceAlgorithm::new("static-rr"), 0, false),
        (BalanceAlgorithm::new("random").with(Some(1)), 0, false),
        (BalanceAlgorithm::new("random").with(Some(2)), 0, false),
        (BalanceAlgorithm::new("first"), 0, false),
        (BalanceAlgorithm::new("sticky"), 0, false),
        (BalanceAlgorithm::new("source"), 0, false),
        (BalanceAlgorithm::new("leastconn"), 0, true),
        (BalanceAlgorithm::new("roundrobin"), 9, true),
    ];
    for (algorithm, limit, locks) in cases {
        let backend = shared_by(2, algorithm, vec![limited("a", limit), server("b"), server("c")]);
        let designated = backend.servers()[usize::from(limit == 0)].key();
        // The worker's first choice refreshes its view.
        drop(choose_on(&backend, 1));
        let taken = locks_of(|| {
            for number in 0..REQUESTS {
                let input = ChooseInput { worker: 1, hash: Some(number), random: number.into(), ..at(0) };
                backend.enter(1);
                let wake = || Bell::default().wake();
                drop(lease(backend.choose(&input, wake)));
                drop(lease(backend.take(designated, false, &input, wake)));
                backend.leave(1);
            }
        });
        assert_eq!(taken > 0, locks, "{algorithm:?}, maxconn {limit}: {taken} locks");
        assert_eq!(
            (backend.sessions(), backend.servers().iter().map(|server| server.served()).sum()),
            (0, 0)
        );
    }
}

/// A shared reference count would be written by all workers for every request.
#[test]
fn a_lease_does_not_touch_the_shared_reference_count() {
    let backend = shared_by(2, BalanceAlgorithm::new("roundrobin"), vec![server("a")]);
    let a = key(&backend, "a");
    drop(choose_on(&backend, 1));
    let server = backend.server(a).expect("it is there");
    let before = Arc::strong_count(&server);
    let chosen = lease(choose_on(&backend, 1));
    let input = ChooseInput { worker: 1, ..at(0) };
    let taken = lease(backend.take(a, false, &input, || Bell::default().wake()));
    assert_eq!((Arc::strong_count(&server), server.served()), (before, 2));
    drop((chosen, taken));
    // A view drops a removed server at its next refresh.
    backend.change(a, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
    backend.remove(a, 0).unwrap();
    assert!(matches!(choose_on(&backend, 1), Choice::None));
    assert_eq!(Arc::strong_count(&server), 1);
}

/// Each worker applies a change at its next choice, at the cost of one lock.
#[test]
fn a_server_change_costs_each_worker_one_lock() {
    let backend = shared_by(4, BalanceAlgorithm::new("random").with(Some(1)), weighted(&[1, 1]));
    (0..4).for_each(|worker| drop(choose_on(&backend, worker)));
    let second = key(&backend, "1");
    backend.change(second, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
    let taken = locks_of(|| {
        for request in 0..40 {
            assert_eq!(lease(choose_on(&backend, request % 4)).server().name(), "0");
        }
    });
    assert_eq!(taken, 4);
}

const TURNS: [BalanceAlgorithm; 3] = [
    BalanceAlgorithm::new("roundrobin"),
    BalanceAlgorithm::new("static-rr"),
    BalanceAlgorithm::new("source"),
];

/// A backend that gives turns. `consistent` is for hashing, with turns for requests without a key.
fn in_turn(workers: usize, kind: (&BalanceAlgorithm, HashType), weights: &[u32], limit: u32) -> Arc<Backend> {
    let servers = weighted(weights).into_iter();
    let servers = servers.map(|server| ServerSettings { maximum_connections: limit, ..server });
    let settings = BackendSettings { workers, algorithm: *kind.0, hash_type: kind.1, ..Default::default() };
    with(settings, servers.collect())
}

fn all_turns() -> impl Iterator<Item = (&'static BalanceAlgorithm, HashType)> {
    let consistent = (&TURNS[2], HashType::consistent());
    TURNS.iter().map(|algorithm| (algorithm, HashType::default())).chain([consistent])
}

/// The next request goes to the next server, regardless of the worker.
#[test]
fn requests_of_all_workers_share_one_turn_sequence() {
    for kind in all_turns() {
        let backend = in_turn(3, kind, &[1; 4], 0);
        let names = |count| {
            let workers = [0, 1, 1, 2, 0, 2, 1, 0].into_iter().cycle().take(count);
            let names = workers.map(|worker| lease(choose_on(&backend, worker)).server().name().to_owned());
            names.collect::<String>()
        };
        assert_eq!(names(8), "01230123", "{kind:?}");
        assert_eq!(locks_of(|| assert_eq!(names(9), "012301230")), 0, "{kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Turns drawn without the lock equal turns given under it, for any changes in between and any worker. A limit that is
    /// never reached makes the second backend choose under its lock.
    #[test]
    fn turns_are_the_same_with_and_without_the_lock(
        weights in prop::collection::vec(1u32..20, 2..6),
        steps in prop::collection::vec((0u32..8, 0usize..6, 0u32..20, 0usize..40), 1..30),
    ) {
        for kind in all_turns() {
            let backends = [in_turn(4, kind, &weights, 0), in_turn(4, kind, &weights, 100)];
            for (change, server, weight, requests) in &steps {
                let changed = backends.each_ref().map(|backend| {
                    let change = match change {
                        0 => ServerChange::State(RequestedState::Maintenance),
                        1 => ServerChange::State(RequestedState::Ready),
                        2 => ServerChange::State(RequestedState::Drain),
                        _ => ServerChange::Weight(WeightChange::Absolute(*weight)),
                    };
                    backend.change(backend.servers()[server % weights.len()].key(), change, 0)
                });
                prop_assert_eq!(changed[0].is_ok(), changed[1].is_ok());
                let names = backends.each_ref().map(|backend| {
                    let name = |request| match choose_on(backend, request % 4) {
                        Choice::Server(lease) => lease.server().name().to_owned(),
                        _ => "-".to_owned(),
                    };
                    (0..*requests).map(name).collect::<String>()
                });
                prop_assert_eq!(&names[0], &names[1], "{:?}", kind);
            }
        }
    }
}

/// A turn that a redispatched request passes over goes to the next request.
#[test]
fn an_avoided_server_keeps_its_turn_for_the_next_request() {
    #[track_caller]
    fn check(weights: &[u32], avoided: &[usize], limits: &[u32], expected: &str) {
        for limit in limits.iter().copied() {
            let backend =
                in_turn(2, (&BalanceAlgorithm::new("roundrobin"), HashType::default()), weights, limit);
            let first = key(&backend, "0");
            let name = |request: usize| {
                let avoid = avoided.contains(&request).then_some(first);
                let input = ChooseInput { worker: 1, avoid, ..at(0) };
                lease(backend.choose(&input, || Bell::default().wake())).server().name().to_owned()
            };
            assert_eq!((0..expected.len()).map(name).collect::<String>(), expected, "limit {limit}");
        }
    }
    check(&[1, 1, 1], &[], &[0, 100], "012012");
    check(&[1, 1, 1], &[1], &[0, 100], "012012");
    check(&[1, 1, 1], &[3], &[0, 100], "012102");
    check(&[4, 1], &[], &[0, 100], "0000100001");
    check(&[4, 1], &[6], &[0, 100], "00001010000000100001");
    // Under the lock, the turns of a newcomer count from its first turn.
    check(&[4, 1], &[1], &[0], "0100000001");
    check(&[4, 1], &[0, 1, 2, 3], &[0], "11110000000010000100001");
}

/// The counter of turns is shared, so weights hold for any distribution of load over workers, also while they change.
#[test]
fn weights_hold_while_they_change_under_load() {
    const WORKERS: usize = 4;
    for algorithm in [BalanceAlgorithm::new("roundrobin"), BalanceAlgorithm::new("source")] {
        let settings = BackendSettings {
            workers: WORKERS,
            algorithm,
            hash_type: HashType::consistent(),
            ..Default::default()
        };
        let backend = with(settings, weighted(&[1, 2, 3]));
        let (first, last) = (key(&backend, "0"), key(&backend, "2"));
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| {
                    let backend = &backend;
                    scope.spawn(move || {
                        for _ in 0..5_000 * (worker + 1) {
                            drop(lease(choose_on(backend, worker)));
                        }
                    })
                })
                .collect();
            for round in 0.. {
                backend.change(last, ServerChange::Weight(WeightChange::Absolute(round % 7)), 0).unwrap();
                let state = [RequestedState::Maintenance, RequestedState::Ready][round as usize % 2];
                backend.change(first, ServerChange::State(state), 0).unwrap();
                if workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                    break;
                }
            }
        });
        backend.change(first, ServerChange::State(RequestedState::Ready), 0).unwrap();
        backend.change(last, ServerChange::Weight(WeightChange::Absolute(3)), 0).unwrap();
        let names: String = (0..60)
            .map(|request| lease(choose_on(&backend, request % WORKERS)).server().name().to_owned())
            .collect();
        let counts = ["0", "1", "2"].map(|name| names.matches(name).count());
        for (count, due) in counts.into_iter().zip([10, 20, 30]) {
            assert!(count.abs_diff(due) <= 1, "{counts:?}");
        }
        assert!(backend.servers().iter().all(|server| server.served() == 0));
    }
}

/// A single server has every turn: no worker locks or draws for it.
#[test]
fn a_single_server_is_chosen_without_lock_and_turns() {
    let backend = shared_by(2, BalanceAlgorithm::new("roundrobin"), vec![server("a")]);
    drop(choose_on(&backend, 1));
    assert_eq!(locks_of(|| (0..10).for_each(|_| drop(choose_on(&backend, 1)))), 0);
    // The first server had its turn before the second is added.
    backend.add(ServerSettings { weight: 2, ..server("b") }, 0).unwrap();
    backend.change(key(&backend, "b"), ServerChange::State(RequestedState::Ready), 0).unwrap();
    assert_eq!(sequence(&backend, 6), "abbabb");
}

/// Eight concurrent workers are together as fair as a single worker.
#[test]
fn the_requests_of_eight_workers_are_distributed_by_weight() {
    const WORKERS: usize = 8;
    const REQUESTS: u64 = 20_000;
    let weights = [1, 2, 3, 4, 10];
    for algorithm in [BalanceAlgorithm::new("roundrobin"), BalanceAlgorithm::new("static-rr")] {
        let backend = shared_by(WORKERS, algorithm, weighted(&weights));
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let backend = &backend;
                scope.spawn(move || {
                    for _ in 0..REQUESTS {
                        let lease = lease(choose_on(backend, worker));
                        lease.server().counters().increment(worker, ServerCounter::Balanced);
                    }
                });
            }
        });
        let total = WORKERS as u64 * REQUESTS;
        for (server, weight) in backend.servers().iter().zip(weights) {
            let (got, due) = (server.counters().sum(ServerCounter::Balanced), total * u64::from(weight) / 20);
            assert!(got.abs_diff(due) * 100 <= due, "{algorithm:?}: {got} of {due}");
            assert_eq!(server.served(), 0);
        }
    }
}

/// Each worker has its own counts and readers sum them, for slots taken with or without the lock.
#[test]
fn served_counts_are_summed_over_workers() {
    let backend = shared_by(3, BalanceAlgorithm::new("roundrobin"), vec![server("a")]);
    let mut held: Vec<_> = (0..6).map(|request| lease(choose_on(&backend, request % 3))).collect();
    let server = &backend.servers()[0];
    assert_eq!((server.served(), server.served_maximum()), (6, 6));
    // A lease may be dropped on another thread.
    let other = held.split_off(2);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!((server.served(), server.served_maximum()), (2, 6));
    // With a limit, earlier requests still count.
    backend.change(server.key(), ServerChange::MaximumConnections(3), 0).unwrap();
    held.push(lease(choose_on(&backend, 0)));
    let mut waits = waiting(choose_on(&backend, 1));
    assert_eq!((server.served(), server.queued()), (3, 0));
    held.remove(0);
    assert_eq!(granted(&mut waits).lease.server().name(), "a");
    backend.change(server.key(), ServerChange::MaximumConnections(0), 0).unwrap();
    held.extend((0..4).map(|_| lease(choose_on(&backend, 2))));
    assert_eq!((server.served(), server.is_unused()), (6, false));
    held.clear();
    assert_eq!((server.served(), server.is_unused()), (0, true));
    backend.clear_maxima();
    drop(choose_on(&backend, 2));
    assert_eq!(server.served_maximum(), 1);
}

/// A server that left and returned is a newcomer, even if no request arrived meanwhile.
#[test]
fn a_server_that_was_briefly_down_returns_as_a_new_one() {
    let sequence_after = |between: u64| {
        let backend = shared_by(1, BalanceAlgorithm::new("roundrobin"), weighted(&[1, 1, 1]));
        assert_eq!(sequence(&backend, 4), "0120");
        let third = key(&backend, "2");
        backend.change(third, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
        sequence(&backend, between);
        backend.change(third, ServerChange::State(RequestedState::Ready), 0).unwrap();
        sequence(&backend, 4)
    };
    assert_eq!((sequence_after(0), sequence_after(2)), ("1201".to_owned(), "1201".to_owned()));
}
