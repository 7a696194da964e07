//! Checks over HTTP/2: the requests of a check are streams of its connection, which the check's own task owns.

use weir_http::Kind;
use weir_mux::trace::Identity;
use weir_mux::{Closing, Message, Multiplexer, Pace, StreamConnector, Turn};
use weir_net::{Connection, Fault, Sent};
use weir_sched::yield_now;

/// Limits of checks' connections, the same as those of the server's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http2Bounds {
    /// Limits for what the server may send.
    pub limits: weir_mux::Limits,
    /// How much is processed at a time.
    pub pace: Pace,
}

/// An HTTP/2 connection in use by a check. It ends when this is dropped.
pub(crate) struct Http2Connection {
    connection: Closing,
    /// Frames received and already examined.
    frames: u64,
}

impl Http2Connection {
    /// The current task owns the connection from now on.
    pub(crate) fn new(connection: Connection, bounds: Http2Bounds) -> Self {
        let identity = Identity { proxy: "<check>", ..Identity::default() };
        let multiplexer = Multiplexer::to_server(connection, bounds.limits, bounds.pace, identity);
        multiplexer.own(weir_sched::current());
        Http2Connection { connection: Closing(multiplexer), frames: 0 }
    }

    /// A connector for the next request.
    pub(crate) fn stream(&self) -> StreamConnector {
        StreamConnector::from(self.connection.0.unopened())
    }

    /// Sends a request of HTTP/1 on a stream that was not used yet.
    ///
    /// # Errors
    /// When the request is invalid, or nothing can be sent.
    pub(crate) fn send(&self, request: &[u8], stream: &mut StreamConnector) -> Result<(), Fault> {
        let mut message = Message::new(MOST_FIELDS);
        let Some(head) = message.read_kept(Kind::Request, request) else { return Err(Fault::Protocol) };
        // What the windows do not admit yet remains pending.
        match message.send_whole(stream, &request[head..], &mut Vec::new(), false) {
            Sent::Failed(fault) => Err(fault),
            Sent::All | Sent::Part(_) => Ok(()),
        }
    }

    /// Receives and sends what is possible; true if new frames arrived.
    pub(crate) async fn turn(&mut self, stream: &mut StreamConnector) -> bool {
        let multiplexer = &self.connection.0;
        while matches!(multiplexer.turn(), Turn::More | Turn::Late) {
            yield_now().await;
        }
        if stream.has_pending() {
            // Sending continues when the server opens its window; a failure is reported when receiving.
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

/// How many fields a request may have.
const MOST_FIELDS: u16 = 100;
