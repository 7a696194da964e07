//! Thousands of servers that go down and come back all the time.

use std::sync::Arc;

use super::Backend;
use crate::health::{CheckKind, CheckRules, CheckStatus, Finding, StartLevel};
use crate::lb_state::LARGE_FARM;
use crate::server_key::ServerKey;
use crate::settings::{Algorithm, BackendSettings, ServerSettings};
use crate::waiting::Outcome;
use crate::{Choice, ChooseInput, Lease, WakeFn};

fn farm(algorithm: Algorithm, count: u32, maximum_connections: u32) -> Arc<Backend> {
    let check = Some(CheckRules { rise: 1, fall: 1, start: StartLevel::FullyUp });
    let server = |id: u32| ServerSettings {
        name: format!("s{id}"),
        id,
        maximum_connections,
        check,
        ..ServerSettings::default()
    };
    let settings = BackendSettings { algorithm, ..BackendSettings::default() };
    Backend::new(settings, (1..=count).map(server).collect(), 0)
}

fn report(backend: &Backend, rank: u32, is_well: bool, now_ms: u64) {
    let status = if is_well { CheckStatus::L4Ok } else { CheckStatus::L4Connection };
    drop(backend.report(ServerKey::configured(rank), CheckKind::Health, Finding::new(status), now_ms));
}

fn choose(backend: &Backend, random: u64, now_ms: u64) -> Choice {
    let input = ChooseInput { random, hash: Some(random as u32), now_ms, ..ChooseInput::default() };
    backend.choose(&input, || Box::new(WakeFn(|| {})))
}

fn lease(choice: Choice) -> Lease {
    match choice {
        Choice::Server(lease) => lease,
        other => panic!("no slot: {other:?}"),
    }
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::RoundRobin,
    Algorithm::StaticRoundRobin,
    Algorithm::LeastConnections,
    Algorithm::Random { draws: 2 },
    Algorithm::Source,
];

/// All of 5,000 servers but one go down and come up in a second, while a thousand requests arrive: none is sent to a server that is down,
/// and members are computed every few milliseconds, not for each change.
#[test]
fn a_storm_of_changes_is_followed_together() {
    for algorithm in ALGORITHMS {
        let backend = farm(algorithm.clone(), 5_000, 0);
        let before = backend.lb_state.lock().rebuilds();
        for now_ms in 1..=1_000_u64 {
            for change in 0..10 {
                let step = (now_ms - 1) * 10 + change;
                let rank = (step % 5_000) as u32;
                if rank > 0 {
                    report(&backend, rank, step >= 5_000, now_ms);
                }
            }
            let chosen = lease(choose(&backend, now_ms.wrapping_mul(0x9e37_79b9_7f4a_7c15), now_ms));
            assert!(chosen.server().is_up(), "{algorithm:?}");
        }
        let rebuilds = backend.lb_state.lock().rebuilds() - before;
        println!("{algorithm:?}: {rebuilds}");
        // Twice, servers come up through the sizes of a small farm.
        let small = 2 * LARGE_FARM as u64;
        assert!((200..=300 + small).contains(&rebuilds), "{algorithm:?}: {rebuilds}");
        assert_eq!((backend.usable_servers(), backend.status(2_000).active), (5_000, 5_000), "{algorithm:?}");
        let names: std::collections::BTreeSet<_> =
            (0..20_000).map(|random| lease(choose(&backend, random, 2_000)).server().id()).collect();
        assert!(names.len() > 4_000, "{algorithm:?}: {} of all are used again", names.len());
    }
}

/// Numbers in logs and statistics are right at each moment, and the change of the last server is applied at once.
#[test]
fn what_is_postponed_shows_nowhere() {
    let count = LARGE_FARM as u32 + 10;
    let backend = farm(Algorithm::RoundRobin, count, 0);
    for rank in 0..count {
        report(&backend, rank, false, 1);
        assert_eq!(backend.usable_servers(), count - rank - 1);
    }
    assert!(matches!(choose(&backend, 1, 1), Choice::None));
    assert!(!backend.status(1).up);
    report(&backend, 7, true, 1);
    assert_eq!(lease(choose(&backend, 1, 1)).server().name(), "s8");
    let status = backend.status(1);
    assert_eq!((status.up, status.active, status.downs), (true, 1, 1));
}

/// A server that comes up while all others are full is used at once, and so is one that a request already waits for.
#[test]
fn nobody_waits_for_what_is_postponed() {
    let count = LARGE_FARM as u32 + 1;
    let backend = farm(Algorithm::RoundRobin, count, 1);
    report(&backend, 0, false, 1);
    let mut leases: Vec<_> = (1..count).map(|random| lease(choose(&backend, random.into(), 1))).collect();
    report(&backend, 0, true, 1);
    leases.push(lease(choose(&backend, 1, 1)));
    assert_eq!(leases.last().map(|lease| lease.server().name()), Some("s1"));
    let Choice::Wait(mut waiting) = choose(&backend, 1, 1) else { panic!("all are full") };
    drop(leases.pop());
    let Some(Outcome::Granted(granted)) = waiting.poll() else { panic!("there is room") };
    assert_eq!(granted.lease.server().name(), "s1");
    // One that drains takes nobody who waits.
    let Choice::Wait(mut waiting) = choose(&backend, 1, 1) else { panic!("all are full") };
    let drain = crate::Change::State(crate::RequestedState::Drain);
    backend.change(ServerKey::configured(0), drain, 1).expect("it is there");
    drop(granted);
    assert!(waiting.poll().is_none());
    drop(leases);
    assert!(matches!(waiting.poll(), Some(Outcome::Granted(_))));
}
