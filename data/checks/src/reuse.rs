//! Connections that HTTP checks take from their server's traffic and return to it (`check-reuse-pool`).

use std::sync::Arc;

use weir_backend::{InUse, Server};
use weir_containers::LocalArc;
use weir_http::BodySize;
use weir_mux::{BodyFlow, ConnectionMode, Message, StreamConnector};
use weir_net::ReceiveOutcome;
use weir_sched::{Tick, now, wait};

use crate::attempt::Attempt;
use crate::process_view::IdleConnection;

/// A connection of the server's traffic, while a check uses it.
#[derive(Debug)]
pub(crate) struct BorrowedConnection {
    in_use: InUse,
    key: u64,
    /// Number of requests on the connection before the check.
    requests: u32,
}

impl BorrowedConnection {
    fn new(server: &Server, key: u64, requests: u32) -> Self {
        let pools = LocalArc::new(Arc::clone(server.pools()));
        BorrowedConnection { in_use: InUse::of(&pools, weir_sched::worker_index()), key, requests }
    }

    /// Takes an idle connection that the check may use, if there is one.
    pub(crate) fn take(attempt: &Attempt<'_>) -> Option<(BorrowedConnection, StreamConnector)> {
        let (plan, server) = (attempt.plan, attempt.server);
        let key = plan.reuse.filter(|_| !attempt.is_elsewhere())?.key;
        let idle = attempt.view.take_idle(&plan.backend, server, key)?;
        Some((BorrowedConnection::new(server, key, idle.requests), StreamConnector::own(idle.connection)))
    }

    /// Marks a connection opened by the check for reuse by the traffic. `None` if the traffic may not reuse it.
    pub(crate) fn opened(attempt: &Attempt<'_>) -> Option<BorrowedConnection> {
        let reuse = attempt.plan.reuse.filter(|reuse| reuse.leaves_own && !attempt.is_elsewhere())?;
        Some(BorrowedConnection::new(attempt.server, reuse.key, 0))
    }

    /// Number of requests on the connection before the check.
    pub(crate) fn requests(&self) -> u32 {
        self.requests
    }

    /// Returns the connection to the traffic.
    pub(crate) fn leave(self, attempt: &Attempt<'_>, mut connector: StreamConnector) {
        let Some(connection) = connector.take_connection() else { return };
        let BorrowedConnection { in_use, key, requests } = self;
        // A connection never counts as both used and idle.
        drop(in_use);
        let idle = IdleConnection { connection, requests: requests.saturating_add(1) };
        attempt.view.keep_idle(&attempt.plan.backend, attempt.server, key, idle);
    }
}

/// Whether the connection is ready for another request after this response. Waits up to [`REST_MS`] for the rest of the
/// body and discards it.
pub(crate) async fn is_over(
    response: &Message,
    body: &mut BodyFlow,
    size: BodySize,
    connector: &mut StreamConnector,
    deadline: Tick,
    limit: usize,
) -> bool {
    if !response.server_persists(size, ConnectionMode::KeepAlive) {
        return false;
    }
    let deadline = deadline.min(now().after(REST_MS));
    while body.inspect(connector) && !body.is_complete() {
        match connector.receive(limit) {
            ReceiveOutcome::Bytes(_) => {}
            ReceiveOutcome::Nothing if now() < deadline => _ = wait(deadline).await,
            // The server closes the connection, or the body is too long to discard.
            _ => return false,
        }
    }
    let is_whole = body.is_complete() && body.ready() == connector.input().len();
    connector.consume(body.ready());
    is_whole && !connector.ended() && connector.fault().is_none()
}

/// How long to wait for the rest of a body, in milliseconds. It usually arrives within one.
const REST_MS: u64 = 50;
