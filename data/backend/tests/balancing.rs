//! Choosing through the whole backend: the shares of servers, and which server replaces another.
#![cfg(not(loom))]

mod fixture;

use std::collections::HashMap;
use std::net::SocketAddr;
use weir_model::HashType;

use fixture::*;
use proptest::prelude::*;
use weir_backend::*;
use weir_model::{CookieMode, CookiePersistence};

fn weighted(name: &str, weight: u32) -> ServerSettings {
    ServerSettings { weight, ..server(name) }
}

#[test]
fn each_algorithm_gives_its_sequence_of_servers() {
    #[track_caller]
    fn check(algorithm: BalanceAlgorithm, expected: &str) {
        let servers = vec![weighted("a", 1), weighted("b", 2), weighted("c", 3)];
        assert_eq!(sequence(&backend(algorithm, servers), expected.len() as u64), expected);
    }
    check(BalanceAlgorithm::new("roundrobin"), "cbcacbcbcacb");
    check(BalanceAlgorithm::new("static-rr"), "acbcbcacbcbc");
    check(BalanceAlgorithm::new("first"), "aaaa");
    // Requests that end at once leave all servers idle. Idle servers take turns regardless of weight.
    check(BalanceAlgorithm::new("leastconn"), "abcabc");
    // Without a key, hashing falls back on turns.
    check(BalanceAlgorithm::new("source"), "acbcbc");
}

/// With connections that stay open, the sequences equal HAProxy 2.6's.
#[test]
fn leastconn_chooses_the_least_loaded_server_for_its_weight() {
    #[track_caller]
    fn check(weights: &[u32], expected: &str) {
        let servers = weights.iter().zip(["a", "b", "c", "d"]).map(|(weight, name)| weighted(name, *weight));
        let backend = backend(BalanceAlgorithm::new("leastconn"), servers.collect());
        let held: Vec<_> = (0..expected.len()).map(|_| lease(choose(&backend))).collect();
        let names: String = held.iter().map(|lease| lease.server().name()).collect();
        assert_eq!(names, expected);
    }
    check(&[1, 1, 1], "abcabc");
    check(&[1, 2], "abbbab");
    check(&[2, 1], "abaaba");
    check(&[1, 2, 3], "abccbccbcabc");
    check(&[3, 2, 1], "abcabaabacba");
    check(&[5, 1, 1], "abcaaaaaaaabca");
    check(&[1, 1, 5], "abcccccccccabc");
    check(&[7, 5, 3, 1], "abcdabaabcabacbaabacbaabcabadcba");
    check(&[4, 3], "abababaabababa");
}

#[test]
fn leastconn_prefers_a_server_with_an_ended_connection() {
    let backend = backend(BalanceAlgorithm::new("leastconn"), vec![server("a"), server("b"), server("c")]);
    let mut held: Vec<_> = (0..3).map(|_| lease(choose(&backend))).collect();
    drop(held.remove(1));
    held.push(lease(choose(&backend)));
    assert_eq!(held[2].server().name(), "b");
}

#[test]
fn first_chooses_the_first_server_with_a_free_slot() {
    let backend =
        backend(BalanceAlgorithm::new("first"), vec![limited("a", 2), limited("b", 1), limited("c", 0)]);
    let held: Vec<_> = (0..5).map(|_| lease(choose(&backend))).collect();
    let names: String = held.iter().map(|lease| lease.server().name()).collect();
    assert_eq!(names, "aabcc");
}

#[test]
fn servers_at_maxconn_are_skipped() {
    for algorithm in [
        BalanceAlgorithm::new("roundrobin"),
        BalanceAlgorithm::new("static-rr"),
        BalanceAlgorithm::new("leastconn"),
        BalanceAlgorithm::new("random").with(Some(1)),
    ] {
        let backend = backend(algorithm, vec![limited("a", 1), limited("b", 3)]);
        let held: Vec<_> = (0..4).map(|_| lease(choose(&backend))).collect();
        let on_a = held.iter().filter(|lease| lease.server().name() == "a").count();
        assert_eq!(on_a, 1, "{algorithm:?}");
        waiting(choose(&backend));
    }
}

#[test]
fn an_avoided_server_is_chosen_if_it_is_the_only_one() {
    for algorithm in [
        BalanceAlgorithm::new("roundrobin"),
        BalanceAlgorithm::new("static-rr"),
        BalanceAlgorithm::new("leastconn"),
        BalanceAlgorithm::new("first"),
        BalanceAlgorithm::new("random").with(Some(2)),
        BalanceAlgorithm::new("source"),
    ] {
        let backend = backend(algorithm, vec![server("a"), server("b")]);
        let avoid = Some(key(&backend, "a"));
        for number in 0..20 {
            let input = ChooseInput { avoid, hash: Some(number), random: number.into(), ..at(0) };
            let choose = || lease(backend.choose(&input, || Bell::default().wake()));
            assert_eq!(choose().server().name(), "b", "{algorithm:?}");
        }
        backend.change(key(&backend, "b"), ServerChange::State(RequestedState::Maintenance), 0).unwrap();
        let input = ChooseInput { avoid, hash: Some(1), ..at(0) };
        assert_eq!(
            lease(backend.choose(&input, || Bell::default().wake())).server().name(),
            "a",
            "{algorithm:?}"
        );
    }
}

/// Random draws choose the least loaded server other than the one to avoid.
#[test]
fn random_draws_choose_the_least_loaded_server_other_than_the_avoided() {
    #[track_caller]
    fn check(avoid: &str, busy: &str, expected: &str) {
        let backend = backend(
            BalanceAlgorithm::new("random").with(Some(16)),
            vec![server("a"), server("b"), server("c")],
        );
        let _held: Vec<_> =
            (0..5).map(|_| backend.force(key(&backend, busy)).expect("it is there")).collect();
        let avoid = Some(key(&backend, avoid));
        let drawn = (0..50).filter(|number| {
            let input = ChooseInput { avoid, random: *number, ..at(0) };
            lease(backend.choose(&input, || Bell::default().wake())).server().name() == expected
        });
        // Sixteen draws miss one of three servers in one of six hundred requests.
        assert!(drawn.count() >= 48, "{expected}");
    }
    check("a", "b", "c");
    check("a", "c", "b");
    check("b", "a", "c");
    check("c", "a", "b");
}

#[test]
fn the_preferred_server_is_chosen_while_it_has_a_free_slot() {
    let backend =
        backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1), limited("c", 1)]);
    let prefer = Some(key(&backend, "b"));
    let choose = || backend.choose(&ChooseInput { prefer, ..at(0) }, || Bell::default().wake());
    let held = lease(choose());
    assert_eq!(held.server().name(), "b");
    assert_eq!(lease(choose()).server().name(), "a");
    backend.change(key(&backend, "b"), ServerChange::State(RequestedState::Drain), 0).unwrap();
    drop(held);
    assert_eq!(lease(choose()).server().name(), "c");
}

#[test]
fn backup_servers_are_used_singly_or_with_allbackups_together() {
    let servers = || {
        let backup = |name| ServerSettings { backup: true, ..server(name) };
        vec![backup("x"), server("a"), backup("y")]
    };
    let settings = |all_backups| BackendSettings {
        algorithm: BalanceAlgorithm::new("roundrobin"),
        all_backups,
        ..Default::default()
    };
    for (all, expected) in [(false, "xxxx"), (true, "xyxy")] {
        let backend = with(settings(all), servers());
        assert_eq!(sequence(&backend, 2), "aa");
        let status = backend.status(0);
        assert_eq!((status.active, status.backup, status.weight), (1, 2, 1));
        backend.change(key(&backend, "a"), ServerChange::State(RequestedState::Drain), 0).unwrap();
        assert_eq!(sequence(&backend, 4), expected);
        backend.change(key(&backend, "x"), ServerChange::State(RequestedState::Maintenance), 0).unwrap();
        assert_eq!(sequence(&backend, 2), "yy");
        assert_eq!(backend.usable_servers(), 1);
    }
}

#[test]
fn dynamic_algorithms_apply_a_new_weight_at_once() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![server("a"), server("b")]);
    let b = key(&backend, "b");
    assert_eq!(sequence(&backend, 4), "abab");
    backend.change(b, ServerChange::Weight(WeightChange::Absolute(3)), 0).unwrap();
    let names = sequence(&backend, 40);
    assert_eq!(names.matches('b').count(), 30);
    backend.change(b, ServerChange::Weight(WeightChange::Absolute(0)), 0).unwrap();
    assert_eq!(sequence(&backend, 3), "aaa");
    assert_eq!(backend.server(b).unwrap().user_weight(), 0);
    assert!(backend.server(b).unwrap().is_up(), "persistence still reaches it");
}

#[test]
fn static_algorithms_accept_only_full_and_zero_weight() {
    for algorithm in [BalanceAlgorithm::new("static-rr"), BalanceAlgorithm::new("source")] {
        let backend = backend(algorithm, vec![weighted("a", 10), weighted("b", 4)]);
        let b = key(&backend, "b");
        let change = |weight| backend.change(b, ServerChange::Weight(weight), 0);
        assert_eq!(change(WeightChange::Percentage(50)), Err(ChangeError::StaticAlgorithm));
        for accepted in
            [WeightChange::Percentage(0), WeightChange::Absolute(4), WeightChange::Percentage(100)]
        {
            assert_eq!(change(accepted), Ok(()));
        }
        assert_eq!(change(WeightChange::Absolute(0)), Ok(()));
        assert!(!sequence(&backend, 10).contains('b'));
    }
}

#[test]
fn slow_start_raises_the_share_of_requests() {
    let backend = backend(
        BalanceAlgorithm::new("roundrobin"),
        vec![weighted("a", 10), ServerSettings { slow_start_ms: 10_000, ..weighted("b", 10) }],
    );
    let b = key(&backend, "b");
    assert_eq!(sequence(&backend, 4), "abab", "no slow start when the process starts");
    backend.change(b, ServerChange::State(RequestedState::Maintenance), 1_000).unwrap();
    backend.change(b, ServerChange::State(RequestedState::Ready), 2_000).unwrap();
    let share = |now_ms| {
        let choose = || lease(backend.choose(&at(now_ms), || Bell::default().wake()));
        (0..1_000).filter(|_| choose().server().name() == "b").count()
    };
    for (now_ms, expected) in [(3_000, 90..=92), (7_000, 330..=335), (12_000, 499..=501)] {
        let got = share(now_ms);
        assert!(expected.contains(&got), "{got} at {now_ms}");
    }
    assert_eq!(backend.server(b).unwrap().operational_state(7_000), OperationalState::Starting);
    assert_eq!(backend.server(b).unwrap().ramp(7_000).percentage(), 50);
}

#[test]
fn a_server_reports_its_state_downtime_and_last_change() {
    let backend =
        backend(BalanceAlgorithm::new("roundrobin"), vec![ServerSettings { disabled: true, ..server("a") }]);
    let a = key(&backend, "a");
    let server = backend.server(a).unwrap();
    assert_eq!((server.admin_state().bits(), server.operational_state(0) as u8), (5, 0));
    assert!(!backend.status(0).up);
    assert!(matches!(choose(&backend), Choice::None));
    backend.change(a, ServerChange::State(RequestedState::Ready), 5_000).unwrap();
    assert_eq!((server.admin_state().bits(), server.operational_state(5_000) as u8), (4, 2));
    assert_eq!((server.downtime_ms(9_000), server.last_change_ms()), (5_000, 5_000));
    let status = backend.status(9_000);
    assert_eq!((status.up, status.downtime_ms, status.last_change_ms), (true, 5_000, 5_000));
    assert_eq!((status.downs, server.downs()), (0, 0));
    backend.change(a, ServerChange::Health(OperationalState::Stopped), 10_000).unwrap();
    assert_eq!(server.downtime_ms(12_000), 7_000);
    assert_eq!((backend.status(12_000).downs, server.downs()), (1, 1));
    assert_eq!(backend.status(12_000).downtime_ms, 7_000);
    backend.change(a, ServerChange::Health(OperationalState::Running), 13_000).unwrap();
    assert_eq!((server.downtime_ms(20_000), backend.status(20_000).downtime_ms), (8_000, 8_000));
    // Checks do not change the state while an operator keeps it in maintenance.
    backend.change(a, ServerChange::State(RequestedState::Maintenance), 14_000).unwrap();
    backend.change(a, ServerChange::Health(OperationalState::Running), 15_000).unwrap();
    assert!(!server.is_up());
    assert_eq!(
        backend.change(
            a,
            ServerChange::Admin { set: AdminState::READY, clear: AdminState::FORCED_MAINTENANCE },
            1
        ),
        Ok(())
    );
    assert!(server.is_up());
}

#[test]
fn a_cookie_selects_the_first_usable_server_with_its_value() {
    let named = |name, cookie: &str| ServerSettings { cookie: Some(cookie.to_owned()), ..server(name) };
    let backend =
        backend(BalanceAlgorithm::new("roundrobin"), vec![named("a", "1"), named("b", "2"), named("c", "1")]);
    let designated = |cookie| backend.server_by_cookie(cookie).map(|server| server.name().to_owned());
    assert_eq!(designated("1").as_deref(), Some("a"));
    backend.change(key(&backend, "a"), ServerChange::State(RequestedState::Maintenance), 0).unwrap();
    assert_eq!(designated("1").as_deref(), Some("c"));
    assert_eq!(designated("3"), None);
}

#[test]
fn a_dynamic_cookie_follows_the_address_of_the_server() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let settings = BackendSettings {
        cookie: Some(CookieRules::new(&std::sync::Arc::new(CookiePersistence {
            name: "S".into(),
            mode: CookieMode::Insert,
            ..Default::default()
        }))),
        dynamic_cookies: DynamicCookies { enabled: false, key: Some("foo".into()) },
        ..Default::default()
    };
    let backend =
        with(settings, vec![ServerSettings { address: address("127.0.0.1:56423").into(), ..server("a") }]);
    assert!(backend.server_by_cookie("b5a7ac530ee14e81").is_none());
    backend.change_dynamic_cookies(|cookies| cookies.enabled = true);
    assert!(backend.server_by_cookie("b5a7ac530ee14e81").is_some());
    backend
        .change(
            key(&backend, "a"),
            ServerChange::Address { ip: Some(address("127.0.0.2:56423").ip()), port: None },
            0,
        )
        .unwrap();
    assert!(backend.server_by_cookie("b5a7ac530ee14e81").is_none());
    let now = backend.servers()[0].cookie().unwrap();
    assert!(backend.server_by_cookie(&now).is_some());
    assert_eq!(*backend.servers()[0].address(), address("127.0.0.2:56423").into());
}

fn shares(backend: &Backend, requests: impl Iterator<Item = ChooseInput>) -> HashMap<String, u32> {
    let mut shares = HashMap::new();
    for input in requests {
        let lease = lease(backend.choose(&input, || Bell::default().wake()));
        *shares.entry(lease.server().name().to_owned()).or_default() += 1;
    }
    shares
}

fn test_backend(
    algorithm: BalanceAlgorithm,
    hash_type: HashType,
    weights: &[u32],
) -> std::sync::Arc<Backend> {
    let servers = weights.iter().enumerate().map(|(at, weight)| weighted(&at.to_string(), *weight)).collect();
    with(BackendSettings { algorithm, hash_type, ..Default::default() }, servers)
}

proptest! {
    /// In any window of one round, each server gets its weight, plus or minus one turn.
    #[test]
    fn roundrobin_shares_differ_from_the_weights_by_at_most_one_turn(weights in prop::collection::vec(1u32..40, 1..8), rounds in 1u32..4) {
        for algorithm in [BalanceAlgorithm::new("roundrobin"), BalanceAlgorithm::new("static-rr")] {
            let backend = test_backend(algorithm, HashType::default(), &weights);
            let total: u32 = weights.iter().sum::<u32>() * rounds;
            let shares = shares(&backend, (0..total).map(|_| at(0)));
            for (server, weight) in weights.iter().enumerate() {
                let got = shares.get(&server.to_string()).copied().unwrap_or(0);
                prop_assert!(got.abs_diff(weight * rounds) <= 1, "{got} of {}", weight * rounds);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Random draws and hashing distribute roughly by weight.
    #[test]
    fn random_and_hash_algorithms_distribute_roughly_by_weight(weights in prop::collection::vec(1u32..6, 2..5), seed in any::<u64>()) {
        const REQUESTS: u32 = 6_000;
        let plain = HashType { avalanche: true, ..HashType::default() };
        let kinds = [
            (BalanceAlgorithm::new("random").with(Some(1)), plain, 6),
            (BalanceAlgorithm::new("random").with(Some(3)), plain, 6),
            (BalanceAlgorithm::new("hash"), plain, 6),
            (BalanceAlgorithm::new("hash"), HashType::consistent(), 60),
        ];
        for (algorithm, hash_type, tolerance) in kinds {
            let backend = test_backend(algorithm, hash_type, &weights);
            let requests = (0..REQUESTS).map(|number| {
                let key = (seed.wrapping_add(u64::from(number))).to_be_bytes();
                let random = seed.wrapping_add(u64::from(number)).wrapping_mul(0x2545_f491_4f6c_dd1d);
                ChooseInput { hash: Some(hash::hash(hash_type, &key)), random, ..at(0) }
            });
            let shares = shares(&backend, requests);
            let total: u32 = weights.iter().sum();
            for (server, weight) in weights.iter().enumerate() {
                let expected = REQUESTS * weight / total;
                let got = shares.get(&server.to_string()).copied().unwrap_or(0);
                let allowed = expected * tolerance / 100 + 150;
                prop_assert!(got.abs_diff(expected) <= allowed, "{algorithm:?}: {got} of {expected}");
            }
        }
    }
}

proptest! {
    /// An algorithm never chooses a server of weight 0, for any changes in between.
    #[test]
    fn never_chooses_a_server_with_weight_zero(
        steps in prop::collection::vec((0usize..4, 0u32..4, any::<u32>()), 1..60),
        choice in 0usize..6,
    ) {
        let algorithms = [
            BalanceAlgorithm::new("roundrobin"),
            BalanceAlgorithm::new("leastconn"),
            BalanceAlgorithm::new("first"),
            BalanceAlgorithm::new("random").with(Some(2)),
            BalanceAlgorithm::new("hash"),
            BalanceAlgorithm::new("hash"),
        ];
        let hash_type = if choice == 5 { HashType::consistent() } else { HashType::default() };
        let backend = test_backend(algorithms[choice], hash_type, &[1, 2, 3, 4]);
        for (server, weight, hash) in steps {
            let key = backend.servers()[server].key();
            let change = if weight == 3 { WeightChange::Percentage(100) } else { WeightChange::Absolute(weight) };
            match backend.change(key, ServerChange::Weight(change), 0) {
                Ok(()) | Err(ChangeError::StaticAlgorithm) => {}
                Err(error) => panic!("{error}"),
            }
            let input = ChooseInput { hash: Some(hash), random: hash.into(), ..at(0) };
            match backend.choose(&input, || Bell::default().wake()) {
                Choice::Server(lease) => prop_assert!(lease.server().effective_weight(0) > 0),
                Choice::None => prop_assert_eq!(backend.status(0).active, 0),
                other => panic!("{other:?}"),
            }
        }
    }
}
