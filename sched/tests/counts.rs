//! Counters are exact: queues, runs and tasks, on one worker and on several, at rest and under stress.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use weir_sched::simulate::{Faults, SimulatedWorld};
use weir_sched::{
    Class, Runtime, RuntimeSettings, SchedulerTuning, TaskKey, Tick, WorkKind, WorkerSet, activity, current,
    kill, now, queues, set_class, shared_tasks, sleep_until, spawn, spawn_shared, wait, wake, yield_now,
};

static KIND: WorkKind = WorkKind::new("counts");
const CLASSES: [Class; 4] = [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy];

fn world(workers: usize, runqueue_depth: u32) -> SimulatedWorld {
    let tuning = SchedulerTuning { runqueue_depth, ..SchedulerTuning::default() };
    SimulatedWorld::new(1, workers, tuning, Faults::default()).expect("a world")
}

/// A task of the current worker that waits for ever, again and again.
fn waiter(class: Class) -> TaskKey {
    spawn(&KIND, class, async {
        loop {
            wait(Tick::NEVER).await;
        }
    })
}

fn runs(world: &SimulatedWorld, worker: usize) -> [u64; 4] {
    let counters = world.look(worker, || {
        activity(worker, |activity| std::array::from_fn(|class| activity.runs[class].value()))
    });
    counters.expect("the worker lives")
}

/// R5, R12, R13: each list has its own count, with one worker or more; the number of queued tasks is their sum.
#[test]
fn the_number_of_queued_tasks_is_the_sum_of_the_queue_lengths() {
    for workers in [1, 4] {
        let mut world = world(workers, 1000);
        let last = workers - 1;
        world.on(last, || {
            for (class, count) in CLASSES.into_iter().zip([2, 3, 5, 7]) {
                (0..count).for_each(|_| _ = spawn(&KIND, class, async {}));
            }
            for _ in 0..11 {
                spawn_shared(&KIND, &WorkerSet::one(last), async {});
            }
            assert_eq!((queues().queued, shared_tasks()), ([2, 3, 5, 7], (11, 11)), "{workers} workers");
        });
        for worker in 0..last {
            assert_eq!(world.look(worker, || queues().queued), [0; 4], "other workers have nothing");
        }
        assert!(world.settle(1000));
        assert_eq!(world.look(last, || (queues().queued, shared_tasks())), ([0; 4], (0, 0)));
        // A task from the shared queue counts once, as normal work of the worker that ran it.
        assert_eq!(runs(&world, last), [2, 3 + 11, 5, 7], "{workers} workers");
    }
}

/// R9: runs are added up once, after the round; a running task never sees the counter change. R11: a picked task leaves its queue
/// once, and enters no other.
#[test]
fn run_counters_are_updated_once_after_a_turn() {
    let mut world = world(1, 1000);
    let seen = Rc::new(RefCell::new(Vec::new()));
    world.on(0, || {
        for _ in 0..100 {
            let seen = seen.clone();
            spawn(&KIND, Class::Normal, async move {
                let ran = activity(0, |activity| activity.runs[1].value());
                seen.borrow_mut().push((ran, queues().queued[1]));
            });
        }
    });
    assert!(world.settle(100));
    let expected: Vec<_> = (0..100).rev().map(|left| (Some(0), left)).collect();
    assert_eq!(*seen.borrow(), expected);
    assert_eq!(runs(&world, 0)[1], 100);
}

/// R3, R14, R24, R85: a worker spawns, wakes and runs its own tasks without a read-modify-write, a fence or a lock, in whole rounds with
/// looks at the poller. A wake of another worker's task needs them.
#[cfg(debug_assertions)]
#[test]
fn local_tasks_run_without_read_modify_writes_fences_or_locks() {
    use weir_sync::atomic::{Operations, operations};
    fn of(work: impl FnOnce()) -> Operations {
        let before = operations();
        work();
        operations() - before
    }
    let mut world = world(3, 10);
    let (own, other) = (world.on(0, || waiter(Class::Normal)), world.on(1, || waiter(Class::Normal)));
    assert!(world.settle(100), "all of them sleep");
    for class in CLASSES {
        // The first tasks of a worker may allocate a chunk of slots.
        let spawned = of(|| world.look(0, || (0..100).for_each(|_| _ = spawn(&KIND, class, async {}))));
        assert_eq!(spawned, Operations::default(), "spawns, {class:?}");
    }
    let woken = of(|| world.look(0, || (0..3).for_each(|_| wake(own))));
    assert_eq!(woken, Operations::default(), "wakes");
    let before = runs(&world, 0).iter().sum::<u64>();
    world.on(0, || ());
    let turns = of(|| (0..40).for_each(|_| assert!(world.step())));
    assert_eq!(turns, Operations::default(), "turns and looks at the poller");
    assert!(runs(&world, 0).iter().sum::<u64>() >= before + 200, "they ran");
    let remote = of(|| world.look(0, || wake(other)));
    assert!(remote.read_modify_writes > 0 && remote.fences > 0, "{remote:?}");
}

/// R15: a task is queued in its own class, for any kind of wake.
#[test]
fn every_kind_of_wake_queues_a_task_in_its_own_class() {
    for (number, class) in CLASSES.into_iter().enumerate() {
        let mut world = world(2, 1000);
        let mut expected = [0; 4];
        expected[number] = 1;
        let check = |world: &SimulatedWorld, way: &str| {
            assert_eq!(world.look(0, || queues().queued), expected, "{class:?}, {way}");
        };
        let key = world.on(0, || waiter(class));
        check(&world, "spawned");
        assert!(world.settle(100));
        world.on(0, || wake(key));
        check(&world, "woken here");
        assert!(world.settle(100));
        // By another worker, and by a deadline: seen by a task that runs in that round.
        let seen = Rc::new(RefCell::new(Vec::new()));
        let before_all_others = |world: &SimulatedWorld| {
            let seen = seen.clone();
            let watches = async move {
                for _ in 0..2 {
                    let mut queued = queues().queued;
                    queued[0] += u32::from(class == Class::Urgent);
                    seen.borrow_mut().push(queued);
                    wait(Tick::NEVER).await;
                }
            };
            world.on(0, || spawn(&KIND, Class::Urgent, watches))
        };
        if class != Class::Urgent {
            before_all_others(&world);
            world.look(1, || wake(key));
            assert!(world.settle(100));
            assert_eq!(seen.take(), [expected], "{class:?}, woken elsewhere");
            world.on(0, || {
                let due = now().after(5);
                spawn(&KIND, class, sleep_until(due));
                let seen = seen.clone();
                spawn(&KIND, Class::Urgent, async move {
                    sleep_until(due).await;
                    seen.borrow_mut().push(queues().queued);
                });
            });
            assert!(world.settle(100));
            assert_eq!(seen.take(), [expected], "{class:?}, its time came");
        }
        // A change of class counts from the next time on.
        let changes = world.on(0, || {
            spawn(&KIND, Class::Normal, async move {
                set_class(class);
                wait(Tick::NEVER).await;
            })
        });
        assert!(world.settle(100));
        world.on(0, || wake(changes));
        check(&world, "changed");
    }
}

/// R67, R70: an order to end reaches a task that never ran, from its own worker and from others: no task and no slot is left.
#[test]
fn kill_ends_a_task_that_never_ran() {
    for from in [0, 1] {
        let mut world = world(2, 100);
        let held = Rc::new(());
        for _ in 0..3 {
            let keys: Vec<_> = world.on(0, || {
                let one = |_| {
                    let held = held.clone();
                    spawn(&KIND, Class::Normal, async move {
                        let _held = held;
                        unreachable!("the order to end came before it ran");
                    })
                };
                (0..50).map(one).collect()
            });
            world.look(from, || keys.into_iter().for_each(kill));
            assert!(world.settle(1000));
            assert_eq!(
                (Rc::strong_count(&held), world.look(0, || queues().tasks)),
                (1, 0),
                "ended by {from}"
            );
        }
        let panics = world.look(0, || activity(0, |activity| activity.panics.value()));
        assert_eq!(panics, Some(0), "and none of them ran");
    }
}

/// R35: with both depths at 10,000, urgent work queued when a round begins runs before 30,000 entries of bulk work;
/// urgent work queued during the round waits for its end, and no longer.
#[test]
fn urgent_work_runs_before_thousands_of_bulk_tasks() {
    const BULK: u32 = 30_000;
    let mut world = world(1, 10_000);
    let bulk = Rc::new(RefCell::new(0_u32));
    let waited = Rc::new(RefCell::new(Vec::new()));
    world.on(0, || {
        for number in 0..BULK {
            let (bulk, waited) = (bulk.clone(), waited.clone());
            spawn(&KIND, Class::Bulk, async move {
                *bulk.borrow_mut() += 1;
                if number == 5000 {
                    let bulk = bulk.clone();
                    spawn(&KIND, Class::Urgent, async move { waited.borrow_mut().push(*bulk.borrow()) });
                }
            });
        }
        let (bulk, waited) = (bulk.clone(), waited.clone());
        spawn(&KIND, Class::Urgent, async move { waited.borrow_mut().push(*bulk.borrow()) });
    });
    assert!(world.settle(20));
    // The first round has one urgent run and 9,999 others.
    assert_eq!((waited.take(), bulk.take()), (vec![0, 9_999], BULK));
}

/// R6, R85: each worker counts the tasks that it made and ended, and no others; the sum is the number of live tasks at any time.
#[test]
fn each_worker_counts_its_own_tasks() {
    const WORKERS: usize = 4;
    const ROUNDS: u64 = 200;
    let runtime = Runtime::start(&RuntimeSettings { threads: WORKERS, ..RuntimeSettings::default() }, |_| {})
        .expect("threads");
    let handle = runtime.handle();
    let (sender, receiver) = mpsc::channel();
    for worker in 0..WORKERS {
        for _ in 0..ROUNDS {
            let sender = sender.clone();
            let work = move || {
                // These tasks end; one more in each round lives on.
                for _ in 0..=worker {
                    spawn(&KIND, Class::Normal, async {});
                }
                spawn(&KIND, Class::Bulk, async move {
                    sender.send(()).expect("the test listens");
                    wait(Tick::NEVER).await;
                });
            };
            handle.send_to(worker, work).expect("the worker lives");
        }
    }
    for _ in 0..WORKERS as u64 * ROUNDS {
        receiver.recv_timeout(Duration::from_secs(20)).expect("all of them run");
    }
    for worker in 0..WORKERS {
        let counts = || {
            handle
                .activity(worker, |activity| (activity.spawned.value(), activity.ended.value()))
                .expect("it lives")
        };
        let ended = ROUNDS * (worker as u64 + 1);
        let begun = Instant::now();
        while counts().1 < ended && begun.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        assert_eq!(counts(), (ended + ROUNDS, ended), "worker {worker}");
    }
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}

/// R10, R12: under stress every run of shared work is counted once, by the worker that ran it, and the shared queue is
/// empty in the end; R13: with one worker as with four.
#[test]
fn runs_of_shared_work_are_counted_exactly() {
    for workers in [1, 4] {
        const TASKS: u64 = 300;
        let runtime =
            Runtime::start(&RuntimeSettings { threads: workers, ..RuntimeSettings::default() }, |_| {});
        let runtime = runtime.expect("threads");
        let handle = runtime.handle();
        let (ran, everybody) = (Arc::new(AtomicU64::new(0)), WorkerSet::all(workers));
        let (sender, receiver) = mpsc::channel();
        for number in 0..TASKS {
            let (ran, sender) = (ran.clone(), sender.clone());
            handle.spawn_shared(&KIND, &everybody, async move {
                for round in 0..20 {
                    ran.fetch_add(1, Relaxed);
                    match (number + round) % 3 {
                        0 => yield_now().await,
                        1 => drop(wait(now().after(1)).await),
                        _ => {
                            wake(current());
                            wait(Tick::NEVER).await;
                        }
                    }
                }
                ran.fetch_add(1, Relaxed);
                sender.send(()).expect("the test listens");
            });
        }
        for _ in 0..TASKS {
            receiver.recv_timeout(Duration::from_secs(20)).expect("all of them end");
        }
        let counted = || -> u64 {
            (0..workers)
                .filter_map(|worker| {
                    handle
                        .activity(worker, |activity| activity.runs.iter().map(|run| run.value()).sum::<u64>())
                })
                .sum()
        };
        // A round adds up its runs at its end.
        let begun = Instant::now();
        while (counted() < ran.load(Relaxed) || handle.shared_tasks() != (0, 0))
            && begun.elapsed() < Duration::from_secs(20)
        {
            std::thread::yield_now();
        }
        assert_eq!((counted(), handle.shared_tasks()), (ran.load(Relaxed), (0, 0)), "{workers} workers");
        assert_eq!(ran.load(Relaxed), TASKS * 21);
        runtime.stop();
        assert_eq!(runtime.join(), Ok(()));
    }
}

/// R57: 20,000 shared deadlines in one millisecond on four threads, under a watchdog: all are served, and no worker is stuck
/// in taking them.
#[test]
fn twenty_thousand_simultaneous_deadlines_do_not_stall_a_worker() {
    const TASKS: u64 = 20_000;
    let runtime = Runtime::start(&RuntimeSettings { threads: 4, ..RuntimeSettings::default() }, |_| {})
        .expect("threads");
    let stalls = Arc::new(AtomicU64::new(0));
    let watchdog = {
        let stalls = stalls.clone();
        runtime.watch(Duration::from_millis(500), Duration::ZERO, move |_| _ = stalls.fetch_add(1, Relaxed))
    };
    let handle = runtime.handle();
    let (sender, receiver) = mpsc::channel();
    let due = now().after(200);
    for _ in 0..TASKS {
        let sender = sender.clone();
        handle.spawn_shared(&KIND, &WorkerSet::all(4), async move {
            sleep_until(due).await;
            sender.send(now() >= due).expect("the test listens");
        });
    }
    for _ in 0..TASKS {
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(true), "not before its time");
    }
    drop(watchdog);
    assert_eq!(stalls.load(Relaxed), 0);
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}
