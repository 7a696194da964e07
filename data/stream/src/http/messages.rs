//! Request to the server, response to the client, and the bodies of both.

use weir_backend::Observation;
use weir_containers::PooledFuture;
use weir_http::{BodySize, Flags, NoRoom, Version, status};
use weir_mux::{BodyFlow, ConnectionMode, Flow, ReadHead, Side};
use weir_net::{Fault, Received, Sent};

use super::bodies::no_server;
use crate::counters::Event;
use crate::deadlines::{Deadlines, Waits, While};
use crate::drive::Step;
use crate::ending::{By, During, Ending};
use crate::errors::Direction;
use crate::server::{Failure, retry};
use crate::stream::attempts::Replay;
use crate::stream::response::ResponseProgress;
use crate::stream::{Phase, Stream, StreamError};

impl Stream {
    /// Gets a server and exchanges the messages, as often as failures allow.
    pub(super) async fn forward(&mut self) -> Phase {
        if self.client.ended() && !self.request.body.is_complete() {
            self.count(Event::ClientAbort);
            return Err(StreamError::error(400, By::Client, During::Request));
        }
        self.prepare_request()?;
        loop {
            self.reach_server().await?;
            match self.converse().await {
                Ok(()) => break,
                Err(UpstreamError::Stop(stop)) => return Err(stop),
                Err(UpstreamError::Failed(failure)) => self.retry_or_stop(failure).await?,
            }
        }
        self.respond().await
    }

    /// Writes what the proxy itself adds to the request.
    fn prepare_request(&mut self) -> Phase {
        self.narrow_te()?;
        self.add_forwarding_fields()?;
        self.add_websocket_key()?;
        let pretends = self.backend.config.settings.options.http_pretend_keep_alive;
        let mode = self.connection_mode();
        self.reusable.server = self.request.message.settle_request(mode, pretends).map_err(|_| no_room())?;
        let wanted = self.backend.config.settings.options.adjust_case_for_server;
        self.request.message.adjust_case(self.instance.limits.header_case.as_ref().filter(|_| wanted));
        if self.backend.config.settings.options.http_drop_request_trailers {
            self.request.body.drop_trailers();
        }
        if self.request.body.is_filtered() {
            self.filter_request()?;
        }
        self.attempts.replay = match self.attempts.replay {
            Replay::Forbidden => Replay::Forbidden,
            _ if self.request.body.is_done() => Replay::Head,
            _ if self.backend.config.settings.retry_on.needs_replay() => self.keep_body(),
            _ => Replay::No,
        };
        Ok(())
    }

    /// Keeps a copy of a body that is wholly there, so that it can be sent again.
    fn keep_body(&mut self) -> Replay {
        // What filters made of it may not be the same another time.
        if weir_net::shortage::is_short() || self.request.body.is_filtered() {
            return Replay::No;
        }
        self.request.message.detach(&mut self.client);
        let limit = self.instance.limits.body_limit(&self.request.message.head);
        loop {
            if !self.request.body.inspect(&mut self.client) {
                return Replay::No;
            }
            if self.request.body.is_complete() {
                break;
            }
            // Who sent its head in pieces may have a buffer that just held it: the body that came along is behind it.
            let Received::Bytes(_) = self.client.receive(limit) else { return Replay::No };
        }
        self.trace_coding(Direction::Request, true);
        let body = self.request.body.keep(&self.client);
        self.client.consume(self.request.body.ready());
        self.request.body.begin(BodyFlow::done());
        Replay::Whole(body)
    }

    /// Sends the request and waits for the head of the response.
    async fn converse(&mut self) -> Result<(), UpstreamError> {
        self.enter(During::Headers);
        self.send_request_head()?;
        self.await_response().await?;
        self.response.server_status = self.response.message.head.status();
        if self.response.message.head.flags().contains(Flags::VIOLATION) {
            crate::refusals::keep_tolerated_response(self);
        }
        // Nobody asked to leave HTTP: what would follow is no response.
        if self.response.server_status == 101 && !self.request.message.may_switch_protocols() {
            return Err(UpstreamError::Failed(Failure::Junk));
        }
        self.timers.response = Some(self.elapsed());
        self.response.status = self.response.server_status;
        if retry::status_retries(self, self.response.server_status) {
            return Err(UpstreamError::Failed(Failure::Status(self.response.server_status)));
        }
        Ok(())
    }

    fn send_request_head(&mut self) -> Result<(), UpstreamError> {
        self.add_server_name().map_err(|_| no_room())?;
        let Some(upstream) = &mut self.server.upstream else { return Err(UpstreamError::internal()) };
        let bodiless = self.request.body.is_complete() && self.request.body.ready() == 0;
        if !bodiless && self.request.body.ready() == 0 {
            let verbatim = self.request.message.verbatim(&upstream.connector);
            if verbatim > 0 {
                // The head leaves together with the part of the body that came with it.
                self.request.body.lead_with(verbatim);
                if !self.request.body.inspect(&mut self.client) {
                    self.trace_coding(Direction::Request, false);
                    return Err(self.malformed_request_body().into());
                }
                return Ok(());
            }
        }
        self.request.message.detach(&mut self.client);
        let body: &[u8] = match &self.attempts.replay {
            Replay::Whole(body) => body.framed(),
            _ => b"",
        };
        // Announced only if it follows at once: the kernel holds back what is said to be unfinished.
        let options = |proxy: &crate::instance::Proxy| proxy.config.settings.options.http_no_delay;
        let no_delay = options(self.frontend) || options(self.backend);
        let more = !no_delay && (!body.is_empty() || (!bodiless && !self.client.input().is_empty()));
        let before = upstream.connector.sent();
        let sent = self.request.message.send(&mut upstream.connector, &mut self.scratch, more);
        let sent = match sent {
            Sent::Failed(_) => sent,
            _ if body.is_empty() => sent,
            _ => upstream.connector.send_head(body, false),
        };
        let nothing_left = upstream.connector.sent() == before;
        if !body.is_empty() {
            self.trace_sent(Direction::Request, body.len(), false);
        }
        match sent {
            Sent::Failed(fault) if nothing_left => Err(UpstreamError::Failed(Failure::Unsent(fault))),
            Sent::Failed(fault) => Err(UpstreamError::Failed(Failure::Aborted(fault))),
            _ => Ok(()),
        }
    }

    async fn await_response(&mut self) -> Result<(), UpstreamError> {
        let mut interim = Interim::default();
        self.drive(
            While::Response,
            |stream, deadlines| stream.advance_to_response(&mut interim, deadlines),
            Stream::response_is_late,
        )
        .await
    }

    /// Moves what can be moved of the request, and looks whether the head of the final response is there.
    fn advance_to_response(
        &mut self,
        interim: &mut Interim,
        deadlines: &mut Deadlines,
    ) -> Result<Step<()>, UpstreamError> {
        let mut waits = Waits::default();
        if self.request.flows() {
            match self.move_request_body().ok_or_else(UpstreamError::internal)? {
                Flow::Done => deadlines.server_begins(weir_sched::now()),
                // The server's time begins when it has the request, or when the client waits for its consent.
                Flow::AwaitSource => {
                    waits.client_sends = !self.request.expects_continue || self.request.body.payload() > 0;
                }
                Flow::AwaitSink => {}
                Flow::Withheld => waits.withheld = true,
                Flow::Yield => waits.yields = true,
                Flow::Failed(Side::Source, Fault::Shortage) => return Err(out_of_buffers().into()),
                // Whoever leaves in the middle of its own request does not wait for an answer.
                Flow::Truncated | Flow::Failed(Side::Source, _) => {
                    self.count_client_abort();
                    return Err(StreamError::error(400, By::Client, During::Headers).into());
                }
                Flow::Malformed => return Err(self.malformed_request_body().into()),
                // The server may have answered before it stopped listening: its answer decides.
                Flow::Failed(Side::Sink, _) => self.refuse_upload(),
            }
        } else if let Some(upstream) = &mut self.server.upstream
            && upstream.connector.has_pending()
            && let Sent::Failed(fault) = upstream.connector.flush(false)
        {
            return Err(UpstreamError::Failed(Failure::Aborted(fault)));
        }
        if self.client.has_pending() {
            // An interim response that did not fit; that the client is gone is noticed below.
            let _ = self.client.flush(false);
        }
        // Whoever does not take what was sent gets no more: nothing piles up here, whatever the server sends.
        waits.client_takes = self.client.has_pending();
        if !waits.client_takes && self.read_response()? {
            if !self.is_interim() {
                return Ok(Step::Done(()));
            }
            if !interim.admits(self.response.message.head.end()) {
                return Err(UpstreamError::Failed(Failure::Junk));
            }
            // The server's time goes on: it is that of the whole wait for a final response. Others have their turns in between.
            self.forward_interim()?;
            waits.yields = true;
        }
        if self.client.is_broken() || (!waits.client_sends && self.client_left()) {
            self.count_client_abort();
            return Err(StreamError::error(400, By::Client, During::Headers).into());
        }
        waits.server_sends = !waits.client_sends;
        Ok(Step::Wait(waits))
    }

    /// Whether the head of a response is there.
    fn read_response(&mut self) -> Result<bool, UpstreamError> {
        let options =
            self.instance.limits.h1_options(self.backend.config.settings.options.accept_unsafe_response);
        let limit = self.instance.limits.head_limit();
        let Some(upstream) = &mut self.server.upstream else { return Err(UpstreamError::internal()) };
        match self.response.message.read_response(&mut upstream.connector, &options, limit) {
            ReadHead::Complete => {
                if self.response.message.head.status() == 101 {
                    return self.read_switch();
                }
                Ok(true)
            }
            ReadHead::Incomplete => {
                self.trace_wait(Direction::Response);
                Ok(false)
            }
            ReadHead::Failed(Fault::Shortage) => Err(out_of_buffers().into()),
            ReadHead::Failed(Fault::Refused) => Err(UpstreamError::Failed(Failure::Unprocessed)),
            ReadHead::Failed(Fault::Protocol) => Err(UpstreamError::Failed(Failure::Junk)),
            ReadHead::Ended | ReadHead::Failed(_) if !self.response.message.has_begun() => {
                Err(UpstreamError::Failed(Failure::Empty))
            }
            ReadHead::Ended | ReadHead::Failed(_) => Err(UpstreamError::Failed(Failure::Cut)),
            ReadHead::TooLarge | ReadHead::StartLineTooLarge => {
                crate::refusals::keep_long_response(self);
                Err(UpstreamError::Failed(Failure::TooLarge))
            }
            ReadHead::Invalid(error) => {
                crate::refusals::keep_response(self, error);
                self.trace_refusal(Direction::Response, ReadHead::Invalid(error));
                Err(UpstreamError::Failed(Failure::Junk))
            }
        }
    }

    /// The head of a response that switches protocols is there.
    #[cold]
    fn read_switch(&mut self) -> Result<bool, UpstreamError> {
        if self.server.upstream.as_ref().is_some_and(|upstream| upstream.connector.shared().is_some()) {
            self.prove_websocket();
        }
        match self.may_switch() {
            true => Ok(true),
            false => Err(UpstreamError::Failed(Failure::Junk)),
        }
    }

    fn response_is_late(&mut self, by: By, waits: &Waits) -> Result<(), UpstreamError> {
        if by == By::ServerTimeout {
            let starved =
                self.server.upstream.as_ref().is_some_and(|upstream| upstream.connector.is_starved());
            return Err(if starved {
                out_of_buffers().into()
            } else {
                UpstreamError::Failed(Failure::TimedOut)
            });
        }
        self.count_client_abort();
        if waits.client_sends {
            return Err(StreamError::error(408, by, During::Headers).into());
        }
        Err(StreamError::close(by, During::Headers).into())
    }

    /// Whether the response's head is one that another follows.
    fn is_interim(&self) -> bool {
        let status = self.response.message.head.status();
        (100..200).contains(&status) && status != 101
    }

    /// Passes a 1xx on.
    fn forward_interim(&mut self) -> Result<(), UpstreamError> {
        if let Some(upstream) = &mut self.server.upstream {
            self.response.message.detach(&mut upstream.connector);
        }
        self.note_head_size(true);
        // The server had read of this request: what happens now is no race with an idle connection's end.
        self.attempts.on_reused_connection = false;
        // HTTP/1.0 clients do not know them (RFC 9110, 15.2).
        let sent = if self.request.message.head.version() == Version::HTTP_10 {
            Sent::All
        } else {
            self.request.expects_continue = false;
            // To its client the response has begun: another server would begin another one.
            self.attempts.interim_forwarded = true;
            self.adjust_response_case();
            self.response.message.send(&mut self.client, &mut self.scratch, false)
        };
        self.response.message.clear();
        match sent {
            Sent::Failed(_) => Err(StreamError::close(By::Client, During::Headers).into()),
            _ => Ok(()),
        }
    }

    /// Sends the response's head, then lets both bodies flow to their ends.
    async fn respond(&mut self) -> Phase {
        self.response.progress = ResponseProgress::Known;
        self.count_server_status();
        self.observe(Some(Observation::of_status(self.response.server_status)));
        self.response.size =
            BodySize::of_response(&self.response.message.head, self.request.message.head.method());
        // What a tunnel was asked from carries no other request, even if a rule refuses the tunnel.
        self.reusable.client &= self.response.size != BodySize::Tunnel;
        self.note_head_size(true);
        self.bound_response_head();
        if let Err(stop) = self.response_phase().await {
            // What the client gets is not this response. Its time is the server's all the same (manual, 8.4, "Tr").
            self.response.logged.heads = 0;
            return Err(stop);
        }
        let size = self.settle_response_body()?;
        self.response.is_tunnel = size == BodySize::Tunnel;
        let size = if self.response.body.is_filtered() { self.filter_response(size)? } else { size };
        self.settle_connections(size)?;
        let verbatim = self.response.message.verbatim(&self.client);
        if !self.response.body_begun {
            self.response.body.begin(BodyFlow::behind(&self.response.message.head, size));
            if verbatim > 0 {
                self.response.body.lead_with(verbatim);
            }
        }
        if self.frontend.config.settings.options.http_drop_response_trailers {
            self.response.body.drop_trailers();
        }
        // While the request is on its way, nothing closes behind the response.
        let closes = !self.reusable.client && !self.request.flows();
        if closes {
            self.response.body.end_sink();
        }
        let Some(upstream) = &mut self.server.upstream else { return Err(no_server()) };
        if verbatim == 0 {
            self.response.message.detach(&mut upstream.connector);
        }
        if !self.response.body.inspect(&mut upstream.connector) {
            self.trace_coding(Direction::Response, false);
            // Nothing of the response went out yet: the client learns that there is none.
            self.timers.response = None;
            self.response.logged.heads = 0;
            self.count(Event::FailedResponse);
            return Err(StreamError::error(502, By::Proxy, During::Headers));
        }
        self.enter(During::Data);
        self.log_the_beginning();
        if verbatim == 0
            && let Some(upstream) = &mut self.server.upstream
        {
            let body = self.response.body.take_ready(SENT_WITH_HEAD);
            let more = closes && self.response.body.is_done();
            let sent = self.response.message.send_with(
                &mut self.client,
                &mut upstream.connector,
                body,
                &mut self.scratch,
                more,
            );
            if let Sent::Failed(_) = sent {
                return Err(StreamError::close(By::Client, During::Data));
            }
        }
        self.response.progress = ResponseProgress::Leaving;
        if self.response.is_tunnel {
            self.request.body.begin(BodyFlow::tunnel());
            return PooledFuture::new(self.relay()).await;
        }
        self.exchange_bodies().await
    }

    /// Shows the request's head to its filters. Its body is theirs before it leaves: it never goes with the head.
    #[cold]
    fn filter_request(&mut self) -> Phase {
        self.request.message.detach(&mut self.client);
        if !self.request.body.head(&mut self.request.message) {
            return Ok(());
        }
        self.request.body.encode(true);
        self.request.message.chunk().map_err(|_| no_room())
    }

    /// The same of the response. What its size is when it leaves.
    #[cold]
    fn filter_response(&mut self, size: BodySize) -> Phase<BodySize> {
        let Some(upstream) = &mut self.server.upstream else { return Err(no_server()) };
        self.response.message.detach(&mut upstream.connector);
        if !std::mem::replace(&mut self.response.body_begun, true) {
            self.response.body.begin(BodyFlow::behind(&self.response.message.head, size));
        }
        if !self.response.body.head(&mut self.response.message) || size == BodySize::Tunnel {
            return Ok(size);
        }
        // A client of HTTP/1.0 knows the end by the connection's.
        let chunks = self.request.message.head.version() >= Version::HTTP_11;
        self.response.body.encode(chunks);
        let stated = if chunks { self.response.message.chunk() } else { self.response.message.unframe() };
        stated.map_err(|_| no_room())?;
        Ok(BodySize::Unknown)
    }

    /// What follows the head that the client gets: rules may have given a body to a response that has none, or taken it from
    /// one that has. A tunnel is open when the server says so and the client is told so; else nothing follows, and nothing
    /// more is read of a client that may take it for open.
    fn settle_response_body(&mut self) -> Phase<BodySize> {
        let came = self.response.size;
        let status = self.response.message.head.status();
        let accepted = came == BodySize::Tunnel;
        let promised = self.promises_tunnel();
        if accepted && promised && (status == 101) == (self.response.server_status == 101) {
            // A tunnel has no length (RFC 9110, 9.3.6), whatever the server says.
            let head = &mut self.response.message.head;
            if head.flags().intersects(Flags::HAS_CONTENT_LENGTH | Flags::HAS_TRANSFER_ENCODING) {
                head.touch();
            }
            self.restate_response(came).map_err(|_| no_room())?;
            return Ok(came);
        }
        let bodiless = accepted || promised || self.request.head_only() || status::is_bodyless(status);
        let size = if bodiless { BodySize::None } else { came };
        if size != came {
            // Nobody takes it: that ends the server's connection.
            self.reusable.server = false;
            self.response.body.begin(BodyFlow::done());
        }
        let said = if promised { BodySize::Tunnel } else { size };
        self.restate_response(said).map_err(|_| no_room())?;
        // What a rule made interim is not: the client waits for another one.
        self.reusable.client &= status >= 200 && !promised;
        Ok(size)
    }

    /// Whether the response's head tells the client that a tunnel begins.
    pub(crate) fn promises_tunnel(&self) -> bool {
        BodySize::of_response(&self.response.message.head, self.request.message.head.method())
            == BodySize::Tunnel
    }

    /// Makes the response's head say what body the client gets. A 304, and a response to HEAD that has a body for others, say
    /// how long another one is.
    pub(crate) fn restate_response(&mut self, size: BodySize) -> Result<(), NoRoom> {
        let status = self.response.message.head.status();
        if status == 304 || (self.request.head_only() && !status::is_bodyless(status)) {
            return Ok(());
        }
        self.response.message.restate(size)
    }

    /// Decides which connections live on, and says so in the response.
    fn settle_connections(&mut self, size: BodySize) -> Phase {
        if self.response.is_tunnel {
            self.reusable.give_up();
            // What the server says of its own connection stays behind (RFC 9110, 7.6.1).
            self.response.message.announce_tunnel().map_err(|_| no_room())?;
            self.adjust_response_case();
            return Ok(());
        }
        let mode = self.connection_mode();
        self.reusable.server &= self.response.message.server_persists(self.response.size, mode);
        self.reusable.client &=
            self.response.message.client_persists(&self.request.message, size, self.client_mode())
                && !self.session.closes();
        self.response
            .message
            .announce_to_client(&self.request.message, self.reusable.client)
            .map_err(|_| no_room())?;
        self.adjust_response_case();
        Ok(())
    }

    /// `option h1-case-adjust-bogus-client`: the client sees the names of fields in the case that it insists on.
    pub(crate) fn adjust_response_case(&mut self) {
        let wanted = self.frontend.config.settings.options.adjust_case_for_client;
        self.response.message.adjust_case(self.instance.limits.header_case.as_ref().filter(|_| wanted));
    }

    /// What the frontend and the backend agree on for connections.
    fn connection_mode(&self) -> ConnectionMode {
        mode_of(self.frontend).max(mode_of(self.backend))
    }

    /// How the client's connection persists: only its own side is asked (manual, "option httpclose").
    pub(crate) fn client_mode(&self) -> ConnectionMode {
        mode_of(self.frontend)
    }

    async fn retry_or_stop(&mut self, failure: Failure) -> Phase {
        self.close_server();
        self.response.message.clear();
        PooledFuture::new(self.retry_after(failure)).await
    }

    /// The request's body is no chunked coding.
    fn malformed_request_body(&self) -> StreamError {
        self.count_bad_request();
        StreamError::error(400, By::Proxy, During::Headers)
    }
}

/// Why a conversation with a server did not bring a response.
pub(super) enum UpstreamError {
    /// The stream ends.
    Stop(StreamError),
    /// The attempt failed: another may follow.
    Failed(Failure),
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

/// What a proxy says of connections.
fn mode_of(proxy: &crate::instance::Proxy) -> ConnectionMode {
    use weir_config::model::ConnectionMode as Configured;
    match proxy.config.settings.options.connection_mode.unwrap_or_default() {
        Configured::KeepAlive => ConnectionMode::KeepAlive,
        Configured::ServerClose => ConnectionMode::ServerClose,
        Configured::Close => ConnectionMode::Close,
    }
}

/// What came of interim responses to one request.
#[derive(Default)]
struct Interim {
    count: u32,
    bytes: usize,
}

impl Interim {
    /// Whether one more, of so many bytes, is within the bounds.
    fn admits(&mut self, bytes: usize) -> bool {
        self.count += 1;
        self.bytes += bytes;
        self.count <= MAX_INTERIM_RESPONSES && self.bytes <= MAX_INTERIM_BYTES
    }
}

/// More interim responses to one request are no answer but a flood: it ends as an invalid response does.
const MAX_INTERIM_RESPONSES: u32 = 200;
/// The same of their heads together.
const MAX_INTERIM_BYTES: usize = 256 * 1024;

/// This much of a body is copied behind an edited head, to leave in the same system call.
const SENT_WITH_HEAD: usize = 16 * 1024;

/// `tune.buffers.limit` or `-m` is reached.
fn out_of_buffers() -> StreamError {
    StreamError::error(500, By::Resource, During::Headers)
}

/// The head outgrew its buffer by what we added to it.
fn no_room() -> StreamError {
    StreamError::Error(400, Ending::new(By::Proxy, During::Request))
}
