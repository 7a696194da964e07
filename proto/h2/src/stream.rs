//! The states of a stream, as a server sees them (RFC 9113, 5.1). A client's differ in who sends the first HEADERS.
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
//! RST_STREAM, of either end, leads from each of them to closed. Streams that are idle or closed have no record: their
//! numbers say which of both they are.

use crate::answer::Asked;
use crate::window::{Owed, Window};

/// Which ends may still send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Both.
    Open,
    /// This end only.
    HalfClosedRemote,
    /// The peer only.
    HalfClosedLocal,
}

/// A stream that is neither idle nor closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub id: u32,
    pub state: State,
    /// What the peer may send.
    pub receive: Window,
    /// What this end may send.
    pub send: Window,
    /// What was consumed and not given back.
    pub owed: Owed,
    /// What is left of the announced length; [`UNANNOUNCED`] without one.
    pub expected: u64,
    /// What a client asked with it.
    pub asked: Asked,
    /// The head of the final response came, or nobody waits for one.
    pub answered: bool,
}

/// No length was announced.
pub(crate) const UNANNOUNCED: u64 = u64::MAX;

impl Stream {
    /// Whether the peer may still send.
    #[inline]
    pub fn receives(&self) -> bool {
        self.state != State::HalfClosedRemote
    }

    /// Whether this end may still send.
    #[inline]
    pub fn sends(&self) -> bool {
        self.state != State::HalfClosedLocal
    }

    /// The peer sent its last frame; whether the stream is closed now.
    #[inline]
    pub fn end_remote(&mut self) -> bool {
        let closed = self.state == State::HalfClosedLocal;
        self.state = State::HalfClosedRemote;
        closed
    }

    /// This end sent its last frame; whether the stream is closed now.
    #[inline]
    pub fn end_local(&mut self) -> bool {
        let closed = self.state == State::HalfClosedRemote;
        self.state = State::HalfClosedLocal;
        closed
    }

    /// That many bytes of payload came; false if they are more than what was announced.
    #[inline]
    pub fn count_payload(&mut self, count: u32) -> bool {
        if self.expected == UNANNOUNCED {
            return true;
        }
        match self.expected.checked_sub(u64::from(count)) {
            Some(left) => self.expected = left,
            None => return false,
        }
        true
    }

    /// Whether the payload may be over (RFC 9113, 8.1.1).
    #[inline]
    pub fn may_end(&self) -> bool {
        matches!(self.expected, 0 | UNANNOUNCED)
    }
}
