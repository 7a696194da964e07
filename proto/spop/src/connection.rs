//! The balancer's end of a connection to an agent.
//!
//! ```text
//!   AwaitHello ──AGENT-HELLO──► Ready ──AGENT-DISCONNECT──► Closed
//!       │                         │                           ▲
//!       │  an error, disconnect() │                           │
//!       └───► AwaitDisconnect ◄───┘ ────AGENT-DISCONNECT──────┘
//! ```
//!
//! A frame that cannot be read leads to Closed from any state, since the frames after it cannot be found.

use crate::data::{Items, TypedData, write_item};
use crate::frame::{self, FIN, FrameError, SpopFrame, SpopFrameKind};
use crate::hello::{AgentHello, AgentLimits, write_of_the_connection};
use crate::status::StatusCode;

/// The engine of one connection. It does not know time: its driver bounds the wait for the agent's HELLO, its ACK frames
/// and its DISCONNECT.
///
/// Its memory is its output: at most twice [`MAX_OUTPUT`] bytes, and two frames.
#[derive(Debug)]
pub struct AgentConnection {
    state: State,
    /// The offered size until the agent's HELLO, then the negotiated one.
    max_frame_size: u32,
    /// The offer until the agent's HELLO, then whether both sides support it.
    pipelining: bool,
    /// IDs of the NOTIFY frame that must be acknowledged before the next one. Unused with pipelining.
    awaited: Option<(u64, u64)>,
    /// Frames without meaning so far.
    ignored: u32,
    output: Vec<u8>,
    /// How much of `output` is flushed.
    flushed: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitHello,
    Ready,
    AwaitDisconnect,
    Closed,
}

/// Frames of the agent, and its faults. Payloads are borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEvent<'i> {
    /// The HELLO handshake succeeded: NOTIFY frames may be sent.
    Ready {
        /// The negotiated limit in bytes, without the length prefix.
        max_frame_size: u32,
        pipelining: bool,
    },
    /// The answer to a NOTIFY frame. The engine does not know all IDs in use; HAProxy 3.2 resets the connection for an ACK
    /// frame with unknown ones ([`StatusCode::FrameIdNotFound`]).
    Ack {
        stream_id: u64,
        frame_id: u64,
        /// Whether the agent cancelled the exchange (the ABORT flag). HAProxy 3.2 ignores this and applies the actions.
        is_aborted: bool,
        /// For [`crate::AgentActions`].
        payload: &'i [u8],
    },
    /// The agent ended the connection. No reply is due: the agent closes its socket, and HAProxy 3.2 does not send one either.
    Disconnected {
        /// Any number; 0 if it is missing. HAProxy 3.2 reports 0 as an I/O error (257 in the variable of `set-on-error`).
        status: u32,
        /// At most [`MAX_MESSAGE`] bytes, any.
        message: &'i [u8],
    },
    /// The agent broke the protocol. A DISCONNECT frame with this code is in the output. Exchanges in flight have failed.
    Failed(StatusCode),
}

/// Why a NOTIFY frame was not queued. The connection is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyError {
    /// The frame would exceed the negotiated size: [`StatusCode::FrameTooBig`]. It fits into no frame of this connection.
    TooLarge,
    /// An ACK frame must arrive first, or output must be flushed.
    Busy,
    /// The handshake is not complete, or the connection ends.
    NotReady,
}

impl AgentConnection {
    /// Begins a connection: a HELLO frame is in the output.
    #[must_use]
    pub fn new(limits: AgentLimits<'_>) -> Self {
        let mut output = Vec::new();
        limits.write_hello(&mut output);
        AgentConnection {
            state: State::AwaitHello,
            max_frame_size: limits.frame_size(),
            pipelining: limits.pipelining,
            awaited: None,
            ignored: 0,
            output,
            flushed: 0,
        }
    }

    /// Reads frames from the front of `input` up to the first event. Returns the number of bytes read, and the event. Without an
    /// event all complete frames were read, and the caller keeps the rest: less than one frame of [`Self::max_frame_size`] bytes
    /// and its prefix.
    ///
    /// Frames of unknown types are skipped, up to [`MAX_IGNORED`]; HAProxy 3.2 resets the connection for one. After the end, any input is read and ignored.
    pub fn receive<'i>(&mut self, input: &'i [u8]) -> (usize, Option<AgentEvent<'i>>) {
        let mut consumed = 0;
        while self.state != State::Closed {
            match frame::read(&input[consumed..], self.max_frame_size) {
                Ok(None) => return (consumed, None),
                Ok(Some((frame, length))) => {
                    consumed += length;
                    let event = self.receive_frame(frame);
                    if event.is_some() {
                        return (consumed, event);
                    }
                }
                Err(error) => {
                    let code = match error {
                        FrameError::TooLarge => StatusCode::FrameTooBig,
                        FrameError::Malformed => StatusCode::InvalidFrame,
                    };
                    let is_first = self.disconnect(code);
                    self.state = State::Closed;
                    return (input.len(), is_first.then_some(AgentEvent::Failed(code)));
                }
            }
        }
        (input.len(), None)
    }

    fn receive_frame<'i>(&mut self, frame: SpopFrame<'i>) -> Option<AgentEvent<'i>> {
        let event = match (self.state, frame.kind) {
            (State::AwaitDisconnect, SpopFrameKind::AgentDisconnect) => {
                self.state = State::Closed;
                Ok(disconnected(frame.payload)
                    .unwrap_or(AgentEvent::Disconnected { status: 0, message: b"" }))
            }
            (State::AwaitDisconnect | State::Closed, _) => return None,
            (State::Ready, SpopFrameKind::Unknown(_)) if self.may_ignore() => return None,
            (State::AwaitHello | State::Ready, _) if !frame.is_final() => Err(StatusCode::Fragmentation),
            (State::AwaitHello, SpopFrameKind::AgentHello) => self.receive_hello(frame),
            (State::Ready, SpopFrameKind::Ack) => Ok(self.receive_ack(frame)),
            (_, SpopFrameKind::AgentDisconnect) if frame.is_of_the_connection() => {
                let event = disconnected(frame.payload).ok_or(StatusCode::InvalidFrame);
                if event.is_ok() {
                    self.state = State::Closed;
                }
                event
            }
            // As HAProxy 3.2: a second HELLO and a frame of the balancer's are ignored.
            (State::Ready, kind) if kind != SpopFrameKind::AgentDisconnect && self.may_ignore() => {
                return None;
            }
            _ => Err(StatusCode::InvalidFrame),
        };
        Some(event.unwrap_or_else(|code| {
            self.disconnect(code);
            AgentEvent::Failed(code)
        }))
    }

    /// Counts a frame without meaning. False if the agent sent too many of them.
    fn may_ignore(&mut self) -> bool {
        self.ignored += 1;
        self.ignored <= MAX_IGNORED
    }

    fn receive_hello(&mut self, frame: SpopFrame<'_>) -> Result<AgentEvent<'static>, StatusCode> {
        if !frame.is_of_the_connection() {
            return Err(StatusCode::InvalidFrame);
        }
        let hello = AgentHello::read(frame.payload, self.max_frame_size)?;
        if !hello.has_version {
            return Err(StatusCode::VersionMissing);
        }
        self.max_frame_size = hello.max_frame_size.unwrap_or(self.max_frame_size);
        self.pipelining &= hello.pipelining.unwrap_or(false);
        self.state = State::Ready;
        Ok(AgentEvent::Ready { max_frame_size: self.max_frame_size, pipelining: self.pipelining })
    }

    fn receive_ack<'i>(&mut self, frame: SpopFrame<'i>) -> AgentEvent<'i> {
        let SpopFrame { stream_id, frame_id, payload, .. } = frame;
        // An ACK frame for another NOTIFY frame does not free the connection.
        self.awaited.take_if(|awaited| *awaited == (stream_id, frame_id));
        AgentEvent::Ack { stream_id, frame_id, is_aborted: frame.is_aborted(), payload }
    }

    /// Whether a NOTIFY frame that fits may be queued now: the handshake is complete, output is not piled up, and without
    /// pipelining no ACK frame is awaited.
    #[must_use]
    pub fn may_notify(&self) -> bool {
        self.state == State::Ready && self.awaited.is_none() && self.output().len() <= MAX_OUTPUT
    }

    /// The largest payload of a NOTIFY frame with these IDs, in bytes. Before the handshake it is that of the offered size.
    #[must_use]
    pub fn max_payload(&self, stream_id: u64, frame_id: u64) -> usize {
        let size = usize::try_from(self.max_frame_size).unwrap_or(usize::MAX);
        // The smallest frame size is far larger than a header.
        size.saturating_sub(frame::header_length(stream_id, frame_id))
    }

    /// Queues a NOTIFY frame. The payload is a list of messages ([`crate::MessageWriter`]).
    ///
    /// # Errors
    /// The frame was not queued.
    pub fn notify(&mut self, stream_id: u64, frame_id: u64, payload: &[u8]) -> Result<(), NotifyError> {
        if self.state != State::Ready {
            return Err(NotifyError::NotReady);
        }
        if payload.len() > self.max_payload(stream_id, frame_id) {
            return Err(NotifyError::TooLarge);
        }
        if !self.may_notify() {
            return Err(NotifyError::Busy);
        }
        let frame = SpopFrame { kind: SpopFrameKind::Notify, flags: FIN, stream_id, frame_id, payload };
        frame::write(&frame, &mut self.output);
        if !self.pipelining {
            self.awaited = Some((stream_id, frame_id));
        }
        Ok(())
    }

    /// Queues a DISCONNECT frame, with [`StatusCode::Normal`] for an end without an error. Later frames are ignored up to the
    /// agent's DISCONNECT. Returns false, without an effect, if the connection ends already.
    pub fn disconnect(&mut self, code: StatusCode) -> bool {
        if !matches!(self.state, State::AwaitHello | State::Ready) {
            return false;
        }
        let mut payload = Vec::new();
        write_item(STATUS_CODE, TypedData::Uint32(u64::from(code.number())), &mut payload);
        write_item(MESSAGE, TypedData::Text(code.message().as_bytes()), &mut payload);
        write_of_the_connection(SpopFrameKind::HaproxyDisconnect, &payload, &mut self.output);
        self.state = State::AwaitDisconnect;
        true
    }

    /// Whether nothing more is awaited. The socket may be closed once the output is flushed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The offered limit of a frame in bytes until the agent's HELLO, then the negotiated one. The length prefix is not included.
    #[must_use]
    pub fn max_frame_size(&self) -> u32 {
        self.max_frame_size
    }

    /// The bytes to send.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output[self.flushed..]
    }

    /// Removes the first `length` bytes from the output: they are sent.
    pub fn flushed(&mut self, length: usize) {
        self.flushed = self.flushed.saturating_add(length).min(self.output.len());
        if self.flushed == self.output.len() {
            self.output.clear();
            self.output.shrink_to(KEPT_OUTPUT);
            self.flushed = 0;
        } else if self.flushed > MAX_OUTPUT {
            self.output.drain(..self.flushed);
            self.flushed = 0;
        }
    }
}

/// Reads the payload of an AGENT-DISCONNECT frame. `None` if it is malformed. HAProxy 3.2 takes a status of any integer type.
fn disconnected(payload: &[u8]) -> Option<AgentEvent<'_>> {
    let (mut status, mut message) = (0, &b""[..]);
    for item in Items::new(payload) {
        match item.ok()? {
            (STATUS_CODE, value) => status = u32::try_from(value.integer()?).ok()?,
            (MESSAGE, TypedData::Text(text)) => message = &text[..text.len().min(MAX_MESSAGE)],
            (MESSAGE, _) => return None,
            _ => {}
        }
    }
    Some(AgentEvent::Disconnected { status, message })
}

/// How many bytes may wait in the output when a NOTIFY frame is added.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// How many frames without meaning an agent may send on one connection. Each costs time of the worker.
pub const MAX_IGNORED: u32 = 100;

/// How much memory an idle connection keeps for its output: the frames of most requests fit.
const KEPT_OUTPUT: usize = 1024;

/// The longest text of an agent's DISCONNECT that is passed on, in bytes.
pub const MAX_MESSAGE: usize = 1024;

pub(crate) const STATUS_CODE: &[u8] = b"status-code";
pub(crate) const MESSAGE: &[u8] = b"message";

#[cfg(test)]
mod tests;
