//! The end of a stream: keeps or closes connections, updates counters, writes the log line.

use weir_containers::PooledFuture;
use weir_mux::FlowState;
use weir_net::{ReceiveOutcome, SendOutcome};

use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::During;
use crate::server::idle;
use crate::stream::StreamError;
use crate::stream::phases::EndPhase;

impl EndPhase {
    /// Ends the stream. Returns whether the client connection can carry another one.
    pub(super) async fn finish(&mut self) -> bool {
        if self.stream.as_filter_phase().has_scripts() {
            PooledFuture::new(self.stream.filter_phase().end_analysis()).await;
        }
        // The log line may contain facts about the server connection, so it is written before another stream can use the connection.
        self.stream.conclude();
        self.settle_server();
        let stays = self.stream.reusable.client
            && !self.stream.response.is_tunnel
            && (self.stream.request.body.is_done()
                || (self.stream.request.upload_refused && PooledFuture::new(self.drop_upload()).await));
        self.stream.end_view();
        if stays && !self.stream.entry.is_killed() {
            return true;
        }
        if self.stream.client.shared().is_none() && self.is_read_from() {
            PooledFuture::new(self.linger()).await;
        }
        false
    }

    /// Reads and drops the rest of an upload that the server refused although it has answered, so that the client's connection can carry
    /// another request. The client has `timeout client` for each part, as for an upload that a server reads. False if the body does not end
    /// properly.
    async fn drop_upload(&mut self) -> bool {
        if self.stream.client.shared().is_some() {
            return false;
        }
        let mut body = self.stream.request.body.take_flow();
        let dropped = self.stream.drive(
            While::Bodies,
            |stream, _| {
                let (client_sends, yields) = match body.read(&mut stream.client, &mut |_| {}) {
                    FlowState::AwaitSource => (true, false),
                    FlowState::Yield => (false, true),
                    flow => return Ok::<_, StreamError>(DriveStep::Done(flow == FlowState::Done)),
                };
                Ok(DriveStep::Wait(Waits { client_sends, yields, ..Waits::default() }))
            },
            |_, _, _| Ok(false),
        );
        dropped.await.unwrap_or(false)
    }

    /// Returns the server connection to the pool, or closes it.
    pub(crate) fn settle_server(&mut self) {
        if let Some(upstream) = self.stream.server.upstream.take() {
            let usable = self.stream.reusable.server
                && self.stream.response.is_known()
                && self.stream.response.body.is_done()
                && self.stream.request.body.is_done()
                && self.stream.ending.is_normal()
                && upstream.connector.input().is_empty();
            if usable {
                idle::give(&self.stream, upstream);
            }
        }
    }

    /// Whether the client could lose unread response bytes if its connection closed immediately.
    fn is_read_from(&mut self) -> bool {
        // A stream ended by an administrator closes at once.
        if !self.stream.response.is_leaving()
            || self.stream.client.is_broken()
            || self.stream.entry.is_killed()
        {
            return false;
        }
        self.stream.client.has_pending() || !self.say_goodbye()
    }

    /// Lingering close: lets a client that still sends read the last bytes. An immediate close would send a reset and discard the response
    /// (RFC 9112, 9.6).
    async fn linger(&mut self) {
        let mut lingering = Lingering { said_goodbye: !self.stream.client.has_pending(), drained: 0 };
        // The stream has ended, so it cannot be killed here. Lingering ends by itself or at its deadline.
        let _ = self
            .stream
            .drive(
                While::pause(LINGER, weir_sched::now()),
                |stream, _| Ok::<_, StreamError>(stream.end_phase().linger_on(&mut lingering)),
                |_, _, _| Ok(()),
            )
            .await;
    }

    /// Shuts down sending. Returns true if no unread bytes of the client could turn the close into a reset.
    fn say_goodbye(&mut self) -> bool {
        self.stream.client.shut_write();
        if self.stream.request.body.is_done() && self.stream.client.input().is_empty() {
            return true;
        }
        self.stream.enter(During::End);
        false
    }

    /// Sends the last bytes, then reads and drops the client's bytes.
    fn linger_on(&mut self, lingering: &mut Lingering) -> DriveStep<()> {
        if !lingering.said_goodbye {
            if self.stream.client.has_pending()
                && matches!(self.stream.client.flush(false), SendOutcome::Part(_))
            {
                return DriveStep::Wait(Waits::ONCE);
            }
            lingering.said_goodbye = true;
            if self.say_goodbye() {
                return DriveStep::Done(());
            }
        }
        while lingering.drained < LINGER_BYTES {
            let held = self.stream.client.input().len();
            self.stream.client.consume(held);
            match self.stream.client.receive(usize::MAX) {
                ReceiveOutcome::Bytes(count) => lingering.drained += count,
                ReceiveOutcome::Nothing => return DriveStep::Wait(Waits::ONCE),
                _ => break,
            }
        }
        DriveStep::Done(())
    }
}

/// The state of a lingering close.
struct Lingering {
    said_goodbye: bool,
    drained: usize,
}

/// Maximum duration of a lingering close.
const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
/// Maximum bytes read and dropped during a lingering close.
const LINGER_BYTES: usize = 1 << 20;
