//! Handles quiet HTTP/2 connections: sends a PING to silent peers (`idle-ping`), and frees receive memory.

use std::time::Duration;

use weir_mux::Multiplexer;
use weir_sched::Tick;

use crate::clock;
use crate::holding::QUIET;

/// Tracks the silence of a peer.
pub(crate) struct Silence {
    until: Tick,
    frames: u64,
    probed: bool,
}

impl Default for Silence {
    fn default() -> Self {
        Silence { until: Tick::NEVER, frames: u64::MAX, probed: false }
    }
}

impl Silence {
    /// The deadline of the allowed silence. Each received frame restarts it.
    pub(crate) fn until(&mut self, frames: u64, delay: Duration) -> Tick {
        if frames != self.frames || self.until.is_never() {
            *self = Silence { until: clock::after(delay), frames, probed: false };
        } else if clock::passed(self.until) {
            self.until = clock::after(delay);
        }
        self.until
    }

    /// Sends a PING after too long a silence. Returns false if the previous PING is unanswered.
    pub(crate) fn probe(&mut self, multiplexer: &Multiplexer) -> bool {
        if multiplexer.frames() == self.frames {
            if std::mem::replace(&mut self.probed, true) {
                return false;
            }
            multiplexer.ping();
        }
        true
    }
}

/// When to free the memory that only a busy connection needs: after the peer was silent for [`QUIET`], with or without waiting streams.
/// Not immediately, because a client with sequential requests is soon busy again.
pub(crate) struct Rest {
    /// The number of frames received, and whether the list of streams was empty.
    seen: (u64, bool),
    at: Tick,
}

impl Default for Rest {
    fn default() -> Self {
        Rest { seen: (0, false), at: Tick::NEVER }
    }
}

impl Rest {
    /// When the memory is to be freed.
    pub(crate) fn at(&mut self, frames: u64, is_idle: bool) -> Tick {
        let seen = (frames, is_idle);
        if seen != std::mem::replace(&mut self.seen, seen) {
            self.at = clock::after(QUIET);
        }
        self.at
    }

    /// Frees the memory if the time has come.
    pub(crate) fn take(&mut self, multiplexer: &Multiplexer) {
        if clock::passed(self.at) {
            self.at = Tick::NEVER;
            multiplexer.shrink();
        }
    }
}
