//! Matches that exceeded a limit: their result, their number, and the rules.
//!
//! A client can choose a subject for which a regular expression tries too many ways. The match is then aborted without a result. The
//! process calls [`take_reports`] from time to time and reports the rules to the operator.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_fingerprint::Canonical;

use super::Regex;

use crate::location::Location;

/// The result of a match that exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Canonical)]
pub enum OnLimit {
    /// The pattern does not match, as in HAProxy.
    #[default]
    NoMatch,
    Match,
}

/// A rule with a regular expression that exceeded a limit since the last reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReport {
    /// The location of the rule.
    pub at: Location,
    pub pattern: String,
    /// The number of aborted matches.
    pub times: u64,
}

/// Sets the result of a match that exceeded a limit, for the whole process.
pub fn set_on_limit(on_limit: OnLimit) {
    MATCHES.store(on_limit == OnLimit::Match, Ordering::Relaxed);
}

/// The configured result of a match that exceeded a limit.
pub fn on_limit() -> OnLimit {
    if MATCHES.load(Ordering::Relaxed) { OnLimit::Match } else { OnLimit::NoMatch }
}

/// The number of matches of the process that exceeded a limit.
pub fn total() -> u64 {
    TOTAL.load(Ordering::Relaxed)
}

/// The rules that exceeded a limit since the last call, at most [`MAX_REPORTS`].
pub fn take_reports() -> Vec<LimitReport> {
    std::mem::take(&mut *REPORTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The number of matches of this thread that exceeded a limit. Their results must not be cached.
pub(in crate::pattern) fn met_here() -> u64 {
    MET_HERE.get()
}

/// Counts an aborted match. For rules beyond [`MAX_REPORTS`], only the total is kept. The match took milliseconds, so the cost of a lock
/// does not matter.
pub(super) fn note(regex: &Regex) {
    TOTAL.fetch_add(1, Ordering::Relaxed);
    MET_HERE.set(MET_HERE.get() + 1);
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |report: &&mut LimitReport| report.at == *regex.at() && report.pattern == regex.text();
    if let Some(report) = reports.iter_mut().find(same) {
        report.times += 1;
    } else if reports.len() < MAX_REPORTS {
        reports.push(LimitReport { at: regex.at().clone(), pattern: regex.text().into(), times: 1 });
    }
}

/// Whether PCRE2's error means an aborted match. Other errors (a subject that is not UTF-8) are results.
pub(super) fn is_limit(code: i32) -> bool {
    const MATCH: i32 = -47;
    const NO_MEMORY: i32 = -48;
    const DEPTH: i32 = -53;
    const HEAP: i32 = -63;
    matches!(code, JIT_STACK | MATCH | NO_MEMORY | DEPTH | HEAP)
}

/// PCRE2's error for an exhausted stack of machine code.
pub(super) const JIT_STACK: i32 = -46;
/// The limit of rules in one report.
pub const MAX_REPORTS: usize = 16;

static MATCHES: AtomicBool = AtomicBool::new(false);
static TOTAL: AtomicU64 = AtomicU64::new(0);
static REPORTS: Mutex<Vec<LimitReport>> = Mutex::new(Vec::new());

thread_local! {
    static MET_HERE: Cell<u64> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the setting and the reports are global. Reports of other tests of this crate are ignored.
    #[test]
    fn regex_matches_that_exceed_a_limit_are_counted_and_reported() {
        let regex = |pattern: &str, line: u32| {
            Regex::new(pattern, false, &Location::new("limits.cfg".into(), line)).unwrap()
        };
        // No division of the letters matches, so all are tried. Each iteration of the second expression takes stack.
        let steps = regex("^(a+)+$", 1);
        let stack = regex("^(a|b|ab)*c$", 2);
        let many_ways = [b"a".repeat(64), b"!".to_vec()].concat();
        let deep = [b"ab".repeat(400_000), b"c".to_vec()].concat();
        let before = total();
        assert!(!steps.is_match(&many_ways), "by default it does not match");
        assert!(!stack.is_match(&deep));
        assert!(!stack.is_match(&deep));
        let mut groups = steps.groups();
        assert_eq!(steps.captures(&many_ways, 0, &mut groups), None);
        assert!(total() >= before + 4);

        set_on_limit(OnLimit::Match);
        assert!(steps.is_match(&many_ways) && stack.is_match(&deep));
        assert!(!steps.is_match(b"aab"), "decided matches are unaffected");
        assert_eq!(steps.captures(&many_ways, 0, &mut groups), None, "there is nothing to put in");
        // A subject that is not UTF-8 does not match, which is a result.
        assert!(!regex("(*UTF)^.$", 3).is_match(b"\xff"));
        set_on_limit(OnLimit::NoMatch);

        let mut reports = take_reports();
        reports.retain(|report| &*report.at.file == "limits.cfg");
        let report = |line: u32, pattern: &str, times: u64| LimitReport {
            at: Location::new("limits.cfg".into(), line),
            pattern: pattern.into(),
            times,
        };
        assert_eq!(reports, [report(1, "^(a+)+$", 4), report(2, "^(a|b|ab)*c$", 3)]);

        for line in 0..MAX_REPORTS as u32 * 2 {
            note(&regex("x", line + 10));
        }
        assert_eq!(take_reports().len(), MAX_REPORTS);
    }
}
