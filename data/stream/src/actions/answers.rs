//! Actions that end a ruleset, most with a local response.

use weir_config::rows::DefaultValue::Described;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_containers::PooledFuture;
use weir_fingerprint::Canonical;
use weir_model::{ActionFacts, Protocol, Redirect, RedirectKind, Reply, RulesetKind, Visit};
use weir_sched::Descriptor;
use weir_sys::option;

use super::process::pause;
use super::script::service::UseScript;
use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::counters::CountedEvent;
use crate::deadlines::While;
use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::stream::{PhaseResult, Stream, StreamError};

/// The arguments of `deny`, `tarpit` and `return`.
const REPLY: &str = "[ status <code> ] [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*";

pub(super) const ROWS: &[ActionRow] = &[
    action("accept", "", "", "go on without the rest of the rules", sets::TCP, |_, _| {
        Ok(Accept.into_action())
    }),
    action("allow", "", "", "go on without the rest of the rules", sets::HTTP, |_, _| {
        Ok(Accept.into_action())
    }),
    action("close", "", "", "close the server's connection", sets::TCP_RESPONSE, |_, _| {
        Ok(Close.into_action())
    }),
    action("reject", "", "", "close the connection without an answer", sets::TCP_AND_REQUEST, |_, _| {
        Ok(Reject.into_action())
    }),
    action(
        "switch-mode",
        "http [ proto <name> ]",
        "http proto h2",
        "go on in HTTP",
        sets::TCP_CONTENT,
        |context, words| Ok(SwitchMode::read(context, words)?.into_action()),
    ),
    action(
        "silent-drop",
        "[ rst-ttl <ttl> ]",
        "rst-ttl 3",
        "close the connection without telling the peer",
        sets::ALL_BUT_AFTER,
        |_, words| {
            let mut reset_ttl = None;
            if words.take_if("rst-ttl") {
                let word = words.expect("missing argument for 'rst-ttl'.")?;
                reset_ttl = word.text().parse::<u8>().ok().filter(|ttl| *ttl > 0);
                if reset_ttl.is_none() {
                    return Err(fault(word.span(), "'rst-ttl' expects a number between 1 and 255."));
                }
            }
            Ok(SilentDrop { reset_ttl }.into_action())
        },
    ),
    action(
        "deny",
        REPLY,
        "deny_status 429",
        "refuse with an error, without a server",
        sets::HTTP_MESSAGES,
        |context, words| {
            let status = if context.kind == RulesetKind::HttpRequest { 403 } else { 502 };
            Ok(Deny(context.refusal(words, status)?).into_action())
        },
    )
    .default(Described("status 403 for a request, 502 for a response")),
    action(
        "tarpit",
        REPLY,
        "deny_status 500",
        "answer with an error, late",
        sets::HTTP_REQUEST,
        |context, words| Ok(Tarpit(context.refusal(words, 500)?).into_action()),
    )
    .default(Described("status 500")),
    action(
        "return",
        REPLY,
        "status 200 content-type text/plain string ok hdr a b",
        "answer the client with this status, headers and body, without a server",
        sets::HTTP_MESSAGES,
        |context, words| Ok(Return(context.answer(words)?).into_action()),
    )
    .default(Described("status 200, without a body")),
    action(
        "use-service",
        "<service-name>",
        "prometheus-exporter",
        "let a service answer",
        sets::CONTENT_REQUESTS,
        |context, words| {
            let name = words.expect("'use-service' expects a service name.")?;
            if name.text().starts_with("lua.") {
                return Ok(UseScript::read(context, name)?.into_action());
            }
            let Some((known, start)) = SERVICES.iter().find(|(known, _)| *known == name.text()) else {
                return Err(fault(name.span(), format!("'{}' unknown service name.", name.text())));
            };
            if context.kind != RulesetKind::HttpRequest {
                let message = "Prometheus exporter service only available on 'http-request' rulesets";
                return Err(fault(name.span(), message));
            }
            Ok(UseService { name: known, start: *start }.into_action())
        },
    ),
    action("auth", "[realm <realm>]", "realm shop", "ask for credentials", sets::HTTP_REQUEST, |_, words| {
        let mut realm = None;
        if words.take_if("realm") {
            realm = Some(words.expect("missing realm value.")?.text().into());
        }
        Ok(Auth { realm }.into_action())
    })
    .default(Described("the realm is the name of the proxy")),
    action(
        "redirect",
        "{ location <fmt> | prefix <fmt> | scheme <fmt> } [code <code>] [drop-query] [keep-query] [append-slash] [ignore-empty] [set-cookie <name>[=<value>]] [set-cookie-fmt <fmt>] [clear-cookie <name>[=]]",
        "location /there code 301 ignore-empty",
        "answer with a redirection",
        sets::HTTP_MESSAGES,
        |context, words| {
            let place = words.here();
            let redirect = context.redirect(words)?;
            // Other kinds need the request, which is gone by then (manual, "http-response redirect").
            if context.kind != RulesetKind::HttpRequest && redirect.kind != RedirectKind::Location {
                return Err(fault(place, "a response can only be redirected to a 'location'."));
            }
            Ok(RedirectClient(redirect).into_action())
        },
    )
    .default(Described("code 302")),
];

/// The facts of an action that ends its ruleset.
pub(super) const FINAL: ActionFacts<'static> = ActionFacts { is_final: true, ..ActionFacts::NONE };

/// `accept` (tcp) or `allow` (http): skips the rest of this ruleset.
#[derive(Debug, Canonical)]
struct Accept;

impl StreamAction for Accept {
    fn run<'s>(&'s self, _: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::Done(Verdict::Accept)
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

/// `close`: closes the server connection (`tcp-response content`).
#[derive(Debug, Canonical)]
struct Close;

impl StreamAction for Close {
    fn run<'s>(&'s self, _: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::stop(StreamError::close(By::Proxy, During::Data))
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

/// `reject`: closes the connection without a response.
#[derive(Debug, Canonical)]
struct Reject;

impl StreamAction for Reject {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        drop_request(stream, rule)
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

/// `switch-mode http`: the connection continues in HTTP, in this version if given. Ends this ruleset.
#[derive(Debug, Canonical)]
struct SwitchMode(Option<Protocol>);

impl SwitchMode {
    fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        if context.is_in_backend() && !context.is_in_frontend() {
            let name = context.section_name();
            let message = format!("not allowed because backend '{name}' has no frontend capability");
            return Err(fault(context.word.span(), message));
        }
        let mode = words.expect("expects a mode as argument.")?;
        if mode.text() != "http" {
            return Err(fault(mode.span(), format!("expects a valid mode (got '{mode}').")));
        }
        if !words.take_if("proto") {
            return Ok(SwitchMode(None));
        }
        let word = words.expect("'proto' expects a protocol as argument.")?;
        match word.text() {
            "h1" => Ok(SwitchMode(Some(Protocol::H1))),
            "h2" => Ok(SwitchMode(Some(Protocol::H2))),
            "none" | "fcgi" => {
                let message = format!("MUX protocol '{word}' is not compatible with the selected mode.");
                Err(fault(word.span(), message))
            }
            _ => {
                let message = format!("'proto' expects a valid MUX protocol, if specified (got '{word}')");
                Err(fault(word.span(), message))
            }
        }
    }
}

impl StreamAction for SwitchMode {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if !stream.speaks_http() {
            stream.session.upgrade(self.0);
        }
        ActionResult::Done(Verdict::Accept)
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { switches_to_http: true, ..FINAL }
    }
}

/// `silent-drop`: closes without notifying the peer.
#[derive(Debug, Canonical)]
struct SilentDrop {
    /// `rst-ttl`: sends a reset with this TTL, in hops.
    reset_ttl: Option<u8>,
}

impl StreamAction for SilentDrop {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        stream.reusable.client = false;
        stream.client.with_descriptor(|descriptor| silence(descriptor, self.reset_ttl));
        drop_request(stream, rule)
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

/// Prevents FIN and RST packets at the close of a connection (manual, "silent-drop").
fn silence(socket: &Descriptor, reset_ttl: Option<u8>) {
    // The peer would retransmit unacknowledged bytes (`option tcp-smart-accept`), and the kernel would respond with a reset visible to the
    // peer.
    let _ = option::set_quick_ack(socket, true);
    if reset_ttl.is_none() && option::set_repair(socket, true).is_ok() {
        return;
    }
    // Without the privilege for TCP repair mode, the reset gets a small TTL and expires on the way.
    let _ = option::set_ttl(socket, reset_ttl.unwrap_or(1));
    let _ = option::set_no_linger(socket);
}

/// Closes without a response. The log shows such a request without a request time.
pub(super) fn drop_request<'s>(stream: &mut Stream, rule: RuleContext<'_>) -> ActionResult<'s> {
    count_denied(stream, rule);
    if rule.kind == RulesetKind::HttpRequest {
        stream.timers.request = None;
    }
    ActionResult::stop(StreamError::close(By::Proxy, rule.during()))
}

/// Counts a refusal by the rule.
pub(super) fn count_denied(stream: &mut Stream, rule: RuleContext<'_>) {
    stream.rules.denied = true;
    if rule.kind == RulesetKind::HttpRequest {
        stream.tracking().count_tracked_error();
    }
    let listener = stream.session.listener();
    match rule.kind {
        RulesetKind::TcpRequestConnection => rule.proxy.count_denied_connection(listener),
        RulesetKind::TcpRequestSession => rule.proxy.count_denied_session(listener),
        RulesetKind::TcpRequestContent | RulesetKind::HttpRequest => {
            stream.counts().count(CountedEvent::DeniedRequest)
        }
        RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse => {
            stream.counts().count(CountedEvent::DeniedResponse);
        }
    }
}

/// `deny`.
#[derive(Debug, Canonical)]
pub(super) struct Deny(pub Reply);

impl StreamAction for Deny {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        count_denied(stream, rule);
        if rule.kind == RulesetKind::HttpRequest {
            crate::cookie::on_refused(stream);
        }
        stream.reply_phase().prepare_reply(&self.0, if rule.is_request() { 403 } else { 502 });
        ActionResult::stop(StreamError::Reply(Ending::new(By::Proxy, rule.during())))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

/// `tarpit`: like `deny`, after `timeout tarpit`.
#[derive(Debug, Canonical)]
struct Tarpit(Reply);

impl StreamAction for Tarpit {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        count_denied(stream, rule);
        crate::cookie::on_refused(stream);
        // A client may abort before the end of the wait, so the decision of the rule is recorded now.
        stream.rules.decided_by = Some(rule.key);
        stream.rules.stop_by_rule();
        ActionResult::Await(PooledFuture::new(hold(stream, &self.0)))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        FINAL
    }
}

#[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
fn hold(stream: &mut Stream, reply: &Reply) -> impl Future<Output = PhaseResult<Verdict>> {
    async move {
        stream.enter(During::Tarpit);
        let tarpit = While::tarpit(&stream.timeouts, weir_sched::now());
        let held = pause(stream, tarpit, During::Tarpit).await;
        // The log counts the delay as time in the queue (manual, section 8.4).
        let buffers = |proxy: &Proxy| proxy.config.settings.options.http_buffer_request;
        if !buffers(&stream.frontend) && !buffers(&stream.backend) {
            stream.timers.request = None;
        }
        stream.timers.queue = Some(stream.elapsed());
        held?;
        stream.reply_phase().prepare_reply(reply, 500);
        let ending = Ending::new(By::Proxy, During::Tarpit);
        Ok(Verdict::Stop(StreamError::Reply(ending)))
    }
}

/// `return`.
#[derive(Debug, Canonical)]
struct Return(Reply);

impl StreamAction for Return {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        rule.proxy.count_intercepted();
        stream.reply_phase().prepare_reply(&self.0, 200);
        ActionResult::stop(StreamError::Reply(Ending::new(By::Local, rule.during())))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { answers: true, ..FINAL }
    }
}

/// `use-service`: a built-in service responds.
#[derive(Debug, Canonical)]
struct UseService {
    name: &'static str,
    #[canonical(skip = "follows from the name")]
    start: ServiceStart,
}

/// Prepares the response of a service.
type ServiceStart = fn(&mut Stream, &Proxy) -> StreamError;

const SERVICES: &[(&str, ServiceStart)] =
    &[("prometheus-exporter", |stream, proxy| stream.reply_phase().serve_metrics(proxy))];

/// The names of the services that `use-service` accepts.
pub fn services() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|(name, _)| *name)
}

impl StreamAction for UseService {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::stop((self.start)(stream, rule.proxy))
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { answers: true, ..FINAL }
    }
}

/// `auth`: requests credentials.
#[derive(Debug, Canonical)]
struct Auth {
    /// The realm. `None` for the proxy's name.
    realm: Option<Box<str>>,
}

impl StreamAction for Auth {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let realm = self.realm.as_deref().unwrap_or(&rule.proxy.config.name);
        stream.tracking().count_tracked_error();
        stream.reply_phase().prepare_authentication(realm);
        ActionResult::stop(StreamError::Reply(Ending::new(By::Local, During::Request)))
    }

    fn facts(&self) -> ActionFacts<'_> {
        ActionFacts { answers: true, ..FINAL }
    }
}

/// `redirect`.
#[derive(Debug, Canonical)]
struct RedirectClient(Redirect);

impl StreamAction for RedirectClient {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        if !stream.reply_phase().prepare_redirect(&self.0) {
            return ActionResult::NEXT;
        }
        rule.proxy.count_intercepted();
        ActionResult::stop(StreamError::Reply(Ending::new(By::Local, rule.during())))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }

    fn facts(&self) -> ActionFacts<'_> {
        let is_final = !self.0.ignore_empty;
        ActionFacts { is_final, answers: true, redirects: true, ..ActionFacts::NONE }
    }
}
