//! Warnings about rules that run in another order than their lines.

use weir_syntax::{Diagnostics, Span};

use weir_model::RulesetKind;

/// State of the warnings about rules that run before rules on earlier lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleMemory {
    /// A bit for each [`RuleStep`] with rules.
    steps: u8,
    /// A bit for each [`RulesetKind`] with a final rule without a condition.
    pub(crate) ended: u8,
}

/// The rule lists for requests, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RuleStep {
    TcpConnection,
    TcpSession,
    TcpContent,
    MonitorFail,
    HttpRequest,
    Redirect,
    UseBackend,
    UseServer,
    /// Any rule for responses. Their order is not checked.
    Response,
}

impl RuleStep {
    const ORDER: [RuleStep; 8] = [
        RuleStep::TcpConnection,
        RuleStep::TcpSession,
        RuleStep::TcpContent,
        RuleStep::MonitorFail,
        RuleStep::HttpRequest,
        RuleStep::Redirect,
        RuleStep::UseBackend,
        RuleStep::UseServer,
    ];

    pub(crate) fn of(kind: RulesetKind) -> RuleStep {
        match kind {
            RulesetKind::TcpRequestConnection => RuleStep::TcpConnection,
            RulesetKind::TcpRequestSession => RuleStep::TcpSession,
            RulesetKind::TcpRequestContent => RuleStep::TcpContent,
            RulesetKind::HttpRequest => RuleStep::HttpRequest,
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse => {
                RuleStep::Response
            }
        }
    }

    /// The name in a warning, for the rule on the earlier line.
    fn name(self) -> &'static str {
        match self {
            RuleStep::TcpConnection => "a 'tcp-request connection'",
            RuleStep::TcpSession => "a 'tcp-request session'",
            RuleStep::TcpContent => "a 'tcp-request content'",
            RuleStep::MonitorFail => "a 'monitor fail'",
            RuleStep::HttpRequest => "an 'http-request'",
            RuleStep::Redirect => "a 'redirect'",
            RuleStep::UseBackend => "a 'use_backend'",
            RuleStep::UseServer => "a 'use-server'",
            RuleStep::Response => "a response",
        }
    }

    /// The name in a warning, for the rule on the later line.
    fn short_name(self) -> &'static str {
        match self {
            RuleStep::TcpConnection | RuleStep::TcpSession | RuleStep::TcpContent => "tcp-request",
            RuleStep::MonitorFail => "monitor fail",
            RuleStep::HttpRequest => "http-request",
            RuleStep::Redirect => "redirect",
            RuleStep::UseBackend => "use_backend",
            RuleStep::UseServer => "use-server",
            RuleStep::Response => "response",
        }
    }
}

/// A rule that runs before a rule on an earlier line, if there is one.
#[must_use]
pub(crate) struct OrderConflict(Option<(RuleStep, RuleStep)>);

impl RuleMemory {
    /// Records a rule of `step`.
    pub(crate) fn order(&mut self, step: RuleStep) -> OrderConflict {
        if step == RuleStep::Response {
            return OrderConflict(None);
        }
        // No warning about use_backend after use-server, which selects within the backend.
        let later = RuleStep::ORDER.into_iter().skip(step as usize + 1).find(|later| {
            self.steps & (1 << *later as u8) != 0
                && (step, *later) != (RuleStep::UseBackend, RuleStep::UseServer)
        });
        self.steps |= 1 << step as u8;
        OrderConflict(later.map(|later| (step, later)))
    }
}

impl OrderConflict {
    /// Reports the warning, if there is one.
    pub(crate) fn warn(self, diagnostics: &mut Diagnostics, span: Span) {
        if let OrderConflict(Some((step, later))) = self {
            let message = format!(
                "a '{}' rule placed after {} rule will still be processed before.",
                step.short_name(),
                later.name()
            );
            diagnostics.warning(span, message);
        }
    }
}
