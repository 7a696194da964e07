//! A live server: the state that all workers share.
//!
//! Reads take no lock. Every change goes through [`Backend::change`](crate::Backend::change), because a change
//! of weight, state or limit also affects the balancing structures and the queues. The fields are atomics
//! written under the backend's lock, except the request counts: workers that choose without the lock keep
//! their own counts (see `view.rs`), and a finished request releases its slot without the lock.

pub mod state;
pub mod weight;

use std::net::IpAddr;
use std::sync::Arc;
use weir_model::ServerPort;

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::address::ServerAddress;
use crate::counters::ServerCounters;
use crate::health::{CheckKind, CheckResult, HealthEffects, Observation, ServerCheck};
use crate::idle::IdlePools;
use crate::server_key::ServerKey;
use crate::settings::{MAXIMUM_WEIGHT, ServerSettings};
use crate::shared::{Home, SharedBackend};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, handshake_point, raise};
use crate::traffic::ServerTraffic;
use state::{AdminState, OperationalState, RequestedState};
use weight::{Ramp, WeightChange};

/// A change of a live server, by an operator, an agent, name resolution or tracking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// `set server weight`, `set weight`, or the response of an agent.
    Weight(WeightChange),
    /// `set server state`, `enable server`, `disable server`.
    State(RequestedState),
    /// Maintenance or drain because of tracking or name resolution: bits to set and bits to clear.
    Admin { set: AdminState, clear: AdminState },
    /// Forces the result of health checks. Ignored in maintenance.
    Health(OperationalState),
    /// Forces the result of the agent check.
    Agent {
        /// Whether it is up.
        up: bool,
    },
    /// `set server addr`, and the port of a service (SRV).
    Address {
        /// The new address. `None` keeps the current one.
        ip: Option<IpAddr>,
        /// The new port. `None` keeps the current one.
        port: Option<ServerPort>,
    },
    /// Name resolution returned an address.
    Resolved {
        ip: IpAddr,
        /// The port, if the DNS response has one. `None` keeps the current port.
        port: Option<ServerPort>,
    },
    /// Name resolution returned no address, or the last valid response expired.
    Unresolved {
        /// The port from now on. `None` keeps the current one.
        port: Option<ServerPort>,
    },
    /// `set maxconn server`. 0 is unlimited.
    MaximumConnections(u32),
}

/// One server of a backend, with its live state.
pub struct Server {
    key: ServerKey,
    settings: ServerSettings,
    address: ArcSwap<ServerAddress>,
    destination_varies: AtomicBool,
    cookie: ArcSwapOption<String>,
    user_weight: AtomicU32,
    maximum_connections: AtomicU32,
    admin: AtomicU8,
    operational: AtomicU8,
    last_change_ms: AtomicU64,
    downtime_ms: AtomicU64,
    downs: AtomicU32,
    /// Slots taken under the lock, and all slots if the algorithm compares the load of all workers.
    served: AtomicU32,
    /// Whether any slot was ever counted per worker, in `counters`.
    counted_apart: AtomicBool,
    pub(crate) queued: AtomicU32,
    served_maximum: AtomicU32,
    queued_maximum: AtomicU32,
    counters: ServerCounters,
    /// The checks, boxed because many servers run without checks.
    health: Option<Box<ServerCheck>>,
    agent: Option<Box<ServerCheck>>,
    /// Consecutive errors of the server's traffic, if it has `observe`.
    errors_in_a_row: AtomicU32,
    /// Traffic statistics. `None` unless `outlier-ejection` or the algorithm needs them.
    traffic: Option<Box<ServerTraffic>>,
    pools: Arc<IdlePools>,
    home: Home,
}

impl Server {
    pub(crate) fn new(
        key: ServerKey,
        mut settings: ServerSettings,
        pools: Arc<IdlePools>,
        home: Home,
        now_ms: u64,
    ) -> Self {
        settings.weight = settings.weight.min(MAXIMUM_WEIGHT);
        let unresolved =
            if settings.unresolved { AdminState::RESOLUTION_MAINTENANCE } else { AdminState::READY };
        let (admin, operational) = if settings.disabled {
            let admin = AdminState::FORCED_MAINTENANCE.with(AdminState::CONFIGURED_MAINTENANCE);
            (admin.with(unresolved), OperationalState::Stopped)
        } else if settings.unresolved {
            (unresolved, OperationalState::Stopped)
        } else if settings.check.is_some_and(|rules| rules.first_level() < rules.rise) {
            (AdminState::READY, OperationalState::Stopped)
        } else {
            (AdminState::READY, OperationalState::Running)
        };
        let server = Self {
            key,
            address: ArcSwap::from_pointee(settings.address.clone()),
            destination_varies: AtomicBool::new(settings.address.follows_client()),
            cookie: ArcSwapOption::from_pointee(settings.cookie.clone()),
            user_weight: AtomicU32::new(settings.weight),
            maximum_connections: AtomicU32::new(settings.maximum_connections),
            admin: AtomicU8::new(admin.bits()),
            operational: AtomicU8::new(operational as u8),
            last_change_ms: AtomicU64::new(now_ms),
            downtime_ms: AtomicU64::new(0),
            downs: AtomicU32::new(0),
            served: AtomicU32::new(0),
            counted_apart: AtomicBool::new(false),
            queued: AtomicU32::new(0),
            served_maximum: AtomicU32::new(0),
            queued_maximum: AtomicU32::new(0),
            counters: ServerCounters::new(home.shared.settings.workers),
            health: settings.check.map(|rules| Box::new(ServerCheck::new(CheckKind::Health, rules))),
            agent: settings.agent.map(|rules| Box::new(ServerCheck::new(CheckKind::Agent, rules))),
            errors_in_a_row: AtomicU32::new(0),
            traffic: {
                // Only `outlier-ejection` and some algorithms need traffic statistics.
                let SharedBackend { settings, algorithm, .. } = &*home.shared;
                let is_weighed = settings.outliers.is_some() || algorithm.weighs_traffic;
                is_weighed.then(|| Box::new(ServerTraffic::new(settings.workers)))
            },
            pools,
            home,
            settings,
        };
        server.refresh_cookie();
        server
    }

    /// The server's key in the backend.
    #[must_use]
    pub fn key(&self) -> ServerKey {
        self.key
    }

    /// The server's numeric identifier.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.settings.id
    }

    /// The name in the configuration and in statistics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// The server's configuration. Values that change at run time have their own methods.
    #[must_use]
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// The server's current address.
    #[must_use]
    pub fn address(&self) -> Arc<ServerAddress> {
        self.address.load_full()
    }

    /// Calls `look` with the server's current address. Does not write to a reference count that all workers share.
    pub fn look_at_address<R>(&self, look: impl FnOnce(&ServerAddress) -> R) -> R {
        look(&self.address.load())
    }

    /// Whether two connections may have different destinations: the address follows the client, or differs from the configured one.
    #[must_use]
    pub fn destination_varies(&self) -> bool {
        self.destination_varies.load(Ordering::Acquire)
    }

    /// The cookie value that designates this server: its `cookie` setting or a dynamic cookie.
    #[must_use]
    pub fn cookie(&self) -> Option<Arc<String>> {
        self.cookie.load_full()
    }

    /// The weight that an operator set, or the configured one.
    #[must_use]
    pub fn user_weight(&self) -> u32 {
        self.user_weight.load(Ordering::Relaxed)
    }

    /// The configured weight, before any change at run time.
    #[must_use]
    pub fn initial_weight(&self) -> u32 {
        self.settings.weight
    }

    /// The current `maxconn`. 0 is unlimited.
    #[must_use]
    pub fn maximum_connections(&self) -> u32 {
        self.maximum_connections.load(Ordering::Relaxed)
    }

    /// The administrative state: maintenance and drain, with their causes.
    #[must_use]
    pub fn admin_state(&self) -> AdminState {
        AdminState::from_bits(self.admin.load(Ordering::Relaxed))
    }

    /// The operational state at `now_ms`: `Starting` ends with the slow start.
    #[must_use]
    pub fn operational_state(&self, now_ms: u64) -> OperationalState {
        match self.recorded_state() {
            OperationalState::Starting if self.ramp(now_ms).is_over() => OperationalState::Running,
            state => state,
        }
    }

    /// Time of the last state change in milliseconds, on the caller's clock.
    #[must_use]
    pub fn last_change_ms(&self) -> u64 {
        self.last_change_ms.load(Ordering::Relaxed)
    }

    /// The server's total downtime in milliseconds, including the current downtime.
    #[must_use]
    pub fn downtime_ms(&self, now_ms: u64) -> u64 {
        let past = self.downtime_ms.load(Ordering::Relaxed);
        if self.recorded_state() == OperationalState::Stopped {
            past.saturating_add(now_ms.saturating_sub(self.last_change_ms()))
        } else {
            past
        }
    }

    /// How often the server went from up to down.
    #[must_use]
    pub fn downs(&self) -> u32 {
        self.downs.load(Ordering::Relaxed)
    }

    /// The progress of the server's slow start.
    #[must_use]
    pub fn ramp(&self, now_ms: u64) -> Ramp {
        if self.recorded_state() != OperationalState::Starting {
            return Ramp::OVER;
        }
        Ramp {
            elapsed_ms: now_ms.saturating_sub(self.last_change_ms()),
            duration_ms: self.settings.slow_start_ms,
        }
    }

    /// The weight that balancing uses, in sixteenths. 0 if the server takes no new visitors.
    #[must_use]
    pub fn effective_weight(&self, now_ms: u64) -> u32 {
        if self.is_ejected() { 0 } else { self.weight_if_taken_back(now_ms) }
    }

    /// The effective weight that the server would have if it were not ejected.
    pub(crate) fn weight_if_taken_back(&self, now_ms: u64) -> u32 {
        let up = matches!(self.recorded_state(), OperationalState::Starting | OperationalState::Running);
        if !up || self.admin_state().is_drain() || self.admin_state().is_maintenance() {
            return 0;
        }
        weight::effective(self.user_weight(), self.ramp(now_ms))
    }

    /// Whether the server is up. It then serves requests that persistence or a rule sends to it.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.recorded_state() != OperationalState::Stopped
    }

    /// Whether the server is up and not ejected.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.is_up() && !self.is_ejected()
    }

    /// Whether the server is ejected because of its traffic (`outlier-ejection`).
    #[must_use]
    pub fn is_ejected(&self) -> bool {
        self.traffic().is_some_and(ServerTraffic::is_ejected)
    }

    /// How often the server was ejected. `None` if the backend does not use `outlier-ejection`.
    #[must_use]
    pub fn ejections(&self) -> Option<u64> {
        self.home.shared.settings.outliers?;
        self.traffic().map(ServerTraffic::ejections)
    }

    pub(crate) fn traffic(&self) -> Option<&ServerTraffic> {
        self.traffic.as_deref()
    }

    /// The average response time that this worker measured, in 1/1024 ms. `None` while unknown.
    pub(crate) fn pace(&self, worker: usize, now_ms: u64) -> Option<u64> {
        self.traffic()?.pace(worker, now_ms)
    }

    /// Whether the server's traffic is observed ([`Backend::observe`](crate::Backend::observe)).
    #[inline]
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.settings.observe.is_some() || self.traffic.is_some()
    }

    /// Requests that hold a slot of this server.
    #[must_use]
    pub fn served(&self) -> u32 {
        let together = self.served.load(Ordering::SeqCst);
        if self.counted_apart.load(Ordering::SeqCst) {
            together.wrapping_add(self.counters.inside())
        } else {
            together
        }
    }

    /// Requests in the server's own queue.
    #[must_use]
    pub fn queued(&self) -> u32 {
        self.queued.load(Ordering::SeqCst)
    }

    /// The most slots ever held at once since the last [`Server::clear_maxima`].
    #[must_use]
    pub fn served_maximum(&self) -> u32 {
        raise(&self.served_maximum, self.served());
        self.served_maximum.load(Ordering::Relaxed)
    }

    /// The greatest length of the server's queue since the last [`Server::clear_maxima`].
    #[must_use]
    pub fn queued_maximum(&self) -> u32 {
        self.queued_maximum.load(Ordering::Relaxed)
    }

    /// `clear counters`: maxima restart from the current values.
    pub fn clear_maxima(&self) {
        self.counters.forget_most_inside();
        self.served_maximum.store(self.served(), Ordering::Relaxed);
        self.queued_maximum.store(self.queued(), Ordering::Relaxed);
    }

    /// The server's counters, one block per worker.
    #[must_use]
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// The health check, if the server has one.
    #[must_use]
    pub fn health(&self) -> Option<&ServerCheck> {
        self.health.as_deref()
    }

    /// The agent check, if the server has one.
    #[must_use]
    pub fn agent(&self) -> Option<&ServerCheck> {
        self.agent.as_deref()
    }

    /// The check of this kind, if the server has one.
    #[must_use]
    pub fn check(&self, kind: CheckKind) -> Option<&ServerCheck> {
        match kind {
            CheckKind::Health => self.health(),
            CheckKind::Agent => self.agent(),
        }
    }

    /// Whether all enabled checks report the server as up.
    pub(crate) fn checks_say_up(&self) -> bool {
        let says_up = |check: &ServerCheck| !check.record().enabled || check.says_up();
        self.health().is_none_or(says_up) && self.agent().is_none_or(says_up)
    }

    /// Records an observation of traffic. True when the consecutive errors reach the limit.
    #[inline]
    pub(crate) fn observe(&self, observation: Observation) -> bool {
        let Some(rules) = &self.settings.observe else { return false };
        // Where responses are observed, a connection alone is not a success.
        let is_ignored =
            if rules.layer7 { observation == Observation::Connected } else { observation.is_layer7() };
        if is_ignored {
            return false;
        }
        if observation.is_well() {
            if self.errors_in_a_row.load(Ordering::Relaxed) > 0 {
                self.errors_in_a_row.store(0, Ordering::Relaxed);
            }
            return false;
        }
        // If several workers count at the same time, only one reaches the limit.
        let count = self.errors_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        let is_enough = count >= rules.limit;
        if is_enough {
            self.errors_in_a_row.store(0, Ordering::Relaxed);
        }
        is_enough
    }

    /// The state that follows from a check's finding, if it differs from the current one.
    pub(crate) fn state_after(&self, step: &HealthEffects, now_ms: u64) -> Option<OperationalState> {
        let now = self.operational_state(now_ms);
        let next = match step.result {
            CheckResult::Failed if step.is_down => OperationalState::Stopped,
            CheckResult::Passed if step.is_up && self.checks_say_up() => match now {
                OperationalState::Starting => OperationalState::Starting,
                _ => OperationalState::Running,
            },
            // A server that is down stays down (manual, "http-check disable-on-404").
            CheckResult::ConditionallyPassed if step.is_up && now != OperationalState::Stopped => {
                OperationalState::Stopping
            }
            _ => now,
        };
        (next != now).then_some(next)
    }

    /// Counts of the used and idle connections to the server. They outlive the server, because a connection may close later.
    #[must_use]
    pub fn pools(&self) -> &Arc<IdlePools> {
        &self.pools
    }

    /// Whether the server does not have any requests, queued requests or connections, used or idle.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        let usage = self.pools.total();
        self.served() == 0 && self.queued() == 0 && usage.used == 0 && usage.idle() == 0
    }

    pub(crate) fn recorded_state(&self) -> OperationalState {
        // The number is always written from this enum.
        OperationalState::from_number(self.operational.load(Ordering::Relaxed))
            .unwrap_or(OperationalState::Stopped)
    }

    /// The number of slots while the backend has `backend_load` requests.
    pub(crate) fn slot_limit(&self, backend_load: u32, full: u32, now_ms: u64) -> u32 {
        weight::slot_limit(
            self.settings.minimum_connections,
            self.maximum_connections(),
            backend_load,
            full,
            self.ramp(now_ms),
        )
    }

    /// Whether the server has neither `maxconn` nor `minconn`. Requests then never wait for it.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.settings.minimum_connections == 0 && self.maximum_connections() == 0
    }

    /// Takes a slot. The caller holds the backend's lock and has found a free slot, or the server is unlimited.
    pub(crate) fn occupy(&self) {
        self.served.fetch_add(1, Ordering::SeqCst);
        raise(&self.served_maximum, self.served());
    }

    /// Takes a slot in a worker's own count. The server is unlimited, or the caller checks for a limit afterwards.
    pub(crate) fn occupy_apart(&self, worker: usize) {
        if !self.counted_apart.load(Ordering::Relaxed) {
            self.counted_apart.store(true, Ordering::SeqCst);
        }
        if self.counters.enter(worker) {
            raise(&self.served_maximum, self.served());
        }
    }

    /// Gives back a slot, from that worker's count or from the shared one. The lock is only taken when a request waits
    /// or the algorithm orders servers by load.
    pub(crate) fn release(&self, worker: Option<usize>) {
        match worker {
            Some(worker) => self.counters.leave(worker),
            None => {
                self.served.fetch_sub(1, Ordering::SeqCst);
            }
        }
        handshake_point();
        let shared = &self.home.shared;
        if (shared.orders_by_load || self.queued() > 0 || shared.queued.load(Ordering::SeqCst) > 0)
            && let Some(owner) = self.home.owner.upgrade()
        {
            owner.released(self.key);
        }
    }

    pub(crate) fn set_queued(&self, queued: u32) {
        self.queued.store(queued, Ordering::SeqCst);
        raise(&self.queued_maximum, queued);
    }

    /// Replaces the given parts of the server's address.
    pub(crate) fn store_address(&self, ip: Option<Option<IpAddr>>, port: Option<ServerPort>) {
        let address = match &*self.address() {
            ServerAddress::Inet { ip: own, port: own_port } => {
                ServerAddress::Inet { ip: ip.unwrap_or(*own), port: port.unwrap_or(*own_port) }
            }
            // Other address families have neither IP address nor port.
            ServerAddress::Unix(_) | ServerAddress::Abstract(_) | ServerAddress::Pair(_) => return,
        };
        let varies = address != self.settings.address || address.follows_client();
        self.address.store(Arc::new(address));
        self.destination_varies.store(varies, Ordering::Release);
    }

    /// Recomputes the dynamic cookie, unless the server has a configured one.
    pub(crate) fn refresh_cookie(&self) {
        if self.settings.cookie.is_none() {
            let cookie = self.home.shared.dynamic_cookies.load().of(&self.address());
            self.cookie.store(cookie.map(Arc::new));
        }
    }

    pub(crate) fn store_user_weight(&self, weight: u32) {
        self.user_weight.store(weight, Ordering::Relaxed);
    }

    pub(crate) fn store_maximum_connections(&self, maximum: u32) {
        self.maximum_connections.store(maximum, Ordering::Relaxed);
    }

    pub(crate) fn store_admin(&self, admin: AdminState) {
        self.admin.store(admin.bits(), Ordering::Relaxed);
    }

    /// Sets a new operational state and updates the times of the last change and of downtime.
    pub(crate) fn set_operational(&self, state: OperationalState, now_ms: u64) {
        if self.recorded_state() == OperationalState::Stopped {
            self.downtime_ms.store(self.downtime_ms(now_ms), Ordering::Relaxed);
        } else if state == OperationalState::Stopped {
            self.downs.store(self.downs() + 1, Ordering::Relaxed);
        }
        self.operational.store(state as u8, Ordering::Relaxed);
        self.last_change_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Starts in maintenance without counting a transition. The checks start when an operator enables them (management
    /// manual, "add server").
    pub(crate) fn begin_in_maintenance(&self) {
        for check in [self.health(), self.agent()].into_iter().flatten() {
            check.record().enabled = false;
        }
        self.store_admin(self.admin_state().with(AdminState::FORCED_MAINTENANCE));
        self.operational.store(OperationalState::Stopped as u8, Ordering::Relaxed);
    }

    /// Restores the state from a previous process without counting a transition. The check continues from its previous level.
    pub(crate) fn restore(
        &self,
        admin: AdminState,
        operational: OperationalState,
        check_level: Option<u32>,
        last_change_ms: u64,
    ) {
        // A server that waits for an address continues to wait.
        let waits = self.admin_state().contains(AdminState::RESOLUTION_MAINTENANCE);
        let admin = if waits { admin.with(AdminState::RESOLUTION_MAINTENANCE) } else { admin };
        let operational = match operational {
            _ if admin.is_maintenance() => OperationalState::Stopped,
            OperationalState::Starting if self.settings.slow_start_ms == 0 => OperationalState::Running,
            state => state,
        };
        if let Some(check) = self.health().filter(|_| !admin.is_maintenance()) {
            let (rise, was) = (check.rules().rise, check_level.unwrap_or(0));
            let is_up = operational != OperationalState::Stopped;
            check.set_level(if is_up { was.max(rise) } else { was.min(rise - 1) });
        }
        self.store_admin(admin);
        self.operational.store(operational as u8, Ordering::Relaxed);
        self.last_change_ms.store(last_change_ms, Ordering::Relaxed);
    }

    pub(crate) fn touch(&self, now_ms: u64) {
        self.set_operational(self.recorded_state(), now_ms);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("key", &self.key).field("name", &self.name()).finish()
    }
}
