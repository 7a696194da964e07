//! The form of the statistics page, applied to the live servers.

use weir_backend::{CheckKind, OperationalState, RequestedState, ServerChange};
use weir_stats::admin::{Action, AdminOutcome, AdminTarget, Forced};

use super::{Live, names, notices, session_target};
use weir_stream::ending::By;

impl AdminTarget for Live {
    fn has_backend(&self, backend: &str) -> bool {
        names::proxy(&self.instance, backend, names::backend_side).is_some()
    }

    fn act(&mut self, backend: &str, server: &str, action: Action) -> AdminOutcome {
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
            Action::Ready => ServerChange::State(RequestedState::Ready),
            Action::Drain => ServerChange::State(RequestedState::Drain),
            Action::Maintenance => ServerChange::State(RequestedState::Maintenance),
            Action::HealthChecks(enabled) => return enable(CheckKind::Health, enabled),
            Action::AgentChecks(enabled) => return enable(CheckKind::Agent, enabled),
            Action::Health(Forced::Up) => ServerChange::Health(OperationalState::Running),
            Action::Health(Forced::Stopping) => ServerChange::Health(OperationalState::Stopping),
            Action::Health(Forced::Down) => ServerChange::Health(OperationalState::Stopped),
            Action::Agent(_) if server.agent().is_none() => return AdminOutcome::Nothing,
            Action::Agent(up) => ServerChange::Agent { up },
            Action::Shutdown => {
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
