//! Followers that are updated in portions while leaders change and followers are added and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_model::InitialState;

use super::PORTION;
use crate::backend::{Backend, TrackMember};
use crate::health::{CheckFinding, CheckKind, CheckRules, CheckStatus};
use crate::notice::{BackendNews, Followers};
use crate::server::ServerChange;
use crate::server::state::{AdminState, OperationalState, RequestedState};
use crate::server_key::ServerKey;
use crate::settings::{BackendSettings, ServerSettings};

/// A backend with this many servers; the first one is checked.
fn test_backend(name: &str, count: u32) -> Arc<Backend> {
    let check = CheckRules { rise: 1, fall: 1, start: InitialState::FullyUp };
    let server = |id: u32| ServerSettings {
        name: format!("s{id}"),
        id,
        check: (id == 1).then_some(check),
        ..ServerSettings::default()
    };
    let settings = BackendSettings { name: name.to_owned(), ..BackendSettings::default() };
    Backend::new(settings, (1..=count).map(server).collect(), 0)
}

const FIRST: ServerKey = ServerKey::configured(0);

fn follow(leader: (&Arc<Backend>, ServerKey), follower: (&Arc<Backend>, ServerKey)) {
    let of = TrackMember { backend: Arc::downgrade(follower.0), server: follower.1 };
    assert!(leader.0.add_follower(leader.1, of));
    finish(follower.0.catch_up(follower.1, 0).later);
}

/// Updates all remaining followers, depth first. Returns the log lines.
fn finish(later: Vec<Followers>) -> Vec<String> {
    let (mut later, mut lines) = (later, Vec::new());
    while !later.is_empty() {
        let mut news = later.remove(0).go_on(9);
        later.splice(0..0, std::mem::take(&mut news.later));
        lines.extend(texts(&news));
    }
    lines
}

fn texts(news: &BackendNews) -> Vec<String> {
    news.notices.iter().map(|notice| notice.text.clone()).collect()
}

fn report(backend: &Backend, is_well: bool) -> BackendNews {
    let status = if is_well { CheckStatus::L4Ok } else { CheckStatus::L4Connection };
    backend.report(FIRST, CheckKind::Health, CheckFinding::new(status), 1)
}

#[test]
fn the_first_followers_are_updated_at_once_and_the_rest_in_portions() {
    let (leader, by) = (test_backend("a", 1), test_backend("b", 201));
    (1..=200).for_each(|rank| follow((&leader, FIRST), (&by, ServerKey::configured(rank))));
    let ids = |lines: &[String]| -> Vec<u32> {
        let id = |line: &String| line.strip_prefix("Server b/s")?.split_once(' ')?.0.parse().ok();
        lines.iter().filter_map(id).collect()
    };
    let mut news = report(&leader, false);
    let mut notified = ids(&texts(&news));
    assert_eq!((notified.len(), news.later.len()), (PORTION, 1));
    let mut portions = Vec::new();
    while let Some(followers) = news.later.pop() {
        news = followers.go_on(2);
        let next = ids(&texts(&news));
        portions.push(next.len());
        notified.extend(next);
    }
    assert_eq!(portions, [64, 64, 8]);
    assert_eq!(notified, (2..=201).rev().collect::<Vec<_>>());
    assert_eq!(by.usable_servers(), 1);
}

/// In a tree, the followers of a follower are updated before the leader's next follower. All share a portion.
#[test]
fn follower_trees_are_updated_depth_first_in_portions() {
    let (top, middle, last) = (test_backend("a", 1), test_backend("b", 3), test_backend("c", 301));
    for rank in 0..3 {
        follow((&top, FIRST), (&middle, ServerKey::configured(rank)));
        for below in 0..100 {
            follow(
                (&middle, ServerKey::configured(rank)),
                (&last, ServerKey::configured(rank * 100 + below)),
            );
        }
    }
    let news = report(&top, false);
    assert_eq!(news.notices.iter().filter(|notice| notice.text.contains("DOWN")).count(), 1 + PORTION);
    let (first, mut lines) = (texts(&news), finish(news.later));
    lines.splice(0..0, first);
    let names: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("Server ")?.split_once(' '))
        .map(|(name, _)| name)
        .collect();
    let mut expected = vec!["a/s1".to_owned()];
    for rank in (0..3).rev() {
        expected.push(format!("b/s{}", rank + 1));
        expected.extend((0..100).rev().map(|below| format!("c/s{}", rank * 100 + below + 1)));
    }
    assert_eq!(names, expected);
}

/// A chain of a thousand servers needs no deep stack.
#[test]
fn a_long_chain_of_followers_is_updated_in_portions() {
    let backend = test_backend("a", 1000);
    for rank in 1..1000 {
        follow((&backend, ServerKey::configured(rank - 1)), (&backend, ServerKey::configured(rank)));
    }
    let news = report(&backend, false);
    assert_eq!(backend.usable_servers(), 1000 - 1 - PORTION as u32);
    drop(finish(news.later));
    assert_eq!(backend.usable_servers(), 0);
}

#[test]
fn a_weight_change_does_not_update_followers() {
    let (leader, by) = (test_backend("a", 1), test_backend("b", 300));
    (1..300).for_each(|rank| follow((&leader, FIRST), (&by, ServerKey::configured(rank))));
    let weight = ServerChange::Weight(crate::server::weight::WeightChange::Absolute(7));
    let news = leader.change_for(FIRST, weight, crate::Reason::Operator, 1).expect("a server");
    assert_eq!((news.later.len(), news.notices.len()), (0, 0));
}

/// A repeated update without a change leaves the server's last change and its slow start alone.
#[test]
fn keeps_a_slow_start_when_the_leader_repeats_its_state() {
    let leader = test_backend("a", 1);
    let slow =
        ServerSettings { name: "f".to_owned(), id: 1, slow_start_ms: 1000, ..ServerSettings::default() };
    let by = Backend::new(BackendSettings::default(), vec![slow], 0);
    follow((&leader, FIRST), (&by, FIRST));
    let state = || by.server(FIRST).expect("a server").operational_state(2);
    drop(report(&leader, false));
    assert_eq!(state(), OperationalState::Stopped);
    drop(report(&leader, true));
    assert_eq!(state(), OperationalState::Starting);
    drop(by.catch_up(FIRST, 2));
    assert_eq!(state(), OperationalState::Starting);
}

#[test]
fn rejects_followers_of_a_removed_leader() {
    let by = test_backend("b", 1);
    let added =
        by.add(ServerSettings { name: "x".to_owned(), ..ServerSettings::default() }, 0).expect("a name");
    let of = |server| TrackMember { backend: Arc::downgrade(&by), server };
    by.remove(added.key(), 1).expect("it is in maintenance");
    assert!(!by.add_follower(added.key(), of(FIRST)));
    assert_eq!(by.leaders_of(FIRST), 0);
    // A follower that was removed before it was added is not kept, and its leader can be removed.
    let leader =
        by.add(ServerSettings { name: "l".to_owned(), ..ServerSettings::default() }, 0).expect("a name");
    assert!(by.add_follower(leader.key(), of(added.key())));
    assert!(by.remove(leader.key(), 1).is_ok());
}

/// Leaders in one backend. Followers, and followers of some followers, in two others.
struct FollowersFixture {
    backends: [Arc<Backend>; 3],
    /// Leader and follower, each as backend and key.
    tracked: Vec<((usize, ServerKey), (usize, ServerKey))>,
    later: Vec<Followers>,
    seed: u64,
}

impl FollowersFixture {
    fn new(seed: u64) -> Self {
        let backends = [test_backend("a", 3), test_backend("b", 300), test_backend("c", 300)];
        let mut world = Self { backends, tracked: Vec::new(), later: Vec::new(), seed };
        for rank in 0..200 {
            world.track((0, ServerKey::configured(rank % 3)), (1, ServerKey::configured(rank)));
        }
        for rank in 0..150 {
            world.track((1, ServerKey::configured(rank % 5 * 40)), (2, ServerKey::configured(rank)));
        }
        world
    }

    fn random(&mut self, below: usize) -> usize {
        // xorshift64*.
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        (self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }

    fn track(&mut self, leader: (usize, ServerKey), follower: (usize, ServerKey)) {
        let of = TrackMember { backend: Arc::downgrade(&self.backends[follower.0]), server: follower.1 };
        assert!(self.backends[leader.0].add_follower(leader.1, of));
        self.later.extend(self.backends[follower.0].catch_up(follower.1, 0).later);
        self.tracked.push((leader, follower));
    }

    /// A random step.
    fn step(&mut self, now_ms: u64) {
        match self.random(10) {
            0..4 if !self.later.is_empty() => {
                let place = self.random(self.later.len());
                let news = self.later.swap_remove(place).go_on(now_ms);
                self.later.extend(news.later);
            }
            0..7 => {
                let change = match self.random(6) {
                    0 | 1 => ServerChange::Health(OperationalState::Stopped),
                    2 | 3 => ServerChange::Health(OperationalState::Running),
                    4 => ServerChange::State(RequestedState::Maintenance),
                    _ => ServerChange::State([RequestedState::Ready, RequestedState::Drain][self.random(2)]),
                };
                let leader = ServerKey::configured(self.random(3) as u32);
                self.change((0, leader), change, now_ms);
            }
            7 => {
                // Changes the follower's own administrative state.
                let state = [RequestedState::Maintenance, RequestedState::Ready, RequestedState::Drain];
                let place = self.random(self.tracked.len());
                let (_, follower) = self.tracked[place];
                let state = state[self.random(3)];
                self.change(follower, ServerChange::State(state), now_ms);
            }
            8 => {
                let place = self.random(self.tracked.len());
                let (_, (backend, key)) = self.tracked[place];
                self.change((backend, key), ServerChange::State(RequestedState::Maintenance), now_ms);
                let is_followed = self.tracked.iter().any(|(leader, _)| *leader == (backend, key));
                assert_eq!(self.backends[backend].remove(key, now_ms).is_ok(), !is_followed);
                if !is_followed {
                    self.tracked.swap_remove(place);
                }
            }
            _ => {
                let name = format!("n{now_ms}");
                let server = ServerSettings { name, ..ServerSettings::default() };
                let added = self.backends[2].add(server, now_ms).expect("a new name").key();
                let leader = [(0, ServerKey::configured(0)), (0, ServerKey::configured(2))][self.random(2)];
                self.track(leader, (2, added));
                self.change((2, added), ServerChange::State(RequestedState::Ready), now_ms);
            }
        }
        assert!(self.later.len() <= 3 + 5 + 5, "one for each leader: {}", self.later.len());
    }

    fn change(&mut self, (backend, key): (usize, ServerKey), change: ServerChange, now_ms: u64) {
        let news = self.backends[backend].change_for(key, change, crate::Reason::Operator, now_ms);
        self.later.extend(news.expect("a server").later);
    }

    /// Each follower has its leader's state.
    fn check(&self, seed: u64) {
        for ((of, leader), (by, follower)) in &self.tracked {
            let leader = self.backends[*of].server(*leader).expect("a leader");
            let follower = self.backends[*by].server(*follower).expect("a follower");
            let (of, by) = (leader.admin_state(), follower.admin_state());
            let inherited =
                (by.contains(AdminState::INHERITED_MAINTENANCE), by.contains(AdminState::INHERITED_DRAIN));
            assert_eq!(inherited, (of.is_maintenance(), of.is_drain()), "seed {seed}: {}", follower.name());
            let expected = match by.is_maintenance() {
                true => OperationalState::Stopped,
                false => leader.operational_state(0),
            };
            assert_eq!(follower.operational_state(0), expected, "seed {seed}: {}", follower.name());
        }
    }
}

/// After portions, changes, and added or removed followers in random order, all followers have their leaders'
/// states.
#[test]
fn all_followers_finally_have_the_last_state_of_their_leader() {
    for seed in 1..=60 {
        let mut world = FollowersFixture::new(seed);
        for now_ms in 1..=200 {
            world.step(now_ms);
        }
        while !world.later.is_empty() {
            let place = world.random(world.later.len());
            let news = world.later.swap_remove(place).go_on(300);
            world.later.extend(news.later);
        }
        world.check(seed);
    }
}

/// A leader that changes with each portion does not starve any follower.
#[test]
fn updates_each_follower_however_often_the_leader_changes() {
    let (leader, by) = (test_backend("a", 1), test_backend("b", 1001));
    (1..=1000).for_each(|rank| follow((&leader, FIRST), (&by, ServerKey::configured(rank))));
    let mut later: Vec<Followers> = Vec::new();
    for turn in 0..1000 / (2 * PORTION) + 1 {
        let state = [RequestedState::Drain, RequestedState::Maintenance][turn % 2];
        let news = leader
            .change_for(FIRST, ServerChange::State(state), crate::Reason::Operator, 1)
            .expect("a server");
        later.extend(news.later);
        assert_eq!(later.len(), 1, "one goes on");
        later = later.remove(0).go_on(2).later;
    }
    let unheard = by.servers().iter().filter(|server| server.admin_state() == AdminState::READY).count();
    assert_eq!(unheard, 1, "the one that follows nobody");
}

/// One thread changes the leader while two others update its followers.
#[test]
fn concurrent_updates_leave_all_followers_in_their_leaders_state() {
    for _ in 0..20 {
        let (leader, by) = (test_backend("a", 1), test_backend("b", 300));
        (1..300).for_each(|rank| follow((&leader, FIRST), (&by, ServerKey::configured(rank))));
        let is_over = AtomicBool::new(false);
        let (send, receive) = std::sync::mpsc::channel::<Followers>();
        let receive = std::sync::Mutex::new(receive);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let (send, receive, is_over) = (send.clone(), &receive, &is_over);
                scope.spawn(move || {
                    loop {
                        let next = receive.lock().expect("nobody panics").try_recv();
                        match next {
                            Ok(followers) => {
                                followers
                                    .go_on(2)
                                    .later
                                    .into_iter()
                                    .for_each(|rest| send.send(rest).expect("open"));
                            }
                            Err(_) if is_over.load(Ordering::SeqCst) => return,
                            Err(_) => std::thread::yield_now(),
                        }
                    }
                });
            }
            for turn in 0..101 {
                report(&leader, turn % 2 == 1)
                    .later
                    .into_iter()
                    .for_each(|rest| send.send(rest).expect("open"));
            }
            is_over.store(true, Ordering::SeqCst);
        });
        drop(finish(receive.lock().expect("nobody panics").try_iter().collect()));
        let up = by
            .servers()
            .iter()
            .skip(1)
            .filter(|server| server.operational_state(3) != OperationalState::Stopped)
            .count();
        assert_eq!(up, 0);
    }
}
