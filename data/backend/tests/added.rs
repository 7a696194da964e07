//! Servers that are added and removed while the backend chooses among them.
#![cfg(not(loom))]

mod fixture;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_model::HashType;

use fixture::*;
use weir_backend::*;

fn add(backend: &Backend, name: &str) -> ServerKey {
    let server = backend.add(server(name), 0).expect("it may be added");
    server.key()
}

fn set(backend: &Backend, key: ServerKey, state: RequestedState) {
    backend.change(key, ServerChange::State(state), 0).expect("it is there");
}

fn remove(backend: &Backend, key: ServerKey) -> Result<(), RemoveError> {
    backend.remove(key, 0).map(drop)
}

#[test]
fn an_added_server_starts_in_maintenance_and_is_used_once_ready() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![server("a")]);
    let b = add(&backend, "b");
    assert_eq!(sequence(&backend, 2), "aa");
    let found = backend.server(b).unwrap();
    assert_eq!((found.id(), found.downs(), found.is_up()), (2, 0, false));
    set(&backend, b, RequestedState::Ready);
    assert_eq!(sequence(&backend, 4), "abab");
    assert_eq!(remove(&backend, b), Err(RemoveError::NotInMaintenance));
    set(&backend, b, RequestedState::Maintenance);
    assert_eq!(remove(&backend, b), Ok(()));
    assert_eq!(sequence(&backend, 2), "aa");
    assert_eq!(remove(&backend, b), Err(RemoveError::NoSuchServer));
}

#[test]
fn the_key_of_a_removed_server_never_finds_its_successor() {
    let backend = backend(BalanceAlgorithm::new("leastconn"), vec![server("a"), server("b")]);
    let a = backend.server_by_name("a").unwrap().key();
    set(&backend, a, RequestedState::Maintenance);
    assert_eq!(remove(&backend, a), Ok(()));
    let c = add(&backend, "c");
    assert_eq!((c.index(), c.is_configured()), (a.index(), false), "places are taken again");
    assert_eq!(backend.server(c).unwrap().id(), 1, "identifiers too");
    assert!(backend.server(a).is_none());
    assert!(backend.force(a).is_none());
    assert!(matches!(backend.take(a, true, &at(0), || Bell::default().wake()), Choice::None));
    assert_eq!(
        backend.change(a, ServerChange::State(RequestedState::Ready), 0),
        Err(ChangeError::NoSuchServer)
    );
    let stale = ChooseInput { prefer: Some(a), avoid: Some(a), ..at(0) };
    assert_eq!(lease(backend.choose(&stale, || Bell::default().wake())).server().name(), "b");
    assert_eq!(ServerKey::from_number(c.to_number()), c);
}

/// No matter how often a slot is reused, the key of a previous server never finds the current one.
#[test]
fn servers_in_a_reused_slot_have_different_keys() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![server("a"), server("b")]);
    let a = key(&backend, "a");
    set(&backend, a, RequestedState::Maintenance);
    assert_eq!(remove(&backend, a), Ok(()));
    let mut former = vec![a];
    for _ in 0..4 {
        let now = add(&backend, "c");
        assert_eq!((now.index(), now.is_configured()), (a.index(), false));
        assert!(former.iter().all(|key| backend.server(*key).is_none()), "{former:?} {now:?}");
        assert_eq!(remove(&backend, now), Ok(()));
        former.push(now);
    }
}

#[test]
fn refuses_to_remove_a_server_in_use() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 1)]);
    let a = backend.servers()[0].key();
    let held = lease(choose(&backend));
    let waiting = waiting(backend.take(a, true, &at(0), || Bell::default().wake()));
    set(&backend, a, RequestedState::Maintenance);
    assert_eq!(remove(&backend, a), Err(RemoveError::InUse));
    drop(held);
    assert_eq!(remove(&backend, a), Err(RemoveError::InUse), "somebody waits for it");
    drop(waiting);
    let pools = Arc::clone(backend.servers()[0].pools());
    pools.begin_use(0);
    assert_eq!(remove(&backend, a), Err(RemoveError::InUse), "a connection is in use");
    pools.end_use(0);
    pools.note(0, 1, 0);
    assert_eq!(remove(&backend, a), Err(RemoveError::InUse), "a connection is kept");
    pools.note(0, 0, 0);
    assert_eq!(remove(&backend, a), Ok(()));
    assert!(matches!(choose(&backend), Choice::None));
}

#[test]
fn rejects_added_servers_with_a_used_name_or_identifier() {
    let dynamic = backend(BalanceAlgorithm::new("random").with(Some(2)), vec![server("a"), server("b")]);
    assert!(matches!(dynamic.add(server("a"), 0), Err(AddError::NameTaken)));
    let numbered = |id| ServerSettings { id, ..server("c") };
    let taken = dynamic.add(numbered(2), 0);
    assert!(matches!(taken, Err(AddError::IdentifierTaken(owner)) if owner.name() == "b"));
    assert_eq!(dynamic.add(numbered(9), 0).unwrap().id(), 9);
    for algorithm in [BalanceAlgorithm::new("static-rr"), BalanceAlgorithm::new("source")] {
        let fixed = backend(algorithm, vec![server("a")]);
        assert!(matches!(fixed.add(server("b"), 0), Err(AddError::StaticAlgorithm)));
    }
}

/// Successive server lists share memory. A change copies a few references, not the references to all servers.
#[test]
fn changing_one_of_thousands_of_servers_copies_few_references() {
    let settings = BackendSettings {
        dynamic_cookies: DynamicCookies { enabled: true, key: Some("foo".into()) },
        ..Default::default()
    };
    let named = (0..5_000).map(|rank| server(&format!("s{rank}"))).collect();
    let backend = with(settings, named);
    let all: Vec<_> = backend.servers().iter().cloned().collect();
    let references = || all.iter().map(Arc::strong_count).sum::<usize>();
    let mut kept = vec![backend.servers()];
    let mut copied_by = |change: &mut dyn FnMut()| {
        let before = references();
        change();
        kept.push(backend.servers());
        references().saturating_sub(before)
    };
    let added = std::cell::Cell::new(None);
    assert!(copied_by(&mut || added.set(Some(add(&backend, "new")))) <= 100);
    assert!(copied_by(&mut || remove(&backend, added.take().unwrap()).unwrap()) <= 100);
    let first = all[0].key();
    let address = ServerChange::Address { ip: Some([127, 0, 0, 9].into()), port: None };
    assert!(copied_by(&mut || backend.change(first, address.clone(), 0).unwrap()) <= 100);
    assert!(copied_by(&mut || set(&backend, first, RequestedState::Maintenance)) <= 100);
    assert!(copied_by(&mut || remove(&backend, first).map(drop).unwrap()) <= 100);
    assert_eq!(
        kept.iter().map(ServerList::len).collect::<Vec<_>>(),
        [5_000, 5_001, 5_000, 5_000, 5_000, 4_999]
    );
    assert_eq!(backend.servers().get(0).map(|server| server.name()), Some("s1"));
}

#[test]
fn a_new_server_gets_the_lowest_free_identifier() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), Vec::new());
    let mut names = (0..).map(|name| format!("n{name}"));
    let mut numbered = |id| {
        let settings = ServerSettings { id, ..server(&names.next().unwrap()) };
        backend.add(settings, 0).unwrap().id()
    };
    assert_eq!([2, 0, 0, 5, 0, 0].map(&mut numbered), [2, 1, 3, 5, 4, 6]);
    for id in [4, 1, 3] {
        remove(&backend, backend.server_by_id(id).unwrap().key()).unwrap();
    }
    assert_eq!([0, 0, 0, 0].map(numbered), [1, 3, 4, 7]);
}

#[test]
fn adding_a_server_moves_few_hash_keys_and_removing_it_restores_them() {
    let settings = BackendSettings {
        algorithm: BalanceAlgorithm::new("source"),
        hash_type: HashType::consistent(),
        ..Default::default()
    };
    let backend = with(settings, vec![server("a"), server("b"), server("c")]);
    let owners = || -> Vec<String> {
        let keys =
            (0..1000_u32).map(|key| ChooseInput { hash: Some(key.wrapping_mul(2_654_435_761)), ..at(0) });
        keys.map(|input| lease(backend.choose(&input, || Bell::default().wake())).server().name().to_owned())
            .collect()
    };
    let before = owners();
    let d = add(&backend, "d");
    set(&backend, d, RequestedState::Ready);
    let with_d = owners();
    let moved = before.iter().zip(&with_d).filter(|(before, now)| before != now).count();
    assert!((100..400).contains(&moved), "{moved} of 1000 moved");
    assert!(before.iter().zip(&with_d).all(|(before, now)| before == now || now == "d"));
    set(&backend, d, RequestedState::Maintenance);
    assert_eq!(remove(&backend, d), Ok(()));
    assert_eq!(owners(), before);
}

/// Threads take slots while another thread adds and removes servers. No request is lost or gets a removed server.
#[test]
fn threads_choose_servers_while_another_thread_adds_and_removes_them() {
    let backend = backend(BalanceAlgorithm::new("roundrobin"), vec![limited("a", 2)]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = None;
                while !done.load(Ordering::Relaxed) {
                    let input = ChooseInput { prefer: last, ..at(0) };
                    if let Choice::Server(lease) = backend.choose(&input, || Bell::default().wake()) {
                        let found = backend.server(lease.server().key()).expect("who is used is not removed");
                        assert_eq!(found.name(), lease.server().name());
                        last = Some(found.key());
                    }
                }
            });
        }
        for round in 0..20 {
            let key = add(&backend, &format!("s{round}"));
            assert!(key.index() <= 1, "places are taken again");
            set(&backend, key, RequestedState::Ready);
            while backend.server(key).expect("it is there").served_maximum() == 0 {
                std::thread::yield_now();
            }
            set(&backend, key, RequestedState::Maintenance);
            while remove(&backend, key) == Err(RemoveError::InUse) {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!((backend.servers().len(), backend.servers()[0].served(), backend.queued()), (1, 0, 0));
}
