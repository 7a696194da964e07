//! The client's part: opening streams, and receiving responses.

use weir_http::{Head, Method};

use super::receive::{FrameResult, failed};
use super::{Connection, ConnectionEvent, ExpectedInput, GoAwayState};
use crate::answer::{self, RequestTraits};
use crate::error::{ErrorCode, Wrong};
use crate::frame::{self, PREFACE, STREAM_BITS};
use crate::limits::ConnectionLimits;
use crate::outgoing_head;
use crate::received::HeadFault;
use crate::settings;
use crate::stream::{Stream, StreamState, UNANNOUNCED};
use crate::streams::StreamStanding;
use crate::window::{FlowWindow, WindowDebt};

impl Connection {
    /// A connection to a server. The preface and SETTINGS are in the output; streams can be opened at once.
    pub fn client(limits: ConnectionLimits) -> Connection {
        let no_push = [(settings::ENABLE_PUSH, 0, 1)];
        let mut connection = Connection::new(limits, ExpectedInput::Header, PREFACE.to_vec(), &no_push);
        let answers = answer::Builder::new(limits.max_fields, limits.max_head);
        connection.answers = Some(Box::new(answers));
        connection
    }

    /// Limit of concurrent streams: the lower of this end's and the server's.
    pub fn stream_limit(&self) -> u32 {
        let own = self.limits.concurrent_streams;
        self.peer.concurrent_streams.min(if own > 0 { own } else { u32::MAX })
    }

    /// Whether the server accepts extended CONNECT (RFC 8441).
    pub fn takes_extended_connect(&self) -> bool {
        self.peer.extended_connect
    }

    /// Whether streams can no longer be opened: the connection is over, either end sent GOAWAY, or the stream IDs are used up.
    pub fn is_closing(&self) -> bool {
        self.leaving != GoAwayState::No || self.peer_leaves || self.streams.last >= STREAM_BITS - 2
    }

    /// Opens a stream with this request. `scheme` is used if its target lacks one; with `end` no body follows. An
    /// upgrade to another protocol becomes an extended CONNECT (RFC 8441). `None` if the connection cannot open a
    /// stream, now or ever.
    pub fn open(&mut self, head: &Head, raw: &[u8], scheme: &[u8], chunks: bool, end: bool) -> Option<u32> {
        if self.is_closing() || self.streams.len() >= self.stream_limit() as usize {
            return None;
        }
        let id = if self.streams.last == 0 { 1 } else { self.streams.last + 2 };
        self.streams.last = id;
        self.opened = self.opened.saturating_add(1);
        let at = frame::begin_headers(&mut self.output);
        let protocol = head.upgrade(raw);
        outgoing_head::encode(head, raw, scheme, protocol, &mut self.encoder, &mut self.output);
        let (head_only, connect) = (head.method() == Method::Head, head.method() == Method::Connect);
        self.streams.open(Stream {
            id,
            state: StreamState::Open,
            receive: FlowWindow::new(self.initial.size()),
            lent: 0,
            has_grown: false,
            send: FlowWindow::new(self.peer.initial_window),
            owed: WindowDebt::default(),
            expected: UNANNOUNCED,
            request: RequestTraits { head_only, connect, extended: protocol.is_some(), chunks },
            answered: false,
            given_up: false,
        });
        self.end_block_of(id, at, end);
        if self.frames == 0 {
            // SETTINGS are sent together with the first request.
            self.distance.begin_probe(self.now_ms);
        } else if self.has_large_bodies && self.distance.is_far() {
            // This response may be as large as an earlier one, and should not wait a round trip for its window.
            self.give(id, 0, true);
        }
        Some(id)
    }

    /// Sends PING. Its acknowledgement counts as a received frame.
    pub fn ping(&mut self) {
        frame::write_ping(&mut self.output, false, *b"presence");
    }

    /// The state of a stream ID. Frames for a closed stream without a record are not an error. A server opens no streams.
    pub(super) fn standing(&self, stream: u32) -> StreamStanding {
        match self.streams.standing(stream) {
            _ if self.answers.is_some() && stream.is_multiple_of(2) => StreamStanding::Idle,
            StreamStanding::Closed | StreamStanding::PassedOver if self.answers.is_some() => {
                StreamStanding::Reset
            }
            standing => standing,
        }
    }

    /// The last processed stream of the peer: 0 for a client, since servers open none.
    pub(super) fn last_of_peer(&self) -> u32 {
        if self.answers.is_some() { 0 } else { self.streams.last }
    }

    /// Handles GOAWAY with these fields.
    pub(super) fn peer_leaves(&mut self, fields: &[u8; 8]) -> Option<ConnectionEvent> {
        self.peer_leaves = true;
        self.answers.as_ref()?;
        let last = frame::number(fields) & STREAM_BITS;
        let code = ErrorCode::from_wire(frame::number(&fields[4..]));
        self.streams.close_behind(last);
        Some(ConnectionEvent::GoAway { last, code })
    }

    /// Rejects settings that a server must not send (RFC 9113, 6.5.2).
    pub(super) fn check_entry(&self, entry: &[u8; settings::ENTRY]) -> FrameResult {
        let pushes = u16::from_be_bytes([entry[0], entry[1]]) == settings::ENABLE_PUSH;
        if self.answers.is_some() && pushes && frame::number(&entry[2..]) != 0 {
            return failed(ErrorCode::Protocol);
        }
        Ok(())
    }

    /// Handles the complete head of a response. If it has a fault, the stream is closed.
    pub(super) fn begin_response(&mut self, stream: u32, end: bool) -> FrameResult<Option<ConnectionEvent>> {
        let (Some(record), Some(answers)) = (self.streams.get_mut(stream), &mut self.answers) else {
            return Ok(None);
        };
        let expected = answers.finish(end);
        if answers.received.fault == Some(HeadFault::Malformed) {
            // The caller gets the fault with the event. The server gets RST_STREAM.
            self.refuse(stream, ErrorCode::Protocol).map_err(Wrong::Connection)?;
            return Ok(Some(ConnectionEvent::Response { stream, end: true }));
        }
        let status = answers.received.head.status();
        if !(100..200).contains(&status) || status == 101 {
            record.answered = true;
            record.expected = expected.unwrap_or(UNANNOUNCED);
        }
        let begins = record.answered && !end;
        if end && record.end_remote() {
            self.streams.close(stream, false);
        }
        if begins {
            self.widen_once();
        }
        Ok(Some(ConnectionEvent::Response { stream, end }))
    }
}

#[cfg(test)]
mod tests;
