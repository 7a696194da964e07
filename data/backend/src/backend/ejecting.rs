//! Ejecting outliers and ending their ejections.

use std::sync::Arc;

use super::{Backend, wake_all};
use crate::lb_state::LbState;
use crate::notice::{BackendNews, EjectionEnd, Reason};
use crate::outlier::{OutlierRules, Suspicion};
use crate::server::Server;
use crate::server_key::ServerKey;
use crate::sync::Ordering;
use crate::traffic::{ServerTraffic, TrafficSample};

impl Backend {
    /// Records an observation of traffic, if the server has traffic statistics.
    pub(super) fn weigh(
        &self,
        server: &Server,
        traffic: &ServerTraffic,
        seen: TrafficSample,
        now_ms: u64,
    ) -> Option<BackendNews> {
        // If responses are observed, a connection alone is not a success.
        if self.settings().judges_responses && !seen.observation.is_layer7() && seen.observation.is_well() {
            return None;
        }
        let in_a_row = traffic.note(seen, now_ms);
        let rules = self.settings().outliers.as_ref()?;
        let mut news = BackendNews::default();
        if rules.errors.is_some_and(|limit| in_a_row >= limit) {
            traffic.forget_errors();
            self.eject(server.key(), rules, Suspicion::Errors(in_a_row, seen.observation), now_ms, &mut news);
        }
        if rules.compares() && self.interval_ends(rules, now_ms) {
            self.compare(rules, now_ms, &mut news);
        }
        (!news.notices.is_empty()).then_some(news)
    }

    /// Whether the interval is over. True for only one of the workers that see its end.
    fn interval_ends(&self, rules: &OutlierRules, now_ms: u64) -> bool {
        let end = &self.shared.compares_at_ms;
        let due_ms = end.load(Ordering::Relaxed);
        let next_ms = now_ms.saturating_add(rules.interval_ms.max(1));
        due_ms <= now_ms
            && end.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ejects the outliers.
    #[cold]
    fn compare(&self, rules: &OutlierRules, now_ms: u64, news: &mut BackendNews) {
        let servers = self.servers();
        let window =
            |server: &Arc<Server>| server.traffic().map(ServerTraffic::end_window).unwrap_or_default();
        let windows: Vec<_> = servers.iter().map(window).collect();
        for (place, suspicion) in rules.outliers(&windows) {
            self.eject(servers[place].key(), rules, suspicion, now_ms, news);
        }
    }

    /// Ejects a server, unless it is already ejected or too many servers would be ejected.
    #[cold]
    fn eject(
        &self,
        key: ServerKey,
        rules: &OutlierRules,
        suspicion: Suspicion,
        now_ms: u64,
        news: &mut BackendNews,
    ) {
        let lb_state = self.lb_state.lock();
        let Some(server) = lb_state.server(key).map(Arc::clone) else { return };
        let Some(traffic) = server.traffic() else { return };
        let (total, out) = lb_state.peers(&server);
        if !lb_state.takes_part(key) || traffic.is_ejected() || !rules.allows_one_more(total, out) {
            return;
        }
        self.pass(lb_state, &server, now_ms, news, || {
            let duration_ms = traffic.eject(rules, now_ms);
            let text = format!("is ejected for {}ms, reason: {suspicion}", duration_ms);
            Reason::Ejected(text)
        });
        let end = EjectionEnd { proxy: self.settings().place, at_ms: traffic.ejected_until_ms() };
        if news.ejections.last() != Some(&end) {
            news.ejections.push(end);
        }
    }

    /// Ends ejections that have expired. Call it at the times in [`BackendNews::ejections`].
    pub fn end_ejections(&self, now_ms: u64) -> BackendNews {
        let mut news = BackendNews::default();
        for server in self.servers().iter() {
            let Some(traffic) = server.traffic() else { continue };
            // Servers with a later end of ejection have their own entry in the news.
            let is_over = || traffic.is_ejected() && traffic.ejected_until_ms() <= now_ms;
            if !is_over() {
                continue;
            }
            let lb_state = self.lb_state.lock();
            if !is_over() {
                continue;
            }
            self.pass(lb_state, server, now_ms, &mut news, || {
                traffic.end_ejection(now_ms);
                Reason::TakenBack
            });
        }
        news
    }

    /// Ejects a server or ends its ejection, with all consequences.
    fn pass(
        &self,
        mut lb_state: weir_sync::LockGuard<'_, LbState>,
        server: &Arc<Server>,
        now_ms: u64,
        news: &mut BackendNews,
        change: impl FnOnce() -> Reason,
    ) {
        let before = (lb_state.situation(server, now_ms), lb_state.standing(server, now_ms));
        let reason = change();
        let woken = self.follow_up(&mut lb_state, server, before, &reason, now_ms, news);
        drop(lb_state);
        wake_all(woken);
    }
}
