//! Servers that follow the state of another one, in this backend or in others (`track`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::Backend;
use super::changing::{apply_admin, apply_health};
use crate::notice::{News, Reason};
use crate::server::Server;
use crate::server::state::AdminState;
use crate::server_key::ServerKey;

/// A server that follows another one's state (`track`), or is followed.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Its backend.
    pub backend: Weak<Backend>,
    /// Its key.
    pub server: ServerKey,
}

impl Backend {
    /// Makes a server of some backend follow the state of a server of this backend.
    pub fn add_follower(&self, leader: ServerKey, follower: Follower) {
        if let Some(backend) = follower.backend.upgrade() {
            let itself = Follower { backend: Weak::clone(&self.itself), server: leader };
            backend.leaders.rcu(|leaders| {
                let mut leaders = HashMap::clone(leaders);
                leaders.insert(follower.server, itself.clone());
                leaders
            });
        }
        self.followers.rcu(|followers| {
            let mut followers = HashMap::clone(followers);
            followers.entry(leader).or_default().push(follower.clone());
            followers
        });
    }

    /// The server that one of this backend follows, if any.
    pub(super) fn leader_of(&self, key: ServerKey) -> Option<Arc<Server>> {
        let leaders = self.leaders.load();
        let leader = leaders.get(&key)?;
        leader.backend.upgrade()?.server(leader.server)
    }

    /// The length of the chain of servers that a server of this backend follows.
    #[must_use]
    pub fn leaders_of(&self, key: ServerKey) -> usize {
        let next = |backend: &Backend, key: ServerKey| backend.leaders.load().get(&key).cloned();
        let mut leader = next(self, key);
        let mut count = 0;
        while let Some(found) = leader {
            count += 1;
            leader = found.backend.upgrade().and_then(|backend| next(&backend, found.server));
        }
        count
    }

    /// After a server was removed: it follows no server any more.
    pub(super) fn forget_leader(&self, key: ServerKey) {
        let Some(leader) = self.leaders.load().get(&key).cloned() else { return };
        self.leaders.rcu(|leaders| {
            let mut leaders = HashMap::clone(leaders);
            leaders.remove(&key);
            leaders
        });
        let Some(backend) = leader.backend.upgrade() else { return };
        let is_another =
            |follower: &Follower| follower.server != key || !Weak::ptr_eq(&follower.backend, &self.itself);
        backend.followers.rcu(|followers| {
            let mut followers = HashMap::clone(followers);
            if let Some(of_leader) = followers.get_mut(&leader.server) {
                of_leader.retain(is_another);
            }
            followers.retain(|_, of_one| !of_one.is_empty());
            followers
        });
    }

    /// Applies a server's state to its followers. Nothing of it is said in logs: the news are only what is to be done later.
    #[must_use]
    pub fn lead(&self, key: ServerKey, now_ms: u64) -> News {
        let mut news = News::default();
        // A server that is gone leads nobody.
        let _ = self.alter(key, &Reason::Operator, now_ms, &mut news, |_| Ok(()));
        News { batches: news.batches, ..News::default() }
    }

    /// Has a server be what another one is.
    pub(super) fn follow(
        &self,
        key: ServerKey,
        leader_backend: &str,
        leader: &Server,
        now_ms: u64,
        news: &mut News,
    ) {
        let reason = Reason::Follows(format!("{leader_backend}/{}", leader.name()));
        // A follower that was removed has nothing to follow with.
        let _ = self.alter(key, &reason, now_ms, news, |server| {
            apply_lead(server, leader, now_ms);
            Ok(())
        });
    }
}

/// A server is what the one is that it follows: its own wishes of maintenance and drain remain.
pub(super) fn apply_lead(server: &Server, leader: &Server, now_ms: u64) {
    let inherited = AdminState::INHERITED_MAINTENANCE.with(AdminState::INHERITED_DRAIN);
    let mut admin = server.admin_state().without(inherited);
    if leader.admin_state().is_maintenance() {
        admin = admin.with(AdminState::INHERITED_MAINTENANCE);
    }
    if leader.admin_state().is_drain() {
        admin = admin.with(AdminState::INHERITED_DRAIN);
    }
    if admin != server.admin_state() {
        apply_admin(server, admin, now_ms);
    }
    if !leader.admin_state().is_maintenance() {
        apply_health(server, leader.operational_state(now_ms), now_ms);
    }
}
