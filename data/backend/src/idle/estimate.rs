//! The estimate of how many idle connections to keep.

/// Numbers of used and idle connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Idle connections that have not been reused yet (`unsafe_nb`, `idle_conn_cur`).
    pub unproven: u32,
    /// Idle connections that have been reused (`safe_nb`, `safe_conn_cur`).
    pub safe: u32,
    /// Connections in use (`used_cur`).
    pub used: u32,
    /// The most in use since the last purge (`used_max`).
    pub used_maximum: u32,
    /// Estimated number needed at once (`need_est`).
    pub estimate: u32,
}

impl Usage {
    /// Number of idle connections of both kinds.
    #[must_use]
    pub fn idle(self) -> u32 {
        self.unproven.saturating_add(self.safe)
    }

    /// The sum of two workers' values.
    #[must_use]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            unproven: self.unproven.saturating_add(other.unproven),
            safe: self.safe.saturating_add(other.safe),
            used: self.used.saturating_add(other.used),
            used_maximum: self.used_maximum.saturating_add(other.used_maximum),
            estimate: self.estimate.saturating_add(other.estimate),
        }
    }
}

/// The plan of one period's purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgePlan {
    /// Number of idle connections to close.
    pub close: u32,
    pub estimate: u32,
}

/// The plan of one period. The estimate follows a higher use at once and falls half way to a lower use each period. Half
/// of the connections above the estimate are closed.
#[must_use]
pub fn purge_plan(usage: Usage) -> PurgePlan {
    let estimate = if usage.used_maximum >= usage.estimate {
        usage.used_maximum
    } else {
        usage.estimate - (usage.estimate - usage.used_maximum).div_ceil(2)
    };
    let kept = usage.used.saturating_add(usage.idle());
    let excess = kept.saturating_sub(estimate.max(usage.used));
    PurgePlan { close: excess.div_ceil(2), estimate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_period_closes_half_of_the_idle_connections_above_the_estimate() {
        #[track_caller]
        fn check(used: u32, used_maximum: u32, idle: u32, estimate: u32, expected: (u32, u32)) {
            let plan = purge_plan(Usage { unproven: idle, safe: 0, used, used_maximum, estimate });
            assert_eq!((plan.close, plan.estimate), expected);
        }
        check(0, 0, 0, 0, (0, 0));
        check(0, 10, 10, 0, (0, 10));
        check(0, 0, 10, 10, (3, 5));
        check(5, 5, 10, 5, (5, 5));
        check(20, 20, 1, 2, (1, 20));
        check(0, 0, 1, 0, (1, 0));
        check(2, 4, 6, 9, (1, 6));
    }
}
