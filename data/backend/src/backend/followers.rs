//! Followers: servers that track the state of another server, their leader, in this or another backend (`track`).
//!
//! A change of a server is applied to its followers in portions of [`PORTION`]: the first portion with the change, the
//! others when the caller continues ([`BackendNews::later`]). A follower copies its leader's current state, read under the
//! follower's lock, and not the state at the time of the change. So changes of the leader, portions and changes of the
//! follower may come in any order. Each change starts another pass over all followers, and the last update of each
//! follower applies the latest state.

#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::{Arc, Weak};

use super::Backend;
use super::changing::{apply_admin, apply_health};
use super::tracking::TrackMember;
use crate::notice::{BackendNews, Leader, Reason};
use crate::server::Server;
use crate::server::state::{AdminState, OperationalState};
use crate::server_key::ServerKey;

impl Backend {
    /// Makes a server of any backend follow a server of this backend. [`Backend::catch_up`] then copies the state. False if
    /// this backend does not have the leader.
    #[must_use]
    pub fn add_follower(&self, leader: ServerKey, follower: TrackMember) -> bool {
        {
            // The leader cannot be removed while this lock is held.
            let lb_state = self.lb_state.lock();
            if lb_state.server(leader).is_none() {
                return false;
            }
            self.tracking.lock().add(leader, follower.clone());
        }
        if let Some(backend) = follower.backend.upgrade() {
            let itself = TrackMember { backend: Weak::clone(&self.itself), server: leader };
            backend.tracking.lock().set_leader(follower.server, itself);
            if backend.server(follower.server).is_none() {
                // The follower was removed meanwhile.
                backend.forget_leader(follower.server);
            }
        }
        true
    }

    /// Applies the leader's state to a follower. Makes no log lines. The news contain only later work.
    #[must_use]
    pub fn catch_up(&self, key: ServerKey, now_ms: u64) -> BackendNews {
        let mut news = BackendNews::default();
        if let Some(leader) = self.leader_of(key) {
            self.follow(
                key,
                &leader,
                &Reason::Follows(String::new()),
                &mut Portion::begin(now_ms),
                &mut news,
            );
        }
        BackendNews { batches: news.batches, later: news.later, ..BackendNews::default() }
    }

    /// The leader of a server of this backend, if any.
    pub(super) fn leader_of(&self, key: ServerKey) -> Option<Arc<Server>> {
        let leader = self.tracking.lock().leader(key).cloned()?;
        leader.backend.upgrade()?.server(leader.server)
    }

    /// The length of the chain of leaders of a server of this backend.
    #[must_use]
    pub fn leaders_of(&self, key: ServerKey) -> usize {
        let next = |backend: &Backend, key: ServerKey| backend.tracking.lock().leader(key).cloned();
        let mut leader = next(self, key);
        let mut count = 0;
        while let Some(found) = leader {
            count += 1;
            leader = found.backend.upgrade().and_then(|backend| next(&backend, found.server));
        }
        count
    }

    /// Removes the link from a removed server to its leader.
    pub(super) fn forget_leader(&self, key: ServerKey) {
        let leader = self.tracking.lock().take_leader(key);
        let Some(leader) = leader else { return };
        if let Some(backend) = leader.backend.upgrade() {
            backend.tracking.lock().remove(leader.server, &self.itself, key);
        }
    }

    /// Updates the first portion of the followers after a server changed.
    pub(super) fn lead(&self, key: ServerKey, now_ms: u64, news: &mut BackendNews) {
        self.lead_some(key, &mut Portion::begin(now_ms), news);
    }

    fn lead_some(&self, key: ServerKey, portion: &mut Portion, news: &mut BackendNews) {
        if self.tracking.lock().begin(key) {
            self.notify_followers(key, portion, news);
        }
    }

    /// Updates followers until the portion is used up. Depth first: a follower's own followers come before the next follower.
    fn notify_followers(&self, leader: ServerKey, portion: &mut Portion, news: &mut BackendNews) {
        // A leader cannot be removed.
        let Some(server) = self.server(leader) else { return };
        let reason = Reason::Follows(format!("{}/{}", self.name(), server.name()));
        while portion.left > 0 {
            let next = self.tracking.lock().next(leader);
            let Some(follower) = next else { break };
            portion.left -= 1;
            if let Some(backend) = follower.backend.upgrade() {
                backend.follow(follower.server, &server, &reason, portion, news);
            }
        }
        news.later.extend(self.tracking.lock().rest(leader, &self.itself));
    }

    /// Applies a leader's state to a server and to its followers.
    fn follow(
        &self,
        key: ServerKey,
        leader: &Server,
        reason: &Reason,
        portion: &mut Portion,
        news: &mut BackendNews,
    ) {
        let now_ms = portion.now_ms;
        let apply = |server: &Server| {
            apply_lead(server, leader, now_ms);
            Ok(())
        };
        // A removed follower needs no update.
        if let Ok(true) = self.alter(key, reason, now_ms, news, apply) {
            self.lead_some(key, portion, news);
        }
    }
}

impl Leader for Backend {
    fn go_on(&self, leader: ServerKey, now_ms: u64) -> BackendNews {
        let mut news = BackendNews::default();
        self.notify_followers(leader, &mut Portion::begin(now_ms), &mut news);
        news
    }
}

/// The budget of followers to update before other tasks run.
struct Portion {
    now_ms: u64,
    /// The remaining number of followers.
    left: usize,
}

impl Portion {
    fn begin(now_ms: u64) -> Self {
        Self { now_ms, left: PORTION }
    }
}

/// How many followers are updated before other tasks run. With a log line for each, they take a few hundred
/// microseconds.
const PORTION: usize = 64;

/// Applies the leader's state to a server. The server's own maintenance, drain and slow start remain.
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
    if leader.admin_state().is_maintenance() {
        return;
    }
    let state = match (server.operational_state(now_ms), leader.operational_state(now_ms)) {
        (own @ OperationalState::Starting, OperationalState::Starting | OperationalState::Running) => own,
        (_, OperationalState::Starting) => OperationalState::Running,
        (_, state) => state,
    };
    apply_health(server, state, now_ms);
}
