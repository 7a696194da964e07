//! Tests with thousands of servers that keep going down and coming up.

use std::sync::Arc;
use weir_model::InitialState;

use super::Backend;
use crate::health::{CheckFinding, CheckKind, CheckRules, CheckStatus};
use crate::lb_state::LARGE_BACKEND;
use crate::notice::BackendNews;
use crate::outlier::OutlierRules;
use crate::server_key::ServerKey;
use crate::settings::{BackendSettings, BalanceAlgorithm, ServerSettings};
use crate::waiting::WaitOutcome;
use crate::{Choice, ChooseInput, Lease, WakeFn};

#[path = "../../tests/fixture/ejection.rs"]
mod ejection;
use ejection::EJECTION;

fn test_backend(algorithm: BalanceAlgorithm, count: u32, maximum_connections: u32) -> Arc<Backend> {
    let settings = BackendSettings { algorithm, ..BackendSettings::default() };
    Backend::new(settings, lines(count, maximum_connections), 0)
}

fn lines(count: u32, maximum_connections: u32) -> Vec<ServerSettings> {
    let check = Some(CheckRules { rise: 1, fall: 1, start: InitialState::FullyUp });
    let server = |id: u32| ServerSettings {
        name: format!("s{id}"),
        id,
        maximum_connections,
        check,
        ..ServerSettings::default()
    };
    (1..=count).map(server).collect()
}

fn report(backend: &Backend, rank: u32, is_well: bool, now_ms: u64) -> BackendNews {
    let status = if is_well { CheckStatus::L4Ok } else { CheckStatus::L4Connection };
    backend.report(ServerKey::configured(rank), CheckKind::Health, CheckFinding::new(status), now_ms)
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

const ALGORITHMS: [BalanceAlgorithm; 5] = [
    BalanceAlgorithm::new("roundrobin"),
    BalanceAlgorithm::new("static-rr"),
    BalanceAlgorithm::new("leastconn"),
    BalanceAlgorithm::new("random").with(Some(2)),
    BalanceAlgorithm::new("source"),
];

/// All of 5,000 servers but the first go down and come up within a second, with a request each millisecond. Returns the
/// number of visits to servers in loops over all servers.
fn storm(backend: &Backend, mut request: impl FnMut(Choice)) -> u64 {
    let before = backend.lb_state.lock().visits();
    let mut batches = Vec::new();
    for now_ms in 1..=1_000_u64 {
        for change in 0..10 {
            let step = (now_ms - 1) * 10 + change;
            let rank = (step % 5_000) as u32;
            if rank > 0 {
                let news = report(backend, rank, step >= 5_000, now_ms);
                batches.extend(news.batches.iter().map(|end| end.at_ms));
            }
        }
        // The calls of checks during a server's slow start, and of the process at the end of a batch.
        backend.tick(now_ms);
        if batches.extract_if(.., |at_ms| *at_ms <= now_ms).count() > 0 {
            backend.settle();
        }
        request(choose(backend, now_ms.wrapping_mul(0x9e37_79b9_7f4a_7c15), now_ms));
    }
    (backend.lb_state.lock().visits() - before) / 5_000
}

/// A thousand requests never reach a server that is down, and members are computed every few milliseconds, not for each
/// change.
#[test]
fn frequent_server_changes_recompute_the_members_in_batches() {
    for algorithm in ALGORITHMS {
        let backend = test_backend(algorithm, 5_000, 0);
        let rounds = storm(&backend, |choice| assert!(lease(choice).server().is_up(), "{algorithm:?}"));
        assert!((200..=MOST_ROUNDS).contains(&rounds), "{algorithm:?}: {rounds}");
        assert_eq!((backend.usable_servers(), backend.status(2_000).active), (5_000, 5_000), "{algorithm:?}");
        let names: std::collections::BTreeSet<_> =
            (0..20_000).map(|random| lease(choose(&backend, random, 2_000)).server().id()).collect();
        assert!(names.len() > 4_000, "{algorithm:?}: {} of all are used again", names.len());
    }
}

/// One pass per four milliseconds to compute members, one for slow starts, and a few when other servers take over.
const MOST_ROUNDS: u64 = 510;

/// Changes in these backends do not each cost a pass over all servers.
#[test]
fn single_server_changes_do_not_scan_all_servers() {
    #[track_caller]
    fn check(what: &str, settings: BackendSettings, change: impl Fn(&mut ServerSettings), most: u64) {
        let mut servers = lines(5_000, 0);
        servers.iter_mut().for_each(change);
        let backend = Backend::new(settings, servers, 0);
        let rounds = storm(&backend, drop);
        assert!(rounds <= most, "{what}: all were looked at {rounds} times");
        assert_eq!(backend.usable_by_kind().iter().sum::<u32>(), 5_000, "{what}");
    }
    let settings = BackendSettings::default;
    check("slow starts", settings(), |server| server.slow_start_ms = 1_000, MOST_ROUNDS);
    check("slow starts in small steps", settings(), |server| server.slow_start_ms = 60, MOST_ROUNDS);
    let outliers = Some(EJECTION);
    check("ejections", BackendSettings { outliers, ..settings() }, |_| (), MOST_ROUNDS);
    check("a backup beside others", settings(), |server| server.backup = server.id > 2_500, MOST_ROUNDS);
    let all_backups = BackendSettings { all_backups: true, ..settings() };
    check("backups", all_backups, |server| server.backup = true, MOST_ROUNDS);
    // Each request may find that the backup in use is down.
    check("one backup at a time", settings(), |server| server.backup = true, 1_000 + MOST_ROUNDS);
}

/// Adding and removing servers one by one does not visit all others, even with a request after each change.
#[test]
fn adding_and_removing_servers_does_not_scan_all_servers() {
    let backend = test_backend(BalanceAlgorithm::new("roundrobin"), 5_000, 0);
    let before = backend.lb_state.lock().visits();
    for number in 0..1_000 {
        let settings = ServerSettings { name: format!("new{number}"), ..ServerSettings::default() };
        let added = backend.add(settings, 10).expect("its name is new");
        assert_eq!(added.id(), 5_001);
        drop(lease(choose(&backend, number, 10)));
        drop(backend.remove(added.key(), 10).expect("it is in maintenance"));
        assert!(lease(choose(&backend, number, 10)).server().is_up());
    }
    let rounds = (backend.lb_state.lock().visits() - before) / 5_000;
    assert!(rounds <= 2, "all were looked at {rounds} times in a millisecond");
}

/// Changes while all servers are full and requests wait. Each server that comes up or finishes a request serves a waiter.
#[test]
fn server_changes_with_queued_requests_do_not_scan_all_servers() {
    for algorithm in [BalanceAlgorithm::new("roundrobin"), BalanceAlgorithm::new("leastconn")] {
        let backend = test_backend(algorithm, 5_000, 1);
        let mut leases: Vec<_> = (0..5_000).map(|random| lease(choose(&backend, random, 0))).collect();
        let mut waiting = std::collections::VecDeque::new();
        let rounds = storm(&backend, |choice| match choice {
            Choice::Wait(new) => {
                waiting.push_back(new);
                if waiting.len() < 20 {
                    return;
                }
                // A request of a server that is up ends. The slot goes to the longest waiter.
                let of_one_up = leases.iter().rposition(|lease: &Lease| lease.server().is_up());
                drop(leases.swap_remove(of_one_up.expect("the first stays up")));
                let served = waiting.iter_mut().position(|waiting| {
                    let Some(WaitOutcome::Granted(granted)) = waiting.poll() else { return false };
                    leases.push(granted.lease);
                    true
                });
                assert_eq!(served, Some(0), "{algorithm:?}: none waits beside a free slot");
                waiting.pop_front();
            }
            other => panic!("{algorithm:?}: all are full: {other:?}"),
        });
        assert!(rounds <= MOST_ROUNDS, "{algorithm:?}: all were looked at {rounds} times");
    }
}

/// A watcher sees the changes at the end of each batch, even without requests.
#[test]
fn a_watcher_is_notified_at_the_end_of_each_batch_of_changes() {
    let backend = test_backend(BalanceAlgorithm::new("roundrobin"), 5_000, 0);
    let shown = Arc::new(std::sync::Mutex::new((0, 0)));
    let seen = Arc::clone(&shown);
    backend.watch(Box::new(move |view| {
        let mut seen = seen.lock().expect("nobody panics");
        *seen = (seen.0 + 1, view.usable.len());
    }));
    let news = report(&backend, 7, false, 10);
    assert_eq!(news.batches.iter().map(|end| end.at_ms).collect::<Vec<_>>(), [4]);
    assert_eq!(report(&backend, 8, false, 10).batches, []);
    assert_eq!(*shown.lock().expect("nobody panics"), (1, 5_000));
    backend.settle();
    assert_eq!(*shown.lock().expect("nobody panics"), (2, 4_998));
    assert_eq!(report(&backend, 7, true, 20).batches.len(), 1, "the next batch");
    backend.settle();
    let rounds = storm(&backend, drop);
    assert!(rounds <= MOST_ROUNDS, "{rounds}");
    let (times, usable) = *shown.lock().expect("nobody panics");
    assert!((200..=260).contains(&times) && usable > 4_900, "{times} {usable}");
}

/// The requests of a downed server end one by one. The server must not be chosen as the least loaded one.
#[test]
fn does_not_choose_a_downed_server_as_the_least_loaded() {
    let backend = test_backend(BalanceAlgorithm::new("leastconn"), 300, 0);
    let leases: Vec<_> = (0..300).map(|random| lease(choose(&backend, random, 1))).collect();
    let (gone, others): (Vec<_>, Vec<_>) =
        leases.into_iter().partition(|lease| lease.server().key() == ServerKey::configured(7));
    drop(report(&backend, 8, false, 10));
    drop(choose(&backend, 1, 14));
    drop(report(&backend, 7, false, 14));
    let before = backend.lb_state.lock().visits();
    drop(gone);
    assert_ne!(lease(choose(&backend, 1, 15)).server().name(), "s8");
    assert_eq!(backend.lb_state.lock().visits(), before, "nothing had to be computed for that");
    drop(others);
}

/// A large backend that keeps changing gives no turns in advance, because the next change would take them back. Afterwards
/// workers choose without the lock again.
#[test]
fn workers_choose_with_the_lock_while_a_large_backend_keeps_changing() {
    let backend = test_backend(BalanceAlgorithm::new("roundrobin"), 5_000, 0);
    drop(choose(&backend, 1, 1));
    assert!(backend.version().is_free());
    drop(report(&backend, 7, false, 10));
    for (now_ms, is_free) in [(10, false), (14, false), (30, false), (59, false), (60, true), (61, true)] {
        drop(choose(&backend, 1, now_ms));
        assert_eq!(backend.version().is_free(), is_free, "at {now_ms}");
    }
}

/// Numbers in logs and statistics are always up to date, and the change of the last server is applied at once.
#[test]
fn server_counts_include_postponed_changes_at_once() {
    let count = LARGE_BACKEND as u32 + 10;
    let backend = test_backend(BalanceAlgorithm::new("roundrobin"), count, 0);
    for rank in 0..count {
        drop(report(&backend, rank, false, 1));
        assert_eq!(backend.usable_servers(), count - rank - 1);
    }
    assert!(matches!(choose(&backend, 1, 1), Choice::None));
    assert!(!backend.status(1).up);
    drop(report(&backend, 7, true, 1));
    assert_eq!(lease(choose(&backend, 1, 1)).server().name(), "s8");
    let status = backend.status(1);
    assert_eq!((status.up, status.active, status.downs), (true, 1, 1));
}

/// A server that comes up while all others are full is used at once. So is a server with a queued request.
#[test]
fn requests_use_a_recovered_server_before_postponed_changes_are_computed() {
    let count = LARGE_BACKEND as u32 + 1;
    let backend = test_backend(BalanceAlgorithm::new("roundrobin"), count, 1);
    drop(report(&backend, 0, false, 1));
    let mut leases: Vec<_> = (1..count).map(|random| lease(choose(&backend, random.into(), 1))).collect();
    drop(report(&backend, 0, true, 1));
    leases.push(lease(choose(&backend, 1, 1)));
    assert_eq!(leases.last().map(|lease| lease.server().name()), Some("s1"));
    let Choice::Wait(mut waiting) = choose(&backend, 1, 1) else { panic!("all are full") };
    drop(leases.pop());
    let Some(WaitOutcome::Granted(granted)) = waiting.poll() else { panic!("there is room") };
    assert_eq!(granted.lease.server().name(), "s1");
    // A draining server does not serve the backend's queue.
    let Choice::Wait(mut waiting) = choose(&backend, 1, 1) else { panic!("all are full") };
    let drain = crate::ServerChange::State(crate::RequestedState::Drain);
    backend.change(ServerKey::configured(0), drain, 1).expect("it is there");
    drop(granted);
    assert!(waiting.poll().is_none());
    drop(leases);
    assert!(matches!(waiting.poll(), Some(WaitOutcome::Granted(_))));
}
