//! The counters of a worker's activity: each changes when it should, by as much as it should.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use weir_sched::simulate::{Faults, SimulatedWorld};
use weir_sched::{
    Activity, Cause, Class, ProfileMode, ProfileSettings, SchedulerTuning, Tick, WaitingKind, WorkKind,
    WorkerSet, activity, kill, now, profile, published, queues, send_to, set_nice, set_profiling,
    sleep_until, spawn, spawn_shared, wait, wake, yield_now,
};

static KIND: WorkKind = WorkKind::new("activity");

fn world(workers: usize, runqueue_depth: u32, low_latency: bool) -> SimulatedWorld {
    let tuning = SchedulerTuning { runqueue_depth, low_latency, ..SchedulerTuning::default() };
    SimulatedWorld::new(1, workers, tuning, Faults::default()).expect("a world")
}

fn counter(world: &SimulatedWorld, counter: fn(&Activity) -> u64) -> u64 {
    world.look(0, || activity(0, counter)).expect("the worker lives")
}

/// Runs of all classes are counted exactly, also when tasks that a round spawned run in the same round.
#[test]
fn counts_each_spawned_and_run_task_once() {
    let mut world = world(1, 100, false);
    let ran = Rc::new(Cell::new(0_u64));
    world.on(0, || {
        for _ in 0..5 {
            let ran = ran.clone();
            spawn(&KIND, Class::Normal, async move {
                ran.set(ran.get() + 1);
                for class in [Class::Urgent, Class::Normal, Class::Bulk] {
                    for _ in 0..25 {
                        let ran = ran.clone();
                        spawn(&KIND, class, async move { ran.set(ran.get() + 1) });
                    }
                }
            });
        }
    });
    assert!(world.settle(1000));
    assert_eq!(ran.get(), 5 + 5 * 75);
    assert_eq!(counter(&world, |activity| activity.runs.iter().map(|run| run.value()).sum()), ran.get());
    let runs = world.look(0, || activity(0, |activity| activity.runs.each_ref().map(|run| run.value())));
    assert_eq!(runs, Some([125, 130, 125, 0]));
}

/// A round is long when more waits than the depth, and empty when nothing does.
#[test]
fn turns_above_the_depth_count_as_long_and_without_tasks_as_empty() {
    for (entries, expected) in [(100, 0), (101, 1), (250, 2)] {
        let mut world = world(1, 100, false);
        world.on(0, || (0..entries).for_each(|_| _ = spawn(&KIND, Class::Normal, async {})));
        assert!(world.settle(100));
        assert_eq!(counter(&world, |activity| activity.long_turns.value()), expected, "{entries} entries");
    }
    let mut world = world(1, 100, false);
    assert!(world.settle(10));
    let before = counter(&world, |activity| activity.empty_turns.value());
    assert_eq!(before, 1);
    world.on(0, || spawn(&KIND, Class::Normal, async {}));
    assert!(world.settle(10));
    assert_eq!(counter(&world, |activity| activity.empty_turns.value()), before);
}

/// Others see the queues at the round's begin; after its end the tasks left, including those that yielded. R4: tasks
/// with a `nice` are counted, too.
#[test]
fn queue_lengths_are_published_once_per_turn() {
    let mut world = world(1, 100, false);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let niced = world.on(0, || {
        spawn(&KIND, Class::Normal, async {
            set_nice(100);
            wait(Tick::NEVER).await;
        })
    });
    assert!(world.settle(10));
    world.on(0, || {
        wake(niced);
        assert_eq!(queues().queued, [0, 1, 0, 0]);
        for class in [Class::Urgent, Class::Normal, Class::Bulk, Class::Bulk] {
            let seen = seen.clone();
            spawn(&KIND, class, async move {
                seen.borrow_mut().push(published(0).expect("it lives").queued);
                yield_now().await;
            });
        }
    });
    while counter(&world, |activity| activity.runs[1].value()) < 3 {
        assert!(world.step());
    }
    assert_eq!(*seen.borrow(), [[1, 2, 2, 0]; 4]);
    assert_eq!(counter(&world, |activity| activity.queued.value()), 4, "they gave up their turn");
}

/// Others see how many deadlines were armed when the round began.
#[test]
fn the_number_of_armed_deadlines_is_published_once_per_turn() {
    let mut world = world(1, 100, false);
    world.on(0, || (0..7).for_each(|_| _ = spawn(&KIND, Class::Normal, sleep_until(now().after(3_600_000)))));
    for (runs, expected) in [(7, 0), (8, 7)] {
        while counter(&world, |activity| activity.runs[1].value()) < runs {
            assert!(world.step());
        }
        assert_eq!(world.look(0, || published(0).expect("it lives").timers), expected);
        world.on(0, || spawn(&KIND, Class::Normal, async {}));
    }
}

/// Shared work gets the room that the worker's own normal tasks leave of their part of a round.
#[test]
fn shared_work_gets_the_budget_left_by_a_workers_own_tasks() {
    for (own, expected) in [(10, 155), (0, 150), (300, 200)] {
        let mut world = world(1, 200, false);
        world.on(0, || {
            (0..own).for_each(|_| _ = spawn(&KIND, Class::Normal, async {}));
            (0..300).for_each(|_| _ = spawn_shared(&KIND, &WorkerSet::all(1), async {}));
        });
        while counter(&world, |activity| activity.runs[1].value()) == 0 {
            assert!(world.step());
        }
        assert_eq!(counter(&world, |activity| activity.runs[1].value()), expected, "{own} of its own");
    }
}

/// R39: with low latency, too, a round runs no more of a class than its budget.
#[test]
fn low_latency_keeps_the_class_budgets_of_a_turn() {
    for class in [Class::Bulk, Class::Normal] {
        let mut world = world(1, 10, true);
        world.on(0, || {
            for _ in 0..1000 {
                match class {
                    Class::Normal => _ = spawn_shared(&KIND, &WorkerSet::all(1), async {}),
                    class => _ = spawn(&KIND, class, async {}),
                }
            }
        });
        let of_class: fn(&Activity) -> u64 = match class {
            Class::Bulk => |activity| activity.runs[2].value(),
            _ => |activity| activity.runs[1].value(),
        };
        let mut before = 0;
        while before < 1000 {
            assert!(world.step(), "{before} ran");
            let ran = counter(&world, of_class);
            assert!(ran - before <= 10, "{} in one turn", ran - before);
            before = ran;
        }
    }
}

/// R39: with low latency a message of another worker ends the round, and urgent work goes before the next shared task.
#[test]
fn low_latency_checks_for_urgent_work_after_each_run() {
    for (low_latency, expected) in [(true, 0), (false, 899)] {
        let mut world = world(1, 1000, low_latency);
        let (after, seen) = (Rc::new(Cell::new(0)), std::sync::Arc::new(AtomicU32::new(u32::MAX)));
        world.on(0, || {
            for number in 0..1000 {
                let (after, seen) = (after.clone(), seen.clone());
                spawn(&KIND, Class::Bulk, async move {
                    if number == 100 {
                        send_to(0, move || seen.store(RAN.get(), Relaxed)).expect("there is room");
                    } else if number > 100 {
                        after.set(after.get() + 1);
                        RAN.set(after.get());
                    }
                });
            }
        });
        RAN.set(0);
        assert!(world.settle(1000));
        assert_eq!(seen.load(Relaxed), expected, "low latency {low_latency}");
    }
    let mut world = world(1, 1000, true);
    let order = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    world.on(0, || {
        for number in 0..6 {
            let order = order.clone();
            spawn_shared(&KIND, &WorkerSet::all(1), async move {
                order.lock().expect("one thread").push(number);
                if number == 2 {
                    let order = order.clone();
                    spawn(&KIND, Class::Urgent, async move { order.lock().expect("one thread").push(100) });
                }
            });
        }
    });
    assert!(world.settle(1000));
    assert_eq!(*order.lock().expect("one thread"), [0, 1, 2, 100, 3, 4, 5]);
}

thread_local! {
    static RAN: Cell<u32> = const { Cell::new(0) };
}

/// Messages of other threads are counted, and one that panics ends nothing but itself.
#[test]
fn counts_wakes_and_messages_from_other_workers() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut world = world(2, 100, false);
    let waiter = || spawn(&KIND, Class::Normal, async { _ = wait(Tick::NEVER).await });
    let keys: Vec<_> = world.on(0, || (0..3).map(|_| waiter()).collect());
    assert!(world.settle(100));
    world.on(1, || {
        keys.into_iter().for_each(wake);
        send_to(0, || ()).expect("it lives");
        send_to(0, || panic!("on purpose")).expect("it lives");
        send_to(0, || ()).expect("it lives");
    });
    assert!(world.settle(100));
    let counters: [fn(&Activity) -> u64; 4] = [
        |activity| activity.remote_wakes.value(),
        |activity| activity.messages.value(),
        |activity| activity.panics.value(),
        |activity| activity.ended.value(),
    ];
    assert_eq!(counters.map(|of| counter(&world, of)), [3, 3, 1, 3]);
}

/// R77: an order to end is a cause of its own.
#[test]
fn the_profile_lists_a_kill_as_its_own_cause() {
    let mut world = world(1, 100, false);
    let settings = ProfileSettings { mode: ProfileMode::On, ..ProfileSettings::default() };
    world.on(0, || set_profiling(settings));
    let key = world.on(0, || spawn(&KIND, Class::Normal, async { _ = wait(Tick::NEVER).await }));
    assert!(world.settle(100));
    world.on(0, || spawn(&KIND, Class::Normal, async {}));
    assert!(world.settle(100));
    world.on(0, || kill(key));
    assert!(world.settle(100));
    let report = world.look(0, profile);
    let killed =
        |line: &&weir_sched::ProfileLine| line.origin.is_some_and(|origin| origin.cause == Cause::Kill);
    assert_eq!(report.lines.iter().filter(killed).map(|line| line.calls).sum::<u64>(), 1);
}

/// The counters of a kind are summed over the workers, each counter by itself.
#[test]
fn waiting_counters_of_a_kind_are_summed_over_workers() {
    let one = WaitingKind { kind: &KIND, places: 2, latencies: 3, latency_ns: 5, calls: 7 };
    let mut sum = one;
    sum.merge(&WaitingKind { kind: &KIND, places: 10, latencies: 20, latency_ns: 30, calls: 40 });
    assert_eq!((sum.places, sum.latencies, sum.latency_ns, sum.calls), (12, 23, 35, 47));
}
