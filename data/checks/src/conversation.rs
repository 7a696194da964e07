//! A dialogue with a server: rule by rule, until a rule fails or the last one is done.
//!
//! ```text
//!   connects ──► sends ──► expects: receives until the rule is met, or cannot be met ──► the next rule
//!      │           │          │
//!      └───────────┴──────────┴──► a Finding: the failure and its step
//! ```
//!
//! Received bytes are kept until the next send, so that several rules may examine them.

use weir_backend::{CheckFinding, CheckStatus, OperationalState};
use weir_expr::{Context as _, LogFormat};
use weir_http::{BodySize, Method};
use weir_model::{
    CheckAction, CheckConnect, CheckPort, CheckRule, Expect, ExpectStatus, Expected, HttpRequest, OwnExpected,
};
use weir_mux::{BodyFlow, HeadOptions, Message, ReadHead, StreamConnector};
use weir_net::{Connection, ConnectionFault, ReceiveOutcome};
use weir_sched::{Tick, now, wait};
use weir_sys::Errno;

use crate::application::ApplicationConnection;
use crate::attempt::{self, Attempt, CheckConnection, CheckProtocol, ConnectionRequest, SocketReuse};
use crate::context::CheckContext;
use crate::expected::{self, Examination};
use crate::form::{MessageRequest, RequestForm};
use crate::http2::Http2Connection;
use crate::load::{CheckStep, take_apart};
use crate::own;
use crate::request;
use crate::reuse::{self, BorrowedConnection};
use crate::schedule::patience;
use crate::script::{Script, Style};

/// A dialogue in progress.
pub(crate) struct CheckDialogue<'c> {
    attempt: &'c Attempt<'c>,
    script: &'c Script,
    context: CheckContext<'c>,
    /// The connection that carries the context's connector, if that is a stream.
    carrier: CheckCarrier,
    /// Whether the connection's socket can be reused afterwards.
    socket: SocketReuse,
    /// The deadline of the current step.
    deadline: Tick,
    /// The method of the last request.
    method: Method,
    /// Whether the last request lets the server keep the connection.
    persists: bool,
    /// `Some` if the connection is shared with the server's traffic.
    lent: Option<BorrowedConnection>,
    /// Whether anything was received over the connection.
    has_answer: bool,
    /// Whether no more bytes will be received.
    complete: bool,
}

impl<'c> CheckDialogue<'c> {
    pub(crate) fn new(attempt: &'c Attempt<'c>, script: &'c Script) -> Self {
        CheckDialogue {
            attempt,
            script,
            context: CheckContext::new(attempt.view, &attempt.plan.backend, attempt.server),
            carrier: CheckCarrier::Itself,
            socket: SocketReuse::default(),
            deadline: Tick::NEVER,
            method: Method::Options,
            persists: false,
            lent: None,
            has_answer: false,
            complete: false,
        }
    }

    /// Runs the dialogue. If the server closed a reused connection while it was idle, opens another connection.
    pub(crate) async fn hold(mut self) -> CheckFinding {
        let mut takes_idle = true;
        loop {
            let outcome = self.walk(takes_idle).await;
            if outcome.is_err() && takes_idle && self.was_stale() {
                takes_idle = false;
                let attempt = self.attempt;
                self.context = CheckContext::new(attempt.view, &attempt.plan.backend, attempt.server);
                continue;
            }
            self.leave_connection().await;
            if let Some((socket, connection)) = self.take_connection() {
                self.attempt.hold(socket, connection);
            }
            return match outcome {
                Ok(finding) | Err(finding) => finding,
            };
        }
    }

    /// Whether the connection was taken from the traffic and failed or was closed before anything was received.
    fn was_stale(&self) -> bool {
        let is_reused = self.context.earlier_requests > 0;
        is_reused && !self.has_answer && (self.complete || self.context.connector.fault().is_some())
    }

    /// Returns the connection to the server's traffic, if it may be reused and is ready for another request.
    async fn leave_connection(&mut self) {
        if self.lent.is_none() || !self.persists {
            return;
        }
        let limit = self.attempt.view.objects().buffer_size();
        let CheckContext { response, body, connector, .. } = &mut self.context;
        let (Some(response), Some((body, size))) = (response, body) else { return };
        if reuse::is_over(response, body, *size, connector, self.deadline, limit).await
            && let Some(lent) = self.lent.take()
        {
            lent.leave(self.attempt, self.context.take_connector());
        }
    }

    /// Takes the current connection, if any.
    fn take_connection(&mut self) -> Option<(SocketReuse, Connection)> {
        let socket = std::mem::take(&mut self.socket);
        self.context.connector.take_connection().map(|connection| (socket, connection))
    }

    async fn walk(&mut self, takes_idle: bool) -> Result<CheckFinding, CheckFinding> {
        let script = self.script;
        let first = script.rules.iter().find(|rule| !is_silent(rule));
        if !matches!(first.map(|rule| &rule.action), Some(CheckAction::Connect(_))) {
            self.begin(takes_idle).await?;
        }
        let mut last = self.stands();
        let mut greeting = Default::default();
        for (rule, following) in script.rules.iter().zip(1..) {
            let following = &script.rules[following..];
            match &rule.action {
                CheckAction::Connect(connect) => {
                    let connected = self.connect(connect, following).await;
                    connected.map_err(|finding| self.at_step(finding, rule, &connect_in_words(connect)))?;
                    last = self.stands();
                }
                CheckAction::Expect(expect) => {
                    let found = self.expect(rule, expect).await?;
                    // A response without a detail keeps the detail of an earlier response.
                    let keeps = found.detail.is_empty() && matches!(expect.what, Expected::Own(_));
                    greeting = if keeps { greeting } else { found.detail.clone() };
                    // HAProxy shows a MySQL server's version and the success of LDAP in logs, but not in statistics.
                    let detail_is_for_logs = matches!(
                        expect.what,
                        Expected::Own(
                            OwnExpected::LdapBind | OwnExpected::MysqlGreeting | OwnExpected::MysqlAnswer
                        )
                    );
                    last = CheckFinding { detail: greeting.clone(), detail_is_for_logs, ..found };
                }
                CheckAction::SetVariable { name, condition, value } => {
                    let value = value.evaluate(&mut self.context).into_owned().sample();
                    if let Some(sample) = value {
                        self.context.set_variable(*name, sample.value, *condition);
                    }
                }
                CheckAction::SetVariableFormat { name, condition, value } => {
                    let text = self.format(value);
                    self.context.set_variable(*name, weir_expr::Value::Str(text.into()), *condition);
                }
                CheckAction::UnsetVariable(name) => {
                    self.context.unset_variable(*name);
                }
                CheckAction::Send(_)
                | CheckAction::SendFormat(_)
                | CheckAction::SendHexFormat(_)
                | CheckAction::SendHttp(_) => {
                    let sent = match &rule.action {
                        CheckAction::SendHttp(said) => self.send_request(said).await,
                        action => {
                            let bytes = self.bytes_of(action);
                            self.send(&bytes).await
                        }
                    };
                    sent.map_err(|finding| self.at_step(finding, rule, "send"))?;
                    last = self
                        .with_style(CheckFinding { code: Some(0), ..CheckFinding::new(CheckStatus::L7Ok) });
                }
            }
        }
        Ok(last)
    }

    /// The finding of an established connection.
    fn stands(&self) -> CheckFinding {
        self.with_style(CheckFinding::new(attempt::stands(self.context.connector.tls().is_some())))
    }

    /// Adds the text of `tcp-check` to a success, for `tcp-check` rules.
    fn with_style(&self, finding: CheckFinding) -> CheckFinding {
        match self.script.style {
            Style::Tcp => CheckFinding { detail: "(tcp-check)".into(), ..finding },
            Style::Http | Style::Own => finding,
        }
    }

    /// Adds the step to a failure, for `tcp-check` rules.
    fn at_step(&self, finding: CheckFinding, rule: &CheckRule, what: &str) -> CheckFinding {
        if self.script.style != Style::Tcp {
            return finding;
        }
        let comment = rule.comment.as_ref().map_or_else(String::new, |text| format!(" comment: '{text}'"));
        let detail = format!("{} at step {} of tcp-check ({what}){comment}", finding.detail, rule.step);
        CheckFinding { detail: detail.into(), ..finding }
    }

    /// Connects with the server's settings, or takes an idle connection of its traffic.
    async fn begin(&mut self, takes_idle: bool) -> Result<(), CheckFinding> {
        if takes_idle && let Some((lent, connector)) = BorrowedConnection::take(self.attempt) {
            self.forget();
            self.carrier = CheckCarrier::Itself;
            self.has_answer = false;
            self.deadline = self.attempt.answer_deadline();
            self.context.earlier_requests = lent.requests();
            (self.lent, self.context.connector) = (Some(lent), connector);
            return Ok(());
        }
        let server_way = CheckConnect::default();
        let script = self.script;
        let connected = self.connect(&server_way, &script.rules).await;
        connected.map_err(|finding| attempt::at_first(finding, script.style == Style::Tcp))?;
        self.lent = BorrowedConnection::opened(self.attempt);
        Ok(())
    }

    async fn connect(&mut self, said: &CheckConnect, following: &[CheckRule]) -> Result<(), CheckFinding> {
        if let Some((socket, connection)) = self.take_connection() {
            socket.end(connection);
        }
        self.carrier = CheckCarrier::Itself;
        (self.lent, self.has_answer) = (None, false);
        self.context.earlier_requests = 0;
        self.forget();
        let host = request::host(following, &mut self.context);
        let port = match &said.port {
            None => None,
            Some(CheckPort::Fixed(port)) => Some(*port),
            Some(CheckPort::Expression(expression)) => {
                let port = expected::number(expression, &mut self.context);
                let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                Some(port.ok_or_else(|| CheckFinding {
                    detail: "invalid port".into(),
                    ..CheckFinding::new(CheckStatus::SocketError)
                })?)
            }
        };
        let is_http = self.script.style == Style::Http;
        let next = following.iter().find(|rule| !is_silent(rule));
        let speaks_first = next.is_some_and(|rule| !matches!(rule.action, CheckAction::Expect(_)));
        let wanted = ConnectionRequest { said, port, host: host.as_deref(), is_http, speaks_first };
        let CheckConnection { connection, protocol, socket } = self.attempt.connect(wanted).await?;
        self.socket = socket;
        self.deadline = self.attempt.answer_deadline();
        self.carrier = match protocol {
            CheckProtocol::Bytes => {
                self.context.connector = StreamConnector::own(connection);
                return Ok(());
            }
            CheckProtocol::Http2(bounds) => CheckCarrier::Http2(Http2Connection::new(connection, bounds)),
            CheckProtocol::Application => {
                let Attempt { view, plan, .. } = self.attempt;
                let application = view.connect_application(&plan.backend, connection);
                // `check-proto fcgi` in a backend without an application.
                CheckCarrier::Application(application.ok_or(CheckFinding::new(CheckStatus::SocketError))?)
            }
        };
        self.open_stream();
        Ok(())
    }

    /// Replaces the connector by another stream of its connection, if it is a stream.
    fn open_stream(&mut self) {
        self.context.connector = match &self.carrier {
            CheckCarrier::Itself => return,
            CheckCarrier::Http2(connection) => connection.stream(),
            CheckCarrier::Application(connection) => connection.stream(),
        };
    }

    /// Discards all received bytes.
    fn forget(&mut self) {
        let waiting = self.context.connector.input().len();
        self.context.connector.consume(waiting);
        (self.context.response, self.context.body) = (None, None);
        self.complete = false;
    }

    fn format(&mut self, format: &LogFormat) -> Vec<u8> {
        let mut text = Vec::new();
        format.render(&mut self.context, &mut text);
        text
    }

    fn bytes_of(&mut self, action: &CheckAction) -> Vec<u8> {
        match action {
            CheckAction::Send(bytes) => bytes.to_vec(),
            CheckAction::SendFormat(format) => self.format(format),
            CheckAction::SendHexFormat(format) => {
                let digits = self.format(format);
                // Invalid digits send nothing.
                expected::from_hex(&digits).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Makes a request for the connection's protocol.
    fn make_request<F: RequestForm + Default>(&mut self, said: &HttpRequest) -> F {
        let state = self.script.send_state.then(|| request::state(self.attempt, self.context.view));
        let (keeps, mut form) = (self.lent.is_some(), F::default());
        let made = request::make(said, state.as_deref(), keeps, &mut self.context, &mut form);
        (self.method, self.persists) = (made.method, made.persists);
        form
    }

    async fn send_request(&mut self, said: &HttpRequest) -> Result<(), CheckFinding> {
        if matches!(self.carrier, CheckCarrier::Itself) {
            let text: Vec<u8> = self.make_request(said);
            return self.send(&text).await;
        }
        let request: MessageRequest = self.make_request(said);
        self.forget();
        self.open_stream();
        if let CheckCarrier::Application(connection) = &self.carrier {
            let (connector, length) = (&mut self.context.connector, request.body.len() as u64);
            let server = connector.peer_address();
            let params = connector.application_mut().map(|stream| stream.params_mut());
            let written =
                params.map(|params| connection.parameters(&request.message, length, server.as_ref(), params));
            if !matches!(written, Some(Ok(()))) {
                return Err(CheckFinding::new(CheckStatus::SocketError));
            }
        }
        request.send(&mut self.context.connector).map_err(broken)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), CheckFinding> {
        self.forget();
        let deadline = self.deadline;
        let Some(connection) = self.context.connector.connection_mut() else {
            return Err(CheckFinding::new(CheckStatus::SocketError));
        };
        if connection.send_all(bytes, deadline).await.is_some() {
            return Ok(());
        }
        Err(match connection.fault() {
            Some(fault) => broken(fault),
            None => CheckFinding::new(CheckStatus::L7Timeout),
        })
    }

    /// Waits until a rule matches or can no longer match.
    async fn expect(&mut self, rule: &CheckRule, said: &Expect) -> Result<CheckFinding, CheckFinding> {
        loop {
            let is_there = match self.script.style {
                Style::Http => self.take_response(said).await,
                Style::Tcp | Style::Own => Ok(self.has_bytes()),
            };
            let is_there = match is_there {
                Ok(is_there) => is_there,
                Err(stop) => return Err(self.hindered(stop, rule, said)),
            };
            if is_there {
                if self.script.style != Style::Http && self.complete && self.context.payload().is_empty() {
                    return Err(self.empty(rule));
                }
                if let Some(concluded) = self.conclude(rule, said) {
                    return concluded;
                }
            }
            if let Err(stop) = self.more().await {
                return Err(self.hindered(stop, rule, said));
            }
        }
    }

    /// The finding of a rule that cannot be evaluated.
    fn hindered(&mut self, stop: RuleObstacle, rule: &CheckRule, said: &Expect) -> CheckFinding {
        match stop {
            RuleObstacle::TimedOut => self.timed_out(rule, said),
            RuleObstacle::Unreadable => self.empty(rule),
            RuleObstacle::Failed(finding) => {
                self.at_step(finding, rule, &expected::rule_in_words(&said.what))
            }
        }
    }

    /// Examines the received bytes. `None` if the rule needs more bytes.
    fn conclude(&mut self, rule: &CheckRule, said: &Expect) -> Option<Result<CheckFinding, CheckFinding>> {
        // A 404 only affects a server that is up (manual, "http-check disable-on-404").
        let is_down = self.attempt.server.operational_state(now().as_ms()) == OperationalState::Stopped;
        if self.script.disable_on_404 && !is_down && self.status() == Some(404) {
            let found = CheckFinding::new(CheckStatus::L7OkConditional);
            return Some(Ok(CheckFinding { code: Some(404), ..found }));
        }
        let is_well = match expected::look(said, &mut self.context, self.complete) {
            Examination::Later => return None,
            // Without a body the rule fails, inverted or not.
            _ if looks_at_body(said) && self.has_no_body() => false,
            Examination::Found => !said.inverted,
            Examination::Absent => said.inverted,
            Examination::Own(found) => {
                let finding = CheckFinding {
                    code: Some(found.code.into()),
                    detail: found.detail.into(),
                    ..CheckFinding::new(found.status)
                };
                return Some(if found.is_well { Ok(finding) } else { Err(finding) });
            }
        };
        Some(if is_well { Ok(self.passed(said)) } else { self.failed(rule, said) })
    }

    fn passed(&mut self, said: &Expect) -> CheckFinding {
        let status = said.ok_status.map_or(CheckStatus::L7Ok, status_of);
        let detail = match &said.on_success {
            Some(format) => String::from_utf8_lossy(&self.format(format)).into_owned(),
            None if self.script.style == Style::Tcp => "(tcp-check)".to_owned(),
            None => String::new(),
        };
        CheckFinding { code: self.code(said), detail: detail.into(), ..CheckFinding::new(status) }
    }

    /// The finding of a failed rule. `error-status L7OKC` makes it a success.
    fn failed(&mut self, rule: &CheckRule, said: &Expect) -> Result<CheckFinding, CheckFinding> {
        let of_answer =
            matches!(said.what, Expected::Status(_) | Expected::StatusRegex(_) | Expected::Header(_));
        let usual = if of_answer { CheckStatus::L7Status } else { CheckStatus::L7Response };
        let status = said.error_status.map_or(usual, status_of);
        let detail = match &said.on_error {
            Some(format) => String::from_utf8_lossy(&self.format(format)).into_owned(),
            None => format!("{}{}", self.mismatch(rule, said, of_answer), comment_of(rule)),
        };
        let finding =
            CheckFinding { code: self.code(said), detail: detail.into(), ..CheckFinding::new(status) };
        if status == CheckStatus::L7OkConditional { Ok(finding) } else { Err(finding) }
    }

    fn mismatch(&self, rule: &CheckRule, said: &Expect, of_answer: bool) -> String {
        if of_answer {
            let response = self.context.response.as_ref();
            let reason = response.map(|response| response.head.reason(response.bytes())).unwrap_or_default();
            if reason.is_empty() {
                let step = rule.step;
                return format!(
                    "TCPCHK did not match content{} at step {step}",
                    expected::in_words(&said.what)
                );
            }
            return String::from_utf8_lossy(reason).into_owned();
        }
        if self.has_no_body() {
            return "HTTP content check could not find a response body".to_owned();
        }
        match (self.script.style, said.inverted) {
            // `option ssl-hello-chk` reports only the status.
            (Style::Own, _) => String::new(),
            (Style::Http, true) => "HTTP check matched unwanted content".to_owned(),
            (Style::Http, false) => "HTTP content check did not match".to_owned(),
            (_, inverted) => {
                let what = if inverted { "matched unwanted" } else { "did not match" };
                format!("TCPCHK {what} content {} at step {}", expected::in_words(&said.what), rule.step)
            }
        }
    }

    /// Whether the response is complete and its body empty.
    fn has_no_body(&self) -> bool {
        self.script.style == Style::Http && self.complete && self.context.payload().is_empty()
    }

    fn code(&mut self, said: &Expect) -> Option<i32> {
        let code = said.status_code.as_ref().and_then(|code| expected::number(code, &mut self.context));
        let code = code.and_then(|code| u16::try_from(code).ok());
        code.or_else(|| self.status()).map(i32::from).or(Some(0))
    }

    fn status(&self) -> Option<u16> {
        self.context.response.as_ref().map(|response| response.head.status())
    }

    fn timed_out(&mut self, rule: &CheckRule, said: &Expect) -> CheckFinding {
        let status = said.timeout_status.map_or(CheckStatus::L7Timeout, status_of);
        self.at_step(CheckFinding::new(status), rule, &expected::rule_in_words(&said.what))
    }

    /// The finding of a server that closes without sending: the error status of the rule (manual, "error-status").
    fn empty(&self, rule: &CheckRule) -> CheckFinding {
        let said = match &rule.action {
            CheckAction::Expect(said) => Some(said),
            _ => None,
        };
        let detail = match said.map(|said| &said.what) {
            Some(Expected::Own(OwnExpected::LdapBind)) => own::NOT_LDAP.to_owned(),
            Some(Expected::Own(OwnExpected::SmtpReply)) => String::new(),
            _ => format!("TCPCHK got an empty response at step {}{}", rule.step, comment_of(rule)),
        };
        let status = said.and_then(|said| said.error_status).map_or(CheckStatus::L7Response, status_of);
        CheckFinding { detail: detail.into(), ..CheckFinding::new(status) }
    }

    /// Whether bytes are available or the input is at its end.
    fn has_bytes(&self) -> bool {
        !self.context.payload().is_empty() || self.complete
    }

    /// Reads a response's head, then the available part of its body. False while the head is incomplete.
    async fn take_response(&mut self, said: &Expect) -> Result<bool, RuleObstacle> {
        if self.context.response.is_none() {
            let limit = self.attempt.view.objects().buffer_size();
            let mut message = Message::new(MOST_FIELDS);
            match message.read_response(&mut self.context.connector, &HeadOptions::default(), limit) {
                ReadHead::Complete => {}
                ReadHead::Incomplete => return Ok(false),
                ReadHead::Failed(fault) => return Err(RuleObstacle::Failed(broken(fault))),
                ReadHead::Invalid(_) if matches!(self.carrier, CheckCarrier::Application(_)) => {
                    return Err(RuleObstacle::Unreadable);
                }
                ReadHead::Ended | ReadHead::StartLineTooLarge | ReadHead::TooLarge | ReadHead::Invalid(_) => {
                    return Err(RuleObstacle::Failed(CheckFinding::new(CheckStatus::SocketError)));
                }
            }
            message.detach(&mut self.context.connector);
            let status = message.head.status();
            if (100..200).contains(&status) && status != SWITCHING_PROTOCOLS {
                // Skips an interim response.
                return Ok(false);
            }
            let size = BodySize::of_response(&message.head, self.method);
            self.context.body = Some((BodyFlow::behind(&self.context.connector, &message.head, size), size));
            self.context.response = Some(message);
        }
        let CheckContext { body, connector, .. } = &mut self.context;
        if let Some((body, _)) = body.as_mut().filter(|_| looks_at_body(said)) {
            let is_valid = body.inspect(connector);
            self.complete |= body.is_complete() || !is_valid || connector.ended();
        }
        Ok(true)
    }

    /// Waits until more bytes are received or the input ends.
    async fn more(&mut self) -> Result<(), RuleObstacle> {
        let limit = self.attempt.view.objects().buffer_size();
        loop {
            if let CheckCarrier::Http2(http2) = &mut self.carrier
                && http2.turn(&mut self.context.connector).await
                && self.context.response.is_none()
            {
                // The received frame may contain the response head.
                return Ok(());
            }
            match self.context.connector.receive(limit) {
                ReceiveOutcome::Bytes(_) => {
                    self.has_answer = true;
                    return Ok(());
                }
                // Bytes beyond the buffer are not examined (manual, "tune.bufsize").
                ReceiveOutcome::End | ReceiveOutcome::Full if !self.complete => {
                    self.complete = true;
                    return Ok(());
                }
                ReceiveOutcome::Failed(fault) => return Err(RuleObstacle::Failed(broken(fault))),
                ReceiveOutcome::Nothing => {}
                // All received bytes were already examined.
                ReceiveOutcome::End | ReceiveOutcome::Full => {
                    return Err(RuleObstacle::Failed(CheckFinding::new(CheckStatus::SocketError)));
                }
            }
            if self.deadline <= now() {
                return Err(RuleObstacle::TimedOut);
            }
            wait(self.deadline).await;
            take_apart(CheckStep::GoOn, patience(now(), self.attempt.plan.intervals.usual_ms)).await;
        }
    }
}

fn looks_at_body(said: &Expect) -> bool {
    matches!(said.what, Expected::Text(_) | Expected::TextFormat(_) | Expected::Regex(_))
}

/// The connection that carries the streams of a check.
enum CheckCarrier {
    /// The connector is the connection: HTTP/1, or the bytes of rules.
    Itself,
    Http2(Http2Connection),
    Application(ApplicationConnection),
}

/// Why a rule cannot be evaluated.
enum RuleObstacle {
    TimedOut,
    /// An application's output is not a response.
    Unreadable,
    Failed(CheckFinding),
}

/// The 1xx status that ends HTTP on the connection.
const SWITCHING_PROTOCOLS: u16 = 101;
/// Maximum number of header fields of a response.
const MOST_FIELDS: u16 = 100;

/// Whether a rule only sets or unsets variables.
fn is_silent(rule: &CheckRule) -> bool {
    matches!(
        rule.action,
        CheckAction::SetVariable { .. }
            | CheckAction::SetVariableFormat { .. }
            | CheckAction::UnsetVariable(_)
    )
}

/// The operator's comment on a rule, appended to the fault.
fn comment_of(rule: &CheckRule) -> String {
    rule.comment.as_ref().map_or_else(String::new, |text| format!(" comment: {text}"))
}

fn connect_in_words(connect: &CheckConnect) -> String {
    match connect.port {
        Some(CheckPort::Fixed(port)) => format!("connect port {port}"),
        _ => "connect".to_owned(),
    }
}

fn broken(fault: ConnectionFault) -> CheckFinding {
    let detail = match fault {
        ConnectionFault::Io(errno) => {
            let name = match errno {
                Errno::CONNRESET => "ECONNRESET",
                Errno::PIPE => "EPIPE",
                Errno::TIMEDOUT => "ETIMEDOUT",
                _ => "",
            };
            if name.is_empty() { fault.to_string() } else { format!("{name} returned by OS ({fault})") }
        }
        other => other.to_string(),
    };
    CheckFinding {
        detail: detail.into(),
        inconclusive: fault == ConnectionFault::Shortage,
        ..CheckFinding::new(CheckStatus::SocketError)
    }
}

fn status_of(status: ExpectStatus) -> CheckStatus {
    match status {
        ExpectStatus::L4Ok => CheckStatus::L4Ok,
        ExpectStatus::L6Ok => CheckStatus::L6Ok,
        ExpectStatus::L7Ok => CheckStatus::L7Ok,
        ExpectStatus::L7OkConditional => CheckStatus::L7OkConditional,
        ExpectStatus::L4Connection => CheckStatus::L4Connection,
        ExpectStatus::L6Response => CheckStatus::L6Response,
        ExpectStatus::L7Response => CheckStatus::L7Response,
        ExpectStatus::L7Status => CheckStatus::L7Status,
        ExpectStatus::L4Timeout => CheckStatus::L4Timeout,
        ExpectStatus::L6Timeout => CheckStatus::L6Timeout,
        ExpectStatus::L7Timeout => CheckStatus::L7Timeout,
    }
}
