//! The end of an stream: connections settle, counters count, the log line is written.

use crate::clock;
use crate::ending::During;
use crate::server::idle;
use crate::stream::Stream;

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
        if self.facts.keep_client
            && !self.facts.tunnel
            && self.request_body.is_done()
            && !self.entry.is_killed()
        {
            return true;
        }
        self.linger().await;
        false
    }

    /// Gives the server's connection to whoever comes next, or closes it.
    pub(crate) fn settle_server(&mut self) {
        if let Some(upstream) = self.server.take() {
            let usable = self.facts.keep_server
                && self.facts.have_response
                && self.response_body.is_done()
                && self.request_body.is_done()
                && self.ending.is_normal()
                && upstream.connector.input().is_empty();
            if usable {
                idle::give(self, upstream);
            }
        }
    }

    /// Lets a client that still sends read our last bytes: closing at once would reset its connection and take the
    /// response away from it (RFC 9112, 9.6).
    async fn linger(&mut self) {
        // Whom an administrator ended is gone at once.
        if !self.facts.response_started || self.client.is_broken() || self.entry.is_killed() {
            return;
        }
        let deadline = clock::after(LINGER);
        while self.client.has_pending() && !clock::passed(deadline) {
            match self.client.flush(false) {
                weir_net::Sent::Part(_) => _ = self.rest(deadline).await,
                _ => break,
            }
        }
        // Closing alone would throw our last bytes away if the client sent something that was not read.
        self.client.shut_write();
        if self.request_body.is_done() && self.client.input().is_empty() {
            return;
        }
        self.enter(During::End);
        let mut drained = 0;
        while drained < LINGER_BYTES && !clock::passed(deadline) {
            let held = self.client.input().len();
            self.client.consume(held);
            match self.client.receive(usize::MAX) {
                weir_net::Received::Bytes(count) => drained += count,
                weir_net::Received::Nothing => _ = self.rest(deadline).await,
                _ => return,
            }
        }
    }
}

/// How long a closing connection is read from.
const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
/// How much a closing connection is read from.
const LINGER_BYTES: usize = 1 << 20;
