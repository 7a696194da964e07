//! Turns seen from outside: the number, classes and order of the tasks that run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use weir_sched::simulate::{Faults, SimulatedWorld};
use weir_sched::{
    Class, SchedulerTuning, Tick, WorkKind, WorkerSet, activity, current, kill, now, queues, set_nice,
    shared_tasks, sleep_until, spawn, spawn_shared, take_heavy_run, wait, wake, yield_now,
};

static KIND: WorkKind = WorkKind::new("turns");

fn world(workers: usize, runqueue_depth: u32, low_latency: bool) -> SimulatedWorld {
    let tuning = SchedulerTuning { runqueue_depth, low_latency, ..SchedulerTuning::default() };
    SimulatedWorld::new(1, workers, tuning, Faults::default()).expect("a world")
}

/// Spawns `count` tasks that end at once.
fn spawn_many(class: Class, count: usize) {
    for _ in 0..count {
        spawn(&KIND, class, async {});
    }
}

/// Runs of each class on a worker so far.
fn runs(world: &SimulatedWorld, worker: usize) -> [u64; 4] {
    let counters = world.look(worker, || {
        activity(worker, |activity| std::array::from_fn(|class| activity.runs[class].value()))
    });
    counters.expect("the worker lives")
}

/// Runs the next round of worker 0; returns its runs by class.
fn turn(world: &mut SimulatedWorld) -> [u64; 4] {
    let before = runs(world, 0);
    while runs(world, 0) == before {
        assert!(world.step(), "there is work left");
    }
    let after = runs(world, 0);
    std::array::from_fn(|class| after[class] - before[class])
}

#[track_caller]
fn check_rounds(entries: usize, expected: &[u64]) {
    let mut world = world(1, 100, false);
    world.on(0, || spawn_many(Class::Normal, entries));
    let rounds: Vec<u64> = expected.iter().map(|_| turn(&mut world)[1]).collect();
    assert_eq!(rounds, expected, "{entries} entries");
    assert_eq!(world.look(0, || queues().queued), [0; 4]);
}

/// R1, R9, R20: up to the depth in one round, up to twice the depth in two halves, then by the depth.
#[test]
fn a_queue_of_up_to_twice_the_depth_takes_two_equal_turns() {
    check_rounds(100, &[100]);
    check_rounds(101, &[51, 50]);
    check_rounds(150, &[75, 75]);
    check_rounds(199, &[100, 99]);
    check_rounds(250, &[100, 75, 75]);
    check_rounds(1000, &[100, 100, 100, 100, 100, 100, 100, 100, 100, 100]);
}

/// R20: a round goes on until its depth is used up, even if the class that has work used up its share: the unused shares of the
/// others are distributed again.
#[test]
fn a_turn_continues_until_its_depth_is_used() {
    for class in [Class::Urgent, Class::Normal, Class::Bulk] {
        let mut world = world(1, 100, false);
        world.on(0, || {
            let partner = Rc::new(Cell::new(current()));
            let partners = partner.clone();
            let answers = spawn(&KIND, class, async move {
                loop {
                    wait(Tick::NEVER).await;
                    wake(partners.get());
                }
            });
            partner.set(spawn(&KIND, class, async move {
                loop {
                    wake(answers);
                    wait(Tick::NEVER).await;
                }
            }));
        });
        turn(&mut world);
        for _ in 0..10 {
            let ran = turn(&mut world)[class as usize];
            // A remainder that cannot be split is not used.
            assert!((80..=100).contains(&ran), "{class:?}: {ran}");
        }
    }
}

/// R31, R43, R44, R45: ten heavy entries take ten rounds, each with a look at the poller, and cost the others nothing.
#[test]
fn one_heavy_task_runs_per_turn_without_delaying_other_classes() {
    let mut world = world(1, 200, false);
    world.on(0, || {
        let classes = [(Class::Heavy, 10), (Class::Bulk, 1000), (Class::Normal, 300), (Class::Urgent, 50)];
        for (class, count) in classes {
            spawn_many(class, count);
        }
    });
    let mut left = [50, 300, 1000, 10];
    let mut turns = 0;
    while left.iter().any(|left| *left > 0) {
        let ran = turn(&mut world);
        turns += 1;
        assert_eq!(ran[3], u64::from(left[3] > 0), "one heavy entry in turn {turns}");
        let others: u64 = left[..3].iter().sum();
        let expected = if others >= 400 {
            200
        } else if others > 200 {
            others.div_ceil(2)
        } else {
            others
        };
        assert_eq!(ran[..3].iter().sum::<u64>(), expected, "turn {turns}: {left:?}");
        left.iter_mut().zip(ran).for_each(|(left, ran)| *left -= ran);
    }
    assert_eq!(turns, 10);
}

/// R44: a round's heavy run goes to the first task that requests it and to no other, and waiting heavy work comes first.
#[test]
fn a_turn_grants_one_request_for_a_heavy_run() {
    let mut world = world(1, 200, false);
    let taken = Rc::new(Cell::new(0_u64));
    let spawn_requests = |count| {
        for _ in 0..count {
            let taken = taken.clone();
            spawn(&KIND, Class::Normal, async move { taken.set(taken.get() + u64::from(take_heavy_run())) });
        }
    };
    world.on(0, || spawn_requests(10));
    assert_eq!((turn(&mut world), taken.get()), ([0, 10, 0, 1], 1));
    world.on(0, || {
        spawn_requests(10);
        spawn_many(Class::Heavy, 2);
    });
    assert_eq!((turn(&mut world), taken.get()), ([0, 10, 0, 1], 1), "what waits comes first");
    world.on(0, || spawn_requests(10));
    assert_eq!((turn(&mut world), taken.get()), ([0, 10, 0, 1], 1));
    world.on(0, || spawn_requests(10));
    assert_eq!((turn(&mut world), taken.get()), ([0, 10, 0, 1], 2));
    // Heavy work that comes up after the run was given away waits for the next round.
    world.on(0, || {
        spawn_requests(1);
        spawn(&KIND, Class::Normal, async { spawn_many(Class::Heavy, 1) });
    });
    assert_eq!((turn(&mut world), taken.get()), ([0, 2, 0, 1], 3));
    assert_eq!(turn(&mut world), [0, 0, 0, 1]);
    // A task that heavy work spawns runs in the same round.
    world.on(0, || {
        let taken = taken.clone();
        let light = async move { taken.set(taken.get() + u64::from(take_heavy_run())) };
        spawn(&KIND, Class::Heavy, async { _ = spawn(&KIND, Class::Normal, light) })
    });
    assert_eq!((turn(&mut world), taken.get()), ([0, 1, 0, 1], 3));
}

/// R39, R44: with low latency, no task computes long where others may pass it.
#[test]
fn with_low_latency_requests_for_a_heavy_run_are_refused() {
    let mut world = world(1, 200, true);
    let taken = Rc::new(Cell::new(None));
    let note = taken.clone();
    world.on(0, || spawn(&KIND, Class::Normal, async move { note.set(Some(take_heavy_run())) }));
    assert_eq!((turn(&mut world), taken.get()), ([0, 1, 0, 0], Some(false)));
}

/// R41, R47 to R49: beside 1,000 units of heavy work a light bulk task waits for one of them at most. In any other class
/// they would turn into bulk as they yield, and all run before it.
#[test]
fn light_bulk_work_waits_for_at_most_one_heavy_run() {
    for (class, at_least, at_most) in [(Class::Heavy, 0, 1), (Class::Normal, 500, 1000)] {
        let mut world = world(1, 200, false);
        let (units, ran) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(None)));
        let light = world.on(0, || {
            let (count, ran) = (units.clone(), ran.clone());
            let light = spawn(&KIND, Class::Normal, async move {
                loop {
                    wait(Tick::NEVER).await;
                    ran.set(Some(count.get()));
                }
            });
            for _ in 0..1000 {
                let units = units.clone();
                spawn(&KIND, class, async move {
                    loop {
                        units.set(units.get() + 1);
                        yield_now().await;
                    }
                });
            }
            light
        });
        for _ in 0..20 {
            turn(&mut world);
        }
        let mut longest = 0;
        for _ in 0..50 {
            // Behind the bulk that waits, if there is any.
            let before = units.get();
            world.on(0, || spawn(&KIND, Class::Bulk, async move { wake(light) }));
            for _ in 0..20 {
                turn(&mut world);
            }
            let ran = ran.take().expect("it was woken");
            longest = longest.max(ran - before);
        }
        assert!((at_least..=at_most).contains(&longest), "{class:?}: {longest}");
    }
}

/// R30, R31: with endless work in each class, the shares of the runs are 16, 33, 50 and about 1 per cent.
#[test]
fn endless_work_of_all_classes_runs_by_the_class_shares() {
    let mut world = world(1, 100, false);
    world.on(0, || {
        for class in [Class::Urgent, Class::Normal, Class::Bulk, Class::Heavy] {
            let keys: Rc<[Cell<_>]> = (0..300).map(|_| Cell::default()).collect();
            for number in 0..keys.len() {
                let keys_too = keys.clone();
                // A new task of the class each time, since a task that wakes itself becomes bulk.
                let key = spawn(&KIND, class, async move {
                    loop {
                        wake(keys_too[(number + 150) % 300].get());
                        wait(Tick::NEVER).await;
                    }
                });
                keys[number].set(key);
            }
        }
    });
    let before = runs(&world, 0);
    for _ in 0..500 {
        turn(&mut world);
    }
    let ran: Vec<u64> = runs(&world, 0).iter().zip(before).map(|(after, before)| after - before).collect();
    let total: u64 = ran.iter().sum();
    for (class, wanted) in [16, 33, 50, 1].into_iter().enumerate() {
        let permille = ran[class] * 1000 / total;
        assert!(permille.abs_diff(wanted * 10) <= 20, "class {class}: {permille} per mille of {ran:?}");
    }
}

/// R39: with low latency, urgent work that arrives from outside in the middle of 10,000 bulk entries runs next.
#[test]
fn with_low_latency_a_remote_urgent_wake_ends_the_turn() {
    for low_latency in [true, false] {
        let mut world = world(2, 10_000, low_latency);
        let (sent, ran, after) =
            (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let urgent = world.on(0, || {
            let ran = ran.clone();
            spawn(&KIND, Class::Urgent, async move {
                wait(Tick::NEVER).await;
                ran.set(true);
            })
        });
        while world.look(0, || queues().queued) != [0; 4] {
            world.step();
        }
        world.on(0, || {
            for number in 0..10_000 {
                let (sent, ran, after) = (sent.clone(), ran.clone(), after.clone());
                spawn(&KIND, Class::Bulk, async move {
                    if number == 100 {
                        std::thread::scope(|scope| drop(scope.spawn(|| wake(urgent)).join()));
                        sent.set(true);
                    } else if sent.get() && !ran.get() {
                        after.set(after.get() + 1);
                    }
                });
            }
        });
        while !ran.get() {
            assert!(world.step());
        }
        assert_eq!(after.get(), if low_latency { 0 } else { 9_899 }, "low latency {low_latency}");
    }
}

/// R39: with low latency, new shared work ends the round, too.
#[test]
fn with_low_latency_new_shared_work_ends_the_turn() {
    for (low_latency, expected) in [(true, 0), (false, 899)] {
        let mut world = world(1, 1000, low_latency);
        let (after, ran_at) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(u32::MAX)));
        world.on(0, || {
            for number in 0..1000 {
                let (after, ran_at) = (after.clone(), ran_at.clone());
                spawn(&KIND, Class::Bulk, async move {
                    if number == 100 {
                        let after = after.clone();
                        spawn_shared(&KIND, &WorkerSet::all(1), async move {
                            ran_at.store(after.load(Relaxed), Relaxed);
                        });
                    } else if number > 100 {
                        after.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert!(world.settle(1000));
        assert_eq!(ran_at.load(Relaxed), expected, "low latency {low_latency}");
    }
}

/// R2: how much one worker has to do does not move the places of another one's tasks.
#[test]
fn the_load_of_one_worker_does_not_reorder_tasks_of_another() {
    let order = |load: usize| {
        let mut world = world(2, 100, false);
        let order = Rc::new(RefCell::new(Vec::new()));
        let keys: Vec<_> = world.on(1, || {
            let tasks = [0, 0, 50, 0, -50, 0, 1024, 0];
            let one = |(number, nice)| {
                let order = order.clone();
                spawn(&KIND, Class::Normal, async move {
                    set_nice(nice);
                    wait(Tick::NEVER).await;
                    order.borrow_mut().push(number);
                })
            };
            tasks.into_iter().enumerate().map(one).collect()
        });
        assert!(world.settle(1000));
        for key in keys {
            world.on(0, || spawn_many(Class::Normal, load));
            world.on(1, || wake(key));
        }
        assert!(world.settle(100_000));
        order.take()
    };
    assert_eq!(order(0), order(5000));
    assert_eq!(order(0), [4, 0, 1, 3, 5, 2, 7, 6]);
}

/// R54, R56, R57: a storm of deadlines in the global wait queue: no pass takes more than the depth, on any worker,
/// and every worker takes part.
#[test]
fn all_workers_take_parts_of_many_simultaneous_shared_deadlines() {
    const TASKS: u32 = 20_000;
    let mut world = world(4, 200, false);
    let ended = Arc::new(AtomicU32::new(0));
    world.on(0, || {
        let due = now().after(1000);
        for _ in 0..TASKS {
            let ended = ended.clone();
            spawn_shared(&KIND, &WorkerSet::all(4), async move {
                sleep_until(due).await;
                ended.fetch_add(1, Relaxed);
            });
        }
    });
    let timers = |world: &SimulatedWorld, worker| {
        world.look(worker, || activity(worker, |activity| activity.timers.value())).unwrap_or(0)
    };
    let mut taken = [0; 4];
    while ended.load(Relaxed) < TASKS {
        assert!(world.step(), "{} ended", ended.load(Relaxed));
        for (worker, taken) in taken.iter_mut().enumerate() {
            let now = timers(&world, worker);
            assert!(now - *taken <= 200, "{} in one pass", now - *taken);
            *taken = now;
        }
    }
    assert_eq!(taken.iter().sum::<u64>(), u64::from(TASKS));
    assert!(taken.iter().all(|taken| *taken > 1000), "{taken:?}");
    assert_eq!(world.look(0, shared_tasks), (0, 0));
}

/// R67: an order to end passes the queue: a task that waits ends in the next round, before 1,000 that were queued earlier
/// (ten rounds' worth), whichever thread gives it.
#[test]
fn a_killed_task_ends_before_earlier_queued_tasks() {
    for from_elsewhere in [false, true] {
        let mut world = world(1, 100, false);
        let held = Rc::new(());
        let key = world.on(0, || {
            let held = held.clone();
            spawn(&KIND, Class::Bulk, async move {
                let _held = held;
                wait(Tick::NEVER).await;
            })
        });
        assert!(world.settle(10));
        world.on(0, || spawn_many(Class::Bulk, 1000));
        if from_elsewhere {
            std::thread::scope(|scope| drop(scope.spawn(|| kill(key)).join()));
        } else {
            world.on(0, || kill(key));
        }
        assert_eq!(Rc::strong_count(&held), 2);
        let ran = turn(&mut world);
        assert_eq!((ran[0], Rc::strong_count(&held)), (1, 1), "from elsewhere: {from_elsewhere}");
    }
}

/// R67: so does one for shared work, in the shared queue.
#[test]
fn a_killed_shared_task_ends_before_earlier_queued_tasks() {
    let mut world = world(1, 100, false);
    let held = Arc::new(());
    let key = world.on(0, || {
        let held = held.clone();
        spawn_shared(&KIND, &WorkerSet::all(1), async move {
            let _held = held;
            wait(Tick::NEVER).await;
        })
    });
    assert!(world.settle(10));
    world.on(0, || {
        for _ in 0..1000 {
            spawn_shared(&KIND, &WorkerSet::all(1), async {});
        }
    });
    world.on(0, || kill(key));
    assert_eq!(Arc::strong_count(&held), 2);
    turn(&mut world);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// R59: a shared task that is killed leaves no deadline behind.
#[test]
fn a_killed_shared_task_removes_its_deadline() {
    let mut world = world(1, 100, false);
    let start = world.look(0, now);
    let key = world.on(0, || spawn_shared(&KIND, &WorkerSet::all(1), sleep_until(start.after(5000))));
    while turn(&mut world)[1] == 0 {}
    assert_eq!(world.look(0, shared_tasks), (1, 0));
    world.on(0, || kill(key));
    assert!(world.settle(10));
    assert_eq!(world.look(0, shared_tasks), (0, 0));
    assert_eq!(world.look(0, now).since(start), 0, "nobody waited for the deadline");
}

/// R61: a worker without any deadline waits for ever; with one it waits until then.
#[test]
fn a_worker_without_deadlines_waits_forever() {
    let mut world = world(1, 200, false);
    assert!(world.settle(10), "nothing to do, nothing to wait for");
    let start = world.look(0, now);
    world.on(0, || spawn(&KIND, Class::Normal, sleep_until(start.after(5000))));
    assert!(world.settle(10));
    assert_eq!(world.look(0, now).since(start), 5000);
    assert!(world.look(0, || current().is_none()));
}
