//! Changes of servers and frontends by an operator, and what the logs hear of them.
//!
//! The runtime API and the form of the statistics page both come through here, so that a change is always made and
//! announced in the same way. The texts are what log processors of the reference program look for.

use weir_backend::{AdminState, Backend, Change, OperationalState, RequestedState, Server};
use weir_events::Level;
use weir_stream::instance::{Proxy, ProxyState};
use weir_stream::log::announce;

use super::{Live, now_ms};

/// Puts a server into a state, and says so if it was not in that state.
pub(super) fn change_server_state(live: Live, proxy: &Proxy, server: &Server, state: RequestedState) {
    let Some(backend) = &proxy.backend else { return };
    let before = Situation::of(backend, server);
    // The server is one of this backend, and a state is never refused.
    let _ = backend.change(server.key(), Change::State(state), now_ms());
    let after = Situation::of(backend, server);
    if let Some((level, text)) = describe(proxy, server, &before, &after) {
        say(live, proxy, level, &text);
    }
    if before.usable > 0 && after.usable == 0 {
        say_farm_is_down(live, proxy);
    }
}

/// Sets what health checks would have found out, and says so if it was not so before.
pub(super) fn change_server_health(live: Live, proxy: &Proxy, server: &Server, state: OperationalState) {
    let Some(backend) = &proxy.backend else { return };
    let (before, was) = (Situation::of(backend, server), server.operational_state(now_ms()));
    // The server is one of this backend, and health is never refused.
    let _ = backend.change(server.key(), Change::Health(state), now_ms());
    let (after, is) = (Situation::of(backend, server), server.operational_state(now_ms()));
    if was == is {
        return;
    }
    let backup = if server.settings().backup { "Backup " } else { "" };
    let name = format!("{backup}Server {}/{}", proxy.name(), server.name());
    let requeued = before.queued.saturating_sub(after.queued);
    let waiting = backend.queued();
    let (level, what, farm) = match is {
        OperationalState::Stopped => (Level::Alert, "DOWN", "left"),
        OperationalState::Stopping => (Level::Notice, "stopping", "online"),
        OperationalState::Starting | OperationalState::Running => (Level::Notice, "UP", "online"),
    };
    let farm = after.farm(farm);
    let queue = match is {
        OperationalState::Stopped => {
            format!("{} sessions active, {requeued} requeued, {waiting} remaining in queue.", server.served())
        }
        _ => format!("{requeued} sessions requeued, {waiting} total in queue."),
    };
    say(live, proxy, level, &format!("{name} is {what}, changed from CLI. {farm} {queue}"));
    if before.usable > 0 && after.usable == 0 {
        say_farm_is_down(live, proxy);
    }
}

fn say_farm_is_down(live: Live, proxy: &Proxy) {
    let kind = if proxy.config.is_frontend() { "proxy" } else { "backend" };
    say(live, proxy, Level::Emergency, &format!("{kind} {} has no server available!", proxy.name()));
}

/// What a change of a server's state is compared by.
struct Situation {
    admin: AdminState,
    queued: u32,
    active: u32,
    backup: u32,
    usable: u32,
}

impl Situation {
    fn of(backend: &Backend, server: &Server) -> Self {
        let status = backend.status(now_ms());
        Situation {
            admin: server.admin_state(),
            queued: server.queued(),
            active: status.active,
            backup: status.backup,
            usable: status.active + status.backup,
        }
    }

    fn farm(&self, what: &str) -> String {
        let on_backup = if self.active == 0 && self.backup > 0 { " Running on backup." } else { "" };
        format!("{} active and {} backup servers {what}.{on_backup}", self.active, self.backup)
    }
}

fn describe(
    proxy: &Proxy,
    server: &Server,
    before: &Situation,
    after: &Situation,
) -> Option<(Level, String)> {
    let backup = if server.settings().backup { "Backup " } else { "" };
    let name = format!("{backup}Server {}/{}", proxy.name(), server.name());
    let requeued = before.queued.saturating_sub(after.queued);
    let waiting = proxy.backend.as_ref().map_or(0, |backend| backend.queued());
    let was = (before.admin.is_maintenance(), before.admin.is_drain());
    let is = (after.admin.is_maintenance(), after.admin.is_drain());
    Some(match (was, is) {
        ((false, draining), (true, _)) => {
            let level = if draining { Level::Notice } else { Level::Alert };
            let text = format!(
                "{name} is going DOWN for maintenance. {} {} sessions active, {requeued} requeued, {waiting} \
                 remaining in queue.",
                after.farm("left"),
                server.served(),
            );
            (level, text)
        }
        ((true, _), (false, true)) => {
            (Level::Notice, format!("{name} is UP/DRAIN (leaving forced maintenance)."))
        }
        ((true, _), (false, false)) => {
            (Level::Notice, format!("{name} is UP/READY (leaving forced maintenance)."))
        }
        ((false, false), (false, true)) => {
            let text = format!(
                "{name} enters drain state. {} {requeued} sessions requeued, {waiting} total in queue.",
                after.farm("online"),
            );
            (Level::Notice, text)
        }
        ((false, true), (false, false)) => (Level::Notice, format!("{name} is UP (leaving forced drain).")),
        _ => return None,
    })
}

/// Pauses, resumes or stops a frontend, and says so. False when it cannot be resumed: another process has its address.
pub(super) fn change_frontend_state(live: Live, proxy: &Proxy, state: ProxyState) -> bool {
    let Some(life) = live.record.life.get() else {
        // Nothing listens yet.
        proxy.set_state(state);
        return true;
    };
    let name = proxy.name();
    match state {
        ProxyState::Stopped => life.stop_frontend(proxy),
        ProxyState::Paused => {
            life.pause_frontend(proxy);
            say(live, proxy, Level::Warning, &format!("Paused frontend {name}."));
        }
        ProxyState::Open => {
            if !life.resume_frontend(proxy) {
                return false;
            }
            say(live, proxy, Level::Warning, &format!("Resumed frontend {name}."));
        }
    }
    true
}

/// Tells the proxy's logs, and standard error.
fn say(live: Live, proxy: &Proxy, level: Level, text: &str) {
    announce(proxy, level, text.as_bytes());
    if let Some(messages) = live.record.messages {
        match level {
            Level::Emergency => messages.alert(text),
            _ => messages.warning(text),
        }
    }
}
