//! Framing and persistence of an HTTP/1 message, made consistent before it is sent.
//!
//! Rules may have changed the framing fields, but not the bytes after the head. And one peer's `Connection` field
//! does not concern the other connection: see [`weir_h1::connection`].

use weir_h1::{BodyFraming, connection};
use weir_http::{BodySize, HeadFlags, NoRoom};

pub use weir_h1::connection::PersistenceMode as ConnectionMode;

use crate::message::Message;

impl Message {
    /// Sets the framing fields of a request that rules may have edited, and its `Connection` field for the server.
    /// `pretends` is `option http-pretend-keepalive`. Returns whether the server's connection may carry another
    /// request.
    ///
    /// # Errors
    /// When the head lacks room for the fields.
    pub fn settle_request(&mut self, mode: ConnectionMode, pretends: bool) -> Result<bool, NoRoom> {
        let size = BodySize::of_request(&self.head);
        self.restate(size)?;
        let (head, raw) = self.edit();
        let written = connection::requests_close(head, raw);
        let closes = written || head.flags().intersects(HeadFlags::DOUBTFUL);
        let said = match () {
            () if closes => ConnectionMode::ServerClose,
            () if pretends => ConnectionMode::KeepAlive,
            () => mode,
        };
        // After an upgrade the response decides about the connection: no field is added, and the client's own `Connection`
        // options are removed (RFC 9110, 7.6.1).
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

    /// Sets the framing fields of an edited head: see [`weir_h1::restate`].
    ///
    /// # Errors
    /// When the head lacks room for it.
    pub fn restate(&mut self, size: BodySize) -> Result<(), NoRoom> {
        let framing = BodyFraming::of(size, &self.head);
        let (head, raw) = self.edit();
        weir_h1::restate(head, raw, framing)
    }

    /// Sets chunked framing, whatever the head had before.
    ///
    /// # Errors
    /// When the head lacks room for it.
    pub fn chunk(&mut self) -> Result<(), NoRoom> {
        self.head.touch();
        self.head.note(HeadFlags::CHUNKED);
        self.head.unnote(HeadFlags::ENDED);
        self.restate(BodySize::Unknown)
    }

    /// Announces a body of this length, whatever the head had before.
    ///
    /// # Errors
    /// When the head lacks room for it.
    pub fn set_length(&mut self, length: u64) -> Result<(), NoRoom> {
        self.head.touch();
        self.head.unnote(HeadFlags::CHUNKED);
        self.restate(BodySize::of_length(length))
    }

    /// Makes the body of a response end with the connection.
    ///
    /// # Errors
    /// When the head lacks room for it.
    pub fn unframe(&mut self) -> Result<(), NoRoom> {
        self.head.touch();
        self.head.unnote(HeadFlags::CHUNKED);
        self.restate(BodySize::Unknown)
    }

    /// Whether the connection of the server that sent this response may carry another request after a body of this size.
    pub fn server_persists(&self, size: BodySize, mode: ConnectionMode) -> bool {
        connection::server_persists(&self.head, BodyFraming::of(size, &self.head), mode)
    }

    /// Whether the client's connection may carry another request after `request` and this response, with a body of this
    /// size.
    pub fn client_persists(&self, request: &Message, size: BodySize, mode: ConnectionMode) -> bool {
        // Other parties may have understood a response with an ambiguous end differently.
        let doubtful = self.head.flags().intersects(HeadFlags::DOUBTFUL);
        !doubtful
            && !connection::requests_close(&self.head, self.bytes())
            && connection::client_persists(&request.head, BodyFraming::of(size, &self.head), mode)
    }

    /// Sets the `Connection` field of the final response to `request`: whether the connection stays open.
    ///
    /// # Errors
    /// When the head lacks room for it.
    pub fn announce_to_client(&mut self, request: &Message, persists: bool) -> Result<(), NoRoom> {
        self.announce(connection::announcement_to_client(&request.head, &self.head, persists))
    }

    /// Removes a peer's options for its own connection, because a tunnel follows (RFC 9110, 7.6.1).
    ///
    /// # Errors
    /// When the head lacks room for the field's other options.
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
    fn chunk_and_unframe_replace_the_framing_fields_of_a_head() {
        let (length, chunked) = ("Content-Length: 5\r\n", "transfer-encoding: chunked\r\n");
        for came in [length, chunked, ""] {
            check(came, Message::chunk, chunked);
            check(came, Message::unframe, "");
        }
    }
}
