//! The attempts on servers: failures so far, the retry limit, and the data for a retry.

use std::rc::Rc;

use weir_mux::KeptBody;

/// A stream's attempts to reach a server.
#[derive(Debug, Default)]
pub struct Attempts {
    /// Attempts that failed so far: `%rc`.
    pub retries: u32,
    /// Number of allowed retries. Valid once a rule or the backend has set it.
    allowed: u32,
    /// Whether a rule or the backend has set `allowed`.
    is_limited: bool,
    /// The part of this request that may be sent again.
    pub replay: Replay,
    /// The body to send again, with [`Replay::Whole`]. Filters read it while it is sent.
    kept: Option<Rc<KeptBody>>,
    /// The last failed attempt was on a reused connection.
    pub on_reused_connection: bool,
    /// An interim response was sent to the client, so no other attempt is possible.
    pub interim_forwarded: bool,
    /// Only new connections are used, because an idle one just failed.
    pub fresh_connection_only: bool,
    /// Whether the last attempt sent the request as early data.
    pub sent_early: bool,
    /// A server refused the request as early data. Retries do not use early data.
    pub early_refused: bool,
}

/// The data for a retry when a server fails after the request was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// Only bytes that are still unsent can be sent to another server.
    #[default]
    No,
    /// Like `No`, because a rule used `disable-l7-retry`.
    Forbidden,
    /// The whole request, which is a head without a body.
    Head,
    /// The whole request: its head and the kept body.
    Whole,
}

impl Replay {
    /// Whether the request can be sent again.
    #[inline]
    pub fn is_possible(self) -> bool {
        matches!(self, Replay::Head | Replay::Whole)
    }
}

impl Attempts {
    /// Number of allowed retries, from `set-retries`, else `retries`.
    #[inline]
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Whether another retry is allowed.
    #[inline]
    pub fn are_left(&self) -> bool {
        self.retries < self.allowed()
    }

    /// Keeps a body for a retry.
    pub fn keep(&mut self, body: KeptBody) {
        (self.replay, self.kept) = (Replay::Whole, Some(Rc::new(body)));
    }

    /// The body to send again with the head. `None` if a retry does not need one.
    #[inline]
    pub fn kept_body(&self) -> Option<&Rc<KeptBody>> {
        self.kept.as_ref().filter(|_| self.replay == Replay::Whole)
    }

    /// Sets the backend's `retries`, unless a rule has set a limit.
    #[inline]
    pub fn allow(&mut self, retries: u32) {
        if !self.is_limited {
            self.allow_by_rule(retries);
        }
    }

    /// Drops the limit set by a `listen` section's rule, because the stream goes to another backend (manual, "set-retries").
    pub fn leave_section(&mut self) {
        self.is_limited = false;
    }

    /// Sets a rule's limit, which overrides the backend's.
    pub fn allow_by_rule(&mut self, retries: u32) {
        (self.allowed, self.is_limited) = (retries, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_retries_rule_overrides_the_backend_before_and_after_its_choice() {
        let mut attempts = Attempts::default();
        assert!(!attempts.are_left());
        attempts.allow_by_rule(1);
        attempts.allow(3);
        assert_eq!(attempts.allowed(), 1);
        attempts.allow_by_rule(2);
        assert_eq!(attempts.allowed(), 2);
        attempts.retries = 1;
        assert!(attempts.are_left());
        attempts.retries = 2;
        assert!(!attempts.are_left());
    }

    #[test]
    fn a_set_retries_rule_of_the_frontend_does_not_apply_in_the_backend() {
        let mut attempts = Attempts::default();
        attempts.allow_by_rule(5);
        attempts.leave_section();
        attempts.allow(3);
        assert_eq!(attempts.allowed(), 3);
    }

    #[test]
    fn without_a_rule_the_retries_of_the_backend_apply() {
        let mut attempts = Attempts::default();
        attempts.allow(3);
        assert_eq!(attempts.allowed(), 3);
    }

    #[test]
    fn never_replays_forbidden_or_dropped_requests() {
        let possible = [Replay::No, Replay::Forbidden, Replay::Head].map(|replay| replay.is_possible());
        assert_eq!(possible, [false, false, true]);
    }
}
