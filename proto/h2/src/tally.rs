//! Counts of received frames and of errors of a connection.

use crate::frame::FrameKind;

/// Counts of one connection since it began. Each wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTally {
    /// Received frames, by type.
    received: [u32; FrameKind::COUNT],
    /// Connection errors caused by the peer.
    pub connection_errors: u32,
    /// Stream errors caused by the peer.
    pub stream_errors: u32,
    /// RST_STREAM frames that this end sent because of received frames.
    pub resets_sent: u32,
    /// GOAWAY frames that this end sent because of received frames.
    pub go_aways_sent: u32,
    /// Requests rejected as malformed before they became streams.
    pub refused: u32,
}

impl ConnectionTally {
    /// Number of received frames of this type.
    pub fn received(&self, kind: FrameKind) -> u32 {
        self.received[kind as usize]
    }

    #[inline]
    pub(crate) fn count(&mut self, kind: FrameKind) {
        let count = &mut self.received[kind as usize];
        *count = count.wrapping_add(1);
    }
}
