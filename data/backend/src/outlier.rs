//! Outlier ejection: servers that fail or are slow take no new requests for a while.
//!
//! ```text
//!         consecutive errors, or more errors or slower responses than the other servers
//!   takes part ─────────────────────────────────────────────────────────────────────────► ejected
//!        ▲                                                                                   │
//!        └── the time is over, or an operator says "ready"; the next time is twice as long ◄─┘
//! ```
//!
//! This file contains the decision, as pure functions. `traffic.rs` counts, and `backend/ejecting.rs` ejects.

use crate::health::Observation;

/// When servers are ejected, and for how long. At least one of the first three fields is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierRules {
    /// Eject after this many consecutive errors, at least 1.
    pub errors: Option<u32>,
    /// Eject when the error rate exceeds the rate of all other servers by this many percentage points.
    pub ratio: Option<u32>,
    /// Eject when the mean response time reaches this percentage of the mean of all other servers, at least 101.
    pub latency: Option<u32>,
    /// Interval over which error rates and response times are measured, in milliseconds.
    pub interval_ms: u64,
    /// How long the first ejection lasts, in milliseconds, at least 1.
    pub base_ms: u64,
    /// The longest ejection, in milliseconds, at least `base_ms`.
    pub longest_ms: u64,
    /// Largest ejected share of a backend's servers, in per cent. One server may always be ejected.
    pub at_most_percent: u32,
}

/// A server's traffic in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrafficWindow {
    /// Responses without an error.
    pub(crate) well: u64,
    pub(crate) errors: u64,
    /// The total time of the responses without an error, in milliseconds.
    pub(crate) took_ms: u64,
}

/// Why a server is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// The number of consecutive errors, and the last error.
    Errors(u32, Observation),
    /// The server's errors and responses, and the error percentage of the other servers.
    Ratio { errors: u64, answers: u64, others_percent: u64 },
    /// The mean response times of the server and of the other servers.
    Latency { mean_ms: u64, others_ms: u64 },
}

/// Servers are only compared if the server and the others each have this many responses.
const FEWEST_ANSWERS: u64 = 20;
/// Smaller differences of response times are ignored, because times have a resolution of one millisecond.
const SMALLEST_DIFFERENCE_MS: u64 = 10;

impl OutlierRules {
    /// Whether servers are compared with each other.
    pub(crate) fn compares(&self) -> bool {
        self.ratio.is_some() || self.latency.is_some()
    }

    /// The outliers, the worst first.
    pub(crate) fn outliers(&self, windows: &[TrafficWindow]) -> Vec<(usize, Suspicion)> {
        let all = windows.iter().fold(TrafficWindow::default(), |all, window| all.plus(window));
        let mut found: Vec<_> = (0..)
            .zip(windows)
            .filter_map(|(place, window)| {
                let (suspicion, severity) = self.suspects(window, &all.minus(window))?;
                Some((severity, place, suspicion))
            })
            .collect();
        found.sort_by_key(|(severity, place, _)| (std::cmp::Reverse(*severity), *place));
        found.into_iter().map(|(_, place, suspicion)| (place, suspicion)).collect()
    }

    /// A server's excess over the allowance relative to the others, in hundredths. `None` within the allowance.
    fn suspects(&self, own: &TrafficWindow, others: &TrafficWindow) -> Option<(Suspicion, u64)> {
        if own.answers() < FEWEST_ANSWERS || others.answers() < FEWEST_ANSWERS {
            return None;
        }
        self.suspects_errors(own, others).or_else(|| self.suspects_latency(own, others))
    }

    fn suspects_errors(&self, own: &TrafficWindow, others: &TrafficWindow) -> Option<(Suspicion, u64)> {
        let allowed = u64::from(self.ratio?);
        let share = |window: &TrafficWindow| window.errors.saturating_mul(10_000) / window.answers().max(1);
        let excess = share(own).saturating_sub(share(others));
        let suspicion = Suspicion::Ratio {
            errors: own.errors,
            answers: own.answers(),
            others_percent: share(others) / 100,
        };
        (excess >= allowed * 100).then(|| (suspicion, excess / allowed.max(1)))
    }

    fn suspects_latency(&self, own: &TrafficWindow, others: &TrafficWindow) -> Option<(Suspicion, u64)> {
        let factor = u64::from(self.latency?);
        if own.well == 0 || others.well == 0 {
            return None;
        }
        let (mean_ms, others_ms) = (own.took_ms / own.well, others.took_ms / others.well);
        let is_slow = mean_ms.saturating_mul(100) >= others_ms.saturating_mul(factor)
            && mean_ms >= others_ms.saturating_add(SMALLEST_DIFFERENCE_MS);
        let severity = mean_ms.saturating_mul(10_000) / (others_ms.max(1)).saturating_mul(factor);
        is_slow.then_some((Suspicion::Latency { mean_ms, others_ms }, severity))
    }

    /// Whether one more of `total` servers may be ejected while `out` are ejected already.
    pub(crate) fn allows_one_more(&self, total: u32, out: u32) -> bool {
        let most = (u64::from(total) * u64::from(self.at_most_percent.min(100)) / 100).max(1);
        u64::from(out) < most && out + 2 <= total
    }

    /// Duration of an ejection after `former` consecutive ejections, each soon after the previous one.
    pub(crate) fn duration_ms(&self, former: u32) -> u64 {
        let doubled = 1_u64.checked_shl(former).filter(|_| former < 64).unwrap_or(u64::MAX);
        self.base_ms.saturating_mul(doubled).min(self.longest_ms).max(1)
    }
}

impl TrafficWindow {
    fn answers(&self) -> u64 {
        self.well.saturating_add(self.errors)
    }

    pub(crate) fn plus(&self, other: &TrafficWindow) -> TrafficWindow {
        TrafficWindow {
            well: self.well.saturating_add(other.well),
            errors: self.errors.saturating_add(other.errors),
            took_ms: self.took_ms.saturating_add(other.took_ms),
        }
    }

    pub(crate) fn minus(&self, other: &TrafficWindow) -> TrafficWindow {
        TrafficWindow {
            well: self.well.saturating_sub(other.well),
            errors: self.errors.saturating_sub(other.errors),
            took_ms: self.took_ms.saturating_sub(other.took_ms),
        }
    }
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Suspicion::Errors(count, last) => {
                write!(formatter, "{count} errors in a row, last one was: {}", last.description())
            }
            Suspicion::Ratio { errors, answers, others_percent } => {
                write!(formatter, "{errors} errors in {answers} answers, while others had {others_percent}%")
            }
            Suspicion::Latency { mean_ms, others_ms } => {
                write!(formatter, "answers took {mean_ms}ms, while those of others took {others_ms}ms")
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const RULES: OutlierRules = OutlierRules {
        errors: None,
        ratio: None,
        latency: None,
        interval_ms: 10_000,
        base_ms: 30_000,
        longest_ms: 300_000,
        at_most_percent: 30,
    };

    fn window((well, errors, took_ms): (u64, u64, u64)) -> TrafficWindow {
        TrafficWindow { well, errors, took_ms }
    }

    #[track_caller]
    fn check(rules: OutlierRules, windows: &[(u64, u64, u64)], expected: &[usize]) {
        let windows: Vec<_> = windows.iter().copied().map(window).collect();
        let found: Vec<_> = rules.outliers(&windows).into_iter().map(|(place, _)| place).collect();
        assert_eq!(found, expected, "{windows:?}");
    }

    #[test]
    fn an_ejection_reason_names_the_compared_error_rates() {
        let rules = OutlierRules { ratio: Some(15), ..RULES };
        let found = rules.outliers(&[(79, 21, 0), (293, 7, 0)].map(window));
        assert_eq!(found[0].1.to_string(), "21 errors in 100 answers, while others had 2%");
    }

    #[test]
    fn outliers_are_sorted_from_the_slowest_server() {
        let rules = OutlierRules { latency: Some(300), ..RULES };
        check(rules, &[(1000, 0, 10_000), (100, 0, 20_000), (100, 0, 60_000), (1000, 0, 10_000)], &[2, 1]);
    }

    #[test]
    fn a_server_is_an_outlier_if_its_error_rate_exceeds_that_of_other_servers() {
        let rules = OutlierRules { ratio: Some(20), ..RULES };
        check(rules, &[(100, 0, 0), (79, 21, 0), (100, 0, 0)], &[1]);
        check(rules, &[(100, 0, 0), (81, 19, 0), (100, 0, 0)], &[]);
        check(rules, &[(80, 20, 0), (100, 0, 0)], &[0]);
        // If all servers fail, none is an outlier.
        check(rules, &[(0, 100, 0), (0, 100, 0), (5, 95, 0)], &[]);
        check(rules, &[(0, 19, 0), (100, 0, 0)], &[]);
        check(rules, &[(0, 20, 0), (19, 0, 0)], &[]);
        // The worst first.
        check(rules, &[(1000, 0, 0), (70, 30, 0), (1000, 0, 0), (10, 90, 0)], &[3, 1]);
        // A server with many errors hides another outlier until it is ejected.
        check(rules, &[(200, 0, 0), (70, 30, 0), (200, 0, 0), (10, 90, 0)], &[3]);
        check(rules, &[], &[]);
    }

    #[test]
    fn a_server_is_an_outlier_if_its_response_time_exceeds_that_of_its_peers() {
        let rules = OutlierRules { latency: Some(300), ..RULES };
        check(rules, &[(100, 0, 1000), (100, 0, 3000), (100, 0, 1000)], &[1]);
        check(rules, &[(100, 0, 1000), (100, 0, 2900), (100, 0, 1000)], &[]);
        // Ten times as long, but only by nine milliseconds.
        check(rules, &[(100, 0, 100), (100, 0, 1000), (100, 0, 100)], &[]);
        check(rules, &[(100, 0, 0), (100, 0, 1000)], &[1]);
        // A server with only errors lacks response times.
        check(rules, &[(0, 100, 0), (100, 0, 1000)], &[]);
    }

    #[test]
    fn the_ejection_limit_allows_one_server_but_never_the_last() {
        let rules = OutlierRules { at_most_percent: 30, ..RULES };
        let allowed = |total: u32| (0..total).take_while(|out| rules.allows_one_more(total, *out)).count();
        assert_eq!([0, 1, 2, 3, 6, 7, 10, 20].map(allowed), [0, 0, 1, 1, 1, 2, 3, 6]);
        let all = OutlierRules { at_most_percent: 100, ..RULES };
        let allowed = |total: u32| (0..total).take_while(|out| all.allows_one_more(total, *out)).count();
        assert_eq!([0, 1, 2, 3, 10].map(allowed), [0, 0, 1, 2, 9]);
        assert!(!OutlierRules { at_most_percent: 0, ..RULES }.allows_one_more(10, 1));
    }

    #[test]
    fn the_ejection_time_doubles_up_to_its_maximum() {
        let durations = [0, 1, 2, 3, 4, 63, 64, u32::MAX].map(|former| RULES.duration_ms(former) / 1000);
        assert_eq!(durations, [30, 60, 120, 240, 300, 300, 300, 300]);
        assert_eq!(OutlierRules { longest_ms: u64::MAX, ..RULES }.duration_ms(64), u64::MAX);
    }
}
