//! Who watches a farm is shown it at once, and each time that it may have changed.

mod fixture;

use std::sync::{Arc, Mutex};

use fixture::*;
use weir_backend::*;

#[test]
fn a_watcher_is_shown_the_farm_at_once_and_after_each_change() {
    for algorithm in [Algorithm::RoundRobin, Algorithm::LeastConnections, Algorithm::First] {
        let backend = backend(algorithm.clone(), vec![server("a"), server("b"), server("c")]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        backend.watch(Box::new(move |farm| {
            let mut usable: Vec<_> = farm.usable.iter().map(|server| server.name().to_owned()).collect();
            usable.sort();
            told.lock().expect("nobody panics").push((farm.servers.len(), usable.join(" ")));
        }));
        let last = || seen.lock().expect("nobody panics").last().cloned();
        assert_eq!(last(), Some((3, "a b c".to_owned())), "{algorithm:?}: at once");
        let b = backend.servers()[1].key();
        backend.change(b, Change::State(RequestedState::Maintenance), 1).expect("it is there");
        assert_eq!(last(), Some((3, "a c".to_owned())), "{algorithm:?}: one less");
        backend.change(b, Change::State(RequestedState::Ready), 2).expect("it is there");
        assert_eq!(last(), Some((3, "a b c".to_owned())), "{algorithm:?}: back");
    }
}
