//! What to do after a failed attempt: the same server again, another one, or give up.
//!
//! Pure functions over the configuration (`retries`, `option redispatch`) and the history of the
//! request. The cases were compared with what HAProxy 2.6 does.

use crate::balance::declaration;
use crate::settings::BackendSettings;

/// The input of the decision after a failed connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Number of previous retries. 0 if the first attempt failed.
    pub retries_made: u32,
    /// `retries`, or the value of `set-retries`.
    pub retries_allowed: u32,
    /// Whether persistence or a rule designated the server, instead of balancing.
    pub designated: bool,
    /// Whether `force-persist` applies. The request then never goes to another server.
    pub forced: bool,
    /// Servers that could take the request, including the failed one.
    pub usable_servers: u32,
    /// Whether the server refused the connection, as opposed to a timeout.
    pub refused: bool,
    /// `timeout connect` in milliseconds, if there is one.
    pub connect_timeout_ms: Option<u64>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAttempt {
    GiveUp,
    /// The same server, after this turn-around time.
    Again {
        /// Milliseconds to wait before the attempt.
        wait_ms: u64,
    },
    /// Release the slot, drop the designation of the server, and choose again at once, avoiding it. If the
    /// same server is chosen again, count a retry, otherwise a redispatch.
    Elsewhere,
}

/// Shortest delay before a retry at a server that refused the connection, in milliseconds (manual, "retries").
pub const TURN_AROUND_MS: u64 = 1_000;

/// Decides what to do after a failure.
#[must_use]
pub fn after_failure(backend: &BackendSettings, failure: &FailedAttempt) -> NextAttempt {
    if failure.retries_made >= failure.retries_allowed {
        return NextAttempt::GiveUp;
    }
    if goes_elsewhere(backend, failure) {
        return NextAttempt::Elsewhere;
    }
    let wait_ms = match failure.connect_timeout_ms {
        _ if !failure.refused => 0,
        Some(timeout) => timeout.min(TURN_AROUND_MS),
        None => TURN_AROUND_MS,
    };
    NextAttempt::Again { wait_ms }
}

fn goes_elsewhere(backend: &BackendSettings, failure: &FailedAttempt) -> bool {
    if backend.redispatch == 0 || failure.forced || failure.usable_servers < 2 {
        return false;
    }
    // Without affinity, a retry at the same server is pointless.
    let bound = failure.designated || declaration(backend.algorithm).by_key;
    !bound || is_redispatch_turn(backend.redispatch, failure.retries_made + 1, failure.retries_allowed)
}

/// Whether retry number `retry` (from 1) goes to another server: every `interval`th one does. A negative interval
/// counts from the last retry, -1, and also selects multiples of the resulting number.
fn is_redispatch_turn(interval: i32, retry: u32, allowed: u32) -> bool {
    let step = match u32::try_from(interval) {
        Ok(step) => step,
        Err(_) => (allowed + 1).saturating_sub(interval.unsigned_abs()),
    };
    // An interval that reaches before the first retry selects every retry.
    retry.is_multiple_of(step.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::BalanceAlgorithm;

    /// The attempts that follow a first failure: `s` the same server, `e` elsewhere.
    #[track_caller]
    fn check(algorithm: BalanceAlgorithm, redispatch: i32, retries: u32, designated: bool, expected: &str) {
        let backend = BackendSettings { algorithm, redispatch, retries, ..Default::default() };
        let mut failure = FailedAttempt {
            retries_made: 0,
            retries_allowed: retries,
            designated,
            forced: false,
            usable_servers: 2,
            refused: true,
            connect_timeout_ms: Some(3_000),
        };
        let mut attempts = String::new();
        loop {
            match after_failure(&backend, &failure) {
                NextAttempt::GiveUp => break,
                NextAttempt::Again { wait_ms } => {
                    assert_eq!(wait_ms, TURN_AROUND_MS);
                    attempts.push('s');
                }
                NextAttempt::Elsewhere => {
                    failure.designated = false;
                    attempts.push('e');
                }
            }
            failure.retries_made += 1;
        }
        assert_eq!(attempts, expected);
    }

    #[test]
    fn retries_and_redispatches_follow_haproxys_sequence() {
        let turns = || BalanceAlgorithm::new("roundrobin");
        check(turns(), 0, 3, false, "sss");
        check(turns(), -1, 3, false, "eee");
        check(turns(), 1, 3, false, "eee");
        check(BalanceAlgorithm::new("leastconn"), -1, 3, false, "eee");
        check(BalanceAlgorithm::new("source"), 0, 3, false, "sss");
        check(BalanceAlgorithm::new("source"), -1, 3, false, "sse");
        check(BalanceAlgorithm::new("source"), 1, 3, false, "eee");
        check(BalanceAlgorithm::new("source"), -3, 4, false, "sese");
        check(turns(), 0, 3, true, "sss");
        check(turns(), -1, 3, true, "sse");
        check(turns(), 2, 4, true, "seee");
        check(turns(), -2, 4, true, "ssee");
        check(turns(), -2, 5, true, "sssee");
        check(turns(), 3, 3, true, "sse");
        check(turns(), -1, 1, true, "e");
        check(turns(), -1, 0, true, "");
        check(BalanceAlgorithm::new("source"), -3, 2, false, "ee");
        check(BalanceAlgorithm::new("source"), -9, 2, false, "ee");
    }

    #[test]
    fn only_refused_connections_delay_the_retry_up_to_the_connect_timeout() {
        let backend = BackendSettings::default();
        let failure = FailedAttempt {
            retries_made: 0,
            retries_allowed: 3,
            designated: false,
            forced: false,
            usable_servers: 1,
            refused: true,
            connect_timeout_ms: None,
        };
        let wait = |failure| match after_failure(&backend, &failure) {
            NextAttempt::Again { wait_ms } => wait_ms,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(failure), 1_000);
        assert_eq!(wait(FailedAttempt { connect_timeout_ms: Some(200), ..failure }), 200);
        assert_eq!(wait(FailedAttempt { refused: false, ..failure }), 0);
    }

    #[test]
    fn a_single_or_forced_server_is_retried_instead_of_redispatched() {
        let backend = BackendSettings {
            redispatch: 1,
            algorithm: BalanceAlgorithm::new("roundrobin"),
            ..Default::default()
        };
        let failure = FailedAttempt {
            retries_made: 0,
            retries_allowed: 3,
            designated: false,
            forced: false,
            usable_servers: 1,
            refused: true,
            connect_timeout_ms: None,
        };
        assert_ne!(after_failure(&backend, &failure), NextAttempt::Elsewhere);
        let forced = FailedAttempt { usable_servers: 3, forced: true, ..failure };
        assert_ne!(after_failure(&backend, &forced), NextAttempt::Elsewhere);
        let free = FailedAttempt { usable_servers: 3, ..failure };
        assert_eq!(after_failure(&backend, &free), NextAttempt::Elsewhere);
    }
}
