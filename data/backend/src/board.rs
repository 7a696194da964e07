//! What a backend's lock guards: members, balancing structure and queues, and how they change together.

use std::sync::Arc;

use crate::backend::{BackendStatus, ChooseInput, Lease, Shared};
use crate::balance::{Balancer, Farm, Member, Pick, Request};
use crate::queue::{Order, Place, Verdict, WaitQueue, Waiter};
use crate::server::weight;
use crate::server::{Server, ServerKey, raise};
use crate::sync::{Ordering, handshake_point};

/// What the lock guards.
pub(crate) struct Board {
    shared: Arc<Shared>,
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
    downs: u32,
}

/// A slow start moves in about this many steps.
const RAMP_STEPS: u64 = 50;

impl Board {
    pub(crate) fn new(shared: Arc<Shared>, servers: Vec<Arc<Server>>, now_ms: u64) -> Self {
        let mut board = Self {
            queues: servers.iter().map(|_| WaitQueue::default()).collect(),
            queue: WaitQueue::default(),
            members: Vec::new(),
            places: vec![None; servers.len()],
            balancer: Balancer::new(&shared.settings),
            active: 0,
            backup: 0,
            arrivals: 0,
            now_ms,
            ramp_step_ms: None,
            ramped_at_ms: now_ms,
            last_change_ms: now_ms,
            downtime_before_ms: 0,
            downs: 0,
            servers,
            shared,
        };
        board.rebuild(now_ms);
        // Born up or down: no downtime so far.
        board.downtime_before_ms = 0;
        board
    }

    /// Takes note of the time; weights grow with it.
    pub(crate) fn refresh(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        if self.ramp_step_ms.is_some_and(|step| self.now_ms >= self.ramped_at_ms.saturating_add(step)) {
            self.rebuild(now_ms);
        }
    }

    /// Computes anew who is usable, and tells the balancing structure.
    pub(crate) fn rebuild(&mut self, now_ms: u64) {
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
        self.members = members;
        self.places.fill(None);
        for (place, member) in self.members.iter().enumerate() {
            self.places[member.server.key().index()] = Some(place);
        }
        self.ramp_step_ms = self.servers.iter().filter_map(|server| ramp_step(server, now_ms)).min();
        self.ramped_at_ms = now_ms;
        self.shared.usable.store(count(self.members.len()), Ordering::Relaxed);
        self.balancer.rebuild(&self.members);
    }

    /// What operators see of the farm.
    pub(crate) fn status(&self, now_ms: u64) -> BackendStatus {
        BackendStatus {
            up: !self.members.is_empty(),
            active: self.active,
            backup: self.backup,
            weight: weight::displayed(self.members.iter().map(|member| member.weight).sum()),
            last_change_ms: self.last_change_ms,
            downtime_ms: self.downtime_ms(now_ms),
            downs: self.downs,
        }
    }

    /// A server by its key, and whether there is one.
    pub(crate) fn server(&self, key: ServerKey) -> Option<&Arc<Server>> {
        self.servers.get(key.index())
    }

    /// Whether some server is in its slow start.
    pub(crate) fn is_ramping(&self) -> bool {
        self.ramp_step_ms.is_some()
    }

    fn downtime_ms(&self, now_ms: u64) -> u64 {
        if self.members.is_empty() {
            self.downtime_before_ms.saturating_add(now_ms.saturating_sub(self.last_change_ms))
        } else {
            self.downtime_before_ms
        }
    }

    /// Which server, if any: nothing is taken yet.
    pub(crate) fn choose(&mut self, input: &ChooseInput) -> Option<Pick> {
        if self.members.is_empty() {
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
        let member = self.places.get(input.prefer?.index()).copied().flatten()?;
        let free = !self.shared.settings.algorithm.is_hash() && self.has_room(&self.members[member].server);
        free.then_some(member)
    }

    fn pick(&mut self, input: &ChooseInput) -> Pick {
        let farm = Farm {
            members: &self.members,
            backend_load: self.shared.sessions.value(),
            full: self.shared.settings.full_connections,
            now_ms: self.now_ms,
        };
        let avoid = input.avoid.and_then(|key| self.places.get(key.index()).copied().flatten());
        self.balancer.pick(&farm, &Request { hash: input.hash, avoid, random: input.random })
    }

    /// Tells the balancing structure that a server serves or keeps waiting more or fewer.
    pub(crate) fn load_changed(&mut self, key: ServerKey) {
        if let Some(member) = self.places[key.index()] {
            self.balancer.load_changed(member, &self.members);
        }
    }

    fn slot_limit(&self, server: &Server) -> u32 {
        server.slot_limit(self.shared.sessions.value(), self.shared.settings.full_connections, self.now_ms)
    }

    /// A slot is free and nobody waits for this very server.
    pub(crate) fn has_room(&self, server: &Server) -> bool {
        let limit = self.slot_limit(server);
        limit == u32::MAX || (server.queued() == 0 && server.served() < limit)
    }

    /// Takes a slot of a member, which has room.
    pub(crate) fn occupy(&mut self, member: usize) -> Lease {
        self.occupy_server(Arc::clone(&self.members[member].server))
    }

    /// The key of a member.
    pub(crate) fn member_key(&self, member: usize) -> ServerKey {
        self.members[member].server.key()
    }

    /// Takes a slot of a server.
    pub(crate) fn occupy_server(&mut self, server: Arc<Server>) -> Lease {
        server.occupy();
        self.load_changed(server.key());
        Lease::granted(server)
    }

    /// Joins a queue.
    pub(crate) fn enqueue(&mut self, place: Place, input: &ChooseInput, waiter: Arc<Waiter>) -> Order {
        self.arrivals += 1;
        let order = Order::new(input.priority, self.now_ms, self.arrivals);
        self.queue_at(place).insert(order, waiter);
        self.note_length(place);
        handshake_point();
        order
    }

    /// Leaves a queue; false when the waiter was taken out before.
    pub(crate) fn leave(&mut self, place: Place, order: Order) -> bool {
        let left = self.queue_at(place).remove(order);
        self.note_length(place);
        left
    }

    fn queue_at(&mut self, place: Place) -> &mut WaitQueue {
        match place {
            Place::Server(key) => &mut self.queues[key.index()],
            Place::Backend => &mut self.queue,
        }
    }

    /// Publishes a queue's length to those who release slots.
    fn note_length(&mut self, place: Place) {
        match place {
            Place::Server(key) => {
                self.servers[key.index()].set_queued(self.queues[key.index()].length());
                self.load_changed(key);
            }
            Place::Backend => {
                let length = self.queue.length();
                self.shared.queued.store(length, Ordering::SeqCst);
                raise(&self.shared.queued_maximum, length);
            }
        }
    }

    /// Gives the free slots of one server to those who wait for it or for any server.
    fn hand_out(&mut self, key: ServerKey, woken: &mut Vec<Arc<Waiter>>) {
        let server = Arc::clone(&self.servers[key.index()]);
        let is_member = self.places[key.index()].is_some();
        let limit = self.slot_limit(&server);
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
            self.note_length(place);
            self.load_changed(key);
        }
    }

    /// Gives the free slots of all members to those who wait for any server.
    fn hand_out_members(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        let mut member = 0;
        while member < self.members.len() && !self.queue.is_empty() {
            let key = self.members[member].server.key();
            self.hand_out(key, woken);
            member += 1;
        }
    }

    /// Gives all free slots to whoever waits.
    pub(crate) fn hand_out_all(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        for index in 0..self.servers.len() {
            if !self.queue.is_empty() || !self.queues[index].is_empty() {
                self.hand_out(self.servers[index].key(), woken);
            }
        }
    }

    /// Gives free slots after somebody joined a queue.
    pub(crate) fn hand_out_at(&mut self, place: Place, woken: &mut Vec<Arc<Waiter>>) {
        match place {
            Place::Server(key) => self.hand_out(key, woken),
            Place::Backend => self.hand_out_members(woken),
        }
    }

    /// After a change of `server`: nobody waits for a server that is gone, nor for a farm that is (R169).
    pub(crate) fn redistribute(&mut self, server: &Server, woken: &mut Vec<Arc<Waiter>>) {
        let before = woken.len();
        if !server.is_up() {
            self.queues[server.key().index()].evict(woken);
            self.note_length(Place::Server(server.key()));
        }
        if self.members.is_empty() {
            self.queue.evict(woken);
            self.note_length(Place::Backend);
        }
        for waiter in &woken[before..] {
            waiter.decide(&Verdict::ChooseAgain);
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
