//! Checks on several workers, and their distribution.
//!
//! Checks connect to a socket of this process with a full accept queue, so each check lasts until it times out.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;

use weir_checks::{CheckLoad, Checks};
use weir_sched::simulate::{Faults, SimulatedWorld};
use weir_sched::{Activity, SchedulerTuning, activity, precise_ns, shared_tasks};

use crate::fixture::TestBackend;

fn world(seed: u64, workers: usize) -> SimulatedWorld {
    SimulatedWorld::new(seed, workers, SchedulerTuning::default(), Faults::default()).expect("a world")
}

/// An address that never accepts connections.
fn nowhere() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    weir_sys::socket::listen(&listener, 0).expect("it listens");
    let soon = std::time::Duration::from_millis(50);
    let waiting = std::iter::from_fn(|| TcpStream::connect_timeout(&address, soon).ok()).collect();
    (listener, waiting, address)
}

/// Advances the simulated time.
fn pass(world: &mut SimulatedWorld, milliseconds: u64) {
    // A sleeping worker does not read the clock, so read it here.
    let time_ns = |world: &SimulatedWorld| world.look(0, precise_ns);
    let end = time_ns(world) + milliseconds * 1_000_000;
    while time_ns(world) < end {
        assert!(world.step(), "somebody sleeps until the next check");
    }
}

fn adopted(checks: &Checks, worker: usize) -> u64 {
    checks.load.of(worker).expect("a worker").adopted.load(Relaxed)
}

fn started(checks: &Checks, worker: usize) -> u64 {
    checks.load.of(worker).expect("a worker").started.load(Relaxed)
}

/// R89: the worker that a check moves to runs it, even if another worker has less load.
#[test]
fn a_check_moves_at_most_once_per_wake_up_r89() {
    let (_listener, _waiting, address) = nowhere();
    let mut places = [0; 3];
    for seed in 0..32 {
        let mut world = world(seed, 3);
        let backend = TestBackend::new(address, 1);
        let checks = backend.checks(CheckLoad::new(3, 0));
        for (worker, others) in [10, 4, 1].into_iter().enumerate() {
            checks.load.of(worker).expect("a worker").active.store(others, Relaxed);
        }
        world.on(0, || checks.add(backend.plan_of(0)));
        // Waits for at most the first interval.
        pass(&mut world, 1001);
        let moves: Vec<u64> = (0..3).map(|worker| adopted(&checks, worker)).collect();
        let runs: Vec<u64> = (0..3).map(|worker| started(&checks, worker)).collect();
        assert_eq!(moves.iter().sum::<u64>(), 1, "seed {seed}: {moves:?}");
        assert_eq!(moves, runs, "seed {seed}: it runs where it came");
        (0..3).for_each(|worker| places[worker] += runs[worker]);
    }
    assert_eq!((places[0], places[1] > 0, places[2] > 0), (0, true, true), "{places:?}");
}

/// R90: a check compares workers at every wake-up. Of two workers, the check's own always has more checks, so it moves once
/// per interval.
#[test]
fn a_check_compares_another_workers_load_at_every_wake_up_r90() {
    let (_listener, _waiting, address) = nowhere();
    for seed in 0..4 {
        let mut world = world(seed, 2);
        let backend = TestBackend::new(address, 1);
        let checks = backend.checks(CheckLoad::new(2, 0));
        let burden = |worker: usize, others| {
            checks.load.of(worker).expect("a worker").active.store(others, Relaxed);
        };
        world.on(0, || checks.add(backend.plan_of(0)));
        let mut own = 0;
        for interval in 1..=12 {
            // The check is not counted any more after its run ends.
            while checks.load.of(own).expect("a worker").running.load(Relaxed) > 0 {
                assert!(world.step(), "it times out");
            }
            burden(own, 10);
            burden(1 - own, 0);
            let moved = |worker| adopted(&checks, worker);
            let before = moved(0) + moved(1);
            while moved(0) + moved(1) == before && started(&checks, own) < interval {
                assert!(world.step(), "it sleeps until the next check");
            }
            own = 1 - own;
            while started(&checks, 0) + started(&checks, 1) < interval {
                assert!(world.step(), "it runs where it came");
            }
            assert_eq!(moved(0) + moved(1), interval, "seed {seed}: one move at each wake-up");
            assert_eq!(moved(own), interval.div_ceil(2), "seed {seed}: to and fro");
        }
    }
}

/// R90: as many checks as workers, all on one of them. After two intervals, less than one check per seed shares a worker.
#[test]
fn checks_are_spread_over_workers_after_two_intervals_r90() {
    const WORKERS: usize = 8;
    const SEEDS: u64 = 32;
    let (_listener, _waiting, address) = nowhere();
    let mut met = Vec::new();
    for seed in 0..SEEDS {
        let mut world = world(seed, WORKERS);
        let backend = TestBackend::new(address, WORKERS as u32);
        let checks = backend.checks_of(Vec::new(), CheckLoad::new(WORKERS, 0));
        let mut plans: Vec<_> = (0..WORKERS as u32).map(|rank| backend.plan_of(rank)).collect();
        plans.iter_mut().for_each(|plan| plan.timings.connect_ms = Some(900));
        world.on(0, || plans.into_iter().for_each(|plan| checks.add(plan)));
        pass(&mut world, 3_000);
        let active = |worker| checks.load.of(worker).expect("a worker").active.load(Relaxed);
        met.push((0..WORKERS).map(|worker| active(worker).saturating_sub(1)).sum::<u32>());
    }
    // Each check draws twice, so some share a worker: 25 in 32 seeds. With a draw only at the first wake-up, 60 would.
    assert!(met.iter().sum::<u32>() <= 40, "{met:?}");
}

/// R53, R87, R91: a check sleeps on its worker and wakes no other. No shared work exists, only moving checks send messages, and
/// eight workers sleep about as often for the same checks as one.
#[test]
fn checks_wake_only_their_own_worker_r53_r91() {
    let (_listener, _waiting, address) = nowhere();
    let sleeps = [1, 8].map(|workers| {
        let mut world = world(1, workers);
        let backend = TestBackend::new(address, 24);
        let checks = backend.checks_of(Vec::new(), CheckLoad::new(workers, 0));
        // Started at random times within their interval, so few are due together.
        world.on(0, || (0..24).for_each(|rank| checks.add(backend.plan_of(rank))));
        let total = |world: &SimulatedWorld, count: fn(&Activity) -> u64| -> u64 {
            let of = |worker| world.look(0, || activity(worker, count)).expect("a worker");
            (0..workers).map(of).sum()
        };
        let ran = || (0..workers).map(|worker| started(&checks, worker)).sum::<u64>();
        while ran() < 24 * 20 {
            assert!(world.step(), "somebody sleeps until the next check");
            assert_eq!(world.look(0, shared_tasks), (0, 0), "nothing is for all workers");
        }
        let moved: u64 = (0..workers).map(|worker| adopted(&checks, worker)).sum();
        assert_eq!(total(&world, |activity| activity.messages.value()), moved);
        total(&world, |activity| activity.loops.value() - activity.busy_polls.value())
    });
    // Two sleeps per check (until it begins and until it ends), fewer if checks of a worker are due together, one more per move.
    let [one, eight] = sleeps;
    assert!(one <= 2 * 24 * 20 && eight * 10 <= one * 13, "{sleeps:?}");
}

/// R90, R94: checks of added servers, all on one worker, run on one worker each after some intervals.
#[test]
fn checks_of_added_servers_spread_over_workers_r94() {
    let (_listener, _waiting, address) = nowhere();
    for seed in 0..8 {
        let mut world = world(seed, 4);
        let backend = TestBackend::new(address, 4);
        let checks = backend.checks_of(Vec::new(), CheckLoad::new(4, 0));
        let mut plans: Vec<_> = (0..4).map(|rank| backend.plan_of(rank)).collect();
        plans.iter_mut().for_each(|plan| plan.timings.connect_ms = Some(900));
        world.on(0, || plans.into_iter().for_each(|plan| checks.add(plan)));
        pass(&mut world, 30_000);
        for _ in 0..10 {
            pass(&mut world, 137);
            let active = |worker| checks.load.of(worker).expect("a worker").active.load(Relaxed);
            let counts = [0, 1, 2, 3].map(active);
            assert!(counts.iter().all(|&count| count <= 1), "seed {seed}: {counts:?}");
        }
        let adopted: u64 = (0..4).map(|worker| adopted(&checks, worker)).sum();
        assert!((3..20).contains(&adopted), "seed {seed}: {adopted} moves");
    }
}

/// Requests that arrive while many checks are due wait for only one of them: other tasks and the poller run between any two.
#[test]
fn checks_due_at_the_same_time_start_one_per_loop() {
    let (_listener, _waiting, address) = nowhere();
    for seed in 0..8 {
        let mut world = world(seed, 1);
        let backend = TestBackend::new(address, 20);
        let checks = backend.checks(CheckLoad::new(1, 0));
        world.on(0, || checks.start());
        let mut before = 0;
        // A step is one loop of the worker.
        while before < 60 {
            assert!(world.step(), "somebody sleeps until the next check");
            let after = started(&checks, 0);
            assert!(after <= before + 1, "seed {seed}: {} checks began in one loop", after - before);
            before = after;
        }
    }
}

/// If a loop takes milliseconds, one check per loop is too few. Checks that waited long enough begin together.
#[test]
fn checks_start_promptly_even_if_loops_are_slow() {
    let (_listener, _waiting, address) = nowhere();
    for seed in 0..8 {
        let slow = Faults { slow: 1, ..Faults::default() };
        let mut world = SimulatedWorld::new(seed, 1, SchedulerTuning::default(), slow).expect("a world");
        let backend = TestBackend::new(address, 100);
        let checks = backend.checks(CheckLoad::new(1, 0));
        world.on(0, || checks.start());
        let time_ms = |world: &SimulatedWorld| world.look(0, precise_ns) / 1_000_000;
        while started(&checks, 0) == 0 {
            assert!(world.step(), "somebody sleeps until the first check");
        }
        let first = time_ms(&world);
        while started(&checks, 0) < 100 {
            assert!(world.step(), "somebody waits to begin");
        }
        let took = time_ms(&world) - first;
        assert!(took <= 60, "seed {seed}: the last began {took} ms after the first");
    }
}
