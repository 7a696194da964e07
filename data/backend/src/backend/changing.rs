//! Changes of a server by operators, checks, agents and name resolution, and their consequences. Ejections because of
//! traffic are in `ejecting.rs`, with the same consequences.

use std::net::IpAddr;
use std::sync::Arc;
use weir_model::{OnError, ServerPort};

use super::followers::apply_lead;
use super::{Backend, wake_all};
use crate::changes::{ChangeError, FormerState};
use crate::event::{CheckReport, ServerEvent, ServerEventKind};
use crate::health::{CheckFinding, CheckKind, CheckStatus, Observation};
use crate::lb_state::{LbState, ServerStanding};
use crate::notice::{
    self, BackendNews, BackendNotice, BatchEnd, MailLevel, Passage, Reason, Situation, Transition, Urgency,
};
use crate::queue::Waiter;
use crate::server::state::{AdminState, OperationalState, RequestedState};
use crate::server::weight::WeightChange;
use crate::server::{Server, ServerChange};
use crate::server_key::ServerKey;
use crate::traffic::TrafficSample;

impl Backend {
    /// Changes a server.
    ///
    /// # Errors
    /// If the server does not exist or the change is not possible.
    pub fn change(&self, key: ServerKey, change: ServerChange, now_ms: u64) -> Result<(), ChangeError> {
        self.change_for(key, change, Reason::Operator, now_ms).map(drop)
    }

    /// Changes a server for a reason and returns the news for the logs. Servers that track this one change with it.
    ///
    /// # Errors
    /// If the server does not exist or the change is not possible.
    pub fn change_for(
        &self,
        key: ServerKey,
        change: ServerChange,
        reason: Reason,
        now_ms: u64,
    ) -> Result<BackendNews, ChangeError> {
        let mut news = BackendNews::default();
        if self.alter(key, &reason, now_ms, &mut news, |server| self.apply(server, change, now_ms))? {
            self.lead(key, now_ms, &mut news);
        }
        Ok(news)
    }

    /// Applies a check's finding to the state of the server and of the servers that track it.
    pub fn report(&self, key: ServerKey, kind: CheckKind, finding: CheckFinding, now_ms: u64) -> BackendNews {
        let mut news = BackendNews::default();
        let Some(server) = self.server(key) else { return news };
        let Some(check) = server.check(kind) else { return news };
        let step = check.learn(finding.clone());
        let says_all = self.settings().log_health_checks;
        // HAProxy logs the changes of an agent, but not a response without a health keyword.
        let is_news = step.is_news && finding.status != CheckStatus::Checked;
        let report = CheckReport::new(check, kind, &finding);
        if is_news {
            let (proxy, server) = (self.settings().place, Arc::clone(&server));
            news.events.push(ServerEvent { proxy, server, kind: ServerEventKind::Check(report) });
        }
        if says_all && is_news {
            news.notices.push(BackendNotice {
                proxy: self.settings().place,
                urgency: Urgency::Notice,
                mail: Some(MailLevel::Info),
                text: notice::check_line(self.name(), &server, kind, check, &finding),
            });
        }
        let Some(state) = server.state_after(&step, now_ms) else { return news };
        let reason = if says_all { Reason::Said } else { Reason::Found(finding) };
        let apply = |server: &Server| {
            apply_health(server, state, now_ms);
            Ok(())
        };
        // If the server was removed in the meantime, there is nothing to report.
        if let Ok(true) = self.alter(key, &reason, now_ms, &mut news, apply) {
            if let Some(ServerEventKind::State { check, .. }) =
                news.events.last_mut().map(|event| &mut event.kind)
            {
                *check = Some(report);
            }
            self.lead(key, now_ms, &mut news);
        }
        news
    }

    /// Records an observation of traffic (`observe`, `outlier-ejection`, `balance latency`). `None` if nothing changed.
    #[inline]
    pub fn observe(&self, server: &Server, seen: TrafficSample, now_ms: u64) -> Option<BackendNews> {
        let observation = seen.observation;
        let news = server.observe(observation).then(|| self.conclude(server, observation, now_ms));
        let Some(traffic) = server.traffic() else { return news };
        match (news, self.weigh(server, traffic, seen, now_ms)) {
            (Some(mut news), Some(more)) => {
                news.extend(more);
                Some(news)
            }
            (news, more) => news.or(more),
        }
    }

    /// Applies `on-error` after too many consecutive errors.
    #[cold]
    fn conclude(&self, server: &Server, observation: Observation, now_ms: u64) -> BackendNews {
        let (Some(check), Some(rules)) = (server.health(), server.settings().observe) else {
            return BackendNews::default();
        };
        check.hurry();
        let rise = check.rules().rise;
        let level = check.record().level;
        match rules.consequence {
            OnError::FastInterval => return BackendNews::default(),
            OnError::FailCheck => {}
            OnError::SuddenDeath => check.set_level(level.min(rise + 1)),
            OnError::MarkDown => check.set_level(level.min(rise)),
        }
        check.record().observed_failures += 1;
        let detail = format!(
            "Detected {} consecutive errors, last one was: {}",
            rules.limit,
            observation.description()
        );
        let finding = CheckFinding { detail: detail.into(), ..CheckFinding::new(CheckStatus::Observed) };
        self.report(server.key(), CheckKind::Health, finding, now_ms)
    }

    /// Changes a server under the lock. True if the servers that track it must be updated ([`Backend::lead`]).
    pub(super) fn alter(
        &self,
        key: ServerKey,
        reason: &Reason,
        now_ms: u64,
        news: &mut BackendNews,
        apply: impl FnOnce(&Server) -> Result<(), ChangeError>,
    ) -> Result<bool, ChangeError> {
        let leader = self.leader_of(key);
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key).ok_or(ChangeError::NoSuchServer)?);
        let before = lb_state.situation(&server, now_ms);
        let standing = lb_state.standing(&server, now_ms);
        let (cookie, address) = (server.cookie(), server.address());
        apply(&server)?;
        self.follow_cookie(&mut lb_state, &server, cookie);
        if server.look_at_address(|now| *now != *address) {
            let (proxy, server) = (self.settings().place, Arc::clone(&server));
            news.events.push(ServerEvent { proxy, server, kind: ServerEventKind::Address });
        }
        let returns = before.admin.is_maintenance() && !server.admin_state().is_maintenance();
        if let Some(leader) = leader.filter(|_| returns) {
            // A server that tracks another runs no checks.
            apply_lead(&server, &leader, now_ms);
        }
        let is_another =
            (before.admin, before.operational) != (server.admin_state(), server.operational_state(now_ms));
        if matches!(reason, Reason::Follows(_)) && !is_another {
            return Ok(false);
        }
        let woken = self.follow_up(&mut lb_state, &server, (before, standing), reason, now_ms, news);
        drop(lb_state);
        wake_all(woken);
        Ok(is_another)
    }

    /// Applies the consequences of a server's change: recomputes members, hands free slots to waiters and makes log lines.
    /// Returns the waiters to wake after the lock is released.
    pub(super) fn follow_up(
        &self,
        lb_state: &mut LbState,
        server: &Arc<Server>,
        (before, standing): (Situation, ServerStanding),
        reason: &Reason,
        now_ms: u64,
        news: &mut BackendNews,
    ) -> Vec<Arc<Waiter>> {
        let mut woken = Vec::new();
        let concerns_all = lb_state.follow(server, standing, now_ms);
        lb_state.redistribute(server, &mut woken);
        if concerns_all {
            lb_state.hand_out_all(&mut woken);
        } else {
            lb_state.hand_out(server.key(), &mut woken);
        }
        let batch_end = lb_state.take_batch_end_ms();
        news.batches.extend(batch_end.map(|at_ms| BatchEnd { proxy: self.settings().place, at_ms }));
        let after = lb_state.situation(server, now_ms);
        let settings = self.settings();
        let transition = Transition {
            proxy: settings.place,
            backend: self.name(),
            is_listen: settings.is_listen,
            server,
            before,
            after,
            waiting: self.queued(),
            reason,
        };
        news.notices.extend(transition.lines());
        let event = |kind| ServerEvent { proxy: settings.place, server: Arc::clone(server), kind };
        news.events.extend(transition.events().map(event));
        let was_up = before.operational != OperationalState::Stopped;
        let is_up = after.operational != OperationalState::Stopped;
        if was_up != is_up {
            news.passages.push(Passage { proxy: settings.place, server: Arc::clone(server), is_up });
        }
        woken
    }

    /// Restores a server's state from a previous process. The server must be unused.
    ///
    /// # Errors
    /// If the server does not exist.
    pub fn restore(&self, key: ServerKey, former: FormerState, now_ms: u64) -> Result<(), ChangeError> {
        let mut lb_state = self.lb_state.lock();
        let server = Arc::clone(lb_state.server(key).ok_or(ChangeError::NoSuchServer)?);
        let (standing, cookie) = (lb_state.standing(&server, now_ms), server.cookie());
        if let Some(weight) = former.weight {
            self.apply_weight(&server, WeightChange::Absolute(weight))?;
        }
        if former.port.is_some() {
            apply_address(&server, None, former.port);
        }
        server.restore(former.admin, former.operational, former.check_level, former.last_change_ms);
        self.follow_cookie(&mut lb_state, &server, cookie);
        lb_state.follow(&server, standing, now_ms);
        Ok(())
    }

    fn apply(&self, server: &Server, change: ServerChange, now_ms: u64) -> Result<(), ChangeError> {
        match change {
            ServerChange::Weight(weight) => self.apply_weight(server, weight)?,
            ServerChange::MaximumConnections(maximum) => server.store_maximum_connections(maximum),
            ServerChange::Address { ip, port } => apply_address(server, ip.map(Some), port),
            ServerChange::Resolved { ip, port } => {
                apply_address(server, Some(Some(ip)), port);
                let admin = server.admin_state().without(AdminState::RESOLUTION_MAINTENANCE);
                apply_admin(server, admin, now_ms);
            }
            ServerChange::Unresolved { port } => {
                apply_address(server, Some(None), port);
                let admin = server.admin_state().with(AdminState::RESOLUTION_MAINTENANCE);
                apply_admin(server, admin, now_ms);
            }
            ServerChange::State(state) => {
                if let (RequestedState::Ready, Some(traffic)) = (state, server.traffic())
                    && traffic.is_ejected()
                {
                    traffic.end_ejection(now_ms);
                }
                apply_admin(server, state.apply(server.admin_state()), now_ms);
            }
            ServerChange::Admin { set, clear } => {
                apply_admin(server, server.admin_state().without(clear).with(set), now_ms);
            }
            ServerChange::Health(state) => force_health(server, state, now_ms),
            ServerChange::Agent { up } => force_agent(server, up, now_ms),
        }
        Ok(())
    }

    /// Updates the cookie index if the change gave the server another cookie.
    fn follow_cookie(&self, lb_state: &mut LbState, server: &Server, former: Option<Arc<String>>) {
        if server.cookie() != former {
            lb_state.servers.change_cookie(server, former);
            self.publish(lb_state);
        }
    }

    fn apply_weight(&self, server: &Server, change: WeightChange) -> Result<(), ChangeError> {
        let weight = change.apply(server.initial_weight());
        if self.is_static() && weight != 0 && weight != server.initial_weight() {
            return Err(ChangeError::StaticAlgorithm);
        }
        server.store_user_weight(weight);
        Ok(())
    }
}

/// Sets the address and recomputes the dynamic cookie, which depends on it.
fn apply_address(server: &Server, ip: Option<Option<IpAddr>>, port: Option<ServerPort>) {
    server.store_address(ip, port);
    server.refresh_cookie();
}

/// Sets the administrative state, and the operational state that follows from it.
pub(super) fn apply_admin(server: &Server, admin: AdminState, now_ms: u64) {
    let before = server.admin_state();
    server.store_admin(admin);
    match (before.is_maintenance(), admin.is_maintenance()) {
        (false, true) => server.set_operational(OperationalState::Stopped, now_ms),
        (true, false) => leave_maintenance(server, now_ms),
        _ if before.is_drain() != admin.is_drain() => server.touch(now_ms),
        _ => {}
    }
}

/// Sets the server's initial state, which holds until checks report.
fn leave_maintenance(server: &Server, now_ms: u64) {
    for check in [server.health(), server.agent()].into_iter().flatten() {
        check.set_level(check.rules().first_level());
    }
    if server.checks_say_up() {
        come_up(server, now_ms);
    }
}

pub(super) fn apply_health(server: &Server, state: OperationalState, now_ms: u64) {
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

/// Sets the level of the health check by an operator's command.
fn force_health(server: &Server, state: OperationalState, now_ms: u64) {
    if let Some(check) = server.health() {
        check.set_level(if state == OperationalState::Stopped { 0 } else { check.rules().top() });
    }
    apply_health(server, state, now_ms);
}

/// Sets the level of the agent check by an operator's command.
fn force_agent(server: &Server, up: bool, now_ms: u64) {
    let Some(agent) = server.agent() else { return };
    agent.set_level(if up { agent.rules().top() } else { 0 });
    if !up {
        apply_health(server, OperationalState::Stopped, now_ms);
    } else if server.checks_say_up() {
        apply_health(server, OperationalState::Running, now_ms);
    }
}

pub(super) fn come_up(server: &Server, now_ms: u64) {
    let slow = server.settings().slow_start_ms > 0;
    let state = if slow { OperationalState::Starting } else { OperationalState::Running };
    server.set_operational(state, now_ms);
}
