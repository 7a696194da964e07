//! Rulesets: lists of actions with conditions, run at fixed points of a connection's and a message's processing.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Condition, Location};
use weir_fingerprint::Canonical;

use super::action::{Action, Redirect};

/// One rule.
#[derive(Clone, Debug, Canonical)]
pub struct Rule {
    pub action: Action,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// One `redirect` line. It runs after the `http-request` rules.
#[derive(Clone, Debug, Canonical)]
pub struct RedirectRule {
    pub redirect: Arc<Redirect>,
    /// When the rule applies. None for always.
    pub condition: Option<Condition>,
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The kinds of rulesets, by where they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Canonical)]
#[repr(u8)]
pub enum RulesetKind {
    /// `tcp-request connection`: right after accepting.
    TcpRequestConnection,
    /// `tcp-request session`: after the connection's handshakes.
    TcpRequestSession,
    /// `tcp-request content`: when data arrives.
    TcpRequestContent,
    /// `tcp-response content`.
    TcpResponseContent,
    /// `http-request`.
    HttpRequest,
    /// `http-response`.
    HttpResponse,
    /// `http-after-response`: on every response, including the proxy's own.
    HttpAfterResponse,
}

/// A set of rulesets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulesetSet(u8);

impl RulesetSet {
    /// The set of these kinds.
    pub const fn of(kinds: &[RulesetKind]) -> RulesetSet {
        let mut bits = 0;
        let mut index = 0;
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u8;
            index += 1;
        }
        RulesetSet(bits)
    }

    /// The union of both sets.
    #[must_use]
    pub const fn or(self, other: RulesetSet) -> RulesetSet {
        RulesetSet(self.0 | other.0)
    }

    /// Whether the kind is in the set.
    pub const fn contains(self, kind: RulesetKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl RulesetKind {
    /// All of them.
    pub const ALL: [RulesetKind; 7] = [
        RulesetKind::TcpRequestConnection,
        RulesetKind::TcpRequestSession,
        RulesetKind::TcpRequestContent,
        RulesetKind::TcpResponseContent,
        RulesetKind::HttpRequest,
        RulesetKind::HttpResponse,
        RulesetKind::HttpAfterResponse,
    ];

    /// The words that a rule of this kind begins with.
    pub fn keyword(self) -> &'static str {
        match self {
            RulesetKind::TcpRequestConnection => "tcp-request connection",
            RulesetKind::TcpRequestSession => "tcp-request session",
            RulesetKind::TcpRequestContent => "tcp-request content",
            RulesetKind::TcpResponseContent => "tcp-response content",
            RulesetKind::HttpRequest => "http-request",
            RulesetKind::HttpResponse => "http-response",
            RulesetKind::HttpAfterResponse => "http-after-response",
        }
    }

    /// Whether the rules run on HTTP messages.
    pub fn is_http(self) -> bool {
        matches!(self, RulesetKind::HttpRequest | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse)
    }
}

/// The rules of a proxy, or of a named `defaults` section.
#[derive(Clone, Debug, Default)]
pub struct Rulesets {
    /// `tcp-request connection`.
    pub tcp_request_connection: Vec<Rule>,
    /// `tcp-request session`.
    pub tcp_request_session: Vec<Rule>,
    /// `tcp-request content`.
    pub tcp_request_content: Vec<Rule>,
    /// `tcp-request inspect-delay`: how long the content rules may wait for data. None to not wait.
    pub tcp_request_inspect_delay: Option<Duration>,
    /// `tcp-response content`.
    pub tcp_response_content: Vec<Rule>,
    /// `tcp-response inspect-delay`.
    pub tcp_response_inspect_delay: Option<Duration>,
    /// `http-request`.
    pub http_request: Vec<Rule>,
    /// `http-response`.
    pub http_response: Vec<Rule>,
    /// `http-after-response`.
    pub http_after_response: Vec<Rule>,
}

impl Rulesets {
    /// The rules of one kind.
    pub fn get(&self, kind: RulesetKind) -> &[Rule] {
        match kind {
            RulesetKind::TcpRequestConnection => &self.tcp_request_connection,
            RulesetKind::TcpRequestSession => &self.tcp_request_session,
            RulesetKind::TcpRequestContent => &self.tcp_request_content,
            RulesetKind::TcpResponseContent => &self.tcp_response_content,
            RulesetKind::HttpRequest => &self.http_request,
            RulesetKind::HttpResponse => &self.http_response,
            RulesetKind::HttpAfterResponse => &self.http_after_response,
        }
    }

    /// The rules of one kind, mutable.
    pub fn get_mut(&mut self, kind: RulesetKind) -> &mut Vec<Rule> {
        match kind {
            RulesetKind::TcpRequestConnection => &mut self.tcp_request_connection,
            RulesetKind::TcpRequestSession => &mut self.tcp_request_session,
            RulesetKind::TcpRequestContent => &mut self.tcp_request_content,
            RulesetKind::TcpResponseContent => &mut self.tcp_response_content,
            RulesetKind::HttpRequest => &mut self.http_request,
            RulesetKind::HttpResponse => &mut self.http_response,
            RulesetKind::HttpAfterResponse => &mut self.http_after_response,
        }
    }

    /// True if every ruleset is empty.
    pub fn is_empty(&self) -> bool {
        RulesetKind::ALL.iter().all(|kind| self.get(*kind).is_empty())
    }
}
