//! Rules on received data: `tcp-request content`, `tcp-response content`, and waits for a body.

use std::time::Duration;

use weir_containers::PooledFuture;
use weir_expr::Truth;
use weir_http::{BodySize, KnownName, Version};
use weir_model::RulesetKind;
use weir_mux::{FlowState, Message};
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sched::Tick;

use super::{RulesetResult, key, needs_preparation, prepare_action};
use crate::actions::script::channel;
use crate::actions::{ActionResult, Verdict};
use crate::clock;
use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::errors::MessageDirection;
use crate::passwords;
use crate::stream::engines;
use crate::stream::phases::InspectionPhase;
use crate::stream::{PhaseResult, ProxySide, StreamError};

impl InspectionPhase {
    /// Runs the `tcp-request content` rules of one proxy. Each may wait for more data until the inspection delay is over.
    pub(crate) async fn content_rules(&mut self, side: ProxySide) -> PhaseResult {
        if engines::has_events(&self.stream, engines::before_content(side)) {
            PooledFuture::new(self.stream.engine_phase().raise(engines::before_content(side))).await?;
        }
        if !self.stream.proxy(side).has_rules(RulesetKind::TcpRequestContent) {
            return Ok(());
        }
        PooledFuture::new(self.inspect_request(side)).await
    }

    async fn inspect_request(&mut self, side: ProxySide) -> PhaseResult {
        let kind = RulesetKind::TcpRequestContent;
        let proxy = self.stream.proxy(side).clone();
        let deadline = match proxy.config.tcp_request_inspect_delay() {
            Some(delay) => clock::after(delay),
            None => Tick::from_ms(0),
        };
        channel::begin_inspection(&mut self.stream, deadline);
        self.receive_what_came();
        self.stream.rules.is_strict = true;
        // With more data the rules start again, as in the manual. Only actions that already waited are not repeated.
        let mut first = 0;
        'pass: loop {
            for (position, rule) in proxy.config.rules(kind).enumerate().skip(first) {
                self.stream.rules.inspection_over = self.request_is_final(deadline);
                let applies = match passwords::rule_applies(&mut self.stream, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(&mut self.stream, rule, at)).await?,
                };
                match applies {
                    Truth::False => {}
                    Truth::Maybe if self.stream.rules.inspection_over => {}
                    Truth::Maybe => {
                        self.await_more(deadline).await?;
                        continue 'pass;
                    }
                    Truth::True => {
                        let at = position as u32;
                        if needs_preparation(&proxy, kind, at) {
                            prepare_action(&mut self.stream, &proxy, &rule.action, kind, at).await?;
                        }
                        let verdict = match self.stream.act(&rule.action, key(side, kind, at), kind, &proxy) {
                            ActionResult::Done(verdict) => verdict,
                            ActionResult::Await(wait) => {
                                first = position + 1;
                                wait.await?
                            }
                        };
                        if matches!(verdict, Verdict::NeedsMore) && !self.stream.rules.inspection_over {
                            self.await_more(deadline).await?;
                            continue 'pass;
                        }
                        let verdict = self.stream.settle_action(verdict, key(side, kind, at), kind, &proxy);
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

    /// Receives bytes already in the socket, for rules that do not wait: data sent immediately must not bypass them.
    pub(crate) fn receive_what_came(&mut self) {
        if !self.stream.request.is_known() && self.stream.client.input().is_empty() {
            // EOF or an error of the client is handled where more data is needed.
            let _ = self.stream.client.receive(self.stream.frontend.instance().limits.head_limit());
        }
    }

    /// Whether a wait cannot yield more of the request: the delay is over, the client closed, the buffer is full, or (in HTTP) the head is
    /// complete.
    fn request_is_final(&self, deadline: Tick) -> bool {
        clock::passed(deadline)
            || self.stream.request.is_known()
            || self.stream.client.ended()
            || self.stream.client.fault().is_some()
            || self.stream.client.input().len() >= self.stream.frontend.instance().limits.head_limit()
    }

    async fn await_more(&mut self, deadline: Tick) -> PhaseResult {
        self.stream
            .drive(
                While::until(deadline),
                |stream, _| match stream.client.receive(stream.frontend.instance().limits.head_limit()) {
                    ReceiveOutcome::Bytes(_) | ReceiveOutcome::End | ReceiveOutcome::Full => {
                        Ok(DriveStep::Done(()))
                    }
                    ReceiveOutcome::Failed(_) => {
                        stream.counts().count_bad_request();
                        Err(StreamError::close(By::Client, During::Request))
                    }
                    ReceiveOutcome::Nothing => Ok(DriveStep::Wait(Waits::ONCE)),
                },
                |_, _, _| Ok(()),
            )
            .await
    }

    /// Waits until the whole body, `at_least` bytes of it, or a full buffer is available. `time` is the client's timeout.
    pub(crate) async fn wait_for_body(&mut self, at_least: u64, time: Option<Duration>) -> PhaseResult {
        match self.stream.request.body.is_complete() {
            true => Ok(()),
            false => PooledFuture::new(self.await_body(at_least, time)).await,
        }
    }

    async fn await_body(&mut self, at_least: u64, time: Option<Duration>) -> PhaseResult {
        self.stream.request.message.detach(&mut self.stream.client);
        self.send_continue()?;
        let during = While::body(&self.stream.timeouts, time, weir_sched::now());
        let limit = self.stream.frontend.instance().limits.body_limit(&self.stream.request.message.head);
        let began = self.stream.elapsed();
        let waited = self
            .stream
            .drive(
                during,
                |stream, _| stream.inspection().gather_body(at_least, limit),
                |stream, by, _| {
                    stream.counts().count_bad_request();
                    stream.timers.request = None;
                    Err(StreamError::error(408, by, During::Request))
                },
            )
            .await;
        self.bound_request_head();
        // Most bodies arrive with their head.
        if self.stream.elapsed().ms() > began.ms() {
            self.stream.captures.note_body_wait(began);
        }
        waited
    }

    /// Whether the request arrived as early data and the handshake is not complete, so that it may be a replay.
    pub(crate) fn is_early(&self) -> bool {
        self.stream.client.tls().is_some_and(|facts| facts.early)
    }

    /// Waits for the end of the client's handshake (`wait-for-handshake`).
    pub(crate) async fn wait_for_handshake(&mut self) -> PhaseResult {
        let time = self.stream.frontend.config.settings.timeouts.http_request;
        self.stream
            .drive(
                While::body(&self.stream.timeouts, time, weir_sched::now()),
                |stream, _| stream.inspection().take_handshake(),
                |stream, by, _| {
                    stream.counts().count_bad_request();
                    Err(StreamError::error(408, by, During::Request))
                },
            )
            .await
    }

    fn take_handshake(&mut self) -> PhaseResult<DriveStep<()>> {
        while self.is_early() {
            // The end of a handshake does not need buffer space, and early data never fill the buffer.
            match self.stream.client.receive(usize::MAX) {
                ReceiveOutcome::Bytes(_) => {}
                ReceiveOutcome::Nothing => return Ok(DriveStep::Wait(Waits::ONCE)),
                ReceiveOutcome::End | ReceiveOutcome::Full | ReceiveOutcome::Failed(_) => {
                    self.stream.counts().count_bad_request();
                    return Err(StreamError::error(400, By::Client, During::Request));
                }
            }
        }
        Ok(DriveStep::Done(()))
    }

    /// A head and the held part of its body share one buffer. Rules may not make the head exceed it (manual, "tune.maxrewrite").
    pub(crate) fn bound_request_head(&mut self) {
        let held = match self.stream.request.body.is_complete() {
            true => self.stream.request.body.ready(),
            false => {
                self.stream.client.input().len().saturating_sub(self.stream.request.message.unconsumed())
            }
        };
        let limits = &self.stream.frontend.instance().limits;
        let head = &mut self.stream.request.message.head;
        // The previous body may have been received with more than a buffer of further bytes.
        let held = held.min(limits.body_limit(head));
        head.limit_length(limits.buffer_size.saturating_sub(held));
    }

    /// Limits the response's head in the same way.
    pub(crate) fn bound_response_head(&mut self) {
        let held = self.stream.server.input().len().saturating_sub(self.stream.response.message.unconsumed());
        self.stream
            .response
            .message
            .head
            .limit_length(self.stream.frontend.instance().limits.buffer_size.saturating_sub(held));
    }

    /// Receives the request's body until enough is available.
    fn gather_body(&mut self, at_least: u64, limit: usize) -> PhaseResult<DriveStep<()>> {
        loop {
            let right = self.stream.request.body.inspect(&mut self.stream.client);
            self.stream.trace_mut().trace_coding(MessageDirection::Request, right);
            if !right {
                self.stream.counts().count_bad_request();
                self.stream.timers.request = None;
                return Err(StreamError::error(400, By::Proxy, During::Request));
            }
            let enough = at_least > 0 && self.stream.request.body.payload() >= at_least;
            if self.stream.request.body.is_complete() || enough {
                return Ok(DriveStep::Done(()));
            }
            match self.stream.client.receive(limit) {
                ReceiveOutcome::Bytes(_) => continue,
                ReceiveOutcome::Full => return Ok(DriveStep::Done(())),
                ReceiveOutcome::Failed(ConnectionFault::Shortage) => {
                    self.stream.counts().count_bad_request();
                    return Err(StreamError::error(400, By::Client, During::Request));
                }
                // The missing rest is detected where it is needed. Rules and the choice of the backend come first.
                ReceiveOutcome::End | ReceiveOutcome::Failed(_) => {
                    self.stream.request.body.inspect(&mut self.stream.client);
                    return Ok(DriveStep::Done(()));
                }
                ReceiveOutcome::Nothing => {}
            }
            if self.stream.client.has_pending() {
                // Flushes the rest of the `100 Continue`. If this fails, the receive fails too.
                let _ = self.stream.client.flush(false);
            }
            return Ok(DriveStep::Wait(Waits::ONCE));
        }
    }

    /// Waits until the whole body of the response, `at_least` bytes of it, or a full buffer is available. A tunnel does not carry a body
    /// (RFC 9110, 9.3.6), and its server may wait for the client to send first.
    pub(crate) async fn wait_for_response_body(&mut self, at_least: u64, time: Duration) -> PhaseResult {
        if self.stream.response.size == BodySize::Tunnel {
            return Ok(());
        }
        let waited = self.await_response_body(at_least, time).await;
        self.bound_response_head();
        waited
    }

    async fn await_response_body(&mut self, at_least: u64, time: Duration) -> PhaseResult {
        let limit = self.stream.frontend.instance().limits.body_limit(&self.stream.response.message.head);
        let Some(upstream) = &mut self.stream.server.upstream else { return Ok(()) };
        self.stream.response.message.detach(&mut upstream.connector);
        self.stream.response.begin_body(&upstream.connector, self.stream.response.size);
        self.stream
            .drive(
                While::response_body(time, weir_sched::now()),
                |stream, _| stream.inspection().gather_response_body(at_least, limit),
                |stream, by, _| {
                    stream.counts().count(CountedEvent::FailedResponse);
                    Err(StreamError::error(504, by, During::Data))
                },
            )
            .await
    }

    /// Receives the response's body until enough is available.
    fn gather_response_body(&mut self, at_least: u64, limit: usize) -> PhaseResult<DriveStep<()>> {
        loop {
            if !self.inspect_response_body() {
                self.stream.counts().count(CountedEvent::FailedResponse);
                return Err(StreamError::error(502, By::Proxy, During::Data));
            }
            let enough = at_least > 0 && self.stream.response.body.payload() >= at_least;
            if self.stream.response.body.is_complete() || enough {
                return Ok(DriveStep::Done(()));
            }
            let Some(upstream) = &mut self.stream.server.upstream else { return Ok(DriveStep::Done(())) };
            match upstream.connector.receive(limit) {
                ReceiveOutcome::Bytes(_) => continue,
                // A body delimited by the close is complete now. Any other EOF is detected when the body is forwarded.
                ReceiveOutcome::Full | ReceiveOutcome::End => {
                    self.inspect_response_body();
                    return Ok(DriveStep::Done(()));
                }
                ReceiveOutcome::Failed(_) => {
                    self.stream.counts().count(CountedEvent::FailedResponse);
                    return Err(StreamError::error(502, By::Server, During::Data));
                }
                ReceiveOutcome::Nothing => return Ok(DriveStep::Wait(Waits::ONCE)),
            }
        }
    }

    /// Validates the received part of the response's body. Returns false if the chunked coding is invalid.
    fn inspect_response_body(&mut self) -> bool {
        let Some(upstream) = &mut self.stream.server.upstream else { return true };
        let right = self.stream.response.body.inspect(&mut upstream.connector);
        self.stream.trace_mut().trace_coding(MessageDirection::Response, right);
        right
    }

    /// [`Stream::client_left`](crate::stream::Stream::client_left) before a server has the request, even after a complete body.
    pub(crate) fn has_client_left(&mut self) -> bool {
        let stream = &mut self.stream;
        if stream.client.peer_closed() && stream.request.is_known() && !stream.request.body.is_done() {
            // Counts the body's bytes, so that the end behind them is seen. A malformed body is detected when it is forwarded. The body
            // begins where the head ended, so the head must not stay in the input.
            stream.request.message.detach(&mut stream.client);
            stream.request.body.inspect(&mut stream.client);
        }
        stream.client_left()
    }

    /// Sends `100 Continue` to a client that waits for it while rules wait for its body.
    pub(crate) fn send_continue(&mut self) -> PhaseResult {
        if !std::mem::take(&mut self.stream.request.expects_continue) {
            return Ok(());
        }
        // Without `Expect`, the server does not send `100 Continue` again.
        self.stream.request.message.head.remove_known(KnownName::Expect);
        let mut interim = Message::default();
        let begun = interim.head.start_response(Version::HTTP_11, 100, b"Continue");
        match begun.map(|()| interim.send(&mut self.stream.client, &mut self.stream.scratch, false)) {
            Ok(SendOutcome::Failed(_)) => Err(StreamError::close(By::Client, During::Request)),
            _ => Ok(()),
        }
    }

    /// Runs the backend's `tcp-response content` rules. An action that decides ends the stream.
    pub(crate) async fn response_content_rules(&mut self) -> PhaseResult {
        if !self.stream.backend.has_rules(RulesetKind::TcpResponseContent) {
            return Ok(());
        }
        PooledFuture::new(self.inspect_response()).await
    }

    async fn inspect_response(&mut self) -> PhaseResult {
        let kind = RulesetKind::TcpResponseContent;
        let backend = self.stream.backend.proxy().clone();
        let deadline = match backend.config.tcp_response_inspect_delay() {
            Some(delay) => clock::after(delay),
            None => Tick::from_ms(0),
        };
        channel::begin_inspection(&mut self.stream, deadline);
        let mut first = 0;
        'pass: loop {
            for (position, rule) in backend.config.rules(kind).enumerate().skip(first) {
                self.stream.rules.inspection_over = clock::passed(deadline) || self.response_is_final();
                let applies = match passwords::rule_applies(&mut self.stream, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(&mut self.stream, rule, at)).await?,
                };
                match applies {
                    Truth::False => {}
                    Truth::Maybe if self.stream.rules.inspection_over => {}
                    Truth::Maybe => {
                        self.await_more_response(deadline).await?;
                        continue 'pass;
                    }
                    Truth::True => {
                        let (side, at) = (ProxySide::Backend, position as u32);
                        if needs_preparation(&backend, kind, at) {
                            prepare_action(&mut self.stream, &backend, &rule.action, kind, at).await?;
                        }
                        let verdict = match self.stream.act(&rule.action, key(side, kind, at), kind, &backend)
                        {
                            ActionResult::Done(verdict) => verdict,
                            ActionResult::Await(wait) => {
                                first = position + 1;
                                wait.await?
                            }
                        };
                        let verdict = self.stream.settle_action(verdict, key(side, kind, at), kind, &backend);
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
        self.stream.response.is_known()
            || self.stream.server.upstream.as_ref().is_none_or(|upstream| {
                let connector = &upstream.connector;
                connector.ended()
                    || connector.fault().is_some()
                    || connector.input().len() >= self.stream.frontend.instance().limits.head_limit()
            })
    }

    async fn await_more_response(&mut self, deadline: Tick) -> PhaseResult {
        self.stream
            .drive(
                While::until(deadline),
                |stream, _| stream.inspection().gather_response(),
                |_, _, _| Ok(()),
            )
            .await
    }

    /// Receives more of the response. Done when more has arrived.
    fn gather_response(&mut self) -> PhaseResult<DriveStep<()>> {
        let up = if self.stream.speaks_http() {
            FlowState::Done
        } else {
            self.stream.relay_phase().relay_upwards()?
        };
        if up == FlowState::Yield {
            return Ok(DriveStep::Wait(Waits { yields: true, ..Waits::ONCE }));
        }
        let limit = self.stream.frontend.instance().limits.head_limit();
        let Some(upstream) = &mut self.stream.server.upstream else { return Ok(DriveStep::Done(())) };
        match upstream.connector.receive(limit) {
            ReceiveOutcome::Bytes(_) | ReceiveOutcome::End | ReceiveOutcome::Full => Ok(DriveStep::Done(())),
            ReceiveOutcome::Failed(_) => Err(StreamError::close(By::Server, During::Data)),
            ReceiveOutcome::Nothing => {
                Ok(DriveStep::Wait(Waits { withheld: up == FlowState::Withheld, ..Waits::ONCE }))
            }
        }
    }
}
