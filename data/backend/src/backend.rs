//! The live backend: choosing a server, taking and giving back its slots, and the one door for change.
//!
//! One short lock, the *board*, guards everything that choosing and queueing decide on together: the
//! usable members, the balancing structure and the queues. Nobody sleeps or wakes anybody while
//! holding it. `served` counts live outside, in the servers (see `queue.rs` for why that is safe).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use crate::balance::{Balancer, Farm, Member, Pick, Request};
use crate::figures::{BackendFigures, SharedGauge};
use crate::queue::{Order, Place, Priority, Verdict, WaitQueue, Waiter, Waiting, Wake};
use crate::server::state::{AdminState, OperationalState};
use crate::server::weight::{self, WeightChange};
use crate::server::{Change, Server, ServerKey, raise};
use crate::settings::{Algorithm, BackendSettings, HashMethod, ServerSettings};
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// A backend, shared by all workers.
pub struct Backend {
    settings: BackendSettings,
    roster: ArcSwap<Roster>,
    board: Mutex<Board>,
    signals: Arc<Signals>,
    sessions: SharedGauge,
    figures: BackendFigures,
    queued_maximum: AtomicU32,
    itself: Weak<Backend>,
}

/// What choosing needs to know of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChooseInput {
    /// The hash of the balancing key (see [`crate::hash`]); `None` when the algorithm has no key or
    /// the request does not carry it: then servers take turns.
    pub hash: Option<u32>,
    /// A server to avoid when there is another one (redispatch).
    pub avoid: Option<ServerKey>,
    /// The order in queues.
    pub priority: Priority,
    /// Entropy, for `balance random`.
    pub random: u64,
    /// The time on a monotonic clock.
    pub now_ms: u64,
}

/// What came of choosing.
#[derive(Debug)]
pub enum Choice {
    /// A slot of a server.
    Server(Lease),
    /// No slot yet: a place in a queue.
    Wait(Waiting),
    /// The designated server takes no more waiters (`maxqueue`): choose freely.
    Full,
    /// No server can serve.
    None,
}

impl Backend {
    /// A backend with its servers.
    #[must_use]
    pub fn new(settings: BackendSettings, servers: Vec<ServerSettings>, now_ms: u64) -> Arc<Self> {
        let workers = settings.workers;
        let signals = Arc::new(Signals {
            queued: AtomicU32::new(0),
            load_ordered: settings.algorithm == Algorithm::LeastConnections,
        });
        Arc::new_cyclic(|itself: &Weak<Self>| {
            let servers: Vec<_> = (0u32..)
                .zip(servers)
                .map(|(key, settings)| {
                    let home = Home { backend: Weak::clone(itself), signals: Arc::clone(&signals), workers };
                    Arc::new(Server::new(ServerKey(key), settings, home, now_ms))
                })
                .collect();
            let mut board = Board::new(&settings, servers.clone(), now_ms);
            board.rebuild(&settings, now_ms);
            // Born up or down: no change so far.
            board.downtime_before_ms = 0;
            Self {
                roster: ArcSwap::from_pointee(Roster::new(servers)),
                board: Mutex::new(board),
                signals,
                sessions: SharedGauge::default(),
                figures: BackendFigures::new(settings.workers),
                queued_maximum: AtomicU32::new(0),
                itself: Weak::clone(itself),
                settings,
            }
        })
    }

    /// What it was configured with.
    #[must_use]
    pub fn settings(&self) -> &BackendSettings {
        &self.settings
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// What it counts.
    #[must_use]
    pub fn figures(&self) -> &BackendFigures {
        &self.figures
    }

    /// A stream enters: it counts as the backend's load (`scur`, `fullconn`) until it leaves.
    pub fn enter(&self) {
        self.sessions.enter();
    }

    /// A stream that entered leaves.
    pub fn leave(&self) {
        self.sessions.leave();
    }

    /// Streams inside.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.sessions.value()
    }

    /// The most streams ever inside at once since the last [`Backend::clear_maxima`].
    #[must_use]
    pub fn sessions_maximum(&self) -> u32 {
        self.sessions.highest()
    }

    /// Requests in the backend's own queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.signals.queued.load(Ordering::SeqCst)
    }

    /// The longest that queue has been since the last [`Backend::clear_maxima`].
    #[must_use]
    pub fn queued_maximum(&self) -> u32 {
        self.queued_maximum.load(Ordering::Relaxed)
    }

    /// `clear counters`: maxima start again from what is, here and on the servers.
    pub fn clear_maxima(&self) {
        self.sessions.clear_highest();
        self.queued_maximum.store(self.queued(), Ordering::Relaxed);
        self.servers().iter().for_each(|server| server.clear_maxima());
    }

    /// All servers, by key.
    #[must_use]
    pub fn servers(&self) -> Arc<[Arc<Server>]> {
        Arc::clone(&self.roster.load().servers)
    }

    /// A server by its key.
    #[must_use]
    pub fn server(&self, key: ServerKey) -> Option<Arc<Server>> {
        self.roster.load().servers.get(key.index()).cloned()
    }

    /// A server by its name.
    #[must_use]
    pub fn server_by_name(&self, name: &str) -> Option<Arc<Server>> {
        self.roster.load().servers.iter().find(|server| server.name() == name).cloned()
    }

    /// A server by its numeric identifier.
    #[must_use]
    pub fn server_by_id(&self, id: u32) -> Option<Arc<Server>> {
        self.roster.load().servers.iter().find(|server| server.id() == id).cloned()
    }

    /// The server that a cookie value designates: the first one up with that value, or else the first.
    #[must_use]
    pub fn server_by_cookie(&self, value: &str) -> Option<Arc<Server>> {
        let roster = self.roster.load();
        let servers =
            || roster.by_cookie.get(value).into_iter().flatten().map(|key| &roster.servers[key.index()]);
        servers().find(|server| server.is_up()).or_else(|| servers().next()).cloned()
    }

    /// What operators see of the farm.
    #[must_use]
    pub fn status(&self, now_ms: u64) -> BackendStatus {
        let mut board = lock(&self.board);
        board.refresh(&self.settings, now_ms);
        BackendStatus {
            up: !board.members.is_empty(),
            active: board.active,
            backup: board.backup,
            weight: weight::displayed(board.members.iter().map(|member| member.weight).sum()),
            last_change_ms: board.last_change_ms,
            downtime_ms: board.downtime_ms(now_ms),
        }
    }

    /// Picks a server by the configured algorithm and takes a slot, or joins a queue.
    ///
    /// `wake` is only asked for when there is a queue to join.
    pub fn choose(&self, input: &ChooseInput, wake: impl FnOnce() -> Box<dyn Wake>) -> Choice {
        let mut board = lock(&self.board);
        board.refresh(&self.settings, input.now_ms);
        if board.members.is_empty() {
            return Choice::None;
        }
        // Whoever may go anywhere does not overtake those who already wait to (R167): it joins them,
        // and the hand-out that follows any joining serves the queue's head if there is room.
        let pick = if !self.settings.algorithm.is_hash() && !board.queue.is_empty() {
            Pick::Saturated
        } else {
            board.pick(self, input)
        };
        match pick {
            Pick::Free(member) => Choice::Server(board.occupy(member)),
            Pick::Queue(member) => {
                let key = board.members[member].server.key();
                self.join(board, Place::Server(key), input, wake, false)
            }
            Pick::Saturated => self.join(board, Place::Backend, input, wake, false),
        }
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
        let mut board = lock(&self.board);
        board.refresh(&self.settings, input.now_ms);
        let Some(server) = board.servers.get(key.index()).map(Arc::clone) else { return Choice::None };
        if !server.is_up() && !sticky {
            return Choice::None;
        }
        if board.has_room(self, &server, input.now_ms) {
            return Choice::Server(board.occupy_server(server));
        }
        let maximum = server.settings().maximum_queue;
        if maximum > 0 && server.queued() >= maximum {
            return Choice::Full;
        }
        self.join(board, Place::Server(key), input, wake, sticky)
    }

    /// Takes a slot of a server whatever its limit, as for a connection that exists already.
    #[must_use]
    pub fn force(&self, key: ServerKey) -> Option<Lease> {
        let mut board = lock(&self.board);
        let server = Arc::clone(board.servers.get(key.index())?);
        Some(board.occupy_server(server))
    }

    /// The one door through which a server changes.
    ///
    /// # Errors
    /// When there is no such server or the change is not possible.
    pub fn change(&self, key: ServerKey, change: Change, now_ms: u64) -> Result<(), ChangeError> {
        let mut woken = Vec::new();
        {
            let mut board = lock(&self.board);
            let server = Arc::clone(board.servers.get(key.index()).ok_or(ChangeError::NoSuchServer)?);
            self.apply(&server, change, now_ms)?;
            board.rebuild(&self.settings, now_ms);
            board.redistribute(self, &server, &mut woken);
            board.hand_out_all(self, now_ms, &mut woken);
        }
        wake_all(woken);
        Ok(())
    }

    /// Lets time do its part: weights and limits of starting servers grow, which may free slots.
    ///
    /// To be called a few times per second while [`Backend::is_ramping`].
    pub fn tick(&self, now_ms: u64) {
        let mut woken = Vec::new();
        {
            let mut board = lock(&self.board);
            board.refresh(&self.settings, now_ms);
            board.hand_out_all(self, now_ms, &mut woken);
        }
        wake_all(woken);
    }

    /// Whether some server is in its slow start.
    #[must_use]
    pub fn is_ramping(&self) -> bool {
        lock(&self.board).ramp_step_ms.is_some()
    }

    fn apply(&self, server: &Server, change: Change, now_ms: u64) -> Result<(), ChangeError> {
        match change {
            Change::Weight(weight) => self.apply_weight(server, weight)?,
            Change::MaximumConnections(maximum) => server.store_maximum_connections(maximum),
            Change::Address(address) => server.store_address(address),
            Change::State(state) => apply_admin(server, state.apply(server.admin_state()), now_ms),
            Change::Admin { set, clear } => {
                apply_admin(server, server.admin_state().without(clear).with(set), now_ms);
            }
            Change::Health(state) => apply_health(server, state, now_ms),
        }
        Ok(())
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
        match &self.settings.algorithm {
            Algorithm::StaticRoundRobin => true,
            algorithm => algorithm.is_hash() && self.settings.hash_type.method == HashMethod::MapBased,
        }
    }

    fn join(
        &self,
        mut board: crate::sync::MutexGuard<'_, Board>,
        place: Place,
        input: &ChooseInput,
        wake: impl FnOnce() -> Box<dyn Wake>,
        sticky: bool,
    ) -> Choice {
        // The backend is alive: somebody called a method on it.
        let Some(itself) = self.itself.upgrade() else { return Choice::None };
        let stays = sticky || (self.settings.persist && self.settings.redispatch == 0);
        let sticky = stays && place != Place::Backend;
        let waiter = Arc::new(Waiter::new(wake(), sticky));
        let order = board.enqueue(self, place, input, Arc::clone(&waiter));
        let mut woken = Vec::new();
        match place {
            Place::Server(key) => board.hand_out(self, key, input.now_ms, &mut woken),
            Place::Backend => board.hand_out_members(self, input.now_ms, &mut woken),
        }
        drop(board);
        let mut waiting = Waiting::new(itself, Arc::clone(&waiter), place, order);
        wake_all(woken.into_iter().filter(|other| !Arc::ptr_eq(other, &waiter)));
        match waiting.poll() {
            Some(crate::queue::Outcome::Granted(granted)) => Choice::Server(granted.lease),
            _ => Choice::Wait(waiting),
        }
    }

    /// A waiter gives up.
    pub(crate) fn abandon(&self, place: Place, order: Order, waiter: &Waiter) {
        let mut board = lock(&self.board);
        if board.leave(self, place, order) {
            return;
        }
        drop(board);
        // Decided in the meantime: a granted slot goes to somebody else.
        if let Some(Verdict::Granted(key)) = waiter.verdict() {
            drop(self.server(key).map(Lease::granted));
        }
    }

    /// A slot of `key` came free while somebody waited for it, or while load orders the servers.
    pub(crate) fn released(&self, key: ServerKey) {
        let mut woken = Vec::new();
        {
            let mut board = lock(&self.board);
            let now_ms = board.now_ms;
            board.load_changed(key);
            board.hand_out(self, key, now_ms, &mut woken);
        }
        wake_all(woken);
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Backend").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// What operators see of a farm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// Whether any server can take a new visitor.
    pub up: bool,
    /// Usable servers that are no backups.
    pub active: u32,
    /// Usable backup servers.
    pub backup: u32,
    /// The sum of the weights in use.
    pub weight: u32,
    /// When it last went up or down.
    pub last_change_ms: u64,
    /// How long it has been down in all.
    pub downtime_ms: u64,
}

/// Why a change was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// There is no such server.
    NoSuchServer,
    /// The algorithm is static: only 0 and the configured weight (0% and 100%) are possible.
    StaticAlgorithm,
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NoSuchServer => "no such server",
            Self::StaticAlgorithm => {
                "the backend's balancing algorithm is static and only accepts weights '0%' and '100%'"
            }
        })
    }
}

impl std::error::Error for ChangeError {}

/// A slot of a server, given back on drop.
pub struct Lease {
    server: Arc<Server>,
}

impl Lease {
    /// For a slot that is counted already.
    pub(crate) fn granted(server: Arc<Server>) -> Self {
        Self { server }
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.server.release();
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Lease").field(&self.server.name()).finish()
    }
}

/// What a release looks at before it bothers with the lock.
pub(crate) struct Signals {
    /// Requests in the backend's queue.
    pub(crate) queued: AtomicU32,
    /// Releases move servers in the balancing order.
    pub(crate) load_ordered: bool,
}

/// A server's way back to its backend.
pub(crate) struct Home {
    pub(crate) backend: Weak<Backend>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) workers: usize,
}

#[cfg(test)]
impl Home {
    /// For a server on its own.
    pub(crate) fn nowhere() -> Self {
        let signals = Signals { queued: AtomicU32::new(0), load_ordered: false };
        Self { backend: Weak::new(), signals: Arc::new(signals), workers: 1 }
    }
}

/// The servers as readers see them, replaced as a whole.
struct Roster {
    servers: Arc<[Arc<Server>]>,
    by_cookie: HashMap<String, Vec<ServerKey>>,
}

impl Roster {
    fn new(servers: Vec<Arc<Server>>) -> Self {
        let mut by_cookie: HashMap<String, Vec<ServerKey>> = HashMap::new();
        for server in &servers {
            if let Some(value) = &server.settings().cookie {
                by_cookie.entry(value.clone()).or_default().push(server.key());
            }
        }
        Self { servers: servers.into(), by_cookie }
    }
}

/// What the lock guards.
struct Board {
    servers: Vec<Arc<Server>>,
    /// The queue of each server, by key.
    queues: Vec<WaitQueue>,
    /// The backend's queue.
    queue: WaitQueue,
    /// The servers that take new visitors now.
    members: Vec<Member>,
    /// Where each server is among the members, by key.
    places: Vec<Option<usize>>,
    balancer: Balancer,
    active: u32,
    backup: u32,
    arrivals: u64,
    /// The latest time that anybody told.
    now_ms: u64,
    /// How often weights are computed anew while a server starts.
    ramp_step_ms: Option<u64>,
    ramped_at_ms: u64,
    last_change_ms: u64,
    downtime_before_ms: u64,
}

/// A slow start moves in about this many steps.
const RAMP_STEPS: u64 = 50;

impl Board {
    fn new(settings: &BackendSettings, servers: Vec<Arc<Server>>, now_ms: u64) -> Self {
        Self {
            queues: servers.iter().map(|_| WaitQueue::default()).collect(),
            queue: WaitQueue::default(),
            members: Vec::new(),
            places: vec![None; servers.len()],
            balancer: Balancer::new(settings),
            active: 0,
            backup: 0,
            arrivals: 0,
            now_ms,
            ramp_step_ms: None,
            ramped_at_ms: now_ms,
            last_change_ms: now_ms,
            downtime_before_ms: 0,
            servers,
        }
    }

    /// Takes note of the time; weights grow with it.
    fn refresh(&mut self, settings: &BackendSettings, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        if self.ramp_step_ms.is_some_and(|step| self.now_ms >= self.ramped_at_ms.saturating_add(step)) {
            self.rebuild(settings, now_ms);
        }
    }

    /// Computes anew who is usable, and tells the balancing structure.
    fn rebuild(&mut self, settings: &BackendSettings, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        let now_ms = self.now_ms;
        let was_up = !self.members.is_empty();
        let usable = |backup: bool| {
            self.servers.iter().filter(move |server| server.settings().backup == backup).filter_map(
                move |server| {
                    let weight = server.effective_weight(now_ms);
                    (weight > 0).then(|| Member { server: Arc::clone(server), weight })
                },
            )
        };
        let mut members: Vec<_> = usable(false).collect();
        self.active = count(members.len());
        self.backup = count(usable(true).count());
        if members.is_empty() {
            let wanted = if settings.all_backups { usize::MAX } else { 1 };
            members = usable(true).take(wanted).collect();
        }
        if was_up == members.is_empty() {
            if !was_up {
                self.downtime_before_ms = self.downtime_ms(now_ms);
            }
            self.last_change_ms = now_ms;
        }
        self.members = members;
        self.places.fill(None);
        for (place, member) in self.members.iter().enumerate() {
            self.places[member.server.key().index()] = Some(place);
        }
        self.ramp_step_ms = self.servers.iter().filter_map(|server| ramp_step(server, now_ms)).min();
        self.ramped_at_ms = now_ms;
        self.balancer.rebuild(&self.members);
    }

    fn downtime_ms(&self, now_ms: u64) -> u64 {
        if self.members.is_empty() {
            self.downtime_before_ms.saturating_add(now_ms.saturating_sub(self.last_change_ms))
        } else {
            self.downtime_before_ms
        }
    }

    fn pick(&mut self, backend: &Backend, input: &ChooseInput) -> Pick {
        let farm = Farm {
            members: &self.members,
            backend_load: backend.sessions(),
            full: backend.settings.full_connections,
            now_ms: self.now_ms,
        };
        let avoid = input.avoid.and_then(|key| self.places.get(key.index()).copied().flatten());
        self.balancer.pick(&farm, &Request { hash: input.hash, avoid, random: input.random })
    }

    fn load_changed(&mut self, key: ServerKey) {
        if let Some(member) = self.places[key.index()] {
            self.balancer.load_changed(member, &self.members);
        }
    }

    fn has_room(&self, backend: &Backend, server: &Server, now_ms: u64) -> bool {
        let limit = server.slot_limit(backend.sessions(), backend.settings.full_connections, now_ms);
        limit == u32::MAX || (server.queued() == 0 && server.served() < limit)
    }

    fn occupy(&mut self, member: usize) -> Lease {
        self.occupy_server(Arc::clone(&self.members[member].server))
    }

    fn occupy_server(&mut self, server: Arc<Server>) -> Lease {
        server.occupy();
        self.load_changed(server.key());
        Lease::granted(server)
    }

    fn enqueue(
        &mut self,
        backend: &Backend,
        place: Place,
        input: &ChooseInput,
        waiter: Arc<Waiter>,
    ) -> Order {
        self.arrivals += 1;
        let order = Order::new(input.priority, self.now_ms, self.arrivals);
        self.queue_at(place).insert(order, waiter);
        self.note_length(backend, place);
        order
    }

    fn leave(&mut self, backend: &Backend, place: Place, order: Order) -> bool {
        let left = self.queue_at(place).remove(order);
        self.note_length(backend, place);
        left
    }

    fn queue_at(&mut self, place: Place) -> &mut WaitQueue {
        match place {
            Place::Server(key) => &mut self.queues[key.index()],
            Place::Backend => &mut self.queue,
        }
    }

    /// Publishes a queue's length to those who release slots.
    fn note_length(&mut self, backend: &Backend, place: Place) {
        match place {
            Place::Server(key) => {
                self.servers[key.index()].set_queued(self.queues[key.index()].length());
                self.load_changed(key);
            }
            Place::Backend => {
                let length = self.queue.length();
                backend.signals.queued.store(length, Ordering::SeqCst);
                raise(&backend.queued_maximum, length);
            }
        }
    }

    /// Gives the free slots of one server to those who wait for it or for any server.
    fn hand_out(&mut self, backend: &Backend, key: ServerKey, now_ms: u64, woken: &mut Vec<Arc<Waiter>>) {
        let server = Arc::clone(&self.servers[key.index()]);
        let is_member = self.places[key.index()].is_some();
        let limit = server.slot_limit(backend.sessions(), backend.settings.full_connections, now_ms);
        // Each turn shortens a queue, so this ends.
        while server.is_up() && server.served() < limit {
            let own = self.queues[key.index()].head();
            let shared = if is_member { self.queue.head() } else { None };
            let place = match (own, shared) {
                (None, None) => return,
                (Some(own), Some(shared)) if shared < own => Place::Backend,
                (None, Some(_)) => Place::Backend,
                (Some(_), _) => Place::Server(key),
            };
            let Some(waiter) = self.queue_at(place).serve() else { return };
            server.occupy();
            waiter.decide(&Verdict::Granted(key));
            woken.push(waiter);
            self.note_length(backend, place);
            self.load_changed(key);
        }
    }

    fn hand_out_members(&mut self, backend: &Backend, now_ms: u64, woken: &mut Vec<Arc<Waiter>>) {
        let mut member = 0;
        while member < self.members.len() && !self.queue.is_empty() {
            let key = self.members[member].server.key();
            self.hand_out(backend, key, now_ms, woken);
            member += 1;
        }
    }

    fn hand_out_all(&mut self, backend: &Backend, now_ms: u64, woken: &mut Vec<Arc<Waiter>>) {
        for index in 0..self.servers.len() {
            if !self.queue.is_empty() || !self.queues[index].is_empty() {
                self.hand_out(backend, self.servers[index].key(), now_ms, woken);
            }
        }
    }

    /// After a change of `server`: nobody waits for a server that is gone, nor for a farm that is (R169).
    fn redistribute(&mut self, backend: &Backend, server: &Server, woken: &mut Vec<Arc<Waiter>>) {
        let before = woken.len();
        if !server.is_up() {
            self.queues[server.key().index()].evict(woken);
            self.note_length(backend, Place::Server(server.key()));
        }
        if self.members.is_empty() {
            self.queue.evict(woken);
            self.note_length(backend, Place::Backend);
        }
        for waiter in &woken[before..] {
            waiter.decide(&Verdict::ChooseAgain);
        }
    }
}

/// A changed administrative state, and the operational one that follows.
fn apply_admin(server: &Server, admin: AdminState, now_ms: u64) {
    let before = server.admin_state();
    server.store_admin(admin);
    match (before.is_maintenance(), admin.is_maintenance()) {
        (false, true) => server.set_operational(OperationalState::Stopped, now_ms),
        (true, false) => come_up(server, now_ms),
        _ if before.is_drain() != admin.is_drain() => server.touch(now_ms),
        _ => {}
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

fn come_up(server: &Server, now_ms: u64) {
    let slow = server.settings().slow_start_ms > 0;
    let state = if slow { OperationalState::Starting } else { OperationalState::Running };
    server.set_operational(state, now_ms);
}

fn ramp_step(server: &Server, now_ms: u64) -> Option<u64> {
    let ramp = server.ramp(now_ms);
    (!ramp.is_over()).then(|| (ramp.duration_ms / RAMP_STEPS).max(1))
}

fn wake_all(waiters: impl IntoIterator<Item = Arc<Waiter>>) {
    for waiter in waiters {
        waiter.wake();
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
