//! The choice of a server: the cause, the result, and the representation in the log.

use weir_backend::{Positions, Priority, ServerKey};

/// How a stream's server was chosen.
#[derive(Debug)]
pub struct ServerChoice {
    /// The cause of the choice.
    pub designation: Designation,
    /// A `use-server` rule took precedence over the cookie, even if the rule's server was not usable.
    pub overruled: bool,
    /// Whether a server other than the first was tried: the `+` of `%rc`.
    pub redispatched: bool,
    /// The third and fourth letters of the termination code.
    pub cookie_letters: [u8; 2],
    /// `set-priority-class` and `set-priority-offset`.
    pub priority: Priority,
    /// Number of requests served before this one while it was queued: `%sq` and `%bq`.
    pub queued: Positions,
    /// The last server that granted a slot. The log shows it even after the slot was released.
    pub last: Option<ServerKey>,
}

/// The cause of the choice of a stream's server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Designation {
    /// No designation: the balancing algorithm chooses.
    #[default]
    Free,
    /// A cookie, or a token of the remote desktop protocol.
    Persistence {
        /// `force-persist`: redispatch to another server is forbidden.
        forced: bool,
    },
    /// A `use-server` rule with a server that is up.
    Rule,
    /// A `use-server` rule with a server that is down but still used. The request stays in that server's queue.
    RuleThoughDown {
        /// `force-persist`: redispatch to another server is forbidden.
        forced: bool,
    },
}

impl Designation {
    /// Whether only the balancing algorithm decides.
    #[inline]
    pub fn is_free(self) -> bool {
        self == Designation::Free
    }

    /// Whether the stream is persistent: a cookie designated the server, or a rule that accepts a server that is down.
    #[inline]
    pub fn is_persistent(self) -> bool {
        matches!(self, Designation::Persistence { .. } | Designation::RuleThoughDown { .. })
    }

    /// Whether no other server may be tried (`force-persist`).
    #[inline]
    pub fn is_forced(self) -> bool {
        matches!(
            self,
            Designation::Persistence { forced: true } | Designation::RuleThoughDown { forced: true }
        )
    }
}

impl Default for ServerChoice {
    #[inline]
    fn default() -> Self {
        ServerChoice {
            designation: Designation::Free,
            overruled: false,
            redispatched: false,
            cookie_letters: *b"--",
            priority: Priority::default(),
            queued: Positions::default(),
            last: None,
        }
    }
}

impl ServerChoice {
    /// Drops the designation: the balancing algorithm chooses.
    #[inline]
    pub fn choose_freely(&mut self) {
        self.designation = Designation::Free;
    }

    /// The name of the cause of the choice. `algorithm` is the name of the balancing algorithm.
    pub fn word(&self, algorithm: &'static str) -> &'static str {
        match self.redispatched {
            true => "redispatch",
            false if self.designation.is_persistent() => "persistence",
            false => algorithm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designations_are_free_persistent_or_forced() {
        let of = |designation: Designation| {
            (designation.is_free(), designation.is_persistent(), designation.is_forced())
        };
        assert_eq!(of(Designation::Free), (true, false, false));
        assert_eq!(of(Designation::Rule), (false, false, false));
        assert_eq!(of(Designation::Persistence { forced: false }), (false, true, false));
        assert_eq!(of(Designation::Persistence { forced: true }), (false, true, true));
        assert_eq!(of(Designation::RuleThoughDown { forced: false }), (false, true, false));
        assert_eq!(of(Designation::RuleThoughDown { forced: true }), (false, true, true));
    }

    #[test]
    fn a_server_choice_is_named_by_its_last_method() {
        let mut choice = ServerChoice::default();
        assert_eq!(choice.word("roundrobin"), "roundrobin");
        choice.designation = Designation::Persistence { forced: false };
        assert_eq!(choice.word("roundrobin"), "persistence");
        choice.redispatched = true;
        assert_eq!(choice.word("roundrobin"), "redispatch");
        choice.choose_freely();
        assert!(choice.designation.is_free() && choice.redispatched);
    }
}
