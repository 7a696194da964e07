//! Warnings about rules that run in another order than they are written.

use weir_syntax::{Diagnostics, Span};

use weir_model::RulesetKind;

/// State for warnings about rules that run earlier than they are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleMemory {
    /// A bit for each [`Step`] that has rules.
    steps: u8,
    /// A bit for each [`RulesetKind`] that has a final rule without a condition.
    pub(crate) ended: u8,
}

/// The lists of rules that run one after the other on requests, in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    TcpConnection,
    TcpSession,
    TcpContent,
    MonitorFail,
    HttpRequest,
    Redirect,
    UseBackend,
    UseServer,
    /// Any rule on responses; their order is not checked.
    Response,
}

impl Step {
    const ORDER: [Step; 8] = [
        Step::TcpConnection,
        Step::TcpSession,
        Step::TcpContent,
        Step::MonitorFail,
        Step::HttpRequest,
        Step::Redirect,
        Step::UseBackend,
        Step::UseServer,
    ];

    pub(crate) fn of(kind: RulesetKind) -> Step {
        match kind {
            RulesetKind::TcpRequestConnection => Step::TcpConnection,
            RulesetKind::TcpRequestSession => Step::TcpSession,
            RulesetKind::TcpRequestContent => Step::TcpContent,
            RulesetKind::HttpRequest => Step::HttpRequest,
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse => {
                Step::Response
            }
        }
    }

    /// How a warning names it as the rule that came first.
    fn name(self) -> &'static str {
        match self {
            Step::TcpConnection => "a 'tcp-request connection'",
            Step::TcpSession => "a 'tcp-request session'",
            Step::TcpContent => "a 'tcp-request content'",
            Step::MonitorFail => "a 'monitor fail'",
            Step::HttpRequest => "an 'http-request'",
            Step::Redirect => "a 'redirect'",
            Step::UseBackend => "a 'use_backend'",
            Step::UseServer => "a 'use-server'",
            Step::Response => "a response",
        }
    }

    /// How a warning names it as the rule that came late.
    fn short_name(self) -> &'static str {
        match self {
            Step::TcpConnection | Step::TcpSession | Step::TcpContent => "tcp-request",
            Step::MonitorFail => "monitor fail",
            Step::HttpRequest => "http-request",
            Step::Redirect => "redirect",
            Step::UseBackend => "use_backend",
            Step::UseServer => "use-server",
            Step::Response => "response",
        }
    }
}

/// A rule that is written after one that it runs before, if there is one.
#[must_use]
pub(crate) struct Misordered(Option<(Step, Step)>);

impl RuleMemory {
    /// Notes a rule of `step`.
    pub(crate) fn order(&mut self, step: Step) -> Misordered {
        if step == Step::Response {
            return Misordered(None);
        }
        // No warning for use_backend after use-server, which is a choice within the backend.
        let later = Step::ORDER.into_iter().skip(step as usize + 1).find(|later| {
            self.steps & (1 << *later as u8) != 0 && (step, *later) != (Step::UseBackend, Step::UseServer)
        });
        self.steps |= 1 << step as u8;
        Misordered(later.map(|later| (step, later)))
    }
}

impl Misordered {
    /// Reports the warning, if there is one.
    pub(crate) fn warn(self, diagnostics: &mut Diagnostics, span: Span) {
        if let Misordered(Some((step, later))) = self {
            let message = format!(
                "a '{}' rule placed after {} rule will still be processed before.",
                step.short_name(),
                later.name()
            );
            diagnostics.warning(span, message);
        }
    }
}
