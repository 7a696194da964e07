//! Shared work: the global run queue, the global wait queue, and which worker may run which task.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use weir_sched::{
    Class, Runtime, RuntimeHandle, RuntimeSettings, TaskKey, Tick, Wakeup, WorkKind, WorkerSet, current,
    flag, kill, now, set_flag, set_nice, shared_tasks, simulate, sleep_until, spawn, spawn_shared, wait,
    wake, worker_index, yield_now,
};

static KIND: WorkKind = WorkKind::new("shared");

fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    simulate::run(1, future).expect("a worker").expect("an end")
}

fn workers(threads: usize) -> Runtime {
    Runtime::start(&RuntimeSettings { threads, ..RuntimeSettings::default() }, |_| {}).expect("threads")
}

fn end(runtime: Runtime) {
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}

fn everybody() -> WorkerSet {
    WorkerSet::all(1)
}

#[test]
fn a_shared_task_waits_wakes_and_ends_like_any_task() {
    run(async {
        let (main, log) = (current(), Arc::new(Mutex::new(Vec::new())));
        let key = spawn_shared(&KIND, &everybody(), {
            let log = log.clone();
            async move {
                let start = now();
                let note =
                    |wakeup| log.lock().expect("one thread").push((wakeup, now().since(start), flag()));
                note(wait(start.after(50)).await);
                set_flag(true);
                note(wait(start.after(100)).await);
                yield_now().await;
                // R19: the flag is still there after every kind of wake.
                note(wait(start).await);
                sleep_until(start.after(200)).await;
                note(wait(start).await);
                wake(main);
            }
        });
        assert_eq!(shared_tasks(), (1, 1));
        sleep_until(now().after(10)).await;
        wake(key);
        assert_eq!(wait(Tick::NEVER).await, Wakeup::Event);
        use Wakeup::{Deadline, Event};
        let expected =
            [(Event, 10, false), (Deadline, 100, true), (Deadline, 100, true), (Deadline, 200, true)];
        assert_eq!(*log.lock().expect("one thread"), expected);
        yield_now().await;
        assert_eq!(shared_tasks(), (0, 0));
        wake(key);
        kill(key);
        assert_eq!(shared_tasks(), (0, 0));
    });
}

/// R58: a deadline in the global wait queue that moved away stays in that queue; R61: without any, no task is due.
#[test]
fn a_postponed_shared_deadline_stays_in_the_global_wait_queue() {
    run(async {
        let (main, woken) = (current(), Arc::new(AtomicU64::new(0)));
        let start = now();
        let key = spawn_shared(&KIND, &everybody(), {
            let woken = woken.clone();
            async move {
                assert_eq!(wait(start.after(50)).await, Wakeup::Event);
                // The entry at 50 comes up, finds 500 and moves there.
                assert_eq!(wait(start.after(500)).await, Wakeup::Deadline);
                woken.store(now().since(start), Relaxed);
                wake(main);
            }
        });
        sleep_until(start.after(20)).await;
        wake(key);
        wait(Tick::NEVER).await;
        assert_eq!(woken.load(Relaxed), 500);
        let timers = weir_sched::activity(0, |activity| activity.timers.value());
        assert_eq!(timers, Some(3), "20 of the main task, 50 put back, 500");
    });
}

/// R67, R68, R70: waiting, queued, never run, running.
#[test]
fn a_kill_reaches_a_shared_task_in_every_state() {
    run(async {
        let held = Arc::new(());
        let body = |held: Arc<()>, suicide: bool| async move {
            let _held = held;
            if suicide {
                kill(current());
            }
            wait(now().after(1_000_000)).await;
            unreachable!("killed");
        };
        let never_run = spawn_shared(&KIND, &everybody(), body(held.clone(), false));
        kill(never_run);
        yield_now().await;
        assert_eq!((shared_tasks(), Arc::strong_count(&held)), ((0, 0), 1));
        let waiting = spawn_shared(&KIND, &everybody(), body(held.clone(), false));
        yield_now().await;
        assert_eq!(shared_tasks(), (1, 0));
        kill(waiting);
        assert_eq!(shared_tasks(), (1, 1), "it is found and ended by the queue");
        yield_now().await;
        assert_eq!((shared_tasks(), Arc::strong_count(&held)), ((0, 0), 1));
        spawn_shared(&KIND, &everybody(), body(held.clone(), true));
        yield_now().await;
        assert_eq!((shared_tasks(), Arc::strong_count(&held)), ((0, 0), 1));
        let woken = spawn_shared(&KIND, &everybody(), body(held.clone(), false));
        yield_now().await;
        wake(woken);
        kill(woken);
        yield_now().await;
        assert_eq!((shared_tasks(), Arc::strong_count(&held)), ((0, 0), 1));
    });
}

#[test]
fn a_panic_ends_only_its_shared_task() {
    std::panic::set_hook(Box::new(|_| {}));
    run(async {
        spawn_shared(&KIND, &everybody(), async { panic!("on purpose") });
        yield_now().await;
        assert_eq!(shared_tasks(), (0, 0));
        assert_eq!(weir_sched::activity(0, |activity| activity.panics.value()), Some(1));
    });
}

/// R2: the order of the global queue is its own: arrival, moved by `nice`, independent of the worker's rounds.
#[test]
fn nice_orders_tasks_within_the_shared_queue() {
    let order = run(async {
        let order = Arc::new(Mutex::new(Vec::new()));
        let start = now();
        let keys: Vec<TaskKey> = [("late", 1024), ("plain", 0), ("early", -1024), ("plain too", 0)]
            .into_iter()
            .map(|(name, nice)| {
                let order = order.clone();
                spawn_shared(&KIND, &everybody(), async move {
                    set_nice(nice);
                    wait(Tick::NEVER).await;
                    order.lock().expect("one thread").push(name);
                })
            })
            .collect();
        for _ in 0..1000 {
            spawn(&KIND, Class::Normal, async {});
        }
        sleep_until(start.after(1)).await;
        keys.into_iter().for_each(wake);
        sleep_until(start.after(2)).await;
        order.lock().expect("one thread").clone()
    });
    assert_eq!(order, ["early", "plain", "plain too", "late"]);
}

/// R2: a `nice` of 1024 lets one depth of the run queue pass, half of it half a depth; entries in front of that place
/// run first.
#[test]
fn nice_moves_a_shared_task_by_a_fraction_of_the_depth() {
    for (nice, expected) in [(512, 100), (1024, 200), (256, 50), (0, 0)] {
        let passed = run(async move {
            let (passed, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(u32::MAX)));
            let moved = spawn_shared(&KIND, &everybody(), {
                let (passed, seen) = (passed.clone(), seen.clone());
                async move {
                    set_nice(nice);
                    wait(Tick::NEVER).await;
                    seen.store(passed.load(Relaxed), Relaxed);
                }
            });
            sleep_until(now().after(1)).await;
            wake(moved);
            for _ in 0..300 {
                let passed = passed.clone();
                spawn_shared(&KIND, &everybody(), async move {
                    passed.fetch_add(1, Relaxed);
                });
            }
            sleep_until(now().after(1)).await;
            seen.load(Relaxed)
        });
        assert_eq!(passed, expected, "nice {nice}");
    }
}

/// Workers that do not exist are ignored, the first one after the last included.
#[test]
fn nonexistent_workers_of_a_set_are_ignored() {
    run(async {
        for set in [WorkerSet::one(1), [0, 1].into_iter().collect(), WorkerSet::all(64), WorkerSet::none()] {
            let ran = Arc::new(AtomicU32::new(0));
            let count = ran.clone();
            spawn_shared(&KIND, &set, async move {
                count.fetch_add(1, Relaxed);
            });
            sleep_until(now().after(1)).await;
            assert_eq!(ran.load(Relaxed), 1, "{set:?}");
        }
    });
}

/// Neither own nor shared normal work keeps the other from running.
#[test]
fn local_and_shared_tasks_share_the_normal_budget() {
    run(async {
        let (own, shared) = (Rc::new(Cell::new(0_u32)), Arc::new(AtomicU32::new(0)));
        for _ in 0..3000 {
            let (own, shared) = (own.clone(), shared.clone());
            spawn(&KIND, Class::Normal, async move { own.set(own.get() + 1) });
            spawn_shared(&KIND, &everybody(), async move {
                shared.fetch_add(1, Relaxed);
            });
        }
        // The rest of the round that made them already runs some.
        yield_now().await;
        let before = (own.get(), shared.load(Relaxed));
        for turn in 1..=10 {
            yield_now().await;
            let ran = (own.get() - before.0, shared.load(Relaxed) - before.1);
            assert!(ran.0.abs_diff(ran.1) <= turn * 2, "{ran:?} after {turn} turns");
            assert!(ran.0 + ran.1 <= turn * 200, "{ran:?} after {turn} turns");
        }
        sleep_until(now().after(1)).await;
        assert_eq!((own.get(), shared.load(Relaxed)), (3000, 3000));
    });
}

/// R56: one budget for both wait queues: a worker with many deadlines of its own takes fewer of the shared ones.
#[test]
fn local_and_shared_deadlines_share_one_budget() {
    run(async {
        let due = now().after(100);
        let ended = Rc::new(RefCell::new(0));
        for _ in 0..500 {
            let ended = ended.clone();
            spawn(&KIND, Class::Urgent, async move {
                sleep_until(due).await;
                *ended.borrow_mut() += 1;
            });
            spawn_shared(&KIND, &everybody(), sleep_until(due));
        }
        sleep_until(due.after(0)).await;
        let timers = || weir_sched::activity(0, |activity| activity.timers.value()).unwrap_or(0);
        let (mut before, mut passes) = (0, 0);
        loop {
            let taken = timers() - before;
            assert!(taken <= 200, "{taken} in one pass");
            before = timers();
            passes += 1;
            if before == 1001 {
                break;
            }
            assert!(passes < 20, "{before} after {passes} passes");
            if before < 500 {
                assert_eq!(shared_tasks().0, 500, "its own come first");
            }
            yield_now().await;
        }
        assert!((6..=7).contains(&passes), "{passes}");
    });
}

/// R60: debug builds catch a deadline that enters the wrong wait queue.
#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "shared work is always normal"))]
fn set_class_panics_in_a_shared_task() {
    std::panic::set_hook(Box::new(|_| {}));
    let message = run(async {
        let main = current();
        spawn_shared(&KIND, &everybody(), async move {
            weir_sched::set_class(Class::Heavy);
            wake(main);
        });
        wait(now().after(10)).await;
        weir_sched::activity(0, |activity| activity.panics.value())
    });
    assert_eq!(message, Some(0), "shared work is always normal");
}

#[test]
fn a_shared_task_runs_only_on_workers_of_its_set() {
    let runtime = workers(4);
    let handle = runtime.handle();
    let (sender, receiver) = mpsc::channel();
    let sets = [WorkerSet::one(2), [1, 3].into_iter().collect(), WorkerSet::all(4), WorkerSet::one(77)];
    for (number, set) in sets.iter().enumerate() {
        for _ in 0..50 {
            let sender = sender.clone();
            handle.spawn_shared(&KIND, set, async move {
                for step in 0..3 {
                    sender.send((number, worker_index())).expect("the test listens");
                    match step {
                        0 => yield_now().await,
                        _ => drop(wait(now().after(1)).await),
                    }
                }
            });
        }
    }
    for _ in 0..4 * 50 * 3 {
        let (number, worker) = receiver.recv().expect("all of them run");
        assert!(worker < 4 && (sets[number].contains(worker) || number == 3), "{number} ran on {worker}");
    }
    end(runtime);
}

/// Any free worker takes it: a worker that computes does not delay tasks that another may run.
#[test]
fn a_free_worker_takes_shared_work_from_a_busy_one() {
    let runtime = workers(2);
    let handle = runtime.handle();
    let (busy, is_busy) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    handle
        .send_to(0, move || {
            busy.send(()).expect("the test listens");
            released.recv().expect("the test releases it");
        })
        .expect("the worker lives");
    is_busy.recv().expect("worker 0 is busy");
    let (sender, receiver) = mpsc::channel();
    for _ in 0..10 {
        let sender = sender.clone();
        handle.spawn_shared(&KIND, &WorkerSet::all(2), async move {
            wait(now().after(1)).await;
            sender.send(worker_index()).expect("the test listens");
        });
        // Worker 1 may be asleep, and worker 0 is awake but never looks: a wake for worker 1 makes it look.
        handle.send_to(1, || {}).expect("the worker lives");
        assert_eq!(receiver.recv(), Ok(1));
    }
    release.send(()).expect("worker 0 waits");
    end(runtime);
}

/// Tasks that are left when the workers end are dropped, and their keys find nothing.
#[test]
fn shared_futures_are_dropped_with_the_runtime() {
    let runtime = workers(2);
    let handle = runtime.handle();
    let held = Arc::new(());
    for _ in 0..10 {
        let held = held.clone();
        handle.spawn_shared(&KIND, &WorkerSet::all(2), async move {
            let _held = held;
            wait(Tick::NEVER).await;
        });
    }
    end(runtime);
    assert_eq!((Arc::strong_count(&held), handle.shared_tasks()), (1, (0, 0)));
}

/// R12, R62, R67, R71: wakes, deadlines, kills and yields from everywhere at once; everything ends, and the counts are exact.
#[test]
fn shared_tasks_lose_no_wakes_and_kills_under_stress() {
    const TASKS: u32 = 200;
    let runtime = workers(4);
    let handle = runtime.handle();
    let (sender, receiver) = mpsc::channel();
    let alive = Arc::new(AtomicU32::new(TASKS));
    let keys = Arc::new(Mutex::new(Vec::new()));
    struct Alive(Arc<AtomicU32>, mpsc::Sender<()>);
    impl Drop for Alive {
        fn drop(&mut self) {
            if self.0.fetch_sub(1, Relaxed) == 1 {
                let _ = self.1.send(());
            }
        }
    }
    for number in 0..TASKS {
        let (life, keys_too) = (Alive(alive.clone(), sender.clone()), keys.clone());
        let key = handle.spawn_shared(&KIND, &WorkerSet::all(4), async move {
            let _life = life;
            for round in 0..50_u64 {
                let random = weir_sched::random();
                let other = {
                    let keys = keys_too.lock().expect("no panic");
                    keys.get(random as usize % (keys.len() + 1)).copied()
                };
                match random >> 32 & 7 {
                    0 => yield_now().await,
                    1..4 => drop(wait(now().after(round % 3)).await),
                    _ => other.into_iter().for_each(wake),
                }
                if number % 10 == 0 && round == 40 {
                    other.into_iter().for_each(kill);
                }
            }
        });
        keys.lock().expect("no panic").push(key);
    }
    receiver.recv().expect("all of them end");
    // The last one is dropped before its slot is free.
    while handle.shared_tasks() != (0, 0) {
        std::thread::yield_now();
    }
    end(runtime);
}

/// A wake from a thread that is not a worker, while all workers sleep.
#[test]
fn a_thread_outside_the_runtime_wakes_shared_work() {
    let runtime = workers(2);
    let handle: RuntimeHandle = runtime.handle();
    let (sender, receiver) = mpsc::channel();
    let key = handle.spawn_shared(&KIND, &WorkerSet::all(2), async move {
        loop {
            sender.send(()).expect("the test listens");
            wait(Tick::NEVER).await;
        }
    });
    for _ in 0..200 {
        receiver.recv().expect("it runs");
        wake(key);
    }
    end(runtime);
}
