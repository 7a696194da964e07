//! The output of a scripted server or agent, which leaves in pieces with pauses.

use weir_sched::simulate::network::{SimulatedNetwork, SimulatedPeer};
use weir_sched::{Tick, now};

/// Bytes to send.
pub(crate) struct OutputPieces {
    pub(crate) bytes: Vec<u8>,
    /// When more of them is sent.
    pub(crate) sends_at: Tick,
    /// The limit of pauses, in milliseconds.
    pause_ms: u64,
}

impl OutputPieces {
    /// No bytes yet.
    pub(crate) fn new(pause_ms: u64) -> OutputPieces {
        OutputPieces { bytes: Vec::new(), sends_at: now(), pause_ms }
    }

    /// Sends a piece. True if any byte was sent, `None` if the connection ended.
    pub(crate) fn send(&mut self, peer: &SimulatedPeer, network: &SimulatedNetwork) -> Option<bool> {
        if self.bytes.is_empty() || now() < self.sends_at {
            return Some(false);
        }
        let whole = self.bytes.len();
        let piece = if network.random(3) == 0 { 1 + network.random(whole as u64) as usize } else { whole };
        let sent = peer.try_send(&self.bytes[..piece]).ok()?;
        self.bytes.drain(..sent);
        if piece < whole {
            self.sends_at = now().after(network.random(self.pause_ms));
        }
        Some(sent > 0)
    }
}
