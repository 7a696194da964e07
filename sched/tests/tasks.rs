//! Tasks: waiting, waking, ending, and the order in which they run.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use weir_sched::{
    Class, Runtime, RuntimeSettings, TaskKey, Tick, Wakeup, WorkKind, change_load, current, flag, kill, load,
    now, set_flag, simulate, sleep_until, spawn, task_count, wait, wake, wake_next, worker_count, yield_now,
};

static KIND: WorkKind = WorkKind::new("test");

fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    simulate::run(1, future).expect("a worker").expect("an end")
}

#[test]
fn a_deadline_ends_a_wait_at_its_time() {
    run(async {
        let start = now();
        assert_eq!(wait(start.after(60_000)).await, Wakeup::Deadline);
        assert_eq!(now().since(start), 60_000);
        assert_eq!(wait(start).await, Wakeup::Deadline);
    });
}

#[test]
fn a_wake_ends_a_wait_before_its_deadline() {
    run(async {
        let (start, main) = (now(), current());
        spawn(&KIND, Class::Urgent, async move {
            sleep_until(start.after(10)).await;
            wake(main);
        });
        assert_eq!(wait(start.after(1000)).await, Wakeup::Event);
        assert_eq!(now().since(start), 10);
        // The old deadline is forgotten: only the new one counts.
        assert_eq!(wait(start.after(5000)).await, Wakeup::Deadline);
        assert_eq!(now().since(start), 5000);
    });
}

/// R58: a deadline that moved away is put back, one that came nearer counts at once.
#[test]
fn a_deadline_can_be_moved_earlier_and_later() {
    run(async {
        let (start, main) = (now(), current());
        spawn(&KIND, Class::Normal, async move {
            for step in [10, 20, 30] {
                sleep_until(start.after(step)).await;
                wake(main);
            }
        });
        assert_eq!(wait(start.after(50)).await, Wakeup::Event);
        assert_eq!(wait(start.after(500)).await, Wakeup::Event);
        assert_eq!(wait(start.after(40)).await, Wakeup::Event);
        assert_eq!(wait(start.after(35)).await, Wakeup::Deadline);
        assert_eq!(now().since(start), 35);
    });
}

/// R188: a task woken to run next overtakes waiting tasks, in its own class only, and once.
#[test]
fn wake_next_lets_a_task_overtake_others_of_its_class_once() {
    run(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let sleeper = |name: &'static str, class| {
            let order = order.clone();
            spawn(&KIND, class, async move {
                loop {
                    wait(Tick::NEVER).await;
                    order.borrow_mut().push(name);
                }
            })
        };
        let (first, next) = (sleeper("first", Class::Normal), sleeper("next", Class::Normal));
        let bulk = sleeper("bulk", Class::Bulk);
        sleep_until(now().after(1)).await;
        wake(bulk);
        wake(first);
        wake_next(next);
        sleep_until(now().after(1)).await;
        assert_eq!(order.take(), ["next", "first", "bulk"]);
        wake_next(bulk);
        wake(first);
        sleep_until(now().after(1)).await;
        assert_eq!(order.take(), ["first", "bulk"]);
        // A queued task keeps its place, and an ended one is not queued.
        wake(first);
        wake(next);
        wake_next(next);
        kill(bulk);
        wake_next(bulk);
        sleep_until(now().after(1)).await;
        assert_eq!(order.take(), ["first", "next"]);
    });
}

#[test]
fn waking_an_ended_task_does_not_wake_its_successor() {
    run(async {
        let key = spawn(&KIND, Class::Normal, async {});
        yield_now().await;
        assert_eq!(task_count(), 1);
        wake(key);
        kill(key);
        let ran = Rc::new(Cell::new(false));
        let flag = ran.clone();
        let second = spawn(&KIND, Class::Normal, async move {
            wait(now().after(100)).await;
            flag.set(true);
        });
        assert_ne!(second, key);
        yield_now().await;
        wake(key);
        yield_now().await;
        assert!(!ran.get(), "a stale key must not wake the new owner of the slot");
    });
}

/// A key names a task and no place: an order to end comes too late for the next one there.
#[test]
fn a_kill_of_an_ended_task_does_not_reach_its_successor() {
    run(async {
        let former = spawn(&KIND, Class::Normal, async {});
        yield_now().await;
        let went_on = Rc::new(Cell::new(false));
        let next = spawn(&KIND, Class::Normal, {
            let went_on = went_on.clone();
            async move {
                wait(Tick::NEVER).await;
                went_on.set(true);
            }
        });
        yield_now().await;
        kill(former);
        wake(next);
        yield_now().await;
        assert!(went_on.get());
    });
}

/// R67, R68, R70: queued, waiting, running and never run.
#[test]
fn a_killed_task_does_not_run_again() {
    run(async {
        let runs = Rc::new(Cell::new(0));
        let count = || {
            let runs = runs.clone();
            async move {
                runs.set(runs.get() + 1);
                wait(Tick::NEVER).await;
                runs.set(runs.get() + 100);
            }
        };
        let never_run = spawn(&KIND, Class::Normal, count());
        kill(never_run);
        let waiting = spawn(&KIND, Class::Normal, count());
        yield_now().await;
        assert_eq!((runs.get(), task_count()), (1, 2));
        kill(waiting);
        wake(waiting);
        yield_now().await;
        let itself = spawn(&KIND, Class::Normal, {
            let count = count();
            async move {
                kill(current());
                count.await;
            }
        });
        yield_now().await;
        wake(itself);
        yield_now().await;
        assert_eq!((runs.get(), task_count()), (2, 1));
        assert_eq!(Rc::strong_count(&runs), 1, "what the tasks held is dropped");
    });
}

#[test]
fn a_killed_waiting_task_ends_without_another_run() {
    run(async {
        let turns = Rc::new(Cell::new(0));
        let key = spawn(&KIND, Class::Normal, endless(Rc::clone(&turns)));
        yield_now().await;
        kill(key);
        for _ in 0..3 {
            yield_now().await;
        }
        assert_eq!((turns.get(), Rc::strong_count(&turns)), (1, 1));
    });
}

#[test]
fn several_wakes_of_a_queued_task_cause_one_run() {
    run(async {
        let turns = Rc::new(Cell::new(0));
        let key = spawn(&KIND, Class::Normal, endless(Rc::clone(&turns)));
        yield_now().await;
        (0..3).for_each(|_| wake(key));
        for _ in 0..3 {
            yield_now().await;
        }
        assert_eq!(turns.get(), 2);
    });
}

/// Waits again and again; counts how often it runs.
async fn endless(turns: Rc<Cell<u32>>) {
    loop {
        turns.set(turns.get() + 1);
        wait(Tick::NEVER).await;
    }
}

#[test]
fn now_and_worker_count_work_outside_a_worker() {
    let clock = || weir_sys::time::monotonic_ns() / 1_000_000;
    let (before, said, after) = (clock(), now().as_ms(), clock());
    assert!((before..=after).contains(&said), "{said} is not within {before} and {after}");
    assert_eq!(worker_count(), 1);
    assert_eq!(run(async { worker_count() }), 1);
}

/// R19: the application's flag stays from run to run, independent of the waker; the next task of the slot starts
/// without it.
#[test]
fn the_application_flag_of_a_task_is_kept_across_wakes() {
    run(async {
        let (main, seen) = (current(), Rc::new(RefCell::new(Vec::new())));
        let body = |seen: Rc<RefCell<Vec<bool>>>| async move {
            seen.borrow_mut().push(flag());
            set_flag(true);
            yield_now().await;
            seen.borrow_mut().push(flag());
            wait(Tick::NEVER).await;
            seen.borrow_mut().push(flag());
            wait(now().after(5)).await;
            seen.borrow_mut().push(flag());
            set_flag(false);
            wait(Tick::NEVER).await;
            seen.borrow_mut().push(flag());
            set_flag(true);
            wake(main);
        };
        for _ in 0..2 {
            let task = spawn(&KIND, Class::Normal, body(seen.clone()));
            sleep_until(now().after(1)).await;
            wake(task);
            sleep_until(now().after(10)).await;
            wake(task);
            wait(Tick::NEVER).await;
            assert_eq!(seen.take(), [false, true, true, true, false]);
            sleep_until(now().after(1)).await;
        }
    });
}

#[test]
fn a_panic_ends_only_its_task() {
    std::panic::set_hook(Box::new(|_| {}));
    run(async {
        let held = Rc::new(());
        let guard = held.clone();
        spawn(&KIND, Class::Normal, async move {
            let _guard = guard;
            panic!("on purpose");
        });
        yield_now().await;
        assert_eq!((task_count(), Rc::strong_count(&held)), (1, 1));
        let panics = weir_sched::activity(0, |activity| activity.panics.value());
        assert_eq!(panics, Some(1));
    });
}

#[test]
fn classes_run_in_rank_order_and_self_woken_tasks_last() {
    let order = run(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = now();
        let note = |name: &'static str, again: bool| {
            let order = order.clone();
            async move {
                // All are woken together, between two rounds.
                sleep_until(start.after(1)).await;
                order.borrow_mut().push(name);
                if again {
                    yield_now().await;
                    order.borrow_mut().push("again");
                }
            }
        };
        spawn(&KIND, Class::Heavy, note("heavy", false));
        spawn(&KIND, Class::Bulk, note("bulk", false));
        spawn(&KIND, Class::Normal, note("normal", true));
        spawn(&KIND, Class::Urgent, note("urgent", false));
        sleep_until(start.after(2)).await;
        order.take()
    });
    assert_eq!(order, ["urgent", "normal", "bulk", "heavy", "again"]);
}

/// R56: many deadlines at one moment take several passes, with a poll between them.
#[test]
fn many_simultaneous_deadlines_take_several_passes() {
    run(async {
        let due = now().after(100);
        for _ in 0..1000 {
            spawn(&KIND, Class::Urgent, sleep_until(due));
        }
        let mut passes = 0;
        sleep_until(due).await;
        while task_count() > 1 {
            passes += 1;
            yield_now().await;
        }
        // 1001 deadlines, 200 at a time.
        assert!((4..=6).contains(&passes), "{passes} passes");
        let timers = weir_sched::activity(0, |activity| activity.timers.value());
        assert_eq!(timers, Some(1001));
    });
}

/// R44: ten heavy tasks take ten rounds, and the others do not wait for them.
#[test]
fn one_heavy_task_runs_per_turn() {
    run(async {
        let heavy = Rc::new(Cell::new(0));
        for _ in 0..10 {
            let heavy = heavy.clone();
            spawn(&KIND, Class::Heavy, async move { heavy.set(heavy.get() + 1) });
        }
        for turn in 0..10 {
            yield_now().await;
            // Bulk runs before heavy in each round.
            assert_eq!(heavy.get(), turn);
        }
    });
}

#[test]
fn futures_are_dropped_with_the_worker() {
    let held = Rc::new(());
    let guard = held.clone();
    run(async move {
        spawn(&KIND, Class::Normal, async move {
            let _guard = guard;
            wait(Tick::NEVER).await;
        });
        yield_now().await;
    });
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_standard_waker_wakes_from_another_thread() {
    let woken = weir_sched::run(async {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut sent = false;
        std::future::poll_fn(move |context| {
            if sent {
                return receiver.recv().map_or(std::task::Poll::Pending, std::task::Poll::Ready);
            }
            sent = true;
            let (waker, sender) = (context.waker().clone(), sender.clone());
            std::thread::spawn(move || {
                sender.send(7).expect("the task waits");
                waker.wake();
            });
            std::task::Poll::Pending
        })
        .await
    });
    assert_eq!(woken, Ok(Some(7)));
}

#[test]
fn workers_send_each_other_work() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let settings = RuntimeSettings { threads: 3, ..RuntimeSettings::default() };
    let runtime = Runtime::start(&settings, move |index| {
        let sender = sender.clone();
        weir_sched::change_load(index, 5);
        if index == 0 {
            for worker in 0..3 {
                let sender = sender.clone();
                let answer = move || {
                    let sent = sender.send((weir_sched::worker_index(), weir_sched::worker_count()));
                    sent.expect("the test listens");
                };
                weir_sched::send_to(worker, answer).expect("the worker lives");
            }
            assert!(weir_sched::send_to(3, || {}).is_err());
        }
    })
    .expect("three threads");
    let mut answers: Vec<_> = (0..3).map(|_| receiver.recv().expect("three answers")).collect();
    answers.sort_unstable();
    assert_eq!(answers, [(0, 3), (1, 3), (2, 3)]);
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}

#[test]
fn the_load_of_a_worker_is_the_sum_of_its_changes() {
    let seen = run(async {
        change_load(0, 3);
        change_load(0, -1);
        change_load(7, 5);
        (load(0), load(7))
    });
    assert_eq!(seen, (2, u32::MAX), "a worker that is not there is never the less loaded one");
}

#[test]
fn a_worker_that_fails_to_start_ends_the_runtime() {
    let settings = RuntimeSettings {
        threads: 3,
        processors: vec![vec![], vec![usize::MAX]],
        ..RuntimeSettings::default()
    };
    let runtime = Runtime::start(&settings, |_| panic!("no worker may begin"));
    assert_eq!(runtime.err(), Some(weir_sys::Errno::INVAL));
}

/// R39: with low latency, urgent work that arrives in the middle of bulk work runs next.
#[test]
fn with_low_latency_urgent_work_runs_before_the_rest_of_bulk_work() {
    for (low_latency, expected) in [(true, 1), (false, 100)] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut settings = RuntimeSettings::default();
        settings.tuning.low_latency = low_latency;
        let runtime = Runtime::start(&settings, move |_| {
            let done = Rc::new(Cell::new(0));
            for number in 0..100 {
                let (done, sender) = (done.clone(), sender.clone());
                spawn(&KIND, Class::Bulk, async move {
                    done.set(done.get() + 1);
                    if number == 0 {
                        spawn(&KIND, Class::Urgent, async move {
                            sender.send(done.get()).expect("the test listens");
                        });
                    }
                });
            }
        })
        .expect("a thread");
        assert_eq!(receiver.recv(), Ok(expected), "low latency {low_latency}");
        runtime.stop();
        assert_eq!(runtime.join(), Ok(()));
    }
}

#[test]
fn a_task_is_woken_and_killed_from_another_worker() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (key_sender, key_receiver) = std::sync::mpsc::channel();
    let settings = RuntimeSettings { threads: 2, ..RuntimeSettings::default() };
    let runtime = Runtime::start(&settings, move |index| {
        if index != 0 {
            return;
        }
        struct DropReport(std::sync::mpsc::Sender<&'static str>);
        impl Drop for DropReport {
            fn drop(&mut self) {
                let _ = self.0.send("dropped");
            }
        }
        let sender = sender.clone();
        let key = spawn(&KIND, Class::Normal, async move {
            let report = DropReport(sender);
            wait(Tick::NEVER).await;
            report.0.send("woken").expect("the test listens");
            wait(Tick::NEVER).await;
            report.0.send("woken again").expect("the test listens");
        });
        // The task runs first before anything is sent back.
        let key_sender = key_sender.clone();
        spawn(&KIND, Class::Bulk, async move {
            yield_now().await;
            key_sender.send(key.to_bits()).expect("the test listens");
        });
    })
    .expect("two threads");
    let bits = key_receiver.recv().expect("it waits");
    let by_the_other = |order: fn(TaskKey)| {
        let sent = runtime.handle().send_to(1, move || order(TaskKey::from_bits(bits)));
        sent.expect("the worker lives");
        receiver.recv()
    };
    assert_eq!(by_the_other(wake), Ok("woken"));
    assert_eq!(by_the_other(kill), Ok("dropped"));
    runtime.stop();
    assert_eq!(runtime.join(), Ok(()));
}
