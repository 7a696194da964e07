//! What a backend's lock guards: members, balancing structure and queues, and how they change together.

use std::sync::Arc;

use crate::balance::{Balancer, Farm, Member, Members, Pick, Request};
use crate::choice::ChooseInput;
use crate::idle::IdlePools;
use crate::lease::Lease;
use crate::notice::Situation;
use crate::queue::{Decision, Order, QueueOf, WaitQueue, Waiter};
use crate::rotation::Rotation;
use crate::server::{Server, weight};
use crate::server_key::ServerKey;
use crate::settings::Algorithm;
use crate::shared::{Shared, Version};
use crate::sync::{Ordering, handshake_point, raise};

/// What the lock guards.
pub(crate) struct LbState {
    shared: Arc<Shared>,
    /// Those of the configuration in its order, then those added at run time.
    servers: Vec<Arc<Server>>,
    /// The places of servers, by key.
    slots: Vec<ServerSlot>,
    /// The backend's queue.
    queue: WaitQueue,
    /// The servers that take new visitors now.
    members: Arc<Members>,
    balancer: Balancer,
    /// The turns that workers draw, while they do.
    rotation: Option<Arc<Rotation>>,
    /// The current version, by which workers that choose without the lock notice changes.
    version: Version,
    /// Whether some server's limit follows the backend's load.
    limits_follow_load: bool,
    active: u32,
    backup: u32,
    arrivals: u64,
    /// The latest time that a caller passed.
    now_ms: u64,
    /// How often weights are recomputed during a slow start.
    ramp_step_ms: Option<u64>,
    /// When members were last computed.
    ramped_at_ms: u64,
    /// Whether servers changed since then ([`LbState::postpone`]).
    stale: bool,
    rebuilds: u64,
    last_change_ms: u64,
    downtime_before_ms: u64,
    downs: u32,
    watcher: Option<Watcher>,
}

/// Called with the farm each time it may have changed. It runs under the backend's lock: it must not call the backend.
pub type Watcher = Box<dyn Fn(&FarmView<'_>) + Send + Sync>;

/// A farm as a [`Watcher`] sees it.
#[derive(Debug)]
pub struct FarmView<'f> {
    /// All servers: those of the configuration in its order, then those added at run time.
    pub servers: &'f [Arc<Server>],
    /// Those that take new visitors now, the one that `balance sticky` uses first.
    pub usable: &'f [Arc<Server>],
}

/// A backend's status for statistics and the runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// Whether any server can take a new visitor.
    pub up: bool,
    /// Usable servers that are not backups.
    pub active: u32,
    /// Usable backup servers.
    pub backup: u32,
    /// The sum of the weights in use.
    pub weight: u32,
    /// When it last went up or down.
    pub last_change_ms: u64,
    /// Its total downtime.
    pub downtime_ms: u64,
    /// How often it went from up to down.
    pub downs: u32,
}

/// One place for a server.
struct ServerSlot {
    /// The server at this place, if any.
    server: Option<Arc<Server>>,
    /// How many servers were added at this place so far.
    generation: u32,
    /// Connections to the server at this place.
    pools: &'static IdlePools,
    /// The server's queue.
    queue: WaitQueue,
}

impl ServerSlot {
    fn of(server: Arc<Server>) -> Self {
        let generation = server.key().generation();
        Self { generation, pools: server.pools(), server: Some(server), queue: WaitQueue::default() }
    }
}

/// Generations restart after this many; no key is kept that long.
const MAX_GENERATION: u32 = i32::MAX as u32;

/// In farms with at least this many members, changes are batched.
pub(crate) const LARGE_FARM: usize = 256;
/// How long changes are batched, in milliseconds. It bounds the delay until a server that comes up gets its first visitor.
const TOGETHER_MS: u64 = 4;

/// How many turns of servers that left are skipped before members are computed.
const MOOT_TURNS: usize = 32;

/// Number of steps of a slow start.
const RAMP_STEPS: u64 = 50;

impl LbState {
    pub(crate) fn new(shared: Arc<Shared>, servers: Vec<Arc<Server>>, now_ms: u64) -> Self {
        let mut lb_state = Self {
            slots: servers.iter().map(|server| ServerSlot::of(Arc::clone(server))).collect(),
            queue: WaitQueue::default(),
            members: Arc::new(Members::new(Vec::new())),
            balancer: Balancer::new(&shared.settings),
            rotation: None,
            version: Version::default(),
            limits_follow_load: false,
            active: 0,
            backup: 0,
            arrivals: 0,
            now_ms,
            ramp_step_ms: None,
            ramped_at_ms: now_ms,
            stale: false,
            rebuilds: 0,
            last_change_ms: now_ms,
            downtime_before_ms: 0,
            downs: 0,
            watcher: None,
            servers,
            shared,
        };
        lb_state.rebuild(now_ms);
        // Initial state, up or down: no downtime so far.
        lb_state.downtime_before_ms = 0;
        lb_state
    }

    /// Advances the time, and recomputes the weights that depend on it.
    pub(crate) fn refresh(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        let is_due = self.stale && self.now_ms >= self.ramped_at_ms.saturating_add(TOGETHER_MS);
        if is_due || self.now_ms >= self.refresh_at_ms() {
            self.rebuild(now_ms);
        }
    }

    /// Called after a change of a server, `weighed` saying whether its weight was above 0 before: true if the members can be computed
    /// later, once for several changes. In a large farm the computation takes longer than a request may wait, and thousands of servers may
    /// change at once.
    ///
    /// This is only possible where nothing else follows from the change: no request waits, no backups take over, and no weight depends on
    /// time. Meanwhile choices are made under the lock, from the previous members, and skip those that left.
    pub(crate) fn postpone(&mut self, server: &Server, weighed: bool, now_ms: u64) -> bool {
        if server.settings().backup {
            return false;
        }
        let weighs = server.effective_weight(now_ms) > 0;
        let active = match (weighed, weighs) {
            (false, true) => self.active + 1,
            (true, false) => self.active.saturating_sub(1),
            _ => self.active,
        };
        let nobody_waits = self.queue.is_empty() && self.slots[server.key().index()].queue.is_empty();
        let is_possible = self.members.list.len() >= LARGE_FARM
            && self.active > 0
            && active > 0
            && nobody_waits
            && server.settings().slow_start_ms == 0
            && self.shared.settings.outliers.is_none()
            && self.watcher.is_none();
        if !is_possible {
            return false;
        }
        self.close_rotation();
        if let Some(member) = self.members.position(server.key()).filter(|_| !weighs) {
            self.balancer.leave(member);
        }
        (self.active, self.stale) = (active, true);
        self.shared.usable.store(active, Ordering::Relaxed);
        self.show_version(false);
        true
    }

    /// Computes the members if that was postponed.
    pub(crate) fn settle(&mut self) {
        if self.stale {
            self.rebuild(self.now_ms);
        }
    }

    /// How often members were computed.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn rebuilds(&self) -> u64 {
        self.rebuilds
    }

    /// When weights must be recomputed because of a slow start.
    pub(crate) fn refresh_at_ms(&self) -> u64 {
        self.ramp_step_ms.map_or(u64::MAX, |step| self.ramped_at_ms.saturating_add(step))
    }

    /// The version of the farm, for workers that choose without the lock.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The servers that take new visitors now.
    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// The algorithm's structure.
    pub(crate) fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// Turns for workers to draw; none where the algorithm has none.
    pub(crate) fn rotation(&mut self) -> Option<Arc<Rotation>> {
        if self.rotation.as_ref().is_none_or(|rotation| self.shared.turns.is_over(rotation)) {
            self.close_rotation();
            let sequence = self.balancer.give_ahead()?;
            self.rotation = Some(Arc::new(self.shared.turns.begin(sequence)));
        }
        self.rotation.clone()
    }

    /// Ends the rotation: the balancing structure continues after the last turn that was drawn.
    fn close_rotation(&mut self) {
        if let Some(rotation) = self.rotation.take() {
            let taken = self.shared.turns.close(&rotation);
            self.balancer.take_back(rotation.sequence(), taken);
        }
    }

    /// Recomputes the members, and updates the balancing structure and the workers' version.
    pub(crate) fn rebuild(&mut self, now_ms: u64) {
        self.close_rotation();
        (self.stale, self.rebuilds) = (false, self.rebuilds + 1);
        self.now_ms = self.now_ms.max(now_ms);
        let now_ms = self.now_ms;
        let was_up = !self.members.list.is_empty();
        let (former, change) = (Arc::clone(&self.members), self.version.to_number());
        let since = |key| former.position(key).map_or(change, |position| former.list[position].since);
        let usable = |backup: bool| {
            self.servers.iter().filter(move |server| server.settings().backup == backup).filter_map(
                move |server| {
                    let weight = server.effective_weight(now_ms);
                    let since = since(server.key());
                    (weight > 0).then(|| Member { server: Arc::clone(server), weight, since })
                },
            )
        };
        let mut members: Vec<_> = usable(false).collect();
        self.active = count(members.len());
        self.backup = count(usable(true).count());
        if members.is_empty() {
            let wanted = if self.shared.settings.all_backups { usize::MAX } else { 1 };
            members = usable(true).take(wanted).collect();
        }
        if members.is_empty() {
            // No other server is left: ejected servers serve.
            let ejected = self.servers.iter().filter_map(|server| {
                let weight = server.weight_if_taken_back(now_ms);
                (weight > 0).then(|| Member {
                    server: Arc::clone(server),
                    weight,
                    since: since(server.key()),
                })
            });
            members = ejected.collect();
            let backups = members.iter().filter(|member| member.server.settings().backup).count();
            self.active = count(members.len() - backups);
            self.backup = count(backups);
        }
        if was_up == members.is_empty() {
            if !was_up {
                self.downtime_before_ms = self.downtime_ms(now_ms);
            } else {
                self.downs += 1;
            }
            self.last_change_ms = now_ms;
        }
        self.members = Arc::new(Members::new(members));
        self.limits_follow_load = self.servers.iter().any(|server| server.settings().minimum_connections > 0);
        self.ramp_step_ms = self.servers.iter().filter_map(|server| ramp_step(server, now_ms)).min();
        self.ramped_at_ms = now_ms;
        self.shared.usable.store(count(self.members.list.len()), Ordering::Relaxed);
        self.balancer.rebuild(&self.members.list);
        self.publish();
        self.show();
    }

    /// Raises the version: every worker looks at the farm before its next choice.
    fn publish(&mut self) {
        let ordered_by_load = self.shared.settings.algorithm == Algorithm::LeastConnections;
        let is_free = !ordered_by_load && self.members.list.iter().all(|member| member.server.is_unlimited());
        self.show_version(is_free);
    }

    fn show_version(&mut self, is_free: bool) {
        self.version = self.version.next(is_free);
        self.shared.version.store(self.version.to_number(), Ordering::SeqCst);
        handshake_point();
    }

    /// Sets the watcher and calls it.
    pub(crate) fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
        self.show();
    }

    fn show(&self) {
        let Some(watcher) = &self.watcher else { return };
        let member = |member: &usize| Arc::clone(&self.members.list[*member].server);
        let usable: Vec<_> = match self.balancer.order() {
            Some(order) => order.iter().map(member).collect(),
            None => self.members.list.iter().map(|member| Arc::clone(&member.server)).collect(),
        };
        watcher(&FarmView { servers: &self.servers, usable: &usable });
    }

    /// The farm's status for statistics and the runtime API.
    pub(crate) fn status(&self, now_ms: u64) -> BackendStatus {
        BackendStatus {
            up: !self.members.list.is_empty(),
            active: self.active,
            backup: self.backup,
            weight: weight::displayed(self.members.list.iter().map(|member| member.weight).sum()),
            last_change_ms: self.last_change_ms,
            downtime_ms: self.downtime_ms(now_ms),
            downs: self.downs,
        }
    }

    /// The state of a server and its farm.
    pub(crate) fn situation(&self, server: &Server, now_ms: u64) -> Situation {
        Situation {
            admin: server.admin_state(),
            operational: server.operational_state(now_ms),
            queued: server.queued(),
            active: self.active,
            backup: self.backup,
        }
    }

    /// A server by its key.
    pub(crate) fn server(&self, key: ServerKey) -> Option<&Arc<Server>> {
        self.slots.get(key.index())?.server.as_ref().filter(|server| server.key() == key)
    }

    /// All servers in their order.
    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// A key for a server to be added, and the connection counts of its place.
    pub(crate) fn vacancy(&self) -> (ServerKey, &'static IdlePools) {
        match (0..).zip(&self.slots).find(|(_, slot)| slot.server.is_none()) {
            Some((place, slot)) => {
                (ServerKey::added(place, slot.generation % MAX_GENERATION + 1), slot.pools)
            }
            None => {
                (ServerKey::added(self.slots.len() as u32, 1), IdlePools::leak(self.shared.settings.workers))
            }
        }
    }

    /// Adds a server that was created for the current [`LbState::vacancy`].
    pub(crate) fn add(&mut self, server: Arc<Server>) {
        let place = server.key().index();
        match self.slots.get_mut(place) {
            Some(slot) => *slot = ServerSlot::of(Arc::clone(&server)),
            None => self.slots.push(ServerSlot::of(Arc::clone(&server))),
        }
        self.servers.push(server);
    }

    /// Removes a server that nobody waits for.
    pub(crate) fn remove(&mut self, key: ServerKey) {
        debug_assert!(self.slots[key.index()].queue.is_empty(), "who waits is sent away before");
        self.servers.retain(|server| server.key() != key);
        self.slots[key.index()].server = None;
    }

    /// Whether some server is in its slow start.
    pub(crate) fn is_ramping(&self) -> bool {
        self.ramp_step_ms.is_some()
    }

    fn downtime_ms(&self, now_ms: u64) -> u64 {
        if self.members.list.is_empty() {
            self.downtime_before_ms.saturating_add(now_ms.saturating_sub(self.last_change_ms))
        } else {
            self.downtime_before_ms
        }
    }

    /// Chooses a server, if any, without taking a slot.
    pub(crate) fn choose(&mut self, input: &ChooseInput) -> Option<Pick> {
        if self.members.list.is_empty() {
            return None;
        }
        // A request that may use any server does not overtake those that already wait for any (R167): it
        // joins their queue, and the hand-out after each join serves the head of the queue if there is room.
        if !self.shared.settings.algorithm.is_hash() && !self.queue.is_empty() {
            return Some(Pick::Saturated);
        }
        let mut pick = self.pick_preferred(input);
        for _ in 0..MOOT_TURNS {
            if self.holds(pick) {
                return Some(pick);
            }
            let moot = std::mem::replace(&mut pick, self.pick_preferred(input));
            if moot == pick {
                break;
            }
        }
        self.settle();
        Some(self.pick_preferred(input))
    }

    fn pick_preferred(&mut self, input: &ChooseInput) -> Pick {
        match self.preferred(input) {
            Some(member) => Pick::Free(member),
            None => self.pick(input),
        }
    }

    /// Whether a choice among possibly outdated members is valid: the member did not leave, and the wait can end.
    fn holds(&self, pick: Pick) -> bool {
        let takes_visitors =
            |member: usize| self.members.list[member].server.effective_weight(self.now_ms) > 0;
        !self.stale || matches!(pick, Pick::Free(member) if takes_visitors(member))
    }

    /// The member that the session used last, if the request may use it again.
    fn preferred(&self, input: &ChooseInput) -> Option<usize> {
        let member = self.members.position(input.prefer?)?;
        let free =
            !self.shared.settings.algorithm.is_hash() && self.has_room(&self.members.list[member].server);
        free.then_some(member)
    }

    fn pick(&mut self, input: &ChooseInput) -> Pick {
        self.close_rotation();
        let farm = Farm {
            members: &self.members.list,
            backend_load: self.backend_load(),
            full: self.shared.settings.full_connections,
            now_ms: self.now_ms,
        };
        let avoid = input.avoid.and_then(|key| self.members.position(key));
        self.balancer
            .pick(&farm, &Request { hash: input.hash, avoid, random: input.random, worker: input.worker })
    }

    /// Tells the balancing structure that a server's number of served or queued requests changed.
    pub(crate) fn load_changed(&mut self, key: ServerKey) {
        if let Some(member) = self.members.position(key) {
            self.balancer.load_changed(member, &self.members.list);
        }
    }

    /// The number of streams in the backend, if a limit depends on it: it sums the counts of all workers.
    fn backend_load(&self) -> u32 {
        if self.limits_follow_load { self.shared.figures.inside() } else { 0 }
    }

    fn slot_limit(&self, server: &Server) -> u32 {
        server.slot_limit(self.backend_load(), self.shared.settings.full_connections, self.now_ms)
    }

    /// Whether a slot is free and nobody waits for this server.
    pub(crate) fn has_room(&self, server: &Server) -> bool {
        let limit = self.slot_limit(server);
        limit == u32::MAX || (server.queued() == 0 && server.served() < limit)
    }

    /// Takes a slot of a member, which has room.
    pub(crate) fn occupy(&mut self, member: usize) -> Lease {
        self.occupy_server(Arc::clone(&self.members.list[member].server))
    }

    /// The key of a member.
    pub(crate) fn member_key(&self, member: usize) -> ServerKey {
        self.members.list[member].server.key()
    }

    /// Whether a server takes new visitors now.
    pub(crate) fn takes_part(&self, key: ServerKey) -> bool {
        self.members.position(key).is_some()
    }

    /// How many servers of the same kind would take part if none were ejected, and how many of these are ejected.
    pub(crate) fn peers(&self, server: &Server, now_ms: u64) -> (usize, usize) {
        let is_peer = |other: &&Arc<Server>| {
            other.settings().backup == server.settings().backup && other.weight_if_taken_back(now_ms) > 0
        };
        let peers = || self.servers.iter().filter(is_peer);
        (peers().count(), peers().filter(|peer| peer.is_ejected()).count())
    }

    /// Takes a slot of a server.
    pub(crate) fn occupy_server(&mut self, server: Arc<Server>) -> Lease {
        server.occupy();
        self.load_changed(server.key());
        Lease::granted(server)
    }

    /// Joins a queue.
    pub(crate) fn enqueue(&mut self, queue: QueueOf, input: &ChooseInput, waiter: Arc<Waiter>) -> Order {
        self.arrivals += 1;
        let order = Order::new(input.priority, self.now_ms, self.arrivals);
        self.queue_at(queue).insert(order, waiter);
        self.note_length(queue);
        handshake_point();
        order
    }

    /// Leaves a queue; false when the waiter was taken out before.
    pub(crate) fn leave(&mut self, queue: QueueOf, order: Order) -> bool {
        let left = self.queue_at(queue).remove(order);
        self.note_length(queue);
        left
    }

    fn queue_at(&mut self, queue: QueueOf) -> &mut WaitQueue {
        match queue {
            QueueOf::Server(key) => &mut self.slots[key.index()].queue,
            QueueOf::Backend => &mut self.queue,
        }
    }

    /// Publishes a queue's length to the threads that release slots.
    fn note_length(&mut self, queue: QueueOf) {
        match queue {
            QueueOf::Server(key) => {
                let slot = &self.slots[key.index()];
                if let Some(server) = &slot.server {
                    server.set_queued(slot.queue.length());
                }
                self.load_changed(key);
            }
            QueueOf::Backend => {
                let length = self.queue.length();
                self.shared.queued.store(length, Ordering::SeqCst);
                raise(&self.shared.queued_maximum, length);
            }
        }
    }

    /// Gives the free slots of one server to those who wait for it or for any server.
    fn hand_out(&mut self, key: ServerKey, woken: &mut Vec<Arc<Waiter>>) {
        let Some(server) = self.server(key).cloned() else { return };
        let is_member = self.members.position(key).is_some();
        let limit = self.slot_limit(&server);
        // Each turn shortens a queue, so this ends.
        while server.is_up() && server.served() < limit {
            let own = self.slots[key.index()].queue.head();
            let shared = if is_member { self.queue.head() } else { None };
            let queue = match (own, shared) {
                (None, None) => return,
                (Some(own), Some(shared)) if shared < own => QueueOf::Backend,
                (None, Some(_)) => QueueOf::Backend,
                (Some(_), _) => QueueOf::Server(key),
            };
            let Some(waiter) = self.queue_at(queue).serve() else { return };
            server.occupy();
            waiter.decide(&Decision::Granted(key));
            woken.push(waiter);
            self.note_length(queue);
            self.load_changed(key);
        }
    }

    /// Gives the free slots of all members to those who wait for any server.
    fn hand_out_members(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        let mut member = 0;
        while member < self.members.list.len() && !self.queue.is_empty() {
            let key = self.members.list[member].server.key();
            self.hand_out(key, woken);
            member += 1;
        }
    }

    /// Gives all free slots to waiters.
    pub(crate) fn hand_out_all(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        for index in 0..self.servers.len() {
            let key = self.servers[index].key();
            if !self.queue.is_empty() || !self.slots[key.index()].queue.is_empty() {
                self.hand_out(key, woken);
            }
        }
    }

    /// Hands out free slots after a request joined a queue.
    pub(crate) fn hand_out_at(&mut self, queue: QueueOf, woken: &mut Vec<Arc<Waiter>>) {
        if !self.queue.is_empty() {
            self.settle();
        }
        match queue {
            QueueOf::Server(key) => self.hand_out(key, woken),
            QueueOf::Backend => self.hand_out_members(woken),
        }
    }

    /// After a change of `server`: no request keeps waiting for a server that is gone, nor for a farm without servers (R169).
    pub(crate) fn redistribute(&mut self, server: &Server, woken: &mut Vec<Arc<Waiter>>) {
        let before = woken.len();
        let is_out = server.is_ejected() && !self.takes_part(server.key());
        if !server.is_up() || is_out {
            self.slots[server.key().index()].queue.evict(woken);
            self.note_length(QueueOf::Server(server.key()));
        }
        if self.members.list.is_empty() {
            self.queue.evict(woken);
            self.note_length(QueueOf::Backend);
        }
        for waiter in &woken[before..] {
            waiter.decide(&Decision::ChooseAgain);
        }
    }
}

fn ramp_step(server: &Server, now_ms: u64) -> Option<u64> {
    let ramp = server.ramp(now_ms);
    (!ramp.is_over()).then(|| (ramp.duration_ms / RAMP_STEPS).max(1))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
