//! The phases of a sub-request: the backend's rules, a server, the answer.
//!
//! They are those of a client's request, except at the two ends: the head and the body are in memory, and the answer stays there.

use weir_backend::Observation;
use weir_backend::counters::{BackendCounter, ServerCounter};
use weir_containers::PooledFuture;
use weir_http::BodySize;
use weir_mux::{BodyFlow, FlowState, KeptBody};
use weir_sched::Tick;

use super::messages::UpstreamError;
use crate::counters::CountedEvent;
use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::instance::ProxyRef;
use crate::limited_body::LimitedBody;
use crate::stream::phases::SubrequestPhase;
use crate::stream::request::RequestProgress;
use crate::stream::response::ResponseProgress;
use crate::stream::{PhaseResult, StreamError};

impl SubrequestPhase {
    /// Runs the sub-request up to the head of its answer, at most until `deadline`. The head of the request is in its message.
    pub(crate) async fn ask(
        &mut self,
        backend: ProxyRef,
        body: Option<KeptBody>,
        deadline: Tick,
    ) -> PhaseResult {
        let exchange = PooledFuture::new(self.exchange(backend, body));
        let asked = crate::clock::within(deadline, exchange).await;
        asked.unwrap_or_else(|| Err(StreamError::error(504, By::ServerTimeout, self.stream.phase)))
    }

    async fn exchange(&mut self, backend: ProxyRef, body: Option<KeptBody>) -> PhaseResult {
        self.begin(backend);
        self.stream.request_phase().backend_phase().await?;
        if body.is_some() {
            // Filters of the backend prepare for a body.
            self.stream.request.body.begin(BodyFlow::made());
        }
        self.stream.exchange_phase().prepare_request()?;
        self.stream.filter_phase().filter_request().await?;
        self.stream.exchange_phase().plan_replay();
        if let Some(body) = body {
            self.stream.request.body.begin(BodyFlow::done());
            self.stream.attempts.keep(body);
        }
        loop {
            self.stream.server_phase().reach_server().await?;
            match self.stream.exchange_phase().converse().await {
                Ok(()) => break,
                Err(UpstreamError::Stop(stop)) => return Err(stop),
                Err(UpstreamError::Failed(failure)) => {
                    self.stream.exchange_phase().retry_or_stop(failure).await?;
                }
            }
        }
        self.examine_answer().await
    }

    fn begin(&mut self, backend: ProxyRef) {
        let now = Some(self.stream.elapsed());
        (self.stream.timers.first_byte, self.stream.timers.request) = (now, now);
        self.stream.request.progress = RequestProgress::Known;
        self.stream.request.client_method = self.stream.request.message.head.method();
        self.stream.inspection().bound_request_head();
        self.stream.log_line().capture_request();
        self.stream.request_phase().enter_backend(backend);
    }

    /// Runs the rules on the answer, and decides whether the connection persists.
    async fn examine_answer(&mut self) -> PhaseResult {
        self.stream.response.progress = ResponseProgress::Known;
        self.stream.counts().count_server_status();
        self.stream
            .as_server_phase()
            .observe(Some(Observation::of_status(self.stream.response.server_status)));
        self.stream.response.size = BodySize::of_response(
            &self.stream.response.message.head,
            self.stream.request.message.head.method(),
        );
        self.stream.inspection().bound_response_head();
        self.stream.response_phase().examine().await?;
        self.stream.response.status = self.stream.response.message.head.status();
        if self.stream.response.size == BodySize::Tunnel {
            return Err(StreamError::error(502, By::Proxy, During::Headers));
        }
        let mode = self.stream.exchange_phase().connection_mode();
        let size = self.stream.response.size;
        self.stream.reusable.server &= self.stream.response.message.server_persists(size, mode);
        self.stream.enter(During::Data);
        Ok(())
    }

    /// Takes the body of the answer, to be read by [`Self::read_answer`]. The head may then be taken out of its message.
    pub(crate) fn take_answer_body(&mut self) -> BodyFlow {
        let size = self.stream.response.size;
        let Some(upstream) = &mut self.stream.server.upstream else { return BodyFlow::done() };
        self.stream.response.message.detach(&mut upstream.connector);
        self.stream.response.begin_body(&upstream.connector, size);
        let flow = self.stream.response.body.take_flow();
        self.stream.response.body.begin(BodyFlow::done());
        flow
    }

    /// Reads the body of the answer, at most until `deadline` and not beyond its limit.
    pub(crate) async fn read_answer(
        &mut self,
        flow: &mut BodyFlow,
        into: &mut LimitedBody,
        deadline: Tick,
    ) -> PhaseResult {
        let read = self
            .stream
            .drive(
                While::until(deadline),
                |stream, _| read_piece(stream.subrequest_phase(), flow, into),
                |_, _, _| Err(StreamError::error(504, By::ServerTimeout, During::Data)),
            )
            .await;
        self.stream.reusable.server &= read.is_ok() && !into.is_exceeded;
        read
    }

    /// Updates the counters at the end. A sub-request that a stream awaited is noted on the timeline like other streams.
    pub(crate) fn conclude(&mut self, is_awaited: bool) {
        if self.stream.entry.killed_by() == Some(By::Client) {
            self.stream.counts().count(CountedEvent::ClientAbort);
        }
        self.count_bytes();
        match is_awaited {
            true => self.stream.conclude(),
            false => self.stream.count_end(),
        }
    }

    /// Updates the counters at the end of an exchange with an agent.
    pub(crate) fn conclude_exchange(&mut self) {
        match self.stream.ending.by {
            By::Client => self.stream.counts().count(CountedEvent::ClientAbort),
            By::Server if self.stream.phase == During::Headers => {
                self.stream.counts().count(CountedEvent::FailedResponse);
                self.stream.counts().count(CountedEvent::ServerAbort);
            }
            _ => {}
        }
        self.count_bytes();
        self.stream.count_end();
    }

    /// Counts the bytes exchanged with the server as those of the backend's clients: the sub-request itself is the client.
    fn count_bytes(&self) {
        let Some(upstream) = &self.stream.server.upstream else { return };
        let (received, sent) = (upstream.connector.received(), upstream.connector.sent());
        let worker = weir_sched::worker_index();
        let of_backend = &self.stream.backend.backend_counters;
        of_backend.add_all(worker, [(BackendCounter::BytesIn, sent), (BackendCounter::BytesOut, received)]);
        if let Some(lease) = &self.stream.server.lease {
            let of_server = lease.server().counters();
            of_server.add_all(worker, [(ServerCounter::BytesIn, sent), (ServerCounter::BytesOut, received)]);
        }
    }
}

fn read_piece(
    phase: &mut SubrequestPhase,
    flow: &mut BodyFlow,
    into: &mut LimitedBody,
) -> PhaseResult<DriveStep<()>> {
    let Some(upstream) = &mut phase.stream.server.upstream else { return Ok(DriveStep::Done(())) };
    match flow.read(&mut upstream.connector, &mut |piece| into.add(piece)) {
        _ if into.is_exceeded => Ok(DriveStep::Done(())),
        FlowState::Done => Ok(DriveStep::Done(())),
        FlowState::AwaitSource => Ok(DriveStep::Wait(Waits::ONCE)),
        FlowState::Yield | FlowState::AwaitSink | FlowState::Withheld => {
            Ok(DriveStep::Wait(Waits { yields: true, ..Waits::ONCE }))
        }
        FlowState::Truncated | FlowState::Failed(..) | FlowState::Malformed | FlowState::Refused => {
            phase.stream.counts().count(CountedEvent::FailedResponse);
            Err(StreamError::error(502, By::Server, During::Data))
        }
    }
}
