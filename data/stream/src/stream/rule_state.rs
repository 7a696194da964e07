//! The results of rules for a stream, and the state of the current ruleset.

use weir_model::{Location, RulesetKind};

use crate::errors::MessageDirection;
use crate::stream::{ProxySide, Stream};

/// The results of rules and of the options that refuse messages.
#[derive(Debug)]
pub struct RuleState {
    /// The last rule with a final action.
    pub(crate) decided_by: Option<RuleKey>,
    /// The cause that stopped the stream before its normal end.
    pub stopped_by: StoppedBy,
    /// A rule refused the request before a server was chosen.
    pub denied: bool,
    /// `strict-mode` of the current ruleset.
    pub is_strict: bool,
    /// The inspection delay is over. Rules decide with the data received so far (`WAIT_END`).
    pub inspection_over: bool,
    /// Whether the current condition may be suspended to verify a password, or to wait for the state of a script.
    pub may_suspend: bool,
    /// The condition waits for the shared state of the scripts.
    pub awaits_scripts: bool,
    /// The message that rules currently process. It also determines which variable scope is valid.
    pub processed: MessageDirection,
}

/// A rule of one of the stream's proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleKey {
    pub(crate) side: ProxySide,
    pub(crate) list: RuleList,
    /// The rule's position in the list.
    pub(crate) position: u32,
}

/// A list of rules of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleList {
    /// The rules of one kind.
    Of(RulesetKind),
    /// The `redirect` lines.
    Redirects,
}

/// The location of the last rule with a final action.
pub(crate) fn decided_at(stream: &Stream) -> Option<&Location> {
    let RuleKey { side, list, position } = stream.rules.decided_by?;
    let config = &stream.proxy(side).config;
    match list {
        RuleList::Of(kind) => config.rules(kind).nth(position as usize).map(|rule| &rule.at),
        RuleList::Redirects => config.redirects.get(position as usize).map(|rule| &rule.at),
    }
}

/// The cause that stopped a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoppedBy {
    /// The stream was not stopped by a rule or an option.
    #[default]
    Nobody,
    /// A rule, or the failure to apply one.
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
    /// `use-fcgi-app`: the body is longer than a buffer, and its length is unknown.
    ApplicationBody,
    /// `use-fcgi-app`: the path cannot be decoded safely, or has characters that the expression of `path-info` cannot see.
    ApplicationPath,
}

impl StoppedBy {
    /// The refusing option as written in the configuration. `None` if an option did not refuse.
    pub fn option(self) -> Option<&'static str> {
        match self {
            StoppedBy::Option(RefusingOption::HeaderNames) => Some("option http-restrict-req-hdr-names"),
            StoppedBy::Option(RefusingOption::CheckCache) => Some("option checkcache"),
            StoppedBy::Option(RefusingOption::ApplicationBody) => {
                Some("use-fcgi-app (the length of the body is unknown, and it exceeds a buffer)")
            }
            StoppedBy::Option(RefusingOption::ApplicationPath) => {
                Some("use-fcgi-app (the path has an invalid escape, a NUL, or a line end before path-info)")
            }
            StoppedBy::Nobody | StoppedBy::Rule => None,
        }
    }
}

impl RuleState {
    /// Whether rules currently process the response.
    #[inline]
    pub fn see_response(&self) -> bool {
        self.processed == MessageDirection::Response
    }

    /// Switches to the response. Returns false if already switched.
    #[inline]
    pub fn begin_response(&mut self) -> bool {
        std::mem::replace(&mut self.processed, MessageDirection::Response) == MessageDirection::Request
    }

    /// Records that a rule stopped the stream. An earlier refusal by an option stays the cause, even if rules change the response.
    pub fn stop_by_rule(&mut self) {
        if self.stopped_by == StoppedBy::Nobody {
            self.stopped_by = StoppedBy::Rule;
        }
    }
}

impl Default for RuleState {
    /// Rules do not wait for data by default. Rulesets that wait change this.
    #[inline]
    fn default() -> Self {
        RuleState {
            decided_by: None,
            stopped_by: StoppedBy::Nobody,
            denied: false,
            is_strict: false,
            inspection_over: true,
            may_suspend: false,
            awaits_scripts: false,
            processed: MessageDirection::Request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_begins_only_once_for_rules() {
        let mut state = RuleState::default();
        assert!(!state.see_response());
        assert!(state.begin_response());
        assert!(!state.begin_response());
        assert!(state.see_response());
    }

    #[test]
    fn the_first_rule_or_option_that_stops_a_stream_is_kept() {
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
