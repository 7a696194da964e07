//! The states of a stream from the server's view (RFC 9113, 5.1). In a client, the other end sends the first HEADERS.
//!
//! ```text
//!              HEADERS                    the peer's last frame
//!   (idle) ──────────────► Open ──────────────────────────────────► HalfClosedRemote
//!      │                     │                                             │
//!      │ HEADERS with        │ our last frame                our last frame│
//!      │ END_STREAM          ▼                                             ▼
//!      └──────────►  HalfClosedLocal ──── the peer's last frame ────►   (closed)
//!        (to HalfClosedRemote)
//! ```
//!
//! RST_STREAM from either end closes a stream in any state. Idle and closed streams are not recorded. Their IDs distinguish the two.

use crate::answer::RequestTraits;
use crate::window::{FlowWindow, WindowDebt};

/// Which ends may still send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamState {
    Open,
    HalfClosedRemote,
    HalfClosedLocal,
}

/// A stream that is neither idle nor closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub id: u32,
    pub state: StreamState,
    pub receive: FlowWindow,
    pub send: FlowWindow,
    /// Bytes by which the receive window exceeds its initial size, including WINDOW_UPDATE in transit.
    pub lent: u32,
    /// The receive window was due to grow after the peer had used half of it. It grew if the peer is far.
    pub has_grown: bool,
    /// Consumed bytes for which no WINDOW_UPDATE was sent yet.
    pub owed: WindowDebt,
    /// Bytes of the announced `content-length` not received yet; [`UNANNOUNCED`] without one.
    pub expected: u64,
    /// Properties of the request, for a client.
    pub request: RequestTraits,
    /// The head of the final response was received, or none is expected.
    pub answered: bool,
    /// The response was complete before the end of the request.
    pub given_up: bool,
}

/// No length was announced.
pub(crate) const UNANNOUNCED: u64 = u64::MAX;

impl Stream {
    /// Whether the peer may still send.
    #[inline]
    pub(crate) fn receives(&self) -> bool {
        self.state != StreamState::HalfClosedRemote
    }

    /// Whether this end may still send.
    #[inline]
    pub(crate) fn sends(&self) -> bool {
        self.state != StreamState::HalfClosedLocal
    }

    /// Records the peer's last frame. Returns whether the stream is closed now.
    #[inline]
    pub(crate) fn end_remote(&mut self) -> bool {
        let closed = self.state == StreamState::HalfClosedLocal;
        self.state = StreamState::HalfClosedRemote;
        closed
    }

    /// Records this end's last frame. Returns whether the stream is closed now.
    #[inline]
    pub(crate) fn end_local(&mut self) -> bool {
        let closed = self.state == StreamState::HalfClosedRemote;
        self.state = StreamState::HalfClosedLocal;
        closed
    }

    /// Subtracts received payload from the announced length. False if the payload exceeds it.
    #[inline]
    pub(crate) fn count_payload(&mut self, count: u32) -> bool {
        if self.expected == UNANNOUNCED {
            return true;
        }
        match self.expected.checked_sub(u64::from(count)) {
            Some(left) => self.expected = left,
            None => return false,
        }
        true
    }

    /// Whether the announced length was received in full, or none was announced (RFC 9113, 8.1.1).
    #[inline]
    pub(crate) fn may_end(&self) -> bool {
        matches!(self.expected, 0 | UNANNOUNCED)
    }
}
