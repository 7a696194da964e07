//! The result of a server's checks: the last finding, and the level between down and up.
//!
//! ```text
//!   0 ── failed ◄─┐                                   ┌─► failed: one step down
//!   │             │                                   │
//!   └─ passed ─► 1 … rise-1 │ rise … rise+fall-2 ◄── rise+fall-1
//!        one step up        │        passed: all the way up ──►
//!       ◄──── down ────►    │    ◄──────────── up ────────────►
//! ```
//!
//! The server is up if the level is at least `rise`. A success raises the level by one step, and the step that reaches `rise`
//! goes to the top. A failure lowers it by one step, and the step below `rise` goes to 0.
//! A check reports through [`Backend::report`](crate::Backend::report), which updates the server.

pub mod observe;
pub mod status;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use weir_model::InitialState;

use weir_sync::{Lock, LockGuard, LockLabel};

pub use observe::{Observation, ObserveRules};
pub use status::{CheckResult, CheckStatus};

/// The name of the locks of checks in lock profiles.
static CHECK: LockLabel = LockLabel::new("CHECK");

/// The check settings that determine a server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckRules {
    /// `rise`, at least 1.
    pub rise: u32,
    /// `fall`, at least 1.
    pub fall: u32,
    /// `init-state`.
    pub start: InitialState,
}

impl Default for CheckRules {
    fn default() -> Self {
        Self { rise: 2, fall: 3, start: InitialState::Unsaid }
    }
}

impl CheckRules {
    /// The level that a server begins with.
    #[must_use]
    pub fn first_level(&self) -> u32 {
        match self.start {
            InitialState::FullyUp => self.top(),
            InitialState::Unsaid | InitialState::Up => self.rise,
            InitialState::Down => self.rise - 1,
            InitialState::FullyDown => 0,
        }
    }

    /// The highest level.
    #[must_use]
    pub fn top(&self) -> u32 {
        self.rise + self.fall - 1
    }
}

/// The two checks of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// `check`.
    Health,
    /// `agent-check`.
    Agent,
}

/// The result of one run of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    pub status: CheckStatus,
    /// The status code of the response, if the protocol has one, or a program's exit status. -1 if a signal killed the program.
    pub code: Option<i32>,
    /// Details, or empty.
    pub detail: Cow<'static, str>,
    pub duration_ms: u64,
    /// Whether the server refused the connection.
    pub is_refused: bool,
    /// Whether the check could not be run. The finding then does not affect the server.
    pub inconclusive: bool,
    /// Whether the details appear only in logs, not in the statistics.
    pub detail_is_for_logs: bool,
}

impl CheckFinding {
    /// A finding with a status only.
    #[must_use]
    pub fn new(status: CheckStatus) -> Self {
        Self {
            status,
            code: None,
            detail: Cow::Borrowed(""),
            duration_ms: 0,
            is_refused: false,
            inconclusive: false,
            detail_is_for_logs: false,
        }
    }

    /// The meaning of the status.
    #[must_use]
    pub fn result(&self) -> CheckResult {
        if self.inconclusive { CheckResult::Neutral } else { self.status.result() }
    }

    /// The part of a log line about the finding: `, reason: ...`.
    #[must_use]
    pub fn reason(&self) -> String {
        let mut text = format!(", reason: {}", self.status.description());
        if let Some(code) = self.code.filter(|_| self.status.has_code()) {
            text.push_str(&format!(", code: {code}"));
        }
        if !self.detail.is_empty() {
            text.push_str(&format!(", info: \"{}\"", self.detail));
        }
        if self.status != CheckStatus::Observed {
            text.push_str(&format!(", check duration: {}ms", self.duration_ms));
        }
        text
    }
}

/// The health check or the agent check of a server.
#[derive(Debug)]
pub struct ServerCheck {
    kind: CheckKind,
    rules: CheckRules,
    record: Lock<CheckRecord>,
}

/// The live state of a server's health or agent check.
pub struct CheckRecord {
    /// Between 0 and [`CheckRules::top`].
    pub level: u32,
    pub last: CheckFinding,
    /// The meaning of the last finding that was not neutral.
    pub result: CheckResult,
    /// Whether the check is enabled (`enable health`, `disable agent`).
    pub enabled: bool,
    /// Whether the check runs now.
    pub running: bool,
    /// How often the check failed while the server was up.
    pub failures: u64,
    /// How often observed traffic made the check fail (`observe`).
    pub observed_failures: u64,
    /// Another target for the check, set by an operator.
    pub redirection: Option<Box<Redirection>>,
    /// Whether the next check runs soon, regardless of the level.
    pub hurries: bool,
    /// Wakes the task of the check.
    pub wake: Option<Box<dyn Fn() + Send + Sync>>,
}

impl std::fmt::Debug for CheckRecord {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let CheckRecord { level, last, .. } = self;
        formatter
            .debug_struct("CheckRecord")
            .field("level", level)
            .field("last", last)
            .finish_non_exhaustive()
    }
}

/// A target that replaces the configured one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirection {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    /// The first bytes to send to an agent.
    pub send: Option<Arc<[u8]>>,
}

/// The effects of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthEffects {
    /// Whether the level or the outcome differ from before.
    pub(crate) is_news: bool,
    /// Whether the level went from up to down, or is 0.
    pub(crate) is_down: bool,
    /// Whether the level means up.
    pub(crate) is_up: bool,
    /// Whether the finding counts as a failure of a server that was up.
    pub(crate) failed_while_up: bool,
    /// The meaning of the finding.
    pub(crate) result: CheckResult,
}

impl ServerCheck {
    pub(crate) fn new(kind: CheckKind, rules: CheckRules) -> Self {
        let record = CheckRecord {
            level: if kind == CheckKind::Agent { rules.top() } else { rules.first_level() },
            last: CheckFinding::new(CheckStatus::Initializing),
            result: CheckResult::Unknown,
            enabled: true,
            running: false,
            failures: 0,
            observed_failures: 0,
            redirection: None,
            hurries: false,
            wake: None,
        };
        Self { kind, rules, record: Lock::new(record, &CHECK) }
    }

    /// The check's settings.
    #[must_use]
    pub fn rules(&self) -> CheckRules {
        self.rules
    }

    /// The check's record. Hold the guard only briefly, because the check itself takes this lock.
    pub fn record(&self) -> LockGuard<'_, CheckRecord> {
        self.record.lock()
    }

    /// Whether the level means up.
    #[must_use]
    pub fn says_up(&self) -> bool {
        self.record().level >= self.rules.rise
    }

    /// The progress towards the next change: `1/3 UP`, `0/2 DOWN`.
    #[must_use]
    pub fn progress(&self) -> (u32, u32, bool) {
        let level = self.record().level;
        let CheckRules { rise, fall, .. } = self.rules;
        if level >= rise { (level - rise + 1, fall, true) } else { (level, rise, false) }
    }

    /// Makes the next check run soon.
    pub fn hurry(&self) {
        let mut record = self.record();
        record.hurries = true;
        if let Some(wake) = &record.wake {
            wake();
        }
    }

    pub(crate) fn set_level(&self, level: u32) {
        self.record().level = level.min(self.rules.top());
    }

    /// Records a finding.
    pub(crate) fn learn(&self, finding: CheckFinding) -> HealthEffects {
        let mut record = self.record();
        let CheckRules { rise, .. } = self.rules;
        let (level, status) = (record.level, record.last.status);
        let result = match finding.result() {
            // An unreachable agent is neutral (manual, "agent-check").
            CheckResult::Failed
                if self.kind == CheckKind::Agent && finding.status != CheckStatus::L7Status =>
            {
                CheckResult::Neutral
            }
            result => result,
        };
        match result {
            CheckResult::Failed if level > rise => record.level -= 1,
            CheckResult::Failed => record.level = 0,
            CheckResult::Passed | CheckResult::ConditionallyPassed => {
                let next = level + 1;
                record.level = if next >= rise { self.rules.top() } else { next };
            }
            CheckResult::Unknown | CheckResult::Neutral => {}
        }
        let failed_while_up = result == CheckResult::Failed && level >= rise;
        record.failures += u64::from(failed_while_up);
        record.last = finding;
        record.result = result;
        HealthEffects {
            is_news: record.level != level || record.last.status != status,
            is_down: result == CheckResult::Failed && record.level == 0,
            is_up: record.level >= rise,
            failed_while_up,
            result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rise: u32, fall: u32, start: InitialState) -> ServerCheck {
        ServerCheck::new(CheckKind::Health, CheckRules { rise, fall, start })
    }

    /// Checks the level after each finding: `+` passed, `-` failed, `~` neutral.
    #[track_caller]
    fn levels(check: &ServerCheck, findings: &str, expected: &[u32]) {
        let found: Vec<u32> = findings
            .chars()
            .map(|sign| {
                let status = if sign == '+' { CheckStatus::L4Ok } else { CheckStatus::SocketError };
                check.learn(CheckFinding { inconclusive: sign == '~', ..CheckFinding::new(status) });
                check.record().level
            })
            .collect();
        assert_eq!(found, expected, "{findings}");
    }

    #[test]
    fn a_server_that_was_never_checked_goes_down_at_once() {
        levels(&check(2, 3, InitialState::Up), "-+-++---+", &[0, 1, 0, 1, 4, 3, 2, 0, 1]);
    }

    #[test]
    fn the_initial_state_sets_how_many_check_results_change_the_server() {
        levels(&check(2, 3, InitialState::FullyUp), "--~-", &[3, 2, 2, 0]);
        levels(&check(2, 3, InitialState::Down), "-+", &[0, 1]);
        levels(&check(3, 1, InitialState::Down), "+-", &[3, 0]);
        levels(&check(3, 1, InitialState::FullyDown), "++~+", &[1, 2, 2, 3]);
        levels(&check(1, 1, InitialState::Up), "-+", &[0, 1]);
    }

    #[test]
    fn only_check_failures_while_the_server_is_up_are_counted() {
        let check = check(2, 2, InitialState::FullyUp);
        let fail = || check.learn(CheckFinding::new(CheckStatus::L4Timeout));
        assert_eq!(
            (fail().failed_while_up, fail().failed_while_up, fail().failed_while_up),
            (true, true, false)
        );
        assert_eq!(check.record().failures, 2);
    }

    #[test]
    fn a_check_result_is_reported_if_its_level_or_outcome_is_new() {
        let check = check(2, 2, InitialState::FullyUp);
        let learn = |status| check.learn(CheckFinding::new(status)).is_news;
        assert!(learn(CheckStatus::L4Ok));
        assert!(!learn(CheckStatus::L4Ok));
        assert!(learn(CheckStatus::L7Ok));
        assert!(learn(CheckStatus::L4Timeout));
        assert!(learn(CheckStatus::L4Timeout), "down now");
        assert!(!learn(CheckStatus::L4Timeout));
    }

    #[test]
    fn check_results_are_formatted_like_haproxys_log_reasons() {
        let finding = CheckFinding {
            status: CheckStatus::L7Status,
            code: Some(500),
            detail: "Oops".into(),
            duration_ms: 7,
            is_refused: false,
            inconclusive: false,
            detail_is_for_logs: false,
        };
        let expected = ", reason: Layer7 wrong status, code: 500, info: \"Oops\", check duration: 7ms";
        assert_eq!(finding.reason(), expected);
        let finding = CheckFinding { code: Some(9), ..CheckFinding::new(CheckStatus::L4Timeout) };
        assert_eq!(finding.reason(), ", reason: Layer4 timeout, check duration: 0ms");
    }
}
