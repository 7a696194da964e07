//! The memory that a stream keeps while it waits: as little as possible.
//!
//! A stream that waits for long holds its own state and the bytes that only it has, in memory of their size. Where the next event
//! is likely to come soon, as between two receives of a transfer, memory is only given back after a quiet time: copying bytes that
//! are about to leave costs more than it saves.

use std::time::Duration;

use crate::stream::Stream;

impl Stream {
    /// Called before a long wait during which the request does not leave.
    pub(crate) fn hold_little(&mut self) {
        if self.request.is_known() {
            self.request.message.detach(&mut self.client);
        }
        self.scratch.reset();
        // The excess memory of an HTTP/2 stream is that of its head, and queues are often short: it is freed after a
        // quiet time.
        if self.client.shared().is_none() {
            self.client.shrink_input();
        }
    }

    /// Called when peers were quiet for [`QUIET`]: shrinks the buffers to their contents.
    #[cold]
    pub(crate) fn hold_less(&mut self) {
        self.client.shrink_input();
        self.server.shrink_input();
        // A message without contents does not hold memory, and must not borrow any now.
        if self.request.is_known() {
            self.request.message.shrink();
        }
        self.entry.shrink_request_line();
    }

    /// Whether the buffers are larger than their contents need.
    #[inline]
    pub(crate) fn has_slack(&self) -> bool {
        self.client.has_slack() || self.server.has_slack()
    }
}

/// Longer than a reading peer takes to make room, shorter than most long waits.
pub(crate) const QUIET: Duration = Duration::from_millis(200);
