//! Outliers: the effects of `outlier-ejection` and `balance latency`, on a simulated clock.

mod fixture;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use fixture::*;
use weir_backend::*;

const RULES: OutlierRules = OutlierRules {
    errors: Some(5),
    ratio: None,
    latency: None,
    interval_ms: 1_000,
    base_ms: 10_000,
    longest_ms: 60_000,
    at_most_percent: 50,
};

fn test_backend(rules: OutlierRules, servers: &[&str]) -> Arc<Backend> {
    let settings = BackendSettings {
        name: "be".to_owned(),
        algorithm: BalanceAlgorithm::new("roundrobin"),
        outliers: Some(rules),
        ..Default::default()
    };
    with(settings, servers.iter().map(|name| server(name)).collect())
}

fn show(backend: &Backend, name: &str, observation: Observation, now_ms: u64) -> BackendNews {
    let server = backend.server_by_name(name).expect("a server of that name");
    backend.observe(&server, TrafficSample { observation, worker: 0, took_ms: 1 }, now_ms).unwrap_or_default()
}

/// Reports `count` consecutive errors. Returns the news of the last one.
fn fail(backend: &Backend, name: &str, count: u32, now_ms: u64) -> BackendNews {
    (0..count).map(|_| show(backend, name, Observation::WrongStatus, now_ms)).last().unwrap_or_default()
}

fn texts(news: &BackendNews) -> Vec<&str> {
    news.notices.iter().map(|notice| notice.text.as_str()).collect()
}

fn ends_ms(news: &BackendNews) -> Vec<u64> {
    news.ejections.iter().map(|end| end.at_ms).collect()
}

/// The servers that get requests at this time.
fn used(backend: &Backend, now_ms: u64) -> String {
    let names = (0..40).map(|number| {
        let input = ChooseInput { random: number, ..at(now_ms) };
        lease(backend.choose(&input, || Bell::default().wake())).server().name().to_owned()
    });
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[test]
fn consecutive_errors_eject_a_server_for_a_growing_time() {
    let backend = test_backend(RULES, &["a", "b", "c"]);
    assert_eq!(used(&backend, 0), "abc");
    assert!(texts(&fail(&backend, "b", 4, 100)).is_empty());
    let news = fail(&backend, "b", 1, 100);
    let said = "Server be/b is ejected for 10000ms, reason: 5 errors in a row, last one was: Wrong http response. \
                2 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining in queue.";
    assert_eq!((texts(&news), ends_ms(&news)), (vec![said], vec![10_100]));
    assert_eq!(used(&backend, 200), "ac");
    let b = backend.server_by_name("b").expect("a server");
    assert_eq!((b.is_ejected(), b.is_up(), b.ejections()), (true, true, Some(1)));
    assert!(texts(&backend.end_ejections(10_099)).is_empty());
    let news = backend.end_ejections(10_100);
    let said = "Server be/b is back from its ejection. 3 active and 0 backup servers online. \
                0 sessions requeued, 0 total in queue.";
    assert_eq!((texts(&news), used(&backend, 10_100)), (vec![said], "abc".to_owned()));
    // An ejection soon after the first lasts twice as long. After a time as long as the ejection, it has the base duration.
    assert_eq!(ends_ms(&fail(&backend, "b", 5, 15_000)), [35_000]);
    backend.end_ejections(35_000);
    assert_eq!(ends_ms(&fail(&backend, "b", 5, 55_000)), [65_000]);
    assert_eq!(b.ejections(), Some(3));
}

#[test]
fn a_good_response_resets_the_error_count_but_a_connection_does_not() {
    let backend = test_backend(RULES, &["a", "b"]);
    for _ in 0..10 {
        fail(&backend, "a", 4, 1);
        show(&backend, "a", Observation::Responded, 1);
    }
    assert_eq!(used(&backend, 1), "ab");
    for _ in 0..5 {
        show(&backend, "a", Observation::Connected, 1);
        fail(&backend, "a", 1, 1);
    }
    assert_eq!(used(&backend, 1), "b");
}

#[test]
fn ejects_at_most_the_allowed_share_and_never_the_last_server() {
    let backend = test_backend(RULES, &["a", "b", "c", "d"]);
    for name in ["a", "b", "c", "d"] {
        fail(&backend, name, 5, 1);
    }
    assert_eq!(used(&backend, 1), "cd", "half of them");
    let stop = |name| {
        let down = ServerChange::State(RequestedState::Maintenance);
        backend.change(key(&backend, name), down, 2).expect("it is there");
    };
    stop("c");
    assert_eq!(used(&backend, 2), "d");
    stop("d");
    assert_eq!(used(&backend, 3), "ab", "nobody else is left");
    let status = backend.status(3);
    assert_eq!((status.up, status.active), (true, 2));
    let alone = test_backend(OutlierRules { at_most_percent: 100, ..RULES }, &["a"]);
    fail(&alone, "a", 500, 1);
    assert_eq!(used(&alone, 1), "a");
}

#[test]
fn an_ejected_server_keeps_persistent_sessions_until_set_ready() {
    let backend = test_backend(RULES, &["a", "b"]);
    let a = key(&backend, "a");
    fail(&backend, "a", 5, 1);
    let take = |sticky| backend.take(a, sticky, &at(2), || Bell::default().wake());
    assert!(matches!(take(false), Choice::None), "its visitors go elsewhere");
    assert!(matches!(take(true), Choice::Server(_)), "unless they are to stay whatever happens");
    backend.change(a, ServerChange::State(RequestedState::Ready), 3).expect("it is there");
    assert_eq!(used(&backend, 3), "ab");
    assert!(texts(&backend.end_ejections(60_000)).is_empty(), "it is back already");
}

#[test]
fn an_ejected_server_releases_its_queue_and_rejoins_after_its_ejection() {
    let settings = BackendSettings {
        algorithm: BalanceAlgorithm::new("roundrobin"),
        outliers: Some(RULES),
        ..Default::default()
    };
    let backend = with(settings, vec![limited("a", 1), limited("b", 1)]);
    let (a, bell) = (key(&backend, "a"), Bell::default());
    let take = |key| backend.take(key, false, &at(1), || bell.wake());
    let held = lease(take(a));
    let mut waiter = waiting(take(a));
    fail(&backend, "a", 5, 1);
    assert!(matches!(waiter.poll(), Some(WaitOutcome::ChooseAgain(_))));
    drop(held);
    let _other = lease(backend.choose(&at(2), || bell.wake()));
    let mut next = waiting(backend.choose(&at(2), || bell.wake()));
    assert!(next.poll().is_none());
    backend.end_ejections(11_000);
    assert_eq!(granted(&mut next).lease.server().name(), "a");
}

/// A fault of the last of ten servers.
#[derive(Clone, Copy)]
enum Illness {
    /// Responses take twenty times as long.
    Slow,
    /// One request in ten fails, at once.
    Fails,
}

/// The result of a run.
#[derive(Debug)]
struct Outcomes {
    requests: u64,
    errors: u64,
    mean_ms: f64,
    p99_ms: u64,
    /// Requests to the faulty server.
    to_ill: u64,
}

/// Two minutes, 500 requests a second, 5 to 15 ms each, on two workers.
fn run(algorithm: BalanceAlgorithm, outliers: Option<OutlierRules>, illness: Illness, seed: u64) -> Outcomes {
    let settings = BackendSettings { algorithm, outliers, workers: 2, ..Default::default() };
    let names: Vec<_> = (0..10).map(|number| format!("s{number}")).collect();
    let backend = with(settings, names.iter().map(|name| server(name)).collect());
    let mut random = seed;
    let mut draw = move |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let (mut ends, mut leases) = (BinaryHeap::new(), Vec::new());
    let mut returns = Vec::new();
    let mut outcomes = Outcomes { requests: 0, errors: 0, mean_ms: 0.0, p99_ms: 0, to_ill: 0 };
    let mut times = Vec::new();
    for now_ms in 0..120_000_u64 {
        while ends.peek().is_some_and(|Reverse((at, _, _, _))| *at <= now_ms) {
            let Some(Reverse((_, number, took_ms, is_error))) = ends.pop() else { break };
            let slot: &mut Option<Lease> = &mut leases[number];
            let ended = slot.take().expect("it ends once");
            let observation = if is_error { Observation::WrongStatus } else { Observation::Responded };
            let seen = TrafficSample { observation, worker: number % 2, took_ms };
            if let Some(news) = backend.observe(ended.server(), seen, now_ms) {
                returns.extend(ends_ms(&news));
            }
        }
        if returns.contains(&now_ms) {
            backend.end_ejections(now_ms);
        }
        if draw(2) == 0 {
            let number = leases.len();
            let input =
                ChooseInput { random: draw(1 << 31) << 31 | draw(1 << 31), worker: number % 2, ..at(now_ms) };
            let chosen = lease(backend.choose(&input, || Bell::default().wake()));
            let is_ill = chosen.server().name() == "s9";
            let usual = 5 + draw(11);
            let (took_ms, is_error) = match illness {
                Illness::Slow if is_ill => (usual * 20, false),
                Illness::Fails if is_ill && draw(10) == 0 => (1, true),
                _ => (usual, false),
            };
            outcomes.requests += 1;
            outcomes.errors += u64::from(is_error);
            outcomes.to_ill += u64::from(is_ill);
            times.push(took_ms);
            leases.push(Some(chosen));
            ends.push(Reverse((now_ms + took_ms, number, took_ms as u32, is_error)));
        }
    }
    times.sort_unstable();
    outcomes.mean_ms = times.iter().sum::<u64>() as f64 / times.len() as f64;
    outcomes.p99_ms = times[times.len() * 99 / 100];
    outcomes
}

fn ejecting() -> Option<OutlierRules> {
    Some(OutlierRules { errors: Some(5), ratio: Some(5), latency: Some(300), at_most_percent: 30, ..RULES })
}

/// One server of ten is twenty times as slow as the others.
#[test]
fn latency_balancing_and_ejection_avoid_a_slow_server() {
    for seed in 1..=3 {
        let turns = run(BalanceAlgorithm::new("roundrobin"), None, Illness::Slow, seed);
        let least = run(BalanceAlgorithm::new("leastconn"), None, Illness::Slow, seed);
        let latency = run(BalanceAlgorithm::new("latency"), None, Illness::Slow, seed);
        let ejected = run(BalanceAlgorithm::new("roundrobin"), ejecting(), Illness::Slow, seed);
        println!("slow: {turns:?}\n  {least:?}\n  {latency:?}\n  {ejected:?}");
        assert!(turns.mean_ms > 25.0 && turns.p99_ms > 200, "{turns:?}");
        assert!(
            latency.mean_ms < turns.mean_ms / 2.0 && latency.mean_ms < least.mean_ms,
            "{latency:?} {least:?}"
        );
        assert!(latency.to_ill * 4 < least.to_ill && latency.p99_ms < 20, "{latency:?} {least:?}");
        assert!(ejected.to_ill * 5 < turns.to_ill && ejected.mean_ms < 14.0, "{ejected:?}");
    }
}

/// One server of ten fails one request in ten, faster than a response. An algorithm that counts connections prefers it.
#[test]
fn latency_balancing_and_ejection_avoid_a_failing_server() {
    for seed in 1..=3 {
        let turns = run(BalanceAlgorithm::new("roundrobin"), None, Illness::Fails, seed);
        let least = run(BalanceAlgorithm::new("leastconn"), None, Illness::Fails, seed);
        let latency = run(BalanceAlgorithm::new("latency"), None, Illness::Fails, seed);
        let ejected = run(BalanceAlgorithm::new("roundrobin"), ejecting(), Illness::Fails, seed);
        println!("fails: {turns:?}\n  {least:?}\n  {latency:?}\n  {ejected:?}");
        assert!(turns.errors > 400 && least.errors >= turns.errors * 9 / 10, "{turns:?} {least:?}");
        assert!(latency.errors * 4 < turns.errors, "{latency:?} {turns:?}");
        assert!(ejected.errors * 4 < turns.errors, "{ejected:?} {turns:?}");
    }
}
