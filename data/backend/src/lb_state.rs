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
    /// In the order of the configuration, those that were added last.
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
    /// What workers that choose for themselves see of all that.
    version: Version,
    /// Whether some server's limit follows the backend's load.
    limits_follow_load: bool,
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
    downs: u32,
    watcher: Option<Watcher>,
}

/// Is shown the farm each time it may have changed. It is called under the backend's lock: it must not call the backend.
pub type Watcher = Box<dyn Fn(&FarmView<'_>) + Send + Sync>;

/// A farm as a [`Watcher`] sees it.
#[derive(Debug)]
pub struct FarmView<'f> {
    /// All servers, in the order of the configuration, those that were added last.
    pub servers: &'f [Arc<Server>],
    /// Those that take new visitors now, the one that `balance sticky` uses first.
    pub usable: &'f [Arc<Server>],
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
    /// How often it went from up to down.
    pub downs: u32,
}

/// A server's place.
struct ServerSlot {
    /// Who has it, if anybody does.
    server: Option<Arc<Server>>,
    /// How many servers were added here so far.
    generation: u32,
    /// What is counted of connections to whoever has it.
    pools: &'static IdlePools,
    /// Who waits for the server.
    queue: WaitQueue,
}

impl ServerSlot {
    fn of(server: Arc<Server>) -> Self {
        let generation = server.key().generation();
        Self { generation, pools: server.pools(), server: Some(server), queue: WaitQueue::default() }
    }
}

/// Generations begin anew after so many: nobody keeps a key that long.
const MAX_GENERATION: u32 = i32::MAX as u32;

/// A slow start moves in about this many steps.
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
            last_change_ms: now_ms,
            downtime_before_ms: 0,
            downs: 0,
            watcher: None,
            servers,
            shared,
        };
        lb_state.rebuild(now_ms);
        // Born up or down: no downtime so far.
        lb_state.downtime_before_ms = 0;
        lb_state
    }

    /// Takes note of the time; weights grow with it.
    pub(crate) fn refresh(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        if self.now_ms >= self.refresh_at_ms() {
            self.rebuild(now_ms);
        }
    }

    /// When weights have to be computed anew: some server starts.
    pub(crate) fn refresh_at_ms(&self) -> u64 {
        self.ramp_step_ms.map_or(u64::MAX, |step| self.ramped_at_ms.saturating_add(step))
    }

    /// What the farm is now, to workers that choose for themselves.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The servers that take new visitors now.
    pub(crate) fn members(&self) -> &Arc<Members> {
        &self.members
    }

    /// The structure of the algorithm.
    pub(crate) fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// The turns to come, for workers to draw; none where the algorithm has none.
    pub(crate) fn rotation(&mut self) -> Option<Arc<Rotation>> {
        if self.rotation.as_ref().is_none_or(|rotation| self.shared.turns.is_over(rotation)) {
            self.close_rotation();
            let sequence = self.balancer.give_ahead()?;
            self.rotation = Some(Arc::new(self.shared.turns.begin(sequence)));
        }
        self.rotation.clone()
    }

    /// Nobody draws turns any more, and the balancing structure goes on from the last one that was drawn.
    fn close_rotation(&mut self) {
        if let Some(rotation) = self.rotation.take() {
            let taken = self.shared.turns.close(&rotation);
            self.balancer.take_back(rotation.sequence(), taken);
        }
    }

    /// Computes anew who is usable, and tells the balancing structure and whoever chooses for himself.
    pub(crate) fn rebuild(&mut self, now_ms: u64) {
        self.close_rotation();
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

    /// From now on every worker looks again before it chooses.
    fn publish(&mut self) {
        let ordered_by_load = self.shared.settings.algorithm == Algorithm::LeastConnections;
        let is_free = !ordered_by_load && self.members.list.iter().all(|member| member.server.is_unlimited());
        self.version = self.version.next(is_free);
        self.shared.version.store(self.version.to_number(), Ordering::SeqCst);
        handshake_point();
    }

    /// Takes note of who wants to be shown the farm, and shows it.
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

    /// What operators see of the farm.
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

    /// How a server and its farm are now.
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

    /// A key for a server that is about to be added, and what counts the connections to it.
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

    /// Takes a server in that was made for the current [`LbState::vacancy`].
    pub(crate) fn add(&mut self, server: Arc<Server>) {
        let place = server.key().index();
        match self.slots.get_mut(place) {
            Some(slot) => *slot = ServerSlot::of(Arc::clone(&server)),
            None => self.slots.push(ServerSlot::of(Arc::clone(&server))),
        }
        self.servers.push(server);
    }

    /// Lets a server go that nobody waits for.
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

    /// Which server, if any: nothing is taken yet.
    pub(crate) fn choose(&mut self, input: &ChooseInput) -> Option<Pick> {
        if self.members.list.is_empty() {
            return None;
        }
        // Whoever may go anywhere does not overtake those who already wait to (R167): it joins them,
        // and the hand-out that follows any joining serves the queue's head if there is room.
        if !self.shared.settings.algorithm.is_hash() && !self.queue.is_empty() {
            return Some(Pick::Saturated);
        }
        Some(match self.preferred(input) {
            Some(member) => Pick::Free(member),
            None => self.pick(input),
        })
    }

    /// The member that the session used last, if it may have it again.
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
        self.balancer.pick(&farm, &Request { hash: input.hash, avoid, random: input.random })
    }

    /// Tells the balancing structure that a server serves or keeps waiting more or fewer.
    pub(crate) fn load_changed(&mut self, key: ServerKey) {
        if let Some(member) = self.members.position(key) {
            self.balancer.load_changed(member, &self.members.list);
        }
    }

    /// How many are in the backend, if some limit depends on it: each worker has its own count.
    fn backend_load(&self) -> u32 {
        if self.limits_follow_load { self.shared.figures.inside() } else { 0 }
    }

    fn slot_limit(&self, server: &Server) -> u32 {
        server.slot_limit(self.backend_load(), self.shared.settings.full_connections, self.now_ms)
    }

    /// A slot is free and nobody waits for this very server.
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

    /// Publishes a queue's length to those who release slots.
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

    /// Gives all free slots to whoever waits.
    pub(crate) fn hand_out_all(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        for index in 0..self.servers.len() {
            let key = self.servers[index].key();
            if !self.queue.is_empty() || !self.slots[key.index()].queue.is_empty() {
                self.hand_out(key, woken);
            }
        }
    }

    /// Gives free slots after somebody joined a queue.
    pub(crate) fn hand_out_at(&mut self, queue: QueueOf, woken: &mut Vec<Arc<Waiter>>) {
        match queue {
            QueueOf::Server(key) => self.hand_out(key, woken),
            QueueOf::Backend => self.hand_out_members(woken),
        }
    }

    /// After a change of `server`: nobody waits for a server that is gone, nor for a farm that is (R169).
    pub(crate) fn redistribute(&mut self, server: &Server, woken: &mut Vec<Arc<Waiter>>) {
        let before = woken.len();
        if !server.is_up() {
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
