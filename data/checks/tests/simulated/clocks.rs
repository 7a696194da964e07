//! Clock jumps: they cause no server to go down, no burst of checks and no negative durations.

use std::net::SocketAddr;

use weir_backend::{CheckStatus, OperationalState};
use weir_checks::CheckLoad;
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork};
use weir_sched::{now, wall_us, yield_now};
use weir_sys::Address;

use crate::fixture::{PLACE, TestBackend, count_connections, pass};

const HOUR_MS: u64 = 3_600_000;
const SERVERS: u32 = 200;
/// Maximum number of checks that begin in a tenth of a second in normal operation: twice the average.
const USUAL: u32 = SERVERS / 5;

/// Checks servers each second at random phases, with a few calls of `jump` at random times. After a jump, at most
/// `most_at_once` checks begin in any tenth of a second, and no check takes longer than the network latency plus `most_ms`.
#[track_caller]
fn check(what: &str, (most_at_once, most_ms): (u32, u64), jump: fn(&SimulatedNetwork)) {
    for seed in 0..3 {
        let conditions = Conditions { limit_ms: 10 * HOUR_MS, latency_us: 10_000, ..Conditions::CALM };
        let run = network::run(seed, conditions, move |network| async move {
            let backend = TestBackend::new(PLACE, SERVERS);
            let count = count_connections(&network, PLACE);
            let checks = backend.checks_of(Vec::new(), CheckLoad::new(1, 0));
            (0..SERVERS).for_each(|rank| checks.add(backend.plan_of(rank)));
            pass(3_000).await;
            for _ in 0..3 {
                pass(network.random(1_000)).await;
                jump(&network);
                yield_now().await;
                // Running checks end. The others are spread over the tenths of a second.
                let mut most = 0;
                for _ in 0..30 {
                    let before = count.get();
                    pass(100).await;
                    most = most.max(count.get() - before);
                    let took_ms =
                        |rank| backend.server(rank).health().map(|check| check.record().last.duration_ms);
                    let longest_ms = (0..SERVERS).filter_map(took_ms).max();
                    assert!(longest_ms.is_some_and(|ms| ms < most_ms + 300), "{longest_ms:?}");
                }
                assert!(most <= most_at_once, "seed {seed}: {most} checks in a tenth of a second");
                let before = count.get();
                pass(1_000).await;
                let each_second = count.get() - before;
                assert!((SERVERS - 20..=SERVERS + 20).contains(&each_second), "seed {seed}: {each_second}");
            }
            assert_eq!(backend.heard.lines.lock().expect("nobody panics with it").len(), 0, "seed {seed}");
            for rank in 0..SERVERS {
                let server = backend.server(rank);
                let now_ms = now().as_ms();
                let record = server.health().expect("it is checked").record();
                assert_eq!(server.operational_state(now_ms), OperationalState::Running);
                assert_eq!((record.failures, record.last.status), (0, CheckStatus::L4Ok), "seed {seed}");
                assert!(record.last.duration_ms < 300, "seed {seed}: {} ms", record.last.duration_ms);
                assert!(server.last_change_ms() <= now_ms && server.downtime_ms(now_ms) == 0);
            }
        });
        assert_eq!(run.expect("a worker").outcome, Ok(()), "{what}");
    }
}

#[test]
fn checks_ignore_jumps_of_the_wall_clock() {
    check("an hour forth", (USUAL, 0), |network| {
        let before = wall_us();
        network.shift_wall_clock(HOUR_MS as i64);
        assert!(wall_us() >= before);
    });
    check("an hour back", (USUAL, 0), |network| network.shift_wall_clock(-(HOUR_MS as i64)));
    check("to 1970", (USUAL, 0), |network| network.shift_wall_clock(i64::MIN / 2_000_000));
}

/// If the clock continues during a suspend, all checks are due afterwards and running ones time out.
#[test]
fn checks_stay_spread_after_an_hour_of_suspend() {
    check("an hour", (USUAL, HOUR_MS), |network| network.stand_still(HOUR_MS));
    check("a little more than an interval", (SERVERS / 2 + USUAL, 1_010), |network| {
        network.stand_still(1_010)
    });
    check("some milliseconds", (USUAL, 7), |network| network.stand_still(7));
}

/// If the monotonic clock stops during a suspend, only the wall clock jumps, and servers had an hour to
/// respond.
#[test]
fn detects_a_dead_server_after_a_suspend() {
    let conditions = Conditions { limit_ms: 10 * HOUR_MS, ..Conditions::CALM };
    let run = network::run(1, conditions, |network| async move {
        let place: Address = Address::Inet(SocketAddr::new(PLACE.ip(), PLACE.port()));
        let backend = TestBackend::new(PLACE, 1);
        let service = network.listen(&place).expect("a free address");
        backend.checks(CheckLoad::new(1, 0)).start();
        pass(2_500).await;
        assert_eq!(backend.up(), 1);
        drop(service);
        network.stand_still(HOUR_MS);
        yield_now().await;
        pass(1_100).await;
        assert_eq!((backend.up(), backend.last(0).0), (0, CheckStatus::L4Connection));
    });
    assert_eq!(run.expect("a worker").outcome, Ok(()));
}

/// A worker that is always late still checks its servers.
#[test]
fn an_always_late_worker_still_runs_its_checks() {
    let run = network::run(1, Conditions::CALM, |network| async move {
        let backend = TestBackend::new(PLACE, 1);
        let count = count_connections(&network, PLACE);
        backend.checks(CheckLoad::new(1, 0)).start();
        pass(100).await;
        for _ in 0..40 {
            network.stand_still(1_700);
            pass(1).await;
        }
        assert!(count.get() >= 20, "{}", count.get());
    });
    assert_eq!(run.expect("a worker").outcome, Ok(()));
}
