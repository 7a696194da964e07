//! A scripted endpoint of an HTTP/2 connection: the engine, and a peer of the simulated network that follows the script.

use weir_h2::{Connection, ConnectionEvent, ErrorCode};
use weir_http::Kind;
use weir_mux::Message;
use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now};

/// One endpoint of a connection.
pub(crate) struct Wire<'p> {
    pub peer: &'p SimulatedPeer,
    pub engine: Connection,
    input: Vec<u8>,
    /// Bytes sent and received.
    pub moved: usize,
    /// The far end sends no more, or the connection broke.
    pub ended: bool,
}

/// A received event.
pub(crate) enum Came {
    /// A message's head, whether it ends the stream, and the stream.
    Head(u32, Box<Message>, bool),
    /// Payload, and whether it is the last.
    Data(u32, Vec<u8>, bool),
    /// Trailers, and the end.
    End(u32),
    /// The stream was reset, and whether it was not processed.
    Reset(u32, bool),
    /// Streams after this one were not processed.
    GoAway(u32),
}

impl<'p> Wire<'p> {
    pub(crate) fn new(peer: &'p SimulatedPeer, engine: Connection) -> Self {
        Wire { peer, engine, input: Vec::new(), moved: 0, ended: false }
    }

    /// Sends queued output and receives at most `most` bytes. Returns the events, or `None` if nothing was sent or received.
    pub(crate) fn step(&mut self, most: usize) -> Option<Vec<Came>> {
        let mut moves = self.send();
        match self.peer.try_receive(most) {
            Ok(None) => {}
            Ok(Some(bytes)) if !bytes.is_empty() => {
                moves = true;
                self.moved += bytes.len();
                self.input.extend(bytes);
            }
            _ => self.ended = true,
        }
        let came = self.look();
        // Send the engine's responses: settings, windows.
        moves |= self.send();
        (moves || !came.is_empty()).then_some(came)
    }

    /// Waits until bytes can be sent or received, or until the deadline.
    pub(crate) async fn wait(&self, until: Tick) {
        if until.is_never() {
            self.peer.wait().await;
        } else {
            self.peer.wait_until(until).await;
        }
    }

    pub(crate) fn send(&mut self) -> bool {
        if self.ended || self.engine.output().is_empty() {
            return false;
        }
        match self.peer.try_send(self.engine.output()) {
            Ok(count) => {
                self.engine.flushed(count);
                self.moved += count;
                count > 0
            }
            // Bytes received before may still be unread.
            Err(_) => {
                let left = self.engine.output().len();
                self.engine.flushed(left);
                false
            }
        }
    }

    fn look(&mut self) -> Vec<Came> {
        let mut all = Vec::new();
        while self.engine.failure().is_none() {
            let (used, event) = self.engine.advance(&self.input, now().as_ms());
            let more = event == ConnectionEvent::More;
            if let Some(came) = self.understood(event) {
                all.push(came);
            }
            self.input.drain(..used);
            if more {
                break;
            }
        }
        all
    }

    fn understood(&mut self, event: ConnectionEvent) -> Option<Came> {
        Some(match event {
            ConnectionEvent::Request { stream, end } => Came::Head(stream, self.head(Kind::Request), end),
            ConnectionEvent::Response { stream, end } => Came::Head(stream, self.head(Kind::Response), end),
            ConnectionEvent::Data { stream, bytes, end } => {
                Came::Data(stream, self.input[bytes].to_vec(), end)
            }
            ConnectionEvent::Trailers { stream } => Came::End(stream),
            ConnectionEvent::Reset { stream, code, .. } => {
                Came::Reset(stream, code == ErrorCode::RefusedStream)
            }
            ConnectionEvent::GoAway { last, .. } => Came::GoAway(last),
            ConnectionEvent::Window { .. } | ConnectionEvent::More => return None,
            ConnectionEvent::Failed(code) => panic!("the proxy broke the protocol: {code}"),
        })
    }

    /// The received head, as an HTTP/1 message.
    fn head(&mut self, kind: Kind) -> Box<Message> {
        let mut received = self.engine.room();
        self.engine.take_head(&mut received);
        assert!(received.fault.is_none(), "a head that is none");
        message(kind, &received.bytes)
    }
}

/// Parses a head in HTTP/1 syntax.
pub(crate) fn message(kind: Kind, bytes: &[u8]) -> Box<Message> {
    let mut message = Box::new(Message::new(100));
    assert!(message.read_kept(kind, bytes).is_some(), "no head: {}", String::from_utf8_lossy(bytes));
    message
}

/// The value of a field.
pub(crate) fn field(message: &Message, name: &str) -> Option<String> {
    let fields = message.head.fields(message.bytes());
    let value = fields.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
    value.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}
