//! Queues: order, limits, fairness, leaving, and servers that go down and come up.
#![cfg(not(loom))]

mod fixture;

use fixture::*;
use weir_backend::*;
use weir_model::PreserveAffinity;

#[test]
fn queued_requests_are_served_in_order_and_know_their_positions() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let first = lease(choose(&backend));
    let bells = [Bell::default(), Bell::default()];
    let mut waiters: Vec<_> =
        bells.iter().map(|bell| waiting(backend.choose(&at(0), || bell.wake()))).collect();
    assert_eq!((backend.queued(), backend.queued_maximum()), (2, 2));
    assert!(waiters[0].poll().is_none());
    drop(first);
    assert_eq!([bells[0].rung(), bells[1].rung()], [1, 0]);
    let second = granted(&mut waiters[0]);
    assert_eq!(second.positions, Positions { server: 0, backend: 1 });
    drop(second);
    assert_eq!(granted(&mut waiters[1]).positions, Positions { server: 0, backend: 2 });
    assert_eq!((backend.queued(), backend.queued_maximum()), (0, 2));
}

#[test]
fn requests_for_a_designated_server_queue_at_that_server() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1)]);
    let a = key(&backend, "a");
    let held = lease(backend.take(a, false, &at(0), || Bell::default().wake()));
    let mut waiter = waiting(backend.take(a, false, &at(0), || Bell::default().wake()));
    assert_eq!(waiter.server(), Some(a));
    assert_eq!(backend.server(a).unwrap().queued(), 1);
    // b is free and stays free for other requests.
    assert_eq!(lease(choose(&backend)).server().name(), "b");
    drop(held);
    assert_eq!(granted(&mut waiter).positions, Positions { server: 1, backend: 0 });
}

#[test]
fn hashed_requests_queue_at_their_server() {
    let backend = backend(BalanceAlgorithm::new("source"), vec![limited("a", 1), limited("b", 1)]);
    let hashed = |hash| backend.choose(&ChooseInput { hash: Some(hash), ..at(0) }, || Bell::default().wake());
    let held = lease(hashed(0));
    assert_eq!(held.server().name(), "a");
    assert_eq!(waiting(hashed(2)).server(), Some(held.server().key()));
    assert_eq!(lease(hashed(1)).server().name(), "b");
}

#[test]
fn hash_preserve_affinity_decides_when_a_full_server_is_left() {
    let settings = |hash_affinity| BackendSettings {
        algorithm: BalanceAlgorithm::new("source"),
        hash_affinity,
        ..Default::default()
    };
    let servers = || vec![ServerSettings { maximum_queue: 1, ..limited("a", 1) }, limited("b", 1)];
    let hashed = |backend: &Backend| {
        backend.choose(&ChooseInput { hash: Some(0), ..at(0) }, || Bell::default().wake())
    };
    let backend = with(settings(PreserveAffinity::MaxConn), servers());
    let _held = lease(hashed(&backend));
    assert_eq!(lease(hashed(&backend)).server().name(), "b");
    let backend = with(settings(PreserveAffinity::MaxQueue), servers());
    let _held = lease(hashed(&backend));
    let _waiting = waiting(hashed(&backend));
    assert_eq!(lease(hashed(&backend)).server().name(), "b");
    // A queue without a limit is never full.
    let unlimited = with(settings(PreserveAffinity::MaxQueue), vec![limited("a", 1), limited("b", 1)]);
    let _held = lease(hashed(&unlimited));
    let waiters = [waiting(hashed(&unlimited)), waiting(hashed(&unlimited))];
    assert!(waiters.iter().all(|waiting| waiting.server() == Some(key(&unlimited, "a"))));
}

#[test]
fn a_full_server_queue_rejects_the_request() {
    let backend = backend(
        BalanceAlgorithm::new("roundrobin"),
        vec![ServerSettings { maximum_queue: 1, ..limited("a", 1) }],
    );
    let a = key(&backend, "a");
    let take = || backend.take(a, false, &at(0), || Bell::default().wake());
    let _held = lease(take());
    let _waiting = waiting(take());
    assert!(matches!(take(), Choice::Full));
}

#[test]
fn leastconn_queues_at_a_server_up_to_its_maxqueue() {
    let servers = vec![ServerSettings { maximum_queue: 1, ..limited("a", 1) }, limited("b", 1)];
    let backend = backend(BalanceAlgorithm::new("leastconn"), servers);
    let _held = [lease(choose(&backend)), lease(choose(&backend))];
    let first = waiting(choose(&backend));
    assert_eq!(first.server(), Some(key(&backend, "a")));
    assert_eq!(waiting(choose(&backend)).server(), None);
}

#[test]
fn the_queue_is_ordered_by_priority_class_then_by_time_with_offset() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let mut held = Some(lease(choose(&backend)));
    let join = |class, offset, now_ms| {
        let input = ChooseInput { priority: Priority::new(class, offset), ..at(now_ms) };
        waiting(backend.choose(&input, || Bell::default().wake()))
    };
    let mut waiters = [
        join(0, 0, 10),
        join(0, -500, 20),
        join(-1, 0, 30),
        join(0, 0, 5_000),
        join(0, 0, 5_000),
        join(1, -9_999, 0),
    ];
    for expected in [2, 1, 0, 3, 4, 5] {
        held.take();
        let ready: Vec<_> = waiters.iter_mut().map(|waiter| waiter.poll()).collect();
        let served = ready.iter().position(Option::is_some);
        assert_eq!(served, Some(expected));
        held = ready.into_iter().flatten().next().map(|outcome| match outcome {
            WaitOutcome::Granted(granted) => granted.lease,
            other => panic!("{other:?}"),
        });
    }
}

/// Manual, "set-priority-class" and "set-priority-offset": the bounds are -2047..2047 and -524287..524287.
#[test]
fn priority_class_and_offset_are_clamped_to_their_bounds() {
    #[track_caller]
    fn check(given: (i64, i64), expected: (i16, i32)) {
        let priority = Priority::new(given.0, given.1);
        assert_eq!((priority.class(), priority.offset_ms()), expected, "{given:?}");
    }
    check((0, 0), (0, 0));
    check((-7, 8), (-7, 8));
    check((2_047, 524_287), (2_047, 524_287));
    check((2_048, 524_288), (2_047, 524_287));
    check((-2_047, -524_287), (-2_047, -524_287));
    check((-2_048, -524_288), (-2_047, -524_287));
    check((i64::MIN, i64::MAX), (-2_047, 524_287));
}

/// `%sq` and `%bq` count requests that left the queue before, and the request itself. Several waits are added up.
#[test]
fn a_request_abandoned_in_a_queue_reports_its_queue_positions() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let a = key(&backend, "a");
    let held = lease(choose(&backend));
    let mut first = waiting(choose(&backend));
    let last = waiting(choose(&backend));
    let designated = || waiting(backend.take(a, false, &at(0), || Bell::default().wake()));
    let alone = designated();
    drop(held);
    let held = granted(&mut first);
    let mut sum = last.give_up();
    assert_eq!(sum, Positions { server: 0, backend: 2 });
    sum.add(alone.give_up());
    assert_eq!(sum, Positions { server: 1, backend: 2 });
    sum.add(Positions { server: 3, backend: 4 });
    assert_eq!(sum, Positions { server: 4, backend: 6 });
    sum.add(Positions { server: u32::MAX, backend: u32::MAX });
    assert_eq!(sum, Positions { server: u32::MAX, backend: u32::MAX });
    drop(held);
    assert_eq!(backend.servers()[0].served(), 0);
}

/// Requests that left the queue before a request joined do not count for it, regardless of how they left.
#[test]
fn queue_positions_count_only_requests_served_after_joining() {
    #[track_caller]
    fn check(leave: impl FnOnce(&Backend, QueueEntry, Lease) -> Positions) {
        let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
        let mut held = lease(choose(&backend));
        for _ in 0..5 {
            let mut waiter = waiting(choose(&backend));
            drop(held);
            held = granted(&mut waiter).lease;
        }
        let late = waiting(choose(&backend));
        assert_eq!(leave(&backend, late, held), Positions { server: 0, backend: 1 });
    }
    check(|_, late, _| late.give_up());
    check(|_, mut late, held| {
        drop(held);
        granted(&mut late).positions
    });
    check(|backend, mut late, _| {
        backend.change(key(backend, "a"), ServerChange::State(RequestedState::Maintenance), 1).unwrap();
        match late.poll() {
            Some(WaitOutcome::ChooseAgain(positions)) => positions,
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_free_slot_goes_to_the_oldest_request_of_both_queues() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let a = key(&backend, "a");
    let held = lease(choose(&backend));
    let mut anywhere = waiting(choose(&backend));
    let mut designated = waiting(backend.take(a, false, &at(0), || Bell::default().wake()));
    let mut later = waiting(choose(&backend));
    drop(held);
    let first = granted(&mut anywhere);
    assert!(designated.poll().is_none());
    drop(first);
    let second = granted(&mut designated);
    assert!(later.poll().is_none());
    drop(second);
    granted(&mut later);
}

#[test]
fn an_abandoned_request_does_not_block_the_queue() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let held = lease(choose(&backend));
    let quitter = waiting(choose(&backend));
    let mut patient = waiting(choose(&backend));
    let late_quitter = waiting(choose(&backend));
    drop(quitter);
    assert_eq!(backend.queued(), 2);
    drop(held);
    // If a granted slot is never polled, it goes to the next waiter.
    let served = granted(&mut patient);
    drop(served);
    let mut last = waiting(choose(&backend));
    drop(late_quitter);
    drop(granted(&mut last));
    assert_eq!(backend.servers()[0].served(), 0);
    assert_eq!(backend.queued(), 0);
}

#[test]
fn new_requests_do_not_overtake_queued_ones_r167() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let held = lease(choose(&backend));
    let mut waiter = waiting(choose(&backend));
    drop(held);
    // The slot is granted to the waiter although it has not woken up yet.
    let mut newcomer = waiting(choose(&backend));
    assert!(newcomer.poll().is_none());
    drop(granted(&mut waiter));
    granted(&mut newcomer);
}

/// R167: with one thread, one slot and a server that always fails, redispatching requests queue while nothing
/// is being served. They must get the slot at once instead of retrying in a loop.
#[test]
fn redispatched_requests_get_the_slot_when_nothing_is_served_r167() {
    for algorithm in [
        BalanceAlgorithm::new("roundrobin"),
        BalanceAlgorithm::new("leastconn"),
        BalanceAlgorithm::new("first"),
    ] {
        let backend = backend(algorithm, vec![limited("a", 1), limited("b", 1)]);
        let a = lease(choose(&backend));
        let b = lease(choose(&backend));
        let mut queued = waiting(choose(&backend));
        let failed = a.server().key();
        drop(a);
        // The failed request chooses again and avoids the failed server. A waiter has already been granted the slot,
        // and the other server is full.
        let again = ChooseInput { avoid: Some(failed), ..at(0) };
        let mut retry = waiting(backend.choose(&again, || Bell::default().wake()));
        assert!(retry.poll().is_none());
        drop(granted(&mut queued));
        // The failed server now serves nothing else, so the retry got its slot although it avoids that server.
        drop(granted(&mut retry));
        drop(b);
        assert_eq!(lease(backend.choose(&again, || Bell::default().wake())).server().name(), "b");
        assert_eq!(backend.servers().iter().map(|server| server.served()).sum::<u32>(), 0);
    }
}

#[test]
fn requests_queued_at_a_downed_server_choose_another_server_r168() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1)]);
    let a = key(&backend, "a");
    let take = |sticky| backend.take(a, sticky, &at(0), || Bell::default().wake());
    let _held = lease(take(false));
    let (mut loose, mut sticky) = (waiting(take(false)), waiting(take(true)));
    backend.change(a, ServerChange::State(RequestedState::Maintenance), 1).unwrap();
    assert!(matches!(loose.poll(), Some(WaitOutcome::ChooseAgain(_))));
    assert!(loose.poll().is_none(), "notified once");
    assert!(sticky.poll().is_none());
    assert!(matches!(take(false), Choice::None));
    backend.change(a, ServerChange::State(RequestedState::Ready), 2).unwrap();
    drop(_held);
    granted(&mut sticky);
}

#[test]
fn the_backend_queue_is_emptied_when_the_last_server_goes_down_r169() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1)]);
    let _held = [lease(choose(&backend)), lease(choose(&backend))];
    let bell = Bell::default();
    let mut waiter = waiting(backend.choose(&at(0), || bell.wake()));
    backend.change(key(&backend, "a"), ServerChange::State(RequestedState::Maintenance), 1).unwrap();
    assert!(waiter.poll().is_none(), "b is still there");
    backend.change(key(&backend, "b"), ServerChange::State(RequestedState::Maintenance), 1).unwrap();
    assert_eq!(bell.rung(), 1);
    assert!(matches!(waiter.poll(), Some(WaitOutcome::ChooseAgain(_))));
    assert!(matches!(choose(&backend), Choice::None));
    assert_eq!(backend.queued(), 0);
}

#[test]
fn a_recovered_server_serves_queued_requests_r169() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 2)]);
    let b = key(&backend, "b");
    backend.change(b, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
    let _held = lease(choose(&backend));
    let mut waiters: Vec<_> = (0..3).map(|_| waiting(choose(&backend))).collect();
    backend.change(b, ServerChange::State(RequestedState::Ready), 1).unwrap();
    let served: Vec<_> = waiters.iter_mut().filter_map(QueueEntry::poll).collect();
    assert_eq!(served.len(), 2);
    assert_eq!(backend.queued(), 1);
}

#[test]
fn a_raised_maxconn_serves_the_backend_queue() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let a = key(&backend, "a");
    let _held = lease(choose(&backend));
    let mut waiters: Vec<_> = (0..3).map(|_| waiting(choose(&backend))).collect();
    backend.change(a, ServerChange::MaximumConnections(3), 0).unwrap();
    let held: Vec<_> = waiters.iter_mut().filter_map(QueueEntry::poll).collect();
    assert_eq!(held.len(), 2);
    backend.change(a, ServerChange::MaximumConnections(0), 0).unwrap();
    assert!(waiters[2].poll().is_some());
}

/// Requests queued at a server get its new slots, even if the backend's queue is empty.
#[test]
fn a_raised_maxconn_serves_the_queue_of_that_server() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1)]);
    let a = key(&backend, "a");
    let take = || backend.take(a, false, &at(0), || Bell::default().wake());
    let _held = lease(take());
    let mut waiters: Vec<_> = (0..3).map(|_| waiting(take())).collect();
    backend.change(a, ServerChange::MaximumConnections(2), 0).unwrap();
    let outcomes: Vec<_> = waiters.iter_mut().map(QueueEntry::poll).collect();
    assert!(matches!(outcomes[..], [Some(WaitOutcome::Granted(_)), None, None]), "{outcomes:?}");
    assert_eq!(backend.server(a).unwrap().queued(), 2);
}

#[test]
fn slow_start_opens_slots_with_time() {
    let backend = backend(
        BalanceAlgorithm::new("roundrobin"),
        vec![ServerSettings { slow_start_ms: 1_000, ..limited("a", 4) }],
    );
    let a = key(&backend, "a");
    backend.change(a, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
    backend.change(a, ServerChange::State(RequestedState::Ready), 1_000).unwrap();
    let choose = || backend.choose(&at(1_000), || Bell::default().wake());
    let _held = lease(choose());
    let mut waiters: Vec<_> = (0..3).map(|_| waiting(choose())).collect();
    assert!(backend.is_ramping());
    let mut held = Vec::new();
    for (now_ms, served) in [(1_100, 0), (1_500, 1), (1_750, 2), (2_000, 3)] {
        backend.tick(now_ms);
        held.extend(waiters.iter_mut().filter_map(QueueEntry::poll));
        assert_eq!(held.len(), served, "at {now_ms}");
    }
    assert!(!backend.is_ramping());
    assert_eq!(backend.servers()[0].operational_state(2_000), OperationalState::Running);
}

#[test]
fn minconn_raises_the_slot_limit_with_the_load_of_the_backend() {
    let settings = BackendSettings {
        algorithm: BalanceAlgorithm::new("roundrobin"),
        full_connections: 10,
        ..Default::default()
    };
    let servers = vec![ServerSettings { minimum_connections: 1, ..limited("a", 4) }];
    let backend = with(settings, servers);
    let mut held = vec![lease(choose(&backend))];
    let mut waiter = waiting(choose(&backend));
    (0..5).for_each(|_| backend.enter(0));
    // Load 5 of 10: two of four slots. The next join updates the limit for all.
    let mut next = waiting(choose(&backend));
    held.push(granted(&mut waiter).lease);
    assert!(next.poll().is_none());
    (0..5).for_each(|_| backend.enter(0));
    held.push(lease_or_granted(choose(&backend), &mut next));
    (0..10).for_each(|_| backend.leave(0));
    assert_eq!((backend.sessions(), backend.sessions_maximum()), (0, 10));
}

/// The slot went to the newcomer or to the earlier waiter. Returns the lease of the earlier waiter.
fn lease_or_granted(choice: Choice, waiter: &mut QueueEntry) -> Lease {
    drop(lease(choice));
    granted(waiter).lease
}

#[test]
fn a_forced_slot_ignores_maxconn() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let a = key(&backend, "a");
    let _held = [lease(choose(&backend)), backend.force(a).unwrap()];
    assert_eq!(backend.server(a).unwrap().served(), 2);
    assert_eq!(backend.server(a).unwrap().served_maximum(), 2);
}

#[test]
fn a_returned_lease_still_names_its_server() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let mut first = lease(choose(&backend));
    first.give_back();
    assert_eq!(first.server().name(), "a");
    let second = lease(choose(&backend));
    drop(first);
    assert_eq!(second.server().served(), 1);
}

/// HAProxy 3.2 does the same with `balance random`: a redispatched request does not use the failed server again.
#[test]
fn with_random_draws_a_redispatched_request_waits_for_the_other_servers() {
    for algorithm in [BalanceAlgorithm::new("random").with(Some(2)), BalanceAlgorithm::new("latency")] {
        let backend = backend(algorithm, vec![server("dead"), limited("live", 1)]);
        let [dead, live] = ["dead", "live"].map(|name| key(&backend, name));
        let held = backend.take(live, false, &at(0), || Bell::default().wake());
        let avoiding = |avoid| ChooseInput { avoid: Some(avoid), ..at(0) };
        let redispatch = |avoid| backend.choose(&avoiding(avoid), || Bell::default().wake());
        let mut first = waiting(redispatch(dead));
        let mut second = waiting(redispatch(dead));
        // Requests that may use any server are not held up, neither now nor at the end of another one.
        drop(lease(choose(&backend)));
        assert_eq!(lease(redispatch(live)).server().name(), "dead");
        assert_eq!((first.poll().is_none(), backend.queued()), (true, 2));
        drop(lease(held));
        assert_eq!(granted(&mut first).lease.server().name(), "live");
        let slot = granted(&mut second);
        // Behind the first one and the two that did not have to wait.
        assert_eq!((slot.lease.server().name(), slot.positions.backend), ("live", 4));
    }
}

/// With the other algorithms, a server to avoid is better than waiting. HAProxy 3.2 does the same.
#[test]
fn without_random_draws_a_redispatched_request_uses_the_failed_server_while_others_are_full() {
    for word in ["roundrobin", "static-rr", "leastconn", "first"] {
        let backend = backend(BalanceAlgorithm::new(word), vec![server("dead"), limited("live", 1)]);
        let [dead, live] = ["dead", "live"].map(|name| key(&backend, name));
        let _held = backend.take(live, false, &at(0), || Bell::default().wake());
        let input = ChooseInput { avoid: Some(dead), ..at(0) };
        let again = lease(backend.choose(&input, || Bell::default().wake()));
        assert_eq!(again.server().name(), "dead", "{word}");
    }
}

#[test]
fn a_request_that_waits_for_other_servers_uses_the_last_one_that_is_left() {
    // In a large backend, the change of one server does not look at all others.
    for idle in [0, 300] {
        let mut servers = vec![server("dead"), limited("live", 1)];
        servers.extend((0..idle).map(|rank| ServerSettings { weight: 0, ..server(&format!("idle{rank}")) }));
        let backend = backend(BalanceAlgorithm::new("random"), servers);
        let [dead, live] = ["dead", "live"].map(|name| key(&backend, name));
        let _held = backend.take(live, false, &at(0), || Bell::default().wake());
        let redispatch = || {
            let input = ChooseInput { avoid: Some(dead), ..at(0) };
            backend.choose(&input, || Bell::default().wake())
        };
        let (mut waiter, quitter) = (waiting(redispatch()), waiting(redispatch()));
        assert_eq!(quitter.give_up().backend, 1);
        backend.change(live, ServerChange::State(RequestedState::Maintenance), 1).unwrap();
        assert_eq!(granted(&mut waiter).lease.server().name(), "dead");
        assert_eq!(lease(redispatch()).server().name(), "dead");
        assert_eq!(backend.queued(), 0);
    }
}
