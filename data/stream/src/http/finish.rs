//! The end of a stream: connections are kept or closed, counters updated, the log line is written.

use weir_containers::PooledFuture;
use weir_net::{ReceiveOutcome, SendOutcome};

use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::During;
use crate::server::idle;
use crate::stream::StreamError;
use crate::stream::phases::EndPhase;

impl EndPhase {
    /// Ends the stream; returns whether the client's connection can carry another one.
    pub(super) async fn finish(&mut self) -> bool {
        // The log line may contain facts about the server's connection, which another stream may use afterwards.
        self.stream.conclude();
        self.settle_server();
        self.stream.end_view();
        if self.stream.reusable.client
            && !self.stream.response.is_tunnel
            && self.stream.request.body.is_done()
            && !self.stream.entry.is_killed()
        {
            return true;
        }
        if self.stream.client.shared().is_none() && self.is_read_from() {
            PooledFuture::new(self.linger()).await;
        }
        false
    }

    /// Makes the server's connection available to other streams, or closes it.
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

    /// Whether the client has something to read that it may lose if its connection closes at once.
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

    /// Lets a client that still sends read the last bytes: closing at once would reset its connection and discard
    /// the response (RFC 9112, 9.6).
    async fn linger(&mut self) {
        let mut lingering = Lingering { said_goodbye: !self.stream.client.has_pending(), drained: 0 };
        // The stream is over, so it cannot be killed here: lingering ends by itself or by its deadline.
        let _ = self
            .stream
            .drive(
                While::pause(LINGER, weir_sched::now()),
                |stream, _| Ok::<_, StreamError>(stream.end_phase().linger_on(&mut lingering)),
                |_, _, _| Ok(()),
            )
            .await;
    }

    /// Closing alone would discard the last bytes if the client sent something that was not read. True if it did not.
    fn say_goodbye(&mut self) -> bool {
        self.stream.client.shut_write();
        if self.stream.request.body.is_done() && self.stream.client.input().is_empty() {
            return true;
        }
        self.stream.enter(During::End);
        false
    }

    /// Sends the last bytes, then reads and drops further bytes from the client.
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

/// The state of a connection that closes.
struct Lingering {
    said_goodbye: bool,
    drained: usize,
}

/// How long a closing connection is read from.
const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
/// How many bytes are read from a closing connection.
const LINGER_BYTES: usize = 1 << 20;
