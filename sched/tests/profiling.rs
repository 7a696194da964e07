//! Profiling: which runs the report contains, and which not.

use weir_sched::{
    Cause, Class, ProfileLine, ProfileMode, ProfileReport, ProfileSettings, WorkKind, profile, queues,
    set_profiling, simulate, sleep_until, spawn, waiting, wake, yield_now,
};

static SLEEPER: WorkKind = WorkKind::new("sleeper");
static TARGET: WorkKind = WorkKind::new("target");

fn turn_on() {
    set_profiling(ProfileSettings { mode: ProfileMode::On, ..ProfileSettings::default() });
}

fn of<'a>(report: &'a ProfileReport, kind: &'static WorkKind) -> Vec<&'a ProfileLine> {
    report.lines.iter().filter(|line| std::ptr::eq(line.kind, kind)).collect()
}

/// R73, R77: each place that wakes has a line of its own, with its calls.
#[test]
fn profile_lines_count_runs_by_kind_and_waking_place() {
    let report = simulate::run(1, async {
        turn_on();
        yield_now().await;
        let target = spawn(&TARGET, Class::Normal, async {
            for _ in 0..3 {
                weir_sched::wait(weir_sched::Tick::NEVER).await;
            }
            sleep_until(weir_sched::now().after(5)).await;
        });
        for _ in 0..3 {
            yield_now().await;
            wake(target);
        }
        sleep_until(weir_sched::now().after(50)).await;
        profile()
    });
    let report = report.expect("a worker").expect("it ends");
    let lines = of(&report, &TARGET);
    let calls = |cause: Cause| -> Vec<u64> {
        let caused = |line: &&&ProfileLine| line.origin.is_some_and(|origin| origin.cause == cause);
        lines.iter().filter(caused).map(|line| line.calls).collect()
    };
    assert_eq!(calls(Cause::Spawn), [1]);
    assert_eq!(calls(Cause::Wake), [3]);
    assert_eq!(calls(Cause::Deadline), [1]);
    for line in &lines {
        let place = line.origin.expect("measured").place;
        let expected = if line.origin.expect("measured").cause == Cause::Deadline {
            "worker/turn.rs"
        } else {
            "profiling.rs"
        };
        assert!(place.file().ends_with(expected), "{place}");
    }
}

/// R73: nothing is measured while it is off, and turning it on resets the counters.
#[test]
fn runs_while_profiling_is_off_are_not_reported() {
    let reports = simulate::run(1, async {
        let off = profile();
        turn_on();
        yield_now().await;
        yield_now().await;
        let on = profile();
        set_profiling(ProfileSettings { mode: ProfileMode::Off, ..ProfileSettings::default() });
        yield_now().await;
        let calls = |report: &ProfileReport| -> u64 { report.lines.iter().map(|line| line.calls).sum() };
        let stopped = calls(&profile());
        for _ in 0..10 {
            yield_now().await;
        }
        let still = calls(&profile());
        turn_on();
        yield_now().await;
        yield_now().await;
        (off, on, stopped == still, calls(&profile()))
    });
    let (off, on, unchanged, anew) = reports.expect("a worker").expect("it ends");
    assert!(off.lines.is_empty() && !on.lines.is_empty());
    assert_eq!(off.settings.mode, ProfileMode::Off);
    assert_eq!(on.settings.mode, ProfileMode::On);
    assert!(unchanged);
    assert!((1..=3).contains(&anew), "{anew}");
}

/// R78: entries queued before profiling began are counted without a latency, however long they waited; later ones have
/// theirs.
#[test]
fn tasks_queued_before_profiling_are_counted_without_latency() {
    let report = simulate::run(1, async {
        let sleepers: Vec<_> = (0..4)
            .map(|_| {
                spawn(&SLEEPER, Class::Heavy, async {
                    weir_sched::wait(weir_sched::Tick::NEVER).await;
                })
            })
            .collect();
        turn_on();
        // One heavy task a round, and none in this one: they are in the queue when the measuring begins.
        for _ in 0..6 {
            yield_now().await;
        }
        sleepers.iter().for_each(|task| wake(*task));
        for _ in 0..6 {
            yield_now().await;
        }
        profile()
    });
    let report = report.expect("a worker").expect("it ends");
    let lines = of(&report, &SLEEPER);
    let unknown: Vec<_> = lines.iter().filter(|line| line.origin.is_none()).collect();
    assert!(unknown.iter().all(|line| line.latencies == 0 && line.latency_ns == 0));
    assert_eq!(unknown.iter().map(|line| line.calls).sum::<u64>(), 4);
    let known: u64 = lines.iter().filter(|line| line.origin.is_some()).map(|line| line.latencies).sum();
    assert_eq!(known, 4);
}

/// R4, R5: the lengths of the queues are exact, by class, and so are the kinds waiting in them.
#[test]
fn queue_lengths_and_waiting_kinds_are_reported_by_class() {
    simulate::run(1, async {
        for (class, count) in [(Class::Urgent, 2), (Class::Normal, 3), (Class::Bulk, 5), (Class::Heavy, 7)] {
            for _ in 0..count {
                spawn(if class == Class::Bulk { &SLEEPER } else { &TARGET }, class, async {});
            }
        }
        assert_eq!(queues().queued, [2, 3, 5, 7]);
        assert_eq!(queues().tasks, 18);
        let mut kinds: Vec<_> = waiting().iter().map(|kind| (kind.kind.name, kind.places)).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, [("sleeper", 5), ("target", 12)]);
        for _ in 0..8 {
            yield_now().await;
        }
        assert_eq!(queues().queued, [0; 4]);
        assert!(waiting().is_empty());
    })
    .expect("a worker")
    .expect("it ends");
}

/// R4: a task that yielded waits, too: as bulk, for the next round.
#[test]
fn a_yielded_task_counts_as_bulk_for_the_next_turn() {
    let counted = simulate::run(1, async {
        let main = weir_sched::current();
        spawn(&SLEEPER, Class::Normal, yield_now());
        let counted = std::rc::Rc::new(std::cell::Cell::new([0; 4]));
        let seen = counted.clone();
        spawn(&TARGET, Class::Normal, async move {
            seen.set(queues().queued);
            wake(main);
        });
        weir_sched::wait(weir_sched::Tick::NEVER).await;
        counted.get()
    });
    assert_eq!(counted.expect("a worker").expect("it ends"), [0, 0, 1, 0]);
}

/// The location of a kind is where it is declared: a watchdog names it when profiling is off.
#[test]
fn a_work_kind_has_the_source_place_of_its_declaration() {
    assert!(SLEEPER.place.file().ends_with("tests/profiling.rs"));
}
