//! The end of an stream: connections settle, counters count, the log line is written.

use weir_containers::PooledFuture;
use weir_net::{Received, Sent};

use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::During;
use crate::server::idle;
use crate::stream::{Stream, StreamError};

impl Stream {
    /// Ends the stream; whether the client's connection can carry another one.
    pub(super) async fn finish(&mut self) -> bool {
        self.timers.close = Some(self.elapsed());
        self.count_end();
        // The line may say something of the server's connection, which may be another stream's thereafter.
        self.log_end();
        self.note_on_timeline();
        self.settle_server();
        self.end_view();
        if self.reusable.client
            && !self.response.is_tunnel
            && self.request.body.is_done()
            && !self.entry.is_killed()
        {
            return true;
        }
        if self.client.shared().is_none() && self.is_read_from() {
            PooledFuture::new(self.linger()).await;
        }
        false
    }

    /// Gives the server's connection to whoever comes next, or closes it.
    pub(crate) fn settle_server(&mut self) {
        if let Some(upstream) = self.server.upstream.take() {
            let usable = self.reusable.server
                && self.response.is_known()
                && self.response.body.is_done()
                && self.request.body.is_done()
                && self.ending.is_normal()
                && upstream.connector.input().is_empty();
            if usable {
                idle::give(self, upstream);
            }
        }
    }

    /// Whether the client has something to read, and may lose it if its connection closes at once.
    fn is_read_from(&mut self) -> bool {
        // Whom an administrator ended is gone at once.
        if !self.response.is_leaving() || self.client.is_broken() || self.entry.is_killed() {
            return false;
        }
        self.client.has_pending() || !self.say_goodbye()
    }

    /// Lets a client that still sends read our last bytes: closing at once would reset its connection and take the
    /// response away from it (RFC 9112, 9.6).
    async fn linger(&mut self) {
        let mut lingering = Lingering { said_goodbye: !self.client.has_pending(), drained: 0 };
        // Nobody ends what is no stream any more: it is over when it is, or when time is.
        let _ = self
            .drive(
                While::pause(LINGER, weir_sched::now()),
                |stream, _| Ok::<_, StreamError>(stream.linger_on(&mut lingering)),
                |_, _, _| Ok(()),
            )
            .await;
    }

    /// Closing alone would throw our last bytes away if the client sent something that was not read. True if it did not.
    fn say_goodbye(&mut self) -> bool {
        self.client.shut_write();
        if self.request.body.is_done() && self.client.input().is_empty() {
            return true;
        }
        self.enter(During::End);
        false
    }

    /// Our last bytes leave, then what the client still sends is read.
    fn linger_on(&mut self, lingering: &mut Lingering) -> Step<()> {
        if !lingering.said_goodbye {
            if self.client.has_pending() && matches!(self.client.flush(false), Sent::Part(_)) {
                return Step::Wait(Waits::ONCE);
            }
            lingering.said_goodbye = true;
            if self.say_goodbye() {
                return Step::Done(());
            }
        }
        while lingering.drained < LINGER_BYTES {
            let held = self.client.input().len();
            self.client.consume(held);
            match self.client.receive(usize::MAX) {
                Received::Bytes(count) => lingering.drained += count,
                Received::Nothing => return Step::Wait(Waits::ONCE),
                _ => break,
            }
        }
        Step::Done(())
    }
}

/// How far a connection that closes is.
struct Lingering {
    said_goodbye: bool,
    drained: usize,
}

/// How long a closing connection is read from.
const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
/// How much a closing connection is read from.
const LINGER_BYTES: usize = 1 << 20;
