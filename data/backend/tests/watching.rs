//! A watcher of a backend is called at once and after each possible change.

mod fixture;

use std::sync::{Arc, Mutex};

use fixture::*;
use weir_backend::*;

#[test]
fn a_watcher_receives_the_servers_at_once_and_after_each_change() {
    for algorithm in [
        BalanceAlgorithm::new("roundrobin"),
        BalanceAlgorithm::new("leastconn"),
        BalanceAlgorithm::new("first"),
    ] {
        let backend = backend(algorithm, vec![server("a"), server("b"), server("c")]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&seen);
        backend.watch(Box::new(move |view| {
            let mut usable: Vec<_> = view.usable.iter().map(|server| server.name().to_owned()).collect();
            usable.sort();
            recorded.lock().expect("nobody panics").push((view.servers.len(), usable.join(" ")));
        }));
        let last = || seen.lock().expect("nobody panics").last().cloned();
        assert_eq!(last(), Some((3, "a b c".to_owned())), "{algorithm:?}: at once");
        let b = backend.servers()[1].key();
        backend.change(b, ServerChange::State(RequestedState::Maintenance), 1).expect("it is there");
        assert_eq!(last(), Some((3, "a c".to_owned())), "{algorithm:?}: one less");
        backend.change(b, ServerChange::State(RequestedState::Ready), 2).expect("it is there");
        assert_eq!(last(), Some((3, "a b c".to_owned())), "{algorithm:?}: back");
    }
}

/// Weights of a slow start are recomputed fifty times, not for each request.
#[test]
fn slow_start_weights_change_in_fifty_steps() {
    let backend = backend(
        BalanceAlgorithm::new("roundrobin"),
        vec![server("a"), ServerSettings { slow_start_ms: 10_000, ..server("b") }],
    );
    let b = key(&backend, "b");
    backend.change(b, ServerChange::State(RequestedState::Maintenance), 0).expect("it is there");
    backend.change(b, ServerChange::State(RequestedState::Ready), 1_000).expect("it is there");
    let shown = Arc::new(Mutex::new(0_u32));
    let recorded = Arc::clone(&shown);
    backend.watch(Box::new(move |_| *recorded.lock().expect("nobody panics") += 1));
    let check = |now_ms, times| {
        drop(lease(backend.choose(&at(now_ms), || Bell::default().wake())));
        assert_eq!(*shown.lock().expect("nobody panics"), times, "at {now_ms}");
    };
    check(1_000, 1);
    check(1_199, 1);
    check(1_200, 2);
    check(1_201, 2);
    check(1_400, 3);
    check(11_000, 4);
    check(12_000, 4);
}

/// A watcher gets usable servers in the configuration's order, with `balance sticky` in its order: the server in use first.
#[test]
fn a_watcher_receives_servers_in_the_order_of_use() {
    #[track_caller]
    fn check(algorithm: BalanceAlgorithm, expected: [&str; 3]) {
        let backend = backend(algorithm, vec![server("a"), server("b"), server("c")]);
        let seen = Arc::new(Mutex::new(String::new()));
        let recorded = Arc::clone(&seen);
        backend.watch(Box::new(move |view| {
            *recorded.lock().expect("nobody panics") =
                view.usable.iter().map(|server| server.name()).collect();
        }));
        let set = |name, state| {
            backend.change(key(&backend, name), ServerChange::State(state), 1).expect("it is there")
        };
        let shown = || seen.lock().expect("nobody panics").clone();
        let first = shown();
        set("a", RequestedState::Maintenance);
        let without = shown();
        set("a", RequestedState::Ready);
        assert_eq!([first, without, shown()], expected);
    }
    check(BalanceAlgorithm::new("roundrobin"), ["abc", "bc", "abc"]);
    check(BalanceAlgorithm::new("leastconn"), ["abc", "bc", "abc"]);
    check(BalanceAlgorithm::new("sticky"), ["abc", "bc", "bca"]);
}
