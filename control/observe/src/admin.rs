//! Applies the form of the statistics page to the live servers.

use weir_backend::{CheckKind, OperationalState, RequestedState, ServerChange};
use weir_stats::admin::{AdminAction, AdminOutcome, AdminTarget, ForcedHealth};

use super::{LiveProcess, names, notices, session_target};
use weir_stream::ending::By;

impl AdminTarget for LiveProcess {
    fn has_backend(&self, backend: &str) -> bool {
        names::proxy(&self.instance, backend, names::backend_side).is_some()
    }

    fn act(&mut self, backend: &str, server: &str, action: AdminAction) -> AdminOutcome {
        let Some(proxy) = names::proxy(&self.instance, backend, names::backend_side) else {
            return AdminOutcome::Refused;
        };
        let Some(server) = names::server(proxy, server) else { return AdminOutcome::Refused };
        let enable = |kind, enabled| match server.check(kind) {
            None => AdminOutcome::Nothing,
            Some(check) => {
                check.record().enabled = enabled;
                AdminOutcome::Done
            }
        };
        let change = match action {
            AdminAction::Ready => ServerChange::State(RequestedState::Ready),
            AdminAction::Drain => ServerChange::State(RequestedState::Drain),
            AdminAction::Maintenance => ServerChange::State(RequestedState::Maintenance),
            AdminAction::HealthChecks(enabled) => return enable(CheckKind::Health, enabled),
            AdminAction::AgentChecks(enabled) => return enable(CheckKind::Agent, enabled),
            AdminAction::Health(ForcedHealth::Up) => ServerChange::Health(OperationalState::Running),
            AdminAction::Health(ForcedHealth::Stopping) => ServerChange::Health(OperationalState::Stopping),
            AdminAction::Health(ForcedHealth::Down) => ServerChange::Health(OperationalState::Stopped),
            AdminAction::Agent(_) if server.agent().is_none() => return AdminOutcome::Nothing,
            AdminAction::Agent(up) => ServerChange::Agent { up },
            AdminAction::Shutdown => {
                session_target::shutdown_on_server(proxy.index, server.key(), By::Killed);
                return AdminOutcome::Done;
            }
        };
        match notices::change_server(self, proxy, &server, change) {
            Ok(()) => AdminOutcome::Done,
            Err(_) => AdminOutcome::Refused,
        }
    }
}
