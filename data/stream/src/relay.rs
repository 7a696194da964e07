//! Relays bytes both ways until both sides have closed: TCP mode, and HTTP connections that became tunnels.

use weir_mux::{BodyFlow, FlowSide, FlowState};

use crate::counters::CountedEvent;
use crate::deadlines::{Deadlines, Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During, Ending};
use crate::errors::MessageDirection;
use crate::instance::Proxy;
use crate::stream::phases::RelayPhase;
use crate::stream::{PhaseResult, Stream, StreamError};
use crate::trace::body::{Layer, OF_H1, OF_PT};

impl RelayPhase {
    /// Relays until both directions are closed. A FIN of one side is forwarded as a half-close.
    pub(crate) async fn relay(&mut self) -> PhaseResult {
        self.stream.enter(During::Data);
        let during = match self.stream.backend.config.settings.options.independent_streams {
            true => While::IndependentTunnel,
            false => While::Tunnel,
        };
        self.allow_pipe(MessageDirection::Request);
        self.allow_pipe(MessageDirection::Response);
        let step =
            |stream: &mut Stream, deadlines: &mut Deadlines| stream.relay_phase().relay_both(deadlines);
        self.stream
            .drive(during, step, |stream, by, _| {
                let client = by == By::ClientTimeout;
                stream.counts().count(if client {
                    CountedEvent::ClientAbort
                } else {
                    CountedEvent::ServerAbort
                });
                Err(StreamError::close(by, During::Data))
            })
            .await
    }

    /// Allows splicing the rest of one direction through a pipe, with `option splice-*` (manual, 4.2).
    #[cold]
    pub(crate) fn allow_pipe(&mut self, direction: MessageDirection) {
        let of = |proxy: &Proxy| proxy.config.settings.options.splice;
        let (frontend, backend) = (of(&self.stream.frontend), of(&self.stream.backend));
        let (body, allowed) = match direction {
            MessageDirection::Request => (&mut self.stream.request.body, frontend.request || backend.request),
            MessageDirection::Response => {
                (&mut self.stream.response.body, frontend.response || backend.response)
            }
        };
        if allowed || frontend.auto || backend.auto {
            body.allow_pipe(&self.stream.frontend.instance().pipes);
        }
    }

    /// Moves as many bytes as possible without waiting.
    fn relay_both(&mut self, deadlines: &mut Deadlines) -> PhaseResult<DriveStep<()>> {
        let Some(upstream) = &mut self.stream.server.upstream else {
            return Err(StreamError::close(By::Internal, During::Data));
        };
        let up = self.stream.request.body.advance(&mut self.stream.client, &mut upstream.connector);
        let down = self.stream.response.body.advance(&mut upstream.connector, &mut self.stream.client);
        let layer = if self.stream.response.is_tunnel { &OF_H1 } else { &OF_PT };
        if layer.source.is_active() {
            self.emit_relayed(layer);
        }
        if (up.is_over() || down.is_over()) && self.way_ended(up, down, deadlines)? {
            return Ok(DriveStep::Done(()));
        }
        Ok(DriveStep::Wait(Waits {
            client_sends: matches!(up, FlowState::AwaitSource),
            client_takes: matches!(down, FlowState::AwaitSink),
            server_sends: matches!(down, FlowState::AwaitSource),
            server_takes: matches!(up, FlowState::AwaitSink),
            withheld: matches!(up, FlowState::Withheld) || matches!(down, FlowState::Withheld),
            yields: matches!(up, FlowState::Yield) || matches!(down, FlowState::Yield),
        }))
    }

    /// Handles the end of a direction. Returns whether both directions are done.
    #[cold]
    fn way_ended(&mut self, up: FlowState, down: FlowState, deadlines: &mut Deadlines) -> PhaseResult<bool> {
        if let Some(ending) = self.direction_failed(up, down) {
            return Err(StreamError::Close(ending));
        }
        // The connection is closed next, so no separate shutdown is needed.
        if up == FlowState::Done && down == FlowState::Done {
            return Ok(true);
        }
        self.pass_on_endings(up, down, deadlines);
        Ok(false)
    }

    /// Traces the bytes relayed since the last call.
    #[cold]
    fn emit_relayed(&mut self, layer: &Layer) {
        for direction in [MessageDirection::Request, MessageDirection::Response] {
            self.stream.trace_mut().emit_moved(layer, direction);
        }
    }

    /// Starts both directions of a connection in TCP mode, with the bytes received so far.
    pub(crate) fn begin_relay(&mut self) {
        self.stream.request.body.begin(BodyFlow::tunnel());
        self.stream.response.body.begin(BodyFlow::tunnel());
    }

    /// Forwards the client's bytes while the response is inspected. The server may need them to respond.
    pub(crate) fn relay_upwards(&mut self) -> PhaseResult<FlowState> {
        let Some(upstream) = &mut self.stream.server.upstream else { return Ok(FlowState::Done) };
        let up = self.stream.request.body.advance(&mut self.stream.client, &mut upstream.connector);
        if up == FlowState::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
        }
        match self.direction_failed(up, FlowState::AwaitSource) {
            Some(ending) => Err(StreamError::Close(ending)),
            None => Ok(up),
        }
    }

    /// The ending of the stream if a direction failed. `None` otherwise.
    fn direction_failed(&mut self, up: FlowState, down: FlowState) -> Option<Ending> {
        let broken = |flow: FlowState, client: FlowSide| match flow {
            FlowState::Failed(side, _) if side == client => Some(By::Client),
            FlowState::Failed(..) => Some(By::Server),
            FlowState::Refused => Some(By::Internal),
            _ => None,
        };
        let by = broken(down, FlowSide::Sink).or(broken(up, FlowSide::Source))?;
        match by {
            By::Client => self.stream.counts().count(CountedEvent::ClientAbort),
            By::Server => {
                self.stream.counts().count(CountedEvent::FailedResponse);
                self.stream.counts().count(CountedEvent::ServerAbort);
            }
            _ => self.stream.counts().count(CountedEvent::FailedResponse),
        }
        Some(Ending::new(by, During::Data))
    }

    fn pass_on_endings(&mut self, up: FlowState, down: FlowState, deadlines: &mut Deadlines) {
        let Some(upstream) = &mut self.stream.server.upstream else { return };
        if up == FlowState::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
            deadlines.half_closed(&self.stream.timeouts, weir_sched::now());
        }
        if down == FlowState::Done && !self.stream.client.shut() {
            self.stream.client.shut_write();
            deadlines.half_closed(&self.stream.timeouts, weir_sched::now());
        }
    }
}
