//! Minimizes the memory of a waiting stream.
//!
//! In a long wait, a stream holds only its state and its unprocessed bytes, in memory of their size. Where the next event is probably
//! near, as between two receives of a transfer, memory is freed only after a quiet time: copying bytes that are about to be sent costs
//! more than it saves.

use std::time::Duration;

use crate::stream::Stream;

impl Stream {
    /// Called before a long wait during which the request is not sent.
    pub(crate) fn hold_little(&mut self) {
        if self.request.is_known() {
            self.request.message.detach(&mut self.client);
        }
        self.scratch.reset();
        // The excess memory of an HTTP/2 stream is in its head and is freed after a quiet time, because queues are often short.
        if self.client.shared().is_none() {
            self.client.shrink_input();
        }
    }

    /// Called when peers were quiet for [`QUIET`]: shrinks the buffers to their contents.
    #[cold]
    pub(crate) fn hold_less(&mut self) {
        self.client.shrink_input();
        self.server.shrink_input();
        // A message without contents does not hold memory. Shrinking it would fetch some.
        if self.request.is_known() {
            self.request.message.shrink();
        }
        self.entry.shrink_request_line();
    }

    /// Whether the buffers are larger than their contents.
    #[inline]
    pub(crate) fn has_slack(&self) -> bool {
        self.client.has_slack() || self.server.has_slack()
    }
}

/// The quiet time before buffers shrink: longer than a reading peer takes to free its window, shorter than most long waits.
pub(crate) const QUIET: Duration = Duration::from_millis(200);
