use super::*;
use crate::idle::Usage;

/// A connection with a peer that closes it when the test sets `closed`.
#[derive(Debug, PartialEq)]
struct Fake {
    name: &'static str,
    closed: bool,
}

impl PooledConnection for Fake {
    fn is_fresh(&mut self) -> bool {
        !self.closed
    }
}

fn fake(name: &'static str) -> Fake {
    Fake { name, closed: false }
}

fn whole(name: &'static str, requests: u32) -> Idle<Fake> {
    Idle { connection: fake(name), requests, key: 0 }
}

type Pool = IdlePool<Fake, Fake>;

/// The pool of worker 0 of 2, with this estimated need.
fn pool(needed: u32) -> (Pool, Arc<IdlePools>) {
    let pools = Arc::new(IdlePools::new(2));
    let mut pool = Pool::default();
    assert!(pool.claim(ServerKey::configured(0), &pools));
    (0..needed).for_each(|_| pools.begin_use(0));
    (0..needed).for_each(|_| pools.end_use(0));
    (pool, pools)
}

fn name(removed: Option<RemovedConnection<Fake, Fake>>) -> &'static str {
    match removed {
        None => "none",
        Some(RemovedConnection::Whole(idle) | RemovedConnection::Shared(idle)) => idle.connection.name,
    }
}

fn names(away: Vec<RemovedConnection<Fake, Fake>>) -> Vec<&'static str> {
    away.into_iter().map(|removed| name(Some(removed))).collect()
}

fn begin(pool: &mut Pool, key: u64, scope: ReuseScope) -> Option<(&'static str, SharedId)> {
    let lent = pool.begin_stream(0, key, scope, &PoolSettings::default())?;
    Some((lent.connection.name, lent.id))
}

fn end(pool: &mut Pool, id: SharedId) -> &'static str {
    let removed = pool.end_stream(0, id, &PoolSettings::default());
    pool.publish_counts(0);
    name(removed)
}

#[test]
fn a_worker_reuses_its_youngest_connection_and_lends_its_oldest() {
    let (mut pool, pools) = pool(0);
    for (at, requests) in ["a", "b", "c", "d"].into_iter().zip([2, 1, 2, 1]) {
        pool.put(whole(at, requests));
    }
    pool.publish_counts(0);
    assert_eq!((pools.usage(0).unproven, pools.usage(0).safe), (2, 2));
    let mut take = |scope| pool.take(0, scope).map(|idle| idle.connection.name);
    assert_eq!((take(ReuseScope::Safe), take(ReuseScope::Any)), (Some("c"), Some("d")));
    assert_eq!(pool.take(7, ReuseScope::Any).map(|idle| idle.key), None);
    assert_eq!(name(pool.lend(0, ReuseScope::Any)), "a");
    assert_eq!(name(pool.lend(0, ReuseScope::Safe)), "none");
    pool.publish_counts(0);
    assert_eq!((pools.usage(0).unproven, pools.usage(0).safe), (1, 0));
}

#[test]
fn a_multiplexed_connection_counts_once_and_has_a_stream_limit() {
    let (mut pool, pools) = pool(0);
    let first = pool.open_shared(0, fake("a"), 0, 3).unwrap();
    let others = [(); 3].map(|()| begin(&mut pool, 0, ReuseScope::Any));
    assert_eq!(others, [Some(("a", first)), Some(("a", first)), None], "the third has no stream left");
    assert_eq!((pools.used(), pools.idle()), (1, 0));
    pool.limit_streams(first, 4);
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), Some(("a", first)));
    assert_eq!(begin(&mut pool, 7, ReuseScope::Any), None, "another key");
    assert_eq!([(); 3].map(|()| end(&mut pool, first)), ["none"; 3]);
    assert_eq!((pools.used(), pools.idle()), (1, 0));
    assert_eq!(end(&mut pool, first), "none", "it is kept");
    assert_eq!((pools.used(), pools.safe()), (0, 1));
    assert_eq!(begin(&mut pool, 0, ReuseScope::Safe), Some(("a", first)));
    pool.publish_counts(0);
    assert_eq!((pools.used(), pools.idle()), (1, 0));
}

/// A stream goes to a connection that already has streams, so other connections become idle.
#[test]
fn takes_the_busiest_connection_with_a_free_stream() {
    let (mut pool, _) = pool(3);
    let [a, b] = ["a", "b"].map(|name| pool.open_shared(0, fake(name), 0, 3).unwrap());
    let busiest = [(); 4].map(|()| begin(&mut pool, 0, ReuseScope::Any).unwrap().0);
    assert_eq!(busiest, ["b", "b", "a", "a"]);
    (0..3).for_each(|_| _ = end(&mut pool, b));
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), Some(("b", b)), "the other is full");
    assert_eq!(end(&mut pool, a), "none");
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), Some(("a", a)));
}

/// With `http-reuse aggressive`, a first request takes only connections that were reused before.
#[test]
fn an_unreused_connection_is_not_taken_for_a_first_request() {
    let (mut pool, pools) = pool(2);
    let id = pool.open_shared(0, fake("a"), 0, 2).unwrap();
    assert_eq!(begin(&mut pool, 0, ReuseScope::Safe), None);
    assert_eq!(end(&mut pool, id), "none");
    assert_eq!(pools.usage(0).unproven, 1);
    assert_eq!(begin(&mut pool, 0, ReuseScope::Safe), None);
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), Some(("a", id)));
    assert_eq!(begin(&mut pool, 0, ReuseScope::Safe), Some(("a", id)));
}

/// `max-reuse` counts streams. A connection that reached it is removed after its last stream.
#[test]
fn a_connection_at_max_reuse_takes_no_more_streams() {
    let (mut pool, pools) = pool(2);
    let once = PoolSettings { maximum_reuse: Some(1), ..Default::default() };
    let id = pool.open_shared(0, fake("a"), 0, 9).unwrap();
    assert_eq!(pool.begin_stream(0, 0, ReuseScope::Any, &once).map(|lent| lent.requests), Some(2));
    assert!(pool.begin_stream(0, 0, ReuseScope::Any, &once).is_none());
    assert_eq!(name(pool.end_stream(0, id, &once)), "none", "a stream is left");
    assert_eq!(name(pool.end_stream(0, id, &once)), "a");
    assert_eq!((pools.used(), pool.idle()), (0, 0));
}

/// Both kinds count for `pool-max-conn`, `pool-low-conn` and the estimated need.
#[test]
fn plain_and_multiplexed_connections_count_towards_the_pool_limits() {
    let full = PoolSettings { maximum: Some(1), ..Default::default() };
    let (mut full_pool, _) = pool(4);
    full_pool.put(whole("a", 2));
    full_pool.publish_counts(0);
    let id = full_pool.open_shared(0, fake("b"), 0, 9).unwrap();
    assert_eq!(name(full_pool.end_stream(0, id, &full)), "b", "no room beside the other kind");

    let (mut pool, pools) = pool(1);
    let id = pool.open_shared(0, fake("b"), 0, 9).unwrap();
    assert_eq!(end(&mut pool, id), "none");
    assert_eq!(pools.idle(), 1);
    let admission = pool.admit(0, 0, &PoolSettings::default());
    assert!(
        matches!(admission, IdleAdmission::InPlaceOf(RemovedConnection::Shared(_))),
        "one is enough: {admission:?}"
    );
    let low = PoolSettings { low: 3, ..Default::default() };
    assert!(matches!(pool.admit(0, 0, &low), IdleAdmission::Free));
}

/// A connection with streams is neither purged nor lent whole to another worker.
#[test]
fn a_connection_with_streams_is_neither_purged_nor_lent() {
    let (mut pool, pools) = pool(4);
    let [a, b, c] = ["a", "b", "c"].map(|name| pool.open_shared(0, fake(name), 0, 1).unwrap());
    assert_eq!([end(&mut pool, b), end(&mut pool, c)], ["none", "none"]);
    pool.put(whole("w", 1));
    let mut away = Vec::new();
    pool.sweep(2, &mut away);
    assert_eq!(names(away), ["w", "b"], "those that are lent whole first, then the oldest");
    assert_eq!(name(pool.lend(0, ReuseScope::Any)), "c");
    assert_eq!(name(pool.lend(0, ReuseScope::Any)), "none");
    assert_eq!(name(pool.remove_oldest()), "none");
    pool.publish_counts(0);
    assert_eq!((pools.used(), pools.idle()), (1, 0));
    assert_eq!(end(&mut pool, a), "none");
    let mut away = Vec::new();
    pool.sweep(usize::MAX, &mut away);
    assert_eq!(names(away), ["a"]);
}

/// After GOAWAY no new stream begins. The connection is removed after its last stream.
#[test]
fn removes_a_retired_connection_with_its_last_stream() {
    let (mut pool, pools) = pool(2);
    let [a, b] = ["a", "b"].map(|name| pool.open_shared(0, fake(name), 0, 9).unwrap());
    assert_eq!(name(pool.retire(a)), "none");
    assert_eq!(end(&mut pool, b), "none");
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), Some(("b", b)));
    assert_eq!(end(&mut pool, a), "a");
    assert_eq!(end(&mut pool, b), "none");
    assert_eq!(name(pool.retire(b)), "b", "it was idle");
    assert_eq!((end(&mut pool, b), pools.used()), ("none", 0));
}

/// A connection that the server closed is neither used for new streams nor kept after its last stream.
#[test]
fn a_connection_closed_by_the_server_is_not_reused() {
    let (mut pool, pools) = pool(2);
    let [a, b] = ["a", "b"].map(|name| pool.open_shared(0, fake(name), 0, 9).unwrap());
    assert_eq!(end(&mut pool, b), "none");
    for _ in 0..2 {
        let lent = pool.begin_stream(0, 0, ReuseScope::Any, &PoolSettings::default()).unwrap();
        lent.connection.closed = true;
    }
    assert_eq!(begin(&mut pool, 0, ReuseScope::Any), None, "both are closed");
    assert_eq!([end(&mut pool, b), end(&mut pool, a), end(&mut pool, a)], ["b", "none", "a"]);
    assert_eq!((pools.used(), pool.idle()), (0, 0));
}

/// The pool of a slot belongs to the slot's latest server.
#[test]
fn a_new_server_discards_the_idle_connections_of_its_slot() {
    let (mut pool, pools) = pool(0);
    pool.put(whole("a", 1));
    assert!(pool.claim(ServerKey::added(0, 1), &pools));
    assert!(!pool.claim(ServerKey::configured(0), &pools));
    pool.publish_counts(0);
    assert_eq!((pool.idle(), pools.total()), (0, Usage::default()));
}

#[test]
fn a_full_pool_admits_the_first_idle_connection_of_a_new_key() {
    let (mut pool, _) = pool(1);
    let keyed = |name, key| Idle { key, ..whole(name, 1) };
    let settings = PoolSettings::default();
    let mut offer = |label, key| {
        let admission = pool.admit(0, key, &settings);
        let replaced = match admission {
            IdleAdmission::Free => "none",
            IdleAdmission::InPlaceOf(removed) => name(Some(removed)),
            IdleAdmission::Refused => return "refused",
        };
        pool.put(keyed(label, key));
        pool.publish_counts(0);
        replaced
    };
    assert_eq!([offer("a", 1), offer("b", 2), offer("c", 2)], ["none", "none", "a"]);
    for key in 3..100 {
        offer("x", key);
    }
    assert_eq!(pool.idle(), LOOK, "their number is bounded");
}

#[test]
fn other_workers_borrow_only_connections_with_a_matching_key() {
    let (mut pool, _) = pool(2);
    pool.put(whole("a", 1));
    pool.put(Idle { key: 7, ..whole("b", 1) });
    let id = pool.open_shared(0, fake("c"), 9, 1).unwrap();
    assert_eq!(end(&mut pool, id), "none");
    assert_eq!([8, 7, 9].map(|key| name(pool.lend(key, ReuseScope::Any))), ["none", "b", "c"]);
}
