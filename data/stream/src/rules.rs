//! Running rulesets: rules in order, each with its condition, until one decides.

mod content;
mod header;
mod names;
mod uri;

use std::borrow::Cow;
use std::time::Duration;

use weir_config::model::RulesetKind;
use weir_config::model::{
    Action, ConnectionSide, DelayOrExpression, Endpoint, Number, PatternEditKind, Reply, Service,
    SizeOrExpression,
};
use weir_containers::PooledFuture;
use weir_expr::pattern::{Selector, SetError};
use weir_expr::{Context as _, Fetched, Value, VariableId};
use weir_http::Method;
use weir_sched::Descriptor;
use weir_sys::option;

use crate::counters::Event;
use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During, Ending};
use crate::instance::Proxy;
use crate::instance::names::Asking;
use crate::passwords;
use crate::stream::attempts::Replay;
use crate::stream::rule_state::{RuleKey, RuleList};
use crate::stream::{Phase, ProxySide, Stream, StreamError};
use crate::tracking::Tracking;

/// The result of a ruleset.
#[derive(Debug)]
pub enum RulesetResult {
    /// No rule decided.
    Continue,
    /// `accept` or `allow`: the rest of the rules is skipped.
    Accept,
    /// The stream stops.
    Stop(StreamError),
}

/// The result of one action.
enum ActionResult<'r> {
    Next,
    Accept,
    Stop(StreamError),
    /// The action failed: with `strict-mode on` the stream ends.
    Failed,
    /// It waits for more of the message, where rules can wait for that; elsewhere it does nothing.
    NeedsMore,
    /// The action must wait before the next rule.
    Await(Awaited<'r>),
}

/// The result of an action for its ruleset: none if the next rule follows.
enum Settled<'s> {
    Now(Option<RulesetResult>),
    /// After a wait.
    Later(PooledFuture<'s, Phase<Option<RulesetResult>>>),
}

/// What an action waits for, in any ruleset.
enum Awaited<'r> {
    /// A duration.
    Time(Duration),
    /// The message's body, or this many bytes of it, for at most this long.
    Body(Duration, u64),
    /// The rest of the client's handshake.
    Handshake,
    /// A duration, then the stream ends with this reply.
    Tarpit(&'r Reply),
    /// An address from name servers, for this variable.
    Address(Box<dyn Asking>, VariableId),
}

impl ActionResult<'_> {
    /// Whether the stream waits before the next rule.
    fn takes_time(&self) -> bool {
        matches!(self, ActionResult::Await(_))
    }
}

impl Stream {
    /// Runs the rules of one kind of one proxy.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub(crate) fn run_rules(
        &mut self,
        side: ProxySide,
        kind: RulesetKind,
    ) -> impl Future<Output = Phase<RulesetResult>> {
        async move {
            if !self.proxy(side).has_rules(kind) {
                return Ok(RulesetResult::Continue);
            }
            let proxy = self.proxy(side).clone();
            self.rules.is_strict = true;
            for (position, rule) in (0..).zip(proxy.config.rules(kind)) {
                let applies = match passwords::rule_applies(self, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(self, rule, at)).await?,
                };
                if !applies.is_true() {
                    continue;
                }
                if proxy.asked_userlists.in_actions {
                    PooledFuture::new(passwords::verify_for_action(self, &rule.action)).await?;
                }
                if self.response.early_hints.is_some() && !matches!(rule.action, Action::EarlyHint { .. }) {
                    self.send_early_hints();
                }
                let done = self.act(&rule.action, kind, &proxy);
                let key = RuleKey { side, list: RuleList::Of(kind), position };
                let verdict = match self.settle_action(done, key, kind, &proxy) {
                    Settled::Now(verdict) => verdict,
                    Settled::Later(wait) => wait.await?,
                };
                if let Some(verdict) = verdict {
                    return Ok(verdict);
                }
            }
            self.send_early_hints();
            Ok(RulesetResult::Continue)
        }
    }

    /// What an action's result means for the ruleset. Not an async function: callers would have room for its arguments and the
    /// action's result in their futures, for as long as a stream lasts.
    fn settle_action<'s>(
        &'s mut self,
        done: ActionResult<'s>,
        rule: RuleKey,
        kind: RulesetKind,
        proxy: &Proxy,
    ) -> Settled<'s> {
        Settled::Now(match done {
            ActionResult::Next | ActionResult::NeedsMore => None,
            ActionResult::Accept => {
                self.rules.decided_by = Some(rule);
                Some(RulesetResult::Accept)
            }
            ActionResult::Stop(stop) => {
                self.rules.decided_by = Some(rule);
                self.rules.stop_by_rule();
                Some(RulesetResult::Stop(stop))
            }
            ActionResult::Failed if !self.rules.is_strict => {
                proxy.count_failed_rewrite();
                None
            }
            ActionResult::Failed => Some(RulesetResult::Stop(failed_rule(self, kind, proxy))),
            ActionResult::Await(awaited) => {
                return Settled::Later(self.await_for_rule(awaited, rule, kind));
            }
        })
    }

    /// Each wait has a block of its own size: a stream in a tarpit has no room for what a wait for a body needs.
    fn await_for_rule<'s>(
        &'s mut self,
        awaited: Awaited<'s>,
        rule: RuleKey,
        kind: RulesetKind,
    ) -> PooledFuture<'s, Phase<Option<RulesetResult>>> {
        match awaited {
            Awaited::Time(time) => PooledFuture::new(async move {
                let pause = While::pause(time, weir_sched::now());
                self.pause(pause, During::Request).await.map(|()| None)
            }),
            Awaited::Body(time, at_least) if kind == RulesetKind::HttpResponse => {
                PooledFuture::new(async move {
                    self.inspection().wait_for_response_body(at_least, time).await.map(|()| None)
                })
            }
            Awaited::Body(time, at_least) => PooledFuture::new(async move {
                self.inspection().wait_for_body(at_least, Some(time)).await.map(|()| None)
            }),
            Awaited::Handshake => {
                PooledFuture::new(async move { self.inspection().wait_for_handshake().await.map(|()| None) })
            }
            Awaited::Address(asking, variable) => PooledFuture::new(async move {
                if let Some(address) = self.await_address(asking).await? {
                    self.set_address_variable(variable, address);
                }
                Ok(None)
            }),
            Awaited::Tarpit(reply) => {
                self.rules.decided_by = Some(rule);
                self.rules.stop_by_rule();
                PooledFuture::new(self.tarpit(reply))
            }
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    fn tarpit(&mut self, reply: &Reply) -> impl Future<Output = Phase<Option<RulesetResult>>> {
        async move {
            self.enter(During::Tarpit);
            let tarpit = While::tarpit(&self.timeouts, weir_sched::now());
            let held = self.pause(tarpit, During::Tarpit).await;
            // The log counts the delay as time in the queue (manual, section 8.4).
            let buffers = |proxy: &Proxy| proxy.config.settings.options.http_buffer_request;
            if !buffers(&self.frontend) && !buffers(&self.backend) {
                self.timers.request = None;
            }
            self.timers.queue = Some(self.elapsed());
            held?;
            self.reply_phase().prepare_reply(reply, 500);
            let ending = Ending::new(By::Proxy, During::Tarpit);
            Ok(Some(RulesetResult::Stop(StreamError::Reply(ending))))
        }
    }

    fn pause(&mut self, pause: While, during: During) -> impl Future<Output = Phase> {
        self.hold_little();
        self.drive(
            pause,
            move |stream, _| {
                let tarpit = during == During::Tarpit;
                if stream.client.is_broken() || (tarpit && stream.client.peer_closed()) {
                    stream.rules.denied = tarpit;
                    return Err(StreamError::close(By::Client, during));
                }
                Ok(Step::Wait(Waits::ONCE))
            },
            |_, _, _| Ok(()),
        )
    }

    /// Counts a refusal by the current kind of rules.
    fn count_denied(&mut self, kind: RulesetKind, proxy: &Proxy) {
        self.rules.denied = true;
        if kind == RulesetKind::HttpRequest {
            self.tracking().count_tracked_error();
        }
        match kind {
            RulesetKind::TcpRequestConnection => proxy.count_denied_connection(self.session.listener()),
            RulesetKind::TcpRequestSession => proxy.count_denied_session(self.session.listener()),
            RulesetKind::TcpRequestContent | RulesetKind::HttpRequest => {
                self.counts().count(Event::DeniedRequest)
            }
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse => {
                self.counts().count(Event::DeniedResponse);
            }
        }
    }

    fn act<'r>(&mut self, action: &'r Action, kind: RulesetKind, proxy: &Proxy) -> ActionResult<'r> {
        let request = !matches!(
            kind,
            RulesetKind::TcpResponseContent | RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse
        );
        let during = if request { During::Request } else { During::Headers };
        match action {
            Action::Accept => return ActionResult::Accept,
            Action::SwitchMode(protocol) => {
                if !self.speaks_http() {
                    self.session.upgrade(*protocol);
                }
                return ActionResult::Accept;
            }
            Action::Close => return ActionResult::Stop(StreamError::close(By::Proxy, During::Data)),
            Action::Reject => {
                self.count_denied(kind, proxy);
                forget_request(self, kind);
                return ActionResult::Stop(StreamError::close(By::Proxy, during));
            }
            Action::SilentDrop { reset_ttl } => {
                self.silent_drop(*reset_ttl);
                self.count_denied(kind, proxy);
                forget_request(self, kind);
                return ActionResult::Stop(StreamError::close(By::Proxy, during));
            }
            Action::Deny(reply) => {
                self.count_denied(kind, proxy);
                if kind == RulesetKind::HttpRequest {
                    crate::cookie::on_refused(self);
                }
                self.reply_phase().prepare_reply(reply, if request { 403 } else { 502 });
                return ActionResult::Stop(StreamError::Reply(Ending::new(By::Proxy, during)));
            }
            Action::Tarpit(reply) => {
                self.count_denied(kind, proxy);
                crate::cookie::on_refused(self);
                return ActionResult::Await(Awaited::Tarpit(reply));
            }
            Action::Return(reply) => {
                proxy.count_intercepted();
                self.reply_phase().prepare_reply(reply, 200);
                return ActionResult::Stop(StreamError::Reply(Ending::new(By::Local, during)));
            }
            Action::UseService(Service::PrometheusExporter) => {
                return ActionResult::Stop(self.reply_phase().serve_metrics(proxy));
            }
            Action::Redirect(redirect) => {
                if !self.reply_phase().prepare_redirect(redirect) {
                    return ActionResult::Next;
                }
                proxy.count_intercepted();
                return ActionResult::Stop(StreamError::Reply(Ending::new(By::Local, during)));
            }
            Action::Auth { realm } => {
                let realm = realm.as_deref().unwrap_or(&proxy.config.name);
                self.tracking().count_tracked_error();
                self.reply_phase().prepare_authentication(realm);
                return ActionResult::Stop(StreamError::Reply(Ending::new(By::Local, During::Request)));
            }
            Action::Header(edit) => return self.edit_header(edit, request),
            Action::EarlyHint { name, value } => return self.early_hint(name, value),
            Action::SetMethod(value) => {
                let method = self.format(value);
                // Whether a tunnel follows is decided by the client's request.
                let connects =
                    [self.request.message.head.method() == Method::Connect, method[..] == *b"CONNECT"];
                if !weir_http::is_token(&method) || connects[0] != connects[1] {
                    return ActionResult::Failed;
                }
                return done(self.request.message.head.set_method(&method).is_ok());
            }
            Action::SetUri { part, value } => return self.set_uri_part(*part, value),
            Action::ReplaceUri(replacement) => return self.replace_uri(replacement),
            Action::NormalizeUri(normalizer) => return self.normalize_uri(*normalizer),
            Action::SetStatus { status, reason } => {
                let reason = reason.as_deref().unwrap_or_else(|| weir_http::status::reason(*status));
                let head = &mut self.response.message.head;
                let set = head.set_status(*status).and_then(|()| head.set_reason(reason.as_bytes()));
                self.response.status = self.response.message.head.status();
                return done(set.is_ok());
            }
            Action::SetEndpoint { endpoint, value } => return self.set_endpoint(kind, *endpoint, value),
            Action::SetVariable { name, condition, value } => {
                let fetched = value.evaluate(self).into_owned();
                match fetched {
                    Fetched::Sample(sample) => {
                        return done_leniently(self.set_variable(*name, sample.value, *condition));
                    }
                    // Without a value nothing is set (manual, "set-var").
                    Fetched::Missing | Fetched::Later => {}
                }
            }
            Action::SetVariableFormat { name, condition, value } => {
                let text = self.format(value);
                return done_leniently(self.set_variable(
                    *name,
                    Value::Str(Cow::Borrowed(&text)),
                    *condition,
                ));
            }
            Action::DoResolve(asks) => return self.ask_for_address(asks),
            Action::UnsetVariable(name) => {
                self.unset_variable(*name);
            }
            Action::Pattern(edit) => {
                let key = self.format(&edit.key);
                let chosen = Selector::Pattern(&key);
                let changed = match &edit.edit {
                    // An existing entry is not added again (manual, "add-acl").
                    PatternEditKind::AddAcl if edit.set.contains(&key) => Ok(()),
                    PatternEditKind::AddAcl => edit.set.add(None, &key, None),
                    PatternEditKind::DeleteAcl | PatternEditKind::DeleteMap => {
                        match edit.set.delete(chosen) {
                            Err(SetError::NotFound) => Ok(()),
                            other => other.map(drop),
                        }
                    }
                    PatternEditKind::SetMap { value } => {
                        let value = self.format(value);
                        match edit.set.set(chosen, &value) {
                            Err(SetError::NotFound) => edit.set.add(None, &key, Some(&value)),
                            other => other.map(drop),
                        }
                    }
                };
                return done(changed.is_ok());
            }
            Action::Capture(capture) => {
                if let Some(value) = self.evaluate_string(&capture.value) {
                    let side = if request {
                        weir_expr::context::CaptureSide::Request
                    } else {
                        weir_expr::context::CaptureSide::Response
                    };
                    self.log_line().store_capture(side, capture.slot as usize, &value);
                }
            }
            Action::SetLogLevel(level) => self.log.level = Some(level.map(crate::log::level)),
            Action::SetNice(nice) => weir_sched::set_nice(*nice),
            Action::SetTos { side, value } => {
                if let Some(value) = self.number(value) {
                    self.set_packet_tos(*side, value as u8);
                }
            }
            Action::SetMark { side, value } => {
                if let Some(value) = self.number(value) {
                    self.set_packet_mark(*side, value as u32);
                }
            }
            Action::SetTimeout { timeout, value } => {
                if let Some(delay) = self.delay(value) {
                    self.timeouts.set_by_rule(*timeout, delay);
                }
            }
            Action::SetRetries(value) => {
                if let Some(value) = self.number(value) {
                    self.attempts.allow_by_rule(u32::try_from(value.clamp(0, 100)).unwrap_or_default());
                }
            }
            Action::SetPriorityClass(value) => {
                if let Some(class) = self.evaluate_number(value) {
                    self.choice.priority =
                        weir_backend::Priority::new(class, i64::from(self.choice.priority.offset_ms()));
                }
            }
            Action::SetPriorityOffset(value) => {
                if let Some(offset) = self.evaluate_number(value) {
                    self.choice.priority =
                        weir_backend::Priority::new(i64::from(self.choice.priority.class()), offset);
                }
            }
            Action::SetBandwidthLimit(set) => {
                let limit = set.limit.as_ref().and_then(|limit| self.size(limit));
                let period = set.period.as_ref().and_then(|period| self.delay(period));
                let period_ms = period.map(|period| u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
                self.limit_bandwidth(proxy, &set.filter, limit, period_ms);
            }
            Action::DisableL7Retry => self.attempts.replay = Replay::Forbidden,
            Action::WaitForBody { time, at_least } => {
                return ActionResult::Await(Awaited::Body(*time, *at_least));
            }
            Action::WaitForHandshake if self.as_inspection().is_early() => {
                return ActionResult::Await(Awaited::Handshake);
            }
            Action::WaitForHandshake => {}
            Action::Pause(value) => {
                if let Some(delay) = self.delay(value) {
                    return ActionResult::Await(Awaited::Time(delay));
                }
            }
            Action::StrictMode(on) => self.rules.is_strict = *on,
            Action::DoLog => self.log_line().log_now(),
            Action::Track(track) => {
                if self.tracking_mut().track(kind, proxy, track) == Tracking::Later {
                    return ActionResult::NeedsMore;
                }
            }
            Action::ChangeCounter(change) => self.tracking_mut().change_counter(change),
            // Evaluated before the other rules of its kind: see `accept.rs`.
            Action::ExpectProxy => {}
        }
        ActionResult::Next
    }

    pub(crate) fn number(&mut self, number: &Number) -> Option<i64> {
        match number {
            Number::Fixed(number) => Some(i64::from(*number)),
            Number::Expression(expression) => self.evaluate_number(expression),
        }
    }

    fn size(&mut self, size: &SizeOrExpression) -> Option<u64> {
        match size {
            SizeOrExpression::Fixed(size) => Some(*size),
            SizeOrExpression::Expression(expression) => {
                self.evaluate_number(expression).and_then(|size| u64::try_from(size).ok())
            }
        }
    }

    fn delay(&mut self, delay: &DelayOrExpression) -> Option<Duration> {
        match delay {
            DelayOrExpression::Fixed(delay) => Some(*delay),
            DelayOrExpression::Expression(expression) => self
                .evaluate_number(expression)
                .and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis),
        }
    }

    /// Replaces an address or a port at the level of the rule: for the connection, for the session, or for this stream.
    fn set_endpoint(
        &mut self,
        kind: RulesetKind,
        endpoint: Endpoint,
        value: &weir_expr::Expr,
    ) -> ActionResult<'static> {
        use std::net::{IpAddr, Ipv4Addr, SocketAddr};
        let is_port = matches!(endpoint, Endpoint::SourcePort | Endpoint::DestinationPort);
        let wanted = if is_port { weir_expr::SampleType::Int } else { weir_expr::SampleType::Addr };
        // Without a value nothing changes.
        let Some(sample) = value.evaluate_as(self, wanted).into_owned().sample() else {
            return ActionResult::Next;
        };
        let is_source = matches!(endpoint, Endpoint::Source | Endpoint::SourcePort);
        let old = if is_source { self.source().inet() } else { self.destination().inet() };
        let new = match sample.value {
            Value::Ipv4(ip) => SocketAddr::new(IpAddr::V4(ip), old.map_or(0, |old| old.port())),
            Value::Ipv6(ip) => SocketAddr::new(IpAddr::V6(ip), old.map_or(0, |old| old.port())),
            Value::Int(port) => {
                let mut new = old.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
                new.set_port(u16::try_from(port).unwrap_or_default());
                new
            }
            _ => return ActionResult::Next,
        };
        match kind {
            RulesetKind::TcpRequestConnection => self.session.set_connection_address(is_source, new.into()),
            RulesetKind::TcpRequestSession => self.session.set_address(is_source, new.into()),
            _ => self.entry.set_address(&self.session, is_source, new.into()),
        }
        ActionResult::Next
    }

    fn set_packet_tos(&mut self, side: ConnectionSide, tos: u8) {
        match side {
            ConnectionSide::Frontend => {
                let family = self.source().family();
                self.client.with_descriptor(|descriptor| option::set_tos(descriptor, family, tos));
            }
            ConnectionSide::Backend => self.server.marks_mut().tos = Some(tos),
        }
    }

    fn set_packet_mark(&mut self, side: ConnectionSide, mark: u32) {
        match side {
            ConnectionSide::Frontend => {
                self.client.with_descriptor(|descriptor| option::set_mark(descriptor, mark));
            }
            ConnectionSide::Backend => self.server.marks_mut().mark = Some(mark),
        }
    }

    /// Makes closing the client's connection silent: its peer gets no packet.
    fn silent_drop(&mut self, reset_ttl: Option<u8>) {
        self.reusable.client = false;
        self.client.with_descriptor(|descriptor| silence(descriptor, reset_ttl));
    }
}

/// A request that is dropped without an answer has no request time in the log.
fn forget_request(stream: &mut Stream, kind: RulesetKind) {
    if kind == RulesetKind::HttpRequest {
        stream.timers.request = None;
    }
}

/// The result of a failed rule in strict mode.
fn failed_rule(stream: &mut Stream, kind: RulesetKind, proxy: &Proxy) -> StreamError {
    proxy.count_failed_rewrite();
    stream.rules.stop_by_rule();
    let during = if kind == RulesetKind::HttpRequest { During::Request } else { During::Headers };
    StreamError::error(500, By::Internal, during)
}

/// Prevents the packets of closing a connection (manual, "silent-drop").
fn silence(socket: &Descriptor, reset_ttl: Option<u8>) {
    // Unacknowledged bytes (`option tcp-smart-accept`) would be sent again by the peer, and the kernel would answer them
    // with a reset that the peer sees.
    let _ = option::set_quick_ack(socket, true);
    if reset_ttl.is_none() && option::set_repair(socket, true).is_ok() {
        return;
    }
    // Without the privilege for the above: the reset expires on its way.
    let _ = option::set_ttl(socket, reset_ttl.unwrap_or(1));
    let _ = option::set_no_linger(socket);
}

fn done(success: bool) -> ActionResult<'static> {
    if success { ActionResult::Next } else { ActionResult::Failed }
}

/// A variable without room is not set; that never ends a stream (manual, "tune.vars.global-max-size").
fn done_leniently(_: bool) -> ActionResult<'static> {
    ActionResult::Next
}
