//! Every interleaving of the queue's few races (R168). Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-backend --test queue_loom --release --target-dir target/loom`.
#![cfg(loom)]

mod fixture;

use std::sync::Arc;

use fixture::*;
use loom::thread;
use weir_backend::*;

/// A slot by now, however it came.
#[track_caller]
fn settled(choice: Choice) -> Lease {
    match choice {
        Choice::Server(lease) => lease,
        Choice::Wait(mut waiting) => granted(&mut waiting).lease,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_idle(backend: &Backend) {
    assert_eq!(backend.queued(), 0);
    for server in backend.servers().iter() {
        assert_eq!((server.served(), server.queued()), (0, 0));
    }
}

/// The one who releases and the one who joins meet: one of them hands the slot over.
#[test]
fn no_wake_up_is_lost_between_release_and_joining_r168() {
    for algorithm in [Algorithm::RoundRobin, Algorithm::LeastConnections] {
        loom::model(move || {
            let backend = backend(algorithm.clone(), vec![limited("a", 1)]);
            let held = lease(choose(&backend));
            let releasing = thread::spawn(move || drop(held));
            let choice = choose(&backend);
            releasing.join().unwrap();
            drop(settled(choice));
            check_idle(&backend);
        });
    }
}

/// The same for a server's own queue.
#[test]
fn no_wake_up_is_lost_at_a_server_r168() {
    loom::model(|| {
        let backend = backend(Algorithm::RoundRobin, vec![limited("a", 1)]);
        let a = key(&backend, "a");
        let held = lease(choose(&backend));
        let releasing = thread::spawn(move || drop(held));
        let choice = backend.take(a, false, &at(0), || Bell::default().wake());
        releasing.join().unwrap();
        drop(settled(choice));
        check_idle(&backend);
    });
}

/// A waiter that gives up while it is granted the slot passes it on.
#[test]
fn a_slot_granted_to_a_quitter_goes_on_r168() {
    loom::model(|| {
        let backend = backend(Algorithm::RoundRobin, vec![limited("a", 1)]);
        let held = lease(choose(&backend));
        let quitter = waiting(choose(&backend));
        let mut patient = waiting(choose(&backend));
        let releasing = thread::spawn(move || drop(held));
        let quitting = thread::spawn(move || drop(quitter));
        releasing.join().unwrap();
        quitting.join().unwrap();
        drop(granted(&mut patient));
        check_idle(&backend);
    });
}

/// The last server goes down while somebody joins: he is sent away, not forgotten.
#[test]
fn nobody_waits_for_a_farm_that_is_gone_r169() {
    loom::model(|| {
        let backend = backend(Algorithm::RoundRobin, vec![limited("a", 1)]);
        let a = key(&backend, "a");
        let held = lease(choose(&backend));
        let other = Arc::clone(&backend);
        let stopping = thread::spawn(move || {
            other.change(a, Change::State(RequestedState::Maintenance), 1).unwrap();
        });
        let choice = choose(&backend);
        stopping.join().unwrap();
        match choice {
            Choice::None => {}
            Choice::Wait(mut waiting) => assert!(matches!(waiting.poll(), Some(Outcome::ChooseAgain(_)))),
            other => panic!("{other:?}"),
        }
        drop(held);
        check_idle(&backend);
    });
}

/// A server comes up while another one's slot is released and somebody joins.
#[test]
fn a_server_that_comes_up_and_a_release_serve_both_waiters_r169() {
    loom::model(|| {
        let backend = backend(Algorithm::RoundRobin, vec![limited("a", 1), limited("b", 1)]);
        let b = key(&backend, "b");
        backend.change(b, Change::State(RequestedState::Maintenance), 0).unwrap();
        let held = lease(choose(&backend));
        let first = choose(&backend);
        let other = Arc::clone(&backend);
        let starting = thread::spawn(move || {
            other.change(b, Change::State(RequestedState::Ready), 1).unwrap();
        });
        let releasing = thread::spawn(move || drop(held));
        let second = choose(&backend);
        starting.join().unwrap();
        releasing.join().unwrap();
        let leases = [settled(first), settled(second)];
        assert_ne!(leases[0].server().key(), leases[1].server().key());
        drop(leases);
        check_idle(&backend);
    });
}
