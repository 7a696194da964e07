//! Checks over HTTP/2. Each request of a check is a stream of its connection, which the check's task owns.

use weir_mux::trace::ConnectionIdentity;
use weir_mux::{Multiplexer, OwnerHandle, Pace, StreamConnector, TurnEnd};
use weir_net::Connection;
use weir_sched::yield_now;

/// Limits of check connections, the same as for the server's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Bounds {
    /// Limits for frames from the server.
    pub limits: weir_mux::ConnectionLimits,
    /// How much is processed in one round.
    pub pace: Pace,
}

/// An HTTP/2 connection in use by a check. It is closed on drop.
pub(crate) struct Http2Connection {
    connection: OwnerHandle,
    /// Number of received frames that were already examined.
    frames: u64,
}

impl Http2Connection {
    /// Makes the current task the owner of the connection.
    pub(crate) fn new(connection: Connection, bounds: Http2Bounds) -> Self {
        let identity = ConnectionIdentity::of_server(0, 0, "<check>".into());
        let multiplexer = Multiplexer::to_server(connection, bounds.limits, bounds.pace, identity);
        multiplexer.own(weir_sched::current());
        Http2Connection { connection: OwnerHandle(multiplexer), frames: 0 }
    }

    /// A connector for the next request.
    pub(crate) fn stream(&self) -> StreamConnector {
        StreamConnector::from(self.connection.0.unopened())
    }

    /// Receives and sends without blocking. True if new frames arrived.
    pub(crate) async fn turn(&mut self, stream: &mut StreamConnector) -> bool {
        let multiplexer = &self.connection.0;
        while matches!(multiplexer.turn(), TurnEnd::More | TurnEnd::Late) {
            yield_now().await;
        }
        if stream.has_pending() {
            // Sending continues when the server opens its window. A failure is reported by the next receive.
            let _ = stream.flush(false);
            multiplexer.turn();
        }
        std::mem::replace(&mut self.frames, multiplexer.frames()) != multiplexer.frames()
    }
}

impl Drop for Http2Connection {
    fn drop(&mut self) {
        self.connection.0.leave();
    }
}
