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
//! RST_STREAM, of either end, leads from each of them to closed. Idle and closed streams are not recorded: their
//! numbers distinguish the two.

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
    /// How much wider than its initial size the whole receive window is, as the peer knows it or will know it.
    pub lent: u32,
    /// Its window grew, or would have if the peer were far, when the peer had used half of it.
    pub has_grown: bool,
    /// Consumed bytes that were not given back to the peer yet.
    pub owed: WindowDebt,
    /// The rest of the announced length in bytes; [`UNANNOUNCED`] without one.
    pub expected: u64,
    /// Properties of the request, for a client.
    pub request: RequestTraits,
    /// The head of the final response was received, or none is expected.
    pub answered: bool,
    /// It was answered before its request ended.
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

    /// Notes the peer's last frame; returns whether the stream is closed now.
    #[inline]
    pub(crate) fn end_remote(&mut self) -> bool {
        let closed = self.state == StreamState::HalfClosedLocal;
        self.state = StreamState::HalfClosedRemote;
        closed
    }

    /// Notes this end's last frame; returns whether the stream is closed now.
    #[inline]
    pub(crate) fn end_local(&mut self) -> bool {
        let closed = self.state == StreamState::HalfClosedRemote;
        self.state = StreamState::HalfClosedLocal;
        closed
    }

    /// Counts received payload; false if it exceeds the announced length.
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
