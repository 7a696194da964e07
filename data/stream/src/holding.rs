//! What a stream keeps while it waits: as little as it can.
//!
//! Who waits for long holds its own state and the bytes that are nobody else's, in memory of their size. Where the next event
//! is likely to come soon, as between two receivers of a transfer, memory is given back only once it was quiet for a while: copying
//! what is about to leave costs more than it saves.

use std::time::Duration;

use weir_sched::{Tick, wait};

use crate::clock;
use crate::exchange::Exchange;

impl Exchange {
    /// The stream is about to wait for long, and its request does not leave before.
    pub(crate) fn hold_little(&mut self) {
        if self.facts.have_request {
            self.request.detach(&mut self.client);
        }
        self.scratch.reset();
        self.client.shrink_input();
    }

    /// Waits for either peer. If both are quiet for [`QUIET`], what waits for one of them is kept in less memory.
    #[inline]
    pub(crate) async fn wait_for_peers(&mut self, deadline: Tick) {
        self.scratch.reset();
        if !self.has_slack() {
            wait(deadline).await;
            return;
        }
        let quiet = clock::after(QUIET);
        wait(deadline.min(quiet)).await;
        if clock::passed(quiet) {
            self.client.shrink_input();
            if let Some(upstream) = &mut self.server {
                upstream.connector.shrink_input();
            }
        }
    }

    fn has_slack(&self) -> bool {
        self.client.has_slack() || self.server.as_ref().is_some_and(|upstream| upstream.connector.has_slack())
    }
}

/// Longer than a peer that reads takes to make room, shorter than anybody who means to wait.
const QUIET: Duration = Duration::from_millis(200);
