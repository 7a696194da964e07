//! Rules on received data: `tcp-request content`, `tcp-response content`, and waiting for a body.

use std::time::Duration;

use weir_config::model::RulesetKind;
use weir_containers::PooledFuture;
use weir_expr::Truth;
use weir_http::{BodySize, KnownName, Version};
use weir_mux::{Flow, Message};
use weir_net::{Received, Sent};
use weir_sched::Tick;

use super::{ActionResult, RulesetResult, Settled};
use crate::clock;
use crate::counters::Event;
use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During};
use crate::errors::Direction;
use crate::passwords;
use crate::stream::rule_state::{RuleKey, RuleList};
use crate::stream::{Phase, ProxySide, Stream, StreamError};

impl Stream {
    /// `tcp-request content` rules of one proxy: each may wait for more data, until the inspection delay is over.
    pub(crate) async fn content_rules(&mut self, side: ProxySide) -> Phase {
        if !self.proxy(side).has_rules(RulesetKind::TcpRequestContent) {
            return Ok(());
        }
        PooledFuture::new(self.inspect_request(side)).await
    }

    async fn inspect_request(&mut self, side: ProxySide) -> Phase {
        let kind = RulesetKind::TcpRequestContent;
        let proxy = self.proxy(side).clone();
        let deadline = match proxy.config.tcp_request_inspect_delay() {
            Some(delay) => clock::after(delay),
            None => Tick::from_ms(0),
        };
        self.receive_what_came();
        self.rules.is_strict = true;
        // With more data the rules start over, as the manual says; only actions that already waited are not repeated.
        let mut first = 0;
        'pass: loop {
            for (position, rule) in proxy.config.rules(kind).enumerate().skip(first) {
                self.rules.inspection_over = self.request_is_final(deadline);
                let applies = match passwords::rule_applies(self, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(self, rule, at)).await?,
                };
                match applies {
                    Truth::False => {}
                    Truth::Maybe if self.rules.inspection_over => {}
                    Truth::Maybe => {
                        self.await_more(deadline).await?;
                        continue 'pass;
                    }
                    Truth::True => {
                        if proxy.asked_userlists.in_actions {
                            PooledFuture::new(passwords::verify_for_action(self, &rule.action)).await?;
                        }
                        let done = self.act(&rule.action, kind, &proxy);
                        if matches!(done, ActionResult::NeedsMore) && !self.rules.inspection_over {
                            self.await_more(deadline).await?;
                            continue 'pass;
                        }
                        first = if done.takes_time() { position + 1 } else { first };
                        let key = RuleKey { side, list: RuleList::Of(kind), position: position as u32 };
                        let verdict = match self.settle_action(done, key, kind, &proxy) {
                            Settled::Now(verdict) => verdict,
                            Settled::Later(wait) => wait.await?,
                        };
                        match verdict {
                            None => {}
                            Some(RulesetResult::Stop(stop)) => return Err(stop),
                            Some(_) => return Ok(()),
                        }
                    }
                }
            }
            return Ok(());
        }
    }

    /// Rules that do not wait evaluate what is available: data that a client sends at once must not pass them unseen.
    pub(crate) fn receive_what_came(&mut self) {
        if !self.request.is_known() && self.client.input().is_empty() {
            // The end or a fault of the client is handled where more data is needed.
            let _ = self.client.receive(self.frontend.instance().limits.head_limit());
        }
    }

    /// Whether waiting brings no more of the request: the delay is over, the client closed, the buffer is full, or (in
    /// HTTP) the head is complete.
    fn request_is_final(&self, deadline: Tick) -> bool {
        clock::passed(deadline)
            || self.request.is_known()
            || self.client.ended()
            || self.client.fault().is_some()
            || self.client.input().len() >= self.frontend.instance().limits.head_limit()
    }

    async fn await_more(&mut self, deadline: Tick) -> Phase {
        self.drive(
            While::until(deadline),
            |stream, _| match stream.client.receive(stream.frontend.instance().limits.head_limit()) {
                Received::Bytes(_) | Received::End | Received::Full => Ok(Step::Done(())),
                Received::Failed(_) => {
                    stream.count_bad_request();
                    Err(StreamError::close(By::Client, During::Request))
                }
                Received::Nothing => Ok(Step::Wait(Waits::ONCE)),
            },
            |_, _, _| Ok(()),
        )
        .await
    }

    /// Waits until the whole body (or `at_least` bytes of it, or as much as the buffer holds) is available; the client
    /// has `time` for it.
    pub(crate) async fn wait_for_body(&mut self, at_least: u64, time: Option<Duration>) -> Phase {
        match self.request.body.is_complete() {
            true => Ok(()),
            false => PooledFuture::new(self.await_body(at_least, time)).await,
        }
    }

    async fn await_body(&mut self, at_least: u64, time: Option<Duration>) -> Phase {
        self.request.message.detach(&mut self.client);
        self.tell_to_continue()?;
        let during = While::body(&self.timeouts, time, weir_sched::now());
        let limit = self.frontend.instance().limits.body_limit(&self.request.message.head);
        let waited = self
            .drive(
                during,
                |stream, _| stream.gather_body(at_least, limit),
                |stream, by, _| {
                    stream.count_bad_request();
                    stream.timers.request = None;
                    Err(StreamError::error(408, by, During::Request))
                },
            )
            .await;
        self.bound_request_head();
        waited
    }

    /// Whether the request came in early data and the handshake is not complete, so that it may be a replay.
    pub(crate) fn is_early(&self) -> bool {
        self.client.tls().is_some_and(|facts| facts.early)
    }

    /// Waits for the end of the client's handshake (`wait-for-handshake`).
    pub(crate) async fn wait_for_handshake(&mut self) -> Phase {
        let time = self.frontend.config.settings.timeouts.http_request;
        self.drive(
            While::body(&self.timeouts, time, weir_sched::now()),
            |stream, _| stream.take_handshake(),
            |stream, by, _| {
                stream.count_bad_request();
                Err(StreamError::error(408, by, During::Request))
            },
        )
        .await
    }

    fn take_handshake(&mut self) -> Phase<Step<()>> {
        while self.is_early() {
            // The end of a handshake needs no buffer space, and early data never fill the buffer.
            match self.client.receive(usize::MAX) {
                Received::Bytes(_) => {}
                Received::Nothing => return Ok(Step::Wait(Waits::ONCE)),
                Received::End | Received::Full | Received::Failed(_) => {
                    self.count_bad_request();
                    return Err(StreamError::error(400, By::Client, During::Request));
                }
            }
        }
        Ok(Step::Done(()))
    }

    /// A head and the held part of its body share one buffer: rules may not make the head exceed it (manual,
    /// "tune.maxrewrite").
    pub(crate) fn bound_request_head(&mut self) {
        let held = match self.request.body.is_complete() {
            true => self.request.body.ready(),
            false => self.client.input().len().saturating_sub(self.request.message.unconsumed()),
        };
        let limits = &self.frontend.instance().limits;
        let head = &mut self.request.message.head;
        // The body before this one may have brought more than a buffer with it.
        let held = held.min(limits.body_limit(head));
        head.limit_length(limits.buffer_size.saturating_sub(held));
    }

    /// The same for the response.
    pub(crate) fn bound_response_head(&mut self) {
        let held = self.server.input().len().saturating_sub(self.response.message.unconsumed());
        self.response
            .message
            .head
            .limit_length(self.frontend.instance().limits.buffer_size.saturating_sub(held));
    }

    /// Receives the request's body; done when enough is available.
    fn gather_body(&mut self, at_least: u64, limit: usize) -> Phase<Step<()>> {
        loop {
            let right = self.request.body.inspect(&mut self.client);
            self.trace_coding(Direction::Request, right);
            if !right {
                self.count_bad_request();
                self.timers.request = None;
                return Err(StreamError::error(400, By::Proxy, During::Request));
            }
            let enough = at_least > 0 && self.request.body.payload() >= at_least;
            if self.request.body.is_complete() || enough {
                return Ok(Step::Done(()));
            }
            match self.client.receive(limit) {
                Received::Bytes(_) => continue,
                Received::Full => return Ok(Step::Done(())),
                // The missing rest is noticed where it is needed: rules and the choice of the backend come before.
                Received::End => {
                    self.request.body.inspect(&mut self.client);
                    return Ok(Step::Done(()));
                }
                Received::Failed(_) => {
                    self.count_bad_request();
                    return Err(StreamError::error(400, By::Client, During::Request));
                }
                Received::Nothing => {}
            }
            if self.client.has_pending() {
                // The rest of the `100 Continue` for which the client waits. If that fails, receiving will too.
                let _ = self.client.flush(false);
            }
            return Ok(Step::Wait(Waits::ONCE));
        }
    }

    /// Waits until the whole body of the response (or `at_least` bytes of it, or as much as the buffer holds) is available. What
    /// passes a tunnel is no body (RFC 9110, 9.3.6), and its server may say nothing before the client does.
    pub(super) async fn wait_for_response_body(&mut self, at_least: u64, time: Duration) -> Phase {
        if self.response.size == BodySize::Tunnel {
            return Ok(());
        }
        let waited = self.await_response_body(at_least, time).await;
        self.bound_response_head();
        waited
    }

    async fn await_response_body(&mut self, at_least: u64, time: Duration) -> Phase {
        let limit = self.frontend.instance().limits.body_limit(&self.response.message.head);
        let Some(upstream) = &mut self.server.upstream else { return Ok(()) };
        self.response.message.detach(&mut upstream.connector);
        self.response.begin_body(&upstream.connector, self.response.size);
        self.drive(
            While::response_body(time, weir_sched::now()),
            |stream, _| stream.gather_response_body(at_least, limit),
            |stream, by, _| {
                stream.count(Event::FailedResponse);
                Err(StreamError::error(504, by, During::Data))
            },
        )
        .await
    }

    /// Receives the response's body; done when enough is available.
    fn gather_response_body(&mut self, at_least: u64, limit: usize) -> Phase<Step<()>> {
        loop {
            if !self.inspect_response_body() {
                self.count(Event::FailedResponse);
                return Err(StreamError::error(502, By::Proxy, During::Data));
            }
            let enough = at_least > 0 && self.response.body.payload() >= at_least;
            if self.response.body.is_complete() || enough {
                return Ok(Step::Done(()));
            }
            let Some(upstream) = &mut self.server.upstream else { return Ok(Step::Done(())) };
            match upstream.connector.receive(limit) {
                Received::Bytes(_) => continue,
                // A body that ends with the connection is complete now; any other end is noticed when it is forwarded.
                Received::Full | Received::End => {
                    self.inspect_response_body();
                    return Ok(Step::Done(()));
                }
                Received::Failed(_) => {
                    self.count(Event::FailedResponse);
                    return Err(StreamError::error(502, By::Server, During::Data));
                }
                Received::Nothing => return Ok(Step::Wait(Waits::ONCE)),
            }
        }
    }

    /// Validates the received part of the response's body; false if the chunked coding is invalid.
    fn inspect_response_body(&mut self) -> bool {
        let Some(upstream) = &mut self.server.upstream else { return true };
        let right = self.response.body.inspect(&mut upstream.connector);
        self.trace_coding(Direction::Response, right);
        right
    }

    /// Sends `100 Continue` to a client that waits for it while this process waits for its body.
    fn tell_to_continue(&mut self) -> Phase {
        if !std::mem::take(&mut self.request.expects_continue) {
            return Ok(());
        }
        // The server need not send it again.
        self.request.message.head.remove_known(KnownName::Expect);
        let mut interim = Message::default();
        let begun = interim.head.start_response(Version::HTTP_11, 100, b"Continue");
        match begun.map(|()| interim.send(&mut self.client, &mut self.scratch, false)) {
            Ok(Sent::Failed(_)) => Err(StreamError::close(By::Client, During::Request)),
            _ => Ok(()),
        }
    }

    /// `tcp-response content` rules of the backend: an action that decides ends the stream.
    pub(crate) async fn response_content_rules(&mut self) -> Phase {
        if !self.backend.has_rules(RulesetKind::TcpResponseContent) {
            return Ok(());
        }
        PooledFuture::new(self.inspect_response()).await
    }

    async fn inspect_response(&mut self) -> Phase {
        let kind = RulesetKind::TcpResponseContent;
        let backend = self.backend.proxy().clone();
        let deadline = match backend.config.tcp_response_inspect_delay() {
            Some(delay) => clock::after(delay),
            None => Tick::from_ms(0),
        };
        let mut first = 0;
        'pass: loop {
            for (position, rule) in backend.config.rules(kind).enumerate().skip(first) {
                self.rules.inspection_over = clock::passed(deadline) || self.response_is_final();
                let applies = match passwords::rule_applies(self, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(self, rule, at)).await?,
                };
                match applies {
                    Truth::False => {}
                    Truth::Maybe if self.rules.inspection_over => {}
                    Truth::Maybe => {
                        self.await_more_response(deadline).await?;
                        continue 'pass;
                    }
                    Truth::True => {
                        if backend.asked_userlists.in_actions {
                            PooledFuture::new(passwords::verify_for_action(self, &rule.action)).await?;
                        }
                        let done = self.act(&rule.action, kind, &backend);
                        first = if done.takes_time() { position + 1 } else { first };
                        let side = ProxySide::Backend;
                        let key = RuleKey { side, list: RuleList::Of(kind), position: position as u32 };
                        let verdict = match self.settle_action(done, key, kind, &backend) {
                            Settled::Now(verdict) => verdict,
                            Settled::Later(wait) => wait.await?,
                        };
                        match verdict {
                            None => {}
                            Some(RulesetResult::Stop(stop)) => return Err(stop),
                            Some(_) => return Ok(()),
                        }
                    }
                }
            }
            return Ok(());
        }
    }

    fn response_is_final(&self) -> bool {
        self.response.is_known()
            || self.server.upstream.as_ref().is_none_or(|upstream| {
                let connector = &upstream.connector;
                connector.ended()
                    || connector.fault().is_some()
                    || connector.input().len() >= self.frontend.instance().limits.head_limit()
            })
    }

    async fn await_more_response(&mut self, deadline: Tick) -> Phase {
        self.drive(While::until(deadline), |stream, _| stream.gather_response(), |_, _, _| Ok(())).await
    }

    /// Receives the response; done when more has arrived.
    fn gather_response(&mut self) -> Phase<Step<()>> {
        let up = if self.speaks_http() { Flow::Done } else { self.relay_upwards()? };
        if up == Flow::Yield {
            return Ok(Step::Wait(Waits { yields: true, ..Waits::ONCE }));
        }
        let limit = self.frontend.instance().limits.head_limit();
        let Some(upstream) = &mut self.server.upstream else { return Ok(Step::Done(())) };
        match upstream.connector.receive(limit) {
            Received::Bytes(_) | Received::End | Received::Full => Ok(Step::Done(())),
            Received::Failed(_) => Err(StreamError::close(By::Server, During::Data)),
            Received::Nothing => Ok(Step::Wait(Waits { withheld: up == Flow::Withheld, ..Waits::ONCE })),
        }
    }
}
