//! Checks while servers, the process and the machine misbehave.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_model::InitialState;

use weir_backend::{CheckRules, CheckStatus};
use weir_checks::{CheckLoad, CheckPlan, Intervals, Script, Timings};
use weir_model::{CheckMethod, CheckScripts, HttpRequest};
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork};
use weir_sched::{activity, yield_now};
use weir_sys::Address;

use crate::fixture::{PLACE, TestBackend, count_connections, pass};

/// Runs a test as the first task of a worker.
#[track_caller]
fn simulate<F: Future<Output = ()> + 'static>(test: impl FnOnce(SimulatedNetwork) -> F) {
    let run = network::run(1, Conditions::CALM, test).expect("a worker");
    assert_eq!(run.outcome, Ok(()));
}

fn place() -> Address {
    Address::Inet(PLACE)
}

#[test]
fn a_check_continues_after_one_of_its_runs_panicked() {
    simulate(|network| async move {
        let backend = TestBackend::new(PLACE, 1);
        backend.heard.fails_once.store(true, Relaxed);
        let checks = backend.checks(CheckLoad::new(1, 1));
        checks.start();
        // No listener exists, and the process panics at the report.
        pass(500).await;
        assert_eq!(activity(0, |activity| activity.panics.value()), Some(1));
        assert_eq!(backend.last(0), (CheckStatus::SocketError, "the check itself failed".to_owned()));
        assert!(!backend.server(0).health().expect("it is checked").record().running);
        let service = network.listen(&place()).expect("a free address");
        pass(1000).await;
        assert_eq!((backend.last(0).0, backend.up()), (CheckStatus::L4Ok, 1));
        let counts = checks.load.of(0).expect("a worker");
        let counters = [&counts.active, &counts.running].map(|count| count.load(Relaxed));
        assert_eq!((counts.started.load(Relaxed), counters), (2, [0, 0]));
        drop(service);
    });
}

#[test]
fn a_thousand_checks_time_out_together() {
    simulate(|network| async move {
        let backend = TestBackend::new(PLACE, 1000);
        let service = network.listen(&place()).expect("a free address");
        service.answer(false);
        backend.checks(CheckLoad::new(1, 0)).start();
        pass(100).await;
        assert_eq!((network.held(), backend.up()), (1000, 1000));
        pass(300).await;
        assert_eq!((network.held(), backend.up()), (0, 0));
        assert_eq!(backend.last(999), (CheckStatus::L4Timeout, String::new()));
        let durations = (0..1000)
            .map(|rank| backend.server(rank).health().expect("it is checked").record().last.duration_ms);
        // The tick in which the check began may have been nearly over and does not count.
        assert!(durations.clone().all(|duration| (300..=301).contains(&duration)), "{:?}", durations.max());
        service.answer(true);
        pass(1000).await;
        assert_eq!((network.held(), backend.up()), (0, 1000));
    });
}

#[test]
fn simultaneous_check_answers_are_processed_one_per_loop() {
    simulate(|network| async move {
        let backend = TestBackend::new(PLACE, 20);
        let scripts = CheckScripts {
            method: CheckMethod::Http(Arc::new(HttpRequest::default())),
            ..CheckScripts::default()
        };
        let script = Script::of(&scripts);
        let plans =
            (0..20).map(|rank| CheckPlan { script: script.clone(), ..backend.plan_of(rank) }).collect();
        let checks = backend.checks_of(plans, CheckLoad::new(1, 0));
        let service = network.listen(&place()).expect("a free address");
        checks.start();
        let mut connections = Vec::new();
        for _ in 0..20 {
            connections.push(service.accept().await);
        }
        pass(10).await;
        let running = || checks.load.of(0).expect("a worker").running.load(Relaxed);
        assert_eq!(running(), 20);
        // No time passes while a task yields.
        network.change(|conditions| conditions.latency_us = 0);
        for connection in &connections {
            connection.send(b"HTTP/1.0 200 OK\r\n\r\n").await.expect("it stands");
        }
        let (mut before, mut loops) = (20, 0);
        while before > 0 {
            yield_now().await;
            let after = running();
            assert!(after + 1 >= before, "{} answers were taken in one loop", before - after);
            (before, loops) = (after, loops + 1);
            assert!(loops < 10_000, "{before} checks go on");
        }
        assert_eq!((backend.last(19).0, backend.up()), (CheckStatus::L7Ok, 20));
    });
}

#[test]
fn a_check_without_descriptor_is_reported_without_failing_the_server() {
    simulate(|network| async move {
        let backend = TestBackend::new(PLACE, 3);
        let _service = network.listen(&place()).expect("a free address");
        network.change(|conditions| conditions.descriptors = 2);
        backend.checks(CheckLoad::new(1, 0)).start();
        pass(100).await;
        let found = [backend.last(0), backend.last(1), backend.last(2)];
        let ours = |(status, detail): &&(CheckStatus, String)| {
            *status == CheckStatus::SocketError && detail == "General socket error (Too many open files)"
        };
        assert_eq!((found.iter().filter(ours).count(), backend.up()), (1, 3), "{found:?}");
        network.change(|conditions| conditions.descriptors = usize::MAX);
        pass(1000).await;
        assert_eq!([0, 1, 2].map(|rank| backend.last(rank).0), [CheckStatus::L4Ok; 3]);
    });
}

#[test]
fn missed_checks_are_skipped() {
    simulate(|network| async move {
        let elsewhere = SocketAddr::new(PLACE.ip(), 81);
        let (slow, usual) = (TestBackend::new(PLACE, 1), TestBackend::new(elsewhere, 1));
        let silent = network.listen(&place()).expect("a free address");
        silent.answer(false);
        let count = count_connections(&network, elsewhere);
        // The worker may run one check at a time, and the first check takes a minute.
        let mut blocks = slow.plan_of(0);
        let rare = 1_000_000;
        blocks.intervals = Intervals { usual_ms: rare, fast_ms: rare, down_ms: rare, ..blocks.intervals };
        let timings = Timings { connect_ms: Some(60_000), check_ms: Some(1) };
        let plans = vec![CheckPlan { timings, ..blocks }, usual.plan_of(0)];
        usual.checks_of(plans, CheckLoad::new(1, 1)).start();
        pass(59_900).await;
        assert_eq!(count.get(), 0);
        // One connection immediately, then one per second.
        pass(200).await;
        assert_eq!(count.get(), 1);
        pass(10_000).await;
        assert_eq!(count.get(), 11);
    });
}

#[test]
fn flapping_faster_than_rise_and_fall_keeps_the_server_state() {
    for (start, is_up) in [(InitialState::FullyUp, 1), (InitialState::FullyDown, 0)] {
        simulate(move |network| async move {
            let backend = TestBackend::with(PLACE, 1, CheckRules { rise: 2, fall: 2, start });
            backend.checks(CheckLoad::new(1, 0)).start();
            pass(500).await;
            for _ in 0..10 {
                let service = network.listen(&place()).expect("a free address");
                pass(1000).await;
                assert_eq!(backend.last(0).0, CheckStatus::L4Ok);
                drop(service);
                pass(1000).await;
                assert_eq!((backend.last(0).0, backend.up()), (CheckStatus::L4Connection, is_up));
            }
            assert!(backend.heard.lines.lock().expect("nobody panics with it").is_empty());
            let failures = backend.server(0).health().expect("it is checked").record().failures;
            assert_eq!(failures, if is_up == 1 { 11 } else { 0 });
        });
    }
}
