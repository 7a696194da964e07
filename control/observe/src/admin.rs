//! The form of the statistics page, applied to the live servers.

use weir_backend::{Change, CheckKind, OperationalState, RequestedState};
use weir_stats::admin::{Acted, Action, AdminTarget, Forced};

use super::{Live, names, notices, session_target};
use weir_stream::ending::By;

impl AdminTarget for Live {
    fn has_backend(&self, backend: &str) -> bool {
        names::proxy(&self.instance, backend, names::backend_side).is_some()
    }

    fn act(&mut self, backend: &str, server: &str, action: Action) -> Acted {
        let Some(proxy) = names::proxy(&self.instance, backend, names::backend_side) else {
            return Acted::Refused;
        };
        let Some(server) = names::server(proxy, server) else { return Acted::Refused };
        let enable = |kind, enabled| match server.check(kind) {
            None => Acted::Nothing,
            Some(check) => {
                check.record().enabled = enabled;
                Acted::Done
            }
        };
        let change = match action {
            Action::Ready => Change::State(RequestedState::Ready),
            Action::Drain => Change::State(RequestedState::Drain),
            Action::Maintenance => Change::State(RequestedState::Maintenance),
            Action::HealthChecks(enabled) => return enable(CheckKind::Health, enabled),
            Action::AgentChecks(enabled) => return enable(CheckKind::Agent, enabled),
            Action::Health(Forced::Up) => Change::Health(OperationalState::Running),
            Action::Health(Forced::Stopping) => Change::Health(OperationalState::Stopping),
            Action::Health(Forced::Down) => Change::Health(OperationalState::Stopped),
            Action::Agent(_) if server.agent().is_none() => return Acted::Nothing,
            Action::Agent(up) => Change::Agent { up },
            Action::Shutdown => {
                session_target::shutdown_on_server(proxy.index, server.key(), By::Killed);
                return Acted::Done;
            }
        };
        match notices::change_server(self, proxy, &server, change) {
            Ok(()) => Acted::Done,
            Err(_) => Acted::Refused,
        }
    }
}
