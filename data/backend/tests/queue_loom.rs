//! Every interleaving of the queue's few races (R168). Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p weir-backend --test queue_loom --release --target-dir target/loom`.
#![cfg(loom)]

mod fixture;

use std::sync::Arc;

use fixture::*;
use loom::thread;
use weir_backend::*;

/// The lease, granted at once or after queueing.
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

/// A concurrent release and join: one of them hands the slot over.
#[test]
fn a_concurrent_release_serves_a_request_joining_the_queue_r168() {
    for algorithm in [BalanceAlgorithm::new("roundrobin"), BalanceAlgorithm::new("leastconn")] {
        loom::model(move || {
            let backend = backend(algorithm, vec![limited("a", 1)]);
            let held = lease(choose(&backend));
            let releasing = thread::spawn(move || drop(held));
            let choice = choose(&backend);
            releasing.join().unwrap();
            drop(settled(choice));
            check_idle(&backend);
        });
    }
}

/// A concurrent release and join of a server's own queue.
#[test]
fn a_concurrent_release_serves_a_request_joining_a_server_queue_r168() {
    loom::model(|| {
        let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
        let a = key(&backend, "a");
        let held = lease(choose(&backend));
        let releasing = thread::spawn(move || drop(held));
        let choice = backend.take(a, false, &at(0), || Bell::default().wake());
        releasing.join().unwrap();
        drop(settled(choice));
        check_idle(&backend);
    });
}

/// A waiter that gives up while a slot is granted to it passes the slot on.
#[test]
fn a_slot_granted_to_an_abandoned_request_goes_to_the_next_r168() {
    loom::model(|| {
        let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
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

/// The last server goes down while a request joins the queue. The request must choose again and not be lost.
#[test]
fn a_request_joining_while_the_last_server_goes_down_is_not_lost_r169() {
    loom::model(|| {
        let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
        let a = key(&backend, "a");
        let held = lease(choose(&backend));
        let other = Arc::clone(&backend);
        let stopping = thread::spawn(move || {
            other.change(a, ServerChange::State(RequestedState::Maintenance), 1).unwrap();
        });
        let choice = choose(&backend);
        stopping.join().unwrap();
        match choice {
            Choice::None => {}
            Choice::Wait(mut waiting) => assert!(matches!(waiting.poll(), Some(WaitOutcome::ChooseAgain(_)))),
            other => panic!("{other:?}"),
        }
        drop(held);
        check_idle(&backend);
    });
}

/// A server comes up while another one's slot is released and a request joins.
#[test]
fn a_recovered_server_and_a_released_slot_serve_both_requests_r169() {
    loom::model(|| {
        let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1), limited("b", 1)]);
        let b = key(&backend, "b");
        backend.change(b, ServerChange::State(RequestedState::Maintenance), 0).unwrap();
        let held = lease(choose(&backend));
        let first = choose(&backend);
        let other = Arc::clone(&backend);
        let starting = thread::spawn(move || {
            other.change(b, ServerChange::State(RequestedState::Ready), 1).unwrap();
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

/// One server without a limit, which two workers choose without the lock. Both workers have a current view.
fn free() -> (Arc<Backend>, ServerKey) {
    let settings =
        BackendSettings { workers: 2, algorithm: BalanceAlgorithm::new("roundrobin"), ..Default::default() };
    let backend = with(settings, vec![server("a")]);
    (0..2).for_each(|worker| drop(lease(choose_on(&backend, worker))));
    let a = key(&backend, "a");
    (backend, a)
}

/// A server is removed while a worker chooses it without the lock. At least one side sees the other.
#[test]
fn workers_never_choose_a_removed_server() {
    loom::model(|| {
        let (backend, a) = free();
        let other = Arc::clone(&backend);
        let choosing = thread::spawn(move || choose_on(&other, 1));
        backend.change(a, ServerChange::State(RequestedState::Maintenance), 1).unwrap();
        let let_go = backend.remove(a, 1).is_ok();
        match choosing.join().unwrap() {
            Choice::Server(_) => assert!(!let_go, "somebody is on it"),
            Choice::None => {}
            other => panic!("{other:?}"),
        }
    });
}

/// A limit is set while a worker chooses without the lock. The limit counts that request too.
#[test]
fn a_new_limit_counts_requests_chosen_without_the_lock() {
    loom::model(|| {
        let (backend, a) = free();
        let other = Arc::clone(&backend);
        let choosing = thread::spawn(move || choose_on(&other, 1));
        backend.change(a, ServerChange::MaximumConnections(1), 1).unwrap();
        let mine = choose_on(&backend, 0);
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for choice in [mine, choosing.join().unwrap()] {
            match choice {
                Choice::Server(lease) => held.push(lease),
                // A worker that takes its choice back hands the slot to the waiter.
                Choice::Wait(mut wait) => match wait.poll() {
                    Some(WaitOutcome::Granted(granted)) => held.push(granted.lease),
                    Some(other) => panic!("{other:?}"),
                    None => waiting.push(wait),
                },
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((held.len(), waiting.len()), (1, 1));
        held.clear();
        drop(granted(&mut waiting[0]));
        check_idle(&backend);
    });
}

/// A request that took its slot without the lock hands it to a request that began to wait meanwhile.
#[test]
fn a_slot_taken_without_the_lock_is_passed_to_a_queued_request() {
    loom::model(|| {
        let (backend, a) = free();
        let held = lease(choose_on(&backend, 1));
        backend.change(a, ServerChange::MaximumConnections(1), 1).unwrap();
        let releasing = thread::spawn(move || drop(held));
        let choice = choose_on(&backend, 0);
        releasing.join().unwrap();
        drop(settled(choice));
        check_idle(&backend);
    });
}

/// Two workers draw turns concurrently, and a third choice follows. No turn is given twice.
#[test]
fn concurrent_workers_never_draw_the_same_turn() {
    loom::model(|| {
        let settings = BackendSettings {
            workers: 2,
            algorithm: BalanceAlgorithm::new("roundrobin"),
            ..Default::default()
        };
        let backend = with(settings, vec![server("a"), server("b"), server("c")]);
        let other = Arc::clone(&backend);
        let choosing = thread::spawn(move || lease(choose_on(&other, 1)).server().key());
        let mut keys = vec![lease(choose_on(&backend, 0)).server().key()];
        keys.push(choosing.join().unwrap());
        keys.push(lease(choose_on(&backend, 0)).server().key());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 3);
    });
}

/// Weights change while a worker draws. The turns continue after its draws, and no server of weight 0 is chosen.
#[test]
fn turns_continue_after_a_concurrent_weight_change() {
    loom::model(|| {
        let settings = BackendSettings {
            workers: 2,
            algorithm: BalanceAlgorithm::new("roundrobin"),
            ..Default::default()
        };
        let backend = with(settings, vec![server("a"), server("b"), server("c")]);
        let [a, b, c] = ["a", "b", "c"].map(|name| key(&backend, name));
        let drawn = (0..2).map(|worker| lease(choose_on(&backend, worker)).server().key());
        assert_eq!(drawn.collect::<Vec<_>>(), [a, b]);
        let other = Arc::clone(&backend);
        let choosing = thread::spawn(move || lease(choose_on(&other, 1)).server().key());
        backend.change(c, ServerChange::Weight(WeightChange::Absolute(0)), 1).unwrap();
        let chosen = choosing.join().unwrap();
        let next = lease(choose_on(&backend, 0)).server().key();
        // Before the change the third had its turn. After it, or when the choice was taken back, the first and the second.
        assert!([(c, a), (a, b)].contains(&(chosen, next)), "{chosen:?}, {next:?}");
    });
}
