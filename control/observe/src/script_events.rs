//! Events of servers for scripts.

use std::sync::Arc;

use weir_backend::{
    AdminState, CheckReport, CheckResult, OperationalState, Server, ServerEvent, ServerEventKind,
};
use weir_scripts::{
    AdminFlags, CheckDetail, EventDetail, EventKind, ScriptEvent, ScriptServer, ServerEventData,
};
use weir_stream::instance::Proxy;

use super::LiveProcess;

/// Passes the events of a change to the scripts that subscribed to them.
pub(super) fn publish_changes(live: &LiveProcess, events: Vec<ServerEvent>) {
    for event in events {
        let Some(proxy) = live.instance.proxies.get(event.proxy) else { continue };
        let (kind, detail) = match event.kind {
            ServerEventKind::Address => (EventKind::ServerAddress, EventDetail::None),
            ServerEventKind::Check(report) => (EventKind::ServerCheck, EventDetail::Check(check(report))),
            ServerEventKind::Admin { old, new, cause, requeued } => {
                let (old, new) = (flags(old), flags(new));
                (EventKind::ServerAdmin, EventDetail::Admin { cause, new, old, requeued })
            }
            ServerEventKind::State { old, new, is_administrative, cause, check: report, requeued } => {
                let is_down = |state| state == OperationalState::Stopped;
                match (is_down(old), is_down(new)) {
                    (false, true) => publish(live, proxy, &event.server, EventKind::ServerDown),
                    (true, false) => publish(live, proxy, &event.server, EventKind::ServerUp),
                    _ => {}
                }
                let (check, old, new) = (report.map(check), name_of(old), name_of(new));
                let detail = EventDetail::State { is_administrative, check, cause, new, old, requeued };
                (EventKind::ServerState, detail)
            }
        };
        publish_with(live, proxy, &event.server, kind, detail);
    }
}

/// Passes an event without details.
pub(super) fn publish(live: &LiveProcess, proxy: &Proxy, server: &Server, kind: EventKind) {
    publish_with(live, proxy, server, kind, EventDetail::None);
}

fn publish_with(live: &LiveProcess, proxy: &Proxy, server: &Server, kind: EventKind, detail: EventDetail) {
    let Some(scripts) = &live.record.scripts else { return };
    if scripts.subscriptions().is_empty() {
        return;
    }
    let data = ServerEventData {
        server: ScriptServer { proxy: proxy.index as u32, key: server.key().to_number() },
        name: server.name().to_owned(),
        id: server.id(),
        revision: server.key().generation(),
        proxy_name: Arc::clone(&proxy.name),
        proxy_id: proxy.config.id,
        detail,
    };
    scripts.subscriptions().publish(&ScriptEvent { kind, data: Arc::new(data) });
}

fn name_of(state: OperationalState) -> &'static str {
    match state {
        OperationalState::Stopped => "STOPPED",
        OperationalState::Stopping => "STOPPING",
        OperationalState::Starting => "STARTING",
        OperationalState::Running => "RUNNING",
    }
}

fn flags(state: AdminState) -> AdminFlags {
    Box::new([
        ("MAINT", state.is_maintenance()),
        ("FMAINT", state.contains(AdminState::FORCED_MAINTENANCE)),
        ("IMAINT", state.contains(AdminState::INHERITED_MAINTENANCE)),
        ("RMAINT", state.contains(AdminState::RESOLUTION_MAINTENANCE)),
        ("CMAINT", state.contains(AdminState::CONFIGURED_MAINTENANCE)),
        ("DRAIN", state.is_drain()),
        ("FDRAIN", state.contains(AdminState::FORCED_DRAIN)),
        ("IDRAIN", state.contains(AdminState::INHERITED_DRAIN)),
    ])
}

fn check(report: CheckReport) -> CheckDetail {
    let CheckReport { result, is_agent, duration_ms, status, code, level, rise, fall } = report;
    CheckDetail {
        result: match result {
            CheckResult::Passed => "PASSED",
            CheckResult::ConditionallyPassed => "CONDPASS",
            CheckResult::Failed => "FAILED",
            CheckResult::Neutral | CheckResult::Unknown => "NEUTRAL",
        },
        is_agent,
        duration_ms,
        status: status.word(),
        description: status.description(),
        code,
        level,
        rise,
        fall,
    }
}
