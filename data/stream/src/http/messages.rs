//! Forwards the request to the server, the response to the client, and both bodies.

use weir_backend::Observation;
use weir_backend::counters::ServerCounter;
use weir_containers::PooledFuture;
use weir_http::{BodySize, HeadFlags, NoRoom, Version, status};
use weir_mux::{BodyFlow, ConnectionMode, FlowSide, FlowState, KeptBody, ReadHead};
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};

use super::bodies::{MAX_UNWANTED, no_server};
use super::websocket;
use crate::counters::CountedEvent;
use crate::deadlines::{Deadlines, Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::fastcgi;
use crate::filtering;
use crate::server::{AttemptFailure, retry};
use crate::stream::attempts::Replay;
use crate::stream::phases::ExchangePhase;
use crate::stream::response::ResponseProgress;
use crate::stream::{PhaseResult, StreamError};

impl ExchangePhase {
    /// Reaches a server and exchanges the messages, with retries.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub(super) fn forward(&mut self) -> impl Future<Output = PhaseResult> {
        async move {
            let is_shared = self.stream.client.shared().is_some();
            let has_failed = !is_shared && self.stream.client.fault().is_some();
            if (self.stream.client.ended() || has_failed) && !self.stream.request.body.is_complete() {
                self.stream.counts().count(CountedEvent::ClientAbort);
                return Err(StreamError::error(400, By::Client, During::Request));
            }
            if is_shared && self.stream.client.is_broken() {
                return Err(self.given_up());
            }
            self.prepare_request()?;
            self.stream.filter_phase().filter_request().await?;
            self.plan_replay();
            loop {
                self.stream.server_phase().reach_server().await?;
                match self.converse().await {
                    Ok(()) => break,
                    Err(UpstreamError::Stop(stop)) => return Err(stop),
                    Err(UpstreamError::Failed(failure)) => self.retry_or_stop(failure).await?,
                }
            }
            self.respond().await
        }
    }

    /// The result when the client aborts before a server was chosen. As in HAProxy 3.2, a complete request is logged without a status.
    #[cold]
    fn given_up(&mut self) -> StreamError {
        self.stream.counts().count(CountedEvent::ClientAbort);
        // The rest of a complete body may still be in the socket.
        self.stream.client.receive(self.stream.frontend.instance().limits.head_limit());
        match self.stream.client.ended() || self.stream.request.body.is_complete() {
            true => StreamError::close(By::Client, During::Request),
            false => StreamError::error(400, By::Client, During::Request),
        }
    }

    /// Adds the proxy's own fields to the request.
    pub(super) fn prepare_request(&mut self) -> PhaseResult {
        self.stream.request_phase().narrow_te()?;
        self.add_forwarding_fields()?;
        filtering::notify_of_request(&mut self.stream);
        self.add_websocket_key()?;
        let pretends = self.stream.backend.config.settings.options.http_pretend_keep_alive;
        let mode = self.connection_mode();
        self.stream.reusable.server =
            self.stream.request.message.settle_request(mode, pretends).map_err(|_| no_room())?;
        let wanted = self.stream.backend.config.settings.options.adjust_case_for_server;
        if wanted {
            self.stream.request.message.adjust_case(self.stream.frontend.instance().header_case.clone());
        }
        if self.stream.backend.config.settings.options.http_drop_request_trailers {
            self.stream.request.body.drop_trailers();
        }
        Ok(())
    }

    /// Decides about the parts of a complete request that a retry may send again.
    pub(super) fn plan_replay(&mut self) {
        if self.stream.attempts.replay != Replay::Forbidden {
            self.stream.attempts.replay =
                if self.stream.request.body.is_done() { Replay::Head } else { Replay::No };
            if self.stream.attempts.replay == Replay::No
                && self.stream.backend.config.settings.retry_on.needs_replay()
            {
                self.keep_body();
            }
        }
    }

    /// Keeps a copy of a complete body for a retry.
    fn keep_body(&mut self) {
        if weir_net::shortage::is_short() {
            return;
        }
        self.stream.request.message.detach(&mut self.stream.client);
        let limit = self.stream.frontend.instance().limits.body_limit(&self.stream.request.message.head);
        loop {
            if !self.stream.request.body.inspect(&mut self.stream.client) {
                return;
            }
            if self.stream.request.body.is_complete() {
                break;
            }
            // If the head arrived in pieces, the buffer may be just large enough for it, and the body still in the socket.
            match self.stream.client.receive(limit) {
                ReceiveOutcome::Bytes(_) => {}
                // END_STREAM arrived without further bytes.
                ReceiveOutcome::End
                    if self.stream.request.body.inspect(&mut self.stream.client)
                        && self.stream.request.body.is_complete() =>
                {
                    break;
                }
                _ => return,
            }
        }
        self.stream.trace_mut().trace_coding(MessageDirection::Request, true);
        let body = KeptBody::of(&self.stream.request.body, &self.stream.client);
        self.stream.client.consume(self.stream.request.body.ready());
        self.stream.request.body.begin(BodyFlow::done());
        self.stream.attempts.keep(body);
    }

    /// Sends the request and waits for the head of the response.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub(super) fn converse(&mut self) -> impl Future<Output = Result<(), UpstreamError>> {
        async move {
            self.stream.enter(During::Headers);
            self.send_request_head()?;
            self.await_response().await?;
            self.stream.response.server_status = self.stream.response.message.head.status();
            if self.stream.response.message.head.flags().contains(HeadFlags::VIOLATION) {
                crate::refusals::keep_tolerated_response(&self.stream);
            }
            // The request did not offer another protocol, so the bytes after this 101 are not a response.
            if self.stream.response.server_status == 101
                && !self.stream.request.message.may_switch_protocols()
            {
                return Err(UpstreamError::Failed(AttemptFailure::Junk));
            }
            if websocket::is_upgrade_ignored(&self.stream) {
                return Err(StreamError::error(500, By::Proxy, During::Headers).into());
            }
            self.stream.timers.response = Some(self.stream.elapsed());
            self.stream.response.status = self.stream.response.server_status;
            if retry::was_too_early(&self.stream, self.stream.response.server_status) {
                return Err(UpstreamError::Failed(AttemptFailure::TooEarly));
            }
            if retry::status_retries(&self.stream, self.stream.response.server_status) {
                return Err(UpstreamError::Failed(AttemptFailure::Status(
                    self.stream.response.server_status,
                )));
            }
            Ok(())
        }
    }

    /// An HTTP/2 server may refuse any request without processing it. Such a request is retried, so the received part of its body is kept
    /// if it fits a buffer.
    #[cold]
    fn keep_body_for_refusal(&mut self) {
        let head = &self.stream.request.message.head;
        let limit = self.stream.frontend.instance().limits.body_limit(head);
        let fits = head.content_length().is_none_or(|length| length <= limit as u64);
        if fits && self.stream.attempts.replay == Replay::No {
            self.keep_body();
        }
    }

    fn send_request_head(&mut self) -> Result<(), UpstreamError> {
        self.add_server_name().map_err(|_| no_room())?;
        self.stream.request.body.rewind();
        if !self.stream.request.body.is_done() && self.stream.server.is_shared() {
            self.keep_body_for_refusal();
        }
        let kept = self.stream.attempts.kept_body();
        if let Some(kept) = kept
            && self.stream.request.body.is_filtered()
        {
            self.stream.request.body.repeat(kept);
        }
        let Some(upstream) = &mut self.stream.server.upstream else { return Err(UpstreamError::internal()) };
        let bodiless = self.stream.request.body.is_done();
        if bodiless {
            self.stream.request.message.detach(&mut self.stream.client);
        } else {
            self.stream.request.body.aim(&upstream.connector, &self.stream.request.message.head);
            let verbatim = match self.stream.request.body.ready() {
                0 => self.stream.request.message.verbatim(&upstream.connector),
                _ => 0,
            };
            // The head is sent together with the received part of the body.
            match verbatim {
                0 => self.stream.request.message.detach(&mut self.stream.client),
                verbatim => self.stream.request.body.lead_with(verbatim),
            }
            if !self.stream.request.body.is_filtered()
                && !self.stream.request.body.inspect(&mut self.stream.client)
            {
                self.stream.trace_mut().trace_coding(MessageDirection::Request, false);
                return Err(self.malformed_request_body().into());
            }
            if verbatim > 0 {
                return Ok(());
            }
        }
        if upstream.connector.application_mut().is_some() {
            let kept = kept.map(|body| body.payload().len() as u64);
            fastcgi::prepare(&mut self.stream, kept)?;
        }
        let kept = self.stream.attempts.kept_body();
        let Some(upstream) = &mut self.stream.server.upstream else { return Err(UpstreamError::internal()) };
        // `waits` is announced only if more bytes follow immediately, because the kernel then holds the bytes back.
        let options = |proxy: &crate::instance::Proxy| proxy.config.settings.options.http_no_delay;
        let no_delay = options(&self.stream.frontend) || options(&self.stream.backend);
        let waits =
            !no_delay && !bodiless && self.stream.client.input().len() > self.stream.request.body.ready();
        let before = upstream.connector.sent();
        let kept = kept.filter(|_| !self.stream.request.body.is_filtered());
        let (message, sink, scratch) =
            (&mut self.stream.request.message, &mut upstream.connector, &mut self.stream.scratch);
        let sent = match kept {
            Some(body) => body.send_behind(message, sink, scratch),
            None if bodiless => message.send(sink, scratch, false),
            None => self.stream.request.body.send_behind(
                message,
                (&mut self.stream.client, sink),
                scratch,
                false,
                waits,
            ),
        };
        let nothing_left = upstream.connector.sent() == before;
        if let Some(body) = kept {
            self.stream.trace().trace_sent(MessageDirection::Request, body.payload().len(), false);
        }
        match sent {
            SendOutcome::Failed(fault) if nothing_left => {
                Err(UpstreamError::Failed(AttemptFailure::Unsent(fault)))
            }
            SendOutcome::Failed(fault) => Err(UpstreamError::Failed(AttemptFailure::Aborted(fault))),
            _ => Ok(()),
        }
    }

    /// Not an async function: most streams wait here, and it would store the future of the wait inside its own.
    fn await_response(&mut self) -> impl Future<Output = Result<(), UpstreamError>> {
        let mut interim = Interim::default();
        self.stream.drive(
            While::Response,
            move |stream, deadlines| stream.exchange_phase().advance_to_response(&mut interim, deadlines),
            |stream, by, waits| stream.exchange_phase().response_is_late(by, waits),
        )
    }

    /// Moves as much of the request as possible, and checks whether the head of the final response has arrived.
    fn advance_to_response(
        &mut self,
        interim: &mut Interim,
        deadlines: &mut Deadlines,
    ) -> Result<DriveStep<()>, UpstreamError> {
        let mut waits = Waits::default();
        if self.stream.request.flows() {
            match self.stream.body_phase().move_request_body().ok_or_else(UpstreamError::internal)? {
                FlowState::Done => deadlines.server_begins(weir_sched::now()),
                // The server's timeout starts when it has the whole request, or when the client waits for its `100 Continue`.
                FlowState::AwaitSource => {
                    waits.client_sends =
                        !self.stream.request.expects_continue || self.stream.request.body.payload() > 0;
                }
                FlowState::AwaitSink => {}
                FlowState::Withheld => waits.withheld = true,
                FlowState::Yield => waits.yields = true,
                FlowState::Failed(FlowSide::Source, ConnectionFault::Shortage) => {
                    return Err(out_of_buffers().into());
                }
                // A client that aborts within its own request does not wait for a response.
                FlowState::Truncated | FlowState::Failed(FlowSide::Source, _) => {
                    self.stream.counts().count(CountedEvent::ClientAbort);
                    return Err(StreamError::error(400, By::Client, During::Headers).into());
                }
                FlowState::Malformed => return Err(self.malformed_request_body().into()),
                FlowState::Refused => return Err(UpstreamError::internal()),
                // The server may have responded before it stopped reading. Its response decides.
                FlowState::Failed(FlowSide::Sink, _) => self.stream.body_phase().refuse_upload(),
            }
        } else if let Some(upstream) = &mut self.stream.server.upstream
            && upstream.connector.has_pending()
            && let SendOutcome::Failed(fault) = upstream.connector.flush(false)
        {
            return Err(UpstreamError::Failed(AttemptFailure::Aborted(fault)));
        }
        if self.stream.client.has_pending() {
            // Flushes a partly sent interim response. A broken client connection is detected below.
            let _ = self.stream.client.flush(false);
        }
        // While the client does not read, nothing more is read from the server, so output does not accumulate.
        waits.client_takes = self.stream.client.has_pending();
        if !waits.client_takes && self.read_response()? {
            if !self.is_interim() {
                return Ok(DriveStep::Done(()));
            }
            if !interim.admits(self.stream.response.message.head.end()) {
                return Err(UpstreamError::Failed(AttemptFailure::Junk));
            }
            // The server's timeout keeps running: it covers the whole wait for a final response. Other tasks run in between.
            self.forward_interim()?;
            waits.yields = true;
        }
        if self.stream.client.is_broken() || (!waits.client_sends && self.stream.client_left()) {
            self.stream.counts().count(CountedEvent::ClientAbort);
            return Err(StreamError::error(400, By::Client, During::Headers).into());
        }
        waits.server_sends = !waits.client_sends;
        Ok(DriveStep::Wait(waits))
    }

    /// Whether the head of a response has arrived.
    fn read_response(&mut self) -> Result<bool, UpstreamError> {
        let options = self
            .stream
            .frontend
            .instance()
            .limits
            .h1_options(self.stream.backend.config.settings.options.accept_unsafe_response);
        let limit = self.stream.frontend.instance().limits.head_limit();
        let Some(upstream) = &mut self.stream.server.upstream else { return Err(UpstreamError::internal()) };
        // A waiting stream does not allocate memory for a head that has not arrived.
        if upstream.connector.is_quiet() {
            self.stream.trace().trace_wait(MessageDirection::Response);
            return Ok(false);
        }
        match self.stream.response.message.read_response(&mut upstream.connector, &options, limit) {
            ReadHead::Complete => {
                if self.stream.response.message.head.status() == 101 {
                    return self.read_switch();
                }
                Ok(true)
            }
            ReadHead::Incomplete => {
                self.stream.trace().trace_wait(MessageDirection::Response);
                Ok(false)
            }
            ReadHead::Failed(ConnectionFault::Shortage) => Err(out_of_buffers().into()),
            ReadHead::Failed(ConnectionFault::Refused) => {
                Err(UpstreamError::Failed(AttemptFailure::Unprocessed))
            }
            ReadHead::Failed(ConnectionFault::Protocol) => Err(UpstreamError::Failed(AttemptFailure::Junk)),
            ReadHead::Ended | ReadHead::Failed(_) if !self.stream.response.message.has_begun() => {
                Err(UpstreamError::Failed(AttemptFailure::Empty))
            }
            ReadHead::Ended | ReadHead::Failed(_) => Err(UpstreamError::Failed(AttemptFailure::Cut)),
            ReadHead::TooLarge | ReadHead::StartLineTooLarge => {
                crate::refusals::keep_long_response(&self.stream);
                Err(UpstreamError::Failed(AttemptFailure::TooLarge))
            }
            ReadHead::Invalid(error) => {
                crate::refusals::keep_response(&self.stream, error);
                self.stream.trace().trace_refusal(MessageDirection::Response, ReadHead::Invalid(error));
                Err(UpstreamError::Failed(AttemptFailure::Junk))
            }
        }
    }

    /// Handles the head of a response that switches protocols.
    #[cold]
    fn read_switch(&mut self) -> Result<bool, UpstreamError> {
        // In HTTP/2 the server's status alone confirms the switch (RFC 8441, 5).
        if self.stream.server.upstream.as_ref().is_some_and(|upstream| upstream.connector.shared().is_some())
        {
            self.accept_switch();
            return Ok(true);
        }
        match self.may_switch() {
            true => Ok(true),
            false => Err(UpstreamError::Failed(AttemptFailure::Junk)),
        }
    }

    fn response_is_late(&mut self, by: By, waits: &Waits) -> Result<(), UpstreamError> {
        if by == By::ServerTimeout {
            let starved =
                self.stream.server.upstream.as_ref().is_some_and(|upstream| upstream.connector.is_starved());
            return Err(if starved {
                out_of_buffers().into()
            } else {
                UpstreamError::Failed(AttemptFailure::TimedOut)
            });
        }
        self.stream.counts().count(CountedEvent::ClientAbort);
        if waits.client_sends {
            return Err(StreamError::error(408, by, During::Headers).into());
        }
        Err(StreamError::close(by, During::Headers).into())
    }

    /// Whether this response is interim: another one follows.
    fn is_interim(&self) -> bool {
        let status = self.stream.response.message.head.status();
        (100..200).contains(&status) && status != 101
    }

    /// Forwards a 1xx response.
    fn forward_interim(&mut self) -> Result<(), UpstreamError> {
        if let Some(upstream) = &mut self.stream.server.upstream {
            self.stream.response.message.detach(&mut upstream.connector);
        }
        self.stream.note_head_size(true);
        // Only the server counts interim responses. Proxies count final ones.
        if let Some(lease) = &self.stream.server.lease {
            lease.server().counters().increment(weir_sched::worker_index(), ServerCounter::Http1xx);
        }
        // The server has read this request, so a later failure is not a race with the close of an idle connection.
        self.stream.attempts.on_reused_connection = false;
        // HTTP/1.0 clients do not support interim responses (RFC 9110, 15.2).
        let sent = if self.stream.request.message.head.version() == Version::HTTP_10 {
            SendOutcome::All
        } else {
            self.stream.request.expects_continue = false;
            // The client has received a part of the interim response, so no other server may be tried.
            self.stream.attempts.interim_forwarded = true;
            self.adjust_response_case();
            self.stream.response.message.send(&mut self.stream.client, &mut self.stream.scratch, false)
        };
        self.stream.response.message.clear();
        match sent {
            SendOutcome::Failed(_) => Err(StreamError::close(By::Client, During::Headers).into()),
            _ => Ok(()),
        }
    }

    /// Sends the response's head, then moves both bodies to their ends.
    async fn respond(&mut self) -> PhaseResult {
        self.stream.response.progress = ResponseProgress::Known;
        self.stream.counts().count_server_status();
        self.stream
            .as_server_phase()
            .observe(Some(Observation::of_status(self.stream.response.server_status)));
        self.stream.response.size = BodySize::of_response(
            &self.stream.response.message.head,
            self.stream.request.message.head.method(),
        );
        // A connection on which a tunnel was requested carries no other request, even if a rule refuses the tunnel.
        self.stream.reusable.client &= self.stream.response.size != BodySize::Tunnel;
        self.stream.note_head_size(true);
        self.stream.inspection().bound_response_head();
        self.stream.filter_phase().begin_analysis(MessageDirection::Response).await?;
        if let Err(stop) = self.stream.response_phase().examine().await {
            // The client gets another response. The server's response time still counts (manual, 8.4, "Tr").
            self.stream.response.logged.heads = 0;
            return Err(stop);
        }
        let size = self.settle_response_body()?;
        self.stream.response.is_tunnel = size == BodySize::Tunnel;
        let size = match self.stream.response.body.is_filtered() {
            true => PooledFuture::new(self.stream.filter_phase().filter_response(size)).await?,
            false => size,
        };
        self.settle_connections(size)?;
        let verbatim = self.stream.response.message.verbatim(&self.stream.client);
        let Some(upstream) = &self.stream.server.upstream else { return Err(no_server()) };
        self.stream.response.begin_body(&upstream.connector, size);
        if !matches!(size, BodySize::None | BodySize::Tunnel) {
            self.stream.response.body.aim(&self.stream.client, &self.stream.response.message.head);
        }
        if verbatim > 0 {
            self.stream.response.body.lead_with(verbatim);
        }
        if self.stream.frontend.config.settings.options.http_drop_response_trailers {
            self.stream.response.body.drop_trailers();
        }
        // While the request is still being sent, the connection does not close after the response.
        let closes = !self.stream.reusable.client && !self.stream.request.flows();
        if closes {
            self.stream.response.body.end_sink();
        }
        let Some(upstream) = &mut self.stream.server.upstream else { return Err(no_server()) };
        if verbatim == 0 {
            self.stream.response.message.detach(&mut upstream.connector);
        }
        if !self.stream.response.body.inspect(&mut upstream.connector) {
            self.stream.trace_mut().trace_coding(MessageDirection::Response, false);
            // No byte of the response was sent yet, so the client gets an error instead.
            self.stream.timers.response = None;
            self.stream.response.logged.heads = 0;
            self.stream.counts().count(CountedEvent::FailedResponse);
            return Err(StreamError::error(502, By::Proxy, During::Headers));
        }
        self.stream.enter(During::Data);
        self.stream.log_the_beginning();
        if verbatim == 0
            && let Some(upstream) = &mut self.stream.server.upstream
        {
            let ends = (&mut upstream.connector, &mut self.stream.client);
            let message = &mut self.stream.response.message;
            let sent =
                self.stream.response.body.send_behind(message, ends, &mut self.stream.scratch, closes, false);
            if let SendOutcome::Failed(_) = sent {
                return Err(StreamError::close(By::Client, During::Data));
            }
        }
        self.stream.response.progress = ResponseProgress::Leaving;
        if self.stream.response.is_tunnel {
            self.stream.request.body.begin(BodyFlow::tunnel());
            return PooledFuture::new(self.stream.relay_phase().relay()).await;
        }
        self.stream.body_phase().exchange_bodies().await
    }

    /// The size of the body for the client. Rules may have added or removed a body. A tunnel opens if the server agreed and the response
    /// still announces it. If only the response announces it, no body follows, and the connection is not read further, because the client
    /// may believe that the tunnel is open.
    fn settle_response_body(&mut self) -> PhaseResult<BodySize> {
        let came = self.stream.response.size;
        let status = self.stream.response.message.head.status();
        let accepted = came == BodySize::Tunnel;
        let promised = self.promises_tunnel();
        if accepted && promised && (status == 101) == (self.stream.response.server_status == 101) {
            // A tunnel does not have a length (RFC 9110, 9.3.6). The framing fields are ignored.
            let head = &mut self.stream.response.message.head;
            if head.flags().intersects(HeadFlags::HAS_CONTENT_LENGTH | HeadFlags::HAS_TRANSFER_ENCODING) {
                head.touch();
            }
            self.restate_response(came).map_err(|_| no_room())?;
            return Ok(came);
        }
        let bodiless = accepted || promised || self.stream.request.head_only() || status::is_bodyless(status);
        let size = if bodiless { BodySize::None } else { came };
        if size != came {
            self.refuse_response_body(came);
        } else if size == BodySize::None && self.stream.server.is_shared() {
            self.await_stream_end();
        }
        let said = if promised { BodySize::Tunnel } else { size };
        self.restate_response(said).map_err(|_| no_room())?;
        // If a rule changed the status to 1xx, the client takes the response for an interim one and waits for another.
        self.stream.reusable.client &= status >= 200 && !promised;
        Ok(size)
    }

    /// Handles a server's body that must not reach the client, because a rule changed the method or the status. A body that ends in time is
    /// read and dropped after the response. Otherwise the server connection closes.
    #[cold]
    fn refuse_response_body(&mut self, came: BodySize) {
        let Some(upstream) = &mut self.stream.server.upstream else { return };
        self.stream.response.begin_body(&upstream.connector, came);
        let flow = self.stream.response.body.take_flow();
        let ends = match came {
            BodySize::Known(length) => length <= MAX_UNWANTED,
            BodySize::Unknown => flow.is_delimited(),
            BodySize::None | BodySize::Tunnel => false,
        };
        self.stream.reusable.server &= ends;
        if ends {
            self.await_unwanted(flow);
        }
    }

    /// An HTTP/2 server may send END_STREAM in a separate frame after a response without a body. Waits for it, to avoid a reset of the
    /// stream.
    #[cold]
    fn await_stream_end(&mut self) {
        let Some(upstream) = &mut self.stream.server.upstream else { return };
        let mut flow = BodyFlow::tunnel();
        if flow.read(&mut upstream.connector, &mut |_| {}) == FlowState::AwaitSource {
            self.await_unwanted(flow);
        }
    }

    fn await_unwanted(&mut self, flow: BodyFlow) {
        self.stream.response.unwanted = Some(Box::new(flow));
        self.stream.response.message.head.note(HeadFlags::ENDS_LATER);
    }

    /// Whether the response's head announces a tunnel to the client.
    pub(crate) fn promises_tunnel(&self) -> bool {
        BodySize::of_response(&self.stream.response.message.head, self.stream.request.message.head.method())
            == BodySize::Tunnel
    }

    /// Sets the framing fields for the client's body. A 304, and a response to HEAD, keep the length of the omitted body.
    pub(crate) fn restate_response(&mut self, size: BodySize) -> Result<(), NoRoom> {
        let status = self.stream.response.message.head.status();
        if status == 304 || (self.stream.request.head_only() && !status::is_bodyless(status)) {
            return Ok(());
        }
        self.stream.response.message.restate(size)
    }

    /// Decides which connections persist, and sets the response's fields accordingly.
    fn settle_connections(&mut self, size: BodySize) -> PhaseResult {
        if self.stream.response.is_tunnel {
            self.stream.reusable.give_up();
            // The server's own `Connection` options are not forwarded (RFC 9110, 7.6.1).
            self.stream.response.message.announce_tunnel().map_err(|_| no_room())?;
            self.adjust_response_case();
            return Ok(());
        }
        let mode = self.connection_mode();
        self.stream.reusable.server &=
            self.stream.response.message.server_persists(self.stream.response.size, mode);
        self.stream.reusable.client &= self.stream.response.message.client_persists(
            &self.stream.request.message,
            size,
            self.client_mode(),
        ) && !self.stream.session.closes();
        self.stream
            .response
            .message
            .announce_to_client(&self.stream.request.message, self.stream.reusable.client)
            .map_err(|_| no_room())?;
        self.adjust_response_case();
        Ok(())
    }

    /// `option h1-case-adjust-bogus-client`: adjusts the case of field names for the client.
    pub(crate) fn adjust_response_case(&mut self) {
        let wanted = self.stream.frontend.config.settings.options.adjust_case_for_client;
        let case = self.stream.frontend.instance().header_case.as_ref().filter(|_| wanted);
        self.stream.response.message.adjust_case(case.cloned());
    }

    /// The connection mode that results from the frontend and the backend.
    pub(super) fn connection_mode(&self) -> ConnectionMode {
        mode_of(&self.stream.frontend).max(mode_of(&self.stream.backend))
    }

    /// The connection mode of the client connection. Only the frontend's options count (manual, "option httpclose").
    pub(crate) fn client_mode(&self) -> ConnectionMode {
        mode_of(&self.stream.frontend)
    }

    pub(super) async fn retry_or_stop(&mut self, failure: AttemptFailure) -> PhaseResult {
        let failure = self.stream.server_phase().failure_of_early(failure);
        self.stream.server_phase().close_server();
        self.stream.response.message.clear();
        PooledFuture::new(self.stream.server_phase().retry_after(failure)).await
    }

    /// The ending for a request body with invalid chunked coding.
    pub(super) fn malformed_request_body(&self) -> StreamError {
        self.stream.counts().count_bad_request();
        StreamError::error(400, By::Proxy, During::Headers)
    }
}

/// Why an exchange with a server did not produce a response.
pub(super) enum UpstreamError {
    Stop(StreamError),
    /// The attempt failed. A retry is possible.
    Failed(AttemptFailure),
}

impl UpstreamError {
    fn internal() -> Self {
        UpstreamError::Stop(StreamError::error(500, By::Internal, During::Headers))
    }
}

impl From<StreamError> for UpstreamError {
    fn from(stop: StreamError) -> Self {
        UpstreamError::Stop(stop)
    }
}

fn mode_of(proxy: &crate::instance::Proxy) -> ConnectionMode {
    use weir_model::ConnectionMode as Configured;
    match proxy.config.settings.options.connection_mode.unwrap_or_default() {
        Configured::KeepAlive => ConnectionMode::KeepAlive,
        Configured::ServerClose => ConnectionMode::ServerClose,
        Configured::Close => ConnectionMode::Close,
    }
}

/// Counts of the interim responses to one request.
#[derive(Default)]
struct Interim {
    count: u32,
    bytes: usize,
}

impl Interim {
    /// Counts an interim response of `bytes` bytes. Returns whether it is within the limits.
    fn admits(&mut self, bytes: usize) -> bool {
        self.count += 1;
        self.bytes += bytes;
        self.count <= MAX_INTERIM_RESPONSES && self.bytes <= MAX_INTERIM_BYTES
    }
}

/// Maximum number of interim responses to one request. More are handled like an invalid response.
const MAX_INTERIM_RESPONSES: u32 = 200;
/// Maximum total size of the interim responses' heads, in bytes.
const MAX_INTERIM_BYTES: usize = 256 * 1024;

/// The error when `tune.buffers.limit` or `-m` is reached.
fn out_of_buffers() -> StreamError {
    StreamError::error(500, By::Resource, During::Headers)
}

/// The error when the fields that the proxy adds make the head exceed its buffer.
pub(super) fn no_room() -> StreamError {
    StreamError::Error(400, Ending::new(By::Proxy, During::Request))
}
