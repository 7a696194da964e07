//! The form of the statistics page, applied to the live servers.

use weir_backend::{Change, RequestedState};
use weir_stats::admin::{Action, AdminTarget};

use super::{Live, names, notices, session_target};
use weir_stream::ending::By;

impl AdminTarget for Live {
    fn has_backend(&self, backend: &str) -> bool {
        names::proxy(self.instance, backend, names::backend_side).is_some()
    }

    fn act(&mut self, backend: &str, server: &str, action: Action) -> bool {
        let Some(proxy) = names::proxy(self.instance, backend, names::backend_side) else { return false };
        let Some(server) = names::server(proxy, server) else { return false };
        let state = match action {
            Action::Ready => RequestedState::Ready,
            Action::Drain => RequestedState::Drain,
            Action::Maintenance => RequestedState::Maintenance,
            Action::Shutdown => {
                session_target::shutdown_on_server(proxy.index, server.key(), By::Killed);
                return true;
            }
        };
        notices::change_server(*self, proxy, &server, Change::State(state)).is_ok()
    }
}
