//! What an HTTP/1 message says of its body and of its connection, made true before it leaves.
//!
//! Rules may have changed the fields that say so, but not the bytes that follow. And what one peer said of its own
//! connection says nothing of the other one: see [`weir_h1::connection`].

use weir_h1::{BodyFraming, connection};
use weir_http::{BodySize, Flags, NoRoom};

pub use weir_h1::connection::Mode as ConnectionMode;

use crate::message::Message;

impl Message {
    /// Makes a request that rules may have edited say what body follows it, and tells the server what becomes of its
    /// connection. `pretends` is `option http-pretend-keepalive`. Whether that connection may carry another request.
    ///
    /// # Errors
    /// When the head has no room for what has to be said.
    pub fn settle_request(&mut self, mode: ConnectionMode, pretends: bool) -> Result<bool, NoRoom> {
        let size = BodySize::of_request(&self.head);
        self.restate(size)?;
        let (head, raw) = self.edit();
        let written = connection::asks_to_close(head, raw);
        let closes = written || head.flags().intersects(Flags::DOUBTFUL);
        let said = match () {
            () if closes => ConnectionMode::ServerClose,
            () if pretends => ConnectionMode::KeepAlive,
            () => mode,
        };
        // After an upgrade the connection's fate is in the response: nothing is said of it, and what the client said of its own
        // connection stays behind (RFC 9110, 7.6.1).
        let upgrade = connection::may_switch_protocols(head);
        if !(upgrade && written) {
            let announcement = match upgrade {
                true => connection::Announce::Nothing,
                false => connection::announcement_to_server(head, said),
            };
            connection::announce(head, raw, announcement)?;
        }
        Ok(mode == ConnectionMode::KeepAlive && !closes)
    }

    /// Whether a request allows its response to be `101 Switching Protocols`.
    pub fn may_switch_protocols(&self) -> bool {
        connection::may_switch_protocols(&self.head)
    }

    /// Makes an edited head say what body follows it: see [`weir_h1::restate`].
    ///
    /// # Errors
    /// When the head has no room for it.
    pub fn restate(&mut self, size: BodySize) -> Result<(), NoRoom> {
        let framing = BodyFraming::of(size, &self.head);
        let (head, raw) = self.edit();
        weir_h1::restate(head, raw, framing)
    }

    /// Makes the head say that its body comes in chunks, whatever it said before.
    ///
    /// # Errors
    /// When the head has no room for it.
    pub fn chunk(&mut self) -> Result<(), NoRoom> {
        self.head.touch();
        self.head.note(Flags::CHUNKED);
        self.head.unnote(Flags::ENDED);
        self.restate(BodySize::Unknown)
    }

    /// Makes the head of a response say that its body lasts as long as the connection.
    ///
    /// # Errors
    /// When the head has no room for it.
    pub fn unframe(&mut self) -> Result<(), NoRoom> {
        self.head.touch();
        self.head.unnote(Flags::CHUNKED);
        self.restate(BodySize::Unknown)
    }

    /// Whether the connection of the server that sent this response may carry another request, when the body was of this size.
    pub fn server_persists(&self, size: BodySize, mode: ConnectionMode) -> bool {
        connection::server_persists(&self.head, BodyFraming::of(size, &self.head), mode)
    }

    /// Whether the connection of the client that gets this response may carry another request after `request`, when what
    /// follows the response is of this size.
    pub fn client_persists(&self, request: &Message, size: BodySize, mode: ConnectionMode) -> bool {
        // A response whose end can be read in two ways cannot be trusted to have been understood by everybody.
        let doubtful = self.head.flags().intersects(Flags::DOUBTFUL);
        !doubtful
            && !connection::asks_to_close(&self.head, self.bytes())
            && connection::client_persists(&request.head, BodyFraming::of(size, &self.head), mode)
    }

    /// Tells the client with the final response to `request` whether its connection stays open.
    ///
    /// # Errors
    /// When the head has no room for it.
    pub fn announce_to_client(&mut self, request: &Message, persists: bool) -> Result<(), NoRoom> {
        self.announce(connection::announcement_to_client(&request.head, &self.head, persists))
    }

    /// Takes away what a peer said of its own connection: a tunnel follows (RFC 9110, 7.6.1).
    ///
    /// # Errors
    /// When the head has no room for what else the field said.
    pub fn announce_tunnel(&mut self) -> Result<(), NoRoom> {
        self.announce(connection::Announce::Nothing)
    }

    fn announce(&mut self, announcement: connection::Announce) -> Result<(), NoRoom> {
        let (head, raw) = self.edit();
        connection::announce(head, raw, announcement)
    }
}

#[cfg(test)]
mod tests {
    use weir_http::Kind;

    use super::*;

    #[track_caller]
    fn check(framing: &str, change: fn(&mut Message) -> Result<(), NoRoom>, want: &str) {
        let mut message = Message::new(100);
        let head = format!("HTTP/1.1 200 OK\r\nA: b\r\n{framing}\r\n");
        assert!(message.read_kept(Kind::Response, head.as_bytes()).is_some(), "{head}");
        change(&mut message).expect("room");
        let mut written = Vec::new();
        message.write(&mut written);
        assert_eq!(String::from_utf8_lossy(&written), format!("HTTP/1.1 200 OK\r\nA: b\r\n{want}\r\n"));
    }

    #[test]
    fn a_head_says_another_framing() {
        let (length, chunked) = ("Content-Length: 5\r\n", "transfer-encoding: chunked\r\n");
        for came in [length, chunked, ""] {
            check(came, Message::chunk, chunked);
            check(came, Message::unframe, "");
        }
    }
}
