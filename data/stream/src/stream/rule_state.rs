//! What rules decided about a stream, and what the ruleset that runs goes by.

use weir_config::model::Location;

/// What rules and the guards beside them left behind.
#[derive(Debug)]
pub struct RuleState {
    /// Where the last rule that decided was written.
    pub decided_at: Option<&'static Location>,
    /// Who stopped the stream before its normal end.
    pub stopped_by: StoppedBy,
    /// A rule refused the request before a server was chosen, in whatever way.
    pub denied: bool,
    /// `strict-mode` of the ruleset that runs.
    pub is_strict: bool,
    /// No more data is waited for: rules decide with what is there (`WAIT_END`).
    pub inspection_over: bool,
}

/// Who stopped a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoppedBy {
    /// Neither of the others.
    #[default]
    Nobody,
    /// A rule, or one that should have been applied and could not.
    Rule,
    /// An option that refuses messages.
    Option(RefusingOption),
}

/// An option that refuses messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusingOption {
    /// `option http-restrict-req-hdr-names reject`.
    HeaderNames,
    /// `option checkcache`.
    CheckCache,
}

impl StoppedBy {
    /// The option, as it is written, if it was one.
    pub fn option(self) -> Option<&'static str> {
        match self {
            StoppedBy::Option(RefusingOption::HeaderNames) => Some("option http-restrict-req-hdr-names"),
            StoppedBy::Option(RefusingOption::CheckCache) => Some("option checkcache"),
            StoppedBy::Nobody | StoppedBy::Rule => None,
        }
    }
}

impl RuleState {
    /// A rule stops the stream. What an option refused before stays its refusal, whatever rules make of the answer.
    pub fn stop_by_rule(&mut self) {
        if self.stopped_by == StoppedBy::Nobody {
            self.stopped_by = StoppedBy::Rule;
        }
    }
}

impl Default for RuleState {
    /// Nothing is waited for where no ruleset says so.
    #[inline]
    fn default() -> Self {
        RuleState {
            decided_at: None,
            stopped_by: StoppedBy::Nobody,
            denied: false,
            is_strict: false,
            inspection_over: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stopped_first_stopped_it() {
        let mut state = RuleState::default();
        assert_eq!((state.stopped_by, state.stopped_by.option()), (StoppedBy::Nobody, None));
        state.stop_by_rule();
        assert_eq!((state.stopped_by, state.stopped_by.option()), (StoppedBy::Rule, None));
        let refused = StoppedBy::Option(RefusingOption::CheckCache);
        state = RuleState { stopped_by: refused, ..RuleState::default() };
        state.stop_by_rule();
        assert_eq!((state.stopped_by, state.stopped_by.option()), (refused, Some("option checkcache")));
    }
}
