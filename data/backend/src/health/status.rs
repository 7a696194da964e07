//! The outcomes of checks: the manual's keywords and the result for the server.

/// The outcome of a check, with the numbers that `show servers state` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CheckStatus {
    /// The server does not have a check.
    Unknown = 0,
    /// No check has completed yet.
    Initializing = 1,
    /// An agent responded without a keyword for the server's state.
    Checked = 3,
    /// An observation of traffic (`observe`).
    Observed = 4,
    /// No socket could be created, or it broke.
    SocketError = 5,
    /// Layer 1 to 4: connected.
    L4Ok = 6,
    /// Layer 1 to 4: timeout.
    L4Timeout = 7,
    /// Layer 1 to 4: refused, unreachable.
    L4Connection = 8,
    /// Layer 6: handshake done.
    L6Ok = 9,
    L6Timeout = 10,
    /// Layer 6: invalid response.
    L6Response = 11,
    /// Layer 5 to 7: timeout.
    L7Timeout = 12,
    /// Layer 5 to 7: invalid response.
    L7Response = 13,
    /// Layer 5 to 7: passed.
    L7Ok = 15,
    /// Layer 5 to 7: passed, but the server takes no new visitors.
    L7OkConditional = 16,
    /// Layer 5 to 7: the response reports an error.
    L7Status = 17,
    /// An external program reported a failure, or was killed.
    ProcessError = 18,
    /// An external program exceeded its timeout.
    ProcessTimeout = 19,
    /// An external program reported success.
    ProcessOk = 20,
}

/// The result of an outcome, with the numbers that `show servers state` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CheckResult {
    Unknown = 0,
    Neutral = 1,
    Failed = 2,
    /// The server is up.
    Passed = 3,
    /// The server is up but takes no new visitors.
    ConditionallyPassed = 4,
}

impl CheckStatus {
    pub const ALL: [CheckStatus; 19] = [
        Self::Unknown,
        Self::Initializing,
        Self::Checked,
        Self::Observed,
        Self::SocketError,
        Self::L4Ok,
        Self::L4Timeout,
        Self::L4Connection,
        Self::L6Ok,
        Self::L6Timeout,
        Self::L6Response,
        Self::L7Timeout,
        Self::L7Response,
        Self::L7Ok,
        Self::L7OkConditional,
        Self::L7Status,
        Self::ProcessError,
        Self::ProcessTimeout,
        Self::ProcessOk,
    ];

    /// The outcome with this number. `None` for an unknown number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|status| *status as u32 == number)
    }

    /// The keyword in the statistics (management manual, "check_status").
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "UNK",
            Self::Initializing => "INI",
            Self::Checked => "CHECKED",
            Self::Observed => "HANA",
            Self::SocketError => "SOCKERR",
            Self::L4Ok => "L4OK",
            Self::L4Timeout => "L4TOUT",
            Self::L4Connection => "L4CON",
            Self::L6Ok => "L6OK",
            Self::L6Timeout => "L6TOUT",
            Self::L6Response => "L6RSP",
            Self::L7Timeout => "L7TOUT",
            Self::L7Response => "L7RSP",
            Self::L7Ok => "L7OK",
            Self::L7OkConditional => "L7OKC",
            Self::L7Status => "L7STS",
            Self::ProcessError => "PROCERR",
            Self::ProcessTimeout => "PROCTOUT",
            Self::ProcessOk => "PROCOK",
        }
    }

    /// The text for logs. Log processors match it.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Initializing => "Initializing",
            Self::Checked => "No status change",
            Self::Observed => "Health analyze",
            Self::SocketError => "Socket error",
            Self::L4Ok => "Layer4 check passed",
            Self::L4Timeout => "Layer4 timeout",
            Self::L4Connection => "Layer4 connection problem",
            Self::L6Ok => "Layer6 check passed",
            Self::L6Timeout => "Layer6 timeout",
            Self::L6Response => "Layer6 invalid response",
            Self::L7Timeout => "Layer7 timeout",
            Self::L7Response => "Layer7 invalid response",
            Self::L7Ok => "Layer7 check passed",
            Self::L7OkConditional => "Layer7 check conditionally passed",
            Self::L7Status => "Layer7 wrong status",
            Self::ProcessError => "External check error",
            Self::ProcessTimeout => "External check timeout",
            Self::ProcessOk => "External check passed",
        }
    }

    /// The result for the server.
    #[must_use]
    pub fn result(self) -> CheckResult {
        match self {
            Self::Unknown | Self::Initializing => CheckResult::Unknown,
            Self::Checked => CheckResult::Neutral,
            Self::L4Ok | Self::L6Ok | Self::L7Ok | Self::ProcessOk => CheckResult::Passed,
            Self::L7OkConditional => CheckResult::ConditionallyPassed,
            _ => CheckResult::Failed,
        }
    }

    /// Whether the outcome comes from a layer 5 to 7 response, which may have a status code.
    #[must_use]
    pub fn has_code(self) -> bool {
        self as u8 > Self::L7Response as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_status_numbers_convert_back_to_statuses() {
        for status in CheckStatus::ALL {
            assert_eq!(CheckStatus::from_number(status as u32), Some(status), "{status:?}");
        }
        assert_eq!(CheckStatus::from_number(14), None);
    }

    /// A late or empty response lacks a status code (manual, 9.1, "check_code").
    #[test]
    fn only_answered_checks_have_a_status_code() {
        for status in CheckStatus::ALL {
            let answered =
                ["L7OK", "L7OKC", "L7STS", "PROCERR", "PROCTOUT", "PROCOK"].contains(&status.word());
            assert_eq!(status.has_code(), answered, "{status:?}");
        }
    }

    #[test]
    fn check_results_match_the_names_of_their_statuses() {
        for status in CheckStatus::ALL {
            let expected = match status.word() {
                "UNK" | "INI" => CheckResult::Unknown,
                "CHECKED" => CheckResult::Neutral,
                "L7OKC" => CheckResult::ConditionallyPassed,
                word if word.ends_with("OK") => CheckResult::Passed,
                _ => CheckResult::Failed,
            };
            assert_eq!(status.result(), expected, "{status:?}");
        }
    }
}
