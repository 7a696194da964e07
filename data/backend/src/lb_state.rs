//! The state protected by a backend's lock: members, balancing structure and queues, and how they change together.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::balance::{BalanceRequest, Balancer, Member, Members, Pick, UsableServers};
use crate::choice::ChooseInput;
use crate::idle::IdlePools;
use crate::lease::Lease;
use crate::notice::Situation;
use crate::queue::{Decision, QueueOf, QueuePosition, WaitQueue, Waiter};
use crate::rotation::Rotation;
use crate::server::{Server, weight};
use crate::server_key::ServerKey;
use crate::shared::{BackendVersion, SharedBackend};
use crate::snapshot::{ServerList, ServerSnapshot};
use crate::sync::{Ordering, handshake_point, raise};

/// The state protected by the backend's lock.
pub(crate) struct LbState {
    shared: Arc<SharedBackend>,
    /// All servers. A copy is published to readers after each change.
    pub(crate) servers: ServerSnapshot,
    /// The server slots, by the index of the key.
    slots: Vec<ServerSlot>,
    /// The slots without a server.
    vacant: BTreeSet<u32>,
    queue: WaitQueue,
    /// The servers that take new visitors now.
    members: Arc<Members>,
    balancer: Balancer,
    /// The rotation that workers draw turns from. `None` when closed.
    rotation: Option<Arc<Rotation>>,
    /// The current version, by which workers that choose without the lock notice changes.
    version: BackendVersion,
    /// How many servers have a limit that follows the backend's load.
    followers_of_load: usize,
    /// The numbers of usable servers, without and with the ejected ones.
    tally: ServerTally,
    arrivals: u64,
    /// The latest time that a caller passed.
    now_ms: u64,
    /// Interval at which weights are recomputed during a slow start. `None` without a slow start.
    ramp_step_ms: Option<u64>,
    /// When the members were last computed.
    ramped_at_ms: u64,
    /// Whether servers changed since the members were last computed ([`LbState::follow`]).
    stale: bool,
    /// Whether [`LbState::take_batch_end_ms`] already returned the time for these changes.
    batch_end_is_known: bool,
    /// Until this time, a large backend gives no turns to workers, because it keeps changing. 0 if it is stable.
    restless_until_ms: u64,
    /// When [`LbState::is_tick_due`] was last true.
    ticked_at_ms: u64,
    /// Servers visited so far by loops over all servers. Measures the cost of changes in a large backend.
    visits: u64,
    last_change_ms: u64,
    downtime_before_ms: u64,
    downs: u32,
    watcher: Option<Watcher>,
}

/// Called after each possible change of the backend. It runs under the backend's lock and must not call the backend.
pub type Watcher = Box<dyn Fn(&BackendView<'_>) + Send + Sync>;

/// A backend as a [`Watcher`] sees it.
pub struct BackendView<'f> {
    /// All servers: those of the configuration in its order, then those added at run time.
    pub servers: &'f ServerList,
    /// The servers that take new visitors now. With `balance sticky`, the server in use is first.
    pub usable: &'f [Arc<Server>],
}

/// A backend's status for statistics and the runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendStatus {
    /// Whether any server can take a new visitor.
    pub up: bool,
    /// Usable servers that are not backups.
    pub active: u32,
    pub backup: u32,
    /// The sum of the weights in use.
    pub weight: u32,
    /// When the backend last went up or down.
    pub last_change_ms: u64,
    pub downtime_ms: u64,
    /// How often the backend went from up to down.
    pub downs: u32,
}

struct ServerSlot {
    /// The server in this slot, if any.
    server: Option<Arc<Server>>,
    /// How many servers were added in this slot so far.
    generation: u32,
    /// Connections to the server in this slot.
    pools: Arc<IdlePools>,
    queue: WaitQueue,
}

impl ServerSlot {
    fn of(server: Arc<Server>) -> Self {
        let generation = server.key().generation();
        Self {
            generation,
            pools: Arc::clone(server.pools()),
            server: Some(server),
            queue: WaitQueue::default(),
        }
    }
}

/// Generations restart after this many. No key is kept that long.
const MAX_GENERATION: u32 = i32::MAX as u32;

/// A server's contribution to its backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerStanding {
    /// Whether the server takes new visitors.
    weighs: bool,
    /// Whether the server would take new visitors if it were not ejected.
    would_weigh: bool,
}

impl ServerStanding {
    fn of(server: &Server, now_ms: u64) -> Self {
        let would_weigh = server.weight_if_taken_back(now_ms) > 0;
        Self { weighs: would_weigh && !server.is_ejected(), would_weigh }
    }
}

/// How many servers are usable, active servers first, then backups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ServerTally {
    weighing: [u32; 2],
    would_weigh: [u32; 2],
}

/// The servers that take new visitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serving {
    Actives,
    Backups,
    /// Every server with a weight is ejected, so the ejected servers serve.
    Ejected,
    Nobody,
}

impl ServerTally {
    fn of(servers: &ServerList, now_ms: u64) -> Self {
        let mut tally = Self::default();
        servers.iter().for_each(|server| tally.add(server, ServerStanding::of(server, now_ms)));
        tally
    }

    fn add(&mut self, server: &Server, standing: ServerStanding) {
        let kind = usize::from(server.settings().backup);
        self.weighing[kind] += u32::from(standing.weighs);
        self.would_weigh[kind] += u32::from(standing.would_weigh);
    }

    /// The tally after a server's standing changed.
    fn changed(mut self, server: &Server, before: ServerStanding, after: ServerStanding) -> Self {
        let kind = usize::from(server.settings().backup);
        self.weighing[kind] = self.weighing[kind].saturating_sub(u32::from(before.weighs));
        self.would_weigh[kind] = self.would_weigh[kind].saturating_sub(u32::from(before.would_weigh));
        self.add(server, after);
        self
    }

    fn serving(&self) -> Serving {
        match (self.weighing, self.would_weigh) {
            ([0, 0], [0, 0]) => Serving::Nobody,
            ([0, 0], _) => Serving::Ejected,
            ([0, _], _) => Serving::Backups,
            _ => Serving::Actives,
        }
    }

    /// The usable servers that are not backups, and the backups.
    fn usable(&self) -> [u32; 2] {
        if self.serving() == Serving::Ejected { self.would_weigh } else { self.weighing }
    }
}

/// Whether a server's limit follows the backend's load.
fn follows_load(server: &Server) -> bool {
    server.settings().minimum_connections > 0
}

/// In backends with at least this many servers, changes are batched.
pub(crate) const LARGE_BACKEND: usize = 256;
/// How long changes are batched, in milliseconds. Bounds the delay until a server that comes up gets its first visitor.
const TOGETHER_MS: u64 = 4;
/// After a batch, workers of a large backend choose under its lock for this time in milliseconds. Turns given in advance
/// would be taken back at the next change, and both cost more than a few choices under the lock.
const RESTLESS_MS: u64 = 50;

/// How many turns of departed servers are skipped before the members are computed.
const MOOT_TURNS: usize = 32;

/// Number of steps of a slow start.
const RAMP_STEPS: u64 = 50;

impl LbState {
    pub(crate) fn new(shared: Arc<SharedBackend>, servers: ServerSnapshot, now_ms: u64) -> Self {
        let list = servers.servers().clone();
        let mut lb_state = Self {
            slots: list.iter().map(|server| ServerSlot::of(Arc::clone(server))).collect(),
            vacant: BTreeSet::new(),
            queue: WaitQueue::default(),
            members: Arc::new(Members::new(Vec::new())),
            balancer: Balancer::new(&shared.settings),
            rotation: None,
            version: BackendVersion::default(),
            followers_of_load: list.iter().filter(|server| follows_load(server)).count(),
            tally: ServerTally::of(&list, now_ms),
            arrivals: 0,
            now_ms,
            ramp_step_ms: None,
            ramped_at_ms: now_ms,
            stale: false,
            batch_end_is_known: false,
            restless_until_ms: 0,
            ticked_at_ms: 0,
            visits: 0,
            last_change_ms: now_ms,
            downtime_before_ms: 0,
            downs: 0,
            watcher: None,
            servers,
            shared,
        };
        lb_state.rebuild(now_ms);
        // The initial state, up or down, counts no downtime.
        lb_state.downtime_before_ms = 0;
        lb_state
    }

    /// Advances the time, and recomputes the weights that depend on it.
    pub(crate) fn refresh(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        let is_due = self.stale && self.now_ms >= self.settles_at_ms();
        if is_due || self.now_ms >= self.refresh_at_ms() {
            self.rebuild(now_ms);
        } else if self.restless_until_ms > 0 && !self.stale && self.now_ms >= self.restless_until_ms {
            self.restless_until_ms = 0;
            self.publish();
        }
    }

    /// A server's current contribution. Take it before a change, for [`LbState::follow`].
    pub(crate) fn standing(&self, server: &Server, now_ms: u64) -> ServerStanding {
        ServerStanding::of(server, now_ms)
    }

    /// Counts a change of a server with the previous standing `before` and computes the members. A large backend computes
    /// them once for all changes within some milliseconds, because the computation takes longer than a request may wait and
    /// thousands of servers may change at once. True if free slots of all members must be handed out: the members were computed now,
    /// or requests that avoid the last usable server may not do so any more.
    ///
    /// Until then, choices are made under the lock from the previous members and skip departed servers. This is not possible
    /// when other servers take over.
    pub(crate) fn follow(&mut self, server: &Server, before: ServerStanding, now_ms: u64) -> bool {
        self.now_ms = self.now_ms.max(now_ms);
        let after = ServerStanding::of(server, now_ms);
        let tally = self.tally.changed(server, before, after);
        let serving = tally.serving();
        let takes_over = serving != self.tally.serving() || {
            let is_only_one = serving == Serving::Backups && !self.shared.settings.all_backups;
            let waits = is_only_one && !self.queue.is_empty();
            waits && !after.weighs && self.members.position(server.key()).is_some()
        };
        self.tally = tally;
        if !self.is_large() || takes_over {
            self.rebuild(now_ms);
            return true;
        }
        self.postpone();
        if let Some(member) = self.members.position(server.key()).filter(|_| !self.takes_visitors(server)) {
            self.balancer.leave(member);
        }
        let step = self.ramp_step(server, now_ms);
        self.ramp_step_ms = self.ramp_step_ms.into_iter().chain(step).min();
        self.show_usable();
        self.shared.has_one_usable() && self.queue.has_avoiding()
    }

    /// Postpones the computation of the members. Choices are made under the lock until then.
    fn postpone(&mut self) {
        self.close_rotation();
        self.stale = true;
        self.show_version(false);
    }

    fn is_large(&self) -> bool {
        self.servers.servers().len() >= LARGE_BACKEND
    }

    /// Whether a server takes new visitors, according to the counts.
    fn takes_visitors(&self, server: &Server) -> bool {
        if !self.stale {
            return self.members.position(server.key()).is_some();
        }
        let is_backup = server.settings().backup;
        match self.tally.serving() {
            Serving::Actives => !is_backup && server.effective_weight(self.now_ms) > 0,
            Serving::Backups if self.shared.settings.all_backups => {
                is_backup && server.effective_weight(self.now_ms) > 0
            }
            // Only one backup serves until the members are computed. While requests wait, its change is not postponed.
            Serving::Backups => {
                self.members.position(server.key()).is_some() && server.effective_weight(self.now_ms) > 0
            }
            Serving::Ejected => server.weight_if_taken_back(self.now_ms) > 0,
            Serving::Nobody => false,
        }
    }

    /// When the members must be computed. `Some` once for each batch of changes, and only with a watcher: a watcher cannot
    /// rely on a request to compute them.
    pub(crate) fn take_batch_end_ms(&mut self) -> Option<u64> {
        let is_news = self.stale && self.watcher.is_some() && !self.batch_end_is_known;
        self.batch_end_is_known |= is_news;
        is_news.then(|| self.settles_at_ms())
    }

    fn settles_at_ms(&self) -> u64 {
        self.ramped_at_ms.saturating_add(TOGETHER_MS)
    }

    /// Whether to recompute weights and limits of slow starts and hand out free slots. A large backend does not do this for
    /// each of its checks.
    pub(crate) fn is_tick_due(&mut self, now_ms: u64) -> bool {
        let is_due = !self.is_large() || now_ms >= self.ticked_at_ms.saturating_add(TOGETHER_MS);
        if is_due {
            self.ticked_at_ms = now_ms;
        }
        is_due
    }

    /// Computes the members if their computation was postponed.
    pub(crate) fn settle(&mut self) {
        if self.stale {
            self.rebuild(self.now_ms);
        }
    }

    /// Servers visited so far by loops over all servers.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn visits(&self) -> u64 {
        self.visits
    }

    /// When weights must be recomputed because of a slow start.
    pub(crate) fn refresh_at_ms(&self) -> u64 {
        self.ramp_step_ms.map_or(u64::MAX, |step| self.ramped_at_ms.saturating_add(step))
    }

    /// The version of the backend, for workers that choose without the lock.
    pub(crate) fn version(&self) -> BackendVersion {
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

    /// Turns for workers to draw. `None` if the algorithm does not give turns.
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
    fn rebuild(&mut self, now_ms: u64) {
        self.close_rotation();
        self.now_ms = self.now_ms.max(now_ms);
        if self.stale {
            self.restless_until_ms = self.now_ms.saturating_add(RESTLESS_MS);
        }
        (self.stale, self.batch_end_is_known) = (false, false);
        self.visits += self.servers.servers().len() as u64;
        let now_ms = self.now_ms;
        let was_up = !self.members.list.is_empty();
        debug_assert_eq!(
            self.tally,
            ServerTally::of(self.servers.servers(), now_ms),
            "each change was counted"
        );
        let members = self.find_members();
        if was_up == members.is_empty() {
            if !was_up {
                self.downtime_before_ms = self.downtime_ms(now_ms);
            } else {
                self.downs += 1;
            }
            self.last_change_ms = now_ms;
        }
        self.members = Arc::new(Members::new(members));
        let steps = self.members.list.iter().filter_map(|member| self.ramp_step(&member.server, now_ms));
        self.ramp_step_ms = steps.min();
        self.ramped_at_ms = now_ms;
        self.show_usable();
        self.balancer.rebuild(&self.members.list);
        self.publish();
        self.show();
    }

    /// The servers that take new visitors, and their weights.
    fn find_members(&self) -> Vec<Member> {
        let (former, change) = (&self.members, self.version.to_number());
        let since = |key| former.position(key).map_or(change, |position| former.list[position].since);
        let member = |server: &Arc<Server>, weight: u32| {
            (weight > 0).then(|| Member { server: Arc::clone(server), weight, since: since(server.key()) })
        };
        let usable = |backup: bool| {
            let of_kind =
                self.servers.servers().iter().filter(move |server| server.settings().backup == backup);
            of_kind.filter_map(|server| member(server, server.effective_weight(self.now_ms)))
        };
        match self.tally.serving() {
            Serving::Nobody => Vec::new(),
            Serving::Actives => usable(false).collect(),
            Serving::Backups if self.shared.settings.all_backups => usable(true).collect(),
            Serving::Backups => usable(true).take(1).collect(),
            Serving::Ejected => {
                let taken_back =
                    |server: &Arc<Server>| member(server, server.weight_if_taken_back(self.now_ms));
                self.servers.servers().iter().filter_map(taken_back).collect()
            }
        }
    }

    /// Publishes the number of servers that take new visitors.
    fn show_usable(&self) {
        let [active, backup] = self.tally.usable();
        let usable = match self.tally.serving() {
            Serving::Actives => active,
            Serving::Backups if !self.shared.settings.all_backups => 1,
            _ => active + backup,
        };
        self.shared.usable.store(usable, Ordering::Relaxed);
    }

    /// Interval in milliseconds at which the weight of a server in slow start is recomputed. Longer in a large backend.
    fn ramp_step(&self, server: &Server, now_ms: u64) -> Option<u64> {
        let ramp = server.ramp(now_ms);
        let least = if self.is_large() { TOGETHER_MS } else { 1 };
        (!ramp.is_over()).then(|| (ramp.duration_ms / RAMP_STEPS).max(least))
    }

    /// Raises the version. Every worker refreshes its view before its next choice.
    fn publish(&mut self) {
        let ordered_by_load = self.shared.orders_by_load;
        let is_calm = self.restless_until_ms == 0;
        let is_free = is_calm
            && !ordered_by_load
            && self.members.list.iter().all(|member| member.server.is_unlimited());
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
        watcher(&BackendView { servers: self.servers.servers(), usable: &usable });
    }

    /// The backend's status for statistics and the runtime API.
    pub(crate) fn status(&self, now_ms: u64) -> BackendStatus {
        let [active, backup] = self.tally.usable();
        BackendStatus {
            up: !self.members.list.is_empty(),
            active,
            backup,
            weight: weight::displayed(self.members.list.iter().map(|member| member.weight).sum()),
            last_change_ms: self.last_change_ms,
            downtime_ms: self.downtime_ms(now_ms),
            downs: self.downs,
        }
    }

    /// The usable servers that are not backups, and the backups.
    pub(crate) fn usable_by_kind(&self) -> [u32; 2] {
        self.tally.usable()
    }

    /// The state of a server and its backend.
    pub(crate) fn situation(&self, server: &Server, now_ms: u64) -> Situation {
        let [active, backup] = self.tally.usable();
        Situation {
            admin: server.admin_state(),
            operational: server.operational_state(now_ms),
            queued: server.queued(),
            active,
            backup,
        }
    }

    pub(crate) fn server(&self, key: ServerKey) -> Option<&Arc<Server>> {
        self.slots.get(key.index())?.server.as_ref().filter(|server| server.key() == key)
    }

    /// A key for a server to be added, and the connection counts of its slot.
    pub(crate) fn vacancy(&self) -> (ServerKey, Arc<IdlePools>) {
        match self.vacant.first() {
            Some(place) => {
                let slot = &self.slots[*place as usize];
                (ServerKey::added(*place, slot.generation % MAX_GENERATION + 1), Arc::clone(&slot.pools))
            }
            None => {
                let pools = Arc::new(IdlePools::new(self.shared.settings.workers));
                (ServerKey::added(self.slots.len() as u32, 1), pools)
            }
        }
    }

    /// Adds a server that was created for the current [`LbState::vacancy`]. It is in maintenance, so members and counts stay.
    pub(crate) fn add(&mut self, server: &Arc<Server>) {
        let slot = ServerSlot::of(Arc::clone(server));
        match self.slots.get_mut(server.key().index()) {
            Some(vacant) => *vacant = slot,
            None => self.slots.push(slot),
        }
        self.vacant.remove(&server.key().place());
        self.followers_of_load += usize::from(follows_load(server));
        self.servers.add(Arc::clone(server));
        if self.watcher.is_some() {
            self.rebuild(self.now_ms);
        }
    }

    /// Removes a server that is in maintenance and has an empty queue. Workers drop their handles at the next refresh.
    pub(crate) fn remove(&mut self, server: &Server, now_ms: u64) {
        let slot = &mut self.slots[server.key().index()];
        debug_assert!(slot.queue.is_empty(), "who waits is sent away before");
        slot.server = None;
        self.vacant.insert(server.key().place());
        self.followers_of_load -= usize::from(follows_load(server));
        self.servers.remove(server);
        if self.is_large() && self.watcher.is_none() {
            self.postpone();
        } else {
            self.rebuild(now_ms);
        }
    }

    /// Whether any server is in slow start.
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
        if !self.shared.algorithm.by_key && !self.queue.is_empty() {
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

    /// Whether a choice among possibly outdated members is valid: the member still takes visitors, and a wait for it can end.
    fn holds(&self, pick: Pick) -> bool {
        let takes_visitors = |member: usize| self.takes_visitors(&self.members.list[member].server);
        !self.stale || matches!(pick, Pick::Free(member) | Pick::Queue(member) if takes_visitors(member))
    }

    /// The member that the session used last, if the request may use it again.
    fn preferred(&self, input: &ChooseInput) -> Option<usize> {
        let member = self.members.position(input.prefer?)?;
        let free = !self.shared.algorithm.by_key && self.has_room(&self.members.list[member].server);
        free.then_some(member)
    }

    fn pick(&mut self, input: &ChooseInput) -> Pick {
        self.close_rotation();
        let servers = UsableServers {
            members: &self.members.list,
            backend_load: self.backend_load(),
            full: self.shared.settings.full_connections,
            now_ms: self.now_ms,
        };
        let avoid = input.avoid.and_then(|key| self.members.position(key));
        self.balancer.pick(
            &servers,
            &BalanceRequest { hash: input.hash, avoid, random: input.random, worker: input.worker },
        )
    }

    /// Notifies the balancing structure of a changed number of served or queued requests.
    pub(crate) fn load_changed(&mut self, key: ServerKey) {
        let Some(member) = self.members.position(key) else { return };
        // A member that left is not put back into the order.
        if !self.stale || self.takes_visitors(&self.members.list[member].server) {
            self.balancer.load_changed(member, &self.members.list);
        }
    }

    /// The number of streams in the backend, summed over all workers. 0 if no limit depends on it.
    fn backend_load(&self) -> u32 {
        if self.followers_of_load > 0 { self.shared.counters.inside() } else { 0 }
    }

    fn slot_limit(&self, server: &Server) -> u32 {
        server.slot_limit(self.backend_load(), self.shared.settings.full_connections, self.now_ms)
    }

    /// Whether a slot is free and the server's queue is empty.
    pub(crate) fn has_room(&self, server: &Server) -> bool {
        let limit = self.slot_limit(server);
        limit == u32::MAX || (server.queued() == 0 && server.served() < limit)
    }

    /// Takes a slot of a member that has a free slot.
    pub(crate) fn occupy(&mut self, member: usize) -> Lease {
        self.occupy_server(Arc::clone(&self.members.list[member].server))
    }

    pub(crate) fn member_key(&self, member: usize) -> ServerKey {
        self.members.list[member].server.key()
    }

    /// Whether a server takes new visitors now.
    pub(crate) fn takes_part(&self, key: ServerKey) -> bool {
        self.server(key).is_some_and(|server| self.takes_visitors(server))
    }

    /// The number of servers of the same kind (active or backup) that would take visitors without ejections, and how many of
    /// them are ejected.
    pub(crate) fn peers(&self, server: &Server) -> (u32, u32) {
        let kind = usize::from(server.settings().backup);
        let (total, weighing) = (self.tally.would_weigh[kind], self.tally.weighing[kind]);
        (total, total.saturating_sub(weighing))
    }

    /// Takes a slot of a server.
    pub(crate) fn occupy_server(&mut self, server: Arc<Server>) -> Lease {
        server.occupy();
        self.load_changed(server.key());
        Lease::granted(server)
    }

    /// Joins a queue.
    pub(crate) fn enqueue(
        &mut self,
        queue: QueueOf,
        input: &ChooseInput,
        waiter: Arc<Waiter>,
    ) -> QueuePosition {
        self.arrivals += 1;
        let order = QueuePosition::new(input.priority, self.now_ms, self.arrivals);
        self.queue_at(queue).insert(order, waiter);
        self.note_length(queue);
        handshake_point();
        order
    }

    /// Leaves a queue. False if the waiter was already removed.
    pub(crate) fn leave(&mut self, queue: QueueOf, order: QueuePosition, waiter: &Waiter) -> bool {
        let left = self.queue_at(queue).remove(order, waiter);
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

    /// Gives the free slots of one server to the waiters in its own queue or in the backend's.
    pub(crate) fn hand_out(&mut self, key: ServerKey, woken: &mut Vec<Arc<Waiter>>) {
        let Some(server) = self.server(key).cloned() else { return };
        let is_member = self.takes_visitors(&server);
        let limit = self.slot_limit(&server);
        // The only usable server serves those that would avoid it, too.
        let avoided = (!self.shared.has_one_usable()).then_some(key);
        // Each iteration shortens a queue, so the loop terminates.
        while server.is_up() && server.served() < limit {
            let own = self.slots[key.index()].queue.head(None);
            let shared = if is_member { self.queue.head(avoided) } else { None };
            let (queue, head) = match (own, shared) {
                (None, None) => return,
                (Some(own), Some(shared)) if shared.order < own.order => (QueueOf::Backend, shared),
                (None, Some(shared)) => (QueueOf::Backend, shared),
                (Some(own), _) => (QueueOf::Server(key), own),
            };
            let Some(waiter) = self.queue_at(queue).serve(head) else { return };
            server.occupy();
            waiter.decide(&Decision::Granted(key));
            woken.push(waiter);
            self.note_length(queue);
            self.load_changed(key);
        }
    }

    /// Gives the free slots of all members to the backend's waiters.
    fn hand_out_members(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        // Only a hand-out under this lock changes the queue.
        let servers = self.servers.servers().clone();
        for server in servers.iter() {
            if self.queue.is_empty() {
                break;
            }
            self.hand_out(server.key(), woken);
        }
    }

    /// Gives all free slots to waiters.
    pub(crate) fn hand_out_all(&mut self, woken: &mut Vec<Arc<Waiter>>) {
        let servers = self.servers.servers().clone();
        self.visits += servers.len() as u64;
        for server in servers.iter() {
            let key = server.key();
            if !self.queue.is_empty() || !self.slots[key.index()].queue.is_empty() {
                self.hand_out(key, woken);
            }
        }
    }

    /// Hands out free slots after a request joined a queue.
    pub(crate) fn hand_out_at(&mut self, queue: QueueOf, woken: &mut Vec<Arc<Waiter>>) {
        match queue {
            QueueOf::Server(key) => self.hand_out(key, woken),
            QueueOf::Backend => self.hand_out_members(woken),
        }
    }

    /// Wakes waiters after a change of `server`: none keeps waiting for a server that left or a backend without servers (R169).
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
