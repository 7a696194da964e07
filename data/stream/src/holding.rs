//! What a stream keeps while it waits: as little as it can.
//!
//! Who waits for long holds its own state and the bytes that are nobody else's, in memory of their size. Where the next event
//! is likely to come soon, as between two receivers of a transfer, memory is given back only once it was quiet for a while: copying
//! what is about to leave costs more than it saves.

use std::time::Duration;

use crate::stream::Stream;

impl Stream {
    /// The stream is about to wait for long, and its request does not leave before.
    pub(crate) fn hold_little(&mut self) {
        if self.request.is_known() {
            self.request.message.detach(&mut self.client);
        }
        self.scratch.reset();
        self.client.shrink_input();
    }

    /// Peers were quiet for [`QUIET`]: what waits for them is kept in no more memory than it needs.
    #[cold]
    pub(crate) fn hold_less(&mut self) {
        self.client.shrink_input();
        self.server.shrink_input();
    }

    /// Whether what waits for peers takes more memory than it needs.
    #[inline]
    pub(crate) fn has_slack(&self) -> bool {
        self.client.has_slack() || self.server.has_slack()
    }
}

/// Longer than a peer that reads takes to make room, shorter than anybody who means to wait.
pub(crate) const QUIET: Duration = Duration::from_millis(200);
