//! Bytes both ways until both sides are done: TCP mode, and HTTP connections that became tunnels.

use weir_mux::{BodyFlow, Flow, Side};

use crate::counters::Event;
use crate::deadlines::{Deadlines, Waits, While};
use crate::drive::Step;
use crate::ending::{By, During, Ending};
use crate::errors::Direction;
use crate::instance::Proxy;
use crate::stream::phases::RelayPhase;
use crate::stream::{Phase, Stream, StreamError};
use crate::trace::body::{Layer, OF_H1, OF_PT};

impl RelayPhase {
    /// Relays until both directions have ended. The end of one direction is forwarded as a half-close.
    pub(crate) async fn relay(&mut self) -> Phase {
        self.stream.enter(During::Data);
        let during = match self.stream.backend.config.settings.options.independent_streams {
            true => While::IndependentTunnel,
            false => While::Tunnel,
        };
        self.allow_pipe(Direction::Request);
        self.allow_pipe(Direction::Response);
        let step =
            |stream: &mut Stream, deadlines: &mut Deadlines| stream.relay_phase().relay_both(deadlines);
        self.stream
            .drive(during, step, |stream, by, _| {
                let client = by == By::ClientTimeout;
                stream.counts().count(if client { Event::ClientAbort } else { Event::ServerAbort });
                Err(StreamError::close(by, During::Data))
            })
            .await
    }

    /// Lets the rest of one direction pass through a pipe, with `option splice-*` (manual, 4.2).
    #[cold]
    pub(crate) fn allow_pipe(&mut self, direction: Direction) {
        let of = |proxy: &Proxy| proxy.config.settings.options.splice;
        let (frontend, backend) = (of(&self.stream.frontend), of(&self.stream.backend));
        let (body, allowed) = match direction {
            Direction::Request => (&mut self.stream.request.body, frontend.request || backend.request),
            Direction::Response => (&mut self.stream.response.body, frontend.response || backend.response),
        };
        if allowed || frontend.auto || backend.auto {
            body.allow_pipe(&self.stream.frontend.instance().pipes);
        }
    }

    /// Moves as many bytes as possible without waiting.
    fn relay_both(&mut self, deadlines: &mut Deadlines) -> Phase<Step<()>> {
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
            return Ok(Step::Done(()));
        }
        Ok(Step::Wait(Waits {
            client_sends: matches!(up, Flow::AwaitSource),
            client_takes: matches!(down, Flow::AwaitSink),
            server_sends: matches!(down, Flow::AwaitSource),
            server_takes: matches!(up, Flow::AwaitSink),
            withheld: matches!(up, Flow::Withheld) || matches!(down, Flow::Withheld),
            yields: matches!(up, Flow::Yield) || matches!(down, Flow::Yield),
        }))
    }

    /// Handles the end of a direction, now or before: whether both are done.
    #[cold]
    fn way_ended(&mut self, up: Flow, down: Flow, deadlines: &mut Deadlines) -> Phase<bool> {
        if let Some(ending) = self.direction_failed(up, down) {
            return Err(StreamError::Close(ending));
        }
        // The connection is closed next, which includes the end of sending.
        if up == Flow::Done && down == Flow::Done {
            return Ok(true);
        }
        self.pass_on_endings(up, down, deadlines);
        Ok(false)
    }

    /// Traces the bytes that passed since the last call.
    #[cold]
    fn emit_relayed(&mut self, layer: &Layer) {
        for direction in [Direction::Request, Direction::Response] {
            self.stream.trace_mut().emit_moved(layer, direction);
        }
    }

    /// Starts both directions of a connection in TCP mode, with the bytes received so far.
    pub(crate) fn begin_relay(&mut self) {
        self.stream.request.body.begin(BodyFlow::tunnel());
        self.stream.response.body.begin(BodyFlow::tunnel());
    }

    /// Forwards the client's bytes while the response is inspected: the server may need them to respond.
    pub(crate) fn relay_upwards(&mut self) -> Phase<Flow> {
        let Some(upstream) = &mut self.stream.server.upstream else { return Ok(Flow::Done) };
        let up = self.stream.request.body.advance(&mut self.stream.client, &mut upstream.connector);
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
        }
        match self.direction_failed(up, Flow::AwaitSource) {
            Some(ending) => Err(StreamError::Close(ending)),
            None => Ok(up),
        }
    }

    /// The ending when one side broke.
    fn direction_failed(&mut self, up: Flow, down: Flow) -> Option<Ending> {
        let broken = |flow: Flow, client: Side| match flow {
            Flow::Failed(side, _) if side == client => Some(By::Client),
            Flow::Failed(..) => Some(By::Server),
            Flow::Refused => Some(By::Internal),
            _ => None,
        };
        let by = broken(down, Side::Sink).or(broken(up, Side::Source))?;
        match by {
            By::Client => self.stream.counts().count(Event::ClientAbort),
            By::Server => {
                self.stream.counts().count(Event::FailedResponse);
                self.stream.counts().count(Event::ServerAbort);
            }
            _ => self.stream.counts().count(Event::FailedResponse),
        }
        Some(Ending::new(by, During::Data))
    }

    fn pass_on_endings(&mut self, up: Flow, down: Flow, deadlines: &mut Deadlines) {
        let Some(upstream) = &mut self.stream.server.upstream else { return };
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
            deadlines.half_closed(&self.stream.timeouts, weir_sched::now());
        }
        if down == Flow::Done && !self.stream.client.shut() {
            self.stream.client.shut_write();
            deadlines.half_closed(&self.stream.timeouts, weir_sched::now());
        }
    }
}
