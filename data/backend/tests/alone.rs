//! Workers that choose on their own: what they take no lock for, and how their choices add up.
#![cfg(not(loom))]

mod fixture;

use std::sync::Arc;

use fixture::*;
use weir_backend::*;

fn shared_by(workers: usize, algorithm: Algorithm, servers: Vec<ServerSettings>) -> Arc<Backend> {
    with(BackendSettings { workers, algorithm, ..Default::default() }, servers)
}

fn weighted(weights: &[u32]) -> Vec<ServerSettings> {
    let names = weights.iter().enumerate().map(|(place, weight)| (place.to_string(), *weight));
    names.map(|(name, weight)| ServerSettings { weight, ..server(&name) }).collect()
}

/// How often this thread locks a backend while `work` runs.
fn locks_of(work: impl FnOnce()) -> u64 {
    let count = || {
        let figures = weir_sync::lock_figures().into_iter().filter(|figures| figures.name == "BACKEND");
        figures.flat_map(|figures| figures.modes).map(|mode| mode.locks).sum::<u64>()
    };
    let before = count();
    weir_sync::measure_locks(true);
    work();
    weir_sync::measure_locks(false);
    count() - before
}

/// The whole way of a request: entering, choosing or taking, leaving. Only what means all workers' load needs the lock.
#[test]
fn requests_take_no_lock_unless_the_algorithm_means_all_workers() {
    const REQUESTS: u32 = 1_000;
    let cases = [
        (Algorithm::RoundRobin, 0, true),
        (Algorithm::StaticRoundRobin, 0, true),
        (Algorithm::Random { draws: 1 }, 0, false),
        (Algorithm::Random { draws: 2 }, 0, false),
        (Algorithm::First, 0, false),
        (Algorithm::Sticky, 0, false),
        (Algorithm::Source, 0, false),
        (Algorithm::LeastConnections, 0, true),
        (Algorithm::RoundRobin, 9, true),
    ];
    for (algorithm, limit, locks) in cases {
        let backend = shared_by(2, algorithm.clone(), vec![limited("a", limit), server("b"), server("c")]);
        let designated = backend.servers()[usize::from(limit == 0)].key();
        // A worker looks at the farm once.
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

/// A reference that every request counts would be written to by all workers.
#[test]
fn a_lease_counts_no_reference_that_all_workers_count() {
    let backend = shared_by(2, Algorithm::RoundRobin, vec![server("a")]);
    let a = key(&backend, "a");
    drop(choose_on(&backend, 1));
    let server = backend.server(a).expect("it is there");
    let before = Arc::strong_count(&server);
    let chosen = lease(choose_on(&backend, 1));
    let input = ChooseInput { worker: 1, ..at(0) };
    let taken = lease(backend.take(a, false, &input, || Bell::default().wake()));
    assert_eq!((Arc::strong_count(&server), server.served()), (before, 2));
    drop((chosen, taken));
    // A view keeps no server for long that was let go.
    backend.change(a, Change::State(RequestedState::Maintenance), 0).unwrap();
    backend.remove(a, 0).unwrap();
    assert!(matches!(choose_on(&backend, 1), Choice::None));
    assert_eq!(Arc::strong_count(&server), 1);
}

/// A change is seen at the next choice, for one lock of each worker.
#[test]
fn a_change_costs_each_worker_one_look() {
    let backend = shared_by(4, Algorithm::Random { draws: 1 }, weighted(&[1, 1]));
    (0..4).for_each(|worker| drop(choose_on(&backend, worker)));
    let second = key(&backend, "1");
    backend.change(second, Change::State(RequestedState::Maintenance), 0).unwrap();
    let taken = locks_of(|| {
        for request in 0..40 {
            assert_eq!(lease(choose_on(&backend, request % 4)).server().name(), "0");
        }
    });
    assert_eq!(taken, 4);
}

/// Who serves a request does not show: the next one goes to the next server.
#[test]
fn workers_take_turns_with_each_other() {
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRoundRobin] {
        let backend = shared_by(3, algorithm.clone(), weighted(&[1; 4]));
        let names = [0, 1, 1, 2, 0, 2, 1, 0]
            .map(|worker| lease(choose_on(&backend, worker)).server().name().to_owned());
        assert_eq!(names.concat(), "01230123", "{algorithm:?}");
    }
}

/// One server has every turn: nobody locks for it.
#[test]
fn a_single_server_needs_no_turns() {
    let backend = shared_by(2, Algorithm::RoundRobin, vec![server("a")]);
    drop(choose_on(&backend, 1));
    assert_eq!(locks_of(|| (0..10).for_each(|_| drop(choose_on(&backend, 1)))), 0);
}

/// Eight workers at once: together they are as fair as a single one.
#[test]
fn the_shares_of_eight_workers_add_up_to_the_weights() {
    const WORKERS: usize = 8;
    const REQUESTS: u64 = 20_000;
    let weights = [1, 2, 3, 4, 10];
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRoundRobin] {
        let backend = shared_by(WORKERS, algorithm.clone(), weighted(&weights));
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let backend = &backend;
                scope.spawn(move || {
                    for _ in 0..REQUESTS {
                        let lease = lease(choose_on(backend, worker));
                        lease.server().figures().increment(worker, ServerCounter::Balanced);
                    }
                });
            }
        });
        let total = WORKERS as u64 * REQUESTS;
        for (server, weight) in backend.servers().iter().zip(weights) {
            let (got, due) = (server.figures().sum(ServerCounter::Balanced), total * u64::from(weight) / 20);
            assert!(got.abs_diff(due) * 100 <= due, "{algorithm:?}: {got} of {due}");
            assert_eq!(server.served(), 0);
        }
    }
}

/// Each worker counts for itself, readers add up, whichever way a slot was taken.
#[test]
fn readers_add_up_what_workers_count() {
    let backend = shared_by(3, Algorithm::RoundRobin, vec![server("a")]);
    let mut held: Vec<_> = (0..6).map(|request| lease(choose_on(&backend, request % 3))).collect();
    let server = &backend.servers()[0];
    assert_eq!((server.served(), server.served_maximum()), (6, 6));
    // A lease may end on another thread than it began.
    let other = held.split_off(2);
    std::thread::spawn(move || drop(other)).join().unwrap();
    assert_eq!((server.served(), server.served_maximum()), (2, 6));
    // With a limit, who came before counts on.
    backend.change(server.key(), Change::MaximumConnections(3), 0).unwrap();
    held.push(lease(choose_on(&backend, 0)));
    let mut waits = waiting(choose_on(&backend, 1));
    assert_eq!((server.served(), server.queued()), (3, 0));
    held.remove(0);
    assert_eq!(granted(&mut waits).lease.server().name(), "a");
    backend.change(server.key(), Change::MaximumConnections(0), 0).unwrap();
    held.extend((0..4).map(|_| lease(choose_on(&backend, 2))));
    assert_eq!((server.served(), server.is_unused()), (6, false));
    held.clear();
    assert_eq!((server.served(), server.is_unused()), (0, true));
    backend.clear_maxima();
    drop(choose_on(&backend, 2));
    assert_eq!(server.served_maximum(), 1);
}

/// Who is away comes back as a newcomer, also where no request came meanwhile.
#[test]
fn a_server_that_was_away_for_a_moment_keeps_no_place() {
    let sequence_after = |between: u64| {
        let backend = shared_by(1, Algorithm::RoundRobin, weighted(&[1, 1, 1]));
        assert_eq!(sequence(&backend, 4), "0120");
        let third = key(&backend, "2");
        backend.change(third, Change::State(RequestedState::Maintenance), 0).unwrap();
        sequence(&backend, between);
        backend.change(third, Change::State(RequestedState::Ready), 0).unwrap();
        sequence(&backend, 4)
    };
    assert_eq!((sequence_after(0), sequence_after(2)), ("1201".to_owned(), "1201".to_owned()));
}
