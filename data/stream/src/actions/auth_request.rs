//! `auth-request`: a server decides whether the request may continue.
//!
//! The rule sends a request of its own, without a body, to a backend and waits for the answer:
//!
//! ```text
//!   2xx ───────────────────────► the next rule, with fields of the answer in the request
//!   401, 403, a redirection ───► the client
//!   another status, or none ───► `on-error`
//! ```
//!
//! With `continue`, refusals do not go to the client: the next rules decide, by the variables of the answer.

use std::sync::Arc;
use std::time::Duration;

use weir_config::numbers::{delay_of, size_of};
use weir_config::rows::DefaultValue::Described;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_containers::PooledFuture;
use weir_expr::{Context as _, FormatOptions, LogFormat, Reference, SetCondition, Value, VariableId};
use weir_fingerprint::Canonical;
use weir_http::pages::BuiltInResponse;
use weir_http::{KnownName, NoRoom, is_token};
use weir_model::{ActionFacts, Visit};
use weir_mux::Message;

use super::answers::count_denied;
use super::copied_request::{
    HeadWriter, OwnHeader, is_in_loop, is_same_name, read_names, remove_named_by_connection,
    sets as sets_header,
};
use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::stream::{PhaseResult, Stream, StreamError};
use crate::subrequest::{PendingSubrequest, Subrequest, SubrequestAnswer, SubrequestOutcome};

pub(super) const ROWS: &[ActionRow] = &[action(
    "auth-request",
    "<backend> [ path <fmt> ] [ method <method> ] [ hdr <name> <fmt> ]* [ copy-hdr <names> ]* [ keep-hdr <names> ]* [ timeout <time> ] [ body-limit <size> ] [ continue ] [ on-error { deny | allow | status <code> } ]",
    "app path /verify copy-hdr Remote-User timeout 2s on-error status 503",
    "let a server of another backend decide: 2xx goes on, 401, 403 and redirections go to the client",
    sets::HTTP_REQUEST,
    |context, words| Ok(AuthRequest::read(context, words)?.into_action()),
)
.default(Described(
    "the path of the request, method GET, `timeout 10s`, `body-limit 16k`, `on-error deny`: 502, 503 or 504",
))];

/// `auth-request`.
#[derive(Debug, Canonical)]
struct AuthRequest {
    backend: Arc<Reference>,
    /// The path. `None` for the path and query of the client's request.
    path: Option<LogFormat>,
    method: Box<str>,
    headers: Vec<OwnHeader>,
    /// The fields of a 2xx answer that replace those of the request.
    copied: Vec<AnswerHeader>,
    /// The fields of a 2xx answer that are kept in variables only.
    kept: Vec<AnswerHeader>,
    timeout: Duration,
    /// Maximum size of the body that goes to the client.
    body_limit: u64,
    /// The request goes on after a refusal, too. The next rules read the variables.
    continues: bool,
    on_error: VerdictFallback,
    /// `txn.auth_response_successful`.
    successful: VariableId,
    /// `txn.auth_response_code`.
    code: VariableId,
    /// `txn.auth_response_location`.
    location: VariableId,
}

/// A field of the answer, and the variable with its value: `req.auth_response_header.<name>`, the name in lower case and with `_` for
/// every other character.
#[derive(Debug, Canonical)]
struct AnswerHeader {
    name: Box<str>,
    variable: VariableId,
}

/// The reaction to a missing or unusable verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum VerdictFallback {
    /// The client gets the status of the failure: 502, 503 or 504.
    Deny,
    /// The request continues.
    Allow,
    /// The client gets this status.
    Status(u16),
}

impl AuthRequest {
    fn read(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        let backend = context.backend(words)?;
        let mut action = AuthRequest {
            backend,
            path: None,
            method: "GET".into(),
            headers: Vec::new(),
            copied: Vec::new(),
            kept: Vec::new(),
            timeout: TIMEOUT,
            body_limit: BODY_LIMIT,
            continues: false,
            on_error: VerdictFallback::Deny,
            successful: context.variable("txn.auth_response_successful")?,
            code: context.variable("txn.auth_response_code")?,
            location: context.variable("txn.auth_response_location")?,
        };
        while !words.at_end() && !words.at_condition() {
            let word = words.expect(EXPECTS)?;
            match word.text() {
                "path" => {
                    let path = words.expect("'path' expects a format.")?;
                    action.path = Some(context.format(path, FormatOptions::HTTP)?);
                }
                "method" => {
                    let method = words.expect("'method' expects a method.")?;
                    let name = method.text();
                    if !is_token(name.as_bytes()) || name == "CONNECT" {
                        let message = format!("'{name}' is not a method of a request without a body.");
                        return Err(fault(method.span(), message));
                    }
                    action.method = name.into();
                }
                "hdr" => action.headers.push(OwnHeader::read(context, words)?),
                "copy-hdr" => action.copied.extend(AnswerHeader::read(context, words, "copy-hdr")?),
                "keep-hdr" => action.kept.extend(AnswerHeader::read(context, words, "keep-hdr")?),
                "timeout" => {
                    let time = words.expect("'timeout' expects a time.")?;
                    action.timeout = delay_of(words, time, "timeout")?;
                    if action.timeout.is_zero() {
                        return Err(fault(time.span(), "'timeout' expects a time above 0."));
                    }
                }
                "body-limit" => {
                    let size = words.expect("'body-limit' expects a size.")?;
                    action.body_limit = size_of(size, "body-limit")?;
                    if action.body_limit > MOST_BODY {
                        return Err(fault(size.span(), "'body-limit' expects a size of at most 1m."));
                    }
                }
                "continue" => action.continues = true,
                "on-error" => action.on_error = VerdictFallback::read(words)?,
                _ => return Err(fault(word.span(), EXPECTS)),
            }
        }
        Ok(action)
    }

    /// Sends the sub-request. `None` if it cannot be sent.
    fn send(&self, stream: &mut Stream) -> Option<PendingSubrequest> {
        if is_in_loop(stream) {
            return None;
        }
        let (position, _) = self.backend.target()?;
        let backend = stream.frontend.sibling(position as usize)?;
        let session = Subrequest::session(stream)?;
        let head = self.head(stream)?;
        let request = Subrequest::new(session, backend, &head, self.timeout)?;
        Some(request.send(self.body_limit as usize))
    }

    /// The head of the sub-request.
    fn head(&self, stream: &mut Stream) -> Option<weir_expr::scratch::Scratch> {
        let path = self.path.as_ref().map(|path| stream.format(path));
        let message = &stream.request.message;
        // A CONNECT lacks a path.
        let own = || Some(message.head.path_and_query(message.bytes())).filter(|own| own.starts_with(b"/"));
        let target = path.as_deref().map_or_else(|| own().unwrap_or(b"/"), Vec::as_slice);
        let mut head = HeadWriter::begin(self.method.as_bytes(), target)?;
        head.add_request(stream, &self.headers, |name, known, is_edited| {
            stays_with_request(name, known) || (!is_edited && describes_original(name))
        });
        self.add_original(stream, &mut head);
        Some(head.end())
    }

    /// Adds fields that describe the original request, except those that a rule or `hdr` has set.
    fn add_original(&self, stream: &Stream, out: &mut HeadWriter) {
        let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
        let is_set = |name: &str| {
            let by_rule = head.positions(raw, name.as_bytes()).any(|at| head.index()[at].value.is_edited());
            by_rule || sets_header(&self.headers, name)
        };
        let mut add = |name: &str, value: &[u8]| {
            if !value.is_empty() && !is_set(name) {
                out.add(name.as_bytes(), value);
            }
        };
        let method = head.method_text(raw);
        let target = head.path_and_query(raw);
        let host = head.find_known(raw, KnownName::Host).unwrap_or_default();
        let scheme: &[u8] = if stream.client.tls().is_some() { b"https" } else { b"http" };
        let source = stream.source().ip().map(|address| address.to_string()).unwrap_or_default();
        add("X-Original-Method", method);
        add("X-Original-URI", target);
        add("X-Original-URL", &[scheme, b"://", host, target].concat());
        add("X-Forwarded-Method", method);
        add("X-Forwarded-Proto", scheme);
        add("X-Forwarded-Host", host);
        add("X-Forwarded-URI", target);
        add("X-Forwarded-For", source.as_bytes());
        add("X-Real-IP", source.as_bytes());
    }

    /// Removes the values of an earlier rule.
    fn unset_variables(&self, stream: &mut Stream) {
        for variable in [self.successful, self.code, self.location] {
            stream.unset_variable(variable);
        }
        for header in self.copied.iter().chain(&self.kept) {
            stream.unset_variable(header.variable);
        }
    }

    /// Removes the client's fields with names that only the server may set.
    fn remove_copied(&self, stream: &mut Stream) {
        let (head, raw) = stream.request.message.edit();
        let is_copied =
            |name: &[u8]| self.copied.iter().any(|copied| is_same_name(name, copied.name.as_bytes()));
        if head.fields(raw).any(|(name, _)| is_copied(name)) {
            head.remove_matching(raw, is_copied);
        }
    }

    /// The verdict of a known outcome.
    fn decide(&self, stream: &mut Stream, outcome: SubrequestOutcome, rule: RuleContext<'_>) -> Verdict {
        let answer = match outcome {
            SubrequestOutcome::Answered(answer) => answer,
            SubrequestOutcome::Failed(status, by) => return self.fail(stream, status, by),
        };
        let (head, raw) = (&answer.message.head, answer.message.bytes());
        let status = head.status();
        stream.set_variable(self.code, Value::Int(status.into()), SetCondition::ALWAYS);
        let location = head.find_known(raw, KnownName::Location).filter(|location| !location.is_empty());
        if let Some(location) = location {
            stream.set_variable(self.location, Value::Str(location.into()), SetCondition::ALWAYS);
        }
        match status {
            200..=299 => match self.allow(stream, &answer.message) {
                Ok(()) => Verdict::Next,
                Err(NoRoom) => Verdict::Stop(StreamError::error(500, By::Internal, During::Request)),
            },
            401 | 403 if self.continues => self.go_on(stream),
            301 | 302 | 303 | 307 | 308 if self.continues && location.is_some() => self.go_on(stream),
            401 | 403 => self.refuse(stream, answer, By::Proxy, rule),
            301 | 302 | 303 | 307 | 308 if location.is_some() => self.refuse(stream, answer, By::Local, rule),
            _ => self.fail(stream, 502, By::Server),
        }
    }

    /// Takes over the fields of a 2xx answer.
    fn allow(&self, stream: &mut Stream, answer: &Message) -> Result<(), NoRoom> {
        stream.set_variable(self.successful, Value::Bool(true), SetCondition::ALWAYS);
        let (head, raw) = (&answer.head, answer.bytes());
        for copied in &self.copied {
            for value in head.lines(raw, copied.name.as_bytes()) {
                stream.request.message.head.add(copied.name.as_bytes(), value)?;
            }
        }
        for header in self.copied.iter().chain(&self.kept) {
            if let Some(value) = head.find_line(raw, header.name.as_bytes(), -1) {
                stream.set_variable(header.variable, Value::Str(value.into()), SetCondition::ALWAYS);
            }
        }
        for cookie in head.lines(raw, b"set-cookie") {
            stream.captures.keep_set_cookie(cookie);
        }
        Ok(())
    }

    /// Leaves the refusal to the next rules.
    fn go_on(&self, stream: &mut Stream) -> Verdict {
        stream.set_variable(self.successful, Value::Bool(false), SetCondition::ALWAYS);
        Verdict::Next
    }

    /// Gives the answer to the client.
    fn refuse(
        &self,
        stream: &mut Stream,
        answer: SubrequestAnswer,
        by: By,
        rule: RuleContext<'_>,
    ) -> Verdict {
        stream.set_variable(self.successful, Value::Bool(false), SetCondition::ALWAYS);
        if by == By::Proxy {
            count_denied(stream, rule);
            crate::cookie::on_refused(stream);
        } else {
            rule.proxy.count_intercepted();
        }
        stream.reply_phase().prepare_refusal(&answer.message, answer.body, goes_to_client);
        Verdict::Stop(StreamError::Reply(Ending::new(by, During::Request)))
    }

    /// Handles a missing or unusable verdict.
    fn fail(&self, stream: &mut Stream, status: u16, by: By) -> Verdict {
        stream.set_variable(self.successful, Value::Bool(false), SetCondition::ALWAYS);
        crate::process_counters::count(|counters| counters.auth_requests_failed.increment());
        let status = match self.on_error {
            VerdictFallback::Allow => return Verdict::Next,
            VerdictFallback::Deny => status,
            VerdictFallback::Status(status) => status,
        };
        let by = if by == By::ServerTimeout { by } else { By::Server };
        Verdict::Stop(StreamError::error(status, by, During::Request))
    }
}

impl StreamAction for AuthRequest {
    #[cold]
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        remove_named_by_connection(&mut stream.request.message);
        self.remove_copied(stream);
        self.unset_variables(stream);
        crate::process_counters::count(|counters| counters.auth_requests.increment());
        match self.send(stream) {
            Some(pending) => ActionResult::Await(PooledFuture::new(async move {
                let outcome = await_answer(stream, pending).await?;
                Ok(self.decide(stream, outcome, rule))
            })),
            None => ActionResult::Done(self.fail(stream, 503, By::Proxy)),
        }
    }

    fn visit_references(&self, visit: Visit<'_>) {
        if let Some(path) = &self.path {
            path.visit_references(visit);
        }
        self.headers.iter().for_each(|header| header.visit_references(visit));
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { adds_to_response: true, asks: Some(&self.backend), ..ActionFacts::NONE }
    }
}

/// Waits for the outcome of a sub-request, which has a deadline of its own. If the client aborts, the sub-request ends.
fn await_answer(
    stream: &mut Stream,
    pending: PendingSubrequest,
) -> impl Future<Output = PhaseResult<SubrequestOutcome>> {
    stream.hold_little();
    stream.drive(
        While::until(weir_sched::Tick::NEVER),
        move |stream, _| match pending.poll() {
            Some(outcome) => Ok(DriveStep::Done(outcome)),
            None if stream.inspection().has_client_left() => {
                Err(StreamError::close(By::Client, During::Request))
            }
            None => Ok(DriveStep::Wait(Waits::ONCE)),
        },
        |_, by, _| Err(StreamError::close(by, During::Request)),
    )
}

impl AnswerHeader {
    fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>, keyword: &str) -> Parsed<Vec<Self>> {
        let names = read_names(words, keyword)?.into_iter();
        let with_variable = |name: Box<str>| {
            let in_variable = |byte: char| if byte.is_ascii_alphanumeric() { byte } else { '_' };
            let text: String = name.to_ascii_lowercase().chars().map(in_variable).collect();
            let variable = context.variable(&format!("req.auth_response_header.{text}"))?;
            Ok(AnswerHeader { name, variable })
        };
        names.map(with_variable).collect()
    }
}

impl VerdictFallback {
    fn read(words: &mut Words<'_>) -> Parsed<Self> {
        let expects = "'on-error' expects 'deny', 'allow' or 'status <code>'.";
        let word = words.expect(expects)?;
        Ok(match word.text() {
            "deny" => VerdictFallback::Deny,
            "allow" => VerdictFallback::Allow,
            "status" => {
                let code = words.expect("'status' expects a status code.")?;
                let known =
                    code.text().parse().ok().filter(|status| {
                        (400..600).contains(status) && BuiltInResponse::of(*status).is_some()
                    });
                let message =
                    "'status' expects the code of an error that has a message, such as 403, 500 or 503.";
                VerdictFallback::Status(known.ok_or_else(|| fault(code.span(), message))?)
            }
            _ => return Err(fault(word.span(), expects)),
        })
    }
}

/// Whether a field of the client's request describes its body, or makes its answer depend on an earlier one. The server of a
/// sub-request does not get those. It does not see the handshake of a WebSocket either.
fn stays_with_request(name: &[u8], known: KnownName) -> bool {
    let begins_with =
        |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    known == KnownName::Range || [&b"content-"[..], b"if-", b"sec-websocket-"].into_iter().any(begins_with)
}

/// Whether a field describes the original request or its client to a server behind a proxy. Those of the client are not trusted.
fn describes_original(name: &[u8]) -> bool {
    let begins_with =
        |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| is_same_name(start, prefix));
    begins_with(b"x-forwarded-")
        || begins_with(b"x-original-")
        || is_same_name(name, b"x-real-ip")
        || is_same_name(name, b"forwarded")
}

/// Whether a field of a refusal goes to the client.
fn goes_to_client(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 9] = [
        b"www-authenticate",
        b"location",
        b"set-cookie",
        b"content-type",
        b"content-encoding",
        b"content-language",
        b"cache-control",
        b"vary",
        b"retry-after",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

const EXPECTS: &str = "expects 'path', 'method', 'hdr', 'copy-hdr', 'keep-hdr', 'timeout', 'body-limit', 'continue', 'on-error', or a condition.";
/// Long enough for a server that asks others, short enough for a person who waits.
const TIMEOUT: Duration = Duration::from_secs(10);
const BODY_LIMIT: u64 = 16 * 1024;
const MOST_BODY: u64 = 1024 * 1024;
