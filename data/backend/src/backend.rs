//! The live backend: choosing a server, taking and giving back its slots, and the one door for change.
//!
//! One short lock, around `LbState`, guards everything that choosing and queueing decide on together: the
//! usable members, the balancing structure and the queues. Nobody sleeps or wakes anybody while
//! holding it. Counts of requests live outside, in the servers (see `queue.rs` for why that is safe).
//! Where no server has a limit, requests take no lock: each worker chooses by its own view (`view.rs`).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use crate::address::ServerAddress;
use crate::balance::Pick;
use crate::changes::{AddError, ChangeError, FormerState, RemoveError};
use crate::choice::{Choice, ChooseInput};
use crate::figures::BackendFigures;
use crate::health::{CheckKind, CheckStatus, Consequence, Finding, Observation};
use crate::idle::IdlePools;
use crate::lb_state::{BackendStatus, LbState, Watcher};
use crate::lease::Lease;
use crate::notice::{self, MailLevel, News, Notice, Passage, Reason, Transition, Urgency};
use crate::persistence::DynamicCookies;
use crate::queue::{Decision, Order, QueueOf, Waiter, Wake};
use crate::server::state::{AdminState, OperationalState};
use crate::server::weight::WeightChange;
use crate::server::{Change, Server};
use crate::server_key::ServerKey;
use crate::settings::{Algorithm, BackendSettings, HashMethod, ServerSettings};
use crate::shared::{Home, Owner, Shared, Version};
use crate::snapshot::ServerSnapshot;
use crate::sync::{Ordering, handshake_point, raise};
use crate::view::{Chosen, WorkerView};
use crate::waiting::{Outcome, Queues, Waiting};
use weir_sync::{Lock, LockGuard, LockLabel, PerWorker};

/// What profiles call backends' locks. Each critical section leaves its state consistent at each step, so a panic caught at
/// the task that held it (design D8) leaves nothing to mend.
static BOARD: LockLabel = LockLabel::new("BACKEND");

/// A backend, shared by all workers.
pub struct Backend {
    shared: Arc<Shared>,
    snapshot: ArcSwap<ServerSnapshot>,
    lb_state: Lock<LbState>,
    /// Made when the worker first chooses.
    views: PerWorker<Option<Box<WorkerView>>>,
    itself: Weak<Backend>,
    /// Who follows which server's state (`track`). Changed when servers come and go.
    followers: ArcSwap<HashMap<ServerKey, Vec<Follower>>>,
    /// Whom its own servers follow.
    leaders: ArcSwap<HashMap<ServerKey, Follower>>,
}

/// A server that follows another one's state (`track`), or is followed.
#[derive(Clone, Debug)]
pub struct Follower {
    /// Its backend.
    pub backend: Weak<Backend>,
    /// Itself.
    pub server: ServerKey,
}

impl Backend {
    /// A backend with its servers.
    #[must_use]
    pub fn new(settings: BackendSettings, servers: Vec<ServerSettings>, now_ms: u64) -> Arc<Self> {
        let views = PerWorker::new(settings.workers, |_| None);
        let shared = Arc::new(Shared::new(settings));
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let home = || Home { owner: itself.clone(), shared: Arc::clone(&shared) };
            let servers: Vec<_> = (0u32..)
                .zip(servers)
                .map(|(rank, settings)| {
                    let (key, pools) =
                        (ServerKey::configured(rank), IdlePools::leak(shared.settings.workers));
                    Arc::new(Server::new(key, settings, pools, home(), now_ms))
                })
                .collect();
            let lb_state = LbState::new(Arc::clone(&shared), servers.clone(), now_ms);
            let snapshot = ArcSwap::from_pointee(ServerSnapshot::new(servers));
            Self {
                lb_state: Lock::new(lb_state, &BOARD),
                snapshot,
                views,
                itself: Weak::clone(itself),
                followers: ArcSwap::default(),
                leaders: ArcSwap::default(),
                shared,
            }
        })
    }

    /// What it was configured with.
    #[must_use]
    pub fn settings(&self) -> &BackendSettings {
        &self.shared.settings
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// What it counts.
    #[must_use]
    pub fn figures(&self) -> &BackendFigures {
        &self.shared.figures
    }

    /// A stream of a worker enters: it counts as the backend's load (`scur`, `fullconn`) until it leaves.
    pub fn enter(&self, worker: usize) {
        if self.shared.figures.enter(worker) {
            raise(&self.shared.sessions_maximum, self.sessions());
        }
    }

    /// A stream that entered on that worker leaves.
    pub fn leave(&self, worker: usize) {
        self.shared.figures.leave(worker);
    }

    /// Streams inside.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.shared.figures.inside()
    }

    /// The most streams inside at once that were seen since the last [`Backend::clear_maxima`]: all of a single worker's
    /// peaks, and those of several that last.
    #[must_use]
    pub fn sessions_maximum(&self) -> u32 {
        raise(&self.shared.sessions_maximum, self.sessions());
        self.shared.sessions_maximum.load(Ordering::Relaxed)
    }

    /// Requests in the backend's own queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.shared.queued.load(Ordering::SeqCst)
    }

    /// The longest that queue has been since the last [`Backend::clear_maxima`].
    #[must_use]
    pub fn queued_maximum(&self) -> u32 {
        self.shared.queued_maximum.load(Ordering::Relaxed)
    }

    /// `clear counters`: maxima start again from what is, here and on the servers.
    pub fn clear_maxima(&self) {
        self.shared.figures.forget_most_inside();
        self.shared.sessions_maximum.store(self.sessions(), Ordering::Relaxed);
        self.shared.queued_maximum.store(self.queued(), Ordering::Relaxed);
        self.servers().iter().for_each(|server| server.clear_maxima());
    }

    /// All servers, in the order of the configuration, those that were added last.
    #[must_use]
    pub fn servers(&self) -> Arc<[Arc<Server>]> {
        Arc::clone(&self.snapshot.load().servers)
    }

    /// A server by its key.
    #[must_use]
    pub fn server(&self, key: ServerKey) -> Option<Arc<Server>> {
        self.snapshot.load().get(key).cloned()
    }

    /// Shows `look` a server, without counting a reference that all workers count.
    pub fn look_at<R>(&self, key: ServerKey, look: impl FnOnce(&Server) -> R) -> Option<R> {
        self.snapshot.load().get(key).map(|server| look(server))
    }

    /// The server that has a place now.
    #[must_use]
    pub fn server_at(&self, place: usize) -> Option<Arc<Server>> {
        self.snapshot.load().places.get(place).cloned().flatten()
    }

    /// A server by its name.
    #[must_use]
    pub fn server_by_name(&self, name: &str) -> Option<Arc<Server>> {
        self.snapshot.load().servers.iter().find(|server| server.name() == name).cloned()
    }

    /// A server by its numeric identifier.
    #[must_use]
    pub fn server_by_id(&self, id: u32) -> Option<Arc<Server>> {
        self.snapshot.load().servers.iter().find(|server| server.id() == id).cloned()
    }

    /// The server that a cookie value designates: the first one up with that value, or else the first.
    #[must_use]
    pub fn server_by_cookie(&self, value: &str) -> Option<Arc<Server>> {
        self.snapshot.load().by_cookie(value).cloned()
    }

    /// Shows `look` that server, without counting a reference that all workers count.
    pub fn look_at_cookie<R>(&self, value: &str, look: impl FnOnce(&Server) -> R) -> Option<R> {
        self.snapshot.load().by_cookie(value).map(|server| look(server))
    }

    /// What operators see of the farm.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> BackendStatus {
        let mut lb_state = self.lb_state.lock();
        lb_state.refresh(now_ms);
        lb_state.status(now_ms)
    }

    /// How many servers can take a new visitor, a moment ago.
    #[must_use]
    pub fn usable_servers(&self) -> u32 {
        self.shared.usable.load(Ordering::Relaxed)
    }

    /// Picks a server by the configured algorithm and takes a slot, or joins a queue.
    ///
    /// `wake` is only asked for when there is a queue to join.
    pub fn choose(&self, input: &ChooseInput, wake: impl FnOnce() -> Box<dyn Wake>) -> Choice {
        if let Some(choice) = self.choose_alone(input) {
            return choice;
        }
        let mut lb_state = self.lb_state.lock();
        lb_state.refresh(input.now_ms);
        match lb_state.choose(input) {
            None => Choice::None,
            Some(Pick::Free(member)) => Choice::Server(lb_state.occupy(member)),
            Some(Pick::Queue(member)) => {
                let queue = QueueOf::Server(lb_state.member_key(member));
                self.join(lb_state, queue, input, wake, false)
            }
            Some(Pick::Saturated) => self.join(lb_state, QueueOf::Backend, input, wake, false),
        }
    }

    /// Chooses by the worker's own view of the farm; none when that is not possible: there are limits or an order that
    /// all workers share, or the farm changes all the time.
    fn choose_alone(&self, input: &ChooseInput) -> Option<Choice> {
        let mut turns_over = false;
        for _ in 0..LOOKS {
            let version = self.version();
            if !version.is_free() {
                return None;
            }
            let mut place = self.views.of(input.worker)?;
            let view = place.get_or_insert_with(|| Box::new(WorkerView::new(&self.shared, input.worker)));
            if turns_over || !view.shows(version, input.now_ms) {
                let mut lb_state = self.lb_state.lock();
                lb_state.refresh(input.now_ms);
                view.look(&mut lb_state, input.hash);
                if !view.version().is_free() {
                    return None;
                }
            }
            if view.is_empty() {
                return Some(Choice::None);
            }
            let lease = match view.choose(&self.shared, input) {
                Chosen::Slot(lease) => lease,
                Chosen::Wait => return None,
                Chosen::TurnsOver => {
                    turns_over = true;
                    continue;
                }
            };
            handshake_point();
            if self.version() == view.version() {
                return Some(Choice::Server(lease));
            }
        }
        None
    }

    /// Takes a slot of a server that is up and has no limit, unless load orders the servers.
    fn take_alone(&self, key: ServerKey, input: &ChooseInput) -> Option<Choice> {
        if self.shared.settings.algorithm == Algorithm::LeastConnections {
            return None;
        }
        let version = self.version();
        let snapshot = self.snapshot.load();
        let server = snapshot.get(key).filter(|server| server.is_up() && server.is_unlimited())?;
        let mut place = self.views.of(input.worker)?;
        let view = place.get_or_insert_with(|| Box::new(WorkerView::new(&self.shared, input.worker)));
        let lease = view.take(server, &self.shared);
        handshake_point();
        (self.version() == version).then_some(Choice::Server(lease))
    }

    fn version(&self) -> Version {
        Version::from_number(self.shared.version.load(Ordering::SeqCst))
    }

    /// Takes a slot of a designated server (persistence, `use-server`), or joins its queue.
    ///
    /// `sticky` requests stay in that queue even when the server goes down, until their timeout.
    pub fn take(
        &self,
        key: ServerKey,
        sticky: bool,
        input: &ChooseInput,
        wake: impl FnOnce() -> Box<dyn Wake>,
    ) -> Choice {
        if let Some(choice) = self.take_alone(key, input) {
            return choice;
        }
        let mut lb_state = self.lb_state.lock();
        lb_state.refresh(input.now_ms);
        let Some(server) = lb_state.server(key).map(Arc::clone) else { return Choice::None };
        if !server.is_up() && !sticky {
            return Choice::None;
        }
        if lb_state.has_room(&server) {
            return Choice::Server(lb_state.occupy_server(server));
        }
        let maximum = server.settings().maximum_queue;
        if maximum > 0 && server.queued() >= maximum {
            return Choice::Full;
        }
        self.join(lb_state, QueueOf::Server(key), input, wake, sticky)
    }

    /// Takes a slot of a server whatever its limit, as for a connection that exists already.
    #[must_use]
    pub fn force(&self, key: ServerKey) -> Option<Lease> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key)?);
        Some(lb_state.occupy_server(server))
    }

    /// The one door through which a server changes.
    ///
    /// # Errors
    /// When there is no such server or the change is not possible.
    pub fn change(&self, key: ServerKey, change: Change, now_ms: u64) -> Result<(), ChangeError> {
        self.change_for(key, change, Reason::Operator, now_ms).map(drop)
    }

    /// The same for a reason, and what is to be told of it. Servers that follow this one change with it.
    ///
    /// # Errors
    /// When there is no such server or the change is not possible.
    pub fn change_for(
        &self,
        key: ServerKey,
        change: Change,
        reason: Reason,
        now_ms: u64,
    ) -> Result<News, ChangeError> {
        let mut news = News::default();
        self.alter(key, &reason, now_ms, &mut news, |server| self.apply(server, change, now_ms))?;
        Ok(news)
    }

    /// A check of a server found something: the server follows, and with it those that follow it.
    pub fn report(&self, key: ServerKey, kind: CheckKind, finding: Finding, now_ms: u64) -> News {
        let mut news = News::default();
        let Some(server) = self.server(key) else { return news };
        let Some(check) = server.check(kind) else { return news };
        let step = check.learn(finding.clone());
        let says_all = self.settings().log_health_checks;
        if says_all && step.is_news {
            news.notices.push(Notice {
                proxy: self.settings().place,
                urgency: Urgency::Notice,
                mail: Some(MailLevel::Info),
                text: notice::check_line(self.name(), &server, kind, check, &finding),
            });
        }
        let Some(state) = server.state_after(&step, now_ms) else { return news };
        let reason = if says_all { Reason::Said } else { Reason::Found(finding) };
        // The server was there a moment ago: if it is gone now, there is nothing to tell.
        let _ = self.alter(key, &reason, now_ms, &mut news, |server| {
            apply_health(server, state, now_ms);
            Ok(())
        });
        news
    }

    /// Traffic showed something of a server (`observe`); news only where something follows from it.
    #[inline]
    pub fn observe(&self, server: &Server, observation: Observation, now_ms: u64) -> Option<News> {
        server.observe(observation).then(|| self.conclude(server, observation, now_ms))
    }

    /// What follows from many errors in a row.
    #[cold]
    fn conclude(&self, server: &Server, observation: Observation, now_ms: u64) -> News {
        let (Some(check), Some(rules)) = (server.health(), server.settings().observe) else {
            return News::default();
        };
        check.hurry();
        let rise = check.rules().rise;
        let level = check.record().level;
        match rules.consequence {
            Consequence::CheckSoon => return News::default(),
            Consequence::FailCheck => {}
            Consequence::SuddenDeath => check.set_level(level.min(rise + 1)),
            Consequence::MarkDown => check.set_level(level.min(rise)),
        }
        check.record().observed_failures += 1;
        let detail = format!(
            "Detected {} consecutive errors, last one was: {}",
            rules.limit,
            observation.description()
        );
        let finding = Finding { detail: detail.into(), ..Finding::new(CheckStatus::Observed) };
        self.report(server.key(), CheckKind::Health, finding, now_ms)
    }

    /// Changes a server under the lock, and has others follow.
    fn alter(
        &self,
        key: ServerKey,
        reason: &Reason,
        now_ms: u64,
        news: &mut News,
        apply: impl FnOnce(&Server) -> Result<(), ChangeError>,
    ) -> Result<(), ChangeError> {
        let mut woken = Vec::new();
        let leader = self.leader_of(key);
        let server = {
            let mut lb_state = self.lb_state.lock();
            let server = Arc::clone(lb_state.server(key).ok_or(ChangeError::NoSuchServer)?);
            let before = lb_state.situation(&server, now_ms);
            apply(&server)?;
            let returns = before.admin.is_maintenance() && !server.admin_state().is_maintenance();
            if let Some(leader) = leader.filter(|_| returns) {
                // It has no checks of its own that say how it is.
                apply_lead(&server, &leader, now_ms);
            }
            lb_state.rebuild(now_ms);
            lb_state.redistribute(&server, &mut woken);
            lb_state.hand_out_all(&mut woken);
            let after = lb_state.situation(&server, now_ms);
            let settings = self.settings();
            let transition = Transition {
                proxy: settings.place,
                backend: self.name(),
                is_listen: settings.is_listen,
                server: &server,
                before,
                after,
                waiting: self.queued(),
                reason,
            };
            news.notices.extend(transition.lines());
            let was_up = before.operational != OperationalState::Stopped;
            let is_up = after.operational != OperationalState::Stopped;
            if was_up != is_up {
                news.passages.push(Passage { proxy: settings.place, server: Arc::clone(&server), is_up });
            }
            server
        };
        wake_all(woken);
        for follower in self.followers.load().get(&key).into_iter().flatten() {
            let Some(backend) = follower.backend.upgrade() else { continue };
            backend.follow(follower.server, self.name(), &server, now_ms, news);
        }
        Ok(())
    }

    /// Has a server of some backend follow the state of one of this backend from now on.
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
    fn leader_of(&self, key: ServerKey) -> Option<Arc<Server>> {
        let leaders = self.leaders.load();
        let leader = leaders.get(&key)?;
        leader.backend.upgrade()?.server(leader.server)
    }

    /// How many servers one of this backend follows, each the next one.
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

    /// A server is gone: it follows nobody any more.
    fn forget_leader(&self, key: ServerKey) {
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

    /// Has those that follow a server be what it is, without a word.
    pub fn lead(&self, key: ServerKey, now_ms: u64) {
        // A server that is gone leads nobody.
        let _ = self.alter(key, &Reason::Operator, now_ms, &mut News::default(), |_| Ok(()));
    }

    /// Has a server be what another one is.
    fn follow(&self, key: ServerKey, leader_backend: &str, leader: &Server, now_ms: u64, news: &mut News) {
        let reason = Reason::Follows(format!("{leader_backend}/{}", leader.name()));
        // A follower that was removed has nothing to follow with.
        let _ = self.alter(key, &reason, now_ms, news, |server| {
            apply_lead(server, leader, now_ms);
            Ok(())
        });
    }

    /// Shows the farm to `watcher`, now and each time it may have changed. There is one watcher at most: the last.
    pub fn watch(&self, watcher: Watcher) {
        self.lb_state.lock().watch(watcher);
    }

    /// Gives a server back what it had in a former process. It was not in use since it was made.
    ///
    /// # Errors
    /// When there is no such server.
    pub fn restore(&self, key: ServerKey, former: FormerState, now_ms: u64) -> Result<(), ChangeError> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key).ok_or(ChangeError::NoSuchServer)?);
        if let Some(weight) = former.weight {
            self.apply_weight(&server, WeightChange::Absolute(weight))?;
        }
        if let Some(address) = former.address {
            self.apply_address(&server, address);
        }
        server.restore(former.admin, former.operational, former.check_level, former.last_change_ms);
        lb_state.rebuild(now_ms);
        Ok(())
    }

    /// Changes what dynamic cookies are made with, and with it the cookies of the servers that have none of their own.
    pub fn change_dynamic_cookies(&self, change: impl FnOnce(&mut DynamicCookies)) {
        let lb_state = self.lb_state.lock();
        let mut changed = DynamicCookies::clone(&self.shared.dynamic_cookies.load());
        change(&mut changed);
        self.shared.dynamic_cookies.store(Arc::new(changed));
        lb_state.servers().iter().for_each(|server| server.refresh_cookie());
        self.publish(lb_state.servers());
    }

    /// Takes in a server, which begins in maintenance.
    ///
    /// Without an `id` it gets the lowest that is free.
    ///
    /// # Errors
    /// When the algorithm cannot take servers, or the name or the `id` is taken.
    pub fn add(&self, mut settings: ServerSettings, now_ms: u64) -> Result<Arc<Server>, AddError> {
        if self.is_static() {
            return Err(AddError::StaticAlgorithm);
        }
        let mut lb_state = self.lb_state.lock();
        let known = |id| lb_state.servers().iter().find(|server| server.id() == id);
        if lb_state.servers().iter().any(|server| server.name() == settings.name) {
            return Err(AddError::NameTaken);
        }
        if settings.id == 0 {
            let taken: std::collections::BTreeSet<u32> =
                lb_state.servers().iter().map(|server| server.id()).collect();
            settings.id = (1..).find(|id| !taken.contains(id)).unwrap_or(u32::MAX);
        } else if let Some(owner) = known(settings.id) {
            return Err(AddError::IdentifierTaken(Arc::clone(owner)));
        }
        let (key, pools) = lb_state.vacancy();
        let home = Home { owner: self.itself.clone(), shared: Arc::clone(&self.shared) };
        let server = Arc::new(Server::new(key, settings, pools, home, now_ms));
        server.begin_in_maintenance();
        lb_state.add(Arc::clone(&server));
        lb_state.rebuild(now_ms);
        self.publish(lb_state.servers());
        Ok(server)
    }

    /// Lets a server go. Its key finds nothing any more; who refers to it in another way keeps it alive.
    ///
    /// # Errors
    /// When there is no such server, or it is in use.
    pub fn remove(&self, key: ServerKey, now_ms: u64) -> Result<Arc<Server>, RemoveError> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key).ok_or(RemoveError::NoSuchServer)?);
        if !server.admin_state().is_maintenance() {
            return Err(RemoveError::NotInMaintenance);
        }
        // Who takes a slot without this lock sees the version that maintenance made, and gives it back: nobody comes
        // while it goes.
        if !server.is_unused() {
            return Err(RemoveError::InUse);
        }
        if self.followers.load().contains_key(&key) {
            return Err(RemoveError::Followed);
        }
        lb_state.remove(key);
        lb_state.rebuild(now_ms);
        self.publish(lb_state.servers());
        drop(lb_state);
        self.forget_leader(key);
        Ok(server)
    }

    /// Lets time do its part: weights and limits of starting servers grow, which may free slots.
    ///
    /// To be called a few times per second while [`Backend::is_ramping`].
    pub fn tick(&self, now_ms: u64) {
        let mut woken = Vec::new();
        {
            let mut lb_state = self.lb_state.lock();
            lb_state.refresh(now_ms);
            lb_state.hand_out_all(&mut woken);
        }
        wake_all(woken);
    }

    /// Whether some server is in its slow start.
    #[must_use]
    pub fn is_ramping(&self) -> bool {
        self.lb_state.lock().is_ramping()
    }

    fn apply(&self, server: &Server, change: Change, now_ms: u64) -> Result<(), ChangeError> {
        match change {
            Change::Weight(weight) => self.apply_weight(server, weight)?,
            Change::MaximumConnections(maximum) => server.store_maximum_connections(maximum),
            Change::Address(address) => self.apply_address(server, address),
            Change::Resolved(address) => {
                self.apply_address(server, address);
                let admin = server.admin_state().without(AdminState::RESOLUTION_MAINTENANCE);
                apply_admin(server, admin, now_ms);
            }
            Change::Unresolved => {
                self.apply_address(server, ServerAddress::Unknown);
                let admin = server.admin_state().with(AdminState::RESOLUTION_MAINTENANCE);
                apply_admin(server, admin, now_ms);
            }
            Change::State(state) => apply_admin(server, state.apply(server.admin_state()), now_ms),
            Change::Admin { set, clear } => {
                apply_admin(server, server.admin_state().without(clear).with(set), now_ms);
            }
            Change::Health(state) => force_health(server, state, now_ms),
            Change::Agent { up } => force_agent(server, up, now_ms),
        }
        Ok(())
    }

    /// A dynamic cookie follows the address, and who looks for it finds the server by the new one.
    fn apply_address(&self, server: &Server, address: ServerAddress) {
        server.store_address(address);
        server.refresh_cookie();
        self.publish(&self.servers());
    }

    /// Shows readers these servers from now on.
    fn publish(&self, servers: &[Arc<Server>]) {
        self.snapshot.store(Arc::new(ServerSnapshot::new(servers.to_vec())));
    }

    fn apply_weight(&self, server: &Server, change: WeightChange) -> Result<(), ChangeError> {
        let weight = change.apply(server.initial_weight());
        if self.is_static() && weight != 0 && weight != server.initial_weight() {
            return Err(ChangeError::StaticAlgorithm);
        }
        server.store_user_weight(weight);
        Ok(())
    }

    /// Whether the algorithm ignores weight changes other than between nothing and everything.
    #[must_use]
    pub fn is_static(&self) -> bool {
        match &self.shared.settings.algorithm {
            Algorithm::StaticRoundRobin => true,
            algorithm => algorithm.is_hash() && self.shared.settings.hash_type.method == HashMethod::MapBased,
        }
    }

    fn join(
        &self,
        mut lb_state: LockGuard<'_, LbState>,
        queue: QueueOf,
        input: &ChooseInput,
        wake: impl FnOnce() -> Box<dyn Wake>,
        sticky: bool,
    ) -> Choice {
        // The backend is alive: somebody called a method on it.
        let Some(itself) = self.itself.upgrade() else { return Choice::None };
        let stays = sticky || (self.shared.settings.persist && self.shared.settings.redispatch == 0);
        let sticky = stays && queue != QueueOf::Backend;
        let waiter = Arc::new(Waiter::new(wake(), sticky));
        let order = lb_state.enqueue(queue, input, Arc::clone(&waiter));
        let mut woken = Vec::new();
        lb_state.hand_out_at(queue, &mut woken);
        // Settled under the lock or not at all: once it is gone, others may decide, and then the
        // caller has to hear of it.
        let served_at_once = woken.iter().position(|other| Arc::ptr_eq(other, &waiter));
        drop(lb_state);
        if let Some(position) = served_at_once {
            woken.swap_remove(position);
        }
        wake_all(woken);
        let mut waiting = Waiting::new(itself, waiter, queue, order);
        match served_at_once.and_then(|_| waiting.poll()) {
            Some(Outcome::Granted(granted)) => Choice::Server(granted.lease),
            _ => Choice::Wait(waiting),
        }
    }
}

impl Queues for Backend {
    fn leased(&self, key: ServerKey) -> Option<Lease> {
        self.server(key).map(Lease::granted)
    }

    fn abandon(&self, queue: QueueOf, order: Order, waiter: &Waiter) {
        let mut lb_state = self.lb_state.lock();
        if lb_state.leave(queue, order) {
            return;
        }
        drop(lb_state);
        // Decided in the meantime: a granted slot goes to somebody else.
        if let Some(Decision::Granted(key)) = waiter.decision() {
            drop(self.leased(key));
        }
    }
}

impl Owner for Backend {
    fn released(&self, key: ServerKey) {
        let mut woken = Vec::new();
        {
            let mut lb_state = self.lb_state.lock();
            lb_state.load_changed(key);
            lb_state.hand_out_at(QueueOf::Server(key), &mut woken);
        }
        wake_all(woken);
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Backend").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// So often a worker looks again at a farm that changed while it chose; then it queues for the lock.
const LOOKS: u32 = 3;

fn wake_all(waiters: impl IntoIterator<Item = Arc<Waiter>>) {
    for waiter in waiters {
        waiter.wake();
    }
}

/// A changed administrative state, and the operational one that follows.
fn apply_admin(server: &Server, admin: AdminState, now_ms: u64) {
    let before = server.admin_state();
    server.store_admin(admin);
    match (before.is_maintenance(), admin.is_maintenance()) {
        (false, true) => server.set_operational(OperationalState::Stopped, now_ms),
        (true, false) => leave_maintenance(server, now_ms),
        _ if before.is_drain() != admin.is_drain() => server.touch(now_ms),
        _ => {}
    }
}

/// What checks find out from now on says more; until then a server is how it begins.
fn leave_maintenance(server: &Server, now_ms: u64) {
    for check in [server.health(), server.agent()].into_iter().flatten() {
        check.set_level(check.rules().first_level());
    }
    if server.checks_say_up() {
        come_up(server, now_ms);
    }
}

fn apply_health(server: &Server, state: OperationalState, now_ms: u64) {
    let before = server.operational_state(now_ms);
    if server.admin_state().is_maintenance() || before == state {
        return;
    }
    match (before, state) {
        (OperationalState::Stopped, OperationalState::Starting | OperationalState::Running) => {
            come_up(server, now_ms);
        }
        _ => server.set_operational(state, now_ms),
    }
}

/// An operator says how a server is: its check goes on from there.
fn force_health(server: &Server, state: OperationalState, now_ms: u64) {
    if let Some(check) = server.health() {
        check.set_level(if state == OperationalState::Stopped { 0 } else { check.rules().top() });
    }
    apply_health(server, state, now_ms);
}

/// An operator says what the agent would say.
fn force_agent(server: &Server, up: bool, now_ms: u64) {
    let Some(agent) = server.agent() else { return };
    agent.set_level(if up { agent.rules().top() } else { 0 });
    if !up {
        apply_health(server, OperationalState::Stopped, now_ms);
    } else if server.checks_say_up() {
        apply_health(server, OperationalState::Running, now_ms);
    }
}

/// A server is what the one is that it follows: its own wishes of maintenance and drain remain.
fn apply_lead(server: &Server, leader: &Server, now_ms: u64) {
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

fn come_up(server: &Server, now_ms: u64) {
    let slow = server.settings().slow_start_ms > 0;
    let state = if slow { OperationalState::Starting } else { OperationalState::Running };
    server.set_operational(state, now_ms);
}
