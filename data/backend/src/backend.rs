//! The live backend: choosing a server, taking and releasing slots. For changes of servers see `changing.rs`.
//!
//! One lock, held briefly, protects `LbState`: the usable members, the balancing structure and the queues.
//! No thread sleeps or wakes another thread while it holds the lock. Request counts are outside of it, in
//! the servers (see `queue.rs` for why that is safe). If no server has a limit, requests take no lock:
//! each worker chooses by its own view (`view.rs`).

mod changing;
mod ejecting;
mod followers;
#[cfg(all(test, not(loom)))]
mod storms;
mod tracking;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

pub use tracking::TrackMember;

use crate::balance::{Pick, declaration};
use crate::changes::{AddError, RemoveError};
use crate::choice::{Choice, ChooseInput};
use crate::counters::BackendCounters;
use crate::idle::IdlePools;
use crate::lb_state::{BackendStatus, LbState, Watcher};
use crate::lease::Lease;
use crate::persistence::DynamicCookies;
use crate::queue::{Decision, QueueOf, QueuePosition, Waiter, WakeWaiter};
use crate::server::Server;
use crate::server_key::ServerKey;
use crate::settings::{BackendSettings, ServerSettings};
use crate::shared::{BackendVersion, Home, ServerOwner, SharedBackend};
use crate::snapshot::{ServerList, ServerSnapshot};
use crate::sync::{Ordering, handshake_point, raise};
use crate::view::{ViewChoice, WorkerView};
use crate::waiting::{QueueEntry, WaitOutcome, WaiterQueues};
use tracking::ServerTracking;
use weir_sync::{Lock, LockGuard, LockLabel, PerWorker};

/// The name of backends' locks in lock profiles. The state is consistent at each step of a critical section, so a panic
/// of the task that holds the lock (design D8) leaves nothing to repair.
static LABEL: LockLabel = LockLabel::new("BACKEND");

/// The name of the locks of server tracking (`track`) in lock profiles.
static TRACKING: LockLabel = LockLabel::new("TRACKING");

/// A backend, shared by all workers.
pub struct Backend {
    shared: Arc<SharedBackend>,
    snapshot: ArcSwap<ServerSnapshot>,
    lb_state: Lock<LbState>,
    /// Each worker's view is created at its first choice.
    views: PerWorker<Option<Box<WorkerView>>>,
    itself: Weak<Backend>,
    /// Which servers follow which (`track`). Lock order: `lb_state` before this lock.
    tracking: Lock<ServerTracking>,
}

impl Backend {
    /// A backend with its servers.
    ///
    /// # Panics
    /// If the algorithm's word is not one of [`crate::algorithms`].
    #[must_use]
    pub fn new(settings: BackendSettings, servers: Vec<ServerSettings>, now_ms: u64) -> Arc<Self> {
        let views = PerWorker::new(settings.workers, |_| None);
        let algorithm = declaration(settings.algorithm);
        let shared = Arc::new(SharedBackend::new(settings, algorithm));
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let home = || Home { owner: itself.clone(), shared: Arc::clone(&shared) };
            let servers = (0u32..).zip(servers).map(|(rank, settings)| {
                let key = ServerKey::configured(rank);
                let pools = Arc::new(IdlePools::new(shared.settings.workers));
                Arc::new(Server::new(key, settings, pools, home(), now_ms))
            });
            let servers = ServerSnapshot::new(servers);
            let snapshot = ArcSwap::from_pointee(servers.clone());
            let lb_state = LbState::new(Arc::clone(&shared), servers, now_ms);
            Self {
                lb_state: Lock::new(lb_state, &LABEL),
                snapshot,
                views,
                itself: Weak::clone(itself),
                tracking: Lock::new(ServerTracking::default(), &TRACKING),
                shared,
            }
        })
    }

    /// The configuration of the backend.
    #[must_use]
    pub fn settings(&self) -> &BackendSettings {
        &self.shared.settings
    }

    /// The name of the `backend` or `listen` section.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// The backend's counters, one block per worker.
    #[must_use]
    pub fn counters(&self) -> &BackendCounters {
        &self.shared.counters
    }

    /// Counts a stream of this worker in the backend's load (`scur`, `fullconn`) until [`Backend::leave`].
    pub fn enter(&self, worker: usize) {
        if self.shared.counters.enter(worker) {
            raise(&self.shared.sessions_maximum, self.sessions());
        }
    }

    /// Ends the count of a stream that entered on this worker.
    pub fn leave(&self, worker: usize) {
        self.shared.counters.leave(worker);
    }

    /// Streams in the backend.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.shared.counters.inside()
    }

    /// The most concurrent streams since the last [`Backend::clear_maxima`]. Exact with one worker. With several workers a
    /// short peak may be missed.
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

    /// The greatest length of the backend's own queue since the last [`Backend::clear_maxima`].
    #[must_use]
    pub fn queued_maximum(&self) -> u32 {
        self.shared.queued_maximum.load(Ordering::Relaxed)
    }

    /// `clear counters`: maxima restart from the current values, of the backend and its servers.
    pub fn clear_maxima(&self) {
        self.shared.counters.forget_most_inside();
        self.shared.sessions_maximum.store(self.sessions(), Ordering::Relaxed);
        self.shared.queued_maximum.store(self.queued(), Ordering::Relaxed);
        self.servers().iter().for_each(|server| server.clear_maxima());
    }

    /// All servers: those of the configuration in its order, then those added at run time.
    #[must_use]
    pub fn servers(&self) -> ServerList {
        self.snapshot.load().servers().clone()
    }

    /// The server with this key. `None` if it was removed.
    #[must_use]
    pub fn server(&self, key: ServerKey) -> Option<Arc<Server>> {
        self.snapshot.load().get(key).cloned()
    }

    /// Calls `look` with a server. Does not write to a reference count that all workers share.
    pub fn look_at<R>(&self, key: ServerKey, look: impl FnOnce(&Server) -> R) -> Option<R> {
        self.snapshot.load().get(key).map(|server| look(server))
    }

    /// The server in slot `place`. `None` if the slot is vacant.
    #[must_use]
    pub fn server_at(&self, place: usize) -> Option<Arc<Server>> {
        self.snapshot.load().at(place).cloned()
    }

    /// The server with this name, if the backend has it.
    #[must_use]
    pub fn server_by_name(&self, name: &str) -> Option<Arc<Server>> {
        self.snapshot.load().by_name(name).cloned()
    }

    /// A server by its numeric identifier.
    #[must_use]
    pub fn server_by_id(&self, id: u32) -> Option<Arc<Server>> {
        self.snapshot.load().by_id(id).cloned()
    }

    /// The server that a cookie value designates: the first available server with this value, or else the first one.
    #[must_use]
    pub fn server_by_cookie(&self, value: &str) -> Option<Arc<Server>> {
        self.snapshot.load().by_cookie(value).cloned()
    }

    /// Calls `look` with the server of [`Backend::server_by_cookie`]. Does not write to a reference count that all workers share.
    pub fn look_at_cookie<R>(&self, value: &str, look: impl FnOnce(&Server) -> R) -> Option<R> {
        self.snapshot.load().by_cookie(value).map(|server| look(server))
    }

    /// The backend's status for statistics and the runtime API.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> BackendStatus {
        let mut lb_state = self.lb_state.lock();
        lb_state.refresh(now_ms);
        lb_state.settle();
        lb_state.status(now_ms)
    }

    /// How many servers could take a new visitor at the last computation of the members.
    #[must_use]
    pub fn usable_servers(&self) -> u32 {
        self.shared.usable.load(Ordering::Relaxed)
    }

    /// Picks a server by the configured algorithm and takes a slot, or joins a queue.
    ///
    /// `wake` is only called when the request joins a queue.
    pub fn choose(&self, input: &ChooseInput, wake: impl FnOnce() -> Box<dyn WakeWaiter>) -> Choice {
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

    /// Chooses by the worker's own view of the backend. `None` if that is not possible: servers have limits, all workers
    /// share the order, or the backend keeps changing.
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
                ViewChoice::Slot(lease) => lease,
                ViewChoice::Wait => return None,
                ViewChoice::TurnsOver => {
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

    /// Takes a slot of an available server without a limit, unless the algorithm orders servers by load.
    fn take_alone(&self, key: ServerKey, input: &ChooseInput) -> Option<Choice> {
        if self.shared.orders_by_load {
            return None;
        }
        let version = self.version();
        let snapshot = self.snapshot.load();
        let server = snapshot.get(key).filter(|server| server.is_available() && server.is_unlimited())?;
        let mut place = self.views.of(input.worker)?;
        let view = place.get_or_insert_with(|| Box::new(WorkerView::new(&self.shared, input.worker)));
        let lease = view.take(server, &self.shared);
        handshake_point();
        (self.version() == version).then_some(Choice::Server(lease))
    }

    fn version(&self) -> BackendVersion {
        BackendVersion::from_number(self.shared.version.load(Ordering::SeqCst))
    }

    /// Takes a slot of a designated server (persistence, `use-server`), or joins its queue.
    ///
    /// `sticky` requests stay in that queue even when the server goes down, until their timeout.
    pub fn take(
        &self,
        key: ServerKey,
        sticky: bool,
        input: &ChooseInput,
        wake: impl FnOnce() -> Box<dyn WakeWaiter>,
    ) -> Choice {
        if let Some(choice) = self.take_alone(key, input) {
            return choice;
        }
        let mut lb_state = self.lb_state.lock();
        lb_state.refresh(input.now_ms);
        let Some(server) = lb_state.server(key).map(Arc::clone) else { return Choice::None };
        let is_out = !server.is_up() || server.is_ejected() && !lb_state.takes_part(key);
        if is_out && !sticky {
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

    /// Takes a slot of a server regardless of its limit, for example for a connection that exists already.
    #[must_use]
    pub fn force(&self, key: ServerKey) -> Option<Lease> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key)?);
        Some(lb_state.occupy_server(server))
    }

    /// Calls `watcher` with the backend now and after each possible change. Replaces the previous watcher.
    pub fn watch(&self, watcher: Watcher) {
        let mut lb_state = self.lb_state.lock();
        lb_state.settle();
        lb_state.watch(watcher);
    }

    /// Changes the key of dynamic cookies and recomputes the cookies of servers without a configured cookie.
    pub fn change_dynamic_cookies(&self, change: impl FnOnce(&mut DynamicCookies)) {
        let mut lb_state = self.lb_state.lock();
        let mut changed = DynamicCookies::clone(&self.shared.dynamic_cookies.load());
        change(&mut changed);
        self.shared.dynamic_cookies.store(Arc::new(changed));
        for server in lb_state.servers.servers().clone().iter() {
            let former = server.cookie();
            server.refresh_cookie();
            lb_state.servers.change_cookie(server, former);
        }
        self.publish(&lb_state);
    }

    /// Adds a server, in maintenance.
    ///
    /// Without an `id`, the server gets the lowest free one.
    ///
    /// # Errors
    /// If the algorithm does not accept servers at run time, or the name or the `id` is in use.
    pub fn add(&self, mut settings: ServerSettings, now_ms: u64) -> Result<Arc<Server>, AddError> {
        if self.is_static() {
            return Err(AddError::StaticAlgorithm);
        }
        let mut lb_state = self.lb_state.lock();
        if lb_state.servers.by_name(&settings.name).is_some() {
            return Err(AddError::NameTaken);
        }
        if settings.id == 0 {
            settings.id = lb_state.servers.free_id();
        } else if let Some(owner) = lb_state.servers.by_id(settings.id) {
            return Err(AddError::IdentifierTaken(Arc::clone(owner)));
        }
        let (key, pools) = lb_state.vacancy();
        let home = Home { owner: self.itself.clone(), shared: Arc::clone(&self.shared) };
        let server = Arc::new(Server::new(key, settings, pools, home, now_ms));
        server.begin_in_maintenance();
        lb_state.add(&server);
        self.publish(&lb_state);
        Ok(server)
    }

    /// Removes a server. Its key is then unknown. Other references keep the server alive.
    ///
    /// # Errors
    /// When the server does not exist or is in use.
    pub fn remove(&self, key: ServerKey, now_ms: u64) -> Result<Arc<Server>, RemoveError> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key).ok_or(RemoveError::NoSuchServer)?);
        if !server.admin_state().is_maintenance() {
            return Err(RemoveError::NotInMaintenance);
        }
        // Maintenance raised the version. A worker that takes a slot without this lock sees the new version and releases
        // the slot, so no request arrives during the removal.
        if !server.is_unused() {
            return Err(RemoveError::InUse);
        }
        if self.tracking.lock().is_followed(key) {
            return Err(RemoveError::Followed);
        }
        lb_state.remove(&server, now_ms);
        self.publish(&lb_state);
        drop(lb_state);
        self.forget_leader(key);
        Ok(server)
    }

    /// Updates the weights and limits of servers in slow start, which may free slots.
    ///
    /// Call it a few times per second while [`Backend::is_ramping`].
    pub fn tick(&self, now_ms: u64) {
        let mut woken = Vec::new();
        {
            let mut lb_state = self.lb_state.lock();
            if !lb_state.is_tick_due(now_ms) {
                return;
            }
            lb_state.refresh(now_ms);
            lb_state.settle();
            lb_state.hand_out_all(&mut woken);
        }
        wake_all(woken);
    }

    /// Computes the servers that take new visitors, if that was postponed. Call it at the times in
    /// [`BackendNews::batches`](crate::BackendNews::batches).
    pub fn settle(&self) {
        self.lb_state.lock().settle();
    }

    /// The numbers of usable active servers and of usable backups.
    #[must_use]
    pub fn usable_by_kind(&self) -> [u32; 2] {
        self.lb_state.lock().usable_by_kind()
    }

    /// Whether some server is in its slow start.
    #[must_use]
    pub fn is_ramping(&self) -> bool {
        self.lb_state.lock().is_ramping()
    }

    /// Publishes the server list to readers that take no lock.
    fn publish(&self, lb_state: &LbState) {
        self.snapshot.store(Arc::new(lb_state.servers.clone()));
    }

    /// Whether the algorithm ignores weight changes other than between 0 and the configured weight.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.shared.algorithm.has_fixed_weights(&self.shared.settings)
    }

    fn join(
        &self,
        mut lb_state: LockGuard<'_, LbState>,
        queue: QueueOf,
        input: &ChooseInput,
        wake: impl FnOnce() -> Box<dyn WakeWaiter>,
        sticky: bool,
    ) -> Choice {
        // The backend is alive: this is one of its methods.
        let Some(itself) = self.itself.upgrade() else { return Choice::None };
        let stays = sticky || (self.shared.settings.persist && self.shared.settings.redispatch == 0);
        let sticky = stays && queue != QueueOf::Backend;
        let waits_for_others = self.shared.algorithm.waits_for_others && queue == QueueOf::Backend;
        let waiter = Arc::new(Waiter::new(wake(), sticky, input.avoid.filter(|_| waits_for_others)));
        let order = lb_state.enqueue(queue, input, Arc::clone(&waiter));
        let mut woken = Vec::new();
        lb_state.hand_out_at(queue, &mut woken);
        // The decision is read under the lock: after the lock is released another thread may decide, and then
        // the caller must be woken.
        let served_at_once = woken.iter().position(|other| Arc::ptr_eq(other, &waiter));
        drop(lb_state);
        if let Some(position) = served_at_once {
            woken.swap_remove(position);
        }
        wake_all(woken);
        let mut waiting = QueueEntry::new(itself, waiter, queue, order);
        match served_at_once.and_then(|_| waiting.poll()) {
            Some(WaitOutcome::Granted(granted)) => Choice::Server(granted.lease),
            _ => Choice::Wait(waiting),
        }
    }
}

impl WaiterQueues for Backend {
    fn leased(&self, key: ServerKey) -> Option<Lease> {
        self.server(key).map(Lease::granted)
    }

    fn abandon(&self, queue: QueueOf, order: QueuePosition, waiter: &Waiter) {
        let mut lb_state = self.lb_state.lock();
        if lb_state.leave(queue, order, waiter) {
            return;
        }
        drop(lb_state);
        // A slot was granted in the meantime. Dropping the lease hands it to the next waiter.
        if let Some(Decision::Granted(key)) = waiter.decision() {
            drop(self.leased(key));
        }
    }
}

impl ServerOwner for Backend {
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

/// How often a worker tries to choose from its view while the backend changes, before it takes the lock.
const LOOKS: u32 = 3;

fn wake_all(waiters: impl IntoIterator<Item = Arc<Waiter>>) {
    for waiter in waiters {
        waiter.wake();
    }
}
